//! The effects of a `SET` that the server does not report, or reports only in part.

use narrows_sql::set::{Assignment, OtherSet, Scope, TransactionScope, Value};
use narrows_sql::{Escapes, Flags, Kind, Statement};
use narrows_wire::Status;

use super::{Change, PinReason, Reading, Reported, may_make_variables};
use crate::backend::Coverage;
use crate::state::{
    CHARSETS, CLOCK, HELD_FOR_CLIENTS, SCHEMA_COLLATION, SETS_ANOTHER, UTF8MB4_COLLATION, WRONG_DEFAULTS,
    is_variable_name, is_word, slot,
};

impl<'s, 'a: 's> Reading<'_, 's, 'a> {
    pub(super) fn read_set(&mut self) {
        let (text, report) = (self.done.text, self.report);
        if narrows_sql::set::may_begin_untold(text) {
            self.pins.add(PinReason::BEYOND_RESET);
        }
        let Ok(assignments) = narrows_sql::set::parse_with(text, self.escapes) else {
            return self.pins.add(PinReason::UNKNOWN_SET);
        };
        // The meaning of a backslash was determined when the statement was prepared.
        let is_unsure = self.done.prepared.is_some() && narrows_sql::has_backslash(text);
        if is_unsure || assignments.len() > MOST_ASSIGNMENTS {
            return self.pins.add(PinReason::UNKNOWN_SET);
        }
        // Expressions are evaluated even if the statement fails later.
        if assignments.iter().any(Assignment::may_assign_by_value) {
            self.pins.add(PinReason::USER_VARIABLE);
        }
        if report.error.is_some() {
            // Some of several assignments may have been made before the one that failed.
            if assignments.len() > 1 {
                self.pins.add(PinReason::UNKNOWN_SET);
            } else if may_make_variables(&self.done.statement) {
                // The user variable is there, without a value, before the value is computed.
                self.pins.doubt();
            }
            return;
        }
        let reported = report.reported.values();
        let changes_charsets = reported.iter().any(|(name, _)| CHARSETS.contains(&slot(name)))
            || assignments.iter().any(sets_charsets);
        if changes_charsets && reported.iter().any(|(name, _)| name == UTF8MB4_COLLATION) {
            // The effect depends on the order of the assignments, which is not reported.
            self.pins.add(PinReason::UNKNOWN_SET);
        }
        for (number, assignment) in assignments.iter().enumerate() {
            let later = assignments.get(number + 1..).unwrap_or_default();
            if let Some(reason) = self.read_assignment(assignment, later, changes_charsets) {
                self.pins.add(reason);
            }
        }
        if self.view.null_is_insert_id() {
            // Only the connection that ran an insert knows whether `WHERE id IS NULL` still finds its row.
            self.pins.add(PinReason::UNKNOWN_SET);
        }
    }

    /// Reads one assignment, which `later` ones follow; returns the reason if it pins.
    fn read_assignment(
        &mut self,
        assignment: &Assignment,
        later: &[Assignment],
        changes_charsets: bool,
    ) -> Option<PinReason> {
        let reported = self.report.reported;
        match assignment {
            // The character set of the text depends on the order of the assignments.
            Assignment::User { value: Value::Text(_), .. } if changes_charsets => {
                Some(PinReason::USER_VARIABLE)
            }
            Assignment::System { scope: Scope::Session, name, value } => {
                self.read_system_variable(name, value, later)
            }
            Assignment::System { .. } | Assignment::Statement { .. } => None,
            Assignment::NextTransaction { .. } => Some(PinReason::NEXT_TRANSACTION),
            Assignment::User { name, value } => self.read_user_variable(name, value),
            // Later assignments may override the parts that are not reported.
            Assignment::Names { .. } if later.iter().any(sets_charsets) => Some(PinReason::UNKNOWN_SET),
            Assignment::Names { charset, collation } => self.read_names(charset, collation.as_ref()),
            // The collation is that of the schema, and the server was asked for it.
            Assignment::CharacterSet(_) => {
                reported.lacks("character_set_client").or_else(|| reported.lacks("collation_connection"))
            }
            Assignment::Transaction { scope, isolation, access_mode } => match scope {
                TransactionScope::Next => Some(PinReason::NEXT_TRANSACTION),
                TransactionScope::Global => None,
                TransactionScope::Session => {
                    let lacks =
                        |name: &str, old: &str| reported.lacks(name).and_then(|_| reported.lacks(old));
                    let level = isolation.and_then(|_| lacks("transaction_isolation", "tx_isolation"));
                    level.or(access_mode.and_then(|_| lacks("transaction_read_only", "tx_read_only")))
                }
            },
            Assignment::Other(OtherSet::Password | OtherSet::DefaultRole) => None,
            Assignment::Other(OtherSet::Role | OtherSet::ResourceGroup) => Some(PinReason::ROLE),
        }
    }

