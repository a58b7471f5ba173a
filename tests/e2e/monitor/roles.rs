//! Writers and readers follow `read_only`.

use std::time::{Duration, Instant};

use narrows_testkit::{Conversation, FakeMysql, Flavour, Move, NarrowsConfig, RawClient, ServerOptions};

use super::{DEADLINE, rows, start, wait_for_rows, watched};

const RUNTIME: &str = "SELECT hostgroup_id, port, status FROM runtime_mysql_servers ORDER BY 1, 2";

/// Two servers as a pair of hostgroups; reads go to the second of them.
fn pair(writer: u16, reader: u16, columns: &str) -> NarrowsConfig {
    watched()
        .server(0, writer, "")
        .server(1, reader, "")
        .rule("rule_id=1 active=1 match_digest=\"^SELECT\" destination_hostgroup=1 apply=1")
        .row("mysql_replication_hostgroups", &format!("writer_hostgroup=0 reader_hostgroup=1 {columns}"))
}

/// A server with these values.
fn says(question: &str, value: &str) -> Conversation {
    Conversation::new().on(question, &[Move::rows("read_only", &[value])])
}

const READ_ONLY: &str = "SELECT @@global.read_only read_only";

#[test]
fn reads_and_writes_follow_a_switch() {
    for flavour in Flavour::both() {
        let (one, two) = (ServerOptions::new(flavour).start(), ServerOptions::new(flavour).start());
        two.execute(&["SET GLOBAL read_only = 1"]);
        let config = pair(one.port(), two.port(), "").variable("monitor_writer_is_also_reader", "false");
        let narrows = start(&config);
        let mut client = narrows.client();
        wait_until_served_by(&mut client, one.port(), two.port());
        for (writer, reader) in [(&two, &one), (&one, &two)] {
            writer.execute(&["SET GLOBAL read_only = 0"]);
            reader.execute(&["SET GLOBAL read_only = 1"]);
            let took = wait_until_served_by(&mut client, writer.port(), reader.port());
            println!("{flavour:?}: reads and writes have followed after {took:?}; the interval is 500 ms");
        }
        let mut admin = narrows.admin();
        let configured = rows(&mut admin, "SELECT hostgroup_id, port FROM mysql_servers ORDER BY 1");
        let expected = [format!("0 {}", one.port()), format!("1 {}", two.port())];
        assert_eq!(configured, expected, "what is configured stays");
        let log = "SELECT DISTINCT read_only, error FROM monitor.mysql_server_read_only_log ORDER BY 1";
        wait_for_rows(&mut admin, log, &["0 NULL", "1 NULL"]);
    }
}

/// Every `check_type`, each with its own pair of hostgroups, with one server in all of them.
const CHECK_TYPES: [&str; 5] = [
    "read_only",
    "innodb_read_only",
    "read_only&innodb_read_only",
    "read_only|innodb_read_only",
    "super_read_only",
];

#[test]
fn every_check_type_is_asked_of_real_servers() {
    for flavour in Flavour::both() {
        let server = ServerOptions::new(flavour).start();
        let mut config = watched().variable("monitor_writer_is_also_reader", "false");
        for (pair, check_type) in CHECK_TYPES.iter().enumerate() {
            let (writer, reader) = (2 * pair, 2 * pair + 1);
            let columns =
                format!("writer_hostgroup={writer} reader_hostgroup={reader} check_type=\"{check_type}\"");
            config = config
                .server(i32::try_from(reader).expect("it is small"), server.port(), "")
                .row("mysql_replication_hostgroups", &columns);
        }
        let narrows = start(&config);
        let mut admin = narrows.admin();
        let mut wait_for = |readers: [bool; 5]| {
            // MariaDB has no super_read_only: the query is an error there, which moves nothing.
            let asked = if flavour == Flavour::MariaDb { 4 } else { 5 };
            let place = |pair: usize| 2 * pair + usize::from(pair >= asked || readers[pair]);
            let expected: Vec<String> = (0..5).map(|pair| place(pair).to_string()).collect();
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            wait_for_rows(&mut admin, "SELECT hostgroup_id FROM runtime_mysql_servers ORDER BY 1", &expected);
        };
        wait_for([false; 5]);
        server.execute(&["SET GLOBAL read_only = 1"]);
        wait_for([true, false, false, true, false]);
        if flavour == Flavour::MySql9 {
            server.execute(&["SET GLOBAL super_read_only = 1"]);
            wait_for([true, false, false, true, true]);
            server.execute(&["SET GLOBAL super_read_only = 0"]);
        }
        server.execute(&["SET GLOBAL read_only = 0"]);
        wait_for([false; 5]);
    }
}

