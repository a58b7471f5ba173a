//! The columns of the statistics tables that have a row per server, session, statement and so on: each with its definition
//! and its cell.

use std::time::Duration;

use narrows_proxy::auth_query::QueriedAccount;
use narrows_proxy::client::ClientHost;
use narrows_proxy::clock;
use narrows_proxy::passthrough::FoundAccount;
use narrows_proxy::snapshot::HostgroupId;
use narrows_proxy::stats::{
    CommandLine, DigestLine, DryRunLine, ErrorLine, FreeConnection, PasswordLine, PreparedLine,
    ProcessBackend, ProcessLine, RuleLine, ServerGtids, ServerLine, UserLine,
};
use narrows_proxy::tokens::IssuerFigures;
use rusqlite::types::Value;
use serde_json::json;

use crate::aws_iam::CredentialState;
use crate::calendar::date_and_time;
use crate::scheduler::{JobFigures, LastRun};

use super::cells::{Row, digest, integer, number, optional_text, text};

/// The date and time so long ago.
fn before(ago: Duration) -> String {
    date_and_time(i64::try_from(clock::now().saturating_sub(ago).as_secs()).unwrap_or_default())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The definition of a table, and the function that makes a row of it.
macro_rules! filled {
    ($(
        #[$doc:meta]
        $definition:ident, $row:ident($line:ident: $type:ty) {
            $( $column:literal => $cell:expr; )*
        } $($constraint:literal)?
    )*) => {$(
        pub(super) const $definition: &[&str] = &[$( $column, )* $( $constraint )?];

        #[$doc]
        pub fn $row($line: $type) -> Row {
            vec![$( $cell ),*]
        }
    )*};
}

/// `stats_mysql_query_events`, and its history on disk.
pub(super) const QUERY_EVENTS: &[&str] = &[
    "id INTEGER PRIMARY KEY AUTOINCREMENT",
    "thread_id INTEGER",
    "username TEXT",
    "schemaname TEXT",
    "start_time INTEGER",
    "end_time INTEGER",
    "query_digest TEXT",
    "query TEXT",
    "server TEXT",
    "client TEXT",
    "event_type INTEGER",
    "hid INTEGER",
    "extra_info TEXT",
    "affected_rows INTEGER",
    "last_insert_id INTEGER",
    "rows_sent INTEGER",
    "client_stmt_id INTEGER",
    "gtid TEXT",
    "errno INT",
    "error TEXT",
];

filled! {
    /// `stats_mysql_client_host_cache`
    CLIENT_HOST_CACHE, client_host_cache(host: ClientHost) {
        "client_address VARCHAR NOT NULL" => text(host.address);
        "error_count INT NOT NULL" => number(host.errors.into());
        "last_updated BIGINT NOT NULL" => number(host.last_failure.as_secs());
    }
    /// `stats_mysql_passthrough_auth_cache`
    PASSTHROUGH_AUTH_CACHE, passthrough_auth_cache(account: FoundAccount) {
        "username VARCHAR NOT NULL PRIMARY KEY" => text(account.username);
        "learned_at VARCHAR NOT NULL" => text(before(account.found));
        "age_s INT NOT NULL" => number(account.found.as_secs());
        "hostgroup_probed INT NOT NULL" => integer(account.hostgroup.0);
        "confirmed_ms INT NOT NULL" => number(millis(account.confirmed));
        "expires_s INT" => account.expires.map_or(Value::Null, |left| number(left.as_secs()));
        "status VARCHAR NOT NULL" => text(if account.is_refused { "refused" } else { "confirmed" });
        "frontend_connections INT NOT NULL" => number(account.connections.0.into());
    }
    /// `stats_narrows_auth_query`
    AUTH_QUERY, auth_query(account: QueriedAccount) {
        "username VARCHAR NOT NULL PRIMARY KEY" => text(account.username);
        "default_hostgroup INT NOT NULL" => integer(account.hostgroup.0);
        "asked_ms INT NOT NULL" => number(millis(account.asked));
        "frontend_connections INT NOT NULL" => number(account.connections.0.into());
    }
    /// `stats_mysql_commands_counters`
    COMMANDS_COUNTERS, commands_counters(line: CommandLine) {
        "Command VARCHAR NOT NULL" => text(line.command);
        "Total_Time_us INT NOT NULL" => number(line.total_time_us);
        "Total_cnt INT NOT NULL" => number(line.total);
        "cnt_100us INT NOT NULL" => number(line.buckets[0]);
        "cnt_500us INT NOT NULL" => number(line.buckets[1]);
        "cnt_1ms INT NOT NULL" => number(line.buckets[2]);
        "cnt_5ms INT NOT NULL" => number(line.buckets[3]);
        "cnt_10ms INT NOT NULL" => number(line.buckets[4]);
        "cnt_50ms INT NOT NULL" => number(line.buckets[5]);
        "cnt_100ms INT NOT NULL" => number(line.buckets[6]);
        "cnt_500ms INT NOT NULL" => number(line.buckets[7]);
        "cnt_1s INT NOT NULL" => number(line.buckets[8]);
        "cnt_5s INT NOT NULL" => number(line.buckets[9]);
        "cnt_10s INT NOT NULL" => number(line.buckets[10]);
        "cnt_INFs" => number(line.buckets[11]);
    } "PRIMARY KEY (Command)"
    /// `stats_mysql_connection_pool`
    CONNECTION_POOL, connection_pool(line: ServerLine) {
        "hostgroup INT" => integer(line.hostgroup.0);
        "srv_host VARCHAR" => text(line.hostname);
        "srv_port INT" => number(line.port.into());
        "status VARCHAR" => text(line.status.name());
        "ConnUsed INT" => number(line.used);
        "ConnFree INT" => number(line.free);
        "ConnOK INT" => number(line.tally.connected);
        "ConnERR INT" => number(line.tally.failed);
        "MaxConnUsed INT" => number(line.most_used);
        "Queries INT" => number(line.tally.queries);
        "Queries_GTID_sync INT" => number(line.tally.gtid_syncs);
        "Bytes_data_sent INT" => number(line.tally.bytes_sent);
        "Bytes_data_recv INT" => number(line.tally.bytes_received);
        "Latency_us INT" => number(line.latency_us);
    }
    /// `stats_mysql_errors`
    ERRORS, errors(line: ErrorLine) {
        "hostgroup INT NOT NULL" => integer(line.hostgroup.0);
        "hostname VARCHAR NOT NULL" => text(line.hostname);
        "port INT NOT NULL" => number(line.port.into());
        "username VARCHAR NOT NULL" => text(line.username);
        "client_address VARCHAR NOT NULL" => text(line.client_address);
        "schemaname VARCHAR NOT NULL" => text(line.schemaname);
        "errno INT NOT NULL" => number(line.errno.into());
        "count_star INTEGER NOT NULL" => number(line.count);
        "first_seen INTEGER NOT NULL" => number(line.first_seen);
        "last_seen INTEGER NOT NULL" => number(line.last_seen);
        "last_error VARCHAR NOT NULL DEFAULT ''" => text(line.last_error);
    } "PRIMARY KEY (hostgroup, hostname, port, username, schemaname, errno)"
    /// `stats_mysql_gtid_executed`
    GTID_EXECUTED, gtid_executed(line: ServerGtids) {
        "hostname VARCHAR NOT NULL" => text(line.hostname);
        "port INT NOT NULL DEFAULT 3306" => number(line.port.into());
        "gtid_executed VARCHAR" => text(line.executed);
        "events INT NOT NULL" => number(line.reports);
    }
    /// `stats_mysql_free_connections`
    FREE_CONNECTIONS, free_connections(line: FreeConnection) {
        "fd INT NOT NULL" => integer(line.fd);
        "hostgroup INT NOT NULL" => integer(line.hostgroup.0);
        "srv_host VARCHAR NOT NULL" => text(line.hostname.as_str());
        "srv_port INT NOT NULL" => number(line.port.into());
        "user VARCHAR NOT NULL" => text(line.username.as_str());
        "schema VARCHAR" => optional_text(line.schema.clone());
        "init_connect VARCHAR" => Value::Null;
        "time_zone VARCHAR" => variable(&line, "time_zone").map_or(Value::Null, text);
        "sql_mode VARCHAR" => variable(&line, "sql_mode").map_or(Value::Null, text);
        "autocommit VARCHAR" => text(variable(&line, "autocommit").unwrap_or("1"));
        "idle_ms INT" => number(line.idle_ms);
        "statistics VARCHAR" => text(use_of(&line));
        "mysql_info VARCHAR" => text(server_of(&line));
    }
    /// `stats_mysql_prepared_statements_info`
    PREPARED_STATEMENTS_INFO, prepared_statements_info(line: PreparedLine) {
        "global_stmt_id INT NOT NULL" => number(line.id);
        "schemaname VARCHAR NOT NULL" => text(line.schemaname);
        "username VARCHAR NOT NULL" => text(line.username);
        "digest VARCHAR NOT NULL" => digest(line.digest);
        "ref_count_client INT NOT NULL" => number(line.clients);
        "ref_count_server INT NOT NULL" => number(line.backends);
        "num_columns INT NOT NULL" => number(line.columns.into());
        "num_params INT NOT NULL" => number(line.parameters.into());
        "query VARCHAR NOT NULL" => text(line.query);
    }
    /// `stats_mysql_processlist`
    PROCESSLIST, processlist(shown: ShownProcess<'_>) {
        "ThreadID INT NOT NULL" => number(shown.line.worker as u64);
        "SessionID INTEGER PRIMARY KEY" => number(shown.line.id.into());
        "user VARCHAR" => text(shown.line.username.as_str());
        "db VARCHAR" => text(shown.line.schema.as_deref().unwrap_or_default());
        "cli_host VARCHAR" => text(shown.line.client_host.as_str());
        "cli_port INT" => number(shown.line.client_port.into());
        "hostgroup INT" => shown.hostgroup.map_or(Value::Null, |hostgroup| integer(hostgroup.0));
        "l_srv_host VARCHAR" => shown.of_backend(|backend| text(backend.local_host.as_str()));
        "l_srv_port INT" => shown.of_backend(|backend| number(backend.local_port.into()));
        "srv_host VARCHAR" => shown.of_backend(|backend| text(backend.hostname.as_str()));
        "srv_port INT" => shown.of_backend(|backend| number(backend.port.into()));
        "command VARCHAR" => text(shown.line.doing.word());
        "time_ms INT NOT NULL" => number(shown.line.time_ms);
        "info VARCHAR" => optional_text(shown.line.info.clone());
        "status_flags INT" => shown.of_backend(|_| number(shown.line.pins.bits().into()));
        "extended_info VARCHAR" => optional_text(shown.extended_info);
    }
    /// `stats_mysql_query_digest`
    QUERY_DIGEST, query_digest(line: DigestLine) {
        "hostgroup INT" => integer(line.hostgroup.0);
        "schemaname VARCHAR NOT NULL" => text(line.schemaname);
        "username VARCHAR NOT NULL" => text(line.username);
        "client_address VARCHAR NOT NULL" => text(line.client_address);
        "digest VARCHAR NOT NULL" => digest(line.digest);
        "digest_text VARCHAR NOT NULL" => text(line.digest_text);
        "count_star INTEGER NOT NULL" => number(line.count);
        "first_seen INTEGER NOT NULL" => number(line.first_seen);
        "last_seen INTEGER NOT NULL" => number(line.last_seen);
        "sum_time INTEGER NOT NULL" => number(line.sum_time_us);
        "min_time INTEGER NOT NULL" => number(line.min_time_us);
        "max_time INTEGER NOT NULL" => number(line.max_time_us);
        "sum_rows_affected INTEGER NOT NULL" => number(line.rows_affected);
        "sum_rows_sent INTEGER NOT NULL" => number(line.rows_sent);
    } "PRIMARY KEY (hostgroup, schemaname, username, client_address, digest)"
    /// `stats_mysql_query_rules`
    QUERY_RULES, query_rules(line: RuleLine) {
        "rule_id INTEGER PRIMARY KEY" => integer(line.rule_id);
        "hits INT NOT NULL" => number(line.hits);
    }
    /// `stats_narrows_rules_dry_run`
    RULES_DRY_RUN, rules_dry_run(line: DryRunLine) {
        "hostgroup INT NOT NULL" => integer(line.change.hostgroups[0].0);
        "dry_run_hostgroup INT NOT NULL" => integer(line.change.hostgroups[1].0);
        "schemaname VARCHAR NOT NULL" => bytes(&line.schemaname);
        "username VARCHAR NOT NULL" => text(line.username);
        "digest VARCHAR NOT NULL" => digest(line.digest);
        "digest_text VARCHAR NOT NULL" => bytes(&line.change.digest_text);
        "decision VARCHAR NOT NULL" => text(line.change.decisions[0].as_str());
        "dry_run_decision VARCHAR NOT NULL" => text(line.change.decisions[1].as_str());
        "count_star INTEGER NOT NULL" => number(line.count);
        "first_seen INTEGER NOT NULL" => number(line.first_seen);
        "last_seen INTEGER NOT NULL" => number(line.last_seen);
        "sample VARCHAR NOT NULL" => bytes(&line.change.sample);
        "dry_run_rewritten VARCHAR" => line.change.rewritten.as_deref().map_or(Value::Null, bytes);
    }
    /// `runtime_scheduler_runs`
    SCHEDULER_RUNS, scheduler_runs(job: (i64, JobFigures)) {
        "id INTEGER PRIMARY KEY" => integer(job.0);
        "filename VARCHAR NOT NULL" => text(job.1.filename.as_str());
        "runs INT NOT NULL" => number(job.1.runs);
        "failures INT NOT NULL" => number(job.1.failures);
        "timeouts INT NOT NULL" => number(job.1.timeouts);
        "skipped INT NOT NULL" => number(job.1.skipped);
        "running_ms INT" => job.1.running_ms().map_or(Value::Null, number);
        "last_started INT" => job.1.last_started_s().map_or(Value::Null, number);
        "last_duration_ms INT" => of_last(&job.1, |last| number(last.took_ms()));
        "last_exit VARCHAR" => of_last(&job.1, |last| text(last.end.as_str()));
        "last_output VARCHAR" => of_last(&job.1, |last| text(last.output.as_str()));
        "last_output_dropped INT" => of_last(&job.1, |last| number(last.dropped));
    }
    /// `stats_narrows_aws_credentials`
    AWS_CREDENTIALS, aws_credentials(state: CredentialState) {
        "source VARCHAR NOT NULL" => text(state.source);
        "access_key_id VARCHAR NOT NULL" => text(state.access_key_id);
        "last_refresh INT" => state.refreshed.map_or(Value::Null, Value::Integer);
        "expires INT" => state.expires.map_or(Value::Null, Value::Integer);
        "refreshes INT NOT NULL" => number(state.refreshes);
        "failures INT NOT NULL" => number(state.failures);
        "last_error VARCHAR NOT NULL" => text(state.last_error);
        "tokens INT NOT NULL" => number(state.tokens);
    }
    /// `stats_narrows_passwords`
    PASSWORDS, passwords(line: PasswordLine) {
        "username VARCHAR" => text(line.username);
        "clients_password INT NOT NULL" => number(line.clients[0].0);
        "clients_password_last INT NOT NULL" => number(line.clients[0].1);
        "clients_additional_password INT NOT NULL" => number(line.clients[1].0);
        "clients_additional_password_last INT NOT NULL" => number(line.clients[1].1);
        "servers_password INT NOT NULL" => number(line.servers[0].0);
        "servers_password_last INT NOT NULL" => number(line.servers[0].1);
        "servers_additional_password INT NOT NULL" => number(line.servers[1].0);
        "servers_additional_password_last INT NOT NULL" => number(line.servers[1].1);
    } "PRIMARY KEY (username)"
    /// `stats_narrows_token_issuers`
    TOKEN_ISSUERS, token_issuers(line: IssuerFigures) {
        "name VARCHAR NOT NULL" => text(line.name);
        "public_keys INT NOT NULL" => number(line.keys.try_into().unwrap_or_default());
        "public_keys_left_out INT NOT NULL" => number(line.left_out.try_into().unwrap_or_default());
        "fetches INT NOT NULL" => number(line.fetches);
        "last_fetch INT NOT NULL" => number(line.last_fetch);
        "last_success INT NOT NULL" => number(line.last_success);
        "last_error VARCHAR NOT NULL" => text(line.error);
        "accepted INT NOT NULL" => number(line.accepted);
        "refused INT NOT NULL" => number(line.refused);
    } "PRIMARY KEY (name)"
    /// `stats_mysql_users`
    USERS, users(line: UserLine) {
        "username VARCHAR" => text(line.username);
        "frontend_connections INT NOT NULL" => number(line.connections.into());
        "frontend_max_connections INT NOT NULL" => number(line.max_connections.into());
    } "PRIMARY KEY (username)"
    /// `stats_proxysql_servers_clients_status`
    CLIENTS_STATUS, clients_status(node: &ClusterNode) {
        "uuid VARCHAR NOT NULL" => text(node.uuid.as_str());
        "hostname VARCHAR NOT NULL" => text(node.host.as_str());
        "port INT NOT NULL" => number(node.port.into());
        "admin_mysql_ifaces VARCHAR NOT NULL" => text(node.interface.as_str());
        "last_seen_at INT NOT NULL" => number(node.last_seen);
    } "PRIMARY KEY (uuid, hostname, port)"
}

/// The definition of `history_stats_mysql_connection_pool`.
pub(super) const HISTORY_OF_CONNECTION_POOL: &[&str] = &over_time::<{ CONNECTION_POOL.len() + 2 }>(
    CONNECTION_POOL,
    "PRIMARY KEY (timestamp, hostgroup, srv_host, srv_port)",
);

/// The columns of a table after the time of a sample.
const fn over_time<const LENGTH: usize>(
    columns: &[&'static str],
    key: &'static str,
) -> [&'static str; LENGTH] {
    let mut all = [key; LENGTH];
    all[0] = "timestamp INT NOT NULL";
    let mut place = 0;
    while place < columns.len() {
        all[place + 1] = columns[place];
        place += 1;
    }
    all
}

/// A session as the process list shows it.
pub struct ShownProcess<'a> {
    /// The session, as reported by its worker.
    pub line: &'a ProcessLine,
    /// Its current hostgroup, the last one, or that of its account.
    pub hostgroup: Option<HostgroupId>,
    /// Details as JSON, if `mysql-show_processlist_extended` is set.
    pub extended_info: Option<String>,
}

impl ShownProcess<'_> {
    /// A cell about its backend connection; NULL if it has none.
    fn of_backend(&self, cell: impl FnOnce(&ProcessBackend) -> Value) -> Value {
        self.line.backend.as_ref().map_or(Value::Null, cell)
    }
}

