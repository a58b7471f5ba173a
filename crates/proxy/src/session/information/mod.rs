//! The values of a session's information functions: `LAST_INSERT_ID()`, `FOUND_ROWS()`, `ROW_COUNT()`, `SHOW WARNINGS`.
//!
//! Most values are reported by the protocol, so Narrows knows them. Others are known only to the connection that ran the
//! statement, which can be asked as long as no other session has used it. The next session that leases it first collects
//! the value for this one, and clears it there (`backend/diagnostics.rs`).
//!
//! A question that is read in the text of a statement is answered in one of these ways. What an *opaque* statement
//! ([`Statement::is_certain`]) may ask nobody can read, so it gets a connection that has the values: the one that it left them on, or
//! another one on which they are set first (`Session::set_own_values`).
//!
//! ```text
//!                 a statement ran, and its answer lacks the value
//!      Known ---------------------------------------------------> Here: the leased connection knows
//!        ^                                                         |  ^
//!        |  its answer has it                     leave(): it goes |  | meet(): it is leased again,
//!        |                                        back to the pool |  | and nobody else used it
//!        |                                                         v  |
//!        +------------- the next session has collected it ------ Left: on that connection
//! ```
//!
//! Nothing here uses a socket, except `ask.rs`.

mod ask;
mod conditions;
mod found_rows;
mod insert_id;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::sync::Arc;

use narrows_sql::set::Assignment;
use narrows_sql::{
    Escapes, Flags, FoundRowsAfter, Kind, Statement, counted, counts_its_answer, literal_offset,
};
use narrows_wire::charset::Family;
use narrows_wire::{Command, Errno};

use super::job::Job;
use super::outcome::Outcome;
use crate::backend::{Backend, DiagnosticsReceiver, Kinds, Uncollected, Use, dialect};
use crate::snapshot::HostgroupId;

use conditions::Conditions;
use found_rows::FoundRows;
use insert_id::{LastInsertId, may_set_untold};

/// Whether a command must find its client's values on its connection, because they cannot be put into its text.
#[inline]
pub(super) fn needs_own_values(job: &Job, text: &[u8], family: Family) -> bool {
    !(job.whole && job.statement.is_plain()) && asks_or_is_opaque(job, text, family)
}

fn asks_or_is_opaque(job: &Job, text: &[u8], family: Family) -> bool {
    match job.command {
        Command::Query if !job.whole => true,
        Command::Query if job.statement.flags.intersects(Flags::MULTI) => {
            let asks = |statement: &Statement, one: &[u8]| {
                statement.asks_about_last() || is_opaque_part(statement, one, family)
            };
            let first_asks = job.statement.asks_about_last();
            first_asks
                || narrows_sql::parts(text, Escapes::Backslash).any(|(one, statement)| asks(&statement, one))
        }
        Command::Query if job.statement.kind == Kind::SetStatement => {
            let parsed = narrows_sql::set::parse(text);
            let Ok([Assignment::Statement { offset, .. }]) = parsed.as_deref() else { return true };
            let one = text.get(*offset..).unwrap_or_default();
            let statement = narrows_sql::classify(one);
            statement.asks_about_last() || is_opaque_part(&statement, one, family)
        }
        Command::Query => is_opaque_part(&job.statement, text, family),
        // Servers answer some of these questions when they prepare the statement.
        Command::StmtPrepare => job.statement.asks_about_last(),
        Command::StmtExecute | Command::StmtBulkExecute => {
            job.statement.asks_about_last() || is_opaque_part(&job.statement, text, family)
        }
        _ => false,
    }
}

/// Whether a single statement may ask anything about earlier ones without its text showing that, or may leave
/// `FOUND_ROWS()` as it was, which is then only on its connection.
fn is_opaque_part(statement: &Statement, text: &[u8], family: Family) -> bool {
    !statement.on(dialect(family)).is_certain(text)
        || matches!(statement.kind, Kind::Explain | Kind::ExplainAnalyze | Kind::Set | Kind::Do)
            && counted(text, statement, dialect(family)) == FoundRowsAfter::Unknown
}

/// Whether a statement asks for warnings and errors.
fn asks_conditions(statement: &Statement) -> bool {
    matches!(statement.kind, Kind::ShowWarnings | Kind::GetDiagnostics)
        || statement.flags.intersects(Flags::WARNING_COUNT)
}

