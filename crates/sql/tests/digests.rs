//! Digest texts and hashes equal those of ProxySQL 2.7.1, as recorded in `vectors/digests.jsonl`.
//!
//! One record per line: `query`, `text` (either as `_hex` if it is not UTF-8), `digest`, and the
//! `mysql-query_digests_*` variables that were not at their default. What differs, and why, is listed in
//! `docs/compatibility.md`.

#![allow(clippy::unwrap_used, clippy::panic)] // A test file: the lints do not treat helpers of tests as tests.

use narrows_sql::{DigestOptions, Scratch, digest_hash, digest_text};
use serde_json::Value;

struct Record {
    query: Vec<u8>,
    text: Vec<u8>,
    digest: u64,
    options: DigestOptions,
}

fn records() -> Vec<Record> {
    let lines = include_str!("vectors/digests.jsonl").lines();
    lines.map(|line| record(&serde_json::from_str(line).unwrap())).collect()
}

fn record(row: &Value) -> Record {
    Record {
        query: bytes(row, "query"),
        text: bytes(row, "text"),
        digest: u64::from_str_radix(row["digest"].as_str().unwrap(), 16).unwrap(),
        options: options(&row["settings"]),
    }
}

fn bytes(row: &Value, name: &str) -> Vec<u8> {
    let Value::String(text) = &row[name] else {
        let hex = row[format!("{name}_hex")].as_str().unwrap();
        return (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
    };
    text.as_bytes().to_vec()
}

fn options(settings: &Value) -> DigestOptions {
    let mut options = DigestOptions::default();
    for (name, value) in settings.as_object().into_iter().flatten() {
        let number = || usize::try_from(value.as_u64().unwrap()).unwrap();
        match name.as_str() {
            "no_digits" => options.no_digits = true,
            "replace_null" => options.replace_null = true,
            "keep_comment" => options.keep_comment = true,
            "lowercase" => options.lowercase = true,
            "grouping_limit" => options.grouping_limit = number(),
            "groups_grouping_limit" => options.groups_grouping_limit = number(),
            "max_digest_length" => options.max_digest_length = number(),
            "max_query_length" => options.max_query_length = number(),
            // This changes which statistics are kept, not the text.
            "normalize_digest_text" => {}
            other => panic!("unknown setting {other}"),
        }
    }
    options
}

#[test]
fn texts_equal_the_recorded_ones() {
    let records = records();
    let mut scratch = Scratch::new();
    let mut differing = Vec::new();
    for record in &records {
        let found = digest_text(&record.query, &record.options, &mut scratch);
        if found != record.text {
            let show = String::from_utf8_lossy;
            differing.push(format!(
                "{:?}\n  recorded {:?}\n  found    {:?}\n",
                show(&record.query),
                show(&record.text),
                show(found)
            ));
        }
    }
    let equal = 100.0 - 100.0 * differing.len() as f64 / records.len() as f64;
    println!("{} of {} differ, {equal:.2} % equal\n{}", differing.len(), records.len(), differing.concat());
    assert!(differing.len() <= KNOWN_DIFFERENCES, "{}", differing.concat());
    assert!(equal >= 99.5);
}

/// As many as `docs/compatibility.md` lists.
const KNOWN_DIFFERENCES: usize = 19;

#[test]
fn hashes_equal_the_recorded_ones() {
    for record in records() {
        assert_eq!(digest_hash(&record.text), record.digest, "{:?}", String::from_utf8_lossy(&record.text));
    }
}

#[test]
fn a_list_behind_a_function_is_not_shortened() {
    let mut scratch = Scratch::new();
    let options = DigestOptions::default();
    for (query, text) in [
        ("INSERT INTO t VALUES (NOW(),0,2,3,4,5)", "INSERT INTO t VALUES (NOW(),?,?,?,?,?)"),
        ("INSERT INTO t VALUES (0,2,3,4,5,NOW())", "INSERT INTO t VALUES (?,?,?,...,NOW())"),
    ] {
        assert_eq!(String::from_utf8_lossy(digest_text(query.as_bytes(), &options, &mut scratch)), text);
    }
}
