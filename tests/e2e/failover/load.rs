//! Runs of sysbench (`oltp_read_write`) that end when a test says so.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use narrows_testkit::{Process, RealServer, TempFolder, wait_until};

/// What sysbench does.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Rows of each of its four tables.
    pub rows: u32,
    /// Whether each transaction writes two rows of [`super::ledger::TABLE`], and reports its end.
    pub keeps_ledger: bool,
}

/// A run that ends when a file is there.
pub struct Run {
    process: Process,
    folder: TempFolder,
}

impl Run {
    /// Starts it with so many threads, and waits until it has written.
    pub fn start(load: Load, port: u16, threads: usize) -> Run {
        let folder = TempFolder::new("sysbench");
        let report = fs::File::create(folder.file("report")).expect("create the report");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/failover/slow_events.lua");
        let mut command = load.command();
        command
            .args(["--mysql-host=127.0.0.1", &format!("--mysql-port={port}"), "--time=0", "--events=0"])
            .arg(format!("--threads={threads}"))
            .arg(script)
            .arg("run")
            .env("SWITCHOVER_STOP", folder.file("stop"))
            .env("SWITCHOVER_SLOW_US", SLOW.as_micros().to_string())
            .env("SWITCHOVER_LEDGER", if load.keeps_ledger { "1" } else { "" })
            .stdin(Stdio::null())
            .stdout(report.try_clone().expect("a file descriptor"))
            .stderr(report);
        let run = Run { process: Process::spawn(command).expect(INSTALLED), folder };
        wait_until("sysbench has begun", || run.report().matches("BEGUN").count() == threads);
        run
    }

    pub fn report(&self) -> String {
        fs::read_to_string(self.folder.file("report")).unwrap_or_default()
    }

    /// Whether it runs, and nothing has failed that ends it.
    pub fn goes_on(&mut self) -> bool {
        self.process.try_wait().is_none() && !self.report().contains("FAILED")
    }

    /// Ends it; returns its report.
    pub fn stop(mut self) -> String {
        fs::write(self.folder.file("stop"), "").expect("write the file that ends it");
        let status = self.process.wait_for(Duration::from_secs(60));
        let report = self.report();
        assert!(status.is_some_and(|status| status.success()), "{status:?}\n{report}");
        report
    }
}

impl Load {
    fn command(self) -> Command {
        let mut command = Command::new("sysbench");
        command
            .args(["--mysql-user=shop", "--mysql-password=shop", "--mysql-db=shop", "--mysql-ssl=off"])
            .args(["--tables=4", "--rand-type=uniform", &format!("--table-size={}", self.rows)]);
        command
    }

    /// Creates and fills the tables.
    pub fn prepare(self, server: &RealServer) {
        let mut command = self.command();
        command.arg("--mysql-host=localhost").arg(format!("--mysql-socket={}", server.socket().display()));
        let output = command.args(["oltp_common", "prepare"]).output().expect(INSTALLED);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// A transaction that takes less is like any other.
pub const SLOW: Duration = Duration::from_millis(50);

const INSTALLED: &str = "sysbench is installed; scripts/setup.sh load does that";
