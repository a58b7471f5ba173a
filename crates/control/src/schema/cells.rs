//! Cells of the statistics tables, and cells of all tables as JSON.

use rusqlite::types::Value;
use serde_json::{Value as Json, json};

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

/// A cell as JSON, for [`from_json`]: bytes are an array within an array.
pub fn to_json(cell: &Value) -> Json {
    match cell {
        Value::Null => Json::Null,
        Value::Integer(integer) => json!(integer),
        Value::Real(real) => json!(real),
        Value::Text(text) => json!(text),
        Value::Blob(bytes) => json!([bytes]),
    }
}

/// The cell that [`to_json`] wrote; NULL if it is none.
pub fn from_json(cell: &Json) -> Value {
    match cell {
        Json::String(text) => Value::Text(text.clone()),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Value::Integer(integer),
            None => Value::Real(number.as_f64().unwrap_or(0.0)),
        },
        Json::Array(blob) => {
            let bytes = blob.first().and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
            Value::Blob(bytes.iter().filter_map(|byte| u8::try_from(byte.as_u64()?).ok()).collect())
        }
        _ => Value::Null,
    }
}
