//! The global variables of the data plane, with their defaults.

use std::time::Duration;

use super::Networks;

/// The `mysql-` variables that the data plane reads; names are theirs, units are in the types.
#[derive(Debug, Clone, PartialEq)]
pub struct Variables {
    /// Listening addresses: `ip:port`, `[v6]:port` or the absolute path of a Unix socket.
    pub interfaces: Vec<String>,
    /// Worker threads; 0 means one per core.
    pub threads: usize,
    /// Version told in the greeting.
    pub server_version: String,
    /// Plugin offered first: `mysql_native_password` or `caching_sha2_password`.
    pub default_authentication_plugin: String,
    /// Character set of the greeting and of backend connections that no client has changed.
    pub default_charset: String,
    /// Collation of the greeting; belongs to `default_charset`.
    pub default_collation_connection: String,
    /// Schema when neither client nor user names one; empty: none, as on a server.
    pub default_schema: String,
    /// Client connections in all; above it error 1040.
    pub max_connections: u32,
    /// Largest command in bytes; above it error 1153.
    pub max_allowed_packet: u64,
    /// Time a client has to log in.
    pub connect_timeout_client: Duration,
    /// Time for one attempt to connect to a server.
    pub connect_timeout_server: Duration,
    /// Time in all to obtain a backend connection; after it error 9001.
    pub connect_timeout_server_max: Duration,
    /// Further attempts to connect per request.
    pub connect_retries_on_failure: u32,
    /// Least time between two attempts to connect to a server that failed.
    pub connect_retries_delay: Duration,
    /// Connects within a second that must fail before a server is shunned.
    pub shun_on_failures: u32,
    /// How long it is; zero: until an operator says otherwise.
    pub shun_recovery_time: Duration,
    /// How long what is pinned to a server may continue when that is OFFLINE_SOFT; zero: without limit.
    pub offline_soft_timeout: Duration,
    /// What the end of a shun in one hostgroup means for others.
    pub unshun_algorithm: UnshunAlgorithm,
    /// The number of candidates from which those that answer pings more slowly than the average get no statements.
    pub min_num_servers_latency_awareness: usize,
    /// Idle time after which a client is closed.
    pub wait_timeout: Duration,
    /// Idle time in a transaction after which a client is closed.
    pub max_transaction_idle_time: Duration,
    /// Length of a transaction after which a client is closed.
    pub max_transaction_time: Duration,
    /// Time after which a statement is killed.
    pub default_query_timeout: Duration,
    /// Limits of the transfer of commands and answers.
    pub transfer: Transfer,
    /// Time every statement waits before it runs.
    pub default_query_delay: Duration,
    /// Further executions of a statement that failed with its server, where repeating it is safe.
    pub query_retries_on_failure: u32,
    /// How often a `flagOUT` may lead back to the first rule; 0: rules are read forward only.
    pub query_processor_iterations: u32,
    /// Whether statements that no rule routes are split into reads and writes.
    pub auto_read_write_split: bool,
    /// Whether a read that is routed away from where a session writes begins a transaction there with autocommit off.
    pub enforce_autocommit_on_reads: bool,
    /// Stored and loadable functions, in lower case, that a read may call.
    pub auto_read_write_split_functions: Vec<String>,
    /// Mirrored statements that run at the same time at most.
    pub mirror_max_concurrency: usize,
    /// Mirrored statements that wait at most; more are dropped.
    pub mirror_max_queue_length: usize,
    /// Whether the firewall tables decide what may run.
    pub firewall_whitelist_enabled: bool,
    /// What a client reads whose statement the firewall refuses.
    pub firewall_whitelist_errormsg: String,
    /// Whether statements are logged whose rules do not say.
    pub eventslog_default_log: bool,
    /// Beginning of the query log's file names; empty: no log.
    pub eventslog_filename: String,
    /// Bytes after which the query log continues in a new file.
    pub eventslog_filesize: u64,
    /// Time after which it does; zero: never.
    pub eventslog_rotate_interval: Duration,
    /// Whether backend connections return to the pool after each statement.
    pub multiplexing: bool,
    /// Whether warnings are kept for `SHOW WARNINGS` when a connection returns to the pool.
    pub handle_warnings: bool,
    /// Whether digests are computed; without them `match_digest` counts as satisfied.
    pub query_digests: bool,
    /// Bytes of a statement that are digested.
    pub query_digests_max_query_length: usize,
    /// Bytes of digest text that are kept.
    pub query_digests_max_digest_length: usize,
    /// Values of a list that a digest shows.
    pub query_digests_grouping_limit: usize,
    /// Groups of values that a digest shows; 0 shows all.
    pub query_digests_groups_grouping_limit: usize,
    /// Whether digests fold to lower case.
    pub query_digests_lowercase: bool,
    /// Whether digests replace `NULL`.
    pub query_digests_replace_null: bool,
    /// Whether digests replace digits inside identifiers.
    pub query_digests_no_digits: bool,
    /// Whether digests keep `/* */` comments.
    pub query_digests_keep_comment: bool,
    /// Whether digests and errors are counted per client address.
    pub query_digests_track_hostname: bool,
    /// Whether statements are counted by class.
    pub commands_stats: bool,
    /// Time from which a statement counts as slow.
    pub long_query_time: Duration,
    /// Whether the time that digests and rules take is summed up.
    pub stats_time_query_processor: bool,
    /// Whether the time that servers take is summed up.
    pub stats_time_backend_query: bool,
    /// Client addresses whose failed logins are counted; 0: none.
    pub client_host_cache_size: usize,
    /// Whether `LOAD DATA LOCAL INFILE` is allowed.
    pub enable_load_data_local_infile: bool,
    /// Whether `CLIENT_DEPRECATE_EOF` is offered to clients.
    pub enable_client_deprecate_eof: bool,
    /// Bytes of the query cache; 0: there is none.
    pub query_cache_size: usize,
    /// Percentage of an answer's time after which one client renews it; 0: never.
    pub query_cache_soft_ttl_pct: u32,
    /// Whether answers without rows are cached where the rule does not say.
    pub query_cache_stores_empty_result: bool,
    /// Whether answers with warnings are cached.
    pub query_cache_handle_warnings: bool,
    /// Bytes of the longest answer that is cached.
    pub threshold_resultset_size: usize,
    /// Prepared statements that one backend connection has at most.
    pub max_stmts_per_connection: usize,
    /// Prepared statements of the whole process above which those that no client has open are closed.
    pub max_stmts_cache: usize,
    /// Bytes that the prepared statements of one client may take.
    pub max_stmts_bytes_per_client: usize,
    /// Idle connections kept per server, in percent of its `max_connections`.
    pub free_connections_pct: u32,
    /// Whether that many are opened before they are needed.
    pub connection_warming: bool,
    /// Backend connections that a hostgroup may open in a second.
    pub throttle_connections_per_sec_to_hostgroup: u32,
    /// Age after which an idle backend connection is closed; zero: no limit.
    pub connection_max_age: Duration,
    /// Time between pings of an idle backend connection.
    pub ping_interval_server: Duration,
    /// Time a server has to answer such a ping.
    pub ping_timeout_server: Duration,
    /// Whether a statement is killed on its server when its client vanishes.
    pub kill_backend_connection_when_disconnect: bool,
    /// TCP keepalive on both sides: idle time before the first probe; `None`: off.
    pub tcp_keepalive: Option<Duration>,
    /// Statements run on every new backend connection; empty: none.
    pub init_connect: String,
    /// Ping time above which a server gets no work; zero: none.
    pub default_max_latency: Duration,
    /// Whether clients may use TLS.
    pub have_ssl: bool,
    /// Whether clients may use the compressed protocol.
    pub have_compress: bool,
    /// Whose PROXY headers are trusted.
    pub proxy_protocol_networks: Networks,
    /// Failed logins after which an address is closed at once; 0: never.
    pub client_host_error_counts: u32,
    /// Whether servers elsewhere are asked for their RSA key too, over connections that others can listen to.
    pub get_server_public_key: bool,
}

