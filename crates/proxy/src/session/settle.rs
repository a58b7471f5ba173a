//! After a statement: applies its [`effects`](super::effects) to the session, and keeps the connection or gives it back.

use std::rc::Rc;
use std::sync::Arc;

use narrows_sql::{Escapes, Flags, Kind, Statement};
use narrows_wire::Command;
use narrows_wire::charset::Family;

use super::effects::{
    Before, Change, Done, Effects, HeldStatement, PinReason, Pins, Reported, ServerReport, Untold, effects,
    escapes, untold,
};
use super::fault::{self, Moment};
use super::information::Last;
use super::job::Job;
use super::outcome::{DOUBTFUL, Outcome};
use super::request::Request;
use super::sequences::note_drawn;
use super::statements::ClientStatement;
use super::{End, Pinned, Session};
use crate::backend::{Backend, BackendError, Base, Coverage, InsertIdBefore};
use crate::pool::{Exit, Lease};
use crate::rt::Instant;
use crate::state::{HELD_FOR_CLIENTS, SCHEMA_COLLATION, SessionState};

impl Session {
    /// After the answer: applies the effects of the statement, and keeps the connection or gives it back.
    pub(super) async fn finish(
        &mut self,
        (mut backend, pins): (Lease, Pins),
        job: &Job,
        request: &Request,
        outcome: &mut Outcome,
    ) -> Result<(), End> {
        fault::inject(Moment::After, request.argument());
        self.fill_record(outcome);
        // A kill that has not arrived yet must not hit the next client's statement.
        if let Some(kill) = outcome.kill.take()
            && kill.await.is_err()
        {
            return Err(End::ErrorSent("a kill may still arrive at the backend connection".to_owned()));
        }
        let text = job.text(request);
        self.end_recording(&backend, job, text, outcome);
        if outcome.error.is_none() && releases(&job.statement, text, &self.data.state) {
            // The server has closed the connection after its answer.
            return Err(End::ErrorSent("COMMIT or ROLLBACK RELEASE".to_owned()));
        }
        self.note_written(&backend, job, outcome);
        self.count_answer(&backend, job, text, request.bytes(), outcome);
        if outcome.error.is_some_and(|code| DOUBTFUL.contains(&code)) {
            self.snapshot().raise_alarm(backend.login.server.row.hostgroup);
        }
        // Before any other query is sent, which would clear them.
        let family = backend.login.family;
        let login = &mut backend.login;
        let on_connection = (&mut login.has_conditions, &login.has_own_warnings);
        let conditions = &mut self.data.information.conditions;
        conditions.note((job.command, &job.statement, text), family, outcome, on_connection);
        self.data.information.note_found_rows((job.command, &job.statement, text), family, outcome);
        let coverage = backend.login.coverage();
        let mut untold = match job.command {
            Command::StmtPrepare => Untold::default(),
            _ if coverage == Coverage::All && job.statement.is_plain() && outcome.variables.is_empty() => {
                Untold::default()
            }
            _ => untold(
                &job.statement,
                text,
                self.escapes(),
                (outcome.error, Reported::These(&outcome.variables)),
                coverage,
            ),
        };
        // The collation of the session's schema may have been set, or be left from before a reset: this sets it, too.
        if job.statement.kind == Kind::Alter
            && outcome.error.is_none()
            && self.data.state.literal(SCHEMA_COLLATION).is_some()
        {
            untold.variables.push(SCHEMA_COLLATION.to_owned());
        }
        let keeps_no_errors = outcome.error.is_some() && self.data.state.keeps_no_errors();
        let asks = !backend.login.is_in_xa && (untold.is_any() || keeps_no_errors);
        let is_disturbed = asks || job.statement.kind == Kind::GetDiagnostics;
        // A preparation changes nothing of the statement before it.
        let prepared = job.command == Command::StmtPrepare && outcome.error.is_none();
        if is_disturbed {
            self.data.information.is_disturbed();
        } else if !prepared {
            self.data.information.last = Last::Here;
        }
        if !asks {
            self.settle(backend, pins, job, text, outcome);
            return Ok(());
        }
        Box::pin(self.ask_and_settle((backend, pins), (job, text), (&untold, keeps_no_errors), outcome)).await
    }

    /// Asks the server about what its answer does not report, before the effects are applied.
    async fn ask_and_settle(
        &mut self,
        (mut backend, pins): (Lease, Pins),
        (job, text): (&Job, &[u8]),
        (untold, keeps_no_errors): (&Untold, bool),
        outcome: &mut Outcome,
    ) -> Result<(), End> {
        let limit = self.snapshot().variables.connect_timeout_server;
        let mut counted = None;
        let ask = async {
            // What is collected is cleared, the count as well.
            if keeps_no_errors {
                counted = backend.error_count(limit).await?;
            }
            self.take_what_is_here(&mut backend).await?;
            if untold.schema {
                outcome.schema = Some(backend.schema(limit).await?);
            }
            match untold.variables.is_empty() {
                true => Ok(Vec::new()),
                false => backend.variables(&untold.variables, limit).await,
            }
        };
        match ask.await {
            Ok(values) => {
                for (name, value) in values {
                    match value {
                        Some(value) => outcome.variables.push((name, value)),
                        None => outcome.nulls.push(name),
                    }
                }
            }
            // The statement has run; a variable whose value is unknown pins.
            Err(BackendError::Server(_)) => {}
            Err(error) => return Err(End::ErrorSent(format!("backend connection lost: {error}"))),
        }
        self.settle(backend, pins, job, text, outcome);
        if let Some(errors) = counted {
            self.data.information.conditions.note_uncounted_error(errors);
        }
        Ok(())
    }

