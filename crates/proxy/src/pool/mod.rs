//! One worker's backend connections: who gets one, who waits, and what happens to a returned one.
//!
//! A server's `max_connections` is for the whole process, so workers without a free connection ask each other:
//!
//! 1. an an own idle connection, the one whose state differs least;
//! 2. a new one, if the server has room;
//! 3. an idle one of another account or class, after a new login;
//! 4. an idle one of another worker, by message;
//! 5. wait, in order of arrival, up to the deadline.
//!
//! Only the waiter at the front may take; a newcomer never overtakes. A returned connection goes to the worker with the
//! longest waiter. What is done to it first is decided in one place: see [`Exit`]; and only its [`Lease`] can return
//! it.

mod exit;
mod failures;
mod figures;
mod lease;
mod mail;
mod opening;
mod unavailable;
mod upkeep;
mod waiters;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Backend, BackendError, ServerError, ServerTally, Use, Want};
use crate::figures::ErrorTable;
use crate::hostgroup::{Demand, Hostgroup, RoundRobin, Server, ServerFigures, Slot};
use crate::outbox::Outbox;
use crate::prepared::Identity;
use crate::rows::HostgroupId;
use crate::rt::{Instant, Notify, nanoseconds, spawn_local, timeout_at};
use crate::snapshot::{InForce, LocalSnapshot, Snapshot};
use crate::state::SharedState;

pub use exit::Exit;
use failures::{Failure, Scope};
use figures::PoolFigures;
pub use figures::ServerReport;
pub use lease::Lease;
pub use mail::{Lent, Mail};
use opening::LastLogin;
pub use opening::Opening;
pub use unavailable::Cause;
use unavailable::Told;
use waiters::{Place, Waiters};

/// The backend connections of one worker.
pub struct Pool {
    worker: usize,
    outbox: Outbox<Mail>,
    pokes: Outbox<HostgroupId>,
    epoch: Instant,
    groups: RefCell<BTreeMap<HostgroupId, Rc<Group>>>,
    figures: PoolFigures,
    told: Told,
    errors: Rc<RefCell<ErrorTable>>,
    in_force: Rc<InForce>,
    changed: Notify,
}

/// A pool's surroundings.
pub struct Station {
    /// The worker it belongs to.
    pub worker: usize,
    /// When the process started.
    pub started: Instant,
    /// The configuration in force.
    pub in_force: Rc<InForce>,
    /// Sends messages to other workers' pools.
    pub outbox: Outbox<Mail>,
    /// Wakes waiters there.
    pub pokes: Outbox<HostgroupId>,
    /// Receives failures to connect.
    pub errors: Rc<RefCell<ErrorTable>>,
}

/// One hostgroup on one worker.
struct Group {
    demand: Arc<Demand>,
    /// Most recently used last.
    idle: RefCell<Vec<Backend>>,
    waiters: Waiters,
    round: RefCell<RoundRobin>,
    failures: RefCell<HashMap<*const ServerFigures, Failure>>,
    /// Servers that have come back, and since when.
    back_since: RefCell<HashMap<*const ServerFigures, Instant>>,
    /// For whom connections are opened in advance, if that is enabled.
    last_login: RefCell<Option<LastLogin>>,
    /// The counters, by the identity of the server's figures, which are kept as long as they have counters.
    tallies: RefCell<Vec<(Arc<ServerFigures>, Rc<ServerTally>)>>,
}

/// A request to the pool.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Whose login.
    pub want: &'a Want,
    /// The preferred state.
    pub state: &'a SharedState,
    /// Prefer this connection, if nobody has used it since.
    pub untouched: Option<Use>,
    /// Among equally suitable ones, prefer one that has this statement.
    pub statement: Option<Identity>,
    /// Prefer a server other than this one.
    pub instead_of: Option<&'a ServerFigures>,
    /// Only a new connection: one is opened, replacing an idle one if there is no room.
    pub new: bool,
    /// The time, read recently: reading the clock costs more than the rest of most leases.
    pub now: Instant,
}

