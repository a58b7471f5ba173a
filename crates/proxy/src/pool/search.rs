//! A lease that cannot be had at once: connections are opened, logged in again, or waited for.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::idle::NEW_LOGIN;
use super::opening::{Relogin, log_in_again};
use super::waiters::Place;
use super::{Ask, Attempt, Group, LeaseError, Mail, Pool, count};
use crate::backend::{Backend, BackendError};
use crate::hostgroup::{ConnectionSlot, CrowdPlace, Hostgroup, Server};
use crate::rows::HostgroupId;
use crate::rt::{Instant, nanoseconds, sleep, spawn_local, timeout_at};
use crate::snapshot::{LocalSnapshot, Snapshot};

/// What ends a wait in the queue.
enum Turn {
    /// Something can be had.
    Take(Attempt),
    /// The configuration is another one.
    Outdated,
    /// The deadline has passed.
    Late,
}

/// When a search began, and what it has.
struct Begun {
    at: Instant,
    /// The same, in ns since the process started.
    since: u64,
    /// Its place among those who wait, from the first time that it has to.
    crowd: Option<CrowdPlace>,
    /// For how long it rests when the account has all the connections that its server allows it.
    full_pause: Duration,
}

/// A lease that could not be had at once.
struct Search<'a> {
    pool: &'a Pool,
    group: &'a Rc<Group>,
    snapshot: &'a Snapshot,
    hostgroup: &'a Hostgroup,
    ask: Ask<'a>,
}

impl Pool {
    /// Looks until there is one, under the configuration that is in force then: servers may come, or move, while a
    /// statement waits for them.
    pub(super) async fn search(
        &self,
        snapshot: &Snapshot,
        id: HostgroupId,
        ask: Ask<'_>,
        mut first: Option<Attempt>,
    ) -> Result<Backend, LeaseError> {
        let at = ask.began.unwrap_or_else(Instant::now);
        let since = nanoseconds(at.saturating_duration_since(self.epoch));
        let mut begun = Begun { at, since, crowd: None, full_pause: FIRST_FULL_PAUSE };
        let mut newer: Option<LocalSnapshot> = None;
        loop {
            let snapshot = newer.as_ref().map_or(snapshot, |newer| newer.as_ref());
            if let Some(hostgroup) = snapshot.hostgroups.get(&id) {
                let group = self.group(&hostgroup.demand);
                let search = Search { pool: self, group: &group, snapshot, hostgroup, ask };
                let attempt = first.take().unwrap_or(Attempt::Busy);
                let found = search.run(attempt, &mut begun).await?;
                if let Some(mut backend) = found.filter(|backend| self.is_still_of_use(backend, snapshot)) {
                    if backend.in_use.is_none() {
                        backend.in_use = Some(group.use_of(&backend.login.server, Instant::now()));
                    }
                    return Ok(backend);
                }
            } else if self.newer_than(snapshot).is_none() {
                let changed = self.changed.notified();
                let deadline = at + snapshot.variables.connect_timeout_server_max;
                if timeout_at(deadline, changed).await.is_err() {
                    return Err(self.unavailable(id, None, (at, None)));
                }
            }
            newer = Some(self.in_force.get());
        }
    }

    /// The configuration in force, where it is another than `snapshot`.
    fn newer_than(&self, snapshot: &Snapshot) -> Option<LocalSnapshot> {
        Some(self.in_force.get()).filter(|newest| !std::ptr::eq(Arc::as_ptr(newest), snapshot))
    }

    /// Whether a connection may be used that was opened, or logged in again, while `snapshot` was in force: its server may be out
    /// by now, and what is sent there then would never be cut off.
    fn is_still_of_use(&self, backend: &Backend, snapshot: &Snapshot) -> bool {
        self.newer_than(snapshot).is_none_or(|newer| newer.may_use(&backend.login.server))
    }
}

