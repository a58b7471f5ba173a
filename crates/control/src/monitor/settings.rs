//! What the variables `mysql-monitor_*` say.

use std::time::Duration;

/// The variables that the monitor reads; names are theirs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
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
    /// When connecting is tried.
    pub connect: Timing,
    /// When servers are pinged.
    pub ping: Timing,
    /// Pings in a row that must fail before a server is shunned.
    pub ping_max_failures: u32,
    /// When servers are asked whether they may be written to.
    pub read_only: Timing,
    /// Such questions in a row that must time out before a server counts as read-only.
    pub read_only_max_timeout_count: u32,
    /// When replicas are asked how far they are behind.
    pub replication_lag: Timing,
    /// Such answers in a row that must be above the limit before a server is shunned.
    pub replication_lag_count: u32,
    /// The table of pt-heartbeat, as `schema.table`; empty: replicas are asked for their status.
    pub heartbeat: String,
    /// Seconds of lag of a replica that does not know its own.
    pub lag_when_null: u32,
    /// Whether a writer stays in the reader hostgroup.
    pub writer_is_also_reader: bool,
}

/// When a kind of check is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// From the beginning of one to the beginning of the next.
    pub interval: Duration,
    /// How long one may take, with the connection that it may need.
    pub timeout: Duration,
}

/// When names are resolved: `mysql-monitor_local_dns_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NameSettings {
    /// How long what was found is good for; zero: names are resolved with each connection.
    pub ttl: Duration,
    /// How often names are looked at whose time is over; zero: as above.
    pub interval: Duration,
    /// Names that wait, for each that is resolved at the same time.
    pub queue: usize,
}
