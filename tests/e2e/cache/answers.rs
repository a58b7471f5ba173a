//! Which answers are cached.

use narrows_testkit::{
    Conversation, FakeMysql, Flavour, Login, Move, NarrowsConfig, RawClient, RealServer, capability, writer,
};

use crate::prepared::{Statement, Value, cell};

use super::{caching, executions, figure, hits, is_cached, start};

/// A server with a table of two rows in a separate schema.
fn with_table(flavour: Flavour, schema: &str) -> &'static RealServer {
    let server = RealServer::shared(flavour);
    let create = format!("CREATE OR REPLACE TABLE {schema}.t (n INT)");
    let mysql = [format!("DROP TABLE IF EXISTS {schema}.t"), format!("CREATE TABLE {schema}.t (n INT)")];
    let table: Vec<&str> = match flavour {
        Flavour::MariaDb => vec![&create],
        Flavour::MySql9 => mysql.iter().map(String::as_str).collect(),
    };
    server.execute(&[&format!("CREATE DATABASE IF NOT EXISTS {schema}")]);
    server.execute(&table);
    server.execute(&[&format!("INSERT INTO {schema}.t VALUES (1), (2)")]);
    server
}

#[test]
fn reads_are_kept_and_what_asks_one_connection_is_not() {
    for flavour in Flavour::both() {
        let server = with_table(flavour, "cache_answers");
        let narrows = start(&caching(server.port(), 3_600_000));
        let login = Login::new("sbtest", "sbtest").schema("cache_answers");
        let mut client = RawClient::open(&narrows.endpoint(), &login);
        for statement in [
            "SELECT 1",
            "SELECT * FROM t",
            "SELECT n FROM t WHERE n > 1",
            "SELECT @@max_allowed_packet",
            "SHOW TABLES",
            "SELECT n FROM t ORDER BY n LIMIT 1",
            "SELECT 1 UNION SELECT 2",
        ] {
            assert!(is_cached(&narrows, &mut client, statement), "{flavour:?} {statement}");
        }
        for statement in [
            "SELECT CONNECTION_ID()",
            "SELECT LAST_INSERT_ID()",
            "SELECT FOUND_ROWS()",
            "SELECT ROW_COUNT()",
            "SELECT @@warning_count",
            "SELECT @@pseudo_thread_id",
            "SELECT SQL_CALC_FOUND_ROWS n FROM t LIMIT 1",
            "SELECT n FROM t FOR UPDATE",
            "SELECT RELEASE_LOCK('no_such_lock')",
            "SHOW WARNINGS",
            "SELECT no_such_column FROM t",
        ] {
            assert!(!is_cached(&narrows, &mut client, statement), "{flavour:?} {statement}");
        }
    }
}

#[test]
fn answers_without_rows_are_kept_where_the_rule_or_else_the_variable_says_so() {
    let server = with_table(Flavour::MariaDb, "cache_empty");
    let empty = |mark: &str| format!("SELECT n AS {mark} FROM cache_empty.t WHERE n > 5");
    for (variable, expected) in [("true", [true, true, false]), ("false", [false, true, false])] {
        let narrows = start(
            &NarrowsConfig::in_front_of(server.port())
                .variable("query_cache_stores_empty_result", variable)
                .rule("rule_id=2 match_pattern=\"AS kept\" cache_empty_result=1")
                .rule("rule_id=3 match_pattern=\"AS unkept\" cache_empty_result=0")
                .rule("rule_id=9 match_digest=\"^SELECT\" cache_ttl=60000 apply=1"),
        );
        let mut client = narrows.client();
        let found = ["plain", "kept", "unkept"].map(|mark| is_cached(&narrows, &mut client, &empty(mark)));
        assert_eq!(found, expected, "{variable}");
        assert!(is_cached(&narrows, &mut client, "SELECT n AS unkept FROM cache_empty.t"), "it has rows");
    }
}

#[test]
fn answers_with_warnings_are_kept_without_them_where_that_is_wanted() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let statement = "SELECT CAST('abc' AS SIGNED) AS n";
        for (variable, expected) in [("0", false), ("1", true)] {
            let config = caching(server.port(), 60_000).variable("query_cache_handle_warnings", variable);
            let narrows = start(&config);
            let login = Login::new("sbtest", "sbtest").with(capability::DEPRECATE_EOF);
            let mut client = RawClient::open(&narrows.endpoint(), &login);
            let warnings = |client: &mut RawClient| client.query(statement).ok().expect("rows").warnings;
            assert_eq!(warnings(&mut client), 1, "{flavour:?}");
            let told = warnings(&mut client);
            assert_eq!((hits(&narrows) > 0, told == 0), (expected, expected), "{flavour:?} {variable}");
            if expected {
                let mut other = RawClient::open(&narrows.endpoint(), &login);
                assert_eq!(warnings(&mut other), 0);
                assert!(other.query("SHOW WARNINGS").text_rows().is_empty(), "{flavour:?}");
            }
        }
    }
}

