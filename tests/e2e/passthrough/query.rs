//! `mysql-auth_query`: accounts that a statement finds.

use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, KEPT_MARK, Login, Narrows, NarrowsConfig, RawClient, RealServer, TempFolder};

use super::{log_in, log_in_with, patient, refusal};
use crate::support::start;

/// What an administrator sets; MariaDB's `mysql.user` has no column for locks.
fn statement(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::MySql9 => {
            "SELECT authentication_string, plugin, host, account_locked, password_expired FROM mysql.user WHERE user = ?"
        }
        Flavour::MariaDb => {
            "SELECT authentication_string, plugin, host, password_expired, \
             (SELECT JSON_VALUE(priv, '$.account_locked') FROM mysql.global_priv g WHERE g.user = u.user AND g.host = u.host) \
             AS account_locked FROM mysql.user u WHERE user = ?"
        }
    }
}

fn config(server: &RealServer) -> NarrowsConfig {
    server.execute(&[
        "CREATE USER IF NOT EXISTS aq_service@'%' IDENTIFIED BY 'of the service'",
        "GRANT SELECT ON mysql.* TO aq_service@'%'",
    ]);
    patient(NarrowsConfig::new().server(0, server.port(), ""))
        .variable("auth_query", statement(server.flavour()))
        .variable("auth_query_username", "aq_service")
        .variable("auth_query_password", "of the service")
}

fn ran(narrows: &Narrows, outcome: &str) -> u64 {
    let name = format!("Narrows_auth_query_{outcome}");
    let rows = narrows.admin().query("SHOW NARROWS STATUS").text_rows();
    let row = rows.into_iter().find(|row| row[0].as_deref() == Some(&name));
    row.and_then(|row| row[1].as_deref()?.parse().ok()).unwrap_or_default()
}

#[test]
fn accounts_that_the_statement_finds_log_in_and_follow_the_server() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let narrows = start(&config(server));
        server.execute(&["CREATE USER aq_app@'%' IDENTIFIED BY 'one'"]);
        let mut client = log_in(&narrows, "aq_app", "one").expect("it exists");
        assert_eq!(client.query("SELECT CURRENT_USER()").cell().as_deref(), Some("aq_app@%"), "{flavour:?}");
        log_in(&narrows, "aq_app", "one").expect("it is known");
        assert_eq!(ran(&narrows, "answered"), 1, "{flavour:?}");
        server.execute(&["ALTER USER aq_app@'%' IDENTIFIED BY 'two'"]);
        log_in(&narrows, "aq_app", "two").expect("at the first try");
        assert_eq!(refusal(&narrows, "aq_app", "one").0, 1045, "{flavour:?}");
        assert_eq!(refusal(&narrows, "aq_nobody", "one").0, 1045, "{flavour:?}");
        assert_eq!(refusal(&narrows, "aq_a' OR '1'='1", "one").0, 1045, "{flavour:?}");
        let seen = narrows.stats().query("SELECT username, default_hostgroup FROM stats_narrows_auth_query");
        assert_eq!(seen.text_rows(), [[Some("aq_app".to_owned()), Some("0".to_owned())]], "{flavour:?}");
        server.execute(&["ALTER USER aq_app@'%' ACCOUNT LOCK"]);
        let locked = Instant::now();
        while log_in(&narrows, "aq_app", "two").is_ok() {
            assert!(locked.elapsed() < Duration::from_secs(5), "{flavour:?}");
        }
        assert_eq!(refusal(&narrows, "aq_app", "two").0, 3118, "{flavour:?}");
        server.execute(&["DROP USER aq_app@'%'"]);
        let dropped = Instant::now();
        while refusal(&narrows, "aq_app", "two").0 != 1045 {
            assert!(dropped.elapsed() < Duration::from_secs(5), "{flavour:?}");
        }
        let log = narrows.log();
        assert!(!log.contains("of the service") && !log.contains("$A$"), "no secret is logged:\n{log}");
    }
}

