//! `narrows init` that ends early, by a signal: nothing of the trial remains.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use narrows_testkit::{Flavour, Process, ServerOptions, wait_until};

use super::{Place, text};

#[test]
fn a_signal_leaves_nothing() {
    let (place, server) = (Place::new(), ServerOptions::new(Flavour::MariaDb).start());
    let server_address = format!("127.0.0.1:{}", server.port());
    let arguments = ["--yes", "--server", &server_address, "--user", "sbtest", "--password", "sbtest"];
    let trial_begins =
        || fs::read_dir(place.folder.file("tmp")).is_ok_and(|mut entries| entries.next().is_some());
    // It may have ended before the signal.
    for _ in 0..10 {
        let mut command = place.command(&[&arguments[..], &["--force"]].concat());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Process::spawn(command).expect("the program starts");
        wait_until("the trial begins", || trial_begins() || process.try_wait().is_some());
        process.signal(libc::SIGINT);
        let status = process.wait_for(Duration::from_secs(20)).expect("it ends");
        if !status.success() {
            assert_eq!(place.files(), ["tmp"]);
            return;
        }
        fs::remove_file(place.folder.file("narrows.toml")).expect("it was written");
    }
    panic!("it always ends before the signal");
}

#[test]
fn a_program_that_is_killed_leaves_no_process_and_no_folder() {
    let (place, server) = (Place::new(), ServerOptions::new(Flavour::MariaDb).start());
    let server_address = format!("127.0.0.1:{}", server.port());
    let arguments =
        ["--yes", "--server", &server_address, "--user", "sbtest", "--password", "sbtest", "--force"];
    let entries = || fs::read_dir(place.folder.file("tmp")).map_or(0, |entries| entries.flatten().count());
    // The process of the trial has its folder in its command line.
    let of_trial = || {
        let folder = place.folder.file("tmp").display().to_string();
        let processes = fs::read_dir("/proc").expect("Linux").flatten();
        let line = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).ok();
        processes
            .filter_map(line)
            .any(|line| text(&line).contains(&folder) && text(&line).contains("trial.toml"))
    };
    for _ in 0..10 {
        let mut command = place.command(&arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Process::spawn(command).expect("the program starts");
        wait_until("the trial runs", || of_trial() || process.try_wait().is_some());
        process.signal(libc::SIGKILL);
        let status = process.wait_for(Duration::from_secs(20)).expect("it ends");
        wait_until("the process of the trial has ended", || !of_trial());
        wait_until("the folder is removed", || entries() == 0);
        if !status.success() {
            return;
        }
        fs::remove_file(place.folder.file("narrows.toml")).expect("it was written");
    }
    panic!("it always ends before the signal");
}
