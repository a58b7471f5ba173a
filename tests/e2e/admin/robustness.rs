//! What administrators must not be able to do, on purpose or not: end the process, reach beyond the tables, or disturb
//! clients.

use std::time::Duration;

use narrows_testkit::{RawClient, command};

use super::{all_done, narrows, refusal, rows};

#[test]
fn names_are_names_whatever_is_in_them() {
    let (_server, narrows) = narrows();
    let mut admin = narrows.admin();
    let tables = rows(&mut admin, "SHOW TABLES");
    let users = rows(&mut admin, "SELECT * FROM mysql_users");
    for statement in [
        "SHOW TABLES FROM main.sqlite_master;DROP",
        "SHOW TABLES FROM `main`;DELETE",
        "SHOW TABLES FROM \"main\" LIKE ''' OR 1=1 --'",
        "SHOW CREATE TABLE mysql_users';DELETE",
        "SHOW CREATE TABLE `x` UNION SELECT * FROM mysql_users",
        "SHOW FIELDS FROM mysql_users);DELETE",
        "SHOW TABLE STATUS LIKE 'x''; DELETE FROM mysql_users; --'",
        "SHOW VARIABLES WHERE 1=1) UNION SELECT username, password FROM mysql_users WHERE (1=1",
        "SHOW VARIABLES LIKE 'x' OR 1=1",
        "SET mysql-max_connections=1 WHERE 1=1",
        "SET mysql-max_connections=1, variable_name='x'",
        "SET mysql-max_connections=(SELECT 1); DELETE FROM mysql_users",
        "LOAD MYSQL USER x';DELETE TO RUNTIME",
        "KILL CONNECTION 1 OR 1=1",
        "CHECKSUM MYSQL SERVERS; DROP TABLE mysql_servers",
        "TRUNCATE stats.stats_mysql_query_digest; DELETE FROM mysql_users",
        "SELECT @@x'; DELETE FROM mysql_users; --",
        "PROXYSQL CLUSTER_NODE_UUID '; DELETE FROM mysql_users; -- x",
        "SELECT * FROM pragma_table_info('mysql_users'); DROP TABLE mysql_users",
    ] {
        let answer = admin.query(statement);
        assert!(answer.lost.is_none(), "{statement} has ended the session");
        assert!(answer.text_rows().iter().flatten().flatten().all(|cell| cell != "sbtest"), "{statement}");
    }
    assert_eq!(rows(&mut admin, "SHOW TABLES"), tables);
    assert_eq!(rows(&mut admin, "SELECT * FROM mysql_users"), users);
    let changed =
        "SELECT COUNT(*) FROM global_variables WHERE variable_value='1' AND variable_name LIKE '%max_conn%'";
    assert_eq!(rows(&mut admin, changed), [["0"]]);
}

#[test]
fn sql_reaches_the_tables_and_nothing_beyond() {
    let (_server, narrows) = narrows();
    let (mut admin, mut stats) = (narrows.admin(), narrows.stats());
    let outside = narrows.folder().join("outside.db");
    for statement in [
        format!("ATTACH DATABASE '{}' AS outside", outside.display()),
        format!("VACUUM INTO '{}'", outside.display()),
        "SELECT load_extension('/tmp/x.so')".to_owned(),
        "PRAGMA writable_schema=1".to_owned(),
        "PRAGMA journal_mode=OFF".to_owned(),
        "DROP TABLE mysql_users".to_owned(),
        "CREATE TRIGGER t AFTER INSERT ON mysql_users BEGIN DELETE FROM mysql_servers; END".to_owned(),
        "CREATE VIRTUAL TABLE v USING fts5(x)".to_owned(),
        "UPDATE sqlite_master SET sql='x'".to_owned(),
    ] {
        assert_eq!(refusal(&admin.query(&statement)).0, 1045, "{statement}");
        assert_eq!(refusal(&stats.query(&statement)).0, 1045, "{statement}");
    }
    assert!(!outside.exists());
    for statement in [
        "SELECT * FROM mysql_users",
        "SELECT * FROM disk.mysql_users",
        "SELECT CONFIG FILE",
        "PRAGMA database_list",
        "/* */ PRAGMA integrity_check",
        "SELECT * FROM pragma_database_list",
        "SELECT COUNT(*) FROM Pragma_Database_List",
        "SELECT (SELECT file FROM \"pragma_database_list\" LIMIT 1)",
        "SELECT * FROM pragma_table_info('stats_mysql_global')",
        "SELECT * FROM dbstat",
    ] {
        assert_eq!(refusal(&stats.query(statement)).0, 1045, "{statement}");
    }
}

