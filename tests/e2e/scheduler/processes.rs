//! The processes of programs: what they inherit, and what becomes of them when Narrows ends, dies or is replaced.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use narrows_testkit::{Narrows, NarrowsConfig, TempFolder, kill, wait_until};

use super::{rows, run, schedule, script, wait_for_figures};
use crate::support::start;

const BINARY: &str = env!("CARGO_BIN_EXE_narrows");

/// The processes that run `program` at one moment, by their command lines.
///
/// A shell that is about to run a command is two processes of the same command line; the child is left out.
fn running(program: &str) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let runs = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == program.as_bytes())
    };
    let seen: Vec<u32> = pids.filter(runs).collect();
    let is_child = |pid: &u32| parent_of(*pid).is_some_and(|parent| seen.contains(&parent));
    // A process may have ended while the others were looked for.
    seen.iter().copied().filter(|pid| !is_child(pid)).filter(runs).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()
}

/// The children of a process that nobody has waited for.
fn zombies_of(parent: u32) -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = processes.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let of_parent = format!("Z {parent} ");
    stats.filter(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(&of_parent))).collect()
}

fn supervised() -> Narrows {
    Narrows::start(BINARY, &NarrowsConfig::new().supervised())
}

/// A program that writes its process id into `pids`, and then runs until it is ended.
fn endless(folder: &Path) -> String {
    script(
        folder,
        "endless",
        &format!("echo $$ >> {}; while :; do sleep 0.1; done", pids_of(folder).display()),
    )
}

fn pids_of(folder: &Path) -> PathBuf {
    folder.join("pids")
}

fn started(folder: &Path) -> usize {
    fs::read_to_string(pids_of(folder)).unwrap_or_default().lines().count()
}

#[test]
fn programs_inherit_no_descriptors_and_an_ordinary_environment() {
    let config = NarrowsConfig::new()
        .supervised()
        .environment("NARROWS_SEEN_BY_JOBS", "yes")
        .environment("NOTIFY_SOCKET", "/no/such/socket");
    let narrows = Narrows::start(BINARY, &config);
    let text = "echo \"$NARROWS_SEEN_BY_JOBS$NOTIFY_SOCKET\" $(ulimit -n) $(pwd); exec ls -l /proc/self/fd";
    let mut admin = schedule(&narrows, &script(narrows.folder(), "job", text));
    wait_for_figures(&mut admin, "last_exit = '0'");
    let output = rows(&mut admin, "SELECT last_output FROM runtime_scheduler_runs").remove(0);
    let folder = fs::canonicalize(narrows.folder()).expect("a folder");
    assert_eq!(output.lines().next(), Some(&*format!("yes 1024 {}", folder.display())));
    let open: Vec<&str> =
        output.lines().filter_map(|line| line.split_once(" -> ")).map(|(_, to)| to).collect();
    let [input, standard, errors, itself] = open.as_slice() else { panic!("{output}") };
    assert_eq!(*input, "/dev/null");
    assert!(standard.starts_with("pipe:") && errors.starts_with("pipe:"), "{output}");
    assert!(itself.starts_with("/proc/"), "{output}");
}

#[test]
fn programs_get_the_signals_that_end_them() {
    for config in [NarrowsConfig::new(), NarrowsConfig::new().supervised()] {
        let narrows = Narrows::start(BINARY, &config);
        let mut admin = narrows.admin();
        // A shell would change its own mask.
        let insert = "INSERT INTO scheduler (id, interval_ms, filename, arg1, arg2) \
                      VALUES (1, 100, '/bin/grep', 'SigBlk', '/proc/self/status')";
        run(&mut admin, &[insert, "LOAD SCHEDULER TO RUNTIME"]);
        wait_for_figures(&mut admin, "last_exit = '0'");
        let output = rows(&mut admin, "SELECT last_output FROM runtime_scheduler_runs").remove(0);
        assert_eq!(output.trim(), "SigBlk:\t0000000000000000");
    }
}

