//! What a worker counts. Plain numbers, never shared: the control plane asks for a copy.

use std::collections::BTreeMap;

use crate::snapshot::HostgroupId;

/// One worker's counters since the start.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    /// Commands received.
    pub questions: u64,
    /// Logins that succeeded.
    pub logins: u64,
    /// Logins that were refused.
    pub login_failures: u64,
    /// Clients that went away without `COM_QUIT`.
    pub aborted_clients: u64,
    /// Sessions that ended by a panic.
    pub panics: u64,
    /// Statements by hostgroup.
    pub statements: BTreeMap<HostgroupId, u64>,
    /// How often a session was pinned to its backend connection, by the name of the reason.
    pub pins: BTreeMap<&'static str, u64>,
}
