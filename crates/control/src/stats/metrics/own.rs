//! Metrics that ProxySQL does not have, and the nodes of a cluster.

use std::sync::atomic::Ordering;

use narrows_proxy::query_log::TraceFigures;
use narrows_proxy::stats::{ClientLine, Counters, Observer, WaitingLine, wait};

use super::page::MetricKind::{Counter, Gauge};
use super::page::Page;
use super::servers::address;
use crate::aws_iam;
use crate::fleet::FleetView;
use crate::stats::sources::Sources;
use crate::store::Drift;

/// Writes what the workers count.
pub fn write_counters(page: &mut Page, counters: &Counters) {
    for (name, value) in counters.rows() {
        if let Some(short) = name.strip_prefix("Narrows_") {
            let help = format!("The row {name} of SHOW NARROWS STATUS.");
            page.single(&format!("narrows_{short}_total"), Counter, &help, value);
        }
    }
    let help = "How many times a client was pinned to its connection, by reason.";
    let mut metric = page.metric("narrows_pins_total", Counter, help);
    for (reason, count) in &counters.pins {
        metric.value(&[("reason", reason)], count);
    }
    let help =
        "Transactions whose server was lost while mysql-transaction_replay was on for them, by outcome.";
    let mut metric = page.metric("narrows_transaction_replays_total", Counter, help);
    for (outcome, count) in &counters.replays {
        metric.value(&[("outcome", outcome)], count);
    }
    let help = "Logins whose passwords a server was to be asked about, by what became of that.";
    let mut metric = page.metric("narrows_passthrough_auth_total", Counter, help);
    for (outcome, count) in &counters.passthrough {
        metric.value(&[("outcome", outcome)], count);
    }
    let help = "How often mysql-auth_query was run, by what became of that.";
    let mut metric = page.metric("narrows_auth_query_total", Counter, help);
    for (outcome, count) in &counters.auth_queries {
        metric.value(&[("outcome", outcome)], count);
    }
    let help = "Statements for which a hostgroup had no server in time, by cause.";
    let mut metric = page.metric("narrows_hostgroup_unavailable_total", Counter, help);
    for ((hostgroup, cause), count) in &counters.unavailable {
        metric.value(&[("hostgroup", &hostgroup.to_string()), ("cause", cause)], count);
    }
    let help =
        "Sessions of servers that were not as Narrows believed (mysql-verify_sessions), by what differed.";
    let mut metric = page.metric("narrows_session_mismatch_total", Counter, help);
    for (variable, count) in &counters.mismatches {
        metric.value(&[("variable", variable)], count);
    }
    write_choices(page, counters);
}

/// Writes how often servers were chosen by their zone, and backups.
fn write_choices(page: &mut Page, counters: &Counters) {
    let is_backup = |chosen: &str| chosen == "backup";
    let help = "Choices of a server in hostgroups with zones: own, or other than that of this Narrows.";
    let mut metric = page.metric("narrows_hostgroup_zone_choices_total", Counter, help);
    for ((hostgroup, zone), count) in counters.choices.iter().filter(|((_, it), _)| !is_backup(it)) {
        metric.value(&[("hostgroup", &hostgroup.to_string()), ("zone", zone)], count);
    }
    let help = "How often a backup was chosen (backup_weight_threshold).";
    let mut metric = page.metric("proxysql_mysql_hostgroup_backup_server_selected_total", Counter, help);
    for ((hostgroup, _), count) in counters.choices.iter().filter(|((_, it), _)| is_backup(it)) {
        metric.value(&[("hostgroup", &hostgroup.to_string())], count);
    }
}

/// Writes how many clients are pinned now, and how many there are.
pub fn write_pins(page: &mut Page, clients: &[(ClientLine, u64)]) {
    let all: u64 = clients.iter().map(|(_, count)| count).sum();
    page.single("narrows_sessions", Gauge, "Clients that have logged in.", all);
    let mut reasons = std::collections::BTreeMap::new();
    let mut pinned = 0;
    for (line, count) in clients {
        let names = line.pins.names();
        pinned += if names.is_empty() { 0 } else { *count };
        for name in names {
            *reasons.entry(name).or_insert(0) += count;
        }
    }
    page.single("narrows_sessions_pinned", Gauge, "Clients that are pinned to their connection.", pinned);
    let help = "The same by reason; a client may have several.";
    let mut metric = page.metric("narrows_sessions_pinned_by_reason", Gauge, help);
    for (reason, count) in reasons {
        metric.value(&[("reason", reason)], count);
    }
}

