//! The checks of one server: a task for each, which waits for its time, checks, and reports changes.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use narrows_proxy::backend::{BackendError, DefaultsSeen};
use narrows_proxy::clock::since_1970;
use narrows_proxy::rt::{Instant, JoinHandle, Notify, select, sleep, spawn_local, timeout, timeout_at};
use narrows_proxy::snapshot::HostgroupId;
use narrows_sql::ChangedDefaults;

use super::CHECKS;
use super::check::{Asking, CheckKind, Outcome, Subject};
use super::connections::MonitorConnections;
use super::finding::Finding;
use super::log::Record;
use super::names::Resolver;
use super::plan::{Address, MonitorLogin, NodeOf, Target};
use super::position::CheckedPosition;
use super::report_queue::ReportQueue;
use super::settings::Timing;

/// A monitored server; dropping this ends its checks.
#[derive(Debug)]
pub struct Watch {
    shared: Rc<Shared>,
    tasks: Vec<Running>,
    /// Watches what sessions take over from the server.
    defaults: JoinHandle<()>,
}

/// A running check.
#[derive(Debug)]
struct Running {
    what: (CheckKind, Subject),
    task: JoinHandle<()>,
    /// Makes it check at once.
    prompt: Rc<Notify>,
}

/// What the tasks of one server share.
#[derive(Debug)]
struct Shared {
    reports: Rc<ReportQueue>,
    address: Address,
    target: RefCell<Target>,
    access: RefCell<MonitorLogin>,
    connections: RefCell<Rc<MonitorConnections>>,
    resolver: Rc<Resolver>,
    /// The server's first checks begin within this time.
    spread: Duration,
}

impl Watch {
    /// Starts to monitor `target`; its checks begin within `spread`, so that those of many servers do not coincide.
    pub fn new(
        reports: &Rc<ReportQueue>,
        resolver: &Rc<Resolver>,
        target: &Target,
        access: &MonitorLogin,
        spread: Duration,
    ) -> Watch {
        let addresses = resolver.addresses(&target.address.hostname);
        let shared = Rc::new(Shared {
            reports: Rc::clone(reports),
            address: target.address.clone(),
            target: RefCell::new(target.clone()),
            access: RefCell::new(access.clone()),
            connections: RefCell::new(Rc::new(MonitorConnections::new(target, access, addresses))),
            resolver: Rc::clone(resolver),
            spread,
        });
        let defaults = spawn_local(Rc::clone(&shared).watch_defaults());
        let mut watch = Watch { shared, tasks: Vec::new(), defaults };
        watch.adjust();
        watch
    }

    /// Follows another plan for the same server.
    pub fn follow(&mut self, target: &Target, access: &MonitorLogin) {
        let shared = &self.shared;
        if shared.target.borrow().use_ssl != target.use_ssl || *shared.access.borrow() != *access {
            let addresses = shared.resolver.addresses(&target.address.hostname);
            shared.connections.replace(Rc::new(MonitorConnections::new(target, access, addresses)));
        }
        shared.target.replace(target.clone());
        shared.access.replace(access.clone());
        self.adjust();
    }

    /// Uses the current addresses of the server's name, if they have changed.
    pub fn follow_names(&self) {
        let shared = &self.shared;
        let addresses = shared.resolver.addresses(&shared.address.hostname);
        if shared.connections().addresses != addresses {
            let connections =
                MonitorConnections::new(&shared.target.borrow(), &shared.access.borrow(), addresses);
            shared.connections.replace(Rc::new(connections));
        }
    }

    /// Ends the checks that are no longer needed, and starts new ones.
    fn adjust(&mut self) {
        let wanted: Vec<(CheckKind, Subject)> = {
            let target = self.shared.target.borrow();
            let of_kind = |check: CheckKind| (check.subjects)(&target).into_iter().map(move |of| (check, of));
            CHECKS.into_iter().flat_map(of_kind).collect()
        };
        self.tasks.retain(|running| {
            let stays = wanted.contains(&running.what);
            if !stays {
                running.task.abort();
            }
            stays
        });
        for what in wanted {
            if !self.tasks.iter().any(|running| running.what == what) {
                let prompt = Rc::new(Notify::new());
                let task = spawn_local(Rc::clone(&self.shared).repeat(what, Rc::clone(&prompt)));
                self.tasks.push(Running { what, task, prompt });
            }
        }
    }

