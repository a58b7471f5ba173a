//! What checks can find out about a server.

use narrows_proxy::snapshot::{CheckType, HostgroupId};
use narrows_sql::ChangedDefaults;

use super::cluster::roster::Roster;
use super::cluster::views::View;
use super::cluster::{ClusterId, Word};
use super::plan::Address;
use super::rds_topology::Topology;
use super::role::RoleReport;

/// One thing that has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// A server answers pings, or no longer does.
    Reach(Address, Reach),
    /// What the checks of a server's role have found so far.
    Role(Address, CheckType, RoleReport),
    /// In a hostgroup, a server's lag is acceptable or too high.
    Lag(Address, HostgroupId, Lag, MeasuredLag),
    /// What a node of a cluster says about itself; its role follows from what all of them say.
    Node(Address, ClusterId, Word),
    /// What a server says about its place in RDS.
    Topology(Address, Topology),
    /// Which nodes a node of a cluster names.
    Roster(Address, ClusterId, Roster),
    /// The view that a node of a cluster has; `None`: it has none, or cannot be used.
    View(Address, ClusterId, Option<View>),
    /// What sessions, or logins, take over from a server has changed.
    Defaults(Address, ChangedDefaults),
    /// The zone that a server says it is in.
    Zone(Address, String),
}

impl Finding {
    /// Whether it says something that was not said before.
    pub fn is_news(&self) -> bool {
        !matches!(self, Finding::Role(_, _, RoleReport { is_news: false, .. }))
    }

    /// Whether it says again, and newer, what another one says.
    pub fn replaces(&self, other: &Finding) -> bool {
        match (self, other) {
            (Finding::Role(address, check_type, _), Finding::Role(of, by, _)) => {
                address == of && check_type == by
            }
            _ => false,
        }
    }

    /// Whose it is, and a word for it; `None`: by itself it changes nothing, or, as for roles, only what is known before says what.
    pub fn change(&self) -> Option<(&Address, &'static str)> {
        Some(match self {
            Finding::Reach(server, Reach::Reachable) => (server, "reachable"),
            Finding::Reach(server, Reach::Unreachable) => (server, "unreachable"),
            Finding::Lag(server, _, Lag::Fine, _) => (server, "caught_up"),
            Finding::Lag(server, _, Lag::TooMuch, _) => (server, "lagging"),
            Finding::Role(..)
            | Finding::Node(..)
            | Finding::View(..)
            | Finding::Roster(..)
            | Finding::Topology(..)
            | Finding::Defaults(..)
            | Finding::Zone(..) => return None,
        })
    }
}

/// Whether a server gets statements, according to pings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The server answers pings.
    Reachable,
    /// The server has missed too many pings.
    Unreachable,
}

/// A server's lag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// This many seconds.
    Seconds(u64),
    /// It replicates, or should, and does not know its lag: replication is broken or stopped.
    Unknown,
    /// It does not replicate.
    NotAReplica,
}

/// Whether a server's lag is acceptable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lag {
    /// The lag is acceptable.
    Fine,
    /// The lag is too high.
    TooMuch,
}

/// The basis of a finding about lag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredLag {
    /// The server's lag.
    pub behind: Behind,
    /// The allowed lag in seconds.
    pub limit_s: u32,
}

impl std::fmt::Display for Behind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Behind::Seconds(seconds) => write!(f, "{seconds} s"),
            Behind::Unknown => f.write_str("unknown: replication is broken or stopped"),
            Behind::NotAReplica => f.write_str("none: it replicates nothing"),
        }
    }
}
