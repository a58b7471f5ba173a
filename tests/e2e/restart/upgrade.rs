//! A newer program replaces the running one; a program that cannot serve does not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use narrows_testkit::{
    Conversation, FakeMysql, Flavour, Move, Narrows, NarrowsConfig, RawClient, ServerOptions, TempFolder,
    command,
};

use super::{BINARY, Connects, upgrade};
use crate::sysbench::{figure, sysbench};

/// A program in a separate folder, which can be replaced while it runs.
struct Program {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Program {
    fn new() -> Program {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let program = Program { path: folder.path().join("narrows"), _folder: folder };
        program.copy();
        program
    }

    /// Replaces it with another program, as an installer does.
    fn replace(&self, install: impl Fn(&Path)) {
        let new = self.path.with_extension("new");
        install(&new);
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).expect("it is ours");
        fs::rename(&new, &self.path).expect("it is ours");
    }

    fn copy(&self) {
        self.write("cp \"$1\" \"$2\"", BINARY);
    }

    fn script(&self, text: &str) {
        self.write("printf %s \"$1\" > \"$2\"", text);
    }

    /// A file that is open for writing cannot be executed, and processes that other tests start inherit the files that
    /// are open here, so another process writes it.
    fn write(&self, command: &str, what: &str) {
        self.replace(|new| {
            let status = Command::new("sh").args(["-c", command, "sh", what]).arg(new).status();
            assert!(status.expect("a shell").success(), "room for a program");
        });
    }

    fn start(&self) -> (FakeMysql, Narrows) {
        let server = FakeMysql::start(Conversation::new().on("DO 1", &[Move::ok()]));
        let narrows = self.start_before(server.port());
        (server, narrows)
    }

    fn start_before(&self, port: u16) -> Narrows {
        let config = NarrowsConfig::in_front_of(port).supervised().drain_timeout(20);
        Narrows::start(self.path.to_str().expect("UTF-8"), &config)
    }
}

#[test]
fn an_upgrade_refuses_nobody_and_loses_nobody() {
    let program = Program::new();
    let (_server, mut narrows) = program.start();
    let supervisor = narrows.process().pid();
    let mut client = narrows.client();
    let former = narrows.worker();
    let connects = Connects::begin(&narrows, &["-i", "500", "-c", "3000", "-q", "2", "-t", "4"]);
    for round in 0..3 {
        program.copy();
        let (done, text) = upgrade(Path::new(BINARY), &narrows);
        assert!(done, "round {round}: {text}\n{}", narrows.log());
        assert!(text.starts_with("upgraded: process "), "{text}");
        client.query("DO 1").ok().expect("existing clients continue");
    }
    let report = connects.report();
    println!("{report}");
    assert_eq!((&report["ok"], &report["err"]), (&3_000.into(), &0.into()), "{}", narrows.log());
    assert_ne!(narrows.worker(), former);
    // The supervisor is the newer program too, as the same process.
    assert!(narrows.process().try_wait().is_none());
    let running = fs::read_link(format!("/proc/{supervisor}/exe")).expect("it runs");
    assert_eq!(running, program.path);
    // The old process waits for its client, and for nothing else.
    assert!(Path::new(&format!("/proc/{former}")).exists());
    drop(client);
    wait_for_end(former);
    narrows.client().query("DO 1").ok().expect("the newer one serves");
}

