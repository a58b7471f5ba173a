//! Reads a row that the statement returns. What cannot be read lets nobody in: it may have been meant as a restriction.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use narrows_wire::auth::client_side::{Credential, Stored};

use super::hosts::HostPattern;
use super::{Cell, Hindrance, Queried, QueriedRow};
use crate::rows::{HostgroupId, JsonColumn, UserRow};
use crate::snapshot::{Account, USER_KEYS, flaws};

/// Reads a row of `name`, whose rows were `before`.
pub(super) fn read(
    name: &str,
    template: &Account,
    cell: &Cell<'_>,
    (before, connections): (&[QueriedRow], &Arc<AtomicU32>),
) -> QueriedRow {
    let host = HostPattern::parse(&cell("host").unwrap_or_else(|| "%".to_owned()));
    let outcome = account(name, template, cell, (before, connections));
    QueriedRow { host, outcome: outcome.unwrap_or_else(|why| Queried::Unreadable(why.into())) }
}

fn account(
    name: &str,
    template: &Account,
    cell: &Cell<'_>,
    (before, connections): (&[QueriedRow], &Arc<AtomicU32>),
) -> Result<Queried, String> {
    let text = cell("authentication_string").or_else(|| cell("password"));
    // An account without a password has an empty one.
    let text = text.ok_or("its authentication_string is NULL")?;
    if text.is_empty() && cell("host").is_some_and(|host| host.is_empty()) {
        return Err("it has neither a host nor a password, as a role".to_owned());
    }
    let plugin = cell("plugin").unwrap_or_default();
    let Some(stored) = stored(&plugin, &text) else { return Ok(Queried::Plugin(plugin.into())) };
    let mut account = Account::queried(row_of(name, template, cell)?, template, Arc::clone(connections));
    let second = account.login.additional_password.as_deref().map(|text| Stored::parse(text.as_bytes()));
    let stored: Vec<Stored> = std::iter::once(stored).chain(second).collect();
    let known = before.iter().find_map(|row| match &row.outcome {
        Queried::Account(known, _) if known.credentials.iter().map(Credential::stored).eq(&stored) => {
            Some(Arc::clone(&known.credentials))
        }
        _ => None,
    });
    account.credentials = known.unwrap_or_else(|| stored.into_iter().map(Credential::new).collect());
    let hindrance = match (is(cell, "account_locked")?, is(cell, "password_expired")?) {
        (true, _) => Some(Hindrance::Locked),
        (false, true) => Some(Hindrance::Expired),
        (false, false) => None,
    };
    Ok(Queried::Account(Arc::new(account), hindrance))
}

/// The settings of an account: those of the template, unless the row has columns for them.
fn row_of(name: &str, template: &Account, cell: &Cell<'_>) -> Result<UserRow, String> {
    let mut row = UserRow { username: name.to_owned(), password: String::new(), ..template.row.clone() };
    if let Some(hostgroup) = cell("default_hostgroup") {
        let number = hostgroup.parse().ok().filter(|number| *number >= 0);
        row.default_hostgroup =
            HostgroupId(number.ok_or_else(|| unreadable("default_hostgroup", &hostgroup))?);
    }
    if let Some(schema) = cell("default_schema") {
        row.default_schema = schema;
    }
    if let Some(most) = cell("max_connections") {
        row.max_connections = most.parse().map_err(|_| unreadable("max_connections", &most))?;
    }
    if let Some(attributes) = cell("attributes") {
        row.attributes = readable(attributes)?;
    }
    Ok(row)
}

/// The attributes of a text, if each of them can be read.
fn readable(text: String) -> Result<JsonColumn, String> {
    if text.is_empty() {
        return Ok(JsonColumn::default());
    }
    // They may hold a password, so the text is not part of the reason.
    let attributes =
        JsonColumn::parse(text).map_err(|error| format!("its attributes are not JSON: {error}"))?;
    match flaws(USER_KEYS, &attributes).into_iter().next() {
        Some((key, flaw)) => Err(format!("its attributes: {} {flaw}", key.unwrap_or_default())),
        None => Ok(attributes),
    }
}

/// How an account's password is stored; `None` if its plugin cannot be verified here.
fn stored(plugin: &str, text: &str) -> Option<Stored> {
    let parsed = || Stored::parse(text.as_bytes());
    match (plugin.to_ascii_lowercase().as_str(), text) {
        ("" | "mysql_native_password" | "caching_sha2_password" | "ed25519", "") => Some(parsed()),
        ("" | "mysql_native_password", _) => Some(parsed()).filter(|it| matches!(it, Stored::Native(_))),
        ("caching_sha2_password", _) => Some(parsed()).filter(|it| matches!(it, Stored::CachingSha2(_))),
        ("ed25519", _) => text.as_bytes().try_into().ok().map(Stored::Ed25519),
        _ => None,
    }
}

/// A column that says yes or no; NULL is no.
fn is(cell: &Cell<'_>, column: &str) -> Result<bool, String> {
    let Some(value) = cell(column) else { return Ok(false) };
    match value.to_ascii_lowercase().as_str() {
        "y" | "yes" | "true" | "on" | "1" => Ok(true),
        "" | "n" | "no" | "false" | "off" | "0" => Ok(false),
        _ => Err(unreadable(column, &value)),
    }
}

fn unreadable(column: &str, value: &str) -> String {
    let shown: String = value.chars().take(SHOWN).collect();
    format!("its {column} cannot be read: '{shown}'")
}

/// Characters of a value in a message.
const SHOWN: usize = 40;
