//! sysbench on a real server: directly and through each proxy.
//!
//! Here the server saturates, not the proxy. The tables show that a real workload runs without errors, how much speed
//! it loses, and the proxy's share of the CPU.

mod output;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Args;

use self::output::Outcome;
use crate::compare::median;
use crate::peers::{self, Account, Running, Setup};
use crate::process::{Cpu, Process, find_program};
use crate::server::{self, Server};
use crate::socket::Address;

/// Options of `sysbench`.
#[derive(Debug, Args)]
pub struct SysbenchFlags {
    /// A running primary, IP:PORT; if not given, a throw-away mariadbd is started.
    #[arg(long)]
    server: Option<String>,
    /// Running replicas of it, IP:PORT, for the reads through Narrows.
    #[arg(long, value_delimiter = ',')]
    replicas: Vec<String>,
    /// Account on the servers.
    #[arg(long, default_value = "sbtest")]
    user: String,
    /// Its password.
    #[arg(long, default_value = "sbtest")]
    password: String,
    /// Schema of the tables; on a running server it must exist.
    #[arg(long, default_value = "sbtest")]
    schema: String,
    /// The tables already exist.
    #[arg(long)]
    no_prepare: bool,
    /// The Narrows binary.
    #[arg(long, default_value = "target/release/narrows")]
    narrows: PathBuf,
    /// Which peers take part.
    #[arg(long, value_delimiter = ',', default_value = "direct,haproxy,narrows,cached")]
    peers: Vec<String>,
    /// Sysbench scripts.
    #[arg(long, value_delimiter = ',', default_value = "oltp_point_select,oltp_read_only,oltp_read_write")]
    tests: Vec<String>,
    /// Use prepared statements instead of text.
    #[arg(long)]
    prepared: bool,
    /// Run Narrows once with each of these limits of prepared statements per server connection, and once with the
    /// default.
    #[arg(long, value_delimiter = ',')]
    max_stmts: Vec<u32>,
    /// More options for the scripts, such as --skip-trx=on; each with its dashes.
    #[arg(last = true)]
    more: Vec<String>,
    /// Threads, each with one connection.
    #[arg(long, default_value_t = 64)]
    threads: usize,
    /// Length of a run in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Rounds of each script; each runs every peer once, and the tables have the medians.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Tables.
    #[arg(long, default_value_t = 4)]
    tables: usize,
    /// Rows of each.
    #[arg(long, default_value_t = 10_000)]
    table_size: usize,
}

/// Runs the comparison; an error if a requested peer could not be measured, or any statement failed.
pub fn run(flags: &SysbenchFlags) -> io::Result<()> {
    let program = find_program("sysbench")
        .ok_or_else(|| io::Error::other("not installed: apt-get install sysbench"))?;
    let peers = peers::choose(&flags.peers)?;
    let folder = tempfile::tempdir()?;
    let account = Account { user: flags.user.clone(), password: flags.password.clone() };
    let own = match flags.server {
        None => Some(Server::start(folder.path(), &account, &flags.schema)?),
        Some(_) => None,
    };
    let primary = own.as_ref().map(Server::address).or_else(|| flags.server.clone()).unwrap_or_default();
    let mut setup = Setup {
        primary,
        replicas: flags.replicas.clone(),
        account,
        folder: folder.path(),
        core: None,
        narrows: &flags.narrows,
        rules: peers::Rules::default(),
        max_stmts: None,
        baseline: None,
        other: None,
        counted: None,
        variables: &[],
    };
    let bench = Bench { program: &program, flags };
    if !flags.no_prepare {
        bench.prepare(&setup)?;
    }
    let mut parties: Vec<_> =
        peers.into_iter().map(|peer| (peer.name.to_owned(), (peer.start)(&setup))).collect();
    for most in &flags.max_stmts {
        setup.max_stmts = Some(*most);
        parties.push((format!("stmts {most}"), peers::narrows(&setup)));
    }
    let mut lame = Vec::new();
    for test in &flags.tests {
        bench.measure_all(test, &parties, &mut lame)?;
    }
    if lame.is_empty() {
        return Ok(());
    }
    Err(io::Error::other(format!("not measured, or with errors: {}", lame.join(", "))))
}

/// One run of a script.
struct Run {
    outcome: Outcome,
    /// CPU of the proxy, and the wall-clock time in which it was used; `None` without a proxy.
    proxy: Option<(Cpu, f64)>,
}

/// One line of a table: all runs of a script through one peer.
struct Row(Vec<Run>);

impl Row {
    /// The median of a figure over the runs.
    fn median(&self, figure: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        let mut figures: Vec<f64> = self.0.iter().filter_map(figure).collect();
        figures.sort_by(f64::total_cmp);
        median(&figures)
    }

