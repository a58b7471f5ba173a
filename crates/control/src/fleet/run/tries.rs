//! The version on trial that this member tries: it is watched here, whether etcd can be reached or not.

use std::rc::Rc;
use std::time::Duration;

use narrows_proxy::rt::{Instant, JoinHandle, spawn_local};

use super::super::duty::{TrialDuty, Unreached, reach_all};
use super::super::standing::{MemberTrial, Standing};
use super::Runner;
use crate::versions::FleetMark;

/// A version that this member tries.
pub(super) struct Tried {
    trial: MemberTrial,
    unreached: Unreached,
    reaching: JoinHandle<()>,
}

impl Drop for Tried {
    fn drop(&mut self) {
        self.reaching.abort();
    }
}

impl Runner {
    /// A version was applied, and this is to be proven about it if it is on trial.
    pub(super) fn begin_to_try(&mut self, mark: FleetMark, duty: Option<TrialDuty>) {
        self.tried = duty.filter(|_| mark.is_on_trial).map(|duty| {
            let trial = MemberTrial::new(mark.version, self.length_of(mark.version), &duty);
            let unreached = Unreached::default();
            unreached.replace(Some("has not reached the servers yet".to_owned()));
            let reaching = spawn_local(reach_all(duty, Rc::clone(&unreached), Rc::clone(&self.woken)));
            Tried { trial, unreached, reaching }
        });
    }

    /// Takes notice of how it is here.
    pub(super) fn go_on_trying(&mut self) {
        let Some(tried) = &mut self.tried else { return };
        let unreached = tried.unreached.borrow().clone();
        tried.trial.go_on(Instant::now(), &self.status, unreached);
    }

    /// How far this member is with the version that it tries.
    pub(super) fn standing(&self) -> Option<(i64, Standing)> {
        let trial = &self.tried.as_ref()?.trial;
        Some((trial.version, trial.standing().clone()))
    }

    /// For how long a version on trial must run.
    fn length_of(&self, version: i64) -> Duration {
        let trial = self.seen.trial.as_ref().filter(|trial| trial.mark.version == version);
        trial.map_or(Duration::MAX, |trial| Duration::from_secs(trial.seconds))
    }
}
