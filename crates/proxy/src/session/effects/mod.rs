//! The effects of a command on its session, as a value: without sockets or a clock, and nothing is changed here.
//!
//! [`effects`] first uses the server's answer (status flags, reported variables and schema), and then the statement itself.
//! Anything that neither explains pins the client to its backend connection, with a reason: it is never an error, and never
//! guessed. `session/settle.rs` applies the value; `EXPLAIN ROUTE` uses the same function to predict pins ([`expected`]).
//!
//! - `pins.rs`: the reasons, and what must be done to a connection that has had them.
//! - `leftovers.rs`: locks, temporary tables and prepared texts, by name (`names.rs`).
//! - `held.rs`: what the connection keeps for a prepared statement.
//! - `set.rs`: `SET`.
//! - `changes.rs`: changes of the session's state.
//! - `transaction.rs`: whether a transaction is open.

mod changes;
mod held;
mod leftovers;
mod names;
mod pins;
mod set;
mod transaction;

use narrows_sql::{Escapes, Flags, Kind, Statement, may_parse_later};
use narrows_wire::charset::Family;
use narrows_wire::{Command, Errno, Status};

use crate::backend::{Coverage, dialect};
use crate::pool::Exit;
use crate::state::{SessionState, are_one, slot};

use changes::View;
use leftovers::{Ran, Read};

pub use crate::pin_reason::PinReason;
pub(super) use changes::Change;
pub(super) use held::{HeldStatement, ServerStatement};
pub use pins::Pins;
pub(super) use set::{NOT_STATE, Untold, untold};

/// A command that a server has answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Done<'a> {
    pub(super) command: Command,
    pub(super) statement: Statement,
    /// Its text, or what was prepared.
    pub(super) text: &'a [u8],
    /// Whether all of its text was read.
    pub(super) whole: bool,
    /// The prepared statement that it refers to.
    pub(super) prepared: Option<HeldStatement<'a>>,
    /// It ran outside of the transaction that its session would begin with it.
    pub(super) apart: bool,
    /// A rule says that variables that it sets do not pin.
    pub(super) keeps_multiplexing: bool,
}

/// What the server's answer reported.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ServerReport<'a> {
    /// Status flags of the last OK or EOF packet; `None` when there was none.
    pub(super) status: Option<Status>,
    /// The error that ended the answer.
    pub(super) error: Option<u16>,
    /// Rows of the last result that had columns.
    pub(super) rows: Option<u64>,
    pub(super) warnings: u16,
    pub(super) reported: Reported<'a>,
    /// The variables that are NULL.
    pub(super) nulls: &'a [String],
    /// The schema that was reported last.
    pub(super) schema: Option<&'a [u8]>,
    /// Something of the session has changed, whatever it is.
    pub(super) state_changed: bool,
    /// What was reported last of the open transaction, or the next one: the statements that would begin it.
    pub(super) characteristics: Option<&'a [u8]>,
    /// A statement was prepared.
    pub(super) prepared: bool,
}

/// The session variables that the server has reported as changed, in order.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reported<'a> {
    These(&'a [(String, Vec<u8>)]),
    /// Assumed to be whatever the statement sets: nothing has run yet.
    Whatever,
}

/// What was known when the command was sent.
#[derive(Debug)]
pub(super) struct Before<'s> {
    /// Why the connection was pinned.
    pub(super) pins: Pins,
    /// The client's state.
    pub(super) state: &'s SessionState,
    /// The variables that a session of the connection begins with and `DEFAULT` does not lead back to.
    pub(super) own: Option<&'s SessionState>,
    /// Status flags of the last answer.
    pub(super) status: Status,
    /// MySQL or MariaDB.
    pub(super) family: Family,
    /// What the server has reported.
    pub(super) coverage: Coverage,
    /// Its answer may report what an earlier statement has changed.
    pub(super) late: bool,
    /// Whether other clients may use the connection after this statement.
    pub(super) multiplexes: bool,
}

/// The effects of a command on its session, and what follows for the connection.
#[derive(Debug)]
pub(super) struct Effects<'a> {
    /// Why the connection is pinned from now on.
    pub(super) pins: Pins,
    /// The reasons that are new.
    pub(super) begun: PinReason,
    /// Changes of the session's state, in order.
    pub(super) changes: Vec<Change<'a>>,
    /// `LAST_INSERT_ID()`, if it was set.
    pub(super) insert_id: Option<u64>,
    /// The session's status flags, if the answer reported them.
    pub(super) status: Option<Status>,
    /// Warnings as `COM_PING` repeats them.
    pub(super) warnings: u16,
    /// The state of the server's prepared statement.
    pub(super) prepared: ServerStatement,
    /// What must be done to the connection before another client uses it; `None`: it stays with this client.
    pub(super) exit: Option<Exit>,
}