#[test]
fn all_stored_forms_hosts_and_columns_are_read() {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&[
        "INSTALL PLUGIN IF NOT EXISTS ed25519 SONAME 'auth_ed25519'",
        "CREATE USER IF NOT EXISTS aq_ed@'%' IDENTIFIED VIA ed25519 USING PASSWORD('one'), aq_native@'%' IDENTIFIED BY 'one', \
         aq_hosts@'%' IDENTIFIED BY 'one'",
        "CREATE DATABASE IF NOT EXISTS aq",
        "CREATE OR REPLACE TABLE aq.hosts (name VARCHAR(32), password VARCHAR(80), host VARCHAR(80), hg INT)",
        "INSERT INTO aq.hosts VALUES ('aq_hosts', PASSWORD('other'), '%', 0), ('aq_hosts', PASSWORD('one'), '127.0.0.0/8', 7)",
        "GRANT SELECT ON aq.* TO aq_hosts@'%'",
    ]);
    let narrows = start(&config(server).server(7, server.port(), ""));
    let mut client = log_in(&narrows, "aq_native", "one").expect("it exists");
    assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"));
    let login = Login::new("aq_ed", "one").plugin("caching_sha2_password");
    let mut client = log_in_with(&narrows, &login).expect("it sends its password over the socket");
    assert_eq!(client.query("SELECT CURRENT_USER()").cell().as_deref(), Some("aq_ed@%"));
    assert_eq!(refusal(&narrows, "aq_ed", "two").0, 1045);
    let own =
        "SELECT password, host, hg AS default_hostgroup, 'aq' AS default_schema FROM aq.hosts WHERE name = ?";
    server.execute(&["GRANT SELECT ON aq.* TO aq_service@'%'"]);
    let narrows = start(&config(server).server(7, server.port(), "").variable("auth_query", own));
    let mut client = RawClient::connect(&narrows.endpoint());
    client.login(&Login::new("aq_hosts", "one")).expect("by the row of its network");
    assert_eq!(client.query("SELECT DATABASE()").cell().as_deref(), Some("aq"));
    let hostgroups = "SELECT DISTINCT hostgroup FROM stats_mysql_query_digest WHERE username = 'aq_hosts'";
    assert_eq!(narrows.admin().query(hostgroups).cell().as_deref(), Some("7"));
}

#[test]
fn a_statement_that_fails_is_told_and_those_who_are_known_go_on() {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&["CREATE USER IF NOT EXISTS aq_known@'%' IDENTIFIED BY 'one'"]);
    let config = config(server).variable("auth_query_cache_ttl_ms", "0");
    let narrows = start(&config);
    log_in(&narrows, "aq_known", "one").expect("it exists");
    let mut admin = narrows.admin();
    admin.query("SET mysql-auth_query = 'SELECT no_such_column FROM mysql.user WHERE user = ?'");
    admin.query("LOAD MYSQL VARIABLES TO RUNTIME");
    log_in(&narrows, "aq_known", "one").expect("it was known");
    let (code, text) = refusal(&narrows, "aq_other", "one");
    assert_eq!(code, 9001, "{text}");
    assert_eq!(text, "The account 'aq_other' cannot be looked up in hostgroup 0 (mysql-auth_query)");
    let log = narrows.wait_for_log(0, |line| line.contains("mysql-auth_query fails"));
    assert!(log.contains("no_such_column"), "{log}");
    assert!(ran(&narrows, "failed") >= 2);
    admin.query("SET mysql-auth_query = 'SELECT 1'");
    let loaded = admin.query("LOAD MYSQL VARIABLES TO RUNTIME");
    assert!(loaded.error().is_none());
    let warnings = format!("{:?}", admin.query("SHOW WARNINGS").text_rows());
    assert!(warnings.contains("it has not exactly one `?`"), "{warnings}");
}

