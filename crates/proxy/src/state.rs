//! What a client may have set in its session, as a value.
//!
//! A client has the state it wants, a backend connection the state it is in; [`SessionState::difference`] is what
//! must be sent to get from one to the other. The history of how a client came to its state plays no part.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use narrows_wire::charset::{Collation, Family};

mod difference;
mod names;
mod written;

pub use difference::Difference;
pub use names::{
    CHARSETS, CLOCK, HELD_FOR_CLIENTS, SCHEMA_COLLATION, SETS_ANOTHER, SQL_MODE_WITH_IGNORE_SPACE,
    TRACKED_VARIABLES, TRACKS_SCHEMA, TRACKS_STATE, TRACKS_TRANSACTIONS, UNKNOWN, UTF8MB4_COLLATION,
    WRONG_DEFAULTS, are_one, is_variable_name, is_word, quoted, slot, whole_of,
};
use names::{EVALUATED_BY_PROGRAMS, OTHER_LETTERS, TIMEOUTS, WITHOUT_MEANING, identifier, is_number};

/// One session variable that differs from the server's default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Lower-case name; the connection's charset and collation share the slot `collation_connection`.
    slot: Box<str>,
    /// The assignment that sets it, ready for `SET`: `sql_mode='ANSI'`.
    assignment: Box<str>,
}

impl Variable {
    fn name(&self) -> &str {
        self.assignment.split_once('=').map_or(&*self.slot, |(name, _)| name)
    }
}

/// The state of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionState {
    /// Current schema; `None`: none selected.
    pub schema: Option<Box<[u8]>>,
    /// Whether the server takes several statements in one `COM_QUERY`.
    pub multi_statements: bool,
    /// The collation that results are announced in, where it is not the default one of `character_set_results`: logins
    /// and `SET NAMES` set it, and no variable shows it.
    results_collation: Option<Box<str>>,
    /// Sorted by slot.
    variables: Vec<Variable>,
    /// User variables that were set to literals, by lower-case name, sorted; the value is the literal.
    user_variables: Vec<(Box<str>, Box<str>)>,
}

impl SessionState {
    /// The state right after a login with these character sets.
    pub fn after_login(charset: &str, collation: Option<&str>) -> SessionState {
        let mut state = SessionState::default();
        state.set_names(charset, collation);
        state
    }

    /// What is left of this state by `COM_RESET_CONNECTION`: the schema, and what was set by commands of the protocol.
    /// The character sets are those of the login or the server's own, as the server likes: not those of any client.
    pub fn after_reset(&self) -> SessionState {
        let mut state = SessionState {
            schema: self.schema.clone(),
            multi_statements: self.multi_statements,
            ..SessionState::default()
        };
        CHARSETS.iter().for_each(|slot| state.set_literal(slot, UNKNOWN));
        if self.schema.is_some() {
            // Servers keep the schema and forget its character set; only choosing it again brings that back.
            state.set_literal(SCHEMA_COLLATION, UNKNOWN);
        }
        state
    }

    /// `SET NAMES charset [COLLATE collation]`.
    pub fn set_names(&mut self, charset: &str, collation: Option<&str>) {
        self.set_text("character_set_client", charset.as_bytes());
        self.set_text("character_set_results", charset.as_bytes());
        match collation {
            Some(collation) => self.set_collation(collation),
            None => self.set_text("character_set_connection", charset.as_bytes()),
        }
    }

    /// The `COLLATE` of `SET NAMES`.
    pub fn set_collation(&mut self, collation: &str) {
        self.set_text("collation_connection", collation.as_bytes());
        self.results_collation = Some(collation.into());
    }

    /// Sets a session variable to the value that a server reports for it, which is not NULL: reports do not tell that from an
    /// empty text.
    pub fn set_text(&mut self, name: &str, value: &[u8]) {
        match std::str::from_utf8(value) {
            Ok(number) if is_number(number) => self.set_literal(name, number),
            _ => self.set_literal(name, &quoted(value)),
        }
    }

    /// Whether a variable with this value can be carried to other connections: its name and its value are such that no server
    /// reads anything else in the assignment, and there is room for it. What a server says of its own session is written into
    /// statements for others, and one that has been taken over must not speak through us.
    pub fn can_carry(&self, name: &str, value: &[u8]) -> bool {
        let is_charset = CHARSETS.contains(&slot(name)) || name == UTF8MB4_COLLATION;
        is_variable_name(name)
            && whole_of(name).is_none()
            && (!is_charset || value.is_empty() || is_word(value))
            && self.has_room(name.len() + value.len())
    }

