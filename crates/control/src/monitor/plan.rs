//! What to check: derived by the control thread from servers and variables, and followed by the monitor.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use narrows_proxy::server_tokens::TokenLogin;
use narrows_proxy::snapshot::{
    AuroraRow, CheckType, HostgroupId, ReplicationHostgroupRow, Rows, ServerRow, ServerStatus,
};
use narrows_proxy::tls::SharedTls;

use super::cluster::{ClusterId, aurora_row, clusters};
use super::settings::{MonitorSettings, Timing};
use crate::config::tables::SERVERS;

/// A server as seen by checks, independent of hostgroups.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Host name or address; the path of a Unix socket if `port` is 0.
    pub hostname: String,
    /// TCP port, or 0.
    pub port: u16,
}

/// Everything to be checked, and how.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// When checks run, and how often.
    pub settings: MonitorSettings,
    /// The monitor's login on the servers.
    pub access: MonitorLogin,
    /// The servers to be checked.
    pub targets: Vec<Target>,
}

/// How to log in to servers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MonitorLogin {
    /// The name of the account.
    pub username: String,
    /// Its password.
    pub password: String,
    /// What servers get in the place of its password; `None`: its password.
    pub tokens: Option<TokenLogin>,
    /// Keys and certificates.
    pub tls: SharedTls,
    /// Whether remote servers are asked for their RSA key.
    pub may_ask_for_key: bool,
}

/// One server to be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The server.
    pub address: Address,
    /// Whether connections use TLS: they do if any of its rows requires it.
    pub use_ssl: bool,
    /// The variables that determine its role, for each kind of pair that it is in.
    pub check_types: Vec<CheckType>,
    /// The pairs that it is in, by their writer hostgroups, with those variables.
    pub pairs: Vec<(HostgroupId, CheckType)>,
    /// The limits on its lag, by hostgroup.
    pub lag_limits: Vec<LagLimit>,
    /// The clusters that it is a node of.
    pub clusters: Vec<NodeOf>,
}

/// A cluster that a server is a node of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOf {
    /// The cluster.
    pub id: ClusterId,
    /// How many transactions it may have to catch up with; 0: any number.
    pub most_behind: u32,
    /// The row of a cluster of Aurora.
    pub aurora: Option<Arc<AuroraRow>>,
}

/// The maximum lag of a server in one hostgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LagLimit {
    /// The hostgroup.
    pub hostgroup: HostgroupId,
    /// The maximum lag in seconds.
    pub seconds: u32,
    /// The lag assumed for a server that does not know its own; `None`: the variable's value.
    pub when_null: Option<u32>,
}

impl Address {
    /// The server of a row.
    pub fn of(row: &ServerRow) -> Address {
        Address { hostname: row.hostname.clone(), port: row.port }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.port {
            0 => f.write_str(&self.hostname),
            // Without brackets the port would be read as a part of the address.
            port if self.hostname.contains(':') => write!(f, "[{}]:{port}", self.hostname),
            port => write!(f, "{}:{port}", self.hostname),
        }
    }
}

impl NodeOf {
    /// When the node is checked, if its row says so.
    pub fn timing(&self) -> Option<Timing> {
        let row = self.aurora.as_ref()?;
        let ms = |ms: u32| Duration::from_millis(ms.into());
        Some(Timing { interval: ms(row.check_interval_ms), timeout: ms(row.check_timeout_ms) })
    }
}

impl Target {
    /// A server of which nothing is to be checked yet.
    fn new(address: Address) -> Target {
        let (check_types, pairs, lag_limits, clusters) = Default::default();
        Target { address, use_ssl: false, check_types, pairs, lag_limits, clusters }
    }

    /// A server that is not checked, and only connected to.
    pub fn to(hostname: &str, port: u16, use_ssl: bool) -> Target {
        Target { use_ssl, ..Target::new(Address { hostname: hostname.to_owned(), port }) }
    }

    /// A row to connect with.
    pub fn row(&self) -> ServerRow {
        ServerRow {
            hostname: self.address.hostname.clone(),
            port: self.address.port,
            weight: 1,
            max_connections: u32::MAX,
            use_ssl: self.use_ssl,
            ..(SERVERS.blank)()
        }
    }
}

/// The servers among `servers` that are checked: those that are not offline. Pairs determine whose role is checked.
pub fn targets(servers: &[ServerRow], rows: &Rows) -> Vec<Target> {
    let pairs = &rows.replication_hostgroups;
    let mut targets: BTreeMap<Address, Target> = BTreeMap::new();
    let offline =
        |row: &&ServerRow| matches!(row.status, ServerStatus::OfflineSoft | ServerStatus::OfflineHard);
    for row in servers.iter().filter(|row| !offline(row)) {
        let address = Address::of(row);
        let target = targets.entry(address.clone()).or_insert_with(|| Target::new(address));
        target.use_ssl |= row.use_ssl;
        if row.max_replication_lag > 0 {
            let settings = rows.hostgroup_attributes.iter().find(|it| it.hostgroup == row.hostgroup);
            target.lag_limits.push(LagLimit {
                hostgroup: row.hostgroup,
                seconds: row.max_replication_lag,
                when_null: settings.and_then(|settings| settings.lag_when_null().ok().flatten()),
            });
        }
        for cluster in clusters(rows).filter(|it| it.row.hostgroups().contains(&row.hostgroup)) {
            if !target.clusters.iter().any(|node| node.id == cluster.id) {
                target.clusters.push(NodeOf {
                    id: cluster.id,
                    most_behind: cluster.row.max_transactions_behind,
                    aurora: aurora_row(rows, cluster.id).cloned().map(Arc::new),
                });
            }
        }
        let is_in = |pair: &&ReplicationHostgroupRow| {
            [pair.writer_hostgroup, pair.reader_hostgroup].contains(&row.hostgroup)
        };
        for pair in pairs.iter().filter(is_in) {
            let check_type = CheckType::named(&pair.check_type);
            if !target.check_types.contains(&check_type) {
                target.check_types.push(check_type);
            }
            if !target.pairs.contains(&(pair.writer_hostgroup, check_type)) {
                target.pairs.push((pair.writer_hostgroup, check_type));
            }
        }
    }
    targets.into_values().collect()
}
