//! What a run measured.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Counters of a window, filled while it runs.
#[derive(Debug)]
pub struct Tally {
    /// Answers that were complete and correct.
    pub queries: u64,
    /// Rows, including those of answers that were unfinished when the window ended.
    pub rows: u64,
    /// Refused logins and statements, wrong answers, lost connections.
    pub errors: u64,
    /// The first of these failures.
    pub first_error: Option<String>,
    latency_ns: Histogram<u64>,
}

impl Tally {
    /// All zero. Latencies are kept with three significant digits, up to a minute.
    pub fn new() -> Tally {
        let latency_ns =
            Histogram::new_with_bounds(1_000, 60_000_000_000, 3).expect("the bounds are in order");
        Tally { queries: 0, rows: 0, errors: 0, first_error: None, latency_ns }
    }

    /// Counts a correct answer.
    pub fn answered(&mut self, latency: Duration) {
        self.queries += 1;
        self.latency_ns.saturating_record(latency.as_nanos() as u64);
    }

    /// Counts a failure.
    pub fn failed(&mut self, why: impl FnOnce() -> String) {
        self.errors += 1;
        self.first_error.get_or_insert_with(why);
    }

    /// The figures of a window that lasted `elapsed` and cost the generator `cpu`.
    pub fn report(&self, elapsed: Duration, cpu: Duration) -> Report {
        let microseconds = |ns: u64| ns as f64 / 1_000.0;
        Report {
            seconds: elapsed.as_secs_f64(),
            queries: self.queries,
            rows: self.rows,
            errors: self.errors,
            first_error: self.first_error.clone(),
            queries_per_second: self.queries as f64 / elapsed.as_secs_f64(),
            p50_us: microseconds(self.latency_ns.value_at_quantile(0.50)),
            p99_us: microseconds(self.latency_ns.value_at_quantile(0.99)),
            max_us: microseconds(self.latency_ns.max()),
            ns_per_row: (self.rows > self.queries).then(|| elapsed.as_nanos() as f64 / self.rows as f64),
            generator_cpu_ns: cpu.as_nanos() as u64,
        }
    }
}

/// The figures of a window.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Its length.
    pub seconds: f64,
    /// Correct answers; or connections, if each query has its own.
    pub queries: u64,
    /// Rows received.
    pub rows: u64,
    /// Failures of any kind.
    pub errors: u64,
    /// The text of the first failure.
    pub first_error: Option<String>,
    /// Correct answers per second.
    pub queries_per_second: f64,
    /// Median latency.
    pub p50_us: f64,
    /// 99th percentile of the latency.
    pub p99_us: f64,
    /// The slowest query.
    pub max_us: f64,
    /// Time (not CPU) per row, for answers with many rows.
    pub ns_per_row: Option<f64>,
    /// CPU of the load generator itself.
    pub generator_cpu_ns: u64,
}