/// Writes how many statements and events are missing in the query log and the audit log.
pub fn write_logs(page: &mut Page, sources: &Sources<'_>) {
    let help = "Statements that were to be logged or traced, and were dropped because the log was too slow or could not be written.";
    let logs = sources.runtime.logs();
    page.single("narrows_query_log_dropped_total", Counter, help, logs.queries.dropped());
    let help = "Events that are not in the audit log, because it was too slow or could not be written.";
    page.single("narrows_audit_log_dropped_total", Counter, help, logs.audit.dropped());
}

/// Writes the monitor's findings.
pub fn write_monitor(page: &mut Page, sources: &Sources<'_>) {
    let help = "How many times the monitor found that a server has changed.";
    let mut metric = page.metric("narrows_server_changes_total", Counter, help);
    for ((server, change), count) in sources.runtime.server_changes() {
        metric.value(&[("endpoint", &address(&server.hostname, server.port)), ("change", change)], count);
    }
    let mut metric =
        page.metric("narrows_monitor_check_failing", Gauge, "1 for a failing check of a server.");
    let Some(health) = sources.runtime.health(sources.store) else { return };
    for (server, kind, failing) in health.checks() {
        let endpoint = address(&server.hostname, server.port);
        metric.value(&[("endpoint", &endpoint), ("check", kind.name)], u8::from(failing.is_some()));
    }
}

/// Writes what has become of traces.
pub fn write_traces(page: &mut Page, figures: &TraceFigures) {
    let help = "Spans that a collector of traces has taken, and spans that were dropped.";
    let mut metric = page.metric("narrows_trace_spans_total", Counter, help);
    for (result, counter) in [("sent", &figures.sent), ("dropped", &figures.dropped)] {
        metric.value(&[("result", result)], counter.load(Ordering::Relaxed));
    }
    let help = "Requests that a collector of traces has not answered, or not with success.";
    let failed = figures.requests_failed.load(Ordering::Relaxed);
    page.single("narrows_trace_requests_failed_total", Counter, help, failed);
}

/// Writes which configuration runs.
pub fn write_configuration(page: &mut Page, sources: &Sources<'_>, drift: Option<&Drift>) {
    let loads = sources.store.loads();
    let help = "How many times a part of the configuration was loaded.";
    let mut metric = page.metric("narrows_config_version", Gauge, help);
    for (module, version, _) in &loads {
        metric.value(&[("module", module)], version);
    }
    let help = "When it was last loaded, in seconds since 1970.";
    let mut metric = page.metric("narrows_config_loaded_timestamp_seconds", Gauge, help);
    for (module, _, epoch) in &loads {
        metric.value(&[("module", module)], epoch);
    }
    let help = "The version of the configuration that runs; 0 if it could not be recorded.";
    page.single("narrows_config_history_version", Gauge, help, sources.store.version());
    let help = "Rows and variables in memory that were not loaded, and that run and were not saved.";
    if let Some(drift) = drift {
        let mut metric = page.metric("narrows_config_drift_rows", Gauge, help);
        metric.value(&[("drift", "not loaded")], drift.not_loaded.len());
        metric.value(&[("drift", "not saved")], drift.not_saved.len());
    }
    write_fleet(page, sources);
    let help = "When a certificate in use expires, in seconds since 1970.";
    let mut metric = page.metric("narrows_tls_certificate_expiry_timestamp_seconds", Gauge, help);
    for certificate in &sources.runtime.tls().certificates {
        let file = certificate.file.to_string_lossy();
        let labels = [("role", certificate.role), ("file", &file), ("serial", &certificate.serial)];
        metric.value(&labels, certificate.not_after);
    }
    write_credentials(page);
}

/// Writes until when IAM tokens can be signed; if none are needed, no figures.
fn write_credentials(page: &mut Page) {
    let state = aws_iam::state();
    let help = "When the AWS credentials for IAM tokens expire, in seconds since 1970.";
    let mut metric = page.metric("narrows_aws_credentials_expiry_timestamp_seconds", Gauge, help);
    state.iter().filter_map(|state| state.expires).for_each(|expires| metric.value(&[], expires));
    let help = "How often AWS credentials for IAM tokens could not be fetched.";
    let mut metric = page.metric("narrows_aws_credentials_failures_total", Counter, help);
    state.iter().for_each(|state| metric.value(&[], state.failures));
}

