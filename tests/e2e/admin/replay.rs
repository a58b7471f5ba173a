//! The recorded statements, sent to Narrows in the same order, and the answers in the recording's format.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use narrows_testkit::{Endpoint, Login, Monitor, Narrows, Packet, RawClient, TempFolder, reader};
use serde_json::{Value, json};

use crate::recorded::engine::{CAPABILITIES, cells};

/// The recording's ports, in place of ours.
const RECORDED_INTERFACES: &str = "127.0.0.1:19033";
const RECORDED_ADMIN: &str = "127.0.0.1:19032";

/// The type of all columns.
const VAR_STRING: u8 = 253;

/// The version of the recorded ProxySQL.
const RECORDED_VERSION: &str = "v2.7.1-0-g2726c27";

/// A Narrows with the recording's configuration, and the two sessions on it.
pub struct Instance {
    narrows: Narrows,
    admin: RawClient,
    stats: RawClient,
    /// Values in answers that depend on this run, and the recording's values for them.
    masks: Vec<(String, &'static str)>,
}

impl Instance {
    /// Starts one; keys that another one has generated are reused.
    pub fn start(keys: &Keys) -> Instance {
        let mut listeners = (String::new(), String::new());
        let seen = std::cell::RefCell::new(&mut listeners);
        let narrows = Narrows::start_with(env!("CARGO_BIN_EXE_narrows"), Monitor::On, |interfaces, admin| {
            **seen.borrow_mut() = (interfaces.to_owned(), admin.to_owned());
            let socket = interfaces.split(';').find(|part| part.starts_with('/')).expect("a socket");
            keys.put_into(PathBuf::from(socket).parent().expect("a folder"));
            configuration(interfaces, admin)
        });
        keys.take_from(narrows.folder());
        let folder = narrows.folder().display().to_string();
        let masks = vec![
            (listeners.0, RECORDED_INTERFACES),
            (listeners.1, RECORDED_ADMIN),
            (folder, "<datadir>"),
            ("narrows.db".to_owned(), "proxysql.db"),
            ("narrows_stats.db".to_owned(), "proxysql_stats.db"),
            (narrows_version(&narrows), RECORDED_VERSION),
        ];
        let (admin, stats) = (session(&narrows, "admin"), session(&narrows, "stats"));
        Instance { narrows, admin, stats, masks }
    }

    /// The current answer to a record's statement.
    pub fn ask(&mut self, record: &Value) -> Value {
        let folder = self.narrows.folder().display().to_string();
        let sql = record["sql"].as_str().expect("a statement").replace("<datadir>", &folder);
        let user = record["user"].as_str().expect("a user");
        let client = if user == "admin" { &mut self.admin } else { &mut self.stats };
        let found = answer(client, &sql);
        if found["closed"] == true {
            self.reconnect(user);
        }
        without_own_variables(masked(found, &self.masks))
    }

    /// Where clients connect to.
    pub fn endpoint(&self) -> Endpoint {
        self.narrows.endpoint()
    }

    /// Replaces values of this run by the recording's.
    pub fn mask(&mut self, ours: String, theirs: &'static str) {
        self.masks.push((ours, theirs));
    }

    /// Opens a new session in place of one that was closed.
    fn reconnect(&mut self, user: &str) {
        if self.narrows.process().wait_for(Duration::from_millis(200)).is_some() {
            return;
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        let endpoint = self.narrows.admin_endpoint();
        while RawClient::try_connect(&endpoint).is_err() {
            assert!(Instant::now() < deadline, "the admin interface does not come back");
            std::thread::sleep(Duration::from_millis(20));
        }
        let client = session(&self.narrows, user);
        *(if user == "admin" { &mut self.admin } else { &mut self.stats }) = client;
    }

    /// Whether the process is still alive a moment after a statement.
    pub fn state(&mut self) -> &'static str {
        let ended = self.narrows.process().wait_for(Duration::from_millis(50)).is_some();
        if ended { "ended" } else { "running" }
    }
}

/// The keys of a first start: generating them takes longer than everything else.
pub struct Keys(TempFolder);

impl Keys {
    /// None yet.
    pub fn none() -> Keys {
        Keys(TempFolder::new("keys"))
    }

    fn put_into(&self, folder: &std::path::Path) {
        copy_keys(self.0.path(), folder);
    }

    fn take_from(&self, folder: &std::path::Path) {
        copy_keys(folder, self.0.path());
    }
}

fn copy_keys(from: &std::path::Path, to: &std::path::Path) {
    for entry in fs::read_dir(from).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let target = to.join(entry.file_name().expect("a name"));
        if entry.extension().is_some_and(|extension| extension == "pem") && !target.exists() {
            fs::copy(&entry, target).expect("a copy of a key");
        }
    }
}

