//! `NARROWS HOLD` and `NARROWS RELEASE`, and the bounds of those who wait, in front of scripted servers.

use std::thread;
use std::time::{Duration, Instant};

use narrows_testkit::{
    Answer, Conversation, FakeMysql, Flavour, Move, Narrows, NarrowsConfig, RawClient, RealServer, command,
    kill, wait_until, writer,
};

use crate::support::start;

/// OK, with a transaction open.
fn in_transaction() -> Move {
    Move::Reply(vec![writer::ok(0, 0, 3, 0)])
}

fn writer_server() -> FakeMysql {
    FakeMysql::start(
        Conversation::new()
            .on("BEGIN", &[in_transaction()])
            .on("UPDATE in_transaction", &[in_transaction()])
            .on("SELECT slow", &[Move::Wait, Move::rows("slow", &["done"])]),
    )
}

fn config(port: u16) -> NarrowsConfig {
    NarrowsConfig::in_front_of(port).variable("threads", "2")
}

fn row(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.error(), None);
    answer.text_rows().into_iter().next().unwrap_or_default().into_iter().flatten().collect()
}

fn rows(admin: &mut RawClient, statement: &str) -> Vec<Vec<String>> {
    let rows = admin.query(statement).text_rows();
    rows.into_iter().map(|row| row.into_iter().flatten().collect()).collect()
}

fn hold(admin: &mut RawClient, seconds: u32) -> Vec<String> {
    row(&admin.query(format!("NARROWS HOLD HOSTGROUP 0 FOR {seconds}")))
}

fn release(admin: &mut RawClient) {
    assert_eq!(admin.query("NARROWS RELEASE HOSTGROUP 0").error(), None);
}

fn wait_for_waiters(admin: &mut RawClient, count: usize) {
    wait_until("so many wait", || {
        rows(admin, "SHOW NARROWS WAITERS").first().is_some_and(|row| row[1] == count.to_string())
    });
}

fn send(client: &mut RawClient, statement: &str) {
    client.send_command(command::QUERY, statement.as_bytes()).expect("it is sent");
}

fn received(server: &FakeMysql, statement: &str) -> usize {
    server.received().iter().filter(|received| received.body == statement).count()
}

#[test]
fn new_statements_wait_while_a_hostgroup_is_held_and_go_on_in_the_order_of_coming() {
    let server = writer_server();
    let narrows = start(
        &NarrowsConfig::new()
            .server(0, server.port(), "max_connections=1")
            .user("sbtest", "sbtest", "")
            .variable("threads", "1"),
    );
    let mut admin = narrows.admin();
    assert_eq!(hold(&mut admin, 60)[..4], ["0", "0", "0", "0"]);
    let statements: Vec<String> = (1..=10).map(|turn| format!("INSERT INTO t VALUES ({turn})")).collect();
    let mut clients: Vec<RawClient> = statements.iter().map(|_| narrows.client()).collect();
    for (count, (client, statement)) in (1..).zip(clients.iter_mut().zip(&statements)) {
        send(client, statement);
        wait_for_waiters(&mut admin, count);
    }
    let waiting = rows(&mut admin, "SHOW NARROWS WAITERS");
    let bytes: usize = statements.iter().map(|statement| statement.len() + 5).sum();
    assert_eq!((waiting[0][0].as_str(), waiting[0][4].as_str()), ("0", "held"));
    assert_eq!(waiting[0][2], bytes.to_string());
    let held = rows(&mut admin, "SHOW NARROWS HOLDS");
    assert_eq!((held[0][0].as_str(), held[0][5].as_str()), ("0", "10"), "{held:?}");
    assert!(statements.iter().all(|statement| received(&server, statement) == 0), "nothing was sent");

    release(&mut admin);

    clients.iter_mut().for_each(|client| assert_eq!(client.answer(command::QUERY).error(), None));
    let sent = server.received().into_iter().map(|received| received.body);
    let sent: Vec<String> = sent.filter(|body| body.starts_with("INSERT")).collect();
    assert_eq!(sent, statements);
    assert!(rows(&mut admin, "SHOW NARROWS WAITERS").is_empty());
    assert!(rows(&mut admin, "SHOW NARROWS HOLDS").is_empty());
}

