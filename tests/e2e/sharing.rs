//! Two clients on one backend connection: each statement of the one could meet what the other left there. Every test is
//! a slip that was found once.

use narrows_testkit::{
    Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions, command,
};

#[test]
fn a_variable_set_by_a_prepared_statement_stays_with_its_client() {
    on_one_connection(|one, other| {
        execute_once(one, "SET @u = 5");
        assert_eq!(cell(other, "SELECT @u"), None);
        assert_eq!(cell(one, "SELECT @u").as_deref(), Some("5"));
    });
}

#[test]
fn a_collation_set_by_a_prepared_statement_outlives_the_connection() {
    on_one_connection(|one, other| {
        execute_once(one, "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_unicode_ci'");
        other.query("SELECT 1");
        assert_eq!(cell(one, "SELECT @@collation_connection").as_deref(), Some("utf8mb4_unicode_ci"));
    });
}

#[test]
fn closing_an_unknown_statement_leaves_the_transaction_alone() {
    on_one_connection(|one, other| {
        one.query("START TRANSACTION");
        one.query("INSERT INTO shared.t (v) VALUES (1)");
        one.send_command(command::STMT_CLOSE, &99_u32.to_le_bytes()).expect("the client is connected");
        one.query("INSERT INTO shared.t (v) VALUES (2)");
        one.query("COMMIT");
        assert_eq!(cell(other, "SELECT COUNT(*) FROM shared.t").as_deref(), Some("2"));
    });
}

#[test]
fn last_insert_id_is_nobody_elses() {
    on_one_connection(|one, other| {
        one.query("INSERT INTO shared.t (v) VALUES (1), (2)");
        other.query("INSERT INTO shared.t (id, v) VALUES (1000, 3)");
        assert_eq!(cell(other, "SELECT LAST_INSERT_ID()").as_deref(), Some("0"), "the id was given");
        assert_eq!(cell(one, "SELECT LAST_INSERT_ID()").as_deref(), Some("1"));
        other.query("INSERT INTO shared.t (id, v) VALUES (1000, 4) ON DUPLICATE KEY UPDATE v = 5");
        assert_eq!(cell(other, "SELECT LAST_INSERT_ID()").as_deref(), Some("0"));
        assert_eq!(cell(one, "SELECT LAST_INSERT_ID() + 0").as_deref(), Some("1"));
    });
}

#[test]
fn warnings_counts_and_found_rows_are_those_of_the_client() {
    on_one_connection(|one, other| {
        one.query("INSERT INTO shared.t (v) VALUES (1), (2), (3)");
        assert_eq!(cell(other, "SELECT ROW_COUNT()").as_deref(), Some("0"));
        assert_eq!(cell(one, "SELECT ROW_COUNT()").as_deref(), Some("3"));
        one.query("SELECT SQL_CALC_FOUND_ROWS id FROM shared.t LIMIT 1");
        other.query("SELECT 1");
        assert_eq!(cell(one, "SELECT FOUND_ROWS()").as_deref(), Some("3"));
        one.query("SELECT CAST('abc' AS SIGNED)");
        other.query("SELECT COUNT(*) FROM shared.t");
        assert!(other.query("SHOW WARNINGS").text_rows().is_empty());
        let warnings = one.query("SHOW WARNINGS").text_rows();
        assert_eq!(warnings[0][1].as_deref(), Some("1292"), "{warnings:?}");
    });
}

/// Two clients before a server with one connection for both, on each flavour.
fn on_one_connection(test: impl Fn(&mut RawClient, &mut RawClient)) {
    for flavour in Flavour::both() {
        let server: RealServer = ServerOptions::new(flavour).start();
        server.execute(&[
            "CREATE DATABASE shared",
            "CREATE TABLE shared.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
        ]);
        let config = NarrowsConfig::new()
            .server(0, server.port(), "max_connections=1")
            .variable("threads", "1")
            .user("sbtest", "sbtest", "");
        let narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config);
        let login = Login::new("sbtest", "sbtest");
        let mut one = RawClient::open(&narrows.endpoint(), &login);
        let mut other = RawClient::open(&narrows.endpoint(), &login);
        test(&mut one, &mut other);
    }
}

fn cell(client: &mut RawClient, statement: &str) -> Option<String> {
    client.query(statement).cell()
}

/// Prepares a statement without parameters, executes it and closes it.
fn execute_once(client: &mut RawClient, statement: &str) {
    let prepared = client.command(command::STMT_PREPARE, statement.as_bytes());
    let id: [u8; 4] = prepared.packets[0].payload[1..5].try_into().expect("four bytes");
    // The id, no cursor, one iteration.
    let executed = client.command(command::STMT_EXECUTE, &[&id[..], &[0, 1, 0, 0, 0]].concat());
    assert!(executed.error().is_none(), "{statement}: {:?}", executed.error());
    client.send_command(command::STMT_CLOSE, &id).expect("the client is connected");
}
