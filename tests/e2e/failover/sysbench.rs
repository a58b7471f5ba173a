//! Planned switchovers under sysbench, which reads and writes as fast as it can: no error, and how long its longest transaction
//! took at each.
//!
//! `NARROWS_SWITCHOVER=long` makes 50 switchovers of each kind of server, with 32 threads.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use narrows_testkit::{Flavour, RawClient, RealServer};

use super::load::{Load, Run, SLOW};
use super::servers::Servers;
use super::{held_ms, is_long, shares};
use crate::support::start;
use crate::sysbench::figure;

/// The begin and the end of each transaction that was slow.
fn slow_events(report: &str) -> Vec<(SystemTime, SystemTime)> {
    let times = |line: &str| {
        let mut words = line.strip_prefix("TOOK ")?.split(' ');
        let mut time = || Some(UNIX_EPOCH + Duration::from_micros(words.next()?.parse().ok()?));
        Some((time()?, time()?))
    };
    report.lines().filter_map(times).collect()
}

fn under_sysbench(flavour: Flavour) {
    let servers = Servers::start(flavour);
    LOAD.prepare(&servers.nodes[0]);
    servers.have_all(0);
    let narrows = start(&servers.config());
    let mut admin = narrows.admin();
    servers.wait_for_roles(&mut admin);
    // On a machine that is busy with something else a replica may be slow.
    admin.set_patience(Duration::from_secs(150));
    let (count, threads) = if is_long() { (50, 32) } else { (3, 16) };
    let run = Run::start(LOAD, narrows.port(), threads);
    let (mut made, mut held, mut primary) = (Vec::new(), Vec::new(), 0);
    for turn in 1..=count {
        // It writes for a while in between.
        thread::sleep(Duration::from_secs(1));
        let next = (primary + 1) % 3;
        let began = SystemTime::now();
        let steps = switch_over(&mut admin, &servers.nodes[next]);
        let steps = steps.unwrap_or_else(|error| panic!("switchover {turn}: {error}\n{}", narrows.log()));
        made.push((began, SystemTime::now()));
        held.extend(held_ms(&steps));
        primary = next;
    }
    let report = run.stop();
    assert!(!report.contains("FAILED"), "{report}");
    let events = slow_events(&report);
    let longest = |(began, ended): &(SystemTime, SystemTime)| {
        let of_it = events.iter().filter(|(from, to)| from <= ended && to >= began);
        of_it.filter_map(|(from, to)| to.duration_since(*from).ok()).max().unwrap_or(SLOW)
    };
    let (median, p99, most) = shares(made.iter().map(longest).collect());
    let (held_median, _, held_most) = shares(held.into_iter().map(Duration::from_millis).collect());
    println!(
        "{flavour:?}: {count} switchovers under sysbench with {threads} threads, {} transactions, 0 errors; its longest \
         transaction at each: median {median:?}, p99 {p99:?}, max {most:?}; held: median {held_median:?}, max {held_most:?}",
        figure(&report, "transactions:")
    );
    servers.have_all(primary);
}

fn switch_over(admin: &mut RawClient, to: &RealServer) -> Result<Vec<Vec<Option<String>>>, String> {
    let answer = admin.query(format!("NARROWS SWITCHOVER HOSTGROUP 0 TO '127.0.0.1:{}'", to.port()));
    match answer.error() {
        Some(error) => Err(error.message),
        None => Ok(answer.text_rows()),
    }
}

#[test]
fn sysbench_writes_on_through_planned_switchovers_of_mariadb() {
    Flavour::MariaDb.if_tested(under_sysbench);
}

#[test]
fn sysbench_writes_on_through_planned_switchovers_of_mysql9() {
    Flavour::MySql9.if_tested(under_sysbench);
}

/// Small tables: transactions meet each other.
const LOAD: Load = Load { rows: 10_000, keeps_ledger: false };
