//! `SHOW NARROWS STATUS`: what an operator wants to know first, then the counters that ProxySQL does not have.

use std::sync::atomic::{AtomicU64, Ordering};

use narrows_proxy::query_log::TraceFigures;
use narrows_proxy::server::Listening;
use narrows_proxy::snapshot::ServerStatus;
use narrows_proxy::stats::{Observer, ServerLine, Take, wait};

use super::sources::Sources;
use super::{global, scheduler};
use crate::monitor::cluster::ClusterId;
use crate::monitor::cluster::decide::{Decision, Seat};
use crate::monitor::plan::Address;
use crate::schema::{Layer, MODULES};
use crate::variables::VERSION;

/// A name and its value.
type Line = Vec<String>;

pub fn rows(sources: &Sources<'_>) -> Vec<Line> {
    let line = |name: &str, value: String| vec![format!("Narrows_{name}"), value];
    let (clients, admins) = sources.runtime.listeners();
    let state = match sources.runtime.listening() {
        None => "stopped (PROXYSQL START serves again)",
        Some(Listening::Paused) => "paused (PROXYSQL RESUME accepts clients again)",
        Some(Listening::On) => "serving",
    };
    let file =
        sources.store.config_file().map_or_else(|| "none".to_owned(), |path| path.display().to_string());
    let mut rows = vec![
        line("version", VERSION.to_owned()),
        line("state", state.to_owned()),
        line("listeners", clients.join(", ")),
        line("admin_listeners", admins.join(", ")),
        line("data_folder", sources.runtime.datadir().display().to_string()),
        line("configuration_file", file),
    ];
    if let Some(observer) = sources.runtime.observer() {
        let figures = wait(observer.global()).rows();
        let uptime =
            figures.iter().find(|(name, _)| *name == "ProxySQL_Uptime").map_or(0, |(_, value)| *value);
        rows.insert(1, line("uptime_s", uptime.to_string()));
        rows.extend(servers(&observer));
        rows.extend(choices(&observer));
    }
    rows.extend(checks(sources).into_iter().map(|(name, value)| line(&name, value)));
    rows.extend(nodes(sources));
    rows.extend(scheduler::lines(sources.runtime).into_iter().map(|(name, value)| line(&name, value)));
    rows.push(line("query_log_dropped", sources.runtime.logs().queries.dropped().to_string()));
    rows.push(line("audit_log_dropped", sources.runtime.logs().audit.dropped().to_string()));
    let idle = without_effect(sources);
    rows.push(line(
        "settings_without_effect",
        if idle.is_empty() { "none".to_owned() } else { idle.join("; ") },
    ));
    rows.extend(sources.runtime.observer().map(|observer| global::of_narrows(&observer)).unwrap_or_default());
    rows.extend(traces(sources.runtime.logs().queries.traces()));
    rows
}

/// What has become of traces.
fn traces(figures: &TraceFigures) -> [Line; 3] {
    let row = |name: &str, counter: &AtomicU64| {
        vec![format!("Narrows_trace_{name}"), counter.load(Ordering::Relaxed).to_string()]
    };
    [
        row("spans_sent", &figures.sent),
        row("spans_dropped", &figures.dropped),
        row("requests_failed", &figures.requests_failed),
    ]
}

/// Each server: its state, the reason for it, and its use.
fn servers(observer: &Observer) -> Vec<Line> {
    let lines = wait(observer.connection_pool(Take::Copy));
    let row = |line: &ServerLine| {
        let why = reason(line.status);
        let status = line.status.name();
        let place = if line.place.is_empty() { String::new() } else { format!(" ({})", line.place) };
        let value = format!(
            "{status}{why}{place}; connections: {} used, {} free; {} statements; ping {} us",
            line.used, line.free, line.tally.queries, line.latency_us
        );
        vec![format!("Narrows_server_{}_{}:{}", line.hostgroup, line.hostname, line.port), value]
    };
    lines.iter().map(row).collect()
}

