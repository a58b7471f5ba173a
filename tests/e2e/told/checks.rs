//! Failing checks of the monitor are shown: once in the log, and in metrics, EXPLAIN ROUTE and SHOW NARROWS STATUS.

use std::time::{Duration, Instant};

use narrows_testkit::{Conversation, FakeMysql, Move, NarrowsConfig, RawClient};

use super::{run, start};

fn status(admin: &mut RawClient) -> Vec<(String, String)> {
    let rows = admin.query("SHOW NARROWS STATUS").text_rows();
    let pair = |row: Vec<Option<String>>| {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        (cells.next().unwrap_or_default(), cells.next().unwrap_or_default())
    };
    rows.into_iter().map(pair).collect()
}

/// Repeats until the status has such a row.
fn wait_for_status(admin: &mut RawClient, name: &str, fits: impl Fn(&str) -> bool) {
    let begun = Instant::now();
    loop {
        let rows = status(admin);
        if rows.iter().any(|(of, value)| of == name && fits(value)) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{name}: {rows:#?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_monitor_that_is_not_let_in_or_lacks_a_privilege_is_told_of_everywhere() {
    let denied =
        Move::error(1227, "42000", "Access denied; you need (at least one of) the SUPER privilege(s)");
    let server = FakeMysql::start(Conversation::new().on("SHOW REPLICA STATUS", &[denied]));
    let port = server.port();
    let mut config =
        NarrowsConfig::new().server(0, port, "max_replication_lag=5").user("app", "app", "").monitor();
    for (name, value) in [("monitor_ping_interval", "200"), ("monitor_replication_lag_interval", "200")] {
        config = config.variable(name, value);
    }
    let narrows = start(&config);
    let mut admin = narrows.admin();
    let check = format!("Narrows_monitor_replication_lag_127.0.0.1:{port}");
    wait_for_status(&mut admin, &check, |value| value.contains("1227"));
    wait_for_status(&mut admin, "Narrows_monitor", |value| value == "1 check fails");
    narrows.wait_for_log(0, |log| log.contains("a check of the monitor fails") && log.contains("1227"));
    let metrics = admin.query("SHOW PROMETHEUS METRICS").cell().unwrap_or_default();
    let of = |check: &str| {
        format!("narrows_monitor_check_failing{{endpoint=\"127.0.0.1:{port}\",check=\"{check}\"}}")
    };
    assert!(metrics.contains(&format!("{} 1", of("replication_lag"))), "{metrics}");
    assert!(metrics.contains(&format!("{} 0", of("ping"))), "{metrics}");
    let route = admin.query("EXPLAIN ROUTE 'SELECT 1' AS app").text_rows();
    let is_told = |row: &Vec<Option<String>>| {
        row.iter().flatten().any(|cell| cell == "monitor check fails")
            && row.iter().flatten().any(|cell| cell.contains("1227"))
    };
    assert!(route.iter().any(is_told), "{route:?}");
    // It fails repeatedly, and is reported once; its recovery is reported too.
    server.wait_for_times("SHOW REPLICA STATUS", 5);
    assert_eq!(narrows.log().matches("a check of the monitor fails").count(), 1, "{}", narrows.log());
    server.say(Conversation::new());
    wait_for_status(&mut admin, "Narrows_monitor", |value| value == "all checks succeed");
    narrows.wait_for_log(0, |log| log.contains("a check of the monitor succeeds again"));
}

#[test]
fn the_status_tells_what_an_operator_wants_to_know_first() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&NarrowsConfig::new().server(3, server.port(), "").user("app", "app", ""));
    let mut admin = narrows.admin();
    run(&mut admin, &["SET mysql-verbose_query_error = 'true'", "LOAD MYSQL VARIABLES TO RUNTIME"]);
    let rows = status(&mut admin);
    let value = |name: &str| {
        let found = rows.iter().find(|(of, _)| of == name);
        found.unwrap_or_else(|| panic!("no {name}: {rows:#?}")).1.clone()
    };
    assert!(value("Narrows_version").contains("narrows"));
    assert_eq!(value("Narrows_state"), "serving");
    assert!(value("Narrows_listeners").contains(&narrows.port().to_string()));
    assert!(value(&format!("Narrows_server_3_127.0.0.1:{}", server.port())).starts_with("ONLINE"));
    assert_eq!(value("Narrows_monitor"), "off: servers are not checked");
    assert_eq!(value("Narrows_settings_without_effect"), "mysql-verbose_query_error");
    value("Narrows_uptime_s").parse::<u64>().expect("a number of seconds");
    run(&mut admin, &["PROXYSQL PAUSE"]);
    let rows = status(&mut admin);
    assert!(
        rows.iter().any(|(name, value)| name == "Narrows_state" && value.starts_with("paused")),
        "{rows:#?}"
    );
}
