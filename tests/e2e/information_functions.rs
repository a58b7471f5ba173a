//! `CONNECTION_ID()`, `ROW_COUNT()`, `FOUND_ROWS()`, `@@warning_count`: what Narrows substitutes for them, and what it
//! leaves unchanged.

use narrows_testkit::{
    Answer, Endpoint, Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions,
    capability,
};

use crate::prepared::Statement;
use crate::support::start;

/// A server with one connection for all clients, so that no connection knows what its client has run before.
fn stand(flavour: Flavour) -> (RealServer, Narrows) {
    let server = ServerOptions::new(flavour).account("app", "app").start();
    server.execute(&[
        "CREATE DATABASE kept",
        "CREATE TABLE kept.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
        "INSERT INTO kept.t (v) VALUES (1), (2), (3)",
    ]);
    let config = NarrowsConfig::new().server(0, server.port(), "max_connections=1").user("app", "app", "");
    (server, start(&config))
}

fn login() -> Login {
    Login::new("app", "app").schema("kept").with(capability::MULTI_STATEMENTS)
}

#[test]
fn what_is_stored_to_run_later_is_stored_as_it_was_written() {
    for flavour in Flavour::both() {
        let (server, narrows) = stand(flavour);
        let mut client = RawClient::open(&narrows.endpoint(), &login());
        // Any client that runs it later gets the value of its own session.
        client.query("UPDATE t SET v = v + 1");
        for (statement, table, column) in [
            ("CREATE PROCEDURE p() SELECT CONNECTION_ID(), ROW_COUNT()", "routines", "routine_definition"),
            (
                "CREATE FUNCTION f() RETURNS BIGINT NO SQL RETURN CONNECTION_ID()",
                "routines",
                "routine_definition",
            ),
            (
                "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW BEGIN SET @a = 1; SET NEW.v = CONNECTION_ID() + ROW_COUNT(); END",
                "triggers",
                "action_statement",
            ),
            ("CREATE VIEW w AS SELECT CONNECTION_ID() AS me, FOUND_ROWS() AS f", "views", "view_definition"),
            ("ALTER VIEW w AS SELECT CONNECTION_ID() AS me", "views", "view_definition"),
            (
                "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO INSERT INTO t (v) VALUES (CONNECTION_ID())",
                "events",
                "event_definition",
            ),
            ("ALTER TABLE t ADD COLUMN who BIGINT DEFAULT (CONNECTION_ID())", "columns", "column_default"),
        ] {
            let answer = client.query(statement);
            assert_eq!(answer.error(), None, "{flavour:?}: {statement}");
            let schema = match table {
                "routines" => "routine_schema",
                "triggers" => "trigger_schema",
                "events" => "event_schema",
                _ => "table_schema",
            };
            let written = server.rows(&format!(
                "SELECT COUNT(*) FROM information_schema.{table} WHERE LOWER({column}) LIKE '%connection\\_id()%' \
                 AND LOWER({column}) NOT LIKE '%convert(%' AND LOWER({column}) NOT LIKE '%cast(%' AND {schema} = 'kept'"
            ));
            assert_eq!(written[0][0].as_deref(), Some("1"), "{flavour:?}: {statement}");
            server.execute(&["DROP PROCEDURE IF EXISTS kept.p", "DROP FUNCTION IF EXISTS kept.f"]);
        }
    }
}

#[test]
fn a_text_of_several_statements_asks_about_its_own() {
    const TEXTS: &[(&str, &str)] = &[
        ("DO 1", "UPDATE t SET v = v + 1 WHERE id = 1; SELECT ROW_COUNT()"),
        ("SELECT 1", "UPDATE t SET v = v + 1 WHERE id < 3; SELECT ROW_COUNT()"),
        ("SELECT nosuch", "UPDATE t SET v = v + 1 WHERE id < 3; SELECT ROW_COUNT()"),
        (
            "SELECT 1",
            "INSERT INTO t (v) VALUES (7); SELECT id > 0 FROM t WHERE ROW_COUNT() = 1 AND id = LAST_INSERT_ID()",
        ),
        ("SELECT 1", "SELECT 1 UNION SELECT 2; SELECT FOUND_ROWS()"),
        ("SELECT 1 UNION SELECT 2", "SET @a = 1; SELECT FOUND_ROWS()"),
        (
            "SELECT CAST('x' AS SIGNED)",
            "SELECT @@warning_count + 0; SELECT CAST('y' AS SIGNED) + CAST('z' AS SIGNED) FROM t LIMIT 1; SELECT @@warning_count",
        ),
        ("SELECT 1", "BEGIN; UPDATE t SET v = v + 1; COMMIT; SELECT ROW_COUNT()"),
    ];
    for flavour in Flavour::both() {
        let (server, narrows) = stand(flavour);
        let mut direct = RawClient::open(&Endpoint::Unix(server.socket()), &login());
        let mut other = RawClient::open(&narrows.endpoint(), &login());
        for (before, text) in TEXTS {
            // Another one each time: some texts tie it to the connection.
            let mut client = RawClient::open(&narrows.endpoint(), &login());
            let last = |client: &mut RawClient, other: Option<&mut RawClient>| {
                client.query(before);
                // The connection forgets.
                let forgets = other.map(|other| other.query("UPDATE t SET v = v WHERE id = 0"));
                assert_eq!(forgets.and_then(|answer| answer.error()), None, "{flavour:?}: {before}");
                last_row(&client.query(text))
            };
            let expected = last(&mut direct, None);
            assert_eq!(last(&mut client, Some(&mut other)), expected, "{flavour:?}: {before}; {text}");
        }
    }
}

