//! The backend connections that a session keeps to itself.

use super::aside::Aside;
use super::effects::Pins;
use crate::pool::Lease;
use crate::snapshot::HostgroupId;

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
