//! What one worker's pool counts, and what it reports about its connections.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::{Group, Pool};
use crate::backend::{Backend, InUse, Login, ServerTally};
use crate::figures::{Counters, FreeConnection, ServerTiming, Take, Tally};
use crate::hostgroup::{Load, Server, ServerFigures};
use crate::rt::Instant;
use crate::snapshot::{HostgroupId, Snapshot};

/// A pool's counters of its leases.
#[derive(Debug, Default)]
pub(super) struct PoolFigures {
    pub(super) asked: Cell<u64>,
    pub(super) immediate: Cell<u64>,
    pub(super) given: Cell<u64>,
    pub(super) failed: Cell<u64>,
    pub(super) returned: Cell<u64>,
    pub(super) timeouts: Cell<u64>,
    /// Statements with a limit of lag, those of them that had to wait,
    pub(super) with_lag: Cell<u64>,
    pub(super) delayed_by_lag: Cell<u64>,
    /// and for how long, in microseconds.
    pub(super) lag_wait_us: Cell<u64>,
    /// Connections that were reset before anybody else got them.
    pub(super) resets: Cell<u64>,
    /// What was counted since the start, for servers that the configuration no longer has, and before a reset.
    before: RefCell<Tally>,
}

impl PoolFigures {
    /// Adds the wait of a statement with a limit of lag.
    pub(super) fn add_lag_wait(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.lag_wait_us.set(self.lag_wait_us.get().saturating_add(us));
    }
}

/// What a worker reports about one server.
#[derive(Debug, Clone)]
pub struct ServerReport {
    /// The hostgroup.
    pub hostgroup: HostgroupId,
    /// The server's figures, which identify it.
    pub figures: Arc<ServerFigures>,
    /// Connections in use, now.
    pub used: u64,
    /// The most connections in use at once.
    pub most_used: u64,
    /// Idle connections, now.
    pub idle: u64,
    /// What is counted.
    pub tally: Tally,
    /// How long it takes.
    pub timing: ServerTiming,
    /// The last failure to reach it: when, until when it is avoided, and the text.
    pub failure: Option<(Instant, Instant, String)>,
}

impl Group {
    /// What is counted of a server.
    pub(super) fn tally(&self, server: &Server) -> Rc<ServerTally> {
        let mut tallies = self.tallies.borrow_mut();
        if let Some((_, tally)) = tallies.iter().find(|(figures, _)| Arc::ptr_eq(figures, &server.figures)) {
            return Rc::clone(tally);
        }
        let tally = Rc::<ServerTally>::default();
        tallies.push((Arc::clone(&server.figures), Rc::clone(&tally)));
        tally
    }

    /// Counts a connection as in use since `now`.
    pub(super) fn use_of(&self, server: &Server, now: Instant) -> InUse {
        InUse::new(self.tally(server), now)
    }

    /// This worker's load on a server.
    pub(super) fn load(&self, server: &Server, now: Instant) -> Load {
        let tallies = self.tallies.borrow();
        let tally = tallies.iter().find(|(figures, _)| Arc::ptr_eq(figures, &server.figures));
        tally.map_or(IDLE, |(_, tally)| tally.load(now))
    }
}

impl Pool {
    /// What this worker knows about each server it has used. With [`Take::Reset`] counters are reset.
    pub fn servers(&self, take: Take) -> Vec<ServerReport> {
        let mut reports = Vec::new();
        for (hostgroup, group) in self.groups.borrow().iter() {
            let failures = group.failures.borrow();
            for (figures, tally) in group.tallies.borrow().iter() {
                let of_server = |backend: &&Backend| Arc::ptr_eq(&backend.login.server.figures, figures);
                let failure = failures.get(&Arc::as_ptr(figures));
                reports.push(ServerReport {
                    hostgroup: *hostgroup,
                    figures: Arc::clone(figures),
                    used: tally.used(),
                    most_used: tally.most_used(),
                    idle: group.idle.borrow().iter().filter(of_server).count() as u64,
                    tally: tally.counts(),
                    timing: tally.timing(),
                    failure: failure
                        .map(|failure| (failure.at, failure.at + failure.pause, failure.text.clone())),
                });
                if take == Take::Reset {
                    self.figures.before.borrow_mut().add(tally.take_counts());
                    tally.forget_most_used();
                }
            }
        }
        reports
    }