    fn read_system_variable(&mut self, name: &str, value: &Value, later: &[Assignment]) -> Option<PinReason> {
        let reported = self.report.reported;
        if name == "last_insert_id" || name == "identity" {
            let Value::Number(number) = value else { return Some(PinReason::UNKNOWN_SET) };
            *self.insert_id = Some(number.parse().unwrap_or_default());
            return None;
        }
        if name == "profiling" {
            return Some(PinReason::BEYOND_RESET);
        }
        if NOT_STATE.contains(&name) {
            return Some(PinReason::UNKNOWN_SET);
        }
        // MariaDB reports a variable with two names by the one that its session set first.
        if later.iter().any(|later| sets(later, name)) {
            return None;
        }
        if *value == Value::Default {
            return self.read_default(name);
        }
        if name == AUTOCOMMIT
            && !reported.has(name)
            && let Some(status) = self.report.status
        {
            let literal = if status.contains(Status::AUTOCOMMIT) { "1" } else { "0" }.to_owned();
            self.view.change(Change::Literal { name: name.to_owned(), literal });
            return None;
        }
        let is_null = *value == Value::Null && reported.empty().any(|empty| empty == name);
        match value {
            Value::Number(number) if is_running_clock(name, value) => {
                self.view.change(Change::Literal { name: name.to_owned(), literal: number.clone() });
                None
            }
            Value::Null if is_null && self.view.state().can_carry(name, b"") => {
                self.view.change(Change::Literal { name: name.to_owned(), literal: "NULL".to_owned() });
                None
            }
            // Never what is written: it may be relative, or short for something else.
            _ => reported.lacks(name),
        }
    }

    fn read_default(&mut self, name: &str) -> Option<PinReason> {
        if WRONG_DEFAULTS.contains(&name) && self.report.reported.has(name) {
            return None;
        }
        if !is_variable_name(name) {
            return Some(PinReason::UNKNOWN_SET);
        }
        if self.own.is_some_and(|own| own.literal(name).is_some()) {
            // It has the server's value now, and not the one with which sessions begin here.
            return self.report.reported.lacks(name);
        }
        self.view.change(Change::Default(name.to_owned()));
        if slot(name) == SCHEMA_COLLATION && self.view.schema().is_none() {
            // The server uses the character set of the schema that was last selected, by another client.
            self.view.change(Change::UnknownSchemaCollation);
        }
        None
    }

    fn read_user_variable(&mut self, name: &str, value: &Value) -> Option<PinReason> {
        let family = self.family;
        let state = self.view.state();
        let literal = match value {
            Value::Number(number) => Some(number.clone()),
            // MariaDB reads it so while the statement is in that mode, whatever the mode is later.
            Value::Text(text) if text.is_empty() && state.has_mode("EMPTY_STRING_IS_NULL") => {
                Some("NULL".to_owned())
            }
            // The meaning of other texts depends on the character set in which they were sent.
            Value::Text(text) if text.is_ascii() => state.text_literal(text, family),
            Value::Null => Some("NULL".to_owned()),
            _ => None,
        };
        let has_room = |literal: &String| state.has_room(2 * name.len() + literal.len() + MARKS_OF_NULL);
        let Some(literal) = literal.filter(has_room) else { return Some(PinReason::USER_VARIABLE) };
        self.view.change(Change::UserVariable { name: name.to_owned(), literal });
        None
    }

