//! The thread of a member: it looks at etcd, has versions applied, reports, and stores what administrators change.
//!
//! What is true is read: the head is asked for all the time, from a majority of etcd's servers. A watch only says when to ask
//! sooner.

mod report;
mod survey;
mod trials;
mod tries;

use std::rc::Rc;
use std::time::Duration;

use http_body_util::BodyExt;
use narrows_proxy::clock::now_s;
use narrows_proxy::rt::{
    self, Instant, MailboxReceiver, Notify, oneshot, sleep, sleep_until, spawn_local, timeout,
};

use super::duty::TrialDuty;
use super::etcd::{Etcd, USUAL_TIME, is_refusal};
use super::figures::FleetFigures;
use super::keys::Keys;
use super::member::{FleetTrial, MemberState, Mismatch, Next, RefusedVersion, Seen};
use super::record::{self, FOREIGN, FleetVersion, RecordError};
use super::report::NodeReport;
use super::transaction::{KeyValue, Transaction};
use super::{FleetOrder, FleetWish, LocalStatus, SharedView};
use crate::config::bootstrap::FleetSettings;
use crate::versions::{FleetMark, FleetPlace};
use report::OwnReport;
use survey::Survey;
use trials::OwnTrial;
use tries::Tried;

/// Asks the control thread for something; returns whether it is there.
type Ask = Box<dyn Fn(FleetWish) -> bool>;

struct Runner {
    etcd: Etcd,
    keys: Keys,
    member: MemberState,
    seen: Seen,
    status: LocalStatus,
    ask: Ask,
    view: SharedView,
    /// Since when the member runs what it runs, in seconds since 1970.
    since: i64,
    /// When a version was refused.
    refused_at: Option<Instant>,
    lease: Option<(i64, Instant)>,
    own: OwnReport,
    /// The members whose reports were read last.
    known: Vec<NodeReport>,
    trial: Option<OwnTrial>,
    /// A trial that is not there any more, and was not kept: somebody must list it.
    vanished: Option<FleetTrial>,
    /// Which clusters the servers of etcd belong to.
    survey: Rc<Survey>,
    /// Which of them are not of the fleet's cluster.
    strangers: Option<String>,
    /// The version that this member tries.
    tried: Option<Tried>,
    /// Wakes this thread.
    woken: Rc<Notify>,
    trouble: Trouble,
}

/// Whether etcd answers, and what was logged of that.
#[derive(Default)]
struct Trouble {
    is_there: bool,
    /// Whether it was logged.
    is_logged: bool,
    /// When one was logged last.
    last_logged: Option<Instant>,
}

impl Trouble {
    /// Etcd cannot be used; returns whether that is to be logged. One that answers every other time would fill the log: one that
    /// stays away is logged as soon as there is time for it.
    fn is_seen(&mut self, now: Instant) -> bool {
        if !std::mem::replace(&mut self.is_there, true) {
            self.is_logged = false;
        }
        let may_be = self.last_logged.is_none_or(|last| now.saturating_duration_since(last) >= QUIET);
        let is_due = !self.is_logged && may_be;
        if is_due {
            (self.is_logged, self.last_logged) = (true, Some(now));
        }
        is_due
    }

    /// Etcd can be used; returns whether that is to be logged.
    fn is_over(&mut self) -> bool {
        std::mem::take(&mut self.is_there) && self.is_logged
    }
}

/// Runs until the handle is dropped.
pub async fn run(
    settings: FleetSettings,
    (member, uuid): (MemberState, String),
    (mut orders, ask): (MailboxReceiver<FleetOrder>, Ask),
    view: SharedView,
) {
    let (keys, address) = (Keys::new(&settings.prefix), settings.address.clone());
    let one = || Etcd::new(settings.clone());
    let [etcd, second, third] = match (one(), one(), one()) {
        (Ok(etcd), Ok(second), Ok(third)) => [etcd, second, third],
        (Err(reason), ..) | (_, Err(reason), _) | (.., Err(reason)) => {
            return refuse_all(orders, view, &reason).await;
        }
    };
    let woken = Rc::new(Notify::new());
    let survey = Rc::new(Survey::default());
    let surveying = spawn_local(survey::repeat(Rc::clone(&survey), third, keys.head(), Rc::clone(&woken)));
    let watching = spawn_local(watch(second, keys.all(), Rc::clone(&woken)));
    let own = OwnReport::new(uuid, address);
    let mut runner = Runner::new((etcd, keys, survey), member, (ask, view, Rc::clone(&woken)), own);
    loop {
        let pause = runner.turn().await;
        let next = Instant::now() + pause;
        rt::select! {
            order = orders.recv() => match order {
                None => break,
                Some(order) => runner.obey(order).await,
            },
            () = woken.notified() => {}
            () = sleep_until(Some(next)) => {}
        }
    }
    watching.abort();
    surveying.abort();
}