impl Search<'_> {
    /// `None`: the configuration is another one.
    async fn run(self, first: Attempt, begun: &mut Begun) -> Result<Option<Backend>, LeaseError> {
        let mut attempt = first;
        let known = Some((&**self.group, self.hostgroup));
        loop {
            // While a connection is opened or logged in again this search has no place in the queue, so that
            // others continue; it keeps its time of arrival.
            let found = match attempt {
                Attempt::Idle(backend, fitness) => self.adapt(backend, fitness).await,
                Attempt::Open(server, slot) => self.open(server, slot).await,
                Attempt::Busy | Attempt::NoServer => Ok(None),
            };
            let deadline = begun.at + self.hostgroup.settings.longest_wait;
            let found = match found {
                // Those of its connections that are idle are being closed. The others will be idle, but not necessarily one that
                // this client can have.
                Err(LeaseError::Full(_)) if !self.ask.new && Instant::now() + begun.full_pause < deadline => {
                    sleep(begun.full_pause).await;
                    begun.full_pause = (begun.full_pause * 2).min(LONGEST_FULL_PAUSE);
                    None
                }
                found => found?,
            };
            match found {
                Some(backend) if self.pool.held_until(self.hostgroup.id).is_none() => {
                    return Ok(Some(backend));
                }
                // The hold has begun meanwhile.
                Some(backend) => self.pool.release(self.snapshot, backend, Instant::now()),
                None => {}
            }
            if begun.crowd.is_none() {
                if self.ask.lag.is_some() {
                    count(&self.pool.figures.delayed_by_lag);
                }
                let place = self.pool.join(self.group, self.hostgroup, self.ask.bytes, begun.at)?;
                begun.crowd = Some(place);
            }
            let waits_from = Instant::now();
            let turn = self.wait(begun.since, deadline).await;
            if self.ask.lag.is_some() {
                self.pool.figures.add_lag_wait(waits_from.elapsed());
            }
            attempt = match turn {
                Turn::Take(attempt) => attempt,
                Turn::Outdated => return Ok(None),
                Turn::Late => {
                    return Err(self.pool.unavailable(self.hostgroup.id, known, (begun.at, self.ask.lag)));
                }
            };
        }
    }

    /// Waits in the queue.
    async fn wait(&self, since: u64, deadline: Instant) -> Turn {
        let place = Place::join(Rc::clone(self.group), self.pool.worker, since);
        loop {
            if self.pool.newer_than(self.snapshot).is_some() {
                return Turn::Outdated;
            }
            let held = self.pool.held_until(self.hostgroup.id);
            if place.is_first()
                && held.is_none()
                && let Some(found) = self.look(&place)
            {
                return Turn::Take(found);
            }
            if Instant::now() >= deadline {
                return Turn::Late;
            }
            let unpaused = self.group.next_unpaused(self.hostgroup);
            let now = Instant::now();
            let may_open = self.pool.opening_pause(self.hostgroup, now).map(|pause| now + pause);
            // While a cluster has no writer, its nodes are asked again and again.
            let alarm = self.hostgroup.is_of_cluster().then(|| now + ALARM_INTERVAL);
            let checked = self.ask.lag.map(|_| now + LAG_INTERVAL);
            let others = may_open.into_iter().chain(alarm).chain(held).chain(checked);
            let until = unpaused.into_iter().chain(others).fold(deadline, Instant::min);
            // Poked or not, the next look decides.
            let _ = timeout_at(until, place.poked()).await;
        }
    }

    /// What can be had by the one whose turn it is. If there is nothing, other workers are asked for what they have.
    fn look(&self, place: &Place) -> Option<Attempt> {
        let (demand, own) = (&self.group.demand, self.pool.worker);
        let ask = Ask { now: Instant::now(), ..self.ask };
        let is_choosy = || ask.lag.is_some_and(|limit| limit.excludes_any(self.hostgroup));
        match self.pool.attempt(self.group, self.hostgroup, &ask) {
            Attempt::Busy | Attempt::NoServer if is_choosy() => place.let_pass(),
            Attempt::Busy => {}
            Attempt::NoServer => self.hostgroup.raise_alarm(),
            found => return Some(found),
        }
        let borrow = |worker| {
            if demand.may_ask(worker, own) {
                let mail = Mail::Borrow { hostgroup: self.hostgroup.id, to: own, lag: ask.lag };
                self.pool.outbox.send(worker, mail);
            }
        };
        match ask.lag {
            None => demand.idle_elsewhere(own).into_iter().for_each(borrow),
            // The one with most of them may have none to a server within the limit.
            Some(_) => demand.all_idle_elsewhere(own).for_each(borrow),
        }
        None
    }

    /// Logs an idle connection in again where it is another account's, or has a schema that must go.
    async fn adapt(&self, backend: Backend, fitness: u32) -> Result<Option<Backend>, LeaseError> {
        if fitness < NEW_LOGIN {
            return Ok(Some(backend));
        }
        let limit = self.snapshot.variables.connect_timeout_server;
        let (backend, settled) = settle(backend, limit).await;
        if fitness == NEW_LOGIN {
            let server = Arc::clone(&backend.login.server);
            self.group.tally(&server).count(|tally| tally.change_users += 1);
            let changed = match settled {
                Ok(()) => log_in_again(self.snapshot, backend, self.ask.want).await,
                Err(error) => Err(error),
            };
            return match changed {
                Ok(Relogin::Done(backend)) => Ok(Some(backend)),
                Ok(Relogin::Not(backend)) => self.reopen(backend).await,
                Err(error) => {
                    let settings = (&self.snapshot.variables, self.hostgroup);
                    self.pool.failed(self.group, settings, (&server, self.ask.want), error)
                }
            };
        }
        if let Err(error) = settled {
            tracing::debug!(%error, "what a connection kept is lost with it");
        }
        self.reopen(backend).await
    }

    /// Opens a connection in the place of one that is closed.
    async fn reopen(&self, backend: Backend) -> Result<Option<Backend>, LeaseError> {
        match backend.into_slot() {
            (server, Some(slot)) => self.open(server, slot).await,
            (_, None) => Ok(None),
        }
    }

    async fn open(&self, server: Arc<Server>, slot: ConnectionSlot) -> Result<Option<Backend>, LeaseError> {
        self.pool.open(self.group, (self.snapshot, self.hostgroup), (server, slot), &self.ask).await
    }
}

/// Fetches what a connection keeps for another client. A task of its own does that: when the search is given up meanwhile,
/// because its own client has gone, the other one must not lose anything by it.
async fn settle(mut backend: Backend, limit: Duration) -> (Backend, Result<(), BackendError>) {
    if !backend.keeps_something() {
        return (backend, Ok(()));
    }
    let settling = spawn_local(async move {
        let settled = backend.collect_diagnostics(limit).await;
        (backend, settled)
    });
    settling.await.expect("it neither panics nor is aborted")
}

/// How often a search with a limit of lag looks whether a check has found another lag. That of Aurora may be made ten times a
/// second.
const LAG_INTERVAL: Duration = Duration::from_millis(100);

/// How long a search that finds no writer of a cluster waits until it raises the alarm again.
const ALARM_INTERVAL: Duration = Duration::from_secs(1);

/// The first and the longest pause before a login is tried again that its server has refused because the account has too
/// many connections. A server counts one for a moment after it was closed.
const FIRST_FULL_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_FULL_PAUSE: Duration = Duration::from_millis(320);