/// What it means for the same host and port in other hostgroups that a server was reached again in one of them:
/// `mysql-unshun_algorithm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnshunAlgorithm {
    /// Nothing: each hostgroup finds out by itself.
    OneByOne,
    /// It is back in all of them.
    AllAtOnce,
}

/// Limits of what is on its way between a client and a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// Time a server has to end a statement that was killed; zero: no limit.
    pub kill_timeout_server: Duration,
    /// Time in which a client that holds a backend connection must send or take `stall_bytes_client`; zero: no limit.
    pub stall_timeout_client: Duration,
    /// See `stall_timeout_client`.
    pub stall_bytes_client: u64,
    /// Time in which a server must take some of a command; zero: no limit.
    pub stall_timeout_server: Duration,
    /// Bytes of the longest command that is taken in before a backend connection is had for it.
    pub upload_buffer_size: u64,
    /// Bytes of all such commands at a time.
    pub upload_buffers_total: u64,
    /// Bytes of answers that a client is sent in a second; 0: no limit.
    pub throttle_to_client: u64,
}

impl Default for Transfer {
    fn default() -> Self {
        Transfer {
            kill_timeout_server: Duration::from_secs(10),
            stall_timeout_client: Duration::from_secs(60),
            stall_bytes_client: 1024,
            stall_timeout_server: Duration::from_secs(60),
            upload_buffer_size: 16 << 20,
            upload_buffers_total: 256 << 20,
            throttle_to_client: 0,
        }
    }
}

