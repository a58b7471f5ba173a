//! A client's session state after an answer from the cache, and when the cache is consulted at all.

use narrows_testkit::{Endpoint, Flavour, Login, RawClient, RealServer};

use super::{caching, hits, is_cached, start};

/// A schema with a table of three rows.
fn prepare(server: &RealServer, schema: &str) -> Login {
    server.execute(&[
        &format!("DROP DATABASE IF EXISTS {schema}"),
        &format!("CREATE DATABASE {schema}"),
        &format!("CREATE TABLE {schema}.t (id INT AUTO_INCREMENT PRIMARY KEY, n INT)"),
        &format!("INSERT INTO {schema}.t (n) VALUES (1), (2), (3)"),
    ]);
    Login::new("sbtest", "sbtest").schema(schema)
}

#[test]
fn what_is_asked_behind_an_answer_from_the_cache_is_what_a_server_would_say() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let narrows = start(&caching(server.port(), 3_600_000));
        let login = prepare(server, "cache_sessions");
        let read = "SELECT n FROM t";
        let mut filling = RawClient::open(&narrows.endpoint(), &login);
        filling.query(read);
        for (before, question) in [
            ("DO 1", "SELECT FOUND_ROWS()"),
            ("DO 1", "SELECT ROW_COUNT()"),
            ("UPDATE t SET n = n + 1 WHERE id = 1", "SELECT ROW_COUNT()"),
            ("INSERT INTO t (n) VALUES (9)", "SELECT LAST_INSERT_ID()"),
            ("SELECT CAST('abc' AS SIGNED) FROM t WHERE id = 1", "SHOW WARNINGS"),
            ("SELECT CAST('abc' AS SIGNED) FROM t WHERE id = 2", "SELECT @@warning_count"),
            ("SELECT no_such FROM t", "SHOW COUNT(*) ERRORS"),
            ("SELECT id FROM t WHERE id < 3", "SELECT FOUND_ROWS()"),
            ("SELECT 1", "SELECT DATABASE()"),
        ] {
            let asked = |endpoint: &Endpoint| {
                // With the same rows.
                server.execute(&[
                    "TRUNCATE cache_sessions.t",
                    "INSERT INTO cache_sessions.t (n) VALUES (1), (2), (3)",
                ]);
                let mut client = RawClient::open(endpoint, &login);
                client.query(before);
                let rows = client.query(read).text_rows().len();
                // The cached answer may be old; only its number of rows matters.
                (client.query(question).text_rows(), rows)
            };
            let before_hits = hits(&narrows);
            let (answer, given) = asked(&narrows.endpoint());
            assert!(hits(&narrows) > before_hits, "{flavour:?}: from the cache");
            let (expected, rows) = asked(&Endpoint::Unix(server.socket()));
            if !(question.contains("FOUND_ROWS") && rows != given) {
                assert_eq!(answer, expected, "{flavour:?} {before}; {read}; {question}");
            }
        }
    }
}

#[test]
fn an_answer_from_the_cache_says_that_the_asking_session_is_in_no_transaction() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(&caching(server.port(), 3_600_000));
    let login = prepare(server, "cache_status").with(narrows_testkit::capability::DEPRECATE_EOF);
    let mut client = RawClient::open(&narrows.endpoint(), &login);
    let status =
        |client: &mut RawClient| client.query("SELECT n FROM t WHERE id = 1").ok().expect("rows").status;
    let plain = status(&mut client);
    assert_eq!(status(&mut client), plain);
    client.query("SET sql_mode='NO_BACKSLASH_ESCAPES'").ok().expect("set");
    let other = status(&mut client);
    assert_ne!(other, plain);
    assert_eq!(status(&mut client), other);
    assert_eq!(hits(&narrows), 2);
}

#[test]
fn sessions_with_something_open_are_served_by_their_server() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let narrows = start(&caching(server.port(), 3_600_000));
        let login = prepare(server, "cache_open");
        for statements in [
            ["BEGIN", "INSERT INTO t (n) VALUES (77)"].as_slice(),
            &["SET autocommit=0"],
            &["CREATE TEMPORARY TABLE own (n INT)"],
            &["LOCK TABLES t READ"],
            &["SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"],
            &["SET @a = RAND()"],
        ] {
            let mut client = RawClient::open(&narrows.endpoint(), &login);
            assert!(is_cached(&narrows, &mut client, "SELECT COUNT(*) FROM t"), "{statements:?}");
            for statement in statements {
                client.query(statement).ok().unwrap_or_else(|| panic!("{flavour:?} {statement}"));
            }
            let before = hits(&narrows);
            let answer = client.query("SELECT COUNT(*) FROM t");
            assert_eq!(hits(&narrows), before, "{flavour:?} {statements:?}");
            if statements[0] == "BEGIN" {
                assert_eq!(answer.cell().as_deref(), Some("4"), "its own row");
            }
        }
    }
}