fn session(narrows: &Narrows, user: &str) -> RawClient {
    let login = Login { capabilities: CAPABILITIES, ..Login::new(user, user) };
    let mut client = RawClient::open(&narrows.admin_endpoint(), &login);
    client.set_patience(Duration::from_secs(20));
    client
}

fn narrows_version(narrows: &Narrows) -> String {
    session(narrows, "admin").query("SELECT version()").cell().expect("a version")
}

/// The configuration with which the recording was made.
fn configuration(interfaces: &str, admin: &str) -> String {
    format!(
        "admin_variables = {{ admin_credentials=\"admin:admin\" mysql_ifaces=\"{admin}\" }}\n\
         mysql_variables = {{ threads=2 interfaces=\"{interfaces}\" monitor_enabled=false }}\n\
         mysql_servers = ( {{ address=\"127.0.0.1\" port=29306 hostgroup=0 }} )\n\
         mysql_users = ( {{ username=\"sbtest\" password=\"sbtest\" default_hostgroup=0 active=1 }} )\n"
    )
}

/// An answer in the recording's format.
fn answer(client: &mut RawClient, sql: &str) -> Value {
    let answer = client.query(sql);
    if answer.lost.is_some() {
        return json!({"closed": true});
    }
    if let Some(error) = answer.error() {
        return json!({"error": [error.code, error.state, error.message]});
    }
    let columns = answer.columns();
    if columns.is_empty() {
        let ok = answer.ok().expect("OK, since there are neither rows nor an error");
        let info =
            reader::Bytes::new(&ok.rest).lenenc_bytes().map(String::from_utf8_lossy).unwrap_or_default();
        return json!({"ok": [ok.affected_rows, ok.last_insert_id, info, ok.warnings, ok.status]});
    }
    let rows = rows(&answer.packets, columns.len());
    let mut found = json!({
        "columns": columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>(),
        "count": rows.len(),
        "rows": rows,
        "status": status(answer.packets.last().expect("the end of rows")),
    });
    if columns.iter().any(|column| column.kind != VAR_STRING) {
        found["types"] = columns.iter().map(|column| column.kind).collect();
    }
    found
}

/// The rows, with bytes that are not text in the recording's notation.
fn rows(packets: &[Packet], columns: usize) -> Vec<Value> {
    let of_rows = packets.iter().skip(2 + columns).take_while(|packet| !is_end(packet));
    let row = |packet: &Packet| {
        let cells = cells(&mut reader::Bytes::new(&packet.payload), columns);
        assert_eq!(cells.len(), columns, "{packet:?}");
        let cell = |cell: &[u8]| match std::str::from_utf8(cell) {
            Ok(text) => Value::from(text),
            Err(_) => {
                let hex: String = cell.iter().map(|byte| format!("{byte:02x}")).collect();
                json!({ "hex": hex })
            }
        };
        cells.into_iter().map(|bytes| bytes.map_or(Value::Null, cell)).collect::<Vec<Value>>().into()
    };
    of_rows.map(row).collect()
}

fn is_end(packet: &Packet) -> bool {
    packet.payload.first() == Some(&0xFE) && packet.payload.len() < 9
}

fn status(packet: &Packet) -> u64 {
    match packet.payload.get(3..5) {
        Some([low, high]) => u64::from(*low) | u64::from(*high) << 8,
        _ => 0,
    }
}

