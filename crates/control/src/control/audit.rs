//! Logs what administrators change: who, from where, and the difference. Passwords are never shown.
//!
//! In the log, rows are identified by their keys. The SQL statements of one session are collected for a while, so that a
//! script that inserts ten thousand rows is logged as one line. The audit log has each statement, with the values before
//! and after it.

mod event;
mod hidden;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use narrows_proxy::audit::AuditLog;

use crate::admin::reply::Reply;
use crate::admin::request::Caller;
use crate::admin::statement::{Statement, names};
use crate::command::direction;
use crate::schema::{self, Database, Layer, Module};
use crate::secrets::Secrets;
use crate::store::{Answer, Role, RowsChanged, Store};
use crate::versions::{ChangeKind, ConfigDocument, RowChange, changes, passwords_of_document};
use hidden::{HiddenPasswords, values_of};

/// What remains to be logged about administrators, and how much has been logged.
#[derive(Debug)]
pub struct Audit {
    log: AuditLog,
    /// The version that ran when a command began that has no answer yet, by session.
    waiting: BTreeMap<u32, i64>,
    gathered: Option<Gathered>,
    window: Instant,
    lines: u32,
    suppressed: u64,
}

/// Statements of one session that are logged together.
#[derive(Debug)]
struct Gathered {
    by: String,
    since: Instant,
    /// Rows by table and by operation.
    rows: BTreeMap<(String, &'static str), u64>,
    statements: u64,
}

/// The state before a statement that may change something.
pub enum Before {
    /// It changes nothing.
    Nothing,
    /// It changes something other than the tables.
    Command,
    /// It makes another version the configuration; this one ran before.
    Version(i64),
    /// It changes a layer, which had these contents.
    Layer(Layer, Module, ConfigDocument),
    /// It changes rows by this operation; for variables, these are their previous values.
    Rows(&'static str, Option<ConfigDocument>),
}

/// Records what a statement may change.
pub fn before(store: &Store, caller: &Caller, statement: &Statement<'_>) -> Before {
    if caller.role != Role::Admin {
        return Before::Nothing;
    }
    match first_word(statement.sql).as_str() {
        "LOAD" | "SAVE" => match direction(&statement.plain) {
            Some((_, to, module)) => Before::Layer(to, module, contents(store, to, module)),
            None => Before::Command,
        },
        // A plan changes nothing, and may have passwords in it.
        "NARROWS" if starts_with(&statement.plain, PLAN) => Before::Nothing,
        "NARROWS" if VERSIONS.iter().any(|it| starts_with(&statement.plain, it)) => {
            Before::Version(store.version())
        }
        "PROXYSQL" | "NARROWS" | "KILL" | "TRUNCATE" => Before::Command,
        "SET" if !mentions(statement.sql, "mysql-") && !mentions(statement.sql, "admin-") => Before::Nothing,
        "SET" => Before::Rows("altered", Some(variables_in_memory(store))),
        "INSERT" => rows(store, "added", statement.sql),
        "REPLACE" => rows(store, "added or replaced", statement.sql),
        "UPDATE" => rows(store, "altered", statement.sql),
        "DELETE" => rows(store, "removed", statement.sql),
        "WITH" => rows(store, "changed", statement.sql),
        "CREATE" | "DROP" | "ALTER" => Before::Rows("defined", None),
        "SELECT" if starts_with(&statement.plain, OUTFILE) => Before::Command,
        "SELECT" | "SHOW" | "EXPLAIN" | "PRAGMA" | "HELP" | "DESC" | "DESCRIBE" | "USE" | "BEGIN"
        | "COMMIT" => Before::Nothing,
        _ => Before::Rows("changed", None),
    }
}

/// The first word of a statement as SQLite reads it: after comments, semicolons and a byte order mark.
fn first_word(sql: &str) -> String {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ';' | '\u{feff}'));
        let after = if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, after)| after)
        } else if let Some(comment) = rest.strip_prefix("--") {
            comment.split_once('\n').map_or("", |(_, after)| after)
        } else {
            break;
        };
        rest = after;
    }
    rest.chars().take_while(char::is_ascii_alphabetic).collect::<String>().to_ascii_uppercase()
}

