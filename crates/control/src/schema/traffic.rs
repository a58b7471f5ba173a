//! The rows of `narrows_traffic_10s` and `narrows_traffic_5m`: what happened in an interval, and sums of intervals.

use narrows_proxy::stats::Durations;
use rusqlite::types::Value;

use super::cells::{Row, number, text};

/// The definition of both tables.
pub(super) const DEFINITION: &[&str] = &[
    "timestamp INT NOT NULL",
    "interval_ms INT NOT NULL",
    "statements INT NOT NULL",
    "slow_statements INT NOT NULL",
    "errors INT NOT NULL",
    "client_bytes_received INT NOT NULL",
    "client_bytes_sent INT NOT NULL",
    "cache_gets INT NOT NULL",
    "cache_hits INT NOT NULL",
    "cpu_ms INT NOT NULL",
    "clients_connected INT NOT NULL",
    "clients_active INT NOT NULL",
    "backend_connections_used INT NOT NULL",
    "backend_connections_free INT NOT NULL",
    "clients_connected_max INT NOT NULL",
    "clients_active_max INT NOT NULL",
    "backend_connections_used_max INT NOT NULL",
    "backend_connections_free_max INT NOT NULL",
    "latency_p50_us INT",
    "latency_p95_us INT",
    "latency_p99_us INT",
    "latency_counts VARCHAR NOT NULL",
    "PRIMARY KEY (timestamp)",
];

/// What happened in an interval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traffic {
    /// When the interval began, in Unix time.
    pub timestamp: i64,
    /// Its length, by a clock that nobody sets.
    pub interval_ms: u64,
    /// What was counted in it.
    pub counters: Counters,
    /// Averages of current values.
    pub average: Gauges,
    /// The highest current values.
    pub highest: Gauges,
    /// The statements that ended in it, by duration.
    pub latencies: [u64; BUCKETS],
}

/// What is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Statements that clients sent.
    pub statements: u64,
    /// Statements that took `mysql-long_query_time` or longer.
    pub slow_statements: u64,
    /// Errors that clients received.
    pub errors: u64,
    /// Bytes received from clients.
    pub client_bytes_received: u64,
    /// Bytes sent to clients.
    pub client_bytes_sent: u64,
    /// Lookups in the query cache.
    pub cache_gets: u64,
    /// Those that found an answer.
    pub cache_hits: u64,
    /// Time of processors that the process has used.
    pub cpu_ms: u64,
}

/// Current values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Client connections.
    pub clients_connected: u64,
    /// Clients with a running command.
    pub clients_active: u64,
    /// Connections to servers in use.
    pub backend_connections_used: u64,
    /// Idle connections to servers.
    pub backend_connections_free: u64,
}

/// How many buckets durations have.
pub const BUCKETS: usize = Durations::LIMITS_US.len() + 1;

/// A struct as its numbers, in order, and back.
macro_rules! as_numbers {
    ($type:ident: $($field:ident),* $(,)?) => {
        impl $type {
            const LENGTH: usize = [$(stringify!($field)),*].len();

            fn numbers(self) -> [u64; $type::LENGTH] {
                [$(self.$field),*]
            }

            fn of([$($field),*]: [u64; $type::LENGTH]) -> $type {
                $type { $($field),* }
            }
        }
    };
}

as_numbers! {
    Counters: statements, slow_statements, errors, client_bytes_received, client_bytes_sent, cache_gets, cache_hits, cpu_ms
}

as_numbers! {
    Gauges: clients_connected, clients_active, backend_connections_used, backend_connections_free
}

impl Counters {
    /// What was counted since `before`.
    pub fn since(self, before: Counters) -> Counters {
        Counters::of(since(self.numbers(), before.numbers()))
    }
}

/// The differences of counters that begin again at 0 when they are reset.
pub fn since<const LENGTH: usize>(now: [u64; LENGTH], before: [u64; LENGTH]) -> [u64; LENGTH] {
    let mut differences = now;
    let was = differences.iter_mut().zip(before);
    was.for_each(|(now, before)| *now = now.checked_sub(before).unwrap_or(*now));
    differences
}

