//! The history of the traffic, as charts read it.

use narrows_testkit::{Conversation, FakeMysql, Move, Narrows, NarrowsConfig, RawClient, wait_until};

use super::{all_done, rows, start};

/// Rows each second, of which the first is there.
fn recording(server: &FakeMysql) -> (Narrows, RawClient) {
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let mut admin = narrows.admin();
    all_done(&mut admin, &["SET admin-narrows_history = 1", "LOAD ADMIN VARIABLES TO RUNTIME"]);
    wait_until("there is a row", || recorded(&mut admin, "COUNT(*)") > 0);
    (narrows, admin)
}

/// An aggregate of all rows.
fn recorded(client: &mut RawClient, column: &str) -> u64 {
    let query = format!("SELECT COALESCE({column}, 0) FROM stats_history.narrows_traffic_10s");
    rows(client, &query)[0][0].parse().expect("a number")
}

#[test]
fn what_happens_is_in_the_row_of_its_interval() {
    let server = FakeMysql::start(Conversation::new().on("DO wrong", &[Move::error(1105, "HY000", "wrong")]));
    let (narrows, mut admin) = recording(&server);
    let mut client = narrows.client();
    (0..20).for_each(|_| assert!(client.query("DO 1").error().is_none()));
    assert!(client.query("DO wrong").error().is_some());
    wait_until("the statements are recorded", || recorded(&mut admin, "SUM(statements)") >= 21);
    assert_eq!(recorded(&mut admin, "SUM(statements)"), 21);
    assert_eq!(recorded(&mut admin, "SUM(errors)"), 1);
    assert_eq!(recorded(&mut admin, "SUM(slow_statements)"), 0);
    assert_eq!(recorded(&mut admin, "MAX(clients_connected)"), 1);
    assert_eq!(recorded(&mut admin, "MAX(backend_connections_used + backend_connections_free)"), 1);
    let least = 21 * "DO 1".len() as u64;
    assert!(recorded(&mut admin, "SUM(client_bytes_received)") > least);
    assert!(recorded(&mut admin, "SUM(client_bytes_sent)") > least);
    assert!(recorded(&mut admin, "MAX(interval_ms)") < 60_000);
    let busy = "SELECT latency_p50_us > 0 AND latency_p50_us <= latency_p95_us AND latency_p95_us <= latency_p99_us, \
                latency_counts FROM stats_history.narrows_traffic_10s WHERE statements > 0";
    // Statistics users read the same.
    for reader in [&mut admin, &mut narrows.stats()] {
        let mut counted = 0;
        for row in rows(reader, busy) {
            assert_eq!(row[0], "1");
            let counts = row[1].trim_matches(['[', ']']).split(',');
            counted += counts.map(|count| count.parse::<u64>().expect("a number")).sum::<u64>();
        }
        assert_eq!(counted, 21);
    }
    all_done(&mut admin, &["SET admin-narrows_history = 0", "LOAD ADMIN VARIABLES TO RUNTIME"]);
}

#[test]
fn a_full_disk_is_logged_once_and_costs_no_rows() {
    let server = FakeMysql::start(Conversation::new());
    let (mut narrows, mut admin) = recording(&server);
    // Some lines of the log fit, but no page of SQLite's journal.
    let room = narrows.log().len() as u64 + 1_000;
    assert!(room < 4_096);
    narrows.process().limit_file_size(Some(room));
    let mut client = narrows.client();
    (0..7).for_each(|_| assert!(client.query("DO 1").error().is_none()));
    let is_meant = |line: &str| line.contains("the history of the traffic cannot be stored yet");
    wait_until("it is logged", || {
        assert_eq!(recorded(&mut admin, "SUM(statements)"), 0);
        narrows.log().lines().any(is_meant)
    });
    assert!(client.query("DO 1").error().is_none(), "clients do not notice");
    assert_eq!(recorded(&mut admin, "SUM(statements)"), 0);
    assert_eq!(narrows.log().lines().filter(|line| is_meant(line)).count(), 1);

    narrows.process().limit_file_size(None);
    wait_until("all are recorded", || recorded(&mut admin, "SUM(statements)") == 8);
}
