//! The metrics of ProxySQL that are figures of the whole process, under the names of its own exporter.

use super::page::MetricKind::{Counter, Gauge};
use super::page::{Labels, MetricKind, Page};
use crate::variables::{Value, Values};

/// A time series, and where its value comes from. Those of one metric follow one another.
struct Series {
    metric: &'static str,
    labels: Labels<'static>,
    kind: MetricKind,
    from: Source,
    help: &'static str,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// A row of `stats_mysql_global` or of `stats_memory_metrics`.
    Row(&'static str),
    /// The same, in nanoseconds, shown in seconds.
    Nanoseconds(&'static str),
    /// A variable.
    Variable(&'static str),
    /// The same, in milliseconds, shown in seconds.
    Milliseconds(&'static str),
}

use Source::{Milliseconds, Nanoseconds, Row, Variable};

const fn counter(metric: &'static str, from: &'static str, help: &'static str) -> Series {
    Series { metric, labels: &[], kind: Counter, from: Row(from), help }
}

const fn gauge(metric: &'static str, from: &'static str, help: &'static str) -> Series {
    Series { metric, labels: &[], kind: Gauge, from: Row(from), help }
}

const fn setting(metric: &'static str, from: Source, help: &'static str) -> Series {
    Series { metric, labels: &[], kind: Gauge, from, help }
}

impl Series {
    const fn labelled(self, labels: Labels<'static>) -> Series {
        Series { labels, ..self }
    }
}

/// Writes all of them. `rows` are those of `stats_mysql_global` and of `stats_memory_metrics`.
pub fn write(page: &mut Page, rows: &[(&'static str, u64)], variables: &Values) {
    let row = |name: &str| rows.iter().find(|(row, _)| *row == name).map(|(_, value)| *value);
    let value = |from: Source| match from {
        Row(name) => row(name).map(|value| value.to_string()),
        Nanoseconds(name) => row(name).map(|ns| seconds(ns, 1e9)),
        Variable(name) => number(variables, name).map(|value| value.to_string()),
        Milliseconds(name) => number(variables, name).map(|ms| seconds(ms, 1e3)),
    };
    for series in SERIES.chunk_by(|one, next| one.metric == next.metric) {
        let Some(first) = series.first() else { continue };
        let mut metric = page.metric(first.metric, first.kind, first.help);
        for one in series {
            if let Some(value) = value(one.from) {
                metric.value(one.labels, value);
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a metric is a floating-point number for those who read it")]
fn seconds(count: u64, in_a_second: f64) -> String {
    (count as f64 / in_a_second).to_string()
}

fn number(variables: &Values, name: &str) -> Option<u64> {
    match variables.value(name)? {
        Value::Flag(on) => Some((*on).into()),
        Value::Integer(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

#[rustfmt::skip]
const SERIES: &[Series] = &[
    counter("proxysql_uptime_seconds_total", "ProxySQL_Uptime", "Time since the start."),
    gauge("proxysql_active_transactions", "Active_Transactions", "Clients in a transaction."),
    gauge("proxysql_client_connections_connected", "Client_Connections_connected", "Connected clients."),
    gauge("proxysql_client_connections_non_idle", "Client_Connections_non_idle", "Clients with a running command."),
    gauge("proxysql_client_connections_hostgroup_locked", "Client_Connections_hostgroup_locked", "Clients locked to a hostgroup; always 0, see narrows_sessions_pinned."),
    counter("proxysql_client_connections_total", "Client_Connections_created", CLIENTS).labelled(&[("status", "created")]),
    counter("proxysql_client_connections_total", "Client_Connections_aborted", CLIENTS).labelled(&[("status", "aborted")]),
    gauge("proxysql_server_connections_connected", "Server_Connections_connected", "Connections to servers that are open or being opened."),
    counter("proxysql_server_connections_total", "Server_Connections_created", SERVERS).labelled(&[("status", "created")]),
    counter("proxysql_server_connections_total", "Server_Connections_delayed", SERVERS).labelled(&[("status", "delayed")]),
    counter("proxysql_server_connections_total", "Server_Connections_aborted", SERVERS).labelled(&[("status", "aborted")]),
    setting("proxysql_mysql_max_connections", Variable("mysql-max_connections"), "The most clients at once."),
    counter("proxysql_questions_total", "Questions", "Statements that clients sent: as text, to prepare, and to execute."),
    counter("proxysql_slow_queries_total", "Slow_queries", "Statements that took mysql-long_query_time or longer."),
    counter("proxysql_queries_backends_bytes_total", "Queries_backends_bytes_sent", "Bytes of statements and answers between Narrows and servers.").labelled(&[("traffic_flow", "sent")]),
    counter("proxysql_queries_backends_bytes_total", "Queries_backends_bytes_recv", "Bytes of statements and answers between Narrows and servers.").labelled(&[("traffic_flow", "received")]),
    counter("proxysql_queries_frontends_bytes_total", "Queries_frontends_bytes_sent", "Bytes of statements and answers between clients and Narrows.").labelled(&[("traffic_flow", "sent")]),
    counter("proxysql_queries_frontends_bytes_total", "Queries_frontends_bytes_recv", "Bytes of statements and answers between clients and Narrows.").labelled(&[("traffic_flow", "received")]),
    Series { metric: "proxysql_query_processor_time_seconds_total", labels: &[], kind: Counter, from: Nanoseconds("Query_Processor_time_nsec"), help: "Time in digests and rules, with mysql-stats_time_query_processor." },
    Series { metric: "proxysql_backend_query_time_seconds_total", labels: &[], kind: Counter, from: Nanoseconds("Backend_query_time_nsec"), help: "Time that servers took, with mysql-stats_time_backend_query." },
    counter("proxysql_connpool_get_conn_success_total", "ConnPool_get_conn_success", "Connections to servers obtained for statements."),
    counter("proxysql_connpool_get_conn_success_immediate_total", "ConnPool_get_conn_immediate", "The same, without a wait."),
    counter("proxysql_connpool_get_conn_success_latency_awareness_total", "ConnPool_get_conn_latency_awareness", "Always 0."),
    counter("proxysql_connpool_get_conn_failure_total", "ConnPool_get_conn_failure", "Statements for which there was no connection to a server."),
    gauge("proxysql_connpool_memory_bytes", "ConnPool_memory_bytes", "Memory of idle connections to servers."),
    counter("proxysql_myhgm_myconnpool_get_total", "MyHGM_myconnpoll_get", "Connections that were asked of the pool."),
    counter("proxysql_myhgm_myconnpool_get_ok_total", "MyHGM_myconnpoll_get_ok", "Connections that the pool provided."),
    counter("proxysql_myhgm_myconnpool_push_total", "MyHGM_myconnpoll_push", "Connections that came back to the pool."),
    counter("proxysql_myhgm_myconnpool_reset_total", "MyHGM_myconnpoll_reset", "Connections that were reset before they came back."),
    counter("proxysql_myhgm_myconnpool_destroy_total", "MyHGM_myconnpoll_destroy", "Connections that were closed."),
    counter("proxysql_com_autocommit_total", "Com_autocommit", "SET autocommit statements."),
    counter("proxysql_com_autocommit_filtered_total", "Com_autocommit_filtered", "Always 0: they are all sent to the server."),
    counter("proxysql_com_commit_cnt_total", "Com_commit", "COMMIT statements."),
    counter("proxysql_com_commit_cnt_filtered_total", "Com_commit_filtered", "Always 0: they are all sent to the server."),
    counter("proxysql_com_rollback_total", "Com_rollback", "ROLLBACK statements."),
    counter("proxysql_com_rollback_filtered_total", "Com_rollback_filtered", "Always 0: they are all sent to the server."),
    counter("proxysql_com_backend_change_user_total", "Com_backend_change_user", "COM_CHANGE_USER sent to servers."),
    counter("proxysql_com_backend_init_db_total", "Com_backend_init_db", "COM_INIT_DB sent to servers for the schema of a client."),
    counter("proxysql_com_backend_set_names_total", "Com_backend_set_names", "SET sent to servers for the variables of a client."),
    counter("proxysql_com_frontend_init_db_total", "Com_frontend_init_db", "COM_INIT_DB of clients."),
    counter("proxysql_com_frontend_set_names_total", "Com_frontend_set_names", "SET NAMES of clients."),
    counter("proxysql_com_frontend_use_db_total", "Com_frontend_use_db", "USE of clients."),
    counter("proxysql_com_backend_stmt_total", "Com_backend_stmt_prepare", "Commands for prepared statements that were sent to servers.").labelled(&[("op", "prepare")]),
    counter("proxysql_com_backend_stmt_total", "Com_backend_stmt_execute", "Commands for prepared statements that were sent to servers.").labelled(&[("op", "execute")]),
    counter("proxysql_com_backend_stmt_total", "Com_backend_stmt_close", "Commands for prepared statements that were sent to servers.").labelled(&[("op", "close")]),
    counter("proxysql_com_frontend_stmt_total", "Com_frontend_stmt_prepare", "Commands for prepared statements that clients sent.").labelled(&[("op", "prepare")]),
    counter("proxysql_com_frontend_stmt_total", "Com_frontend_stmt_execute", "Commands for prepared statements that clients sent.").labelled(&[("op", "execute")]),
    counter("proxysql_com_frontend_stmt_total", "Com_frontend_stmt_close", "Commands for prepared statements that clients sent.").labelled(&[("op", "close")]),
    gauge("proxysql_stmt_client_active", "Stmt_Client_Active_Total", "Prepared statements of clients."),
    gauge("proxysql_stmt_client_active_unique", "Stmt_Client_Active_Unique", "Different prepared statements of clients."),
    gauge("proxysql_stmt_server_active", "Stmt_Server_Active_Total", "Prepared statements on connections to servers."),
    gauge("proxysql_stmt_server_active_unique", "Stmt_Server_Active_Unique", "Different prepared statements on connections to servers."),
    gauge("proxysql_stmt_max_stmt_id", "Stmt_Max_Stmt_id", "The highest number of a prepared statement."),
    gauge("proxysql_stmt_cached", "Stmt_Cached", "Prepared statements in memory."),
    gauge("prepare_stmt_metadata_memory_bytes", "prepare_statement_metadata_memory", "Memory of prepared statements."),
    gauge("prepare_stmt_backend_memory_bytes", "prepare_statement_backend_memory", "Memory of what connections to servers know of prepared statements."),
    counter("proxysql_access_denied_wrong_password_total", "Access_Denied_Wrong_Password", "Logins with a wrong password or an unknown user."),
    counter("proxysql_access_denied_max_connections_total", "Access_Denied_Max_Connections", "Clients refused because of mysql-max_connections."),
    counter("proxysql_access_denied_max_user_connections_total", "Access_Denied_Max_User_Connections", "Clients refused because of max_connections of their user."),
    counter("proxysql_client_host_error_killed_connections", "client_host_error_killed_connections", "Always 0: addresses are not refused."),
    counter("proxysql_mysql_killed_backend_connections_total", "mysql_killed_backend_connections", "Connections to servers that were killed because their client had left."),
    counter("proxysql_mysql_killed_backend_queries_total", "mysql_killed_backend_queries", "Statements that were killed on servers."),
    counter("proxysql_max_connect_timeouts_total", "max_connect_timeouts", "Statements that waited mysql-connect_timeout_server_max for a connection in vain."),
    counter("proxysql_generated_error_packets_total", "generated_error_packets", "Errors of Narrows itself that clients received."),
    counter("proxysql_selects_for_update__autocommit0_total", "Selects_for_update__autocommit0", "SELECT ... FOR UPDATE with autocommit off."),
    counter("proxysql_mysql_unexpected_frontend_packets_total", "mysql_unexpected_frontend_packets", "Commands of clients whose packets were out of order."),
    counter("proxysql_mysql_unexpected_frontend_com_quit_total", "mysql_unexpected_frontend_com_quit", "Always 0: clients may leave at any time."),
    counter("proxysql_hostgroup_locked_set_cmds_total", "hostgroup_locked_set_cmds", "Always 0, see narrows_pins_total."),
    counter("proxysql_hostgroup_locked_queries_total", "hostgroup_locked_queries", "Always 0, see narrows_pins_total."),
    counter("proxysql_backend_lagging_during_query_total", "backend_lagging_during_query", "Always 0: lag does not end statements."),
    counter("proxysql_backend_offline_during_query_total", "backend_offline_during_query", "Always 0: a server that is taken offline ends its statements first."),
    counter("proxysql_aws_aurora_replicas_skipped_during_query_total", "get_aws_aurora_replicas_skipped_during_query", "Always 0: statements have no limit of lag."),
    counter("proxysql_gtid_consistent_queries_total", "GTID_consistent_queries", "Statements that had to see writes (causal_reads)."),
    counter("proxysql_gtid_session_collected_total", "GTID_session_collected", "Reports of GTIDs that servers have sent."),
    counter("proxysql_queries_with_max_lag_total", "queries_with_max_lag_ms", "Statements with a limit of lag that asked for a connection."),
    counter("proxysql_queries_with_max_lag__delayed_total", "queries_with_max_lag_ms__delayed", "Statements with a limit of lag that had to wait for a connection."),
    counter("proxysql_queries_with_max_lag__total_wait_time_total", "queries_with_max_lag_ms__total_wait_time_us", "Microseconds for which statements with a limit of lag have waited."),
    counter("proxysql_automatic_detected_sql_injection_total", "automatic_detected_sql_injection", "Always 0: statements are not judged by fingerprints."),
    counter("proxysql_whitelisted_sqli_fingerprint_total", "whitelisted_sqli_fingerprint", "Always 0: statements are not judged by fingerprints."),
    gauge("proxysql_mirror_concurrency", "Mirror_concurrency", "Always 0, see narrows_mirrors_run_total."),
    gauge("proxysql_mirror_queue_lengths", "Mirror_queue_length", "Always 0, see narrows_mirrors_dropped_total."),
    counter("proxysql_query_cache_count_get_total", "Query_Cache_count_GET_OK", "Lookups in the query cache.").labelled(&[("status", "ok")]),
    counter("proxysql_query_cache_count_get_total", MISSED, "Lookups in the query cache.").labelled(&[("status", "err")]),
    counter("proxysql_query_cache_count_set_total", "Query_Cache_count_SET", "Answers that were put into the query cache."),
    counter("proxysql_query_cache_bytes_total", "Query_Cache_bytes_OUT", "Bytes of answers that went into the query cache and out of it.").labelled(&[("op", "read")]),
    counter("proxysql_query_cache_bytes_total", "Query_Cache_bytes_IN", "Bytes of answers that went into the query cache and out of it.").labelled(&[("op", "written")]),
    counter("proxysql_query_cache_purged_total", "Query_Cache_Purged", "Answers that were removed from the query cache."),
    counter("proxysql_query_cache_entries_total", "Query_Cache_Entries", "Answers in the query cache; despite its name, a current value."),
    gauge("proxysql_query_cache_memory_bytes", "Query_Cache_Memory_bytes", "Memory of the query cache."),
    counter("proxysql_servers_table_version_total", "Servers_table_version", "How many times servers were loaded."),
    gauge("proxysql_mysql_thread_workers", "MySQL_Thread_Workers", "Worker threads."),
    setting("proxysql_mysql_wait_timeout", Variable("mysql-wait_timeout"), "mysql-wait_timeout, in milliseconds."),
    gauge("proxysql_mysql_backend_buffers_bytes", "mysql_backend_buffers_bytes", "Buffers for answers of servers."),
    gauge("proxysql_mysql_frontend_buffers_bytes", "mysql_frontend_buffers_bytes", "Buffers for what clients sent."),
    gauge("proxysql_mysql_session_internal_bytes", "mysql_session_internal_bytes", "Memory of sessions."),
    gauge("proxysql_sqlite3_memory_bytes", "SQLite3_memory_bytes", "Memory of SQLite."),
    gauge("proxysql_auth_memory_bytes", "Auth_memory", "Memory of accounts."),
    gauge("proxysql_query_digest_memory_bytes", "query_digest_memory", "Memory of the table of digests."),
    gauge("proxysql_mysql_query_rules_memory_bytes", "mysql_query_rules_memory", "Memory of query rules."),
    gauge("proxysql_mysql_firewall_users_table_bytes", "mysql_firewall_users_table", "Always 0: counted with the query rules."),
    gauge("proxysql_mysql_firewall_users_config_bytes", "mysql_firewall_users_config", "Always 0: counted with the query rules."),
    gauge("proxysql_mysql_firewall_rules_table_bytes", "mysql_firewall_rules_table", "Always 0: counted with the query rules."),
    gauge("proxysql_mysql_firewall_rules_config_bytes", "mysql_firewall_rules_config", "Always 0: counted with the query rules."),
    gauge("proxysql_stack_memory_mysql_threads_bytes", "stack_memory_mysql_threads", "Stacks of the worker threads, as reserved."),
    gauge("proxysql_stack_memory_admin_threads_bytes", "stack_memory_admin_threads", "Stacks of the threads for administrators, as reserved."),
    gauge("proxysql_stack_memory_cluster_threads", "stack_memory_cluster_threads", "Always 0: there are no such threads."),
    counter("proxysql_jemalloc_allocated_bytes_total", "jemalloc_allocated", "Allocated memory, of whichever allocator; despite its name, a current value."),
    gauge("proxysql_jemalloc_bytes", "jemalloc_resident", MEMORY).labelled(&[("type", "resident")]),
    gauge("proxysql_jemalloc_bytes", "jemalloc_active", MEMORY).labelled(&[("type", "active")]),
    gauge("proxysql_jemalloc_bytes", "jemalloc_mapped", MEMORY).labelled(&[("type", "mapped")]),
    gauge("proxysql_jemalloc_bytes", "jemalloc_metadata", MEMORY).labelled(&[("type", "metadata")]),
    gauge("proxysql_jemalloc_bytes", "jemalloc_retained", MEMORY).labelled(&[("type", "retained")]),
    counter("proxysql_mysql_monitor_connect_check_total", "MySQL_Monitor_connect_check_OK", "Connects of the monitor.").labelled(OK),
    counter("proxysql_mysql_monitor_connect_check_total", "MySQL_Monitor_connect_check_ERR", "Connects of the monitor.").labelled(ERR),
    counter("proxysql_mysql_monitor_ping_check_total", "MySQL_Monitor_ping_check_OK", "Pings of the monitor.").labelled(OK),
    counter("proxysql_mysql_monitor_ping_check_total", "MySQL_Monitor_ping_check_ERR", "Pings of the monitor.").labelled(ERR),
    counter("proxysql_mysql_monitor_read_only_check_total", "MySQL_Monitor_read_only_check_OK", "Checks of read_only.").labelled(OK),
    counter("proxysql_mysql_monitor_read_only_check_total", "MySQL_Monitor_read_only_check_ERR", "Checks of read_only.").labelled(ERR),
    counter("proxysql_mysql_monitor_replication_lag_check_total", "MySQL_Monitor_replication_lag_check_OK", "Checks of replication lag.").labelled(OK),
    counter("proxysql_mysql_monitor_replication_lag_check_total", "MySQL_Monitor_replication_lag_check_ERR", "Checks of replication lag.").labelled(ERR),
    counter("proxysql_mysql_monitor_dns_cache_queried", "MySQL_Monitor_dns_cache_queried", "Host names that were looked up in the cache of names."),
    counter("proxysql_mysql_monitor_dns_cache_lookup_success", "MySQL_Monitor_dns_cache_lookup_success", "Host names that were found in it."),
    counter("proxysql_mysql_monitor_dns_cache_record_updated", "MySQL_Monitor_dns_cache_record_updated", "Host names in it whose addresses have changed."),
    gauge("proxysql_mysql_monitor_workers", "MySQL_Monitor_Workers", "Always 0: the monitor has one thread."),
    gauge("proxysql_mysql_monitor_workers_aux", "MySQL_Monitor_Workers_Aux", "Always 0: the monitor has one thread."),
    counter("proxysql_mysql_monitor_workers_started_total", "MySQL_Monitor_Workers_Started", "Always 0: the monitor has one thread."),
    setting("proxysql_mysql_monitor_enabled", Variable("mysql-monitor_enabled"), "Whether servers are monitored."),
    setting("proxysql_mysql_monitor_ping_interval", Milliseconds("mysql-monitor_ping_interval"), "Seconds between two pings."),
    setting("proxysql_mysql_monitor_ping_timeout_seconds", Milliseconds("mysql-monitor_ping_timeout"), "The time limit of a ping."),
    setting("proxysql_mysql_monitor_ping_max_failures", Variable("mysql-monitor_ping_max_failures"), "Missed pings after which a server is shunned."),
    setting("proxysql_mysql_monitor_read_only_interval_seconds", Milliseconds("mysql-monitor_read_only_interval"), "Time between two checks of read_only."),
    setting("proxysql_mysql_monitor_read_only_timeout_seconds", Milliseconds("mysql-monitor_read_only_timeout"), "The time limit of a check of read_only."),
    setting("proxysql_mysql_monitor_replication_lag_interval_seconds", Milliseconds("mysql-monitor_replication_lag_interval"), "Time between two checks of replication lag."),
    setting("proxysql_mysql_monitor_replication_lag_timeout_seconds", Milliseconds("mysql-monitor_replication_lag_timeout"), "The time limit of a check of replication lag."),
    setting("proxysql_mysql_monitor_writer_is_also_reader", Variable("mysql-monitor_writer_is_also_reader"), "Whether writers are readers too."),
    setting("proxysql_mysql_monitor_history_timeout_seconds", Milliseconds("mysql-monitor_history"), "How long results of checks are kept."),
];

/// Not a row of a table: lookups that found nothing.
pub const MISSED: &str = "lookups in the query cache that found nothing";

const OK: Labels<'static> = &[("status", "ok")];
const ERR: Labels<'static> = &[("status", "err")];

const CLIENTS: &str = "Clients that connected, and clients that were disconnected or left without COM_QUIT.";
const SERVERS: &str = "Connections to servers that were opened, and that could not be opened.";
const MEMORY: &str = "Memory of the process, of whichever allocator.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::metrics::page::Page;

    #[test]
    fn each_metric_is_named_once_and_every_variable_is_a_number() {
        let mut names: Vec<&str> = Vec::new();
        for series in SERIES.chunk_by(|one, next| one.metric == next.metric) {
            assert!(!names.contains(&series[0].metric), "{}", series[0].metric);
            assert!(series.iter().all(|one| one.kind == series[0].kind && one.help == series[0].help));
            assert!(series[0].help.ends_with('.'), "{}", series[0].metric);
            names.push(series[0].metric);
        }
        let variables = Values::default();
        for series in SERIES {
            if let Variable(name) | Milliseconds(name) = series.from {
                assert!(number(&variables, name).is_some(), "{name}");
            }
        }
        let mut page = Page::new(100);
        write(&mut page, &[("Questions", 3), ("Query_Processor_time_nsec", 1_500_000_000)], &variables);
        let text = page.into_text();
        assert!(text.contains("\nproxysql_questions_total 3\n"), "{text}");
        assert!(text.contains("\nproxysql_query_processor_time_seconds_total 1.5\n"), "{text}");
        assert!(text.contains("\nproxysql_mysql_monitor_ping_timeout_seconds 1\n"), "{text}");
    }
}
