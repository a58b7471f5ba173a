//! Rows about servers: where they are, whether they get statements, and in which hostgroups their roles are monitored.

use std::time::Duration;

use super::{CausalReads, HostgroupId, JsonColumn, PreferenceSettings};

/// Whether a server gets statements, as set by the operator or the monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerStatus {
    /// The server gets statements.
    Online,
    /// Temporarily out of use, as set by the operator.
    Shunned,
    /// Out of use until it answers pings again. Operators see it as SHUNNED.
    Unreachable,
    /// Out of use until its lag is acceptable again.
    ShunnedReplicationLag,
    /// The server gets no new statements; connections in use finish.
    OfflineSoft,
    /// Out of use immediately.
    OfflineHard,
    /// The monitor has found that the node leaves its cluster, or gives up its role. Operators see it as OFFLINE_SOFT.
    Leaving,
    /// The monitor has found that the node is no part of its cluster. Operators see it as OFFLINE_HARD.
    Gone,
    /// The monitor has found that the node should get no new statements for now, and there is no hostgroup for such nodes.
    /// Operators see it as SHUNNED.
    Withheld,
}

impl ServerStatus {
    /// The name that operators use.
    pub const fn name(self) -> &'static str {
        match self {
            ServerStatus::Online => "ONLINE",
            ServerStatus::Shunned | ServerStatus::Unreachable | ServerStatus::Withheld => "SHUNNED",
            ServerStatus::ShunnedReplicationLag => "SHUNNED_REPLICATION_LAG",
            ServerStatus::OfflineSoft | ServerStatus::Leaving => "OFFLINE_SOFT",
            ServerStatus::OfflineHard | ServerStatus::Gone => "OFFLINE_HARD",
        }
    }

    /// Why the server gets no statements; `None` if it gets some.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            ServerStatus::Online => None,
            ServerStatus::Shunned => Some("SHUNNED by its row"),
            ServerStatus::Unreachable => Some("SHUNNED: it does not answer pings"),
            ServerStatus::ShunnedReplicationLag => Some("SHUNNED_REPLICATION_LAG: it lags"),
            ServerStatus::OfflineSoft => Some("OFFLINE_SOFT: it gets no new work"),
            ServerStatus::OfflineHard => Some("OFFLINE_HARD"),
            ServerStatus::Leaving => Some("OFFLINE_SOFT: the node leaves its cluster, and gets no new work"),
            ServerStatus::Gone => Some("OFFLINE_HARD: the node is not a working part of its cluster"),
            ServerStatus::Withheld => Some("SHUNNED: the node has no role for now, and gets no new work"),
        }
    }

    /// Whether what runs there may finish, but nothing new begins.
    pub fn drains(self) -> bool {
        matches!(self, ServerStatus::OfflineSoft | ServerStatus::Leaving | ServerStatus::Withheld)
    }

    /// Whether running statements there are cut off. Reads from a lagging server finish; transactions, which would
    /// continue to read old data, do not.
    pub fn cuts_off(self, in_transaction: bool) -> bool {
        match self {
            ServerStatus::Unreachable | ServerStatus::OfflineHard | ServerStatus::Gone => true,
            ServerStatus::ShunnedReplicationLag => in_transaction,
            ServerStatus::Online
            | ServerStatus::Shunned
            | ServerStatus::OfflineSoft
            | ServerStatus::Leaving
            | ServerStatus::Withheld => false,
        }
    }
}

/// One row of `mysql_servers`.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerRow {
    /// The hostgroup this row belongs to.
    pub hostgroup: HostgroupId,
    /// Host name or address; the path of a Unix socket if `port` is 0.
    pub hostname: String,
    /// TCP port, or 0.
    pub port: u16,
    /// The port of the GTID reader on that host; 0 if there is none.
    pub gtid_port: u16,
    /// Whether it gets statements.
    pub status: ServerStatus,
    /// The relative share of statements within its hostgroup; 0: never chosen.
    pub weight: u32,
    /// Whether the compressed protocol is used.
    pub compression: bool,
    /// The maximum number of backend connections of the whole process.
    pub max_connections: u32,
    /// The maximum replication lag in seconds; 0: not checked.
    pub max_replication_lag: u32,
    /// Whether TLS is used.
    pub use_ssl: bool,
    /// The latency limit in ms; 0: the variable's value.
    pub max_latency_ms: u32,
    /// Free text.
    pub comment: String,
}

