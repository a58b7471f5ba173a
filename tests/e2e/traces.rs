//! What servers keep for a session over a reset and over a change of the user: roles, profiles, optimizer traces. And what the
//! query cache must not keep of one session for another.

use narrows_testkit::{
    Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions, capability,
};

use crate::support::start;

/// A server with one connection for two accounts, of which `high` has a default role with rights on `vault.s`.
fn stand(flavour: Flavour) -> (RealServer, Narrows) {
    let server = ServerOptions::new(flavour).account("high", "high").account("low", "low").start();
    server.execute(&[
        "CREATE DATABASE vault",
        "CREATE TABLE vault.s (n INT)",
        "INSERT INTO vault.s VALUES (42)",
        "CREATE PROCEDURE vault.profiles() SET profiling = 1",
        "CREATE PROCEDURE vault.profiled() BEGIN SET profiling = 1; SELECT 'a secret'; SET profiling = 0; END",
    ]);
    if flavour == Flavour::MariaDb {
        server.execute(&["CREATE ROLE keys_of_vault", "GRANT keys_of_vault TO high"]);
        server.execute(&["SET DEFAULT ROLE keys_of_vault FOR high"]);
    }
    let config = NarrowsConfig::new()
        .server(0, server.port(), "max_connections=1")
        .variable("threads", "1")
        .user("high", "high", "")
        .user("low", "low", "");
    (server, start(&config))
}

/// Who leaves a connection, and who has it next. That of an account with a default role is closed on MariaDB.
const PAIRS: [(&str, &str); 4] = [("high", "high"), ("high", "low"), ("low", "low"), ("low", "high")];

fn client(narrows: &Narrows, user: &str) -> RawClient {
    let login = Login::new(user, user).schema("vault").with(capability::MULTI_STATEMENTS);
    RawClient::open(&narrows.endpoint(), &login)
}

#[test]
fn a_default_role_stays_with_its_account() {
    let (_server, narrows) = stand(Flavour::MariaDb);
    let mut high = client(&narrows, "high");
    assert_eq!(high.query("SELECT CURRENT_ROLE()").cell().as_deref(), Some("keys_of_vault"));
    // Kept open: its connection is idle, and the only one that the server lets Narrows have.
    let mut low = client(&narrows, "low");
    assert_ne!(low.query("SELECT CURRENT_ROLE()").cell().as_deref(), Some("keys_of_vault"));
    assert_eq!(high.query("SELECT CURRENT_ROLE()").cell().as_deref(), Some("keys_of_vault"));
}

#[test]
fn texts_that_a_server_has_profiled_or_traced_are_their_clients() {
    for flavour in Flavour::both() {
        let (_server, narrows) = stand(flavour);
        for (left, user) in PAIRS {
            let mut one = client(&narrows, left);
            // Narrows sees the one, and not the other.
            one.query("SET optimizer_trace = 'enabled=on'");
            one.query("CALL vault.profiles()");
            one.query("SELECT 'a secret' FROM vault.s WHERE n = 42");
            drop(one);
            let mut other = client(&narrows, user);
            other.query("BEGIN");
            for question in ["SHOW PROFILES", "SELECT query FROM information_schema.optimizer_trace"] {
                let seen = format!("{:?}", other.query(question));
                assert!(!seen.contains("a secret"), "{flavour:?}: {user} sees by {question}: {seen}");
            }
        }
    }
}

#[test]
fn texts_that_were_profiled_for_a_while_are_their_clients() {
    for flavour in Flavour::both() {
        let (_server, narrows) = stand(flavour);
        let secret = "SELECT 'a secret'";
        let scripts: [&[&str]; 3] = [
            &["CALL vault.profiled()"],
            &["SET profiling = 1", secret, "SET profiling = 0"],
            &["PREPARE on_ FROM 'SET profiling = 1'", "EXECUTE on_", secret, "SET profiling = 0"],
        ];
        for (script, (left, user)) in scripts.iter().flat_map(|script| PAIRS.map(|pair| (script, pair))) {
            let mut one = client(&narrows, left);
            script.iter().for_each(|text| drop(one.query(text)));
            drop(one);
            let mut other = client(&narrows, user);
            let seen = format!("{:?}", other.query("SHOW PROFILES"));
            assert!(!seen.contains("a secret"), "{flavour:?}: {user} sees after {script:?}: {seen}");
        }
    }
}

#[test]
fn settings_for_one_statement_leave_no_texts() {
    let (_server, narrows) = stand(Flavour::MariaDb);
    let secret = "SELECT 'a secret' FROM vault.s WHERE n = 42";
    let traced = "optimizer_trace = 'enabled=on'";
    let forms = [
        format!("SET STATEMENT {traced} FOR {secret}"),
        format!("SET STATEMENT sql_mode = '', {traced} FOR {secret}"),
        format!("SET STATEMENT profiling = 1 FOR {secret}"),
        format!("SET STATEMENT {traced} FOR SET STATEMENT profiling = 1 FOR {secret}"),
        format!("SET STATEMENT {traced} FOR UPDATE vault.s SET n = n WHERE 'a secret' = n"),
        format!("SELECT 1; SET STATEMENT {traced} FOR {secret}"),
        format!("BEGIN NOT ATOMIC SET {traced}; {secret}; END"),
        format!("IF 1 THEN SET profiling = 1; {secret}; END IF"),
    ];
    for form in &forms {
        for (left, user) in PAIRS {
            let mut one = client(&narrows, left);
            one.query(form);
            drop(one);
            let mut other = client(&narrows, user);
            for question in ["SHOW PROFILES", "SELECT query FROM information_schema.optimizer_trace"] {
                let seen = format!("{:?}", other.query(question));
                assert!(!seen.contains("a secret"), "{user} sees by {question} after {form}: {seen}");
            }
        }
    }
}

#[test]
fn rows_of_one_session_are_not_cached() {
    for (flavour, table) in [
        (Flavour::MariaDb, "information_schema.user_variables"),
        (
            Flavour::MySql9,
            "performance_schema.user_variables_by_thread WHERE thread_id = ps_current_thread_id()",
        ),
    ] {
        let server = ServerOptions::new(flavour).start();
        let config = NarrowsConfig::new()
            .server(0, server.port(), "")
            .user("sbtest", "sbtest", "")
            .rule(r#"rule_id=1 active=1 match_digest="user_variables" cache_ttl=60000 apply=1"#);
        let narrows = start(&config);
        let open = || RawClient::open(&narrows.endpoint(), &Login::new("sbtest", "sbtest"));
        let text = format!("SELECT variable_value FROM {table}");
        let (mut one, mut other) = (open(), open());
        one.query("SET @token = 'a secret'");
        assert!(format!("{:?}", one.query(&text)).contains("a secret"), "{flavour:?}");
        assert!(!format!("{:?}", other.query(&text)).contains("a secret"), "{flavour:?}");
    }
}
