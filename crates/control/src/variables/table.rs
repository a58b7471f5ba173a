//! Every variable, one row each. To add a variable, add a row; the page `docs/variables.md` is generated from the rows.

use std::time::Duration;

use super::variable::Class::{Essential, Obscure, Useful};
use super::variable::{Class, Kind, Reader, Variable};
use crate::config::form::{Form, items};
use crate::monitor::settings::MonitorSettings;
use narrows_proxy::client::Networks;
use narrows_proxy::hostgroup::UnshunAlgorithm;
use narrows_proxy::snapshot::Variables;

/// The version, where ProxySQL gives its own. Tools read the part before the first `-` to decide which features they
/// may use; the rest identifies Narrows.
pub const VERSION: &str = concat!("2.7.1-narrows-", env!("CARGO_PKG_VERSION"));

/// The authentication plugins that a greeting may offer.
const PLUGINS: &[&str] = &["mysql_native_password", "caching_sha2_password"];

/// The variables: first `mysql-`, then `admin-`, each in the order of their names.
///
/// The data plane's readers run in this order; use_tcp_keepalive relies on tcp_keepalive_time before it.
#[rustfmt::skip]
pub static VARIABLES: &[Variable] = &[
    text("mysql-add_ldap_user_comment", Obscure, Form::Any, "", "Name of the comment with the user that the LDAP plugin adds to statements."),
    text("mysql-auditlog_filename", Useful, Form::Any, "", "Prefix of the audit log's file names; empty: no audit log."),
    integer("mysql-auditlog_filesize", Useful, 104_857_600, 1_048_576, 1_073_741_824, "Bytes after which the audit log continues in a new file."),
    integer("mysql-aurora_max_lag_ms_only_read_from_replicas", Obscure, 2, 0, 100, "Number of replicas with sufficiently low lag from which reads with a lag limit no longer use an Aurora writer."),
    integer("mysql-auto_increment_delay_multiplex", Essential, 0, 0, 1_000_000, "Statements for which a session keeps its connection after it has received an insert id. Narrows remembers the id, and LAST_INSERT_ID() returns it on any connection, so the default is 0 (ProxySQL: 5).")
        .needless("the insert id follows its session to any connection"),
    integer("mysql-auto_increment_delay_multiplex_timeout_ms", Useful, 10_000, 0, 3_600_000, "Milliseconds after which the session no longer keeps that connection; 0: no limit.")
        .needless("the insert id follows its session to any connection"),
    flag("mysql-auto_read_write_split", Useful, false, "Whether statements that no rule routes go to replicas if they are certain to be reads; see docs/query-rules.md. An account's attribute of the same name overrides it. (Not in ProxySQL.)")
        .read_as_flag(|v, b| v.auto_read_write_split = b),
    text("mysql-auto_read_write_split_functions", Useful, Form::Any, "", "Stored and loadable functions that such a read may call, separated by commas. (Not in ProxySQL.)")
        .read_as_text(|v, s| v.auto_read_write_split_functions = items(s, ',').map(str::to_lowercase).collect()),
    flag("mysql-autocommit_false_is_transaction", Obscure, false, "Whether autocommit=0 alone counts as an open transaction."),
    flag("mysql-autocommit_false_not_reusable", Obscure, false, "Whether connections with autocommit=0 are closed instead of being returned to the pool."),
    flag("mysql-automatic_detect_sqli", Obscure, false, "Whether statements are checked for signs of SQL injection."),
    integer("mysql-binlog_reader_connect_retry_msec", Obscure, 3000, 200, 120_000, "Milliseconds between two attempts to reach a GTID reader."),
    integer("mysql-client_host_cache_size", Obscure, 0, 0, 1_048_576, "Most client addresses whose failed logins are counted; 0: none.")
        .read_as_integer(|v, n| v.client_host_cache_size = size(n)),
    integer("mysql-client_host_error_counts", Obscure, 0, 0, 1_048_576, "Failed logins after which connections from an address are refused at once; 0: never.")
        .read_as_integer(|v, n| v.client_host_error_counts = u32::try_from(n).unwrap_or(0)),
    flag("mysql-client_session_track_gtid", Useful, true, "Whether clients that ask for it receive the GTIDs of their transactions."),
    flag("mysql-commands_stats", Useful, true, "Whether statements are counted by kind.")
        .read_as_flag(|v, b| v.commands_stats = b),
    integer("mysql-connect_retries_delay", Obscure, 1, 0, 10_000, "Least milliseconds to wait after a failed connect before the same server is tried again; Narrows starts with 20 ms.")
        .read_as_integer(|v, n| v.connect_retries_delay = ms(n)),
    integer("mysql-connect_retries_on_failure", Useful, 10, 0, 1000, "Limits shun_on_failures to this number + 1. Attempts to connect for a statement are limited by connect_timeout_server_max only (in ProxySQL, by this variable too).")
        .read_as_integer(|v, n| v.connect_retries_on_failure = count(n)),
    integer("mysql-connect_timeout_client", Useful, 10_000, 500, 3_600_000, "Milliseconds that a client has to log in.")
        .read_as_integer(|v, n| v.connect_timeout_client = ms(n)),
    integer("mysql-connect_timeout_server", Essential, 1000, 10, 120_000, "Milliseconds for one attempt to connect to a server.")
        .read_as_integer(|v, n| v.connect_timeout_server = ms(n)),
    integer("mysql-connect_timeout_server_max", Essential, 10_000, 10, 3_600_000, "Milliseconds that a statement waits for a server connection in all; then error 9001, with the causes.")
        .read_as_integer(|v, n| v.connect_timeout_server_max = ms(n)),
    integer("mysql-connection_delay_multiplex_ms", Useful, 0, 0, 300_000, "Milliseconds for which a session keeps its connection after a statement.")
        .needless("the state that a statement leaves follows its session to any connection"),
    integer("mysql-connection_max_age_ms", Useful, 0, 0, 86_400_000, "Milliseconds after which an idle server connection is closed; 0: no limit.")
        .read_as_integer(|v, n| v.connection_max_age = ms(n)),
    flag("mysql-connection_warming", Obscure, false, "Whether connections are opened before they are needed, up to free_connections_pct.")
        .read_as_flag(|v, b| v.connection_warming = b),
    integer("mysql-connpoll_reset_queue_length", Obscure, 50, 0, 10_000, "Most connections that wait to be reset; further ones are closed.")
        .needless("connections do not wait in a queue to be reset"),
    integer("mysql-data_packets_history_size", Obscure, 0, 0, 2_147_483_646, "Packets kept in memory for debugging.")
        .needless("it is a tool for debugging ProxySQL"),
    text("mysql-default_authentication_plugin", Useful, Form::OneOf(PLUGINS), "mysql_native_password", "The authentication plugin that the greeting offers.")
        .read_as_text(|v, s| v.default_authentication_plugin = s.to_owned()),
    text("mysql-default_charset", Useful, Form::Charset, "utf8", "Character set in the greeting, and of sessions that do not choose one.")
        .read_as_text(|v, s| v.default_charset = s.to_owned()),
    text("mysql-default_collation_connection", Useful, Form::Collation, "utf8_general_ci", "Collation in the greeting. If only this variable is set, its character set is used too; if default_charset is set to something other than utf8 and the collation does not belong to it, the default collation of that character set is used.")
        .read_as_text(|v, s| v.default_collation_connection = s.to_owned()),
    integer("mysql-default_max_latency_ms", Useful, 1000, 0, 1_728_000_000, "Ping time in milliseconds above which a server gets no new statements, if max_latency_ms in its row is 0; 0: no limit.")
        .read_as_integer(|v, n| v.default_max_latency = ms(n)),
    integer("mysql-default_query_delay", Obscure, 0, 0, 3_600_000, "Milliseconds that every statement waits before it is run.")
        .read_as_integer(|v, n| v.default_query_delay = ms(n)),
    integer("mysql-default_query_timeout", Essential, 86_400_000, 1000, 1_728_000_000, "Milliseconds after which a running statement is killed, unless its rule says otherwise.")
        .read_as_integer(|v, n| v.default_query_timeout = ms(n)),
    flag("mysql-default_reconnect", Obscure, true, "Whether lost connections to servers are reopened.")
        .needless("ProxySQL does nothing with it either"),
    text("mysql-default_schema", Essential, Form::Any, "", "Schema of a session if neither the client nor its account names one; empty: none, as on a server (ProxySQL: information_schema).")
        .read_as_text(|v, s| v.default_schema = s.to_owned()),
    text("mysql-default_session_track_gtids", Useful, Form::OneOf(&["OFF", "OWN_GTID"]), "OFF", "Value of session_track_gtids on server connections."),
    flag("mysql-enable_client_deprecate_eof", Useful, true, "Whether clients are offered result sets without EOF packets.")
        .read_as_flag(|v, b| v.enable_client_deprecate_eof = b),
    flag("mysql-enable_load_data_local_infile", Useful, false, "Whether clients may load their own files with LOAD DATA LOCAL INFILE.")
        .read_as_flag(|v, b| v.enable_load_data_local_infile = b),
    flag("mysql-enable_server_deprecate_eof", Useful, true, "Whether servers are asked for result sets without EOF packets.")
        .needless("a connection to a server uses the same form of result sets as the client that it was opened for"),
    flag("mysql-enforce_autocommit_on_reads", Useful, false, "Whether a read opens a transaction if the session has autocommit off and rules route the read to a hostgroup other than the account's own. By default it runs outside of any transaction; the next write opens the transaction, in the hostgroup that it is routed to.")
        .read_as_flag(|v, f| v.enforce_autocommit_on_reads = f),
    integer("mysql-evaluate_replication_lag_on_servers_load", Obscure, 1, 0, 1, "1: known lag is applied at once when servers are loaded."),
    integer("mysql-eventslog_default_log", Useful, 0, 0, 1, "1: statements are logged unless a rule says otherwise.")
        .read_as_integer(|v, n| v.eventslog_default_log = n == 1),
    text("mysql-eventslog_filename", Useful, Form::Any, "", "Prefix of the query log's file names; empty: no query log.")
        .read_as_text(|v, s| v.eventslog_filename = s.to_owned()),
    integer("mysql-eventslog_filesize", Useful, 104_857_600, 1_048_576, 1_073_741_824, "Bytes after which the query log continues in a new file.")
        .read_as_integer(|v, n| v.eventslog_filesize = n.unsigned_abs()),
    integer("mysql-eventslog_format", Useful, 1, 1, 2, "ProxySQL's choice of format: 1 binary, 2 JSON lines. Narrows writes JSON lines.")
        .needless("the query log is always in JSON lines"),
    integer("mysql-eventslog_rotate_interval", Useful, 0, 0, 31_536_000, "Seconds after which the query log continues in a new file; 0: never. (Not in ProxySQL.)")
        .read_as_integer(|v, n| v.eventslog_rotate_interval = seconds(n)),
    flag("mysql-firewall_whitelist_enabled", Useful, false, "Whether the firewall tables decide which statements may run.")
        .read_as_flag(|v, b| v.firewall_whitelist_enabled = b),
    text("mysql-firewall_whitelist_errormsg", Useful, Form::Any, "Firewall blocked this query", "The error message for a client whose statement the firewall refuses.")
        .read_as_text(|v, s| v.firewall_whitelist_errormsg = s.to_owned()),
    integer("mysql-free_connections_pct", Essential, 10, 0, 100, "Most idle connections kept per server, in percent of the server's max_connections.")
        .read_as_integer(|v, n| v.free_connections_pct = count(n)),
    flag("mysql-get_server_public_key", Useful, false, "Whether servers that are neither on this host nor connected over TLS may be asked for the RSA key with which caching_sha2_password encrypts passwords. A man in the middle could reply with a different key.")
        .read_as_flag(|v, f| v.get_server_public_key = f),
    integer("mysql-handle_unknown_charset", Obscure, 1, 0, 2, "A client with an unknown character set: 0 is refused, 1 gets the default and is logged, 2 gets the default."),
    integer("mysql-handle_warnings", Useful, 1, 0, 1, "1: SHOW WARNINGS returns the warnings of the last statement, on whatever connection that ran. ProxySQL keeps the connection for this purpose; Narrows keeps only the warnings. 0: warnings are dropped when the connection returns to the pool; their number remains known.")
        .read_as_integer(|v, n| v.handle_warnings = n == 1),
    flag("mysql-have_compress", Useful, true, "Whether clients may use the compressed protocol.")
        .read_as_flag(|v, f| v.have_compress = f),
    flag("mysql-have_ssl", Essential, true, "Whether clients may use TLS.")
        .read_as_flag(|v, f| v.have_ssl = f),
    integer("mysql-hostgroup_manager_verbose", Obscure, 1, 0, 3, "How much the log says when hostgroups change."),
    text("mysql-init_connect", Useful, Form::Any, "", "Statements that are run first on every new server connection.")
        .read_as_text(|v, s| v.init_connect = s.to_owned()),
    text("mysql-interfaces", Essential, Form::Addresses, "0.0.0.0:6033", "Where Narrows listens for clients: any number of TCP addresses and Unix sockets.").after_restart()
        .read_as_text(|v, s| v.interfaces = items(s, ';').map(str::to_owned).collect()),
    text("mysql-keep_multiplexing_variables", Useful, Form::Any, "tx_isolation,transaction_isolation,version", "System variables that may be selected without pinning the session to its connection.")
        .needless("reading a variable never keeps a session on its connection"),
    flag("mysql-kill_backend_connection_when_disconnect", Useful, true, "Whether a statement is killed on its server when its client disconnects.")
        .read_as_flag(|v, b| v.kill_backend_connection_when_disconnect = b),
    integer("mysql-kill_timeout_server", Useful, 10_000, 0, 3_600_000, "Milliseconds that a server has to end a statement that was killed by KILL QUERY or a timeout. After that the client receives its error anyway, and the server connection is closed; 0: no limit. (Not in ProxySQL.)")
        .read_as_integer(|v, n| v.transfer.kill_timeout_server = ms(n)),
    text("mysql-ldap_user_variable", Obscure, Form::Any, "", "User variable to which the LDAP plugin assigns the user."),
    flag("mysql-log_mysql_warnings_enabled", Obscure, false, "Whether warnings of statements are fetched and logged."),
    flag("mysql-log_unhealthy_connections", Useful, true, "Whether the log says why a connection was dropped."),
    integer("mysql-long_query_time", Useful, 1000, 0, 1_728_000_000, "Milliseconds from which on a statement counts as slow.")
        .read_as_integer(|v, n| v.long_query_time = ms(n)),
    integer("mysql-max_allowed_packet", Useful, 67_108_864, 8192, 1_073_741_824, "Bytes of the largest command that a client may send; a larger one is error 1153.")
        .read_as_integer(|v, n| v.max_allowed_packet = n.unsigned_abs()),
    integer("mysql-max_connections", Essential, 10_000, 1, 1_000_000, "Most client connections in all; further ones receive error 1040.")
        .read_as_integer(|v, n| v.max_connections = count(n)),
    integer("mysql-max_stmts_bytes_per_client", Useful, 64 << 20, 1 << 20, 1 << 40, "Most bytes for the prepared statements of one client: a kilobyte plus the text for each; beyond that, error 1461. (Not in ProxySQL.)")
        .read_as_integer(|v, n| v.max_stmts_bytes_per_client = size(n)),
    integer("mysql-max_stmts_cache", Useful, 10_000, 128, 1_048_576, "Prepared statements of the whole process beyond which those that no client has open are closed.")
        .read_as_integer(|v, n| v.max_stmts_cache = size(n)),
    integer("mysql-max_stmts_per_connection", Useful, 20, 1, 1024, "Most prepared statements on a server connection; for a further one, the least recently used is closed.")
        .read_as_integer(|v, n| v.max_stmts_per_connection = size(n)),
    integer("mysql-max_transaction_idle_time", Useful, 14_400_000, 1000, 1_728_000_000, "Milliseconds that a client may be idle in a transaction before it is disconnected.")
        .read_as_integer(|v, n| v.max_transaction_idle_time = ms(n)),
    integer("mysql-max_transaction_time", Useful, 14_400_000, 1000, 1_728_000_000, "Milliseconds that a transaction may last before its client is disconnected.")
        .read_as_integer(|v, n| v.max_transaction_time = ms(n)),
    integer("mysql-min_num_servers_lantency_awareness", Obscure, 1000, 0, 10_000, "Servers that a hostgroup must have before latency influences the choice: those that answer pings more slowly than the average then get no statements. (The misspelling is ProxySQL's.)")
        .read_as_integer(|v, n| v.min_num_servers_latency_awareness = usize::try_from(n).unwrap_or(usize::MAX)),
    integer("mysql-mirror_max_concurrency", Useful, 16, 1, 8192, "Most mirrored statements that run at the same time.")
        .read_as_integer(|v, n| v.mirror_max_concurrency = size(n)),
    integer("mysql-mirror_max_queue_length", Useful, 32_000, 0, 1_048_576, "Most mirrored statements that wait; further ones are dropped.")
        .read_as_integer(|v, n| v.mirror_max_queue_length = size(n)),
    integer("mysql-monitor_aws_rds_topology_discovery_interval", Obscure, 0, 0, 100_000, "Number of read_only checks between two checks of an RDS topology; 0: none."),
    integer("mysql-monitor_connect_interval", Useful, 120_000, 100, 604_800_000, "Milliseconds between two trial connections to a server.")
        .monitored_as_integer(|s, n| s.timing_mut("connect").interval = ms(n)),
    integer("mysql-monitor_connect_timeout", Useful, 600, 100, 600_000, "Milliseconds that a trial connection may take.")
        .monitored_as_integer(|s, n| s.timing_mut("connect").timeout = ms(n)),
    flag("mysql-monitor_enabled", Essential, true, "Whether servers are checked by the monitor.")
        .monitored_as_flag(|s, b| s.enabled = b),
    integer("mysql-monitor_galera_healthcheck_interval", Useful, 5000, 50, 604_800_000, "Milliseconds between two checks of a Galera node."),
    integer("mysql-monitor_galera_healthcheck_max_timeout_count", Useful, 3, 1, 10, "Checks in a row that may time out before the node goes offline."),
    integer("mysql-monitor_galera_healthcheck_timeout", Useful, 800, 50, 600_000, "Milliseconds that a Galera node has to answer a check."),
    integer("mysql-monitor_groupreplication_healthcheck_interval", Useful, 5000, 100, 604_800_000, "Milliseconds between two checks of a group replication member."),
    integer("mysql-monitor_groupreplication_healthcheck_max_timeout_count", Useful, 3, 1, 10, "Checks in a row that may time out before the member goes offline."),
    integer("mysql-monitor_groupreplication_healthcheck_timeout", Useful, 800, 100, 600_000, "Milliseconds that a member has to answer a check."),
    integer("mysql-monitor_groupreplication_max_transactions_behind_count", Useful, 3, 1, 10, "Checks in a row that must find a member too far behind before it is taken out of use."),
    integer("mysql-monitor_groupreplication_max_transactions_behind_for_read_only", Obscure, 1, 0, 2, "Which members the limit of transactions behind applies to: 0 writers, 1 readers, 2 both."),
    integer("mysql-monitor_history", Useful, 7_200_000, 1000, 604_800_000, "Milliseconds for which results of the monitor are kept.")
        .monitored_as_integer(|s, n| s.history = ms(n)),
    integer("mysql-monitor_local_dns_cache_refresh_interval", Useful, 60_000, 0, 604_800_000, "Milliseconds between two checks of the host names in use; 0: they are resolved for each connection.")
        .monitored_as_integer(|s, n| s.names.interval = ms(n)),
    integer("mysql-monitor_local_dns_cache_ttl", Useful, 300_000, 0, 604_800_000, "Milliseconds after which a host name is resolved again; 0: it is resolved for each connection.")
        .monitored_as_integer(|s, n| s.names.ttl = ms(n)),
    integer("mysql-monitor_local_dns_resolver_queue_maxsize", Obscure, 128, 16, 1024, "Host names that may wait for each one that is being resolved.")
        .monitored_as_integer(|s, n| s.names.queue = usize::try_from(n).unwrap_or(usize::MAX)),
    text("mysql-monitor_password", Essential, Form::Any, "monitor", "Password of the monitor's account on the servers.")
        .monitored_as_text(|s, t| s.password = t.to_owned()),
    integer("mysql-monitor_ping_interval", Essential, 8000, 100, 604_800_000, "Milliseconds between two pings of a server.")
        .monitored_as_integer(|s, n| s.timing_mut("ping").interval = ms(n)),
    integer("mysql-monitor_ping_max_failures", Essential, 3, 1, 1_000_000, "Pings in a row that a server fails to answer before it is taken out of use.")
        .monitored_as_integer(|s, n| s.ping_max_failures = count(n)),
    integer("mysql-monitor_ping_timeout", Essential, 1000, 100, 600_000, "Milliseconds that a server has to answer a ping.")
        .monitored_as_integer(|s, n| s.timing_mut("ping").timeout = ms(n)),
    integer("mysql-monitor_query_interval", Obscure, 60_000, 100, 604_800_000, "Milliseconds between two statements of the monitor.")
        .needless("ProxySQL does nothing with it either"),
    integer("mysql-monitor_query_timeout", Obscure, 100, 100, 600_000, "Milliseconds that such a statement may take.")
        .needless("ProxySQL does nothing with it either"),
    integer("mysql-monitor_read_only_interval", Essential, 1000, 100, 604_800_000, "Milliseconds between two checks of a server's read_only.")
        .monitored_as_integer(|s, n| s.timing_mut("read_only").interval = ms(n)),
    integer("mysql-monitor_read_only_max_timeout_count", Essential, 3, 1, 1_000_000, "Checks of read_only in a row that time out before the server counts as read-only.")
        .monitored_as_integer(|s, n| s.read_only_max_timeout_count = count(n)),
    integer("mysql-monitor_read_only_timeout", Essential, 800, 100, 600_000, "Milliseconds that a server has to answer a check of read_only.")
        .monitored_as_integer(|s, n| s.timing_mut("read_only").timeout = ms(n)),
    integer("mysql-monitor_replication_lag_count", Useful, 1, 1, 10, "Checks in a row that must find a replica lagging before it is taken out of use.")
        .monitored_as_integer(|s, n| s.replication_lag_count = count(n)),
    flag("mysql-monitor_replication_lag_group_by_host", Obscure, false, "Whether lag is checked once per host rather than once per host and hostgroup.")
        .needless("lag is checked once per server, whatever hostgroups it is in"),
    integer("mysql-monitor_replication_lag_interval", Essential, 10_000, 100, 604_800_000, "Milliseconds between two checks of a replica's lag.")
        .monitored_as_integer(|s, n| s.timing_mut("replication_lag").interval = ms(n)),
    integer("mysql-monitor_replication_lag_timeout", Useful, 1000, 100, 600_000, "Milliseconds that a replica has to answer a check of its lag.")
        .monitored_as_integer(|s, n| s.timing_mut("replication_lag").timeout = ms(n)),
    text("mysql-monitor_replication_lag_use_percona_heartbeat", Useful, Form::TableName, "", "Table of pt-heartbeat, as `schema.table`, that lag is read from; empty: from the replica's own status.")
        .monitored_as_text(|s, t| s.heartbeat = t.to_owned()),
    integer("mysql-monitor_slave_lag_when_null", Essential, 60, 0, 604_800, "Seconds of lag assumed for a replica that reports NULL.")
        .monitored_as_integer(|s, n| s.lag_when_null = count(n)),
    integer("mysql-monitor_threads_max", Obscure, 128, 4, 1024, "Maximum number of threads of ProxySQL's monitor.")
        .needless("the monitor is one thread, whose checks do not wait for each other"),
    integer("mysql-monitor_threads_min", Obscure, 8, 2, 256, "Minimum number of threads of ProxySQL's monitor.")
        .needless("the monitor is one thread, whose checks do not wait for each other"),
    integer("mysql-monitor_threads_queue_maxsize", Obscure, 128, 16, 1024, "Number of waiting checks at which ProxySQL starts another monitor thread.")
        .needless("the monitor is one thread, whose checks do not wait for each other"),
    text("mysql-monitor_username", Essential, Form::NotEmpty, "monitor", "Account that the monitor uses on the servers.")
        .monitored_as_text(|s, t| s.username = t.to_owned()),
    flag("mysql-monitor_wait_timeout", Obscure, true, "Whether the monitor sets wait_timeout on its connections."),
    flag("mysql-monitor_writer_is_also_reader", Essential, true, "Whether a writer is also in the reader hostgroup.")
        .monitored_as_flag(|s, b| s.writer_is_also_reader = b),
    flag("mysql-multiplexing", Essential, true, "Whether sessions share server connections from statement to statement.")
        .read_as_flag(|v, b| v.multiplexing = b),
    integer("mysql-offline_soft_timeout", Useful, 0, 0, 31_536_000, "Seconds for which transactions, and sessions that are pinned to a server, may continue after it has become OFFLINE_SOFT; 0: no limit. (Not in ProxySQL.)")
        .read_as_integer(|v, n| v.offline_soft_timeout = seconds(n)),
    flag("mysql-parse_failure_logs_digest", Obscure, false, "Whether the log shows the digest instead of the text of a SET that cannot be parsed."),
    integer("mysql-ping_interval_server_msec", Useful, 10_000, 1000, 604_800_000, "Milliseconds between two pings of an idle server connection.")
        .read_as_integer(|v, n| v.ping_interval_server = ms(n)),
    integer("mysql-ping_timeout_server", Useful, 200, 10, 600_000, "Milliseconds that a server has to answer such a ping.")
        .read_as_integer(|v, n| v.ping_timeout_server = ms(n)),
    integer("mysql-poll_timeout", Obscure, 2000, 10, 20_000, "Milliseconds for which ProxySQL's threads wait for events.")
        .needless("workers sleep until there is something to do"),
    integer("mysql-poll_timeout_on_failure", Obscure, 100, 10, 20_000, "Milliseconds for which they wait after a failed connect.")
        .needless("workers sleep until there is something to do"),
    text("mysql-proxy_protocol_networks", Useful, Form::Networks, "", "Networks from which connections may begin with a PROXY protocol header, version 1 or 2; `*`: all.")
        .read_as_text(|v, s| v.proxy_protocol_networks = Networks::parse(s)),
    integer("mysql-query_cache_handle_warnings", Obscure, 0, 0, 1, "1: results with warnings are cached too, and returned without the warnings.")
        .read_as_integer(|v, n| v.query_cache_handle_warnings = n == 1),
    integer("mysql-query_cache_size_MB", Useful, 256, 0, 10_485_760, "Most megabytes that the query cache uses; 0: nothing is cached.")
        .read_as_integer(|v, n| v.query_cache_size = size(n) << 20),
    integer("mysql-query_cache_soft_ttl_pct", Useful, 0, 0, 100, "Percentage of a cached result's lifetime after which one client renews it while the others still receive it; 0: never.")
        .read_as_integer(|v, n| v.query_cache_soft_ttl_pct = count(n)),
    flag("mysql-query_cache_stores_empty_result", Useful, true, "Whether empty results are cached if the rule does not say.")
        .read_as_flag(|v, b| v.query_cache_stores_empty_result = b),
    flag("mysql-query_digests", Essential, true, "Whether digests are computed. If not, `digest` and `match_digest` are not evaluated, as in ProxySQL: a rule then matches if its other conditions hold.")
        .read_as_flag(|v, b| v.query_digests = b),
    integer("mysql-query_digests_grouping_limit", Useful, 3, 1, 2089, "Values of a list that a digest shows before `...`.")
        .read_as_integer(|v, n| v.query_digests_grouping_limit = size(n)),
    integer("mysql-query_digests_groups_grouping_limit", Useful, 10, 0, 2089, "Groups of values that a digest shows before `...`; 0: all of them.")
        .read_as_integer(|v, n| v.query_digests_groups_grouping_limit = size(n)),
    flag("mysql-query_digests_keep_comment", Useful, false, "Whether `/* */` comments stay in the digest.")
        .read_as_flag(|v, b| v.query_digests_keep_comment = b),
    flag("mysql-query_digests_lowercase", Useful, false, "Whether the digest text is converted to lower case.")
        .read_as_flag(|v, b| v.query_digests_lowercase = b),
    integer("mysql-query_digests_max_digest_length", Useful, 2048, 16, 1_048_576, "Bytes of a digest text that are kept.")
        .read_as_integer(|v, n| v.query_digests_max_digest_length = size(n)),
    integer("mysql-query_digests_max_query_length", Useful, 65_000, 16, 1_048_576, "Bytes of a statement that are read for its digest.")
        .read_as_integer(|v, n| v.query_digests_max_query_length = size(n)),
    flag("mysql-query_digests_no_digits", Useful, false, "Whether digits inside names become `?` too.")
        .read_as_flag(|v, b| v.query_digests_no_digits = b),
    flag("mysql-query_digests_normalize_digest_text", Obscure, false, "Whether each digest text is kept once only.")
        .needless("it only changes how ProxySQL stores digests"),
    flag("mysql-query_digests_replace_null", Useful, false, "Whether NULL becomes `?` too.")
        .read_as_flag(|v, b| v.query_digests_replace_null = b),
    flag("mysql-query_digests_track_hostname", Useful, false, "Whether digests are counted separately for each client address.")
        .read_as_flag(|v, b| v.query_digests_track_hostname = b),
    integer("mysql-query_processor_iterations", Obscure, 0, 0, 1_000_000, "How often flagOUT may lead back to the first rule; 0: rules are evaluated in ascending order only.")
        .read_as_integer(|v, n| v.query_processor_iterations = count(n)),
    integer("mysql-query_processor_regex", Useful, 1, 1, 2, "ProxySQL's choice of regular expression engine. Narrows uses the one that an expression needs.")
        .needless("each regular expression is run by the engine that it needs"),
    integer("mysql-query_retries_on_failure", Useful, 1, 0, 1000, "How often a statement may be run again after a server has failed, if that is safe.")
        .read_as_integer(|v, n| v.query_retries_on_failure = count(n)),
    integer("mysql-query_rules_fast_routing_algorithm", Obscure, 1, 1, 2, "ProxySQL's choice between one fast-routing map per thread (1) and one for all threads (2).")
        .needless("all workers share one map"),
    integer("mysql-reset_connection_algorithm", Obscure, 2, 1, 2, "ProxySQL's choice of who resets connections.")
        .needless("each worker resets its own connections"),
    integer("mysql-server_capabilities", Obscure, 569_867, 11, 4_294_967_295, "Capability bits that ProxySQL offers to clients. Narrows offers those that it supports.")
        .needless("Narrows offers the capabilities that it has"),
    text("mysql-server_version", Essential, Form::NotEmpty, "8.0.11", "Version that the greeting announces to clients.")
        .read_as_text(|v, s| v.server_version = s.to_owned()),
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
    integer("mysql-shun_on_failures", Useful, 5, 0, 10_000_000, "Failed connects within a second after which a server is SHUNNED, if its hostgroup has another; at most `connect_retries_on_failure` + 1.")
        .read_as_integer(|v, n| v.shun_on_failures = count(n)),
    integer("mysql-shun_recovery_time_sec", Useful, 10, 0, 31_536_000, "Seconds after which a server that was SHUNNED because of failed connects is tried again, at most `connect_timeout_server_max` less one second; 0: only after LOAD MYSQL SERVERS TO RUNTIME.")
        .read_as_integer(|v, n| v.shun_recovery_time = seconds(n)),
    text("mysql-ssl_p2s_ca", Useful, Form::Any, "", "File of the CA certificates that server certificates are verified against.")
        .read_by_name(),
    text("mysql-ssl_p2s_capath", Useful, Form::Any, "", "Folder of such files.")
        .read_by_name(),
    text("mysql-ssl_p2s_cert", Useful, Form::Any, "", "File of the client certificate presented to servers.")
        .read_by_name(),
    text("mysql-ssl_p2s_cipher", Useful, Form::Any, "", "Ciphers allowed for connections to servers.")
        .read_by_name(),
    text("mysql-ssl_p2s_crl", Useful, Form::Any, "", "File of certificate revocation lists.")
        .read_by_name(),
    text("mysql-ssl_p2s_crlpath", Useful, Form::Any, "", "Folder of such files.")
        .read_by_name(),
    text("mysql-ssl_p2s_key", Useful, Form::Any, "", "File of that certificate's private key.")
        .read_by_name(),
    integer("mysql-stacksize", Obscure, 1_048_576, 262_144, 4_194_304, "Bytes of stack of ProxySQL's threads.")
        .needless("workers have stacks of a fixed size"),
    integer("mysql-stall_bytes_client", Obscure, 1024, 1, 1_073_741_824, "See stall_timeout_client. (Not in ProxySQL.)")
        .read_as_integer(|v, n| v.transfer.stall_bytes_client = n.unsigned_abs()),
    integer("mysql-stall_timeout_client", Useful, 60_000, 0, 31_536_000_000, "Milliseconds within which a client that occupies a server connection in the middle of a command must send or read stall_bytes_client bytes; otherwise it is disconnected, because it has stopped sending a command or a file, or reading a result. Only time in which Narrows waits for the client counts. For a session that has set net_read_timeout or net_write_timeout, that time applies instead, up to wait_timeout. 0: no limit. (Not in ProxySQL.)")
        .read_as_integer(|v, n| v.transfer.stall_timeout_client = ms(n)),
    integer("mysql-stall_timeout_server", Useful, 60_000, 0, 3_600_000, "Milliseconds within which a server must read some bytes of a command that is being sent to it; otherwise the connection is closed, and the client receives error 2013. 0: no limit. (Not in ProxySQL.)")
        .read_as_integer(|v, n| v.transfer.stall_timeout_server = ms(n)),
    flag("mysql-stats_time_backend_query", Obscure, false, "Whether the time that servers take is added up.")
        .read_as_flag(|v, b| v.stats_time_backend_query = b),
    flag("mysql-stats_time_query_processor", Obscure, false, "Whether the time that rules take is added up.")
        .read_as_flag(|v, b| v.stats_time_query_processor = b),
    integer("mysql-tcp_keepalive_time", Useful, 120, 0, 7200, "Seconds of silence on a connection after which TCP checks whether the peer is still there.")
        .read_as_integer(|v, n| v.tcp_keepalive = (n > 0).then(|| seconds(n))),
    integer("mysql-threads", Essential, 0, 0, 255, "Worker threads. 0, the default, is one per core (ProxySQL: 4).").after_restart()
        .read_as_integer(|v, n| v.threads = size(n)),
    integer("mysql-threshold_query_length", Useful, 524_288, 1024, 1_073_741_824, "Bytes of a statement above which its server connection is not used again."),
    integer("mysql-threshold_resultset_size", Useful, 4_194_304, 1024, 1_073_741_824, "Bytes of the largest result that is cached. (ProxySQL buffers results up to this size; Narrows always streams.)")
        .read_as_integer(|v, n| v.threshold_resultset_size = size(n)),
    integer("mysql-throttle_connections_per_sec_to_hostgroup", Useful, 1_000_000, 1, 100_000_000, "Most new server connections per second and hostgroup.")
        .read_as_integer(|v, n| v.throttle_connections_per_sec_to_hostgroup = count(n)),
    integer("mysql-throttle_max_bytes_per_second_to_client", Obscure, 0, 0, 2_147_483_647, "Most bytes of results that are sent to a client per second; 0: no limit.")
        .read_as_integer(|v, n| v.transfer.throttle_to_client = n.unsigned_abs()),
    integer("mysql-throttle_ratio_server_to_client", Obscure, 0, 0, 100, "How much faster than its client a server may be read; 0: no limit."),
    integer("mysql-unshun_algorithm", Obscure, 0, 0, 1, "1: when a server that was SHUNNED because of failed connects is reached again in one hostgroup, it is back in all hostgroups with the same host and port; 0: each hostgroup finds out by itself.")
        .read_as_integer(|v, n| v.unshun_algorithm = if n == 1 { UnshunAlgorithm::AllAtOnce } else { UnshunAlgorithm::OneByOne }),
    integer("mysql-upload_buffer_size", Useful, 16_777_216, 1_048_576, 1_073_741_824, "Bytes of the longest command that Narrows reads in full from the client before it takes a server connection for it. Longer ones are passed on as they arrive. (Not in ProxySQL.)")
        .read_as_integer(|v, n| v.transfer.upload_buffer_size = n.unsigned_abs()),
    integer("mysql-upload_buffers_total", Useful, 268_435_456, 0, 1_099_511_627_776, "Most bytes of memory for all such commands together; once it is used up, further ones are passed on as they arrive. (Not in ProxySQL.)")
        .read_as_integer(|v, n| v.transfer.upload_buffers_total = n.unsigned_abs()),
    flag("mysql-use_tcp_keepalive", Useful, true, "Whether TCP keepalive is on for connections to clients and servers.")
        .read_as_flag(|v, b| v.tcp_keepalive = v.tcp_keepalive.filter(|_| b)),
    flag("mysql-verbose_query_error", Obscure, false, "Whether the log says more about statements that fail."),
    integer("mysql-wait_timeout", Essential, 28_800_000, 0, 1_728_000_000, "Milliseconds that a client may be idle before it is disconnected; if it sets a shorter wait_timeout itself, that applies.")
        .read_as_integer(|v, n| v.wait_timeout = ms(n)),
    text("admin-admin_credentials", Essential, Form::Credentials, "admin:admin", "Accounts of the admin interface. Those named admin, stats or monitor may connect from the same machine only.")
        .read_by_name(),
    flag("admin-checksum_admin_variables", Obscure, true, "Deprecated: false prevents admin_variables from being copied from other nodes, like a diffs_before_sync of 0."),
    flag("admin-checksum_ldap_variables", Obscure, true, "Deprecated: false prevents ldap_variables from being copied from other nodes, like a diffs_before_sync of 0."),
    flag("admin-checksum_mysql_query_rules", Obscure, true, "Deprecated: false prevents mysql_query_rules from being copied from other nodes, like a diffs_before_sync of 0."),
    flag("admin-checksum_mysql_servers", Obscure, true, "Deprecated: false prevents mysql_servers from being copied from other nodes, like a diffs_before_sync of 0."),
    flag("admin-checksum_mysql_users", Obscure, true, "Deprecated: false prevents mysql_users from being copied from other nodes, like a diffs_before_sync of 0."),
    flag("admin-checksum_mysql_variables", Obscure, true, "Deprecated: false prevents mysql_variables from being copied from other nodes, like a diffs_before_sync of 0."),
    integer("admin-cluster_admin_variables_diffs_before_sync", Essential, 3, 0, 1000, "Checks in a row that must find another node's admin_variables different before they are copied; 0: never."),
    flag("admin-cluster_admin_variables_save_to_disk", Essential, true, "Whether admin_variables copied from another node are also saved to disk."),
    integer("admin-cluster_check_interval_ms", Essential, 1000, 10, 300_000, "Milliseconds between two checks of the other nodes' checksums."),
    integer("admin-cluster_check_status_frequency", Useful, 10, 0, 10_000, "After how many such checks the other nodes' status is also checked."),
    integer("admin-cluster_ldap_variables_diffs_before_sync", Essential, 3, 0, 1000, "Checks in a row that must find another node's ldap_variables different before they are copied; 0: never."),
    flag("admin-cluster_ldap_variables_save_to_disk", Essential, true, "Whether ldap_variables copied from another node are also saved to disk."),
    integer("admin-cluster_mysql_query_rules_diffs_before_sync", Essential, 3, 0, 1000, "Checks in a row that must find another node's mysql_query_rules different before they are copied; 0: never."),
    flag("admin-cluster_mysql_query_rules_save_to_disk", Essential, true, "Whether mysql_query_rules copied from another node are also saved to disk."),
    integer("admin-cluster_mysql_servers_diffs_before_sync", Essential, 3, 0, 1000, "Checks in a row that must find another node's mysql_servers different before they are copied; 0: never."),
    flag("admin-cluster_mysql_servers_save_to_disk", Essential, true, "Whether mysql_servers copied from another node are also saved to disk."),
    integer("admin-cluster_mysql_servers_sync_algorithm", Useful, 1, 1, 3, "Which tables of servers are copied: 1 the runtime and the configured ones, 2 the configured ones, 3 depending on whether the monitor is on."),
    integer("admin-cluster_mysql_users_diffs_before_sync", Essential, 3, 0, 1000, "Checks in a row that must find another node's mysql_users different before they are copied; 0: never."),
    flag("admin-cluster_mysql_users_save_to_disk", Essential, true, "Whether mysql_users copied from another node are also saved to disk."),
    integer("admin-cluster_mysql_variables_diffs_before_sync", Essential, 3, 0, 1000, "Checks in a row that must find another node's mysql_variables different before they are copied; 0: never."),
    flag("admin-cluster_mysql_variables_save_to_disk", Essential, true, "Whether mysql_variables copied from another node are also saved to disk."),
    text("admin-cluster_password", Essential, Form::Any, "", "Password of cluster_username."),
    integer("admin-cluster_proxysql_servers_diffs_before_sync", Essential, 3, 0, 1000, "Checks in a row that must find another node's proxysql_servers different before they are copied; 0: never."),
    flag("admin-cluster_proxysql_servers_save_to_disk", Essential, true, "Whether proxysql_servers copied from another node are also saved to disk."),
    text("admin-cluster_username", Essential, Form::Any, "", "Account used on the other nodes' admin interfaces; empty: the configuration is not shared."),
    integer("admin-coredump_generation_interval_ms", Obscure, 30_000, 0, 2_147_483_646, "Milliseconds that must pass between two core dumps on demand.")
        .needless("no core files are written, as passwords and keys would be in them"),
    integer("admin-coredump_generation_threshold", Obscure, 10, 1, 500, "Most core dumps on demand.")
        .needless("no core files are written, as passwords and keys would be in them"),
    text("admin-mysql_ifaces", Essential, Form::Addresses, "127.0.0.1:6032", "Where the admin interface listens (ProxySQL: 0.0.0.0:6032).")
        .read_by_name(),
    integer("admin-prometheus_memory_metrics_interval", Useful, 61, 1, 604_799, "Seconds between two measurements of memory for the metrics.")
        .needless("memory is measured when the metrics are requested"),
    flag("admin-read_only", Essential, false, "Whether the admin interface refuses changes.")
        .read_by_name(),
    integer("admin-refresh_interval", Obscure, 2000, 101, 99_999, "Milliseconds between two wake-ups of ProxySQL's admin thread.")
        .needless("the admin interface sleeps until there is something to do"),
    flag("admin-restapi_enabled", Essential, false, "Whether the HTTP interface listens."),
    integer("admin-restapi_port", Essential, 6070, 1, 65_534, "Port of the HTTP interface."),
    text("admin-ssl_keylog_file", Useful, Form::Any, "", "File that receives the session keys of TLS, for debugging; empty: none.")
        .read_by_name(),
    text("admin-stats_credentials", Essential, Form::Credentials, "stats:stats", "Accounts of the admin interface that may read statistics and nothing else.")
        .read_by_name(),
    integer("admin-stats_mysql_connection_pool", Useful, 60, 0, 300, "Seconds between two samples of the connection pool; 0: none.")
        .read_by_name(),
    integer("admin-stats_mysql_connections", Useful, 60, 0, 300, "Seconds between two samples of connection counts; 0: none.")
        .read_by_name(),
    integer("admin-stats_mysql_query_cache", Useful, 60, 0, 300, "Seconds between two samples of the query cache; 0: none.")
        .read_by_name(),
    integer("admin-stats_mysql_query_digest_to_disk", Useful, 0, 0, 86_400, "Seconds between two copies of the digest table to disk; 0: none."),
    integer("admin-stats_system_cpu", Useful, 60, 0, 600, "Seconds between two samples of CPU time; 0: none.")
        .read_by_name(),
    integer("admin-stats_system_memory", Useful, 60, 0, 600, "Seconds between two samples of memory; 0: none.")
        .read_by_name(),
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

impl Variable {
    /// The variable with that full name, case-insensitive.
    pub fn named(name: &str) -> Option<&'static Variable> {
        VARIABLES.iter().find(|variable| variable.name.eq_ignore_ascii_case(name))
    }

    const fn row(name: &'static str, class: Class, kind: Kind, doc: &'static str) -> Variable {
        Variable { name, class, kind, needs_restart: false, reader: Reader::Nobody, doc }
    }

    /// Read where it is needed, by its name.
    const fn read_by_name(self) -> Variable {
        Variable { reader: Reader::Name, ..self }
    }

    /// Without effect, because there is nothing for it to do.
    const fn needless(self, why: &'static str) -> Variable {
        Variable { reader: Reader::Needless(why), ..self }
    }

    const fn after_restart(self) -> Variable {
        Variable { needs_restart: true, ..self }
    }

    const fn read_as_integer(self, read: fn(&mut Variables, i64)) -> Variable {
        Variable { reader: Reader::Integer(read), ..self }
    }

    const fn read_as_flag(self, read: fn(&mut Variables, bool)) -> Variable {
        Variable { reader: Reader::Flag(read), ..self }
    }

    const fn read_as_text(self, read: fn(&mut Variables, &str)) -> Variable {
        Variable { reader: Reader::Text(read), ..self }
    }

    const fn monitored_as_integer(self, read: fn(&mut MonitorSettings, i64)) -> Variable {
        Variable { reader: Reader::MonitorInteger(read), ..self }
    }

    const fn monitored_as_flag(self, read: fn(&mut MonitorSettings, bool)) -> Variable {
        Variable { reader: Reader::MonitorFlag(read), ..self }
    }

    const fn monitored_as_text(self, read: fn(&mut MonitorSettings, &str)) -> Variable {
        Variable { reader: Reader::MonitorText(read), ..self }
    }
}

fn ms(value: i64) -> Duration {
    Duration::from_millis(value.unsigned_abs())
}

fn seconds(value: i64) -> Duration {
    Duration::from_secs(value.unsigned_abs())
}

fn count(value: i64) -> u32 {
    u32::try_from(value).expect(RANGE_CHECKED)
}

fn size(value: i64) -> usize {
    usize::try_from(value).expect(RANGE_CHECKED)
}

const RANGE_CHECKED: &str = "the variable's range has been checked and fits the type";