impl<'a> Reported<'a> {
    fn values(self) -> &'a [(String, Vec<u8>)] {
        if let Reported::These(values) = self { values } else { &[] }
    }

    fn has(self, name: &str) -> bool {
        match self {
            Reported::These(values) => values.iter().any(|(reported, _)| are_one(reported, name)),
            Reported::Whatever => true,
        }
    }

    /// The variables that are reported with an empty value, which may stand for NULL.
    fn empty(self) -> impl Iterator<Item = &'a str> {
        let is_last = move |number: usize, name: &str| {
            !self.values().iter().skip(number + 1).any(|(later, _)| later == name)
        };
        let values = self.values().iter().enumerate();
        let empty = values.filter(move |(number, (name, value))| value.is_empty() && is_last(*number, name));
        empty.map(|(_, (name, _))| name.as_str())
    }

    /// The reason for a pin, if a variable was set and not reported.
    fn lacks(self, name: &str) -> Option<PinReason> {
        (!self.has(name)).then_some(PinReason::UNKNOWN_SET)
    }
}

impl Default for Reported<'_> {
    fn default() -> Self {
        Reported::These(&[])
    }
}

/// The effects of a command on its session.
pub(super) fn effects<'s, 'a: 's>(
    done: &Done<'a>,
    report: &ServerReport<'a>,
    before: Before<'s>,
) -> Effects<'a> {
    let Before { pins, state, own, status, family, coverage, late, multiplexes } = before;
    let reasons_before = pins.reasons();
    // Built where it is returned, because this runs for every statement.
    let mut effects = Effects {
        begun: PinReason::default(),
        pins,
        changes: Vec::new(),
        insert_id: None,
        status: report.status.map(|it| status_of_session(it, done, status)),
        warnings: match family {
            Family::MySql if report.error.is_some() => 1,
            Family::MySql => report.warnings,
            Family::MariaDb => 0,
        },
        prepared: ServerStatement::AsItWas,
        exit: None,
    };
    let pins = &mut effects.pins;
    if done.prepared.is_some() {
        effects.prepared = held::settle(pins, done, report);
    }
    let view = View::of(state, &mut effects.changes);
    let insert_id = &mut effects.insert_id;
    let mut reading = Reading {
        done,
        report,
        own,
        family,
        coverage,
        late,
        escapes: escapes(status),
        pins,
        view,
        insert_id,
    };
    reading.take_report();
    reading.read_statements();
    transaction::settle(reading.pins, done, report, status, &reading.view);
    if report.characteristics.is_some() {
        transaction::note_characteristics(reading.pins, done, report, coverage);
    }
    let pins = &mut effects.pins;
    if done.keeps_multiplexing {
        pins.keep_none_of(BY_VARIABLES.without(reasons_before));
    }
    pins.keep_none_of(PinReason::MULTIPLEXING_OFF);
    if !multiplexes {
        pins.add(PinReason::MULTIPLEXING_OFF);
    }
    effects.begun = pins.reasons().without(reasons_before);
    effects.exit = pins.exit_if_free();
    effects
}

/// The reasons for which a statement would pin a new session, if it succeeded on a server of that family that reports what it
/// sets. Nothing is proven to have run, so everything that may be left counts.
pub(crate) fn expected(statement: &Statement, text: &[u8], family: Family) -> PinReason {
    let state = SessionState::after_login("utf8mb4", None);
    let opens = |statement: &Statement| match statement.kind {
        Kind::Begin => true,
        Kind::Commit | Kind::Rollback => statement.flags.intersects(Flags::AND_CHAIN),
        _ => false,
    };
    let in_transaction = match statement.flags.intersects(Flags::MULTI) {
        true => narrows_sql::parts(text, Escapes::Backslash).any(|(_, statement)| opens(&statement)),
        false => opens(statement),
    };
    let status = if in_transaction { Status::IN_TRANS } else { Status::default() };
    let done = Done {
        command: Command::Query,
        statement: *statement,
        text,
        whole: true,
        prepared: None,
        apart: false,
        keeps_multiplexing: false,
    };
    let report = ServerReport {
        status: Some(status.union(Status::AUTOCOMMIT)),
        reported: Reported::Whatever,
        ..ServerReport::default()
    };
    let before = Before {
        pins: Pins::default(),
        state: &state,
        own: None,
        status: Status::AUTOCOMMIT,
        family,
        coverage: Coverage::All,
        late: false,
        multiplexes: true,
    };
    effects(&done, &report, before).pins.reasons()
}

/// Whether a statement may make a user variable while it is prepared.
fn may_make_variables(statement: &Statement) -> bool {
    const ASSIGNS: Flags = Flags::ASSIGNS_USER_VARIABLE.union(Flags::INTO_VARIABLE);
    statement.flags.intersects(ASSIGNS)
        || statement.kind == Kind::Set && statement.flags.intersects(Flags::USER_VARIABLE)
}

