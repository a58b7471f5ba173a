//! The side-by-side comparison: every peer in every case, in alternating rounds, and a table per case.
//!
//! The mock server and the load generator (this process) share one core; the proxy has another core to itself. The
//! figure is the proxy's CPU time in a window divided by what the generator received in that window.

pub mod cases;
mod table;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tempfile::TempDir;

use self::cases::{CASES, Case};
use self::table::render;
pub use self::table::{Sample, Series, median};
use crate::load::{Generator, Limit, Plan};
use crate::peers::{self, Account, Peer, Running, Setup};
use crate::process::{self, Process};

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct CompareFlags {
    /// The Narrows binary.
    #[arg(long, default_value = "target/release/narrows")]
    pub narrows: PathBuf,
    /// Another Narrows binary, for the peer `baseline`.
    #[arg(long)]
    pub baseline: Option<PathBuf>,
    /// A shell command that runs any proxy in the foreground, for the peer `other`. It listens on {listen} and forwards to
    /// {server}; the account is bench, with password bench.
    #[arg(long, env = "PEER_CMD")]
    pub peer_cmd: Option<String>,
    /// Which peers take part.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "direct,forwarder,haproxy,narrows,fastforward,cached"
    )]
    pub peers: Vec<String>,
    /// Which cases; all if not given.
    #[arg(long, value_delimiter = ',')]
    pub cases: Vec<String>,
    /// Rounds per case; each round runs every peer once.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Length of a window in seconds.
    #[arg(long, default_value_t = 1.2)]
    pub seconds: f64,
    /// Three rounds of 0.5 seconds: under a minute in total, but noisier.
    #[arg(long)]
    pub quick: bool,
    /// Also write every sample to this file.
    #[arg(long)]
    json: Option<PathBuf>,
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

/// Runs the comparison; an error if a requested peer could not be measured, or any query failed.
pub fn run(flags: &CompareFlags) -> io::Result<()> {
    let cases = choose_cases(&flags.cases)?;
    let scene = Scene::start(flags)?;
    describe(&scene.parties, flags);
    let all = scene.measure_all(&cases, flags)?;
    if let Some(file) = &flags.json {
        fs::write(file, serde_json::to_string_pretty(&all)?)?;
    }
    check(&all)
}

/// The peers of a comparison, ready to be measured.
pub struct Scene {
    pub parties: Vec<Party>,
    pub account: Account,
    mock: Process,
    _folder: TempDir,
    _priority: Option<process::Priority>,
}

impl Scene {
    /// Starts the mock server and the peers, and moves this process to the core of the load.
    pub fn start(flags: &CompareFlags) -> io::Result<Scene> {
        let peers = peers::choose(&flags.peers)?;
        if flags.load_core == flags.proxy_core {
            return Err(io::Error::other("the proxy needs a core of its own"));
        }
        let priority = if flags.nice == 0 { None } else { Some(process::Priority::set(flags.nice)?) };
        let (mock, mock_address) = Process::start_own(Some(flags.load_core), &["mock-server".to_owned()])?;
        let folder = tempfile::tempdir()?;
        let account = Account { user: "bench".to_owned(), password: "bench".to_owned() };
        let setup = Setup {
            primary: mock_address,
            replicas: Vec::new(),
            account: account.clone(),
            folder: folder.path(),
            core: Some(flags.proxy_core),
            narrows: &flags.narrows,
            rules: peers::Rules::default(),
            max_stmts: None,
            baseline: flags.baseline.as_deref(),
            other: flags.peer_cmd.as_deref(),
            counted: None,
            variables: &[],
        };
        let parties: Vec<Party> = peers.into_iter().map(|peer| Party::start(peer, &setup)).collect();
        process::pin_to(flags.load_core)?;
        Ok(Scene { parties, account, mock, _folder: folder, _priority: priority })
    }