/// Writes how this member of a fleet is; without a fleet, no figures.
fn write_fleet(page: &mut Page, sources: &Sources<'_>) {
    let fleet = sources.runtime.fleet();
    let view = fleet.map(|fleet| fleet.view());
    let of_view = |figure: fn(&FleetView) -> i64| view.as_ref().map(figure);
    let drift = fleet.map(|fleet| i64::try_from(fleet.drift(sources.store).len()).unwrap_or(i64::MAX));
    let figures = [
        (
            "narrows_fleet_etcd_up",
            "1 if etcd answers, 0 if not: the configuration stays as it is.",
            of_view(|view| i64::from(view.trouble.is_none())),
        ),
        (
            "narrows_fleet_version",
            "The version of the fleet that runs here; 0: none.",
            of_view(|view| view.running().map_or(0, |mark| mark.version)),
        ),
        (
            "narrows_fleet_head_version",
            "The version that all members of the fleet are to run, as etcd has said last; 0: none.",
            of_view(|view| view.seen.head_number()),
        ),
        (
            "narrows_fleet_refused_version",
            "The version of the fleet that was refused here; 0: none.",
            of_view(|view| view.member.refused.as_ref().map_or(0, |refused| refused.version)),
        ),
        (
            "narrows_fleet_mismatch",
            "1 if what etcd has does not follow from the version that runs here, or a server of etcd is of another cluster; 0 if all is one.",
            of_view(|view| i64::from(view.mismatch().is_some())),
        ),
        (
            "narrows_fleet_drift_rows",
            "Rows and variables that run here differently than in the version of the fleet.",
            drift,
        ),
    ];
    for (name, help, figure) in figures {
        let mut metric = page.metric(name, Gauge, help);
        figure.into_iter().for_each(|figure| metric.value(&[], figure));
    }
}

/// Writes how many servers of each replication pair take writes.
pub fn write_pair_writers(page: &mut Page, sources: &Sources<'_>) {
    let help = "Servers that take writes in the writer hostgroup of a replication pair, by the last checks; more than one is a mistake.";
    let mut metric = page.metric("narrows_replication_writers", Gauge, help);
    for (hostgroup, count) in sources.runtime.pair_writers() {
        metric.value(&[("hostgroup", &hostgroup.to_string())], count);
    }
}

/// Writes which other nodes of a cluster have announced themselves, as ProxySQL does.
pub fn write_nodes(page: &mut Page, sources: &Sources<'_>) {
    let help = "When another node of a cluster has announced itself, in seconds since 1970.";
    let mut metric = page.metric("proxysql_servers_clients_status_last_seen_at", Gauge, help);
    for (uuid, hostname, port, seen) in sources.nodes.last_seen() {
        metric.value(&[("uuid", uuid), ("hostname", hostname), ("port", &port.to_string())], seen);
    }
}

/// Writes who waits for a hostgroup, and which hostgroups are held.
pub fn write_waits(page: &mut Page, observer: &Observer) {
    let lines = wait(observer.waiting());
    type Figure = fn(&WaitingLine) -> String;
    let metrics: [(&str, &str, Figure); 4] = [
        ("narrows_hostgroup_waiting", "Clients that wait for a server of a hostgroup.", |line| {
            line.clients.to_string()
        }),
        ("narrows_hostgroup_waiting_bytes", "Bytes of the statements of those who wait.", |line| {
            line.bytes.to_string()
        }),
        ("narrows_hostgroup_longest_wait_seconds", "How long the first of them has waited.", |line| {
            (line.longest_ms as f64 / 1_000.0).to_string()
        }),
        ("narrows_hostgroup_held_seconds", "For how long a hostgroup is still held; 0: it is not.", |line| {
            (line.held_ms.unwrap_or(0) as f64 / 1_000.0).to_string()
        }),
    ];
    for (name, help, figure) in metrics {
        let mut metric = page.metric(name, Gauge, help);
        for line in &lines {
            metric.value(&[("hostgroup", &line.hostgroup.to_string())], figure(line));
        }
    }
}

/// Writes which rules were hit.
pub fn write_rules(page: &mut Page, observer: &Observer) {
    let help = "How many times a query rule was hit, or would have been if it were in force (active=2).";
    let mut metric = page.metric("narrows_query_rule_hits_total", Counter, help);
    for line in wait(observer.rule_hits()) {
        metric.value(&[("rule_id", &line.rule_id.to_string())], line.hits);
    }
}

/// Writes what did not fit. Comes last.
pub fn write_left_out(page: &mut Page) {
    let help = "Time series of this page that were left out (admin-metrics_max_series).";
    page.single("narrows_metrics_series_left_out", Gauge, help, page.left_out());
}
