//! Clusters whose nodes agree among themselves who may write: Galera, Group Replication and Aurora.
//!
//! A source ([`galera`], [`group_replication`], [`aurora`]) says what each node is asked, and turns the answer into a [`Word`],
//! and a [`roster::Roster`] of all nodes. [`decide`] gives each node a role, and knows nothing of sources, tables or
//! connections. [`views`] says which nodes the others have excluded. [`placing`] puts the rows of the nodes into the
//! hostgroups of their roles.

pub mod aurora;
pub mod decide;
pub mod galera;
pub mod group_replication;
mod member_names;
mod node_task;
pub mod placing;
pub mod roster;
pub mod seats;
pub mod views;

use narrows_proxy::snapshot::{AuroraRow, ClusterRow, HostgroupId, Rows};

/// The kinds of clusters, each with a table of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClusterKind {
    /// Galera of MariaDB, and Percona XtraDB Cluster.
    Galera,
    /// Group Replication of MySQL, also as InnoDB Cluster.
    GroupReplication,
    /// Aurora of AWS.
    Aurora,
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
    pub const ALL: [ClusterKind; 3] =
        [ClusterKind::Galera, ClusterKind::GroupReplication, ClusterKind::Aurora];

    /// Its name, in messages and in names of figures.
    pub fn name(self) -> &'static str {
        match self {
            ClusterKind::Galera => "galera",
            ClusterKind::GroupReplication => "group_replication",
            ClusterKind::Aurora => "aurora",
        }
    }

    /// The table of its clusters.
    pub fn table(self) -> &'static str {
        match self {
            ClusterKind::Galera => "mysql_galera_hostgroups",
            ClusterKind::GroupReplication => "mysql_group_replication_hostgroups",
            ClusterKind::Aurora => "mysql_aws_aurora_hostgroups",
        }
    }

    /// Its rows.
    pub fn rows(self, rows: &Rows) -> impl Iterator<Item = &ClusterRow> {
        let (plain, aurora): (&[ClusterRow], &[AuroraRow]) = match self {
            ClusterKind::Galera => (&rows.galera_hostgroups, &[]),
            ClusterKind::GroupReplication => (&rows.group_replication_hostgroups, &[]),
            ClusterKind::Aurora => (&[], &rows.aurora_hostgroups),
        };
        plain.iter().chain(aurora.iter().map(|row| &row.cluster))
    }
}

/// The row of a cluster of Aurora.
pub fn aurora_row(rows: &Rows, id: ClusterId) -> Option<&AuroraRow> {
    let is_it = |row: &&AuroraRow| row.cluster.active && row.cluster.writer_hostgroup == id.writers;
    rows.aurora_hostgroups.iter().find(is_it).filter(|_| id.kind == ClusterKind::Aurora)
}

/// The clusters whose rows are active.
pub fn clusters(rows: &Rows) -> impl Iterator<Item = Cluster<'_>> {
    ClusterKind::ALL.into_iter().flat_map(|kind| {
        let active = kind.rows(rows).filter(|row| row.active);
        active.map(move |row| Cluster { id: ClusterId { kind, writers: row.writer_hostgroup }, row })
    })
}

impl std::fmt::Display for ClusterId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.writers)
    }
}
