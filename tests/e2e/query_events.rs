//! The query log in memory: `stats_mysql_query_events`, what is chosen for it, and what it says.

use std::time::{SystemTime, UNIX_EPOCH};

use narrows_testkit::{Flavour, Narrows, NarrowsConfig, RawClient, RealServer, wait_until};
use serde_json::Value as Json;

use crate::prepared::statement::{Statement, Value};
use crate::support::start;

fn dump(admin: &mut RawClient, to: &str) -> u64 {
    let answer = admin.query(format!("DUMP EVENTSLOG FROM BUFFER TO {to}"));
    answer.ok().unwrap_or_else(|| panic!("{:?}", answer.error())).affected_rows
}

/// Dumps until there have been so many: a record is queued just after the client has its answer.
fn dump_all(admin: &mut RawClient, to: &str, wanted: u64) {
    let mut found = 0;
    wait_until("all statements are there", || {
        found += dump(admin, to);
        found >= wanted
    });
    assert_eq!(found, wanted);
}

fn cells(client: &mut RawClient, statement: &str) -> Vec<Vec<String>> {
    let answer = client.query(statement);
    assert_eq!(answer.error(), None, "{statement}");
    answer
        .text_rows()
        .into_iter()
        .map(|row| row.into_iter().map(Option::unwrap_or_default).collect())
        .collect()
}

fn set(narrows: &Narrows, name: &str, value: &str) {
    let mut admin = narrows.admin();
    for statement in [format!("SET {name} = '{value}'"), "LOAD MYSQL VARIABLES TO RUNTIME".to_owned()] {
        assert_eq!(admin.query(statement).error(), None);
    }
    assert_eq!(admin.query("LOAD ADMIN VARIABLES TO RUNTIME").error(), None);
}

fn config(server: &RealServer) -> NarrowsConfig {
    NarrowsConfig::in_front_of(server.port())
        .variable("eventslog_buffer_history_size", "1000")
        .variable("eventslog_default_log", "1")
}

#[test]
fn events_are_dumped_read_and_deleted() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(&config(server).variable("eventslog_stmt_parameters", "1"));
    let (mut client, mut admin) = (narrows.client(), narrows.admin());
    client.query("SELECT 1 UNION SELECT 2");
    client.query("SELECT nothing FROM nowhere");
    let statement = Statement::prepare(&mut client, "SELECT ?, ?, ?");
    statement.execute(&mut client, &[Value::Text("it's"), Value::Integer(-5), Value::Integer(7)]);
    dump_all(&mut admin, "MEMORY", 4);
    assert_eq!(dump(&mut admin, "MEMORY"), 0);
    let rows = cells(
        &mut admin,
        "SELECT id, query, event_type, hid, server, rows_sent, errno, error, extra_info, start_time, end_time, client_stmt_id, \
         username, query_digest FROM stats_mysql_query_events ORDER BY id",
    );
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("now").as_micros();
    for row in &rows {
        let (begun, ended): (u128, u128) = (row[9].parse().expect("us"), row[10].parse().expect("us"));
        assert!(begun < ended && ended <= now && now - begun < 60_000_000, "{row:?}");
        assert_eq!((&*row[4], &*row[12]), (&*format!("127.0.0.1:{}", server.port()), "sbtest"), "{row:?}");
        assert!(row[13].starts_with("0x") && row[13].len() == 18, "{row:?}");
    }
    let seen: Vec<[&str; 6]> =
        rows.iter().map(|row| [&*row[1], &row[2], &row[3], &row[5], &row[6], &row[11]]).collect();
    assert_eq!(seen[0], ["SELECT 1 UNION SELECT 2", "0", "0", "2", "0", "0"]);
    assert_eq!(seen[1], ["SELECT nothing FROM nowhere", "0", "0", "0", "1046", "0"]);
    assert_eq!(rows[1][7], "No database selected");
    assert_eq!(seen[2][..2], ["SELECT ?, ?, ?", "17"]);
    assert_eq!(seen[3], ["SELECT ?, ?, ?", "16", "0", "1", "0", "1"]);
    let values: Json = serde_json::from_str(&rows[3][8]).expect("JSON");
    assert_eq!(values[0]["value"], "it's");
    assert_eq!((&values[1]["value"], &values[2]["value"]), (&"-5".into(), &"7".into()));

    // Statistics users see them, and rows that are deleted are gone.
    let count = "SELECT COUNT(*) FROM stats_mysql_query_events";
    assert_eq!(cells(&mut narrows.stats(), count), [["4"]]);
    assert_eq!(admin.query("DELETE FROM stats_mysql_query_events WHERE event_type = 17").error(), None);
    assert_eq!(cells(&mut admin, "SELECT id FROM stats_mysql_query_events"), [["1"], ["2"], ["4"]]);
    assert_eq!(admin.query("DELETE FROM stats_mysql_query_events").error(), None);
    assert_eq!(cells(&mut narrows.stats(), count), [["0"]]);
    client.query("DO 1");
    dump_all(&mut admin, "BOTH", 1);
    assert_eq!(cells(&mut admin, "SELECT id, query FROM stats_mysql_query_events"), [["5", "DO 1"]]);
    let history = "SELECT query, errno FROM stats_history.history_mysql_query_events";
    assert_eq!(cells(&mut admin, history), [["DO 1", "0"]]);
    client.query("DO 2");
    dump_all(&mut admin, "DISK", 1);
    assert_eq!(cells(&mut narrows.stats(), history), [["DO 1", "0"], ["DO 2", "0"]]);
    assert_eq!(cells(&mut admin, count), [["1"]]);
    assert!(narrows.stats().query("DUMP EVENTSLOG FROM BUFFER TO MEMORY").error().is_some());
}

