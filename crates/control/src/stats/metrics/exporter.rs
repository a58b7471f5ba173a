//! Metrics under the names of Percona's exporter for ProxySQL, which PMM's dashboards ask for.

use std::collections::BTreeMap;

use narrows_proxy::snapshot::{ServerRow, Snapshot};
use narrows_proxy::stats::{ClientLine, CommandLine, ServerLine};

use super::page::MetricKind::{Gauge, Histogram, Untyped};
use super::page::{MetricKind, Page};
use super::servers::{endpoint, state};

/// Writes the rows of `stats_mysql_global`.
pub fn write_status(page: &mut Page, rows: &[(&'static str, u64)]) {
    for (row, value) in rows {
        let name = format!("proxysql_mysql_status_{}", row.to_ascii_lowercase());
        page.single(&name, Untyped, &format!("The row {row} of stats_mysql_global."), value);
    }
}

/// Writes the rows of `stats_memory_metrics`.
pub fn write_memory(page: &mut Page, rows: &[(&'static str, u64)]) {
    for (row, value) in rows {
        let name = format!("proxysql_stats_memory_{}", row.to_ascii_lowercase());
        page.single(&name, Gauge, &format!("The row {row} of stats_memory_metrics."), value);
    }
}

/// Writes the rows of `stats_mysql_connection_pool`.
pub fn write_pool(page: &mut Page, lines: &[ServerLine]) {
    type Figure = fn(&ServerLine) -> u64;
    let columns: [(&str, MetricKind, Figure); 11] = [
        ("status", Gauge, |line| state(line.status)),
        ("conn_used", Gauge, |line| line.used),
        ("conn_free", Gauge, |line| line.free),
        ("conn_ok", Untyped, |line| line.tally.connected),
        ("conn_err", Untyped, |line| line.tally.failed),
        ("maxconnused", Untyped, |line| line.most_used),
        ("queries", Untyped, |line| line.tally.queries),
        ("queries_gtid_sync", Untyped, |line| line.tally.gtid_syncs),
        ("bytes_data_sent", Untyped, |line| line.tally.bytes_sent),
        ("bytes_data_recv", Untyped, |line| line.tally.bytes_received),
        ("latency_us", Gauge, |line| line.latency_us),
    ];
    for (column, kind, figure) in columns {
        let help = format!("The column {column} of stats_mysql_connection_pool.");
        let name = format!("proxysql_connection_pool_{column}");
        let mut metric = page.metric(&name, kind, &help);
        for line in lines {
            let labels = [("hostgroup", &*line.hostgroup.to_string()), ("endpoint", &*endpoint(line))];
            metric.value(&labels, figure(line));
        }
    }
}

/// Writes the rows of `runtime_mysql_servers`, with the states of `lines`.
pub fn write_servers(page: &mut Page, snapshot: &Snapshot, lines: &[ServerLine]) {
    type Figure = fn(&ServerRow) -> u64;
    let columns: [(&str, Figure); 6] = [
        ("weight", |row| row.weight.into()),
        ("compression", |row| row.compression.into()),
        ("max_connections", |row| row.max_connections.into()),
        ("max_replication_lag", |row| row.max_replication_lag.into()),
        ("use_ssl", |row| row.use_ssl.into()),
        ("max_latency_ms", |row| row.max_latency_ms.into()),
    ];
    let rows: Vec<_> = lines
        .iter()
        .filter_map(|line| {
            let servers = &snapshot.hostgroups.get(&line.hostgroup)?.servers;
            let is_it = |row: &ServerRow| row.hostname == line.hostname && row.port == line.port;
            servers.iter().find(|server| is_it(&server.row)).map(|server| (line, &server.row))
        })
        .collect();
    let mut write = |column: &str, figure: &dyn Fn(&ServerLine, &ServerRow) -> u64| {
        let help = format!("The column {column} of runtime_mysql_servers.");
        let name = format!("proxysql_runtime_servers_{column}");
        let mut metric = page.metric(&name, Gauge, &help);
        for (line, row) in &rows {
            let labels = [
                ("hostgroup", &*line.hostgroup.to_string()),
                ("endpoint", &*endpoint(line)),
                ("gtid_port", &*row.gtid_port.to_string()),
            ];
            metric.value(&labels, figure(line, row));
        }
    };
    write("status", &|line, _| state(line.status));
    for (column, figure) in columns {
        write(column, &|_, row| figure(row));
    }
}

/// Writes who is connected: the largest groups first.
pub fn write_clients(page: &mut Page, clients: &[(ClientLine, u64)]) {
    let mut hosts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut details: BTreeMap<[String; 4], u64> = BTreeMap::new();
    for (line, count) in clients {
        *hosts.entry(&line.client_host).or_default() += count;
        let hostgroup = line.hostgroup.map_or_else(|| "-1".to_owned(), |hostgroup| hostgroup.to_string());
        let key = [
            line.username.clone(),
            line.schema.clone().unwrap_or_default(),
            line.client_host.clone(),
            hostgroup,
        ];
        *details.entry(key).or_default() += count;
    }
    let name = "proxysql_processlist_client_connection_list";
    let mut metric = page.metric(name, Gauge, "Clients by address.");
    for (host, count) in largest_first(hosts) {
        metric.value(&[("client_host", host)], count);
    }
    let name = "proxysql_processlist_detailed_client_connection_count";
    let mut metric = page.metric(name, Gauge, "Clients by user, schema, address and hostgroup.");
    for ([user, db, host, hostgroup], count) in largest_first(details) {
        let labels = [("user", &*user), ("db", &*db), ("client_host", &*host), ("hostgroup", &*hostgroup)];
        metric.value(&labels, count);
    }
}

fn largest_first<K>(counts: BTreeMap<K, u64>) -> Vec<(K, u64)> {
    let mut counts: Vec<(K, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// Writes the rows of `stats_mysql_commands_counters` that the exporter asks for, and those of other classes that ran.
#[expect(clippy::cast_precision_loss, reason = "a metric is a floating-point number for those who read it")]
pub fn write_commands(page: &mut Page, lines: &[CommandLine]) {
    let name = "proxysql_mysql_command_counter_latency_milliseconds";
    let mut metric = page.metric(name, Histogram, "Duration of statements by class, in milliseconds.");
    for line in lines.iter().filter(|line| line.total > 0 || ASKED_FOR.contains(&line.command)) {
        let [buckets @ .., above] = &line.buckets;
        let buckets = LIMITS_MS.into_iter().zip(buckets.iter().copied());
        let sum = line.total_time_us as f64 / 1e3;
        metric.histogram(&[("command", line.command)], buckets, *above, sum);
    }
}

const ASKED_FOR: [&str; 7] =
    ["CREATE_TEMPORARY", "DELETE", "INSERT", "LOCK_TABLE", "SELECT", "SELECT_FOR_UPDATE", "UPDATE"];

/// The limits of the buckets of `stats_mysql_commands_counters`.
const LIMITS_MS: [f64; 11] = [0.1, 0.5, 1.0, 5.0, 10.0, 50.0, 100.0, 500.0, 1_000.0, 5_000.0, 10_000.0];
