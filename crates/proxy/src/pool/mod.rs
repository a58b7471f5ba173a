//! One worker's backend connections: who gets one, who waits, and what becomes of one that is given back.
//!
//! `max_connections` of a server is for the whole process, so workers that have none to spare ask each other:
//!
//! 1. own idle connection, the one whose state differs least;
//! 2. a new one, when the server has room;
//! 3. an idle one of another account or class, logged in again;
//! 4. an idle one of another worker, by message;
//! 5. wait, in order of arrival, up to the deadline.
//!
//! Only the waiter at the front may take; a newcomer never overtakes. A connection that is given back goes to the
//! worker whose waiter waits longest. What is done to it before is its [`Exit`], which its user names; nobody but its
//! [`Lease`] gives it back.

mod attempt;
mod exit;
mod failures;
mod figures;
mod holds;
mod idle;
mod lease;
mod mail;
mod opening;
mod preferred;
mod search;
#[cfg(test)]
mod tests;
mod unavailable;
mod upkeep;
mod waiters;
mod waiting;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use narrows_wire::gtid::GtidSet;

use crate::backend::{Backend, ServerError, ServerTally, Use, Want};
use crate::figures::ErrorTable;
use crate::hostgroup::{ConnectionSlot, Demand, Hostgroup, LagFilter, RoundRobin, Server, ServerFigures};
use crate::outbox::Outbox;
use crate::prepared::Identity;
use crate::rows::HostgroupId;
use crate::rt::{Instant, Notify};
use crate::snapshot::{InForce, Snapshot};
use crate::state::SharedState;

pub use exit::Exit;
use failures::{Failure, Scope};
use figures::PoolFigures;
pub use figures::ServerReport;
use holds::Holds;
pub use idle::is_of_its_hostgroup;
use idle::stays;
pub use lease::{Later, Lease};
pub use mail::{Lent, Mail};
use opening::LastLogin;
pub use opening::Warming;
use preferred::Choices;
pub use unavailable::UnavailableCause;
use unavailable::UnavailableReports;
use waiters::Waiters;
pub use waiting::WaitReport;

/// The backend connections of one worker.
pub struct Pool {
    worker: usize,
    outbox: Outbox<Mail>,
    pokes: Outbox<HostgroupId>,
    epoch: Instant,
    groups: RefCell<BTreeMap<HostgroupId, Rc<Group>>>,
    figures: PoolFigures,
    reports: UnavailableReports,
    errors: Rc<RefCell<ErrorTable>>,
    in_force: Rc<InForce>,
    changed: Notify,
    holds: Holds,
}

/// Where a pool stands.
pub struct Station {
    /// The worker it belongs to.
    pub worker: usize,
    /// When the process started.
    pub started: Instant,
    /// The configuration in force.
    pub in_force: Rc<InForce>,
    /// What reaches the pools of other workers.
    pub outbox: Outbox<Mail>,
    /// What reaches who waits there.
    pub pokes: Outbox<HostgroupId>,
    /// Where failures to connect are added to.
    pub errors: Rc<RefCell<ErrorTable>>,
}

/// One hostgroup on one worker.
struct Group {
    demand: Arc<Demand>,
    /// Most recently used last.
    idle: RefCell<Vec<Backend>>,
    waiters: Waiters,
    /// Since when clients wait that keep their connection, in ns since the process started, in any order.
    kept: RefCell<Vec<u64>>,
    round: RefCell<RoundRobin>,
    failures: RefCell<HashMap<*const ServerFigures, Failure>>,
    /// Servers that could be connected to again after a while, and since when.
    back_since: RefCell<HashMap<*const ServerFigures, Instant>>,
    /// Whom connections are opened early for; only where that is wanted.
    last_login: RefCell<Option<LastLogin>>,
    /// What became of choices among servers that are not all equal.
    choices: Choices,
    /// What is counted, by the identity of the server's figures, which are kept while they are counted for.
    tallies: RefCell<Vec<(Arc<ServerFigures>, Rc<ServerTally>)>>,
}

/// What is asked of the pool.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Whose login.
    pub want: &'a Want,
    /// In which state, at best.
    pub state: &'a SharedState,
    /// Rather this one than any other, when nobody has used it since.
    pub untouched: Option<Use>,
    /// Rather one that has this statement than another whose state is as near.
    pub statement: Option<Identity>,
    /// Rather a connection to any other server than this one.
    pub instead_of: Option<&'a ServerFigures>,
    /// Rather one to a server that is known to have applied these.
    pub prefers: Option<&'a GtidSet>,
    /// None to a server that is further behind.
    pub lag: Option<LagFilter>,
    /// None that anybody has used: one is opened, in the place of an idle one where there is no room.
    pub new: bool,
    /// The bytes of its statement, which are kept while it waits.
    pub bytes: u64,
    /// When the search began that this one continues, because what it had found was of no use: it keeps its place among those
    /// who wait, and its deadline.
    pub began: Option<Instant>,
    /// The time, read not long ago: reading the clock costs more than the rest of most leases.
    pub now: Instant,
}

