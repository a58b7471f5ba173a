//! What has become of jobs, for operators.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use narrows_proxy::clock::since_1970;

use super::job::ScheduledJob;

/// The figures of all jobs, by id.
#[derive(Debug, Default)]
pub struct Figures(BTreeMap<i64, JobFigures>);

/// The figures of one job since it was first loaded in this process.
#[derive(Debug, Clone, Default)]
pub struct JobFigures {
    /// The program, as configured.
    pub filename: String,
    /// How many times it was started.
    pub runs: u64,
    /// How many of them did not end with exit status 0, or could not be started.
    pub failures: u64,
    /// How many of them reached the time limit.
    pub timeouts: u64,
    /// How many times it was not started because it was still running, or too many others were.
    pub skipped: u64,
    /// When the current run began, if there is one.
    pub running_since: Option<SystemTime>,
    /// When the last run began.
    pub last_started: Option<SystemTime>,
    /// The last run that has ended.
    pub last: Option<LastRun>,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct LastRun {
    /// How long it took.
    pub took: Duration,
    /// Its end in words: `0`, `exit status 1`, `signal 9`, or why it could not be started.
    pub end: String,
    /// The beginning of what it wrote.
    pub output: String,
    /// The bytes it wrote that are not in `output`.
    pub dropped: u64,
}

impl JobFigures {
    /// How long the current run has been running, in milliseconds.
    pub fn running_ms(&self) -> Option<u64> {
        let running = self.running_since?.elapsed().unwrap_or_default();
        Some(in_ms(running))
    }

    /// When the last run began, in seconds since 1970.
    pub fn last_started_s(&self) -> Option<u64> {
        Some(since_1970(self.last_started?).as_secs())
    }
}

impl LastRun {
    /// How long it took, in milliseconds.
    pub fn took_ms(&self) -> u64 {
        in_ms(self.took)
    }
}

/// A duration in milliseconds.
pub(super) fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Figures {
    /// Forgets all jobs but these.
    pub fn follow<'a>(&mut self, jobs: impl Iterator<Item = &'a ScheduledJob>) {
        let mut before = std::mem::take(&mut self.0);
        for job in jobs {
            // Another program does not continue the figures of the former one.
            let known = before.remove(&job.id).filter(|figures| figures.filename == job.filename);
            let new = || JobFigures { filename: job.filename.clone(), ..JobFigures::default() };
            self.0.insert(job.id, known.unwrap_or_else(new));
        }
    }

    /// Those of a job, unless it is no longer configured.
    pub fn of(&mut self, id: i64) -> Option<&mut JobFigures> {
        self.0.get_mut(&id)
    }

    /// All of them.
    pub fn all(&self) -> Vec<(i64, JobFigures)> {
        self.0.iter().map(|(id, figures)| (*id, figures.clone())).collect()
    }
}
