//! The statistics tables: filled with the workers' figures when a statement names them.

pub mod fleet;
mod global;
mod memory;
pub mod metrics;
pub mod nodes;
pub mod readiness;
mod scheduler;
mod sessions;
mod sources;
mod status;
mod traffic;

pub use scheduler::{SCHEDULER_RUNS, scheduler_runs};
pub use traffic::{pool, statuses};

use narrows_proxy::stats::Observer;

use crate::admin::question::{GiveBack, Taken};
use crate::admin::reply::Reply;
use crate::admin::statement::names;
use crate::query_log::events;
use crate::runtime::Runtime;
use crate::schema::cells::Row;
use crate::store::{Refusal, Store};
use nodes::Nodes;
pub use sources::Sources;

/// A table that is filled when named.
struct Table {
    /// Its name; it is in `stats`.
    name: &'static str,
    /// Its current rows.
    rows: Rows,
}

/// The source of rows, and the effect of reading them on the figures.
#[derive(Clone, Copy)]
enum Rows {
    /// Reading does not change the figures.
    Copied(fn(&Sources<'_>, &Observer) -> Vec<Row>),
    /// Reading resets the figures.
    Reset(fn(&Observer) -> (Vec<Row>, GiveBack)),
}

const fn copy(name: &'static str, rows: fn(&Sources<'_>, &Observer) -> Vec<Row>) -> Table {
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
    copy("stats_mysql_query_events", |sources, _| events::rows(sources.runtime.events())),
    copy("stats_mysql_query_rules", |_, observer| traffic::rules(observer)),
    copy("stats_narrows_rules_dry_run", |_, observer| traffic::dry_run(observer)),
    reset("stats_narrows_rules_dry_run_reset", traffic::taken_dry_run),
    copy("stats_mysql_commands_counters", |_, observer| traffic::commands(observer)),
    copy("stats_narrows_aws_credentials", |_, _| traffic::aws_credentials()),
    copy("stats_narrows_passwords", |_, observer| traffic::passwords(observer)),
    copy("stats_narrows_token_issuers", |_, observer| traffic::token_issuers(observer)),
    copy("stats_mysql_users", |_, observer| traffic::users(observer)),
    copy("stats_mysql_errors", |_, observer| traffic::errors(observer)),
    reset("stats_mysql_errors_reset", traffic::taken_errors),
    copy("stats_mysql_client_host_cache", |_, observer| traffic::client_hosts(observer, COPY)),
    reset("stats_mysql_client_host_cache_reset", |observer| {
        (traffic::client_hosts(observer, RESET), not_given_back())
    }),
    copy("stats_mysql_passthrough_auth_cache", |_, observer| traffic::passthrough(observer)),
    copy("stats_narrows_auth_query", |_, observer| traffic::queried_accounts(observer)),
    copy("stats_mysql_gtid_executed", |_, observer| traffic::gtids_executed(observer)),
    copy("stats_mysql_processlist", sessions::processes),
    copy("stats_mysql_free_connections", |_, observer| sessions::free_connections(observer)),
    copy("stats_mysql_prepared_statements_info", |_, observer| sessions::prepared_statements(observer)),
    copy("stats_memory_metrics", memory::rows),
    copy("stats_proxysql_servers_clients_status", |sources, _| sources.nodes.rows()),
];

/// Restores nothing, for tables with a row per server or per address: SQLite has already accepted the statement, and
/// does not run out of memory for so few rows.
fn not_given_back() -> GiveBack {
    Box::new(|_| {})
}

const COPY: narrows_proxy::stats::Take = narrows_proxy::stats::Take::Copy;
const RESET: narrows_proxy::stats::Take = narrows_proxy::stats::Take::Reset;

/// Tables that can be large: their copies are not kept.
const LARGE: &[&str] = &[
    "stats_mysql_query_digest",
    "stats_mysql_query_digest_reset",
    "stats_narrows_rules_dry_run",
    "stats_narrows_rules_dry_run_reset",
    EVENTS,
];

/// The table whose rows operators may delete.
const EVENTS: &str = "stats_mysql_query_events";

/// Whether a statement resets figures. It must first be checked that SQLite accepts the statement.
pub fn resets(sql: &str) -> bool {
    let named = named(sql);
    let is_reset = |table: &Table| matches!(table.rows, Rows::Reset(_));
    TABLES.iter().any(|table| is_reset(table) && named.iter().any(|name| name == table.name)) && reads(sql)
}

/// Fills the tables that a statement names; if it [`resets`] any, SQLite must accept it.
///
/// # Errors
/// If SQLite has no memory for the rows.
pub fn fill(store: &mut Store, runtime: &Runtime, nodes: &Nodes, sql: &str) -> Result<Taken, Refusal> {
    let mut taken = Taken(Vec::new());
    let named = named(sql);
    let is_named = |table: &&Table| named.iter().any(|name| name == table.name);
    for table in TABLES.iter().filter(is_named) {
        let observer = runtime.observer();
        let sources = Sources { store, runtime, nodes };
        let rows = match (table.rows, &observer) {
            (Rows::Reset(_), _) if !reads(sql) => continue,
            (_, None) => Vec::new(),
            (Rows::Copied(rows), Some(observer)) => rows(&sources, observer),
            (Rows::Reset(rows), Some(observer)) => {
                let (rows, give_back) = rows(observer);
                taken.0.push(give_back);
                rows
            }
        };
        if let Err(refusal) = store.refill(&format!("stats.{}", table.name), rows) {
            taken.give_back(observer.as_ref());
            return Err(refusal);
        }
    }
    Ok(taken)
}

/// Empties the large tables that a statement named. Events whose rows it has deleted are forgotten.
pub fn empty(store: &mut Store, runtime: &mut Runtime, sql: &str) {
    let named = named(sql);
    if named.iter().any(|name| name == EVENTS)
        && !reads(sql)
        && let Ok(ids) = store.event_ids()
    {
        runtime.events_mut().retain(&ids);
    }
    for table in LARGE.iter().filter(|table| named.iter().any(|name| name == *table)) {
        // What cannot be emptied is filled again the next time.
        let _ = store.refill(&format!("stats.{table}"), Vec::new());
    }
}

fn named(sql: &str) -> Vec<String> {
    let mentions = |start: &str| {
        sql.as_bytes().windows(start.len()).any(|window| window.eq_ignore_ascii_case(start.as_bytes()))
    };
    if mentions("stats_") { names(sql) } else { Vec::new() }
}

/// Whether a statement reads what it names. Figures are only reset once they have been returned.
fn reads(sql: &str) -> bool {
    let first = names(sql).into_iter().next().unwrap_or_default();
    matches!(first.as_str(), "select" | "with" | "insert" | "replace" | "create")
}

/// `SHOW NARROWS READINESS`
pub fn readiness(sources: &Sources<'_>) -> Reply {
    let reason = readiness::obstacle(sources).unwrap_or_default();
    let ready = if reason.is_empty() { "yes" } else { "no" };
    Reply::rows(["ready", "reason"], vec![vec![ready.to_owned(), reason]])
}

/// `SHOW NARROWS STATUS`
pub fn narrows_status(sources: &Sources<'_>) -> Reply {
    Reply::rows(["Variable_name", "Value"], status::rows(sources))
}
