//! What runs in one hostgroup: statements that a server has, and transactions that are open.

use super::{Handle, Worker};
use crate::backend::Card;
use crate::figures::{Doing, Running};
use crate::pin_reason::PinReason;
use crate::rows::HostgroupId;

impl Worker {
    /// What runs in a hostgroup on this worker.
    pub fn running_in(&self, hostgroup: HostgroupId) -> Running {
        let mut running = Running::default();
        self.for_each_session(|handle| running.add(handle.runs_in(hostgroup)));
        running
    }
}

impl Handle {
    /// What the session runs in a hostgroup.
    fn runs_in(&self, hostgroup: HostgroupId) -> Running {
        let is_of = |card: &Card| card.server.row.hostgroup == hostgroup;
        let aside = self.aside.borrow().iter().any(|(card, in_transaction)| *in_transaction && is_of(card));
        let is_here = self.card.borrow().as_ref().is_some_and(|card| is_of(card));
        if !is_here {
            return Running { sessions: u64::from(aside), not_held: 0 };
        }
        match self.doing.get() {
            Doing::Command(name) if NEVER_HELD.contains(&name) => {
                Running { sessions: u64::from(aside), not_held: 1 }
            }
            Doing::Command(_) => Running { sessions: 1, not_held: 0 },
            // One that waits has sent nothing, even if it keeps a connection.
            Doing::Sleep | Doing::Connect => {
                let open = self.pins.borrow().iter().any(|pin| pin.reason.intersects(PinReason::OPEN_WORK));
                Running { sessions: u64::from(open || aside), not_held: 0 }
            }
        }
    }
}

/// Sessions whose bytes are forwarded unread: nobody knows where their statements begin.
const NEVER_HELD: [&str; 2] = ["Fast forward", "Binlog Dump"];