/// Whether backslashes in the session's texts escape, as the server last reported.
pub(super) fn escapes(status: Status) -> Escapes {
    match status.contains(Status::NO_BACKSLASH_ESCAPES) {
        true => Escapes::None,
        false => Escapes::Backslash,
    }
}

/// The state of [`effects`] while it reads one answer.
struct Reading<'r, 's, 'a> {
    done: &'r Done<'a>,
    report: &'r ServerReport<'a>,
    own: Option<&'s SessionState>,
    family: Family,
    coverage: Coverage,
    late: bool,
    escapes: Escapes,
    pins: &'r mut Pins,
    view: View<'r, 's, 'a>,
    insert_id: &'r mut Option<u64>,
}

impl<'s, 'a: 's> Reading<'_, 's, 'a> {
    /// Takes over the variables and the schema that the server has reported; what cannot be set on another connection pins.
    fn take_report(&mut self) {
        let values = self.report.reported.values();
        if values.is_empty() && self.report.nulls.is_empty() && self.report.schema.is_none() {
            return;
        }
        let Done { statement, text, .. } = self.done;
        let of_one_statement = set::settings_of_one_statement(statement, text, self.escapes);
        let is_of_one = |name: &str| match &of_one_statement {
            Some(names) => names.iter().any(|it| slot(it) == slot(name)),
            None => true,
        };
        // A collation implies its character set, but a character set implies only its default collation.
        for collations in [false, true] {
            for (name, value) in values {
                if name.starts_with("collation_") != collations
                    || NOT_STATE.contains(&name.as_str())
                    || is_of_one(name)
                {
                    continue;
                }
                match self.view.state().can_carry(name, value) {
                    true => self.view.change(Change::Reported { name, value }),
                    false => self.pins.add(PinReason::UNKNOWN_SET),
                }
            }
        }
        for name in self.report.nulls.iter().filter(|name| !is_of_one(name)) {
            self.view.change(Change::Literal { name: name.clone(), literal: "NULL".to_owned() });
        }
        match self.report.schema {
            Some(schema) if schema.len() <= LONGEST_SCHEMA => {
                self.view.change(Change::SchemaReported(schema))
            }
            Some(_) => self.pins.add(PinReason::UNKNOWN_SET),
            None => {}
        }
    }

    /// What the statement is for the server: it is classified again, with strings ending where they end for the server. The first
    /// time, backslashes were assumed to escape.
    fn as_the_server_reads(&self) -> Statement {
        let Done { statement, text, prepared, .. } = *self.done;
        let ends_elsewhere = statement.flags.intersects(Flags::ESCAPED_QUOTE)
            && self.escapes == Escapes::None
            && text.is_ascii()
            && !statement.flags.intersects(Flags::UNSURE)
            && prepared.is_none();
        let statement =
            if ends_elsewhere { narrows_sql::classify_with(text, Escapes::None) } else { statement };
        statement.on(dialect(self.family))
    }

    /// Derives from the statement what servers do not report.
    fn read_statements(&mut self) {
        let (done, report) = (self.done, self.report);
        let succeeded = report.error.is_none();
        match done.command {
            Command::Query if !done.whole => return self.pins.add(PinReason::UNREAD),
            // The text is the prepared one.
            Command::Query | Command::StmtExecute | Command::StmtBulkExecute => {}
            // MySQL makes a user variable when it resolves an assignment, and may carry it out then, even if it fails later.
            Command::StmtPrepare if may_make_variables(&done.statement) => return self.pins.doubt(),
            Command::InitDb => {
                if succeeded && report.schema.is_none() {
                    self.view.change(Change::Schema(done.text.into()));
                }
                return;
            }
            _ => return,
        }
        let has_changed = self.has_changed();
        if done.statement.is_plain() && !has_changed && self.coverage != Coverage::AsTheClientLikes {
            return;
        }
        let statement = self.as_the_server_reads();
        if has_changed {
            let by_program = self.may_be_changed_by_programs(&statement);
            if by_program && self.has_only_changed_schemas() {
                // Any program of another schema is reported like this, and most have changed nothing.
                self.pins.doubt();
            } else if by_program {
                self.pins.add(PinReason::ROUTINE);
            } else if self.late {
                // Of a statement before this one, too, which has failed. The client does not miss it, and no other one sees it.
                self.pins.doubt();
            }
        }
        if self.coverage == Coverage::AsTheClientLikes && set::may_set_untold(&statement, done.text) {
            self.pins.add(PinReason::UNKNOWN_SET);
        }
        if statement.flags.intersects(Flags::MULTI) {
            return self.read_several();
        }
        let read = Read { text: done.text, statement, schema: self.schema(), ran: Ran::of(done, report) };
        self.pins.note_flags(&read, false);
        match statement.kind {
            Kind::Set | Kind::SetTransaction => self.read_set(),
            Kind::Use if succeeded && report.schema.is_none() => self.use_schema(),
            kind if succeeded || statement.runs_others() && !nothing_ran(kind, done.text, report.error) => {
                self.pins.note_kind(&read);
            }
            _ => {}
        }
    }

