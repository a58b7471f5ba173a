//! What happened in a step of a chart, and the question for it.

use super::span::{Period, Span};
use super::viewer::ListedRow;
use crate::schema::traffic::{BUCKETS, parse_counts};

/// What happened in a step of a chart.
#[derive(Debug, Default, Clone)]
pub struct Point {
    /// When it begins, in Unix time.
    pub at: i64,
    /// The seconds that are known of it.
    pub seconds: f64,
    /// Statements, slow statements, errors.
    pub counts: [f64; 3],
    /// Bytes from and to clients.
    pub bytes: [f64; 2],
    /// Lookups in the query cache, and those that found an answer.
    pub cache: [f64; 2],
    /// Seconds of processors.
    pub cpu_s: f64,
    /// Clients that were connected and active; connections to servers in use and idle. On average.
    pub levels: [f64; 4],
    /// The highest numbers of clients connected and active, and of connections in use.
    pub highest: [f64; 3],
    /// The statements by duration.
    pub latencies: [u64; BUCKETS],
}

/// A row for each step of which something is known.
pub fn question(span: &Span, period: Period) -> String {
    let (step, table, Period { from, to }) = (span.step, span.table, period);
    format!(
        "SELECT timestamp / {step} * {step} AS step, SUM(interval_ms) / 1000.0, SUM(statements), SUM(slow_statements), \
         SUM(errors), SUM(client_bytes_received), SUM(client_bytes_sent), SUM(cache_gets), SUM(cache_hits), \
         SUM(cpu_ms) / 1000.0, AVG(clients_connected), AVG(clients_active), AVG(backend_connections_used), \
         AVG(backend_connections_free), MAX(clients_connected_max), MAX(clients_active_max), \
         MAX(backend_connections_used_max), GROUP_CONCAT(latency_counts, '') \
         FROM stats_history.{table} WHERE timestamp >= {from} AND timestamp < {to} GROUP BY step ORDER BY step LIMIT 1000"
    )
}

impl Point {
    /// Reads a row of the question.
    pub fn read(row: &ListedRow) -> Point {
        let number = |place: usize| row.text(place).parse::<f64>().unwrap_or(0.0);
        Point {
            at: row.text(0).parse().unwrap_or(0),
            seconds: number(1),
            counts: [2, 3, 4].map(number),
            bytes: [5, 6].map(number),
            cache: [7, 8].map(number),
            cpu_s: number(9),
            levels: [10, 11, 12, 13].map(number),
            highest: [14, 15, 16].map(number),
            latencies: parse_counts(&row.text(17)),
        }
    }
}