    /// Measures all peers in these cases, and prints a table for each.
    pub fn measure_all(&self, cases: &[&'static Case], flags: &CompareFlags) -> io::Result<Vec<Series>> {
        let (rounds, seconds) = if flags.quick { (3, 0.5) } else { (flags.rounds, flags.seconds) };
        let window = Duration::from_secs_f64(seconds);
        let mut all = Vec::new();
        for case in cases {
            let series = measure_case(case, &self.parties, &self.mock, &self.account, rounds, window);
            print!("{}", render(case, rounds, window, &series));
            io::stdout().flush()?;
            all.extend(series);
        }
        Ok(all)
    }
}

/// An error that names what could not be measured, and what had errors.
pub fn check(all: &[Series]) -> io::Result<()> {
    let is_lame = |series: &&Series| series.failure.is_some() || series.errors() > 0;
    let name = |series: &Series| format!("{} in {}", series.peer, series.case);
    let lame: Vec<String> = all.iter().filter(is_lame).map(name).collect();
    if lame.is_empty() {
        return Ok(());
    }
    Err(io::Error::other(format!("not measured, or with errors: {}", lame.join(", "))))
}

/// A peer, whether it serves or failed to start.
pub struct Party {
    pub peer: &'static Peer,
    pub running: Result<Running, String>,
}

impl Party {
    fn start(peer: &'static Peer, setup: &Setup) -> Party {
        Party { peer, running: (peer.start)(setup).map_err(|error| error.to_string()) }
    }
}

pub fn choose_cases(names: &[String]) -> io::Result<Vec<&'static Case>> {
    if let Some(unknown) = names.iter().find(|name| CASES.iter().all(|case| case.name != name.as_str())) {
        let known: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        return Err(io::Error::other(format!(
            "unknown case {unknown:?}; the cases are {}",
            known.join(", ")
        )));
    }
    Ok(CASES.iter().filter(|case| names.is_empty() || names.iter().any(|name| name == case.name)).collect())
}

fn describe(parties: &[Party], flags: &CompareFlags) {
    println!(
        "Mock server and load generator on core {}, the proxy on core {}.",
        flags.load_core, flags.proxy_core
    );
    println!("CPU: minimum of the rounds, then their median; the ratios compare the medians.");
    println!(
        "busy: share of its core the proxy used; wait: share of the time that something else kept it off that core."
    );
    println!(
        "Rates and latencies: medians of the rounds; max: of all rounds. load gen, mock: their own CPU."
    );
    for Party { peer, running } in parties {
        println!("  {:<10}{}", peer.name, peer.terms);
        if let Err(why) = running {
            println!("  {:<10}!! WILL BE MISSING: {why}", "");
        }
    }
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or_default();
    if load > 0.5 {
        println!("!! The machine is busy (load {load}): figures will be noisy.");
    }
}

/// All peers in one case. The order rotates by one in each round.
fn measure_case(
    case: &'static Case,
    parties: &[Party],
    mock: &Process,
    account: &Account,
    rounds: usize,
    window: Duration,
) -> Vec<Series> {
    let mut all: Vec<Series> = parties
        .iter()
        .map(|Party { peer, running }| Series {
            case: case.name,
            unit: case.unit,
            peer: peer.name,
            samples: Vec::with_capacity(rounds),
            failure: running.as_ref().err().cloned(),
        })
        .collect();
    for round in 0..rounds {
        for turn in 0..parties.len() {
            let index = (round + turn) % parties.len();
            let Ok(running) = &parties[index].running else { continue };
            if case.socket && running.socket.is_none() {
                continue;
            }
            match measure(case, running, mock, account, window) {
                Ok(sample) => all[index].samples.push(sample),
                Err(error) => all[index].failure = Some(format!("round {}: {error}", round + 1)),
            }
        }
    }
    all
}

/// One window of one peer.
pub fn measure(
    case: &Case,
    running: &Running,
    mock: &Process,
    account: &Account,
    window: Duration,
) -> io::Result<Sample> {
    let mut generator = Generator::new(Plan {
        target: running.socket.iter().find(|_| case.socket).unwrap_or(&running.address).clone(),
        user: account.user.clone(),
        password: account.password.clone(),
        schema: String::new(),
        connections: case.connections,
        statement: case.statement.to_owned(),
        rows: case.rows,
        usage: case.usage,
        deprecate_eof: true,
    })?;
    generator.warm_up(window / 5)?;
    let proxy_cpu = || running.process.as_ref().map(Process::cpu).transpose();
    let (proxy_before, mock_before) = (proxy_cpu()?, mock.cpu()?);
    let report = generator.measure(Limit::Time(window))?;
    let (proxy_after, mock_after) = (proxy_cpu()?, mock.cpu()?);
    generator.finish()?;
    let proxy = proxy_before.zip(proxy_after).map(|(before, after)| after.since(before));
    Ok(Sample {
        report,
        proxy_cpu_ns: proxy.map(|cpu| cpu.used.as_nanos() as u64),
        proxy_wait_ns: proxy.map(|cpu| cpu.waited.as_nanos() as u64),
        mock_cpu_ns: mock_after.since(mock_before).used.as_nanos() as u64,
    })
}
