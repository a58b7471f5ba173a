//! Every variable, one row each: here those of the monitor and of the control plane, and those that nobody reads. The page
//! `docs/variables.md` is generated from the rows.

use std::sync::LazyLock;

use narrows_proxy::rows::convert::{OfInteger, ms};

use super::data_plane;
use super::variable::Class::{Essential, Obscure, Useful};
use super::variable::{Class, Kind, Reader, Special, Variable};
use crate::config::form::Form;
use crate::effect::FLEET_INSTEAD;
use crate::monitor::settings::MonitorSettings;

/// The version, where ProxySQL gives its own. Tools read the part before the first `-` to decide which features they
/// may use; the rest identifies Narrows.
pub const VERSION: &str = concat!("2.7.1-narrows-", env!("CARGO_PKG_VERSION"));

/// The variables: first `mysql-`, then `admin-`, each in the order of their names.
pub static VARIABLES: LazyLock<Vec<Variable>> = LazyLock::new(|| {
    let mut all = [data_plane::ROWS, ROWS].concat();
    all.sort_by_key(|variable| (variable.name.starts_with("admin-"), variable.name.to_ascii_lowercase()));
    all
});

/// The variables that the data plane does not read. A row that names no reader is one that has no effect yet.
#[rustfmt::skip]
static ROWS: &[Variable] = &[
    text("mysql-add_ldap_user_comment", Obscure, Form::Any, "", "Name of the comment with the user that the LDAP plugin adds to statements."),
    integer("mysql-auto_increment_delay_multiplex", Essential, 0, 0, 1_000_000, "Statements for which a session keeps its connection after it has received an insert id. Narrows remembers the id, and LAST_INSERT_ID() returns it on any connection, so the default is 0 (ProxySQL: 5).")
        .needless("the insert id follows its session to any connection"),
    integer("mysql-auto_increment_delay_multiplex_timeout_ms", Useful, 10_000, 0, 3_600_000, "Milliseconds after which the session no longer keeps that connection; 0: no limit.")
        .needless("the insert id follows its session to any connection"),
    flag("mysql-autocommit_false_is_transaction", Obscure, false, "Whether autocommit=0 alone counts as an open transaction."),
    flag("mysql-autocommit_false_not_reusable", Obscure, false, "Whether connections with autocommit=0 are closed instead of being returned to the pool."),
    flag("mysql-automatic_detect_sqli", Obscure, false, "Whether statements are checked for signs of SQL injection."),
    integer("mysql-binlog_reader_connect_retry_msec", Obscure, 3000, 200, 120_000, "Milliseconds between two attempts to reach a GTID reader."),
    integer("mysql-connection_delay_multiplex_ms", Useful, 0, 0, 300_000, "Milliseconds for which a session keeps its connection after a statement.")
        .needless("the state that a statement leaves follows its session to any connection"),
    integer("mysql-connpoll_reset_queue_length", Obscure, 50, 0, 10_000, "Most connections that wait to be reset; further ones are closed.")
        .needless("connections do not wait in a queue to be reset"),
    integer("mysql-data_packets_history_size", Obscure, 0, 0, 2_147_483_646, "Packets kept in memory for debugging.")
        .needless("it is a tool for debugging ProxySQL"),
    flag("mysql-default_reconnect", Obscure, true, "Whether lost connections to servers are reopened.")
        .needless("ProxySQL does nothing with it either"),
    flag("mysql-enable_server_deprecate_eof", Useful, true, "Whether servers are asked for result sets without EOF packets.")
        .needless("servers are always asked for them, because an EOF packet does not say what has changed in the session"),
    integer("mysql-evaluate_replication_lag_on_servers_load", Obscure, 1, 0, 1, "1: known lag is applied at once when servers are loaded."),
    integer("mysql-eventslog_table_memory_size", Useful, 10_000, 0, 1_000_000, "Rows of stats_mysql_query_events; older ones are dropped.")
        .read_by_name(),
    integer("mysql-eventslog_format", Useful, 1, 1, 2, "ProxySQL's choice of format: 1 binary, 2 JSON lines. Narrows writes JSON lines.")
        .needless("the query log is always in JSON lines"),
    integer("mysql-handle_unknown_charset", Obscure, 1, 0, 2, "A client with an unknown character set: 0 is refused, 1 gets the default and is logged, 2 gets the default."),
    integer("mysql-hostgroup_manager_verbose", Obscure, 1, 0, 3, "How much the log says when hostgroups change."),
    text("mysql-keep_multiplexing_variables", Useful, Form::Any, "tx_isolation,transaction_isolation,version", "System variables that may be selected without pinning the session to its connection.")
        .needless("reading a variable never keeps a session on its connection"),
    text("mysql-ldap_user_variable", Obscure, Form::Any, "", "User variable to which the LDAP plugin assigns the user."),
    flag("mysql-log_mysql_warnings_enabled", Obscure, false, "Whether warnings of statements are fetched and logged."),
    flag("mysql-log_unhealthy_connections", Useful, true, "Whether the log says why a connection was dropped."),
    monitor_integer("mysql-monitor_aws_rds_topology_discovery_interval", Obscure, 0, 0, 100_000, "Number of read_only checks between two checks of an RDS topology, for the readers of Multi-AZ clusters and for switchovers of Blue/Green deployments; 0: none.",
        |s, n| s.rds_topology_every = u32::of_integer(n)),
    monitor_integer("mysql-monitor_connect_interval", Useful, 120_000, 100, 604_800_000, "Milliseconds between two trial connections to a server.",
        |s, n| s.timing_mut("connect").interval = ms(n)),
    monitor_integer("mysql-monitor_connect_timeout", Useful, 600, 100, 600_000, "Milliseconds that a trial connection may take.",
        |s, n| s.timing_mut("connect").timeout = ms(n)),
    monitor_flag("mysql-monitor_enabled", Essential, true, "Whether servers are checked by the monitor.",
        |s, b| s.enabled = b),
    monitor_flag("mysql-monitor_galera_autodiscovery", Useful, false, "Whether nodes that are not in mysql_servers are taken into use if a Galera node names them in wsrep_incoming_addresses. (Not in ProxySQL.)",
        |s, b| s.galera_autodiscovery = b),
    monitor_integer("mysql-monitor_galera_healthcheck_interval", Useful, 5000, 50, 604_800_000, "Milliseconds between two checks of a Galera node.",
        |s, n| s.timing_mut("galera").interval = ms(n)),
    monitor_integer("mysql-monitor_galera_healthcheck_max_timeout_count", Useful, 3, 1, 10, "Checks in a row that time out before the node is offline.",
        |s, n| s.galera_max_timeout_count = u32::of_integer(n)),
    monitor_integer("mysql-monitor_galera_healthcheck_timeout", Useful, 800, 50, 600_000, "Milliseconds that a Galera node has to answer a check.",
        |s, n| s.timing_mut("galera").timeout = ms(n)),
    monitor_flag("mysql-monitor_groupreplication_autodiscovery", Useful, false, "Whether members that are not in mysql_servers are taken into use if a member names them, or the metadata of InnoDB Cluster. (Not in ProxySQL.)",
        |s, b| s.group_replication.autodiscovery = b),
    monitor_integer("mysql-monitor_groupreplication_healthcheck_interval", Useful, 5000, 100, 604_800_000, "Milliseconds between two checks of a group replication member.",
        |s, n| s.timing_mut("group_replication").interval = ms(n)),
    monitor_integer("mysql-monitor_groupreplication_healthcheck_max_timeout_count", Useful, 3, 1, 10, "Checks in a row that time out before the member is offline.",
        |s, n| s.group_replication.max_timeout_count = u32::of_integer(n)),
    monitor_integer("mysql-monitor_groupreplication_healthcheck_timeout", Useful, 800, 100, 600_000, "Milliseconds that a member has to answer a check.",
        |s, n| s.timing_mut("group_replication").timeout = ms(n)),
    monitor_integer("mysql-monitor_groupreplication_max_transactions_behind_count", Useful, 3, 1, 10, "Checks in a row that must find a member too far behind before it is taken out of use.",
        |s, n| s.group_replication.behind_count = u32::of_integer(n)),
    monitor_integer("mysql-monitor_groupreplication_max_transactions_behind_for_read_only", Obscure, 1, 0, 2, "Which members the limit of transactions behind applies to: 0 writers, 1 readers, 2 both.",
        |s, n| s.group_replication.behind_for_read_only = u32::of_integer(n)),
    monitor_integer("mysql-monitor_history", Useful, 7_200_000, 1000, 604_800_000, "Milliseconds for which results of the monitor are kept.",
        |s, n| s.history = ms(n)),
    monitor_integer("mysql-monitor_local_dns_cache_refresh_interval", Useful, 60_000, 0, 604_800_000, "Milliseconds between two checks of the host names in use; 0: they are resolved for each connection.",
        |s, n| s.names.interval = ms(n)),
    monitor_integer("mysql-monitor_local_dns_cache_ttl", Useful, 300_000, 0, 604_800_000, "Milliseconds after which a host name is resolved again; 0: it is resolved for each connection.",
        |s, n| s.names.ttl = ms(n)),
    monitor_integer("mysql-monitor_local_dns_resolver_queue_maxsize", Obscure, 128, 16, 1024, "Host names that may wait for each one that is being resolved.",
        |s, n| s.names.queue = usize::try_from(n).unwrap_or(usize::MAX)),
    monitor_text("mysql-monitor_password", Essential, Form::Secret, "monitor", "Password of the monitor's account on the servers.",
        |s, t| s.password = t.to_owned()),
    monitor_integer("mysql-monitor_ping_interval", Essential, 8000, 100, 604_800_000, "Milliseconds between two pings of a server.",
        |s, n| s.timing_mut("ping").interval = ms(n)),
    monitor_integer("mysql-monitor_ping_max_failures", Essential, 3, 1, 1_000_000, "Pings in a row that a server fails to answer before it is taken out of use.",
        |s, n| s.ping_max_failures = u32::of_integer(n)),
    monitor_integer("mysql-monitor_ping_timeout", Essential, 1000, 100, 600_000, "Milliseconds that a server has to answer a ping.",
        |s, n| s.timing_mut("ping").timeout = ms(n)),
    integer("mysql-monitor_query_interval", Obscure, 60_000, 100, 604_800_000, "Milliseconds between two statements of the monitor.")
        .needless("ProxySQL does nothing with it either"),
    integer("mysql-monitor_query_timeout", Obscure, 100, 100, 600_000, "Milliseconds that such a statement may take.")
        .needless("ProxySQL does nothing with it either"),
    monitor_integer("mysql-monitor_read_only_interval", Essential, 1000, 100, 604_800_000, "Milliseconds between two checks of a server's read_only.",
        |s, n| s.timing_mut("read_only").interval = ms(n)),
    monitor_integer("mysql-monitor_read_only_max_timeout_count", Essential, 3, 1, 1_000_000, "Checks of read_only in a row that time out before the server counts as read-only.",
        |s, n| s.read_only_max_timeout_count = u32::of_integer(n)),
    monitor_integer("mysql-monitor_read_only_timeout", Essential, 800, 100, 600_000, "Milliseconds that a server has to answer a check of read_only.",
        |s, n| s.timing_mut("read_only").timeout = ms(n)),
    monitor_integer("mysql-monitor_replication_lag_count", Useful, 1, 1, 10, "Checks in a row that must find a replica lagging before it is taken out of use.",
        |s, n| s.replication_lag_count = u32::of_integer(n)),
    flag("mysql-monitor_replication_lag_group_by_host", Obscure, false, "Whether lag is checked once per host rather than once per host and hostgroup.")
        .needless("lag is checked once per server, whatever hostgroups it is in"),
    monitor_integer("mysql-monitor_replication_lag_interval", Essential, 10_000, 100, 604_800_000, "Milliseconds between two checks of a replica's lag.",
        |s, n| s.timing_mut("replication_lag").interval = ms(n)),
    monitor_integer("mysql-monitor_replication_lag_timeout", Useful, 1000, 100, 600_000, "Milliseconds that a replica has to answer a check of its lag.",
        |s, n| s.timing_mut("replication_lag").timeout = ms(n)),
    monitor_text("mysql-monitor_replication_lag_use_percona_heartbeat", Useful, Form::TableName, "", "Table of pt-heartbeat, as `schema.table`, that lag is read from; empty: from the replica's own status.",
        |s, t| s.heartbeat = t.to_owned()),
    monitor_integer("mysql-monitor_replication_max_writers", Useful, 1, 0, 1000, "How many servers of a pair of mysql_replication_hostgroups are written to at once; 0: all that are writable, as in ProxySQL. Further ones are readers until a place is free. (Not in ProxySQL.)",
        |s, n| s.max_writers = u32::of_integer(n)),
    monitor_integer("mysql-monitor_slave_lag_when_null", Essential, 60, 0, 604_800, "Seconds of lag assumed for a replica that reports NULL.",
        |s, n| s.lag_when_null = u32::of_integer(n)),
    integer("mysql-monitor_threads_max", Obscure, 128, 4, 1024, "Maximum number of threads of ProxySQL's monitor.")
        .needless("the monitor is one thread, whose checks do not wait for each other"),
    integer("mysql-monitor_threads_min", Obscure, 8, 2, 256, "Minimum number of threads of ProxySQL's monitor.")
        .needless("the monitor is one thread, whose checks do not wait for each other"),
    integer("mysql-monitor_threads_queue_maxsize", Obscure, 128, 16, 1024, "Number of waiting checks at which ProxySQL starts another monitor thread.")
        .needless("the monitor is one thread, whose checks do not wait for each other"),
    monitor_text("mysql-monitor_username", Essential, Form::NotEmpty, "monitor", "Account that the monitor uses on the servers.",
        |s, t| s.username = t.to_owned()),
    flag("mysql-monitor_wait_timeout", Obscure, true, "Whether the monitor sets wait_timeout on its connections."),
    monitor_flag("mysql-monitor_writer_is_also_reader", Essential, true, "Whether a writer is also in the reader hostgroup.",
        |s, b| s.writer_is_also_reader = b),
    flag("mysql-parse_failure_logs_digest", Obscure, false, "Whether the log shows the digest instead of the text of a SET that cannot be parsed."),
    integer("mysql-poll_timeout", Obscure, 2000, 10, 20_000, "Milliseconds for which ProxySQL's threads wait for events.")
        .needless("workers sleep until there is something to do"),
    integer("mysql-poll_timeout_on_failure", Obscure, 100, 10, 20_000, "Milliseconds for which they wait after a failed connect.")
        .needless("workers sleep until there is something to do"),
    flag("mysql-query_digests_normalize_digest_text", Obscure, false, "Whether each digest text is kept once only.")
        .needless("it only changes how ProxySQL stores digests"),
    integer("mysql-query_processor_regex", Useful, 1, 1, 2, "ProxySQL's choice of regular expression engine. Narrows uses the one that an expression needs.")
        .needless("each regular expression is run by the engine that it needs"),
    integer("mysql-query_rules_fast_routing_algorithm", Obscure, 1, 1, 2, "ProxySQL's choice between one fast-routing map per thread (1) and one for all threads (2).")
        .needless("all workers share one map"),
    integer("mysql-reset_connection_algorithm", Obscure, 2, 1, 2, "ProxySQL's choice of who resets connections.")
        .needless("each worker resets its own connections"),
    integer("mysql-server_capabilities", Obscure, 569_867, 11, 4_294_967_295, "Capability bits that ProxySQL offers to clients. Narrows offers those that it supports.")
        .needless("Narrows offers the capabilities that it has"),
    flag("mysql-servers_stats", Obscure, true, "Whether statements are counted by server.")
        .needless("ProxySQL does nothing with it either"),
    integer("mysql-session_idle_ms", Obscure, 1, 1, 3_600_000, "Milliseconds after which ProxySQL moves a session to an idle thread. Narrows does not need one.")
        .needless("idle sessions need no thread of their own"),
    flag("mysql-session_idle_show_processlist", Obscure, true, "Whether such sessions are shown in the process list.")
        .needless("idle sessions need no thread of their own, and are always shown"),
    flag("mysql-sessions_sort", Obscure, true, "Whether ProxySQL's threads serve sessions in the order in which they have waited.")
        .needless("there is no loop that serves sessions in turn"),
    integer("mysql-set_parser_algorithm", Obscure, 2, 1, 2, "ProxySQL's choice of SET parser. Narrows has one.")
        .needless("there is one parser of SET"),
    integer("mysql-set_query_lock_on_hostgroup", Essential, 1, 0, 1, "1: a SET that cannot be parsed keeps the session in its hostgroup. Narrows instead pins such a session to its connection for as long as needed.")
        .needless("a session is pinned to its connection instead, for as long as needed"),
    integer("mysql-show_processlist_extended", Obscure, 0, 0, 2, "Whether the process list has details as JSON: 0 none, 1 compact, 2 indented.")
        .read_by_name(),
    text("mysql-ssl_p2s_ca", Useful, Form::Any, "", "File of the CA certificates that server certificates are verified against.")
        .read_by_name().for_tls(),
    text("mysql-ssl_p2s_capath", Useful, Form::Any, "", "Folder of such files.")
        .read_by_name().for_tls(),
    text("mysql-ssl_p2s_cert", Useful, Form::Any, "", "File of the client certificate presented to servers.")
        .read_by_name().for_tls(),
    text("mysql-ssl_p2s_cipher", Useful, Form::Any, "", "Ciphers allowed for connections to servers.")
        .read_by_name().for_tls(),
    text("mysql-ssl_p2s_crl", Useful, Form::Any, "", "File of certificate revocation lists.")
        .read_by_name().for_tls(),
    text("mysql-ssl_p2s_crlpath", Useful, Form::Any, "", "Folder of such files.")
        .read_by_name().for_tls(),
    text("mysql-ssl_key_passphrase", Useful, Form::Secret, "", "Passphrase of the keys that clients are shown, proxysql-key.pem and private_key.pem, if they are encrypted; or where it is kept. (Not in ProxySQL.)")
        .read_by_name().for_tls(),
    text("mysql-ssl_p2s_key_passphrase", Useful, Form::Secret, "", "Passphrase of the keys that servers are shown, if they are encrypted, also those of mysql_servers_ssl_params; or where it is kept. (Not in ProxySQL.)")
        .read_by_name().for_tls(),
    text("mysql-ssl_p2s_key", Useful, Form::Any, "", "File of that certificate's private key.")
        .read_by_name().for_tls(),
    integer("mysql-stacksize", Obscure, 1_048_576, 262_144, 4_194_304, "Bytes of stack of ProxySQL's threads.")
        .needless("workers have stacks of a fixed size"),
    text("mysql-switchover_replication_password", Useful, Form::Secret, "", "Password of switchover_replication_username.")
        .read_by_name(),
    text("mysql-switchover_replication_username", Useful, Form::Any, "", "Account with which NARROWS SWITCHOVER has the old primary replicate from the new one; empty: the one that the servers know.")
        .read_by_name(),
    integer("mysql-threshold_query_length", Useful, 524_288, 1024, 1_073_741_824, "Bytes of a statement above which its server connection is not used again."),
    integer("mysql-throttle_ratio_server_to_client", Obscure, 0, 0, 100, "How much faster than its client a server may be read; 0: no limit."),
    flag("mysql-verbose_query_error", Obscure, false, "Whether the log says more about statements that fail."),
    text("admin-admin_credentials", Essential, Form::Credentials, "admin:admin", "Accounts of the admin interface. Those named admin, stats or monitor may connect from the same machine only.")
        .read_by_name(),
    flag("admin-checksum_admin_variables", Obscure, true, "Deprecated: false prevents admin_variables from being copied from other nodes, like a diffs_before_sync of 0."),
    flag("admin-checksum_ldap_variables", Obscure, true, "Deprecated: false prevents ldap_variables from being copied from other nodes, like a diffs_before_sync of 0."),
    flag("admin-checksum_mysql_query_rules", Obscure, true, "Deprecated: false prevents mysql_query_rules from being copied from other nodes, like a diffs_before_sync of 0."),
    flag("admin-checksum_mysql_servers", Obscure, true, "Deprecated: false prevents mysql_servers from being copied from other nodes, like a diffs_before_sync of 0."),
    flag("admin-checksum_mysql_users", Obscure, true, "Deprecated: false prevents mysql_users from being copied from other nodes, like a diffs_before_sync of 0."),
    flag("admin-checksum_mysql_variables", Obscure, true, "Deprecated: false prevents mysql_variables from being copied from other nodes, like a diffs_before_sync of 0."),
    integer("admin-cluster_admin_variables_diffs_before_sync", Essential, 3, 0, 1000, "Checks in a row that must find another node's admin_variables different before they are copied; 0: never.").needless(FLEET_INSTEAD),
    flag("admin-cluster_admin_variables_save_to_disk", Essential, true, "Whether admin_variables copied from another node are also saved to disk.").needless(FLEET_INSTEAD),
    integer("admin-cluster_check_interval_ms", Essential, 1000, 10, 300_000, "Milliseconds between two checks of the other nodes' checksums.").needless(FLEET_INSTEAD),
    integer("admin-cluster_check_status_frequency", Useful, 10, 0, 10_000, "After how many such checks the other nodes' status is also checked.").needless(FLEET_INSTEAD),
    integer("admin-cluster_ldap_variables_diffs_before_sync", Essential, 3, 0, 1000, "Checks in a row that must find another node's ldap_variables different before they are copied; 0: never.").needless(FLEET_INSTEAD),
    flag("admin-cluster_ldap_variables_save_to_disk", Essential, true, "Whether ldap_variables copied from another node are also saved to disk.").needless(FLEET_INSTEAD),
    integer("admin-cluster_mysql_query_rules_diffs_before_sync", Essential, 3, 0, 1000, "Checks in a row that must find another node's mysql_query_rules different before they are copied; 0: never.").needless(FLEET_INSTEAD),
    flag("admin-cluster_mysql_query_rules_save_to_disk", Essential, true, "Whether mysql_query_rules copied from another node are also saved to disk.").needless(FLEET_INSTEAD),
    integer("admin-cluster_mysql_servers_diffs_before_sync", Essential, 3, 0, 1000, "Checks in a row that must find another node's mysql_servers different before they are copied; 0: never.").needless(FLEET_INSTEAD),
    flag("admin-cluster_mysql_servers_save_to_disk", Essential, true, "Whether mysql_servers copied from another node are also saved to disk.").needless(FLEET_INSTEAD),
    integer("admin-cluster_mysql_servers_sync_algorithm", Useful, 1, 1, 3, "Which tables of servers are copied: 1 the runtime and the configured ones, 2 the configured ones, 3 depending on whether the monitor is on.").needless(FLEET_INSTEAD),
    integer("admin-cluster_mysql_users_diffs_before_sync", Essential, 3, 0, 1000, "Checks in a row that must find another node's mysql_users different before they are copied; 0: never.").needless(FLEET_INSTEAD),
    flag("admin-cluster_mysql_users_save_to_disk", Essential, true, "Whether mysql_users copied from another node are also saved to disk.").needless(FLEET_INSTEAD),
    integer("admin-cluster_mysql_variables_diffs_before_sync", Essential, 3, 0, 1000, "Checks in a row that must find another node's mysql_variables different before they are copied; 0: never.").needless(FLEET_INSTEAD),
    flag("admin-cluster_mysql_variables_save_to_disk", Essential, true, "Whether mysql_variables copied from another node are also saved to disk.").needless(FLEET_INSTEAD),
    text("admin-cluster_password", Essential, Form::Secret, "", "Password of cluster_username.").needless(FLEET_INSTEAD),
    integer("admin-cluster_proxysql_servers_diffs_before_sync", Essential, 3, 0, 1000, "Checks in a row that must find another node's proxysql_servers different before they are copied; 0: never.").needless(FLEET_INSTEAD),
    flag("admin-cluster_proxysql_servers_save_to_disk", Essential, true, "Whether proxysql_servers copied from another node are also saved to disk.").needless(FLEET_INSTEAD),
    text("admin-cluster_username", Essential, Form::Any, "", "Account used on the other nodes' admin interfaces; empty: the configuration is not shared.").needless(FLEET_INSTEAD),
    integer("admin-config_history_days", Useful, 365, 1, 36_500, "Days for which versions of the configuration are kept in narrows_config_history. (Not in ProxySQL.)")
        .read_by_name(),
    integer("admin-config_history_versions", Useful, 200, 1, 100_000, "Most versions of the configuration that are kept in narrows_config_history. (Not in ProxySQL.)")
        .read_by_name(),
    integer("admin-coredump_generation_interval_ms", Obscure, 30_000, 0, 2_147_483_646, "Milliseconds that must pass between two core dumps on demand.")
        .needless("no core files are written, as passwords and keys would be in them"),
    integer("admin-coredump_generation_threshold", Obscure, 10, 1, 500, "Most core dumps on demand.")
        .needless("no core files are written, as passwords and keys would be in them"),
    integer("admin-exec_secrets_interval", Useful, 300, 0, 86_400, "Seconds between two runs of the programs that passwords come from (`exec:`); 0: they run at a LOAD and at a start only. (Not in ProxySQL.)")
        .read_by_name(),
    text("admin-log_level", Useful, Form::Any, "", "Which lines the log has: error, warn, info, debug or trace, and levels by module, as in `info,narrows_proxy::pins=debug`; empty: as in the environment variable NARROWS_LOG, or info.")
        .read_by_name(),
    integer("admin-metrics_max_series", Useful, 10_000, 1, 10_000_000, "Most time series of one metric; the others are left out, and counted in narrows_metrics_series_left_out.")
        .read_by_name(),
    text("admin-mysql_ifaces", Essential, Form::Addresses, "127.0.0.1:6032", "Where the admin interface listens (ProxySQL: 0.0.0.0:6032).")
        .read_by_name(),
    integer("admin-narrows_history", Useful, 10, 0, 60, "Seconds between two rows of stats_history.narrows_traffic_10s; 0: none. (Not in ProxySQL.)")
        .read_by_name().sample_interval(),
    integer("admin-prometheus_memory_metrics_interval", Useful, 61, 1, 604_799, "Seconds between two measurements of memory for the metrics.")
        .needless("memory is measured when the metrics are requested"),
    flag("admin-read_only", Essential, false, "Whether the admin interface refuses changes.")
        .read_by_name(),
    integer("admin-refresh_interval", Obscure, 2000, 101, 99_999, "Milliseconds between two wake-ups of ProxySQL's admin thread.")
        .needless("the admin interface sleeps until there is something to do"),
    text("admin-restapi_address", Useful, Form::IpAddresses, "127.0.0.1", "IP addresses on which the HTTP interface listens, separated by semicolons (ProxySQL: 0.0.0.0).")
        .read_by_name(),
    flag("admin-restapi_enabled", Essential, false, "Whether the HTTP interface listens: metrics for Prometheus, health checks and the console.")
        .read_by_name(),
    integer("admin-restapi_port", Essential, 6070, 1, 65_534, "Port of the HTTP interface.")
        .read_by_name(),
    flag("admin-restapi_tls", Useful, false, "Whether clients of the HTTP interface must use TLS, with the certificate that MySQL clients get.")
        .read_by_name(),
    integer("admin-scheduler_timeout_ms", Useful, 3_600_000, 0, 604_800_000, "Milliseconds after which a program of the scheduler is ended, with all processes of its group; 0: no limit. (Not in ProxySQL.)")
        .read_by_name(),
    text("admin-ssl_keylog_file", Useful, Form::Any, "", "File that receives the session keys of TLS, for debugging; empty: none.")
        .read_by_name().for_tls(),
    text("admin-stats_credentials", Essential, Form::Credentials, "stats:stats", "Accounts of the admin interface that may read statistics and nothing else.")
        .read_by_name(),
    integer("admin-stats_mysql_connection_pool", Useful, 60, 0, 300, "Seconds between two samples of the connection pool; 0: none.")
        .read_by_name().sample_interval(),
    integer("admin-stats_mysql_connections", Useful, 60, 0, 300, "Seconds between two samples of connection counts; 0: none.")
        .read_by_name().sample_interval(),
    integer("admin-stats_mysql_query_cache", Useful, 60, 0, 300, "Seconds between two samples of the query cache; 0: none.")
        .read_by_name().sample_interval(),
    integer("admin-stats_mysql_eventslog_sync_buffer_to_disk", Useful, 0, 0, 86_400, "Seconds between two moves of the logged statements in memory to history_mysql_query_events; 0: none.")
        .read_by_name(),
    integer("admin-stats_mysql_query_digest_to_disk", Useful, 0, 0, 86_400, "Seconds between two copies of the digest table to disk; 0: none."),
    integer("admin-stats_system_cpu", Useful, 60, 0, 600, "Seconds between two samples of CPU time; 0: none.")
        .read_by_name().sample_interval(),
    integer("admin-stats_system_memory", Useful, 60, 0, 600, "Seconds between two samples of memory; 0: none.")
        .read_by_name().sample_interval(),
    text("admin-telnet_admin_ifaces", Obscure, Form::Any, "", "Where the telnet interface listens.")
        .needless("ProxySQL does nothing with it either"),
    text("admin-telnet_stats_ifaces", Obscure, Form::Any, "", "Where the telnet interface for statistics listens.")
        .needless("ProxySQL does nothing with it either"),
    flag("admin-vacuum_stats", Obscure, true, "Whether statistics tables are emptied after being read.")
        .needless("statistics tables are filled for each statement that reads them"),
    fixed_text("admin-version", Essential, VERSION, "The version of ProxySQL that Narrows is compatible with, and the version of Narrows."),
    flag("admin-web_enabled", Obscure, false, "Whether the statistics pages are served."),
    integer("admin-web_port", Obscure, 6080, 1, 65_534, "Port of the statistics pages."),
    integer("admin-web_verbosity", Obscure, 0, 0, 10, "How much the server of the statistics pages logs."),
];