/// Repeats until writes are answered by one server and reads by another; returns how long that took.
fn wait_until_served_by(client: &mut RawClient, writer: u16, reader: u16) -> Duration {
    let begun = Instant::now();
    let port = |client: &mut RawClient, query: &str| {
        let answer = client.query(query);
        assert_eq!(answer.error(), None, "{query}");
        answer.text_rows()[0].last().cloned().flatten()
    };
    let (writer, reader) = (Some(writer.to_string()), Some(reader.to_string()));
    while port(client, "SHOW GLOBAL VARIABLES LIKE 'port'") != writer
        || port(client, "SELECT @@global.port") != reader
    {
        assert!(begun.elapsed() < DEADLINE, "reads and writes do not follow");
        std::thread::sleep(Duration::from_millis(2));
    }
    begun.elapsed()
}

#[test]
fn a_statement_that_waits_for_a_writer_goes_on_as_soon_as_there_is_one() {
    let (one, two) = (FakeMysql::start(says(READ_ONLY, "1")), FakeMysql::start(says(READ_ONLY, "1")));
    let narrows = start(&pair(one.port(), two.port(), ""));
    let mut admin = narrows.admin();
    wait_for_rows(&mut admin, "SELECT count(*) FROM runtime_mysql_servers WHERE hostgroup_id = 0", &["0"]);
    let mut client = narrows.client();
    let waiting = std::thread::spawn(move || (client.query("DO 1").error(), Instant::now()));
    let waits = "SELECT count(*) FROM stats_mysql_processlist WHERE command = 'Connect'";
    wait_for_rows(&mut admin, waits, &["1"]);
    two.say(says(READ_ONLY, "0"));
    let said = Instant::now();
    let (error, answered) = waiting.join().unwrap();
    assert_eq!(error, None);
    println!("answered {:?} after the server was writable; the interval is 500 ms", answered - said);
    two.wait_for("DO 1");
}

#[test]
fn a_writer_is_also_a_reader_where_that_is_wanted() {
    let (one, two) = (FakeMysql::start(says(READ_ONLY, "0")), FakeMysql::start(says(READ_ONLY, "1")));
    let (one_port, two_port) = (one.port(), two.port());
    let narrows = start(&pair(one_port, two_port, ""));
    let mut admin = narrows.admin();
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
        // On a busy machine a check may be slow, but three in a row must not take this long.
        .variable("monitor_read_only_timeout", "1000")
        .variable("monitor_ping_interval", "60000");
    let narrows = start(&config);
    let mut admin = narrows.admin();
    let at_first = [format!("0 {one_port} ONLINE"), format!("1 {two_port} ONLINE")];
    let at_first = at_first.each_ref().map(String::as_str);
    let seen = "SELECT DISTINCT read_only FROM monitor.mysql_server_read_only_log WHERE read_only NOT NULL ORDER BY 1";
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
        wait_for_rows(&mut narrows.admin(), &query, &["0", "1"]);
    }
}

#[test]
fn a_load_keeps_what_is_known_and_follows_new_servers() {
    let (one, two) = (FakeMysql::start(says(READ_ONLY, "1")), FakeMysql::start(says(READ_ONLY, "0")));
    let narrows = start(&pair(one.port(), two.port(), ""));
    let mut admin = narrows.admin();
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
