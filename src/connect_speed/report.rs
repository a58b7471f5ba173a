//! The outcome of the connections: counts, reasons, and how long connects took.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::ErrorKind;
use std::time::Duration;

use narrows_proxy::backend::BackendError;
use serde_json::json;

/// The outcome of connections.
#[derive(Debug, Default)]
pub struct Report {
    ok: u64,
    /// Connects to an address where nobody listened: the error that a restart must not cause.
    refused: u64,
    /// Connections that were accepted and failed later: in the login or in a statement.
    lost: u64,
    /// How often each reason occurred.
    reasons: BTreeMap<String, u64>,
    /// How long the connects that led to a login took, in us.
    latencies_us: Vec<u64>,
}

impl Report {
    /// Counts a connection that logged in, received its answers and was closed.
    pub fn served(&mut self, took: Duration) {
        self.ok += 1;
        self.took(took);
    }

    /// Counts a connection that could not log in.
    pub fn refused(&mut self, error: &BackendError) {
        let nobody = [ErrorKind::ConnectionRefused, ErrorKind::NotFound];
        match error {
            BackendError::Io(error) if nobody.contains(&error.kind()) => self.refused += 1,
            _ => self.lost += 1,
        }
        self.note(error);
    }

    /// Counts a connection that logged in and did not receive its answers.
    pub fn lost(&mut self, took: Duration, error: &BackendError) {
        self.lost += 1;
        self.took(took);
        self.note(error);
    }

    fn took(&mut self, took: Duration) {
        self.latencies_us.push(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    fn note(&mut self, error: &BackendError) {
        *self.reasons.entry(error.to_string()).or_default() += 1;
    }

    /// Adds the results of another thread.
    pub fn add(&mut self, part: Report) {
        self.ok += part.ok;
        self.refused += part.refused;
        self.lost += part.lost;
        self.latencies_us.extend(part.latencies_us);
        for (reason, count) in part.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
    }

    /// Connections that failed, early or late.
    pub fn failed(&self) -> u64 {
        self.refused + self.lost
    }

    /// The latency percentile `share` of the connects, in us.
    fn within(&self, share: usize) -> u64 {
        let mut sorted = self.latencies_us.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * share).div_ceil(100).saturating_sub(1);
        sorted.get(at).copied().unwrap_or(0)
    }

    /// Connects by latency: the upper bound of each row in us, a power of two, and the number of connects in it.
    fn rows(&self) -> BTreeMap<u64, u64> {
        let mut rows = BTreeMap::new();
        for latency in &self.latencies_us {
            *rows.entry(latency.next_power_of_two()).or_default() += 1;
        }
        rows
    }

    /// The report as text.
    pub fn text(&self, took: Duration, histogram: bool) -> String {
        let mut text = format!("OK {}\nERR {}\n", self.ok, self.failed());
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            writeln!(text, "{name}: {value}").expect("writing to a String cannot fail");
        };
        if self.failed() > 0 {
            line("refused", &self.refused);
            line("lost", &self.lost);
        }
        for (reason, count) in &self.reasons {
            line(&format!("  {count} times"), reason);
        }
        line("clock time", &format_args!("{:.3} s", took.as_secs_f64()));
        let [half, most, all] = [50, 99, 100].map(|share| self.within(share));
        line("connect", &format_args!("p50 {half} us, p99 {most} us, longest {all} us"));
        if histogram {
            let rows = self.rows();
            let highest = rows.values().copied().max().unwrap_or(1);
            for (bound, count) in rows {
                let length = usize::try_from(count * BAR / highest).unwrap_or(0).max(1);
                writeln!(text, "{bound:>10} us {count:>9} {}", "#".repeat(length))
                    .expect("writing to a String cannot fail");
            }
        }
        text
    }

    /// The report as JSON.
    pub fn json(&self, took: Duration) -> String {
        let [half, most, all] = [50, 99, 100].map(|share| self.within(share));
        let rows = self.rows();
        let rows: Vec<_> =
            rows.iter().map(|(bound, count)| json!({"up_to_us": bound, "count": count})).collect();
        let object = json!({
            "ok": self.ok,
            "err": self.failed(),
            "refused": self.refused,
            "lost": self.lost,
            "reasons": self.reasons,
            "clock_s": took.as_secs_f64(),
            "connect_us": {"p50": half, "p99": most, "max": all},
            "histogram": rows,
        });
        format!("{object}\n")
    }
}

/// The longest bar of a histogram, in characters.
const BAR: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_rows_are_of_all_threads() {
        let mut report = Report::default();
        for us in [100, 200, 300] {
            let mut part = Report::default();
            part.served(Duration::from_micros(us));
            report.add(part);
        }
        assert_eq!((report.ok, report.failed()), (3, 0));
        assert_eq!([50, 99, 100].map(|share| report.within(share)), [200, 300, 300]);
        assert_eq!(report.rows(), BTreeMap::from([(128, 1), (256, 1), (512, 1)]));
    }

    #[test]
    fn nobody_listening_is_told_from_a_connection_that_breaks() {
        let mut report = Report::default();
        report.refused(&BackendError::Io(ErrorKind::ConnectionRefused.into()));
        report.refused(&BackendError::Closed);
        report.lost(Duration::from_micros(7), &BackendError::Closed);
        assert_eq!((report.refused, report.lost, report.failed()), (1, 2, 3));
        assert!(report.text(Duration::ZERO, true).contains("  2 times: the server closed the connection\n"));
    }

    #[test]
    fn nothing_done_is_reported_too() {
        assert!(
            Report::default().text(Duration::ZERO, true).starts_with("OK 0\nERR 0\nclock time: 0.000 s\n")
        );
    }
}
