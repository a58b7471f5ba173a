//! Compares a record with what was found, after the normalisation for all records: see `differences::EVERYWHERE`.

use serde_json::Value;

/// Status flags that the recording has by accident (SESSION_STATE_CHANGED) or lost (MariaDB's ANSI_QUOTES).
const ACCIDENTAL: u64 = 0x4000 | 0x8000;
const IN_TRANSACTION: u64 = 1;
/// IN_TRANS, MORE_RESULTS, NO_GOOD_INDEX_USED and NO_INDEX_USED: before the rows the recording has those of the
/// statement before, and none from the server.
const BEFORE_ROWS: u64 = IN_TRANSACTION | 8 | 0x10 | 0x20;
/// A column flag that does not belong on the wire: client libraries set it for numbers, and ProxySQL, which is built on
/// one, passes it on.
const NUM: u64 = 0x8000;

/// The capabilities that a greeting may lack without counting as a difference: features that Narrows does not have yet.
const NOT_YET_OFFERED: u64 = 1 << 5 | 1 << 11;

/// The differences, as text; empty if none matters.
pub fn differences(record: &Value, found: &Value) -> Vec<String> {
    let mut differences = Vec::new();
    let Some(found) = found.as_object() else { return differences };
    // Record 155 reads the port of the server, which differs in each run.
    let volatile = record.get("volatile").is_some() || record["id"] == 155;
    let mut after_error = false;
    for (field, now) in found {
        let then = &record[field.as_str()];
        if field == "steps" {
            let (then, now) = (then.as_array(), now.as_array());
            for (number, (then, now)) in then.into_iter().flatten().zip(now.into_iter().flatten()).enumerate()
            {
                // What an administrator would see is tested separately.
                if then.get("admin").is_some() {
                    continue;
                }
                let sent = then.get("query").or(then.get("prepare")).unwrap_or(then);
                let (then, now) = (&then["reply"], &now["reply"]);
                if !equal(then, now, volatile, after_error) {
                    differences.push(format!(
                        "step {number} {}: {} is {}",
                        short(sent),
                        short(then),
                        short(now)
                    ));
                }
                after_error |= then.get("err").is_some();
            }
        } else if !equal(then, now, volatile, after_error || field == "ping") {
            differences.push(format!("{field}: {} is {}", short(then), short(now)));
        }
    }
    differences
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(300).collect()
}

fn equal(then: &Value, now: &Value, volatile: bool, after_error: bool) -> bool {
    match (then, now) {
        (Value::Array(then), Value::Array(now)) => {
            then.len() == now.len()
                && then.iter().zip(now).all(|(then, now)| equal(then, now, volatile, after_error))
        }
        (Value::Object(then), Value::Object(now)) => {
            let omitted = then.contains_key("rows_omitted");
            now.iter().all(|(field, now)| {
                let then = then.get(field).unwrap_or(&Value::Null);
                match field.as_str() {
                    "err" | "error" => same_error(then, now),
                    "ok" => same_ok(then, now, volatile, after_error),
                    "eof" | "end" => same_end(then, now, 0, after_error),
                    // Records of interrupted results lack it.
                    "head" => then.is_null() || same_end(then, now, BEFORE_ROWS, after_error),
                    "rows" => volatile || omitted || same_rows(then, now),
                    "text" => text(then).starts_with("Uptime: ") && text(now).starts_with("Uptime: "),
                    "columns" => same_columns(then, now),
                    "capabilities" => same_capabilities(then, now),
                    _ => equal(then, now, volatile, after_error),
                }
            }) && then.contains_key("rows") == now.contains_key("rows")
        }
        (Value::Number(then), Value::Number(now)) => {
            same_status(then.as_u64().unwrap_or(0), now.as_u64().unwrap_or(0), after_error)
        }
        (then, now) => then == now,
    }
}

