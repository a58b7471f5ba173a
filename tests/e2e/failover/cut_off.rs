//! The worker process is killed in the middle of a switchover, after each of its steps. The next one lets clients continue, says what
//! has happened, and the answers of clients are true.
//!
//! `NARROWS_SWITCHOVER=long` kills it after every step; the short form after those that leave different states.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use narrows_testkit::{Flavour, Narrows, RawClient, wait_until};

use super::is_long;
use super::ledger::{Faults, Ledger, TABLE, write};
use super::servers::Servers;
use crate::support::start;

/// What is to be seen after the process has died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// The old primary takes writes, and nothing was done.
    Old,
    /// No server takes writes, until somebody acts.
    None,
    /// The new one takes writes.
    New,
    /// The same, and clients continue already.
    NewForClients,
}

const STEPS: [(&str, Left, bool); 10] = [
    ("wait until it has nearly all", Left::Old, false),
    ("HOLD HOSTGROUP", Left::Old, true),
    ("SET GLOBAL read_only = 1", Left::None, true),
    ("SELECT @@GLOBAL.gtid_binlog_pos", Left::None, false),
    ("wait until it has all of", Left::None, false),
    ("SET GLOBAL read_only = 0", Left::New, true),
    ("is the writer of hostgroup", Left::New, false),
    ("RELEASE HOSTGROUP", Left::NewForClients, false),
    ("RESET SLAVE ALL", Left::NewForClients, true),
    ("CHANGE MASTER TO", Left::NewForClients, false),
];

fn killed_after(step: &str, left: Left) {
    let servers = Servers::some(Flavour::MariaDb, 2);
    servers.nodes[0].execute(&[TABLE]);
    servers.have_all(0);
    let narrows = start(&servers.config().supervised().environment("NARROWS_INJECT_KILL_AFTER", step));
    servers.wait_for_roles(&mut narrows.admin());
    let (stop, ledger) = (AtomicBool::new(false), Mutex::new(Ledger::default()));
    thread::scope(|scope| {
        for client in 0..4 {
            let (narrows, stop, ledger) = (&narrows, &stop, &ledger);
            scope.spawn(move || write(narrows, client, Duration::from_millis(5), stop, ledger));
        }
        let checks = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_for_writes(&ledger);
            let worker = narrows.worker();
            let to = format!("NARROWS SWITCHOVER HOSTGROUP 0 TO '127.0.0.1:{}'", servers.nodes[1].port());
            assert!(narrows.admin().query(&to).error().is_some(), "its connection was lost");
            wait_until("another worker process serves", || narrows.worker() != worker);
            check_what_is_left(&narrows, &servers, left);
            wait_for_writes(&ledger);
        }));
        stop.store(true, Ordering::Relaxed);
        checks.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let mut ledger = ledger.into_inner().unwrap();
    // Who was in a transaction has lost its connection with the process.
    ledger.unexplained.retain(|error| !error.contains("connection lost"));
    let writer = usize::from(matches!(left, Left::New | Left::NewForClients));
    assert_eq!(ledger.unexplained, Vec::<String>::new(), "{step}");
    assert_eq!(ledger.compare(&servers.nodes[writer]), Faults::default(), "{step}: {:#?}", ledger.errors);
    let [done, not_done, unknown] = ledger.counts();
    println!("killed after `{step}`: {done} writes acknowledged, {not_done} not run, {unknown} may have run");
}

fn check_what_is_left(narrows: &Narrows, servers: &Servers, left: Left) {
    let takes_writes: Vec<bool> = servers.nodes.iter().map(takes_writes).collect();
    let expected = match left {
        Left::Old => [true, false],
        Left::None => [false, false],
        Left::New | Left::NewForClients => [false, true],
    };
    assert_eq!(takes_writes, expected);
    let mut admin = admin_of(narrows);
    let shown = admin.query("SHOW NARROWS SWITCHOVER").text_rows();
    if shown.is_empty() {
        // Nothing was changed and nobody was held, so there is nothing to say.
        assert_eq!(left, Left::Old);
        return;
    }
    let state = shown[0][3].clone().unwrap_or_default();
    let says = |reason: &str| state == format!("failed: it was cut off by the end of its process{reason}");
    let while_held = says(
        ", and nothing was undone: if no server takes writes, run SET GLOBAL read_only = 0 on the old primary",
    );
    let later = says(
        " after clients had continued: see on the old primary and on the replicas whether they replicate from the new primary",
    );
    let is_true = match left {
        Left::NewForClients => later,
        Left::Old | Left::None | Left::New => while_held,
    };
    assert!(is_true, "{shown:?}");
    narrows.wait_for_log(0, |line| line.contains("a switchover was cut off by the end of its process"));
    if left == Left::None {
        servers.nodes[0].execute(&["SET GLOBAL read_only = 0"]);
    }
}

fn takes_writes(server: &narrows_testkit::RealServer) -> bool {
    server.rows("SELECT @@GLOBAL.read_only")[0][0].as_deref() == Some("0")
}

/// A session of an administrator, once the new process has the admin port.
fn admin_of(narrows: &Narrows) -> RawClient {
    wait_until("administrators are served", || RawClient::try_connect(&narrows.admin_endpoint()).is_ok());
    narrows.admin()
}

fn wait_for_writes(ledger: &Mutex<Ledger>) {
    let done = || ledger.lock().unwrap().counts()[0];
    let before = done();
    wait_until("clients write", || done() >= before + 20);
}

#[test]
fn clients_continue_and_the_state_is_shown_when_the_worker_process_dies_in_a_switchover() {
    Flavour::MariaDb.if_tested(|_| {
        for (step, left, is_in_short_form) in STEPS {
            if is_long() || is_in_short_form {
                killed_after(step, left);
            }
        }
    });
}