#[test]
fn who_the_statement_does_not_find_is_asked_of_servers_if_pass_through_is_on() {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&["CREATE USER IF NOT EXISTS aq_later@'%' IDENTIFIED BY 'one'"]);
    let config = config(server)
        .variable("auth_query", "SELECT '' AS password FROM dual WHERE ? = 'nobody at all'")
        .variable("passthrough_auth_enabled", "true")
        .variable("passthrough_auth_unknown_users", "true");
    let narrows = start(&config);
    log_in(&narrows, "aq_later", "one").expect("the server knows it");
    assert_eq!(super::asked(&narrows, "confirmed"), 1);
}

#[test]
fn the_password_of_the_statement_may_be_kept_elsewhere_and_change_there() {
    let server = RealServer::shared(Flavour::MariaDb);
    let password = |number: u32| format!("{KEPT_MARK}-query-{number}");
    let alter = |number: u32| {
        server.execute(&[&format!("ALTER USER aq_kept@'%' IDENTIFIED BY '{}'", password(number))]);
    };
    server.execute(&[
        "CREATE USER IF NOT EXISTS aq_kept@'%', aq_by_kept@'%' IDENTIFIED BY 'one'",
        "GRANT SELECT ON mysql.* TO aq_kept@'%'",
    ]);
    alter(1);
    let folder = TempFolder::new("query");
    let path = folder.file("password");
    std::fs::write(&path, password(1)).expect("a file");
    for reference in [
        "env:NARROWS_TEST_QUERY".to_owned(),
        format!("exec:/bin/cat {}", path.display()),
        format!("file:{}", path.display()),
    ] {
        let config = config(server)
            .variable("auth_query_username", "aq_kept")
            .variable("auth_query_password", &reference)
            .variable("auth_query_cache_ttl_ms", "0")
            .environment("NARROWS_TEST_QUERY", &password(1));
        let narrows = start(&config);
        log_in(&narrows, "aq_by_kept", "one").unwrap_or_else(|error| panic!("{reference}: {error:?}"));
        let mut admin = narrows.admin();
        admin.query("SET mysql-auth_query_password = 'env:NARROWS_NO_SUCH'");
        let refused = admin.query("LOAD MYSQL VARIABLES TO RUNTIME").error().expect("refused").message;
        let told = "mysql-auth_query_password: the environment variable NARROWS_NO_SUCH is not set";
        assert!(refused.ends_with(told), "{refused}");
        if reference.starts_with("file:") {
            alter(2);
            std::fs::write(&path, password(2)).expect("a file");
            let skipped = narrows.log().len();
            narrows.wait_for_log(skipped, |line| {
                line.contains("as where it is kept: mysql-auth_query_password")
            });
            // Connections of the former password may be in the pool.
            server.execute(&["CREATE USER IF NOT EXISTS aq_later_kept@'%' IDENTIFIED BY 'one'"]);
            log_in(&narrows, "aq_later_kept", "one").expect("with the password of now");
        }
    }
}

