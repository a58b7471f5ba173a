//! Narrows processes that are killed, sent signals and replaced: clients see what `docs/restart.md` says.

use std::process::Command;
use std::time::{Duration, Instant};

use narrows_testkit::{RawClient, command, kill, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use super::load::{Failure, What};
use super::report::{Excuse, Report, Times};
use super::servers::recovered;
use super::{Scene, short_or_long};
use crate::restart::keepers;

/// Clients that cannot be continued are closed, all others notice nothing.
pub fn kill_workers(scene: &mut Scene, report: &mut Report) {
    report.scenario("worker processes are killed", |load| {
        let kills = (0..short_or_long(2, 5)).map(|_| {
            std::thread::sleep(Duration::from_millis(100 + scene.random.below(1_500)));
            Killing::of_worker(scene, None)
        });
        let times = Killing::all(kills.collect());
        Times { reads: recovered(&scene.cluster, load, scene.cluster.replicas()[0]).reads, ..times }
    });
}

/// One of the two is killed, and at once or after a while the process whose clients they hold.
pub fn kill_keepers(scene: &mut Scene, report: &mut Report) {
    report.scenario("keepers are killed, and worker processes", |load| {
        let kills = (0..short_or_long(2, 5)).map(|_| {
            std::thread::sleep(Duration::from_millis(100 + scene.random.below(500)));
            let most = if scene.random.below(2) == 0 { 10 } else { 500 };
            let pause = Duration::from_millis(scene.random.below(most));
            Killing::of_worker(scene, Some(pause))
        });
        let times = Killing::all(kills.collect());
        Times { reads: recovered(&scene.cluster, load, scene.cluster.replicas()[0]).reads, ..times }
    });
}

/// Each is obeyed, and no client receives an error: those that leave the replaced process connect to the new one.
pub fn send_signals(scene: &mut Scene, report: &mut Report) {
    report.scenario("bursts of signals around upgrades", |load| {
        let from = Instant::now();
        let mut defects = Vec::new();
        let mut idle: Vec<Idle> = (0..20).map(|number| Idle::begin(scene, number)).collect();
        for _ in 0..short_or_long(2, 5) {
            let former = scene.narrows.worker();
            send_burst(scene, 20);
            wait_until("an upgrade is done", || upgrade(scene).0);
            send_burst(scene, 300);
            // It is recognised by a thread name, which the thread sets itself.
            scene.wait_for_another(former);
            defects.extend(idle.iter_mut().filter_map(Idle::check));
            if let Some(status) = scene.narrows.process().try_wait() {
                defects.push(format!("the supervisor has ended: {status}"));
            }
        }
        // The last upgrade requested by a signal is over once another one has finished.
        wait_until("an upgrade is done", || upgrade(scene).0);
        drop(idle);
        let excuses = vec![Excuse { during: (from, Instant::now()), covers: is_administrator_of_former }];
        scene.leave_former_processes(load);
        Times { defects, excuses, ..recovered(&scene.cluster, load, scene.cluster.replicas()[0]) }
    });
}

/// Sends signals that end nothing to the supervisor and to the worker process, each after a pause of up to this many
/// milliseconds.
fn send_burst(scene: &mut Scene, most_ms: u64) {
    for _ in 0..=scene.random.below(4) {
        std::thread::sleep(Duration::from_millis(scene.random.below(most_ms)));
        let signal = [Signal::HUP, Signal::USR1, Signal::USR2][scene.random.below(3) as usize];
        let target = match scene.random.below(4) {
            0 => scene.narrows.worker(),
            _ => scene.narrows.process().pid(),
        };
        let target = Pid::from_raw(i32::try_from(target).expect("a process")).expect("a process");
        // A worker process may have been replaced in the meantime and have no more clients.
        let _ = kill_process(target, signal);
    }
}

/// Runs `narrows upgrade`; returns whether it worked, and its output.
pub fn upgrade(scene: &Scene) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["upgrade", "-D"])
        .arg(scene.narrows.data_file(""))
        .output()
        .expect("the program starts");
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// A killed worker process, and the consequences.
struct Killing {
    excuse: Excuse,
    defects: Vec<String>,
}

