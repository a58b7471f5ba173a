//! Changes that administrators have proposed here, and the trials that were begun here.

use std::sync::mpsc::Sender;
use std::time::Duration;

use narrows_proxy::rt::Instant;

use super::super::etcd::USUAL_TIME;
use super::super::member::FleetTrial;
use super::super::propose::{self, Audience, Proposal};
use super::super::record;
use super::super::report::NodeReport;
use super::super::taken_back::{self, TakenBack};
use super::super::transaction::Transaction;
use super::super::trial::{TrialState, judge};
use super::super::unusable;
use super::report::LONGEST_LEASE;
use super::{Runner, now_s};
use crate::versions::FleetMark;

/// A trial that was begun here.
pub(super) struct OwnTrial {
    mark: FleetMark,
    nodes: Vec<String>,
    began: Instant,
    /// Whether all members were seen to run it.
    has_begun: bool,
    /// Why it is taken back.
    failed: Option<String>,
    /// Since when etcd cannot be used.
    without_etcd: Option<Instant>,
    /// When etcd was back last, and its revision then: reports that are older say nothing any more.
    returned: Option<(Instant, i64)>,
    /// Who waits for its end.
    outcome: Option<Sender<Result<FleetMark, String>>>,
}

impl OwnTrial {
    /// Answers who waits, once.
    fn answer(&mut self, outcome: Result<FleetMark, String>) {
        // A control thread that has ended needs no answer.
        let _ = self.outcome.take().map(|to| to.send(outcome));
    }
}

impl Runner {
    /// Stores a change as the next version, or begins its trial.
    pub(super) async fn propose(&mut self, proposal: Proposal) {
        let lease = self.lease.map(|(lease, _)| lease);
        let obstacle = self.own.obstacle(&self.keys.node(&self.member.node)).or_else(|| self.uncertainty());
        let stored = match (obstacle, self.look_at_all().await) {
            (Some(obstacle), _) => Err(obstacle),
            (None, Ok(reports)) => {
                let here = (&self.member, &self.seen, lease);
                propose::store((&mut self.etcd, &self.keys), here, &reports, &proposal).await
            }
            (None, Err(reason)) => Err(format!("{}; nothing has changed", unusable(&reason))),
        };
        match (stored, &proposal.audience) {
            (Ok(mark), Audience::Trial(wish)) => {
                self.trial = Some(OwnTrial {
                    mark,
                    nodes: wish.nodes.clone(),
                    began: Instant::now(),
                    has_begun: false,
                    failed: None,
                    without_etcd: None,
                    returned: None,
                    outcome: Some(proposal.outcome),
                });
            }
            // A control thread that has ended needs no answer.
            (stored, _) => drop(proposal.outcome.send(stored)),
        }
    }

    /// The reports of all members, and then the head: what they report is not newer than it, unless etcd has lost something.
    async fn look_at_all(&mut self) -> Result<Vec<NodeReport>, String> {
        self.look_anywhere().await?;
        let reports = self.members().await?;
        self.look_anywhere().await?;
        Ok(reports)
    }

    /// Lists a trial as taken back that has ended without anybody: its member has died, and its lease has ended. All members
    /// try, and the first one succeeds.
    pub(super) async fn list_vanished(&mut self) {
        let Some(trial) = self.vanished.take() else { return };
        let (running, head) = (self.member.running.as_ref(), self.seen.head);
        let is_newest = running.map(|place| place.mark.id) == head.map(|head| head.id);
        if running.is_some_and(|place| !place.mark.is_on_trial && place.includes(trial.mark.id))
            || head.is_none()
        {
            return;
        }
        let is_listed = is_newest && self.list(&trial).await.unwrap_or(false);
        if !is_listed && self.vanished.is_none() {
            self.vanished = Some(trial);
        }
    }

    /// Adds a trial to the list, unless it is there; returns whether it is there now.
    async fn list(&mut self, trial: &FleetTrial) -> Result<bool, String> {
        let key = self.keys.taken_back();
        let outcome = self.etcd.run(&Transaction::default().get(&key), USUAL_TIME).await?;
        let found = outcome.first();
        let value = found.map(|pair| pair.value.as_slice());
        if value.is_some_and(|value| taken_back::decode(value).iter().any(|it| it.id == trial.mark.id)) {
            return Ok(true);
        }
        let reason = format!(
            "{}, on which it was begun, has ended or did not reach etcd for as long as its lease",
            trial.by
        );
        let (version, by) = (trial.mark.version, &trial.by);
        let add = Transaction::default()
            .when(&key, found.map_or(0, |pair| pair.revision))
            .when(&self.keys.head(), self.seen.revision)
            .put(&key, taken_back::with(value, &TakenBack::of(trial, &reason, now_s())), None);
        let outcome = self.etcd.run(&add, USUAL_TIME).await?;
        if outcome.has_succeeded {
            tracing::warn!(version, by, "a trial has ended with the lease of the member that has begun it");
        }
        Ok(outcome.has_succeeded)
    }