#[test]
fn statements_of_any_kind_of_bytes_get_an_answer() {
    let (_server, narrows) = narrows();
    let mut admin = narrows.admin();
    for statement in [
        &b""[..],
        b";",
        b" ; ;",
        b"\0",
        b"SELECT 1\0; DROP",
        b"\xFF\xFE",
        b"SELECT '\xE9'",
        b"/*",
        b"'",
        b"SET",
        b"SET =",
    ] {
        assert!(admin.query(statement).lost.is_none(), "{statement:?}");
    }
    assert_eq!(admin.query("SELECT 1").cell().as_deref(), Some("1"));
}

#[test]
fn a_statement_beyond_the_limit_is_refused_and_a_long_one_runs() {
    let (_server, narrows) = narrows();
    let mut client = narrows.client();
    let mut long = narrows.admin();
    // Several packets.
    let text = format!("SELECT LENGTH('{}') AS length", "y".repeat(20 << 20));
    assert_eq!(long.query(text).cell().as_deref(), Some("20971520"));
    let text = format!("SELECT LENGTH('{}')", "y".repeat(64 << 20));
    assert_eq!(refusal(&long.query(text)).0, 1153);
    assert!(client.query("SELECT 1").ok().is_some());
    assert_eq!(narrows.admin().query("SELECT 1").cell().as_deref(), Some("1"));
}

#[test]
fn a_statement_without_end_is_ended_and_clients_do_not_notice() {
    let (_server, narrows) = narrows();
    let (mut client, mut slow) = (narrows.client(), narrows.admin());
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT MAX(i) FROM n";
    slow.send_command(command::QUERY, endless.as_bytes()).expect("it reads");
    for _ in 0..1_000 {
        assert!(client.query("SELECT 1").ok().is_some());
    }
    let (code, text) = refusal(&slow.answer(command::QUERY));
    assert_eq!(code, 1045);
    assert!(text.contains("longer than"), "{text}");
    assert_eq!(slow.query("SELECT 1").cell().as_deref(), Some("1"));
}

#[test]
fn ten_thousand_connections_are_served_or_sent_away() {
    let (_server, narrows) = narrows();
    let mut client = narrows.client();
    let endpoint = narrows.admin_endpoint();
    for _ in 0..10 {
        let mut held: Vec<RawClient> = (0..1_000).map(|_| RawClient::connect(&endpoint)).collect();
        assert!(client.query("SELECT 1").ok().is_some());
        // Connections that do not log in make room for those that do.
        all_done(&mut narrows.admin(), &["SELECT 1"]);
        let is_open = |connection: &mut RawClient| !connection.is_closed_within(Duration::from_secs(10));
        let open = held.iter_mut().take(900).map(is_open).filter(|open| *open).count();
        assert_eq!(open, 0, "the first are closed");
    }
    assert!(client.query("SELECT 1").ok().is_some());
    all_done(&mut narrows.admin(), &["SELECT 1"]);
}

#[test]
fn a_pattern_of_many_wildcards_is_an_error_and_not_the_end() {
    let (_server, mut narrows) = narrows();
    let mut stats = narrows.stats();
    for operator in ["LIKE", "GLOB"] {
        let wildcard = if operator == "LIKE" { "a%" } else { "a*" };
        let pattern = format!("replace(hex(zeroblob(20000)), '00', '{wildcard}') || 'b'");
        let (code, text) = refusal(
            &stats.query(format!("SELECT replace(hex(zeroblob(20000)), '00', 'a') {operator} {pattern}")),
        );
        assert_eq!(code, 1045, "{text}");
        assert!(text.contains("pattern too complex"), "{text}");
    }
    assert_eq!(stats.query("SELECT 'abc' LIKE 'a%'").cell().as_deref(), Some("1"));
    assert!(narrows.process().try_wait().is_none(), "Narrows has ended");
}
