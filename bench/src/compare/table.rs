//! From samples to the lines of a table.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use super::cases::{Case, Unit};
use crate::load::Report;
use crate::peers::{CACHED, FAST_FORWARD, FORWARDER, HAPROXY};

/// One round of one peer in one case.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// What the load generator measured.
    #[serde(flatten)]
    pub report: Report,
    /// CPU of the proxy in the window; `None` without a proxy.
    pub proxy_cpu_ns: Option<u64>,
    /// Time in the window that something else kept the proxy off its core.
    pub proxy_wait_ns: Option<u64>,
    /// CPU of the mock server in the window.
    pub mock_cpu_ns: u64,
}

/// All rounds of one peer in one case.
#[derive(Debug, Serialize)]
pub struct Series {
    /// [`Case::name`]
    pub case: &'static str,
    /// What the CPU figures are divided by.
    pub unit: Unit,
    /// The peer's name.
    pub peer: &'static str,
    /// The rounds that could be measured.
    pub samples: Vec<Sample>,
    /// Why rounds are missing.
    pub failure: Option<String>,
}

impl Series {
    /// Proxy CPU per unit in each round, lowest first.
    pub fn proxy_cost(&self) -> Vec<f64> {
        self.sorted(|sample| sample.proxy_cpu_ns.map(|ns| self.per_unit(sample, ns)))
    }

    fn per_unit(&self, sample: &Sample, cpu_ns: u64) -> f64 {
        let units = match self.unit {
            Unit::Query | Unit::Connection => sample.report.queries,
            Unit::Row => sample.report.rows,
        };
        cpu_ns as f64 / self.unit.scale_ns() / units.max(1) as f64
    }

    fn sorted(&self, figure: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
        let mut figures: Vec<f64> = self.samples.iter().filter_map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures
    }

    pub fn median(&self, figure: impl Fn(&Sample) -> f64) -> Option<f64> {
        median(&self.sorted(|sample| Some(figure(sample))))
    }

    /// Failed logins, queries and connections in all rounds.
    pub fn errors(&self) -> u64 {
        self.samples.iter().map(|sample| sample.report.errors).sum()
    }

    fn line(&self, all: &[Series]) -> String {
        let cost = self.proxy_cost();
        let ratio_to = |peer: &str| {
            let other = all.iter().find(|series| series.peer == peer)?;
            Some(median(&cost)? / median(&other.proxy_cost())?)
        };
        let share = |figure: fn(&Sample) -> Option<u64>| {
            median(&self.sorted(|sample| Some(figure(sample)? as f64 / sample.report.seconds / 10_000_000.0)))
        };
        let rate = |sample: &Sample| match self.unit {
            Unit::Query | Unit::Connection => sample.report.queries_per_second,
            Unit::Row => sample.report.rows as f64 / sample.report.seconds,
        };
        let most = |figure: fn(&Sample) -> f64| self.sorted(|sample| Some(figure(sample))).last().copied();
        let mut line = format!("  {:<10}", self.peer);
        for (width, decimals, figure) in [
            (10, 2, cost.first().copied()),
            (9, 2, median(&cost)),
            (11, 2, ratio_to(HAPROXY)),
            (13, 2, ratio_to(FORWARDER)),
            (8, 0, share(|sample| sample.proxy_cpu_ns)),
            (8, 0, share(|sample| sample.proxy_wait_ns)),
            (11, 0, self.median(rate)),
            (9, 0, self.median(|sample| sample.report.p50_us)),
            (9, 0, self.median(|sample| sample.report.p99_us)),
            (9, 0, most(|sample| sample.report.max_us)),
        ] {
            match figure {
                Some(figure) => write!(line, "{figure:>width$.decimals$}"),
                None => write!(line, "{:>width$}", "-"),
            }
            .expect("writing to a String cannot fail");
        }
        let own = |cpu: fn(&Sample) -> u64| self.median(|sample| self.per_unit(sample, cpu(sample)));
        let generator = own(|sample| sample.report.generator_cpu_ns).unwrap_or_default();
        let mock = own(|sample| sample.mock_cpu_ns).unwrap_or_default();
        line + &format!("{:>8}{generator:>9.2}{mock:>9.2}", self.errors())
    }
}

