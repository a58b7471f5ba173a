//! A thousand clients of four workers on one backend connection: everybody's turn comes.

use std::time::{Duration, Instant};

use narrows_testkit::{Conversation, FakeMysql, Narrows, NarrowsConfig};

use crate::alone;
use crate::swarm::Swarm;

const CLIENTS: usize = 1000;
const ROUNDS: usize = 10;

/// By how many later statements a statement may be overtaken, at most and on average: workers only see what has arrived
/// when they poll, and each polls independently, when the machine lets it run.
const OVERTAKEN: (usize, f64) = (CLIENTS / 4, 10.0);

#[test]
fn a_thousand_clients_of_one_connection_are_served_in_turn() {
    let _alone = alone();
    let server = FakeMysql::start(Conversation::new());
    let config = NarrowsConfig::new()
        .server(0, server.port(), "max_connections=1")
        .user("sbtest", "sbtest", "")
        .variable("threads", "4");
    let narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config);
    let mut swarm = Swarm::log_in(narrows.port(), CLIENTS);

    let mut sent = 0;
    let mut ask = |swarm: &mut Swarm, client: usize| {
        swarm.ask(client, &statement(sent));
        sent += 1;
    };
    let begun = Instant::now();
    (0..CLIENTS).for_each(|client| ask(&mut swarm, client));
    let mut rounds_left = [ROUNDS - 1; CLIENTS];
    let mut waits = Vec::new();
    while waits.len() < CLIENTS * ROUNDS {
        let answers = swarm.answers(Duration::from_secs(15));
        assert!(!answers.is_empty(), "{} statements have no answer", CLIENTS * ROUNDS - waits.len());
        for answer in answers {
            assert_eq!(answer.error, None, "client {}", answer.client);
            waits.push(answer.wait);
            if rounds_left[answer.client] > 0 {
                rounds_left[answer.client] -= 1;
                ask(&mut swarm, answer.client);
            }
        }
    }
    let service = begun.elapsed() / (CLIENTS * ROUNDS) as u32;

    let received = server.received();
    let order: Vec<usize> = received.iter().filter_map(|received| number(&received.body)).collect();
    let overtaken = overtakings(&order);
    // The first round is sent at once: its order of arrival is determined by the workers, not by the sender.
    let overtaken: Vec<usize> =
        order.iter().zip(overtaken).filter(|(n, _)| **n >= CLIENTS).map(|(_, k)| k).collect();
    let mean = overtaken.iter().sum::<usize>() as f64 / overtaken.len() as f64;
    let (most, longest) = (overtaken.iter().max().expect("some"), waits.iter().max().expect("some"));
    println!(
        "service time {service:.0?}; longest wait {longest:.1?}, {:.2} x clients x service time; \
         overtaken by {most} at most, {mean:.2} on average",
        longest.as_secs_f64() / (service * CLIENTS as u32).as_secs_f64()
    );
    assert_eq!(order.len(), CLIENTS * ROUNDS);
    assert_eq!(server.connections(), 1);
    assert!(*most <= OVERTAKEN.0, "a statement was overtaken by {most} later ones");
    assert!(mean <= OVERTAKEN.1, "statements were overtaken by {mean} on average");
    assert!(*longest <= service * CLIENTS as u32 * 3, "a statement waited for {longest:?}");
}

fn statement(number: usize) -> String {
    format!("DO {number}")
}

fn number(statement: &str) -> Option<usize> {
    statement.strip_prefix("DO ")?.parse().ok()
}

/// For each statement in the order of service, how many later ones were served before it.
fn overtakings(order: &[usize]) -> Vec<usize> {
    // Those served so far, in order of arrival.
    let mut served: Vec<usize> = Vec::with_capacity(order.len());
    let overtaken = |arrival: &usize| {
        let place = served.partition_point(|other| other < arrival);
        served.insert(place, *arrival);
        served.len() - 1 - place
    };
    order.iter().map(overtaken).collect()
}