/// Why there is no backend connection.
#[derive(Debug)]
pub enum LeaseError {
    /// No server was available in time; the text names each with the reason.
    Unavailable(String),
    /// A server refused the login; the client gets its error.
    Refused(ServerError),
}

/// What is available now.
enum Attempt {
    Idle(Backend),
    Open(Arc<Server>, Slot),
    /// Every server is in use up to its limit.
    Busy,
    /// No server is eligible.
    NoServer,
}

/// Why a wait in the queue ends.
enum Turn {
    /// Something is available.
    Take(Attempt),
    /// The configuration has changed.
    Outdated,
    /// The deadline has passed.
    Late,
}

impl Pool {
    /// An empty pool for one worker.
    pub fn new(place: Station) -> Pool {
        let Station { worker, started, in_force, outbox, pokes, errors } = place;
        let (figures, told) = (PoolFigures::default(), Told::default());
        let (groups, changed) = (RefCell::default(), Notify::new());
        Pool { worker, outbox, pokes, epoch: started, groups, figures, told, errors, in_force, changed }
    }

    /// A connection of `hostgroup` that matches the request, with the most similar state available.
    ///
    /// # Errors
    /// See [`LeaseError`]. Nothing takes longer than `connect_timeout_server_max`.
    pub async fn lease(
        &self,
        snapshot: &Snapshot,
        hostgroup: HostgroupId,
        ask: Ask<'_>,
    ) -> Result<Lease, LeaseError> {
        let figures = &self.figures;
        count(&figures.asked);
        match self.find(snapshot, hostgroup, ask).await {
            Ok(mut backend) => {
                count(&figures.given);
                backend.login.count_lease();
                Ok(Lease::new(backend))
            }
            Err(error) => {
                count(&figures.failed);
                if matches!(error, LeaseError::Unavailable(_)) {
                    count(&figures.timeouts);
                }
                Err(error)
            }
        }
    }

    async fn find(
        &self,
        snapshot: &Snapshot,
        hostgroup: HostgroupId,
        ask: Ask<'_>,
    ) -> Result<Backend, LeaseError> {
        let Some(known) = snapshot.hostgroups.get(&hostgroup) else {
            return Box::pin(self.search(snapshot, hostgroup, ask, None)).await;
        };
        let group = self.group(&known.demand);
        let first = if group.waiters.is_empty() { self.attempt(&group, known, &ask) } else { Attempt::Busy };
        match first {
            Attempt::Idle(mut backend) if fitness(&backend, &ask) < NEW_LOGIN => {
                count(&self.figures.immediate);
                if backend.in_use.is_none() {
                    backend.in_use = Some(group.use_of(&backend.login.server, ask.now));
                }
                Ok(backend)
            }
            first => Box::pin(self.search(snapshot, hostgroup, ask, Some(first))).await,
        }
    }

    /// Searches until there is one, with the configuration then in force: servers may be added or moved while a
    /// statement waits for them.
    async fn search(
        &self,
        snapshot: &Snapshot,
        id: HostgroupId,
        ask: Ask<'_>,
        mut first: Option<Attempt>,
    ) -> Result<Backend, LeaseError> {
        let started = Instant::now();
        let deadline = started + snapshot.variables.connect_timeout_server_max;
        let since = nanoseconds(self.epoch.elapsed());
        let mut newer: Option<LocalSnapshot> = None;
        loop {
            let snapshot = newer.as_ref().map_or(snapshot, |newer| newer.as_ref());
            if let Some(hostgroup) = snapshot.hostgroups.get(&id) {
                let group = self.group(&hostgroup.demand);
                let search = Search { pool: self, group: &group, snapshot, hostgroup, ask };
                let attempt = first.take().unwrap_or(Attempt::Busy);
                let found = search.run(attempt, (started, since), deadline).await?;
                if let Some(mut backend) = found.filter(|backend| self.is_still_of_use(backend, snapshot)) {
                    if backend.in_use.is_none() {
                        backend.in_use = Some(group.use_of(&backend.login.server, Instant::now()));
                    }
                    return Ok(backend);
                }
            } else if self.newer_than(snapshot).is_none() {
                let changed = self.changed.notified();
                if timeout_at(deadline, changed).await.is_err() {
                    return Err(self.unavailable(id, None, started));
                }
            }
            newer = Some(self.in_force.get());
        }
    }