    /// Whether there is room for so many bytes more.
    pub fn has_room(&self, more: usize) -> bool {
        let variables = self.variables.iter().map(|variable| variable.slot.len() + variable.assignment.len());
        let own = self.user_variables.iter().map(|(name, literal)| name.len() + literal.len());
        more <= MOST_BYTES && variables.chain(own).sum::<usize>() + more <= MOST_BYTES
    }

    /// Sets a session variable to a literal as it stands in SQL.
    pub fn set_literal(&mut self, name: &str, literal: &str) {
        let slot = slot(name);
        if name == "character_set_results" {
            self.results_collation = None;
        }
        let assignment = format!("{name}={literal}").into_boxed_str();
        match self.variables.binary_search_by(|variable| (*variable.slot).cmp(slot)) {
            Ok(found) => self.variables[found].assignment = assignment,
            Err(place) => self.variables.insert(place, Variable { slot: slot.into(), assignment }),
        }
    }

    /// The session variables that differ from the server's defaults, with their values as literals of SQL.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().filter_map(|variable| variable.assignment.split_once('='))
    }

    /// What `SET NAMES utf8mb4` means where the session has chosen that itself (MySQL). No other statement asks for it:
    /// `SET character_set_connection` and `SET CHARACTER SET` do not.
    pub fn collation_of_names(&self) -> Option<String> {
        let charset = self.literal("character_set_results")?.trim_matches('\'');
        let collation = self.literal(UTF8MB4_COLLATION)?.trim_matches('\'');
        charset.eq_ignore_ascii_case("utf8mb4").then(|| collation.to_owned())
    }

    /// Gives the schema the server's character set: what is left where the current one was dropped.
    pub fn set_schema_collation_to_that_of_the_server(&mut self) {
        if let Some((name, literal)) =
            self.assignment("collation_server").and_then(|said| said.split_once('='))
        {
            let (name, literal) = (name.replace("_server", "_database"), literal.to_owned());
            self.set_literal(&name, &literal);
        }
    }

    /// Whether errors are not kept for `SHOW WARNINGS`. MySQL does not even count those of its parser then.
    pub fn keeps_no_errors(&self) -> bool {
        self.literal("max_error_count") == Some("0")
    }

    /// Whether `WHERE id IS NULL` asks for `LAST_INSERT_ID()`.
    pub fn null_is_insert_id(&self) -> bool {
        let literal = self.literal("sql_auto_is_null").unwrap_or("0").trim_matches('\'');
        !(literal == "0" || literal.eq_ignore_ascii_case("OFF") || literal.eq_ignore_ascii_case("FALSE"))
    }

    /// Puts a session variable back to the server's default.
    pub fn set_default(&mut self, name: &str) {
        let slot = slot(name);
        if name == "character_set_results" {
            self.results_collation = None;
        }
        self.variables.retain(|variable| &*variable.slot != slot);
    }

    /// The literal a session variable is set to; `None`: the server's default.
    pub fn literal(&self, name: &str) -> Option<&str> {
        self.variable(name)?.assignment.split_once('=').map(|(_, literal)| literal)
    }

    fn assignment(&self, name: &str) -> Option<&str> {
        self.variable(name).map(|variable| &*variable.assignment)
    }

    fn variable(&self, name: &str) -> Option<&Variable> {
        let found = self.variables.binary_search_by(|variable| (*variable.slot).cmp(slot(name))).ok()?;
        Some(&self.variables[found])
    }

    /// Sets a user variable to a literal. One that was set to NULL is not one that was never set: it has a type, and
    /// one that had a value before has that value's.
    pub fn set_user_variable(&mut self, name: &str, literal: &str) {
        let before = self.user_variables.iter().find(|(known, _)| **known == *name);
        let literal = match before {
            Some((_, before)) if literal == "NULL" && before.ends_with("NULL") => return,
            Some((_, before)) if literal == "NULL" => &format!("{before}, @{}=NULL", identifier(name)),
            _ => literal,
        };
        match self.user_variables.binary_search_by(|(known, _)| (**known).cmp(name)) {
            Ok(found) => self.user_variables[found].1 = literal.into(),
            Err(place) => self.user_variables.insert(place, (name.into(), literal.into())),
        }
    }

    /// Whether the session has set this SQL mode.
    pub fn has_mode(&self, mode: &str) -> bool {
        let modes = self.literal("sql_mode").unwrap_or_default().trim_matches('\'');
        modes.split(',').any(|it| it.eq_ignore_ascii_case(mode))
    }

    /// A string as this state reads it, in a form that means the same in every state; `None` when the state's
    /// collation is not known.
    pub fn text_literal(&self, text: &[u8], family: Family) -> Option<String> {
        let literal = self.literal("collation_connection")?;
        let name = literal.trim_matches('\'');
        let is_of =
            |set: &&str| name.strip_prefix(*set).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
        if OTHER_LETTERS.iter().any(is_of) || !is_word(name.as_bytes()) {
            return None;
        }
        let text = match text.is_empty() {
            // `''` is NULL under MariaDB's `EMPTY_STRING_IS_NULL`.
            true => "x''".to_owned(),
            false => quoted(text),
        };
        match Collation::by_name(name, family) {
            Some(collation) => {
                let charset = collation.charset;
                // `COLLATE binary` is not in the grammar; the set has no other.
                let collate = match collation.name {
                    "binary" => String::new(),
                    name => format!(" COLLATE {name}"),
                };
                Some(format!("_{charset} {text}{collate}"))
            }
            // The slot holds a character set, whose default collation is meant.
            None => Some(format!("_{name} {text}")),
        }
    }

    /// The literal that a user variable was set to, by its name as it is written after the `@`.
    pub fn user_variable(&self, written: &[u8]) -> Option<&str> {
        let name = std::str::from_utf8(written).ok()?.trim_matches(['`', '\'', '"']).to_lowercase();
        let found = self.user_variables.iter().find(|(known, _)| **known == *name);
        found.map(|(_, literal)| &**literal)
    }

    /// This state with the variables of `base` where it has none: what a session is in that began with those.
    pub fn over(&self, base: &SessionState) -> SessionState {
        let mut state = self.clone();
        for variable in &base.variables {
            if let Err(place) = state.variables.binary_search_by(|other| other.slot.cmp(&variable.slot)) {
                state.variables.insert(place, variable.clone());
            }
        }
        state
    }

    /// The same without a schema.
    pub fn without_schema(&self) -> SessionState {
        SessionState { schema: None, ..self.clone() }
    }

    /// Whether it has any session variable.
    pub fn has_variables(&self) -> bool {
        !self.variables.is_empty()
    }

    /// The user variables, by lower-case name, with their literals.
    pub fn user_variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.user_variables.iter().map(|(name, literal)| (&**name, &**literal))
    }

    /// Whether any user variable is set.
    pub fn has_user_variables(&self) -> bool {
        !self.user_variables.is_empty()
    }

    /// Whether a stored program that a session has first run in the state `first` means in it what it would mean in one that first
    /// runs it in this state. MySQL resolves a program once for a session, with the types of the session's user variables, and
    /// some of what its variables say.
    pub fn resolves_programs_like(&self, first: &SessionState) -> bool {
        // Variables that are not set are NULL, whatever their types are believed to be.
        let are_typed = self.user_variables.is_empty()
            || self.user_variables == first.user_variables
            || self.user_variable_types().eq(first.user_variable_types());
        are_typed && self.variables_for_programs().eq(first.variables_for_programs())
    }

    fn variables_for_programs(&self) -> impl Iterator<Item = &Variable> {
        self.variables_for_prepare().filter(|variable| !EVALUATED_BY_PROGRAMS.contains(&&*variable.slot))
    }

    /// This state with the user variables and the short timeouts of `other`: what a backend connection is in after it was
    /// aligned without them.
    pub fn with_user_variables_of(&self, other: &SessionState) -> SessionState {
        let mut state = SessionState { user_variables: other.user_variables.clone(), ..self.clone() };
        for name in TIMEOUTS {
            if is_short_timeout(self.variable(name)) || is_short_timeout(other.variable(name)) {
                match other.literal(name) {
                    Some(literal) => state.set_literal(name, literal),
                    None => state.set_default(name),
                }
            }
        }
        state
    }

    /// Whether a timeout is set so short that a server may end a connection by it that nobody uses at the moment.
    pub fn has_short_timeouts(&self) -> bool {
        self.variables.iter().any(|variable| is_short_timeout(Some(variable)))
    }

    /// This state without such timeouts.
    pub fn without_short_timeouts(&self) -> SessionState {
        let mut state = self.clone();
        state.variables.retain(|variable| !is_short_timeout(Some(variable)));
        state
    }

    /// The timeout of that name, where it was set.
    pub fn timeout(&self, name: &str) -> Option<Duration> {
        self.literal(name)?.trim_matches('\'').parse().ok().map(Duration::from_secs)
    }

    /// Hashes what changes the meaning of a statement that is prepared in this state.
    pub fn hash_for_prepare(&self, hasher: &mut impl Hasher) {
        self.schema.hash(hasher);
        self.variables_for_prepare().for_each(|variable| variable.assignment.hash(hasher));
        // MySQL keeps the types that user variables have at that moment, whatever they have later.
        self.user_variable_types().for_each(|it| it.hash(hasher));
    }

    fn user_variable_types(&self) -> impl Iterator<Item = (&str, Type)> {
        self.user_variables().map(|(name, literal)| (name, Type::of(literal)))
    }

    /// Hashes what may change an answer; user variables where the statement may read them.
    pub fn hash_for_answer(&self, hasher: &mut impl Hasher, user_variables: bool) {
        self.schema.hash(hasher);
        self.results_collation.hash(hasher);
        self.variables.iter().for_each(|variable| variable.assignment.hash(hasher));
        if user_variables {
            self.user_variables.hash(hasher);
        }
    }

    /// Whether a statement means the same prepared in this state and in `other`. One that was prepared without a
    /// schema names none, and is at home in any.
    pub fn prepares_like(&self, other: &SessionState) -> bool {
        (self.schema.is_none() || self.schema == other.schema) && self.has_settings_of(other)
    }

    /// Whether a statement that is prepared in this state means what it means prepared in `other`, in the same schema.
    pub fn has_settings_of(&self, other: &SessionState) -> bool {
        std::ptr::eq(self, other) || self.variables_for_prepare().eq(other.variables_for_prepare())
    }

    fn variables_for_prepare(&self) -> impl Iterator<Item = &Variable> {
        self.variables.iter().filter(|variable| !WITHOUT_MEANING.contains(&&*variable.slot))
    }

    /// Whether both have the same user variables, and the same short timeouts.
    pub fn same_user_variables(&self, other: &SessionState) -> bool {
        let differ = |name: &&str| {
            self.literal(name) != other.literal(name)
                && (is_short_timeout(self.variable(name)) || is_short_timeout(other.variable(name)))
        };
        self.user_variables == other.user_variables && !TIMEOUTS.iter().any(differ)
    }
}

