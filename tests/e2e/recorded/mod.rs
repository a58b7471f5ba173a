//! The recorded answers of ProxySQL 2.7.1 to clients, replayed: every interaction in `tests/vectors/client.jsonl` gets an
//! equal answer, or differs on purpose and is listed in [`DIFFERENCES`], or is listed in [`LATER`]: covered by another
//! test, or a feature that Narrows does not have yet. `admin/recorded.rs` is the same for administrators.

mod compare;
mod differences;
pub mod engine;
mod replay;
mod world;

use std::path::Path;

use serde_json::Value;

use differences::{BEGIN, DIFFERENCES, END, LATER};
use engine::Recording;

const CLIENT: Recording = Recording {
    records: "client.jsonl",
    count: 511,
    pinned: "client_narrows.jsonl",
    differences: DIFFERENCES,
    compare: compare::differences,
    compare_pinned: |record, pinned, found| {
        let id = record["id"].as_u64().expect("every record has a number");
        compare::differences(&with_answers(record, pinned), &differences::without_volatile(id, found.clone()))
    },
    keep: differences::without_volatile,
    title: |record| {
        let text = |field: &str| record[field].as_str().unwrap_or_default().to_owned();
        format!("{}: {}", text("group"), text("name"))
    },
    marks: [BEGIN, END],
    section: differences::section,
};

#[test]
fn recorded_interactions_are_answered_equally_or_better_on_purpose() {
    let mut world = world::World::new();
    let replayed = CLIENT.records().into_iter().filter(|record| !LATER.iter().any(|it| it.covers(record)));
    CLIENT.check(replayed.map(|record| {
        let found = replay::replay(&mut world, &record);
        (record, found)
    }));
}

#[test]
fn the_compatibility_page_lists_the_same_differences() {
    CLIENT.check_page();
}

#[test]
fn what_other_tests_show_is_there() {
    for file in LATER.iter().filter_map(|entry| entry.shown_by) {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(file).exists(), "{file}");
    }
}

/// The record with Narrows' answers in place of ProxySQL's.
fn with_answers(record: &Value, answers: &Value) -> Value {
    let mut record = record.clone();
    for (field, answer) in answers.as_object().into_iter().flatten() {
        record[field.as_str()] = answer.clone();
    }
    record
}
