//! The thread of a member: it looks at etcd, has versions applied, reports, and stores what administrators change.
//!
//! What is true is read: the head is asked for all the time, from a majority of etcd's servers. A watch only says when to ask
//! sooner.

use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http_body_util::BodyExt;
use narrows_proxy::rt::{self, Instant, MailboxReceiver, Notify, oneshot, sleep, sleep_until, spawn_local};

use super::etcd::{Etcd, KeyValue, Transaction, USUAL_TIME};
use super::keys::Keys;
use super::member::{FleetTrial, MemberState, Next, Seen};
use super::propose::{self, Proposal};
use super::record::{self, FleetVersion, NodeReport};
use super::trial::{TrialState, judge};
use super::{FleetOrder, FleetWish, LocalStatus, SharedView};
use crate::config::bootstrap::FleetSettings;
use crate::versions::FleetMark;

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
    reported: Option<(NodeReport, Instant)>,
    trial: Option<OwnTrial>,
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

/// A trial that was begun here.
struct OwnTrial {
    version: i64,
    began: Instant,
    healthy_since: Option<Instant>,
    /// Why it is taken back.
    failed: Option<String>,
    outcome: Sender<Result<i64, String>>,
}

/// Runs until the handle is dropped.
pub async fn run(
    settings: FleetSettings,
    member: MemberState,
    (mut orders, ask): (MailboxReceiver<FleetOrder>, Ask),
    view: SharedView,
) {
    let keys = Keys::new(&settings.prefix);
    let (etcd, second) = match (Etcd::new(settings.clone()), Etcd::new(settings)) {
        (Ok(etcd), Ok(second)) => (etcd, second),
        (Err(reason), _) | (_, Err(reason)) => return refuse_all(orders, view, &reason).await,
    };
    let woken = Rc::new(Notify::new());
    let watching = spawn_local(watch(second, keys.all(), Rc::clone(&woken)));
    let (status, seen, since) = (LocalStatus::default(), Seen::default(), now());
    let mut runner = Runner {
        etcd,
        keys,
        member,
        seen,
        status,
        ask,
        view,
        since,
        refused_at: None,
        lease: None,
        reported: None,
        trial: None,
        trouble: Trouble::default(),
    };
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
        }
    }
}

/// Wakes the thread each time something of the fleet was written.
async fn watch(mut etcd: Etcd, start: String, woken: Rc<Notify>) {
    loop {
        if let Ok((_connection, mut body)) = etcd.watch(&start).await {
            while let Some(Ok(_)) = body.frame().await {
                woken.notify_one();
            }
        }
        etcd.turn_away();
        sleep(WATCH_PAUSE).await;
    }
}

impl Runner {
    async fn obey(&mut self, order: FleetOrder) {
        match order {
            FleetOrder::Status(status) => self.status = status,
            FleetOrder::Propose(proposal) => self.propose(*proposal).await,
            FleetOrder::Members(to) => {
                let members = self.members().await;
                // One that waits no longer needs no answer.
                let _ = to.send(members);
            }
        }
    }

