//! SampleTimes of figures, at the intervals of `admin-stats_*`.

use std::time::{Duration, Instant};

use narrows_proxy::stats::{Counters, Observer, Take, wait};
use rusqlite::types::Value;

use super::interval;
use crate::schema::cells::number;
use crate::stats;
use crate::store::Store;

/// One kind of sample.
struct Kind {
    /// The variable with its interval in seconds; 0: no samples.
    interval: &'static str,
    /// Its table.
    table: &'static str,
    /// Its rows, without the time.
    rows: fn(&Observer) -> Vec<Vec<Value>>,
}

const KINDS: &[Kind] = &[
    Kind { interval: "admin-stats_mysql_connections", table: "mysql_connections", rows: connections },
    Kind { interval: "admin-stats_mysql_connections", table: "myhgm_connections", rows: pool_use },
    Kind {
        interval: "admin-stats_mysql_connection_pool",
        table: "history_stats_mysql_connection_pool",
        rows: |observer| stats::pool(observer, Take::Copy),
    },
    Kind { interval: "admin-stats_mysql_query_cache", table: "mysql_query_cache", rows: query_cache },
    Kind { interval: "admin-stats_system_cpu", table: "system_cpu", rows: |_| processor_time() },
    Kind { interval: "admin-stats_system_memory", table: "system_memory", rows: memory },
];

/// How long samples are kept in seconds, as in ProxySQL.
const KEPT: i64 = 7 * 86_400;

/// When each kind of sample was last taken.
#[derive(Debug, Default)]
pub struct SampleTimes([Option<Instant>; KINDS.len()]);

impl SampleTimes {
    /// Takes those that are due at `now`.
    pub fn take(&mut self, store: &mut Store, observer: &Observer, now: i64) {
        for (kind, last) in KINDS.iter().zip(&mut self.0) {
            let interval = Duration::from_secs(interval(store, kind.interval));
            if interval.is_zero() || last.is_some_and(|last| last.elapsed() < interval) {
                continue;
            }
            let before = last.replace(Instant::now());
            let with_time = |mut row: Vec<Value>| {
                row.insert(0, Value::Integer(now));
                row
            };
            let rows = (kind.rows)(observer).into_iter().map(with_time).collect();
            match store.append(&format!("stats_history.{}", kind.table), rows, now.saturating_sub(KEPT)) {
                // A statistics user is reading the samples; the next tick tries again.
                Err(refusal) if refusal.is_locked() => *last = before,
                Err(refusal) => {
                    tracing::warn!(table = kind.table, %refusal, "a sample of the figures is lost");
                }
                Ok(()) => {}
            }
        }
    }
}

/// Figures by their names in `stats_mysql_global`.
fn named(counters: &Counters, names: &[&str]) -> Vec<Value> {
    let rows = counters.rows();
    let value = |name: &&str| rows.iter().find(|(known, _)| known == name).map_or(0, |(_, value)| *value);
    names.iter().map(|name| number(value(name))).collect()
}

fn connections(observer: &Observer) -> Vec<Vec<Value>> {
    let names = [
        "Client_Connections_aborted",
        "Client_Connections_connected",
        "Client_Connections_created",
        "Server_Connections_aborted",
        "Server_Connections_connected",
        "Server_Connections_created",
        "ConnPool_get_conn_failure",
        "ConnPool_get_conn_immediate",
        "ConnPool_get_conn_success",
        "Questions",
        "Slow_queries",
        "GTID_consistent_queries",
    ];
    vec![named(&wait(observer.global()), &names)]
}

fn pool_use(observer: &Observer) -> Vec<Vec<Value>> {
    let names = [
        "MyHGM_myconnpoll_destroy",
        "MyHGM_myconnpoll_get",
        "MyHGM_myconnpoll_get_ok",
        "MyHGM_myconnpoll_push",
        "MyHGM_myconnpoll_reset",
    ];
    vec![named(&wait(observer.global()), &names)]
}

fn query_cache(observer: &Observer) -> Vec<Vec<Value>> {
    let names = [
        "Query_Cache_count_GET",
        "Query_Cache_count_GET_OK",
        "Query_Cache_count_SET",
        "Query_Cache_bytes_IN",
        "Query_Cache_bytes_OUT",
        "Query_Cache_Purged",
        "Query_Cache_Entries",
        "Query_Cache_Memory_bytes",
    ];
    vec![named(&wait(observer.global()), &names)]
}

/// User and system time of this program, in the clock ticks of `times(2)`.
fn processor_time() -> Vec<Vec<Value>> {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name may contain blanks; it ends with the last parenthesis (proc(5)).
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let field = |index: usize| fields.get(index).and_then(|text| text.parse().ok()).unwrap_or(0);
    vec![vec![number(field(11)), number(field(12))]]
}

/// The process's figures from the C library's allocator and the kernel, which have no metadata and no retained pages.
fn memory(observer: &Observer) -> Vec<Vec<Value>> {
    let figures = wait(observer.memory());
    let row = [figures.allocated, figures.resident, figures.anonymous, figures.mapped, 0, 0];
    vec![row.map(number).to_vec()]
}
