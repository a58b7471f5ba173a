//! The backend connections that a session keeps to itself.

use narrows_wire::Status;

use super::effects::{PinReason, Pins};
use crate::pool::Lease;
use crate::rt::Instant;
use crate::snapshot::HostgroupId;
use crate::worker::Pinning;

/// Which backend connections a client keeps.
#[derive(Default)]
pub(super) struct Binding {
    /// The backend connection that the client keeps, while there is a reason.
    pub(super) pinned: Option<Pinned>,
    /// Others that it keeps, and that the current statement does not run on.
    pub(super) aside: Vec<Aside>,
    /// A rule has turned multiplexing off.
    pub(super) multiplexing_off: bool,
}

/// A backend connection that one client keeps to itself.
pub(super) struct Pinned {
    pub(super) backend: Lease,
    pub(super) hostgroup: HostgroupId,
    pub(super) pins: Pins,
}

/// A connection that is set aside, and what the session was on it.
pub(super) struct Aside {
    pub(super) pinned: Pinned,
    pub(super) status: Status,
    pub(super) since: Option<Instant>,
    pub(super) pins: Vec<Pinning>,
}

impl Aside {
    pub(super) fn has_transaction(&self) -> bool {
        self.pinned.pins.reasons().intersects(PinReason::TRANSACTION)
    }
}
