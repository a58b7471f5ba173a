//! Who waits for a hostgroup, and what still runs in one that is held.

use crate::rows::HostgroupId;

/// Who waits for a hostgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingLine {
    /// The hostgroup.
    pub hostgroup: HostgroupId,
    /// How many clients wait.
    pub clients: u64,
    /// Bytes of their statements.
    pub bytes: u64,
    /// How long the first of them has waited, in ms.
    pub longest_ms: u64,
    /// What they wait for; empty if nobody waits.
    pub cause: &'static str,
    /// For how long it is still held, in ms; `None`: it is not.
    pub held_ms: Option<u64>,
}

/// What runs in a hostgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Running {
    /// Sessions with a statement that a server has, or with a transaction, an XA transaction or locked tables.
    pub sessions: u64,
    /// Sessions that no hold holds: those of `fast_forward` users, and readers of the binary log.
    pub not_held: u64,
}

impl Running {
    /// Adds those of another worker.
    pub fn add(&mut self, other: Running) {
        self.sessions += other.sessions;
        self.not_held += other.not_held;
    }
}