/// Without usable settings, there is nothing to do but to say so.
async fn refuse_all(mut orders: MailboxReceiver<FleetOrder>, view: SharedView, reason: &str) {
    tracing::error!(reason, "the fleet cannot be joined: the configuration stays as it is");
    view.change(|view| view.trouble = Some(reason.to_owned()));
    while let Some(order) = orders.recv().await {
        match order {
            FleetOrder::Status(_) => {}
            FleetOrder::Propose(proposal) => drop(proposal.outcome.send(Err(reason.to_owned()))),
            FleetOrder::Members(to) => drop(to.send(Err(reason.to_owned()))),
            FleetOrder::TakenBack(to) => drop(to.send(Err(reason.to_owned()))),
            FleetOrder::Figures(wish) => {
                let warnings = vec![format!("no other member is asked: {reason}")];
                drop(wish.outcome.send(FleetFigures { warnings, ..FleetFigures::default() }));
            }
        }
    }
}

/// Wakes the thread each time something of the fleet was written.
async fn watch(mut etcd: Etcd, start: String, woken: Rc<Notify>) {
    loop {
        if let Ok((_connection, mut body)) = etcd.watch(&start).await {
            // One whose network was cut says nothing any more, and does not end.
            while let Ok(Some(Ok(_))) = timeout(WATCH_TIME, body.frame()).await {
                woken.notify_one();
            }
        }
        etcd.turn_away();
        sleep(WATCH_PAUSE).await;
    }
}

impl Runner {
    fn new(
        (etcd, keys, survey): (Etcd, Keys, Rc<Survey>),
        member: MemberState,
        (ask, view, woken): (Ask, SharedView, Rc<Notify>),
        own: OwnReport,
    ) -> Runner {
        Runner {
            etcd,
            keys,
            member,
            seen: Seen::default(),
            status: LocalStatus::default(),
            ask,
            view,
            since: now_s(),
            refused_at: None,
            lease: None,
            own,
            known: Vec::new(),
            trial: None,
            vanished: None,
            survey,
            strangers: None,
            tried: None,
            woken,
            trouble: Trouble::default(),
        }
    }

    async fn obey(&mut self, order: FleetOrder) {
        match order {
            FleetOrder::Status(status) => {
                self.status = status;
                self.go_on_trying();
            }
            FleetOrder::Propose(proposal) => self.propose(*proposal).await,
            FleetOrder::Members(to) => {
                let members = self.members().await;
                // One that waits no longer needs no answer.
                let _ = to.send(members);
            }
            FleetOrder::TakenBack(to) => {
                let taken_back = self.taken_back().await;
                let _ = to.send(taken_back);
            }
            FleetOrder::Figures(wish) => self.ask_members(*wish).await,
        }
    }

    /// Does what is due; returns the time until it is to be done again.
    async fn turn(&mut self) -> Duration {
        match self.go_on().await {
            Ok(()) => {
                self.has_contact();
                POLL
            }
            Err(reason) => {
                self.has_trouble(reason);
                RETRY
            }
        }
    }

    /// Looks, and does what is due.
    async fn go_on(&mut self) -> Result<(), String> {
        self.look_anywhere().await?;
        self.own.has_reached_etcd(self.etcd.local());
        self.look_at_strangers();
        self.follow().await?;
        self.go_on_trying();
        self.go_on_with_trial().await;
        self.list_vanished().await;
        self.report().await
    }

    /// Reads the head and the trial from the server that was asked last, or from the first that answers.
    async fn look_anywhere(&mut self) -> Result<(), String> {
        let home = self.member.running.as_ref().map(|place| place.home.cluster);
        let is_home = home.is_none_or(|home| home == self.seen.home.cluster);
        if !self.trouble.is_there && is_home {
            match self.look(FIRST_LOOK).await {
                Ok(()) => return Ok(()),
                // Each of them would say so.
                Err(reason) if is_refusal(&reason) || reason.contains(FOREIGN) => return Err(reason),
                Err(_) => {}
            }
        }
        self.etcd.find(&self.keys.head(), home).await?;
        self.look(USUAL_TIME).await
    }

