//! Cells of the statistics tables.

use rusqlite::types::Value;

/// A row of a statistics table.
pub type Row = Vec<Value>;

/// A text.
pub fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

/// A figure. SQLite's integers are signed; larger figures do not occur in the life of a process.
pub fn number(value: u64) -> Value {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

/// A number that may be negative.
pub fn integer(value: impl Into<i64>) -> Value {
    Value::Integer(value.into())
}

/// A text, or NULL.
pub fn optional_text(value: Option<String>) -> Value {
    value.map_or(Value::Null, Value::Text)
}

/// The hash of a digest text.
pub fn digest(hash: u64) -> Value {
    text(format!("0x{hash:016X}"))
}
