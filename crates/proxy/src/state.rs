//! What a client may have set in its session, as a value.
//!
//! A client has the state it wants, a backend connection the state it is in; [`SessionState::difference`] is what must
//! be sent to get from one to the other. How a client got to its state does not matter.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use narrows_wire::charset::{Collation, Family};

mod written;

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
    /// Whether the server accepts several statements in one `COM_QUERY`.
    pub multi_statements: bool,
    /// The collation of results, if it is not the default one of `character_set_results`: logins and `SET NAMES` set
    /// it, and no variable shows it.
    results_collation: Option<Box<str>>,
    /// Sorted by slot.
    variables: Vec<Variable>,
    /// User variables that were set to literals, by lower-case name, sorted; the value is the literal.
    user_variables: Vec<(Box<str>, Box<str>)>,
}

/// What must be sent to a backend connection so that it is in a client's state.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// `COM_INIT_DB` with this schema.
    pub schema: Option<Box<[u8]>>,
    /// `COM_RESET_CONNECTION` first: the session has user variables that the client does not have. Setting one to NULL
    /// would keep its type.
    pub reset: bool,
    /// The backend connection has a schema and the client has none: only a new login removes it.
    pub schema_must_go: bool,
    /// `COM_SET_OPTION` with this.
    pub multi_statements: Option<bool>,
    /// One `SET` statement.
    pub set: Option<String>,
}

impl Difference {
    /// Adds one assignment.
    pub fn assign(&mut self, assignment: &str) {
        match &mut self.set {
            None => self.set = Some(format!("SET {assignment}")),
            Some(set) => {
                set.push_str(", ");
                set.push_str(assignment);
            }
        }
    }

    /// Whether nothing has to be sent.
    pub fn is_empty(&self) -> bool {
        *self == Difference::default()
    }
}

impl SessionState {
    /// The state right after a login with these character sets.
    pub fn after_login(charset: &str, collation: Option<&str>) -> SessionState {
        let mut state = SessionState::default();
        state.set_names(charset, collation);
        state
    }

