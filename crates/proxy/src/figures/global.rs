//! The counters and gauges of `stats_mysql_global`, one row each.

use std::collections::BTreeMap;

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident = $name:literal;)*) => {
        /// One worker's counters since the start, or the sum of all workers'.
        ///
        /// Gauges (current values) are 0 while a worker counts and are filled in when they are read.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $field: u64,)*
            /// How often a session was pinned to its backend connection, by the name of the reason.
            pub pins: BTreeMap<&'static str, u64>,
            /// Transactions whose server was lost, where they are to be run again, by what became of them.
            pub replays: BTreeMap<&'static str, u64>,
            /// Logins whose passwords a server was to be asked about, by what became of that.
            pub passthrough: BTreeMap<&'static str, u64>,
            /// How often `mysql-auth_query` was run, by what became of that.
            pub auth_queries: BTreeMap<&'static str, u64>,
            /// How often no server of a hostgroup was available in time, by the name of the cause.
            pub unavailable: BTreeMap<(i32, &'static str), u64>,
            /// How often a server of a hostgroup was chosen, where its servers are not all equal: by its zone, and of
            /// the backups.
            pub choices: BTreeMap<(i32, &'static str), u64>,
            /// Sessions of servers that were not as they were believed to be, by the variable that differed.
            pub mismatches: BTreeMap<String, u64>,
        }

        impl Counters {
            /// Adds another worker's counters.
            pub fn add(&mut self, other: &Counters) {
                $(self.$field += other.$field;)*
                for (reason, count) in &other.pins {
                    *self.pins.entry(reason).or_default() += count;
                }
                for (outcome, count) in &other.replays {
                    *self.replays.entry(outcome).or_default() += count;
                }
                for (outcome, count) in &other.auth_queries {
                    *self.auth_queries.entry(outcome).or_default() += count;
                }
                for (outcome, count) in &other.passthrough {
                    *self.passthrough.entry(outcome).or_default() += count;
                }
                for (cause, count) in &other.unavailable {
                    *self.unavailable.entry(*cause).or_default() += count;
                }
                for (variable, count) in &other.mismatches {
                    *self.mismatches.entry(variable.clone()).or_default() += count;
                }
                for (chosen, count) in &other.choices {
                    *self.choices.entry(*chosen).or_default() += count;
                }
            }

            /// Every figure that is counted, by its name in `stats_mysql_global`.
            fn counted(&self) -> Vec<(&'static str, u64)> {
                vec![$(($name, self.$field),)*]
            }
        }
    };
}