    /// Applies the effects of a command, and keeps the connection or gives it back.
    fn settle(&mut self, mut backend: Lease, pins: Pins, job: &Job, text: &[u8], outcome: &Outcome) {
        let hostgroup = backend.login.server.row.hostgroup;
        let before = Before {
            pins,
            state: &self.data.state,
            own: backend.login.base.as_deref().map(Base::own),
            status: self.data.status,
            family: backend.login.family,
            coverage: backend.login.coverage(),
            late: backend.login.may_report_late(),
            multiplexes: !self.binding.multiplexing_off && self.snapshot().multiplexes(hostgroup),
        };
        let mut effects = effects(&done(job, text), &report(outcome), before);
        fault::forget(&mut effects.changes);
        if backend.login.family == Family::MySql && job.statement.may_run_programs() {
            backend.login.programs.ran_in(&self.data.state);
        }
        self.settle_statement(&mut backend, job, effects.prepared, outcome);
        self.apply(&mut backend, &effects);
        backend.login.note_untold(outcome.is_untold, outcome.tells_all);
        if outcome.variables.iter().any(|(name, _)| HELD_FOR_CLIENTS.contains(&name.as_str())) {
            backend.login.doubt_coverage();
        }
        self.audit_schema(job, outcome);
        if may_change_defaults(&job.statement) {
            if job.statement.kind == Kind::Set {
                self.doubt_reports(&mut backend);
            }
            note_changed_defaults(&backend, text, outcome);
        }
        self.data.information.note_results((job.command, &job.statement, text), outcome);
        backend.login.has_insert_id |= self.data.information.insert_id.is_here();
        note_drawn(&mut backend, &job.statement);
        let Effects { pins, begun, exit, .. } = effects;
        match exit {
            Some(exit) => self.give_back(backend, exit),
            None => {
                backend.login.is_in_xa = pins.reasons().intersects(PinReason::XA);
                self.keep((backend, pins), begun, (job, text));
            }
        }
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
        match pins.exit_if_free() {
            Some(exit) => self.give_back(backend, exit),
            None => {
                let begun = pins.reasons().without(before);
                self.keep((backend, pins), begun, (job, text));
            }
        }
    }

    /// Keeps a connection, for reasons of which `begun` are new.
    fn keep(&mut self, (backend, pins): (Lease, Pins), begun: PinReason, (job, text): (&Job, &[u8])) {
        self.handle.keep_pins(pins.reasons());
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
        self.handle.lets_go();
        if self.binding.record.is_some() {
            self.binding.record = None;
        }
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

/// Whether a successful statement makes the server close the connection: `COMMIT RELEASE`, `ROLLBACK RELEASE`, or the same
/// without `RELEASE` because of `completion_type`.
fn releases(statement: &Statement, text: &[u8], state: &SessionState) -> bool {
    if statement.flags.intersects(Flags::MULTI) {
        return narrows_sql::parts(text, Escapes::Backslash)
            .any(|(_, statement)| one_releases(&statement, state));
    }
    one_releases(statement, state)
}

fn one_releases(statement: &Statement, state: &SessionState) -> bool {
    if !matches!(statement.kind, Kind::Commit | Kind::Rollback) {
        return false;
    }
    let by_default = || {
        let literal = state.literal("completion_type").unwrap_or_default().trim_matches('\'');
        let says_otherwise = statement.flags.intersects(Flags::NO_RELEASE);
        (literal == "2" || literal.eq_ignore_ascii_case("RELEASE")) && !says_otherwise
    };
    statement.flags.intersects(Flags::RELEASE) || by_default()
}

/// Whether a statement may be one after which [`note_changed_defaults`] has something to note.
fn may_change_defaults(statement: &Statement) -> bool {
    let kinds = matches!(
        statement.kind,
        Kind::Set
            | Kind::SetTransaction
            | Kind::Create
            | Kind::Alter
            | Kind::Drop
            | Kind::Rename
            | Kind::Grant
            | Kind::Flush
    );
    kinds || statement.runs_others() || statement.flags.intersects(Flags::MULTI)
}

/// Notes that the server's connections have taken over what this statement has changed: global variables, the character set of a
/// schema, accounts. What routines and prepared texts do is left to the monitor.
fn note_changed_defaults(backend: &Backend, text: &[u8], outcome: &Outcome) {
    let defaults = &backend.login.server.figures.defaults;
    let mut parts = 0;
    for (text, _) in narrows_sql::parts(text, Escapes::Backslash) {
        parts += 1;
        // The last of several has failed, perhaps; those before it have run.
        if outcome.error.is_some() && parts == 1 && !narrows_sql::names_several(text) {
            continue;
        }
        if let Some(what) = narrows_sql::changed_defaults(text) {
            defaults.change(what);
        }
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
        nulls: &outcome.nulls,
        schema: outcome.schema.as_deref(),
        state_changed: outcome.state_changed,
        characteristics: outcome.characteristics.as_deref(),
        prepared: outcome.prepared.is_some(),
    }
}