/// Variables that ProxySQL does not have: left out of the comparison.
const OWN_VARIABLES: &[&str] = &[
    "admin-config_history_days",
    "admin-config_history_versions",
    "admin-exec_secrets_interval",
    "admin-log_level",
    "admin-metrics_max_series",
    "admin-narrows_history",
    "admin-restapi_address",
    "admin-restapi_tls",
    "admin-scheduler_timeout_ms",
    "mysql-auth_query",
    "mysql-auth_query_cache_ttl_ms",
    "mysql-auth_query_hostgroup",
    "mysql-auth_query_password",
    "mysql-auth_query_username",
    "mysql-auto_read_write_split",
    "mysql-auto_read_write_split_functions",
    "mysql-causal_reads",
    "mysql-causal_reads_timeout_ms",
    "admin-stats_mysql_eventslog_sync_buffer_to_disk",
    "mysql-eventslog_buffer_history_size",
    "mysql-eventslog_buffer_max_query_length",
    "mysql-eventslog_line_format",
    "mysql-auditlog_output",
    "mysql-eventslog_output",
    "mysql-eventslog_rate_limit",
    "mysql-eventslog_rotate_interval",
    "mysql-eventslog_slow_time",
    "mysql-eventslog_stmt_parameters",
    "mysql-eventslog_table_memory_size",
    "mysql-get_server_public_key",
    "mysql-kill_timeout_server",
    "mysql-monitor_galera_autodiscovery",
    "mysql-monitor_groupreplication_autodiscovery",
    "mysql-max_stmts_bytes_per_client",
    "mysql-offline_soft_timeout",
    "mysql-otlp_endpoint",
    "mysql-otlp_rate_limit",
    "mysql-passthrough_auth_cache_ttl_s",
    "mysql-passthrough_auth_empty_password",
    "mysql-passthrough_auth_enabled",
    "mysql-passthrough_auth_failure_map_cap",
    "mysql-passthrough_auth_failure_window_s",
    "mysql-passthrough_auth_max_failures_per_ip",
    "mysql-passthrough_auth_max_failures_per_user",
    "mysql-passthrough_auth_max_inflight_probes",
    "mysql-passthrough_auth_recheck_ms",
    "mysql-monitor_replication_max_writers",
    "mysql-passthrough_auth_require_tls",
    "mysql-passthrough_auth_unknown_users",
    "mysql-passthrough_auth_username_pattern",
    "mysql-passthrough_default_hg",
    "mysql-passthrough_default_schema",
    "mysql-slow_start_ms",
    "mysql-ssl_key_passphrase",
    "mysql-ssl_p2s_key_passphrase",
    "mysql-stall_bytes_client",
    "mysql-stall_timeout_client",
    "mysql-switchover_replication_password",
    "mysql-switchover_replication_username",
    "mysql-stall_timeout_server",
    "mysql-transaction_replay",
    "mysql-transaction_replay_max_size",
    "mysql-upload_buffer_size",
    "mysql-upload_buffers_total",
    "mysql-verify_sessions",
    "mysql-zone",
];

/// Tables that ProxySQL does not have, likewise.
const OWN_TABLES: &[&str] = &[
    "history_mysql_query_events",
    "narrows_config_documents",
    "narrows_config_history",
    "narrows_token_issuers",
    "narrows_traffic_10s",
    "narrows_traffic_5m",
    "runtime_narrows_token_issuers",
    "runtime_scheduler_runs",
    "stats_mysql_passthrough_auth_cache",
    "stats_mysql_query_events",
    "stats_narrows_auth_query",
    "stats_narrows_aws_credentials",
    "stats_narrows_passwords",
    "stats_narrows_rules_dry_run",
    "stats_narrows_rules_dry_run_reset",
    "stats_narrows_token_issuers",
];

/// An answer as it would be without [`OWN_VARIABLES`] and [`OWN_TABLES`]: rows that name them, and counts of all variables.
fn without_own_variables(mut found: Value) -> Value {
    let own = OWN_VARIABLES.len() as u64;
    let own_of = |prefix: &str| OWN_VARIABLES.iter().filter(|name| name.starts_with(prefix)).count() as u64;
    let counts = [
        (ALL_VARIABLES, own),
        (MYSQL_VARIABLES, own_of("mysql-")),
        (ALL_VARIABLES - MYSQL_VARIABLES, own_of("admin-")),
    ];
    if let Some(rows) = found.get_mut("rows").and_then(Value::as_array_mut) {
        let before = rows.len();
        rows.retain(|row| {
            !row[0].as_str().is_some_and(|name| OWN_VARIABLES.contains(&name) || OWN_TABLES.contains(&name))
        });
        let (after, left_out) = (rows.len(), before - rows.len());
        let is_count =
            |cell: &Value| cell.as_str().and_then(|text| text.parse().ok()) == Some(ALL_VARIABLES + own);
        match rows.as_mut_slice() {
            [row] if is_count(&row[0]) => row[0] = Value::from(ALL_VARIABLES.to_string()),
            _ => {}
        }
        if left_out > 0 {
            found["count"] = Value::from(after);
        }
    }
    let affected = found["ok"][0].as_u64();
    if let Some((count, _)) = counts.iter().find(|(count, own)| affected == Some(count + own)) {
        found["ok"][0] = Value::from(*count);
    }
    found
}

/// How many variables ProxySQL has, in total and for MySQL.
const ALL_VARIABLES: u64 = 212;
const MYSQL_VARIABLES: u64 = 163;

fn masked(mut found: Value, masks: &[(String, &'static str)]) -> Value {
    mask(&mut found, masks);
    found
}

fn mask(value: &mut Value, masks: &[(String, &'static str)]) {
    match value {
        Value::String(text) => {
            for (ours, theirs) in masks.iter().filter(|(ours, _)| !ours.is_empty()) {
                if text.contains(ours.as_str()) {
                    *text = text.replace(ours.as_str(), theirs);
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| mask(value, masks)),
        Value::Object(fields) => fields.iter_mut().for_each(|(_, value)| mask(value, masks)),
        _ => {}
    }
}