#[test]
fn the_last_ones_are_kept_and_slow_ones_chosen() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(
        &config(server)
            .variable("eventslog_buffer_history_size", "3")
            .variable("eventslog_buffer_max_query_length", "128"),
    );
    let (mut client, mut admin) = (narrows.client(), narrows.admin());
    for number in 0..10 {
        client.query(format!("DO {number}"));
    }
    client.query(format!("DO '{}'", "x".repeat(1000)));
    dump_all(&mut admin, "MEMORY", 3);
    let texts = cells(&mut admin, "SELECT substr(query, 1, 6), length(query) FROM stats_mysql_query_events");
    assert_eq!(texts, [["DO 8", "4"], ["DO 9", "4"], ["DO 'xx", "128"]]);

    set(&narrows, "mysql-eventslog_rate_limit", "0");
    client.query("DO 1");
    assert_eq!(dump(&mut admin, "MEMORY"), 0);
    set(&narrows, "mysql-eventslog_slow_time", "100");
    client.query("DO 1");
    client.query("DO SLEEP(0.2)");
    dump_all(&mut admin, "MEMORY", 1);
    set(&narrows, "mysql-eventslog_slow_time", "0");
    set(&narrows, "mysql-eventslog_buffer_history_size", "100000");
    set(&narrows, "mysql-eventslog_rate_limit", "10");
    for _ in 0..2000 {
        client.query("DO 1");
    }
    let chosen = dump(&mut admin, "MEMORY");
    assert!((100..320).contains(&chosen), "{chosen} of 2000");
    set(&narrows, "mysql-eventslog_table_memory_size", "7");
    set(&narrows, "mysql-eventslog_rate_limit", "1");
    client.query("DO 'last'");
    dump_all(&mut admin, "MEMORY", 1);
    assert_eq!(
        cells(&mut admin, "SELECT COUNT(*), MAX(query) FROM stats_mysql_query_events"),
        [["7", "DO 1"]]
    );
}

#[test]
fn events_go_to_the_disk_by_themselves() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(&config(server));
    set(&narrows, "admin-stats_mysql_eventslog_sync_buffer_to_disk", "1");
    let mut client = narrows.client();
    client.query("DO 'saved'");
    let saved = "SELECT COUNT(*) FROM stats_history.history_mysql_query_events WHERE query = 'DO ''saved'''";
    wait_until("it is on disk", || cells(&mut narrows.stats(), saved) == [["1"]]);
}

#[test]
fn lines_of_text_are_as_proxysqls_reader_prints_them() {
    let server = RealServer::shared(Flavour::MariaDb);
    let folder = narrows_testkit::TempFolder::new("events");
    let name = folder.file("queries");
    let mut narrows = start(
        &NarrowsConfig::in_front_of(server.port())
            .variable("eventslog_filename", name.to_str().expect("a path in UTF-8"))
            .variable("eventslog_line_format", "text")
            .variable("eventslog_default_log", "1"),
    );
    narrows.client().query("SELECT 1\n\u{1b}[31m");
    let mut text = String::new();
    wait_until("it is logged", || {
        text = std::fs::read_to_string(folder.file("queries.00000001")).unwrap_or_default();
        text.ends_with('\n')
    });
    // The last statement before the end is there, too.
    narrows.client().query("DO 'last'");
    narrows.process().stop(std::time::Duration::from_secs(20));
    let all = std::fs::read_to_string(folder.file("queries.00000001")).expect("a file");
    assert!(all.contains("COM_QUERY DO \'last\'"), "{all}");
    assert!(text.starts_with("ProxySQL LOG QUERY: thread_id=\"") && text.lines().count() == 1, "{text}");
    assert!(text.contains("username=\"sbtest\"") && text.contains("HID=0 server=\"127.0.0.1:"), "{text}");
    assert!(text.ends_with("error=1064 COM_QUERY SELECT 1\\n\\u{1b}[31m\n"), "{text}");
}