    /// Checks at once what the server is in the cluster, or in the pair, with this writer hostgroup.
    pub fn check_now(&self, writers: HostgroupId) {
        let target = self.shared.target.borrow();
        let is_of = |subject: Subject| match subject {
            Subject::Node(cluster) => cluster.writers == writers,
            Subject::Role(check_type) => target.pairs.contains(&(writers, check_type)),
            Subject::Server => false,
        };
        self.tasks.iter().filter(|running| is_of(running.what.1)).for_each(|it| it.prompt.notify_one());
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tasks.iter().for_each(|running| running.task.abort());
        self.defaults.abort();
    }
}

impl Shared {
    /// Reports when what sessions take over from the server has changed, by whatever client.
    async fn watch_defaults(self: Rc<Shared>) {
        let mut known: Option<DefaultsSeen> = None;
        let (mut logins_are_old, mut logins_told) = (false, None::<Instant>);
        loop {
            let limit = self.reports.settings().timing("ping").timeout;
            let connections = self.connections();
            let look = async {
                let backend = connections.lease(limit).await?;
                let found = backend.defaults_seen(limit).await?;
                connections.give_back(backend);
                Ok::<_, BackendError>(found)
            };
            let found = {
                // The semaphore is never closed.
                let _place = self.reports.places.acquire().await;
                timeout(limit, look).await
            };
            if let Ok(Ok(found)) = found
                && let Some(before) = known.replace(found)
            {
                if before.sessions != found.sessions {
                    self.reports.find(Finding::Defaults(self.address.clone(), ChangedDefaults::Sessions));
                }
                logins_are_old |= before.logins != found.logins;
            }
            // Some make accounts all the time, and each time the server's connections are replaced.
            if logins_are_old && logins_told.is_none_or(|told| told.elapsed() >= LEAST_BETWEEN_LOGINS) {
                self.reports.find(Finding::Defaults(self.address.clone(), ChangedDefaults::Logins));
                (logins_are_old, logins_told) = (false, Some(Instant::now()));
            }
            let interval = self.reports.settings().timing("ping").interval;
            sleep(interval.clamp(LEAST_BETWEEN_LOOKS, MOST_BETWEEN_LOOKS)).await;
        }
    }

    /// Makes a check whenever it is due, or prompted.
    async fn repeat(self: Rc<Shared>, (check, subject): (CheckKind, Subject), prompt: Rc<Notify>) {
        let mut clock = self.clock(check, subject);
        let mut task = (check.begin)(subject);
        loop {
            clock.wait(&prompt).await;
            let (connections, settings) = (self.connections(), self.reports.settings());
            let timing = self.timing(check, subject);
            task.prepare(&self.target.borrow());
            let (start, outcome) =
                self.timed(timing.timeout, |limit| task.ask(&connections, &settings, limit)).await;
            let target = self.target.borrow().clone();
            for finding in task.decide(&outcome, &self.reports.settings(), &target) {
                self.reports.find(finding);
            }
            if task.may_have_moved() {
                self.resolver.refresh(&self.address.hostname);
            }
            self.record((check, subject), start, &outcome, (task.lag_ms(), task.position()));
        }
    }

    fn connections(&self) -> Rc<MonitorConnections> {
        Rc::clone(&self.connections.borrow())
    }

    /// When a subject is checked: as the row of its cluster says, or else the variables.
    fn timing(&self, check: CheckKind, subject: Subject) -> Timing {
        let target = self.target.borrow();
        let node = target.clusters.iter().find(|node| subject == Subject::Node(node.id));
        let of_row = node.and_then(NodeOf::timing);
        of_row.unwrap_or_else(|| self.reports.settings().timing(check.name))
    }

