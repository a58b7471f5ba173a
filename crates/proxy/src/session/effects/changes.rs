//! Changes of a session's state by a statement.

use std::borrow::Cow;

use crate::state::{SCHEMA_COLLATION, SessionState, UNKNOWN, slot};

/// One change of a session's state, and of the state of its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Change<'a> {
    /// A variable has the value that the server reports.
    Reported {
        name: &'a str,
        value: &'a [u8],
    },
    /// A variable has the value of this literal.
    Literal {
        name: String,
        literal: String,
    },
    /// A variable has its default.
    Default(String),
    UserVariable {
        name: String,
        literal: String,
    },
    /// `SET NAMES`.
    Names(String),
    /// Its `COLLATE`.
    Collation(String),
    /// The schema that the server reports; empty: no schema is selected any more.
    SchemaReported(&'a [u8]),
    /// The schema that was selected, if the server has not reported it.
    Schema(Cow<'a, [u8]>),
    /// Of the connection only: the character set of its schema is unknown.
    UnknownSchemaCollation,
}

impl Change<'_> {
    /// Makes the change in the state of a client, or of a connection.
    pub(in super::super) fn make(&self, state: &mut SessionState) {
        match self {
            Change::Reported { name, value } => state.set_text(name, value),
            Change::Literal { name, literal } => state.set_literal(name, literal),
            Change::Default(name) => state.set_default(name),
            Change::UserVariable { name, literal } => state.set_user_variable(name, literal),
            Change::Names(charset) => state.set_names(charset, None),
            Change::Collation(collation) => state.set_collation(collation),
            Change::SchemaReported(schema) => {
                state.set_default(SCHEMA_COLLATION);
                if schema.is_empty() {
                    // The schema was dropped.
                    state.set_schema_collation_to_that_of_the_server();
                }
                state.schema = Some(*schema).filter(|schema| !schema.is_empty()).map(Into::into);
            }
            Change::Schema(schema) => state.schema = Some(schema.as_ref().into()),
            Change::UnknownSchemaCollation => state.set_literal(SCHEMA_COLLATION, UNKNOWN),
        }
    }

    /// Whether it changes only the connection's state.
    pub(in super::super) fn is_of_the_connection(&self) -> bool {
        matches!(self, Change::UnknownSchemaCollation)
    }

    /// Whether it is about a variable, a user variable or, named `schema`, the schema.
    #[cfg(debug_assertions)]
    pub(in super::super) fn is_about(&self, what: &str) -> bool {
        match self {
            Change::SchemaReported(_) | Change::Schema(_) => what == "schema",
            Change::UserVariable { name, .. } => name == what,
            _ => self.touches(slot(what)),
        }
    }

    /// Whether it may change a variable.
    fn touches(&self, variable: &str) -> bool {
        match self {
            Change::Reported { name, .. } => slot(name) == variable,
            Change::Literal { name, .. } | Change::Default(name) => slot(name) == variable,
            _ => false,
        }
    }
}

/// The state before a statement, and the changes since. The state is copied only if it is read after a change.
pub(super) struct View<'r, 's, 'a> {
    before: &'s SessionState,
    after: Option<Box<SessionState>>,
    changes: &'r mut Vec<Change<'a>>,
    /// How many changes `after` includes.
    made: usize,
}

impl<'r, 's, 'a: 's> View<'r, 's, 'a> {
    /// Changes are added to `changes`, which must be empty.
    pub(super) fn of(before: &'s SessionState, changes: &'r mut Vec<Change<'a>>) -> View<'r, 's, 'a> {
        View { before, after: None, changes, made: 0 }
    }

    pub(super) fn change(&mut self, change: Change<'a>) {
        self.changes.push(change);
    }

    /// The client's current state.
    pub(super) fn state(&mut self) -> &SessionState {
        let fresh = self.changes.get(self.made..).unwrap_or_default();
        if !fresh.is_empty() {
            let after = self.after.get_or_insert_with(|| Box::new(self.before.clone()));
            fresh
                .iter()
                .filter(|change| !change.is_of_the_connection())
                .for_each(|change| change.make(after));
            self.made = self.changes.len();
        }
        self.after.as_deref().unwrap_or(self.before)
    }

    /// The current schema.
    pub(super) fn schema(&self) -> Option<&'s [u8]> {
        let reported = self.changes.iter().rev().find_map(|change| match change {
            Change::SchemaReported(schema) => Some(*schema),
            _ => None,
        });
        match reported {
            Some(schema) => Some(schema).filter(|schema| !schema.is_empty()),
            None => self.before.schema.as_deref(),
        }
    }

    /// Whether a variable is set, to any value.
    pub(super) fn has(&self, variable: &str) -> bool {
        match self.changes.iter().rev().find(|change| change.touches(variable)) {
            Some(change) => !matches!(change, Change::Default(_)),
            None => self.before.literal(variable).is_some(),
        }
    }

    /// Whether `WHERE id IS NULL` asks for `LAST_INSERT_ID()`.
    pub(super) fn null_is_insert_id(&mut self) -> bool {
        match self.changes.iter().any(|change| change.touches("sql_auto_is_null")) {
            true => self.state().null_is_insert_id(),
            false => self.before.null_is_insert_id(),
        }
    }
}
