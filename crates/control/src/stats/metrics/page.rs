//! The text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write};

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows, until the process ends.
    Counter,
    /// A current value.
    Gauge,
    /// How often a value was within each of some limits.
    Histogram,
    /// Unknown: it is both, among the metrics that are named after a table's rows.
    Untyped,
}

impl MetricKind {
    fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
            MetricKind::Untyped => "untyped",
        }
    }
}

/// Names and values of labels.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A page of metrics.
pub struct Page {
    text: String,
    /// The most time series of one metric.
    most: usize,
    /// Time series that were left out.
    left_out: u64,
}

/// A metric on the page, which is complete when this is dropped: its time series follow one another.
pub struct Metric<'a> {
    page: &'a mut Page,
    name: &'a str,
    series: usize,
}

impl Page {
    /// An empty page, with at most so many time series of a metric.
    pub fn new(most: usize) -> Page {
        Page { text: String::new(), most, left_out: 0 }
    }

    /// Begins a metric. `help` is one sentence.
    pub fn metric<'a>(&'a mut self, name: &'a str, kind: MetricKind, help: &str) -> Metric<'a> {
        let kind = kind.name();
        self.write(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        Metric { page: self, name, series: 0 }
    }

    /// A metric with one time series, without labels.
    pub fn single(&mut self, name: &str, kind: MetricKind, help: &str, value: impl Display) {
        self.metric(name, kind, help).value(&[], value);
    }

    /// Time series that were left out.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.text
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("writing to a String cannot fail");
    }

    fn labels(&mut self, labels: Labels<'_>, last: Option<(&str, &str)>) {
        let mut between = '{';
        for (name, value) in labels.iter().copied().chain(last) {
            self.text.push(between);
            self.text.push_str(name);
            self.text.push_str("=\"");
            for letter in value.chars() {
                match letter {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    letter => self.text.push(letter),
                }
            }
            self.text.push('"');
            between = ',';
        }
        if between == ',' {
            self.text.push('}');
        }
    }
}

impl Metric<'_> {
    /// Adds a time series.
    pub fn value(&mut self, labels: Labels<'_>, value: impl Display) {
        if self.is_one_more() {
            self.line("", labels, None, value);
        }
    }

    /// Adds a histogram: its limits in seconds with the number of values in each bucket, the values above, and the sum in
    /// seconds.
    pub fn histogram(
        &mut self,
        labels: Labels<'_>,
        buckets: impl Iterator<Item = (f64, u64)>,
        above: u64,
        sum: f64,
    ) {
        if !self.is_one_more() {
            return;
        }
        let mut all = 0;
        for (limit, count) in buckets {
            all += count;
            self.line("_bucket", labels, Some(("le", &limit.to_string())), all);
        }
        all += above;
        self.line("_bucket", labels, Some(("le", "+Inf")), all);
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, all);
    }

    fn is_one_more(&mut self) -> bool {
        let fits = self.series < self.page.most;
        self.series += 1;
        self.page.left_out += u64::from(!fits);
        fits
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, last: Option<(&str, &str)>, value: impl Display) {
        self.page.text.push_str(self.name);
        self.page.text.push_str(suffix);
        self.page.labels(labels, last);
        self.page.write(format_args!(" {value}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_written_as_the_format_requires() {
        let mut page = Page::new(2);
        page.single("a_total", MetricKind::Counter, "How many.", 7);
        let mut metric = page.metric("b", MetricKind::Gauge, "Which.");
        metric.value(&[("name", "a\\b\"c\nd"), ("other", "")], 1);
        metric.value(&[("name", "x")], 0.5);
        metric.value(&[("name", "y")], 3);
        let buckets = [(0.001, 2), (1.0, 1)].into_iter();
        page.metric("c_seconds", MetricKind::Histogram, "How long.").histogram(
            &[("to", "x")],
            buckets,
            4,
            12.25,
        );
        assert_eq!(page.left_out(), 1);
        let wanted = concat!(
            "# HELP a_total How many.\n# TYPE a_total counter\na_total 7\n",
            "# HELP b Which.\n# TYPE b gauge\nb{name=\"a\\\\b\\\"c\\nd\",other=\"\"} 1\nb{name=\"x\"} 0.5\n",
            "# HELP c_seconds How long.\n# TYPE c_seconds histogram\n",
            "c_seconds_bucket{to=\"x\",le=\"0.001\"} 2\nc_seconds_bucket{to=\"x\",le=\"1\"} 3\n",
            "c_seconds_bucket{to=\"x\",le=\"+Inf\"} 7\nc_seconds_sum{to=\"x\"} 12.25\nc_seconds_count{to=\"x\"} 7\n",
        );
        assert_eq!(page.into_text(), wanted);
    }
}
