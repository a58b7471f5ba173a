//! A column of JSON: the attributes of accounts and rules, and the settings of hostgroups.

use serde_json::{Map, Value};

/// The text of a column, and what it says, which is parsed once.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct JsonColumn {
    text: String,
    /// `None` if the text is no JSON; so is an empty one.
    value: Option<Value>,
}

impl JsonColumn {
    /// The column with a text that must be JSON.
    ///
    /// # Errors
    /// What is wrong with it; an empty text is no JSON either.
    pub fn parse(text: String) -> Result<JsonColumn, serde_json::Error> {
        let value = Some(serde_json::from_str(&text)?);
        Ok(JsonColumn { text, value })
    }

    /// The text as it is written, which may hold a password.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value of a key; `None` if there is no such key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.value.as_ref()?.get(key)
    }

    /// The JSON; `None` if the text is none.
    pub(crate) fn value(&self) -> Option<&Value> {
        self.value.as_ref()
    }

    /// All keys; `None` if there is no JSON object.
    pub(crate) fn keys(&self) -> Option<&Map<String, Value>> {
        self.value.as_ref()?.as_object()
    }

    /// Whether something is written that is no JSON object.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.keys().is_none() && !self.text.trim().is_empty()
    }

    /// The same with another value of a key, or without the key.
    #[must_use]
    pub fn with(&self, key: &str, value: Option<Value>) -> JsonColumn {
        let mut keys = self.keys().cloned().unwrap_or_default();
        match value {
            Some(value) => drop(keys.insert(key.to_owned(), value)),
            None => drop(keys.remove(key)),
        }
        let value = Value::Object(keys);
        JsonColumn { text: value.to_string(), value: Some(value) }
    }
}

/// What is no JSON has no keys.
impl From<String> for JsonColumn {
    fn from(text: String) -> JsonColumn {
        JsonColumn { value: serde_json::from_str(&text).ok(), text }
    }
}

impl From<&str> for JsonColumn {
    fn from(text: &str) -> JsonColumn {
        text.to_owned().into()
    }
}

impl std::fmt::Debug for JsonColumn {
    /// Leaves all out, because it may contain a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JsonColumn(..)")
    }
}

/// `transaction_replay` in the attributes of an account or a rule; `None` if they do not say.
pub(crate) fn transaction_replay(attributes: &JsonColumn) -> Option<bool> {
    attributes.get("transaction_replay").and_then(flag)
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
            assert_eq!(transaction_replay(&json.into()), says, "{json}");
        }
    }

    #[test]
    fn what_is_no_object_is_unreadable_unless_it_is_empty() {
        for (json, expected) in
            [("", false), (" ", false), ("{}", false), ("null", true), ("[1]", true), ("{", true)]
        {
            assert_eq!(JsonColumn::from(json).is_unreadable(), expected, "{json}");
        }
    }

    #[test]
    fn one_key_is_replaced_or_removed_and_the_others_stay() {
        let attributes = JsonColumn::from(r#"{"a":"one","b":[2]}"#);
        assert_eq!(attributes.with("a", Some("three".into())).text(), r#"{"a":"three","b":[2]}"#);
        let without = attributes.with("a", None);
        assert_eq!((without.text(), without.get("a")), (r#"{"b":[2]}"#, None));
        assert_eq!(format!("{attributes:?}"), "JsonColumn(..)");
    }
}
