//! mysqldump of a large table on a real server, through each proxy: what each proxy spends per row.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Args;

use crate::client;
use crate::peers::Running;
use crate::process::{Process, find_program};
use crate::stand::Stand;

/// Options of `dump`.
#[derive(Debug, Args)]
pub struct DumpFlags {
    /// The Narrows binary.
    #[arg(long, default_value = "target/release/narrows")]
    narrows: PathBuf,
    /// Which peers take part.
    #[arg(long, value_delimiter = ',', default_value = "direct,haproxy,narrows,fastforward")]
    peers: Vec<String>,
    /// Rows of the table, of 200 bytes each.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Runs per peer; the cheapest counts.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
}

const SCHEMA: &str = "dump";

/// Runs the comparison; an error if anything could not be measured.
pub fn run(flags: &DumpFlags) -> io::Result<()> {
    let program = find_program("mariadb-dump")
        .or_else(|| find_program("mysqldump"))
        .ok_or_else(|| io::Error::other("mysqldump is missing: apt-get install mariadb-client"))?;
    let fill = format!(
        "CREATE TABLE {SCHEMA}.t (id INT PRIMARY KEY, c CHAR(189) NOT NULL);\n\
         INSERT INTO {SCHEMA}.t SELECT seq, REPEAT('x', 189) FROM {SCHEMA}.seq_1_to_{};",
        flags.rows
    );
    let Stand { parties, account, .. } = &Stand::start(SCHEMA, &fill, &flags.peers, &flags.narrows)?;
    let mut costs: Vec<(f64, f64)> = vec![(f64::MAX, f64::MAX); parties.len()];
    for _ in 0..flags.rounds {
        for ((_, running), (seconds, cpu)) in parties.iter().zip(&mut costs) {
            let command = client::command(&program, &running.address, account);
            let measured = dump(command, running, flags.rows)?;
            *seconds = seconds.min(measured.0);
            *cpu = cpu.min(measured.1);
        }
    }
    println!("mysqldump --quick of {} rows of 200 bytes, best of {}", flags.rows, flags.rounds);
    println!("  {:<12}{:>9}{:>14}", "", "seconds", "CPU ns/row");
    for ((name, _), (seconds, cpu)) in parties.iter().zip(costs) {
        println!("  {name:<12}{seconds:>9.2}{cpu:>14.1}");
    }
    Ok(())
}

/// Dumps once; returns seconds, and the proxy's CPU per row in nanoseconds.
fn dump(mut command: Command, running: &Running, rows: u64) -> io::Result<(f64, f64)> {
    let cpu = || running.process.as_ref().map(Process::cpu).transpose();
    let (before, began) = (cpu()?, Instant::now());
    let status = command
        .args(["--quick", "--skip-lock-tables", "--skip-opt", "--extended-insert", SCHEMA, "t"])
        .stdout(Stdio::null())
        .status()?;
    let seconds = began.elapsed().as_secs_f64();
    if !status.success() {
        return Err(io::Error::other(format!("mysqldump: {status}")));
    }
    let used = before.zip(cpu()?).map_or(0.0, |(before, after)| after.since(before).used.as_secs_f64());
    Ok((seconds, used * 1e9 / rows as f64))
}
