//! What the JSON attributes of accounts and of rules have in common.

use serde_json::Value;

/// `transaction_replay` in the attributes of an account or a rule; `None` if they do not say.
pub(crate) fn transaction_replay(attributes: &str) -> Option<bool> {
    if !attributes.contains("transaction_replay") {
        return None;
    }
    serde_json::from_str::<Value>(attributes).ok()?.get("transaction_replay").and_then(flag)
}

/// A value that is true or false, or a number.
pub(crate) fn flag(value: &Value) -> Option<bool> {
    value.as_bool().or_else(|| value.as_i64().map(|number| number != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_or_a_rule_may_say_whether_transactions_are_run_again() {
        for (json, says) in [
            ("", None),
            ("{}", None),
            (r#"{"transaction_replay":true}"#, Some(true)),
            (r#"{"transaction_replay":0}"#, Some(false)),
            (r#"{"transaction_replay":"yes"}"#, None),
            (r#"["transaction_replay"]"#, None),
        ] {
            assert_eq!(transaction_replay(json), says, "{json}");
        }
    }
}
