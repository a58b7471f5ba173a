//! The recorded admin statements, replayed: every one in `tests/vectors/admin.jsonl` gets an equal answer, or differs
//! on purpose and is listed in [`DIFFERENCES`]. Anything else fails the test. Intentional differences are fixed too:
//! Narrows' answers are in `tests/vectors/admin_narrows.jsonl`.
//!
//! The section "Admin statements" of docs/compatibility.md is the same table in prose. With NARROWS_BLESS=1 the tests
//! write both files, otherwise they check them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::compare;
use super::differences::{self, DIFFERENCES};
use super::replay::{Instance, Keys};
use super::traffic;

#[test]
fn recorded_statements_are_answered_equally_or_differ_on_purpose() {
    let keys = Keys::none();
    let answers = answers(&keys);
    let pinned = if is_blessed() { Vec::new() } else { lines(PINNED) };
    let (mut equal, mut unexplained, mut stale, mut listed) = (0, Vec::new(), Vec::new(), Vec::new());
    for (record, found) in records().iter().zip(answers).filter_map(|(record, found)| Some((record, found?)))
    {
        let id = record["id"].as_u64().expect("every record has a number");
        let on_purpose = DIFFERENCES.iter().any(|(ids, _)| ids.contains(&id));
        match (compare::differences(record, &found), on_purpose) {
            (differences, false) if differences.is_empty() => equal += 1,
            (differences, true) if differences.is_empty() => stale.push(id),
            (_, true) => {
                let pin = pinned.iter().find(|pinned| pinned["id"] == id);
                if let Some(pin) = pin {
                    let differences = compare::differences(&pin["found"], &found);
                    if !differences.is_empty() {
                        unexplained.push(explain(record, "pinned", &differences));
                    }
                } else if !is_blessed() {
                    unexplained.push(explain(record, "pinned", &["no answer".to_owned()]));
                }
                listed.push(json!({"id": id, "found": compare::kept(id, found)}));
            }
            (differences, false) => unexplained.push(explain(record, "recorded", &differences)),
        }
    }
    println!("{equal} equal, {} differ on purpose, {} unexplained", listed.len(), unexplained.len());
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
    let page = std::fs::read_to_string(&path).expect("the page");
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

/// The current answer to each record; `None` if there is nothing to compare.
fn answers(keys: &Keys) -> Vec<Option<Value>> {
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
    let records = records();
    let mut answers: Vec<Option<Value>> = records.iter().map(answer).collect();
    let after_traffic: Vec<usize> = (0..records.len()).filter(|at| records[*at]["traffic"] == true).collect();
    let of_traffic: Vec<&Value> = after_traffic.iter().map(|at| &records[*at]).collect();
    for (at, found) in after_traffic.into_iter().zip(traffic::answers(keys, &of_traffic)) {
        answers[at] = Some(found);
    }
    answers
}

/// A difference, described in words.
fn explain(record: &Value, from_what: &str, differences: &[String]) -> String {
    let (id, user, sql) = (&record["id"], &record["user"], &record["sql"]);
    format!("{id} {user} {sql} (from what was {from_what})\n    {}", differences.join("\n    "))
}

fn is_blessed() -> bool {
    std::env::var("NARROWS_BLESS").as_deref() == Ok("1")
}

/// Every record, in the order of the recording.
fn records() -> Vec<Value> {
    let records = lines(RECORDED);
    assert_eq!(records.len(), 1626);
    records
}

fn lines(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(vectors(name)).expect("the vectors");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn vectors(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name)
}

const RECORDED: &str = "admin.jsonl";
const PINNED: &str = "admin_narrows.jsonl";