impl<'a> Ask<'a> {
    /// Any connection of this login, best in that state.
    pub fn plain(want: &'a Want, state: &'a SharedState, now: Instant) -> Ask<'a> {
        Ask {
            want,
            state,
            untouched: None,
            statement: None,
            instead_of: None,
            prefers: None,
            lag: None,
            new: false,
            bytes: 0,
            began: None,
            now,
        }
    }
}

/// Why there is no backend connection.
#[derive(Debug)]
pub enum LeaseError {
    /// No server could be had in time; the text names each and why.
    Unavailable(String),
    /// A server refused the login; its own error is the client's.
    Refused(ServerError),
    /// The account has as many connections there as it may have, for as long as was waited.
    Full(ServerError),
    /// The login was accepted, and what each connection runs first was not.
    NoInit(ServerError),
}

/// What can be had right now.
enum Attempt {
    /// An idle connection, and its [`fitness`](idle::fitness).
    Idle(Backend, u32),
    Open(Arc<Server>, ConnectionSlot),
    /// Every server is in use up to its limit.
    Busy,
    /// No server is eligible.
    NoServer,
}

impl Pool {
    /// How long ago the process started.
    pub fn since_start(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// An empty pool for one worker.
    pub fn new(place: Station) -> Pool {
        let Station { worker, started, in_force, outbox, pokes, errors } = place;
        let (figures, reports) = (PoolFigures::default(), UnavailableReports::default());
        let (groups, changed, holds) = (RefCell::default(), Notify::new(), Holds::default());
        Pool {
            worker,
            outbox,
            pokes,
            epoch: started,
            groups,
            figures,
            reports,
            errors,
            in_force,
            changed,
            holds,
        }
    }

    /// Another configuration is in force: those who wait look again.
    pub fn take_over(&self) {
        let snapshot = self.in_force.get();
        for group in self.groups.borrow().values() {
            self.let_go_idle(group, |idle| !stays(idle, &snapshot));
        }
        self.changed.notify_waiters();
        self.poke_all();
    }

    fn group(&self, demand: &Arc<Demand>) -> Rc<Group> {
        let mut groups = self.groups.borrow_mut();
        let fresh = || Rc::new(Group::new(Arc::clone(demand)));
        Rc::clone(groups.entry(demand.hostgroup).or_insert_with(fresh))
    }

    /// A server has refused a write because it is read only, which is no server for its hostgroup: it is asked what it is
    /// before it gets work again.
    pub fn turn_away(&self, snapshot: &Snapshot, server: &Arc<Server>, text: &str) {
        let Some(hostgroup) = snapshot.hostgroups.get(&server.row.hostgroup) else { return };
        hostgroup.raise_alarm();
        let group = self.group(&hostgroup.demand);
        self.let_go_idle(&group, |idle| Arc::ptr_eq(&idle.login.server.figures, &server.figures));
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
            Some(group) if group.waiters.len() > 0 => {
                self.put_idle(&group, backend);
                group.waiters.poke();
            }
            _ => self.release(snapshot, backend, Instant::now()),
        }
    }

    /// Another worker has waiters and asks for an idle connection, within this limit of lag.
    fn lend_idle(&self, hostgroup: HostgroupId, to: usize, lag: Option<LagFilter>) {
        let Some(group) = self.groups.borrow().get(&hostgroup).map(Rc::clone) else { return };
        group.demand.hears_borrower(self.worker, to);
        if group.waiters.is_anyone_next() {
            return;
        }
        let lent = group.take_for_other(self.in_force.get().hostgroups.get(&hostgroup).map(|it| &**it), lag);
        self.publish_idle(&group);
        if let Some(backend) = lent {
            self.lend(to, backend);
        }
    }

    fn lend(&self, worker: usize, backend: Backend) {
        if let Some(uncollected) = &backend.login.uncollected {
            uncollected.moves_to(worker);
        }
        match backend.detach() {
            Ok(backend) => self.outbox.send(worker, Mail::Backend(Lent(Box::new(backend)))),
            Err(error) => tracing::warn!(%error, "a backend connection was lost between two workers"),
        }
    }

    /// The connection that nobody has used since, if it is idle here.
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

impl Group {
    fn new(demand: Arc<Demand>) -> Group {
        Group {
            demand,
            idle: RefCell::default(),
            waiters: Waiters::default(),
            kept: RefCell::default(),
            round: RefCell::default(),
            failures: RefCell::default(),
            back_since: RefCell::default(),
            last_login: RefCell::default(),
            choices: Choices::default(),
            tallies: RefCell::default(),
        }
    }
}

fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

/// Idle connections of a server that are kept: `free_connections_pct` of its `max_connections`.
fn keep_idle(server: &Server, hostgroup: &Hostgroup) -> usize {
    let share = u64::from(server.row.max_connections) * u64::from(hostgroup.settings.free_connections_pct);
    usize::try_from(share.div_ceil(100)).unwrap_or(usize::MAX)
}
