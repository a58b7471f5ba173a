//! The tables of figures: filled from the workers' when a statement names them.

mod global;
mod memory;
pub mod prometheus;
mod sessions;
mod status;
mod traffic;

pub use traffic::{pool, statuses};

use narrows_proxy::stats::Observer;
use rusqlite::types::Value;

use super::answer::Reply;
use super::statement::names;
use crate::control::Control;
use crate::store::Refusal;

/// A row of a table of figures.
type Row = Vec<Value>;

/// A table that is filled when it is named.
struct Table {
    /// Its name; it is in `stats`.
    name: &'static str,
    /// Its rows now.
    rows: Rows,
}

/// Where rows come from, and what reading them does to the figures.
#[derive(Clone, Copy)]
enum Rows {
    /// Nothing.
    Copied(fn(&Control, &Observer) -> Vec<Row>),
    /// They begin again.
    Reset(fn(&Observer) -> (Vec<Row>, GiveBack)),
}

/// Has figures that were reset go on as if they had not been.
type GiveBack = Box<dyn FnOnce(&Observer) + Send>;

/// The figures that were reset for a statement: they are gone when it has told them, and not before.
#[must_use]
#[derive(Default)]
pub struct Taken(Vec<GiveBack>);

impl std::fmt::Debug for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Taken({})", self.0.len())
    }
}

impl Taken {
    /// The statement has told them.
    pub fn told(self) {}

    /// It has not.
    pub fn give_back(self, control: &Control) {
        // Where no worker runs any more nothing is counted.
        if let Some(observer) = control.observer() {
            self.0.into_iter().for_each(|give_back| give_back(&observer));
        }
    }
}

const fn copy(name: &'static str, rows: fn(&Control, &Observer) -> Vec<Row>) -> Table {
    Table { name, rows: Rows::Copied(rows) }
}

const fn reset(name: &'static str, rows: fn(&Observer) -> (Vec<Row>, GiveBack)) -> Table {
    Table { name, rows: Rows::Reset(rows) }
}

const TABLES: &[Table] = &[
    copy("stats_mysql_global", global::rows),
    copy("stats_mysql_connection_pool", |_, observer| traffic::pool(observer, COPY)),
    reset("stats_mysql_connection_pool_reset", |observer| (traffic::pool(observer, RESET), not_given_back())),
    copy("stats_mysql_query_digest", |_, observer| traffic::digests(observer)),
    reset("stats_mysql_query_digest_reset", traffic::taken_digests),
    copy("stats_mysql_query_rules", |_, observer| traffic::rules(observer)),
    copy("stats_mysql_commands_counters", |_, observer| traffic::commands(observer)),
    copy("stats_mysql_users", |_, observer| traffic::users(observer)),
    copy("stats_mysql_errors", |_, observer| traffic::errors(observer)),
    reset("stats_mysql_errors_reset", traffic::taken_errors),
    copy("stats_mysql_client_host_cache", |_, observer| traffic::client_hosts(observer, COPY)),
    reset("stats_mysql_client_host_cache_reset", |observer| {
        (traffic::client_hosts(observer, RESET), not_given_back())
    }),
    copy("stats_mysql_processlist", sessions::processes),
    copy("stats_mysql_free_connections", |_, observer| sessions::free_connections(observer)),
    copy("stats_mysql_prepared_statements_info", |_, observer| sessions::prepared_statements(observer)),
    copy("stats_memory_metrics", memory::rows),
    copy("stats_proxysql_servers_clients_status", |control, _| control.nodes()),
];

/// Of tables with a row per server or per address: statements that SQLite would refuse have been refused before, and no
/// other fails for the room of so few rows.
fn not_given_back() -> GiveBack {
    Box::new(|_| {})
}

const COPY: narrows_proxy::stats::Take = narrows_proxy::stats::Take::Copy;
const RESET: narrows_proxy::stats::Take = narrows_proxy::stats::Take::Reset;

/// Tables that can be large: their copies are not kept.
const LARGE: &[&str] = &["stats_mysql_query_digest", "stats_mysql_query_digest_reset"];

/// Whether figures begin again by a statement. That is only to be where SQLite takes it, so it is to be checked before.
pub fn resets(sql: &str) -> bool {
    let named = named(sql);
    let is_reset = |table: &Table| matches!(table.rows, Rows::Reset(_));
    TABLES.iter().any(|table| is_reset(table) && named.iter().any(|name| name == table.name)) && reads(sql)
}

/// Fills the tables that a statement names, which SQLite takes where it [`resets`] any.
///
/// # Errors
/// When SQLite has no room for the rows.
pub fn fill(control: &mut Control, sql: &str) -> Result<Taken, Refusal> {
    let mut taken = Taken(Vec::new());
    let named = named(sql);
    let is_named = |table: &&Table| named.iter().any(|name| name == table.name);
    for table in TABLES.iter().filter(is_named) {
        let observer = control.observer();
        let rows = match (table.rows, &observer) {
            (Rows::Reset(_), _) if !reads(sql) => continue,
            (_, None) => Vec::new(),
            (Rows::Copied(rows), Some(observer)) => rows(control, observer),
            (Rows::Reset(rows), Some(observer)) => {
                let (rows, give_back) = rows(observer);
                taken.0.push(give_back);
                rows
            }
        };
        if let Err(refusal) = control.store.refill(&format!("stats.{}", table.name), rows) {
            taken.give_back(control);
            return Err(refusal);
        }
    }
    Ok(taken)
}

/// Empties the large ones of the tables that a statement named.
pub fn empty(control: &mut Control, sql: &str) {
    let named = named(sql);
    for table in LARGE.iter().filter(|table| named.iter().any(|name| name == *table)) {
        // What cannot be emptied is filled anew the next time.
        let _ = control.store.refill(&format!("stats.{table}"), Vec::new());
    }
}

fn named(sql: &str) -> Vec<String> {
    let mentions = |start: &str| {
        sql.as_bytes().windows(start.len()).any(|window| window.eq_ignore_ascii_case(start.as_bytes()))
    };
    if mentions("stats_") { names(sql) } else { Vec::new() }
}

/// Whether a statement reads what it names. Figures begin again only when they were told.
fn reads(sql: &str) -> bool {
    let first = names(sql).into_iter().next().unwrap_or_default();
    matches!(first.as_str(), "select" | "with" | "insert" | "replace" | "create")
}

/// `SHOW NARROWS STATUS`
pub fn narrows_status(control: &Control) -> Reply {
    Reply::rows(["Variable_name", "Value"], status::rows(control))
}

fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

/// SQLite's integers have a sign; figures beyond it do not occur in a process's life.
fn number(value: u64) -> Value {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

fn optional_text(value: Option<String>) -> Value {
    value.map_or(Value::Null, Value::Text)
}

fn digest(hash: u64) -> Value {
    text(format!("0x{hash:016X}"))
}
