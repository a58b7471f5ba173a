//! The settings from the variables `mysql-monitor_*`.

use std::collections::BTreeMap;
use std::time::Duration;

/// The variables that the monitor reads, with their names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MonitorSettings {
    /// Whether there are checks at all.
    pub enabled: bool,
    /// The account of all checks.
    pub username: String,
    /// Its password.
    pub password: String,
    /// How long results are kept.
    pub history: Duration,
    /// When host names are resolved.
    pub names: NameSettings,
    /// When checks are made, by the names of their kinds.
    pub timings: BTreeMap<&'static str, Timing>,
    /// How many pings in a row must fail before a server is shunned.
    pub ping_max_failures: u32,
    /// How many checks of `read_only` in a row must time out before a server counts as read-only.
    pub read_only_max_timeout_count: u32,
    /// Every how many checks of `read_only` the topology of RDS is asked for; 0: never.
    pub rds_topology_every: u32,
    /// How many checks in a row must find the lag above the limit before a server is shunned.
    pub replication_lag_count: u32,
    /// The table of pt-heartbeat, as `schema.table`; empty: the replicas' status is used.
    pub heartbeat: String,
    /// The lag assumed for a replica that does not know its own, in seconds.
    pub lag_when_null: u32,
    /// How many checks of a Galera node in a row must time out before it is offline.
    pub galera_max_timeout_count: u32,
    /// Whether the nodes that a Galera node names are found.
    pub galera_autodiscovery: bool,
    /// Those of Group Replication.
    pub group_replication: GroupReplicationSettings,
    /// Whether a writer stays in the reader hostgroup.
    pub writer_is_also_reader: bool,
    /// How many servers of a replication pair are written to at once; 0: all that take writes.
    pub max_writers: u32,
    /// Whether checks of `read_only` also ask what servers have applied, because reads must see writes; no variable says it.
    pub asks_positions: bool,
}

impl MonitorSettings {
    /// How the servers of replication pairs are placed.
    pub fn pairs(&self) -> PairSettings {
        PairSettings {
            writer_is_also_reader: self.writer_is_also_reader,
            max_writers: usize::try_from(self.max_writers).unwrap_or(usize::MAX),
        }
    }

    /// The timing of the check with that name.
    pub fn timing(&self, check: &str) -> Timing {
        self.timings.get(check).copied().unwrap_or_default()
    }

    /// The timing of the check with that name, mutable.
    pub fn timing_mut(&mut self, check: &'static str) -> &mut Timing {
        self.timings.entry(check).or_default()
    }
}

/// What the checks of Group Replication members tolerate: `mysql-monitor_groupreplication_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupReplicationSettings {
    /// How many checks in a row must time out before a member is offline.
    pub max_timeout_count: u32,
    /// How many checks in a row must find a member too far behind.
    pub behind_count: u32,
    /// Which members that limit is for: 0 writers, 1 readers, 2 both.
    pub behind_for_read_only: u32,
    /// Whether the members that a member names are found.
    pub autodiscovery: bool,
}

/// The timing of a kind of check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// The time from the start of one check to the start of the next.
    pub interval: Duration,
    /// How long a check may take, including the connection that it may need.
    pub timeout: Duration,
}

/// When names are resolved: `mysql-monitor_local_dns_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NameSettings {
    /// How long an answer is valid; zero: names are resolved for each connection.
    pub ttl: Duration,
    /// How often expired names are resolved; zero: names are resolved for each connection.
    pub interval: Duration,
    /// How many names may wait for each name that is being resolved.
    pub queue: usize,
}

/// How the servers of pairs are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairSettings {
    /// Whether a writer stays in the reader hostgroup.
    pub writer_is_also_reader: bool,
    /// How many servers of a pair are written to at once; 0: all that take writes.
    pub max_writers: usize,
}
