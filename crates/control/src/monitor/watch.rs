//! The checks of one server: a task for each, which waits for its time, checks, and reports changes.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use narrows_proxy::backend::BackendError;
use narrows_proxy::rt::{Instant, JoinHandle, spawn_local, timeout, timeout_at};

use super::CHECKS;
use super::check::{Asking, CheckKind, Outcome, Subject};
use super::connections::MonitorConnections;
use super::log::Record;
use super::names::Resolver;
use super::plan::{Address, MonitorLogin, Target};
use super::report_queue::ReportQueue;

/// A monitored server; dropping this ends its checks.
#[derive(Debug)]
pub struct Watch {
    shared: Rc<Shared>,
    tasks: Vec<((CheckKind, Subject), JoinHandle<()>)>,
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
        let mut watch = Watch { shared, tasks: Vec::new() };
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
        self.tasks.retain(|(check, task)| {
            let stays = wanted.contains(check);
            if !stays {
                task.abort();
            }
            stays
        });
        for (check, subject) in wanted {
            if !self.tasks.iter().any(|(known, _)| *known == (check, subject)) {
                let task = spawn_local(Rc::clone(&self.shared).repeat(check, subject));
                self.tasks.push(((check, subject), task));
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tasks.iter().for_each(|(_, task)| task.abort());
    }
}

impl Shared {
    /// Makes a check whenever it is due.
    async fn repeat(self: Rc<Shared>, check: CheckKind, subject: Subject) {
        let mut clock = self.clock(check);
        let mut task = (check.begin)(subject);
        loop {
            clock.wait().await;
            let (connections, settings) = (self.connections(), self.reports.settings());
            let (start, outcome) = self.timed(check, |limit| task.ask(&connections, &settings, limit)).await;
            self.record(check, start, &outcome);
            let target = self.target.borrow().clone();
            for finding in task.decide(&outcome, &self.reports.settings(), &target) {
                self.reports.find(finding);
            }
        }
    }

    fn connections(&self) -> Rc<MonitorConnections> {
        Rc::clone(&self.connections.borrow())
    }

    fn clock(&self, check: CheckKind) -> Clock {
        let interval = self.reports.settings().timing(check.name).interval;
        let first = interval.min(self.spread).mul_f64(rand::random());
        Clock { reports: Rc::clone(&self.reports), check, begun: Instant::now(), delay: Some(first) }
    }

    /// Runs a check within its time limit; returns when it started, and its outcome.
    async fn timed<'a>(
        &self,
        check: CheckKind,
        ask: impl FnOnce(Duration) -> Asking<'a>,
    ) -> (Start, Outcome) {
        // The semaphore is never closed.
        let _place = self.reports.places.acquire().await;
        let limit = self.reports.settings().timing(check.name).timeout;
        let start = Start { at: SystemTime::now(), clock: Instant::now() };
        let outcome = timeout(limit, ask(limit)).await.unwrap_or(Err(BackendError::Timeout));
        (start, outcome)
    }

    fn record(&self, kind: CheckKind, start: Start, outcome: &Outcome) {
        let error = outcome.as_ref().err();
        let took = u64::try_from(start.clock.elapsed().as_micros()).unwrap_or(u64::MAX);
        let since_1970 = start.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.reports.record(Record {
            kind,
            address: self.address.clone(),
            start_us: i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX),
            outcome: match error {
                None => Ok(took),
                Some(BackendError::Timeout) => Err(format!("timeout after {} ms", took / 1_000)),
                Some(error) => Err(error.to_string()),
            },
            is_refused: error.is_some_and(is_refusal),
            values: outcome.as_ref().ok().cloned().unwrap_or_default(),
        });
    }
}

/// Whether an error comes from the server, or is about the login: the next check will get it too.
fn is_refusal(error: &BackendError) -> bool {
    matches!(
        error,
        BackendError::Server(_) | BackendError::Login(_) | BackendError::NoTls | BackendError::TlsSettings(_)
    )
}

/// When a check started.
struct Start {
    at: SystemTime,
    clock: Instant,
}

/// When a check is due: first after a random delay, then at each interval.
struct Clock {
    reports: Rc<ReportQueue>,
    check: CheckKind,
    /// When the previous one was due.
    begun: Instant,
    /// The delay of the first one.
    delay: Option<Duration>,
}

impl Clock {
    /// Waits until the next one is due, with the interval then in force.
    async fn wait(&mut self) {
        let due = loop {
            let interval = self.reports.settings().timing(self.check.name).interval;
            let due = self.begun + self.delay.unwrap_or(interval).min(interval);
            let changed = self.reports.changed.notified();
            if timeout_at(self.reports.next_beat(due), changed).await.is_err() {
                break due;
            }
        };
        self.delay = None;
        let (now, interval) = (Instant::now(), self.reports.settings().timing(self.check.name).interval);
        // Missed checks are not made up for.
        self.begun = if now.saturating_duration_since(due) < interval { due } else { now };
    }
}