    /// Whether the server has reported any change of the session. A program may have switched off the report of all others.
    fn has_changed(&self) -> bool {
        let values = self.report.reported.values();
        self.report.state_changed || values.iter().any(|(name, _)| name != BY_COMMIT)
    }

    /// Whether the server has named the schema, and nothing else that has changed.
    fn has_only_changed_schemas(&self) -> bool {
        self.report.schema.is_some() && self.report.reported.values().is_empty()
    }

    /// Whether a trigger, or a function that a view calls, may have set a user variable or made a temporary table.
    fn may_be_changed_by_programs(&self, statement: &Statement) -> bool {
        let text = self.done.text;
        match statement.flags.intersects(Flags::MULTI) {
            true => narrows_sql::parts(text, self.escapes)
                .any(|(text, part)| part.may_be_changed_by_programs(text)),
            false => statement.may_be_changed_by_programs(text),
        }
    }

    fn use_schema(&mut self) {
        if let Some(schema) = narrows_sql::use_schema(self.done.text) {
            self.view.change(Change::Schema(schema));
        }
    }

    /// The schema of names without one: for a prepared statement, the one in which it was prepared.
    fn schema(&self) -> Option<&'s [u8]> {
        match self.done.prepared {
            Some(prepared) => prepared.schema,
            None => self.view.schema(),
        }
    }

    /// The same for a text of several statements. If it failed, it is unknown how far it ran, so everything that may be left
    /// counts.
    fn read_several(&mut self) {
        if self.done.statement.runs_others() {
            // A statement that runs others, or is unknown, may do more than its text shows.
            self.pins.add(PinReason::ROUTINE);
        }
        let schema = self.schema();
        for (text, statement) in narrows_sql::parts(self.done.text, self.escapes) {
            let statement = statement.on(dialect(self.family));
            let read = Read { text, statement, schema, ran: Ran::Unknown };
            self.pins.note_flags(&read, true);
            match statement.kind {
                Kind::Set | Kind::SetTransaction => {
                    self.pins.add(PinReason::UNKNOWN_SET);
                    self.pins.add(set::reasons_in_several(text));
                }
                _ => self.pins.note_kind(&read),
            }
        }
    }
}

/// Whether an error proves that nothing of a statement that runs others has run: it could not be parsed, or names a prepared
/// statement that does not exist. Statements that parse texts while they run return such errors too.
fn nothing_ran(kind: Kind, text: &[u8], error: Option<u16>) -> bool {
    const PARSE_ERROR: u16 = 1064;
    match (kind, error) {
        (Kind::Other, Some(PARSE_ERROR)) => !may_parse_later(text),
        (Kind::Execute, Some(code)) => code == Errno::UNKNOWN_STMT_HANDLER.number,
        _ => false,
    }
}

/// The variable that a server sets back by itself when a transaction ends.
const BY_COMMIT: &str = "gtid_next";

/// The session's status flags after an answer. Those of a text with `SET STATEMENT sql_mode` at its end tell how strings are
/// read in that statement only.
fn status_of_session(status: Status, done: &Done<'_>, before: Status) -> Status {
    let status = status.of_session();
    let may_set_for_one = done.statement.kind == Kind::SetStatement
        || done.statement.flags.intersects(Flags::MULTI) && done.command == Command::Query;
    if !may_set_for_one || done.command != Command::Query {
        return status;
    }
    let last = narrows_sql::parts(done.text, escapes(before)).last();
    let Some((text, Statement { kind: Kind::SetStatement, .. })) = last else { return status };
    let sets_mode = narrows_sql::set::for_one_statement(text, escapes(before))
        .is_none_or(|it| it.names.iter().any(|name| name == "sql_mode"));
    match before.contains(Status::NO_BACKSLASH_ESCAPES) {
        _ if !sets_mode => status,
        true => status.union(Status::NO_BACKSLASH_ESCAPES),
        false => status.without(Status::NO_BACKSLASH_ESCAPES),
    }
}

/// The reasons that a rule can turn off.
const BY_VARIABLES: PinReason = PinReason::USER_VARIABLE.with(PinReason::UNKNOWN_SET);

/// Bytes of the longest name of a schema: 64 characters of four bytes.
const LONGEST_SCHEMA: usize = 256;

#[cfg(test)]
mod tests;
