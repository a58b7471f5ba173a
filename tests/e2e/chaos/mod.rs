//! All that goes wrong around Narrows, under clients that never stop: servers that crash, hang, are cut off, are full and change
//! roles; clients that stop in the middle; processes of Narrows that are killed, sent signals and upgraded; disks that are full;
//! administrators who change everything. What is counted is what must never be: wrong answers, acknowledged writes that are
//! lost, writes on two primaries, reads that fail, and all else that `docs/restart.md` and `docs/configuration.md` promise
//! clients not to see.
//!
//! Each fault is there once, for seconds. `NARROWS_CHAOS=long` has them in rounds, each in another order (`NARROWS_SEED` has it
//! again), for `NARROWS_CHAOS_MINUTES` (60), and as long as an operator would see them. `NARROWS_CHAOS_FAULTS=kill_workers,flap` has
//! only these, in both forms.

mod admin;
mod clients;
mod cluster;
mod deaf;
mod disk;
mod load;
mod memory;
mod of_model;
mod processes;
mod random;
mod servers;
mod sysbench;
mod table;
mod verdict;

use std::sync::Arc;
use std::time::{Duration, Instant};

use narrows_testkit::{FakeMysql, Flavour, Login, Narrows, RawClient, workers_and_keepers};

use admin::Bursts;
use cluster::{Cluster, wait_until};
use load::Load;
use memory::Meter;
use random::Random;
use verdict::Report;

#[test]
fn clients_go_on_whatever_goes_wrong() {
    run_chaos(Flavour::MariaDb);
}

#[test]
fn clients_go_on_whatever_goes_wrong_with_mysql9() {
    if Flavour::both().contains(&Flavour::MySql9) {
        run_chaos(Flavour::MySql9);
    }
}

/// Something that goes wrong, and what comes of it.
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

/// Where it goes wrong.
pub struct Scene {
    pub cluster: Cluster,
    pub narrows: Narrows,
    /// A server that ends nothing, whatever is killed.
    pub deaf: FakeMysql,
    pub random: Random,
    /// What administrators do meanwhile.
    pub bursts: Arc<Bursts>,
}

impl Scene {
    fn start(flavour: Flavour) -> Scene {
        let random = Random::new(&format!("{flavour:?}"));
        let (cluster, deaf) = (Cluster::start(flavour), deaf::server());
        let narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &cluster.config(deaf.port()));
        let bursts = Arc::new(Bursts::new(narrows.admin_endpoint()));
        Scene { cluster, narrows, deaf, random, bursts }
    }

    /// A client of Narrows with the account of all of them.
    pub fn client(&self) -> RawClient {
        RawClient::open(&self.narrows.endpoint(), &Login::new("app", "app"))
    }

    /// An administrator.
    pub fn admin(&self) -> RawClient {
        RawClient::open(&self.narrows.admin_endpoint(), &Login::new("admin", "admin"))
    }

    /// Waits until another worker process than `former` serves.
    pub fn wait_for_another(&self, former: u32) {
        wait_until("another worker process serves", || self.narrows.worker() != former);
    }

    /// Has clients leave processes that an upgrade has replaced, and waits until those have ended.
    pub fn leave_former_processes(&self, load: &mut Load) {
        let _pause = self.bursts.pause();
        let mut renewed: Option<Instant> = None;
        wait_until("worker processes that no client is left in have ended", || {
            // Another upgrade may have come in between.
            if renewed.is_none_or(|renewed| renewed.elapsed() > Duration::from_secs(10)) {
                load.renew();
                renewed = Some(Instant::now());
            }
            workers_and_keepers(self.narrows.folder()).len() == PROCESSES
        });
    }

    /// Puts everything back to work that a fault has left as it is not to stay.
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

/// What the log says of clients that were closed for another reason than that they were tied to their process.
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

/// Rounds of all faults until the time is over.
fn run_rounds(scene: &mut Scene, report: &mut Report) {
    let minutes = std::env::var("NARROWS_CHAOS_MINUTES").ok().and_then(|minutes| minutes.parse().ok());
    let end = Instant::now() + Duration::from_secs(60 * minutes.unwrap_or(60));
    let mut undone = 0;
    for round in 1.. {
        let mut faults = faults();
        scene.random.shuffle(&mut faults);
        println!("{:?}: round {round}", scene.cluster.flavour);
        for fault in faults {
            // What goes wrong again and again is not learned of any better.
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

/// All faults, or those that the environment names.
fn faults() -> Vec<Fault> {
    let Ok(wanted) = std::env::var("NARROWS_CHAOS_FAULTS") else {
        return FAULTS.iter().map(|(_, fault)| *fault).collect();
    };
    let of_name = |name: &str| {
        let found = FAULTS.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("NARROWS_CHAOS_FAULTS names {name:?}; there are {FAULTS:?}")).1
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

/// Worker processes and keepers of Narrows where nothing ends and nothing begins: one serves and one waits, each with two keepers.
const PROCESSES: usize = 6;