counters! {
    /// Seconds since the start.
    uptime_s = "ProxySQL_Uptime";
    /// Sessions in a transaction, now.
    active_transactions = "Active_Transactions";
    /// Clients that disconnected without `COM_QUIT`, were disconnected, or never logged in.
    aborted_clients = "Client_Connections_aborted";
    /// Client connections, now, including those that have not logged in.
    connected_clients = "Client_Connections_connected";
    /// Client connections accepted.
    created_clients = "Client_Connections_created";
    /// Clients with a running command, now.
    busy_clients = "Client_Connections_non_idle";
    /// Connections to servers that could not be opened.
    aborted_backends = "Server_Connections_aborted";
    /// Connections to servers that are open or being opened, now.
    connected_backends = "Server_Connections_connected";
    /// Connections to servers that were opened.
    created_backends = "Server_Connections_created";
    /// Bytes of buffers for answers of servers, now.
    backend_buffer_bytes = "mysql_backend_buffers_bytes";
    /// Bytes of buffers for what clients sent, now.
    client_buffer_bytes = "mysql_frontend_buffers_bytes";
    /// Bytes of the sessions themselves, now, without tasks and shared states.
    session_bytes = "mysql_session_internal_bytes";
    /// `SET autocommit` statements.
    autocommits = "Com_autocommit";
    /// `COMMIT` statements.
    commits = "Com_commit";
    /// `ROLLBACK` statements of whole transactions.
    rollbacks = "Com_rollback";
    /// `COM_CHANGE_USER` sent to servers.
    backend_change_users = "Com_backend_change_user";
    /// `COM_INIT_DB` sent to servers to bring a connection into a client's schema.
    backend_init_dbs = "Com_backend_init_db";
    /// `SET` statements sent to servers to bring a connection into a client's state.
    backend_sets = "Com_backend_set_names";
    /// `COM_INIT_DB` received.
    client_init_dbs = "Com_frontend_init_db";
    /// `SET NAMES` and `SET CHARACTER SET` received.
    client_set_names = "Com_frontend_set_names";
    /// `USE` received.
    client_uses = "Com_frontend_use_db";
    /// `COM_STMT_PREPARE` sent to servers.
    backend_prepares = "Com_backend_stmt_prepare";
    /// `COM_STMT_EXECUTE` sent to servers.
    backend_executes = "Com_backend_stmt_execute";
    /// `COM_STMT_CLOSE` sent to servers.
    backend_closes = "Com_backend_stmt_close";
    /// `COM_STMT_PREPARE` received.
    client_prepares = "Com_frontend_stmt_prepare";
    /// `COM_STMT_EXECUTE` received.
    client_executes = "Com_frontend_stmt_execute";
    /// `COM_STMT_CLOSE` received.
    client_closes = "Com_frontend_stmt_close";
    /// `COM_QUERY`, `COM_STMT_PREPARE` and `COM_STMT_EXECUTE` received.
    questions = "Questions";
    /// Statements that took `long_query_time` or longer.
    slow_queries = "Slow_queries";
    /// Bytes of commands sent to servers.
    backend_bytes_sent = "Queries_backends_bytes_sent";
    /// Bytes of answers read from servers.
    backend_bytes_received = "Queries_backends_bytes_recv";
    /// Bytes sent to clients.
    client_bytes_sent = "Queries_frontends_bytes_sent";
    /// Bytes of commands received from clients.
    client_bytes_received = "Queries_frontends_bytes_recv";
    /// Time in digests and rules, while `stats_time_query_processor` is on.
    rules_time_ns = "Query_Processor_time_nsec";
    /// Time between sending a statement and the end of its answer, while `stats_time_backend_query` is on.
    backend_time_ns = "Backend_query_time_nsec";
    /// Backend connections obtained immediately.
    leases_immediate = "ConnPool_get_conn_immediate";
    /// Backend connections obtained.
    leases = "ConnPool_get_conn_success";
    /// Backend connections that could not be obtained.
    leases_failed = "ConnPool_get_conn_failure";
    /// Backend connections killed because their clients had disconnected.
    killed_backends = "mysql_killed_backend_connections";
    /// Statements killed on their servers.
    killed_statements = "mysql_killed_backend_queries";
    /// Commands whose packets were out of order.
    unexpected_packets = "mysql_unexpected_frontend_packets";
    /// Waits for a backend connection that failed (error 9001).
    connect_timeouts = "max_connect_timeouts";
    /// Statements with a limit of lag (`max_lag_ms`, `min_epoch_ms`) that asked for a connection.
    with_lag = "queries_with_max_lag_ms";
    /// Those of them that had to wait.
    delayed_by_lag = "queries_with_max_lag_ms__delayed";
    /// Microseconds for which they waited.
    lag_wait_us = "queries_with_max_lag_ms__total_wait_time_us";
    /// Narrows' own errors sent to clients.
    generated_errors = "generated_error_packets";
    /// `SELECT ... FOR UPDATE` with autocommit off.
    locking_selects = "Selects_for_update__autocommit0";
    /// Worker threads.
    workers = "MySQL_Thread_Workers";
    /// Logins refused because of the password, or because of an unknown user.
    wrong_passwords = "Access_Denied_Wrong_Password";
    /// Clients refused because of `mysql-max_connections`.
    too_many_clients = "Access_Denied_Max_Connections";
    /// Clients refused because of their user's `max_connections`.
    too_many_of_user = "Access_Denied_Max_User_Connections";
    /// Backend connections requested from the pool.
    pool_asked = "MyHGM_myconnpoll_get";
    /// Backend connections that the pool provided.
    pool_given = "MyHGM_myconnpoll_get_ok";
    /// Backend connections that came back to the pool.
    pool_returned = "MyHGM_myconnpoll_push";
    /// Backend connections closed instead of coming back.
    pool_destroyed = "MyHGM_myconnpoll_destroy";
    /// Backend connections reset before they came back.
    pool_reset = "MyHGM_myconnpoll_reset";
    /// Bytes of idle backend connections, now.
    pool_bytes = "ConnPool_memory_bytes";
    /// Prepared statements of clients, now.
    client_statements = "Stmt_Client_Active_Total";
    /// Different prepared statements of clients, now.
    client_statements_unique = "Stmt_Client_Active_Unique";
    /// Prepared statements on servers, now.
    backend_statements = "Stmt_Server_Active_Total";
    /// Different prepared statements on servers, now.
    backend_statements_unique = "Stmt_Server_Active_Unique";
    /// The highest id assigned to a prepared statement.
    highest_statement = "Stmt_Max_Stmt_id";
    /// Prepared statements that clients or backend connections hold, each counted once per worker.
    known_statements = "Stmt_Cached";
    /// Bytes of the query cache, now.
    query_cache_bytes = "Query_Cache_Memory_bytes";
    /// Lookups in the query cache.
    query_cache_gets = "Query_Cache_count_GET";
    /// Lookups that found an answer, or that waited for one together with others.
    query_cache_hits = "Query_Cache_count_GET_OK";
    /// Answers put into the query cache.
    query_cache_sets = "Query_Cache_count_SET";
    /// Bytes put into the query cache.
    query_cache_bytes_in = "Query_Cache_bytes_IN";
    /// Bytes of answers sent to clients from the query cache.
    query_cache_bytes_out = "Query_Cache_bytes_OUT";
    /// Answers removed from the query cache because they expired, or because others were used more.
    query_cache_purged = "Query_Cache_Purged";
    /// Answers in the query cache, now.
    query_cache_entries = "Query_Cache_Entries";
    /// Logins that succeeded.
    logins = "Narrows_logins";
    /// Logins that were refused, or never completed.
    login_failures = "Narrows_login_failures";
    /// Sessions that ended by a panic.
    panics = "Narrows_panics";
    /// Statements that ran although they are not in the whitelist.
    firewall_noted = "Narrows_firewall_detected";
    /// Statements that were refused because they are not in the whitelist.
    firewall_refused = "Narrows_firewall_refused";
    /// Statements classified as reads that a read-only server refused, and that ran on a writer.
    reads_run_on_writers = "Narrows_reads_run_on_writers";
    /// Statements that had to see writes (`causal_reads`) and ran on a replica that was known to have them.
    causal_known = "Narrows_causal_reads_known";
    /// Those that ran on a replica that was waited for.
    causal_waited = "Narrows_causal_reads_waited";
    /// Those that ran on the writer, because no replica had the writes in time.
    causal_on_writer = "Narrows_causal_reads_on_writer";
    /// Those that ran on the writer, because it was not known what had been written.
    causal_unknown = "Narrows_causal_reads_unknown";
    /// Statements that had to see writes.
    causal_reads = "GTID_consistent_queries";
    /// Reports of GTIDs that servers have sent.
    gtids_collected = "GTID_session_collected";
    /// Statements that ran again on another connection, after a server was lost or had refused them.
    retries = "Narrows_retries";
    /// Hints in comments that have no effect here, or whose value is not a number.
    hints_ignored = "Narrows_hints_ignored";
    /// Mirrored statements that ran.
    mirrors_run = "Narrows_mirrors_run";
    /// Mirrored statements that could not run.
    mirrors_failed = "Narrows_mirrors_failed";
    /// Mirrored statements dropped because the queue was full.
    mirrors_dropped = "Narrows_mirrors_dropped";
    /// Clients that held a server connection in the middle of a command and moved too little (`mysql-stall_timeout_client`).
    stalled_clients = "Narrows_stalled_clients";
    /// Servers that did not take a command in time (`mysql-stall_timeout_server`).
    stalled_backends = "Narrows_stalled_servers";
    /// Killed statements that their servers did not end in time (`mysql-kill_timeout_server`).
    ignored_kills = "Narrows_ignored_kills";
    /// Commands too long, or too many at once, to be read before a server connection is obtained.
    streamed_commands = "Narrows_streamed_commands";
    /// Server connections whose real session was compared with what Narrows knows of it (`mysql-verify_sessions`).
    sessions_verified = "Narrows_sessions_verified";
    /// Those of them that were closed because the two differed.
    sessions_mismatched = "Narrows_sessions_mismatched";
    /// Errors of servers that clients received.
    server_errors = "Narrows_server_errors";
    /// Rows of digests dropped to stay within the memory budget.
    digests_dropped = "Narrows_digests_dropped";
    /// Statements that the rules of a dry run (`active=2`) would change.
    dry_run_changes = "Narrows_dry_run_changes";
    /// Those of them that have no row, because the table is full.
    dry_run_overflow = "Narrows_dry_run_overflow";
}