#[test]
fn a_transaction_goes_on_to_its_end_and_the_hold_answers_then() {
    let server = writer_server();
    let narrows = start(&config(server.port()));
    let (mut admin, mut other) = (narrows.admin(), narrows.admin());
    let (mut begun, mut new) = (narrows.client(), narrows.client());
    begun.query("BEGIN").ok().expect("it begins");
    thread::scope(|scope| {
        let answered = scope.spawn(|| hold(&mut admin, 60));
        wait_until("the hold has begun", || !rows(&mut other, "SHOW NARROWS HOLDS").is_empty());
        assert_eq!(rows(&mut other, "SHOW NARROWS HOLDS")[0][3], "1", "the transaction runs");
        send(&mut new, "BEGIN");
        wait_for_waiters(&mut other, 1);
        begun.query("UPDATE in_transaction").ok().expect("its transaction continues");
        assert!(!answered.is_finished());
        begun.query("COMMIT").ok().expect("it ends");
        assert_eq!(answered.join().unwrap()[1], "0");
    });
    assert_eq!(received(&server, "BEGIN"), 1, "the other one waits");
    release(&mut other);
    new.answer(command::QUERY).ok().expect("it begins");
}

#[test]
fn a_hold_says_how_many_still_run_when_half_of_its_time_is_over() {
    let server = writer_server();
    let narrows = start(&config(server.port()));
    let mut client = narrows.client();
    send(&mut client, "SELECT slow");
    server.wait_for("SELECT slow");
    let mut admin = narrows.admin();
    let began = Instant::now();
    let answer = hold(&mut admin, 2);
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(answer[1], "1");
    let left: u64 = answer[4].parse().unwrap();
    assert!(left <= 1_000, "{left}");
    server.release();
    assert_eq!(client.answer(command::QUERY).cell().as_deref(), Some("done"));
}

#[test]
fn a_client_that_keeps_a_connection_waits_too_and_keeps_it() {
    let server = writer_server();
    let narrows = start(&config(server.port()));
    let mut client = narrows.client();
    client.query("CREATE TEMPORARY TABLE t (a INT)").ok().expect("it is created");
    let mut admin = narrows.admin();
    assert_eq!(hold(&mut admin, 60)[1], "0", "a temporary table runs nothing");
    send(&mut client, "INSERT INTO t VALUES (1)");
    wait_for_waiters(&mut admin, 1);
    release(&mut admin);
    client.answer(command::QUERY).ok().expect("it is inserted");
    let connections: Vec<usize> = server
        .received()
        .into_iter()
        .filter(|received| received.body.contains(" t "))
        .map(|received| received.connection)
        .collect();
    assert_eq!(connections.len(), 2);
    assert_eq!(connections[0], connections[1]);
}

#[test]
fn a_client_that_has_waited_too_long_for_the_end_of_a_hold_gets_the_cause_and_keeps_what_it_has() {
    let server = writer_server();
    let settings = "hostgroup_id=0 hostgroup_settings=\"{\\\"max_waiting_ms\\\":300}\"";
    let narrows = start(&config(server.port()).row("mysql_hostgroup_attributes", settings));
    let (mut keeps, mut other) = (narrows.client(), narrows.client());
    keeps.query("CREATE TEMPORARY TABLE t (a INT)").ok().expect("it is created");
    let mut admin = narrows.admin();
    hold(&mut admin, 60);
    for client in [&mut keeps, &mut other] {
        let error = client.query("INSERT INTO t VALUES (1)").error().expect("it has waited too long");
        assert_eq!(error.code, 9001);
        assert!(error.message.contains("NARROWS HOLD is in force for another "), "{}", error.message);
    }
    release(&mut admin);
    keeps.query("INSERT INTO t VALUES (1)").ok().expect("its session continues");
    other.query("INSERT INTO t VALUES (1)").ok().expect("its session continues");
}

