//! The settings of one hostgroup: its complete row of `mysql_hostgroup_attributes`, or otherwise the variables.

use std::time::Duration;

use super::CrowdLimits;
use crate::rows::{Balance, CausalReads, HostgroupAttributesRow, PreferenceSettings, Variables};

/// The settings of one hostgroup.
#[derive(Debug, Clone, PartialEq)]
pub struct HostgroupSettings {
    /// How a server is chosen.
    pub balance: Balance,
    /// Idle connections kept per server, in percent of its `max_connections`.
    pub free_connections_pct: u32,
    /// Whether that many are opened before they are needed.
    pub connection_warming: bool,
    /// Statements that are run on every new connection; empty if none.
    pub init_connect: String,
    /// Whether connections return to the pool after each statement.
    pub multiplex: bool,
    /// Whether warnings are kept for `SHOW WARNINGS` when a connection returns to the pool.
    pub handle_warnings: bool,
    /// Connections that may be opened in a second.
    pub openings_per_second: u32,
    /// While more servers than this are ONLINE, none gets statements.
    pub max_online: usize,
    /// The number of candidates from which those that answer pings more slowly than the average get no statements.
    pub latency_aware_from: usize,
    /// The ping time above which a server gets no statements, unless its row sets one; zero if none.
    pub max_latency: Duration,
    /// How long a server that has come back has less than its share.
    pub slow_start: Duration,
    /// Which servers are backups, and in which zones they are.
    pub preference: PreferenceSettings,
    /// Which writes statements must see that go to it, as readers of another hostgroup.
    pub causal_reads: CausalReads,
    /// The zone of this process; empty if it has none.
    pub own_zone: String,
    /// How many replicas within the limit of a statement replace an Aurora writer; 0: no number.
    pub aurora_replicas_instead: usize,
    /// How many may wait for a server,
    pub crowd: CrowdLimits,
    /// and for how long.
    pub longest_wait: Duration,
}

impl HostgroupSettings {
    /// The settings of a hostgroup with that row, if it has one.
    pub fn of(variables: &Variables, row: Option<&HostgroupAttributesRow>) -> HostgroupSettings {
        let waiting = row.and_then(|row| row.waiting().ok()).unwrap_or_default();
        let crowd = CrowdLimits {
            clients: waiting.clients.unwrap_or(u64::MAX),
            bytes: waiting.bytes.unwrap_or(u64::MAX),
        };
        let general = HostgroupSettings {
            balance: Balance::default(),
            free_connections_pct: variables.free_connections_pct,
            connection_warming: variables.connection_warming,
            init_connect: variables.init_connect.clone(),
            multiplex: true,
            handle_warnings: variables.handle_warnings,
            openings_per_second: variables.throttle_connections_per_sec_to_hostgroup,
            max_online: usize::MAX,
            latency_aware_from: variables.min_num_servers_latency_awareness,
            max_latency: variables.default_max_latency,
            slow_start: variables.slow_start,
            preference: PreferenceSettings::default(),
            causal_reads: variables.causal_reads,
            own_zone: variables.zone.clone(),
            aurora_replicas_instead: variables.aurora_replicas_instead,
            crowd,
            longest_wait: waiting.longest.unwrap_or(variables.connect_timeout_server_max),
        };
        let Some(row) = row else { return general };
        HostgroupSettings {
            balance: row.balance().unwrap_or_default(),
            free_connections_pct: row.free_connections_pct,
            connection_warming: row.connection_warming,
            init_connect: row.init_connect.clone(),
            multiplex: row.multiplex,
            handle_warnings: row.handle_warnings().ok().flatten().unwrap_or(variables.handle_warnings),
            openings_per_second: row.throttle_connections_per_sec,
            max_online: row.max_num_online_servers as usize,
            preference: row.preference().unwrap_or_default(),
            causal_reads: row.causal_reads().ok().flatten().unwrap_or(variables.causal_reads),
            ..general
        }
    }
}