impl Traffic {
    /// Several intervals as one that begins at `timestamp`: sums of what was counted, averages and maxima of current
    /// values.
    pub fn sum(timestamp: i64, rows: &[Traffic]) -> Traffic {
        let total = |of: fn(&Traffic) -> u64| rows.iter().map(of).fold(0, u64::saturating_add);
        let mut gauges = [0_u64; Gauges::LENGTH];
        for row in rows {
            add(&mut gauges, row.average.numbers());
        }
        let mut sum = Traffic { timestamp, interval_ms: total(|row| row.interval_ms), ..Traffic::default() };
        let (mut counters, mut highest) = ([0; Counters::LENGTH], [0; Gauges::LENGTH]);
        for row in rows {
            add(&mut counters, row.counters.numbers());
            add(&mut sum.latencies, row.latencies);
            let higher = highest.iter_mut().zip(row.highest.numbers());
            higher.for_each(|(highest, value)| *highest = (*highest).max(value));
        }
        let count = (rows.len() as u64).max(1);
        sum.counters = Counters::of(counters);
        sum.average = Gauges::of(gauges.map(|gauge| gauge.saturating_add(count / 2) / count));
        sum.highest = Gauges::of(highest);
        sum
    }

    /// Its row.
    pub fn cells(&self) -> Row {
        let mut row = vec![Value::Integer(self.timestamp), number(self.interval_ms)];
        row.extend(self.counters.numbers().map(number));
        row.extend(self.average.numbers().map(number));
        row.extend(self.highest.numbers().map(number));
        let latency = |share| percentile(&self.latencies, share).map_or(Value::Null, number);
        row.extend([500, 950, 990].map(latency));
        let counts: Vec<String> = self.latencies.iter().map(u64::to_string).collect();
        row.push(text(format!("[{}]", counts.join(","))));
        row
    }

    /// What a row with all columns, in their order, holds. What an administrator has written there, and is no number, is
    /// 0.
    pub fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Traffic> {
        let counts = row.get_ref(DEFINITION.len() - 2)?.as_str().unwrap_or_default();
        let latencies = parse_counts(counts);
        let [interval_ms] = numbers(row, 1)?;
        Ok(Traffic {
            timestamp: row.get(0)?,
            interval_ms,
            counters: Counters::of(numbers(row, 2)?),
            average: Gauges::of(numbers(row, 2 + Counters::LENGTH)?),
            highest: Gauges::of(numbers(row, 2 + Counters::LENGTH + Gauges::LENGTH)?),
            latencies,
        })
    }
}