fn same_error(then: &Value, now: &Value) -> bool {
    if then == now {
        return true;
    }
    let message = text(&then[2]).trim_start_matches("ProxySQL Error: ").to_owned();
    let message = crate::differential::expand(&message);
    if then[0] == 9001 {
        // Both name the hostgroup; the rest depends on the run.
        let hostgroup =
            message.split(" hostgroup ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("?");
        return now[0] == 9001
            && now[1] == then[1]
            && text(&now[2]).to_lowercase().contains(&format!("hostgroup {hostgroup}"));
    }
    // The server's port differs in each run.
    let refused = |text: &str| text.split_once(" refuses the account ").map(|(_, rest)| rest.to_owned());
    let same_text = text(&now[2]) == message
        || refused(&message).is_some_and(|then| refused(text(&now[2])).is_some_and(|now| now == then));
    now[0] == then[0] && now[1] == then[1] && same_text
}

fn same_ok(then: &Value, now: &Value, volatile: bool, after_error: bool) -> bool {
    let number = |value: &Value, at: usize| value[at].as_u64().unwrap_or(u64::MAX);
    // Affected rows, the last id, warnings and the text; the status has its own rule.
    number(then, 0) == number(now, 0)
        && (volatile || number(then, 1) == number(now, 1))
        && same_status(number(then, 2), number(now, 2), after_error)
        && number(then, 3) == number(now, 3)
        && then[4] == now[4]
}

fn same_end(then: &Value, now: &Value, ignored: u64, after_error: bool) -> bool {
    let number = |value: &Value, at: usize| value[at].as_u64().unwrap_or(u64::MAX);
    number(then, 0) == number(now, 0)
        && same_status(number(then, 1) | ignored, number(now, 1) | ignored, after_error)
}

fn same_status(then: u64, now: u64, after_error: bool) -> bool {
    let ignored = ACCIDENTAL | if after_error { IN_TRANSACTION } else { 0 };
    then & !ignored == now & !ignored
}

fn same_rows(then: &Value, now: &Value) -> bool {
    let expanded = |cell: &Value| cell.as_str().map(crate::differential::expand);
    match (then.as_array(), now.as_array()) {
        (Some(then), Some(now)) => {
            then.len() == now.len()
                && then.iter().zip(now).all(|(then, now)| {
                    let (then, now) = (then.as_array(), now.as_array());
                    then.into_iter()
                        .flatten()
                        .map(expanded)
                        .eq(now.into_iter().flatten().map(|cell| cell.as_str().map(str::to_owned)))
                })
        }
        _ => false,
    }
}

fn same_columns(then: &Value, now: &Value) -> bool {
    const FLAGS: usize = 4;
    let cell = |(at, value): (usize, &Value)| match value {
        Value::String(text) => crate::differential::expand(text),
        value if at == FLAGS => (value.as_u64().unwrap_or(0) & !NUM).to_string(),
        value => value.to_string(),
    };
    let flat = |columns: &Value| -> Vec<String> {
        columns
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|column| column.as_array().into_iter().flatten().enumerate())
            .map(cell)
            .collect()
    };
    let (then, now) = (flat(then), flat(now));
    // Long names are truncated in the records.
    then.len() == now.len()
        && then
            .iter()
            .zip(&now)
            .all(|(then, now)| then == now || then.len() > 200 && now.starts_with(then.as_str()))
}

fn same_capabilities(then: &Value, now: &Value) -> bool {
    let (then, now) = (then.as_u64().unwrap_or(0), now.as_u64().unwrap_or(0));
    // Capabilities beyond the recording only offer clients more.
    then & !NOT_YET_OFFERED & !now & OFFERED == 0
}

/// The capabilities in the recorded greeting whose absence a client would notice; REMEMBER_OPTIONS, IGNORE_SIGPIPE and
/// the reserved bit mean nothing to a server.
const OFFERED: u64 = !(1 << 31 | 1 << 12 | 1 << 14);

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
