//! mysqlslap on a real server: the same small table read again and again by more and more clients, directly, through
//! Narrows and from its cache. This is the traditional benchmark of caching proxies.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::client;
use crate::peers::{Account, Running};
use crate::process::{Process, find_program};
use crate::stand::Stand;

/// Options of `slap`.
#[derive(Debug, Args)]
pub struct SlapFlags {
    /// The Narrows binary.
    #[arg(long, default_value = "target/release/narrows")]
    narrows: PathBuf,
    /// Which peers take part.
    #[arg(long, value_delimiter = ',', default_value = "direct,narrows,cached")]
    peers: Vec<String>,
    /// Numbers of concurrent clients; each gives a line.
    #[arg(long, value_delimiter = ',', default_value = "8,16,32,64,128,256")]
    clients: Vec<u32>,
    /// Total number of statements.
    #[arg(long, default_value_t = 20_000)]
    queries: u32,
    /// Rows of the table, of a hundred bytes each.
    #[arg(long, default_value_t = 100)]
    rows: u32,
    /// Runs per peer; the fastest counts.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
}

const SCHEMA: &str = "slap";
const STATEMENT: &str = "SELECT * FROM proxytest";

/// Runs the comparison; an error if anything could not be measured.
pub fn run(flags: &SlapFlags) -> io::Result<()> {
    let program = find_program("mariadb-slap")
        .or_else(|| find_program("mysqlslap"))
        .ok_or_else(|| io::Error::other("mysqlslap is missing: apt-get install mariadb-client"))?;
    let fill = format!(
        "CREATE TABLE {SCHEMA}.proxytest (id INT PRIMARY KEY, c CHAR(96) NOT NULL);\n\
         INSERT INTO {SCHEMA}.proxytest SELECT seq, REPEAT('x', 96) FROM {SCHEMA}.seq_1_to_{};",
        flags.rows
    );
    let Stand { parties, account, .. } = &Stand::start(SCHEMA, &fill, &flags.peers, &flags.narrows)?;
    println!("{} x {STATEMENT}, {} rows of 100 bytes, best of {}", flags.queries, flags.rows, flags.rounds);
    println!(
        "  {:<10}{:>9}{:>10}{:>12}{:>10}{:>14}",
        "", "clients", "seconds", "queries/s", "x direct", "CPU us/query"
    );
    for clients in &flags.clients {
        let mut direct_seconds = None;
        for (name, running) in parties {
            let Measured { seconds, cpu_us } = best(&program, flags, *clients, running, account)?;
            let base = *direct_seconds.get_or_insert(seconds);
            let rate = f64::from(flags.queries) / seconds;
            let cpu = cpu_us.map_or_else(|| "-".to_owned(), |us| format!("{us:.2}"));
            println!("  {name:<10}{clients:>9}{seconds:>10.3}{rate:>12.0}{:>10.2}{cpu:>14}", base / seconds);
            io::stdout().flush()?;
        }
    }
    Ok(())
}

/// One line: seconds, and the proxy's CPU per statement.
#[derive(Debug, Clone, Copy)]
struct Measured {
    seconds: f64,
    cpu_us: Option<f64>,
}

/// The fastest of several runs.
fn best(
    program: &Path,
    flags: &SlapFlags,
    clients: u32,
    running: &Running,
    account: &Account,
) -> io::Result<Measured> {
    let mut best: Option<Measured> = None;
    for _ in 0..flags.rounds {
        let cpu = || running.process.as_ref().map(Process::cpu).transpose();
        let before = cpu()?;
        let output = client::command(program, &running.address, account)
            .arg(format!("--concurrency={clients}"))
            .arg(format!("--number-of-queries={}", flags.queries))
            .arg(format!("--query={STATEMENT}"))
            .arg(format!("--create-schema={SCHEMA}"))
            .arg("--no-drop")
            .output()?;
        let seconds = seconds(&client::checked(output)?)?;
        let used = before.zip(cpu()?).map(|(before, after)| after.since(before).used.as_secs_f64());
        let measured = Measured { seconds, cpu_us: used.map(|used| used * 1e6 / f64::from(flags.queries)) };
        if best.is_none_or(|best| seconds < best.seconds) {
            best = Some(measured);
        }
    }
    best.ok_or_else(|| io::Error::other("no rounds"))
}

/// The average that mysqlslap prints.
fn seconds(printed: &str) -> io::Result<f64> {
    let line = printed.lines().find(|line| line.contains("Average number of seconds to run all queries"));
    let seconds = line.and_then(|line| line.split(':').nth(1)?.split_whitespace().next()?.parse().ok());
    seconds.ok_or_else(|| io::Error::other(format!("cannot read what mysqlslap printed:\n{printed}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_is_read() {
        let printed =
            "Benchmark\n\tAverage number of seconds to run all queries: 1.234 seconds\n\tMinimum number";
        assert_eq!(seconds(printed).expect("a number"), 1.234);
        assert!(seconds("nothing").is_err());
    }
}
