//! Figures in Prometheus' format, under the names of ProxySQL's own exporter.

use std::fmt::Write;

use narrows_proxy::server::Listening;
use narrows_proxy::stats::{Counters, Take, wait};

use super::global;
use super::sources::Sources;
use crate::variables::VERSION;

/// A metric from `stats_mysql_global`: metric, labels, kind, name there.
type Metric = (&'static str, &'static str, Kind, &'static str);

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

use Kind::{Counter, Gauge};

const METRICS: &[Metric] = &[
    ("proxysql_uptime_seconds_total", "", Counter, "ProxySQL_Uptime"),
    ("proxysql_active_transactions", "", Gauge, "Active_Transactions"),
    ("proxysql_client_connections_connected", "", Gauge, "Client_Connections_connected"),
    ("proxysql_client_connections_non_idle", "", Gauge, "Client_Connections_non_idle"),
    ("proxysql_client_connections_total", "status=\"created\"", Counter, "Client_Connections_created"),
    ("proxysql_client_connections_total", "status=\"aborted\"", Counter, "Client_Connections_aborted"),
    ("proxysql_server_connections_connected", "", Gauge, "Server_Connections_connected"),
    ("proxysql_server_connections_total", "status=\"created\"", Counter, "Server_Connections_created"),
    ("proxysql_server_connections_total", "status=\"delayed\"", Counter, "Server_Connections_delayed"),
    ("proxysql_server_connections_total", "status=\"aborted\"", Counter, "Server_Connections_aborted"),
    ("proxysql_questions_total", "", Counter, "Questions"),
    ("proxysql_slow_queries_total", "", Counter, "Slow_queries"),
    (
        "proxysql_queries_backends_bytes_total",
        "traffic_flow=\"sent\"",
        Counter,
        "Queries_backends_bytes_sent",
    ),
    (
        "proxysql_queries_backends_bytes_total",
        "traffic_flow=\"received\"",
        Counter,
        "Queries_backends_bytes_recv",
    ),
    (
        "proxysql_queries_frontends_bytes_total",
        "traffic_flow=\"sent\"",
        Counter,
        "Queries_frontends_bytes_sent",
    ),
    (
        "proxysql_queries_frontends_bytes_total",
        "traffic_flow=\"received\"",
        Counter,
        "Queries_frontends_bytes_recv",
    ),
    ("proxysql_connpool_get_conn_success_total", "", Counter, "ConnPool_get_conn_success"),
    ("proxysql_connpool_get_conn_failure_total", "", Counter, "ConnPool_get_conn_failure"),
    ("proxysql_connpool_get_conn_immediate_total", "", Counter, "ConnPool_get_conn_immediate"),
    ("proxysql_myhgm_myconnpool_get_total", "", Counter, "MyHGM_myconnpoll_get"),
    ("proxysql_myhgm_myconnpool_get_ok_total", "", Counter, "MyHGM_myconnpoll_get_ok"),
    ("proxysql_myhgm_myconnpool_push_total", "", Counter, "MyHGM_myconnpoll_push"),
    ("proxysql_myhgm_myconnpool_destroy_total", "", Counter, "MyHGM_myconnpoll_destroy"),
    ("proxysql_myhgm_myconnpool_reset_total", "", Counter, "MyHGM_myconnpoll_reset"),
    ("proxysql_com_autocommit_total", "", Counter, "Com_autocommit"),
    ("proxysql_com_commit_cnt_total", "", Counter, "Com_commit"),
    ("proxysql_com_rollback_total", "", Counter, "Com_rollback"),
    ("proxysql_com_backend_change_user_total", "", Counter, "Com_backend_change_user"),
    ("proxysql_com_backend_init_db_total", "", Counter, "Com_backend_init_db"),
    ("proxysql_com_backend_set_names_total", "", Counter, "Com_backend_set_names"),
    ("proxysql_com_backend_stmt_total", "op=\"prepare\"", Counter, "Com_backend_stmt_prepare"),
    ("proxysql_com_backend_stmt_total", "op=\"execute\"", Counter, "Com_backend_stmt_execute"),
    ("proxysql_com_backend_stmt_total", "op=\"close\"", Counter, "Com_backend_stmt_close"),
    ("proxysql_com_frontend_stmt_total", "op=\"prepare\"", Counter, "Com_frontend_stmt_prepare"),
    ("proxysql_com_frontend_stmt_total", "op=\"execute\"", Counter, "Com_frontend_stmt_execute"),
    ("proxysql_com_frontend_stmt_total", "op=\"close\"", Counter, "Com_frontend_stmt_close"),
    ("proxysql_access_denied_wrong_password_total", "", Counter, "Access_Denied_Wrong_Password"),
    ("proxysql_access_denied_max_connections_total", "", Counter, "Access_Denied_Max_Connections"),
    ("proxysql_access_denied_max_user_connections_total", "", Counter, "Access_Denied_Max_User_Connections"),
    ("proxysql_mysql_killed_backend_connections_total", "", Counter, "mysql_killed_backend_connections"),
    ("proxysql_mysql_killed_backend_queries_total", "", Counter, "mysql_killed_backend_queries"),
    ("proxysql_max_connect_timeouts_total", "", Counter, "max_connect_timeouts"),
    ("proxysql_generated_error_packets_total", "", Counter, "generated_error_packets"),
    ("proxysql_selects_for_update__autocommit0_total", "", Counter, "Selects_for_update__autocommit0"),
    ("proxysql_mysql_unexpected_frontend_packets_total", "", Counter, "mysql_unexpected_frontend_packets"),
    ("proxysql_mysql_thread_workers", "", Gauge, "MySQL_Thread_Workers"),
    ("proxysql_stmt_client_active", "", Gauge, "Stmt_Client_Active_Total"),
    ("proxysql_stmt_client_active_unique", "", Gauge, "Stmt_Client_Active_Unique"),
    ("proxysql_stmt_server_active", "", Gauge, "Stmt_Server_Active_Total"),
    ("proxysql_stmt_server_active_unique", "", Gauge, "Stmt_Server_Active_Unique"),
    ("proxysql_stmt_max_stmt_id", "", Gauge, "Stmt_Max_Stmt_id"),
    ("proxysql_stmt_cached", "", Gauge, "Stmt_Cached"),
    ("proxysql_query_cache_count_set_total", "", Counter, "Query_Cache_count_SET"),
    ("proxysql_query_cache_bytes_total", "op=\"written\"", Counter, "Query_Cache_bytes_IN"),
    ("proxysql_query_cache_bytes_total", "op=\"read\"", Counter, "Query_Cache_bytes_OUT"),
    ("proxysql_query_cache_purged_total", "", Counter, "Query_Cache_Purged"),
    ("proxysql_query_cache_entries_total", "", Gauge, "Query_Cache_Entries"),
    ("proxysql_query_cache_memory_bytes", "", Gauge, "Query_Cache_Memory_bytes"),
    ("proxysql_servers_table_version_total", "", Counter, "Servers_table_version"),
    ("proxysql_sqlite3_memory_bytes", "", Gauge, "SQLite3_memory_bytes"),
    ("proxysql_connpool_memory_bytes", "", Gauge, "ConnPool_memory_bytes"),
];

/// All metrics in the exposition format.
pub fn text(sources: &Sources<'_>) -> String {
    let mut page = Page(String::new());
    page.head("proxysql_version_info", Gauge);
    page.value("proxysql_version_info", &format!("version=\"{VERSION}\",version_comment=\"Narrows\""), 1);
    let paused = sources.runtime.listening() == Some(Listening::Paused);
    page.head("proxysql_mysql_listener_paused", Gauge);
    page.value("proxysql_mysql_listener_paused", "", paused.into());
    let Some(observer) = sources.runtime.observer() else { return page.0 };
    let counters = wait(observer.global());
    let figures = global::figures(sources, &counters);
    let mut last = "";
    for (metric, labels, kind, name) in METRICS {
        let Some((_, value)) = figures.iter().find(|(figure, _)| figure == name) else { continue };
        if *metric != last {
            page.head(metric, *kind);
        }
        page.value(metric, labels, *value);
        last = metric;
    }
    if let Some(most) = sources.runtime.snapshot().map(|snapshot| snapshot.variables.max_connections) {
        page.head("proxysql_mysql_max_connections", Gauge);
        page.value("proxysql_mysql_max_connections", "", most.into());
    }
    cache_reads(&mut page, &counters);
    own(&mut page, &counters);
    pool(&mut page, &observer);
    errors(&mut page, &observer);
    checks(&mut page, sources);
    page.0
}

/// The monitor's checks: 1 for a failing one.
fn checks(page: &mut Page, sources: &Sources<'_>) {
    const METRIC: &str = "narrows_monitor_check_failing";
    let Some(health) = sources.runtime.health(sources.store) else { return };
    page.head(METRIC, Gauge);
    for (address, kind, failing) in health.checks() {
        let endpoint = escaped(&format!("{}:{}", address.hostname, address.port));
        let labels = format!("endpoint=\"{endpoint}\",check=\"{}\"", kind.name);
        page.value(METRIC, &labels, failing.is_some().into());
    }
}

/// Lookups in the query cache: hits, and misses, for which there is no counter.
fn cache_reads(page: &mut Page, counters: &Counters) {
    const METRIC: &str = "proxysql_query_cache_count_get_total";
    let missed = counters.query_cache_gets.saturating_sub(counters.query_cache_hits);
    page.head(METRIC, Counter);
    page.value(METRIC, "status=\"ok\"", counters.query_cache_hits);
    page.value(METRIC, "status=\"err\"", missed);
}

/// Figures that ProxySQL does not have.
fn own(page: &mut Page, counters: &Counters) {
    for (name, value) in counters.rows() {
        if let Some(short) = name.strip_prefix("Narrows_") {
            let metric = format!("narrows_{short}_total");
            page.head(&metric, Counter);
            page.value(&metric, "", value);
        }
    }
    page.head("narrows_pins_total", Counter);
    for (reason, count) in &counters.pins {
        page.value("narrows_pins_total", &format!("reason=\"{reason}\""), *count);
    }
    page.head("narrows_hostgroup_unavailable_total", Counter);
    for ((hostgroup, cause), count) in &counters.unavailable {
        let labels = format!("hostgroup=\"{hostgroup}\",cause=\"{cause}\"");
        page.value("narrows_hostgroup_unavailable_total", &labels, *count);
    }
}

/// Servers: one metric after another, each with every server.
fn pool(page: &mut Page, observer: &narrows_proxy::stats::Observer) {
    use narrows_proxy::stats::ServerLine;
    type Figure = fn(&ServerLine) -> u64;
    const OF_SERVERS: &[(&str, &str, Kind, Figure)] = &[
        ("proxysql_connpool_conns", ",status=\"free\"", Gauge, |line| line.free),
        ("proxysql_connpool_conns", ",status=\"used\"", Gauge, |line| line.used),
        ("proxysql_connpool_conns_status", "", Gauge, |line| match line.status.name() {
            "ONLINE" => 1,
            "SHUNNED" => 2,
            "OFFLINE_SOFT" => 3,
            _ => 4,
        }),
        ("proxysql_connpool_conns_total", ",status=\"ok\"", Counter, |line| line.tally.connected),
        ("proxysql_connpool_conns_total", ",status=\"err\"", Counter, |line| line.tally.failed),
        ("proxysql_connpool_conns_queries_total", "", Counter, |line| line.tally.queries),
        ("proxysql_connpool_conns_latency_us", "", Gauge, |line| line.latency_us),
        ("proxysql_connpool_data_bytes_total", ",traffic_flow=\"sent\"", Counter, |line| {
            line.tally.bytes_sent
        }),
        ("proxysql_connpool_data_bytes_total", ",traffic_flow=\"recv\"", Counter, |line| {
            line.tally.bytes_received
        }),
    ];
    let lines = wait(observer.connection_pool(Take::Copy));
    let mut last = "";
    for (metric, label, kind, figure) in OF_SERVERS {
        if *metric != last {
            page.head(metric, *kind);
        }
        last = metric;
        for line in &lines {
            let endpoint = escaped(&format!("{}:{}", line.hostname, line.port));
            let labels = format!("endpoint=\"{endpoint}\",hostgroup=\"{}\"{label}", line.hostgroup);
            page.value(metric, &labels, figure(line));
        }
    }
}

fn errors(page: &mut Page, observer: &narrows_proxy::stats::Observer) {
    let mut counts = std::collections::BTreeMap::new();
    for line in wait(observer.errors(Take::Copy)) {
        *counts.entry((line.hostgroup.0, line.hostname, line.port, line.errno)).or_insert(0) += line.count;
    }
    page.head("proxysql_mysql_error_total", Counter);
    for ((hostgroup, address, port, code), count) in counts {
        let labels = format!(
            "hostgroup=\"{hostgroup}\",address=\"{}\",port=\"{port}\",code=\"{code}\"",
            escaped(&address)
        );
        page.value("proxysql_mysql_error_total", &labels, count);
    }
}

/// A label's value as the format requires.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

struct Page(String);

impl Page {
    fn head(&mut self, metric: &str, kind: Kind) {
        let kind = match kind {
            Counter => "counter",
            Gauge => "gauge",
        };
        writeln!(self.0, "# TYPE {metric} {kind}").expect("writing to a String cannot fail");
    }

    fn value(&mut self, metric: &str, labels: &str, value: u64) {
        let line = match labels {
            "" => writeln!(self.0, "{metric} {value}"),
            labels => writeln!(self.0, "{metric}{{{labels}}} {value}"),
        };
        line.expect("writing to a String cannot fail");
    }
}
