//! Whether an answer equals the recorded one; if not, how it differs.

use narrows_testkit::scramble;
use serde_json::Value;

/// The most rows that the recording keeps of an answer; of lists of tables it keeps all.
const KEPT: usize = 5;

/// How `found` differs from `record`; empty if they are equal.
pub fn differences(record: &Value, found: &Value) -> Vec<String> {
    let mut differences = Vec::new();
    for field in ["error", "ok", "closed", "columns", "count", "rows", "types", "status", "process"] {
        let (then, now) = (&record[field], &found[field]);
        if !is_same(field, record, then, now) {
            differences.push(format!("{field}: {then} was recorded, now it is {}", shortened(now)));
        }
    }
    differences
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(600) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

fn is_same(field: &str, record: &Value, then: &Value, now: &Value) -> bool {
    match field {
        // The recording leaves out what differs from run to run.
        "rows" if then.is_null() && !record["columns"].is_null() => true,
        "rows" => {
            let sql = record["sql"].as_str().unwrap_or_default().to_ascii_uppercase();
            if sql.contains("GLOBAL_CHECKSUM()") && then.is_array() {
                return now[0][0].as_str().is_some_and(|number| number.parse::<u64>().is_ok());
            }
            let then = &match sql.contains("RUNTIME_MYSQL_USERS") {
                true => with_hashes(record, then),
                false => then.clone(),
            };
            same_rows(record, then, now)
                || !sql.contains("ORDER BY") && same_rows_in_any_order(record, then, now)
        }
        // The status of the end of rows was not always recorded; Narrows' is always the same.
        "status" => now.is_null() == record["columns"].is_null() && (now.is_null() || now == STATUS),
        // All of Narrows' columns are text, including those with numbers.
        "types" => now.is_null(),
        "ok" => same_ok(record, then, now),
        "process" => then.is_null() || then == now,
        "error" => same_error(then, now),
        _ => then == now,
    }
}

/// Rows with hashes instead of the clear-text passwords that ProxySQL shows in runtime tables.
fn with_hashes(record: &Value, rows: &Value) -> Value {
    let mut rows = rows.clone();
    let columns = record["columns"].as_array().into_iter().flatten();
    let Some(place) = columns.into_iter().position(|column| column == "password") else { return rows };
    for row in rows.as_array_mut().into_iter().flatten() {
        let clear = row[place].as_str().filter(|text| !text.is_empty() && !text.starts_with(['*', '$']));
        if let Some(hash) = clear.map(scramble::native_hash) {
            row[place] = hash.into();
        }
    }
    rows
}

/// Status flags of every answer: AUTOCOMMIT and NO_BACKSLASH_ESCAPES.
const STATUS: u64 = 514;

/// SQLite statements that change no rows.
const REPEATING: &[&str] = &["CREATE ", "DROP ", "SAVEPOINT ", "RELEASE ", "VACUUM", "REINDEX", "ANALYZE"];

/// A LOAD returns as warnings what ProxySQL writes to its log.
fn same_ok(record: &Value, then: &Value, now: &Value) -> bool {
    let sql = record["sql"].as_str().unwrap_or_default().trim_start().to_ascii_uppercase();
    let warns = sql.starts_with("LOAD ") && sql.contains(" RUN");
    // Statements that change no rows repeat the count of one that did.
    let repeats = REPEATING.iter().any(|word| sql.starts_with(word));
    // The length of a file differs, because its comments and paths do.
    let is_length = then[2].as_str().is_some_and(|info| info.ends_with(" is saved."));
    let repeats = repeats || is_length && then[0].as_u64() > Some(0) && now[0].as_u64() > Some(0);
    let field = |at: usize| then[at] == now[at];
    then.is_array() == now.is_array() && (0..5).all(|at| field(at) || at == 3 && warns || at == 0 && repeats)
}

/// Long table conditions are truncated in the recording, and Narrows says after ProxySQL's text what may have been meant.
fn same_error(then: &Value, now: &Value) -> bool {
    // Some of ProxySQL's errors have the prefix twice.
    let prefix = "ProxySQL Admin Error: ";
    let text = |value: &Value| {
        let text = value[2].as_str().unwrap_or_default();
        let text = text.strip_prefix(prefix).filter(|rest| rest.starts_with(prefix)).unwrap_or(text);
        text.split("; did you mean ").next().unwrap_or(text).to_owned()
    };
    match text(then).split_once("<expression>") {
        Some((beginning, _)) => then[0] == now[0] && then[1] == now[1] && text(now).starts_with(beginning),
        None => {
            then[0] == now[0]
                && then[1] == now[1]
                && text(then) == text(now)
                && then.is_null() == now.is_null()
        }
    }
}

fn same_rows(record: &Value, then: &Value, now: &Value) -> bool {
    match (then.as_array(), now.as_array()) {
        (Some(then), Some(now)) => {
            (is_cut(record, then) || then.len() == now.len())
                && then.iter().zip(now).all(|(then, now)| same_row(then, now))
        }
        (None, None) => true,
        _ => false,
    }
}

/// Whether the recording has only some of the rows.
fn is_cut(record: &Value, then: &[Value]) -> bool {
    record["count"].as_u64().is_some_and(|count| count > then.len() as u64)
}

/// SQL guarantees no order unless one is requested; of long answers the recording has only some rows.
fn same_rows_in_any_order(record: &Value, then: &Value, now: &Value) -> bool {
    let (Some(then), Some(now)) = (then.as_array(), now.as_array()) else { return false };
    let mut left: Vec<&Value> = now.iter().collect();
    let all_found = then.iter().all(|row| match left.iter().position(|candidate| same_row(row, candidate)) {
        Some(index) => {
            left.swap_remove(index);
            true
        }
        None => false,
    });
    all_found && (is_cut(record, then) || left.is_empty())
}

fn same_row(then: &Value, now: &Value) -> bool {
    match (then.as_array(), now.as_array()) {
        (Some(then), Some(now)) => {
            then.len() == now.len() && then.iter().zip(now).all(|(then, now)| same_cell(then, now))
        }
        _ => false,
    }
}

fn same_cell(then: &Value, now: &Value) -> bool {
    match (then.as_str(), now.as_str()) {
        (Some("<volatile>"), Some(_)) => true,
        // Checksums are equal if the rows are; the values are specific to each program.
        (Some(then), Some(now)) if is_checksum(then) => then == now || (then != "0x00") && is_checksum(now),
        _ => then == now,
    }
}

fn is_checksum(text: &str) -> bool {
    text.len() > 10
        && text.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// What is stored of a pinned answer: as much as the recording keeps, and nothing that depends on the run.
pub fn kept(id: u64, mut found: Value) -> Value {
    if VOLATILE.contains(&id) {
        found["rows"] = Value::Null;
    }
    if let Some(rows) = found.get_mut("rows").and_then(Value::as_array_mut) {
        rows.truncate(KEPT);
        // A second may have passed since the start.
        for row in rows.iter_mut().filter(|row| row[0] == "ProxySQL_Uptime") {
            row[1] = Value::from("<volatile>");
        }
    }
    found
}

/// Records whose rows depend on the run.
const VOLATILE: &[u64] = &[61, 1426, 1434, 1598, 1609, 1611, 1613, 1615, 1616, 1618];
