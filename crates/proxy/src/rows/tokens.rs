//! `aws_iam` in the attributes of an account: servers get tokens in the place of its password.

use serde_json::Value;

use super::{JsonColumn, UserRow, shown};

/// The region for the tokens of an account, if it has tokens at all: `Some(None)` if its attributes name no region.
pub fn token_region(attributes: &JsonColumn) -> Option<Option<String>> {
    match attributes.get("aws_iam")? {
        Value::Bool(false) => None,
        value => Some(region(value).map(str::to_owned)),
    }
}

/// Whether servers get tokens in the place of the password of an account.
pub fn has_tokens(user: &UserRow) -> bool {
    token_region(&user.attributes).is_some()
}

/// The region that a value names, if it may be one.
fn region(value: &Value) -> Option<&str> {
    value.get("region").and_then(Value::as_str).filter(|region| is_region(region))
}

/// Whether a text may be the name of a region.
pub fn is_region(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.len() <= 64 && text.bytes().all(fits)
}

/// The problem of a value. Where it cannot be read, no password is sent in its place.
pub(crate) fn flaws_of_tokens(value: &Value) -> Vec<String> {
    let is_read = match value {
        Value::Bool(_) => true,
        Value::Object(keys) => {
            keys.keys().all(|key| key == "region") && keys.len() == usize::from(region(value).is_some())
        }
        _ => false,
    };
    let flaw = || {
        let found = shown(value);
        format!(
            "is {found}: expected true, false, or a region, as in {{\"region\": \"eu-central-1\"}}; servers get tokens, and \
             the host name or the environment says the region"
        )
    };
    (!is_read).then(flaw).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_tokens_unless_it_says_that_it_has_none() {
        let region = |name: &str| Some(Some(name.to_owned()));
        for (json, expected, is_flawed) in [
            ("", None, false),
            (r#"{"aws_iam":false}"#, None, false),
            (r#"{"aws_iam":true}"#, Some(None), false),
            (r#"{"aws_iam":{}}"#, Some(None), false),
            (r#"{"aws_iam":{"region":"eu-central-1"}}"#, region("eu-central-1"), false),
            (r#"{"aws_iam":{"region":"EU/west"}}"#, Some(None), true),
            (r#"{"aws_iam":{"region":"eu-west-1","role":"a"}}"#, region("eu-west-1"), true),
            (r#"{"aws_iam":{"regoin":"eu-west-1"}}"#, Some(None), true),
            (r#"{"aws_iam":"eu-west-1"}"#, Some(None), true),
            (r#"{"aws_iam":null}"#, Some(None), true),
        ] {
            let attributes = JsonColumn::from(json);
            assert_eq!(token_region(&attributes), expected, "{json}");
            let value = attributes.get("aws_iam").unwrap_or(&Value::Bool(true));
            assert_eq!(!flaws_of_tokens(value).is_empty(), is_flawed, "{json}");
        }
    }
}