    /// Adds the pool's counters since the start.
    pub fn count_into(&self, counters: &mut Counters) {
        let mut sum = *self.figures.before.borrow();
        for group in self.groups.borrow().values() {
            group.tallies.borrow().iter().for_each(|(_, tally)| sum.add(tally.counts()));
        }
        counters.created_backends += sum.connected;
        counters.aborted_backends += sum.failed;
        counters.backend_bytes_sent += sum.bytes_sent;
        counters.backend_bytes_received += sum.bytes_received;
        counters.backend_change_users += sum.change_users;
        counters.backend_init_dbs += sum.init_dbs;
        counters.backend_sets += sum.sets;
        for (hostgroup, group) in self.groups.borrow().iter() {
            group.choices.count_into(hostgroup.0, counters);
        }
        let figures = &self.figures;
        for ((hostgroup, cause), count) in self.reports.counts() {
            *counters.unavailable.entry((hostgroup.0, cause.name())).or_default() += count;
        }
        counters.leases_immediate += figures.immediate.get();
        counters.leases += figures.given.get();
        counters.leases_failed += figures.failed.get();
        counters.connect_timeouts += figures.timeouts.get();
        counters.with_lag += figures.with_lag.get();
        counters.delayed_by_lag += figures.delayed_by_lag.get();
        counters.lag_wait_us += figures.lag_wait_us.get();
        counters.pool_reset += figures.resets.get();
        counters.pool_asked += figures.asked.get();
        counters.pool_given += figures.given.get();
        counters.pool_returned += figures.returned.get();
        counters.pool_bytes += (self.idle() * (size_of::<Backend>() + size_of::<Login>())) as u64;
    }

    /// Drops the counters of servers that are unused and no longer configured; the sums keep them.
    pub fn forget_gone(&self, snapshot: &Snapshot) {
        for (hostgroup, group) in self.groups.borrow().iter() {
            let servers = snapshot.hostgroups.get(hostgroup).map_or(&[][..], |group| &group.servers);
            group.tallies.borrow_mut().retain(|(figures, tally)| {
                let known = servers.iter().any(|server| Arc::ptr_eq(&server.figures, figures));
                let kept = known || tally.used() > 0;
                if !kept {
                    self.figures.before.borrow_mut().add(tally.take_counts());
                    group.failures.borrow_mut().remove(&Arc::as_ptr(figures));
                    group.back_since.borrow_mut().remove(&Arc::as_ptr(figures));
                }
                kept
            });
        }
    }

    /// Idle connections, now.
    pub fn idle(&self) -> usize {
        self.groups.borrow().values().map(|group| group.idle.borrow().len()).sum()
    }

    /// Some of the idle connections: `most` of them after the first `skip`.
    pub fn idle_connections(&self, skip: usize, most: usize, now: Instant) -> Vec<FreeConnection> {
        let groups = self.groups.borrow();
        let mut lines = Vec::new();
        let mut left = skip;
        for group in groups.values() {
            let idle = group.idle.borrow();
            let some = idle.iter().skip(left).take(most - lines.len());
            lines.extend(some.map(|backend| describe(backend, now)));
            left = left.saturating_sub(idle.len());
        }
        lines
    }
}

fn describe(backend: &Backend, now: Instant) -> FreeConnection {
    let login = &backend.login;
    let ms = |since: Instant| u64::try_from(now.duration_since(since).as_millis()).unwrap_or(u64::MAX);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    FreeConnection {
        fd: backend.stream.descriptor(),
        hostgroup: login.server.row.hostgroup,
        hostname: login.server.row.hostname.clone(),
        port: login.server.row.port,
        username: login.account.row.username.clone(),
        schema: login.state.schema.as_deref().map(text),
        variables: login.state.variables().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        idle_ms: ms(login.last_used),
        age_ms: ms(login.created),
        leases: login.leases(),
        thread_id: login.thread_id,
        is_mariadb: login.family == narrows_wire::charset::Family::MariaDb,
        capabilities: login.capabilities.0,
    }
}

/// Of a server that this worker has never used.
const IDLE: Load = Load { outstanding: 0, latency_us: 0.0, beside: 0.0 };
