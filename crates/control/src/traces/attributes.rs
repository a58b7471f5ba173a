//! The attributes of spans: those of OpenTelemetry's conventions for databases, and Narrows' own.

use narrows_proxy::query_log::Record;
use narrows_wire::charset::Family;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};

use super::private::{self, lossy};

/// What both the statement's own span and the one on the server say of a statement.
pub struct Told {
    operation: Option<&'static str>,
    text: Option<String>,
}

impl Told {
    /// Reads the statement of a record.
    pub fn of(record: &Record) -> Told {
        // Other commands have no text, or one that is none of SQL.
        let is_sql = SQL.contains(&record.event) && !record.query.is_empty();
        Told {
            operation: if is_sql { private::operation(&record.query) } else { None },
            text: is_sql.then(|| private::statement(&record.query)),
        }
    }

    /// The name of the operation.
    pub fn operation(&self) -> Option<&'static str> {
        self.operation
    }

    /// The attributes of a call to a database.
    pub fn of_database(&self, record: &Record) -> Vec<KeyValue> {
        let system = if record.family == Some(Family::MariaDb) { "mariadb" } else { "mysql" };
        let mut all = vec![text("db.system.name", system)];
        if !record.schemaname.is_empty() {
            all.push(text("db.namespace", lossy(&record.schemaname)));
        }
        all.extend(self.operation.map(|name| text("db.operation.name", name)));
        all.extend(self.text.as_ref().map(|words| text("db.query.text", words.as_str())));
        if let Some(server) = &record.server {
            all.extend(address(server, "server.address", "server.port"));
        }
        if let Some(errno) = record.error {
            all.push(text("db.response.status_code", errno.to_string()));
            all.push(text("error.type", errno.to_string()));
        }
        all
    }
}

/// Who has sent a statement, and what Narrows knows of it.
pub fn of_narrows(record: &Record) -> Vec<KeyValue> {
    let mut all = address(&record.client, "client.address", "client.port");
    all.push(text("user.name", lossy(record.username.as_bytes())));
    all.push(text("narrows.command", record.event));
    all.push(number("narrows.thread_id", record.thread_id));
    if record.server.is_some() {
        all.push(number("narrows.hostgroup", record.hostgroup.0));
    }
    all.extend(record.digest.map(|digest| text("narrows.digest", format!("0x{digest:016X}"))));
    all.extend(record.rows_sent.map(|rows| count("narrows.rows_sent", rows)));
    all.extend(record.rows_affected.map(|rows| count("narrows.rows_affected", rows)));
    all.push(count("narrows.bytes_sent", record.bytes_sent));
    all.push(number("narrows.retries", record.retries));
    all
}

/// An attribute that is a text.
pub fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

/// An attribute that is a number.
pub fn number(key: &str, value: impl Into<i64>) -> KeyValue {
    attribute(key, Value::IntValue(value.into()))
}

/// A count; OTLP has no larger numbers than these.
fn count(key: &str, value: u64) -> KeyValue {
    attribute(key, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// Host and port, or the path of a socket. Nothing, if there is no host.
fn address(written: &str, host_key: &str, port_key: &str) -> Vec<KeyValue> {
    let (host, port) = match written.rsplit_once(':') {
        Some((host, port)) if !written.starts_with('/') => (host, port.parse::<u16>().ok()),
        _ => (written, None),
    };
    if host.is_empty() {
        return Vec::new();
    }
    let port = port.filter(|port| *port > 0).map(|port| number(port_key, port));
    std::iter::once(text(host_key, lossy(host.as_bytes()))).chain(port).collect()
}

/// The commands whose text is SQL.
const SQL: &[&str] = &["COM_QUERY", "COM_STMT_PREPARE", "COM_STMT_EXECUTE"];
