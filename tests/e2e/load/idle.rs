//! What an idle client costs.

use std::time::Duration;

use narrows_testkit::{Conversation, FakeMysql, Login, Narrows, NarrowsConfig, RawClient, tls_client};

use crate::alone;
use crate::limits::{clients_allowed, open_to_all};
use crate::swarm::Swarm;

/// Resident memory per idle client.
const BOUND: u64 = 4096;

const IDLE: Duration = Duration::from_secs(5);

#[test]
fn idle_clients_cost_less_than_a_page_each_and_no_processor_time() {
    let _alone = alone();
    let server = FakeMysql::start(Conversation::new());
    let config = open_to_all(server.port())
        // No connection is opened or closed while memory is measured.
        .variable("free_connections_pct", "100");
    let mut narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config);
    Swarm::log_in(narrows.port(), 100).ask_all("DO 1");
    let before = narrows.process().resident_bytes();

    let mut swarm = Swarm::log_in(narrows.port(), clients_allowed(50_000));
    let clients = swarm.len() as u64;
    let after_login = narrows.process().resident_bytes().saturating_sub(before) / clients;
    swarm.ask_all("DO 2");
    let after_query = narrows.process().resident_bytes().saturating_sub(before) / clients;
    let mut idle = || {
        let before = narrows.process().cpu();
        std::thread::sleep(IDLE);
        (narrows.process().cpu() - before).as_secs_f64() / IDLE.as_secs_f64()
    };
    // Memory left over from the logins is released in the first seconds, in a few checks and trims of 150 ms each.
    let cpu = (0..8).map(|_| idle()).find(|cpu| *cpu < 0.01).unwrap_or_else(&mut idle);

    println!(
        "{clients} idle clients: {after_login} bytes each after the login, {after_query} after a statement; \
         {:.2} % of a core",
        cpu * 100.0
    );
    assert!(after_login < BOUND, "{after_login} bytes per client after the login");
    assert!(after_query < BOUND, "{after_query} bytes per client after a statement");
    assert!(cpu < 0.01, "{cpu} of a core for doing nothing");
    swarm.ask_all("DO 3");
}

/// Resident memory per idle client over TLS, including its keys.
const TLS_BOUND: u64 = 24 * 1024;

#[test]
fn idle_clients_over_tls_hold_their_keys_and_no_buffers() {
    let _alone = alone();
    let server = FakeMysql::start(Conversation::new());
    let config = NarrowsConfig::new()
        .server(0, server.port(), "max_connections=20")
        .user("sbtest", "sbtest", "max_connections=100000")
        .variable("free_connections_pct", "100");
    let mut narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config);
    let ca = std::fs::read_to_string(narrows.folder().join("proxysql-ca.pem")).expect("made at the start");
    let trust = tls_client(&ca, None);
    let login = Login::new("sbtest", "sbtest");
    let open = |count: usize| -> Vec<RawClient> {
        let one = |_| {
            let mut client = RawClient::open_tls(&narrows.endpoint(), &trust, &login);
            assert_eq!(client.query("DO 1").error(), None);
            client
        };
        (0..count).map(one).collect()
    };
    let warm_up = open(100);
    let before = narrows.resident_bytes();
    let clients = open(1_500);
    let each = narrows.resident_bytes().saturating_sub(before) / clients.len() as u64;
    println!("{} idle clients over TLS: {each} bytes each", clients.len());
    assert!(each < TLS_BOUND, "{each} bytes per client");
    drop((warm_up, clients));
    assert!(narrows.process().try_wait().is_none());
}