/// One row of `mysql_replication_hostgroups`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicationHostgroupRow {
    /// Servers that may be written to.
    pub writer_hostgroup: HostgroupId,
    /// Servers that are read from.
    pub reader_hostgroup: HostgroupId,
    /// The server variables that determine a server's role.
    pub check_type: String,
    /// Free text.
    pub comment: String,
}

/// One row of `mysql_hostgroup_attributes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostgroupAttributesRow {
    /// The hostgroup.
    pub hostgroup: HostgroupId,
    /// While more servers than this are ONLINE, none gets statements.
    pub max_num_online_servers: u32,
    /// Stored; without effect, as in ProxySQL.
    pub autocommit: i32,
    /// Idle connections kept per server, in percent of its `max_connections`.
    pub free_connections_pct: u32,
    /// Statements that are run on every new connection; empty if none.
    pub init_connect: String,
    /// Whether connections return to the pool after each statement.
    pub multiplex: bool,
    /// Whether connections are opened before they are needed.
    pub connection_warming: bool,
    /// Connections that may be opened in a second.
    pub throttle_connections_per_sec: u32,
    /// Stored; without effect, as in ProxySQL.
    pub ignore_session_variables: String,
    /// JSON, or empty; see [`HostgroupAttributesRow::balance`] and [`HostgroupAttributesRow::lag_when_null`].
    pub hostgroup_settings: JsonColumn,
    /// JSON, or empty; see [`HostgroupAttributesRow::servers_defaults`].
    pub servers_defaults: JsonColumn,
    /// Free text.
    pub comment: String,
}

impl HostgroupAttributesRow {
    /// The setting `balance`.
    ///
    /// # Errors
    /// The invalid value, as text for a message.
    pub fn balance(&self) -> Result<Balance, String> {
        match self.setting("balance") {
            None => Ok(Balance::default()),
            Some(serde_json::Value::String(name)) if name == "least_outstanding" => {
                Ok(Balance::LeastOutstanding)
            }
            Some(serde_json::Value::String(name)) if name == "weighted_random" => Ok(Balance::WeightedRandom),
            Some(other) => {
                Err(format!("balance is {other}: expected \"least_outstanding\" or \"weighted_random\""))
            }
        }
    }

    /// The setting `monitor_slave_lag_when_null`, in seconds.
    ///
    /// # Errors
    /// The invalid value, as text for a message.
    pub fn lag_when_null(&self) -> Result<Option<u32>, String> {
        let Some(value) = self.setting("monitor_slave_lag_when_null") else { return Ok(None) };
        let seconds = value.as_u64().filter(|seconds| *seconds <= MOST_LAG_WHEN_NULL);
        seconds.and_then(|seconds| u32::try_from(seconds).ok()).map(Some).ok_or_else(|| {
            format!(
                "monitor_slave_lag_when_null is {value}: expected an integer from 0 to {MOST_LAG_WHEN_NULL}"
            )
        })
    }