impl Default for Variables {
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn default() -> Self {
        Variables {
            interfaces: vec!["0.0.0.0:6033".to_owned()],
            threads: 0,
            server_version: "8.0.11".to_owned(),
            default_authentication_plugin: "mysql_native_password".to_owned(),
            default_charset: "utf8".to_owned(),
            default_collation_connection: "utf8_general_ci".to_owned(),
            default_schema: String::new(),
            max_connections: 10_000,
            max_allowed_packet: 67_108_864,
            connect_timeout_client: Duration::from_secs(10),
            connect_timeout_server: Duration::from_secs(1),
            connect_timeout_server_max: Duration::from_secs(10),
            connect_retries_on_failure: 10,
            connect_retries_delay: Duration::from_millis(1),
            shun_on_failures: 5,
            shun_recovery_time: Duration::from_secs(10),
            offline_soft_timeout: Duration::ZERO,
            unshun_algorithm: UnshunAlgorithm::OneByOne,
            min_num_servers_latency_awareness: 1_000,
            wait_timeout: Duration::from_secs(28_800),
            max_transaction_idle_time: Duration::from_secs(14_400),
            max_transaction_time: Duration::from_secs(14_400),
            default_query_timeout: Duration::from_secs(86_400),
            transfer: Transfer::default(),
            default_query_delay: Duration::ZERO,
            query_retries_on_failure: 1,
            query_processor_iterations: 0,
            auto_read_write_split: false,
            enforce_autocommit_on_reads: false,
            auto_read_write_split_functions: Vec::new(),
            mirror_max_concurrency: 16,
            mirror_max_queue_length: 32_000,
            firewall_whitelist_enabled: false,
            firewall_whitelist_errormsg: "Firewall blocked this query".to_owned(),
            eventslog_default_log: false,
            eventslog_filename: String::new(),
            eventslog_filesize: 104_857_600,
            eventslog_rotate_interval: Duration::ZERO,
            multiplexing: true,
            handle_warnings: true,
            query_digests: true,
            query_digests_max_query_length: 65_000,
            query_digests_max_digest_length: 2_048,
            query_digests_grouping_limit: 3,
            query_digests_groups_grouping_limit: 10,
            query_digests_lowercase: false,
            query_digests_replace_null: false,
            query_digests_no_digits: false,
            query_digests_keep_comment: false,
            query_digests_track_hostname: false,
            commands_stats: true,
            long_query_time: Duration::from_secs(1),
            stats_time_query_processor: false,
            stats_time_backend_query: false,
            client_host_cache_size: 0,
            enable_load_data_local_infile: false,
            enable_client_deprecate_eof: true,
            query_cache_size: 256 << 20,
            query_cache_soft_ttl_pct: 0,
            query_cache_stores_empty_result: true,
            query_cache_handle_warnings: false,
            threshold_resultset_size: 4 << 20,
            max_stmts_per_connection: 20,
            max_stmts_cache: 10_000,
            max_stmts_bytes_per_client: 64 << 20,
            free_connections_pct: 10,
            connection_warming: false,
            throttle_connections_per_sec_to_hostgroup: 1_000_000,
            connection_max_age: Duration::ZERO,
            ping_interval_server: Duration::from_secs(10),
            ping_timeout_server: Duration::from_millis(200),
            kill_backend_connection_when_disconnect: true,
            tcp_keepalive: Some(Duration::from_secs(120)),
            init_connect: String::new(),
            default_max_latency: Duration::from_secs(1),
            have_ssl: true,
            have_compress: true,
            proxy_protocol_networks: Networks::default(),
            client_host_error_counts: 0,
            get_server_public_key: false,
        }
    }
}