impl Killing {
    /// Kills it, this long after one of its keepers.
    fn of_worker(scene: &Scene, after_keeper: Option<Duration>) -> Killing {
        let mut idle: Vec<Idle> = (0..20).map(|number| Idle::begin(scene, number)).collect();
        let mut bound: Vec<RawClient> = (0..6).map(|number| bound_client(scene, number)).collect();
        let from = Instant::now();
        let worker = scene.narrows.worker();
        if let Some(pause) = after_keeper {
            wait_until("there are two keepers", || keepers(worker).len() == 2);
            kill(keepers(worker)[0].1);
            std::thread::sleep(pause);
        }
        kill(worker);
        scene.wait_for_another(worker);
        let mut defects: Vec<String> = idle.iter_mut().filter_map(Idle::check).collect();
        let open = bound.iter_mut().map(|client| usize::from(!client.is_closed_within(SOON))).sum::<usize>();
        if open > 0 {
            defects.push(format!("{open} clients with transactions or prepared statements are not closed"));
        }
        Killing { excuse: excuse_of_a_kill(from), defects }
    }

    fn all(kills: Vec<Killing>) -> Times {
        let (excuses, defects): (Vec<_>, Vec<_>) =
            kills.into_iter().map(|kill| (kill.excuse, kill.defects)).unzip();
        Times { excuses, defects: defects.concat(), ..Times::default() }
    }
}

/// A client that ends with its process: one in a transaction, or with a prepared statement.
fn bound_client(scene: &Scene, number: usize) -> RawClient {
    let mut client = scene.client();
    if number.is_multiple_of(2) {
        client.query("BEGIN").ok().expect("a transaction");
        assert!(client.query("SELECT value FROM chaos.facts WHERE id = 1").error().is_none());
    } else {
        let prepared = client.command(command::STMT_PREPARE, b"SELECT value FROM chaos.facts WHERE id = 1");
        assert!(prepared.error().is_none(), "{prepared:?}");
    }
    client
}

/// A client that is idle and has session state.
pub struct Idle {
    client: RawClient,
    expected: [Option<String>; 3],
}

impl Idle {
    pub fn begin(scene: &Scene, number: usize) -> Idle {
        let mut client = scene.client();
        let zone = format!("+{:02}:30", number % 12);
        for statement in ["USE chaos", &format!("SET @idle = {number}, time_zone = '{zone}'")] {
            client.query(statement).ok().expect(statement);
        }
        Idle { client, expected: [Some(number.to_string()), Some(zone), Some("chaos".to_owned())] }
    }

    /// What is wrong with its session.
    pub fn check(&mut self) -> Option<String> {
        let answer = self.client.query("SELECT @idle, @@session.time_zone, DATABASE()");
        if let Some(error) = answer.error() {
            return Some(format!("an idle client: {} {}", error.code, error.message));
        }
        let rows = answer.text_rows();
        (rows != [self.expected.as_slice()]).then(|| format!("{:?} have become {rows:?}", self.expected))
    }
}

/// What clients may see of worker processes that were killed or upgraded from `from` until now. A closed client notices
/// at its next statement, which may be a while away.
pub fn excuse_of_a_kill(from: Instant) -> Excuse {
    Excuse { during: (from, Instant::now() + SOON / 2), covers: lost_by_a_kill }
}

/// Clients that wait for a write, have sent a statement other than a read, are in a transaction, have prepared
/// statements, have part of an answer, or are administrators are closed.
fn lost_by_a_kill(failure: &Failure) -> bool {
    failure.what != What::Read && is_lost(failure)
}

/// An upgrade closes the databases of the former process.
fn is_administrator_of_former(failure: &Failure) -> bool {
    failure.what == What::Admin && is_lost(failure)
}

/// Error 2013 or 2006, with which libraries report that a connection was closed.
fn is_lost(failure: &Failure) -> bool {
    failure.text.starts_with("2013") || failure.text.starts_with("2006")
}

/// How long a closed client may take to notice.
const SOON: Duration = Duration::from_secs(10);