    /// The setting `handle_warnings`.
    ///
    /// # Errors
    /// The invalid value, as text for a message.
    pub fn handle_warnings(&self) -> Result<Option<bool>, String> {
        match self.setting("handle_warnings") {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(0) => Ok(Some(false)),
                Some(1) => Ok(Some(true)),
                _ => Err(format!("handle_warnings is {value}: expected 0 or 1")),
            },
        }
    }

    /// The settings about backups and zones.
    ///
    /// # Errors
    /// The invalid value, as text for a message.
    pub fn preference(&self) -> Result<PreferenceSettings, String> {
        PreferenceSettings::of(&self.hostgroup_settings)
    }

    /// The columns of servers that the monitor finds for this hostgroup.
    ///
    /// # Errors
    /// The invalid value, as text for a message.
    pub fn servers_defaults(&self) -> Result<ServersDefaults, String> {
        let number = |name: &str, most: u32| match self.servers_defaults.get(name) {
            None => Ok(None),
            Some(value) => {
                let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
                let number = number.filter(|number| *number <= most);
                number.map(Some).ok_or_else(|| {
                    format!("servers_defaults: {name} is {value}: expected an integer from 0 to {most}")
                })
            }
        };
        Ok(ServersDefaults {
            weight: number("weight", MOST_WEIGHT)?,
            max_connections: number("max_connections", i32::MAX as u32)?,
            use_ssl: number("use_ssl", 1)?.map(|number| number == 1),
        })
    }

    /// The settings `max_waiting`, `max_waiting_bytes` and `max_waiting_ms`.
    ///
    /// # Errors
    /// The invalid value, as text for a message.
    pub fn waiting(&self) -> Result<Waiting, String> {
        let number = |name: &str, (least, most): (u64, u64)| match self.setting(name) {
            None => Ok(None),
            Some(value) => {
                let number = value.as_u64().filter(|number| (least..=most).contains(number));
                let flaw = || format!("{name} is {value}: expected an integer from {least} to {most}");
                number.map(Some).ok_or_else(flaw)
            }
        };
        Ok(Waiting {
            clients: number("max_waiting", (0, MOST_WAITING))?,
            bytes: number("max_waiting_bytes", (0, MOST_WAITING_BYTES))?,
            longest: number("max_waiting_ms", (1, MOST_WAITING_MS))?.map(Duration::from_millis),
        })
    }

    /// The setting `causal_reads`.
    ///
    /// # Errors
    /// The invalid value, as text for a message.
    pub fn causal_reads(&self) -> Result<Option<CausalReads>, String> {
        let level = self.setting("causal_reads").map(CausalReads::of_value);
        level.transpose().map_err(|flaw| format!("causal_reads {flaw}"))
    }

    fn setting(&self, name: &str) -> Option<&serde_json::Value> {
        self.hostgroup_settings.get(name)
    }
}

/// The columns of servers that the monitor finds; `None`: they are those of a server that is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServersDefaults {
    /// Their weight.
    pub weight: Option<u32>,
    /// The maximum number of connections to each.
    pub max_connections: Option<u32>,
    /// Whether TLS is used.
    pub use_ssl: Option<bool>,
}

/// How many may wait for a server of a hostgroup, and for how long, where a row says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiting {
    /// Clients; `None`: any number.
    pub clients: Option<u64>,
    /// Bytes of their statements; `None`: any number.
    pub bytes: Option<u64>,
    /// How long each may wait; `None`: for `connect_timeout_server_max`.
    pub longest: Option<Duration>,
}

/// As many as `mysql-max_connections` allows.
const MOST_WAITING: u64 = 1_000_000;

/// More than any machine has: a terabyte.
const MOST_WAITING_BYTES: u64 = 1 << 40;

/// The limit of `connect_timeout_server_max`, an hour.
const MOST_WAITING_MS: u64 = 3_600_000;

/// How a server of a hostgroup is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balance {
    /// In turn by weight; one that is far busier or far slower than another yields its turn.
    #[default]
    LeastOutstanding,
    /// At random, by weight.
    WeightedRandom,
}

/// One row of `mysql_servers_ssl_params`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SslParamsRow {
    /// The server.
    pub hostname: String,
    /// The server's port.
    pub port: u16,
    /// The user who connects; empty: all users without a row of their own.
    pub username: String,
    /// The file of CA certificates.
    pub ssl_ca: String,
    /// The file of the certificate that is sent to the server.
    pub ssl_cert: String,
    /// The file of the certificate's private key.
    pub ssl_key: String,
    /// The folder of CA certificates.
    pub ssl_capath: String,
    /// The file of certificate revocation lists.
    pub ssl_crl: String,
    /// The folder of certificate revocation lists.
    pub ssl_crlpath: String,
    /// Ciphers by their OpenSSL names, separated by `:`.
    pub ssl_cipher: String,
    /// TLS versions, separated by commas.
    pub tls_version: String,
    /// Free text.
    pub comment: String,
}