    /// Ends a trial that was begun here, once it is known how.
    pub(super) async fn go_on_with_trial(&mut self) {
        let here = self.seen.trial.clone().filter(|trial| trial.by == self.member.node);
        let Some(mut own) = self.trial.take() else {
            // A former process has begun it.
            if let Some(trial) = here.filter(|_| self.own.is_ours()) {
                tracing::warn!(
                    version = trial.mark.version,
                    "a trial is taken back: the process that began it has ended"
                );
                self.take_back(&trial, "the process that began it has ended").await;
            }
            return;
        };
        let Some(trial) = here.filter(|trial| trial.mark.id == own.mark.id) else {
            return self.end(own).await;
        };
        if let Some(reason) = &own.failed {
            self.take_back(&trial, reason).await;
        } else if let Ok(reports) = self.members().await {
            self.judge(&mut own, &trial, &reports).await;
        }
        self.trial = Some(own);
    }

    /// Answers what has become of a trial that is over.
    async fn end(&mut self, mut own: OwnTrial) {
        let (mark, head) = (own.mark, self.seen.head);
        // A newer head says nothing about this one, which may have been taken back before.
        let was_taken_back = self.seen.head_number() > mark.version
            && (own.failed.is_some()
                || self.taken_back().await.is_ok_and(|all| all.iter().any(|it| it.id == mark.id)));
        let is_kept = head.is_some_and(|head| head.id == mark.id || head.version > mark.version);
        let outcome = match is_kept && !was_taken_back {
            true => Ok(mark),
            false => {
                let reason = own.failed.take().unwrap_or_else(|| "its lease in etcd has ended".to_owned());
                Err(format!("version {} was taken back: {reason}", mark.version))
            }
        };
        own.answer(outcome);
    }

    /// Does with a trial what the reports ask for.
    async fn judge(&mut self, own: &mut OwnTrial, trial: &FleetTrial, reports: &[NodeReport]) {
        let of_trial = || reports.iter().filter(|report| trial.nodes.contains(&report.node));
        if let Some((at, revision)) = own.returned
            && at.elapsed() < LONGEST_LEASE
            && of_trial().any(|report| report.revision <= revision)
        {
            return;
        }
        match judge(trial, reports, own.began.elapsed(), own.has_begun) {
            TrialState::Begins => {}
            TrialState::Runs => own.has_begun = true,
            TrialState::TakenBack(reason) => {
                tracing::warn!(version = own.mark.version, reason, "a version of the fleet is taken back");
                self.take_back(trial, &reason).await;
                own.failed = Some(reason);
            }
            TrialState::Passed => self.promote(trial, of_trial()).await,
        }
    }

    /// Etcd cannot be used: an administrator does not wait for the end of a trial without end.
    pub(super) fn is_without_etcd(&mut self, reason: &str) {
        let Some(own) = &mut self.trial else { return };
        let since = *own.without_etcd.get_or_insert_with(Instant::now);
        if since.elapsed() >= LONGEST_SILENCE {
            let (version, nodes) = (own.mark.version, own.nodes.join(", "));
            let cannot = unusable(reason);
            own.answer(Err(format!(
                "{cannot}: it is not known what becomes of version {version} of the fleet. It is on trial on {nodes} until etcd \
                 is back, and is then taken back, unless all members have got it at the last moment: SHOW NARROWS FLEET shows it"
            )));
        }
    }

    /// Etcd answers, and has that revision now.
    pub(super) fn has_returned(&mut self, revision: i64) {
        let Some(own) = &mut self.trial else { return };
        let Some(since) = own.without_etcd.take() else { return };
        own.returned = Some((Instant::now(), revision));
        let seconds = since.elapsed().as_secs();
        if seconds >= LONGEST_OUTAGE.as_secs() {
            let reason = || format!("etcd could not be used for {seconds} seconds during the trial");
            own.failed.get_or_insert_with(reason);
        }
    }

    /// Makes the version on trial the head. Whether that has succeeded is seen at the next look.
    async fn promote(&mut self, trial: &FleetTrial, reports: impl Iterator<Item = &NodeReport>) {
        let head = record::head(Some(FleetMark { is_on_trial: false, ..trial.mark }), self.seen.last);
        let promote = Transaction::default()
            .when(&self.keys.head(), self.seen.revision)
            .when(&self.keys.trial(), trial.revision);
        // A member that has something else to say now has not passed.
        let promote =
            reports.fold(promote, |it, report| it.when(&self.keys.node(&report.node), report.revision));
        let promote = promote.put(&self.keys.head(), head, None).delete(&self.keys.trial());
        let _ = self.etcd.run(&promote, USUAL_TIME).await;
    }

    /// Ends a trial, and stores why. Whether that has succeeded is seen at the next look.
    async fn take_back(&mut self, trial: &FleetTrial, reason: &str) {
        let (key, trial_key) = (self.keys.taken_back(), self.keys.trial());
        let read = Transaction::default().get(&key);
        let Ok(outcome) = self.etcd.run(&read, USUAL_TIME).await else { return };
        let found = outcome.first();
        let one = TakenBack::of(trial, reason, now_s());
        let end = Transaction::default()
            .when(&trial_key, trial.revision)
            .when(&key, found.map_or(0, |pair| pair.revision))
            .put(&key, taken_back::with(found.map(|pair| pair.value.as_slice()), &one), None)
            .delete(&trial_key);
        let _ = self.etcd.run(&end, USUAL_TIME).await;
    }
}

/// How long etcd may be away during a trial: as long as the lease of a report, after which nothing is known of a member.
const LONGEST_OUTAGE: Duration = Duration::from_secs(10);

/// How long an administrator waits for the end of a trial while etcd is away.
const LONGEST_SILENCE: Duration = Duration::from_secs(20);