#[test]
fn columns_keep_the_names_that_they_would_have() {
    for flavour in Flavour::both() {
        let (server, narrows) = stand(flavour);
        let mut direct = RawClient::open(&Endpoint::Unix(server.socket()), &login());
        let mut client = RawClient::open(&narrows.endpoint(), &login());
        for text in [
            "SELECT CONNECTION_ID()",
            "SELECT connection_id()>0, IF(connection_id() > 0, 'a', \"b\")",
            "SELECT DISTINCT hex(connection_id()) FROM t",
            "SELECT 1, connection_id() + 1 AS n, connection_id() m, (SELECT connection_id()), `id` + connection_id() FROM t",
            "SELECT connection_id() IS NOT NULL, CASE WHEN connection_id() THEN 1 END FROM t ORDER BY v, connection_id()",
            "SELECT @@warning_count+0, @@warning_count",
            "SELECT * FROM (SELECT connection_id() AS c) AS d",
        ] {
            let names = |client: &mut RawClient| -> Vec<String> {
                let answer = client.query(text);
                assert_eq!(answer.error(), None, "{flavour:?}: {text}");
                answer.columns().into_iter().map(|column| column.name).collect()
            };
            let expected = names(&mut direct);
            assert_eq!(names(&mut client), expected, "{flavour:?}: {text}");
        }
    }
}

/// The last row of the last result.
fn last_row(answer: &Answer) -> Vec<u8> {
    assert_eq!(answer.error(), None);
    let [.., row, _end] = &answer.packets[..] else { panic!("no row: {answer:?}") };
    row.payload.clone()
}

/// MariaDB keeps an error over statements without a table. What Narrows asks of the connection in between has none either.
#[test]
fn a_question_of_our_own_does_not_end_the_conditions_of_a_connection() {
    let (_server, narrows) = stand(Flavour::MariaDb);
    let mut client = RawClient::open(&narrows.endpoint(), &login());
    for text in ["PREPARE plus FROM 'SELECT ? + 1'", "SET @a = 41", "INSERT INTO t (v) VALUES (4)"] {
        assert_eq!(client.query(text).error(), None, "{text}");
    }
    assert!(client.query("SELECT * FROM nosuchtable").error().is_some());
    client.query("SELECT LAST_INSERT_ID()");
    assert_eq!(client.query("EXECUTE plus USING @a").cell().as_deref(), Some("42"));
    assert_eq!(client.query("SHOW COUNT(*) WARNINGS").cell().as_deref(), Some("1"));
}

/// A preparation runs nothing, so that the values are those of the statement before it; a `SELECT .. INTO` counts rows that
/// its answer does not report.
#[test]
fn values_after_a_preparation_and_a_select_into_are_those_of_the_server() {
    for flavour in Flavour::both() {
        let (server, narrows) = stand(flavour);
        // MySQL lets an account log in without TLS after its first login, which Narrows can do.
        RawClient::open(&narrows.endpoint(), &login()).query("SELECT 1");
        for steps in [
            ["INSERT INTO t (v) VALUES (7), (8)", "prepare SELECT LAST_INSERT_ID()", "SELECT ROW_COUNT()"],
            ["UPDATE t SET v = v + 1 LIMIT 2", "prepare SELECT 1", "SELECT ROW_COUNT()"],
            ["SELECT 1", "prepare SELECT 1", "SELECT ROW_COUNT()"],
            ["SELECT v FROM t LIMIT 2", "prepare SELECT 1", "SELECT FOUND_ROWS()"],
            ["SELECT v FROM t LIMIT 2", "SELECT 5 INTO @w", "SELECT FOUND_ROWS()"],
            ["SELECT v FROM t LIMIT 2", "SELECT v FROM t WHERE id = 1 INTO @w", "SELECT FOUND_ROWS()"],
            ["SELECT v FROM t LIMIT 2", "SELECT v FROM t WHERE id = 0 INTO @w", "SELECT FOUND_ROWS()"],
        ] {
            let run = |endpoint: &Endpoint, between: &mut dyn FnMut()| {
                let mut client = RawClient::open(endpoint, &login());
                let last = steps.map(|step| {
                    let cell = match step.strip_prefix("prepare ") {
                        Some(text) => {
                            Statement::prepare(&mut client, text);
                            None
                        }
                        None => client.query(step).text_rows().into_iter().flatten().flatten().next(),
                    };
                    between();
                    cell
                });
                last[2].clone()
            };
            let wanted = run(&server.endpoint(), &mut || ());
            assert_eq!(run(&narrows.endpoint(), &mut || ()), wanted, "{flavour:?}: {steps:?}");
            // A variable keeps the connection, so that nobody else uses it.
            if steps.iter().any(|step| step.contains(" INTO @")) {
                continue;
            }
            let mut other = RawClient::open(&narrows.endpoint(), &login());
            let mut disturb = || drop(other.query("SELECT v FROM t"));
            assert_eq!(run(&narrows.endpoint(), &mut disturb), wanted, "{flavour:?}, disturbed: {steps:?}");
        }
    }
}
