//! What a statement costs Narrows in instructions of its own, which do not depend on the load of the machine.
//!
//! Narrows runs under valgrind's callgrind. Each case is measured twice, with different numbers of statements: the difference
//! is the cost of the additional statements, without logins and start.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::load::{Generator, Limit, Plan, Usage};
use crate::peers::{self, Account, Running, Setup};
use crate::process::{Process, find_program};

/// Options of `instructions`.
#[derive(Debug, Args)]
pub struct InstructionsFlags {
    /// The Narrows binary.
    #[arg(long, default_value = "target/release/narrows")]
    narrows: PathBuf,
    /// Statements of the shorter run of each case; the longer one has three times as many.
    #[arg(long, default_value_t = 4_000)]
    statements: u64,
    /// Fail if a case costs over 3 % more than this file says.
    #[arg(long)]
    check: Option<PathBuf>,
    /// Write the figures to this file, for `--check`.
    #[arg(long)]
    write: Option<PathBuf>,
    /// A line for `mysql_variables`, such as `otlp_rate_limit = 100`; may be repeated.
    #[arg(long = "set", value_name = "LINE")]
    variables: Vec<String>,
    /// Also a dry run of a rule that sends reads to this hostgroup: to 1 it would change nothing, to 0 every statement.
    #[arg(long)]
    dry_run: Option<i32>,
    /// Keep callgrind's files in this folder, for `callgrind_annotate`: CASE.1 and CASE.2 are the two runs of a case.
    #[arg(long)]
    dumps: Option<PathBuf>,
}

/// A statement and how it comes.
struct Case {
    name: &'static str,
    statement: &'static str,
    usage: Usage,
    connections: usize,
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "text-1", statement: "SELECT c FROM sbtest1 WHERE id=5000", usage: Usage::Keep, connections: 1 },
    Case { name: "text-64", statement: "SELECT c FROM sbtest1 WHERE id=5000", usage: Usage::Keep, connections: 64 },
    Case { name: "varied-64", statement: "SELECT c FROM sbtest1 WHERE id=5000", usage: Usage::Vary, connections: 64 },
    Case { name: "execute-64", statement: "SELECT c FROM sbtest1 WHERE id=?", usage: Usage::Execute, connections: 64 },
    // Of a stored function nobody knows what it does: each client keeps its server connection.
    Case { name: "opaque-64", statement: "SELECT f(c) FROM sbtest1 WHERE id=5000", usage: Usage::Keep, connections: 64 },
];

/// Instructions of one statement, by the part of the program.
#[derive(Debug, Serialize, Deserialize)]
struct Figures {
    total: f64,
    parts: BTreeMap<String, f64>,
}

/// Counts, prints a table, and compares it with a file.
pub fn run(flags: &InstructionsFlags) -> io::Result<()> {
    let mut all = BTreeMap::new();
    for case in CASES {
        let figures = measure(case, flags)?;
        print_table(case, &figures);
        all.insert(case.name.to_owned(), figures);
    }
    if let Some(file) = &flags.write {
        fs::write(file, serde_json::to_string_pretty(&all)? + "\n")?;
    }
    flags.check.as_deref().map_or(Ok(()), |file| check(file, &all))
}

fn print_table(case: &Case, figures: &Figures) {
    println!("\n{}: {:.0} instructions a statement", case.name, figures.total);
    let mut parts: Vec<_> = figures.parts.iter().collect();
    parts.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    for (part, cost) in parts.into_iter().filter(|(_, cost)| **cost >= 1.0) {
        println!("  {cost:>8.0} {:>3.0} %  {part}", 100.0 * cost / figures.total);
    }
}

fn check(file: &Path, found: &BTreeMap<String, Figures>) -> io::Result<()> {
    let known: BTreeMap<String, Figures> = serde_json::from_str(&fs::read_to_string(file)?)?;
    let too_many: Vec<String> = found
        .iter()
        .filter_map(|(case, found)| {
            let known = known.get(case)?.total;
            let above = found.total / known - 1.0;
            (above > TOLERANCE).then(|| {
                format!(
                    "{case} costs {:.0} instructions instead of {known:.0} (+{:.1} %)",
                    found.total,
                    100.0 * above
                )
            })
        })
        .collect();
    if too_many.is_empty() { Ok(()) } else { Err(io::Error::other(too_many.join("; "))) }
}

fn measure(case: &Case, flags: &InstructionsFlags) -> io::Result<Figures> {
    let (_mock, mock_address) = Process::start_own(None, &["mock-server".to_owned()])?;
    let folder = tempfile::tempdir()?;
    let dumps = flags.dumps.as_deref().unwrap_or(folder.path()).join(case.name);
    let setup = Setup {
        primary: mock_address,
        replicas: Vec::new(),
        account: Account { user: "bench".to_owned(), password: "bench".to_owned() },
        folder: folder.path(),
        core: None,
        narrows: &flags.narrows,
        rules: peers::Rules { dry_run: flags.dry_run, ..peers::Rules::default() },
        max_stmts: None,
        baseline: None,
        other: None,
        counted: Some(&dumps),
        variables: &flags.variables,
    };
    let running = peers::narrows(&setup)?;
    // Connections to servers are opened, and texts are seen a second time.
    load(case, &running, &setup.account, 10 * case.connections as u64)?;
    let mut costs = Vec::new();
    for (number, statements) in [(1, flags.statements), (2, 3 * flags.statements)] {
        control(&running, "--zero")?;
        let answered = load(case, &running, &setup.account, statements)?;
        control(&running, "--dump")?;
        let dump = fs::read_to_string(format!("{}.{number}", dumps.display()))?;
        costs.push((answered, by_part(&dump)));
    }
    let [(few, less), (many, more)] = costs.as_slice() else { unreachable!("there were two runs") };
    let statements = (many - few) as f64;
    let mut parts = BTreeMap::new();
    for (part, cost) in more {
        let before = less.get(part).copied().unwrap_or_default();
        parts.insert((*part).to_owned(), ((*cost as f64 - before as f64) / statements).round());
    }
    Ok(Figures { total: parts.values().sum(), parts })
}

