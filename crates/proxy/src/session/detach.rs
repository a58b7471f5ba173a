//! A client that keeps a connection on which nothing of it is: it continues on another one when that server is lost, or has
//! another role.

use super::effects::{PinReason, Pins};
use super::lease::NoLease;
use super::{Pinned, Session};
use crate::pool::{Exit, is_of_its_hostgroup};

/// Whether something of the client is on a connection that it keeps for these reasons.
pub(super) fn is_tied_by(pins: &Pins) -> bool {
    !pins.are_only(PinReason::NOTHING_THERE)
}

impl Session {
    /// Whether the client keeps a connection with something of it.
    pub(super) fn is_tied(&self) -> bool {
        self.binding.pinned.as_ref().is_some_and(|pinned| is_tied_by(&pinned.pins))
    }

    /// A connection was found lost: its server may have another role when it comes back.
    pub(super) fn doubts(&self, no_lease: &NoLease) {
        if let NoLease::Lost { server, .. } = no_lease {
            self.snapshot().raise_alarm(server.row.hostgroup);
        }
    }

    /// Gives back the connection that the client keeps, if nothing of it is there and the server has left the hostgroup.
    pub(super) fn leave_former_server(&mut self) {
        // The newest configuration: that of the statement may be older than a hold for whose end it has waited.
        let snapshot = self.worker.snapshot();
        let leaves =
            |pinned: &Pinned| !is_tied_by(&pinned.pins) && !is_of_its_hostgroup(&pinned.backend, &snapshot);
        if let Some(pinned) = self.binding.pinned.take_if(|pinned| leaves(pinned)) {
            self.give_back(pinned.backend, Exit::Return);
        }
    }
}