    /// Does what is due; returns the time until it is to be done again.
    async fn turn(&mut self) -> Duration {
        let looked = self.look().await;
        let done = match looked {
            Ok(()) => {
                self.follow().await;
                self.go_on_with_trial().await;
                self.report().await
            }
            Err(reason) => Err(reason),
        };
        match done {
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

    /// Reads the head and the trial.
    async fn look(&mut self) -> Result<(), String> {
        let reads = Transaction::default().get(&self.keys.head()).get(&self.keys.trial());
        let outcome = self.etcd.run(&reads, USUAL_TIME).await?;
        let value = |index: usize| {
            let pair: Option<&KeyValue> = outcome.found.get(index).and_then(|pairs| pairs.first());
            pair.map(|pair| (pair.value.as_slice(), pair.revision))
        };
        self.seen = record::seen(value(0), value(1))?;
        Ok(())
    }

    /// Applies the version that this member should run.
    async fn follow(&mut self) {
        let may_retry = self.refused_at.is_some_and(|at| at.elapsed() >= RETRY_REFUSED);
        match self.member.next(&self.seen, may_retry) {
            Next::Stay => {}
            Next::Older(version) => {
                let runs = self.member.running.map_or(0, |mark| mark.version);
                let reason = format!(
                    "etcd has version {version} of the fleet, and version {runs} runs here: it was put back"
                );
                self.refuse(version, reason);
            }
            Next::Apply(mark) => match self.apply(mark).await {
                Ok(()) => self.is_applied(mark),
                Err(Some(reason)) => self.refuse(mark.version, reason),
                // It is asked for again.
                Err(None) => {}
            },
        }
    }

    /// Has a version applied; fails with a reason if it never can be, and without if it is to be tried again.
    async fn apply(&mut self, mark: FleetMark) -> Result<(), Option<String>> {
        let read = Transaction::default().get(&self.keys.version(mark.version));
        let outcome = self.etcd.run(&read, STORED_TIME).await.map_err(|_| None)?;
        let Some(pair) = outcome.found.first().and_then(|pairs| pairs.first()) else {
            return Err(Some("etcd does not have it".to_owned()));
        };
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

    fn is_applied(&mut self, mark: FleetMark) {
        let is_other = self.member.running.is_none_or(|it| it.version != mark.version);
        if is_other {
            (self.since, self.status.drift) = (now(), 0);
            let (version, trial) = (mark.version, mark.is_on_trial);
            tracing::info!(version, trial, "a version of the fleet is in force");
        }
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

    /// Reports under a lease, if there is something to say or the last report is old.
    async fn report(&mut self) -> Result<(), String> {
        let report = NodeReport {
            node: self.member.node.clone(),
            running: self.member.running,
            since: self.since,
            refused: self.member.refused.clone(),
            drift: self.status.drift,
            not_ready: self.status.not_ready.clone(),
            local_version: self.status.local_version,
            reported: 0,
        };
        let is_known =
            self.reported.as_ref().is_some_and(|(last, at)| *last == report && at.elapsed() < KEEP);
        if is_known && self.lease.is_some() {
            return Ok(());
        }
        let lease = self.lease().await?;
        let value = NodeReport { reported: now(), ..report.clone() }.encode();
        let put = Transaction::default().put(&self.keys.node(&self.member.node), value, Some(lease));
        if let Err(reason) = self.etcd.run(&put, USUAL_TIME).await {
            self.lease = None;
            return Err(reason);
        }
        self.reported = Some((report, Instant::now()));
        Ok(())
    }

    /// A lease that lasts.
    async fn lease(&mut self) -> Result<i64, String> {
        if let Some((lease, kept)) = self.lease {
            if kept.elapsed() < KEEP / 2 {
                return Ok(lease);
            }
            if self.etcd.keep(lease).await.unwrap_or(false) {
                self.lease = Some((lease, Instant::now()));
                return Ok(lease);
            }
        }
        let lease = self.etcd.grant(LEASE_SECONDS).await?;
        self.lease = Some((lease, Instant::now()));
        Ok(lease)
    }

    async fn members(&mut self) -> Result<Vec<NodeReport>, String> {
        let pairs = self.etcd.all(&self.keys.nodes(), MOST_MEMBERS).await?;
        Ok(pairs.iter().filter_map(|pair| NodeReport::decode(&pair.value)).collect())
    }

    async fn propose(&mut self, proposal: Proposal) {
        let lease = self.lease.map(|(lease, _)| lease);
        let stored = match self.look().await {
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
    async fn go_on_with_trial(&mut self) {
        let here = self.seen.trial.clone().filter(|trial| trial.by == self.member.node);
        let Some(mut own) = self.trial.take() else {
            // A former process has begun it.
            if let Some(trial) = here {
                tracing::warn!(
                    version = trial.version,
                    "a trial is taken back: the process that began it has ended"
                );
                self.take_back(&trial).await;
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
        if own.failed.is_some() {
            self.take_back(&trial).await;
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
                own.failed = Some(reason);
                self.take_back(trial).await;
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

    /// Ends a trial. Whether that has succeeded is seen at the next look.
    async fn take_back(&mut self, trial: &FleetTrial) {
        let end = Transaction::default().when(&self.keys.trial(), trial.revision).delete(&self.keys.trial());
        let _ = self.etcd.run(&end, USUAL_TIME).await;
    }

    fn has_contact(&mut self) {
        if std::mem::take(&mut self.trouble.is_there) && self.trouble.is_told {
            tracing::info!(endpoint = self.etcd.endpoint(), "etcd answers");
        }
        self.view.change(|view| {
            view.trouble = None;
            view.endpoint = self.etcd.endpoint();
            view.seen = self.seen.clone();
        });
    }

    fn has_trouble(&mut self, reason: String) {
        let (endpoint, trouble) = (self.etcd.endpoint(), &mut self.trouble);
        if !std::mem::replace(&mut trouble.is_there, true) {
            // An etcd that answers every other time would fill the log.
            trouble.is_told = trouble.last_told.is_none_or(|last| last.elapsed() >= QUIET);
            if trouble.is_told {
                trouble.last_told = Some(Instant::now());
                tracing::warn!(endpoint, reason, "etcd does not answer; the configuration stays as it is");
            }
        }
        self.view.change(|view| {
            view.trouble = Some(format!("{endpoint}: {reason}"));
            view.endpoint.clone_from(&endpoint);
        });
        self.etcd.turn_away();
    }
}

/// Seconds since 1970, by the clock of the machine.
pub(super) fn now() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX)
}

/// The pause between two looks at etcd, if nothing wakes the thread.
const POLL: Duration = Duration::from_millis(500);

/// The pause before the next server of etcd is asked.
const RETRY: Duration = Duration::from_millis(100);

/// The pause before another watch begins.
const WATCH_PAUSE: Duration = Duration::from_millis(300);

/// The limit of reading a version, which may be large.
const STORED_TIME: Duration = Duration::from_secs(2);

/// After which time a refused version is tried again: a full disk is one day not full.
const RETRY_REFUSED: Duration = Duration::from_secs(30);

/// After how long a report is written again, and its lease is kept.
const KEEP: Duration = Duration::from_secs(3);

/// How long the report of a member remains after its death.
const LEASE_SECONDS: u64 = 10;

/// The time after a log line about etcd in which the next trouble is not logged.
const QUIET: Duration = Duration::from_secs(60);

/// The most members whose reports are read.
const MOST_MEMBERS: u32 = 1_000;
