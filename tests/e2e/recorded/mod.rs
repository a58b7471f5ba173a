//! The recorded answers of ProxySQL 2.7.1, replayed: every interaction in `tests/vectors/client.jsonl` gets an equal
//! answer, or differs on purpose and is listed in [`DIFFERENCES`], or is listed in [`LATER`]: covered by another test,
//! or a feature that Narrows does not have yet. Anything else fails the test. Intentional differences are fixed too:
//! Narrows' answers are in `tests/vectors/client_narrows.jsonl`.
//!
//! The section "Wire behaviour" of docs/compatibility.md is the same tables in prose. With NARROWS_BLESS=1 the tests
//! write both files, otherwise they check them.

mod compare;
mod differences;
mod replay;
mod world;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use differences::{DIFFERENCES, LATER};

#[test]
fn recorded_interactions_are_answered_equally_or_better_on_purpose() {
    let mut world = world::World::new();
    let pinned = if is_blessed() { Vec::new() } else { pinned() };
    let mut unexplained = Vec::new();
    let mut stale = Vec::new();
    let mut listed = Vec::new();
    let (mut equal, mut later) = (0, 0);
    for record in records() {
        let id = record["id"].as_u64().expect("every record has a number");
        if LATER.iter().any(|entry| entry.covers(&record)) {
            later += 1;
            continue;
        }
        let found = replay::replay(&mut world, &record);
        let on_purpose = DIFFERENCES.iter().any(|(ids, _)| ids.contains(&id));
        match (compare::differences(&record, &found), on_purpose) {
            (differences, false) if differences.is_empty() => equal += 1,
            (differences, true) if differences.is_empty() => stale.push(id),
            (_, true) => {
                let found = differences::without_volatile(id, found);
                if let Some(pinned) = pinned.iter().find(|pinned| pinned["id"] == id) {
                    let differences = compare::differences(&as_recorded(&record, pinned), &found);
                    if !differences.is_empty() {
                        unexplained.push(explain(&record, "pinned", &differences));
                    }
                } else if !is_blessed() {
                    unexplained.push(explain(&record, "pinned", &["no answer".to_owned()]));
                }
                listed.push(json!({"id": id, "found": found}));
            }
            (differences, false) => unexplained.push(explain(&record, "recorded", &differences)),
        }
    }
    println!(
        "{equal} equal, {} better on purpose, {later} belong to later issues, {} unexplained",
        listed.len(),
        unexplained.len()
    );
    if is_blessed() {
        let lines: String = listed.iter().map(|line| line.to_string() + "\n").collect();
        std::fs::write(vectors(PINNED), lines).expect("write the pinned answers");
    }
    assert!(unexplained.is_empty(), "{} unexplained:\n{}", unexplained.len(), unexplained.join("\n"));
    assert!(stale.is_empty(), "listed as different, yet equal: {stale:?}");
}

#[test]
fn the_compatibility_page_lists_the_same_differences() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/compatibility.md");
    let page = std::fs::read_to_string(&path).unwrap_or_else(|_| differences::EMPTY_PAGE.to_owned());
    let section = differences::section(&records());
    let (before, rest) =
        page.split_once(differences::BEGIN).expect("the page has the mark where the section begins");
    let (current, after) =
        rest.split_once(differences::END).expect("the page has the mark where the section ends");
    if is_blessed() {
        let text = [before, differences::BEGIN, &section, differences::END, after].concat();
        std::fs::write(&path, text).expect("write the page");
        return;
    }
    assert!(current == section, "docs/compatibility.md is stale: run this test with NARROWS_BLESS=1");
}

#[test]
fn what_other_tests_show_is_there() {
    for file in LATER.iter().filter_map(|entry| entry.shown_by) {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(file).exists(), "{file}");
    }
}

/// A difference, described in words.
fn explain(record: &Value, from_what: &str, differences: &[String]) -> String {
    let name = record["name"].as_str().unwrap_or_default();
    let group = record["group"].as_str().unwrap_or_default();
    format!(
        "{} {group}: {name} (from what was {from_what})\n    {}",
        record["id"],
        differences.join("\n    ")
    )
}

/// The record with Narrows' answers in place of ProxySQL's.
fn as_recorded(record: &Value, pinned: &Value) -> Value {
    let mut record = record.clone();
    for (field, answer) in pinned["found"].as_object().into_iter().flatten() {
        record[field.as_str()] = answer.clone();
    }
    record
}

fn is_blessed() -> bool {
    std::env::var("NARROWS_BLESS").as_deref() == Ok("1")
}

/// Every record, in the order of the recording.
fn records() -> Vec<Value> {
    let records = lines(RECORDED);
    assert_eq!(records.len(), 511);
    records
}

/// Narrows' answers where they differ on purpose.
fn pinned() -> Vec<Value> {
    lines(PINNED)
}

fn lines(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(vectors(name)).expect("the vectors");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn vectors(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name)
}

const RECORDED: &str = "client.jsonl";
const PINNED: &str = "client_narrows.jsonl";
