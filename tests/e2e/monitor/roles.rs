//! Writers and readers follow `read_only`.

use narrows_testkit::{Conversation, FakeMysql, Move, NarrowsConfig};

use super::{admin, rows, start, wait_for_rows, watched};

const RUNTIME: &str = "SELECT hostgroup_id, port, status FROM runtime_mysql_servers ORDER BY 1, 2";

/// Two servers as a pair of hostgroups; reads go to the second of them.
fn pair(writer: u16, reader: u16, columns: &str) -> NarrowsConfig {
    watched()
        .server(0, writer, "")
        .server(1, reader, "")
        .rule("rule_id=1 active=1 match_digest=\"^SELECT\" destination_hostgroup=1 apply=1")
        .row("mysql_replication_hostgroups", &format!("writer_hostgroup=0 reader_hostgroup=1 {columns}"))
}

/// A server that says this of itself.
fn says(question: &str, value: &str) -> Conversation {
    Conversation::new().on(question, &[Move::rows("read_only", &[value])])
}

const READ_ONLY: &str = "SELECT @@global.read_only read_only";

#[test]
fn a_writer_is_also_a_reader_where_that_is_wanted() {
    let (one, two) = (FakeMysql::start(says(READ_ONLY, "0")), FakeMysql::start(says(READ_ONLY, "1")));
    let (one_port, two_port) = (one.port(), two.port());
    let narrows = start(&pair(one_port, two_port, ""));
    let mut admin = admin(&narrows);
    one.say(says(READ_ONLY, "1"));
    two.say(says(READ_ONLY, "0"));
    let mut readers = [one_port, two_port];
    readers.sort_unstable();
    let [first, second] = readers.map(|port| format!("1 {port} ONLINE"));
    let expected = [format!("0 {two_port} ONLINE"), first, second];
    wait_for_rows(&mut admin, RUNTIME, &expected.each_ref().map(String::as_str));
    admin.query("SAVE MYSQL SERVERS FROM RUNTIME");
    let saved = rows(&mut admin, "SELECT hostgroup_id, port, status FROM mysql_servers ORDER BY 1, 2");
    assert_eq!(saved, expected);
}

#[test]
fn three_timeouts_take_a_writer_out_and_a_connection_error_does_not() {
    let (one, two) = (FakeMysql::start(says(READ_ONLY, "0")), FakeMysql::start(says(READ_ONLY, "1")));
    let (one_port, two_port) = (one.port(), two.port());
    let config = pair(one_port, two_port, "")
        .variable("monitor_read_only_interval", "200")
        .variable("monitor_read_only_timeout", "100")
        .variable("monitor_ping_interval", "60000");
    let narrows = start(&config);
    let mut admin = admin(&narrows);
    let at_first = [format!("0 {one_port} ONLINE"), format!("1 {two_port} ONLINE")];
    let at_first = at_first.each_ref().map(String::as_str);
    let seen = "SELECT DISTINCT read_only FROM monitor.mysql_server_read_only_log ORDER BY 1";
    wait_for_rows(&mut admin, seen, &["0", "1"]);

    one.say(Conversation::new().at_connect(&[Move::Close]));
    one.hang_up();
    let failures = format!(
        "SELECT count(*) >= 5 FROM monitor.mysql_server_read_only_log WHERE port = {one_port} AND error NOT LIKE 'timeout%'"
    );
    wait_for_rows(&mut admin, &failures, &["1"]);
    assert_eq!(rows(&mut admin, RUNTIME), at_first);

    one.say(Conversation::new().at_connect(&[Move::Hang]));
    let mut readers = [one_port, two_port];
    readers.sort_unstable();
    let both = readers.map(|port| format!("1 {port} ONLINE"));
    wait_for_rows(&mut admin, RUNTIME, &both.each_ref().map(String::as_str));
    let timeouts = format!(
        "SELECT count(*) >= 3 FROM monitor.mysql_server_read_only_log WHERE port = {one_port} AND error LIKE 'timeout%'"
    );
    assert_eq!(rows(&mut admin, &timeouts), ["1"]);

    one.say(says(READ_ONLY, "0"));
    one.hang_up();
    let one_is_writer =
        format!("SELECT count(*) FROM runtime_mysql_servers WHERE hostgroup_id = 0 AND port = {one_port}");
    wait_for_rows(&mut admin, &one_is_writer, &["1"]);
}

#[test]
fn every_check_type_asks_what_it_says() {
    for (name, question) in [
        ("innodb_read_only", "SELECT @@global.innodb_read_only read_only"),
        ("super_read_only", "SELECT @@global.super_read_only read_only"),
        ("read_only|innodb_read_only", "SELECT @@global.read_only|@@global.innodb_read_only read_only"),
        ("read_only&innodb_read_only", "SELECT @@global.read_only&@@global.innodb_read_only read_only"),
    ] {
        let server = FakeMysql::start(says(question, "0"));
        let narrows = start(&pair(FakeMysql::nobody(), server.port(), &format!("check_type=\"{name}\"")));
        let query = format!(
            "SELECT hostgroup_id FROM runtime_mysql_servers WHERE port = {} ORDER BY 1",
            server.port()
        );
        wait_for_rows(&mut admin(&narrows), &query, &["0", "1"]);
    }
}

#[test]
fn a_load_keeps_what_is_known_and_follows_new_servers() {
    let (one, two) = (FakeMysql::start(says(READ_ONLY, "1")), FakeMysql::start(says(READ_ONLY, "0")));
    let narrows = start(&pair(one.port(), two.port(), ""));
    let mut admin = admin(&narrows);
    let writers = "SELECT port FROM runtime_mysql_servers WHERE hostgroup_id = 0";
    wait_for_rows(&mut admin, writers, &[&two.port().to_string()]);
    admin.query("UPDATE mysql_servers SET comment = 'x'");
    admin.query("LOAD MYSQL SERVERS TO RUNTIME");
    assert_eq!(rows(&mut admin, writers), [two.port().to_string()], "at once");

    let three = FakeMysql::start(says(READ_ONLY, "0"));
    admin.query(format!("DELETE FROM mysql_servers WHERE port = {}", two.port()));
    admin.query(format!(
        "INSERT INTO mysql_servers (hostgroup_id, hostname, port) VALUES (1, '127.0.0.1', {})",
        three.port()
    ));
    admin.query("LOAD MYSQL SERVERS TO RUNTIME");
    wait_for_rows(&mut admin, writers, &[&three.port().to_string()]);
    two.wait_for_open(0);
}