    /// Reads the head and the trial.
    async fn look(&mut self, limit: Duration) -> Result<(), String> {
        let reads = Transaction::default().get(&self.keys.head()).get(&self.keys.trial());
        let outcome = self.etcd.run(&reads, limit).await?;
        let seen = record::seen(&self.keys, &outcome)?;
        if seen.stray_trial != self.seen.stray_trial
            && let Some(reason) = &seen.stray_trial
        {
            tracing::error!(reason, "no change can be made in the fleet: nobody ends this trial");
        }
        let before = std::mem::replace(&mut self.seen, seen.clone());
        let is_another =
            |trial: &FleetTrial| seen.trial.as_ref().is_none_or(|it| it.mark.id != trial.mark.id);
        self.vanished = before.trial.filter(is_another).or_else(|| self.vanished.take());
        self.view.change(|view| view.seen = seen);
        self.has_returned(outcome.revision);
        Ok(())
    }

    /// Applies the version that this member should run.
    async fn follow(&mut self) -> Result<(), String> {
        let may_retry = self.refused_at.is_some_and(|at| at.elapsed() >= RETRY_REFUSED);
        let mut seen = self.seen.clone();
        if self.own.has_rival() {
            // It is the other one with this name that is to try a version.
            seen.trial = None;
        }
        if self.member.running.is_none() && !self.survey.is_sure() {
            // It would join the first of two clusters that answers.
            return Ok(());
        }
        match self.member.next(&seen, may_retry) {
            Next::Stay => self.settle(),
            Next::Wait => {}
            Next::Mismatch(mismatch) => self.has_mismatch(mismatch),
            Next::Apply(mark) => {
                let read = Transaction::default().get(&self.keys.version(mark.version));
                let outcome = self.etcd.run(&read, STORED_TIME).await?;
                match self.apply(&seen, mark, outcome.first()).await {
                    Ok((place, duty)) => self.is_applied(place, duty),
                    Err(Unapplied::Mismatch(mismatch)) => self.has_mismatch(mismatch),
                    Err(Unapplied::Refused { reason, may_be_retried }) => {
                        self.refuse(mark, reason, may_be_retried)
                    }
                    Err(Unapplied::AskAgain) => {}
                }
            }
        }
        Ok(())
    }

    /// Has the version applied that was `found` under its key.
    async fn apply(
        &mut self,
        seen: &Seen,
        mark: FleetMark,
        found: Option<&KeyValue>,
    ) -> Result<(FleetPlace, Option<TrialDuty>), Unapplied> {
        let refused = |reason: String, may_be_retried| Unapplied::Refused { reason, may_be_retried };
        let pair = found.ok_or_else(|| refused("etcd does not have it".to_owned(), true))?;
        let decoded = FleetVersion::decode(mark.id, &pair.value);
        let version =
            Box::new(decoded.map_err(|error| refused(error.to_string(), error == RecordError::Other))?);
        let before = (version.lineage.as_slice(), version.former.as_slice());
        if let Some(mismatch) = self.member.objection(seen, mark, before) {
            return Err(Unapplied::Mismatch(mismatch));
        }
        let (lineage, former, home) = (version.lineage.clone(), version.former.clone(), seen.home.clone());
        let place = FleetPlace { mark, lineage, home, former };
        let (done, answer) = oneshot::channel();
        if !(self.ask)(FleetWish { place: place.clone(), version, done }) {
            return Err(Unapplied::AskAgain);
        }
        match answer.await {
            Ok(Ok(duty)) => Ok((place, duty)),
            Ok(Err(reason)) => Err(refused(reason, true)),
            Err(_) => Err(Unapplied::AskAgain),
        }
    }

    fn is_applied(&mut self, place: FleetPlace, duty: Option<TrialDuty>) {
        let mark = place.mark;
        let is_other = self.member.running.as_ref().is_none_or(|it| it.mark.id != mark.id);
        if is_other {
            (self.since, self.status.drift) = (now_s(), 0);
            let (version, id, trial) = (mark.version, mark.id.short(), mark.is_on_trial);
            tracing::info!(version, id, trial, "a version of the fleet is in force");
        }
        self.begin_to_try(mark, duty);
        self.has_no_mismatch();
        self.member.has_applied(place);
        self.refused_at = None;
        self.show_member();
    }

