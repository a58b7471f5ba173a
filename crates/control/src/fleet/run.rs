//! The thread of a member: it looks at etcd, has versions applied, reports, and stores what administrators change.
//!
//! What is true is read: the head is asked for all the time, from a majority of etcd's servers. A watch only says when to ask
//! sooner.

mod report;
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
use super::member::{MemberState, Next, Seen};
use super::record::{self, FOREIGN, FleetVersion};
use super::report::NodeReport;
use super::transaction::{KeyValue, Transaction};
use super::{FleetOrder, FleetWish, LocalStatus, SharedView};
use crate::config::bootstrap::FleetSettings;
use crate::versions::FleetMark;
use report::OwnReport;
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
    /// Whether its beginning was logged.
    is_told: bool,
    /// When one was logged last.
    last_told: Option<Instant>,
}

/// Runs until the handle is dropped.
pub async fn run(
    settings: FleetSettings,
    (member, uuid): (MemberState, String),
    (mut orders, ask): (MailboxReceiver<FleetOrder>, Ask),
    view: SharedView,
) {
    let (keys, address) = (Keys::new(&settings.prefix), settings.address.clone());
    let (etcd, second) = match (Etcd::new(settings.clone()), Etcd::new(settings)) {
        (Ok(etcd), Ok(second)) => (etcd, second),
        (Err(reason), _) | (_, Err(reason)) => return refuse_all(orders, view, &reason).await,
    };
    let woken = Rc::new(Notify::new());
    let watching = spawn_local(watch(second, keys.all(), Rc::clone(&woken)));
    let own = OwnReport::new(uuid, address);
    let mut runner = Runner::new((etcd, keys), member, (ask, view, Rc::clone(&woken)), own);
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
        (etcd, keys): (Etcd, Keys),
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
        self.follow().await?;
        self.go_on_trying();
        self.go_on_with_trial().await;
        self.report().await
    }

    /// Reads the head and the trial from the server that was asked last, or from the first that answers.
    async fn look_anywhere(&mut self) -> Result<(), String> {
        if !self.trouble.is_there {
            match self.look(FIRST_LOOK).await {
                Ok(()) => return Ok(()),
                // Each of them would say so.
                Err(reason) if is_refusal(&reason) || reason.contains(FOREIGN) => return Err(reason),
                Err(_) => {}
            }
        }
        self.etcd.find(&self.keys.head()).await?;
        self.look(USUAL_TIME).await
    }

    /// Reads the head and the trial.
    async fn look(&mut self, limit: Duration) -> Result<(), String> {
        let reads = Transaction::default().get(&self.keys.head()).get(&self.keys.trial());
        let outcome = self.etcd.run(&reads, limit).await?;
        let value = |index: usize| {
            let pair: Option<&KeyValue> = outcome.found.get(index).and_then(|pairs| pairs.first());
            pair.map(|pair| (pair.value.as_slice(), pair.revision))
        };
        self.seen = record::seen(value(0), value(1))?;
        let seen = self.seen.clone();
        self.view.change(|view| view.seen = seen);
        self.has_returned(outcome.revision);
        Ok(())
    }

    /// Applies the version that this member should run.
    async fn follow(&mut self) -> Result<(), String> {
        let may_retry = self.refused_at.is_some_and(|at| at.elapsed() >= RETRY_REFUSED);
        let mut seen = self.seen.clone();
        if self.own.obstacle().is_some() {
            // It is the other one with this name that is to try a version.
            seen.trial = None;
        }
        match self.member.next(&seen, may_retry) {
            Next::Stay => {}
            Next::Older(version) => {
                let runs = self.member.running.map_or(0, |mark| mark.version);
                let reason = format!(
                    "etcd has version {version} of the fleet, and version {runs} runs here: it was put back"
                );
                self.refuse(version, reason);
            }
            Next::Apply(mark) => {
                let read = Transaction::default().get(&self.keys.version(mark.version));
                let outcome = self.etcd.run(&read, STORED_TIME).await?;
                match self.apply(mark, outcome.first()).await {
                    Ok(duty) => self.is_applied(mark, duty),
                    Err(Some(reason)) => self.refuse(mark.version, reason),
                    // It is asked for again.
                    Err(None) => {}
                }
            }
        }
        Ok(())
    }

    /// Has a version applied; fails with a reason if it never can be, and without if it is to be tried again.
    async fn apply(
        &mut self,
        mark: FleetMark,
        found: Option<&KeyValue>,
    ) -> Result<Option<TrialDuty>, Option<String>> {
        let Some(pair) = found else { return Err(Some("etcd does not have it".to_owned())) };
        let version = Box::new(FleetVersion::decode(&pair.value).map_err(Some)?);
        let (done, answer) = oneshot::channel();
        if !(self.ask)(FleetWish { mark, version, done }) {
            return Err(None);
        }
        match answer.await {
            Ok(applied) => applied.map_err(Some),
            Err(_) => Err(None),
        }
    }

    fn is_applied(&mut self, mark: FleetMark, duty: Option<TrialDuty>) {
        let is_other = self.member.running.is_none_or(|it| it.version != mark.version);
        if is_other {
            (self.since, self.status.drift) = (now_s(), 0);
            let (version, trial) = (mark.version, mark.is_on_trial);
            tracing::info!(version, trial, "a version of the fleet is in force");
        }
        self.begin_to_try(mark, duty);
        self.member.has_applied(mark);
        self.refused_at = None;
        self.show_member();
    }

    fn refuse(&mut self, version: i64, reason: String) {
        if self.member.refused.as_ref().is_none_or(|it| it.version != version || it.reason != reason) {
            tracing::warn!(
                version,
                reason,
                "a version of the fleet cannot be applied; the configuration stays as it is"
            );
        }
        self.member.has_refused(version, reason);
        self.refused_at = Some(Instant::now());
        self.show_member();
    }

    fn show_member(&self) {
        self.view.change(|view| view.member = self.member.clone());
    }

    fn has_contact(&mut self) {
        if std::mem::take(&mut self.trouble.is_there) && self.trouble.is_told {
            tracing::info!(endpoint = self.etcd.endpoint(), "etcd answers");
        }
        self.view.change(|view| {
            view.trouble = None;
            view.endpoint = self.etcd.endpoint();
        });
    }

    fn has_trouble(&mut self, reason: String) {
        let (endpoint, trouble) = (self.etcd.endpoint(), &mut self.trouble);
        if !std::mem::replace(&mut trouble.is_there, true) {
            // An etcd that answers every other time would fill the log.
            trouble.is_told = trouble.last_told.is_none_or(|last| last.elapsed() >= QUIET);
            if trouble.is_told {
                trouble.last_told = Some(Instant::now());
                tracing::warn!(endpoint, reason, "etcd cannot be used; the configuration stays as it is");
            }
        }
        self.view.change(|view| {
            view.trouble = Some(format!("{endpoint}: {reason}"));
            view.endpoint.clone_from(&endpoint);
        });
        self.etcd.turn_away();
        self.is_without_etcd(&reason);
    }
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

/// The time after a log line about etcd in which the next trouble is not logged.
const QUIET: Duration = Duration::from_secs(60);
