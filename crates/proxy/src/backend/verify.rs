//! Asks the server for the real session of a connection and compares it with what is known of it. What Narrows knows
//! comes from texts that it reads and from reports of servers; this finds out where either has missed something.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use narrows_wire::Reader;
use narrows_wire::charset::Family;

use super::diagnostics::one_row;
use super::{Answer, Backend, BackendError, Base, InsertIdBefore, Login, ResultSet};
use crate::buffer::Buffer;
use crate::rt::timeout;
use crate::state::{
    CHARSETS, HELD_FOR_CLIENTS, SCHEMA_COLLATION, SQL_MODE_WITH_IGNORE_SPACE, SessionState, UNKNOWN, slot,
    whole_of,
};

/// Something that the server's session has otherwise than was known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The variable, or the name of what else a session has.
    pub variable: String,
    /// What was known.
    pub believed: String,
    /// What the server says.
    pub found: String,
}

/// Who has used a connection last, and what has run on it.
#[derive(Debug, Default)]
pub struct LeaseTrace {
    client: u32,
    lease: u64,
    texts: VecDeque<Box<str>>,
}

impl LeaseTrace {
    /// The client `client` uses the connection, in its lease number `lease`. Returns whether another one has used it before.
    pub fn changes_client(&mut self, client: u32, lease: u64) -> bool {
        // Leases that are not recorded are those of others: mirrors, and checks of schemas.
        let is_same = self.client == client && self.lease + 1 == lease;
        (self.client, self.lease) = (client, lease);
        !is_same && lease > 1
    }

    /// A statement with this digest text runs.
    pub fn note(&mut self, digest_text: &[u8]) {
        if self.texts.len() == REMEMBERED {
            self.texts.pop_front();
        }
        let text = digest_text.get(..LONGEST_TEXT).unwrap_or(digest_text);
        self.texts.push_back(String::from_utf8_lossy(text).into());
    }

    /// The last statements, the oldest first.
    pub fn texts(&self) -> String {
        let texts: Vec<&str> = self.texts.iter().map(|text| &**text).collect();
        texts.join("; ")
    }
}

/// How many statements of a connection are remembered, and how much of each: enough to find the one that was misread.
const REMEMBERED: usize = 8;
const LONGEST_TEXT: usize = 160;

impl Backend {
    /// Asks the server for the session's real state, in one round trip, and compares it with what is known. Nothing may run in the
    /// session, and no diagnostics may be left on it that anybody may read. `None`: the server refuses to answer.
    ///
    /// # Errors
    /// If the connection is lost.
    pub async fn verify(&mut self, limit: Duration) -> Result<Option<Vec<Mismatch>>, BackendError> {
        let login = &self.login;
        let base = login.base.clone().unwrap_or_default();
        let asked = Asked::of(login, &base);
        let user_variables = base.user_variables.is_some().then(|| USER_VARIABLES[self.family_index()]);
        let mut out = Vec::with_capacity(8 << 10);
        self.put_query(&mut out, &asked.question);
        if let Some(question) = user_variables {
            self.put_query(&mut out, question);
        }
        super::align::put_ping(&mut out);
        let ask = async {
            self.stream.write_all(&out).await?;
            let mut buffer = Buffer::default();
            let told = self.told_or_refused(&mut buffer).await?;
            let variables = match user_variables {
                Some(_) => self.told_or_refused(&mut buffer).await?,
                None => None,
            };
            Ok((told, variables, self.answer(&mut buffer).await?))
        };
        let answers: Result<_, BackendError> =
            timeout(limit, ask).await.unwrap_or(Err(BackendError::Timeout));
        let (told, user_variables, pong) = answers?;
        let Some(told) = told else { return Ok(None) };
        let cells = cells(&told)?;
        let mut differences = compare(&self.login, &base, &asked, &cells);
        if let Some(names) = user_variables {
            let mut found = Vec::new();
            for row in &names.rows {
                found.push(String::from_utf8_lossy(Reader::new(row).lenenc_bytes()?).to_lowercase());
            }
            differences.extend(compare_user_variables(&self.login.state, &base, found));
        }
        if let Answer::Ok(status) = pong
            && status.contains(narrows_wire::Status::IN_TRANS)
        {
            differences.push(Mismatch::of("transaction", "none", "open"));
        }
        Ok(Some(differences))
    }

