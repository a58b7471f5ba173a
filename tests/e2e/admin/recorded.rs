//! The recorded admin statements, replayed: every one in `tests/vectors/admin.jsonl` gets an equal answer, or differs
//! on purpose and is listed in [`DIFFERENCES`].

use serde_json::{Value, json};

use super::compare;
use super::differences::{self, BEGIN, DIFFERENCES, END};
use super::replay::{Instance, Keys};
use super::traffic;
use crate::recorded::engine::Recording;

const ADMIN: Recording = Recording {
    records: "admin.jsonl",
    count: 1626,
    pinned: "admin_narrows.jsonl",
    differences: DIFFERENCES,
    compare: compare::differences,
    compare_pinned: |_, pinned, found| compare::differences(pinned, found),
    keep: compare::kept,
    title: |record| format!("{} {}", record["user"], record["sql"]),
    marks: [BEGIN, END],
    section: differences::section,
};

#[test]
fn recorded_statements_are_answered_equally_or_differ_on_purpose() {
    let records = ADMIN.records();
    let answers = answers(&Keys::none(), &records);
    ADMIN.check(records.into_iter().zip(answers).filter_map(|(record, found)| Some((record, found?))));
}

#[test]
fn the_compatibility_page_lists_the_same_differences() {
    ADMIN.check_page();
}

/// The current answer to each record; `None` if there is nothing to compare.
fn answers(keys: &Keys, records: &[Value]) -> Vec<Option<Value>> {
    let mut instance = Instance::start(keys);
    // A fresh instance, and the statements it has received.
    let mut fresh: Option<(Instance, Vec<Value>)> = None;
    let answer = |record: &Value| {
        if record["traffic"] == true {
            return None;
        }
        if record["fresh"] != true {
            // A ProxySQL client gets no answer to this one.
            return (record["note"].is_null()).then(|| instance.ask(record));
        }
        let setup = record["setup"].as_array().cloned().unwrap_or_default();
        if fresh.as_ref().is_none_or(|(_, had)| *had != setup) {
            let mut begun = Instance::start(keys);
            for statement in &setup {
                begun.ask(&json!({"user": record["user"], "sql": statement}));
            }
            fresh = Some((begun, setup));
        }
        let (instance, had) = fresh.as_mut().expect("just begun");
        let mut found = instance.ask(record);
        found["process"] = instance.state().into();
        had.push(record["sql"].clone());
        Some(found)
    };
    let mut answers: Vec<Option<Value>> = records.iter().map(answer).collect();
    let after_traffic: Vec<usize> = (0..records.len()).filter(|at| records[*at]["traffic"] == true).collect();
    let of_traffic: Vec<&Value> = after_traffic.iter().map(|at| &records[*at]).collect();
    for (at, found) in after_traffic.into_iter().zip(traffic::answers(keys, &of_traffic)) {
        answers[at] = Some(found);
    }
    answers
}
