//! The primary of a pair stops answering (SIGSTOP), a tool outside promotes a replica, and the old primary wakes up, still writable.
//!
//! Whatever waits on it has an answer within a bound, nothing goes to it any more, and no acknowledged write is lost.
//!
//! `NARROWS_SWITCHOVER=long` does it 25 times with each kind of server.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, Login, Narrows, RawClient, wait_until};

use super::is_long;
use super::ledger::{self, Faults, Ledger, Said, TABLE};
use super::servers::Servers;
use crate::support::start;

/// Checks of `read_only` every 500 ms, which time out after 800 ms: three of them, and what a busy machine takes.
const BOUND: Duration = Duration::from_secs(8);

/// Pings every second, of which three must fail after a second each: a read does not depend on the role of its server.
const BOUND_OF_READS: Duration = Duration::from_secs(12);

/// Stops the writers, also when the test has failed.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn client(narrows: &Narrows) -> RawClient {
    let mut client = RawClient::open(&narrows.endpoint(), &Login::new("shop", "shop"));
    client.set_patience(Duration::from_secs(60));
    client
}

/// The servers that are written to, by port.
fn writers(admin: &mut RawClient) -> Vec<Option<String>> {
    let rows =
        admin.query("SELECT port FROM runtime_mysql_servers WHERE hostgroup_id = 0 AND status = 'ONLINE'");
    rows.text_rows().into_iter().flatten().collect()
}

fn hangs_and_wakes(flavour: Flavour) {
    let mut servers = Servers::start_semi_synchronous(flavour);
    servers.nodes[0].execute(&[TABLE]);
    servers.have_all(0);
    let config = servers
        .config()
        .variable("monitor_ping_interval", "1000")
        .variable("connect_timeout_server_max", "30000");
    let narrows = start(&config);
    let mut admin = narrows.admin();
    servers.wait_for_roles(&mut admin);
    let (stop, ledger) = (AtomicBool::new(false), Mutex::new(Ledger::default()));
    let done = || ledger.lock().unwrap().counts()[0];
    let mut primary = 0;
    thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        for number in 0..8 {
            let (narrows, stop, ledger) = (&narrows, &stop, &ledger);
            scope.spawn(move || ledger::write(narrows, number, Duration::from_millis(5), stop, ledger));
        }
        for round in 0..if is_long() { 25 } else { 2 } {
            let before = done();
            wait_until("clients write", || done() > before + 100);
            let mut waiting: Vec<RawClient> = (0..3).map(|_| client(&narrows)).collect();
            let [idle, writes, reads] = &mut waiting[..] else { panic!("three") };
            for client in [&mut *idle, &mut *reads] {
                assert_eq!(client.query("BEGIN").error(), None);
            }
            let insert = format!("INSERT INTO shop.ledger VALUES (99, {round})");
            assert_eq!(idle.query(&insert).error(), None);
            // One that has only begun would begin again on another server.
            assert_eq!(reads.query("SELECT COUNT(*) FROM shop.counter").error(), None);
            servers.nodes[primary].freeze();
            let hung = Instant::now();
            let answered = thread::scope(|scope| {
                let write = scope.spawn(|| {
                    // It waits for a writer as soon as it is known that this one is none.
                    writes.query(format!("INSERT INTO shop.ledger VALUES (98, {round})"));
                    hung.elapsed()
                });
                let read = scope.spawn(|| {
                    let answer = reads.query("SELECT COUNT(*) FROM shop.ledger");
                    let took = hung.elapsed();
                    let log = || format!("round {round}: after {took:?}: {answer:?}\n{}", narrows.log());
                    assert!(answer.error().is_some(), "its transaction was on the old primary: {}", log());
                    took
                });
                // A tool is quicker than the monitor, or slower.
                thread::sleep(Duration::from_millis([1_000, 6_000, 200, 3_000][round % 4]));
                let old = primary;
                primary = servers.promote(old);
                let promoted = hung.elapsed();
                let written = done();
                wait_until("clients write again", || done() > written + 50);
                servers.nodes[old].thaw();
                for _ in 0..20 {
                    let new = Some(servers.nodes[primary].port().to_string());
                    assert_eq!(writers(&mut admin), [new], "round {round}: {}", narrows.log());
                    thread::sleep(Duration::from_millis(100));
                }
                let [write, read] = [write, read].map(|it| it.join().expect("an answer"));
                assert!(write < BOUND.max(promoted + Duration::from_secs(3)), "round {round}: {write:?}");
                assert!(read < BOUND_OF_READS, "round {round}: {read:?}");
                (old, write, read)
            });
            let committed = idle.query("COMMIT");
            assert!(committed.error().is_some(), "round {round}: {committed:?}");
            println!(
                "{flavour:?} round {round}: a write had its answer after {:?}, a read after {:?}",
                answered.1, answered.2
            );
            servers.return_as_replica(answered.0, primary, &mut |_| {});
        }
    });
    let ledger = ledger.into_inner().unwrap();
    servers.have_all(primary);
    let faults = ledger.compare(&servers.nodes[primary]);
    assert_eq!(faults, Faults::default(), "{:#?}\n{}", ledger.errors, narrows.log());
    assert_eq!(ledger.unexplained, [""; 0]);
    let [done, not_done, unknown] = ledger.counts();
    println!(
        "{flavour:?}: {done} writes acknowledged, {not_done} not run, {unknown} may have run ({:?})",
        Said::Unknown
    );
}

#[test]
fn a_primary_of_mariadb_that_hangs_is_left_and_is_no_writer_when_it_wakes() {
    hangs_and_wakes(Flavour::MariaDb);
}

#[test]
fn a_primary_of_mysql_that_hangs_is_left_and_is_no_writer_when_it_wakes() {
    hangs_and_wakes(Flavour::MySql9);
}