    /// The server reports the three character sets of `SET NAMES`, but not the collation.
    fn read_names(&mut self, charset: &Value, collation: Option<&Value>) -> Option<PinReason> {
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
        if !self.report.reported.has("character_set_client") {
            let Some(charset) = name(charset) else { return Some(PinReason::UNKNOWN_SET) };
            self.view.change(Change::Names(charset));
        }
        if let Some(collation) = collation.or_else(|| self.view.state().collation_of_names()) {
            self.view.change(Change::Collation(collation));
        }
        None
    }
}

/// The reasons for which a `SET` among several statements of a text would pin a session, if the server reports what it
/// changes.
pub(super) fn reasons_in_several(text: &[u8]) -> PinReason {
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
            Assignment::Transaction { scope: TransactionScope::Next, .. }
            | Assignment::NextTransaction { .. } => PinReason::NEXT_TRANSACTION,
            Assignment::Other(OtherSet::Role | OtherSet::ResourceGroup) => PinReason::ROLE,
            _ => PinReason::default(),
        });
    }
    reasons
}

/// Assignments of one `SET` that are remembered individually; a client with more keeps its connection.
const MOST_ASSIGNMENTS: usize = 256;

/// Whether an assignment sets this session variable, possibly by another name or together with others.
fn sets(assignment: &Assignment, name: &str) -> bool {
    match assignment {
        Assignment::System { scope: Scope::Session, name: other, .. } => slot(other) == slot(name),
        Assignment::Names { .. } | Assignment::CharacterSet(_) => CHARSETS.contains(&slot(name)),
        _ => false,
    }
}

fn sets_charsets(assignment: &Assignment) -> bool {
    CHARSETS.iter().any(|slot| sets(assignment, slot))
}

/// What has a character set and a collation of its own.
const HAVE_COLLATIONS: [&str; 3] = ["connection", "database", "server"];

/// What a statement has changed, or may have, and its answer has not reported. The server must be asked.
#[derive(Debug, Default)]
pub(in super::super) struct Untold {
    /// Session variables.
    pub(in super::super) variables: Vec<String>,
    /// The schema.
    pub(in super::super) schema: bool,
}

impl Untold {
    /// Whether anything must be asked.
    pub(in super::super) fn is_any(&self) -> bool {
        self.schema || !self.variables.is_empty()
    }
}

