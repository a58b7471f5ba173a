//! After a statement: applies its [`effects`](super::effects) to the session, and keeps the connection or gives it back.

use std::rc::Rc;
use std::sync::Arc;

use narrows_sql::Escapes;

use super::effects::{
    Before, Change, Done, Effects, HeldStatement, PinReason, Pins, Reported, ServerReport, effects, escapes,
};
use super::information::Last;
use super::job::Job;
use super::outcome::Outcome;
use super::sequences::note_drawn;
use super::statements::ClientStatement;
use super::{Pinned, Session};
use crate::backend::{Backend, InsertIdBefore};
use crate::pool::{Exit, Lease};
use crate::rt::Instant;
use crate::state::SessionState;

impl Session {
    /// Applies the effects of a command, and keeps the connection or gives it back.
    pub(super) fn settle(
        &mut self,
        mut backend: Lease,
        pins: Pins,
        job: &Job,
        text: &[u8],
        outcome: &Outcome,
    ) {
        let hostgroup = backend.login.server.row.hostgroup;
        let before = Before {
            pins,
            state: &self.data.state,
            status: self.data.status,
            family: backend.login.family,
            reports: backend.login.tracking.is_some(),
            multiplexes: !self.binding.multiplexing_off && self.snapshot().multiplexes(hostgroup),
        };
        let effects = effects(&done(job, text), &report(outcome), before);
        self.settle_statement(&mut backend, job, effects.prepared, outcome);
        self.apply(&mut backend, &effects);
        self.data.information.note_results(&job.statement, text, backend.login.family, outcome);
        note_drawn(&mut backend, &job.statement);
        let Effects { pins, begun, exit, .. } = effects;
        self.keep_or_return_as(backend, pins, (begun, exit), (job, text));
    }

    /// Applies the effects of a command to the session.
    fn apply(&mut self, backend: &mut Backend, effects: &Effects<'_>) {
        for changes in effects.changes.split_inclusive(|change| change.is_of_the_connection()) {
            match changes {
                [of_both @ .., last] if last.is_of_the_connection() => {
                    self.change_state(backend, of_both);
                    last.make(Arc::make_mut(&mut backend.login.state));
                }
                of_both => self.change_state(backend, of_both),
            }
        }
        if let Some(id) = effects.insert_id {
            self.data.information.insert_id.set(id);
            backend.login.insert_id_before = InsertIdBefore::Own;
        }
        if let Some(status) = effects.status {
            self.data.status = status;
            self.data.status_is_told = true;
        }
        self.data.warnings = effects.warnings;
        if effects.pins.reasons().intersects(PinReason::TRANSACTION) {
            self.client.transaction_since.get_or_insert_with(Instant::now);
        } else {
            self.client.transaction_since = None;
        }
    }

    /// Keeps the connection after a command that has no answer, or gives it back.
    pub(super) fn keep_or_return(&mut self, backend: Lease, mut pins: Pins, before: PinReason, job: &Job) {
        let text = job.prepared.as_ref().map_or(b"".as_slice(), |statement| &statement.prepared.text);
        let (begun, exit) = (pins.reasons().without(before), pins.exit_if_free());
        self.keep_or_return_as(backend, pins, (begun, exit), (job, text));
    }

    fn keep_or_return_as(
        &mut self,
        backend: Lease,
        pins: Pins,
        (begun, exit): (PinReason, Option<Exit>),
        (job, text): (&Job, &[u8]),
    ) {
        self.handle.keep_pins(pins.reasons());
        if let Some(exit) = exit {
            return self.give_back(backend, exit);
        }
        if !begun.is_empty() {
            self.count_pins(begun, job, text);
        }
        let hostgroup = backend.login.server.row.hostgroup;
        self.binding.pinned = Some(Pinned { backend, hostgroup, pins });
    }

    /// Gives a connection back to the pool, and remembers which one it was and what it keeps. `exit` is what its pins
    /// require.
    pub(super) fn give_back(&mut self, mut backend: Lease, exit: Exit) {
        debug_assert!(!backend.login.statements.holds_any(), "a statement is held without a pin");
        self.leave(&mut backend);
        self.handle.has_backend(None);
        let exit = self.exit_of(&backend, exit);
        if exit != Exit::Return {
            self.data.information.last = Last::Nobody;
        }
        let now = self.run.ended.unwrap_or_else(Instant::now);
        backend.settle(exit, &self.worker.pool, &self.want, now);
    }

    /// What must be done to a connection that this session gives back, if its pins required `exit`.
    pub(super) fn exit_of(&self, backend: &Backend, exit: Exit) -> Exit {
        match exit {
            Exit::Return if self.client.patience.is_short && backend.login.state.has_short_timeouts() => {
                Exit::UndoTimeouts
            }
            exit => exit,
        }
    }

    /// Makes the changes in the state of the client and in that of the connection.
    fn change_state(&mut self, backend: &mut Backend, changes: &[Change<'_>]) {
        if changes.is_empty() {
            return;
        }
        let make = |state: &mut SessionState| changes.iter().for_each(|change| change.make(state));
        let aligned = Arc::ptr_eq(&self.data.state, &backend.login.state);
        if aligned {
            // Gives up one reference: a state that nobody else shares is changed in place, however many changes there are.
            backend.login.state = Arc::clone(&self.data.login_state);
        }
        make(Arc::make_mut(&mut self.data.state));
        self.note_patience();
        if aligned {
            backend.login.state = Arc::clone(&self.data.state);
        } else {
            make(Arc::make_mut(&mut backend.login.state));
        }
    }

    /// Whether backslashes in the session's texts escape, as the server last reported.
    pub(super) fn escapes(&self) -> Escapes {
        escapes(self.data.status)
    }
}

/// The properties of a command that its effects depend on.
fn done<'a>(job: &'a Job, text: &'a [u8]) -> Done<'a> {
    let held = |statement: &'a Rc<ClientStatement>| HeldStatement {
        id: statement.id,
        tied: statement.tied,
        expect: job.expect,
        schema: statement.prepared.state.schema.as_deref(),
    };
    Done {
        command: job.command,
        statement: job.statement,
        text,
        whole: job.whole,
        prepared: job.prepared.as_ref().map(held),
        apart: job.apart,
        keeps_multiplexing: job.options.keeps_multiplexing,
    }
}

/// What its answer has reported.
fn report(outcome: &Outcome) -> ServerReport<'_> {
    ServerReport {
        status: outcome.status,
        error: outcome.error,
        rows: outcome.rows,
        warnings: outcome.warnings,
        reported: Reported::These(&outcome.variables),
        schema: outcome.schema.as_deref(),
        prepared: outcome.prepared.is_some(),
    }
}
