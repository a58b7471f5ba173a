//! What workers share of one hostgroup: who waits, who has idle connections, and the slots of its servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{PerSecond, Server, ServerFigures};
use crate::outbox::Outbox;
use crate::rows::HostgroupId;

/// The right to have one connection open to a server; given back when dropped.
#[derive(Debug)]
pub struct Slot {
    figures: Arc<ServerFigures>,
    demand: Arc<Demand>,
    pokes: Outbox<HostgroupId>,
}

impl Slot {
    /// Takes a slot of `server`; `None` when its `max_connections` are in use. When it is free again, `pokes` has who waits longest
    /// look.
    pub fn take(server: &Server, demand: &Arc<Demand>, pokes: &Outbox<HostgroupId>) -> Option<Slot> {
        let connections = &server.figures.connections;
        let mut seen = connections.load(Ordering::Relaxed);
        while seen < server.row.max_connections {
            match connections.compare_exchange_weak(seen, seen + 1, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => {
                    let figures = Arc::clone(&server.figures);
                    figures.most_connections.fetch_max(seen + 1, Ordering::Relaxed);
                    return Some(Slot { figures, demand: Arc::clone(demand), pokes: pokes.clone() });
                }
                Err(now) => seen = now,
            }
        }
        None
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.figures.connections.fetch_sub(1, Ordering::SeqCst);
        if let Some(worker) = self.demand.oldest_waiter().map(|(worker, _)| worker) {
            self.pokes.send(worker, self.demand.hostgroup);
        }
    }
}

/// What workers tell each other of one hostgroup: who waits since when, and who has idle connections.
///
/// A worker first says that it waits and then looks for idle connections of others; another first says that it
/// has one idle and then looks for who waits. With sequentially consistent order one of the two sees the other.
#[derive(Debug)]
pub struct Demand {
    /// The hostgroup.
    pub hostgroup: HostgroupId,
    /// Connections that were opened lately.
    pub openings: PerSecond,
    workers: Box<[WorkerDemand]>,
}

/// One worker's part, on a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct WorkerDemand {
    /// When its oldest waiter came, in ns since the process started; `u64::MAX`: nobody waits.
    oldest_waiter: AtomicU64,
    idle: AtomicU32,
}

impl Demand {
    /// Nobody waits and nothing is idle, on any of `workers`.
    pub fn new(hostgroup: HostgroupId, workers: usize) -> Demand {
        let fresh = || WorkerDemand { oldest_waiter: AtomicU64::new(u64::MAX), idle: AtomicU32::new(0) };
        let workers = std::iter::repeat_with(fresh).take(workers).collect();
        Demand { hostgroup, openings: PerSecond::default(), workers }
    }

    /// Says since when the oldest waiter of a worker waits.
    pub fn set_oldest_waiter(&self, worker: usize, since: Option<u64>) {
        if let Some(demand) = self.workers.get(worker) {
            demand.oldest_waiter.store(since.unwrap_or(u64::MAX), Ordering::SeqCst);
        }
    }

    /// Says how many idle connections a worker has.
    pub fn set_idle(&self, worker: usize, idle: usize) {
        if let Some(demand) = self.workers.get(worker) {
            demand.idle.store(idle.try_into().unwrap_or(u32::MAX), Ordering::SeqCst);
        }
    }

    /// The worker whose waiter waits longest, and since when.
    pub fn oldest_waiter(&self) -> Option<(usize, u64)> {
        let since = |demand: &WorkerDemand| demand.oldest_waiter.load(Ordering::SeqCst);
        let (worker, since) = self.workers.iter().map(since).enumerate().min_by_key(|(_, since)| *since)?;
        (since != u64::MAX).then_some((worker, since))
    }

    /// A worker other than `but` that has idle connections: the one with most.
    pub fn idle_elsewhere(&self, but: usize) -> Option<usize> {
        let idle = |demand: &WorkerDemand| demand.idle.load(Ordering::SeqCst);
        let others =
            self.workers.iter().map(idle).enumerate().filter(|(worker, idle)| *worker != but && *idle > 0);
        others.max_by_key(|(_, idle)| *idle).map(|(worker, _)| worker)
    }
}
