//! Parties that do not send, do not read, or do not end: clients in the middle of a command, stopped servers, servers
//! that ignore a kill. None of them holds what others wait for longer than its limit.

use std::time::{Duration, Instant};

use narrows_testkit::{
    Conversation, FakeMysql, Flavour, Move, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions,
    command, wait_until, writer,
};

use crate::support::start;

const SECOND: Duration = Duration::from_secs(1);
const MIB: usize = 1 << 20;

/// Error 1159 of MySQL: `ER_NET_READ_INTERRUPTED`.
const NOT_SENT: u16 = 1159;
const INTERRUPTED: u16 = 1317;
const TIMED_OUT: u16 = 1907;
const SERVER_LOST: u16 = 2013;

/// In front of a server that accepts this many connections.
fn few_connections(port: u16, count: usize) -> NarrowsConfig {
    NarrowsConfig::new().server(0, port, &format!("max_connections={count}")).user("sbtest", "sbtest", "")
}

/// Sends the beginning of a command of `all` bytes.
fn begin_command(client: &mut RawClient, all: usize, sent: usize) {
    let mut bytes = vec![b'x'; sent];
    bytes[..4].copy_from_slice(&(all as u32).to_le_bytes());
    bytes[4..13].copy_from_slice(b"\x03SELECT '");
    client.send_bytes(&bytes).expect("it is sent");
}

fn figure(narrows: &Narrows, name: &str) -> u64 {
    let mut admin = narrows.admin();
    let rows = admin.query("SHOW NARROWS STATUS").text_rows();
    let row = rows.iter().find(|row| row[0].as_deref() == Some(name)).expect("a figure of that name");
    row[1].as_deref().and_then(|cell| cell.parse().ok()).expect("a number")
}

/// A server whose statement `DO slow` never ends, whatever is killed.
fn deaf_server() -> FakeMysql {
    FakeMysql::start(Conversation::new().on("DO slow", &[Move::Hang]))
}

#[test]
fn clients_that_stop_in_the_middle_of_a_long_command_hold_no_connection() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&few_connections(server.port(), 20));
    let mut stalled: Vec<RawClient> = (0..25).map(|_| narrows.client()).collect();
    for client in &mut stalled {
        begin_command(client, 8 * MIB, 2 * MIB);
    }
    let mut client = narrows.client();
    let begun = Instant::now();

    client.query("DO 1").ok().expect("it is served");

    assert!(begun.elapsed() < 5 * SECOND, "after {:?}", begun.elapsed());
    assert!(server.connections() < 20, "{} connections", server.connections());
}

#[test]
fn a_long_command_goes_through_whether_it_is_taken_in_or_streamed() {
    for (size, total) in [("67108864", "268435456"), ("1048576", "268435456"), ("67108864", "0")] {
        let server = RealServer::shared(Flavour::MariaDb);
        let config = NarrowsConfig::in_front_of(server.port())
            .variable("max_allowed_packet", "67108864")
            .variable("upload_buffer_size", size)
            .variable("upload_buffers_total", total);
        let narrows = start(&config);
        let mut client = narrows.client();
        // Below, at and above the size of one packet.
        for length in [3 * MIB, (16 << 20) - 1 - 18, 18 << 20] {
            let statement = format!("SELECT LENGTH('{}')", "x".repeat(length));
            assert_eq!(client.query(statement).cell(), Some(length.to_string()), "{size} {total}");
            assert_eq!(client.query("SELECT 2").cell().as_deref(), Some("2"), "{size} {total}");
        }
    }
}

#[test]
fn a_client_that_stops_in_a_command_too_long_to_be_taken_in_is_closed() {
    let server = FakeMysql::start(Conversation::new());
    let config = few_connections(server.port(), 2)
        .variable("upload_buffer_size", "1048576")
        .variable("stall_timeout_client", "1000");
    let narrows = start(&config);
    let mut stalled: Vec<RawClient> = (0..2).map(|_| narrows.client()).collect();
    for client in &mut stalled {
        begin_command(client, 8 * MIB, 2 * MIB);
    }
    server.wait_for_open(2);

    narrows.client().query("DO 1").ok().expect("it is served after them");

    for client in &mut stalled {
        let error = client.answer(command::QUERY).error().expect("an error");
        assert_eq!(error.code, NOT_SENT, "{error:?}");
        assert!(error.message.contains("stall_timeout_client"), "{error:?}");
        assert!(client.is_closed_within(10 * SECOND));
    }
    assert_eq!(figure(&narrows, "Narrows_stalled_clients"), 2);
    let said = narrows.log().lines().filter(|line| line.contains("stall_timeout_client")).count();
    assert_eq!(said, 2, "one line each");
}

