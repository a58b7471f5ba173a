use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;

use tempfile::TempDir;

use super::*;

/// A scheduler whose programs are shell scripts in a folder of its own.
struct Fixture {
    folder: TempDir,
    scheduler: Scheduler,
}

impl Fixture {
    fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let surroundings = Surroundings { starter: None, datadir: folder.path().to_owned() };
        Fixture { scheduler: Scheduler::start(surroundings).unwrap(), folder }
    }

    fn job(&self, id: i64, script: &str) -> ScheduledJob {
        let filename = format!("job{id}.sh");
        let path = self.folder.path().join(&filename);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        let arguments = vec!["first".to_owned(), "two words".to_owned()];
        ScheduledJob { id, interval: Duration::from_millis(100), filename, arguments }
    }

    fn follow(&self, jobs: Vec<ScheduledJob>) {
        assert_eq!(self.scheduler.follow(jobs, None), [""; 0]);
    }

    /// The figures of a job as soon as they are as wanted.
    fn until(&self, id: i64, wanted: impl Fn(&JobFigures) -> bool) -> JobFigures {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let found = self.scheduler.figures().into_iter().find(|(of, _)| *of == id);
            match found {
                Some((_, figures)) if wanted(&figures) => return figures,
                found => assert!(Instant::now() < deadline, "not in time: {found:?}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }
}

fn is_alive(pid: &str) -> bool {
    let state = std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat")).unwrap_or_default();
    state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[test]
fn runs_a_program_at_its_interval_with_its_arguments_and_without_a_shell() {
    let fixture = Fixture::new();
    fixture.follow(vec![fixture.job(1, "printf '%s|' \"$@\"; pwd; cat; exit 3")]);
    let figures = fixture.until(1, |figures| figures.runs >= 3 && figures.failures >= 2);
    let last = figures.last.unwrap();
    let folder = fixture.folder.path().canonicalize().unwrap();
    assert_eq!(last.output, format!("first|two words|{}\n", folder.display()));
    assert_eq!((last.end.as_str(), last.dropped), ("exit status 3", 0));
}

#[test]
fn what_still_runs_is_not_started_again() {
    let fixture = Fixture::new();
    fixture.follow(vec![fixture.job(1, "echo x >> runs; sleep 2")]);
    let figures = fixture.until(1, |figures| figures.skipped >= 2);
    assert_eq!((figures.runs, fixture.read("runs").as_str()), (1, "x\n"));
    let figures = fixture.until(1, |figures| figures.runs >= 2);
    assert_eq!(figures.failures, 0);
}

#[test]
fn a_run_that_takes_too_long_is_ended_with_its_whole_group() {
    let fixture = Fixture::new();
    // Each run has another one. A busy machine may end a run before it has written the number down.
    let job = fixture.job(1, "sleep 100 & echo $! >> children; wait");
    fixture.scheduler.follow(vec![job], Some(Duration::from_millis(150)));
    let figures = fixture.until(1, |figures| figures.timeouts >= 1 && !fixture.read("children").is_empty());
    assert_eq!(figures.last.unwrap().end, "signal 15");
    drop(fixture.scheduler);
    let children = fixture.folder.path().join("children");
    let deadline = Instant::now() + Duration::from_secs(20);
    for child in std::fs::read_to_string(children).unwrap().lines() {
        // It has the signal, and may still be about to end.
        while is_alive(child) {
            assert!(Instant::now() < deadline, "{child} is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn what_ignores_the_request_to_end_is_killed_when_the_scheduler_ends() {
    let fixture = Fixture::new();
    fixture.follow(vec![fixture.job(1, "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done")]);
    fixture.until(1, |figures| figures.running_since.is_some());
    while fixture.read("pid").is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (pid, begin) = (fixture.read("pid"), Instant::now());
    drop(fixture.scheduler);
    assert!(!is_alive(&pid));
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
}

#[test]
fn long_output_is_drained_and_only_its_beginning_is_kept() {
    let fixture = Fixture::new();
    fixture.follow(vec![fixture.job(1, "head -c 1000000 /dev/zero | tr '\\0' x; echo end >&2")]);
    let last = fixture.until(1, |figures| figures.last.is_some()).last.unwrap();
    assert_eq!((last.end.as_str(), last.output.len(), last.dropped), ("0", 65_536, 1_000_004 - 65_536));
}

#[test]
fn a_program_that_is_not_there_is_reported_at_once_and_counted() {
    let fixture = Fixture::new();
    let job = ScheduledJob { filename: "/no/such/program".to_owned(), ..fixture.job(1, "") };
    let faults = fixture.scheduler.follow(vec![job], None);
    assert_eq!(faults, ["scheduler id=1: /no/such/program cannot be run: it is not there"]);
    let figures = fixture.until(1, |figures| figures.failures >= 1);
    assert!(figures.last.unwrap().end.starts_with("cannot be started: "));
}

#[test]
fn a_run_whose_job_is_gone_continues() {
    let fixture = Fixture::new();
    fixture.follow(vec![fixture.job(1, "touch begun; sleep 0.3; touch done")]);
    while !fixture.folder.path().join("begun").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    fixture.follow(Vec::new());
    let deadline = Instant::now() + Duration::from_secs(20);
    while !fixture.folder.path().join("done").exists() {
        assert!(Instant::now() < deadline, "it was ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(fixture.scheduler.figures().is_empty());
}

#[test]
fn programs_inherit_no_socket() {
    let fixture = Fixture::new();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    fixture.follow(vec![fixture.job(1, "exec ls -l /proc/self/fd")]);
    let last = fixture.until(1, |figures| figures.last.is_some()).last.unwrap();
    drop(socket);
    // What the test itself was given may be there too.
    let descriptor = |number: &str| {
        let mut lines = last.output.lines();
        lines.find(|line| line.contains(&format!(" {number} -> "))).unwrap_or_default().to_owned()
    };
    assert!(descriptor("0").ends_with("/dev/null"), "{}", last.output);
    assert!(descriptor("1").contains("pipe:") && descriptor("2").contains("pipe:"), "{}", last.output);
    assert!(!last.output.contains("socket:"), "{}", last.output);
}

#[test]
fn more_jobs_than_may_run_at_once_run_one_after_the_other() {
    let fixture = Fixture::new();
    let jobs: Vec<ScheduledJob> = (1..=80)
        .map(|id| ScheduledJob { interval: Duration::from_secs(2), ..fixture.job(id, "sleep 0.2") })
        .collect();
    fixture.follow(jobs);
    for id in 1..=80 {
        fixture.until(id, |figures| figures.runs > 0);
    }
}