/// The table of one case.
pub fn render(case: &Case, rounds: usize, window: Duration, all: &[Series]) -> String {
    let mut text = format!("\n{} ({} rounds of {:.1} s)\n", case.title, rounds, window.as_secs_f64());
    let rate = if case.unit == Unit::Row { "rows/s" } else { "queries/s" };
    text += &format!(
        "  {:<10}{:>10}{:>9}{:>11}{:>13}{:>8}{:>8}{rate:>11}{:>9}{:>9}{:>9}{:>8}{:>9}{:>9}\n",
        "CPU",
        case.unit.label(),
        "median",
        "x haproxy",
        "x forwarder",
        "busy %",
        "wait %",
        "p50 us",
        "p99 us",
        "max us",
        "errors",
        "load gen",
        "mock",
    );
    for series in all {
        if !series.samples.is_empty() {
            text += &series.line(all);
            text.push('\n');
        }
        if let Some(failure) = &series.failure {
            text += &format!("  {:<10} !! NOT MEASURED: {failure}\n", series.peer);
        }
        if let Some(error) = series.samples.iter().find_map(|sample| sample.report.first_error.as_ref()) {
            text += &format!("  {:<10} !! first error: {error}\n", "");
        }
    }
    if case.unit == Unit::Query {
        text += &hit_line(all).unwrap_or_default();
    }
    text
}

/// What an answer from the cache costs compared with the client's half of a round trip through fast_forward: one read
/// and one write out of four, without looking at the bytes.
fn hit_line(all: &[Series]) -> Option<String> {
    let cost = |peer: &str| median(&all.iter().find(|series| series.peer == peer)?.proxy_cost());
    let ratio = cost(CACHED)? / (cost(FAST_FORWARD)? / 2.0);
    let remark = if ratio > MOST_FOR_A_HIT { "  !! above the limit" } else { "" };
    Some(format!(
        "  An answer from the cache costs {ratio:.2} x the client's half of fast_forward; at most {MOST_FOR_A_HIT}.{remark}\n"
    ))
}

/// See [`hit_line`].
const MOST_FOR_A_HIT: f64 = 1.2;

/// The median of sorted figures; for an even number of them, the mean of the middle two.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cases::CASES;
    use crate::load::Tally;

    fn series(peer: &'static str, cpu_us: &[u64]) -> Series {
        let sample = |&us: &u64| {
            let mut tally = Tally::new();
            tally.answered(Duration::from_micros(50));
            let report = tally.report(Duration::from_secs(1), Duration::from_micros(3));
            Sample {
                report,
                proxy_cpu_ns: (us > 0).then_some(us * 1_000),
                proxy_wait_ns: None,
                mock_cpu_ns: 2_000,
            }
        };
        let samples = cpu_us.iter().map(sample).collect();
        Series { case: "point-1", unit: Unit::Query, peer, samples, failure: None }
    }

    #[test]
    fn ratios_compare_the_medians_of_the_rounds() {
        let all =
            [series("direct", &[0, 0]), series(HAPROXY, &[14, 10, 12]), series("narrows", &[13, 30, 15])];
        let text = render(&CASES[0], 3, Duration::from_secs(2), &all);
        let words =
            |line: usize| -> Vec<&str> { text.lines().nth(line).unwrap().split_whitespace().collect() };
        assert_eq!(words(3)[..4], ["direct", "-", "-", "-"]);
        assert_eq!(words(4)[..5], ["haproxy", "10.00", "12.00", "1.00", "-"]);
        assert_eq!(words(5)[..5], ["narrows", "13.00", "15.00", "1.25", "-"]);
    }

    #[test]
    fn an_answer_from_the_cache_is_held_against_half_of_a_round_trip() {
        let all = [series(FAST_FORWARD, &[10]), series(CACHED, &[6])];
        let text = render(&CASES[0], 1, Duration::from_secs(2), &all);
        assert!(text.contains("costs 1.20 x the client's half") && !text.contains("!!"), "{text}");
        let all = [series(FAST_FORWARD, &[10]), series(CACHED, &[7])];
        assert!(render(&CASES[0], 1, Duration::from_secs(2), &all).contains("1.40 x"));
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut absent = series("narrows", &[]);
        absent.failure = Some("no binary".to_owned());
        let text = render(&CASES[0], 3, Duration::from_secs(2), &[absent]);
        assert!(text.contains("!! NOT MEASURED: no binary"), "{text}");
    }
}
