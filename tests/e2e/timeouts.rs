//! Limits of time and number: what ends by itself, what is refused, and which errors the client receives.
//!
//! Tests wait for the event, never for the time; they fail if it happens too early.

use std::time::{Duration, Instant};

use narrows_testkit::{
    Conversation, ErrorPacket, FakeMysql, Flavour, Login, Move, Narrows, NarrowsConfig, RawClient,
    RealServer, command, wait_until,
};

use crate::support::start;

const SECOND: Duration = Duration::from_secs(1);

/// Error 4031 of MySQL: disconnected because of inactivity.
const INACTIVE: u16 = 4031;

const BILLION_ROWS: &str = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
                            SELECT SUM(a.i + b.i + c.i) AS endless FROM n a, n b, n c";

#[test]
fn an_idle_client_is_sent_away_after_wait_timeout() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&NarrowsConfig::in_front_of(server.port()).variable("wait_timeout", "1000"));
    let mut client = narrows.client();
    client.query("DO 1");

    let farewell = farewell(&mut client, SECOND);

    assert_eq!(farewell.code, INACTIVE, "{farewell:?}");
    assert!(farewell.message.contains("wait_timeout"), "{farewell:?}");
}

#[test]
fn a_client_that_rests_between_and_within_its_commands_goes_on_until_wait_timeout() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&NarrowsConfig::in_front_of(server.port()).variable("wait_timeout", "5000"));
    let mut client = narrows.client();
    // Longer than a session keeps the buffer for its commands, and shorter than it may be idle.
    let rest = || std::thread::sleep(Duration::from_millis(2_300));
    client.query("DO 1").ok().expect("it serves");
    let statement = b"\x05\0\0\0\x03DO 2";
    client.send_bytes(&statement[..6]).expect("it is sent");
    rest();
    client.send_bytes(&statement[6..]).expect("it is sent");
    client.answer(command::QUERY).ok().expect("the session continues");
    rest();
    client.query("DO 3").ok().expect("the session continues");

    let farewell = farewell(&mut client, 5 * SECOND);

    assert_eq!(farewell.code, INACTIVE, "{farewell:?}");
}

#[test]
fn an_idle_transaction_is_rolled_back_and_its_client_sent_away() {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&[
        "CREATE DATABASE IF NOT EXISTS idle_transaction",
        "CREATE OR REPLACE TABLE idle_transaction.t (n INT)",
    ]);
    let config = NarrowsConfig::in_front_of(server.port()).variable("max_transaction_idle_time", "1000");
    let narrows = start(&config);
    let mut client = narrows.client();
    client.query("START TRANSACTION");
    client.query("INSERT INTO idle_transaction.t VALUES (1)").ok().expect("a row");

    let farewell = farewell(&mut client, SECOND);

    assert_eq!(farewell.code, INACTIVE, "{farewell:?}");
    assert!(farewell.message.contains("max_transaction_idle_time"), "{farewell:?}");
    let locked = "SELECT n FROM idle_transaction.t FOR UPDATE";
    assert!(server.rows(locked).is_empty(), "the row is still there");
    // Outside a transaction the limit does not apply.
    let mut other = narrows.client();
    other.query("SELECT 1");
    assert!(!other.is_closed_within(2 * SECOND));
}

#[test]
fn a_long_transaction_ends_though_its_client_is_busy() {
    let server = RealServer::shared(Flavour::MariaDb);
    let config = NarrowsConfig::in_front_of(server.port()).variable("max_transaction_time", "1000");
    let narrows = start(&config);
    let mut client = narrows.client();
    let begun = Instant::now();
    client.query("START TRANSACTION").ok().expect("a transaction");

    let farewell = loop {
        if let Some(error) = client.query("SELECT 1").error() {
            break error;
        }
        assert!(begun.elapsed() < 10 * SECOND, "the transaction never ends");
    };

    assert!(begun.elapsed() >= SECOND);
    assert_eq!(farewell.code, INACTIVE, "{farewell:?}");
    assert!(farewell.message.contains("max_transaction_time"), "{farewell:?}");
}

#[test]
fn a_statement_is_killed_after_default_query_timeout() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let config = NarrowsConfig::in_front_of(server.port()).variable("default_query_timeout", "1000");
        let narrows = start(&config);
        let mut client = narrows.client();
        let begun = Instant::now();

        // Unlike SLEEP() and BENCHMARK(), which end without an error when killed.
        let error = client.query(BILLION_ROWS).error().expect("an error");

        assert_eq!(error.code, 1907, "{error:?}");
        assert!((SECOND..10 * SECOND).contains(&begun.elapsed()), "after {:?}", begun.elapsed());
        assert_eq!(client.query("SELECT 2").cell().as_deref(), Some("2"));
        let running = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%AS endless FROM n a, n b%' AND ID <> CONNECTION_ID()";
        wait_until("the statement is killed", || server.rows(running)[0][0].as_deref() == Some("0"));
    }
}

