//! The monitor: what it finds out about servers, and what it does about it.

mod cut_off;
mod health;
mod names;
mod roles;

use std::time::{Duration, Instant};

use narrows_testkit::{NarrowsConfig, RawClient};

use crate::support::start;

/// A configuration whose monitor checks often enough that tests need not wait long, and logs in as `sbtest`.
fn watched() -> NarrowsConfig {
    let mut config = NarrowsConfig::new().user("sbtest", "sbtest", "").monitor();
    for (name, value) in [
        ("monitor_username", "sbtest"),
        ("monitor_password", "sbtest"),
        ("monitor_connect_interval", "500"),
        ("monitor_ping_interval", "200"),
        ("monitor_read_only_interval", "500"),
        ("monitor_replication_lag_interval", "300"),
    ] {
        config = config.variable(name, value);
    }
    config
}

/// The rows of a query, one text each, with cells separated by blanks.
fn rows(client: &mut RawClient, query: &str) -> Vec<String> {
    let answer = client.query(query);
    assert_eq!(answer.error(), None, "{query}");
    let cell = |cell: Option<String>| cell.unwrap_or_else(|| "NULL".to_owned());
    let text = |row: Vec<Option<String>>| row.into_iter().map(cell).collect::<Vec<_>>().join(" ");
    answer.text_rows().into_iter().map(text).collect()
}

/// Repeats the query until it returns these rows; returns how long that took.
fn wait_for_rows(client: &mut RawClient, query: &str, expected: &[&str]) -> Duration {
    let begun = Instant::now();
    loop {
        let found = rows(client, query);
        if found == expected {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < DEADLINE, "{query}: {found:?} after {DEADLINE:?}, expected {expected:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Much longer than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);
