//! The scheduler: programs that run at intervals, as ProxySQL has them.

mod processes;
mod tools;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use narrows_testkit::{Narrows, NarrowsConfig, RawClient, TempFolder, wait_until};

use crate::support::start;

/// Writes a shell script that can be run; returns its path.
fn script(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    path.display().to_string()
}

/// Runs statements that must succeed.
fn run(admin: &mut RawClient, statements: &[&str]) {
    for statement in statements {
        let answer = admin.query(statement);
        assert!(answer.error().is_none(), "{statement}: {:?}", answer.error());
    }
}

/// The rows of an answer, the cells of each joined by blanks.
fn rows(admin: &mut RawClient, question: &str) -> Vec<String> {
    let answer = admin.query(question);
    assert!(answer.error().is_none(), "{question}: {:?}", answer.error());
    let joined = |row: Vec<Option<String>>| {
        let cells = row.into_iter().map(|cell| cell.unwrap_or_else(|| "NULL".to_owned()));
        cells.collect::<Vec<_>>().join(" ")
    };
    answer.text_rows().into_iter().map(joined).collect()
}

/// Has one program run at the shortest interval.
fn schedule(narrows: &Narrows, program: &str) -> RawClient {
    let mut admin = narrows.admin();
    let insert = format!("INSERT INTO scheduler (id, interval_ms, filename) VALUES (1, 100, '{program}')");
    run(&mut admin, &[&insert, "LOAD SCHEDULER TO RUNTIME"]);
    admin
}

/// Waits until a condition holds for the figures of the only job.
fn wait_for_figures(admin: &mut RawClient, condition: &str) {
    let question = format!("SELECT COUNT(*) FROM runtime_scheduler_runs WHERE {condition}");
    wait_until(condition, || rows(admin, &question) == ["1"]);
}

#[test]
fn a_program_runs_with_its_arguments_and_administrators_see_what_it_did() {
    let narrows = start(&NarrowsConfig::new());
    let program = script(narrows.folder(), "job", "printf '%s|' \"$@\"; echo oops >&2; exit 4");
    let mut admin = narrows.admin();
    let insert = format!(
        "INSERT INTO scheduler (id, interval_ms, filename, arg1, arg2, arg4) VALUES (5, 100, '{program}', 'a b', '$HOME', 'c')"
    );
    run(&mut admin, &[&insert]);
    assert_eq!(rows(&mut admin, "SELECT * FROM runtime_scheduler_runs"), [""; 0]);
    run(&mut admin, &["LOAD SCHEDULER TO RUNTIME"]);
    assert_eq!(rows(&mut admin, "SELECT id, active, interval_ms FROM runtime_scheduler"), ["5 1 100"]);
    wait_for_figures(&mut admin, "failures >= 2 AND timeouts = 0");
    let last = "SELECT id, filename, last_exit, last_output, last_output_dropped, last_started > 1000000000 \
                FROM runtime_scheduler_runs";
    assert_eq!(rows(&mut admin, last), [format!("5 {program} exit status 4 a b|$HOME|oops\n 0 1")]);
    let status = rows(&mut admin, "SHOW NARROWS STATUS");
    let is_line = |line: &&String| line.starts_with(&format!("Narrows_scheduler_5 {program}: "));
    let line = status.iter().find(is_line).expect("a line of the status");
    assert!(line.contains(" ms: exit status 4"), "{line}");
    // It is logged, but not again and again.
    let said = "a program of the scheduler failed";
    let log = narrows.wait_for_log(0, |log| log.contains(said));
    assert_eq!(log.matches(said).count(), 1, "{log}");
    assert!(log.contains("oops"), "{log}");
    // What programs write may be confidential.
    let refused = narrows.stats().query("SELECT * FROM runtime_scheduler_runs").error().expect("an error");
    assert!(refused.message.contains("no such table"), "{refused:?}");
    run(&mut admin, &["DELETE FROM scheduler", "LOAD SCHEDULER TO RUNTIME"]);
    wait_until("nothing is scheduled", || {
        rows(&mut admin, "SELECT * FROM runtime_scheduler_runs").is_empty()
    });
}

