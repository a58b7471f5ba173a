//! Rows about clusters, whose nodes agree among themselves who may write: the monitor puts each node in the hostgroup of
//! its role.

use super::{CheckType, HostgroupId};

/// One row of `mysql_galera_hostgroups` or of `mysql_group_replication_hostgroups`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterRow {
    /// The nodes that are written to.
    pub writer_hostgroup: HostgroupId,
    /// The nodes that could be written to, but are more than `max_writers`.
    pub backup_writer_hostgroup: HostgroupId,
    /// The nodes that are read from.
    pub reader_hostgroup: HostgroupId,
    /// The nodes that get no statements.
    pub offline_hostgroup: HostgroupId,
    /// Whether the row is used.
    pub active: bool,
    /// How many nodes are written to at a time.
    pub max_writers: u32,
    /// 0: writers are not read from; 1: they are; 2: only backup writers are.
    pub writer_is_also_reader: u8,
    /// How many transactions a node may have to catch up with; 0: any number.
    pub max_transactions_behind: u32,
    /// Free text.
    pub comment: String,
}

impl ClusterRow {
    /// Its hostgroups.
    pub fn hostgroups(&self) -> [HostgroupId; 4] {
        [self.writer_hostgroup, self.backup_writer_hostgroup, self.reader_hostgroup, self.offline_hostgroup]
    }
}

/// A hostgroup for writers with the one for their readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostgroupPair {
    /// Servers that may be written to.
    pub writers: HostgroupId,
    /// Servers that are read from.
    pub readers: HostgroupId,
    /// The server variables by which a writer is recognised.
    pub check_type: CheckType,
    /// What the servers form.
    pub bond: Bond,
}

/// `ER_UNKNOWN_COM_ERROR`, with which a Galera node that has lost its cluster refuses everything.
pub const NO_CLUSTER: u16 = 1047;

/// What the servers of a pair of hostgroups form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bond {
    /// A primary and its replicas.
    Replication,
    /// A cluster. A node that has lost it refuses everything with error 1047.
    Cluster,
}