    /// The answer to a question; `None`: the server refuses it.
    async fn told_or_refused(&self, buffer: &mut Buffer) -> Result<Option<ResultSet>, BackendError> {
        match self.bounded_result_set(buffer, &super::ask::LONGEST_OF_CHECK).await {
            Ok(set) => Ok(Some(set)),
            Err(BackendError::Server(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Mismatch {
    fn of(variable: &str, believed: &str, found: &str) -> Mismatch {
        Mismatch { variable: variable.to_owned(), believed: shortened(believed), found: shortened(found) }
    }
}

/// A value for logs, which may be long.
fn shortened(value: &str) -> String {
    match value.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{}...", value.get(..end).unwrap_or_default()),
        None => value.to_owned(),
    }
}

/// Characters of a value that a log shows.
const LONGEST_VALUE: usize = 120;

/// One question about a session, and what its columns are.
struct Asked {
    question: String,
    columns: Vec<Column>,
}

/// A column of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Column {
    Schema,
    InsertId,
    Role,
    UserLocks,
    MetadataLocks,
    /// Whether the clock runs.
    Clock,
    /// Whether the schema's collation is the one that the session has.
    SchemaCollation,
    Variable(String),
}

impl Asked {
    fn of(login: &Login, base: &Base) -> Asked {
        let state = &login.state;
        let mut columns = vec![Column::Schema, Column::InsertId];
        columns.extend(base.role.is_some().then_some(Column::Role));
        columns.extend(base.tells_user_locks.then_some(Column::UserLocks));
        columns.extend(base.tells_metadata_locks.then_some(Column::MetadataLocks));
        if state.literal("timestamp").is_none() {
            columns.push(Column::Clock);
        }
        // On MySQL the question opens a transaction if autocommit is off.
        let may_ask_schemas = login.family == Family::MariaDb || commits_by_itself(state, base);
        if state.schema.is_some() && state.literal(SCHEMA_COLLATION).is_none() && may_ask_schemas {
            columns.push(Column::SchemaCollation);
        }
        let mut names: Vec<String> = base.variables().map(|(name, _)| name.to_owned()).collect();
        names.extend(state.variables().map(|(name, _)| name.to_owned()));
        names.sort_unstable();
        names.dedup();
        names.retain(|name| !NOT_COMPARED.contains(&name.as_str()) && !name.contains('.'));
        columns.extend(names.into_iter().map(Column::Variable));
        let parts: Vec<String> = columns.iter().map(|column| column.expression()).collect();
        Asked { question: one_row(&parts.join(", ")), columns }
    }
}

impl Column {
    /// A binary string is not converted to the session's character set.
    fn expression(&self) -> String {
        match self {
            Column::Schema => "CAST(DATABASE() AS BINARY)".to_owned(),
            Column::InsertId => "LAST_INSERT_ID()".to_owned(),
            Column::Role => "CAST(CURRENT_ROLE() AS BINARY)".to_owned(),
            // It counts them. Whatever it releases was to be released, and the connection is closed.
            Column::UserLocks => "RELEASE_ALL_LOCKS()".to_owned(),
            Column::MetadataLocks => METADATA_LOCKS.to_owned(),
            Column::Clock => "ABS(@@SESSION.timestamp - UNIX_TIMESTAMP(SYSDATE(6))) < 100".to_owned(),
            Column::SchemaCollation => "(SELECT CAST(DEFAULT_COLLATION_NAME AS BINARY) = \
CAST(@@SESSION.collation_database AS BINARY) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = DATABASE())"
                .to_owned(),
            Column::Variable(name) => format!("CAST(@@SESSION.{name} AS BINARY)"),
        }
    }
}

/// Whether each statement of a session is committed.
fn commits_by_itself(state: &SessionState, base: &Base) -> bool {
    let own = state.literal("autocommit").map(plain);
    let of_base = || base.variables().find(|(name, _)| *name == "autocommit").map(|(_, value)| plain(value));
    own.or_else(of_base).is_some_and(|value| value == "1")
}

/// What differs between what is known of a session and what the server has told.
fn compare(login: &Login, base: &Base, asked: &Asked, cells: &[Option<String>]) -> Vec<Mismatch> {
    let state = &login.state;
    let mut differences = Vec::new();
    let mut expect = |variable: &str, believed: &str, found: &str| {
        if believed != found {
            differences.push(Mismatch::of(variable, believed, found));
        }
    };
    for (column, cell) in asked.columns.iter().zip(cells) {
        let found = cell.as_deref();
        match column {
            Column::Schema => {
                let schema = state.schema.as_deref().map(String::from_utf8_lossy);
                // A server that folds names tells its own spelling.
                let lower = |name: Option<&str>| name.unwrap_or_default().to_lowercase();
                expect("schema", &lower(schema.as_deref()), &lower(found));
            }
            Column::InsertId => {
                if login.insert_id_before == InsertIdBefore::Zero {
                    expect("last_insert_id", "0", found.unwrap_or_default());
                }
            }
            Column::Role => {
                expect("role", base.role.as_deref().unwrap_or_default(), found.unwrap_or_default());
            }
            Column::UserLocks => expect("user_locks", "0", found.unwrap_or("0")),
            Column::MetadataLocks => expect("metadata_locks", "0", found.unwrap_or("0")),
            Column::Clock => expect("timestamp", "1", found.unwrap_or("1")),
            // NULL: the account does not see its schema.
            Column::SchemaCollation => expect("collation_database", "1", found.unwrap_or("1")),
            Column::Variable(name) => {
                if let Some(believed) = believed(login, base, name) {
                    let (believed, found) = (believed, plain(found.unwrap_or_default()));
                    match *name == "sql_mode" {
                        // The order means nothing.
                        true => expect(name, &sorted(&believed), &sorted(&found)),
                        false => expect(name, &believed, &found),
                    }
                }
            }
        }
    }
    differences
}

/// The value that a variable of a session is known to have; `None`: any may be right.
fn believed(login: &Login, base: &Base, name: &str) -> Option<String> {
    if HELD_FOR_CLIENTS.contains(&name) {
        // It is Narrows' own.
        return None;
    }
    if whole_of(name).is_some_and(|whole| login.state.literal(whole).is_some()) {
        return None;
    }
    let of_slot = |(known, _): &(&str, &str)| slot(known) == slot(name);
    match login.state.variables().find(of_slot) {
        Some((_, UNKNOWN)) => None,
        // Another variable's value.
        Some((_, literal)) if literal.starts_with("@@") => None,
        Some((_, SQL_MODE_WITH_IGNORE_SPACE)) => {
            let of_base =
                base.own().literal("sql_mode").is_none().then(|| value_of_base(base, name)).flatten()?;
            Some(plain(&format!("{of_base},ignore_space")))
        }
        Some((known, literal)) => {
            // A character set says its collation only if that is its default one, and the other way round.
            let is_other = known != name && known.starts_with("c") && name.starts_with("c");
            (!is_other).then(|| plain(&unquoted(literal)))
        }
        None if CHARSETS.contains(&slot(name)) || slot(name) == SCHEMA_COLLATION => None,
        None => value_of_base(base, name).map(plain),
    }
}

fn value_of_base<'a>(base: &'a Base, name: &str) -> Option<&'a str> {
    base.variables().find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// The text of a literal.
fn unquoted(literal: &str) -> String {
    if let Some(digits) = literal.strip_prefix("0x") {
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
        return bytes
            .map_or_else(|| literal.to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
    }
    match literal.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        Some(text) => text.replace("''", "'"),
        None if literal.eq_ignore_ascii_case("NULL") => String::new(),
        None => literal.to_owned(),
    }
}

/// A value in one form of several: servers show switches as words and as numbers, and numbers with more or fewer digits.
fn plain(value: &str) -> String {
    let value = value.trim_matches('\'').to_lowercase();
    match value.as_str() {
        "on" | "yes" | "true" => "1".to_owned(),
        "off" | "no" | "false" => "0".to_owned(),
        _ => match value.parse::<f64>() {
            Ok(number) if number.abs() < 9e15 => number.to_string(),
            _ => value,
        },
    }
}

/// A list of words in alphabetical order, each once.
fn sorted(list: &str) -> String {
    let words: BTreeSet<&str> = list.split(',').filter(|word| !word.is_empty()).collect();
    words.into_iter().collect::<Vec<_>>().join(",")
}

/// User variables with a value that only one side has.
fn compare_user_variables(state: &SessionState, base: &Base, mut found: Vec<String>) -> Vec<Mismatch> {
    let mut differences = Vec::new();
    for (name, literal) in state.user_variables() {
        match found.iter().position(|other| other == name) {
            Some(place) => drop(found.swap_remove(place)),
            // NULL is what it also is without a value.
            None if literal.ends_with("NULL") => {}
            None => differences.push(Mismatch::of("user_variable", name, "")),
        }
    }
    let began_with = |name: &String| base.user_variables.iter().flatten().any(|other| **other == **name);
    found.retain(|name| !began_with(name));
    differences.extend(found.iter().map(|name| Mismatch::of("user_variable", "", name)));
    differences
}

/// The cells of the only row.
fn cells(set: &ResultSet) -> Result<Vec<Option<String>>, BackendError> {
    let mut reader = Reader::new(set.rows.first().map(Vec::as_slice).unwrap_or_default());
    let mut cells = Vec::with_capacity(set.columns.len());
    for _ in &set.columns {
        // In a character set of two bytes or four, numbers are written with bytes of zero between their digits.
        cells.push(super::ask::cell(&mut reader)?.map(|cell| cell.replace('\0', "")));
    }
    Ok(cells)
}

/// The names of the user variables that have a value.
pub(super) const USER_VARIABLES: [&str; 2] = [
    "SELECT CAST(VARIABLE_NAME AS BINARY) FROM performance_schema.user_variables_by_thread \
WHERE THREAD_ID = PS_CURRENT_THREAD_ID() AND VARIABLE_VALUE IS NOT NULL LIMIT 10000",
    "SELECT CAST(VARIABLE_NAME AS BINARY) FROM information_schema.USER_VARIABLES \
WHERE VARIABLE_VALUE IS NOT NULL LIMIT 10000",
];

/// The metadata locks of the session besides those of the question itself: tables, `HANDLER`, `LOCK INSTANCE`.
pub(super) const METADATA_LOCKS: &str = "(SELECT COUNT(*) FROM performance_schema.metadata_locks \
WHERE OWNER_THREAD_ID = PS_CURRENT_THREAD_ID() AND LOCK_DURATION = 'EXPLICIT' \
AND NOT (OBJECT_SCHEMA <=> 'performance_schema'))";

/// Variables that tell nothing that a client has set, or that are compared in another way.
const NOT_COMPARED: [&str; 19] = [
    "error_count",
    "external_user",
    "identity",
    "immediate_server_version",
    "in_transaction",
    "last_gtid",
    "last_insert_id",
    // That of MariaDB's session is the replication connection's that default_master_connection names.
    "max_relay_log_size",
    "original_commit_timestamp",
    "original_server_version",
    "proxy_user",
    "pseudo_thread_id",
    "rand_seed1",
    "rand_seed2",
    "session_track_gtids",
    // The server counts it.
    "sql_slave_skip_counter",
    "statement_id",
    "timestamp",
    "warning_count",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_whatever_their_form() {
        for (one, other) in [
            ("ON", "1"),
            ("'OFF'", "0"),
            ("10", "10.000000"),
            ("'ANSI_QUOTES'", "ansi_quotes"),
            ("0x5C", "\\"),
            ("NULL", ""),
            ("18446744073709551615", "18446744073709551615"),
        ] {
            assert_eq!(plain(&unquoted(one)), plain(other), "{one} {other}");
        }
        for (one, other) in [("'a'", "b"), ("18446744073709551615", "18446744073709551614"), ("1", "2")] {
            assert_ne!(plain(&unquoted(one)), plain(other), "{one} {other}");
        }
    }

    #[test]
    fn a_client_that_comes_back_without_another_one_is_the_same() {
        let mut trace = LeaseTrace::default();
        let found = [(7, 1), (7, 2), (8, 3), (8, 4), (8, 6), (7, 7)];
        let changes = found.map(|(client, lease)| trace.changes_client(client, lease));
        assert_eq!(changes, [false, false, true, false, true, true]);
    }

    #[test]
    fn a_few_texts_are_remembered() {
        let mut trace = LeaseTrace::default();
        for number in 0..20 {
            trace.note(format!("SELECT {number}{}", "x".repeat(1000)).as_bytes());
        }
        assert!(trace.texts().starts_with("SELECT 12x") && trace.texts().len() < 2_000, "{}", trace.texts());
    }
}
