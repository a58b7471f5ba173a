//! What the lexer costs in instructions, which do not depend on the load of the machine.
//!
//! Counted by valgrind in the release profile: `cargo test --release -p narrows-sql --test instructions`. The test runs
//! itself under valgrind twice for each statement, with different numbers of repetitions; the difference is the cost of
//! the additional repetitions, without the start of the program.
#![cfg(not(debug_assertions))]
#![allow(clippy::disallowed_types)]

use std::hint::black_box;
use std::process::Command;

use narrows_sql::{DigestOptions, Scratch, classify, digest_hash, digest_text};

/// A statement, and how many instructions digest text, hash and kind may take together: half more than measured when
/// the row was written, because another compiler gives other counts, and twice as many where most of the time is spent
/// in `memchr`, which depends on the processor. A change that reduces them lowers the row.
struct Case {
    name: &'static str,
    statement: fn() -> String,
    most: u64,
    repetitions: u64,
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "point select", statement: point_select, most: 3_650, repetitions: 1_000 },
    Case { name: "join", statement: join, most: 24_500, repetitions: 200 },
    Case { name: "INSERT of 1,001 sysbench rows", statement: sysbench_rows, most: 2_960_000, repetitions: 5 },
    Case { name: "INSERT of 2,001 rows of small values", statement: small_values, most: 1_430_000, repetitions: 5 },
    Case { name: "INSERT of a 1 MiB string", statement: one_string, most: 1_970_000, repetitions: 5 },
];

fn point_select() -> String {
    "SELECT c FROM sbtest1 WHERE id=4992".to_owned()
}

fn join() -> String {
    "SELECT o.id, o.total, c.name FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.created_at > \
     '2024-01-01' AND c.status IN ('a','b','c') ORDER BY o.id DESC LIMIT 20"
        .to_owned()
}

fn sysbench_rows() -> String {
    let row = format!("(4992,'{}','{}'),", "31451373586-".repeat(10), "21996621178-".repeat(5));
    format!("INSERT INTO sbtest1 (k,c,pad) VALUES {}(1,'a','b')", row.repeat(1_000))
}

fn small_values() -> String {
    format!("INSERT INTO t VALUES {}(1,2,3,4,5)", "(1,'abc',3.5,NULL,12345),".repeat(2_000))
}

fn one_string() -> String {
    format!("INSERT INTO t VALUES (1,'{}')", "x".repeat(1 << 20))
}

const CASE: &str = "NARROWS_COUNTED_CASE";
const REPETITIONS: &str = "NARROWS_COUNTED_REPETITIONS";

#[test]
fn statements_cost_no_more_instructions_than_they_did() {
    if std::env::var_os(CASE).is_some() {
        return;
    }
    let mut too_many = Vec::new();
    for (index, case) in CASES.iter().enumerate() {
        let (once, thrice) = (count(index, case.repetitions), count(index, 3 * case.repetitions));
        let each = (thrice - once) / (2 * case.repetitions);
        let bytes = (case.statement)().len();
        println!("{}: {bytes} bytes, {each} instructions, at most {}", case.name, case.most);
        if each > case.most {
            too_many.push(format!("{}: {each}, at most {}", case.name, case.most));
        }
    }
    assert!(too_many.is_empty(), "more instructions than before: {too_many:?}");
}

/// The instructions of a run of this program that only repeats the case this many times.
fn count(case: usize, repetitions: u64) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().expect("the program has a path"))
        .args(["--exact", "repeats_one_case", "--test-threads=1"])
        .env(CASE, case.to_string())
        .env(REPETITIONS, repetitions.to_string())
        .output()
        .expect("valgrind is installed by scripts/setup.sh load");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "valgrind failed: {text}");
    let collected = text.lines().find_map(|line| line.split("Collected :").nth(1));
    collected.and_then(|number| number.trim().parse().ok()).expect("callgrind prints its count")
}

/// The code that is measured; does nothing when run as a test.
#[test]
fn repeats_one_case() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (Some(case), Some(repetitions)) = (number(CASE), number(REPETITIONS)) else { return };
    let statement = (CASES[case as usize].statement)();
    let options = DigestOptions::default();
    let mut scratch = Scratch::new();
    for _ in 0..repetitions {
        let query = black_box(statement.as_bytes());
        black_box(digest_hash(digest_text(query, &options, &mut scratch)));
        black_box(classify(query));
    }
}