/// A shared state. Clients and backend connections whose states are equal come to share one value, so that
/// comparing them is comparing pointers.
pub type SharedState = Arc<SessionState>;

/// The type that a user variable has of its literal.
#[derive(PartialEq, Eq, Hash)]
enum Type {
    Integer {
        is_long: bool,
    },
    Decimal,
    Float,
    /// What its value begins and ends with: the character set, and the collation unless that is the default one.
    Text(Box<str>, Box<str>),
    /// It has had no other value.
    Null,
}

impl Type {
    fn of(literal: &str) -> Type {
        if let Some((charset, text)) = literal.strip_prefix('_').and_then(|rest| rest.split_once(' ')) {
            let end = text.rsplit_once(" COLLATE ").map_or("", |(_, end)| end);
            return Type::Text(charset.into(), end.into());
        }
        // The value before NULL was assigned: the type stays.
        let number = literal.split_once(',').map_or(literal, |(number, _)| number);
        if number == "NULL" {
            Type::Null
        } else if number.contains(['e', 'E']) {
            Type::Float
        } else if number.contains('.') {
            Type::Decimal
        } else {
            // From this length on it may be unsigned.
            Type::Integer { is_long: number.len() >= 19 }
        }
    }
}

fn is_short_timeout(variable: Option<&Variable>) -> bool {
    let Some(variable) = variable.filter(|variable| TIMEOUTS.contains(&&*variable.slot)) else {
        return false;
    };
    let literal = variable.assignment.split_once('=').map_or("", |(_, literal)| literal).trim_matches('\'');
    literal.parse().is_ok_and(|seconds: u64| seconds < SHORT_TIMEOUT_S)
}

/// Seconds from which a timeout does nothing to a connection of the pool, which is used or pinged more often. Longer ones are
/// carried over like any variable: many applications set them, all to the same value.
const SHORT_TIMEOUT_S: u64 = 3_600;

/// Bytes that the variables of a session may take together. They are sent in one statement, which must stay well below what any
/// server takes (`max_allowed_packet`), and each session keeps them.
const MOST_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests;
