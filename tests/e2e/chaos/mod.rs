//! Everything that can go wrong around Narrows, under clients that never stop: servers that crash, hang, are cut off,
//! are full and change roles; clients that stop halfway; Narrows processes that are killed, sent signals and upgraded;
//! full disks; administrators who change everything. The test counts what must never happen: wrong answers, lost
//! acknowledged writes, writes on two primaries, failed reads, and everything else that `docs/restart.md` and
//! `docs/configuration.md` rule out.
//!
//! Each fault occurs once, for seconds. `NARROWS_CHAOS=long` runs them in rounds of random order (`NARROWS_SEED`
//! repeats an order) for `NARROWS_CHAOS_MINUTES` (60), and each lasts as long as it would in production.
//! `NARROWS_CHAOS_FAULTS=kill_workers,flap` runs only these, in both modes.

mod admin;
mod clients;
pub mod cluster;
mod deaf;
mod disk;
pub mod load;
mod memory;
mod of_model;
mod processes;
pub mod random;
mod report;
mod servers;
pub mod sysbench;
mod table;

use std::sync::Arc;
use std::time::{Duration, Instant};

use narrows_testkit::{FakeMysql, Flavour, Login, Narrows, RawClient, wait_until, workers_and_keepers};

use admin::Bursts;
use cluster::Cluster;
use load::Load;
use memory::Meter;
use random::Random;
use report::Report;

use crate::support::start;

#[test]
fn clients_go_on_whatever_goes_wrong() {
    Flavour::MariaDb.if_tested(run_chaos);
}

#[test]
fn clients_go_on_whatever_goes_wrong_with_mysql9() {
    Flavour::MySql9.if_tested(run_chaos);
}

/// Causes a fault, and reports what followed.
type Fault = fn(&mut Scene, &mut Report);

const FAULTS: [(&str, Fault); 14] = [
    ("kill", servers::kill),
    ("freeze", servers::freeze),
    ("cut_off", servers::cut_off),
    ("exhaust", servers::exhaust),
    ("flap", servers::flap),
    ("fail_over_and_back", servers::fail_over_and_back),
    ("stop_sending", clients::stop_sending),
    ("stop_reading", clients::stop_reading),
    ("crowd", clients::crowd),
    ("ignore_kills", deaf::ignore_kills),
    ("fill", disk::fill),
    ("kill_workers", processes::kill_workers),
    ("kill_keepers", processes::kill_keepers),
    ("send_signals", processes::send_signals),
];

/// The scene of the faults.
pub struct Scene {
    pub cluster: Cluster,
    pub narrows: Narrows,
    /// A server that ignores all kills.
    pub deaf: FakeMysql,
    pub random: Random,
    /// The administrators, who work in the meantime.
    pub bursts: Arc<Bursts>,
}

impl Scene {
    fn start(flavour: Flavour) -> Scene {
        let random = Random::new(&format!("{flavour:?}"));
        let (cluster, deaf) = (Cluster::start(flavour), deaf::server());
        let narrows = start(&cluster.config(deaf.port()));
        let bursts = Arc::new(Bursts::new(narrows.admin_endpoint()));
        Scene { cluster, narrows, deaf, random, bursts }
    }

    /// A client of Narrows with the shared account.
    pub fn client(&self) -> RawClient {
        RawClient::open(&self.narrows.endpoint(), &Login::new("app", "app"))
    }

    /// An administrator.
    pub fn admin(&self) -> RawClient {
        self.narrows.admin()
    }

    /// Waits until a worker process other than `former` serves.
    pub fn wait_for_another(&self, former: u32) {
        wait_until("another worker process serves", || self.narrows.worker() != former);
    }

    /// Makes clients leave processes that an upgrade has replaced, and waits until those have ended.
    pub fn leave_former_processes(&self, load: &mut Load) {
        let _pause = self.bursts.pause();
        let mut renewed: Option<Instant> = None;
        wait_until("worker processes without clients have ended", || {
            // There may have been another upgrade in between.
            if renewed.is_none_or(|renewed| renewed.elapsed() > Duration::from_secs(10)) {
                load.renew();
                renewed = Some(Instant::now());
            }
            workers_and_keepers(self.narrows.folder()).len() == PROCESSES
        });
    }

    /// Repairs everything that a fault left broken.
    fn heal(&mut self) {
        disk::free(&self.narrows);
        self.cluster.heal();
    }
}

fn run_chaos(flavour: Flavour) {
    let mut scene = Scene::start(flavour);
    let mut load = Load::start(scene.narrows.endpoint(), scene.narrows.port());
    let bursts = Arc::clone(&scene.bursts);
    load.spawn(move |shared| bursts.go_on(shared));
    servers::wait_for_reads_of(&scene.cluster, &load, &scene.cluster.replicas(), Instant::now());
    let meter = Meter::start(&mut scene.narrows, PROCESSES);
    let mut report = Report::new(
        format!("{flavour:?}"),
        load,
        Arc::clone(&scene.bursts),
        meter,
        scene.cluster.nodes[scene.cluster.primary].id,
    );
    if is_long() {
        run_rounds(&mut scene, &mut report);
    } else {
        faults().iter().for_each(|fault| fault(&mut scene, &mut report));
    }
    let failures = report.finish(&scene.cluster);
    assert!(scene.narrows.process().try_wait().is_none(), "Narrows has ended");
    if !failures.is_empty() {
        tell_of_lost_clients(&scene.narrows);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Prints the log lines about clients that were closed for a reason other than being tied to their process.
fn tell_of_lost_clients(narrows: &Narrows) {
    let log = narrows.log();
    let of_lost = |line: &&str| {
        let others = ["in part", "not counted", "suspect", "no socket"];
        line.contains("login failed")
            || line.contains("client") && line.contains(" lost")
            || line.contains("former process continue") && others.iter().any(|why| line.contains(why))
    };
    log.lines().filter(of_lost).take(100).for_each(|line| println!("{line}"));
}

/// Runs rounds of all faults until the time is over.
fn run_rounds(scene: &mut Scene, report: &mut Report) {
    let minutes = std::env::var("NARROWS_CHAOS_MINUTES").ok().and_then(|minutes| minutes.parse().ok());
    let end = Instant::now() + Duration::from_secs(60 * minutes.unwrap_or(60));
    let mut undone = 0;
    for round in 1.. {
        let mut faults = faults();
        scene.random.shuffle(&mut faults);
        println!("{:?}: round {round}", scene.cluster.flavour);
        for fault in faults {
            // Nothing more is learnt from a failure that repeats itself.
            if Instant::now() >= end || undone > 5 {
                return;
            }
            fault(scene, report);
            if report.was_left_undone() {
                undone += 1;
                scene.heal();
            }
        }
    }
}

/// All faults, or those named in the environment.
fn faults() -> Vec<Fault> {
    let Ok(wanted) = std::env::var("NARROWS_CHAOS_FAULTS") else {
        return FAULTS.iter().map(|(_, fault)| *fault).collect();
    };
    let of_name = |name: &str| {
        let found = FAULTS.iter().find(|(known, _)| *known == name);
        found
            .unwrap_or_else(|| {
                panic!("unknown fault {name:?} in NARROWS_CHAOS_FAULTS; the faults are {FAULTS:?}")
            })
            .1
    };
    wanted.split(',').map(str::trim).map(of_name).collect()
}

fn is_long() -> bool {
    std::env::var("NARROWS_CHAOS").as_deref() == Ok("long")
}

/// One of two lengths or numbers.
fn short_or_long<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}

/// Narrows' worker processes and keepers while none starts or ends: one serves and one waits, each with two keepers.
const PROCESSES: usize = 6;