/// Columns that follow one another in [`DEFINITION`], from the one at `first` on.
fn numbers<const LENGTH: usize>(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<[u64; LENGTH]> {
    let mut numbers = [0; LENGTH];
    for (column, number) in numbers.iter_mut().enumerate() {
        let value = row.get_ref(first + column)?.as_i64().unwrap_or(0);
        *number = u64::try_from(value).unwrap_or(0);
    }
    Ok(numbers)
}

fn add<const LENGTH: usize>(sum: &mut [u64; LENGTH], other: [u64; LENGTH]) {
    sum.iter_mut().zip(other).for_each(|(sum, other)| *sum = sum.saturating_add(other));
}

/// The sum of the arrays in a text, one after another: what a row has in `latency_counts`, or several rows. What is no
/// number is 0.
pub fn parse_counts(text: &str) -> [u64; BUCKETS] {
    let mut sum = [0; BUCKETS];
    for array in text.split(']') {
        let counts = array.trim_start_matches('[').split(',').map(|count| count.trim().parse().unwrap_or(0));
        sum.iter_mut().zip(counts).for_each(|(sum, count): (&mut u64, u64)| *sum = sum.saturating_add(count));
    }
    sum
}

/// The duration in us that `share` of a thousand do not exceed, evenly distributed within their bucket; `None` if there
/// were no statements. Longer ones than the last limit count as that limit.
pub fn percentile(latencies: &[u64; BUCKETS], share: u64) -> Option<u64> {
    let count: u64 = latencies.iter().sum();
    let rank = u128::from(count) * u128::from(share);
    let (mut before, mut lower) = (0_u128, 0);
    for (bucket, limit) in latencies.iter().zip(Durations::LIMITS_US) {
        let here = u128::from(*bucket) * 1000;
        if here > 0 && before + here >= rank {
            let within = u128::from(limit - lower) * rank.saturating_sub(before) / here;
            return Some(lower + u64::try_from(within).unwrap_or(limit - lower));
        }
        before += here;
        lower = limit;
    }
    (count > 0).then_some(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(counts: &[(usize, u64)]) -> [u64; BUCKETS] {
        let mut latencies = [0; BUCKETS];
        counts.iter().for_each(|(bucket, count)| latencies[*bucket] = *count);
        latencies
    }

    #[test]
    fn percentiles_are_within_their_bucket() {
        assert_eq!(percentile(&[0; BUCKETS], 500), None);
        // Up to 100 us, and from 500 us to 1 ms.
        let some = latencies(&[(0, 90), (3, 10)]);
        assert_eq!(percentile(&some, 450), Some(50));
        assert_eq!(percentile(&some, 900), Some(100));
        assert_eq!(percentile(&some, 950), Some(750));
        assert_eq!(percentile(&some, 1000), Some(1_000));
        assert_eq!(percentile(&latencies(&[(BUCKETS - 1, 3)]), 990), Some(10_000_000));
        assert_eq!(percentile(&latencies(&[(15, u64::MAX / 2)]), 1000), Some(10_000_000));
    }

    #[test]
    fn counts_of_several_rows_are_summed() {
        let row = |counts: &[(usize, u64)]| latencies(counts);
        assert_eq!(parse_counts("[1,2,x,4]"), row(&[(0, 1), (1, 2), (3, 4)]));
        assert_eq!(parse_counts("[1,2][ 3, 4 ]"), row(&[(0, 4), (1, 6)]));
        assert_eq!(parse_counts(""), row(&[]));
        let long = format!("[{}]", "7,".repeat(100));
        assert_eq!(parse_counts(&long), [7; BUCKETS]);
    }

    #[test]
    fn intervals_are_summed() {
        let row = |statements, clients, bucket| Traffic {
            interval_ms: 10_000,
            counters: Counters { statements, ..Counters::default() },
            average: Gauges { clients_connected: clients, ..Gauges::default() },
            highest: Gauges { clients_connected: clients + 2, ..Gauges::default() },
            latencies: latencies(&[(bucket, statements)]),
            ..Traffic::default()
        };
        let sum = Traffic::sum(300, &[row(5, 10, 0), row(7, 13, 4)]);
        assert_eq!((sum.timestamp, sum.interval_ms, sum.counters.statements), (300, 20_000, 12));
        assert_eq!((sum.average.clients_connected, sum.highest.clients_connected), (12, 15));
        assert_eq!(sum.latencies, latencies(&[(0, 5), (4, 7)]));
        assert_eq!(Traffic::sum(300, &[]), Traffic { timestamp: 300, ..Traffic::default() });
    }

    #[test]
    fn counters_that_begin_again_are_not_negative() {
        assert_eq!(since([5, 3], [2, 7]), [3, 3]);
    }

    #[test]
    fn cells_are_in_the_order_of_the_columns() {
        let row = Traffic::default().cells();
        assert_eq!(row.len() + 1, DEFINITION.len());
        assert_eq!(DEFINITION[2 + Counters::LENGTH], "clients_connected INT NOT NULL");
        assert!(DEFINITION[2 + Counters::LENGTH + 2 * Gauges::LENGTH].starts_with("latency_p50_us"));
    }
}
