//! Why a client keeps its backend connection, by name, and what must be done to the connection before it is given back.

use super::names::Leftovers;
use crate::pin_reason::PinReason;
use crate::pool::Exit;

impl PinReason {
    /// What removes the causes of these reasons, and anything else that may have been set.
    pub(in super::super) const fn exit(self) -> Exit {
        match self {
            reasons if reasons.intersects(PinReason::OUTLASTS_LOGIN) => Exit::Close,
            reasons if reasons.intersects(PinReason::MAY_SET_ROLES) => Exit::ChangeUser,
            _ => Exit::Reset,
        }
    }
}

/// Why a client keeps its backend connection.
#[derive(Debug, Default)]
pub struct Pins {
    reasons: PinReason,
    /// The reasons of [`PinReason::CARRIED`] that existed at any time since the connection was leased.
    carried: PinReason,
    /// Boxed, because pins are moved for every statement, and few clients have any.
    named: Option<Box<Named>>,
}

/// The causes that have names or ids.
#[derive(Debug, Default)]
struct Named {
    left: Leftovers,
    /// Prepared statements, by the client's ids, for which the connection keeps something.
    held: Vec<(u32, PinReason)>,
}

impl Pins {
    /// Those of a connection on which a transaction was begun, for reasons that need no names.
    pub(in super::super) fn of_transaction(reasons: PinReason) -> Pins {
        Pins { reasons, ..Pins::default() }
    }

    /// The reasons.
    pub fn reasons(&self) -> PinReason {
        self.reasons
    }

    /// What is left, by name.
    pub(super) fn left(&mut self) -> &mut Leftovers {
        &mut self.named.get_or_insert_default().left
    }

    fn held(&self) -> &[(u32, PinReason)] {
        self.named.as_ref().map_or(&[], |named| &named.held)
    }

    /// Adds reasons.
    pub(super) fn add(&mut self, reasons: PinReason) {
        self.reasons.add(reasons);
    }

    /// The connection may have something of its client that nobody has named: it is reset before another client uses it.
    pub(super) fn doubt(&mut self) {
        self.carried.add(PinReason::ROUTINE);
    }

    /// Removes reasons.
    pub(super) fn keep_none_of(&mut self, reasons: PinReason) {
        self.reasons = self.reasons.without(reasons);
    }

    /// What must be done to the connection before another client uses it; `None` while it is pinned.
    pub(in super::super) fn exit_if_free(&mut self) -> Option<Exit> {
        self.carried.add(self.reasons.among(PinReason::CARRIED));
        match self.carried.is_empty() {
            _ if !self.reasons.is_empty() => None,
            true => Some(Exit::Return),
            false => Some(self.exit_of_session()),
        }
    }

    /// What removes everything that the connection may have of its client.
    pub(in super::super) fn exit_of_session(&self) -> Exit {
        self.reasons.exit()
    }

    /// Whether there are no reasons except these.
    pub fn are_only(&self, reasons: PinReason) -> bool {
        self.reasons.without(reasons).is_empty()
    }

    /// The transaction has ended. Returns the same as [`Pins::exit_if_free`].
    pub(in super::super) fn end_transaction(&mut self) -> Option<Exit> {
        self.reasons = self.reasons.without(PinReason::TRANSACTION);
        self.exit_if_free()
    }

    /// Whether the connection keeps something for a client's statement, for this reason.
    pub fn holds(&self, id: u32, reason: PinReason) -> bool {
        self.held().iter().any(|(held, why)| *held == id && why.intersects(reason))
    }

    /// The connection keeps something for a client's statement, for this reason.
    pub fn hold(&mut self, id: u32, reason: PinReason) {
        if !self.holds(id, reason) {
            self.named.get_or_insert_default().held.push((id, reason));
        }
        self.reasons.add(reason);
    }

    /// It no longer does, for any of these reasons.
    pub fn let_go(&mut self, id: u32, reasons: PinReason) {
        if let Some(named) = &mut self.named {
            named.held.retain(|(held, why)| *held != id || !why.intersects(reasons));
        }
        self.reasons = self.reasons.without(PinReason::HELD_STATEMENT);
        let still = self.held().iter().fold(PinReason::default(), |all, (_, why)| all.with(*why));
        self.reasons.add(still);
    }
}