#[test]
fn what_is_longer_than_the_threshold_is_not_kept_and_comes_through() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(&caching(server.port(), 60_000).variable("threshold_resultset_size", "100000"));
    let mut client = narrows.client();
    let of_length = |length: usize| format!("SELECT REPEAT('x', {length}) AS c");
    assert!(is_cached(&narrows, &mut client, &of_length(90_000)));
    assert!(!is_cached(&narrows, &mut client, &of_length(110_000)));
    assert_eq!(figure(&narrows, "Query_Cache_count_SET"), 1);
}

#[test]
fn a_long_answer_is_given_in_pieces_to_clients_of_either_form() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(&caching(server.port(), 60_000));
    let statement = "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < 900) \
                     SELECT n, REPEAT('y', 1 + n * 7 % 3001) FROM s";
    let both = || format!("/* cache_ttl=60000 */ {statement}");
    for form in [0, capability::DEPRECATE_EOF] {
        let login = Login::new("sbtest", "sbtest").without(capability::DEPRECATE_EOF).with(form);
        let mut direct = RawClient::open(&server.endpoint(), &login);
        let mut client = RawClient::open(&narrows.endpoint(), &login);
        let expected = direct.query(both());
        for _ in 0..2 {
            let answer = client.query(both());
            assert_eq!(answer.text_rows(), expected.text_rows());
            let numbers = |answer: &narrows_testkit::Answer| {
                answer.packets.iter().map(|packet| packet.sequence).collect::<Vec<_>>()
            };
            assert_eq!(numbers(&answer), numbers(&expected), "{form}");
        }
    }
    assert_eq!(hits(&narrows), 3);
}

#[test]
fn several_results_and_several_statements_are_not_kept() {
    let twice = "SELECT twice";
    let rows = |status: u16| {
        vec![
            vec![1],
            writer::column("c"),
            writer::eof(status, 0),
            writer::row(&[Some("x")]),
            writer::eof(status, 0),
        ]
    };
    const MORE: u16 = 8;
    let moves = [Move::Reply([rows(2 | MORE), rows(2)].concat())];
    let server = FakeMysql::start(Conversation::new().on(twice, &moves));
    let narrows = start(&caching(server.port(), 60_000));
    let mut client = narrows.client();
    for _ in 0..2 {
        let answer = client.query(twice);
        assert_eq!(answer.packets.len(), 10, "{answer:?}");
    }
    assert_eq!((executions(&server, twice), figure(&narrows, "Query_Cache_count_SET")), (2, 0));
}

#[test]
fn executions_are_kept_by_what_their_parameters_are() {
    for flavour in Flavour::both() {
        let server = with_table(flavour, "cache_executions");
        let narrows = start(&caching(server.port(), 3_600_000));
        let login = Login::new("sbtest", "sbtest").schema("cache_executions");
        let text = "SELECT CONCAT('is ', ?), n FROM t WHERE n = ?";
        let mut told = Vec::new();
        for round in 0..3 {
            let mut client = RawClient::open(&narrows.endpoint(), &login);
            let statement = Statement::prepare(&mut client, text);
            for (word, n) in [("a", 1), ("a", 2), ("b", 1)] {
                let values = [Value::Text(word), Value::Integer(n)];
                let first = statement.execute(&mut client, &values);
                // Parameters bound in an execution answered from the cache stay bound.
                let again = statement.execute_again(&mut client, &values);
                assert_eq!(cell(&first), format!("is {word}"), "{flavour:?}");
                assert_eq!(first.packets, again.packets, "{flavour:?}");
                told.push((round, first.packets));
            }
        }
        let rounds: Vec<_> =
            told.chunks(3).map(|round| round.iter().map(|(_, it)| it).collect::<Vec<_>>()).collect();
        assert!(rounds.iter().all(|round| *round == rounds[0]), "{flavour:?}");
        assert_eq!(hits(&narrows), 2 * 6, "{flavour:?}: the first of each comes from a server");
    }
}

#[test]
fn pages_are_kept_and_found_rows_behind_them_is_right() {
    for flavour in Flavour::both() {
        let server = with_table(flavour, "cache_pages");
        let narrows = start(&caching(server.port(), 3_600_000));
        let login = Login::new("sbtest", "sbtest").schema("cache_pages");
        let mut client = RawClient::open(&narrows.endpoint(), &login);
        let found = |client: &mut RawClient| client.query("SELECT FOUND_ROWS()").cell();
        for page in ["SELECT n FROM t ORDER BY n LIMIT 1, 1", "SELECT n FROM t ORDER BY n LIMIT 5 OFFSET 1"] {
            client.query(page);
            let expected = found(&mut client);
            let before = hits(&narrows);
            client.query(page);
            assert_eq!(hits(&narrows), before + 1, "{flavour:?} {page}");
            assert_eq!(found(&mut client), expected, "{flavour:?} {page}");
        }
        assert!(
            !is_cached(&narrows, &mut client, "SELECT n FROM t LIMIT 7, 1"),
            "the number of rows is unknown"
        );
    }
}
