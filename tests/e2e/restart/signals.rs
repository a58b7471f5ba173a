//! Signals at any moment, to any process: each is obeyed, and none ends anything else.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use narrows_testkit::{Narrows, RawClient, TempFolder, free_port, serving_worker, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use super::{BINARY, scene, start_with_log_file, upgrade, wait_for_another};

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;
const SIGUSR1: i32 = 10;
const SIGUSR2: i32 = 12;
const SIGTERM: i32 = 15;

/// How long a shutdown may take: nothing is drained here.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn signals_around_an_upgrade_are_obeyed() {
    let is_long = std::env::var("NARROWS_CHAOS").is_ok_and(|value| value == "long");
    let rounds = if is_long { 50 } else { 8 };
    let mut random = Random::new();
    let (_server, mut narrows) = scene(|config| config);
    for round in 0..rounds {
        let burst: &[i32] = match round % 8 {
            0 | 4 => &[SIGTERM],
            1 => &[SIGUSR1],
            2 => &[SIGUSR2, SIGTERM],
            3 => &[SIGUSR2],
            5 => &[SIGHUP],
            6 => &[SIGUSR1, SIGUSR2, SIGHUP, SIGINT],
            _ => &[SIGHUP, SIGUSR2, SIGQUIT],
        };
        upgraded(&narrows);
        for signal in burst {
            // Half of them while the supervisor replaces its program.
            let most = if random.below(2) == 0 { 20 } else { 300 };
            let pause = Duration::from_millis(random.below(most + 1));
            println!("round {round}: {signal} after {pause:?}");
            std::thread::sleep(pause);
            narrows.process().signal(*signal);
        }
        let is_stop = burst.iter().any(|signal| [SIGTERM, SIGINT, SIGQUIT].contains(signal));
        if is_stop {
            let status = narrows.process().wait_for(SOON);
            let status =
                status.unwrap_or_else(|| panic!("round {round}: it does not stop:\n{}", narrows.log()));
            assert!(status.success(), "round {round}: {status}\n{}", narrows.log());
            wait_for_nobody(&narrows);
            narrows.start_again(BINARY);
        }
        assert!(narrows.process().try_wait().is_none(), "round {round}:\n{}", narrows.log());
        narrows.client().query("DO 1").ok().unwrap_or_else(|| panic!("round {round}:\n{}", narrows.log()));
    }
}

#[test]
fn a_stop_at_whatever_moment_of_an_upgrade_stops() {
    for pause_ms in [0, 30, 80, 150] {
        let (_server, mut narrows) = scene(|config| config.drain_timeout(1));
        let mut client = narrows.client();
        narrows.process().signal(SIGUSR2);
        std::thread::sleep(Duration::from_millis(pause_ms));
        narrows.process().signal(SIGTERM);
        client.query("DO 1").ok().expect("existing clients have time to disconnect");
        drop(client);
        let status = narrows.process().wait_for(SOON);
        let status = status.unwrap_or_else(|| panic!("{pause_ms} ms: it does not stop:\n{}", narrows.log()));
        assert!(status.success(), "{pause_ms} ms: {status}");
        wait_for_nobody(&narrows);
    }
}

#[test]
fn a_worker_process_that_is_told_to_end_is_followed_by_another_one() {
    let (_server, mut narrows) = scene(|config| config.drain_timeout(30));
    let mut clients: Vec<RawClient> = (0..10).map(|_| narrows.client()).collect();
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let worker = narrows.worker();
        kill_process(pid(worker), signal).expect("it lives");
        wait_for_another(&narrows, worker);
        for client in &mut clients {
            client.query("DO 1").ok().unwrap_or_else(|| panic!("{signal:?}:\n{}", narrows.log()));
        }
        assert!(narrows.process().try_wait().is_none(), "{signal:?}:\n{}", narrows.log());
    }
    // Signals that do not request a shutdown do not affect it.
    let worker = narrows.worker();
    for signal in [Signal::HUP, Signal::USR1, Signal::USR2] {
        kill_process(pid(worker), signal).expect("it lives");
    }
    narrows.wait_for_log(0, |line| line.contains("SIGUSR2 has no effect here"));
    clients.iter_mut().for_each(|client| drop(client.query("DO 1").ok().expect("the session continues")));
    assert_eq!(narrows.worker(), worker);
}

#[test]
fn a_worker_process_without_a_supervisor_stops_in_order() {
    let (_server, mut narrows) = scene(|config| config.drain_timeout(30));
    let mut client = narrows.client();
    let worker = narrows.worker();
    narrows.process().kill();
    narrows.wait_for_log(0, |line| line.contains("the supervisor has ended"));
    kill_process(pid(worker), Signal::TERM).expect("it lives");
    narrows.wait_for_log(0, |line| line.contains("stopping signal=\"SIGTERM\""));
    client.query("DO 1").ok().expect("existing clients have time to disconnect");
    drop(client);
    wait_for_nobody(&narrows);
}

#[test]
fn sighup_opens_the_log_again_and_sigquit_stops() {
    let folder = TempFolder::new("hangup");
    let mut process = start_with_log_file(&folder, free_port(), free_port());
    let (log, moved) = (folder.file("narrows.log"), folder.file("narrows.log.1"));
    wait_until("it serves", || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains(" serving interfaces="))
    });
    fs::rename(&log, &moved).expect("it is moved");
    process.signal(SIGHUP);
    wait_until("the log exists again", || log.exists());
    assert!(process.try_wait().is_none(), "it keeps running");
    process.signal(SIGQUIT);
    let status = process.wait_for(SOON).expect("it stops");
    assert_eq!((status.code(), status.signal()), (Some(0), None));
    assert!(serving_worker(folder.path()).is_none());
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).expect("a process")).expect("a process")
}

/// Upgrades, once another upgrade that a signal requested is over.
fn upgraded(narrows: &Narrows) {
    let deadline = Instant::now() + SOON;
    loop {
        let (done, text) = upgrade(BINARY.as_ref(), narrows);
        if done {
            return;
        }
        assert!(Instant::now() < deadline, "{text}\n{}", narrows.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn wait_for_nobody(narrows: &Narrows) {
    wait_until("all worker processes have ended", || serving_worker(narrows.folder()).is_none());
}

/// Random numbers; NARROWS_SEED repeats them.
struct Random(u64);

impl Random {
    fn new() -> Random {
        let now = || std::time::UNIX_EPOCH.elapsed().map_or(1, |elapsed| elapsed.as_nanos() as u64);
        let given = std::env::var("NARROWS_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(now);
        println!("NARROWS_SEED={seed}");
        Random(seed | 1)
    }

    fn below(&mut self, most: u64) -> u64 {
        // xorshift64 (Marsaglia)
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}