#[test]
fn no_more_clients_and_bytes_wait_than_may() {
    let server = writer_server();
    let settings =
        "hostgroup_id=0 hostgroup_settings=\"{\\\"max_waiting\\\":2,\\\"max_waiting_bytes\\\":100}\"";
    let narrows = start(&config(server.port()).row("mysql_hostgroup_attributes", settings));
    let mut admin = narrows.admin();
    hold(&mut admin, 60);
    let mut waiting: Vec<RawClient> = (0..2).map(|_| narrows.client()).collect();
    for (count, client) in (1..).zip(&mut waiting) {
        send(client, "SELECT 1");
        wait_for_waiters(&mut admin, count);
    }
    let mut late = narrows.client();
    let refused = |late: &mut RawClient, statement: &str| {
        let error = late.query(statement).error().expect("too many wait");
        assert_eq!(error.code, 9001);
        error.message
    };
    assert!(refused(&mut late, "SELECT 2").ends_with("2 clients wait already (max_waiting)"));
    drop(waiting.pop());
    wait_for_waiters(&mut admin, 1);
    let long = format!("SELECT '{}'", "x".repeat(100));
    assert!(refused(&mut late, &long).ends_with("more than 100 bytes (max_waiting_bytes)"));
    release(&mut admin);
    waiting[0].answer(command::QUERY).ok();
    late.query(&long).ok();
    let metrics: String =
        admin.query("SHOW PROMETHEUS METRICS").text_rows().into_iter().flatten().flatten().collect();
    let counted = "narrows_hostgroup_unavailable_total{hostgroup=\"0\",cause=\"too_many_wait\"} 2";
    assert!(metrics.contains(counted), "{metrics}");
    assert!(metrics.contains("narrows_hostgroup_waiting{hostgroup=\"0\"} 0"), "{metrics}");
}

#[test]
fn a_forgotten_hold_ends_by_itself_and_other_hostgroups_never_wait() {
    let (server, reader) = (writer_server(), FakeMysql::start(Conversation::new()));
    let config = config(server.port())
        .server(1, reader.port(), "")
        .rule("rule_id=1 active=1 match_digest=\"^SELECT\" destination_hostgroup=1 apply=1");
    let narrows = start(&config);
    let mut admin = narrows.admin();
    hold(&mut admin, 2);
    drop(admin);
    let (mut client, mut reads) = (narrows.client(), narrows.client());
    send(&mut client, "INSERT INTO t VALUES (1)");
    assert_eq!(reads.query("SELECT 1").error(), None);
    assert_eq!(received(&server, "INSERT INTO t VALUES (1)"), 0);
    client.answer(command::QUERY).ok().expect("it continues");
    narrows.wait_for_log(0, |line| line.contains("a hold has ended by itself"));
    assert!(rows(&mut narrows.admin(), "SHOW NARROWS HOLDS").is_empty());
}

#[test]
fn a_hold_outlives_a_load_of_servers_and_the_worker_process() {
    let server = writer_server();
    let narrows = start(&config(server.port()).supervised());
    let mut admin = narrows.admin();
    hold(&mut admin, 60);
    assert_eq!(admin.query("LOAD MYSQL SERVERS TO RUNTIME").error(), None);
    let mut client = narrows.client();
    send(&mut client, "INSERT INTO t VALUES (1)");
    wait_for_waiters(&mut admin, 1);
    drop(client);
    let worker = narrows.worker();
    kill(worker);
    wait_until("another worker process serves", || narrows.worker() != worker);
    narrows.wait_for_log(0, |line| line.contains("a hostgroup is still held"));
    let mut client = narrows.client();
    send(&mut client, "INSERT INTO t VALUES (2)");
    let mut admin = admin_of(&narrows);
    wait_for_waiters(&mut admin, 1);
    assert_eq!(received(&server, "INSERT INTO t VALUES (2)"), 0);
    let left: u64 = rows(&mut admin, "SHOW NARROWS HOLDS")[0][2].parse().unwrap();
    assert!(left < 60_000, "{left}");
    release(&mut admin);
    client.answer(command::QUERY).ok().expect("it continues");
}

