//! Ten thousand clients on twenty backend connections.

use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, Narrows, RealServer};

use crate::alone;
use crate::limits::{clients_allowed, open_to_all};
use crate::swarm::Swarm;

/// Answers per client that are measured, on average.
const ROUNDS: usize = 8;

const STATEMENT: &str = "SELECT c FROM crowd.t WHERE id = 37";

/// A wait is the latency of a statement while all clients always have one outstanding: nearly all of it is spent
/// waiting for one of the backend connections.
#[test]
fn ten_thousand_clients_on_twenty_connections_wait_alike() {
    let _alone = alone();
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&[
        "CREATE DATABASE IF NOT EXISTS crowd",
        "CREATE OR REPLACE TABLE crowd.t (id INT PRIMARY KEY, c CHAR(120))",
        "INSERT INTO crowd.t SELECT seq, REPEAT('c', 119) FROM crowd.seq_1_to_100",
    ]);
    let config = open_to_all(server.port());
    let mut narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config);
    let mut swarm = Swarm::log_in(narrows.port(), clients_allowed(10_000));
    (0..swarm.len()).for_each(|client| swarm.ask(client, STATEMENT));
    // The measurement starts once every client has had an answer.
    measure(&mut swarm, 1);
    let (cpu, begun) = (narrows.process().cpu(), Instant::now());
    let mut waits = measure(&mut swarm, ROUNDS);
    let (cpu, elapsed) = (narrows.process().cpu() - cpu, begun.elapsed());

    waits.sort_unstable();
    let at = |permille: usize| waits[(waits.len() - 1) * permille / 1000];
    println!(
        "{} clients, {} answers in {elapsed:.1?}: wait median {:.0?}, p99 {:.0?}, longest {:.0?} ({:.2} x median); \
         {:.1} us of CPU per statement",
        swarm.len(),
        waits.len(),
        at(500),
        at(990),
        at(1000),
        at(1000).as_secs_f64() / at(500).as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / waits.len() as f64
    );
    assert!(at(1000) <= at(500) * 5, "one client waited for {:?}, most for {:?}", at(1000), at(500));
    let connected = server.rows("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'sbtest'");
    assert!(connected[0][0].as_ref().expect("a number").parse::<u32>().expect("a number") <= 20);
}

/// Keeps all clients busy until each has had at least one answer and `rounds` on average; returns the waits.
fn measure(swarm: &mut Swarm, rounds: usize) -> Vec<Duration> {
    let mut waits = Vec::new();
    let mut answers = vec![0_usize; swarm.len()];
    let mut unanswered = swarm.len();
    while unanswered > 0 || waits.len() < rounds * swarm.len() {
        let batch = swarm.answers(Duration::from_secs(15));
        assert!(!batch.is_empty(), "no more answers; {unanswered} clients have had no answer");
        for answer in batch {
            assert_eq!(answer.error, None, "client {}", answer.client);
            unanswered -= usize::from(answers[answer.client] == 0);
            answers[answer.client] += 1;
            waits.push(answer.wait);
            swarm.ask(answer.client, STATEMENT);
        }
    }
    waits
}
