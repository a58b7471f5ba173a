//! What has become of the scheduler's jobs: a table that administrators read, lines of the status, and metrics.
//!
//! The table is not among those that statistics users may read: what a program writes may be confidential.

use super::metrics::page::MetricKind::{self, Counter, Gauge};
use super::metrics::page::Page;
use crate::runtime::Runtime;
use crate::scheduler::JobFigures;
use crate::schema::cells::Row;
use crate::schema::filled;

/// The table, which is in `main`.
pub const SCHEDULER_RUNS: &str = "runtime_scheduler_runs";

/// Its rows.
pub fn scheduler_runs(runtime: &Runtime) -> Vec<Row> {
    runtime.job_figures().into_iter().map(filled::scheduler_runs).collect()
}

/// A line for each job: its id, and what has become of it.
pub(super) fn lines(runtime: &Runtime) -> Vec<(String, String)> {
    let line = |(id, job): (i64, JobFigures)| {
        let JobFigures { runs, failures, timeouts, skipped, .. } = job;
        let figures = format!("{runs} runs, {failures} failed, {timeouts} took too long, {skipped} skipped");
        let last = job.last.as_ref().map_or_else(String::new, |last| {
            format!("; the last one took {} ms: {}", last.took_ms(), last.end)
        });
        let now = job.running_ms().map_or_else(String::new, |ms| format!("; running for {ms} ms"));
        (format!("scheduler_{id}"), format!("{}: {figures}{last}{now}", job.filename))
    };
    runtime.job_figures().into_iter().map(line).collect()
}

/// Writes the metrics.
pub(super) fn write(page: &mut Page, runtime: &Runtime) {
    let jobs = runtime.job_figures();
    for (name, kind, help, value) in SERIES {
        let mut metric = page.metric(name, *kind, help);
        for (id, job) in &jobs {
            if let Some(value) = value(job) {
                metric.value(&[("id", &id.to_string()), ("program", &job.filename)], value);
            }
        }
    }
}

/// A metric: its name, kind and help, and its value for a job.
type Series = (&'static str, MetricKind, &'static str, fn(&JobFigures) -> Option<f64>);

#[rustfmt::skip]
const SERIES: &[Series] = &[
    ("narrows_scheduler_runs_total", Counter, "How many times a program of the scheduler was started.", |job| Some(job.runs as f64)),
    ("narrows_scheduler_failures_total", Counter, "Runs of it that did not end with exit status 0, or could not be started.", |job| Some(job.failures as f64)),
    ("narrows_scheduler_timeouts_total", Counter, "Runs of it that were ended because they took too long.", |job| Some(job.timeouts as f64)),
    ("narrows_scheduler_skipped_total", Counter, "How many times it was due and not started, because it was still running or too many others were.", |job| Some(job.skipped as f64)),
    ("narrows_scheduler_running", Gauge, "Whether it runs now.", |job| Some(f64::from(u8::from(job.running_since.is_some())))),
    ("narrows_scheduler_last_started_timestamp_seconds", Gauge, "When it was last started, in seconds since 1970.", |job| job.last_started_s().map(|s| s as f64)),
    ("narrows_scheduler_last_duration_seconds", Gauge, "How long the last run took that has ended.", |job| Some(job.last.as_ref()?.took.as_secs_f64())),
];