/// Runs so many statements; returns how many were answered.
fn load(case: &Case, running: &Running, account: &Account, statements: u64) -> io::Result<u64> {
    let mut generator = Generator::new(Plan {
        target: running.address.clone(),
        user: account.user.clone(),
        password: account.password.clone(),
        schema: String::new(),
        connections: case.connections,
        statement: case.statement.to_owned(),
        rows: 1,
        usage: case.usage,
        deprecate_eof: true,
    })?;
    let report = generator.measure(Limit::Queries(statements))?;
    generator.finish()?;
    match report.first_error {
        Some(error) => Err(io::Error::other(error)),
        None => Ok(report.queries),
    }
}

/// Tells callgrind to count from zero again, or to write what it has counted.
fn control(running: &Running, what: &str) -> io::Result<()> {
    let program = find_program("callgrind_control").ok_or_else(peers::no_valgrind)?;
    // What ran before is over by then.
    std::thread::sleep(Duration::from_millis(200));
    let pid = running.process.as_ref().map_or(0, Process::id).to_string();
    let output = Command::new(program).args([what, &pid]).output()?;
    if output.status.success() { Ok(()) } else { Err(io::Error::other("callgrind_control failed")) }
}

/// Instructions in a dump by the part of the program that they belong to, without what it calls.
fn by_part(dump: &str) -> BTreeMap<&'static str, u64> {
    let mut costs = BTreeMap::new();
    let mut part = "";
    let mut is_call = false;
    for line in dump.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            part = part_of(name);
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost = line.rsplit(' ').next().and_then(|cost| cost.parse::<u64>().ok());
            // The line after a call has the cost of what was called, which has lines of its own.
            if !std::mem::take(&mut is_call) {
                *costs.entry(part).or_default() += cost.unwrap_or_default();
            }
        }
    }
    costs
}

/// The part of the program that a function belongs to.
fn part_of(function: &str) -> &'static str {
    let path = function.trim_start_matches('<');
    PARTS
        .iter()
        .find(|(prefix, _)| path.starts_with(prefix))
        .map_or("libc and the standard library", |(_, part)| part)
}

/// Prefixes of functions, the longer ones first, and what they belong to.
#[rustfmt::skip]
const PARTS: &[(&str, &str)] = &[
    ("narrows_sql", "reading statements, digests"),
    ("narrows_wire", "packets"),
    ("narrows_proxy::rules", "rules and routes"),
    ("narrows_proxy::route", "rules and routes"),
    ("narrows_proxy::recent_texts", "reading statements, digests"),
    ("narrows_proxy::pool", "pool"),
    ("narrows_proxy::hostgroup", "pool"),
    ("narrows_proxy::backend", "backend connections"),
    ("narrows_proxy::figures", "figures"),
    ("narrows_proxy::session::count", "figures"),
    ("narrows_proxy::session::relay", "relay"),
    ("narrows_proxy::session::effects", "effects and settlement"),
    ("narrows_proxy::session::track", "effects and settlement"),
    ("narrows_proxy::session::information", "effects and settlement"),
    ("narrows_proxy::session::prepared", "prepared statements"),
    ("narrows_proxy::session::query", "rules and routes"),
    ("narrows_proxy::session::dry_run", "rules and routes"),
    ("narrows_proxy::session", "session"),
    ("narrows_proxy::event_loop", "session"),
    ("narrows_proxy::stream", "sockets and buffers"),
    ("narrows_proxy::buffer", "sockets and buffers"),
    ("narrows_proxy::rt", "sockets and buffers"),
    ("narrows_proxy", "the rest of the worker"),
    ("tokio", "runtime"),
    ("mio", "runtime"),
];

/// How much more a case may cost than the file says.
const TOLERANCE: f64 = 0.03;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_of_the_function_and_not_of_what_it_calls() {
        let dump = "fn=narrows_proxy::pool::Pool::lease\n10 5\ncfn=<tokio::task::x>::y\ncalls=1 3\n11 700\n12 2\n\
                    fn=<tokio::task::x>::y\n3 700\nfn=memcpy\n1 30\nsummary: 737\n";
        let costs = by_part(dump);
        assert_eq!(costs.get("pool"), Some(&7));
        assert_eq!(costs.get("runtime"), Some(&700));
        assert_eq!(costs.get("libc and the standard library"), Some(&30));
    }

    #[test]
    fn a_case_that_costs_more_than_the_file_says_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let figures =
            |total| BTreeMap::from([("text-1".to_owned(), Figures { total, parts: BTreeMap::new() })]);
        fs::write(file.path(), serde_json::to_string(&figures(1_000.0)).unwrap()).unwrap();
        assert!(check(file.path(), &figures(1_029.0)).is_ok());
        let error = check(file.path(), &figures(1_031.0)).unwrap_err().to_string();
        assert!(error.contains("text-1 costs 1031 instructions instead of 1000"), "{error}");
    }
}
