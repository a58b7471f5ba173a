//! Rows of `mysql_users` that are templates of accounts: those with the attribute `usernames_like`.

use serde_json::Value;

use crate::rows::{JsonColumn, UserRow, shown};

/// Whether a row is the template of accounts, and no account itself.
pub fn is_template(row: &UserRow) -> bool {
    row.attributes.get(USERNAMES_LIKE).is_some()
}

/// The pattern for whose accounts a row is the template.
pub fn usernames_like(attributes: &JsonColumn) -> Option<&str> {
    pattern(attributes.get(USERNAMES_LIKE)?)
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