/// What a statement has changed, or may have, and its answer has not reported: variables to which a successful `SET` assigned
/// expressions, and those that it sets without a report; and everything, where the server reports less than that.
pub(in super::super) fn untold(
    statement: &Statement,
    text: &[u8],
    escapes: Escapes,
    (error, reported): (Option<u16>, Reported<'_>),
    coverage: Coverage,
) -> Untold {
    match coverage {
        Coverage::All => {}
        Coverage::AsTheClientLikes if is_one_set(statement) && error.is_none() => {}
        Coverage::AsTheClientLikes if is_one_set(statement) || may_set_untold(statement, text) => {
            let names = HELD_FOR_CLIENTS.into_iter();
            let variables = names.map(str::to_owned).collect();
            return Untold { variables, schema: !is_one_set(statement) };
        }
        Coverage::AsTheClientLikes => return Untold::default(),
        Coverage::Nothing if may_change_schema(statement, text, escapes) => {
            return Untold { variables: Vec::new(), schema: true };
        }
        Coverage::Nothing => {}
    }
    let mut variables = match is_one_set(statement) && error.is_none() {
        true => untold_variables(text, escapes, reported),
        false => Vec::new(),
    };
    variables.extend(perhaps_null(statement, text, escapes, reported));
    for name in perhaps_restored(statement, text, escapes, reported) {
        if !variables.contains(&name) {
            variables.push(name);
        }
    }
    Untold { variables, schema: false }
}

/// The variables that a `SET STATEMENT` sets. The server reports their values in that statement, and not that it has restored them.
/// `None`: it is not understood, and keeps its connection.
pub(super) fn settings_of_one_statement(
    statement: &Statement,
    text: &[u8],
    escapes: Escapes,
) -> Option<Vec<String>> {
    match statement.kind == Kind::SetStatement || statement.flags.intersects(Flags::MULTI) {
        true => narrows_sql::set::settings_of_parts(text, escapes),
        false => Some(Vec::new()),
    }
}

/// The variables that a statement other than a `SET` has reported. What it has set for one of its own statements is reported, too,
/// and not that it is restored: by a `SET STATEMENT` in a stored program, or by MariaDB's `WAIT` and `NOWAIT`, which are two
/// variables set for one statement.
fn perhaps_restored(
    statement: &Statement,
    text: &[u8],
    escapes: Escapes,
    reported: Reported<'_>,
) -> Vec<String> {
    let is_set = |part: &Statement| matches!(part.kind, Kind::Set | Kind::SetTransaction);
    let sets_for_good = || match statement.flags.intersects(Flags::MULTI) {
        true => narrows_sql::parts(text, escapes).all(|(_, part)| is_set(&part)),
        false => is_set(statement),
    };
    if reported.values().is_empty() || sets_for_good() {
        return Vec::new();
    }
    let Some(of_one_statement) = settings_of_one_statement(statement, text, escapes) else {
        return Vec::new();
    };
    let names = reported.values().iter().map(|(name, _)| name);
    let asked = names.filter(|name| {
        let is_believed = [SCHEMA_COLLATION, CLOCK].contains(&slot(name))
            || name.as_str() == AUTOCOMMIT
            || of_one_statement.iter().any(|it| slot(it) == slot(name));
        !is_believed && is_asked(name)
    });
    asked.cloned().collect()
}

/// Whether a reported variable has a value that is asked for, where the report leaves it open.
fn is_asked(name: &str) -> bool {
    !NOT_STATE.contains(&name) && !HELD_FOR_CLIENTS.contains(&name) && is_variable_name(name)
}

fn is_one_set(statement: &Statement) -> bool {
    statement.kind == Kind::Set && !statement.flags.intersects(Flags::MULTI)
}

/// Whether a statement that ran with the reports of its client may have changed the session without any.
pub(super) fn may_set_untold(statement: &Statement, text: &[u8]) -> bool {
    if statement.flags.intersects(Flags::MULTI.union(Flags::FUNCTION_CALL_UNKNOWN)) {
        return true;
    }
    match statement.kind {
        Kind::ShowWarnings | Kind::Set | Kind::SetTransaction => false,
        // What it reads may be a view, which may call a function.
        Kind::Select => statement.may_name_view(text),
        Kind::Show | Kind::Explain => statement.flags.intersects(Flags::FROM),
        _ => true,
    }
}

/// Whether the schema may be another one after a statement that a server without reports has run, and its text does not tell
/// which.
fn may_change_schema(statement: &Statement, text: &[u8], escapes: Escapes) -> bool {
    if statement.flags.intersects(Flags::MULTI) {
        let is_use = |part: &Statement| part.kind == Kind::Use;
        return narrows_sql::parts(text, escapes)
            .any(|(text, part)| is_use(&part) || may_change_schema(&part, text, escapes));
    }
    match statement.kind {
        Kind::SetStatement | Kind::Execute => true,
        Kind::Drop => narrows_sql::names_any(text, &["database", "schema"]),
        Kind::Use => narrows_sql::use_schema(text).is_none(),
        _ => false,
    }
}

/// What a `SET` assigns without a report: on MariaDB what it names as `@@name`, without a scope, and everywhere what a server
/// reports nothing of.
fn untold_variables(text: &[u8], escapes: Escapes, reported: Reported<'_>) -> Vec<String> {
    let mut untold = Vec::new();
    let assignments = narrows_sql::set::parse_with(text, escapes).unwrap_or_default();
    let along = assignments.iter().any(|assignment| sets(assignment, SETS_ANOTHER.0));
    for assignment in assignments.into_iter().take(MOST_ASSIGNMENTS) {
        match assignment {
            Assignment::System { scope: Scope::Session, name, value } => {
                // The number of a collation, of which MySQL reports the character set alone.
                let of = name.strip_prefix("character_set_").filter(|of| HAVE_COLLATIONS.contains(of));
                let collation =
                    of.filter(|_| matches!(value, Value::Number(_))).map(|of| format!("collation_{of}"));
                untold.extend(collation.filter(|collation| !reported.has(collation)));
                let is_known = NOT_STATE.contains(&name.as_str()) || reported.has(&name);
                let is_shown = name == AUTOCOMMIT || is_running_clock(&name, &value);
                if !is_known && is_variable_name(&name) && !is_shown {
                    untold.push(name);
                }
            }
            Assignment::CharacterSet(_) => untold.push("collation_connection".to_owned()),
            _ => {}
        }
    }
    untold.extend(along.then(|| SETS_ANOTHER.1.to_owned()));
    untold
}

/// The status flags of each answer show it.
const AUTOCOMMIT: &str = "autocommit";

/// Whether an assignment lets the clock run: what the server shows then is the time.
fn is_running_clock(name: &str, value: &Value) -> bool {
    name == CLOCK
        && matches!(value, Value::Number(number) if number.bytes().all(|byte| matches!(byte, b'0' | b'.')))
}

/// The variables that are reported as empty, where the text does not show whether that is NULL.
fn perhaps_null(statement: &Statement, text: &[u8], escapes: Escapes, reported: Reported<'_>) -> Vec<String> {
    let mut names: Vec<String> = reported.empty().map(str::to_owned).collect();
    if names.is_empty() {
        return names;
    }
    if is_one_set(statement) {
        let assignments = narrows_sql::set::parse_with(text, escapes).unwrap_or_default();
        names.retain(|name| {
            let set = assignments.iter().rev().find(|assignment| sets(assignment, name));
            let says = |value: &Value| match value {
                Value::Text(text) => text.is_empty(),
                Value::Null => true,
                _ => false,
            };
            !matches!(set, Some(Assignment::System { value, .. }) if says(value))
        });
    }
    names.retain(|name| is_asked(name));
    names
}

/// A user variable that becomes NULL may take its name again, and this many more bytes.
const MARKS_OF_NULL: usize = 16;

/// Variables that are not part of a session's state: they cannot be set, or their effect ends with the next statement, or
/// cannot be undone, or is one on the server (`sql_slave_skip_counter`).
pub(in super::super) const NOT_STATE: &[&str] = &[
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
    "max_relay_log_size",
    "optimizer_trace",
    "optimizer_trace_features",
    "optimizer_trace_limit",
    "optimizer_trace_max_mem_size",
    "optimizer_trace_offset",
    "original_commit_timestamp",
    "original_server_version",
    "profiling",
    "profiling_history_size",
    "proxy_user",
    "pseudo_replica_mode",
    "pseudo_slave_mode",
    "pseudo_thread_id",
    "rand_seed1",
    "rand_seed2",
    "server_id",
    "skip_replication",
    "sql_slave_skip_counter",
    "statement_id",
    // Text that means another moment in another time zone.
    "system_versioning_asof",
    "warning_count",
];
