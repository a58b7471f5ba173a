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

    /// Whether nodes that are out of use stay in the reader hostgroup, shunned, because there is none for them.
    pub fn shuns_in_place(&self) -> bool {
        self.offline_hostgroup == self.reader_hostgroup
    }
}

/// One row of `mysql_aws_aurora_hostgroups`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuroraRow {
    /// What it has in common with other clusters. The reader hostgroup is also that of backup writers, and of nodes that
    /// are out of use.
    pub cluster: ClusterRow,
    /// The port of nodes that are found.
    pub aurora_port: u16,
    /// What follows a node's `SERVER_ID` in its host name.
    pub domain_name: String,
    /// The estimated lag in milliseconds above which a node is not read from.
    pub max_lag_ms: u32,
    /// Milliseconds between two checks of a node.
    pub check_interval_ms: u32,
    /// Milliseconds that a node has to answer a check.
    pub check_timeout_ms: u32,
    /// The weight of nodes that are found.
    pub new_reader_weight: u32,
    /// Milliseconds that are added to a reported lag.
    pub add_lag_ms: u32,
    /// The smallest estimate of a lag, in milliseconds.
    pub min_lag_ms: u32,
    /// How many of the last reports an estimate is the greatest of.
    pub lag_num_checks: u32,
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
