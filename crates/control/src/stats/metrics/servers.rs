//! Metrics of servers and hostgroups: ProxySQL's, and how long servers take.

use narrows_proxy::snapshot::ServerStatus;
use narrows_proxy::stats::{Durations, ErrorLine, HostgroupLine, ServerLine};

use super::page::MetricKind::{Counter, Gauge, Histogram};
use super::page::{Labels, MetricKind, Page};

/// A figure of each server.
struct OfServer {
    metric: &'static str,
    label: Option<(&'static str, &'static str)>,
    kind: MetricKind,
    help: &'static str,
    figure: fn(&ServerLine) -> u64,
}

const fn figure(
    metric: &'static str,
    label: Option<(&'static str, &'static str)>,
    kind: MetricKind,
    help: &'static str,
    figure: fn(&ServerLine) -> u64,
) -> OfServer {
    OfServer { metric, label, kind, help, figure }
}

#[rustfmt::skip]
const FIGURES: &[OfServer] = &[
    figure("proxysql_connpool_conns", Some(("status", "free")), Gauge, CONNECTIONS, |line| line.free),
    figure("proxysql_connpool_conns", Some(("status", "used")), Gauge, CONNECTIONS, |line| line.used),
    figure("proxysql_connpool_conns_status", None, Gauge, "State of a server: 1 ONLINE, 2 SHUNNED, 3 OFFLINE_SOFT, 4 OFFLINE_HARD, 5 SHUNNED_REPLICATION_LAG.", |line| state(line.status)),
    figure("proxysql_connpool_conns_total", Some(("status", "ok")), Counter, "Connections that were opened, and that could not be opened.", |line| line.tally.connected),
    figure("proxysql_connpool_conns_total", Some(("status", "err")), Counter, "Connections that were opened, and that could not be opened.", |line| line.tally.failed),
    figure("proxysql_connpool_conns_queries_total", None, Counter, "Commands that were sent to a server for clients.", |line| line.tally.queries),
    figure("proxysql_connpool_conns_latency_us", None, Gauge, "Duration of the monitor's last ping in microseconds.", |line| line.latency_us),
    figure("proxysql_connpool_data_bytes_total", Some(("traffic_flow", "sent")), Counter, "Bytes of commands that were sent to a server, and of its answers.", |line| line.tally.bytes_sent),
    figure("proxysql_connpool_data_bytes_total", Some(("traffic_flow", "recv")), Counter, "Bytes of commands that were sent to a server, and of its answers.", |line| line.tally.bytes_received),
];

const CONNECTIONS: &str = "Connections to a server that are idle, and in use.";

/// The number of a state, as ProxySQL and its exporter have it.
pub fn state(status: ServerStatus) -> u64 {
    match status {
        ServerStatus::Online => 1,
        ServerStatus::Shunned | ServerStatus::Unreachable | ServerStatus::Withheld => 2,
        ServerStatus::OfflineSoft | ServerStatus::Leaving => 3,
        ServerStatus::OfflineHard | ServerStatus::Gone => 4,
        ServerStatus::ShunnedReplicationLag => 5,
    }
}

/// The address of a server, as labels have it.
pub fn endpoint(line: &ServerLine) -> String {
    address(&line.hostname, line.port)
}

/// The same, of its parts.
pub fn address(hostname: &str, port: u16) -> String {
    format!("{hostname}:{port}")
}

/// Writes the figures of each server.
pub fn write(page: &mut Page, lines: &[ServerLine]) {
    for figures in FIGURES.chunk_by(|one, next| one.metric == next.metric) {
        let Some(first) = figures.first() else { continue };
        let mut metric = page.metric(first.metric, first.kind, first.help);
        for line in lines {
            let (endpoint, hostgroup) = (endpoint(line), line.hostgroup.to_string());
            let labels = [("endpoint", endpoint.as_str()), ("hostgroup", hostgroup.as_str())];
            for one in figures {
                let labels: Vec<_> = labels.into_iter().chain(one.label).collect();
                metric.value(&labels, (one.figure)(line));
            }
        }
    }
}

/// Writes how long servers take, and how long clients wait.
pub fn write_durations(page: &mut Page, servers: &[ServerLine], hostgroups: &[HostgroupLine]) {
    type OfServer = fn(&ServerLine) -> &Durations;
    let of_servers: [(&str, &str, OfServer); 3] = [
        (
            "narrows_server_connect_duration_seconds",
            "Time to open a connection to a server and log in.",
            |line| &line.timing.connects,
        ),
        (
            "narrows_server_first_byte_duration_seconds",
            "Time from sending a command to a server to the first bytes of its answer.",
            |line| &line.timing.first_bytes,
        ),
        (
            "narrows_server_answer_duration_seconds",
            "Time from sending a command to a server to the end of its answer.",
            |line| &line.timing.answers,
        ),
    ];
    for (name, help, durations) in of_servers {
        let mut metric = page.metric(name, Histogram, help);
        for line in servers {
            let (endpoint, hostgroup) = (endpoint(line), line.hostgroup.to_string());
            let labels = [("endpoint", endpoint.as_str()), ("hostgroup", hostgroup.as_str())];
            histogram(&mut metric, &labels, durations(line));
        }
    }
    type OfHostgroup = fn(&HostgroupLine) -> &Durations;
    let of_hostgroups: [(&str, &str, OfHostgroup); 2] = [
        (
            "narrows_statement_duration_seconds",
            "Time from the arrival of a statement to the end of its answer; hostgroup -1 is what Narrows answered.",
            |line| &line.statements,
        ),
        (
            "narrows_connection_wait_duration_seconds",
            "Time that statements waited for a connection, if none was free.",
            |line| &line.waits,
        ),
    ];
    for (name, help, durations) in of_hostgroups {
        let mut metric = page.metric(name, Histogram, help);
        for line in hostgroups {
            histogram(&mut metric, &[("hostgroup", &line.hostgroup.to_string())], durations(line));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a metric is a floating-point number for those who read it")]
fn histogram(metric: &mut super::page::Metric<'_>, labels: Labels<'_>, durations: &Durations) {
    let seconds = |us: u64| us as f64 / 1e6;
    let [buckets @ .., above] = &durations.buckets;
    let limits = Durations::LIMITS_US.into_iter().map(seconds);
    metric.histogram(labels, limits.zip(buckets.iter().copied()), *above, seconds(durations.sum_us));
}

/// Writes how often servers answered with which errors.
pub fn write_errors(page: &mut Page, lines: Vec<ErrorLine>) {
    let mut counts = std::collections::BTreeMap::new();
    for line in lines {
        *counts.entry((line.hostgroup.0, line.hostname, line.port, line.errno)).or_insert(0) += line.count;
    }
    let help = "Errors of servers, and of connects to them.";
    let mut metric = page.metric("proxysql_mysql_error_total", Counter, help);
    for ((hostgroup, address, port, code), count) in counts {
        let [hostgroup, port, code] = [hostgroup.to_string(), port.to_string(), code.to_string()];
        let labels =
            [("hostgroup", hostgroup.as_str()), ("address", &address), ("port", &port), ("code", &code)];
        metric.value(&labels, count);
    }
}
