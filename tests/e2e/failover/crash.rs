//! The primary is killed under writing clients, and a tool promotes a replica three seconds later. Each client keeps a ledger of
//! its answers, which is compared with the servers: nothing that was acknowledged is lost, nothing is done twice, and nothing
//! that has not run by its answer has run, on the new primary and on the old one.
//!
//! The servers lose nothing by themselves: a commit is acknowledged when a replica has it (semi-synchronous replication, with no
//! limit that is reached), and the replica that has more is promoted.
//!
//! `NARROWS_SWITCHOVER=long` kills 20 primaries of each kind of server.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, Narrows, wait_until};

use super::is_long;
use super::ledger::{Faults, Ledger, TABLE, write};
use super::servers::Servers;
use crate::support::start;

fn kills(flavour: Flavour) {
    let mut servers = Servers::start_semi_synchronous(flavour);
    servers.nodes[0].execute(&[TABLE]);
    servers.have_all(0);
    let narrows = start(&servers.config());
    servers.wait_for_roles(&mut narrows.admin());
    let (count, clients) = if is_long() { (20, 16) } else { (2, 8) };
    let (stop, ledger) = (AtomicBool::new(false), Mutex::new(Ledger::default()));
    let mut primary = 0;
    let mut times = Vec::new();
    let mut rebuilt = 0;
    thread::scope(|scope| {
        for client in 0..clients {
            let (narrows, stop, ledger) = (&narrows, &stop, &ledger);
            scope.spawn(move || write(narrows, client, Duration::from_millis(20), stop, ledger));
        }
        let rounds = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..count {
                wait_for_writes(&ledger, clients * 20);
                let killed = Instant::now();
                servers.nodes[primary].kill();
                // What the tool needs to notice and to decide.
                thread::sleep(Duration::from_secs(3));
                let old = primary;
                primary = servers.promote(old);
                let promoted = Instant::now();
                wait_for_writes(&ledger, clients);
                times.push(promoted.elapsed());
                rebuilt += usize::from(servers.return_as_replica(old, primary, &mut |node| {
                    let wrong = ledger.lock().unwrap().told_wrongly(node);
                    assert!(
                        wrong.is_empty(),
                        "not run by their answers, and done on the old primary: {wrong:?}"
                    );
                }));
                check_errors(&ledger.lock().unwrap(), (killed, Instant::now()), clients);
            }
        }));
        stop.store(true, Ordering::Relaxed);
        rounds.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    report(flavour, (&servers, primary), &ledger.into_inner().unwrap(), &narrows, (&times, rebuilt));
}

fn report(
    flavour: Flavour,
    (servers, primary): (&Servers, usize),
    ledger: &Ledger,
    narrows: &Narrows,
    (times, rebuilt): (&[Duration], usize),
) {
    let faults = ledger.compare(&servers.nodes[primary]);
    assert_eq!(faults, Faults::default(), "{:#?}\n{}", ledger.errors, narrows.log());
    servers.have_all(primary);
    for node in &servers.nodes {
        assert_eq!(ledger.compare(node), Faults::default(), "a replica has the same");
    }
    let [done, not_done, unknown] = ledger.counts();
    println!(
        "{flavour:?}: {} primaries killed, {done} writes acknowledged, {not_done} with the answer that they have not run, {unknown} that \
         they may have run; 0 lost, 0 twice, 0 wrong answers; clients wrote again at most {:?} after the promotion; {rebuilt} old primaries \
         had more than the new one, and were filled again",
        times.len(),
        times.iter().max().unwrap()
    );
}

/// Only what was in flight fails: at most one statement of each client, and only while there was no primary.
fn check_errors(ledger: &Ledger, (from, to): (Instant, Instant), clients: usize) {
    assert_eq!(ledger.unexplained, Vec::<String>::new());
    // A client whose statement has failed may begin a transaction before the last connection of the dying server is closed.
    let of_it =
        ledger.errors.iter().filter(|(at, text)| *at >= from && *at <= to && !text.starts_with("BEGIN"));
    let of_it: Vec<_> = of_it.collect();
    assert!(of_it.len() <= clients, "{of_it:#?}");
}

/// Waits until so many more writes were acknowledged.
fn wait_for_writes(ledger: &Mutex<Ledger>, more: usize) {
    let done = || ledger.lock().unwrap().counts()[0];
    let before = done();
    wait_until("clients write", || done() >= before + more);
}

#[test]
fn answers_are_true_when_primaries_of_mariadb_are_killed() {
    Flavour::MariaDb.if_tested(kills);
}

#[test]
fn answers_are_true_when_primaries_of_mysql9_are_killed() {
    Flavour::MySql9.if_tested(kills);
}