    /// This member runs what it should: what was wrong before is over.
    fn settle(&mut self) {
        if self.member.refused.is_some() || self.member.mismatch.is_some() {
            self.has_no_mismatch();
            self.member.is_settled();
            self.refused_at = None;
            self.show_member();
        }
    }

    fn refuse(&mut self, mark: FleetMark, reason: String, may_be_retried: bool) {
        let (version, id) = (mark.version, mark.id);
        if self.member.refused.as_ref().is_none_or(|it| it.id != id || it.reason != reason) {
            tracing::warn!(
                version,
                reason,
                "a version of the fleet cannot be applied; the configuration stays as it is"
            );
        }
        self.has_no_mismatch();
        self.member.has_refused(RefusedVersion { version, id, reason, may_be_retried });
        self.refused_at = Some(Instant::now());
        self.show_member();
    }

    fn has_mismatch(&mut self, mismatch: Mismatch) {
        if self.member.mismatch.as_ref() == Some(&mismatch) {
            return;
        }
        let reason = &mismatch.reason;
        tracing::error!(
            reason,
            "this member does not run what the fleet has, and cannot tell which of them is right; NARROWS FLEET RESTORE on the \
             member with the right configuration makes it that of all"
        );
        self.member.has_mismatch(mismatch);
        self.show_member();
    }

    fn has_no_mismatch(&self) {
        if self.member.mismatch.is_some() {
            tracing::info!("what the fleet has follows from what runs here again");
        }
    }

    fn show_member(&self) {
        self.view.change(|view| view.member = self.member.clone());
    }

    fn has_contact(&mut self) {
        if self.trouble.is_over() {
            tracing::info!(endpoint = self.etcd.endpoint(), "etcd answers");
        }
        self.view.change(|view| {
            view.trouble = None;
            view.endpoint = self.etcd.endpoint();
        });
    }

    fn has_trouble(&mut self, reason: String) {
        let endpoint = self.etcd.endpoint();
        if self.trouble.is_seen(Instant::now()) {
            tracing::warn!(endpoint, reason, "etcd cannot be used; the configuration stays as it is");
        }
        self.view.change(|view| {
            view.trouble = Some(format!("{endpoint}: {reason}"));
            view.endpoint.clone_from(&endpoint);
        });
        self.etcd.turn_away();
        self.is_without_etcd(&reason);
    }
}

/// Why a version was not applied.
enum Unapplied {
    /// It does not follow from what runs here.
    Mismatch(Mismatch),
    /// It cannot be applied.
    Refused {
        /// Why.
        reason: String,
        /// Whether the same version can be applied at another time.
        may_be_retried: bool,
    },
    /// Nobody has answered: it is asked for again.
    AskAgain,
}

/// The pause between two looks at etcd, if nothing wakes the thread.
const POLL: Duration = Duration::from_millis(500);

/// The pause before the next server of etcd is asked.
const RETRY: Duration = Duration::from_millis(100);

/// How long the server that was asked last may take before the others are asked, too: one that has hung while it was cut off
/// would cost a second.
const FIRST_LOOK: Duration = Duration::from_millis(400);

/// The pause before another watch begins.
const WATCH_PAUSE: Duration = Duration::from_millis(300);

/// How long a watch that says nothing continues. Whatever it does not say is found out at the next look.
const WATCH_TIME: Duration = Duration::from_secs(10);

/// The limit of reading a version, which may be large.
const STORED_TIME: Duration = Duration::from_secs(2);

/// After which time a refused version is tried again: a full disk is one day not full.
const RETRY_REFUSED: Duration = Duration::from_secs(30);

/// The time after a log line about etcd in which no other one is written.
const QUIET: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_that_lasts_is_logged_however_soon_it_follows_another() {
        let (mut it, began) = (Trouble::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        assert!(it.is_seen(at(0)) && !it.is_seen(at(1)) && it.is_over());
        // One that is short is not.
        assert!(!it.is_seen(at(2)) && !it.is_over());
        assert!(!it.is_seen(at(3)) && !it.is_seen(at(59)) && it.is_seen(at(60)) && !it.is_seen(at(200)));
        assert!(it.is_over() && !it.is_over());
    }
}
