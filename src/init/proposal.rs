//! What Narrows should do with the servers that were found.

use std::net::{SocketAddr, TcpListener};

use super::accounts::AppAccount;
use super::address;
use super::args::InitArgs;
use super::facts::Facts;
use super::monitor_account::MonitorAccount;
use narrows_control::monitor::cluster::ClusterKind;

use super::topology::{Relation, Topology};

/// The hostgroup for writes, or for everything.
pub const WRITERS: u16 = 10;
/// The hostgroup for reads.
pub const READERS: u16 = 20;
/// The hostgroup of a cluster's nodes that could be written to, and are not.
pub const BACKUP_WRITERS: u16 = 30;
/// The hostgroup of a cluster's nodes that get nothing.
pub const OFFLINE: u16 = 40;

/// Everything that the file says.
#[derive(Debug)]
pub struct Proposal {
    /// The version that the greeting announces.
    pub greeting_version: String,
    /// The servers, the primary first.
    pub servers: Vec<ServerLine>,
    /// Whether `read_only` tells writers from readers.
    pub follows_read_only: bool,
    /// What the nodes are that agree among themselves who may write; `None`: they are no cluster.
    pub cluster: Option<ClusterKind>,
    /// Whether reads go to the replicas, or to the other nodes.
    pub splits: bool,
    /// Whether servers may be asked for their RSA key without TLS.
    pub asks_for_keys: bool,
    /// The accounts of applications.
    pub accounts: Vec<AppAccount>,
    /// The monitor's account.
    pub monitor: MonitorAccount,
    /// The password of the administrator `admin`.
    pub admin_password: String,
    /// Where Narrows listens.
    pub listeners: Listeners,
}

/// A row of `mysql_servers`.
#[derive(Debug)]
pub struct ServerLine {
    /// What is known about the server.
    pub facts: Facts,
    /// Its hostgroup.
    pub hostgroup: u16,
    /// Its `max_connections` for Narrows.
    pub max_connections: u32,
    /// Its `max_replication_lag`; 0: none.
    pub max_replication_lag: u32,
    /// Whether it gets statements.
    pub is_used: bool,
}

/// Where Narrows listens.
#[derive(Debug, Clone)]
pub struct Listeners {
    /// For clients.
    pub clients: String,
    /// For administrators.
    pub administrators: String,
}

/// What was decided about the servers.
#[derive(Debug)]
pub struct Decisions {
    /// The accounts of applications.
    pub accounts: Vec<AppAccount>,
    /// The monitor's account.
    pub monitor: MonitorAccount,
    /// Whether reads may go to replicas.
    pub splits: bool,
    /// Where Narrows listens.
    pub listeners: Listeners,
}

impl Proposal {
    /// What fits `topology`.
    pub fn new(topology: &Topology, decisions: Decisions, admin_password: String) -> Proposal {
        let servers: Vec<ServerLine> = topology.servers().map(|facts| line(facts, topology)).collect();
        let asks = |line: &ServerLine| {
            let facts = &line.facts;
            !facts.is_mariadb && !facts.offers_tls && !address::is_local(&facts.address)
        };
        let cluster = match topology.relation {
            Relation::Cluster(kind) => Some(kind),
            _ => None,
        };
        let has_readers = match cluster {
            Some(_) => servers.len() > 1,
            None => servers.iter().any(|line| line.hostgroup == READERS && line.is_used),
        };
        Proposal {
            greeting_version: greeting_version(&topology.primary),
            follows_read_only: topology.relation == Relation::Replication,
            cluster,
            splits: decisions.splits && has_readers,
            asks_for_keys: servers.iter().any(asks),
            servers,
            accounts: decisions.accounts,
            monitor: decisions.monitor,
            admin_password,
            listeners: decisions.listeners,
        }
    }

    /// The hostgroups that have servers.
    pub fn hostgroups(&self) -> Vec<u16> {
        let has_servers = |hostgroup: &u16| self.servers.iter().any(|line| line.hostgroup == *hostgroup);
        [WRITERS, READERS].into_iter().filter(has_servers).collect()
    }

    /// Whether a statement can run in a hostgroup now.
    pub fn serves(&self, hostgroup: u16) -> bool {
        self.servers.iter().any(|line| line.hostgroup == hostgroup && line.serves())
    }
}

impl ServerLine {
    /// Whether it gets statements now: it is in use, and not too late.
    fn serves(&self) -> bool {
        let lag_s = match self.facts.source() {
            Some(source) => source.lag_s,
            None => Some(0),
        };
        let is_late = lag_s.is_none_or(|lag| lag > self.max_replication_lag.into());
        self.is_used && (self.max_replication_lag == 0 || !is_late)
    }
}

fn line(facts: &Facts, topology: &Topology) -> ServerLine {
    let is_primary = facts.identity == topology.primary.identity;
    let is_delayed = facts.source().is_some_and(|source| source.delay_s > 0);
    // The monitor decides about the nodes of a cluster.
    let is_node = matches!(topology.relation, Relation::Cluster(_));
    let is_reader = !is_primary && !is_node;
    ServerLine {
        facts: facts.clone(),
        hostgroup: if is_reader { READERS } else { WRITERS },
        max_connections: share_of(facts.max_connections),
        max_replication_lag: if is_reader { MOST_LAG_S } else { 0 },
        is_used: !is_reader || !is_delayed,
    }
}

/// Four fifths of a server's connections: the rest is for administrators, replication, backups, and clients that do not
/// connect through Narrows.
fn share_of(max_connections: u32) -> u32 {
    match max_connections {
        0 => 100,
        // The column of the file is a signed number of 32 bits.
        all => (all - all.div_ceil(5)).clamp(1, i32::MAX.unsigned_abs()),
    }
}

/// The version as the server sends it in its greeting: MariaDB 10 prefixes 5.5.5, for old replicas.
fn greeting_version(facts: &Facts) -> String {
    match facts.is_mariadb && facts.version.starts_with("10.") {
        true => format!("5.5.5-{}", facts.version),
        false => facts.version.clone(),
    }
}

impl Listeners {
    /// The given ones, or otherwise the usual ports, or the first ones after them that are free.
    pub fn free(args: &InitArgs) -> Listeners {
        let (clients, administrators) = (6033, 6032);
        let is_free = |port: u16| TcpListener::bind((LOOPBACK, port)).is_ok();
        let taken = |address: &Option<String>| {
            address.as_ref().and_then(|it| it.parse::<SocketAddr>().ok()).map(|it| it.port())
        };
        let (given, given_admin) = (taken(&args.listen), taken(&args.admin_listen));
        let fits = |step: &u16| {
            let is_usable =
                |port: u16, others: [Option<u16>; 2]| !others.contains(&Some(port)) && is_free(port);
            (args.listen.is_some() || is_usable(clients + step, [given_admin, None]))
                && (args.admin_listen.is_some() || is_usable(administrators + step, [given, None]))
        };
        let step = (0..100).map(|number| number * 10).find(fits).unwrap_or(0);
        let on_loopback = |port: u16| format!("{LOOPBACK}:{port}");
        Listeners {
            clients: args.listen.clone().unwrap_or_else(|| on_loopback(clients + step)),
            administrators: args.admin_listen.clone().unwrap_or_else(|| on_loopback(administrators + step)),
        }
    }
}

const LOOPBACK: &str = "127.0.0.1";

/// A replica that is later than this gets no reads: long enough for the end of a big transaction, short enough that
/// users do not report it.
const MOST_LAG_S: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_connections_is_left_to_others() {
        assert_eq!([151, 100, 5, 1, 0].map(share_of), [120, 80, 4, 1, 100]);
    }
}