#[test]
fn a_client_that_trickles_is_closed_and_one_that_pauses_goes_on() {
    let server = FakeMysql::start(Conversation::new());
    let config = NarrowsConfig::in_front_of(server.port())
        .variable("upload_buffer_size", "1048576")
        .variable("stall_bytes_client", "65536")
        .variable("stall_timeout_client", "2000");
    let narrows = start(&config);
    let (mut trickles, mut pauses) = (narrows.client(), narrows.client());
    begin_command(&mut trickles, 8 * MIB, 2 * MIB);
    begin_command(&mut pauses, 4 * MIB - 4, 2 * MIB);
    // Four pauses of half the limit, each followed by enough data.
    for _ in 0..4 {
        for _ in 0..10 {
            std::thread::sleep(SECOND / 10);
            // It may be closed by now.
            let _ = trickles.send_bytes(b"x");
        }
        pauses.send_bytes(&vec![b'x'; MIB / 2]).expect("the session continues");
    }

    pauses.answer(command::QUERY).ok().expect("an answer");

    assert_eq!(figure(&narrows, "Narrows_stalled_clients"), 1);
    assert!(trickles.is_closed_within(10 * SECOND));
}

#[test]
fn a_client_that_stops_reading_is_closed() {
    let rows = [Move::beginning_of_rows("c"), Move::Endless(writer::row(&[Some(&"x".repeat(60_000))]))];
    let server = FakeMysql::start(Conversation::new().on("SELECT endless", &rows));
    let config = few_connections(server.port(), 2).variable("stall_timeout_client", "1000");
    let narrows = start(&config);
    let mut stalled: Vec<RawClient> = (0..2).map(|_| narrows.client()).collect();
    for client in &mut stalled {
        client.send_command(command::QUERY, b"SELECT endless").expect("it is sent");
    }
    server.wait_for_times("SELECT endless", 2);

    narrows.client().query("DO 1").ok().expect("it is served after them");

    wait_until("both are closed", || figure(&narrows, "Narrows_stalled_clients") == 2);
}

#[test]
fn a_session_has_the_time_that_it_has_set_with_net_write_timeout() {
    let server = RealServer::shared(Flavour::MariaDb);
    let config = NarrowsConfig::in_front_of(server.port()).variable("stall_timeout_client", "1000");
    let narrows = start(&config);
    let mut client = narrows.client();
    // As Connector/J does before it streams a result.
    client.query("SET net_write_timeout=600").ok().expect("it is sent");
    let statement = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
                     SELECT REPEAT('x', 60000) FROM n";
    client.send_command(command::QUERY, statement.as_bytes()).expect("it is sent");

    std::thread::sleep(3 * SECOND);

    assert_eq!(client.answer(command::QUERY).text_rows().len(), 1000);
    assert_eq!(figure(&narrows, "Narrows_stalled_clients"), 0);
}

#[test]
fn a_client_that_stops_reading_can_be_killed() {
    for kill in ["KILL", "KILL QUERY"] {
        let rows = [Move::beginning_of_rows("c"), Move::Endless(writer::row(&[Some(&"x".repeat(60_000))]))];
        let server = FakeMysql::start(Conversation::new().on("SELECT endless", &rows));
        let config = few_connections(server.port(), 1).variable("kill_timeout_server", "500");
        let narrows = start(&config);
        let mut stalled = narrows.client();
        let id = stalled.greeting().expect("a greeting").connection_id;
        stalled.send_command(command::QUERY, b"SELECT endless").expect("it is sent");
        server.wait_for("SELECT endless");
        let mut client = narrows.client();

        client.query(format!("{kill} {id}")).ok().expect("killed");

        client.query("DO 1").ok().expect("it is served after it");
    }
}

#[test]
fn a_client_that_stops_in_its_file_is_closed() {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&[
        "CREATE DATABASE IF NOT EXISTS stalls",
        "CREATE OR REPLACE TABLE stalls.t (c VARCHAR(20)) ENGINE=MyISAM",
    ]);
    let config = few_connections(server.port(), 1)
        .variable("enable_load_data_local_infile", "true")
        .variable("stall_timeout_client", "1000");
    let narrows = start(&config);
    let mut stalled = narrows.client();
    let statement = "LOAD DATA LOCAL INFILE 'f' INTO TABLE stalls.t";
    stalled.send_command(command::QUERY, statement.as_bytes()).expect("it is sent");
    assert_eq!(stalled.read().expect("the request").payload, b"\xfbf");
    stalled.send(b"one\ntwo\n").expect("it is sent");

    let error = stalled.answer(command::QUERY).error().expect("an error");

    assert_eq!(error.code, NOT_SENT, "{error:?}");
    assert_eq!(narrows.client().query("SELECT 2").cell().as_deref(), Some("2"));
}

#[test]
fn a_statement_whose_server_ignores_the_kill_ends_for_its_client() {
    let server = deaf_server();
    let config = few_connections(server.port(), 1)
        .variable("default_query_timeout", "1000")
        .variable("kill_timeout_server", "500");
    let narrows = start(&config);
    let mut client = narrows.client();
    let begun = Instant::now();

    let error = client.query("DO slow").error().expect("an error");

    assert_eq!(error.code, TIMED_OUT, "{error:?}");
    assert!((SECOND..10 * SECOND).contains(&begun.elapsed()), "after {:?}", begun.elapsed());
    // The session continues on another connection.
    client.query("DO 1").ok().expect("an answer");
    assert_eq!((server.wait_for("DO slow"), figure(&narrows, "Narrows_ignored_kills")), (0, 1));
    assert!(server.wait_for("DO 1") > 0);
}