/// What is known about earlier statements, and where the rest is.
#[derive(Debug, Default)]
pub(super) struct Information {
    /// `LAST_INSERT_ID()`.
    pub(super) insert_id: LastInsertId,
    /// `FOUND_ROWS()`.
    pub(super) found_rows: FoundRows,
    /// Whether the leased connection has the client's `FOUND_ROWS()`.
    found_rows_are_here: bool,
    /// `SHOW WARNINGS`, `@@warning_count`, `@@error_count`, `GET DIAGNOSTICS`.
    pub(super) conditions: Conditions,
    /// `ROW_COUNT()`, which the protocol reports.
    pub(super) row_count: i64,
    /// Where the last statement ran.
    pub(super) last: Last,
    /// The process that knew about the last statement has died, and no statement ran since.
    last_is_lost: bool,
}

/// Where the last statement ran, and what is asked about it can be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Last {
    /// On no connection: Narrows answered it, or has sent its connection something else since.
    #[default]
    Nobody,
    /// On the leased connection.
    Here,
    /// On a connection that was given back after it.
    Left(Place),
}

/// A connection that was given back, and its lease at that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) last_use: Use,
    pub(super) hostgroup: HostgroupId,
}

/// What a connection that was given back keeps, and the receiver for it.
#[derive(Debug, Clone)]
pub(super) struct Left {
    place: Place,
    receiver: Arc<DiagnosticsReceiver>,
}

impl Left {
    /// What a connection keeps about the statement that ran on it last.
    fn on(backend: &mut Backend, kinds: Kinds) -> Left {
        let left = Left::at(Place::of(backend));
        let mut uncollected = Uncollected::new(&left.receiver, kinds);
        if let Some(earlier) = &backend.login.uncollected {
            uncollected.includes(earlier);
        }
        backend.login.uncollected = Some(uncollected);
        left
    }

    fn at(place: Place) -> Left {
        Left { place, receiver: Arc::default() }
    }
}

impl Place {
    pub(super) fn of(backend: &Backend) -> Place {
        Place { last_use: backend.login.last_use(), hostgroup: backend.login.server.row.hostgroup }
    }

    /// Whether a connection that was just leased is this one, and no other session leased it in between.
    fn is_untouched(self, backend: &Backend) -> bool {
        self.last_use.is_followed_by(&backend.login)
    }
}

impl Information {
    /// Of a session that another process began. `inserted`: it may have an insert id; `used`: it has run a statement.
    pub(super) fn resumed(inserted: bool, used: bool) -> Information {
        let mut information = Information { last_is_lost: used, ..Information::default() };
        information.insert_id.is_lost = inserted;
        information
    }

    /// After `COM_RESET_CONNECTION` or `COM_CHANGE_USER`, which keep the value of `FOUND_ROWS()`, as servers do.
    pub(super) fn start_over(&mut self, pinned: Option<&mut Backend>) {
        let found_rows = match (std::mem::take(&mut self.found_rows), pinned) {
            (FoundRows::Here, Some(backend)) => {
                let kinds = Kinds { found_rows: true, ..Kinds::default() };
                FoundRows::Left(Left::on(backend, kinds))
            }
            (FoundRows::Here, None) => FoundRows::Unknown,
            (FoundRows::Known { rows, .. }, _) => FoundRows::Known { rows, by_last: false },
            (found_rows, _) => found_rows,
        };
        *self = Information { found_rows, ..Information::default() };
    }

    /// Whether a statement asks for what was lost with the process that served the session before. After any other
    /// statement, the last one is not lost any more.
    pub(super) fn asks_for_lost(&mut self, statement: &Statement) -> bool {
        std::mem::take(&mut self.last_is_lost) && statement.asks_about_last()
            || self.insert_id.is_lost && statement.flags.intersects(Flags::LAST_INSERT_ID)
    }

    /// Whether anything was lost with another process.
    pub(super) fn has_lost(&self) -> bool {
        self.last_is_lost || self.insert_id.is_lost
    }

    /// Takes over what the answer to a statement reports, for later questions.
    pub(super) fn note_results(
        &mut self,
        (command, statement, text): (Command, &Statement, &[u8]),
        outcome: &Outcome,
    ) {
        // Nothing has run.
        if command == Command::StmtPrepare && outcome.error.is_none() {
            return;
        }
        if outcome.last_insert_id != 0 {
            self.insert_id.is_named(outcome.last_insert_id);
        }
        if may_set_untold(statement, text, outcome) {
            self.insert_id.may_be_here();
        }
        self.row_count = match (outcome.error, outcome.affected_rows) {
            // Unless the condition does not exist.
            (None, _)
                if statement.kind == Kind::GetDiagnostics && !statement.flags.intersects(Flags::MULTI) =>
            {
                if outcome.warnings > 0 {
                    -1
                } else {
                    self.row_count
                }
            }
            (None, Some(rows)) => i64::try_from(rows).unwrap_or(i64::MAX),
            _ => -1,
        };
    }

