//! The programs that the scheduler runs: those of the runtime table, within the time limit of the variable.

use std::time::Duration;

use super::Runtime;
use crate::scheduler::{JobFigures, ScheduledJob};
use crate::store::Store;
use crate::variables::Value;

impl Runtime {
    /// Makes the scheduler run what the store has at runtime; returns what cannot be run.
    pub(super) fn schedule(&self, store: &Store) -> Vec<String> {
        let jobs = ScheduledJob::of_rows(store.running_rows("scheduler"));
        let limit_ms = match store.variables().value("admin-scheduler_timeout_ms") {
            Some(Value::Integer(limit)) => u64::try_from(*limit).unwrap_or(0),
            _ => 0,
        };
        self.scheduler.follow(jobs, Some(Duration::from_millis(limit_ms)).filter(|limit| !limit.is_zero()))
    }

    /// What has become of the scheduler's jobs, by id.
    pub fn job_figures(&self) -> Vec<(i64, JobFigures)> {
        self.scheduler.figures()
    }
}
