//! The checks of one server: a task for each, which waits for its time, checks, and reports changes.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use narrows_proxy::backend::BackendError;
use narrows_proxy::rt::{Instant, JoinHandle, spawn_local, timeout, timeout_at};
use narrows_proxy::snapshot::{CheckType, HostgroupId};

use super::desk::Desk;
use super::line::Line;
use super::log::{Kind, Record};
use super::names::Resolver;
use super::ping::{Heard, Pings};
use super::placement::Finding;
use super::plan::{Access, Address, LagLimit, Target};
use super::read_only::{Role, Roles, Seen};
use super::replication_lag::{Behind, Lags, Limits};
use super::settings::{Settings, Timing};
use super::{connect, ping, read_only, replication_lag};

/// A monitored server; dropping this ends its checks.
#[derive(Debug)]
pub struct Watch {
    shared: Rc<Shared>,
    tasks: Vec<(Check, JoinHandle<()>)>,
}

/// A repeated check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Connect,
    Ping,
    ReadOnly(CheckType),
    ReplicationLag,
}

/// What the tasks of one server share.
#[derive(Debug)]
struct Shared {
    desk: Rc<Desk>,
    address: Address,
    target: RefCell<Target>,
    access: RefCell<Access>,
    line: RefCell<Rc<Line>>,
    resolver: Rc<Resolver>,
    /// The server's first checks begin within this time.
    spread: Duration,
}

impl Watch {
    /// Starts to monitor `target`; its checks begin within `spread`, so that those of many servers do not coincide.
    pub fn new(
        desk: &Rc<Desk>,
        resolver: &Rc<Resolver>,
        target: &Target,
        access: &Access,
        spread: Duration,
    ) -> Watch {
        let addresses = resolver.addresses(&target.address.hostname);
        let shared = Rc::new(Shared {
            desk: Rc::clone(desk),
            address: target.address.clone(),
            target: RefCell::new(target.clone()),
            access: RefCell::new(access.clone()),
            line: RefCell::new(Rc::new(Line::new(target, access, addresses))),
            resolver: Rc::clone(resolver),
            spread,
        });
        let mut watch = Watch { shared, tasks: Vec::new() };
        watch.adjust();
        watch
    }

    /// Follows another plan for the same server.
    pub fn follow(&mut self, target: &Target, access: &Access) {
        let shared = &self.shared;
        if shared.target.borrow().use_ssl != target.use_ssl || *shared.access.borrow() != *access {
            let addresses = shared.resolver.addresses(&target.address.hostname);
            shared.line.replace(Rc::new(Line::new(target, access, addresses)));
        }
        shared.target.replace(target.clone());
        shared.access.replace(access.clone());
        self.adjust();
    }

    /// Uses the current addresses of the server's name, if they have changed.
    pub fn follow_names(&self) {
        let shared = &self.shared;
        let addresses = shared.resolver.addresses(&shared.address.hostname);
        if shared.line().addresses != addresses {
            let line = Line::new(&shared.target.borrow(), &shared.access.borrow(), addresses);
            shared.line.replace(Rc::new(line));
        }
    }

