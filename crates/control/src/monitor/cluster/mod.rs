//! Clusters whose nodes agree among themselves who may write: Galera and Group Replication.
//!
//! A source ([`galera`], [`group_replication`]) says what each node is asked, and turns the answer into a [`Word`]. [`decide`] gives each
//! node a role, and knows nothing of sources, tables or connections. [`placing`] puts the rows of the nodes into the
//! hostgroups of their roles.

pub mod decide;
pub mod galera;
pub mod group_replication;
mod node_task;
pub mod placing;
pub mod seats;

use narrows_proxy::snapshot::{ClusterRow, HostgroupId, Rows};

/// The kinds of clusters, each with a table of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClusterKind {
    /// Galera of MariaDB, and Percona XtraDB Cluster.
    Galera,
    /// Group Replication of MySQL, also as InnoDB Cluster.
    GroupReplication,
}

/// A cluster: the row with this writer hostgroup in the table of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId {
    /// Its kind.
    pub kind: ClusterKind,
    /// Its writer hostgroup.
    pub writers: HostgroupId,
}

/// A cluster whose row is active.
#[derive(Debug, Clone, Copy)]
pub struct Cluster<'a> {
    /// Which one it is.
    pub id: ClusterId,
    /// Its row.
    pub row: &'a ClusterRow,
}

/// What a node has said about itself, with the reason in words. A reason is the same as long as the state is: no numbers
/// that change with each check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// It may be written to and read from.
    Writes,
    /// It may be written to, but should only be if no other node can, as writes may have to wait there.
    Reluctant(String),
    /// The same, and it should not be read from: it has transactions to catch up with.
    Late(String),
    /// It may be read from.
    Reads(String),
    /// It should get no new work; transactions there may finish.
    Leaving(String),
    /// It cannot be used.
    Out(String),
}

impl ClusterKind {
    /// Every kind.
    pub const ALL: [ClusterKind; 2] = [ClusterKind::Galera, ClusterKind::GroupReplication];

    /// Its name, in messages and in names of figures.
    pub fn name(self) -> &'static str {
        match self {
            ClusterKind::Galera => "galera",
            ClusterKind::GroupReplication => "group_replication",
        }
    }

    /// The table of its clusters.
    pub fn table(self) -> &'static str {
        match self {
            ClusterKind::Galera => "mysql_galera_hostgroups",
            ClusterKind::GroupReplication => "mysql_group_replication_hostgroups",
        }
    }

    /// Its rows.
    pub fn rows(self, rows: &Rows) -> &[ClusterRow] {
        match self {
            ClusterKind::Galera => &rows.galera_hostgroups,
            ClusterKind::GroupReplication => &rows.group_replication_hostgroups,
        }
    }
}

/// The clusters whose rows are active.
pub fn clusters(rows: &Rows) -> impl Iterator<Item = Cluster<'_>> {
    ClusterKind::ALL.into_iter().flat_map(|kind| {
        let active = kind.rows(rows).iter().filter(|row| row.active);
        active.map(move |row| Cluster { id: ClusterId { kind, writers: row.writer_hostgroup }, row })
    })
}

impl std::fmt::Display for ClusterId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.writers)
    }
}