    /// Takes over what the answer to a statement, which was the last one on the leased connection, tells about
    /// `FOUND_ROWS()`.
    pub(super) fn note_found_rows(
        &mut self,
        (command, statement, text): (Command, &Statement, &[u8]),
        family: Family,
        outcome: &Outcome,
    ) {
        if counts_its_answer(text, statement)
            && outcome.error.is_none()
            && let Some(rows) = outcome.rows
        {
            self.found_rows_are_here = true;
            self.found_rows = FoundRows::Known { rows, by_last: true };
            return;
        }
        if command == Command::StmtPrepare && outcome.error.is_none() {
            return;
        }
        let effect = match counted(text, statement, dialect(family)) {
            FoundRowsAfter::Kept => FoundRowsAfter::Kept,
            // It has no text that could count.
            _ if matches!(command, Command::FieldList | Command::InitDb) => FoundRowsAfter::Kept,
            // Some of its parts may have counted.
            _ if outcome.error.is_some() => FoundRowsAfter::Unknown,
            effect => effect,
        };
        let (found, only_here) = match effect {
            FoundRowsAfter::Kept => (None, false),
            // Rows that went into variables or a file are counted as affected.
            FoundRowsAfter::Answer => {
                let rows = outcome.rows.or(outcome.affected_rows);
                (rows, rows.is_none())
            }
            FoundRowsAfter::One => (Some(1), false),
            // `UPDATE .. WHERE 0` does not count rows, and its answer is that of an `UPDATE` that has counted none.
            FoundRowsAfter::Reported if statement.kind == Kind::Update && outcome.counted == Some(0) => {
                match self.found_rows_are_here {
                    true => (None, true),
                    false => (Some(0), false),
                }
            }
            FoundRowsAfter::Reported => (outcome.counted, false),
            FoundRowsAfter::Untold => (None, true),
            FoundRowsAfter::Unknown => {
                let has_rows = outcome.rows.is_some() && outcome.error.is_none();
                (None, self.found_rows_are_here || has_rows)
            }
        };
        self.found_rows_are_here |= found.is_some() || only_here;
        self.found_rows.after_statement(found, only_here);
    }

    /// Takes over what an answer from the cache reports. No connection knows about its statement.
    pub(super) fn note_answer_from_cache(
        &mut self,
        job: &Job,
        text: &[u8],
        family: Family,
        outcome: &Outcome,
    ) {
        let on_connection = (&mut false, &Cell::new(false));
        self.conditions.note((job.command, &job.statement, text), family, outcome, on_connection);
        self.note_results((job.command, &job.statement, text), outcome);
        self.found_rows_are_here = false;
        self.note_found_rows((job.command, &job.statement, text), family, outcome);
        if let FoundRows::Here = self.found_rows {
            let skipped = literal_offset(text).unwrap_or_default();
            let rows = outcome.rows.unwrap_or_default();
            self.found_rows = FoundRows::Known { rows: skipped + rows, by_last: true };
        }
        self.is_disturbed();
    }

    /// A statement was answered with an error of Narrows' own.
    pub(super) fn note_own_error(&mut self, errno: Errno, text: &str, kept: bool) {
        self.conditions.note_own_error(errno, text, kept);
        self.row_count = -1;
        self.last = Last::Nobody;
    }

    /// `COM_SET_OPTION` was answered without a server. There it is a statement that changes no rows.
    pub(super) fn note_option(&mut self) {
        self.row_count = -1;
        self.last = Last::Nobody;
    }

    /// The leased connection is given back or set aside. Returns what only it knows, which stays there uncollected;
    /// `keeps_warnings`: warnings are part of it.
    pub(super) fn leave(&mut self, place: Place, keeps_warnings: bool) -> Option<Uncollected> {
        if !keeps_warnings {
            self.conditions.forget_here();
        }
        let kinds = self.known_here();
        self.leave_nothing(place);
        if kinds.is_empty() {
            return None;
        }
        let left = Left::at(place);
        self.insert_id.leave(&left);
        self.found_rows.leave(&left);
        self.conditions.leave(&left);
        Some(Uncollected::new(&left.receiver, kinds))
    }

