//! What happened in each interval of `admin-narrows_history`, for charts: gathered in memory and written once a minute.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use narrows_proxy::rt::processor_time;
use narrows_proxy::stats::{Durations, Observer, Take, wait};

use super::interval;
use crate::schema::traffic::{BUCKETS, Counters, Gauges, Traffic, since};
use crate::store::Store;

/// Intervals that are not written yet.
#[derive(Debug, Default)]
pub struct Recorder {
    /// The beginning of the running interval, if intervals are recorded.
    last: Option<Reading>,
    /// Complete intervals, in order.
    rows: VecDeque<Traffic>,
    /// When they were last written, or could not be.
    tried: Option<Instant>,
    /// Whether they could not be written, which was logged.
    is_failing: bool,
}

/// What is known at one moment.
#[derive(Debug)]
struct Reading {
    /// In Unix time, a multiple of the interval.
    timestamp: i64,
    at: Instant,
    counters: Counters,
    gauges: Gauges,
    latencies: [u64; BUCKETS],
}

/// How often rows are written: each time takes a few waits for the disk.
const BETWEEN_WRITES: Duration = Duration::from_secs(60);

/// The most rows in memory, while the disk is full: an hour's at the usual interval.
const MOST_UNWRITTEN: usize = 360;

impl Recorder {
    /// Ends the running interval if it is over at `now`.
    pub fn take(&mut self, store: &Store, observer: &Observer, now: i64) {
        let seconds = i64::try_from(interval(store, "admin-narrows_history")).unwrap_or(0);
        if seconds == 0 {
            self.last = None;
            return;
        }
        let timestamp = now.div_euclid(seconds) * seconds;
        if self.last.as_ref().is_none_or(|last| last.is_over(timestamp, seconds)) {
            self.add(Reading::now(observer, timestamp));
        }
    }

    /// Ends the running interval with a reading, which begins the next one.
    fn add(&mut self, reading: Reading) {
        if let Some(last) = self.last.take() {
            self.rows.push_back(reading.since(&last));
            if self.rows.len() > MOST_UNWRITTEN {
                self.rows.pop_front();
            }
        }
        self.last = Some(reading);
    }

    /// Whether there are rows in memory.
    pub fn has_unwritten(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Writes the rows in memory once a minute.
    pub fn write_if_due(&mut self, store: &mut Store, now: i64) {
        let since = *self.tried.get_or_insert_with(Instant::now);
        if since.elapsed() >= BETWEEN_WRITES {
            self.write(store, now);
        }
    }

    /// Writes the rows in memory.
    pub fn write(&mut self, store: &mut Store, now: i64) {
        if self.rows.is_empty() {
            return;
        }
        let complete = self.last.as_ref().map_or(now, |last| last.timestamp);
        match store.add_traffic(self.rows.make_contiguous(), complete, now) {
            // Someone is reading the figures; the next tick tries again.
            Err(refusal) if refusal.is_locked() => return,
            Err(refusal) => {
                if !self.is_failing {
                    tracing::warn!(%refusal, "the history of the traffic cannot be stored yet");
                }
                self.is_failing = true;
            }
            Ok(()) => {
                self.rows.clear();
                self.is_failing = false;
            }
        }
        self.tried = Some(Instant::now());
    }
}

impl Reading {
    fn now(observer: &Observer, timestamp: i64) -> Reading {
        let figures = wait(observer.global());
        let servers = wait(observer.connection_pool(Take::Copy));
        let mut statements = Durations::default();
        wait(observer.hostgroups()).iter().for_each(|line| statements.add(&line.statements));
        Reading {
            timestamp,
            at: Instant::now(),
            counters: Counters {
                statements: figures.questions,
                slow_statements: figures.slow_queries,
                errors: figures.generated_errors + figures.server_errors,
                client_bytes_received: figures.client_bytes_received,
                client_bytes_sent: figures.client_bytes_sent,
                cache_gets: figures.query_cache_gets,
                cache_hits: figures.query_cache_hits,
                cpu_ms: milliseconds(processor_time()),
            },
            gauges: Gauges {
                clients_connected: figures.connected_clients,
                clients_active: figures.busy_clients,
                backend_connections_used: servers.iter().map(|line| line.used).sum(),
                backend_connections_free: servers.iter().map(|line| line.free).sum(),
            },
            latencies: statements.buckets,
        }
    }

    /// Whether the interval that begins with this reading is over when another one begins. A clock that is set by a
    /// moment does not begin one: two rows with the same time would replace each other.
    fn is_over(&self, timestamp: i64, seconds: i64) -> bool {
        let half = Duration::from_secs(seconds.unsigned_abs()) / 2;
        timestamp != self.timestamp && self.at.elapsed() >= half
    }

    /// The interval between two readings.
    fn since(&self, before: &Reading) -> Traffic {
        Traffic {
            timestamp: before.timestamp,
            interval_ms: milliseconds(self.at.saturating_duration_since(before.at)),
            counters: self.counters.since(before.counters),
            average: self.gauges,
            highest: self.gauges,
            latencies: since(self.latencies, before.latencies),
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(timestamp: i64, at: Instant, statements: u64) -> Reading {
        Reading {
            timestamp,
            at,
            counters: Counters { statements, ..Counters::default() },
            gauges: Gauges { clients_connected: 2, ..Gauges::default() },
            latencies: [statements; BUCKETS],
        }
    }

    #[test]
    fn rows_have_what_was_counted_since_the_reading_before() {
        let (mut recorder, start) = (Recorder::default(), Instant::now());
        recorder.add(reading(100, start, 50));
        assert!(!recorder.has_unwritten(), "what was counted before the first reading has no time");
        recorder.add(reading(110, start + Duration::from_millis(9_500), 57));
        recorder.add(reading(120, start + Duration::from_millis(19_500), 3));
        let found = recorder.rows.iter().map(|row| {
            (
                row.timestamp,
                row.interval_ms,
                row.counters.statements,
                row.latencies[0],
                row.highest.clients_connected,
            )
        });
        let found: Vec<_> = found.collect();
        assert_eq!(found, [(100, 9_500, 7, 7, 2), (110, 10_000, 3, 3, 2)]);
    }

    #[test]
    fn rows_in_memory_are_bounded() {
        let (mut recorder, start) = (Recorder::default(), Instant::now());
        for number in 0..1_000 {
            recorder.add(reading(number * 10, start, 0));
        }
        assert_eq!(recorder.rows.len(), MOST_UNWRITTEN);
        assert_eq!(recorder.rows.back().map(|row| row.timestamp), Some(9_980));
    }

    #[test]
    fn an_interval_ends_at_its_time_and_not_when_a_clock_is_set_by_a_moment() {
        let now = Instant::now();
        let before =
            |seconds| now.checked_sub(Duration::from_secs(seconds)).expect("the machine runs for longer");
        assert!(!reading(100, before(9), 0).is_over(100, 10));
        assert!(reading(100, before(9), 0).is_over(110, 10));
        assert!(!reading(100, before(1), 0).is_over(90, 10));
        assert!(reading(100, before(9), 0).is_over(90, 10));
    }
}
