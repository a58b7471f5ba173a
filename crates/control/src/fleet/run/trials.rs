//! Changes that administrators have proposed here, and the trials that were begun here.

use std::sync::mpsc::Sender;
use std::time::Duration;

use narrows_proxy::rt::Instant;

use super::super::etcd::USUAL_TIME;
use super::super::member::FleetTrial;
use super::super::propose::{self, Proposal};
use super::super::record;
use super::super::report::NodeReport;
use super::super::taken_back::{self, TakenBack};
use super::super::transaction::Transaction;
use super::super::trial::{TrialState, judge};
use super::{Runner, now};

/// A trial that was begun here.
pub(super) struct OwnTrial {
    version: i64,
    began: Instant,
    healthy_since: Option<Instant>,
    /// Why it is taken back.
    failed: Option<String>,
    outcome: Sender<Result<i64, String>>,
}

impl Runner {
    /// Stores a change as the next version, or begins its trial.
    pub(super) async fn propose(&mut self, proposal: Proposal) {
        let lease = self.lease.map(|(lease, _)| lease);
        let stored = match self.look().await {
            _ if self.own.obstacle().is_some() => Err(self.own.obstacle().unwrap_or_default()),
            Ok(()) => {
                let here = (&self.member, &self.seen, lease);
                propose::store((&mut self.etcd, &self.keys), here, &proposal).await
            }
            Err(reason) => Err(format!("etcd cannot be reached ({reason}); nothing has changed")),
        };
        match (stored, &proposal.trial) {
            (Ok(version), Some(_)) => {
                let (began, outcome) = (Instant::now(), proposal.outcome);
                self.trial = Some(OwnTrial { version, began, healthy_since: None, failed: None, outcome });
            }
            // A control thread that has ended needs no answer.
            (stored, _) => drop(proposal.outcome.send(stored)),
        }
    }

    /// Ends a trial that was begun here, once it is known how.
    pub(super) async fn go_on_with_trial(&mut self) {
        let here = self.seen.trial.clone().filter(|trial| trial.by == self.member.node);
        let Some(mut own) = self.trial.take() else {
            // A former process has begun it.
            if let Some(trial) = here.filter(|_| self.own.is_ours()) {
                tracing::warn!(
                    version = trial.version,
                    "a trial is taken back: the process that began it has ended"
                );
                self.take_back(&trial, "the process that began it has ended").await;
            }
            return;
        };
        let Some(trial) = here.filter(|trial| trial.version == own.version) else {
            let lost = || "its lease in etcd has ended".to_owned();
            let outcome = match self.seen.head >= own.version {
                true => Ok(own.version),
                false => Err(format!(
                    "version {} was taken back: {}",
                    own.version,
                    own.failed.unwrap_or_else(lost)
                )),
            };
            return drop(own.outcome.send(outcome));
        };
        if let Some(reason) = &own.failed {
            self.take_back(&trial, reason).await;
        } else if let Ok(reports) = self.members().await {
            self.judge(&mut own, &trial, &reports).await;
        }
        self.trial = Some(own);
    }

    /// Does with a trial what the reports ask for.
    async fn judge(&mut self, own: &mut OwnTrial, trial: &FleetTrial, reports: &[NodeReport]) {
        match judge(trial, reports, own.began.elapsed(), own.healthy_since.is_some()) {
            TrialState::Waits => {}
            TrialState::TakenBack(reason) => {
                tracing::warn!(version = own.version, reason, "a version of the fleet is taken back");
                self.take_back(trial, &reason).await;
                own.failed = Some(reason);
            }
            TrialState::Healthy => {
                let since = *own.healthy_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= Duration::from_secs(trial.seconds) {
                    self.promote(trial).await;
                }
            }
        }
    }

    /// Makes the version on trial the head. Whether that has succeeded is seen at the next look.
    async fn promote(&mut self, trial: &FleetTrial) {
        let head = record::head(trial.version, self.seen.last);
        let promote = Transaction::default()
            .when(&self.keys.head(), self.seen.revision)
            .when(&self.keys.trial(), trial.revision)
            .put(&self.keys.head(), head, None)
            .delete(&self.keys.trial());
        let _ = self.etcd.run(&promote, USUAL_TIME).await;
    }

    /// Ends a trial, and stores why. Whether that has succeeded is seen at the next look.
    async fn take_back(&mut self, trial: &FleetTrial, reason: &str) {
        let (key, trial_key) = (self.keys.taken_back(), self.keys.trial());
        let read = Transaction::default().get(&key);
        let Ok(outcome) = self.etcd.run(&read, USUAL_TIME).await else { return };
        let found = outcome.first();
        let one = TakenBack {
            version: trial.version,
            by: trial.by.clone(),
            nodes: trial.nodes.clone(),
            reason: reason.to_owned(),
            at: now(),
        };
        let end = Transaction::default()
            .when(&trial_key, trial.revision)
            .when(&key, found.map_or(0, |pair| pair.revision))
            .put(&key, taken_back::with(found.map(|pair| pair.value.as_slice()), &one), None)
            .delete(&trial_key);
        let _ = self.etcd.run(&end, USUAL_TIME).await;
    }
}
