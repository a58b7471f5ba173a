//! Figures over time in `stats_history`: samples, their aggregates by hour and day, and the traffic of each interval.
//!
//! Nothing here waits for someone who reads the file, and each step is short: both would delay administrators. Rows that
//! are too old are deleted a few at a time, so that a clock that is wrong for a moment costs a few rows, and not all of
//! them.

use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, Transaction};

use super::Store;
use super::answer::Refusal;
use crate::schema::traffic::Traffic;
use crate::schema::{self, Database};

/// Rows of a table that are aggregated in rows of another one.
#[derive(Debug)]
pub struct Aggregate {
    /// Where the rows come from.
    source: &'static str,
    /// Where the aggregates go.
    pub target: &'static str,
    /// The columns that are averages.
    averages: &'static [&'static str],
    /// How the other columns are aggregated, as an SQL function.
    others: &'static str,
    span: Span,
}

/// The time that an aggregate covers.
#[derive(Debug, Clone, Copy)]
struct Span {
    seconds: i64,
    /// How many aggregates one step makes.
    at_once: i64,
}

/// At the shortest interval, a step reads 21,600 rows.
const HOUR: Span = Span { seconds: 3_600, at_once: 6 };

/// A step reads 744 rows.
const DAY: Span = Span { seconds: 86_400, at_once: 31 };

/// At the shortest interval, a step reads 3,600 rows.
const FIVE_MINUTES: Span = Span { seconds: 300, at_once: 12 };

macro_rules! by_hour_and_day {
    ($($table:literal: $others:literal, averages of $averages:expr;)*) => {
        &[$(
            Aggregate {
                source: $table,
                target: concat!($table, "_hour"),
                averages: $averages,
                others: $others,
                span: HOUR,
            },
            Aggregate {
                source: concat!($table, "_hour"),
                target: concat!($table, "_day"),
                averages: $averages,
                others: $others,
                span: DAY,
            },
        )*]
    };
}

/// Every aggregate, each after the one that it is made of. How columns are aggregated is as in ProxySQL, which leaves the
/// days out.
pub const AGGREGATES: &[Aggregate] = by_hour_and_day! {
    "mysql_connections": "MAX", averages of &["Client_Connections_connected", "Server_Connections_connected"];
    "myhgm_connections": "MAX", averages of &[];
    "mysql_query_cache": "MAX", averages of &["Entries_In_Cache", "Memory_Bytes"];
    "system_cpu": "SUM", averages of &[];
    "system_memory": "MAX",
        averages of &["allocated", "resident", "active", "mapped", "metadata", "retained"];
};

/// Whether an aggregate is up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It is, until the span that runs now.
    Done,
    /// Another step is necessary.
    More,
}

/// How long aggregates are kept in seconds: hours as in ProxySQL.
const AGGREGATES_KEPT: i64 = 365 * 86_400;

/// The intervals of traffic that are kept in seconds, and their number at the usual length.
const INTERVALS_KEPT: (i64, i64) = (86_400, 8_640);

/// The same for their sums.
const SUMS_KEPT: (i64, i64) = (31 * 86_400, 8_928);

/// How long a statement waits for a program that has a file locked: `rusqlite`'s default.
const PATIENCE: Duration = Duration::from_secs(5);

impl Aggregate {
    /// The beginning of the span that runs at `now`.
    pub fn current(&self, now: i64) -> i64 {
        self.span.current(now)
    }

