//! Handles the end of worker processes: another one takes over, after a longer delay each time if it keeps dying.

use std::process::ExitCode;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::process::{Death, Id, Process};
use super::{AGAIN, DeadProcess, Next, OnDeath, STANDBY_RETRY, Supervisor, takeover};
use crate::last_words;

impl Supervisor {
    /// A process has ended.
    pub(super) fn ended(&mut self, id: Id, death: Death) -> Next {
        if self.serving.as_ref().is_some_and(|process| process.id == id) {
            let process = self.serving.take().expect("checked above");
            return self.serving_ended(process, death);
        }
        if self.standby.as_ref().is_some_and(|standby| standby.process.id == id) {
            warn!(%death, "the standby process ended");
            self.standby = None;
            self.standby_at = Some(Instant::now() + STANDBY_RETRY);
            if self.serving.is_some() {
                return Next::Go;
            }
            // This process was to serve at once, and its configuration may be the reason why it failed.
            self.frozen = None;
            return self.start_next();
        }
        self.newcomer_ended(id, death);
        self.leaving.retain(|process| process.id != id);
        if self.is_stopping && self.serving.is_none() && self.leaving.is_empty() {
            return Next::End(ExitCode::SUCCESS);
        }
        Next::Go
    }

    fn serving_ended(&mut self, process: Process, death: Death) -> Next {
        // The exit status of a process that was taken over is not visible, but the process has sent it.
        let announced = self.announced.take();
        let death = if death == Death::Unknown { announced.unwrap_or(death) } else { death };
        if self.is_stopping {
            return if self.leaving.is_empty() { Next::End(ExitCode::SUCCESS) } else { Next::Go };
        }
        match death {
            Death::Exited(0) => {
                info!("the worker process was told to end");
                self.dismiss_all(Signal::TERM);
                Next::End(ExitCode::SUCCESS)
            }
            Death::Exited(status) if status == i32::from(AGAIN) => {
                info!("the worker process was told to restart");
                self.frozen = None;
                self.dismiss_standby();
                self.start_next()
            }
            // The process has reported the reason.
            Death::Exited(_) if !self.has_served => Next::End(ExitCode::FAILURE),
            _ => self.serving_died(process, death),
        }
    }

    /// Handles the end of a worker process that was not told to end.
    fn serving_died(&mut self, process: Process, death: Death) -> Next {
        let served = process.since.elapsed();
        let pid = process.pid.as_raw_nonzero().get().unsigned_abs();
        let said = last_words::said(&self.launch.datadir, pid);
        let backtrace = said.map_or(String::new(), |path| path.display().to_string());
        let served_s = served.as_secs_f64();
        error!(pid, %death, served_s, backtrace, "the worker process has died");
        takeover::report_death(&self.launch, process.pid, &death.to_string());
        if self.on_death == OnDeath::End {
            self.dismiss_all(Signal::TERM);
            return Next::End(ExitCode::FAILURE);
        }
        self.deaths_in_a_row = if served < IMMEDIATE { self.deaths_in_a_row + 1 } else { 0 };
        let excess = self.deaths_in_a_row.saturating_sub(FREE_DEATHS);
        if excess == 0 {
            let was_killed = death.was_asked_for();
            self.transfers.extend(process.transfer.map(|way| DeadProcess {
                way,
                was_killed,
                was_told_of: false,
            }));
            return self.start_next();
        }
        self.transfers.clear();
        // The configuration may be what kills it, so the next process reads the databases again.
        self.frozen = None;
        self.dismiss_standby();
        let delay = (FIRST_DELAY * 2_u32.saturating_pow(excess - 1)).min(LONGEST_DELAY);
        warn!(
            deaths = self.deaths_in_a_row,
            delay_ms = delay.as_millis(),
            "restart is delayed after repeated crashes, and from disk: what was loaded or edited and not saved is lost"
        );
        self.serve_again_at = Some(Instant::now() + delay);
        Next::Go
    }
}

/// A process that dies within this time has failed to start.
const IMMEDIATE: Duration = Duration::from_millis(200);

/// After this many such deaths in a row, the next start is delayed: longer each time, from the first delay to the
/// longest.
const FREE_DEATHS: u32 = 5;
const FIRST_DELAY: Duration = Duration::from_millis(100);
pub(super) const LONGEST_DELAY: Duration = Duration::from_secs(10);