#[test]
fn error_9001_names_a_server_that_is_down() {
    let port = FakeMysql::nobody();
    let narrows = start(&NarrowsConfig::in_front_of(port).variable("connect_timeout_server_max", "500"));
    let mut client = narrows.client();
    let begun = Instant::now();

    let error = client.query("SELECT 1").error().expect("an error");

    assert!((SECOND / 2..5 * SECOND).contains(&begun.elapsed()), "after {:?}", begun.elapsed());
    assert_eq!(error.code, 9001, "{error:?}");
    for cause in ["hostgroup 0", &format!("127.0.0.1:{port}"), "refused"] {
        assert!(error.message.contains(cause), "{cause} is missing: {error:?}");
    }
    // The session continues, and finds the server once it is back.
    let server = FakeMysql::start_on(port, Conversation::new());
    client.query("DO 1").ok().expect("an answer");
    server.wait_for("DO 1");
}

#[test]
fn error_9001_names_a_server_that_is_full() {
    let server = RealServer::shared(Flavour::MariaDb);
    let config = NarrowsConfig::new()
        .server(0, server.port(), "max_connections=1")
        .user("sbtest", "sbtest", "")
        .variable("connect_timeout_server_max", "500");
    let narrows = start(&config);
    let mut keeper = narrows.client();
    keeper.query("START TRANSACTION");
    let mut client = narrows.client();

    let error = client.query("SELECT 1").error().expect("an error");

    assert_eq!(error.code, 9001, "{error:?}");
    assert!(error.message.contains("pool 1/1"), "{error:?}");
    keeper.query("COMMIT");
    assert_eq!(client.query("SELECT 2").cell().as_deref(), Some("2"));
}

#[test]
fn a_connection_older_than_connection_max_age_is_closed() {
    let server = FakeMysql::start(Conversation::new());
    let config = NarrowsConfig::in_front_of(server.port()).variable("connection_max_age_ms", "500");
    let narrows = start(&config);
    let mut client = narrows.client();
    client.query("DO 1");
    assert_eq!(server.open_connections(), 1);

    server.wait_for_open(0);

    client.query("DO 2").ok().expect("an answer");
    assert_eq!((server.wait_for("DO 1"), server.wait_for("DO 2")), (0, 1));
}

#[test]
fn connections_are_opened_early_where_warming_is_on() {
    let server = FakeMysql::start(Conversation::new());
    let config = NarrowsConfig::new()
        .server(0, server.port(), "max_connections=50")
        .user("sbtest", "sbtest", "")
        .variable("free_connections_pct", "20")
        .variable("connection_warming", "true");
    let narrows = start(&config);

    narrows.client().query("DO 1").ok().expect("an answer");

    server.wait_for_open(10);
}

#[test]
fn a_hostgroup_opens_no_more_connections_in_a_second_than_it_may() {
    let server = RealServer::shared(Flavour::MariaDb);
    let config =
        NarrowsConfig::in_front_of(server.port()).variable("throttle_connections_per_sec_to_hostgroup", "2");
    let narrows = start(&config);
    let begun = Instant::now();

    let mut clients: Vec<RawClient> = (0..5).map(|_| narrows.client()).collect();
    for client in &mut clients {
        client.query("START TRANSACTION").ok().expect("a transaction");
    }

    // At the earliest, the first two at the end of one second, two in the next, and the fifth in the third.
    assert!(begun.elapsed() >= SECOND, "five in {:?}", begun.elapsed());
}