impl Counters {
    /// Every row of `stats_mysql_global` from the data plane: the counters, and 0 for [`NOT_COUNTED`].
    pub fn rows(&self) -> Vec<(&'static str, u64)> {
        let mut rows = self.counted();
        rows.extend(NOT_COUNTED.iter().map(|(name, _)| (*name, 0)));
        rows
    }
}

/// Names of `stats_mysql_global` that are always 0 here, and why.
pub const NOT_COUNTED: &[(&str, &str)] = &[
    (
        "Client_Connections_hostgroup_locked",
        "a session is pinned to a connection, never locked to a hostgroup",
    ),
    ("hostgroup_locked_set_cmds", "a session is pinned to a connection, never locked to a hostgroup"),
    ("hostgroup_locked_queries", "a session is pinned to a connection, never locked to a hostgroup"),
    ("Com_autocommit_filtered", "every SET autocommit is sent on"),
    ("Com_commit_filtered", "every COMMIT is sent on"),
    ("Com_rollback_filtered", "every ROLLBACK is sent on"),
    ("mysql_unexpected_frontend_com_quit", "COM_QUIT is taken at any time"),
    ("Server_Connections_delayed", "opening connections is not throttled"),
    ("ConnPool_get_conn_latency_awareness", "latency does not choose servers yet"),
    ("backend_lagging_during_query", "replication lag does not end statements"),
    ("backend_offline_during_query", "a server taken offline finishes what it runs"),
    (
        "get_aws_aurora_replicas_skipped_during_query",
        "servers that are left out for their lag are not counted one by one",
    ),
    ("client_host_error_killed_connections", "addresses with failed logins are not refused yet"),
    ("new_req_conns_count", "a counter of ProxySQL's own locking"),
];