/// How often servers were chosen by their zone, and backups, in hostgroups whose servers are not all equal.
fn choices(observer: &Observer) -> Vec<Line> {
    let counters = wait(observer.global());
    let count = |hostgroup: i32, chosen| counters.choices.get(&(hostgroup, chosen)).copied().unwrap_or(0);
    let mut hostgroups: Vec<i32> = counters.choices.keys().map(|(hostgroup, _)| *hostgroup).collect();
    hostgroups.dedup();
    let mut rows = Vec::new();
    for hostgroup in hostgroups {
        let (own, others) = (count(hostgroup, "own"), count(hostgroup, "other"));
        if let Some(tenths) = own.saturating_mul(1_000).checked_div(own + others) {
            let share = format!("{}.{}", tenths / 10, tenths % 10);
            let value = format!("{own} choices ({share} %) in the own zone, {others} in others");
            rows.push(vec![format!("Narrows_zones_{hostgroup}"), value]);
        }
        if let backups @ 1.. = count(hostgroup, "backup") {
            rows.push(vec![format!("Narrows_backups_{hostgroup}"), format!("chosen {backups} times")]);
        }
    }
    rows
}

/// Why a server has a status, to follow its name.
pub(super) fn reason(status: ServerStatus) -> &'static str {
    match status {
        ServerStatus::Online => "",
        ServerStatus::Unreachable => " (has missed too many pings)",
        ServerStatus::ShunnedReplicationLag => " (too far behind)",
        ServerStatus::Shunned => " (connects have failed)",
        ServerStatus::Leaving => " (leaves its cluster)",
        ServerStatus::Gone => " (not a working part of its cluster)",
        ServerStatus::Withheld => " (has no role for now)",
        ServerStatus::OfflineSoft | ServerStatus::OfflineHard => " (as configured, or leaving)",
    }
}

/// The nodes of clusters: the role of each, since when, and why.
fn nodes(sources: &Sources<'_>) -> Vec<Line> {
    let seats = sources.runtime.seats();
    let of_cluster = |(id, decision): (ClusterId, &Decision)| {
        let row = move |(address, seat): (&Address, &Seat)| {
            let name = format!("Narrows_{}_{}_{address}", id.kind.name(), id.writers);
            let age = seat.since.elapsed().as_secs();
            vec![name, format!("{} for {age} s: {}", seat.role.name(), seat.why)]
        };
        decision.seats.iter().map(row).collect::<Vec<_>>()
    };
    seats.decisions().flat_map(of_cluster).collect()
}

/// The monitor's failing checks.
fn checks(sources: &Sources<'_>) -> Vec<(String, String)> {
    let Some(health) = sources.runtime.health(sources.store) else {
        return vec![("monitor".to_owned(), "off: servers are not checked".to_owned())];
    };
    let failing: Vec<(String, String)> = health
        .checks()
        .filter_map(|(address, kind, failing)| {
            let failing = failing?;
            let name = format!("monitor_{}_{address}", kind.name);
            Some((
                name,
                format!("fails since {} ({} times): {}", failing.since, failing.times, failing.reason),
            ))
        })
        .collect();
    let summary = match failing.len() {
        0 => "all checks succeed".to_owned(),
        1 => "1 check fails".to_owned(),
        count => format!("{count} checks fail"),
    };
    let summary = if health.checks().next().is_none() { "no checks so far".to_owned() } else { summary };
    std::iter::once(("monitor".to_owned(), summary)).chain(failing).collect()
}

/// Variables without effect that differ from their default, and tables without effect that have rows.
fn without_effect(sources: &Sources<'_>) -> Vec<String> {
    let variables = sources.store.variables().iter();
    let variables = variables.filter(|(variable, value)| variable.lacks_effect(value).is_some());
    let mut idle: Vec<String> = variables.map(|(variable, _)| variable.name.to_owned()).collect();
    let modules = MODULES.into_iter().filter(|module| module.prefix().is_none());
    for (table, rows) in modules.flat_map(|module| sources.store.rows_in(Layer::Runtime, module)) {
        if !rows.is_empty() && crate::schema::effect(table).lacking().is_some() {
            idle.push(table.to_owned());
        }
    }
    idle
}
