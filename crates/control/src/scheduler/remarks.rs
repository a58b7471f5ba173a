//! What the log says of runs: what failed or complained, each thing once for as long as it stays the same.

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
}

/// What was said.
#[derive(Debug)]
struct Remark {
    said: String,
    at: Instant,
    /// How many runs were the same since then.
    repeated: u64,
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
        if let Some(before) = self.is_news(job.id, error.to_string()) {
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

    /// Remarks how a run ended, if it failed or has written to standard error.
    pub fn ended(&mut self, run: &Run, succeeded: bool, end: &str, took: Duration) {
        let (id, program) = (run.job.id, &run.job.filename);
        if succeeded && !run.output.has_complaint() {
            self.ends.remove(&id);
            return;
        }
        let output = run.output.in_one_line();
        let Some(before) = self.is_news(id, format!("{end} {} {output}", run.is_late)) else { return };
        let took_ms = in_ms(took);
        match (run.is_late, succeeded) {
            (true, _) => tracing::warn!(
                id,
                program,
                end,
                took_ms,
                output,
                before,
                "a program of the scheduler was ended: it took longer than admin-scheduler_timeout_ms"
            ),
            (false, false) => {
                tracing::warn!(
                    id,
                    program,
                    end,
                    took_ms,
                    output,
                    before,
                    "a program of the scheduler failed"
                );
            }
            (false, true) => {
                tracing::info!(
                    id,
                    program,
                    took_ms,
                    output,
                    before,
                    "a program of the scheduler wrote to standard error"
                );
            }
        }
    }

    /// How many runs were the same and not logged, if this is to be logged: it differs from the last time, or that was
    /// long ago.
    fn is_news(&mut self, id: i64, said: String) -> Option<u64> {
        let now = Instant::now();
        let repeated = match self.ends.get_mut(&id) {
            Some(known) if known.said == said && now.duration_since(known.at) < REPEAT => {
                known.repeated += 1;
                return None;
            }
            Some(known) => known.repeated,
            None => 0,
        };
        self.ends.insert(id, Remark { said, at: now, repeated: 0 });
        Some(repeated)
    }
}

/// After this time, what is still the same is logged again.
const REPEAT: Duration = Duration::from_secs(600);
