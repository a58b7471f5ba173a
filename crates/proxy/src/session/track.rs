//! What a statement did to its session, and what follows: the one place that keeps or returns a backend
//! connection.
//!
//! The server's own report comes first (status flags, reported variables and schema), our reading of the statement
//! second. What neither explains ties the client to its backend connection, with a reason: never an error, never a
//! guess.

use std::sync::Arc;

use narrows_sql::set::{Assignment, OtherSet, Scope, TransactionScope, Value};
use narrows_sql::{Escapes, Flags, Kind, Statement};
use narrows_wire::charset::Family;
use narrows_wire::{Command, Errno, Status};

use super::left::{Leftovers, Ran, Read, runs_others, says};
use super::query::Job;
use super::relay::Outcome;
use super::{Pinned, Session};
use crate::backend::{Backend, InsertIdBefore};
use crate::pool::{Exit, Lease};
use crate::state::{
    CHARSETS, SCHEMA_COLLATION, SETS_ANOTHER, SessionState, UNKNOWN, UTF8MB4_COLLATION, WRONG_DEFAULTS,
    is_variable_name, is_word, quoted, slot,
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
    /// `LOCK TABLES`, `FLUSH TABLES WITH READ LOCK`, `LOCK INSTANCE`; until unlocked. MariaDB's `BACKUP` locks; for the rest
    /// of the session.
    LOCK_TABLES = 1, "lock_tables";
    /// Temporary tables; until it is certain that the last is dropped.
    TEMPORARY_TABLE = 2, "temporary_table";
    /// `GET_LOCK()`; until it is certain that all are released.
    USER_LOCK = 3, "user_lock";
    /// A user variable whose value is not known; for the rest of the session.
    USER_VARIABLE = 4, "user_variable";
    /// Prepared statements that ask about the statement before them, or are too long to be read; until the last is
    /// closed.
    PREPARED_STATEMENT = 5, "prepared_statement";
    /// `PREPARE`; for the rest of the session.
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
    /// A stored routine or function may have run, and may have set anything; for the rest of the session.
    ROUTINE = 12, "routine";
    /// A statement too long to be read; for the rest of the session.
    UNREAD = 13, "unread_statement";
    /// `mysql-multiplexing` is off, or a rule has turned it off for the session.
    MULTIPLEXING_OFF = 14, "multiplexing_off";
    /// A cursor is open; until its last row was fetched, or the statement is executed again, reset or closed.
    CURSOR = 15, "cursor";
    /// Parameters were sent in parts; until the statement is executed, reset or closed.
    LONG_DATA = 16, "long_data";
    /// What no reset of the connection takes away: profiles of `SET profiling`, the transaction of a query in a `SET` that also
    /// switches autocommit off; for the rest of the session.
    BEYOND_RESET = 17, "beyond_reset";
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

    /// What its owner takes away by statements, and nobody else does: whoever has the connection next would find what was
    /// overlooked, so that it is reset before.
    const CARRIED: PinReason = PinReason(
        PinReason::LOCK_TABLES.0
            | PinReason::TEMPORARY_TABLE.0
            | PinReason::USER_LOCK.0
            | PinReason::TEXT_STATEMENT.0
            | PinReason::XA.0,
    );

    /// What neither `COM_RESET_CONNECTION` nor `COM_CHANGE_USER` takes away on every server: roles, resource groups, and on MariaDB
    /// an XA transaction that is prepared, on which later statements of the connection fail.
    const OUTLASTS_LOGIN: PinReason =
        PinReason(PinReason::ROLE.0 | PinReason::XA.0 | PinReason::BEYOND_RESET.0);

    /// What may have set roles, which `COM_RESET_CONNECTION` leaves as they are.
    const MAY_SET_ROLES: PinReason = PinReason(
        PinReason::UNKNOWN_SET.0 | PinReason::ROUTINE.0 | PinReason::TEXT_STATEMENT.0 | PinReason::UNREAD.0,
    );

    /// What takes away all that these have stood for, and all else that may have been set.
    pub(super) const fn exit(self) -> Exit {
        match self {
            reasons if reasons.intersects(PinReason::OUTLASTS_LOGIN) => Exit::Close,
            reasons if reasons.intersects(PinReason::MAY_SET_ROLES) => Exit::ChangeUser,
            _ => Exit::Reset,
        }
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
    /// Those of [`PinReason::CARRIED`] that there were since the connection was leased.
    carried: PinReason,
    pub(super) left: Leftovers,
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
        let parts = match several {
            true => narrows_sql::parts(text, Escapes::Backslash).collect(),
            false => vec![(text, *statement)],
        };
        for (text, statement) in parts {
            let read = Read { text, statement, schema: None, ran: Ran::Unknown };
            pins.note_flags(&read, several);
            match statement.kind {
                Kind::Begin => pins.reasons.add(PinReason::TRANSACTION),
                Kind::Commit | Kind::Rollback if statement.flags.intersects(Flags::AND_CHAIN) => {
                    pins.reasons.add(PinReason::TRANSACTION);
                }
                Kind::Set | Kind::SetTransaction if several => pins.reasons.add(PinReason::UNKNOWN_SET),
                Kind::Set | Kind::SetTransaction => pins.reasons.add(expected_of_set(text)),
                _ => pins.note_kind(&read),
            }
        }
        pins.reasons
    }

    /// What is done to a connection that nothing ties to its client any more, before anybody else has it.
    pub(super) fn exit(&self) -> Exit {
        if self.carried.is_empty() { Exit::Return } else { self.exit_of_session() }
    }

    /// What takes away all that the connection may carry of its client.
    pub(super) fn exit_of_session(&self) -> Exit {
        self.reasons.exit()
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
        mut backend: Lease,
        mut pins: Pins,
        job: &Job,
        text: &[u8],
        outcome: &Outcome,
    ) {
        let before = pins.reasons;
        self.settle_statement(&mut backend, &mut pins, job, outcome);
        let status_before = self.status;
        self.take_report(&mut backend, &mut pins, outcome);
        self.read_statements(&mut backend, &mut pins, job, text, outcome);
        if let Some(status) = outcome.status {
            self.status = status.of_session();
            self.status_is_told = true;
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
    pub(super) fn keep_or_return(&mut self, backend: Lease, pins: Pins, before: PinReason, job: &Job) {
        let text = job.prepared.as_ref().map_or(b"".as_slice(), |statement| &statement.prepared.text);
        self.keep_or_return_as(backend, pins, before, job, text);
    }

    fn keep_or_return_as(
        &mut self,
        backend: Lease,
        mut pins: Pins,
        before: PinReason,
        job: &Job,
        text: &[u8],
    ) {
        self.handle.keep_pins(pins.reasons);
        if pins.reasons.is_empty() {
            return self.give_back(backend, &pins);
        }
        pins.carried.add(PinReason(pins.reasons.0 & PinReason::CARRIED.0));
        let fresh = pins.reasons.without(before);
        if !fresh.is_empty() {
            self.count_pins(fresh, job, text);
        }
        let hostgroup = backend.login.server.row.hostgroup;
        self.pinned = Some(Pinned { backend, hostgroup, pins });
    }

    /// Takes over the variables and the schema that the server has reported; what cannot be carried to another connection pins.
    fn take_report(&mut self, backend: &mut Backend, pins: &mut Pins, outcome: &Outcome) {
        if outcome.variables.is_empty() && outcome.schema.is_none() {
            return;
        }
        let mut taken = (*self.state).clone();
        let mut told: Vec<(&str, &[u8])> = Vec::with_capacity(outcome.variables.len());
        // A collation tells its character set too, and the other way round only by default.
        for collations in [false, true] {
            for (name, value) in &outcome.variables {
                if name.starts_with("collation_") != collations || NOT_STATE.contains(&name.as_str()) {
                    continue;
                }
                if !taken.can_carry(name, value) {
                    pins.reasons.add(PinReason::UNKNOWN_SET);
                    continue;
                }
                taken.set_text(name, value);
                told.push((name, value));
            }
        }
        let schema = outcome.schema.as_deref().filter(|schema| schema.len() <= LONGEST_SCHEMA);
        if schema.is_none() && outcome.schema.is_some() {
            pins.reasons.add(PinReason::UNKNOWN_SET);
        }
        self.change_state(backend, |state| {
            for (name, value) in &told {
                state.set_text(name, value);
            }
            if let Some(schema) = schema {
                state.set_default(SCHEMA_COLLATION);
                if schema.is_empty() {
                    // It was dropped.
                    state.set_schema_collation_to_that_of_the_server();
                }
                state.schema = Some(schema).filter(|schema| !schema.is_empty()).map(Into::into);
            }
        });
    }

    /// Changes what is known of the client's state and of the connection's alike.
    fn change_state(&mut self, backend: &mut Backend, change: impl Fn(&mut SessionState)) {
        let aligned = Arc::ptr_eq(&self.state, &backend.login.state);
        if aligned {
            // One owner less: a state that nobody else shares is changed in place, however many assignments a SET has.
            backend.login.state = Arc::clone(&self.login_state);
        }
        change(Arc::make_mut(&mut self.state));
        self.note_patience();
        if aligned {
            backend.login.state = Arc::clone(&self.state);
        } else {
            change(Arc::make_mut(&mut backend.login.state));
        }
    }

    /// How backslashes in the session's texts are read: as the server has said last.
    pub(super) fn escapes(&self) -> Escapes {
        match self.status.contains(Status::NO_BACKSLASH_ESCAPES) {
            true => Escapes::None,
            false => Escapes::Backslash,
        }
    }

    /// What a statement is where strings end as the server ends them: before, it was read with backslashes that escape.
    fn as_the_server_reads(&self, job: &Job, text: &[u8]) -> Statement {
        let ends_elsewhere = job.statement.flags.intersects(Flags::ESCAPED_QUOTE)
            && self.escapes() == Escapes::None
            && text.is_ascii()
            && !job.statement.flags.intersects(Flags::UNSURE)
            && job.prepared.is_none();
        if ends_elsewhere { narrows_sql::classify_with(text, Escapes::None) } else { job.statement }
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
        let statement = self.as_the_server_reads(job, text);
        // Names in what was prepared are those of the schema that it was prepared in.
        let state = job.prepared.as_ref().map_or(&self.state, |statement| &statement.prepared.state);
        let schema = state.schema.as_deref();
        if statement.flags.intersects(Flags::MULTI) {
            return self.read_several(pins, job, (text, schema));
        }
        let read = Read { text, statement, schema, ran: Ran::of(job, outcome) };
        pins.note_flags(&read, false);
        match statement.kind {
            Kind::Set | Kind::SetTransaction => self.read_set(backend, pins, (job, text), outcome),
            Kind::Use if succeeded && outcome.schema.is_none() => {
                if let Some(schema) = narrows_sql::use_schema(text) {
                    self.change_state(backend, |state| state.schema = Some(schema.as_ref().into()));
                }
            }
            kind if succeeded || runs_others(kind) && !nothing_ran(kind, text, outcome) => {
                pins.note_kind(&read);
            }
            _ => {}
        }
    }

    /// The same of a text of several statements. How far it got is not known when it failed: what may be held is held.
    fn read_several(&self, pins: &mut Pins, job: &Job, (text, schema): (&[u8], Option<&[u8]>)) {
        if runs_others(job.statement.kind) {
            // What runs others, or may be anything for all that is known, may do more than its parts say.
            pins.reasons.add(PinReason::ROUTINE);
        }
        let escapes = self.escapes();
        for (text, statement) in narrows_sql::parts(text, escapes) {
            let read = Read { text, statement, schema, ran: Ran::Unknown };
            pins.note_flags(&read, true);
            match statement.kind {
                Kind::Set | Kind::SetTransaction => {
                    pins.reasons.add(PinReason::UNKNOWN_SET);
                    pins.reasons.add(expected_of_set(text));
                }
                _ => pins.note_kind(&read),
            }
        }
    }

    fn read_set(
        &mut self,
        backend: &mut Backend,
        pins: &mut Pins,
        (job, text): (&Job, &[u8]),
        outcome: &Outcome,
    ) {
        if says(text, b"select") && says(text, b"autocommit") {
            // It begins a transaction that no status flag tells of and no COMMIT ends.
            pins.reasons.add(PinReason::BEYOND_RESET);
        }
        let Ok(assignments) = narrows_sql::set::parse_with(text, self.escapes()) else {
            return pins.reasons.add(PinReason::UNKNOWN_SET);
        };
        if job.prepared.is_some() && text.contains(&b'\\') {
            // What it means was settled when it was prepared.
            return pins.reasons.add(PinReason::UNKNOWN_SET);
        }
        if assignments.len() > MOST_ASSIGNMENTS {
            return pins.reasons.add(PinReason::UNKNOWN_SET);
        }
        // Values are computed before anything can fail.
        if assignments.iter().any(Assignment::may_assign_by_value) {
            pins.reasons.add(PinReason::USER_VARIABLE);
        }
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
        if name == "profiling" {
            return Some(PinReason::BEYOND_RESET);
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
            if !is_variable_name(name) {
                return Some(PinReason::UNKNOWN_SET);
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
            Value::Number(number) if self.state.can_carry(name, b"") => number.clone(),
            Value::Text(text) if self.state.can_carry(name, text) => quoted(text),
            Value::Word(word) if self.state.can_carry(name, word.as_bytes()) && is_word(word.as_bytes()) => {
                word.clone()
            }
            Value::Null if self.state.can_carry(name, b"") => "NULL".to_owned(),
            _ => return Some(PinReason::UNKNOWN_SET),
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
        if !self.state.has_room(2 * name.len() + literal.len() + MARKS_OF_NULL) {
            return Some(PinReason::USER_VARIABLE);
        }
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
        let name = |value: &Value| {
            let name = match value {
                Value::Word(word) => Some(word.clone()),
                Value::Text(text) => String::from_utf8(text.clone()).ok(),
                _ => None,
            };
            name.filter(|name| is_word(name.as_bytes()))
        };
        let collation = match collation {
            None | Some(Value::Default) => None,
            Some(collation) => match name(collation) {
                Some(collation) => Some(collation),
                None => return Some(PinReason::UNKNOWN_SET),
            },
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

/// Whether an error says that nothing of a statement of a kind that runs others has run: it could not be parsed, or names none.
/// What has a text parsed while it runs gives such errors too.
fn nothing_ran(kind: Kind, text: &[u8], outcome: &Outcome) -> bool {
    const PARSE_ERROR: u16 = 1064;
    const PARSED_LATER: [&[u8]; 4] = [b"execute", b"call", b"prepare", b"against"];
    match (kind, outcome.error) {
        (Kind::Other, Some(PARSE_ERROR)) => !PARSED_LATER.iter().any(|word| says(text, word)),
        (Kind::Execute, Some(code)) => code == Errno::UNKNOWN_STMT_HANDLER.number,
        _ => false,
    }
}

/// The reasons for which a `SET` would tie a session, where the server reports what it changes.
fn expected_of_set(text: &[u8]) -> PinReason {
    let Ok(assignments) = narrows_sql::set::parse(text) else { return PinReason::UNKNOWN_SET };
    let mut reasons = PinReason::default();
    for assignment in assignments {
        if assignment.may_assign_by_value() {
            reasons.add(PinReason::USER_VARIABLE);
        }
        reasons.add(match assignment {
            Assignment::System { scope: Scope::Session, name, .. } if name == "profiling" => {
                PinReason::BEYOND_RESET
            }
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

/// Assignments of one `SET` that are remembered one by one; a client with more keeps its connection.
const MOST_ASSIGNMENTS: usize = 256;

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
pub(super) fn untold_variables(job: &Job, text: &[u8], escapes: Escapes, outcome: &Outcome) -> Vec<String> {
    let is_set = job.statement.kind == Kind::Set && !job.statement.flags.intersects(Flags::MULTI);
    if !is_set || outcome.error.is_some() {
        return Vec::new();
    }
    let untold = |assignment: Assignment| match assignment {
        Assignment::System { scope: Scope::Session, name, value: Value::Expression(_) } => {
            let is_known = NOT_STATE.contains(&name.as_str())
                || OF_TRANSACTIONS.iter().any(|(one, _)| *one == name)
                || was_not_reported(outcome, &name).is_none();
            (!is_known && is_variable_name(&name)).then_some(name)
        }
        Assignment::CharacterSet(_) => Some("collation_connection".to_owned()),
        _ => None,
    };
    let assignments = narrows_sql::set::parse_with(text, escapes).unwrap_or_default();
    let along = assignments.iter().any(|assignment| sets(assignment, SETS_ANOTHER.0));
    let along = along.then(|| SETS_ANOTHER.1.to_owned());
    assignments.into_iter().filter_map(untold).chain(along).collect()
}

fn was_not_reported(outcome: &Outcome, name: &str) -> Option<PinReason> {
    let reported = outcome.variables.iter().any(|(reported, _)| reported == name);
    (!reported).then_some(PinReason::UNKNOWN_SET)
}

/// Bytes that a user variable may take once more when it becomes NULL: its name again, and these.
const MARKS_OF_NULL: usize = 16;

/// Bytes of the longest name of a schema: 64 letters of four bytes.
const LONGEST_SCHEMA: usize = 256;

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
