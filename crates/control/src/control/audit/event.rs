//! A statement of an administrator as an event of the audit log.

use narrows_proxy::audit::{AuditEvent, AuditPeer};
use serde_json::{Map, Value as Json, json};

use crate::admin::request::Caller;
use crate::schema::{Database, Layer};
use crate::store::RowsChanged;
use crate::traces::private;
use crate::versions::RowChange;

/// What a statement has changed.
pub struct StatementChanges {
    rows: Vec<Json>,
    more: u64,
}

/// Changes of one layer.
pub fn of_layer(layer: Layer, changes: &[RowChange]) -> StatementChanges {
    let database = layer.database().map_or("runtime", Database::name);
    let rows = changes.iter().take(MOST_ROWS).map(|change| row(database, change)).collect();
    StatementChanges { rows, more: changes.len().saturating_sub(MOST_ROWS) as u64 }
}

/// Changes of rows.
pub fn of_rows(changed: &RowsChanged) -> StatementChanges {
    let rows = changed.rows.iter().take(MOST_ROWS).map(|(database, change)| row(database.name(), change));
    let left = changed.rows.len().saturating_sub(MOST_ROWS) as u64;
    StatementChanges { rows: rows.collect(), more: changed.more + left }
}

/// The event of a statement; `failure` is the error that answers it.
pub fn event(
    caller: &Caller,
    statement: String,
    changed: StatementChanges,
    failure: Option<String>,
) -> AuditEvent {
    let (username, client) = (caller.user.clone(), (caller.host.clone(), caller.port));
    let peer = AuditPeer { username, client, ..(*caller.connection).clone() };
    let mut event = AuditEvent::now("Admin_Statement", peer).with("statement", statement);
    if let Some(failure) = failure {
        event = event.with("extra_info", failure);
    }
    event = event.with("changes", changed.rows);
    if changed.more > 0 { event.with("more_changes", changed.more) } else { event }
}

/// An error without what may be a value of the statement: SQLite names parts of the statement after a colon or in quotes.
pub fn masked_error(error: &str) -> String {
    let (start, text) = match error.strip_prefix(REFUSED) {
        Some(text) => (REFUSED, text),
        None => ("", error),
    };
    let end = text.find([':', '"', '\'', '`']).unwrap_or(text.len());
    format!("{start}{}", text.get(..end).unwrap_or_default().trim_end())
}

/// How errors of the admin interface begin.
const REFUSED: &str = "ProxySQL Admin Error: ";

/// A statement without what may be a password in it: `SET` takes values without quotes.
pub fn masked(statement: &str) -> String {
    let is_set = statement.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("SET "));
    match statement.split_once('=').filter(|_| is_set) {
        Some((name, _)) => format!("{}=?", private::statement(name.as_bytes())),
        None => private::statement(statement.as_bytes()),
    }
}

fn row(database: &str, change: &RowChange) -> Json {
    let columns: Map<String, Json> = change
        .columns
        .iter()
        .map(|(name, before, after)| ((*name).to_owned(), json!({ "before": before, "after": after })))
        .collect();
    json!({
        "table": format!("{database}.{}", change.table),
        "key": change.key,
        "change": change.kind.name(),
        "columns": columns,
    })
}

/// How many changes of one statement are written.
const MOST_ROWS: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_of_a_statement_is_in_its_error() {
        for (error, expected) in [
            ("ProxySQL Admin Error: no such column: secret", "ProxySQL Admin Error: no such column"),
            ("ProxySQL Admin Error: near \"secret\": syntax error", "ProxySQL Admin Error: near"),
            ("UNIQUE constraint failed: mysql_users.username", "UNIQUE constraint failed"),
        ] {
            assert_eq!(masked_error(error), expected);
        }
    }

    #[test]
    fn no_literal_of_a_statement_is_written() {
        for (statement, expected) in [
            ("SET mysql-monitor_password=secret", "SET mysql-monitor_password=?"),
            ("set admin-admin_credentials = 'a:secret'", "set admin-admin_credentials=?"),
            ("INSERT INTO mysql_users VALUES ('a', \"secret\", 1)", "INSERT INTO mysql_users VALUES (?,?,?)"),
            ("LOAD MYSQL USERS TO RUNTIME", "LOAD MYSQL USERS TO RUNTIME"),
        ] {
            assert_eq!(masked(statement), expected);
        }
    }
}
