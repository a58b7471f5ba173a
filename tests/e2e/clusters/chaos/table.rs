//! The events in a table: how often each was, how long clients had no writer, and the errors that they saw.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use super::events::{Event, Victim};
use super::interval;
use crate::chaos::load::Failure;

/// One event, or all of one kind.
#[derive(Debug, Clone)]
pub struct Row {
    event: &'static str,
    victim: Victim,
    times: u32,
    /// From its beginning until a write of a client that began in it was acknowledged: of each.
    written: Vec<Duration>,
    /// From when the nodes themselves could be written to, to the same moment: of each.
    after_cluster: Vec<Duration>,
    reads: u64,
    failed_reads: usize,
    failed_writes: usize,
    /// Errors by number and kind of statement.
    errors: BTreeMap<String, usize>,
}

impl Row {
    /// One event, that began at `since`: when clients wrote again, and when the nodes could be written to.
    pub fn new(
        (event, victim): (&'static str, Victim),
        took: Duration,
        since: Instant,
        (found, itself): (Instant, Option<Instant>),
        (reads, failures): (u64, &[Failure]),
    ) -> Row {
        let of_reads = failures.iter().filter(|failure| failure.what.is_read()).count();
        let mut errors = BTreeMap::new();
        for failure in failures {
            let code = failure.text.split_whitespace().next().unwrap_or_default();
            *errors.entry(format!("{code} {:?}", failure.what)).or_default() += 1;
        }
        let waited = found.saturating_duration_since(since);
        Row {
            event,
            victim,
            times: 1,
            // What begins and ends in one step has no moment without a writer in between.
            written: vec![if took > LONG { waited } else { took + waited }],
            after_cluster: itself.map(|itself| found.saturating_duration_since(itself)).into_iter().collect(),
            reads,
            failed_reads: of_reads,
            failed_writes: failures.len() - of_reads,
            errors,
        }
    }

    /// What is wrong if clients wrote too late.
    pub fn late(&self, event: &Event) -> Option<String> {
        // Three checks that time out, and the time limit of the last one.
        let most = interval() * if event.is_silent { 4 } else { 2 } + TOLERANCE;
        let late = self.after_cluster.iter().find(|late| **late > most)?;
        Some(format!("{} ({:?}): clients wrote {late:.0?} after the cluster could", self.event, self.victim))
    }

    fn take_in(&mut self, other: Row) {
        self.times += other.times;
        self.written.extend(other.written);
        self.after_cluster.extend(other.after_cluster);
        self.reads += other.reads;
        self.failed_reads += other.failed_reads;
        self.failed_writes += other.failed_writes;
        for (error, count) in other.errors {
            *self.errors.entry(error).or_default() += count;
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [written, after] = [&self.written, &self.after_cluster].map(|times| Spread::of(times));
        let intervals = after.most.as_secs_f64() / interval().as_secs_f64();
        let name = format!("{} ({:?})", self.event, self.victim);
        write!(
            formatter,
            "{name:<60} {:4} x  written {written}  after the cluster {after} = {intervals:4.1} intervals  {:7} reads {:3} failed  {:4} writes failed",
            self.times, self.reads, self.failed_reads, self.failed_writes,
        )?;
        self.errors.iter().try_for_each(|(error, count)| write!(formatter, "  {count} x {error}"))
    }
}

/// The middle one of some times, and the longest.
struct Spread {
    middle: Duration,
    most: Duration,
}

impl Spread {
    fn of(times: &[Duration]) -> Spread {
        let mut times = times.to_vec();
        times.sort();
        let middle = times.get(times.len() / 2).copied().unwrap_or_default();
        Spread { middle, most: times.last().copied().unwrap_or_default() }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:5} ms, at most {:5} ms", self.middle.as_millis(), self.most.as_millis())
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
}

impl Table {
    pub fn add(&mut self, row: Row) {
        match self.rows.iter_mut().find(|known| (known.event, known.victim) == (row.event, row.victim)) {
            Some(known) => known.take_in(row),
            None => self.rows.push(row),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by_key(|row| row.event);
        rows.iter().try_for_each(|row| writeln!(formatter, "{row}"))?;
        let times: u32 = self.rows.iter().map(|row| row.times).sum();
        writeln!(formatter, "{times} events")
    }
}

/// A step that takes longer waits for something of its own: a server that ends, or one that starts.
const LONG: Duration = Duration::from_secs(1);

/// For a machine that does more than this.
const TOLERANCE: Duration = Duration::from_millis(300);
