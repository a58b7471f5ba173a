//! Server-side cursors: the connection belongs to their client while they are open, and no longer.

use std::time::{Duration, Instant};

use narrows_testkit::{
    Answer, Conversation, Endpoint, FakeMysql, Login, Move, Narrows, NarrowsConfig, RawClient, capability,
    command, writer,
};

use super::statement::cell;
use super::{Statement, on_each};
use crate::support::start;

const ROWS: &str = "SELECT v FROM t ORDER BY id";

#[test]
fn the_connection_is_free_when_the_last_row_was_fetched() {
    on_each(1, |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let rows = Statement::prepare(&mut one, ROWS);
        for _ in 0..2 {
            assert!(rows.open_cursor(&mut one, &[]).error().is_none());
            assert_eq!(rows.fetch(&mut one, 2), Ok(vec!["one".to_owned(), "two".to_owned()]));
            assert_eq!(rows.fetch(&mut one, 2), Ok(vec!["three".to_owned()]));
            // There is no other connection: this one must be free.
            assert_eq!(other.query("SELECT 1").cell().as_deref(), Some("1"));
            let error = rows.fetch(&mut one, 1).expect_err("it is at its end");
            assert_eq!(error.code, 1421);
            assert!(error.message.starts_with("The statement (1) has no open cursor"), "{error:?}");
        }
    });
}

#[test]
fn the_connection_is_free_when_the_cursor_is_given_up() {
    on_each(1, |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let rows = Statement::prepare(&mut one, ROWS);
        let mut free = || assert_eq!(other.query("SELECT 1").cell().as_deref(), Some("1"));
        rows.open_cursor(&mut one, &[]);
        assert!(rows.reset(&mut one).error().is_none());
        free();
        rows.open_cursor(&mut one, &[]);
        rows.fetch(&mut one, 1).expect("a row");
        rows.close(&mut one);
        free();
        let rows = Statement::prepare(&mut one, ROWS);
        rows.open_cursor(&mut one, &[]);
        drop(one);
        free();
    });
}

#[test]
fn cursors_of_several_statements_are_open_at_once() {
    on_each(2, |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let (left, right) = (Statement::prepare(&mut one, ROWS), Statement::prepare(&mut one, ROWS));
        left.open_cursor(&mut one, &[]);
        right.open_cursor(&mut one, &[]);
        assert_eq!(left.fetch(&mut one, 1), Ok(vec!["one".to_owned()]));
        assert_eq!(right.fetch(&mut one, 2), Ok(vec!["one".to_owned(), "two".to_owned()]));
        assert_eq!(left.fetch(&mut one, 1), Ok(vec!["two".to_owned()]));
        let by_other = Statement::prepare(&mut other, ROWS);
        by_other.open_cursor(&mut other, &[]);
        assert_eq!(by_other.fetch(&mut other, 1), Ok(vec!["one".to_owned()]));
        assert_eq!(right.fetch(&mut one, 2), Ok(vec!["three".to_owned()]));
        assert_eq!(left.fetch(&mut one, 2), Ok(vec!["three".to_owned()]));
    });
}

#[test]
fn one_clients_cursor_leaves_nothing_behind_for_another() {
    on_each(1, |scene| {
        let (mut one, mut other) = (scene.client(), scene.client());
        let text = "SELECT v FROM t WHERE id = 1";
        let (by_one, by_other) = (Statement::prepare(&mut one, text), Statement::prepare(&mut other, text));
        for _ in 0..3 {
            by_one.open_cursor(&mut one, &[]);
            assert_eq!(by_one.fetch(&mut one, 5), Ok(vec!["one".to_owned()]));
            assert_eq!(cell(&by_other.execute(&mut other, &[])), "one");
        }
    });
}

/// The kinds of packets in an answer.
fn shape(answer: &Answer) -> Vec<&'static str> {
    let kind = |payload: &[u8]| match payload.first() {
        Some(0xFF) => "ERR",
        Some(0xFE) if payload.len() < 9 => "EOF",
        Some(1) if payload.len() == 1 => "count",
        _ => "column",
    };
    answer.packets.iter().map(|packet| kind(&packet.payload)).collect()
}

/// A client with this form, for which a backend connection has been opened.
fn opened_by(narrows: &Narrows, form: u32) -> RawClient {
    let login = Login::new("sbtest", "sbtest").without(capability::DEPRECATE_EOF).with(form);
    let mut opener = RawClient::open(&narrows.endpoint(), &login);
    opener.query("DO 0").ok().expect("a connection");
    opener
}

/// Checks that sequence numbers are consecutive, and that the session is in step.
fn is_in_step(client: &mut RawClient, answer: &Answer) {
    let numbers: Vec<u8> = answer.packets.iter().map(|packet| packet.sequence).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)), "{numbers:?}");
    client.query("DO 1").ok().expect("the session is in step");
    assert_eq!(client.unread(), 0);
}