    /// Ends the checks that are no longer needed, and starts new ones.
    fn adjust(&mut self) {
        let wanted = {
            let target = self.shared.target.borrow();
            let mut wanted = vec![Check::Connect, Check::Ping];
            wanted.extend(target.check_types.iter().copied().map(Check::ReadOnly));
            wanted.extend((!target.lag_limits.is_empty()).then_some(Check::ReplicationLag));
            wanted
        };
        self.tasks.retain(|(check, task)| {
            let stays = wanted.contains(check);
            if !stays {
                task.abort();
            }
            stays
        });
        for check in wanted {
            if !self.tasks.iter().any(|(known, _)| *known == check) {
                let shared = Rc::clone(&self.shared);
                let task = match check {
                    Check::Connect => spawn_local(shared.connect()),
                    Check::Ping => spawn_local(shared.ping()),
                    Check::ReadOnly(check_type) => spawn_local(shared.read_only(check_type)),
                    Check::ReplicationLag => spawn_local(shared.replication_lag()),
                };
                self.tasks.push((check, task));
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
    async fn connect(self: Rc<Shared>) {
        let mut clock = self.clock(|settings| settings.connect);
        loop {
            clock.wait().await;
            let line = self.line();
            let (start, outcome) =
                self.timed(&clock, |limit| async move { connect::check(&line, limit).await }).await;
            self.record(Kind::Connect, start, outcome.as_ref().err(), None);
        }
    }

    async fn ping(self: Rc<Shared>) {
        let mut clock = self.clock(|settings| settings.ping);
        let mut pings = Pings::default();
        loop {
            clock.wait().await;
            let line = self.line();
            let (start, outcome) =
                self.timed(&clock, |limit| async move { ping::check(&line, limit).await }).await;
            self.record(Kind::Ping, start, outcome.as_ref().err(), None);
            let reach = pings.after(Heard::of(&outcome), self.desk.settings().ping_max_failures);
            if let Some(reach) = reach {
                self.desk.find(Finding::Reach(self.address.clone(), reach));
            }
        }
    }

    async fn read_only(self: Rc<Shared>, check_type: CheckType) {
        let mut clock = self.clock(|settings| settings.read_only);
        let mut roles = Roles::default();
        loop {
            clock.wait().await;
            let line = self.line();
            let check = |limit| async move { read_only::check(&line, check_type, limit).await };
            let (start, outcome) = self.timed(&clock, check).await;
            let value = outcome.as_ref().ok().map(|role| i64::from(*role == Role::Reader));
            self.record(Kind::ReadOnly, start, outcome.as_ref().err(), value);
            let role = roles.after(Seen::of(&outcome), self.desk.settings().read_only_max_timeout_count);
            if let Some(role) = role {
                self.desk.find(Finding::Role(self.address.clone(), check_type, role));
            }
        }
    }

    async fn replication_lag(self: Rc<Shared>) {
        let mut clock = self.clock(|settings| settings.replication_lag);
        let mut lags: Vec<(HostgroupId, Lags)> = Vec::new();
        loop {
            clock.wait().await;
            let (line, settings) = (self.line(), self.desk.settings());
            let heartbeat = settings.heartbeat.clone();
            let check = |limit| async move { replication_lag::check(&line, &heartbeat, limit).await };
            let (start, outcome) = self.timed(&clock, check).await;
            let value = match &outcome {
                Ok(Behind::Seconds(seconds)) => i64::try_from(*seconds).ok(),
                _ => None,
            };
            self.record(Kind::ReplicationLag, start, outcome.as_ref().err(), value);
            let limits = self.target.borrow().lag_limits.clone();
            lags.retain(|(hostgroup, _)| limits.iter().any(|limit| limit.hostgroup == *hostgroup));
            for LagLimit { hostgroup, seconds, when_null } in limits {
                if !lags.iter().any(|(of, _)| *of == hostgroup) {
                    lags.push((hostgroup, Lags::default()));
                }
                let limits = Limits {
                    seconds,
                    when_null: when_null.unwrap_or(settings.lag_when_null),
                    count: settings.replication_lag_count,
                };
                let of_hostgroup = lags.iter_mut().find(|(of, _)| *of == hostgroup);
                let behind = outcome.as_ref().ok().copied();
                let lag = of_hostgroup.and_then(|(_, lags)| lags.after(behind, limits));
                if let (Some(lag), Some(behind)) = (lag, behind) {
                    let seen = replication_lag::Seen { behind, limit_s: limits.seconds };
                    self.desk.find(Finding::Lag(self.address.clone(), hostgroup, lag, seen));
                }
            }
        }
    }

    fn line(&self) -> Rc<Line> {
        Rc::clone(&self.line.borrow())
    }

    fn clock(&self, timing: fn(&Settings) -> Timing) -> Clock {
        let interval = timing(&self.desk.settings()).interval;
        let first = interval.min(self.spread).mul_f64(rand::random());
        Clock { desk: Rc::clone(&self.desk), timing, begun: Instant::now(), delay: Some(first) }
    }

    /// Runs a check within its time limit; returns when it started, and its outcome.
    async fn timed<T, F>(
        &self,
        clock: &Clock,
        check: impl FnOnce(Duration) -> F,
    ) -> (Start, Result<T, BackendError>)
    where
        F: Future<Output = Result<T, BackendError>>,
    {
        // There is one as long as the desk exists.
        let _place = self.desk.places.acquire().await;
        let limit = (clock.timing)(&self.desk.settings()).timeout;
        let start = Start { at: SystemTime::now(), clock: Instant::now() };
        let outcome = timeout(limit, check(limit)).await.unwrap_or(Err(BackendError::Timeout));
        (start, outcome)
    }

    fn record(&self, kind: Kind, start: Start, error: Option<&BackendError>, value: Option<i64>) {
        let took = u64::try_from(start.clock.elapsed().as_micros()).unwrap_or(u64::MAX);
        let since_1970 = start.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.desk.record(Record {
            kind,
            address: self.address.clone(),
            start_us: i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX),
            outcome: match error {
                None => Ok(took),
                Some(BackendError::Timeout) => Err(format!("timeout after {} ms", took / 1_000)),
                Some(error) => Err(error.to_string()),
            },
            is_refused: error.is_some_and(is_refusal),
            value,
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
    desk: Rc<Desk>,
    timing: fn(&Settings) -> Timing,
    /// When the previous one was due.
    begun: Instant,
    /// The delay of the first one.
    delay: Option<Duration>,
}

impl Clock {
    /// Waits until the next one is due, with the interval then in force.
    async fn wait(&mut self) {
        let due = loop {
            let interval = (self.timing)(&self.desk.settings()).interval;
            let due = self.begun + self.delay.unwrap_or(interval).min(interval);
            let changed = self.desk.changed.notified();
            if timeout_at(self.desk.next_beat(due), changed).await.is_err() {
                break due;
            }
        };
        self.delay = None;
        let (now, interval) = (Instant::now(), (self.timing)(&self.desk.settings()).interval);
        // Missed checks are not made up for.
        self.begun = if now.saturating_duration_since(due) < interval { due } else { now };
    }
}