#[test]
fn a_rule_with_a_timeout_holds_where_the_server_ignores_the_kill() {
    let server = deaf_server();
    let config = NarrowsConfig::in_front_of(server.port())
        .rule("rule_id=1 match_digest=\"slow\" timeout=500 apply=1")
        .variable("kill_timeout_server", "500");
    let narrows = start(&config);

    let error = narrows.client().query("DO slow").error().expect("an error");

    assert_eq!(error.code, TIMED_OUT, "{error:?}");
}

#[test]
fn kill_query_ends_a_statement_whose_server_ignores_it_and_a_transaction_with_it() {
    let server = FakeMysql::start(
        Conversation::new()
            .on("BEGIN", &[Move::Reply(vec![writer::ok(0, 0, 3, 0)])])
            .on("DO slow", &[Move::Hang]),
    );
    let narrows = start(&NarrowsConfig::in_front_of(server.port()).variable("kill_timeout_server", "500"));
    for in_transaction in [false, true] {
        let (mut client, mut other) = (narrows.client(), narrows.client());
        let id = client.greeting().expect("a greeting").connection_id;
        if in_transaction {
            client.query("BEGIN").ok().expect("a transaction");
        }
        let before = server.received().len();
        client.send_command(command::QUERY, b"DO slow").expect("it is sent");
        wait_until("it runs", || server.received()[before..].iter().any(|it| it.body == "DO slow"));

        other.query(format!("KILL QUERY {id}")).ok().expect("killed");

        let error = client.answer(command::QUERY).error().expect("an error");
        assert_eq!(error.code, INTERRUPTED, "{error:?}");
        if in_transaction {
            assert!(client.is_closed_within(10 * SECOND), "its transaction is gone");
        } else {
            client.query("DO 1").ok().expect("the session continues");
        }
    }
}

#[test]
fn a_server_that_stands_still_while_a_command_is_sent_is_given_up() {
    let mut server = ServerOptions::new(Flavour::MariaDb).start();
    let config = NarrowsConfig::in_front_of(server.port())
        .variable("max_allowed_packet", "67108864")
        .variable("stall_timeout_server", "1000");
    let narrows = start(&config);
    let (mut client, mut killed) = (narrows.client(), narrows.client());
    let id = killed.greeting().expect("a greeting").connection_id;
    for client in [&mut client, &mut killed] {
        client.query("START TRANSACTION").ok().expect("a connection of its own");
        // The connection knows all that a long statement may ask about earlier ones.
        client.query("SELECT 1");
    }
    server.freeze();
    let long = [b"DO '".as_slice(), &vec![b'x'; 40 * MIB], b"'"].concat();
    let begun = Instant::now();

    let sent = std::thread::scope(|scope| {
        let one = scope.spawn(|| {
            client.set_patience(20 * SECOND);
            client.query(&long).error()
        });
        let other = scope.spawn(|| {
            killed.set_patience(20 * SECOND);
            killed.query(&long).error()
        });
        narrows.client().query(format!("KILL {id}")).ok().expect("killed");
        (one.join().expect("no panic"), other.join().expect("no panic"))
    });

    assert!(begun.elapsed() < 15 * SECOND, "after {:?}", begun.elapsed());
    let error = sent.0.expect("an error");
    assert_eq!(error.code, SERVER_LOST, "{error:?}");
    assert_eq!(figure(&narrows, "Narrows_stalled_servers"), 1);
    server.thaw();
}

#[test]
fn a_client_is_sent_no_more_in_a_second_than_it_may() {
    let server = RealServer::shared(Flavour::MariaDb);
    let config = NarrowsConfig::in_front_of(server.port())
        .variable("throttle_max_bytes_per_second_to_client", "100000");
    let narrows = start(&config);
    let mut client = narrows.client();
    client.query("SELECT 1");
    let begun = Instant::now();

    let answer = client.query("SELECT REPEAT('x', 200000), REPEAT('y', 1000)");

    assert_eq!(answer.text_rows()[0][0].as_ref().map(String::len), Some(200_000));
    // All pieces except the last are waited for.
    assert!(begun.elapsed() >= 3 * SECOND / 2, "after {:?}", begun.elapsed());
    // And a limit for the answer does not apply to its end.
    let id = client.greeting().expect("a greeting").connection_id;
    client.send_command(command::QUERY, b"SELECT REPEAT('x', 10000000)").expect("it is sent");
    narrows.client().query(format!("KILL {id}")).ok().expect("killed");
    assert!(client.is_closed_within(10 * SECOND));
}