    /// Makes some of the aggregates that are not there yet.
    fn step(&self, connection: &Connection, now: i64) -> rusqlite::Result<Progress> {
        let target = table(self.target);
        let Some((from, until)) = self.span.next(connection, &table(self.source), &target, now)? else {
            return Ok(Progress::Done);
        };
        let columns = columns(self.target);
        let seconds = self.span.seconds;
        let value = |column: &&str| match *column {
            "timestamp" => format!("timestamp / {seconds} * {seconds}"),
            average if self.averages.contains(&average) => format!("CAST(ROUND(AVG({average})) AS INT)"),
            other => format!("{}({other})", self.others),
        };
        let aggregate = format!(
            "INSERT OR REPLACE INTO {target} ({}) SELECT {} FROM {} WHERE timestamp >= ?1 AND timestamp < ?2 GROUP BY 1",
            schema::listed(&columns),
            columns.iter().map(value).collect::<Vec<_>>().join(", "),
            table(self.source),
        );
        let added = connection.execute(&aggregate, [from, until])?;
        delete_older(connection, &target, now.saturating_sub(AGGREGATES_KEPT), added)?;
        Ok(if until < self.current(now) { Progress::More } else { Progress::Done })
    }
}

impl Span {
    fn current(self, now: i64) -> i64 {
        now.div_euclid(self.seconds) * self.seconds
    }

    /// The time whose rows of `source` are to be aggregated next in `target`: complete spans only.
    fn next(
        self,
        connection: &Connection,
        source: &str,
        target: &str,
        now: i64,
    ) -> rusqlite::Result<Option<(i64, i64)>> {
        let current = self.current(now);
        let ask = |sql: String, values: [i64; 2]| {
            connection.query_row(&sql, values, |row| row.get::<_, Option<i64>>(0))
        };
        // Rows that are later than now are from a clock that was wrong.
        let last = format!(
            "SELECT CAST(MAX(timestamp) AS INT) FROM {target} WHERE timestamp >= ?1 AND timestamp < ?2"
        );
        let last = ask(last, [0, current])?;
        // The span that has just ended is made again: the clock may have been set back, and it may have more rows now.
        let missing = last.map_or(0, |last| (last + self.seconds).min(current - self.seconds));
        let first = format!(
            "SELECT CAST(MIN(timestamp) AS INT) FROM {source} WHERE timestamp >= ?1 AND timestamp < ?2"
        );
        let first = ask(first, [missing, current])?;
        Ok(first.map(|first| {
            let from = self.current(first);
            (from, (from + self.at_once * self.seconds).min(current))
        }))
    }
}

impl Store {
    /// Adds rows, which begin with their time, to a table of figures over time, and deletes some of those that are older
    /// than `oldest`.
    ///
    /// # Errors
    /// If there is no such table, or no space for the rows, or if the file is being read: this does not wait.
    pub fn append(&mut self, table: &str, rows: Vec<Vec<Value>>, oldest: i64) -> Result<(), Refusal> {
        self.at_once(|transaction| {
            delete_older(transaction, table, oldest, rows.len())?;
            // The file may have columns of a newer version.
            let name = table.split_once('.').map_or(table, |(_, name)| name);
            insert(transaction, table, &columns(name), rows)
        })
    }

    /// Makes some of the aggregates that are not there yet.
    ///
    /// # Errors
    /// As [`Store::append`].
    pub fn aggregate(&mut self, aggregate: &Aggregate, now: i64) -> Result<Progress, Refusal> {
        self.at_once(|transaction| aggregate.step(transaction, now))
    }

    /// Adds intervals of traffic, and the sums of intervals that are complete at `complete`.
    ///
    /// # Errors
    /// As [`Store::append`].
    pub fn add_traffic(&mut self, rows: &[Traffic], complete: i64, now: i64) -> Result<(), Refusal> {
        self.at_once(|transaction| add_traffic(transaction, rows, complete, now))
    }

