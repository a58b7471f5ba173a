//! How a record is written: as an object of JSON, or as a line of text in the manner of ProxySQL's reader.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use narrows_proxy::clock::since_1970;
use narrows_proxy::query_log::{BoundValues, Record};
use serde_json::{Value, json};

use crate::calendar::date_and_fraction;

/// A line without its end.
pub fn line(record: &Record, is_text: bool) -> String {
    if is_text { text(record) } else { object(record).to_string() }
}

/// The object of a record; unknown fields are left out.
fn object(record: &Record) -> Value {
    let ended = record.began + record.duration;
    let mut line = json!({
        "event": record.event,
        "thread_id": record.thread_id,
        "username": record.username,
        "schemaname": String::from_utf8_lossy(&record.schemaname),
        "client": record.client,
        "hostgroup_id": if record.server.is_some() { record.hostgroup.0 } else { -1 },
        "query": String::from_utf8_lossy(&record.query),
        "starttime_timestamp_us": micros(record.began),
        "starttime": date(record.began),
        "endtime_timestamp_us": micros(ended),
        "endtime": date(ended),
        "duration_us": whole_micros(record.duration),
        "bytes_sent": record.bytes_sent,
    });
    let known = [
        ("server", record.server.clone().map(Value::from)),
        ("digest", record.digest.map(|digest| Value::from(format!("0x{digest:016X}")))),
        ("rows_affected", record.rows_affected.map(Value::from)),
        ("last_insert_id", Some(record.last_insert_id).filter(|id| *id != 0).map(Value::from)),
        ("rows_sent", record.rows_sent.map(Value::from)),
        ("error", record.error.map(Value::from)),
        ("errmsg", Some(&record.error_text).filter(|text| !text.is_empty()).map(|text| lossy(text))),
        ("client_stmt_id", Some(record.statement_id).filter(|id| *id != 0).map(Value::from)),
        ("parameters", record.values.as_ref().map(parameters)),
        ("retries", Some(record.retries).filter(|retries| *retries > 0).map(Value::from)),
        ("trace_id", record.trace.map(|trace| Value::from(trace.own.trace_id_text()))),
    ];
    for (name, value) in known {
        if let (Some(value), Some(line)) = (value, line.as_object_mut()) {
            line.insert(name.to_owned(), value);
        }
    }
    line
}

/// The values of an execution, in order.
pub fn parameters(values: &BoundValues) -> Value {
    let one = |value: Option<(&'static str, String)>| {
        value.map_or(Value::Null, |(kind, text)| json!({ "type": kind, "value": text }))
    };
    values.shown().into_iter().map(one).collect()
}

fn lossy(text: &[u8]) -> Value {
    Value::from(String::from_utf8_lossy(text))
}

/// One line of text. Line ends and other control characters of the statement are escaped.
fn text(record: &Record) -> String {
    let mut line = format!(
        "ProxySQL LOG QUERY: thread_id=\"{}\" username=\"{}\" schemaname=\"{}\" client=\"{}\"",
        record.thread_id,
        record.username.escape_debug(),
        String::from_utf8_lossy(&record.schemaname).escape_debug(),
        record.client,
    );
    // Writing to a String cannot fail.
    let _ = match &record.server {
        Some(server) => write!(line, " HID={} server=\"{server}\"", record.hostgroup.0),
        None => write!(line, " HID=-1"),
    };
    let _ = write!(
        line,
        " starttime=\"{}\" endtime=\"{}\" duration={}us",
        date(record.began),
        date(record.began + record.duration),
        whole_micros(record.duration)
    );
    let known = [
        ("digest", record.digest.map(|digest| format!("\"0x{digest:016X}\""))),
        ("rows_affected", record.rows_affected.map(|rows| rows.to_string())),
        ("rows_sent", record.rows_sent.map(|rows| rows.to_string())),
        ("error", record.error.map(|error| error.to_string())),
    ];
    for (name, value) in known {
        if let Some(value) = value {
            let _ = write!(line, " {name}={value}");
        }
    }
    let _ = write!(line, " {} ", record.event);
    for letter in String::from_utf8_lossy(&record.query).chars() {
        let _ = match letter.is_control() {
            true => write!(line, "{}", letter.escape_default()),
            false => write!(line, "{letter}"),
        };
    }
    line
}

/// Microseconds since 1970.
pub fn micros(time: SystemTime) -> u64 {
    whole_micros(since_1970(time))
}

fn whole_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// `YYYY-MM-DD hh:mm:ss.uuuuuu` in UTC.
fn date(time: SystemTime) -> String {
    date_and_fraction(time, 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01 00:00:00.000000");
        assert_eq!(at(951_782_399), "2000-02-28 23:59:59.000000");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00.000000");
        assert_eq!(at(1_709_251_200), "2024-03-01 00:00:00.000000");
        assert_eq!(at(4_102_444_800), "2100-01-01 00:00:00.000000");
    }
}