#[test]
fn sysbench_with_transactions_sees_nothing_of_an_upgrade() {
    let server = ServerOptions::new(Flavour::MariaDb).start();
    server.execute(&["CREATE DATABASE sbtest"]);
    sysbench(server.port(), &["oltp_common", "prepare", "--threads=4"]);
    let program = Program::new();
    let narrows = program.start_before(server.port());
    let (former, port) = (narrows.worker(), narrows.port());
    // All of its clients reconnect every three seconds.
    let work = std::thread::spawn(move || {
        (0..5).map(|_| sysbench(port, &["oltp_read_write", "run", "--threads=64", "--time=3"])).collect()
    });
    // Not before it works.
    let deadline = Instant::now() + Duration::from_secs(20);
    while clients(&narrows) < 64 {
        assert!(Instant::now() < deadline, "sysbench does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    for _ in 0..2 {
        program.copy();
        let (done, text) = upgrade(Path::new(BINARY), &narrows);
        assert!(done, "{text}");
    }
    // Each report must be of a run without errors, apart from those explained by the server's own locks.
    let reports: Vec<String> = work.join().expect("no error");
    wait_for_end(former);
    for report in &reports {
        assert!(figure(report, "transactions:") > 0, "{report}");
    }
}

#[test]
fn what_is_loaded_during_an_upgrade_runs_after_it() {
    let program = Program::new();
    let (_server, narrows) = program.start();
    let mut loaded = 0;
    for round in 0..10 {
        let mut admin = narrows.admin();
        let loads = std::thread::spawn(move || {
            let is_done = |admin: &mut RawClient, statement: &str| {
                let asked = admin.send_command(command::QUERY, statement.as_bytes());
                asked.is_ok() && admin.read().is_ok_and(|answer| answer.first() == 0)
            };
            // Until the process that receives the request has been replaced.
            for number in loaded + 1.. {
                let change = format!("UPDATE mysql_users SET comment = '{number}'");
                if !(is_done(&mut admin, &change) && is_done(&mut admin, "LOAD MYSQL USERS TO RUNTIME")) {
                    return number - 1;
                }
            }
            unreachable!("it ends with its connection")
        });
        let (done, text) = upgrade(Path::new(BINARY), &narrows);
        assert!(done, "round {round}: {text}\n{}", narrows.log());
        loaded = loads.join().expect("no panic");
        let mut admin = narrows.admin();
        let running = admin.query("SELECT MAX(CAST(comment AS INT)) FROM runtime_mysql_users").cell();
        let running: u64 = running.and_then(|running| running.parse().ok()).expect("a number");
        assert!(running >= loaded, "round {round}: {running} runs, and {loaded} was loaded");
    }
}

#[test]
fn a_program_that_ends_or_hangs_or_refuses_the_configuration_changes_nothing() {
    let program = Program::new();
    let (_server, narrows) = program.start();
    let mut client = narrows.client();
    let worker = narrows.worker();
    let mut fails = |reason: &str| {
        let (done, text) = upgrade(Path::new(BINARY), &narrows);
        assert!(!done && text.contains("nothing was changed: ") && text.contains(reason), "{text}");
        assert_eq!(narrows.worker(), worker);
        client.query("DO 1").ok().expect("the old one continues");
        narrows.client().query("DO 1").ok().expect("and accepts");
    };
    program.script("#!/bin/sh\nexit 3\n");
    fails("it ended before it could serve: exit status 3");
    program.script("#!/bin/sh\nexec sleep 60\n");
    fails("it was not ready after 10 seconds");
    program.script("no program at all");
    fails("the program cannot be started");
    program.copy();
    let file = narrows.folder().join("narrows.cnf");
    let good = fs::read_to_string(&file).expect("the configuration");
    fs::write(&file, good.replace("threads=2", "threads=1000")).expect("it is ours");
    fails("threads: expected an integer from 0 to 255, found 1000");
    fs::write(&file, good).expect("it is ours");
    let (done, text) = upgrade(Path::new(BINARY), &narrows);
    assert!(done, "{text}");
    drop(client);
    wait_for_end(worker);
}

#[test]
fn a_pid_file_that_cannot_be_written_does_not_end_an_upgrade() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().join("run");
    fs::create_dir(&place).expect("it is ours");
    let pidfile = place.join("n.pid");
    let (_server, mut narrows) =
        super::scene(|config| config.pidfile(pidfile.to_str().expect("UTF-8")).drain_timeout(20));
    let pid = format!("{}\n", narrows.process().pid());
    assert_eq!(fs::read_to_string(&pidfile).expect("it is written"), pid);

    fs::remove_dir_all(&place).expect("it is ours");
    let before = narrows.log().len();
    let (done, text) = upgrade(Path::new(BINARY), &narrows);
    assert!(done, "{text}");
    let warning = narrows.wait_for_log(before, |line| line.contains("the pid file cannot be written"));
    assert!(warning.contains("WARN") && warning.contains("n.pid"), "{warning}");
    narrows.client().query("DO 1").ok().expect("clients are served");

    // The same supervisor upgrades once more, and writes the file if it can.
    fs::create_dir(&place).expect("it is ours");
    let (done, text) = upgrade(Path::new(BINARY), &narrows);
    assert!(done, "{text}\n{}", narrows.log());
    let deadline = Instant::now() + Duration::from_secs(20);
    while !fs::read_to_string(&pidfile).is_ok_and(|written| written == pid) {
        assert!(Instant::now() < deadline, "no pid file:\n{}", narrows.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(narrows.process().try_wait().is_none());
}

#[test]
fn a_pid_file_that_cannot_be_written_ends_a_first_start() {
    let folder = TempFolder::new("pidfile");
    let text = NarrowsConfig::new().pidfile("no/such/n.pid").text("127.0.0.1:1", "127.0.0.1:2");
    fs::write(folder.file("narrows.cnf"), text).expect("a file");
    let mut program = Command::new(BINARY);
    program.arg("-c").arg(folder.file("narrows.cnf")).arg("-D").arg(folder.path()).arg("-n");
    let output = program.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("n.pid: No such file"), "{said}");
}

fn clients(narrows: &Narrows) -> usize {
    let mut admin = narrows.admin();
    admin.query("SELECT SessionID FROM stats_mysql_processlist").text_rows().len()
}

fn wait_for_end(pid: u32) {
    let path = format!("/proc/{pid}");
    let deadline = Instant::now() + Duration::from_secs(20);
    while Path::new(&path).exists() {
        assert!(Instant::now() < deadline, "process {pid} does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}