    fn sum(&self, figure: impl Fn(&Outcome) -> u64) -> u64 {
        self.0.iter().map(|run| figure(&run.outcome)).sum()
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of =
            |figure: fn(&Outcome) -> f64| self.median(|run| Some(figure(&run.outcome))).unwrap_or_default();
        let (tps, qps) = (of(|it| it.transactions_per_second), of(|it| it.queries_per_second));
        let (p99, errors, reconnects) =
            (of(|it| it.p99_ms), self.sum(|it| it.errors), self.sum(|it| it.reconnects));
        write!(f, "{tps:>9.0}{qps:>10.0}{p99:>10.2}{errors:>9}{reconnects:>13}")?;
        let each = self.median(|run| {
            let queries = run.outcome.queries.max(1) as f64;
            run.proxy.as_ref().map(|(cpu, _)| cpu.used.as_secs_f64() * 1e6 / queries)
        });
        let busy = self
            .median(|run| run.proxy.as_ref().map(|(cpu, seconds)| cpu.used.as_secs_f64() / seconds * 100.0));
        match each.zip(busy) {
            None => write!(f, "{:>13}{:>12}", "-", "-"),
            Some((each, busy)) => write!(f, "{each:>13.2}{busy:>12.0}"),
        }
    }
}

struct Bench<'b> {
    program: &'b Path,
    flags: &'b SysbenchFlags,
}

impl Bench<'_> {
    /// Runs a script through each of the parties, and prints the table; notes in `lame` who did not do all of it.
    fn measure_all(
        &self,
        test: &str,
        parties: &[(String, io::Result<Running>)],
        lame: &mut Vec<String>,
    ) -> io::Result<()> {
        let flags = self.flags;
        let protocol = if flags.prepared { "prepared statements" } else { "text protocol" };
        println!(
            "\n{test}, {} threads, {} rounds of {} s, {protocol}",
            flags.threads, flags.rounds, flags.seconds
        );
        println!(
            "  {:<10}{:>9}{:>10}{:>10}{:>9}{:>13}{:>13}{:>12}",
            "", "tps", "queries/s", "p99 ms", "errors", "reconnects", "CPU us/query", "CPU busy %"
        );
        let mut all: Vec<Result<Row, String>> = parties.iter().map(|_| Ok(Row(Vec::new()))).collect();
        for _ in 0..flags.rounds {
            for (measured, (_, started)) in all.iter_mut().zip(parties) {
                let run = match started {
                    Ok(running) => self.measure(test, running).map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                };
                match (run, &mut *measured) {
                    (Ok(run), Ok(row)) => row.0.push(run),
                    (Err(error), _) => *measured = Err(error),
                    (Ok(_), Err(_)) => {}
                }
            }
        }
        for (measured, (name, _)) in all.iter().zip(parties) {
            if !matches!(measured, Ok(row) if row.sum(|it| it.errors) == 0) {
                lame.push(format!("{name} in {test}"));
            }
            match measured {
                Ok(row) => println!("  {name:<10}{row}"),
                Err(error) => println!("  {name:<10}!! NOT MEASURED: {error}"),
            }
            io::stdout().flush()?;
        }
        Ok(())
    }

    /// Fills the tables and waits until the replicas have them.
    fn prepare(&self, setup: &Setup) -> io::Result<()> {
        let primary = setup.primary.parse().map_err(io::Error::other)?;
        self.sysbench("oltp_read_write", &primary, "cleanup")?;
        self.sysbench("oltp_read_write", &primary, "prepare")?;
        for replica in &setup.replicas {
            server::wait_for_copy(setup, &self.flags.schema, self.flags.tables, replica)?;
        }
        Ok(())
    }

    fn measure(&self, test: &str, running: &Running) -> io::Result<Run> {
        let cpu = || running.process.as_ref().map(Process::cpu).transpose();
        let (before, begun) = (cpu()?, Instant::now());
        let printed = self.sysbench(test, &running.address, "run")?;
        let (after, seconds) = (cpu()?, begun.elapsed().as_secs_f64());
        let outcome = Outcome::read(&printed)
            .ok_or_else(|| io::Error::other(format!("cannot read what sysbench printed:\n{printed}")))?;
        Ok(Run { outcome, proxy: before.zip(after).map(|(before, after)| (after.since(before), seconds)) })
    }

    /// Runs one command of sysbench and returns what it printed.
    fn sysbench(&self, test: &str, address: &Address, command: &str) -> io::Result<String> {
        let flags = self.flags;
        let mut process = Command::new(self.program);
        match address {
            Address::Tcp(address) => process
                .arg(format!("--mysql-host={}", address.ip()))
                .arg(format!("--mysql-port={}", address.port())),
            Address::Unix(path) => process.arg(format!("--mysql-socket={}", path.display())),
        };
        let output = process
            .arg(format!("--mysql-user={}", flags.user))
            .arg(format!("--mysql-password={}", flags.password))
            .arg(format!("--mysql-db={}", flags.schema))
            .arg(format!("--tables={}", flags.tables))
            .arg(format!("--table-size={}", flags.table_size))
            .arg(format!("--threads={}", if command == "run" { flags.threads } else { 1 }))
            .arg(format!("--time={}", flags.seconds))
            .arg("--percentile=99")
            .arg(format!("--db-ps-mode={}", if flags.prepared { "auto" } else { "disable" }))
            .args(&flags.more)
            .args([test, command])
            .stdin(Stdio::null())
            .output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(printed);
        }
        let complaint = printed.lines().find(|line| line.contains("FATAL")).unwrap_or("no reason printed");
        Err(io::Error::other(format!("sysbench {command} {test}: {}: {complaint}", output.status)))
    }
}