/// A node of a cluster that has announced itself.
pub struct ClusterNode {
    /// The identity that it announced.
    pub uuid: String,
    /// Its address.
    pub host: String,
    /// The port that it connected from.
    pub port: u16,
    /// Its admin interface.
    pub interface: String,
    /// When it last announced itself, in Unix time.
    pub last_seen: u64,
}

/// A cell about the last run of a job that has ended; NULL if there is none.
fn of_last(figures: &JobFigures, cell: impl FnOnce(&LastRun) -> Value) -> Value {
    figures.last.as_ref().map_or(Value::Null, cell)
}

/// A cell with what a client has sent, which may be in any character set.
fn bytes(sent: &[u8]) -> Value {
    text(String::from_utf8_lossy(sent))
}

/// A variable that a client has set on an idle connection.
fn variable<'a>(line: &'a FreeConnection, name: &str) -> Option<&'a str> {
    let set = line.variables.iter().find(|(set, _)| set == name);
    set.map(|(_, value)| value.trim_matches('\''))
}

fn use_of(line: &FreeConnection) -> String {
    json!({ "age_ms": line.age_ms, "leases": line.leases }).to_string()
}

fn server_of(line: &FreeConnection) -> String {
    let variables: serde_json::Map<String, serde_json::Value> =
        line.variables.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let server = json!({
        "thread_id": line.thread_id,
        "mariadb": line.is_mariadb,
        "capabilities": line.capabilities,
        "variables": variables,
    });
    server.to_string()
}