#[test]
fn an_idle_connection_is_pinged_and_kept() {
    let server = FakeMysql::start(Conversation::new());
    let config = NarrowsConfig::in_front_of(server.port())
        .variable("ping_interval_server_msec", "1000")
        // A ping that is answered late on a busy machine would close the connection.
        .variable("ping_timeout_server", "20000");
    let narrows = start(&config);
    let mut client = narrows.client();
    client.query("DO 1");

    let pings = || server.received().iter().filter(|received| received.code == command::PING).count();
    wait_until("two pings", || pings() >= 2);

    client.query("DO 2").ok().expect("an answer");
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_connection_that_does_not_answer_its_ping_is_closed() {
    let mut server = narrows_testkit::ServerOptions::new(Flavour::MariaDb).start();
    let config = NarrowsConfig::in_front_of(server.port())
        .variable("ping_interval_server_msec", "1000")
        .variable("ping_timeout_server", "100");
    let narrows = start(&config);
    let mut client = narrows.client();
    client.query("SELECT 1");
    let connections = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'sbtest'";
    let before = server.rows(connections);
    assert_eq!(before.len(), 1);

    server.freeze();
    let idle = || established(server.port());
    assert_eq!(idle(), 1);
    wait_until("the connection is released", || idle() == 0);
    server.thaw();

    assert_eq!(client.query("SELECT 2").cell().as_deref(), Some("2"));
    wait_until("the server has closed the old one", || server.rows(connections).len() == 1);
    assert_ne!(server.rows(connections), before);
}

#[test]
fn one_client_more_than_max_connections_is_refused() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&NarrowsConfig::in_front_of(server.port()).variable("max_connections", "2"));
    let mut clients = [narrows.client(), narrows.client()];
    clients.iter_mut().for_each(|client| drop(client.query("DO 1")));

    let error = try_login(&narrows).expect_err("one too many");

    assert_eq!((error.code, error.state.as_str()), (1040, "08004"), "{error:?}");
    drop(clients);
    wait_until("there is room again", || try_login(&narrows).is_ok());
}

#[test]
fn one_client_more_than_its_user_may_have_is_refused() {
    let server = FakeMysql::start(Conversation::new());
    let config = NarrowsConfig::new()
        .server(0, server.port(), "")
        .user("sbtest", "sbtest", "max_connections=1")
        .user("other", "other", "");
    let narrows = start(&config);
    let first = narrows.client();

    let error = try_login(&narrows).expect_err("one too many");

    assert_eq!((error.code, error.state.as_str()), (1226, "42000"), "{error:?}");
    RawClient::open(&narrows.endpoint(), &Login::new("other", "other"))
        .query("DO 1")
        .ok()
        .expect("another user");
    drop(first);
    wait_until("there is room again", || try_login(&narrows).is_ok());
}

/// Waits for an unsolicited error and then the end of the connection, not before `least` has passed.
fn farewell(client: &mut RawClient, least: Duration) -> ErrorPacket {
    let begun = Instant::now();
    let packet = client.read().expect("a last word");
    // The time counts from the last answer, which came a moment before this clock was read.
    assert!(begun.elapsed() > least * 9 / 10, "after {:?}", begun.elapsed());
    assert!(client.is_closed_within(10 * SECOND));
    ErrorPacket::decode(&packet.payload).unwrap_or_else(|| panic!("no error: {packet:?}"))
}

fn try_login(narrows: &Narrows) -> Result<Vec<u8>, ErrorPacket> {
    RawClient::connect(&narrows.endpoint()).login(&Login::new("sbtest", "sbtest"))
}

/// TCP connections of this machine that are established with a port of 127.0.0.1, counted at the other end.
fn established(port: u16) -> usize {
    const ESTABLISHED: &str = "01";
    let remote = format!("0100007F:{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
    let fits = |line: &&str| {
        let mut fields = line.split_whitespace().skip(2);
        fields.next() == Some(&remote) && fields.next() == Some(ESTABLISHED)
    };
    table.lines().filter(fits).count()
}

/// The server receives a kill and does not answer: it may still execute it long after the statement has ended.
#[test]
fn a_kill_that_may_still_arrive_meets_no_other_statement() {
    let mut conversation = Conversation::new().on("DO slow", &[Move::Wait, Move::ok()]);
    for id in 0..4 {
        conversation = conversation.on(&format!("KILL QUERY {id}"), &[Move::Hang]);
    }
    let server = FakeMysql::start(conversation);
    let config = NarrowsConfig::new()
        .server(0, server.port(), "max_connections=1")
        .variable("threads", "1")
        .variable("connect_timeout_server", "300")
        .user("sbtest", "sbtest", "");
    let narrows = start(&config);
    let (mut slow, mut other) = (narrows.client(), narrows.client());
    slow.send_command(command::QUERY, b"DO slow").expect("commands are read");
    let first = server.wait_for("DO slow");
    let id = slow.greeting().expect("it was greeted").connection_id;
    other.query(format!("KILL QUERY {id}"));
    let is_kill = |body: &str| body.starts_with("KILL QUERY");
    while !server.received().iter().any(|received| is_kill(&received.body)) {
        std::thread::yield_now();
    }
    server.release();
    assert!(slow.answer(command::QUERY).error().is_none(), "the statement arrived");

    assert!(other.query("DO 1").error().is_none());

    assert_ne!(server.wait_for("DO 1"), first, "the connection that a kill may hit is closed");
}