const fn integer(
    name: &'static str,
    class: Class,
    default: i64,
    min: i64,
    max: i64,
    doc: &'static str,
) -> Variable {
    Variable::row(name, class, Kind::Integer { default, min, max }, doc)
}

const fn flag(name: &'static str, class: Class, default: bool, doc: &'static str) -> Variable {
    Variable::row(name, class, Kind::Flag { default }, doc)
}

const fn text(
    name: &'static str,
    class: Class,
    form: Form,
    default: &'static str,
    doc: &'static str,
) -> Variable {
    Variable::row(name, class, Kind::Text { default, form }, doc)
}

const fn fixed_text(name: &'static str, class: Class, default: &'static str, doc: &'static str) -> Variable {
    Variable::row(name, class, Kind::Fixed { text: default }, doc).read_by_name()
}

/// An integer variable that the monitor reads.
const fn monitor_integer(
    name: &'static str,
    class: Class,
    default: i64,
    min: i64,
    max: i64,
    doc: &'static str,
    set: fn(&mut MonitorSettings, i64),
) -> Variable {
    integer(name, class, default, min, max, doc).read_by(Reader::MonitorInteger(set))
}

/// A flag that the monitor reads.
const fn monitor_flag(
    name: &'static str,
    class: Class,
    default: bool,
    doc: &'static str,
    set: fn(&mut MonitorSettings, bool),
) -> Variable {
    flag(name, class, default, doc).read_by(Reader::MonitorFlag(set))
}

