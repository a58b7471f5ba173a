//! How two configurations differ, row by row and column by column.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write;

use rusqlite::types::Value;
use serde_json::Value as Json;

use super::document::{ConfigDocument, key_places, sort_key};
use crate::schema;
use crate::variables::is_secret_variable;

/// What has become of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was not there before.
    Added,
    /// It is not there any more.
    Removed,
    /// It has other values.
    Altered,
}

/// One row, or one variable, that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowChange {
    /// The table; `global_variables` for a variable.
    pub table: &'static str,
    /// The key of the row as operators write it; the name of a variable.
    pub key: String,
    /// What has become of it.
    pub kind: ChangeKind,
    /// The columns that differ: name, value before, value after; `None` for NULL, and for a row that is not there. A row
    /// that was added or removed has those that are not the default. Secrets are not shown.
    pub columns: Vec<(&'static str, Option<String>, Option<String>)>,
}

impl ChangeKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Added => "added",
            ChangeKind::Removed => "removed",
            ChangeKind::Altered => "altered",
        }
    }
}

/// What is different in `after`, by table and key.
pub fn changes(before: &ConfigDocument, after: &ConfigDocument) -> Vec<RowChange> {
    let mut found = Vec::new();
    let all: BTreeMap<&'static str, ()> =
        before.tables().chain(after.tables()).map(|(table, _)| (table, ())).collect();
    for table in all.into_keys() {
        of_table(table, before.rows(table), after.rows(table), &mut found);
    }
    of_variables(before, after, &mut found);
    found
}

fn of_table(table: &'static str, before: &[Vec<Value>], after: &[Vec<Value>], found: &mut Vec<RowChange>) {
    let places = key_places(table);
    let mut add = |rows: [Option<&Vec<Value>>; 2]| found.extend(row_change(table, rows));
    // Both are sorted by their keys.
    let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) if one == other => {
                before.next();
                after.next();
                continue;
            }
            (Some(one), Some(other)) => sort_key(&places, one).cmp(&sort_key(&places, other)),
        };
        match order {
            Ordering::Less => add([before.next(), None]),
            Ordering::Greater => add([None, after.next()]),
            Ordering::Equal => add([before.next(), after.next()]),
        }
    }
}

/// What has become of one row, given as it was before and as it is after; `None`: nothing.
pub fn row_change(table: &'static str, rows: [Option<&Vec<Value>>; 2]) -> Option<RowChange> {
    let kind = match rows {
        [None, None] => return None,
        [Some(before), Some(after)] if before == after => return None,
        [None, Some(_)] => ChangeKind::Added,
        [Some(_), None] => ChangeKind::Removed,
        [Some(_), Some(_)] => ChangeKind::Altered,
    };
    let row = rows.into_iter().flatten().next()?;
    if table == VARIABLES {
        let name = plain(row.first()?)?;
        return Some(variable_change(&name, rows.map(|row| plain(row?.get(1)?)), kind));
    }
    Some(RowChange { table, key: key(table, row), kind, columns: columns(table, rows) })
}

/// The columns in which two rows differ; a row that is not there is compared with the defaults.
fn columns(
    table: &'static str,
    rows: [Option<&Vec<Value>>; 2],
) -> Vec<(&'static str, Option<String>, Option<String>)> {
    let (names, keys, defaults) = (schema::columns(table), schema::key(table), schema::defaults(table));
    let [one, other] = rows.map(|row| row.unwrap_or(&defaults));
    let cells = names.into_iter().zip(one.iter().zip(other));
    let differs = cells.filter(|(name, (one, other))| !keys.contains(name) && one != other);
    differs
        .map(|(name, (one, other))| {
            let text = |row: Option<&Vec<Value>>, cell| row.and_then(|_| shown(table, name, cell));
            (name, text(rows[0], one), text(rows[1], other))
        })
        .collect()
}

fn of_variables(before: &ConfigDocument, after: &ConfigDocument, found: &mut Vec<RowChange>) {
    let [before, after]: [BTreeMap<&str, &str>; 2] =
        [before, after].map(|document| document.variables().collect());
    let names: BTreeMap<&str, ()> = before.keys().chain(after.keys()).map(|name| (*name, ())).collect();
    for name in names.into_keys() {
        let (one, other) = (before.get(name), after.get(name));
        if one == other {
            continue;
        }
        let kind = match (one, other) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Removed,
            _ => ChangeKind::Altered,
        };
        let texts = [one, other].map(|text| text.map(|text| (*text).to_owned()));
        found.push(variable_change(name, texts, kind));
    }
}

fn variable_change(name: &str, texts: [Option<String>; 2], kind: ChangeKind) -> RowChange {
    let shown = |text: String| if is_secret_variable(name) { SECRET.to_owned() } else { text };
    let [one, other] = texts.map(|text| text.map(shown));
    RowChange { table: VARIABLES, key: name.to_owned(), kind, columns: vec![("variable_value", one, other)] }
}

/// The key of a row as operators write it.
pub fn key(table: &str, row: &[Value]) -> String {
    key_of(table, schema::columns(table).into_iter().zip(row))
}

