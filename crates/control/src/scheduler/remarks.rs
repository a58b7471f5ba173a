//! What the log says of runs: what failed or complained, each thing once for as long as it stays the same, and of each job
//! one line a minute at most, whatever it says.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use super::figures::in_ms;
use super::job::ScheduledJob;
use super::run::Run;

/// What was last said of each job.
#[derive(Debug, Default)]
pub struct Remarks {
    ends: BTreeMap<i64, Remark>,
    /// When it was last said of a job that it was due again while it ran.
    overruns: BTreeMap<i64, Instant>,
    /// When it was last said that too many run.
    full: Option<Instant>,
}

/// What was said.
#[derive(Debug)]
struct Remark {
    said: String,
    at: Instant,
    /// How many runs have failed or complained since then and were not logged.
    unsaid: u64,
}

impl Remarks {
    /// Forgets all jobs but these.
    pub fn follow<'a>(&mut self, jobs: impl Iterator<Item = &'a ScheduledJob>) {
        let ids: Vec<i64> = jobs.map(|job| job.id).collect();
        self.ends.retain(|id, _| ids.contains(id));
        self.overruns.retain(|id, _| ids.contains(id));
    }

    /// Remarks that a program could not be started.
    pub fn not_started(&mut self, job: &ScheduledJob, error: &io::Error) {
        if let Some(before) = self.is_news(job.id, error.to_string(), Instant::now()) {
            let (id, program) = (job.id, &job.filename);
            tracing::warn!(id, program, %error, before, "a program of the scheduler cannot be started");
        }
    }

    /// Remarks that a job was due again while it ran: seldom, as it may be so at each interval.
    pub fn overrun(&mut self, run: &Run) {
        let (id, program, now) = (run.job.id, &run.job.filename, Instant::now());
        if self.overruns.get(&id).is_some_and(|last| now.duration_since(*last) < REPEAT) {
            return;
        }
        self.overruns.insert(id, now);
        tracing::warn!(
            id,
            program,
            running_ms = in_ms(run.since.elapsed()),
            "a program of the scheduler is due again and still runs; it is not started twice"
        );
    }

    /// Remarks that a job waits until one of `running` others has ended.
    pub fn full(&mut self, job: &ScheduledJob, running: usize) {
        let now = Instant::now();
        if self.full.is_none_or(|last| now.duration_since(last) >= BETWEEN) {
            self.full = Some(now);
            let id = job.id;
            tracing::warn!(
                id,
                running,
                "many programs of the scheduler run at once: those that are due wait"
            );
        }
    }

    /// Remarks how a run ended, if it failed or has written to standard error.
    pub fn ended(&mut self, run: &Run, succeeded: bool, end: &str, took: Duration) {
        let (id, program) = (run.job.id, &run.job.filename);
        if succeeded && !run.output.has_complaint() {
            // A job that fails now and then is as loud as one that always does.
            if let Some(known) = self.ends.get_mut(&id) {
                known.said.clear();
            }
            return;
        }
        let output = run.output.in_one_line();
        let Some(before) = self.is_news(id, format!("{end} {} {output}", run.is_late), Instant::now()) else {
            return;
        };
        let took_ms = in_ms(took);
        let what = match (run.is_late, succeeded) {
            (true, _) => "was ended: it took longer than admin-scheduler_timeout_ms",
            (false, false) => "failed",
            (false, true) => "wrote to standard error",
        };
        if run.is_late || !succeeded {
            tracing::warn!(id, program, end, took_ms, output, before, "a program of the scheduler {what}");
        } else {
            tracing::info!(id, program, took_ms, output, before, "a program of the scheduler {what}");
        }
    }

    /// How many runs before this one were not logged, if this one is to be: it differs from the last one that was, or that
    /// was long ago.
    fn is_news(&mut self, id: i64, said: String, now: Instant) -> Option<u64> {
        let unsaid = match self.ends.get_mut(&id) {
            Some(known) => {
                let quiet = if known.said == said { REPEAT } else { BETWEEN };
                if now.saturating_duration_since(known.at) < quiet {
                    known.unsaid += 1;
                    return None;
                }
                known.unsaid
            }
            None => 0,
        };
        self.ends.insert(id, Remark { said, at: now, unsaid: 0 });
        Some(unsaid)
    }
}

/// What differs with each run, as a text with a time, is logged this often, as much as the log has of other repeated events.
const BETWEEN: Duration = Duration::from_secs(60);

/// After this time, what is still the same is logged again.
const REPEAT: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_with_each_run_is_logged_once_a_minute_and_counted() {
        let (mut remarks, begin) = (Remarks::default(), Instant::now());
        let mut logged = Vec::new();
        for second in 0..180 {
            let now = begin + Duration::from_secs(second);
            logged.extend(
                remarks.is_news(1, format!("failed at {second}"), now).map(|before| (second, before)),
            );
        }
        assert_eq!(logged, [(0, 0), (60, 59), (120, 59)]);
        assert_eq!(remarks.is_news(2, "another job".to_owned(), begin), Some(0));
    }

    #[test]
    fn what_stays_the_same_is_logged_every_ten_minutes() {
        let (mut remarks, begin) = (Remarks::default(), Instant::now());
        let mut said =
            |text: &str, second| remarks.is_news(1, text.to_owned(), begin + Duration::from_secs(second));
        assert_eq!((said("no", 0), said("no", 61), said("no", 599)), (Some(0), None, None));
        assert_eq!((said("no", 600), said("else", 630), said("else", 660)), (Some(2), None, Some(1)));
    }
}
