//! The sessions of one worker: used by kills, deadlines and process lists.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use narrows_sql::KillKind;

use super::{Handle, Interrupt, KillAnswer, Worker};
use crate::rt::Instant;
use crate::snapshot::Snapshot;

/// The list.
#[derive(Default)]
pub(super) struct Sessions {
    by_id: RefCell<HashMap<u32, Rc<Handle>>>,
    /// No session's deadline is before this; `None`: none has one.
    next_deadline: Cell<Option<Instant>>,
    /// Narrows is about to stop: each ends as soon as it has no transaction open.
    end_between_transactions: Cell<bool>,
}

impl Worker {
    /// Adds a session to the list used by kills and deadlines.
    pub fn enter(&self, handle: &Rc<Handle>) {
        self.sessions.by_id.borrow_mut().insert(handle.id, Rc::clone(handle));
    }

    /// Removes it again.
    pub fn leave(&self, handle: &Handle) {
        self.sessions.by_id.borrow_mut().remove(&handle.id);
    }

    /// The session of that id.
    pub(crate) fn session(&self, id: u32) -> Option<Rc<Handle>> {
        self.sessions.by_id.borrow().get(&id).map(Rc::clone)
    }

    /// The ids of all sessions.
    pub(crate) fn session_ids(&self) -> Vec<u32> {
        self.sessions.by_id.borrow().keys().copied().collect()
    }

    /// How many sessions there are.
    pub(crate) fn sessions_in_all(&self) -> usize {
        self.sessions.by_id.borrow().len()
    }

    /// Shows each session.
    pub(crate) fn for_each_session(&self, show: impl FnMut(&Rc<Handle>)) {
        self.sessions.by_id.borrow().values().for_each(show);
    }

    /// Has `handle` interrupted at `deadline` for that reason, instead of whatever was set before.
    pub fn set_deadline(&self, handle: &Handle, deadline: Instant, reason: Interrupt) {
        handle.deadline.set(Some((deadline, reason)));
        if self.sessions.next_deadline.get().is_none_or(|next| deadline < next) {
            self.sessions.next_deadline.set(Some(deadline));
        }
    }

    /// Interrupts the sessions whose deadline has passed.
    pub(super) fn sweep(&self, now: Instant) {
        if self.sessions.next_deadline.get().is_none_or(|next| now < next) {
            return;
        }
        let mut left: Option<Instant> = None;
        self.for_each_session(|handle| match handle.deadline.get() {
            Some((deadline, reason)) if deadline <= now => {
                handle.deadline.set(None);
                handle.interrupt(reason);
            }
            Some((deadline, _)) => left = Some(left.map_or(deadline, |left| left.min(deadline))),
            None => {}
        });
        self.sessions.next_deadline.set(left);
    }

    /// Ends what runs on servers where nothing may run.
    pub(super) fn cut_off(&self, snapshot: &Snapshot) {
        self.for_each_session(|handle| {
            handle.cut_off(|server, in_transaction| snapshot.cuts_off(server, in_transaction));
        });
    }

    /// Ends a session or its statement; with `username`, only when it is that user's.
    pub fn kill(&self, id: u32, kind: KillKind, username: Option<&str>) -> KillAnswer {
        let Some(handle) = self.session(id) else { return KillAnswer::Unknown };
        if username.is_some_and(|username| *handle.username.borrow() != username) {
            return KillAnswer::NotOwner;
        }
        handle.interrupt(match kind {
            KillKind::Connection => Interrupt::KillConnection,
            KillKind::Query => Interrupt::KillQuery,
        });
        KillAnswer::Done
    }

    /// Ends each session as soon as it is between two transactions.
    pub fn end_between_transactions(&self) {
        self.sessions.end_between_transactions.set(true);
        self.interrupt_all(Interrupt::Drain);
    }

    /// Whether the session must end, and can.
    pub(crate) fn ends_now(&self, handle: &Handle) -> bool {
        self.sessions.end_between_transactions.get() && !handle.is_in_transaction()
    }

    /// Ends all sessions.
    pub fn interrupt_all(&self, reason: Interrupt) {
        self.for_each_session(|handle| handle.interrupt(reason));
    }
}