    /// The configuration in force, if it differs from `snapshot`.
    fn newer_than(&self, snapshot: &Snapshot) -> Option<LocalSnapshot> {
        Some(self.in_force.get()).filter(|newest| !std::ptr::eq(Arc::as_ptr(newest), snapshot))
    }

    /// Whether a connection that was opened, or logged in again, while `snapshot` was in force may be used: its server
    /// may be out of service by now, and what is sent there would never be cut off.
    fn is_still_of_use(&self, backend: &Backend, snapshot: &Snapshot) -> bool {
        self.newer_than(snapshot).is_none_or(|newer| newer.may_use(&backend.login.server))
    }

    /// The configuration has changed: waiters look again.
    pub fn take_over(&self) {
        let snapshot = self.in_force.get();
        for group in self.groups.borrow().values() {
            group
                .idle
                .borrow_mut()
                .retain(|backend| !has_moved(backend, &snapshot) && !is_too_many(backend, &snapshot));
            self.publish_idle(group);
        }
        self.changed.notify_waiters();
        self.poke_all();
    }

    fn group(&self, demand: &Arc<Demand>) -> Rc<Group> {
        let mut groups = self.groups.borrow_mut();
        let fresh = || Rc::new(Group::new(Arc::clone(demand)));
        Rc::clone(groups.entry(demand.hostgroup).or_insert_with(fresh))
    }

    /// Takes what is available now.
    fn attempt(&self, group: &Group, hostgroup: &Hostgroup, ask: &Ask<'_>) -> Attempt {
        if let Some(backend) = ask.untouched.and_then(|last| group.take_untouched(last)) {
            self.publish_idle(group);
            return Attempt::Idle(backend);
        }
        let now = ask.now.saturating_duration_since(self.epoch);
        loop {
            let pause = |server: &Server| group.pause(server, ask.now);
            let is_there = |server: &Server| {
                hostgroup.may_use(server) && pause(server).is_none_or(|scope| scope == Scope::Opening)
            };
            let rests = |server: &Server| server.figures.shun.rests(now);
            let left = |server: &Server| ask.instead_of.is_some_and(|it| std::ptr::eq(it, &*server.figures));
            let has = |wanted: &dyn Fn(&Server) -> bool| {
                hostgroup.servers.iter().any(|server| is_there(server) && wanted(server))
            };
            // A shunned server is better than none, and so is the one to be avoided.
            let all_rest = !has(&|server| !rests(server));
            let none_else = ask.instead_of.is_none() || !has(&|server| !rests(server) && !left(server));
            let awake = hostgroup.servers.iter().filter(|server| {
                is_there(server) && (all_rest || !rests(server)) && (none_else || !left(server))
            });
            let most_us = hostgroup.latency_limit(awake.clone()).unwrap_or(u64::MAX);
            let eligible = awake.filter(|server| server.figures.latency_us() <= most_us);
            let may_open = |server: &Server| {
                server.has_room()
                    && pause(server).is_none()
                    && self.opening_pause(hostgroup, ask.now).is_none()
            };
            let is_at_hand = |server: &Server| may_open(server) || group.has_idle(server);
            let load = |server: &Server| group.load(server, ask.now);
            let ready =
                |server: &Server| group.readiness(server, ask.now).min(server.figures.shun.readiness(now));
            let (balance, mut round) = (hostgroup.settings.balance, group.round.borrow_mut());
            let mut server = round.next(balance, eligible.clone(), is_at_hand, ready, load);
            if server.is_none() {
                if eligible.clone().next().is_some() {
                    return Attempt::Busy;
                }
                // A server that cannot be connected to may still serve existing connections, and there is no other.
                let unreachable = |server: &&Arc<Server>| {
                    hostgroup.may_use(server)
                        && pause(server) == Some(Scope::Everything)
                        && group.has_idle(server)
                };
                server =
                    round.next(balance, hostgroup.servers.iter().filter(unreachable), |_| true, ready, load);
            }
            drop(round);
            let Some(server) = server else { return Attempt::NoServer };
            let fitting = group.take_idle(server, ask);
            self.publish_idle(group);
            match fitting {
                Some(backend) if !backend.is_alive() => {
                    server.figures.distrust();
                    continue;
                }
                Some(backend) if fitness(&backend, ask) < NEW_LOGIN => return Attempt::Idle(backend),
                Some(backend) => {
                    match may_open(server).then(|| self.slot(hostgroup, server, ask.now)).flatten() {
                        // There is room for another connection: the other account keeps its own.
                        Some(slot) => {
                            self.put_idle(group, backend);
                            return Attempt::Open(Arc::clone(server), slot);
                        }
                        None => return Attempt::Idle(backend),
                    }
                }
                None => match self.slot(hostgroup, server, ask.now) {
                    Some(slot) => return Attempt::Open(Arc::clone(server), slot),
                    None => continue,
                },
            }
        }
    }

