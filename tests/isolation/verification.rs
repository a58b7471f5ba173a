//! `mysql-verify_sessions`: the server is asked for the state of a connection that changes its client.

use narrows_testkit::{Flavour, Login, RawClient, ServerOptions, capability};

use crate::support::Stand;

#[test]
fn clients_share_one_connection() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, &[]);
        let mut direct = stand.direct();
        assert_eq!(direct.query("SELECT 1").cell().as_deref(), Some("1"));
        let (mut one, mut other) = (stand.client(), stand.client());
        for client in [&mut one, &mut other] {
            assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"), "{:?}", stand.flavour);
        }
        let open = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'sbtest' AND host <> 'localhost'";
        assert_eq!(stand.server.rows(open)[0][0].as_deref(), Some("1"), "{flavour:?}");
    }
}

/// An effect that a planted fault makes a session forget, what causes it, and what shows it.
struct Planted {
    forgotten: &'static str,
    named: &'static str,
    cause: &'static str,
    seen_by: &'static str,
}

#[test]
fn a_session_that_misses_an_effect_is_found_and_no_other_client_sees_it() {
    let planted = |forgotten, named, cause, seen_by| Planted { forgotten, named, cause, seen_by };
    let of_both = [
        planted("sql_mode", "sql_mode", "SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'", "SELECT @@sql_mode"),
        planted("schema", "schema", "USE other", "SELECT DATABASE()"),
        planted(
            "foreign_key_checks",
            "foreign_key_checks",
            "SET foreign_key_checks = 0",
            "SELECT @@foreign_key_checks",
        ),
        planted("time_zone", "time_zone", "SET time_zone = '+07:00'", "SELECT @@time_zone"),
        planted("timestamp", "timestamp", "SET timestamp = 1000", "SELECT NOW() < '2000-01-01'"),
        planted(
            "character_set_results",
            "character_set_results",
            "SET character_set_results = latin1",
            "SELECT @@character_set_results",
        ),
        planted(
            "transaction_isolation",
            "isolation",
            "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "SELECT @@tx_isolation",
        ),
        planted("mine", "user_variable", "SET @mine = 7", "SELECT @mine"),
    ];
    for flavour in Flavour::both() {
        for Planted { forgotten, named, cause, seen_by } in &of_both {
            let seen_by = match flavour {
                Flavour::MariaDb => (*seen_by).to_owned(),
                Flavour::MySql9 => seen_by.replace("tx_isolation", "transaction_isolation"),
            };
            let stand = Stand::with(ServerOptions::new(flavour), &["CREATE DATABASE other"], |config| {
                config.environment("NARROWS_INJECT_FORGET", forgotten)
            });
            let mut direct = stand.direct();
            let untouched = direct.query(&seen_by).cell();
            let (mut careless, mut other) = (stand.client(), stand.client());
            careless.query("SELECT 1");
            let connection = connection_of(&stand);
            assert!(connection.is_some(), "{flavour:?}");
            assert!(careless.query(cause).error().is_none(), "{flavour:?} {cause}");
            assert_eq!(other.query(&seen_by).cell(), untouched, "{flavour:?} {cause}");
            assert_ne!(connection_of(&stand), connection, "the connection stays open: {flavour:?} {cause}");
            assert!(mismatches(&stand).contains(named), "{flavour:?} {cause}: {:?}", mismatches(&stand));
            let line = stand.narrows.wait_for_log(0, |line| line.contains("not as it was known to be"));
            let is_of_it = line.contains(named) && (line.contains("SET") || line.contains("USE"));
            assert!(is_of_it, "the log names neither the variable nor the statement: {line}");
        }
    }
}

/// Some capabilities change the session with which a client begins.
#[test]
fn clients_of_all_capabilities_have_the_sessions_that_are_known() {
    let capabilities = [
        capability::FOUND_ROWS,
        capability::LOCAL_FILES,
        capability::IGNORE_SPACE,
        capability::INTERACTIVE,
        capability::MULTI_STATEMENTS,
        capability::SESSION_TRACK,
        capability::DEPRECATE_EOF,
        capability::IGNORE_SPACE | capability::INTERACTIVE | capability::FOUND_ROWS,
    ];
    for flavour in Flavour::both() {
        for of_server in [
            "--sql-mode=ANSI_QUOTES",
            "--sql-mode=",
            "--sql-mode=TRADITIONAL,IGNORE_SPACE",
            "--sql-mode=ANSI",
        ] {
            let stand = Stand::with(ServerOptions::new(flavour).option(of_server), &[], |config| config);
            for capabilities in capabilities {
                let login = Login::new("sbtest", "sbtest").with(capabilities);
                let mut with = RawClient::connect(&stand.narrows.endpoint());
                with.login(&login).expect("a login");
                let mut without = stand.client();
                for text in
                    ["SELECT 1", "SELECT 2", "SET time_zone = '+01:00'", "SELECT 3", "SET @u = 1", "SELECT 4"]
                {
                    with.query(text);
                    without.query("SELECT 1");
                }
                let found = mismatches(&stand);
                assert_eq!(found, "", "{flavour:?} {of_server} {capabilities:x}: {}", stand.narrows.log());
            }
        }
    }
}

/// The server's id of the only connection.
fn connection_of(stand: &Stand) -> Option<String> {
    let ids = "SELECT id FROM information_schema.processlist WHERE user = 'sbtest' AND host <> 'localhost'";
    stand.server.rows(ids).first().and_then(|row| row[0].clone())
}

/// What the metrics say of mismatches.
fn mismatches(stand: &Stand) -> String {
    let mut admin: RawClient = stand.narrows.admin();
    let found = admin.query("SHOW PROMETHEUS METRICS").text_rows();
    let lines: Vec<String> = found.into_iter().flatten().flatten().collect();
    let of_it = |line: &&str| line.starts_with("narrows_session_mismatch_total");
    lines.iter().flat_map(|text| text.lines()).filter(of_it).collect::<Vec<_>>().join("\n")
}