#[test]
fn an_error_in_the_place_of_a_cursor_is_all_that_follows_the_columns_in_every_form() {
    let killed = writer::error(1317, "70100", "Query execution was interrupted");
    for server_form in [0, capability::DEPRECATE_EOF] {
        let prepared = {
            // One column, no parameters.
            let mut payloads = vec![vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0], writer::column("n")];
            payloads.extend((server_form == 0).then(|| writer::eof(2, 0)));
            payloads
        };
        let cursor = vec![vec![1], writer::column("n"), killed.clone()];
        let mut rows = vec![vec![1], writer::column("n")];
        rows.extend((server_form == 0).then(|| writer::eof(2, 0)));
        rows.push(killed.clone());
        let conversation = |answer: &[Vec<u8>]| {
            Conversation::new()
                .offering(server_form)
                .on_command(command::STMT_PREPARE, &[Move::Reply(prepared.clone())])
                .on_command(command::STMT_EXECUTE, &[Move::Reply(answer.to_vec())])
        };
        let server = FakeMysql::start(conversation(&cursor));
        let config = NarrowsConfig::new()
            .server(0, server.port(), "max_connections=1")
            .variable("threads", "1")
            .user("sbtest", "sbtest", "");
        let narrows = start(&config);
        // The only connection takes the form of the first client that needs it.
        let _opener = opened_by(&narrows, server_form);
        for client_form in [0, capability::DEPRECATE_EOF] {
            let login = Login::new("sbtest", "sbtest").without(capability::DEPRECATE_EOF).with(client_form);
            let mut client = RawClient::open(&narrows.endpoint(), &login);
            let forms = format!("server {server_form:#x}, client {client_form:#x}");

            server.say(conversation(&cursor));
            let statement = Statement::prepare(&mut client, "SELECT n FROM t");
            let answer = statement.open_cursor(&mut client, &[]);
            assert_eq!(shape(&answer), ["count", "column", "ERR"], "{forms}");
            is_in_step(&mut client, &answer);

            // Without a cursor the columns end with a packet, which precedes the error.
            server.say(conversation(&rows));
            let answer = statement.execute(&mut client, &[]);
            let expected: &[&str] = match client_form {
                0 => &["count", "column", "EOF", "ERR"],
                _ => &["count", "column", "ERR"],
            };
            assert_eq!(shape(&answer), expected, "{forms}");
            is_in_step(&mut client, &answer);
        }
    }
}

#[test]
fn the_error_of_a_server_that_is_lost_after_the_columns_comes_after_their_end() {
    let begins = [Move::Reply(vec![vec![1], writer::column("n")]), Move::Wait, Move::Close];
    let conversation = Conversation::new().offering(capability::DEPRECATE_EOF).on("SELECT n FROM t", &begins);
    let server = FakeMysql::start(conversation);
    let config = NarrowsConfig::new()
        .server(0, server.port(), "max_connections=1")
        .variable("threads", "1")
        .user("sbtest", "sbtest", "");
    let narrows = start(&config);
    let _opener = opened_by(&narrows, capability::DEPRECATE_EOF);
    let login = Login::new("sbtest", "sbtest").without(capability::DEPRECATE_EOF);
    let mut client = RawClient::open(&narrows.endpoint(), &login);

    client.send_command(command::QUERY, b"SELECT n FROM t").expect("it is connected");
    let first = [client.read(), client.read()].map(|packet| packet.expect("the columns"));
    server.release();
    let rest = [client.read(), client.read()].map(|packet| packet.expect("their end, and the error"));

    let numbers: Vec<u8> = first.iter().chain(&rest).map(|packet| packet.sequence).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert_eq!([rest[0].first(), rest[1].first()], [0xFE, 0xFF]);
}

#[test]
fn a_cursor_that_is_killed_while_it_opens_is_answered_as_by_the_server() {
    const ENDLESS: &str = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
                           SELECT SUM(a.i + b.i + c.i) AS opening FROM n a, n b, n c";
    on_each(1, |scene| {
        let _opener = opened_by(&scene.narrows, capability::DEPRECATE_EOF);
        for form in [0, capability::DEPRECATE_EOF] {
            let login = || Login::new("sbtest", "sbtest").without(capability::DEPRECATE_EOF).with(form);
            let kill = |endpoint: &Endpoint| {
                let mut client = RawClient::open(endpoint, &login());
                let id = client.query("SELECT CONNECTION_ID()").cell().expect("an id");
                let statement = Statement::prepare(&mut client, ENDLESS);
                let body = statement.execution(1, &[], true);
                client.send_command(command::STMT_EXECUTE, &body).expect("it is connected");
                wait_until_it_runs(scene, "opening");
                let mut killer = RawClient::open(endpoint, &Login::new("sbtest", "sbtest"));
                let killed = killer.query(format!("KILL QUERY {id}"));
                assert!(killed.error().is_none(), "{killed:?}");
                let answer = client.answer(command::STMT_EXECUTE);
                assert_eq!(answer.error().map(|error| error.code), Some(1317), "{answer:?}");
                is_in_step(&mut client, &answer);
                shape(&answer)
            };
            // Now and then the server is killed before it has sent the columns: again.
            let mut shapes = [scene.server.endpoint(), scene.narrows.endpoint()].map(|endpoint| {
                let mut shapes = (0..20).map(|_| kill(&endpoint));
                shapes.find(|shape| shape.len() > 1).expect("columns, then an error")
            });
            let [direct, through] = &mut shapes;
            assert_eq!(direct, through, "{:?}, {form:#x}", scene.flavour);
        }
    });
}

fn wait_until_it_runs(scene: &super::Scene, mark: &str) {
    let running = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
         WHERE COMMAND = 'Execute' AND INFO LIKE '%AS {mark} FROM n%' AND ID <> CONNECTION_ID()"
    );
    let deadline = Instant::now() + Duration::from_secs(30);
    while scene.server.rows(&running)[0][0].as_deref() != Some("1") {
        assert!(Instant::now() < deadline, "it does not run");
        std::thread::sleep(Duration::from_millis(5));
    }
}