    /// Takes a connection back, for the longest waiter or for later. It must be idle and in a known state. `now` was
    /// read recently.
    fn release(&self, snapshot: &Snapshot, mut backend: Backend, now: Instant) {
        if backend.in_use.take().is_some() {
            count(&self.figures.returned);
        }
        backend.login.last_used = now;
        let row = &backend.login.server.row;
        let current = snapshot.hostgroups.get(&row.hostgroup).and_then(|hostgroup| {
            let same = |server: &&Arc<Server>| Arc::ptr_eq(&server.figures, &backend.login.server.figures);
            hostgroup.servers.iter().find(same).map(|server| (hostgroup, server))
        });
        let Some((hostgroup, server)) = current.filter(|(_, server)| server.is_eligible()) else {
            return drop(backend);
        };
        let age = snapshot.variables.connection_max_age;
        if !age.is_zero() && now.duration_since(backend.login.created) > age {
            return drop(backend);
        }
        // As many as exceed the limit since the server's row was changed.
        if backend.login.is_elsewhere(server) || server.has_too_many() {
            return drop(backend);
        }
        backend.login.server = Arc::clone(server);
        let group = self.group(&hostgroup.demand);
        if let Some((worker, _)) = group.demand.oldest_waiter()
            && worker != self.worker
        {
            return self.lend(worker, backend);
        }
        self.put_idle(&group, backend);
        group.waiters.poke();
    }

    /// A server refused a write because it is read-only, so it does not belong in its hostgroup: its role is checked
    /// before it gets statements again.
    pub fn turn_away(&self, snapshot: &Snapshot, server: &Arc<Server>, text: &str) {
        let Some(hostgroup) = snapshot.hostgroups.get(&server.row.hostgroup) else { return };
        let group = self.group(&hostgroup.demand);
        group.idle.borrow_mut().retain(|idle| !Arc::ptr_eq(&idle.login.server.figures, &server.figures));
        self.publish_idle(&group);
        group.leave_alone(server, text.to_owned(), Scope::Writes, snapshot.variables.connect_retries_delay);
    }