/// The same, of cells that are given with their columns.
pub fn key_of<'a>(table: &str, cells: impl Iterator<Item = (&'a str, &'a Value)>) -> String {
    let keys = schema::key(table);
    let text = |cell: &Value| match cell {
        Value::Integer(integer) => integer.to_string(),
        other => plain(other).map_or_else(|| "NULL".to_owned(), |text| format!("'{text}'")),
    };
    let named = cells.filter(|(name, _)| keys.contains(name));
    named.map(|(name, cell)| format!("{name}={}", text(cell))).collect::<Vec<_>>().join(" ")
}

fn plain(cell: &Value) -> Option<String> {
    Some(match cell {
        Value::Null => return None,
        Value::Integer(integer) => integer.to_string(),
        Value::Real(real) => real.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    })
}

/// The table of variables.
const VARIABLES: &str = "global_variables";

/// What stands for a value that may not be shown.
const SECRET: &str = "***";

fn shown(table: &str, column: &str, cell: &Value) -> Option<String> {
    let text = plain(cell)?;
    Some(match (table, column) {
        ("mysql_users", "password") => SECRET.to_owned(),
        ("mysql_users", "attributes") => attributes(text),
        _ => text,
    })
}

/// The attributes of an account, without the password in them. What cannot be read may be one.
fn attributes(text: String) -> String {
    match serde_json::from_str::<Json>(&text) {
        Ok(Json::Object(mut keys)) => match keys.get_mut("additional_password") {
            Some(password) => {
                *password = SECRET.into();
                Json::Object(keys).to_string()
            }
            None => text,
        },
        Err(_) if text.trim().is_empty() => text,
        _ => SECRET.to_owned(),
    }
}

/// The changes in one line: how many rows of each table, and the variables by name.
pub fn summary(changes: &[RowChange]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rows: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let (mut variables, mut more) = (Vec::new(), 0_usize);
    for change in changes {
        if change.table != VARIABLES {
            rows.entry(change.table).or_default()[change.kind as usize] += 1;
        } else if variables.len() < MOST_NAMED {
            variables.push(variable(change));
        } else {
            more += 1;
        }
    }
    for (table, counts) in rows {
        let kinds = [ChangeKind::Added, ChangeKind::Removed, ChangeKind::Altered];
        let counts = kinds.map(|kind| (counts[kind as usize], kind.name()));
        let counts = counts.iter().filter(|(rows, _)| *rows > 0);
        let counts: Vec<String> = counts.map(|(rows, what)| format!("{rows} {what}")).collect();
        parts.push(format!("{table} {}", counts.join(", ")));
    }
    parts.extend(variables);
    let mut text = parts.join("; ");
    if more > 0 {
        let _ = write!(text, "; {more} more variables");
    }
    text
}

fn variable(change: &RowChange) -> String {
    let text = |value: &Option<String>| {
        value.as_ref().map_or("NULL".to_owned(), |value| {
            let short: String = value.chars().take(LONGEST).collect();
            format!("'{short}'")
        })
    };
    match change.columns.first() {
        Some((_, before, after)) => format!("{} {} -> {}", change.key, text(before), text(after)),
        None => change.key.clone(),
    }
}

/// How many variables are named.
const MOST_NAMED: usize = 10;

/// How many characters of a value are shown.
const LONGEST: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_among_the_attributes_is_not_shown_however_it_is_written() {
        for (written, expected) in [
            (r#"{"networks":["10.0.0.0/8"]}"#, r#"{"networks":["10.0.0.0/8"]}"#),
            (r#"{"additional_passwor\u0064":"X","a":1}"#, r#"{"a":1,"additional_password":"***"}"#),
            (r#"{"additional_password":"X""#, "***"),
            ("", ""),
        ] {
            assert_eq!(attributes(written.to_owned()), expected);
        }
    }

    #[test]
    fn rows_that_come_go_and_change_are_told_and_no_password_is() {
        let user = |name: &str, password: &str| {
            let mut row = schema::defaults("mysql_users");
            row[0] = Value::Text(name.to_owned());
            row[1] = Value::Text(password.to_owned());
            row
        };
        let (mut before, mut after) = (ConfigDocument::default(), ConfigDocument::default());
        before.put_table("mysql_users", vec![user("gone", "one"), user("other", "one")]);
        after.put_table("mysql_users", vec![user("new", "two"), user("other", "two")]);
        before.put_variable("mysql-monitor_password", "one".to_owned());
        after.put_variable("mysql-monitor_password", "two".to_owned());
        before.put_variable("mysql-threads", "1".to_owned());
        after.put_variable("mysql-threads", "2".to_owned());
        let found = changes(&before, &after);
        let told: Vec<(&str, ChangeKind)> = found.iter().map(|it| (it.key.as_str(), it.kind)).collect();
        assert_eq!(
            told,
            [
                ("username='gone' backend=1", ChangeKind::Removed),
                ("username='new' backend=1", ChangeKind::Added),
                ("username='other' backend=1", ChangeKind::Altered),
                ("mysql-monitor_password", ChangeKind::Altered),
                ("mysql-threads", ChangeKind::Altered),
            ]
        );
        let told = format!("{found:?}");
        assert!(!told.contains("\"one\"") && !told.contains("\"two\""), "{told}");
        let secret = || Some("***".to_owned());
        assert_eq!(found[2].columns, [("password", secret(), secret())]);
        assert_eq!(
            summary(&found),
            "mysql_users 1 added, 1 removed, 1 altered; mysql-monitor_password '***' -> '***'; mysql-threads '1' -> '2'"
        );
        assert!(changes(&after, &after).is_empty());
    }
}