    fn clock(self: &Rc<Shared>, check: CheckKind, subject: Subject) -> Clock {
        let interval = self.timing(check, subject).interval;
        let first = interval.min(self.spread).mul_f64(rand::random());
        Clock { shared: Rc::clone(self), check, subject, begun: Instant::now(), delay: Some(first) }
    }

    /// Runs a check within its time limit; returns when it started, and its outcome.
    async fn timed<'a>(&self, limit: Duration, ask: impl FnOnce(Duration) -> Asking<'a>) -> (Start, Outcome) {
        // The semaphore is never closed.
        let _place = self.reports.places.acquire().await;
        let start = Start { at: SystemTime::now(), clock: Instant::now() };
        let outcome = timeout(limit, ask(limit)).await.unwrap_or(Err(BackendError::Timeout));
        (start, outcome)
    }

    fn record(
        &self,
        (kind, subject): (CheckKind, Subject),
        start: Start,
        outcome: &Outcome,
        (lag_ms, position): (Option<u32>, Option<CheckedPosition>),
    ) {
        let error = outcome.as_ref().err();
        let took = u64::try_from(start.clock.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.reports.record(Record {
            kind,
            subject,
            address: self.address.clone(),
            start_us: i64::try_from(since_1970(start.at).as_micros()).unwrap_or(i64::MAX),
            outcome: match error {
                None => Ok(took),
                Some(BackendError::Timeout) => Err(format!("timeout after {} ms", took / 1_000)),
                Some(error) => Err(error.to_string()),
            },
            is_refused: error.is_some_and(is_refusal),
            values: outcome.as_ref().ok().cloned().unwrap_or_default(),
            lag_ms,
            position,
        });
    }
}

/// Whether an error comes from the server, or is about the login: the next check will get it too.
fn is_refusal(error: &BackendError) -> bool {
    matches!(
        error,
        BackendError::Server(_)
            | BackendError::Login(_)
            | BackendError::NoTls
            | BackendError::TlsSettings(_)
            | BackendError::NoToken(_)
            | BackendError::NoCredentials(_)
    )
}

/// How often what sessions take over from a server is looked at: as it is pinged, but often enough that a change is noticed within
/// seconds, and seldom enough for what the question costs, some milliseconds.
const LEAST_BETWEEN_LOOKS: Duration = Duration::from_millis(500);
const MOST_BETWEEN_LOOKS: Duration = Duration::from_secs(2);

/// How often the connections to a server may be replaced because its accounts have changed.
const LEAST_BETWEEN_LOGINS: Duration = Duration::from_secs(30);

/// When a check started.
struct Start {
    at: SystemTime,
    clock: Instant,
}

/// When a check is due: first after a random delay, then at each interval.
struct Clock {
    shared: Rc<Shared>,
    check: CheckKind,
    subject: Subject,
    /// When the previous one was due.
    begun: Instant,
    /// The delay of the first one.
    delay: Option<Duration>,
}

impl Clock {
    /// Waits until the next one is due, with the interval then in force, or until it is prompted.
    async fn wait(&mut self, prompt: &Notify) {
        let due = loop {
            let interval = self.interval();
            let due = self.begun + self.delay.unwrap_or(interval).min(interval);
            let reports = &self.shared.reports;
            let changed = reports.changed.notified();
            select! {
                changed = timeout_at(reports.next_beat(due), changed) => {
                    if changed.is_err() {
                        break due;
                    }
                }
                () = prompt.notified() => break Instant::now(),
            }
        };
        self.delay = None;
        let (now, interval) = (Instant::now(), self.interval());
        // Missed checks are not made up for.
        self.begun = if now.saturating_duration_since(due) < interval { due } else { now };
    }

    fn interval(&self) -> Duration {
        self.shared.timing(self.check, self.subject).interval
    }
}
