//! What a query costs with more and more query rules that do not match it.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use crate::compare::cases::CASES;
use crate::compare::measure;
use crate::load::{Generator, Limit, Plan, Usage};
use crate::peers::{self, Account, Rules, Running, Setup};
use crate::process::{self, Process};

/// Options of `rules`.
#[derive(Debug, Args)]
pub struct RulesFlags {
    /// The Narrows binary.
    #[arg(long, default_value = "target/release/narrows")]
    pub narrows: PathBuf,
    /// Rounds; each round runs every set of rules once.
    #[arg(long, default_value_t = 9)]
    pub rounds: usize,
    /// Length of a window in seconds.
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// Core of the mock server and the generator.
    #[arg(long, default_value_t = 0)]
    pub load_core: usize,
    /// Core of the proxy.
    #[arg(long, default_value_t = 1)]
    pub proxy_core: usize,
    /// Nice value of all parties; a negative one needs root, and helps on a busy machine.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub nice: i32,
}

/// The sets of rules, and the limit of each as a multiple of the cost of the first one.
const SETS: &[(Rules, f64)] = &[
    (Rules { digests: 0, patterns: 0, dry_run: None }, 1.0),
    (Rules { digests: 10, patterns: 0, dry_run: None }, 1.05),
    (Rules { digests: 100, patterns: 0, dry_run: None }, 1.05),
    (Rules { digests: 1_000, patterns: 0, dry_run: None }, 1.05),
    (Rules { digests: 10_000, patterns: 0, dry_run: None }, 1.05),
    (Rules { digests: 0, patterns: 1_000, dry_run: None }, 1.15),
];

/// The case of `compare` that is measured.
const CASE: &str = "point-16";

/// Narrows with one set of rules.
struct Party {
    rules: Rules,
    most: f64,
    running: Running,
    started_in: Duration,
    /// How long `LOAD MYSQL QUERY RULES TO RUNTIME` takes, in us: the median of several runs.
    load_us: f64,
    /// Nanoseconds of CPU per query in each round.
    costs: Vec<f64>,
}

/// Runs the measurement and prints a table; an error if anything could not be measured.
pub fn run(flags: &RulesFlags) -> io::Result<()> {
    let mut parties = measure_sets(flags)?;
    print_table(&mut parties, flags);
    Ok(())
}

/// The cost of a query with each set of rules that match nothing: their number and kind, and the least CPU time in us.
pub fn costs(flags: &RulesFlags) -> io::Result<Vec<(String, f64)>> {
    let name = |rules: Rules| match rules {
        Rules { digests, patterns: 0, .. } => format!("{digests}"),
        Rules { patterns, .. } => format!("{patterns} match_pattern"),
    };
    let least = |party: &Party| party.costs.iter().copied().fold(f64::INFINITY, f64::min) / 1_000.0;
    Ok(measure_sets(flags)?.iter().map(|party| (name(party.rules), least(party))).collect())
}

fn measure_sets(flags: &RulesFlags) -> io::Result<Vec<Party>> {
    let case = CASES.iter().find(|case| case.name == CASE).expect("the case is in the table");
    let _priority = if flags.nice == 0 { None } else { Some(process::Priority::set(flags.nice)?) };
    let (mock, primary) = Process::start_own(Some(flags.load_core), &["mock-server".to_owned()])?;
    let account = Account { user: "bench".to_owned(), password: "bench".to_owned() };
    let folders = SETS.iter().map(|_| tempfile::tempdir()).collect::<io::Result<Vec<_>>>()?;
    let start = |((rules, most), folder): (&(Rules, f64), &tempfile::TempDir)| {
        let setup = Setup {
            primary: primary.clone(),
            replicas: Vec::new(),
            account: account.clone(),
            folder: folder.path(),
            core: Some(flags.proxy_core),
            narrows: &flags.narrows,
            rules: *rules,
            max_stmts: None,
            baseline: None,
            other: None,
            counted: None,
            variables: &[],
        };
        let began = Instant::now();
        let running = peers::narrows(&setup)?;
        let started_in = began.elapsed();
        let load_us = time_of_loading(&running)?;
        Ok(Party { rules: *rules, most: *most, running, started_in, load_us, costs: Vec::new() })
    };
    let mut parties = SETS.iter().zip(&folders).map(start).collect::<io::Result<Vec<Party>>>()?;
    process::pin_to(flags.load_core)?;
    for round in 0..flags.rounds {
        for turn in 0..parties.len() {
            let index = (round + turn) % parties.len();
            let Some(party) = parties.get_mut(index) else { continue };
            let window = Duration::from_secs_f64(flags.seconds);
            let sample = measure(case, &party.running, &mock, &account, window)?;
            let cpu = sample.proxy_cpu_ns.ok_or_else(|| io::Error::other("no CPU figure"))?;
            party.costs.push(cpu as f64 / sample.report.queries.max(1) as f64);
        }
    }
    Ok(parties)
}

/// Loads the rules again several times, as an administrator does.
fn time_of_loading(running: &Running) -> io::Result<f64> {
    let target = running.admin.clone().ok_or_else(|| io::Error::other("no admin interface"))?;
    let mut generator = Generator::new(Plan {
        target,
        user: "admin".to_owned(),
        password: "admin".to_owned(),
        schema: String::new(),
        connections: 1,
        statement: "LOAD MYSQL QUERY RULES TO RUNTIME".to_owned(),
        rows: 0,
        usage: Usage::Keep,
        deprecate_eof: true,
    })?;
    let report = generator.measure(Limit::Queries(LOADS))?;
    match report.errors {
        0 => Ok(report.p50_us),
        _ => Err(io::Error::other(format!("LOAD failed: {:?}", report.first_error))),
    }
}

/// How many times rules are loaded.
const LOADS: u64 = 5;

fn print_table(parties: &mut [Party], flags: &RulesFlags) {
    println!(
        "CPU of Narrows per query, {}, {} rounds of {} s; rules that match nothing, ahead of two that do.",
        CASE, flags.rounds, flags.seconds
    );
    println!(
        "{:>8} {:>8} {:>12} {:>12} {:>8} {:>10} {:>10} {:>10}",
        "digests", "patterns", "least us", "median us", "ratio", "at most", "start ms", "LOAD ms"
    );
    let mut base = None;
    for party in parties {
        party.costs.sort_by(f64::total_cmp);
        let least = party.costs.first().copied().unwrap_or_default();
        let median = party.costs.get(party.costs.len() / 2).copied().unwrap_or_default();
        // Other load on the machine can only make a round slower.
        let ratio = least / *base.get_or_insert(least);
        let remark = if ratio > party.most { "  !! above the limit" } else { "" };
        println!(
            "{:>8} {:>8} {:>12.2} {:>12.2} {:>8.3} {:>10.2} {:>10} {:>10.1}{remark}",
            party.rules.digests,
            party.rules.patterns,
            least / 1_000.0,
            median / 1_000.0,
            ratio,
            party.most,
            party.started_in.as_millis(),
            party.load_us / 1_000.0
        );
    }
}
