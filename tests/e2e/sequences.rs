//! `LASTVAL()` of MariaDB answers of the connection, and an `INSERT` into a table whose column has `DEFAULT NEXTVAL(s)` draws
//! without naming the sequence: no client sees what another one has drawn.

use narrows_testkit::{
    Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions, capability, command,
};

use crate::support::start;

/// Each asks for the last value of the sequence `s`.
const QUESTIONS: [&str; 7] = [
    "SELECT LASTVAL(seq.s)",
    "SELECT PREVIOUS VALUE FOR seq.s",
    "/* a */ select 1, lastval ( /* b */ seq.s )",
    "SELECT 1; SELECT LASTVAL(seq.s)",
    "EXECUTE IMMEDIATE 'SELECT LASTVAL(seq.s)'",
    "INSERT INTO seq.answers VALUES (LASTVAL(seq.s))",
    "SELECT * FROM seq.t WHERE n = LASTVAL(seq.s)",
];

#[test]
fn a_last_value_is_not_that_of_another_client() {
    let (server, narrows) = stand();
    let mut one = client(&narrows);
    for question in QUESTIONS {
        let mut other = client(&narrows);
        done(&mut one, "INSERT INTO seq.t (v) VALUES (1)");
        let answer = other.query(question);
        assert!(answer.error().is_none(), "{question}: {:?}", answer.error());
        let told = answer.packets.iter().any(|packet| packet.payload.contains(&b'7'));
        assert!(!told, "{question}: {:?}", answer.packets);
    }
    let drawn = server.rows("SELECT COUNT(*) FROM seq.answers WHERE n IS NOT NULL");
    assert_eq!(drawn[0][0].as_deref(), Some("0"));
}

#[test]
fn a_prepared_statement_is_not_told_the_last_value_of_another_client() {
    let (_server, narrows) = stand();
    let (mut one, mut other) = (client(&narrows), client(&narrows));
    let prepared = other.command(command::STMT_PREPARE, b"SELECT COALESCE(LASTVAL(seq.s), 'nothing')");
    let id: [u8; 4] = prepared.packets[0].payload[1..5].try_into().expect("four bytes");
    done(&mut one, "INSERT INTO seq.t (v) VALUES (1)");
    let answer = other.command(command::STMT_EXECUTE, &[&id[..], &[0, 1, 0, 0, 0]].concat());
    assert!(answer.error().is_none(), "{:?}", answer.error());
    let says = answer.packets.iter().any(|packet| packet.payload.ends_with(b"nothing"));
    assert!(says, "{:?}", answer.packets);
}

#[test]
fn a_prepared_text_is_not_told_the_last_value_of_another_client() {
    let (_server, narrows) = stand();
    let (mut one, mut other) = (client(&narrows), client(&narrows));
    done(&mut one, "INSERT INTO seq.t (v) VALUES (1)");
    done(&mut other, "PREPARE asks FROM 'SELECT LASTVAL(seq.s)'");
    assert_eq!(other.query("EXECUTE asks").cell(), None);
}

#[test]
fn a_last_value_in_oracle_mode_is_not_that_of_another_client() {
    let (_server, narrows) = stand();
    let mut one = client(&narrows);
    for question in ["SELECT seq.s.CURRVAL", "SELECT seq.s.`currval`", "SELECT seq.s.\"CurrVal\""] {
        let mut other = client(&narrows);
        done(&mut other, "SET sql_mode = 'ORACLE'");
        done(&mut one, "INSERT INTO seq.t (v) VALUES (1)");
        let answer = other.query(question);
        assert!(answer.error().is_none(), "{question}: {:?}", answer.error());
        assert_eq!(answer.cell(), None, "{question}");
    }
}

/// The connection cannot be reset within a transaction, and what it would answer is not known to be this client's.
#[test]
fn a_last_value_is_refused_where_a_transaction_has_drawn_none() {
    let (_server, narrows) = stand();
    let (mut one, mut other) = (client(&narrows), client(&narrows));
    done(&mut one, "INSERT INTO seq.t (v) VALUES (1)");
    for statement in ["START TRANSACTION", "SELECT * FROM seq.answers"] {
        done(&mut other, statement);
    }
    let refused = other.query("SELECT LASTVAL(seq.s)");
    let error = refused.error().expect("an error");
    assert!(error.message.contains("LASTVAL"), "{error:?}");
    // The transaction continues.
    done(&mut other, "INSERT INTO seq.answers VALUES (5)");
    done(&mut other, "ROLLBACK");
    assert_eq!(other.query("SELECT COUNT(*) FROM seq.answers").cell().as_deref(), Some("0"));
}

#[test]
fn a_client_is_told_its_own_last_value() {
    let (_server, narrows) = stand();
    let (mut one, mut other) = (client(&narrows), client(&narrows));
    // Drawn by name.
    done(&mut one, "INSERT INTO seq.t (v) VALUES (1)");
    let drawn = other.query("SELECT NEXTVAL(seq.s)").cell();
    assert_eq!(other.query("SELECT LASTVAL(seq.s)").cell(), drawn);
    assert_eq!(other.query("SELECT PREVIOUS VALUE FOR seq.s").cell(), drawn);
    drop(other);
    // In a transaction, by the column's default.
    let mut other = client(&narrows);
    for statement in ["START TRANSACTION", "INSERT INTO seq.t (v) VALUES (2)"] {
        done(&mut other, statement);
    }
    let inserted = other.query("SELECT MAX(n) FROM seq.t WHERE v = 2").cell();
    assert_eq!(other.query("SELECT LASTVAL(seq.s)").cell(), inserted);
    done(&mut other, "COMMIT");
    drop(other);
    // Once a client has asked, the connection is its own, and so are all values that it draws from then on.
    let mut other = client(&narrows);
    assert_eq!(other.query("SELECT LASTVAL(seq.s)").cell(), None);
    done(&mut other, "INSERT INTO seq.t (v) VALUES (3)");
    let inserted = other.query("SELECT MAX(n) FROM seq.t WHERE v = 3").cell();
    assert_eq!(other.query("SELECT LASTVAL(seq.s)").cell(), inserted);
}

/// Values have a 7 in them, and nothing else that is asked for here has.
fn stand() -> (RealServer, Narrows) {
    let server = ServerOptions::new(Flavour::MariaDb).start();
    server.execute(&[
        "CREATE DATABASE seq",
        "CREATE SEQUENCE seq.s START WITH 7000000 INCREMENT BY 10",
        "CREATE TABLE seq.t (n BIGINT DEFAULT NEXTVAL(seq.s) PRIMARY KEY, v INT)",
        "CREATE TABLE seq.answers (n BIGINT)",
    ]);
    let config = NarrowsConfig::new()
        .server(0, server.port(), "max_connections=1")
        .variable("threads", "1")
        .user("sbtest", "sbtest", "");
    let narrows = start(&config);
    (server, narrows)
}

fn client(narrows: &Narrows) -> RawClient {
    let mut client = RawClient::connect(&narrows.endpoint());
    client.login(&Login::new("sbtest", "sbtest").with(capability::MULTI_STATEMENTS)).expect("a login");
    client
}

fn done(client: &mut RawClient, statement: &str) {
    let answer = client.query(statement);
    assert!(answer.error().is_none(), "{statement}: {:?}", answer.error());
}