/// A session of an administrator, once the new process has the admin port.
fn admin_of(narrows: &Narrows) -> RawClient {
    let mut found = None;
    wait_until("administrators are served", || {
        found = RawClient::try_connect(&narrows.admin_endpoint()).ok();
        found.is_some()
    });
    drop(found);
    narrows.admin()
}

#[test]
fn what_cannot_be_held_or_released_is_refused_with_the_reason() {
    let server = writer_server();
    let narrows = start(&config(server.port()));
    let mut admin = narrows.admin();
    for (statement, reason) in [
        ("NARROWS HOLD HOSTGROUP 7", "hostgroup 7 has no servers, and never had any"),
        ("NARROWS HOLD HOSTGROUP x", "x is no hostgroup"),
        ("NARROWS HOLD HOSTGROUP 0 FOR 0", "0 is no number of seconds from 1 to 300"),
        ("NARROWS HOLD HOSTGROUP 0 FOR 301", "301 is no number of seconds from 1 to 300"),
        ("NARROWS RELEASE HOSTGROUP 0", "hostgroup 0 is not held"),
    ] {
        let error = admin.query(statement).error().expect(statement);
        assert!(error.message.ends_with(reason), "{statement}: {}", error.message);
    }
    assert!(narrows.stats().query("NARROWS HOLD HOSTGROUP 0").error().is_some(), "only for full users");
}

#[test]
fn a_counter_written_by_a_hundred_clients_through_twenty_holds_is_exact() {
    Flavour::MariaDb.if_tested(|flavour| {
        let server = RealServer::shared(flavour);
        server.execute(&[
            "CREATE DATABASE IF NOT EXISTS counted_through_holds",
            "CREATE OR REPLACE TABLE counted_through_holds.counter (n INT NOT NULL)",
            "INSERT INTO counted_through_holds.counter VALUES (0)",
            "CREATE OR REPLACE TABLE counted_through_holds.turns (id INT AUTO_INCREMENT PRIMARY KEY, client INT, turn INT)",
        ]);
        // Nobody waits too long on a machine that is busy with something else.
        let narrows = start(&config(server.port()).variable("connect_timeout_server_max", "60000"));
        let mut admin = narrows.admin();
        let (clients, turns) = (100, 20);
        thread::scope(|scope| {
            let writers: Vec<_> = (0..clients)
                .map(|client| {
                    let narrows = &narrows;
                    scope.spawn(move || count_up(&mut narrows.client(), client, turns))
                })
                .collect();
            for _ in 0..20 {
                assert_eq!(hold(&mut admin, 60)[1], "0", "nothing runs");
                let counted = || server.rows("SELECT n FROM counted_through_holds.counter")[0][0].clone();
                let (before, after) = (counted(), counted());
                assert_eq!(before, after, "nothing is written while it is held");
                release(&mut admin);
            }
            writers.into_iter().for_each(|writer| writer.join().unwrap());
        });
        let counted = server.rows("SELECT n FROM counted_through_holds.counter")[0][0].clone();
        assert_eq!(counted, Some((clients * turns).to_string()));
        let overtaken = "SELECT count(*) FROM counted_through_holds.turns a JOIN counted_through_holds.turns b \
                         ON a.client = b.client AND a.id < b.id AND a.turn > b.turn";
        assert_eq!(server.rows(overtaken)[0][0].as_deref(), Some("0"), "a client's statements stay in order");
    });
}

/// Counts, and records its turns; of each two it sends the second before it has the answer to the first.
fn count_up(client: &mut RawClient, number: usize, turns: usize) {
    for turn in 0..turns {
        let insert =
            format!("INSERT INTO counted_through_holds.turns (client, turn) VALUES ({number}, {})", turn * 2);
        let next = format!(
            "INSERT INTO counted_through_holds.turns (client, turn) VALUES ({number}, {})",
            turn * 2 + 1
        );
        let count = "UPDATE counted_through_holds.counter SET n = n + 1";
        for statement in [insert.as_str(), count, next.as_str()] {
            send(client, statement);
        }
        for _ in 0..3 {
            assert_eq!(client.answer(command::QUERY).error(), None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}