#[test]
fn everything_that_is_open_in_the_process_is_closed_by_exec() {
    // Otherwise its descriptors could not be looked at by other users than root.
    let config = NarrowsConfig::new().supervised().environment("NARROWS_CORE_FILES", "1");
    let narrows = Narrows::start(BINARY, &config);
    let _clients = (narrows.admin(), narrows.stats());
    let process = PathBuf::from(format!("/proc/{}", narrows.worker()));
    let inherited = PathBuf::from("/proc/self/fdinfo");
    let flags = |folder: &Path, name: &str| {
        let info = fs::read_to_string(folder.join(name)).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?.trim().to_owned();
        i64::from_str_radix(&flags, 8).ok()
    };
    let is_kept = |folder: &Path, name: &str| {
        flags(folder, name).is_some_and(|flags| flags & i64::from(libc::O_CLOEXEC) == 0)
    };
    let mut kept = Vec::new();
    for entry in fs::read_dir(process.join("fdinfo")).expect("its descriptors").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_standard = name.parse::<i32>().is_ok_and(|number| number < 3);
        // What this process was given and did not open, it passes on to Narrows.
        if !is_standard && is_kept(&process.join("fdinfo"), &name) && !is_kept(&inherited, &name) {
            kept.push(format!("{name}: {:?}", fs::read_link(process.join("fd").join(&name))));
        }
    }
    assert!(kept.is_empty(), "{kept:?}");
}

#[test]
fn no_zombies_are_left() {
    let narrows = supervised();
    let mut admin = schedule(&narrows, "/bin/true");
    wait_for_figures(&mut admin, "runs >= 5");
    wait_until("no zombies", || zombies_of(narrows.worker()).is_empty());
}

#[test]
fn as_first_process_of_a_container_it_waits_for_what_programs_leave() {
    let folder = TempFolder::new("container");
    let text = format!("exec unshare --pid --fork --mount-proc --kill-child {BINARY} \"$@\"");
    let contained = script(folder.path(), "narrows", &text);
    let narrows = Narrows::start(&contained, &NarrowsConfig::new().supervised());
    // The second process is left when the first one ends, and ends later.
    let leaves = "sleep 0.2 & grep -l '^State:.Z' /proc/[0-9]*/status 2> /dev/null | wc -l";
    let mut admin = schedule(&narrows, &script(folder.path(), "leaves", leaves));
    wait_for_figures(&mut admin, "CAST(last_output AS INT) > 3");
    run(&mut admin, &["UPDATE scheduler SET interval_ms = 3000", "LOAD SCHEDULER TO RUNTIME"]);
    wait_for_figures(&mut admin, "CAST(last_output AS INT) < 3");
}

#[test]
fn a_killed_process_takes_its_programs_along_and_the_next_one_runs_them_once() {
    let narrows = supervised();
    let program = endless(narrows.folder());
    let mut admin = schedule(&narrows, &program);
    run(&mut admin, &["SAVE SCHEDULER TO DISK"]);
    wait_until("it runs", || running(&program).len() == 1);
    for kills in 1..=3 {
        wait_until("it has begun", || started(narrows.folder()) == kills);
        let before = running(&program);
        kill(narrows.worker());
        wait_until("another one runs", || {
            let now = running(&program);
            assert!(now.len() <= 1, "{now:?} run at once");
            now.len() == 1 && now != before
        });
    }
}

#[test]
fn a_handover_leaves_exactly_one_process_that_runs_programs() {
    let narrows = supervised();
    let program = endless(narrows.folder());
    schedule(&narrows, &program);
    wait_until("it runs", || started(narrows.folder()) == 1);
    let before = running(&program);
    let upgraded = Command::new(BINARY).args(["upgrade", "-D"]).arg(narrows.folder()).output();
    let upgraded = upgraded.expect("the program starts");
    assert!(upgraded.status.success(), "{upgraded:?}");
    wait_until("the next process runs it", || {
        let now = running(&program);
        assert!(now.len() <= 1, "{now:?} run at once");
        now.len() == 1 && now != before
    });
    wait_until("it has begun once more", || started(narrows.folder()) == 2);
}

#[test]
fn an_orderly_end_ends_programs() {
    let mut narrows = start(&NarrowsConfig::new());
    let program = endless(narrows.folder());
    schedule(&narrows, &program);
    wait_until("it runs", || started(narrows.folder()) == 1);
    narrows.process().stop(Duration::from_secs(10));
    assert_eq!(running(&program), [0; 0]);
}