/// Whether a statement has changed rows.
fn has_changed(reply: &Reply) -> bool {
    matches!(reply, Reply::Answer(Answer::Done { affected, .. }) if *affected > 0)
}

fn rows(store: &Store, verb: &'static str, sql: &str) -> Before {
    let variables = mentions(sql, "global_variables").then(|| variables_in_memory(store));
    Before::Rows(verb, variables)
}

/// A module's contents in a layer.
fn contents(store: &Store, layer: Layer, module: Module) -> ConfigDocument {
    let mut contents = ConfigDocument::default();
    match module.prefix() {
        Some(prefix) => put_values(&mut contents, store.values_in(layer, prefix)),
        None => {
            store.rows_in(layer, module).into_iter().for_each(|(name, rows)| contents.put_table(name, rows))
        }
    }
    contents
}

fn variables_in_memory(store: &Store) -> ConfigDocument {
    let mut contents = ConfigDocument::default();
    put_values(&mut contents, store.values_in(Layer::Memory, ""));
    contents
}

fn put_values(contents: &mut ConfigDocument, values: Vec<(String, String)>) {
    values.into_iter().for_each(|(name, value)| contents.put_variable(&name, value));
}

impl Audit {
    /// Nothing to log yet.
    pub fn new(log: AuditLog) -> Audit {
        Audit {
            log,
            waiting: BTreeMap::new(),
            gathered: None,
            window: Instant::now(),
            lines: 0,
            suppressed: 0,
        }
    }

    /// Prepares for a statement. The audit log needs the rows that it changes.
    pub fn before(&self, store: &mut Store, caller: &Caller, statement: &Statement<'_>) -> Before {
        if let Err(refusal) = store.watch_rows(self.log.is_on()) {
            tracing::error!(
                reason = refusal.message,
                "the audit log does not have the rows that administrators change"
            );
        }
        before(store, caller, statement)
    }

    /// Logs what a statement has changed.
    pub fn after(
        &mut self,
        (store, secrets): (&mut Store, &Secrets),
        caller: &Caller,
        statement: &Statement<'_>,
        before: Before,
        reply: &Reply,
    ) {
        let before = match (before, reply) {
            (Before::Nothing, _) => return,
            (Before::Version(version), Reply::NotYet) => {
                return self.wait(caller.connection.thread_id, version);
            }
            // It is logged with its answer.
            (_, Reply::NotYet) => return,
            (Before::Version(version), _) => {
                Before::Version(self.waiting.remove(&caller.connection.thread_id).unwrap_or(version))
            }
            (before, _) => before,
        };
        let failure = match reply {
            Reply::Refused(refusal) => Some(refusal.message.as_str()),
            _ => None,
        };
        let (mut changed, former) = match failure {
            Some(_) => (Vec::new(), Vec::new()),
            None => self.difference(store, &before),
        };
        let mut rows = store.take_changed_rows();
        let former = [former, std::mem::take(&mut rows.passwords)].concat();
        let mut texts = values_of(changed.iter().chain(rows.rows.iter().map(|(_, change)| change)));
        if !matches!(before, Before::Rows(..)) {
            texts.extend([&*statement.plain, failure.unwrap_or_default()]);
        }
        let hidden = HiddenPasswords::among(&texts, store, secrets, former);
        let of_rows = rows.rows.iter_mut().map(|(_, change)| change);
        changed.iter_mut().chain(of_rows).for_each(|change| hidden.hide_in(change));
        let failure = failure.map(|failure| hidden.hide(failure));
        let what: String = hidden.hide(&statement.plain).chars().take(LONGEST).collect();
        self.tell(rows, caller, (statement, &what), (&before, &changed), failure.as_deref());
        let by = format!("{}@{}:{}", caller.user, caller.host, caller.port);
        self.log_line(by, (statement, &what), (&before, &changed), (reply, failure.as_deref()));
    }