/// The maximum of `mysql_servers.weight`.
const MOST_WEIGHT: u32 = 10_000_000;

/// In seconds: a week, like the maximum of the variable with that name.
const MOST_LAG_WHEN_NULL: u64 = 604_800;

/// The server variables that determine whether a server may be written to: `mysql_replication_hostgroups.check_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CheckType {
    /// `read_only`
    ReadOnly,
    /// `innodb_read_only`
    InnodbReadOnly,
    /// `super_read_only`
    SuperReadOnly,
    /// `read_only` or `innodb_read_only`.
    Either,
    /// `read_only` and `innodb_read_only`.
    Both,
}

impl CheckType {
    /// The type with that name, which the table has checked.
    pub fn named(name: &str) -> CheckType {
        match name.to_ascii_lowercase().as_str() {
            "innodb_read_only" => CheckType::InnodbReadOnly,
            "super_read_only" => CheckType::SuperReadOnly,
            "read_only|innodb_read_only" => CheckType::Either,
            "read_only&innodb_read_only" => CheckType::Both,
            _ => CheckType::ReadOnly,
        }
    }

    /// The name of the type, as in the table.
    pub fn name(self) -> &'static str {
        match self {
            CheckType::ReadOnly => "read_only",
            CheckType::InnodbReadOnly => "innodb_read_only",
            CheckType::SuperReadOnly => "super_read_only",
            CheckType::Either => "read_only|innodb_read_only",
            CheckType::Both => "read_only&innodb_read_only",
        }
    }

    /// The query that is sent to a server.
    pub fn question(self) -> &'static str {
        match self {
            CheckType::ReadOnly => "SELECT @@global.read_only read_only",
            CheckType::InnodbReadOnly => "SELECT @@global.innodb_read_only read_only",
            CheckType::SuperReadOnly => "SELECT @@global.super_read_only read_only",
            CheckType::Either => "SELECT @@global.read_only|@@global.innodb_read_only read_only",
            CheckType::Both => "SELECT @@global.read_only&@@global.innodb_read_only read_only",
        }
    }
}

/// What it means for the same host and port in other hostgroups when a server is reached again in one of them:
/// `mysql-unshun_algorithm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnshunAlgorithm {
    /// Nothing: each hostgroup finds out by itself.
    OneByOne,
    /// The server is back in all of them.
    AllAtOnce,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A server with the defaults of the configuration.
    pub(crate) fn server(hostgroup: i32, hostname: &str, port: u16) -> ServerRow {
        ServerRow {
            hostgroup: HostgroupId(hostgroup),
            hostname: hostname.to_owned(),
            port,
            gtid_port: 0,
            status: ServerStatus::Online,
            weight: 1,
            compression: false,
            max_connections: 1_000,
            max_replication_lag: 0,
            use_ssl: false,
            max_latency_ms: 0,
            comment: String::new(),
        }
    }

    /// A row with the defaults of the configuration and these `hostgroup_settings`.
    pub(crate) fn hostgroup_attributes(hostgroup: i32, settings: &str) -> HostgroupAttributesRow {
        HostgroupAttributesRow {
            hostgroup: HostgroupId(hostgroup),
            max_num_online_servers: 1_000_000,
            autocommit: -1,
            free_connections_pct: 10,
            init_connect: String::new(),
            multiplex: true,
            connection_warming: false,
            throttle_connections_per_sec: 1_000_000,
            ignore_session_variables: String::new(),
            hostgroup_settings: settings.into(),
            servers_defaults: JsonColumn::default(),
            comment: String::new(),
        }
    }

    #[test]
    fn every_check_type_asks_its_variables() {
        let asked = |name: &str| CheckType::named(name).question();
        assert_eq!(asked("READ_ONLY"), "SELECT @@global.read_only read_only");
        assert_eq!(asked("super_read_only"), "SELECT @@global.super_read_only read_only");
        assert!(asked("read_only|innodb_read_only").contains("read_only|@@global.innodb_read_only"));
        assert!(asked("read_only&innodb_read_only").contains("read_only&@@global.innodb_read_only"));
    }
}