#[test]
fn a_load_warns_of_programs_that_cannot_run_and_only_of_active_ones() {
    let narrows = start(&NarrowsConfig::new());
    let mut admin = narrows.admin();
    run(
        &mut admin,
        &["INSERT INTO scheduler (id, active, interval_ms, filename) VALUES (1, 1, 90000, '/no/such'), \
           (2, 0, 90000, '/no/such'), (3, 1, 90000, '/bin/true'), (4, 1, 90000, '/etc/passwd')"],
    );
    let skipped = narrows.log().len();
    let loaded = admin.query("LOAD SCHEDULER TO RUNTIME").ok().expect("OK");
    assert_eq!(loaded.warnings, 2);
    let warned: Vec<String> = rows(&mut admin, "SHOW WARNINGS");
    let expected = [
        "Warning 1105 scheduler id=1: /no/such cannot be run: it is not there",
        "Warning 1105 scheduler id=4: /etc/passwd cannot be run: it is not executable",
    ];
    assert_eq!(warned, expected);
    narrows.wait_for_log(skipped, |log| log.contains("/no/such cannot be run: it is not there"));
}

#[test]
fn the_time_limit_is_a_variable() {
    let narrows = start(&NarrowsConfig::new());
    let program = script(narrows.folder(), "job", "sleep 100");
    let mut admin = schedule(&narrows, &program);
    wait_for_figures(&mut admin, "skipped >= 1 AND running_ms > 100 AND runs = 1");
    run(&mut admin, &["SET admin-scheduler_timeout_ms = 300", "LOAD ADMIN VARIABLES TO RUNTIME"]);
    wait_for_figures(&mut admin, "timeouts >= 1 AND last_exit = 'signal 15'");
    narrows.wait_for_log(0, |log| log.contains("it took longer than admin-scheduler_timeout_ms"));
}

#[test]
fn jobs_are_saved_and_loaded_as_other_tables_are() {
    let config = NarrowsConfig::new().row(
        "scheduler",
        "id=7 interval_ms=100 filename=\"/bin/sh\" arg1=\"-c\" arg2=\"echo from the file\" comment=\"of the file\"",
    );
    let mut narrows = start(&config);
    let mut admin = narrows.admin();
    wait_for_figures(&mut admin, "id = 7 AND last_output = 'from the file\n'");
    run(
        &mut admin,
        &[
            "UPDATE scheduler SET arg2 = 'echo saved'",
            "SAVE SCHEDULER TO DISK",
            "UPDATE scheduler SET arg2 = 'echo edited'",
            "SAVE SCHEDULER FROM RUNTIME",
        ],
    );
    assert_eq!(rows(&mut admin, "SELECT arg2 FROM scheduler"), ["echo from the file"]);
    run(&mut admin, &["LOAD SCHEDULER FROM DISK", "LOAD SCHEDULER TO RUNTIME"]);
    wait_for_figures(&mut admin, "id = 7 AND last_output = 'saved\n'");
    run(&mut admin, &["LOAD SCHEDULER FROM CONFIG"]);
    assert_eq!(rows(&mut admin, "SELECT arg2, comment FROM scheduler"), ["echo from the file of the file"]);
    drop(admin);
    narrows.process().stop(Duration::from_secs(10));
    narrows.start_again(env!("CARGO_BIN_EXE_narrows"));
    wait_for_figures(&mut narrows.admin(), "id = 7 AND last_output = 'saved\n'");
}

#[test]
fn the_check_of_a_file_warns_of_programs_that_cannot_run() {
    let folder = TempFolder::new("check");
    let row = |id: u32, active: u32, program: &str| {
        format!("{{ id={id} active={active} interval_ms=1000 filename=\"{program}\" }}")
    };
    let jobs =
        [row(1, 1, "/bin/true"), row(2, 1, "/no/such"), row(3, 0, "/no/such"), row(4, 1, "/etc/passwd")];
    let text = format!(
        "mysql_servers = ( {{ address=\"a\" hostgroup=0 }} )\nmysql_users = ( {{ username=\"u\" password=\"p\" }} )\n\
         scheduler = (\n{}\n)\n",
        jobs.join(",\n")
    );
    fs::write(folder.file("narrows.cnf"), text).expect("a file");
    let checked =
        Command::new(env!("CARGO_BIN_EXE_narrows")).arg("check").arg(folder.file("narrows.cnf")).output();
    let said = String::from_utf8_lossy(&checked.expect("the program runs").stdout).into_owned();
    for expected in [
        ":5:43: warning: scheduler: /no/such: it is not there",
        ":7:43: warning: scheduler: /etc/passwd: it is not executable",
        "can be started: 0 errors, 2 warnings",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
}
