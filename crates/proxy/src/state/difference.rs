//! What must be done to bring a session from one state to another.

use std::borrow::Cow;

use super::names::{
    CHARSETS, HELD_FOR_CLIENTS, SCHEMA_COLLATION, SETS_ANOTHER, UNKNOWN, UTF8MB4_COLLATION, WRONG_DEFAULTS,
    identifier,
};
use super::{SessionState, Variable, is_short_timeout};

/// What must be sent to a backend connection so that it is in a client's state.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// `COM_INIT_DB` with this schema,
    pub schema: Option<Box<[u8]>>,
    /// and before it and `set` the `SET` of the character sets that the schema's name and the literals of `set` are in.
    pub set_first: Option<String>,
    /// That is the schema which the session has: it may have been dropped, and then stays what it is.
    pub schema_again: bool,
    /// `COM_RESET_CONNECTION` first: the session has user variables that the client does not have. Setting one to
    /// NULL keeps the type of the value before.
    pub reset: bool,
    /// The backend connection has a schema and the client has none: only a new login takes it away.
    pub schema_must_go: bool,
    /// `COM_SET_OPTION` with this.
    pub multi_statements: Option<bool>,
    /// One `SET` statement.
    pub set: Option<String>,
}

impl Difference {
    /// Adds one assignment.
    pub fn assign(&mut self, assignment: &str) {
        assign(&mut self.set, assignment);
    }

    /// Adds one to those that come first.
    fn assign_first(&mut self, assignment: &str) {
        assign(&mut self.set_first, assignment);
    }

    /// This is all that brings a session from `from` to `to`. The literals of a `SET` have the character set of the
    /// connection, and servers do not take one of two or four bytes a letter for most variables: such a connection gets another
    /// one first.
    pub fn make_literals_readable(&mut self, from: &SessionState, to: &SessionState) {
        let has_literals = self.set.as_ref().is_some_and(|set| set.contains('\''));
        if !has_literals || !from.has_wide_literals() {
            return;
        }
        self.assign_first(&format!("{LITERALS}=latin1"));
        if to.has_wide_literals() {
            to.assignment(CONNECTION).into_iter().for_each(|wanted| self.assign(wanted));
        }
    }

    /// Whether nothing need be sent.
    pub fn is_empty(&self) -> bool {
        *self == Difference::default()
    }
}

fn assign(set: &mut Option<String>, assignment: &str) {
    match set {
        None => *set = Some(format!("SET {assignment}")),
        Some(set) => {
            set.push_str(", ");
            set.push_str(assignment);
        }
    }
}

/// The character set of literals, by the two names that its variable has.
const LITERALS: &str = "character_set_connection";
const CONNECTION: &str = "collation_connection";

impl SessionState {
    /// Whether the letters of literals have two or four bytes each.
    fn has_wide_literals(&self) -> bool {
        let charset = self.literal(CONNECTION).map(|literal| literal.trim_matches('\'').to_ascii_lowercase());
        charset.is_some_and(|charset| ["ucs2", "utf16", "utf32"].iter().any(|wide| charset.starts_with(wide)))
    }

    /// What brings a session in state `from` to this state. User variables, and timeouts that are short, count only when
    /// the statement to come reads them.
    pub fn difference(&self, from: &SessionState, user_variables: bool) -> Difference {
        // NULL is only what it is in a variable that has had no value before.
        let can_be_set = |(name, found): &(Box<str>, Box<str>)| {
            let place = self.user_variables.binary_search_by(|(known, _)| known.cmp(name));
            place.is_ok_and(|place| &*self.user_variables[place].1 != "NULL" || &**found == "NULL")
        };
        if user_variables && !from.user_variables.iter().all(can_be_set) {
            return Difference { reset: true, ..self.difference(&from.after_reset(), true) };
        }
        let mut difference = Difference::default();
        let marked = self.charset_of_schema(from).map(|charset| {
            difference.assign_first(&format!("character_set_client={charset}"));
            let mut marked = from.clone();
            marked.set_literal("character_set_client", UNKNOWN);
            marked
        });
        let from = marked.as_ref().unwrap_or(from);
        let charsets_differ = self.results_collation != from.results_collation
            || CHARSETS.iter().any(|slot| self.literal(slot) != from.literal(slot));
        let names = if charsets_differ { self.charsets(from) } else { None };
        names.iter().flatten().for_each(|names| difference.assign(names));
        let schema_changes = self.schema != from.schema;
        let schema_goes_again =
            self.assign_variables(from, user_variables, names.is_some(), schema_changes, &mut difference);
        if self.literal(SETS_ANOTHER.0) != from.literal(SETS_ANOTHER.0) {
            let default = format!("{}=DEFAULT", SETS_ANOTHER.1);
            difference.assign(self.assignment(SETS_ANOTHER.1).unwrap_or(&default));
        }
        if user_variables {
            self.assign_user_variables(from, &mut difference);
        }
        if schema_changes || schema_goes_again {
            difference.schema_must_go = self.schema.is_none() && from.schema.is_some();
            difference.schema = self.schema.clone();
            difference.schema_again = !schema_changes;
        }
        if self.multi_statements != from.multi_statements {
            difference.multi_statements = Some(self.multi_statements);
        }
        difference
    }