    /// Another worker has sent a connection.
    fn take_in(self: &Rc<Pool>, Lent(backend): Lent) {
        match backend.attach() {
            // Its owner's message may have gone to where the connection was before.
            Ok(backend) if backend.is_asked_for_something() => self.collect_from(backend),
            Ok(backend) => self.release_here(&self.in_force.get(), backend),
            Err(error) => tracing::warn!(%error, "a backend connection was lost between two workers"),
        }
    }

    /// As [`Pool::release`], but for this worker's own waiters first: the connection was sent for them.
    fn release_here(&self, snapshot: &Snapshot, backend: Backend) {
        let known = snapshot.hostgroups.get(&backend.login.server.row.hostgroup);
        match known.map(|hostgroup| self.group(&hostgroup.demand)) {
            Some(group) if !group.waiters.is_empty() => {
                self.put_idle(&group, backend);
                group.waiters.poke();
            }
            _ => self.release(snapshot, backend, Instant::now()),
        }
    }

    /// Another worker has waiters and asks for an idle connection.
    fn lend_idle(&self, hostgroup: HostgroupId, to: usize) {
        let Some(group) = self.groups.borrow().get(&hostgroup).map(Rc::clone) else { return };
        group.demand.hears_borrower(self.worker, to);
        if !group.waiters.is_empty() {
            return;
        }
        let lent = group.idle.borrow_mut().pop();
        self.publish_idle(&group);
        if let Some(backend) = lent {
            self.lend(to, backend);
        }
    }

    fn lend(&self, worker: usize, backend: Backend) {
        if let Some(residue) = &backend.login.residue {
            residue.moves_to(worker);
        }
        match backend.detach() {
            Ok(backend) => self.outbox.send(worker, Mail::Backend(Lent(Box::new(backend)))),
            Err(error) => tracing::warn!(%error, "a backend connection was lost between two workers"),
        }
    }

    /// The connection, if it is idle here and nobody has used it since.
    fn take_untouched(&self, hostgroup: HostgroupId, last: Use) -> Option<Backend> {
        let group = self.groups.borrow().get(&hostgroup).map(Rc::clone)?;
        let backend = group.take_untouched(last);
        self.publish_idle(&group);
        backend
    }

    /// Something has changed that may help a waiter: a slot was freed, or the configuration is another.
    fn poke(&self, hostgroup: HostgroupId) {
        if let Some(group) = self.groups.borrow().get(&hostgroup) {
            group.demand.hears_poke(self.worker);
            group.waiters.poke();
        }
    }

    /// The same for all hostgroups.
    fn poke_all(&self) {
        self.groups.borrow().values().for_each(|group| group.waiters.poke());
    }

    fn put_idle(&self, group: &Group, backend: Backend) {
        group.idle.borrow_mut().push(backend);
        self.publish_idle(group);
    }

    fn publish_idle(&self, group: &Group) {
        group.demand.set_idle(self.worker, group.idle.borrow().len());
    }
}

/// A request that could not be met at once.
struct Search<'a> {
    pool: &'a Pool,
    group: &'a Rc<Group>,
    snapshot: &'a Snapshot,
    hostgroup: &'a Hostgroup,
    ask: Ask<'a>,
}

