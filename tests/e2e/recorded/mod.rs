//! The recorded answers of ProxySQL 2.7.1, replayed: every interaction of `tests/vectors/client.jsonl` is answered
//! equally, or differs on purpose and is listed in [`DIFFERENCES`], or is about something that Narrows does not have
//! yet and is listed in [`LATER`]. Anything else fails the test.
//!
//! The section "Wire behaviour" of docs/compatibility.md is the same tables in prose; with NARROWS_BLESS=1 the test
//! writes it, otherwise it checks it.

mod compare;
mod differences;
mod replay;
mod world;

use serde_json::Value;

use differences::{DIFFERENCES, LATER};

#[test]
fn recorded_interactions_are_answered_equally_or_better_on_purpose() {
    let mut world = world::World::new();
    let mut unexplained = Vec::new();
    let mut stale = Vec::new();
    let (mut equal, mut listed, mut later) = (0, 0, 0);
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
            (_, true) => listed += 1,
            (differences, false) => {
                let name = record["name"].as_str().unwrap_or_default();
                let group = record["group"].as_str().unwrap_or_default();
                unexplained.push(format!("{id} {group}: {name}\n    {}", differences.join("\n    ")));
            }
        }
    }
    println!(
        "{equal} equal, {listed} better on purpose, {later} belong to later issues, {} unexplained",
        unexplained.len()
    );
    assert!(unexplained.is_empty(), "{} unexplained:\n{}", unexplained.len(), unexplained.join("\n"));
    assert!(stale.is_empty(), "listed as different, yet equal: {stale:?}");
}

#[test]
fn the_compatibility_page_lists_the_same_differences() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/compatibility.md");
    let page = std::fs::read_to_string(&path).unwrap_or_else(|_| differences::EMPTY_PAGE.to_owned());
    let section = differences::section(&records());
    let (before, rest) =
        page.split_once(differences::BEGIN).expect("the page has the mark where the section begins");
    let (current, after) =
        rest.split_once(differences::END).expect("the page has the mark where the section ends");
    if std::env::var("NARROWS_BLESS").as_deref() == Ok("1") {
        let text = [before, differences::BEGIN, &section, differences::END, after].concat();
        std::fs::write(&path, text).expect("write the page");
        return;
    }
    assert!(current == section, "docs/compatibility.md is stale: run this test with NARROWS_BLESS=1");
}

/// Every record, in the order of the recording.
fn records() -> Vec<Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/client.jsonl");
    let text = std::fs::read_to_string(path).expect("the vectors");
    let records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert_eq!(records.len(), 511);
    records
}
