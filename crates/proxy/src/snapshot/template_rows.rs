//! Rows of `mysql_users` that are templates of accounts: those with the attribute `usernames_like`.

use serde_json::Value;

use crate::rows::{UserRow, shown};

/// Whether a row is the template of accounts, and no account itself.
pub fn is_template(row: &UserRow) -> bool {
    let value: Value = serde_json::from_str(&row.attributes).unwrap_or_default();
    value.get(USERNAMES_LIKE).is_some()
}

/// The pattern for whose accounts a row is the template.
pub fn usernames_like(attributes: &str) -> Option<String> {
    let value: Value = serde_json::from_str(attributes).ok()?;
    pattern(value.get(USERNAMES_LIKE)?).map(str::to_owned)
}

fn pattern(value: &Value) -> Option<&str> {
    value.as_str().filter(|pattern| !pattern.is_empty())
}

/// The problem of a `usernames_like`.
pub(super) fn flaws_of_names(value: &Value) -> Vec<String> {
    let flaw = || format!("is {}: expected a pattern as of LIKE; the row is for nobody", shown(value));
    pattern(value).is_none().then(flaw).into_iter().collect()
}

const USERNAMES_LIKE: &str = "usernames_like";