impl Search<'_> {
    /// `None`: the configuration has changed.
    async fn run(
        self,
        first: Attempt,
        (started, since): (Instant, u64),
        deadline: Instant,
    ) -> Result<Option<Backend>, LeaseError> {
        let mut attempt = first;
        loop {
            // While a connection is opened or logged in again, this search has no place in the queue, so that others
            // can continue; it keeps its time of arrival.
            let found = match attempt {
                Attempt::Idle(backend) => self.adapt(backend).await?,
                Attempt::Open(server, slot) => self.open(server, slot).await?,
                Attempt::Busy | Attempt::NoServer => None,
            };
            if let Some(backend) = found {
                return Ok(Some(backend));
            }
            attempt = match self.wait(since, deadline).await {
                Turn::Take(attempt) => attempt,
                Turn::Outdated => return Ok(None),
                Turn::Late => {
                    let known = Some((&**self.group, self.hostgroup));
                    return Err(self.pool.unavailable(self.hostgroup.id, known, started));
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
            if place.is_first() {
                let ask = Ask { now: Instant::now(), ..self.ask };
                match self.pool.attempt(self.group, self.hostgroup, &ask) {
                    Attempt::Busy | Attempt::NoServer => {}
                    found => return Turn::Take(found),
                }
                if let Some(worker) = self.group.demand.idle_elsewhere(self.pool.worker)
                    && self.group.demand.may_ask(worker, self.pool.worker)
                {
                    let mail = Mail::Borrow { hostgroup: self.hostgroup.id, to: self.pool.worker };
                    self.pool.outbox.send(worker, mail);
                }
            }
            if Instant::now() >= deadline {
                return Turn::Late;
            }
            let unpaused = self.group.next_unpaused(self.hostgroup);
            let now = Instant::now();
            let may_open = self.pool.opening_pause(self.hostgroup, now).map(|pause| now + pause);
            let until = unpaused.into_iter().chain(may_open).fold(deadline, Instant::min);
            // Poked or not, the next attempt decides.
            let _ = timeout_at(until, place.poked()).await;
        }
    }

    /// Logs in an idle connection again if it has another account, or a schema that must be removed.
    async fn adapt(&self, backend: Backend) -> Result<Option<Backend>, LeaseError> {
        let fitness = fitness(&backend, &self.ask);
        if fitness < NEW_LOGIN {
            return Ok(Some(backend));
        }
        let limit = self.snapshot.variables.connect_timeout_server;
        let (mut backend, settled) = settle(backend, limit).await;
        if fitness == NEW_LOGIN {
            let server = Arc::clone(&backend.login.server);
            self.group.tally(&server).count(|tally| tally.change_users += 1);
            let changed = match settled {
                Ok(()) => backend.change_user(self.ask.want, limit).await,
                Err(error) => Err(error),
            };
            return match changed {
                Ok(()) => Ok(Some(backend)),
                Err(error) => {
                    let settings = (&self.snapshot.variables, self.hostgroup);
                    self.pool.failed(self.group, settings, (&server, self.ask.want), error)
                }
            };
        }
        if let Err(error) = settled {
            tracing::debug!(%error, "what a connection kept is lost with it");
        }
        match backend.into_slot() {
            (server, Some(slot)) => self.open(server, slot).await,
            (_, None) => Ok(None),
        }
    }

    async fn open(&self, server: Arc<Server>, slot: Slot) -> Result<Option<Backend>, LeaseError> {
        self.pool.open(self.group, (self.snapshot, self.hostgroup), (server, slot), &self.ask).await
    }
}

impl Group {
    fn new(demand: Arc<Demand>) -> Group {
        Group {
            demand,
            idle: RefCell::default(),
            waiters: Waiters::default(),
            round: RefCell::default(),
            failures: RefCell::default(),
            back_since: RefCell::default(),
            last_login: RefCell::default(),
            tallies: RefCell::default(),
        }
    }

    fn has_idle(&self, server: &Server) -> bool {
        let of_server = |backend: &Backend| std::ptr::eq(&*backend.login.server.figures, &*server.figures);
        self.idle.borrow().iter().rev().any(of_server)
    }

    /// The idle connection whose last use was that lease.
    fn take_untouched(&self, last: Use) -> Option<Backend> {
        let mut idle = self.idle.borrow_mut();
        let index = idle.iter().position(|backend| backend.login.last_use() == last)?;
        Some(idle.remove(index)).filter(Backend::is_alive)
    }

    /// The idle connection of `server` with the lowest [`fitness`]; among equals one that has the statement, otherwise
    /// the most recently used.
    fn take_idle(&self, server: &Server, ask: &Ask<'_>) -> Option<Backend> {
        let lacks = |backend: &Backend| ask.statement.is_some_and(|it| !backend.login.statements.has(it));
        let mut idle = self.idle.borrow_mut();
        let mut best: Option<(usize, (u32, bool))> = None;
        let mut near = 0;
        for (index, backend) in idle.iter().enumerate().rev() {
            if !std::ptr::eq(&*backend.login.server.figures, &*server.figures) {
                continue;
            }
            let rank = (fitness(backend, ask), lacks(backend));
            if best.is_none_or(|(_, least)| rank < least) {
                best = Some((index, rank));
            }
            near += u32::from(rank.0 == 0);
            if rank == (0, false) || near == LOOKED_AT {
                break;
            }
        }
        best.map(|(index, _)| idle.remove(index))
    }
}

/// Fetches what a connection keeps for another client. A separate task does that: if the search is abandoned because
/// its own client has disconnected, the other client must not lose anything.
async fn settle(mut backend: Backend, limit: Duration) -> (Backend, Result<(), BackendError>) {
    if !backend.keeps_something() {
        return (backend, Ok(()));
    }
    let settling = spawn_local(async move {
        let settled = backend.settle_residue(limit).await;
        (backend, settled)
    });
    settling.await.expect("it neither panics nor is aborted")
}

/// Whether a connection is to a machine to which its server's name no longer resolves.
fn has_moved(backend: &Backend, snapshot: &Snapshot) -> bool {
    let known = &backend.login.server;
    let hostgroup = snapshot.hostgroups.get(&known.row.hostgroup);
    let mut servers = hostgroup.into_iter().flat_map(|hostgroup| &hostgroup.servers);
    servers.any(|server| Arc::ptr_eq(&server.figures, &known.figures) && backend.login.is_elsewhere(server))
}

/// Whether a connection's server now has more than allowed. Closing one reduces the excess.
fn is_too_many(backend: &Backend, snapshot: &Snapshot) -> bool {
    let known = &backend.login.server;
    let hostgroup = snapshot.hostgroups.get(&known.row.hostgroup);
    let mut servers = hostgroup.into_iter().flat_map(|hostgroup| &hostgroup.servers);
    servers.any(|server| Arc::ptr_eq(&server.figures, &known.figures) && server.has_too_many())
}

fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

/// How much must be done to an idle connection: 0 nothing, 1 answers to be translated, 2 a `SET`, 3 also a change of
/// schema, [`NEW_LOGIN`], or, beyond, close it and open another in its place.
fn fitness(backend: &Backend, ask: &Ask<'_>) -> u32 {
    let Ask { want, state, new, .. } = *ask;
    if new || !backend.fits_class(want) {
        return NEW_LOGIN + 1;
    }
    if !backend.fits_account(want) {
        return NEW_LOGIN;
    }
    if Arc::ptr_eq(&backend.login.state, state) {
        return u32::from(!backend.has_form(want));
    }
    match (&backend.login.state.schema, &state.schema) {
        (found, wanted) if found == wanted && backend.login.state != *state => 2,
        (found, wanted) if found == wanted => u32::from(!backend.has_form(want)),
        (Some(_), None) => NEW_LOGIN,
        _ => 3,
    }
}

/// The [`fitness`] of a connection that needs `COM_CHANGE_USER`: another account's, or one whose schema must go.
const NEW_LOGIN: u32 = 4;

/// How many idle connections in the client's state are searched for one that has its statement: preparing again costs
/// less than searching hundreds.
const LOOKED_AT: u32 = 32;

/// How many idle connections of a server are kept: `free_connections_pct` of its `max_connections`.
fn keep_idle(server: &Server, hostgroup: &Hostgroup) -> usize {
    let share = u64::from(server.row.max_connections) * u64::from(hostgroup.settings.free_connections_pct);
    usize::try_from(share.div_ceil(100)).unwrap_or(usize::MAX)
}
