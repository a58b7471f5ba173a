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
    rows: fn(&Control, &Observer) -> Vec<Row>,
    /// What reading it does.
    reading: Reading,
}

/// What reading a table does to the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Nothing.
    Copies,
    /// They begin again.
    Resets,
}

const fn copy(name: &'static str, rows: fn(&Control, &Observer) -> Vec<Row>) -> Table {
    Table { name, rows, reading: Reading::Copies }
}

const fn reset(name: &'static str, rows: fn(&Control, &Observer) -> Vec<Row>) -> Table {
    Table { name, rows, reading: Reading::Resets }
}

const TABLES: &[Table] = &[
    copy("stats_mysql_global", global::rows),
    copy("stats_mysql_connection_pool", |_, observer| traffic::pool(observer, COPY)),
    reset("stats_mysql_connection_pool_reset", |_, observer| traffic::pool(observer, RESET)),
    copy("stats_mysql_query_digest", |_, observer| traffic::digests(observer, COPY)),
    reset("stats_mysql_query_digest_reset", |_, observer| traffic::digests(observer, RESET)),
    copy("stats_mysql_query_rules", |_, observer| traffic::rules(observer)),
    copy("stats_mysql_commands_counters", |_, observer| traffic::commands(observer)),
    copy("stats_mysql_users", |_, observer| traffic::users(observer)),
    copy("stats_mysql_errors", |_, observer| traffic::errors(observer, COPY)),
    reset("stats_mysql_errors_reset", |_, observer| traffic::errors(observer, RESET)),
    copy("stats_mysql_client_host_cache", |_, observer| traffic::client_hosts(observer, COPY)),
    reset("stats_mysql_client_host_cache_reset", |_, observer| traffic::client_hosts(observer, RESET)),
    copy("stats_mysql_processlist", sessions::processes),
    copy("stats_mysql_free_connections", |_, observer| sessions::free_connections(observer)),
    copy("stats_mysql_prepared_statements_info", |_, observer| sessions::prepared_statements(observer)),
    copy("stats_memory_metrics", memory::rows),
    copy("stats_proxysql_servers_clients_status", |control, _| control.nodes()),
];

const COPY: narrows_proxy::stats::Take = narrows_proxy::stats::Take::Copy;
const RESET: narrows_proxy::stats::Take = narrows_proxy::stats::Take::Reset;

/// Tables that can be large: their copies are not kept.
const LARGE: &[&str] = &["stats_mysql_query_digest", "stats_mysql_query_digest_reset"];

/// Fills the tables that a statement names.
///
/// # Errors
/// When SQLite has no room for the rows.
pub fn fill(control: &mut Control, sql: &str) -> Result<(), Refusal> {
    let named = named(sql);
    if named.is_empty() {
        return Ok(());
    }
    let reads = reads(sql);
    let observer = control.observer();
    for table in TABLES.iter().filter(|table| named.iter().any(|name| name == table.name)) {
        if table.reading == Reading::Resets && !reads {
            continue;
        }
        let rows = observer.as_ref().map(|observer| (table.rows)(control, observer)).unwrap_or_default();
        control.store.refill(&format!("stats.{}", table.name), rows)?;
    }
    Ok(())
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
