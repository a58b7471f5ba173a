//! Twenty thousand clients that wait while their hostgroup is held: what each costs, and that the bounds hold.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use narrows_testkit::{Conversation, FakeMysql, Narrows, RawClient, wait_until};

use crate::alone;
use crate::limits::{clients_allowed, open_to_all};
use crate::swarm::Swarm;

/// Resident memory per client that waits, beyond what it costs when it is idle: its statement, its place, and what its session does.
const BOUND: u64 = 24 * 1024;

const STATEMENT: &str = "INSERT INTO t VALUES (1)";

#[test]
fn twenty_thousand_clients_wait_in_little_memory_within_their_time_and_until_a_forgotten_hold_ends() {
    let _alone = alone();
    let server = FakeMysql::start(Conversation::new());
    let clients = clients_allowed(20_000);
    let waits_s = 25;
    let settings = format!(
        "hostgroup_id=0 hostgroup_settings=\"{{\\\"max_waiting\\\":{},\\\"max_waiting_ms\\\":{}}}\"",
        clients - 100,
        waits_s * 1000
    );
    let config = open_to_all(server.port())
        .row("mysql_hostgroup_attributes", &settings)
        .variable("free_connections_pct", "100");
    let mut narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config);
    let mut swarm = Swarm::log_in(narrows.port(), clients);
    swarm.ask_all("DO 1");
    let idle = narrows.process().resident_bytes();
    let mut admin = narrows.admin();

    // One hundred more than may wait.
    hold(&mut admin, 60);
    let began = Instant::now();
    (0..clients).for_each(|client| swarm.ask(client, STATEMENT));
    let refused = answers(&mut swarm, 100);
    assert_eq!(refused.keys().collect::<Vec<_>>(), ["9001"], "{refused:?}");
    wait_until("the others wait", || waiting(&mut admin) == clients - 100);
    let asked = began.elapsed();
    let each = narrows.process().resident_bytes().saturating_sub(idle) / (clients as u64 - 100);

    // Nobody releases them, and their time is shorter than that of the hold.
    let late = answers(&mut swarm, clients - 100);
    assert_eq!(late.keys().collect::<Vec<_>>(), ["9001"], "{late:?}");
    let over = began.elapsed();
    assert!(over >= Duration::from_secs(waits_s), "{over:?}");

    // A hold that is shorter than their time, and that nobody ends.
    hold(&mut admin, 10);
    let began = Instant::now();
    (0..clients - 100).for_each(|client| swarm.ask(client, STATEMENT));
    let served = answers(&mut swarm, clients - 100);
    assert_eq!(served.keys().collect::<Vec<_>>(), ["OK"], "{served:?}");
    println!(
        "{} clients wait: {each} bytes each; {clients} statements had arrived after {asked:.1?}; error 9001 for all of them after \
         {over:.1?}, with {waits_s} s; all were served {:.1?} after a hold of 10 s had begun",
        clients - 100,
        began.elapsed()
    );
    assert!(each < BOUND, "{each} bytes for each client that waits");
}

fn hold(admin: &mut RawClient, seconds: u32) {
    assert_eq!(admin.query(format!("NARROWS HOLD HOSTGROUP 0 FOR {seconds}")).error(), None);
}

fn waiting(admin: &mut RawClient) -> usize {
    let rows = admin.query("SHOW NARROWS WAITERS").text_rows();
    rows.first().and_then(|row| row[1].as_ref()?.parse().ok()).unwrap_or(0)
}

/// Waits for so many answers; returns how many there were of each kind: `OK`, or the code of the error.
fn answers(swarm: &mut Swarm, count: usize) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    let mut missing = count;
    while missing > 0 {
        let batch = swarm.answers(Duration::from_secs(60));
        assert!(!batch.is_empty(), "{missing} answers are missing");
        missing = missing.saturating_sub(batch.len());
        for answer in batch {
            let kind = answer.error.map_or("OK".to_owned(), |error| error[..4].to_owned());
            *kinds.entry(kind).or_default() += 1;
        }
    }
    kinds
}
