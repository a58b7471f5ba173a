//! The `mysql-` variables that the data plane reads, one row each: field, type, kind, default and limits, name, importance,
//! perhaps something special in brackets, and documentation.
//!
//! Each row defines the field of [`Variables`](super::Variables) and its default (`variables.rs`), and in the control
//! plane the variable with its reader (`variables/data_plane.rs`). The kinds are the functions of
//! [`convert`](super::convert). The last three parts, and anything after the default, are for the control plane only.
//! Rows are in the order of their names.

/// Passes all rows to the macro with that name.
#[macro_export]
macro_rules! data_plane_variables {
    ($callback:ident) => {
        $callback! {
            auditlog_filename: String = text("", Form::Any), "mysql-auditlog_filename", Useful [file_prefix],
                "Prefix of the audit log's file names; empty: no audit log in files.";
            auditlog_filesize: u64 = integer(104_857_600, 1_048_576, 1_073_741_824), "mysql-auditlog_filesize", Useful,
                "Bytes after which the audit log continues in a new file.";
            auditlog_output: String = text("file", Form::OneOf(OUTPUTS)), "mysql-auditlog_output", Useful,
                "Where the audit log goes: file, stdout, syslog or journald. (Not in ProxySQL.)";
            aurora_replicas_instead: usize = integer(2, 0, 100), "mysql-aurora_max_lag_ms_only_read_from_replicas", Obscure,
                "Number of replicas with sufficiently low lag from which reads with a lag limit no longer use an Aurora writer; 0: they always may.";
            auth_query: String = text("", Form::Any), "mysql-auth_query", Useful,
                "A statement with one `?`, the name of an account that mysql_users does not have; its rows say how its password is stored. See docs/pass-through.md; empty: none. (Not in ProxySQL.)";
            auth_query_cache_ttl: Duration = ms(3000, 0, 86_400_000), "mysql-auth_query_cache_ttl_ms", Useful,
                "Milliseconds after which auth_query is run again at a login of the same account; after a wrong password it is run again at once, but not more than once a second. (Not in ProxySQL.)";
            auth_query_hostgroup: HostgroupId = integer(0, 0, 2_147_483_647), "mysql-auth_query_hostgroup", Useful,
                "The hostgroup whose servers run auth_query. (Not in ProxySQL.)";
            auth_query_password: String = text("", Form::Secret), "mysql-auth_query_password", Useful,
                "Password of auth_query_username. (Not in ProxySQL.)";
            auth_query_username: String = text("", Form::Any), "mysql-auth_query_username", Useful,
                "Account of the servers with which auth_query is run. (Not in ProxySQL.)";
            auto_read_write_split: bool = flag(false), "mysql-auto_read_write_split", Useful,
                "Whether statements that no rule routes go to replicas if they are certain to be reads; see docs/query-rules.md. An account's attribute of the same name overrides it. (Not in ProxySQL.)";
            auto_read_write_split_functions: Vec<String> = names("", Form::Any), "mysql-auto_read_write_split_functions", Useful,
                "Stored and loadable functions that such a read may call, separated by commas. (Not in ProxySQL.)";
            causal_reads: CausalReads = text("none", Form::OneOf(CausalReads::NAMES)), "mysql-causal_reads", Useful,
                "Which writes a statement that goes to replicas must see: none, those of its session, of all sessions of its account (user), or of all sessions (global); see docs/causal-reads.md. (Not in ProxySQL.)";
            causal_reads_timeout: Duration = ms(100, 1, 60_000), "mysql-causal_reads_timeout_ms", Useful,
                "Milliseconds that a replica is given to apply a write that a statement must see; then the statement goes to the writer. (Not in ProxySQL.)";
            client_host_cache_size: usize = integer(0, 0, 1_048_576), "mysql-client_host_cache_size", Obscure,
                "Most client addresses whose failed logins are counted; 0: none.";
            client_host_error_counts: u32 = integer(0, 0, 1_048_576), "mysql-client_host_error_counts", Obscure,
                "Failed logins after which connections from an address are refused at once; 0: never.";
            client_session_track_gtid: bool = flag(true), "mysql-client_session_track_gtid", Useful,
                "Whether clients that ask for it (session_track_gtids) receive the GTIDs of their transactions.";
            commands_stats: bool = flag(true), "mysql-commands_stats", Useful,
                "Whether statements are counted by kind.";
            connect_retries_delay: Duration = ms(1, 0, 10_000), "mysql-connect_retries_delay", Obscure,
                "Least milliseconds to wait after a failed connect before the same server is tried again; Narrows starts with 20 ms.";
            connect_retries_on_failure: u32 = integer(10, 0, 1000), "mysql-connect_retries_on_failure", Useful,
                "Limits shun_on_failures to this number + 1. Attempts to connect for a statement are limited by connect_timeout_server_max only (in ProxySQL, by this variable too).";
            connect_timeout_client: Duration = ms(10_000, 500, 3_600_000), "mysql-connect_timeout_client", Useful,
                "Milliseconds that a client has to log in.";
            connect_timeout_server: Duration = ms(1000, 10, 120_000), "mysql-connect_timeout_server", Essential,
                "Milliseconds for one attempt to connect to a server.";
            connect_timeout_server_max: Duration = ms(10_000, 10, 3_600_000), "mysql-connect_timeout_server_max", Essential,
                "Milliseconds that a statement waits for a server connection in all; then error 9001, with the causes.";
            connection_max_age: Duration = ms(0, 0, 86_400_000), "mysql-connection_max_age_ms", Useful,
                "Milliseconds after which an idle server connection is closed; 0: no limit.";
            connection_warming: bool = flag(false), "mysql-connection_warming", Obscure,
                "Whether connections are opened before they are needed, up to free_connections_pct.";
            default_authentication_plugin: String = text("mysql_native_password", Form::OneOf(PLUGINS)), "mysql-default_authentication_plugin", Useful,
                "The authentication plugin that the greeting offers.";
            default_charset: String = text("utf8", Form::Charset), "mysql-default_charset", Useful,
                "Character set in the greeting, and of sessions that do not choose one.";
            default_collation_connection: String = text("utf8_general_ci", Form::Collation), "mysql-default_collation_connection", Useful,
                "Collation in the greeting. If only this variable is set, its character set is used too; if default_charset is set to something other than utf8 and the collation does not belong to it, the default collation of that character set is used.";
            default_max_latency: Duration = ms(1000, 0, 1_728_000_000), "mysql-default_max_latency_ms", Useful,
                "Ping time in milliseconds above which a server gets no new statements, if max_latency_ms in its row is 0; 0: no limit.";
            default_query_delay: Duration = ms(0, 0, 3_600_000), "mysql-default_query_delay", Obscure,
                "Milliseconds that every statement waits before it is run.";
            default_query_timeout: Duration = ms(86_400_000, 1000, 1_728_000_000), "mysql-default_query_timeout", Essential,
                "Milliseconds after which a running statement is killed, unless its rule says otherwise.";
            default_schema: String = text("", Form::Any), "mysql-default_schema", Essential,
                "Schema of a session if neither the client nor its account names one; empty: none, as on a server (ProxySQL: information_schema).";
            default_session_track_gtids: String = text("OFF", Form::OneOf(&["OFF", "OWN_GTID"])), "mysql-default_session_track_gtids", Useful,
                "OWN_GTID: MySQL servers report the GTIDs of all writes to Narrows, as they do wherever causal_reads are used; OFF: only there.";
            enable_client_deprecate_eof: bool = flag(true), "mysql-enable_client_deprecate_eof", Useful,
                "Whether clients are offered result sets without EOF packets.";
            enable_load_data_local_infile: bool = flag(false), "mysql-enable_load_data_local_infile", Useful,
                "Whether clients may load their own files with LOAD DATA LOCAL INFILE.";
            enforce_autocommit_on_reads: bool = flag(false), "mysql-enforce_autocommit_on_reads", Useful,
                "Whether a read opens a transaction if the session has autocommit off and rules route the read to a hostgroup other than the account's own. By default it runs outside of any transaction; the next write opens the transaction, in the hostgroup that it is routed to.";
            eventslog_buffer_history_size: usize = integer(0, 0, 1_000_000), "mysql-eventslog_buffer_history_size", Useful,
                "Logged statements that are kept in memory for DUMP EVENTSLOG, at most 256 MiB of them; 0: none.";
            eventslog_buffer_max_query_length: usize = integer(32_768, 128, 33_554_432), "mysql-eventslog_buffer_max_query_length", Useful,
                "Bytes of their texts that are kept; longer ones are cut.";
            eventslog_default_log: bool = integer(0, 0, 1), "mysql-eventslog_default_log", Useful,
                "1: statements are logged unless a rule says otherwise.";
            eventslog_filename: String = text("", Form::Any), "mysql-eventslog_filename", Useful [file_prefix],
                "Prefix of the query log's file names; empty: no query log in files.";
            eventslog_filesize: u64 = integer(104_857_600, 1_048_576, 1_073_741_824), "mysql-eventslog_filesize", Useful,
                "Bytes after which the query log continues in a new file.";
            eventslog_line_format: String = text("json", Form::OneOf(LINE_FORMATS)), "mysql-eventslog_line_format", Useful,
                "The lines of the query log: json, or text as ProxySQL's reader of binary logs prints it. (Not in ProxySQL.)";
            eventslog_output: String = text("file", Form::OneOf(OUTPUTS)), "mysql-eventslog_output", Useful,
                "Where the query log goes: file, stdout, syslog or journald. (Not in ProxySQL.)";
            eventslog_rate_limit: u32 = integer(1, 0, 1_000_000_000), "mysql-eventslog_rate_limit", Useful,
                "Of the statements that are to be logged, one in so many is, chosen at random; 1: all are; 0: only slow ones, see eventslog_slow_time.";
            eventslog_rotate_interval: Duration = seconds(0, 0, 31_536_000), "mysql-eventslog_rotate_interval", Useful,
                "Seconds after which the query log continues in a new file; 0: never. (Not in ProxySQL.)";
            eventslog_slow_time: Duration = ms(0, 0, 1_728_000_000), "mysql-eventslog_slow_time", Useful,
                "Milliseconds from which on a statement that is to be logged is logged whatever eventslog_rate_limit says; 0: never. (Not in ProxySQL.)";
            eventslog_stmt_parameters: bool = integer(0, 0, 1), "mysql-eventslog_stmt_parameters", Useful,
                "1: the query log has the values with which prepared statements are executed.";
            firewall_whitelist_enabled: bool = flag(false), "mysql-firewall_whitelist_enabled", Useful,
                "Whether the firewall tables decide which statements may run.";
            firewall_whitelist_errormsg: String = text("Firewall blocked this query", Form::Any), "mysql-firewall_whitelist_errormsg", Useful,
                "The error message for a client whose statement the firewall refuses.";
            free_connections_pct: u32 = integer(10, 0, 100), "mysql-free_connections_pct", Essential,
                "Most idle connections kept per server, in percent of the server's max_connections.";
            get_server_public_key: bool = flag(false), "mysql-get_server_public_key", Useful,
                "Whether servers that are neither on this host nor connected over TLS may be asked for the RSA key with which caching_sha2_password encrypts passwords. A man in the middle could reply with a different key.";
            handle_warnings: bool = integer(1, 0, 1), "mysql-handle_warnings", Useful,
                "1: SHOW WARNINGS returns the warnings of the last statement, on whatever connection that ran. ProxySQL keeps the connection for this purpose; Narrows keeps only the warnings. 0: warnings are dropped when the connection returns to the pool; their number remains known.";
            have_compress: bool = flag(true), "mysql-have_compress", Useful,
                "Whether clients may use the compressed protocol.";
            have_ssl: bool = flag(true), "mysql-have_ssl", Essential [for_tls],
                "Whether clients may use TLS.";
            init_connect: String = text("", Form::Any), "mysql-init_connect", Useful,
                "Statements that are run first on every new server connection.";
            interfaces: Vec<String> = list("0.0.0.0:6033", Form::Addresses), "mysql-interfaces", Essential [after_restart],
                "Where Narrows listens for clients: any number of TCP addresses and Unix sockets.";
            kill_backend_connection_when_disconnect: bool = flag(true), "mysql-kill_backend_connection_when_disconnect", Useful,
                "Whether a statement is killed on its server when its client disconnects.";
            kill_timeout_server: Duration = ms(10_000, 0, 3_600_000), "mysql-kill_timeout_server", Useful,
                "Milliseconds that a server has to end a statement that was killed by KILL QUERY or a timeout. After that the client receives its error anyway, and the server connection is closed; 0: no limit. (Not in ProxySQL.)";
            long_query_time: Duration = ms(1000, 0, 1_728_000_000), "mysql-long_query_time", Useful,
                "Milliseconds from which on a statement counts as slow.";
            max_allowed_packet: u64 = integer(67_108_864, 8192, 1_073_741_824), "mysql-max_allowed_packet", Useful,
                "Bytes of the largest command that a client may send; a larger one is error 1153.";
            max_connections: u32 = integer(10_000, 1, 1_000_000), "mysql-max_connections", Essential,
                "Most client connections in all; further ones receive error 1040.";
            max_stmts_bytes_per_client: usize = integer(64 << 20, 1 << 20, 1 << 40), "mysql-max_stmts_bytes_per_client", Useful,
                "Most bytes for the prepared statements of one client: a kilobyte plus the text for each; beyond that, error 1461. (Not in ProxySQL.)";
            max_stmts_cache: usize = integer(10_000, 128, 1_048_576), "mysql-max_stmts_cache", Useful,
                "Prepared statements of the whole process beyond which those that no client has open are closed.";
            max_stmts_per_connection: usize = integer(20, 1, 1024), "mysql-max_stmts_per_connection", Useful,
                "Most prepared statements on a server connection; for a further one, the least recently used is closed.";
            max_transaction_idle_time: Duration = ms(14_400_000, 1000, 1_728_000_000), "mysql-max_transaction_idle_time", Useful,
                "Milliseconds that a client may be idle in a transaction before it is disconnected.";
            max_transaction_time: Duration = ms(14_400_000, 1000, 1_728_000_000), "mysql-max_transaction_time", Useful,
                "Milliseconds that a transaction may last before its client is disconnected.";
            min_num_servers_latency_awareness: usize = integer(1000, 0, 10_000), "mysql-min_num_servers_lantency_awareness", Obscure,
                "Servers that a hostgroup must have before latency influences the choice: those that answer pings more slowly than the average then get no statements. (The misspelling is ProxySQL's.)";
            mirror_max_concurrency: usize = integer(16, 1, 8192), "mysql-mirror_max_concurrency", Useful,
                "Most mirrored statements that run at the same time.";
            mirror_max_queue_length: usize = integer(32_000, 0, 1_048_576), "mysql-mirror_max_queue_length", Useful,
                "Most mirrored statements that wait; further ones are dropped.";
            multiplexing: bool = flag(true), "mysql-multiplexing", Essential,
                "Whether sessions share server connections from statement to statement.";
            offline_soft_timeout: Duration = seconds(0, 0, 31_536_000), "mysql-offline_soft_timeout", Useful,
                "Seconds for which transactions, and sessions that are pinned to a server, may continue after it has become OFFLINE_SOFT; 0: no limit. (Not in ProxySQL.)";
            otlp_endpoint: String = text("", Form::Collector), "mysql-otlp_endpoint", Useful,
                "Where traces of statements are sent to, in OTLP over HTTP: the base address of a collector, such as http://127.0.0.1:4318; empty: there are no traces. (Not in ProxySQL.)";
            otlp_rate_limit: u32 = integer(0, 0, 1_000_000_000), "mysql-otlp_rate_limit", Useful,
                "Of the statements that name no trace, one in so many begins one, chosen at random; 1: all do; 0: none does. Statements that name a trace which is recorded are always part of it; those whose query attribute names one as not recorded, as MySQL Connector/Python always does, are part of it at this rate. (Not in ProxySQL.)";
            passthrough_auth_cache_ttl: Duration = seconds(0, 0, 31_536_000), "mysql-passthrough_auth_cache_ttl_s", Useful,
                "Seconds after which a password that a server has confirmed is forgotten unless it was confirmed again; 0: it is kept. Until then its account can log in while no server can be asked.";
            passthrough_auth_empty_password: bool = flag(true), "mysql-passthrough_auth_empty_password", Useful,
                "Whether passthrough_auth_enabled is for accounts whose password in mysql_users is empty. Without it they log in without a password, also while passthrough_auth_enabled is on.";
            passthrough_auth_enabled: bool = flag(false), "mysql-passthrough_auth_enabled", Essential,
                "Whether servers are asked for passwords that Narrows does not have; see docs/pass-through.md.";
            passthrough_auth_failure_map_cap: usize = integer(100_000, 100, 10_000_000), "mysql-passthrough_auth_failure_map_cap", Obscure,
                "Most names and addresses whose failures are counted for passthrough_auth_max_failures_per_user and passthrough_auth_max_failures_per_ip; beyond it, the oldest are forgotten.";
            passthrough_auth_failure_window: Duration = seconds(60, 1, 86_400), "mysql-passthrough_auth_failure_window_s", Useful,
                "Seconds after the first failure for which failures of a name, or from an address, are counted.";
            passthrough_auth_max_failures_per_ip: u32 = integer(10, 0, 1_000_000), "mysql-passthrough_auth_max_failures_per_ip", Useful,
                "Passwords refused by servers after which none is asked for logins from this address, until passthrough_auth_failure_window_s is over; 0: no limit.";
            passthrough_auth_max_failures_per_user: u32 = integer(3, 0, 1_000_000), "mysql-passthrough_auth_max_failures_per_user", Useful,
                "Passwords refused by servers after which none is asked for logins with this name from the same address, until passthrough_auth_failure_window_s is over; 0: no limit. Passwords that a server has confirmed before can be used meanwhile.";
            passthrough_auth_max_inflight_probes: u32 = integer(100, 1, 10_000), "mysql-passthrough_auth_max_inflight_probes", Useful,
                "Most logins for which servers of one hostgroup are asked at the same time.";
            passthrough_auth_recheck: Duration = ms(3000, 0, 86_400_000), "mysql-passthrough_auth_recheck_ms", Useful,
                "Milliseconds after which a login with a password that a server has confirmed is confirmed again: for so long an account that was dropped, or a password that was changed, may be accepted. (Not in ProxySQL.)";
            passthrough_auth_require_tls: bool = flag(true), "mysql-passthrough_auth_require_tls", Useful,
                "Whether clients are asked for passwords over TLS and Unix sockets only. Otherwise also over plain TCP, encrypted with the RSA key of caching_sha2_password.";
            passthrough_auth_unknown_users: bool = flag(false), "mysql-passthrough_auth_unknown_users", Essential,
                "Whether passthrough_auth_enabled is for names that mysql_users does not have, too.";
            passthrough_auth_username_pattern: String = text("", Form::Expression), "mysql-passthrough_auth_username_pattern", Useful,
                "The names for which servers are asked: a regular expression that must match the whole name; empty: all.";
            passthrough_default_hg: HostgroupId = integer(0, 0, 2_147_483_647), "mysql-passthrough_default_hg", Useful,
                "The hostgroup of accounts that mysql_users does not have, which is also the one that is asked, unless a row with the attribute usernames_like says otherwise.";
            passthrough_default_schema: String = text("", Form::Any), "mysql-passthrough_default_schema", Useful,
                "The schema of such an account if the client names none; empty: default_schema.";
            ping_interval_server: Duration = ms(10_000, 1000, 604_800_000), "mysql-ping_interval_server_msec", Useful,
                "Milliseconds between two pings of an idle server connection.";
            ping_timeout_server: Duration = ms(200, 10, 600_000), "mysql-ping_timeout_server", Useful,
                "Milliseconds that a server has to answer such a ping.";
            proxy_protocol_networks: Networks = text("", Form::Networks), "mysql-proxy_protocol_networks", Useful,
                "Networks from which connections may begin with a PROXY protocol header, version 1 or 2; `*`: all.";
            query_cache_handle_warnings: bool = integer(0, 0, 1), "mysql-query_cache_handle_warnings", Obscure,
                "1: results with warnings are cached too, and returned without the warnings.";
            query_cache_size: usize = mebibytes(256, 0, 10_485_760), "mysql-query_cache_size_MB", Useful,
                "Most megabytes that the query cache uses; 0: nothing is cached.";
            query_cache_soft_ttl_pct: u32 = integer(0, 0, 100), "mysql-query_cache_soft_ttl_pct", Useful,
                "Percentage of a cached result's lifetime after which one client renews it while the others still receive it; 0: never.";
            query_cache_stores_empty_result: bool = flag(true), "mysql-query_cache_stores_empty_result", Useful,
                "Whether empty results are cached if the rule does not say.";
            query_digests: bool = flag(true), "mysql-query_digests", Essential,
                "Whether digests are computed. If not, `digest` and `match_digest` are not evaluated, as in ProxySQL: a rule then matches if its other conditions hold.";
            query_digests_grouping_limit: usize = integer(3, 1, 2089), "mysql-query_digests_grouping_limit", Useful,
                "Values of a list that a digest shows before `...`.";
            query_digests_groups_grouping_limit: usize = integer(10, 0, 2089), "mysql-query_digests_groups_grouping_limit", Useful,
                "Groups of values that a digest shows before `...`; 0: all of them.";
            query_digests_keep_comment: bool = flag(false), "mysql-query_digests_keep_comment", Useful,
                "Whether `/* */` comments stay in the digest.";
            query_digests_lowercase: bool = flag(false), "mysql-query_digests_lowercase", Useful,
                "Whether the digest text is converted to lower case.";
            query_digests_max_digest_length: usize = integer(2048, 16, 1_048_576), "mysql-query_digests_max_digest_length", Useful,
                "Bytes of a digest text that are kept.";
            query_digests_max_query_length: usize = integer(65_000, 16, 1_048_576), "mysql-query_digests_max_query_length", Useful,
                "Bytes of a statement that are read for its digest.";
            query_digests_no_digits: bool = flag(false), "mysql-query_digests_no_digits", Useful,
                "Whether digits inside names become `?` too.";
            query_digests_replace_null: bool = flag(false), "mysql-query_digests_replace_null", Useful,
                "Whether NULL becomes `?` too.";
            query_digests_track_hostname: bool = flag(false), "mysql-query_digests_track_hostname", Useful,
                "Whether digests are counted separately for each client address.";
            query_processor_iterations: u32 = integer(0, 0, 1_000_000), "mysql-query_processor_iterations", Obscure,
                "How often flagOUT may lead back to the first rule; 0: rules are evaluated in ascending order only.";
            query_retries_on_failure: u32 = integer(1, 0, 1000), "mysql-query_retries_on_failure", Useful,
                "How often a statement may be run again after a server has failed, if that is safe.";
            server_version: String = text("8.0.11", Form::NotEmpty), "mysql-server_version", Essential,
                "Version that the greeting announces to clients.";
            shun_on_failures: u32 = integer(5, 0, 10_000_000), "mysql-shun_on_failures", Useful,
                "Failed connects within a second after which a server is SHUNNED, if its hostgroup has another; at most `connect_retries_on_failure` + 1.";
            shun_recovery_time: Duration = seconds(10, 0, 31_536_000), "mysql-shun_recovery_time_sec", Useful,
                "Seconds after which a server that was SHUNNED because of failed connects is tried again, at most `connect_timeout_server_max` less one second; 0: only after LOAD MYSQL SERVERS TO RUNTIME.";
            slow_start: Duration = ms(10_000, 0, 3_600_000), "mysql-slow_start_ms", Useful,
                "Milliseconds over which a server that has come back gets all of its share, beginning with a sixteenth; 0: at once. See docs/balancing.md. (Not in ProxySQL.)";
            stall_bytes_client: u64 = integer(1024, 1, 1_073_741_824), "mysql-stall_bytes_client", Obscure,
                "See stall_timeout_client. (Not in ProxySQL.)";
            stall_timeout_client: Duration = ms(60_000, 0, 31_536_000_000), "mysql-stall_timeout_client", Useful,
                "Milliseconds within which a client that occupies a server connection in the middle of a command must send or read stall_bytes_client bytes; otherwise it is disconnected, because it has stopped sending a command or a file, or reading a result. Only time in which Narrows waits for the client counts. For a session that has set net_read_timeout or net_write_timeout, that time applies instead, up to wait_timeout. 0: no limit. (Not in ProxySQL.)";
            stall_timeout_server: Duration = ms(60_000, 0, 3_600_000), "mysql-stall_timeout_server", Useful,
                "Milliseconds within which a server must read some bytes of a command that is being sent to it; otherwise the connection is closed, and the client receives error 2013. 0: no limit. (Not in ProxySQL.)";
            stats_time_backend_query: bool = flag(false), "mysql-stats_time_backend_query", Obscure,
                "Whether the time that servers take is added up.";
            stats_time_query_processor: bool = flag(false), "mysql-stats_time_query_processor", Obscure,
                "Whether the time that rules take is added up.";
            tcp_keepalive_time: Duration = seconds(120, 0, 7200), "mysql-tcp_keepalive_time", Useful,
                "Seconds of silence on a connection after which TCP checks whether the peer is still there.";
            threads: usize = integer(0, 0, 255), "mysql-threads", Essential [after_restart],
                "Worker threads. 0, the default, is one per core (ProxySQL: 4).";
            threshold_resultset_size: usize = integer(4_194_304, 1024, 1_073_741_824), "mysql-threshold_resultset_size", Useful,
                "Bytes of the largest result that is cached. (ProxySQL buffers results up to this size; Narrows always streams.)";
            throttle_connections_per_sec_to_hostgroup: u32 = integer(1_000_000, 1, 100_000_000), "mysql-throttle_connections_per_sec_to_hostgroup", Useful,
                "Most new server connections per second and hostgroup.";
            throttle_to_client: u64 = integer(0, 0, 2_147_483_647), "mysql-throttle_max_bytes_per_second_to_client", Obscure,
                "Most bytes of results that are sent to a client per second; 0: no limit.";
            transaction_replay: bool = flag(false), "mysql-transaction_replay", Useful,
                "Whether a transaction whose server is lost is run again on the next one, each answer compared with what the client has received; see docs/failover.md. An account's or a rule's attribute of the same name overrides it. (Not in ProxySQL.)";
            transaction_replay_max_size: usize = integer(1_048_576, 1024, 67_108_864), "mysql-transaction_replay_max_size", Useful,
                "Most bytes of the statements of a transaction that are kept to run it again; one that is longer is not. (Not in ProxySQL.)";
            unshun_algorithm: UnshunAlgorithm = integer(0, 0, 1), "mysql-unshun_algorithm", Obscure,
                "1: when a server that was SHUNNED because of failed connects is reached again in one hostgroup, it is back in all hostgroups with the same host and port; 0: each hostgroup finds out by itself.";
            upload_buffer_size: u64 = integer(16_777_216, 1_048_576, 1_073_741_824), "mysql-upload_buffer_size", Useful,
                "Bytes of the longest command that Narrows reads in full from the client before it takes a server connection for it. Longer ones are passed on as they arrive. (Not in ProxySQL.)";
            upload_buffers_total: u64 = integer(268_435_456, 0, 1_099_511_627_776), "mysql-upload_buffers_total", Useful,
                "Most bytes of memory for all such commands together; once it is used up, further ones are passed on as they arrive. (Not in ProxySQL.)";
            use_tcp_keepalive: bool = flag(true), "mysql-use_tcp_keepalive", Useful,
                "Whether TCP keepalive is on for connections to clients and servers.";
            verify_sessions: Share = text("0", Form::Share), "mysql-verify_sessions", Useful,
                "Of the moments at which a server connection gets another client, the share at which the server is asked for the connection's real session, and the connection is closed if that is not what Narrows knows of it: a number between 0 (never) and 1 (always), such as 0.001 for one in a thousand. See docs/operations.md. (Not in ProxySQL.)";
            wait_timeout: Duration = ms(28_800_000, 0, 1_728_000_000), "mysql-wait_timeout", Essential,
                "Milliseconds that a client may be idle before it is disconnected; if it sets a shorter wait_timeout itself, that applies.";
            zone: String = text("", Form::Any), "mysql-zone", Useful,
                "The zone in which this Narrows is: hostgroups whose hostgroup_settings name the zones of servers prefer those of this one; empty: none is preferred. See docs/balancing.md. (Not in ProxySQL.)";
        }
    };
}
