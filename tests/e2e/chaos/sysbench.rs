//! sysbench alongside the clients: reads outside of transactions, as prepared statements and as text, of which none may
//! fail, and transactions, whose errors are recorded.
//!
//! It runs with `until_told.lua` until the faults are over, because the duration is not known in advance.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use narrows_testkit::{Process, RealServer, TempFolder, wait_until};

use super::load::{Failure, What};
use crate::sysbench::figure;

/// All its runs; they end when told.
pub struct Sysbench {
    runs: Vec<Run>,
    folder: TempFolder,
    generation: u64,
}

/// A run in progress.
struct Run {
    order: &'static Order,
    process: Process,
}

/// What a run does.
struct Order {
    name: &'static str,
    what: What,
    script: &'static str,
    arguments: &'static [&'static str],
}

/// The outcome of a run.
pub struct Outcome {
    /// For the report.
    pub line: String,
    pub failures: Vec<Failure>,
}

const ORDERS: [Order; 3] = [
    Order {
        name: "reads by EXECUTE",
        what: What::Prepared,
        script: "oltp_read_only",
        arguments: &["--skip-trx=on", "--threads=2"],
    },
    Order {
        name: "reads by text",
        what: What::LongRead,
        script: "oltp_read_only",
        arguments: &["--skip-trx=on", "--threads=2", "--db-ps-mode=disable"],
    },
    // One client, which cannot run into deadlocks: its errors are caused by faults.
    Order {
        name: "transactions",
        what: What::Transaction,
        script: "oltp_read_write",
        arguments: &["--threads=1"],
    },
];

/// Creates its tables on a server.
pub fn prepare(server: &RealServer) {
    server.execute(&["CREATE DATABASE sbtest"]);
    let mut command = command("sbtest");
    command.arg("--mysql-host=localhost").arg(format!("--mysql-socket={}", server.socket().display()));
    let output = command.args(["oltp_common", "prepare"]).output().expect(INSTALLED);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

impl Sysbench {
    /// Starts all runs against Narrows, and waits until they have begun: nothing must fail before that.
    pub fn start(port: u16) -> Sysbench {
        let folder = TempFolder::new("sysbench");
        let runs = ORDERS.iter().map(|order| Run { order, process: order.start(port, &folder) }).collect();
        for order in &ORDERS {
            let report = || fs::read_to_string(folder.file(order.name)).unwrap_or_default();
            wait_until("sysbench has begun", || report().contains("BEGUN"));
        }
        Sysbench { runs, folder, generation: 0 }
    }

    /// Makes all of them reconnect.
    pub fn renew(&mut self) {
        self.generation += 1;
        // Nobody must read half of it.
        let (new, place) = (self.folder.file("renew.new"), self.folder.file(RENEW));
        fs::write(&new, self.generation.to_string()).expect("write the number of the generation");
        fs::rename(new, place).expect("it is in its folder");
    }

    /// Ends them; returns the outcome of each.
    pub fn stop(mut self) -> Vec<Outcome> {
        fs::write(self.folder.file(STOP), "").expect("write the file that ends them");
        self.runs.iter_mut().map(|run| run.finish(&self.folder)).collect()
    }
}

impl Order {
    fn start(&self, port: u16, folder: &TempFolder) -> Process {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/chaos/until_told.lua");
        let report = fs::File::create(folder.file(self.name)).expect("create the report");
        let mut command = command("app");
        command
            .args(["--mysql-host=127.0.0.1", &format!("--mysql-port={port}"), "--time=0", "--events=0"])
            .args(self.arguments)
            .arg(script)
            .arg("run")
            .env("CHAOS_SCRIPT", self.script)
            .env("CHAOS_STOP", folder.file(STOP))
            .env("CHAOS_RENEW", folder.file(RENEW))
            .stdin(Stdio::null())
            .stdout(report.try_clone().expect("a file descriptor"))
            .stderr(report);
        Process::spawn(command).expect(INSTALLED)
    }
}

impl Run {
    fn finish(&mut self, folder: &TempFolder) -> Outcome {
        let status = self.process.wait_for(Duration::from_secs(60));
        let report = fs::read_to_string(folder.file(self.order.name)).expect("it has been created");
        let what = self.order.what;
        let mut failures: Vec<Failure> = report.lines().filter_map(|line| failure(what, line)).collect();
        let end = Instant::now();
        let told = failures.len() as u64;
        let mut fail = |text: String| failures.push(Failure { what, from: end, to: end, text });
        if !status.is_some_and(|status| status.success()) {
            fail(format!("sysbench, {}: {status:?}:\n{report}", self.order.name));
            return Outcome { line: format!("sysbench, {}: gave up", self.order.name), failures };
        }
        let (ignored, reconnects) = (figure(&report, "ignored errors:"), figure(&report, "reconnects:"));
        // Each error is a line.
        if what.is_read() && (ignored > told || reconnects > 0) {
            fail(format!("sysbench, {}:\n{report}", self.order.name));
        }
        let slowest = report.split_once("max:").and_then(|(_, rest)| rest.split_whitespace().next());
        let slowest = slowest.unwrap_or_default();
        let line = format!(
            "sysbench, {:<18} {:7} events, {:8} statements, the slowest event {slowest:>8} ms, {ignored} errors, {reconnects} reconnects",
            self.order.name,
            figure(&report, "transactions:"),
            figure(&report, "queries:"),
        );
        Outcome { line, failures }
    }
}

/// An error as `until_told.lua` reports it.
fn failure(what: What, line: &str) -> Option<Failure> {
    let mut words = line.strip_prefix("FAILED ")?.splitn(3, ' ');
    let mut time = || Some(SystemTime::UNIX_EPOCH + Duration::from_micros(words.next()?.parse().ok()?));
    let (from, to) = (instant(time()?), instant(time()?));
    Some(Failure { what, from, to, text: words.next()?.to_owned() })
}

fn instant(time: SystemTime) -> Instant {
    Instant::now() - time.elapsed().unwrap_or_default()
}

fn command(user: &str) -> Command {
    let mut command = Command::new("sysbench");
    command
        .args([format!("--mysql-user={user}"), format!("--mysql-password={user}")])
        .args(["--mysql-db=sbtest", "--mysql-ssl=off", "--tables=2", "--table-size=2000"])
        .arg("--rand-type=uniform");
    command
}

/// The name of the file that ends them.
const STOP: &str = "stop";

/// The name of the file whose change makes them reconnect.
const RENEW: &str = "renew";

const INSTALLED: &str = "sysbench is installed; scripts/setup.sh load does that";
