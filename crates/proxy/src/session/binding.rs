//! The backend connections that a session keeps.

use narrows_wire::Status;

use super::effects::{PinReason, Pins};
use super::replay::record::Record;
use crate::pool::Lease;
use crate::rt::Instant;
use crate::snapshot::HostgroupId;
use crate::worker::Pinning;

/// Which backend connections a client keeps.
#[derive(Default)]
pub(super) struct Binding {
    /// The connection that the client keeps, as long as there is a reason.
    pub(super) pinned: Option<Pinned>,
    /// Others that it keeps, which the current statement does not run on.
    pub(super) aside: Vec<Aside>,
    /// The text that began the transaction on the kept connection, while nothing else has run in it.
    pub(super) begun: Option<Box<[u8]>>,
    /// What has run in the transaction on the kept connection, if that is to be run again when its server is lost.
    pub(super) record: Option<Box<Record>>,
    /// A rule has turned multiplexing off.
    pub(super) multiplexing_off: bool,
}

/// A backend connection that one client keeps.
pub(super) struct Pinned {
    pub(super) backend: Lease,
    pub(super) hostgroup: HostgroupId,
    pub(super) pins: Pins,
}

/// A connection that is set aside, and the session's status on it.
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