    /// Adds a statement to the log.
    fn log_line(
        &mut self,
        by: String,
        (statement, what): (&Statement<'_>, &str),
        (before, changed): (&Before, &[RowChange]),
        (reply, failure): (&Reply, Option<&str>),
    ) {
        match (before, failure) {
            (Before::Nothing, _) | (Before::Rows(..), Some(_)) => {}
            (Before::Command | Before::Version(_), None) => self.line(&by, what),
            (Before::Command | Before::Version(_) | Before::Layer(..), Some(reason)) => {
                self.line(&by, &format!("{what}: refused: {reason}"));
            }
            (Before::Layer(..), None) => {
                let changes = if changed.is_empty() { NOTHING.to_owned() } else { text(changed) };
                self.line(&by, &format!("{what}: {changes}"));
            }
            // Either rows of another layer have changed, or the values are the same as before.
            (Before::Rows(_, Some(_)), None) if changed.is_empty() => {
                self.gather(by, "global_variables".to_owned(), "touched", 0);
            }
            (Before::Rows(_, Some(_)), None) => self.line(&by, &format!("in memory: {}", text(changed))),
            (Before::Rows("changed", None), None) if !has_changed(reply) => {}
            (Before::Rows(verb, None), None) => {
                let affected = match reply {
                    _ if *verb == "defined" => 1,
                    Reply::Answer(Answer::Done { affected, .. }) => *affected,
                    _ => 0,
                };
                self.gather(by, table(statement.sql), verb, affected);
            }
        }
    }

    /// A command that makes another version has no answer yet: a fleet has to agree.
    fn wait(&mut self, session: u32, version: i64) {
        if self.waiting.len() >= MOST_WAITING {
            // Sessions that have ended without an answer.
            self.waiting.clear();
        }
        self.waiting.entry(session).or_insert(version);
    }

    /// What is different since then, apart from rows that are watched; and the passwords that were there before.
    fn difference(&self, store: &mut Store, before: &Before) -> (Vec<RowChange>, Vec<String>) {
        match before {
            Before::Layer(layer, module, before) => {
                (changes(before, &contents(store, *layer, *module)), passwords_of_document(before))
            }
            Before::Rows(_, Some(before)) => {
                (changes(before, &variables_in_memory(store)), passwords_of_document(before))
            }
            Before::Version(before) => self.since(store, *before),
            Before::Nothing | Before::Command | Before::Rows(_, None) => (Vec::new(), Vec::new()),
        }
    }

    /// What runs differently since that version, for the audit log; and its passwords.
    fn since(&self, store: &mut Store, version: i64) -> (Vec<RowChange>, Vec<String>) {
        if !self.log.is_on() || store.version() == version {
            return (Vec::new(), Vec::new());
        }
        match store.version_document(version) {
            Ok(Some((before, _))) => (changes(&before, store.current()), passwords_of_document(&before)),
            // It is not kept, or cannot be read: the history of versions says so, too.
            Ok(None) | Err(_) => (Vec::new(), Vec::new()),
        }
    }

    /// Adds a statement to the audit log.
    fn tell(
        &self,
        rows: RowsChanged,
        caller: &Caller,
        (statement, what): (&Statement<'_>, &str),
        (before, changed): (&Before, &[RowChange]),
        failure: Option<&str>,
    ) {
        // Of a statement that nobody knows, only what it changes is of interest.
        if matches!(before, Before::Rows("changed", None)) && rows.rows.is_empty() && rows.more == 0 {
            return;
        }
        self.log.tell(|| {
            let changed = match before {
                Before::Layer(layer, ..) => event::of_layer(*layer, changed),
                Before::Version(_) => event::of_layer(Layer::Runtime, changed),
                Before::Rows(_, Some(_)) if rows.rows.is_empty() => event::of_layer(Layer::Memory, changed),
                _ => event::of_rows(&rows),
            };
            let failure = failure.map(|failure| match before {
                Before::Rows(..) => event::masked_error(failure),
                _ => failure.to_owned(),
            });
            let text = match before {
                // A token or a number, and a comment.
                Before::Version(_) => what.to_owned(),
                _ => event::masked(&statement.plain),
            };
            event::event(caller, text, changed, failure)
        });
    }

    /// Logs the collected statements if nothing was added for a while.
    pub fn tick(&mut self) {
        if self.gathered.as_ref().is_some_and(|gathered| gathered.since.elapsed() >= GATHERED) {
            self.flush();
        }
        self.begin_window();
    }

    /// Logs the collected statements.
    pub fn flush(&mut self) {
        let Some(Gathered { by, rows, statements, .. }) = self.gathered.take() else { return };
        let rows = rows.iter().map(|((table, verb), rows)| format!("{table} {rows} {verb}"));
        let rows = rows.collect::<Vec<_>>().join(", ");
        let plural = if statements == 1 { "" } else { "s" };
        self.write(&by, &format!("{statements} statement{plural}: {rows}"));
    }

    fn gather(&mut self, by: String, table: String, verb: &'static str, rows: u64) {
        let is_other = |gathered: &Gathered| {
            gathered.by != by || gathered.rows.len() >= MOST_TABLES || gathered.since.elapsed() >= GATHERED
        };
        if self.gathered.as_ref().is_some_and(is_other) {
            self.flush();
        }
        let since = Instant::now();
        let gathered =
            self.gathered.get_or_insert_with(|| Gathered { by, since, rows: BTreeMap::new(), statements: 0 });
        *gathered.rows.entry((table, verb)).or_default() += rows;
        gathered.statements += 1;
    }

    fn line(&mut self, by: &str, text: &str) {
        // Earlier statements are logged first.
        self.flush();
        self.write(by, text);
    }

    fn write(&mut self, by: &str, text: &str) {
        self.begin_window();
        if self.lines >= MOST_LINES {
            self.suppressed += 1;
            return;
        }
        self.lines += 1;
        tracing::info!(by, "administrator: {text}");
    }

    fn begin_window(&mut self) {
        if self.window.elapsed() < WINDOW {
            return;
        }
        (self.window, self.lines) = (Instant::now(), 0);
        let suppressed = std::mem::take(&mut self.suppressed);
        if suppressed > 0 {
            tracing::warn!(suppressed, "more actions of administrators than the log can hold");
        }
    }
}

/// The differences, table by table.
fn text(changes: &[RowChange]) -> String {
    let kinds = [ChangeKind::Added, ChangeKind::Removed, ChangeKind::Altered];
    let mut tables: BTreeMap<&str, [Vec<String>; 3]> = BTreeMap::new();
    for change in changes {
        let (name, what) = match change.table {
            "global_variables" => ("variables", value_change(change)),
            table => (table, change.key.clone()),
        };
        tables.entry(name).or_default()[change.kind as usize].push(what);
    }
    let texts = tables.into_iter().map(|(name, keys)| {
        let of_kind = kinds.into_iter().zip(keys).filter(|(_, keys)| !keys.is_empty());
        let of_kind = of_kind.map(|(kind, keys)| {
            let first = keys.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
            let more = if keys.len() > MOST_NAMED { ", ..." } else { "" };
            format!("{} {} ({first}{more})", keys.len(), kind.name())
        });
        format!("{name} {}", of_kind.collect::<Vec<_>>().join(", "))
    });
    texts.collect::<Vec<_>>().join("; ")
}

fn value_change(change: &RowChange) -> String {
    let text = |value: &Option<String>| -> String {
        value.as_deref().unwrap_or_default().chars().take(LONGEST).collect()
    };
    match change.columns.first() {
        Some((_, before, after)) => format!("{}: '{}' -> '{}'", change.key, text(before), text(after)),
        None => change.key.clone(),
    }
}

/// The table that a statement changes: the first one that it names.
fn table(sql: &str) -> String {
    let databases =
        [Database::Main, Database::Disk, Database::Stats, Database::Monitor, Database::StatsHistory];
    let words = names(sql.get(..MOST_READ).unwrap_or(sql));
    let mut of = None;
    for word in words {
        let database = databases.into_iter().find(|database| database.name() == word);
        if database.is_some() {
            of = database;
            continue;
        }
        if databases.into_iter().any(|database| schema::find(database, &word).is_some()) {
            return of.map_or(word.clone(), |database| format!("{}.{word}", database.name()));
        }
    }
    "a table of their own".to_owned()
}

fn mentions(sql: &str, word: &str) -> bool {
    let start = sql.as_bytes().get(..MOST_READ).unwrap_or(sql.as_bytes());
    start.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}

fn starts_with(statement: &str, words: &str) -> bool {
    statement.get(..words.len()).is_some_and(|start| start.eq_ignore_ascii_case(words))
}

/// How commands begin that make another version the configuration.
const VERSIONS: [&str; 2] = ["NARROWS APPLY", "NARROWS ROLLBACK"];

/// How the command begins that writes the configuration, with its passwords, to a file.
const OUTFILE: &str = "SELECT CONFIG INTO OUTFILE";

/// How commands begin that make a plan.
const PLAN: &str = "NARROWS PLAN";

/// What is said if there are no changes.
const NOTHING: &str = "nothing has changed";

/// How many bytes of a statement are searched for the table that it changes.
const MOST_READ: usize = 4_096;

/// How many characters of a command, or of a value, are logged.
const LONGEST: usize = 200;

/// How many rows and variables of one change are named.
const MOST_NAMED: usize = 5;

/// How many commands are waited for.
const MOST_WAITING: usize = 256;

/// How many tables are named in one line.
const MOST_TABLES: usize = 8;

/// How long statements are collected.
const GATHERED: Duration = Duration::from_secs(1);

/// The maximum number of lines in a window: further ones are only counted.
const MOST_LINES: u32 = 200;
const WINDOW: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_is_the_one_that_sqlite_reads() {
        for sql in [
            "UPDATE t",
            "/* x */ update t",
            "-- c\nUPDATE t",
            ";;UPDATE t",
            "\u{feff}UPDATE t",
            "UPDATE/**/t",
        ] {
            assert_eq!(first_word(sql), "UPDATE", "{sql}");
        }
        assert_eq!(
            (first_word("/* x").as_str(), first_word("--").as_str(), first_word("").as_str()),
            ("", "", "")
        );
    }

    #[test]
    fn the_table_of_a_statement_is_the_first_that_it_names() {
        for (sql, expected) in [
            ("INSERT INTO mysql_servers (hostname) VALUES ('mysql_users')", "mysql_servers"),
            ("DELETE FROM disk.`mysql_users` WHERE 1", "disk.mysql_users"),
            ("UPDATE mysql_query_rules SET active = 0", "mysql_query_rules"),
            ("INSERT INTO mine SELECT 1", "a table of their own"),
        ] {
            assert_eq!(table(sql), expected, "{sql}");
        }
    }

    #[test]
    fn a_password_is_told_of_and_not_told() {
        let of = |name: &str, value: &str| {
            let mut document = ConfigDocument::default();
            document.put_variable(name, value.to_owned());
            document
        };
        let told =
            |name: &str, before: &str, after: &str| text(&changes(&of(name, before), &of(name, after)));
        assert_eq!(
            told("mysql-monitor_password", "old", "new"),
            "variables 1 altered (mysql-monitor_password: '***' -> '***')"
        );
        assert_eq!(told("mysql-threads", "1", "2"), "variables 1 altered (mysql-threads: '1' -> '2')");
    }
}
