//! The rows of `stats_mysql_query_events`, and of its history on disk.

use std::time::SystemTime;

use narrows_proxy::query_log::Record;
use rusqlite::types::Value;

use super::kept::Kept;
use super::line::{micros, parameters};

/// The rows of `stats_mysql_query_events`.
pub fn rows(kept: &Kept) -> Vec<Vec<Value>> {
    kept.iter().map(|(id, record)| row(Value::Integer(id), record)).collect()
}

/// A row with this id.
pub fn row(id: Value, record: &Record) -> Vec<Value> {
    let text = |bytes: &[u8]| Value::Text(String::from_utf8_lossy(bytes).into_owned());
    let integer = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    let known = |number: Option<u64>| integer(number.unwrap_or_default());
    let end: SystemTime = record.began + record.duration;
    vec![
        id,
        integer(record.thread_id.into()),
        Value::Text(record.username.clone()),
        text(&record.schemaname),
        integer(micros(record.began)),
        integer(micros(end)),
        record.digest.map_or(Value::Null, |digest| Value::Text(format!("0x{digest:016X}"))),
        text(&record.query),
        record.server.clone().map_or(Value::Null, Value::Text),
        Value::Text(record.client.clone()),
        Value::Integer(event_type(record.event)),
        Value::Integer(if record.server.is_some() { record.hostgroup.0.into() } else { -1 }),
        record.values.as_ref().map_or(Value::Null, |values| Value::Text(parameters(values).to_string())),
        known(record.rows_affected),
        integer(record.last_insert_id),
        known(record.rows_sent),
        integer(record.statement_id.into()),
        Value::Null,
        Value::Integer(record.error.unwrap_or_default().into()),
        if record.error.is_some() { text(&record.error_text) } else { Value::Null },
    ]
}

/// ProxySQL's number of a command.
fn event_type(event: &str) -> i64 {
    match event {
        "COM_INIT_DB" => 7,
        "COM_STMT_EXECUTE" | "COM_STMT_BULK_EXECUTE" => 16,
        "COM_STMT_PREPARE" => 17,
        _ => 0,
    }
}