    /// Changes figures over time in one transaction, without waiting for those who read them.
    fn at_once<T>(
        &mut self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Refusal> {
        self.all.open()?.busy_timeout(Duration::ZERO)?;
        let changed = self.all.open().and_then(|connection| {
            let transaction = connection.transaction()?;
            let changed = change(&transaction)?;
            transaction.commit()?;
            Ok(changed)
        });
        self.all.open()?.busy_timeout(PATIENCE)?;
        changed
    }
}

fn add_traffic(connection: &Connection, rows: &[Traffic], complete: i64, now: i64) -> rusqlite::Result<()> {
    let [intervals, sums] = ["narrows_traffic_10s", "narrows_traffic_5m"];
    let columns = columns(intervals);
    let cells = rows.iter().map(Traffic::cells).collect();
    insert(connection, &table(intervals), &columns, cells)?;
    let mut added = 0;
    if let Some((from, until)) =
        FIVE_MINUTES.next(connection, &table(intervals), &table(sums), complete.min(now))?
    {
        let read = format!(
            "SELECT {} FROM {} WHERE timestamp >= ?1 AND timestamp < ?2 ORDER BY timestamp",
            schema::listed(&columns),
            table(intervals)
        );
        let mut read = connection.prepare(&read)?;
        let read = read.query_map([from, until], Traffic::read)?.collect::<rusqlite::Result<Vec<_>>>()?;
        let begin = |row: &Traffic| FIVE_MINUTES.current(row.timestamp);
        let summed = read.chunk_by(|one, next| begin(one) == begin(next));
        let summed = summed.filter_map(|rows| Some(Traffic::sum(begin(rows.first()?), rows).cells()));
        let summed: Vec<_> = summed.collect();
        added = summed.len();
        insert(connection, &table(sums), &columns, summed)?;
    }
    keep(connection, &table(intervals), INTERVALS_KEPT, now, rows.len())?;
    keep(connection, &table(sums), SUMS_KEPT, now, added)
}

/// The name of a table with its database.
fn table(name: &str) -> String {
    format!("{}.{name}", Database::StatsHistory.name())
}

/// The columns of this version of a table.
fn columns(name: &str) -> Vec<&'static str> {
    let table = schema::find(Database::StatsHistory, name);
    table.map(|table| table.columns().collect()).unwrap_or_default()
}

fn insert(
    connection: &Connection,
    table: &str,
    columns: &[&str],
    rows: Vec<Vec<Value>>,
) -> rusqlite::Result<()> {
    let places = vec!["?"; columns.len()].join(", ");
    let insert = format!("INSERT OR REPLACE INTO {table} ({}) VALUES ({places})", schema::listed(columns));
    let mut insert = connection.prepare(&insert)?;
    for row in rows {
        insert.execute(rusqlite::params_from_iter(row))?;
    }
    Ok(())
}

/// Deletes rows that are older than `oldest`, in the order of their time: a few more than were added.
fn delete_older(connection: &Connection, table: &str, oldest: i64, added: usize) -> rusqlite::Result<()> {
    let most = i64::try_from(added).unwrap_or(i64::MAX).saturating_mul(2).saturating_add(2);
    let delete = format!(
        "DELETE FROM {table} WHERE rowid IN \
         (SELECT rowid FROM {table} WHERE timestamp < ?1 ORDER BY timestamp LIMIT ?2)"
    );
    connection.prepare(&delete)?.execute([oldest, most]).map(drop)
}

/// Deletes rows that are too old, and those that are too many: first the ones from the future, which a wrong clock has
/// left there, then the oldest.
fn keep(
    connection: &Connection,
    table: &str,
    (seconds, most): (i64, i64),
    now: i64,
    added: usize,
) -> rusqlite::Result<()> {
    delete_older(connection, table, now.saturating_sub(seconds), added)?;
    let count = format!("SELECT COUNT(*) FROM {table}");
    let count: i64 = connection.prepare(&count)?.query_row([], |row| row.get(0))?;
    if count <= most {
        return Ok(());
    }
    let delete = format!(
        "DELETE FROM {table} WHERE rowid IN \
         (SELECT rowid FROM {table} ORDER BY timestamp <= ?1, timestamp LIMIT ?2)"
    );
    connection.prepare(&delete)?.execute([now, count - most]).map(drop)
}

#[cfg(test)]
mod tests;