    /// The character set in which the name of the schema is sent, if it has to be chosen and the character set of the client before
    /// matters: servers read the name in that. They report names in UTF-8; one that is not is as the client has sent it.
    fn charset_of_schema(&self, from: &SessionState) -> Option<&str> {
        let schema = self.schema.as_deref().filter(|schema| !schema.is_ascii())?;
        let is_chosen =
            self.schema != from.schema || self.literal(SCHEMA_COLLATION) != from.literal(SCHEMA_COLLATION);
        match std::str::from_utf8(schema) {
            _ if !is_chosen => None,
            Ok(_) => Some("utf8mb4"),
            Err(_) => self.literal("character_set_client"),
        }
    }

    /// The system variables that differ. Returns whether the schema must be chosen again, for its collation.
    fn assign_variables(
        &self,
        from: &SessionState,
        user_variables: bool,
        names_charsets: bool,
        schema_changes: bool,
        difference: &mut Difference,
    ) -> bool {
        let mut again = false;
        let is_said = |variable: &Variable| names_charsets && CHARSETS.contains(&&*variable.slot);
        merge(
            &self.variables,
            &from.variables,
            |variable| &*variable.slot,
            |wanted, found| match (wanted, found) {
                _ if !user_variables && (is_short_timeout(wanted) || is_short_timeout(found)) => {}
                (Some(variable), _) | (None, Some(variable))
                    if HELD_FOR_CLIENTS.contains(&&*variable.slot) => {}
                (Some(wanted), _) if is_said(wanted) => {}
                (None, Some(found)) if is_said(found) => {}
                (None, Some(found)) if &*found.slot == SCHEMA_COLLATION && self.schema.is_none() => {
                    // Without a schema it is the server's; DEFAULT would mean that of the schema that was left.
                    difference.assign(&format!("{0}=@@global.{0}", found.name()));
                }
                (None, Some(found)) if &*found.slot == SCHEMA_COLLATION => again = true,
                (Some(wanted), Some(found))
                    if wanted.assignment == found.assignment
                        && (!schema_changes || &*wanted.slot != SCHEMA_COLLATION) => {}
                (Some(wanted), _) => difference.assign(&read_alike(&wanted.assignment)),
                (None, Some(found)) if WRONG_DEFAULTS.contains(&&*found.slot) => {
                    difference.assign(&format!("{0}=@@global.{0}", found.slot));
                }
                // By the name it was set by: the slot's other name may be unknown to the server.
                (None, Some(found)) => difference.assign(&format!("{}=DEFAULT", found.name())),
                (None, None) => {}
            },
        );
        again
    }

    /// The user variables that differ.
    fn assign_user_variables(&self, from: &SessionState, difference: &mut Difference) {
        merge(
            &self.user_variables,
            &from.user_variables,
            |(name, _)| &**name,
            |wanted, found| match (wanted, found) {
                (Some(wanted), Some(found)) if wanted == found => {}
                (Some((name, literal)), _) => difference.assign(&format!("@{}={literal}", identifier(name))),
                (None, _) => {}
            },
        );
    }

    /// What brings a session to the character sets of this state, in order; `None` where that of results is not known.
    /// `NAMES` says more than the three variables: the collation that results are announced in.
    fn charsets(&self, from: &SessionState) -> Option<Vec<String>> {
        let plain = |slot| self.literal(slot).map(|literal| literal.trim_matches('\''));
        let results = plain("character_set_results")?;
        let (client, connection) = (plain("character_set_client"), plain("collation_connection"));
        // `SET NAMES utf8mb4` asks for it when it is parsed, before anything in the same SET has changed it.
        let names_are_anothers = from.variable(UTF8MB4_COLLATION).is_some();
        let mut assignments = Vec::with_capacity(3);
        let (mut client_is, mut connection_is) = (None, None);
        match self.results_collation.as_deref() {
            // `COLLATE binary` is not in the grammar; the set has no other.
            Some(collation) if collation != "binary" => {
                assignments.push(format!("NAMES {results} COLLATE {collation}"));
                (client_is, connection_is) = (Some(results), Some(collation));
            }
            None if client != Some(results) || names_are_anothers => {
                assignments.extend(self.assignment("character_set_results").map(str::to_owned));
            }
            _ => {
                assignments.push(format!("NAMES {results}"));
                (client_is, connection_is) = (Some(results), Some(results));
            }
        }
        for (slot, wanted, is) in
            [("character_set_client", client, client_is), ("collation_connection", connection, connection_is)]
        {
            match self.assignment(slot) {
                _ if is.is_some() && wanted == is => {}
                Some(assignment) => assignments.push(assignment.to_owned()),
                None if is.is_none() && from.variable(slot).is_none() => {}
                None => assignments.push(format!("{slot}=DEFAULT")),
            }
        }
        Some(assignments)
    }
}

/// An assignment that means the same whatever `sql_mode` the session has until then: MariaDB's `EMPTY_STRING_IS_NULL` makes `''` NULL.
fn read_alike(assignment: &str) -> Cow<'_, str> {
    match assignment.strip_suffix("=''") {
        Some(name) => format!("{name}=x''").into(),
        None => assignment.into(),
    }
}

/// Walks two sorted lists side by side.
fn merge<T>(
    left: &[T],
    right: &[T],
    key: impl Fn(&T) -> &str,
    mut visit: impl FnMut(Option<&T>, Option<&T>),
) {
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    loop {
        match (left.peek(), right.peek()) {
            (Some(a), Some(b)) => match key(a).cmp(key(b)) {
                std::cmp::Ordering::Less => visit(left.next(), None),
                std::cmp::Ordering::Equal => visit(left.next(), right.next()),
                std::cmp::Ordering::Greater => visit(None, right.next()),
            },
            (Some(_), None) => visit(left.next(), None),
            (None, Some(_)) => visit(None, right.next()),
            (None, None) => return,
        }
    }
}
