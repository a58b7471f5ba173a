//! Logs what administrators change: who, from where, and the difference. Passwords are never shown.
//!
//! Rows are identified by their keys. The SQL statements of one session are collected for a while, so that a script
//! that inserts ten thousand rows is logged as one line.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rusqlite::types::Value;

use crate::admin::reply::Reply;
use crate::admin::request::Caller;
use crate::admin::statement::{Statement, names};
use crate::command::direction;
use crate::schema::{self, Database, Layer, Module};
use crate::store::{Answer, Role, Store, key_of_row};
use crate::versions::is_secret_variable;

/// What remains to be logged about administrators, and how much has been logged.
#[derive(Debug)]
pub struct Audit {
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
    /// It changes a layer, which had these contents.
    Layer(Layer, Module, Contents),
    /// It changes rows by this operation; for variables, these are their previous values.
    Rows(&'static str, Option<Contents>),
}

/// A module's contents in a layer: the rows of tables by their keys, or the values of variables.
type Contents = Vec<(&'static str, BTreeMap<String, Vec<Value>>)>;

impl Default for Audit {
    fn default() -> Audit {
        Audit { gathered: None, window: Instant::now(), lines: 0, suppressed: 0 }
    }
}

/// Records what a statement may change.
pub fn before(store: &Store, caller: &Caller, statement: &Statement<'_>) -> Before {
    if caller.role != Role::Admin {
        return Before::Nothing;
    }
    let word = statement.sql.split_ascii_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    match word.as_str() {
        "LOAD" | "SAVE" => match direction(&statement.plain) {
            Some((_, to, module)) => Before::Layer(to, module, contents(store, to, module)),
            None => Before::Command,
        },
        // A plan changes nothing, and may have passwords in it.
        "NARROWS" if statement.plain.get(..PLAN.len()).is_some_and(|it| it.eq_ignore_ascii_case(PLAN)) => {
            Before::Nothing
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
        _ => Before::Nothing,
    }
}

fn rows(store: &Store, verb: &'static str, sql: &str) -> Before {
    let variables = mentions(sql, "global_variables").then(|| variables_in_memory(store));
    Before::Rows(verb, variables)
}

/// A module's contents in a layer.
fn contents(store: &Store, layer: Layer, module: Module) -> Contents {
    if let Some(prefix) = module.prefix() {
        return vec![("variables", values(store.values_in(layer, prefix)))];
    }
    let tables = store.rows_in(layer, module).into_iter();
    let by_key = |(table, rows): (&'static str, Vec<Vec<Value>>)| {
        (table, rows.into_iter().map(|row| (key_of_row(table, &row), row)).collect())
    };
    tables.map(by_key).collect()
}

fn variables_in_memory(store: &Store) -> Contents {
    vec![("variables", values(store.values_in(Layer::Memory, "")))]
}

fn values(values: Vec<(String, String)>) -> BTreeMap<String, Vec<Value>> {
    values.into_iter().map(|(name, value)| (name, vec![Value::Text(value)])).collect()
}

impl Audit {
    /// Logs what a statement has changed.
    pub fn after(
        &mut self,
        store: &Store,
        caller: &Caller,
        statement: &Statement<'_>,
        before: Before,
        reply: &Reply,
    ) {
        // It is logged with its answer.
        if matches!(reply, Reply::NotYet) {
            return;
        }
        let by = format!("{}@{}:{}", caller.user, caller.host, caller.port);
        let failure = match reply {
            Reply::Refused(refusal) => Some(refusal.message.as_str()),
            _ => None,
        };
        let what: String = statement.plain.chars().take(LONGEST).collect();
        match (before, failure) {
            (Before::Nothing, _) | (Before::Rows(..), Some(_)) => {}
            (Before::Command, None) => self.line(&by, &what),
            (Before::Command | Before::Layer(..), Some(reason)) => {
                self.line(&by, &format!("{what}: refused: {reason}"));
            }
            (Before::Layer(layer, module, before), None) => {
                let changes = changes(&before, &contents(store, layer, module));
                self.line(&by, &format!("{what}: {changes}"));
            }
            (Before::Rows(_, Some(before)), None) => {
                match changes(&before, &variables_in_memory(store)).as_str() {
                    // Either rows of another layer have changed, or the values are the same as before.
                    NOTHING => self.gather(by, "global_variables".to_owned(), "touched", 0),
                    changes => self.line(&by, &format!("in memory: {changes}")),
                }
            }
            (Before::Rows(verb, None), None) => {
                let affected = match reply {
                    _ if verb == "defined" => 1,
                    Reply::Answer(Answer::Done { affected, .. }) => *affected,
                    _ => 0,
                };
                self.gather(by, table(statement.sql), verb, affected);
            }
        }
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
fn changes(before: &Contents, after: &Contents) -> String {
    let mut texts = Vec::new();
    for ((name, before), (_, after)) in before.iter().zip(after) {
        let added: Vec<String> = after.keys().filter(|key| !before.contains_key(*key)).cloned().collect();
        let removed: Vec<String> = before.keys().filter(|key| !after.contains_key(*key)).cloned().collect();
        let altered = before.iter().filter_map(|(key, row)| Some((key, row, after.get(key)?)));
        let altered = altered.filter(|(_, row, now)| row != now);
        let altered: Vec<String> = altered
            .map(
                |(key, row, now)| {
                    if *name == "variables" { value_change(key, row, now) } else { key.clone() }
                },
            )
            .collect();
        let kinds = [("added", added), ("removed", removed), ("altered", altered)];
        let kinds = kinds.into_iter().filter(|(_, keys)| !keys.is_empty());
        let kinds: Vec<String> = kinds
            .map(|(kind, keys)| {
                let first = keys.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
                let more = if keys.len() > MOST_NAMED { ", ..." } else { "" };
                format!("{} {kind} ({first}{more})", keys.len())
            })
            .collect();
        if !kinds.is_empty() {
            texts.push(format!("{name} {}", kinds.join(", ")));
        }
    }
    if texts.is_empty() { NOTHING.to_owned() } else { texts.join("; ") }
}

fn value_change(name: &str, before: &[Value], after: &[Value]) -> String {
    // Anyone who reads the log would see both values.
    if is_secret_variable(name) {
        return format!("{name}: another one");
    }
    let text = |value: &[Value]| match value.first() {
        Some(Value::Text(text)) => text.chars().take(LONGEST).collect(),
        _ => String::new(),
    };
    format!("{name}: '{}' -> '{}'", text(before), text(after))
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

/// How commands begin that make a plan.
const PLAN: &str = "NARROWS PLAN";

/// What [`changes`] returns if there are none.
const NOTHING: &str = "nothing has changed";

/// How many bytes of a statement are searched for the table that it changes.
const MOST_READ: usize = 4_096;

/// How many characters of a command, or of a value, are logged.
const LONGEST: usize = 200;

/// How many rows and variables of one change are named.
const MOST_NAMED: usize = 5;

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
        let of =
            |name: &str, value: &str| vec![("variables", values(vec![(name.to_owned(), value.to_owned())]))];
        let told = changes(&of("mysql-monitor_password", "old"), &of("mysql-monitor_password", "new"));
        assert_eq!(told, "variables 1 altered (mysql-monitor_password: another one)");
        let told = changes(&of("mysql-threads", "1"), &of("mysql-threads", "2"));
        assert_eq!(told, "variables 1 altered (mysql-threads: '1' -> '2')");
        assert_eq!(changes(&Vec::new(), &Vec::new()), "nothing has changed");
    }
}