    /// What `COM_RESET_CONNECTION` leaves of this state: the schema, and what was set by protocol commands. The
    /// character sets are those of the login or the server's own, depending on the server: not those of any client.
    pub fn after_reset(&self) -> SessionState {
        let mut state = SessionState {
            schema: self.schema.clone(),
            multi_statements: self.multi_statements,
            ..SessionState::default()
        };
        CHARSETS.iter().for_each(|slot| state.set_literal(slot, UNKNOWN));
        if self.schema.is_some() {
            // Servers keep the schema and forget its character set; only selecting it again restores that.
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

    /// The statements that set the character sets of this state, in order; `None` if that of results is not known.
    /// `NAMES` sets more than the three variables: the collation of results.
    fn charsets(&self, from: &SessionState) -> Option<Vec<String>> {
        let plain = |slot| self.literal(slot).map(|literal| literal.trim_matches('\''));
        let results = plain("character_set_results")?;
        let (client, connection) = (plain("character_set_client"), plain("collation_connection"));
        // `SET NAMES utf8mb4` reads it when it is parsed, before anything in the same SET has changed it.
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

    /// Sets a session variable to the value that a server reports for it.
    pub fn set_text(&mut self, name: &str, value: &[u8]) {
        if value.is_empty() && NULLABLE.contains(&name) {
            return self.set_literal(name, "NULL");
        }
        match std::str::from_utf8(value) {
            Ok(number) if is_number(number) => self.set_literal(name, number),
            _ => self.set_literal(name, &quoted(value)),
        }
    }

    /// Whether a variable with this value can be carried to other connections: its name and value are such that every
    /// server reads the assignment as intended, and there is space for it. What a server reports about its session is
    /// written into statements for others, and a compromised server must not inject anything.
    pub fn can_carry(&self, name: &str, value: &[u8]) -> bool {
        let is_charset = CHARSETS.contains(&slot(name)) || name == UTF8MB4_COLLATION;
        is_variable_name(name)
            && (!is_charset || value.is_empty() || is_word(value))
            && self.has_room(name.len() + value.len())
    }

    /// Whether there is space for this many more bytes.
    pub fn has_room(&self, more: usize) -> bool {
        let variables = self.variables.iter().map(|variable| variable.slot.len() + variable.assignment.len());
        let own = self.user_variables.iter().map(|(name, literal)| name.len() + literal.len());
        more <= MOST_BYTES && variables.chain(own).sum::<usize>() + more <= MOST_BYTES
    }

    /// Sets a session variable to a literal as written in SQL.
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

    /// What `SET NAMES utf8mb4` means if the session has chosen that itself (MySQL). No other statement uses it: `SET
    /// character_set_connection` and `SET CHARACTER SET` do not.
    pub fn collation_of_names(&self) -> Option<String> {
        let charset = self.literal("character_set_results")?.trim_matches('\'');
        let collation = self.literal(UTF8MB4_COLLATION)?.trim_matches('\'');
        charset.eq_ignore_ascii_case("utf8mb4").then(|| collation.to_owned())
    }

    /// Gives the schema the server's character set: what remains if the default schema was dropped.
    pub fn set_schema_collation_to_that_of_the_server(&mut self) {
        if let Some((name, literal)) =
            self.assignment("collation_server").and_then(|said| said.split_once('='))
        {
            let (name, literal) = (name.replace("_server", "_database"), literal.to_owned());
            self.set_literal(&name, &literal);
        }
    }

    /// Whether errors are not kept for `SHOW WARNINGS`. Then MySQL does not even count parser errors.
    pub fn keeps_no_errors(&self) -> bool {
        self.literal("max_error_count") == Some("0")
    }

    /// Whether `WHERE id IS NULL` reads `LAST_INSERT_ID()`.
    pub fn null_is_insert_id(&self) -> bool {
        let literal = self.literal("sql_auto_is_null").unwrap_or("0").trim_matches('\'');
        !(literal == "0" || literal.eq_ignore_ascii_case("OFF") || literal.eq_ignore_ascii_case("FALSE"))
    }

    /// Resets a session variable to the server's default.
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

    /// Sets a user variable to a literal. A variable set to NULL differs from one that was never set: it has a type,
    /// that of its earlier value if there was one.
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

    /// A string as read in this state, in a form that means the same in every state; `None` if the state's collation is
    /// not known.
    pub fn text_literal(&self, text: &[u8], family: Family) -> Option<String> {
        let literal = self.literal("collation_connection")?;
        let name = literal.trim_matches('\'');
        let is_of =
            |set: &&str| name.strip_prefix(*set).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
        if OTHER_LETTERS.iter().any(is_of) || !is_word(name.as_bytes()) {
            return None;
        }
        match Collation::by_name(name, family) {
            Some(collation) => {
                let charset = collation.charset;
                // `COLLATE binary` is not in the grammar; the set has no other.
                let collate = match collation.name {
                    "binary" => String::new(),
                    name => format!(" COLLATE {name}"),
                };
                Some(format!("_{charset} {}{collate}", quoted(text)))
            }
            // The slot holds a character set, whose default collation is meant.
            None => Some(format!("_{name} {}", quoted(text))),
        }
    }

    /// The literal that a user variable was set to, by its name as written after the `@`.
    pub fn user_variable(&self, written: &[u8]) -> Option<&str> {
        let name = std::str::from_utf8(written).ok()?.trim_matches(['`', '\'', '"']).to_lowercase();
        let found = self.user_variables.iter().find(|(known, _)| **known == *name);
        found.map(|(_, literal)| &**literal)
    }

    /// Whether any user variable is set.
    pub fn has_user_variables(&self) -> bool {
        !self.user_variables.is_empty()
    }

    /// What brings a session from state `from` to this state. User variables, and short timeouts, only count if the
    /// next statement reads them.
    pub fn difference(&self, from: &SessionState, user_variables: bool) -> Difference {
        // A NULL is only the same in a variable that had no value before.
        let can_be_set = |(name, found): &(Box<str>, Box<str>)| {
            let place = self.user_variables.binary_search_by(|(known, _)| known.cmp(name));
            place.is_ok_and(|place| &*self.user_variables[place].1 != "NULL" || &**found == "NULL")
        };
        if user_variables && !from.user_variables.iter().all(can_be_set) {
            return Difference { reset: true, ..self.difference(&from.after_reset(), true) };
        }
        let mut difference = Difference::default();
        let charsets_differ = self.results_collation != from.results_collation
            || CHARSETS.iter().any(|slot| self.literal(slot) != from.literal(slot));
        let names = if charsets_differ { self.charsets(from) } else { None };
        names.iter().flatten().for_each(|names| difference.assign(names));
        let mut again = false;
        let schema_changes = self.schema != from.schema;
        let is_said = |variable: &Variable| names.is_some() && CHARSETS.contains(&&*variable.slot);
        merge(
            &self.variables,
            &from.variables,
            |variable| &*variable.slot,
            |wanted, found| match (wanted, found) {
                _ if !user_variables && (is_short_timeout(wanted) || is_short_timeout(found)) => {}
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
                (Some(wanted), _) => difference.assign(&wanted.assignment),
                (None, Some(found)) if WRONG_DEFAULTS.contains(&&*found.slot) => {
                    difference.assign(&format!("{0}=@@global.{0}", found.slot));
                }
                // By the name with which it was set: the server may not know the slot's other name.
                (None, Some(found)) => difference.assign(&format!("{}=DEFAULT", found.name())),
                (None, None) => {}
            },
        );
        if self.literal(SETS_ANOTHER.0) != from.literal(SETS_ANOTHER.0) {
            let default = format!("{}=DEFAULT", SETS_ANOTHER.1);
            difference.assign(self.assignment(SETS_ANOTHER.1).unwrap_or(&default));
        }
        if user_variables {
            merge(
                &self.user_variables,
                &from.user_variables,
                |(name, _)| &**name,
                |wanted, found| match (wanted, found) {
                    (Some(wanted), Some(found)) if wanted == found => {}
                    (Some((name, literal)), _) => {
                        difference.assign(&format!("@{}={literal}", identifier(name)))
                    }
                    (None, _) => {}
                },
            );
        }
        if schema_changes || again {
            difference.schema_must_go = self.schema.is_none() && from.schema.is_some();
            difference.schema = self.schema.clone();
        }
        if self.multi_statements != from.multi_statements {
            difference.multi_statements = Some(self.multi_statements);
        }
        difference
    }

    /// This state with the user variables and the short timeouts of `other`: the state of a backend connection after it
    /// was aligned without them.
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

    /// Whether a timeout is so short that a server may end an idle connection because of it.
    pub fn has_short_timeouts(&self) -> bool {
        self.variables.iter().any(|variable| is_short_timeout(Some(variable)))
    }

    /// This state without such timeouts.
    pub fn without_short_timeouts(&self) -> SessionState {
        let mut state = self.clone();
        state.variables.retain(|variable| !is_short_timeout(Some(variable)));
        state
    }

    /// The timeout with that name, if it was set.
    pub fn timeout(&self, name: &str) -> Option<Duration> {
        self.literal(name)?.trim_matches('\'').parse().ok().map(Duration::from_secs)
    }

    /// Hashes what affects the meaning of a statement prepared in this state.
    pub fn hash_for_prepare(&self, hasher: &mut impl Hasher) {
        self.schema.hash(hasher);
        self.variables_for_prepare().for_each(|variable| variable.assignment.hash(hasher));
    }

    /// Hashes what may affect an answer; user variables if the statement may read them.
    pub fn hash_for_answer(&self, hasher: &mut impl Hasher, user_variables: bool) {
        self.schema.hash(hasher);
        self.results_collation.hash(hasher);
        self.variables.iter().for_each(|variable| variable.assignment.hash(hasher));
        if user_variables {
            self.user_variables.hash(hasher);
        }
    }

    /// Whether a statement means the same prepared in this state and in `other`. A statement prepared without a schema
    /// refers to none, and is valid in any.
    pub fn prepares_like(&self, other: &SessionState) -> bool {
        (self.schema.is_none() || self.schema == other.schema)
            && self.variables_for_prepare().eq(other.variables_for_prepare())
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

/// A shared state. Clients and backend connections with equal states eventually share one value, so that comparing them
/// is comparing pointers.
pub type SharedState = Arc<SessionState>;

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

/// Setting the connection's character set sets its collation, and the other way round: one slot for both.
/// Likewise the two names of one variable.
pub fn slot(name: &str) -> &str {
    match name {
        "character_set_connection" => "collation_connection",
        "character_set_server" => "collation_server",
        "character_set_database" => SCHEMA_COLLATION,
        "tx_isolation" => "transaction_isolation",
        "tx_read_only" => "transaction_read_only",
        other => other,
    }
}

/// Follows the schema; only selecting the schema again restores it.
pub const SCHEMA_COLLATION: &str = "collation_database";

/// The value, in the state of a backend connection, of a variable whose value is unknown: no client has this one.
pub const UNKNOWN: &str = "unknown";

/// The default collation of `utf8mb4` (MySQL).
pub const UTF8MB4_COLLATION: &str = "default_collation_for_utf8mb4";

/// Variables for which servers report NULL as an empty value.
pub const NULLABLE: [&str; 3] =
    ["character_set_results", "default_tmp_storage_engine", "enforce_storage_engine"];

/// A variable, and another that servers set along with it, without a report.
pub const SETS_ANOTHER: (&str, &str) = ("max_join_size", "sql_big_selects");

/// Variables that MySQL (9.7) sets to OFF when they are set to DEFAULT, whatever the default.
pub const WRONG_DEFAULTS: [&str; 2] = ["foreign_key_checks", "unique_checks"];

/// The slots that `SET NAMES` fills.
pub const CHARSETS: [&str; 3] = ["character_set_client", "character_set_results", "collation_connection"];

/// Variables that matter when a statement runs, not when it is prepared. For all others the worst is assumed.
const WITHOUT_MEANING: [&str; 17] = [
    "autocommit",
    "character_set_results",
    "foreign_key_checks",
    "innodb_lock_wait_timeout",
    "interactive_timeout",
    "lock_wait_timeout",
    "max_execution_time",
    "max_statement_time",
    "net_read_timeout",
    "net_write_timeout",
    "session_track_schema",
    "session_track_system_variables",
    "timestamp",
    "transaction_isolation",
    "transaction_read_only",
    "unique_checks",
    "wait_timeout",
];

/// How long a server waits for its client. Narrows enforces them for clients, because a connection may serve another
/// client next.
const TIMEOUTS: [&str; 4] = ["interactive_timeout", "net_read_timeout", "net_write_timeout", "wait_timeout"];

/// Seconds from which a timeout does nothing to a connection of the pool, which is used or pinged more often. Longer ones are
/// carried over like any variable: many applications set them, all to the same value.
const SHORT_TIMEOUT_S: u64 = 3_600;

fn is_short_timeout(variable: Option<&Variable>) -> bool {
    let Some(variable) = variable.filter(|variable| TIMEOUTS.contains(&&*variable.slot)) else {
        return false;
    };
    let literal = variable.assignment.split_once('=').map_or("", |(_, literal)| literal).trim_matches('\'');
    literal.parse().is_ok_and(|seconds: u64| seconds < SHORT_TIMEOUT_S)
}

/// Bytes that the variables of a session may take together. They are sent in one statement, which must stay well below what any
/// server takes (`max_allowed_packet`), and each session keeps them.
const MOST_BYTES: usize = 64 << 10;

/// Character sets in which ASCII text has different bytes, or these bytes are different characters.
const OTHER_LETTERS: [&str; 5] = ["ucs2", "utf16", "utf16le", "utf32", "swe7"];

/// Bytes of the longest name of a variable: servers have none beyond 64, and components put theirs in front.
const LONGEST_NAME: usize = 128;

/// Whether a name is that of a session variable, possibly of a component, and cannot be read as anything else.
pub fn is_variable_name(name: &str) -> bool {
    const SCOPES: [&str; 5] = ["global", "local", "persist", "persist_only", "session"];
    let (component, own) = name.split_once('.').unwrap_or(("component", name));
    name.len() <= LONGEST_NAME
        && !SCOPES.contains(&component)
        && [component, own]
            .iter()
            .all(|part| is_word(part.as_bytes()) && !part.starts_with(|first: char| first.is_ascii_digit()))
}

/// Whether a value may appear in SQL without quotes, or within any quotes.
pub fn is_word(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Whether a text is a plain decimal number: digits, possibly with a decimal point.
fn is_number(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= 64 && digits(whole) && digits(fraction)
}

fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A string literal that is read the same with every `sql_mode` and character set: a value with a backslash, or with
/// non-ASCII characters, is written in hexadecimal.
pub fn quoted(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if text.is_ascii() && !text.contains(['\\', '\0']) => {
            format!("'{}'", text.replace('\'', "''"))
        }
        _ => {
            let mut literal = String::from("0x");
            for byte in value {
                literal.push_str(&format!("{byte:02X}"));
            }
            literal
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_states_need_nothing() {
        let state = SessionState::after_login("utf8mb4", None);
        assert!(state.difference(&state.clone(), true).is_empty());
    }

    #[test]
    fn one_set_statement_brings_all_variables() {
        let mut wanted = SessionState::default();
        wanted.set_text("sql_mode", b"ANSI_QUOTES");
        wanted.set_text("max_execution_time", b"100");
        wanted.schema = Some(b"db1".as_slice().into());
        let mut found = SessionState::default();
        found.set_text("time_zone", b"+02:00");
        let difference = wanted.difference(&found, false);
        let set = "SET max_execution_time=100, sql_mode='ANSI_QUOTES', time_zone=DEFAULT";
        assert_eq!(difference.set.as_deref(), Some(set));
        assert_eq!(difference.schema.as_deref(), Some(b"db1".as_slice()));
    }

    #[test]
    fn the_connection_charset_and_its_collation_are_one_thing() {
        let mut wanted = SessionState::after_login("utf8mb4", Some("utf8mb4_bin"));
        let found = SessionState::after_login("utf8mb4", None);
        assert_eq!(
            wanted.difference(&found, false).set.as_deref(),
            Some("SET NAMES utf8mb4 COLLATE utf8mb4_bin")
        );
        wanted.set_names("utf8mb4", None);
        assert!(wanted.difference(&found, false).is_empty());
    }

    #[test]
    fn the_collation_of_results_is_that_of_set_names_alone() {
        let mut wanted = SessionState::after_login("utf8mb4", None);
        wanted.set_text("collation_connection", b"utf8mb4_bin");
        let set = wanted.difference(&SessionState::after_login("latin1", None), false).set;
        assert_eq!(set.as_deref(), Some("SET NAMES utf8mb4, collation_connection='utf8mb4_bin'"));
        wanted.set_names("utf8mb4", Some("utf8mb4_bin"));
        wanted.set_text("character_set_client", b"latin1");
        let set = wanted.difference(&SessionState::after_login("utf8mb4", None), false).set;
        let expected = "SET NAMES utf8mb4 COLLATE utf8mb4_bin, character_set_client='latin1'";
        assert_eq!(set.as_deref(), Some(expected));
    }

    #[test]
    fn what_a_character_set_means_is_not_left_to_the_client_before() {
        let mut found = SessionState::after_login("latin1", None);
        found.set_text("default_collation_for_utf8mb4", b"utf8mb4_general_ci");
        let set = SessionState::after_login("utf8mb4", None).difference(&found, false).set;
        let expected = "SET character_set_results='utf8mb4', character_set_client='utf8mb4', \
                        character_set_connection='utf8mb4', default_collation_for_utf8mb4=DEFAULT";
        assert_eq!(set.as_deref(), Some(expected));
        found.set_text("character_set_results", b"utf8mb4");
        assert_eq!(found.collation_of_names().as_deref(), Some("utf8mb4_general_ci"));
        // MySQL 9.7 only uses it in SET NAMES.
        found.set_text("character_set_connection", b"utf8mb4");
        assert_eq!(found.literal("collation_connection"), Some("'utf8mb4'"));
    }

    #[test]
    fn a_servers_character_set_and_its_collation_are_one_thing() {
        let mut wanted = SessionState::default();
        wanted.set_text("collation_server", b"latin1_german1_ci");
        wanted.set_text("character_set_server", b"latin1");
        let set = wanted.difference(&SessionState::default(), false).set;
        assert_eq!(set.as_deref(), Some("SET character_set_server='latin1'"));
        wanted.set_schema_collation_to_that_of_the_server();
        assert_eq!(wanted.assignment(SCHEMA_COLLATION), Some("character_set_database='latin1'"));
    }

    #[test]
    fn what_servers_set_along_with_another_variable_is_set_behind_it() {
        let (mut wanted, mut found) = (SessionState::default(), SessionState::default());
        wanted.set_text("max_join_size", b"1000");
        for state in [&mut wanted, &mut found] {
            state.set_text("sql_big_selects", b"ON");
        }
        let set = wanted.difference(&found, false).set;
        assert_eq!(set.as_deref(), Some("SET max_join_size=1000, sql_big_selects='ON'"));
        assert_eq!(found.difference(&found.clone(), false).set, None);
    }

    #[test]
    fn checks_are_switched_on_again_where_default_would_switch_them_off() {
        let mut found = SessionState::default();
        found.set_text("foreign_key_checks", b"OFF");
        let set = SessionState::default().difference(&found, false).set;
        assert_eq!(set.as_deref(), Some("SET foreign_key_checks=@@global.foreign_key_checks"));
    }

    #[test]
    fn null_is_not_assigned_to_a_variable_that_had_a_value() {
        let (mut wanted, mut found) = (SessionState::default(), SessionState::default());
        wanted.set_user_variable("b", "NULL");
        assert_eq!(wanted.difference(&found, true).set.as_deref(), Some("SET @`b`=NULL"));
        found.set_user_variable("b", "1.5");
        assert!(wanted.difference(&found, true).reset);
        found = SessionState::default();
        found.set_user_variable("b", "NULL");
        assert!(wanted.difference(&found, true).is_empty());
        wanted.set_user_variable("b", "7");
        assert_eq!(wanted.difference(&found, true).set.as_deref(), Some("SET @`b`=7"));
    }

    #[test]
    fn without_a_schema_its_collation_is_that_of_the_server() {
        let mut found = SessionState::default();
        found.set_text("character_set_database", b"koi8r");
        let difference = SessionState::default().difference(&found, false);
        let set = "SET character_set_database=@@global.character_set_database";
        assert_eq!((difference.set.as_deref(), difference.schema), (Some(set), None));
    }

    #[test]
    fn a_reset_leaves_no_character_set_that_is_known() {
        let found = SessionState::after_login("utf8mb4", None).after_reset();
        assert!(SessionState::after_login("utf8mb4", None).difference(&found, false).set.is_some());
        let set = SessionState::default().difference(&found, false).set;
        assert!(set.is_some_and(|set| set.contains("character_set_results=DEFAULT")));
        let schema: Box<[u8]> = b"one".as_slice().into();
        let state = SessionState { schema: Some(schema.clone()), ..SessionState::default() };
        assert_eq!(state.difference(&state.after_reset(), false).schema, Some(schema));
    }

    #[test]
    fn a_variable_that_becomes_null_keeps_its_type() {
        let mut state = SessionState::default();
        state.set_user_variable("n", "1.50");
        state.set_user_variable("n", "NULL");
        state.set_user_variable("n", "NULL");
        let set = state.difference(&SessionState::default(), true).set;
        assert_eq!(set.as_deref(), Some("SET @`n`=1.50, @`n`=NULL"));
    }

    #[test]
    fn a_new_schema_takes_its_collation_with_it() {
        let state = |schema: &[u8]| {
            let mut state = SessionState { schema: Some(schema.into()), ..SessionState::default() };
            state.set_literal(SCHEMA_COLLATION, "@@global.collation_database");
            state
        };
        let difference = state(b"one").difference(&state(b"two"), false);
        assert_eq!(difference.set.as_deref(), Some("SET collation_database=@@global.collation_database"));
        assert_eq!(state(b"one").difference(&state(b"one"), false), Difference::default());
    }

    #[test]
    fn null_results_charset_is_not_a_string() {
        let mut wanted = SessionState::default();
        wanted.set_text("character_set_results", b"");
        assert_eq!(
            wanted.difference(&SessionState::default(), false).set.as_deref(),
            Some("SET character_set_results=NULL")
        );
    }

    #[test]
    fn user_variables_count_only_when_they_are_read() {
        let mut wanted = SessionState::default();
        wanted.set_user_variable("a", "1");
        let mut found = SessionState::default();
        found.set_user_variable("b", "'x'");
        assert!(wanted.difference(&found, false).is_empty());
        assert!(wanted.difference(&found, true).reset, "b must go");
        assert_eq!(wanted.difference(&SessionState::default(), true).set.as_deref(), Some("SET @`a`=1"));
    }

    #[test]
    fn text_keeps_the_collation_it_was_sent_in() {
        let state = SessionState::after_login("latin1", Some("latin1_bin"));
        let literal = state.text_literal(b"it's", Family::MariaDb).unwrap();
        assert_eq!(literal, "_latin1 'it''s' COLLATE latin1_bin");
        let state = SessionState::after_login("utf8mb4", None);
        assert_eq!(state.text_literal(b"x", Family::MySql).unwrap(), "_utf8mb4 'x'");
        assert_eq!(SessionState::default().text_literal(b"x", Family::MySql), None);
    }

    #[test]
    fn a_schema_can_only_be_left_by_a_new_login() {
        let found = SessionState { schema: Some(b"db1".as_slice().into()), ..SessionState::default() };
        assert!(SessionState::default().difference(&found, false).schema_must_go);
    }

    #[test]
    fn quotes_what_a_server_reports() {
        assert_eq!(quoted(b"it's"), "'it''s'");
        assert_eq!(quoted(b"a\\b"), "0x615C62");
        assert_eq!(quoted("\u{e9}'".as_bytes()), "0xC3A927");
        for (value, literal) in [
            ("12", "12"),
            ("0.5", "0.5"),
            ("1.2.3", "'1.2.3'"),
            (".", "'.'"),
            ("5.", "'5.'"),
            ("", "''"),
            ("1e5", "'1e5'"),
        ] {
            let mut state = SessionState::default();
            state.set_text("a", value.as_bytes());
            assert_eq!(state.literal("a"), Some(literal), "{value}");
        }
    }

    #[test]
    fn carries_only_what_is_a_variable() {
        let state = SessionState::default();
        for (name, value) in [
            ("sql_mode", &b"it's; DROP \\"[..]),
            ("validate_password.policy", b"1"),
            ("collation_connection", b"utf8mb4_bin"),
            ("character_set_results", b""),
        ] {
            assert!(state.can_carry(name, value), "{name}");
        }
        let (long, many) = (format!("a{}", "b".repeat(128)), vec![b'x'; MOST_BYTES]);
        for (name, value) in [
            ("", &b"1"[..]),
            ("a=1, b", b"1"),
            ("a b", b"1"),
            ("`a`", b"1"),
            ("@a", b"1"),
            ("global.general_log", b"1"),
            ("a.b.c", b"1"),
            ("a.", b"1"),
            (".a", b"1"),
            ("1a", b"1"),
            ("caf\u{e9}", b"1"),
            (&long, b"1"),
            ("a", &many),
            ("collation_connection", b"utf8mb4_bin, @@global.general_log=1"),
            ("character_set_client", b"utf8'"),
            ("default_collation_for_utf8mb4", b"a b"),
        ] {
            assert!(!state.can_carry(name, value), "{name}");
        }
        let mut full = SessionState::default();
        for number in 0..64 {
            full.set_user_variable(&format!("v{number}"), &"x".repeat(1_000));
        }
        assert!(!full.has_room(2_000) && full.has_room(100));
    }

    #[test]
    fn ascii_text_is_not_carried_where_it_has_other_bytes() {
        for name in ["utf16_general_ci", "utf16", "ucs2_bin", "utf16le_bin", "utf32_general_ci", "swe7_bin"] {
            let mut state = SessionState::default();
            state.set_text("collation_connection", name.as_bytes());
            for family in [Family::MySql, Family::MariaDb] {
                assert_eq!(state.text_literal(b"abc", family), None, "{name}");
            }
        }
    }
}