#[test]
fn each_attribute_that_the_statement_returns_has_effect_or_the_log_says_why_not() {
    let server = RealServer::shared(Flavour::MariaDb);
    let config = config(server);
    server.execute(&[
        "CREATE DATABASE IF NOT EXISTS aq",
        "CREATE OR REPLACE TABLE aq.attributes (name VARCHAR(32), password VARCHAR(80), attributes VARCHAR(200))",
        "GRANT SELECT ON aq.* TO aq_service@'%'",
    ]);
    let names = [
        ("aqa_networks", r#"{"networks":["10.0.0.0/8"]}"#),
        ("aqa_lock", r#"{"failed_login_attempts":1,"password_lock_time_s":600}"#),
        ("aqa_age", r#"{"max_connection_age_s":1}"#),
        ("aqa_spiffe", r#"{"spiffe_id":"spiffe://a/b"}"#),
        ("aqa_subject", r#"{"subject":"/CN=app"}"#),
        ("aqa_second", r#"{"additional_password":"two"}"#),
        ("aqa_split", r#"{"auto_read_write_split":true,"reader_hostgroup":7}"#),
        ("aqa_causal", r#"{"causal_reads":"session"}"#),
        ("aqa_template", r#"{"usernames_like":"a%"}"#),
        ("aqa_unknown", r#"{"network":["10.0.0.0/8"]}"#),
        ("aqa_wrong", r#"{"reader_hostgroup":"x"}"#),
        ("aqa_no_json", "networks=all"),
    ];
    for (name, attributes) in names {
        server.execute(&[
            &format!("CREATE USER IF NOT EXISTS {name}@'%' IDENTIFIED BY 'one'"),
            &format!("INSERT INTO aq.attributes VALUES ('{name}', PASSWORD('one'), '{attributes}')"),
        ]);
    }
    let own = "SELECT password, attributes FROM aq.attributes WHERE name = ?";
    let narrows = start(&config.server(7, server.port(), "").variable("auth_query", own));
    for name in ["aqa_networks", "aqa_spiffe", "aqa_subject"] {
        assert_eq!(refusal(&narrows, name, "one").0, 1045, "{name}");
    }
    assert_eq!(refusal(&narrows, "aqa_lock", "wrong").0, 1045);
    assert_eq!(refusal(&narrows, "aqa_lock", "one").0, 3955);
    log_in(&narrows, "aqa_second", "two").expect("the second password");
    let mut split = log_in(&narrows, "aqa_split", "one").expect("it exists");
    assert_eq!(split.query("SELECT 1").cell().as_deref(), Some("1"));
    let hostgroups = "SELECT DISTINCT hostgroup FROM stats_mysql_query_digest WHERE username = 'aqa_split'";
    assert_eq!(narrows.admin().query(hostgroups).cell().as_deref(), Some("7"));
    let mut aged = log_in(&narrows, "aqa_age", "one").expect("it exists");
    assert!(aged.is_closed_within(Duration::from_secs(30)), "after a second");
    for (name, told) in [
        ("aqa_causal", "causal_reads has no effect"),
        ("aqa_template", "usernames_like has no effect"),
        ("aqa_unknown", "the key \"network\" does not exist"),
    ] {
        log_in(&narrows, name, "one").unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let line = narrows.wait_for_log(0, |line| line.contains(told));
        assert!(line.contains("WARN") && line.contains(name), "{line}");
    }
    // What cannot be read may have been meant as a restriction.
    for (name, told) in [
        ("aqa_wrong", "its attributes: reader_hostgroup is "),
        ("aqa_no_json", "its attributes are not JSON"),
    ] {
        assert_eq!(refusal(&narrows, name, "one").0, 1045, "{name}");
        narrows.wait_for_log(0, |line| line.contains(told) && line.contains(name));
    }
    let told = narrows.log();
    for name in ["aqa_networks", "aqa_lock", "aqa_age", "aqa_second", "aqa_split"] {
        let is_told = told.lines().any(|line| line.contains("of the attributes that") && line.contains(name));
        assert!(!is_told, "{name} has effect");
    }
}

#[test]
fn what_the_statement_says_of_a_name_is_the_last_word() {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&["CREATE USER IF NOT EXISTS aq_word@'%' IDENTIFIED BY 'one'"]);
    for (row, told) in [
        ("'x' AS password, 'mysql_native_password' AS plugin, '10.9.8.7' AS host", None),
        ("NULL AS password", Some("its authentication_string is NULL")),
        ("'' AS password, '{' AS attributes", Some("its attributes are not JSON")),
        ("'' AS password, 'maybe' AS account_locked", Some("its account_locked cannot be read: 'maybe'")),
    ] {
        let config = config(server)
            .variable("auth_query", &format!("SELECT {row} FROM dual WHERE ? = 'aq_word'"))
            .variable("passthrough_auth_enabled", "true")
            .variable("passthrough_auth_unknown_users", "true");
        let narrows = start(&config);
        for password in ["one", ""] {
            assert_eq!(refusal(&narrows, "aq_word", password).0, 1045, "{row}");
        }
        if let Some(told) = told {
            narrows.wait_for_log(0, |line| line.contains(told));
        }
        assert_eq!(super::asked(&narrows, "refused"), 0, "{row}: no server was asked");
    }
}