    /// The same where only it knows nothing.
    pub(super) fn leave_nothing(&mut self, place: Place) {
        if self.last == Last::Here {
            self.last = Last::Left(place);
        }
    }

    /// Something of our own was or will be sent to the leased connection.
    pub(super) fn is_disturbed(&mut self) {
        self.last = Last::Nobody;
        self.found_rows_are_here = false;
    }

    /// A connection was leased; `is_untouched` tells whether it is the one that was given back at a place, and no other
    /// session leased it in between. Returns whether it has anything of this session, which need not be collected then.
    pub(super) fn meet(&mut self, is_untouched: impl Fn(Place) -> bool) -> bool {
        // What was collected is not on the connection any more.
        let is_there = |left: &Left| is_untouched(left.place) && !left.receiver.has_arrived();
        self.insert_id.meet(is_there);
        self.found_rows.meet(is_there);
        self.conditions.meet(is_there);
        self.last = match self.last {
            Last::Left(place) if is_untouched(place) => Last::Here,
            Last::Left(place) => Last::Left(place),
            Last::Here | Last::Nobody => Last::Nobody,
        };
        self.found_rows_are_here = self.last == Last::Here && self.found_rows_are_here;
        self.last == Last::Here || !self.known_here().is_empty()
    }

    /// The leased connection is lost, and with it what only it knew.
    pub(super) fn forget_here(&mut self) {
        self.insert_id.forget_here();
        self.found_rows.forget_here();
        self.found_rows_are_here = false;
        self.conditions.forget_here();
        if self.last == Last::Here {
            self.last = Last::Nobody;
        }
    }

    /// What only the leased connection knows.
    pub(super) fn known_here(&self) -> Kinds {
        Kinds {
            insert_id: self.insert_id.is_here(),
            diagnostics: self.conditions.are_here(),
            found_rows: matches!(self.found_rows, FoundRows::Here),
        }
    }

    /// Whether `GET DIAGNOSTICS` can be sent to the leased connection unchanged.
    pub(super) fn knows_conditions(&self) -> bool {
        self.last == Last::Here && self.conditions.are_here()
    }

    /// The connection that a statement prefers, because that knows what is asked.
    #[inline]
    pub(super) fn wanted(&self, statement: &Statement, text: &[u8]) -> Option<Place> {
        if statement.is_plain() {
            return None;
        }
        self.asked(statement).or_else(|| if statement.is_certain(text) { None } else { self.best() })
    }

    /// The connection that has most of the values.
    fn best(&self) -> Option<Place> {
        let last = match self.last {
            Last::Left(place) => Some(place),
            Last::Here | Last::Nobody => None,
        };
        last.or_else(|| self.insert_id.left().last().map(|it| it.left.place))
    }

    /// The connection that knows what the text of a statement asks.
    fn asked(&self, statement: &Statement) -> Option<Place> {
        let last = match self.last {
            Last::Left(place) => Some(place),
            Last::Here | Last::Nobody => None,
        };
        let place = |left: &Left| left.place;
        if asks_conditions(statement) {
            return self.conditions.left().map(place).or(last);
        }
        if statement.flags.intersects(Flags::FOUND_ROWS) {
            match &self.found_rows {
                FoundRows::Left(left) => return Some(left.place),
                FoundRows::Unknown | FoundRows::Here => return last,
                FoundRows::Known { .. } => {}
            }
        }
        if statement.asks_about_last() {
            return last;
        }
        let asks_id = statement.flags.intersects(Flags::LAST_INSERT_ID);
        self.insert_id.left().last().map(|it| it.left.place).filter(|_| asks_id)
    }

    /// The hostgroup of the connection that knows what a statement asks. A statement that may change something goes where
    /// it is routed, with the value inserted, because the connection that knows may be on a replica.
    pub(super) fn wanted_hostgroup(&self, statement: &Statement) -> Option<HostgroupId> {
        let asks = matches!(
            statement.kind,
            Kind::Select | Kind::Show | Kind::Do | Kind::ShowWarnings | Kind::GetDiagnostics
        );
        let changes = statement.flags.intersects(Flags::EFFECTS.union(Flags::FOR_UPDATE));
        self.asked(statement).filter(|_| asks && !changes).map(|place| place.hostgroup)
    }
}
