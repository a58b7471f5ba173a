//! What the JSON columns of accounts, rules and hostgroups have in common.

use serde_json::Value;

/// The value of one key of a JSON column; `None` if it has no such key.
pub(crate) fn value_of(column: &str, key: &str) -> Option<Value> {
    // Most columns have none of the keys, or are empty. A key may be written with escapes.
    if !column.contains(key) && !column.contains('\\') {
        return None;
    }
    match serde_json::from_str(column).ok()? {
        Value::Object(mut keys) => keys.remove(key),
        _ => None,
    }
}

/// `transaction_replay` in the attributes of an account or a rule; `None` if they do not say.
pub(crate) fn transaction_replay(attributes: &str) -> Option<bool> {
    value_of(attributes, "transaction_replay").as_ref().and_then(flag)
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
            (r#"{"transaction\u005freplay":true}"#, Some(true)),
            (r#"{"transaction_replay":tr"#, None),
        ] {
            assert_eq!(transaction_replay(json), says, "{json}");
        }
    }
}
