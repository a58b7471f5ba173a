//! What a statement did to its session, and what follows: the one place that keeps or returns a backend
//! connection.
//!
//! The server's own report comes first (status flags, reported variables and schema), our reading of the statement
//! second. What neither explains ties the client to its backend connection, with a reason: never an error, never a
//! guess.

use std::collections::BTreeSet;
use std::sync::Arc;

use narrows_sql::set::{Assignment, OtherSet, Scope, TransactionScope, Value};
use narrows_sql::{Escapes, Flags, Kind, Statement};
use narrows_wire::Command;
use narrows_wire::charset::Family;

use super::query::Job;
use super::relay::Outcome;
use super::{Pinned, Session};
use crate::backend::{Backend, InsertIdBefore};
use crate::state::{
    CHARSETS, SCHEMA_COLLATION, SETS_ANOTHER, SessionState, UNKNOWN, UTF8MB4_COLLATION, WRONG_DEFAULTS,
    quoted, slot,
};

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $bit:literal, $word:literal;)*) => {
        impl PinReason {
            $($(#[$doc])* pub const $name: PinReason = PinReason(1 << $bit);)*

            /// Every reason with its name.
            pub const ALL: &[(PinReason, &str)] = &[$((PinReason::$name, $word),)*];
        }
    };
}

/// A reason for which a client keeps its backend connection; also a set of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PinReason(u32);

reasons! {
    /// A transaction is open; until it ends.
    TRANSACTION = 0, "transaction";
    /// `LOCK TABLES`, `FLUSH TABLES WITH READ LOCK`, `LOCK INSTANCE`; until unlocked.
    LOCK_TABLES = 1, "lock_tables";
    /// Temporary tables; until the last is dropped.
    TEMPORARY_TABLE = 2, "temporary_table";
    /// `GET_LOCK()`; until released.
    USER_LOCK = 3, "user_lock";
    /// A user variable whose value is not known; for the rest of the session.
    USER_VARIABLE = 4, "user_variable";
    /// Prepared statements that ask about the statement before them, or are too long to be read; until the last is
    /// closed.
    PREPARED_STATEMENT = 5, "prepared_statement";
    /// `PREPARE`; until the last is deallocated.
    TEXT_STATEMENT = 6, "text_prepared_statement";
    /// `HANDLER`; for the rest of the session.
    HANDLER = 7, "handler";
    /// An XA transaction; until it ends.
    XA = 8, "xa";
    /// `SET TRANSACTION` for the next transaction; until that ends.
    NEXT_TRANSACTION = 9, "next_transaction";
    /// `SET ROLE`, a resource group; for the rest of the session.
    ROLE = 10, "role";
    /// A `SET` whose effect is not known; for the rest of the session.
    UNKNOWN_SET = 11, "unknown_set";
    /// A stored routine has run, and may have set anything; for the rest of the session.
    ROUTINE = 12, "routine";
    /// A statement too long to be read; for the rest of the session.
    UNREAD = 13, "unread_statement";
    /// `mysql-multiplexing` is off, or a rule has turned it off for the session.
    MULTIPLEXING_OFF = 14, "multiplexing_off";
    /// A cursor is open; until its last row was fetched, or the statement is executed again, reset or closed.
    CURSOR = 15, "cursor";
    /// Parameters were sent in parts; until the statement is executed, reset or closed.
    LONG_DATA = 16, "long_data";
}

impl PinReason {
    /// What a connection keeps for a statement of one client.
    pub const HELD_STATEMENT: PinReason =
        PinReason(PinReason::PREPARED_STATEMENT.0 | PinReason::CURSOR.0 | PinReason::LONG_DATA.0);

    /// Whether any reason of `other` is among these.
    pub const fn intersects(self, other: PinReason) -> bool {
        self.0 & other.0 != 0
    }

    /// The name of a single reason.
    pub fn name(self) -> &'static str {
        PinReason::ALL.iter().find(|(reason, _)| *reason == self).map_or("", |(_, name)| name)
    }

    /// The reasons as bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The names of all these reasons.
    pub fn names(self) -> Vec<&'static str> {
        let among = PinReason::ALL.iter().filter(|(reason, _)| self.intersects(*reason));
        among.map(|(_, name)| *name).collect()
    }

    pub(crate) const fn without(self, other: PinReason) -> PinReason {
        PinReason(self.0 & !other.0)
    }

    pub(crate) fn add(&mut self, other: PinReason) {
        self.0 |= other.0;
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Why a client has a backend connection to itself.
#[derive(Debug, Default)]
pub struct Pins {
    pub(super) reasons: PinReason,
    temporary_tables: BTreeSet<Vec<u8>>,
    /// There was one since the connection was leased.
    had_temporary_table: bool,
    /// User locks by name, each as often as it was taken.
    user_locks: Vec<Vec<u8>>,
    text_statements: BTreeSet<Vec<u8>>,
    /// Prepared statements, by the client's numbers, that the connection keeps something for.
    held: Vec<(u32, PinReason)>,
}

impl Pins {
    /// The reasons.
    pub fn reasons(&self) -> PinReason {
        self.reasons
    }

    /// The reasons for which a statement would tie a fresh session to its connection, if it succeeded.
    pub(crate) fn expected(statement: &Statement, text: &[u8]) -> PinReason {
        let mut pins = Pins::default();
        let several = statement.flags.intersects(Flags::MULTI);
        let whole: Vec<&[u8]> = narrows_sql::statements(text, Escapes::Backslash).collect();
        for text in if several { whole } else { vec![text] } {
            let statement = if several { narrows_sql::classify(text) } else { *statement };
            pins.note_flags(&statement, several);
            pins.note_locks(&statement, text);
            match statement.kind {
                Kind::Begin => pins.reasons.add(PinReason::TRANSACTION),
                Kind::Commit | Kind::Rollback if statement.flags.intersects(Flags::AND_CHAIN) => {
                    pins.reasons.add(PinReason::TRANSACTION);
                }
                Kind::Set | Kind::SetTransaction if several => pins.reasons.add(PinReason::UNKNOWN_SET),
                Kind::Set | Kind::SetTransaction => pins.reasons.add(expected_of_set(text)),
                kind => pins.note_kind(kind, text, several),
            }
        }
        pins.reasons
    }

    /// Whether nothing ties the client to the connection but these.
    pub fn are_only(&self, reasons: PinReason) -> bool {
        self.reasons.without(reasons).is_empty()
    }

    /// The transaction has ended; returns whether nothing ties the client any more.
    pub fn end_transaction(&mut self) -> bool {
        self.reasons = self.reasons.without(PinReason::TRANSACTION);
        self.reasons.is_empty()
    }

    /// Whether the connection keeps something for a client's statement, for one of these reasons.
    pub fn holds(&self, id: u32, reason: PinReason) -> bool {
        self.held.iter().any(|(held, why)| *held == id && why.intersects(reason))
    }

    /// The connection keeps something for a client's statement.
    pub fn hold(&mut self, id: u32, reason: PinReason) {
        if !self.holds(id, reason) {
            self.held.push((id, reason));
        }
        self.reasons.add(reason);
    }

    /// It no longer does, for any of these reasons.
    pub fn let_go(&mut self, id: u32, reasons: PinReason) {
        self.held.retain(|(held, why)| *held != id || !why.intersects(reasons));
        self.reasons = self.reasons.without(PinReason::HELD_STATEMENT);
        for (_, why) in &self.held {
            self.reasons.add(*why);
        }
    }
}

impl Session {
    /// Takes note of what a command did, and keeps the connection or gives it back.
    pub(super) fn settle(
        &mut self,
        mut backend: Backend,
        mut pins: Pins,
        job: &Job,
        text: &[u8],
        outcome: &Outcome,
    ) {
        let before = pins.reasons;
        self.settle_statement(&mut backend, &mut pins, job, outcome);
        let status_before = self.status;
        self.take_report(&mut backend, outcome);
        self.read_statements(&mut backend, &mut pins, job, text, outcome);
        if let Some(status) = outcome.status {
            self.status = status.of_session();
        }
        self.warnings = match backend.login.family {
            Family::MySql if outcome.error.is_some() => 1,
            Family::MySql => outcome.warnings,
            Family::MariaDb => 0,
        };
        self.note_transaction(&mut pins, (job, text), outcome, status_before);
        self.note_results(job, text, backend.login.family, outcome);
        if job.orders.keeps_multiplexing {
            let by_variables = PinReason(PinReason::USER_VARIABLE.0 | PinReason::UNKNOWN_SET.0);
            pins.reasons = PinReason(pins.reasons.0 & (before.0 | !by_variables.0));
        }
        pins.reasons = pins.reasons.without(PinReason::MULTIPLEXING_OFF);
        if self.multiplexing_off || !self.snapshot().multiplexes(backend.login.server.row.hostgroup) {
            pins.reasons.add(PinReason::MULTIPLEXING_OFF);
        }
        self.keep_or_return_as(backend, pins, before, job, text);
    }

    /// Keeps the connection behind a command that has no answer, or gives it back.
    pub(super) fn keep_or_return(&mut self, backend: Backend, pins: Pins, before: PinReason, job: &Job) {
        let text = job.prepared.as_ref().map_or(b"".as_slice(), |statement| &statement.prepared.text);
        self.keep_or_return_as(backend, pins, before, job, text);
    }

    fn keep_or_return_as(
        &mut self,
        mut backend: Backend,
        pins: Pins,
        before: PinReason,
        job: &Job,
        text: &[u8],
    ) {
        self.handle.keep_pins(pins.reasons);
        if pins.reasons.is_empty() {
            // A temporary table may have been of an engine without transactions. MySQL 9 counts what was written to it to
            // the next transaction, and warns whoever begins that.
            backend.login.must_commit = pins.had_temporary_table && backend.login.family == Family::MySql;
            return self.give_back(backend);
        }
        let fresh = pins.reasons.without(before);
        if !fresh.is_empty() {
            self.count_pins(fresh, job, text);
        }
        let hostgroup = backend.login.server.row.hostgroup;
        self.pinned = Some(Pinned { backend, hostgroup, pins });
    }

    /// Takes over the variables and the schema that the server has reported.
    fn take_report(&mut self, backend: &mut Backend, outcome: &Outcome) {
        if outcome.variables.is_empty() && outcome.schema.is_none() {
            return;
        }
        self.change_state(backend, |state| {
            // A collation tells its character set too, and the other way round only by default.
            for collations in [false, true] {
                for (name, value) in &outcome.variables {
                    if name.starts_with("collation_") == collations && !NOT_STATE.contains(&name.as_str()) {
                        state.set_text(name, value);
                    }
                }
            }
            if let Some(schema) = &outcome.schema {
                state.set_default(SCHEMA_COLLATION);
                if schema.is_empty() {
                    // It was dropped.
                    state.set_schema_collation_to_that_of_the_server();
                }
                state.schema = Some(schema.as_slice()).filter(|schema| !schema.is_empty()).map(Into::into);
            }
        });
    }

    /// Changes what is known of the client's state and of the connection's alike.
    fn change_state(&mut self, backend: &mut Backend, change: impl Fn(&mut SessionState)) {
        let aligned = Arc::ptr_eq(&self.state, &backend.login.state);
        let mut state = (*self.state).clone();
        change(&mut state);
        self.state = Arc::new(state);
        self.note_patience();
        if aligned {
            backend.login.state = Arc::clone(&self.state);
        } else {
            let mut state = (*backend.login.state).clone();
            change(&mut state);
            backend.login.state = Arc::new(state);
        }
    }

    /// Reads from the statement what servers do not report.
    fn read_statements(
        &mut self,
        backend: &mut Backend,
        pins: &mut Pins,
        job: &Job,
        text: &[u8],
        outcome: &Outcome,
    ) {
        let succeeded = outcome.error.is_none();
        match job.command {
            Command::Query if !job.whole => return pins.reasons.add(PinReason::UNREAD),
            // `text` is what was prepared.
            Command::Query | Command::StmtExecute | Command::StmtBulkExecute => {}
            Command::InitDb => {
                if succeeded && outcome.schema.is_none() {
                    self.change_state(backend, |state| state.schema = Some(text.into()));
                }
                return;
            }
            _ => return,
        }
        if job.statement.flags.intersects(Flags::MULTI) {
            let whole: Vec<Statement> =
                narrows_sql::statements(text, Escapes::Backslash).map(narrows_sql::classify).collect();
            for statement in whole {
                pins.note_flags(&statement, true);
                match statement.kind {
                    Kind::Set | Kind::SetTransaction => pins.reasons.add(PinReason::UNKNOWN_SET),
                    // How far the text got is not known when it failed: what may be held is held.
                    kind => pins.note_kind(kind, text, true),
                }
            }
            return;
        }
        pins.note_flags(&job.statement, false);
        pins.note_locks(&job.statement, text);
        match job.statement.kind {
            Kind::Set | Kind::SetTransaction => self.read_set(backend, pins, text, outcome),
            Kind::Use if succeeded && outcome.schema.is_none() => {
                if let Some(schema) = narrows_sql::use_schema(text) {
                    self.change_state(backend, |state| state.schema = Some(schema.as_ref().into()));
                }
            }
            kind if succeeded || kind == Kind::Call => pins.note_kind(kind, text, false),
            _ => {}
        }
    }

    fn read_set(&mut self, backend: &mut Backend, pins: &mut Pins, text: &[u8], outcome: &Outcome) {
        let Ok(assignments) = narrows_sql::set::parse(text) else {
            return pins.reasons.add(PinReason::UNKNOWN_SET);
        };
        if outcome.error.is_some() {
            // Of several assignments some may have been made before the one that failed.
            if assignments.len() > 1 {
                pins.reasons.add(PinReason::UNKNOWN_SET);
            }
            return;
        }
        let changes_charsets = outcome.variables.iter().any(|(name, _)| CHARSETS.contains(&slot(name)))
            || assignments.iter().any(|assignment| CHARSETS.iter().any(|slot| sets(assignment, slot)));
        if changes_charsets && outcome.variables.iter().any(|(name, _)| name == UTF8MB4_COLLATION) {
            // Which came first decides what the character set means, and the report does not tell.
            pins.reasons.add(PinReason::UNKNOWN_SET);
        }
        for (number, assignment) in assignments.iter().enumerate() {
            let behind = assignments.get(number + 1..).unwrap_or_default();
            let reason = match assignment {
                // In which character set it was read depends on what came first.
                Assignment::User { value: Value::Text(_), .. } if changes_charsets => {
                    Some(PinReason::USER_VARIABLE)
                }
                Assignment::System { scope: Scope::Session, name, value: Value::Default }
                    if behind.iter().any(|later| sets(later, name)) =>
                {
                    None
                }
                Assignment::System { scope: Scope::Session, name, value } => {
                    self.read_system_variable(backend, name, value, outcome)
                }
                Assignment::System { .. } | Assignment::Statement { .. } => None,
                Assignment::User { name, value } => self.read_user_variable(backend, name, value),
                // What it says that is not reported may not be what is in force behind the others.
                Assignment::Names { .. }
                    if behind.iter().any(|later| CHARSETS.iter().any(|slot| sets(later, slot))) =>
                {
                    Some(PinReason::UNKNOWN_SET)
                }
                Assignment::Names { charset, collation } => {
                    self.read_names(backend, charset, collation.as_ref(), outcome)
                }
                // The collation is that of the schema, and was asked for.
                Assignment::CharacterSet(_) => was_not_reported(outcome, "character_set_client")
                    .or_else(|| was_not_reported(outcome, "collation_connection")),
                Assignment::Transaction { scope, isolation, access_mode } => match scope {
                    TransactionScope::Next => Some(PinReason::NEXT_TRANSACTION),
                    TransactionScope::Global => None,
                    TransactionScope::Session => {
                        let reported = |name: &str, old: &str| {
                            was_not_reported(outcome, name).and_then(|_| was_not_reported(outcome, old))
                        };
                        let level = isolation.and_then(|_| reported("transaction_isolation", "tx_isolation"));
                        let mode =
                            access_mode.and_then(|_| reported("transaction_read_only", "tx_read_only"));
                        level.or(mode)
                    }
                },
                Assignment::Other(OtherSet::Password | OtherSet::DefaultRole) => None,
                Assignment::Other(OtherSet::Role | OtherSet::ResourceGroup) => Some(PinReason::ROLE),
            };
            if let Some(reason) = reason {
                pins.reasons.add(reason);
            }
        }
        if self.state.null_is_insert_id() {
            // Only the connection that ran an insert knows whether `WHERE id IS NULL` still finds its row.
            pins.reasons.add(PinReason::UNKNOWN_SET);
        }
    }

    fn read_system_variable(
        &mut self,
        backend: &mut Backend,
        name: &str,
        value: &Value,
        outcome: &Outcome,
    ) -> Option<PinReason> {
        if name == "last_insert_id" || name == "identity" {
            return match value {
                Value::Number(number) => {
                    self.look_back.insert_id = number.parse().unwrap_or_default();
                    self.look_back.settled_insert_id = self.look_back.insert_id;
                    self.look_back.insert_id_at.clear();
                    backend.login.insert_id_before = InsertIdBefore::Own;
                    self.look_back.insert_id_is_here = true;
                    None
                }
                _ => Some(PinReason::UNKNOWN_SET),
            };
        }
        if NOT_STATE.contains(&name) {
            return Some(PinReason::UNKNOWN_SET);
        }
        if let Some((_, other)) = OF_TRANSACTIONS.iter().find(|(one, _)| *one == name)
            && backend.login.tracking.is_some()
            && !outcome.variables.iter().any(|(reported, _)| reported == name || reported == other)
        {
            // `SET @@transaction_isolation = ..` without a scope is for one transaction, and not reported.
            return Some(PinReason::NEXT_TRANSACTION);
        }
        if *value == Value::Default {
            if WRONG_DEFAULTS.contains(&name) && was_not_reported(outcome, name).is_none() {
                return None;
            }
            self.change_state(backend, |state| state.set_default(name));
            if slot(name) == SCHEMA_COLLATION && self.state.schema.is_none() {
                // The server means the character set of the schema it was in last, which was another client's.
                let mut state = (*backend.login.state).clone();
                state.set_literal(SCHEMA_COLLATION, UNKNOWN);
                backend.login.state = Arc::new(state);
            }
            return None;
        }
        was_not_reported(outcome, name)?;
        let literal = match value {
            Value::Number(number) => number.clone(),
            Value::Text(text) => quoted(text),
            Value::Word(word) => word.clone(),
            Value::Null => "NULL".to_owned(),
            Value::Default | Value::Expression(_) => return Some(PinReason::UNKNOWN_SET),
        };
        self.change_state(backend, |state| state.set_literal(name, &literal));
        None
    }

    fn read_user_variable(&mut self, backend: &mut Backend, name: &str, value: &Value) -> Option<PinReason> {
        let literal = match value {
            Value::Number(number) => number.clone(),
            // Other text depends on the character set it was sent in.
            Value::Text(text) if text.is_ascii() => {
                match self.state.text_literal(text, backend.login.family) {
                    Some(literal) => literal,
                    None => return Some(PinReason::USER_VARIABLE),
                }
            }
            Value::Null => "NULL".to_owned(),
            _ => return Some(PinReason::USER_VARIABLE),
        };
        self.change_state(backend, |state| state.set_user_variable(name, &literal));
        None
    }

    /// The server reports the three character sets of `SET NAMES`, but not the collation.
    fn read_names(
        &mut self,
        backend: &mut Backend,
        charset: &Value,
        collation: Option<&Value>,
        outcome: &Outcome,
    ) -> Option<PinReason> {
        let name = |value: &Value| match value {
            Value::Word(word) => Some(word.clone()),
            Value::Text(text) => String::from_utf8(text.clone()).ok(),
            _ => None,
        };
        let collation = match collation {
            None | Some(Value::Default) => None,
            Some(collation) => Some(name(collation)?),
        };
        if was_not_reported(outcome, "character_set_client").is_some() {
            let Some(charset) = name(charset) else { return Some(PinReason::UNKNOWN_SET) };
            self.change_state(backend, |state| state.set_names(&charset, None));
        }
        if let Some(collation) = collation.or_else(|| self.state.collation_of_names()) {
            self.change_state(backend, |state| state.set_collation(&collation));
        }
        None
    }
}

impl Pins {
    /// What flags say, whether the statement succeeded or not: functions have run by then.
    fn note_flags(&mut self, statement: &Statement, in_several: bool) {
        let assigns = Flags::ASSIGNS_USER_VARIABLE | Flags::INTO_VARIABLE;
        let set = matches!(statement.kind, Kind::Set | Kind::SetTransaction);
        if statement.flags.intersects(assigns) && (in_several || !set) {
            self.reasons.add(PinReason::USER_VARIABLE);
        }
        // A stored function may have set any user variable.
        let calls = matches!(statement.kind, Kind::Select | Kind::Do);
        if calls && statement.flags.intersects(Flags::FUNCTION_CALL_UNKNOWN) {
            self.reasons.add(PinReason::ROUTINE);
        }
        if in_several && statement.flags.intersects(Flags::GET_LOCK) {
            self.reasons.add(PinReason::USER_LOCK);
            self.user_locks.push(UNREAD_NAME.to_vec());
        }
    }

    /// Locks of `GET_LOCK()`: released by name where the names are plain, or all at once.
    fn note_locks(&mut self, statement: &Statement, text: &[u8]) {
        let flags = statement.flags;
        if flags.intersects(Flags::RELEASE_ALL_LOCKS) && !flags.intersects(Flags::GET_LOCK) {
            self.user_locks.clear();
        }
        if flags.intersects(Flags::GET_LOCK) {
            let calls = text.windows(8).filter(|word| word.eq_ignore_ascii_case(b"get_lock")).count();
            match first_text(text).filter(|_| calls == 1) {
                Some(name) => self.user_locks.push(name),
                // Names that are not read off the text are released all at once only.
                None => self.user_locks.push(UNREAD_NAME.to_vec()),
            }
        } else if flags.intersects(Flags::RELEASE_LOCK)
            && let Some(name) = first_text(text)
            && let Some(held) = self.user_locks.iter().position(|lock| *lock == name)
        {
            self.user_locks.remove(held);
        }
        self.reasons = self.reasons.without(PinReason::USER_LOCK);
        if !self.user_locks.is_empty() {
            self.reasons.add(PinReason::USER_LOCK);
        }
    }

    /// What the kind of a statement that succeeded says. `several`: the text has other statements too, so names
    /// cannot be read off it, and what ends something may not have run.
    fn note_kind(&mut self, kind: Kind, text: &[u8], several: bool) {
        match kind {
            Kind::LockTables | Kind::LockInstance | Kind::FlushTablesWithReadLock => {
                self.reasons.add(PinReason::LOCK_TABLES);
            }
            Kind::UnlockTables | Kind::UnlockInstance if !several => {
                self.reasons = self.reasons.without(PinReason::LOCK_TABLES);
            }
            Kind::CreateTemporaryTable => {
                self.temporary_tables.insert(if several { Vec::new() } else { table_name(text) });
                self.reasons.add(PinReason::TEMPORARY_TABLE);
                self.had_temporary_table = true;
            }
            Kind::DropTemporaryTable | Kind::DropTable if !several => {
                self.temporary_tables.remove(&table_name(text));
                if self.temporary_tables.is_empty() {
                    self.reasons = self.reasons.without(PinReason::TEMPORARY_TABLE);
                }
            }
            // What it executes may have set anything.
            Kind::Execute => self.reasons.add(PinReason::ROUTINE),
            Kind::Prepare => {
                self.text_statements.insert(if several { Vec::new() } else { word(text, 1) });
                self.reasons.add(PinReason::TEXT_STATEMENT);
            }
            Kind::Deallocate if !several => {
                self.text_statements.remove(&word(text, 2));
                if self.text_statements.is_empty() {
                    self.reasons = self.reasons.without(PinReason::TEXT_STATEMENT);
                }
            }
            Kind::Handler => self.reasons.add(PinReason::HANDLER),
            Kind::Xa => self.note_xa(text, several),
            Kind::Call | Kind::Other => self.reasons.add(PinReason::ROUTINE),

            _ => {}
        }
    }

    fn note_xa(&mut self, text: &[u8], several: bool) {
        let ends =
            [b"COMMIT".as_slice(), b"ROLLBACK"].contains(&word(text, 1).to_ascii_uppercase().as_slice());
        if ends && !several {
            self.reasons = self.reasons.without(PinReason::XA);
        } else if !word(text, 1).eq_ignore_ascii_case(b"RECOVER") {
            self.reasons.add(PinReason::XA);
        }
    }
}

/// The reasons for which a `SET` would tie a session, where the server reports what it changes.
fn expected_of_set(text: &[u8]) -> PinReason {
    let Ok(assignments) = narrows_sql::set::parse(text) else { return PinReason::UNKNOWN_SET };
    let mut reasons = PinReason::default();
    for assignment in assignments {
        reasons.add(match assignment {
            Assignment::System { scope: Scope::Session, name, .. } if NOT_STATE.contains(&name.as_str()) => {
                PinReason::UNKNOWN_SET
            }
            Assignment::User { value: Value::Number(_) | Value::Null, .. } => PinReason::default(),
            Assignment::User { value: Value::Text(text), .. } if text.is_ascii() => PinReason::default(),
            Assignment::User { .. } => PinReason::USER_VARIABLE,
            Assignment::Transaction { scope: TransactionScope::Next, .. } => PinReason::NEXT_TRANSACTION,
            Assignment::Other(OtherSet::Role | OtherSet::ResourceGroup) => PinReason::ROLE,
            _ => PinReason::default(),
        });
    }
    reasons
}

/// Whether an assignment sets this session variable, perhaps by its other name or among others.
fn sets(assignment: &Assignment, name: &str) -> bool {
    match assignment {
        Assignment::System { scope: Scope::Session, name: other, .. } => slot(other) == slot(name),
        Assignment::Names { .. } | Assignment::CharacterSet(_) => CHARSETS.contains(&slot(name)),
        _ => false,
    }
}

/// Session variables that a successful `SET` assigned expressions to and that the server has not reported, and what it
/// sets without a report: their values must be asked for.
pub(super) fn untold_variables(job: &Job, text: &[u8], outcome: &Outcome) -> Vec<String> {
    let is_set = job.statement.kind == Kind::Set && !job.statement.flags.intersects(Flags::MULTI);
    if !is_set || outcome.error.is_some() {
        return Vec::new();
    }
    let untold = |assignment: Assignment| match assignment {
        Assignment::System { scope: Scope::Session, name, value: Value::Expression(_) } => {
            let is_known = NOT_STATE.contains(&name.as_str())
                || OF_TRANSACTIONS.iter().any(|(one, _)| *one == name)
                || was_not_reported(outcome, &name).is_none();
            (!is_known).then_some(name)
        }
        Assignment::CharacterSet(_) => Some("collation_connection".to_owned()),
        _ => None,
    };
    let assignments = narrows_sql::set::parse(text).unwrap_or_default();
    let along = assignments.iter().any(|assignment| sets(assignment, SETS_ANOTHER.0));
    let along = along.then(|| SETS_ANOTHER.1.to_owned());
    assignments.into_iter().filter_map(untold).chain(along).collect()
}

fn was_not_reported(outcome: &Outcome, name: &str) -> Option<PinReason> {
    let reported = outcome.variables.iter().any(|(reported, _)| reported == name);
    (!reported).then_some(PinReason::UNKNOWN_SET)
}

/// The `index`th word of a statement, upper and lower case as written.
fn word(text: &[u8], index: usize) -> Vec<u8> {
    let separator = |byte: &u8| byte.is_ascii_whitespace() || *byte == b';';
    let mut words = text.split(separator).filter(|word| !word.is_empty());
    words.nth(index).unwrap_or_default().to_ascii_lowercase()
}

/// The table of `CREATE TEMPORARY TABLE name (` or `DROP [TEMPORARY] TABLE name`, when that is all it says.
fn table_name(text: &[u8]) -> Vec<u8> {
    let upper = |index| word(text, index).to_ascii_uppercase();
    let mut index = 0;
    while index < 8 && upper(index) != b"TABLE" {
        index += 1;
    }
    index += 1;
    if upper(index) == b"IF" {
        index += if upper(index + 1) == b"NOT" { 3 } else { 2 };
    }
    let name = word(text, index);
    let end = name.iter().position(|byte| *byte == b'(' || *byte == b',').unwrap_or(name.len());
    name.get(..end).unwrap_or_default().iter().copied().filter(|byte| *byte != b'`').collect()
}

/// Stands for a lock whose name is not known; no name has a zero byte.
const UNREAD_NAME: &[u8] = b"\0";

/// The first string literal of a statement, when it has no escapes.
fn first_text(text: &[u8]) -> Option<Vec<u8>> {
    let start = text.iter().position(|byte| matches!(byte, b'\'' | b'"'))?;
    let quote = *text.get(start)?;
    let rest = text.get(start + 1..)?;
    let end = rest.iter().position(|byte| *byte == quote)?;
    let name = rest.get(..end)?;
    (!name.contains(&b'\\')).then(|| name.to_ascii_lowercase())
}

/// Variables that a `SET` may give a value for the next transaction only, by both their names.
const OF_TRANSACTIONS: &[(&str, &str)] = &[
    ("transaction_isolation", "tx_isolation"),
    ("tx_isolation", "transaction_isolation"),
    ("transaction_read_only", "tx_read_only"),
    ("tx_read_only", "transaction_read_only"),
];

/// Variables that are not state to be carried to another connection: they cannot be set, or what they do is over with
/// the next statement, or cannot be undone.
pub(super) const NOT_STATE: &[&str] = &[
    "error_count",
    "external_user",
    "gtid_next",
    "gtid_domain_id",
    "gtid_seq_no",
    "identity",
    "immediate_server_version",
    "in_transaction",
    "insert_id",
    "last_gtid",
    "last_insert_id",
    "original_commit_timestamp",
    "original_server_version",
    "profiling",
    "proxy_user",
    "pseudo_replica_mode",
    "pseudo_slave_mode",
    "pseudo_thread_id",
    "rand_seed1",
    "rand_seed2",
    "server_id",
    "skip_replication",
    "statement_id",
    "warning_count",
];