/// A text variable that the monitor reads.
const fn monitor_text(
    name: &'static str,
    class: Class,
    form: Form,
    default: &'static str,
    doc: &'static str,
    set: fn(&mut MonitorSettings, &str),
) -> Variable {
    text(name, class, form, default, doc).read_by(Reader::MonitorText(set))
}

/// The names of the variables whose values are not shown.
pub fn secret_variables() -> &'static [&'static str] {
    static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        VARIABLES.iter().filter(|variable| variable.is_secret()).map(|variable| variable.name).collect()
    });
    &NAMES
}

/// Whether the value of the variable with that full name is not shown. One that this version does not know may be a password.
pub fn is_secret_variable(name: &str) -> bool {
    Variable::named(name).is_none_or(Variable::is_secret)
}

impl Variable {
    /// The variable with that full name, case-insensitive.
    pub fn named(name: &str) -> Option<&'static Variable> {
        VARIABLES.iter().find(|variable| variable.name.eq_ignore_ascii_case(name))
    }

    /// A variable without a reader.
    pub(super) const fn row(name: &'static str, class: Class, kind: Kind, doc: &'static str) -> Variable {
        Variable { name, class, kind, special: None, reader: Reader::Nobody, doc }
    }

    pub(super) const fn read_by(self, reader: Reader) -> Variable {
        Variable { reader, ..self }
    }

    /// Marks the variable as read by its name, where it is needed.
    const fn read_by_name(self) -> Variable {
        self.read_by(Reader::Name)
    }

    /// Marks the variable as without effect, because there is nothing for it to do.
    const fn needless(self, why: &'static str) -> Variable {
        self.read_by(Reader::Needless(why))
    }

    pub(super) const fn after_restart(self) -> Variable {
        Variable { special: Some(Special::AfterRestart), ..self }
    }

    pub(super) const fn file_prefix(self) -> Variable {
        Variable { special: Some(Special::FilePrefix), ..self }
    }

    pub(super) const fn for_tls(self) -> Variable {
        Variable { special: Some(Special::ForTls), ..self }
    }

    const fn sample_interval(self) -> Variable {
        Variable { special: Some(Special::SampleInterval), ..self }
    }
}
