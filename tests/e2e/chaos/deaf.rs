//! Servers that ignore kills, by design or because they are stopped: clients' statements end all the same.

use std::time::{Duration, Instant};

use narrows_testkit::{Conversation, FakeMysql, Move, RawClient, command, wait_until};

use super::report::{Report, Times};
use super::servers::recovered;
use super::{Scene, short_or_long};

/// A server that obeys kills, except for one statement, which it never ends.
pub fn server() -> FakeMysql {
    FakeMysql::start(Conversation::new().on("DO deaf", &[Move::Hang]))
}

/// Statements end by the timeout of their rule, by KILL QUERY and with KILL of their session.
pub fn ignore_kills(scene: &mut Scene, report: &mut Report) {
    report.scenario("servers ignore kills", |load| {
        let mut defects = Vec::new();
        for _ in 0..short_or_long(1, 5) {
            defects.extend(deaf_statements(scene));
        }
        let replica = scene.cluster.replicas()[0];
        defects.extend(frozen_statements(scene, replica));
        Times { defects, ..recovered(&scene.cluster, load, replica) }
    });
}

fn deaf_statements(scene: &Scene) -> Vec<String> {
    let mut clients: Vec<RawClient> = (0..EACH * 3).map(|_| scene.client()).collect();
    let ids: Vec<u32> =
        clients.iter_mut().map(|client| client.greeting().expect("a greeting").connection_id).collect();
    let before = heard(scene);
    let begun = Instant::now();
    for client in &mut clients {
        client.send_command(command::QUERY, b"DO deaf").expect("it is sent");
    }
    wait_until("it has all of them", || heard(scene) == before + clients.len());
    let mut other = scene.client();
    for (number, id) in ids.iter().enumerate() {
        match number % 3 {
            0 => {}
            1 => drop(other.query(format!("KILL QUERY {id}")).ok().expect("killed")),
            _ => drop(other.query(format!("KILL {id}")).ok().expect("killed")),
        }
    }
    let mut defects = Vec::new();
    for (number, client) in clients.iter_mut().enumerate() {
        let answer = client.answer(command::QUERY);
        let code = answer.error().map(|error| error.code);
        let wanted: &[u16] = match number % 3 {
            0 => &[TIMED_OUT],
            // It may have timed out first.
            1 => &[INTERRUPTED, TIMED_OUT],
            _ => &[INTERRUPTED, TIMED_OUT, LOST],
        };
        if !code.is_some_and(|code| wanted.contains(&code)) {
            defects.push(format!(
                "a statement whose server is deaf, kind {}: {:?}",
                number % 3,
                answer.error()
            ));
        }
        // A client that was not killed continues.
        if number % 3 != 2 && client.query("DO hears").ok().is_none() {
            defects.push("a session whose server was deaf does not continue".to_owned());
        }
    }
    defects.extend(too_late(begun));
    defects
}

/// The same with a server that is stopped.
fn frozen_statements(scene: &mut Scene, replica: usize) -> Vec<String> {
    let mut clients: Vec<RawClient> = (0..EACH).map(|_| scene.client()).collect();
    let begun = Instant::now();
    for client in &mut clients {
        client.send_command(command::QUERY, b"SELECT SLEEP(0.05) FROM chaos.facts").expect("it is sent");
    }
    std::thread::sleep(Duration::from_millis(300));
    scene.cluster.nodes[replica].server.freeze();
    let answers: Vec<_> = clients.iter_mut().map(|client| client.answer(command::QUERY)).collect();
    let late = too_late(begun);
    scene.cluster.nodes[replica].server.thaw();
    let wrong = answers.iter().filter(|answer| answer.error().is_none_or(|error| error.code != TIMED_OUT));
    let wrong = wrong.map(|answer| format!("a statement that timed out: {:?}", answer.error()));
    wrong.chain(late).collect()
}

fn too_late(begun: Instant) -> Option<String> {
    let took = begun.elapsed();
    (took > LIMIT).then(|| format!("statements whose servers are deaf ended after {took:?}"))
}

/// How often that server has received its statement.
fn heard(scene: &Scene) -> usize {
    scene.deaf.received().iter().filter(|received| received.body == "DO deaf").count()
}

/// Statements of each kind.
const EACH: usize = 5;

/// A second by their rule, one for the kill, and time for other load on the machine.
const LIMIT: Duration = Duration::from_secs(20);

const INTERRUPTED: u16 = 1317;
const TIMED_OUT: u16 = 1907;
/// Error 2013, which shows a client that its connection was closed.
const LOST: u16 = 2013;
