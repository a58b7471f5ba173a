//! What workers share about one hostgroup: which of them wait, which have idle connections, and the slots of its
//! servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::{Crowd, PerSecond, Server, ServerFigures, Writes};
use crate::outbox::Outbox;
use crate::rows::HostgroupId;
use crate::rt::nanoseconds;

/// The right to have one connection open to a server; released when dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    figures: Arc<ServerFigures>,
    demand: Arc<Demand>,
    pokes: Outbox<HostgroupId>,
}

impl ConnectionSlot {
    /// Takes a slot of `server`; `None` if its `max_connections` are in use. When the slot is free again, `pokes` wakes
    /// the longest waiter.
    pub fn take(
        server: &Server,
        demand: &Arc<Demand>,
        pokes: &Outbox<HostgroupId>,
    ) -> Option<ConnectionSlot> {
        let connections = &server.figures.connections;
        let mut seen = connections.load(Ordering::Relaxed);
        while seen < server.row.max_connections {
            match connections.compare_exchange_weak(seen, seen + 1, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => {
                    let figures = Arc::clone(&server.figures);
                    figures.most_connections.fetch_max(seen + 1, Ordering::Relaxed);
                    return Some(ConnectionSlot {
                        figures,
                        demand: Arc::clone(demand),
                        pokes: pokes.clone(),
                    });
                }
                Err(now) => seen = now,
            }
        }
        None
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.figures.connections.fetch_sub(1, Ordering::SeqCst);
        self.demand.poke_oldest(&self.pokes);
    }
}

/// What workers share about one hostgroup: since when they wait, and which of them have idle connections.
///
/// A worker first announces that it waits and then looks for idle connections of other workers. Another worker first
/// announces an idle connection and then looks for waiters. With sequentially consistent ordering at least one of them
/// sees the other.
#[derive(Debug)]
pub struct Demand {
    /// The hostgroup.
    pub hostgroup: HostgroupId,
    /// Recently opened connections.
    pub openings: PerSecond,
    /// When the use of backups was last logged, in ns since the process started; 0: never.
    backups_told: AtomicU64,
    /// Whether an alarm is on its way.
    is_alarmed: AtomicBool,
    /// What was written to its servers.
    pub writes: Writes,
    /// Who waits, over all workers.
    pub crowd: Arc<Crowd>,
    workers: Box<[WorkerDemand]>,
}

/// One worker's part, on a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct WorkerDemand {
    /// When its oldest waiter began to wait, in ns since the process started; `u64::MAX` if none waits.
    oldest_waiter: AtomicU64,
    idle: AtomicU32,
    /// Whether a poke is on its way to it.
    is_poked: AtomicBool,
    /// For each other worker, whether a request to lend it a connection is on its way.
    borrowers: Box<[AtomicBool]>,
}

impl Demand {
    /// The state in which none of `workers` workers waits or has idle connections.
    pub fn new(hostgroup: HostgroupId, workers: usize) -> Demand {
        let flags = || std::iter::repeat_with(AtomicBool::default).take(workers).collect();
        let fresh = || WorkerDemand {
            oldest_waiter: AtomicU64::new(u64::MAX),
            idle: AtomicU32::new(0),
            is_poked: AtomicBool::default(),
            borrowers: flags(),
        };
        let workers = std::iter::repeat_with(fresh).take(workers).collect();
        Demand {
            hostgroup,
            openings: PerSecond::default(),
            backups_told: AtomicU64::new(0),
            is_alarmed: AtomicBool::default(),
            writes: Writes::default(),
            crowd: Arc::default(),
            workers,
        }
    }

    /// Whether the use of backups is to be logged at `now`, a time since the process started: at most once a minute.
    pub fn may_tell_backups(&self, now: Duration) -> bool {
        let now = nanoseconds(now).max(1);
        let is_due = |told: u64| (told == 0 || now.saturating_sub(told) >= BETWEEN_LINES_NS).then_some(now);
        self.backups_told.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due).is_ok()
    }

    /// Whether an alarm may be raised: not while another one is on its way.
    pub fn may_raise_alarm(&self) -> bool {
        !self.is_alarmed.load(Ordering::Relaxed) && !self.is_alarmed.swap(true, Ordering::SeqCst)
    }

    /// What follows from the alarm begins now: another one may be raised.
    pub fn hears_alarm(&self) {
        self.is_alarmed.store(false, Ordering::SeqCst);
    }

    /// Publishes since when the oldest waiter of a worker waits.
    pub fn set_oldest_waiter(&self, worker: usize, since: Option<u64>) {
        if let Some(demand) = self.workers.get(worker) {
            demand.oldest_waiter.store(since.unwrap_or(u64::MAX), Ordering::SeqCst);
        }
    }

    /// Publishes how many idle connections a worker has.
    pub fn set_idle(&self, worker: usize, idle: usize) {
        if let Some(demand) = self.workers.get(worker) {
            demand.idle.store(idle.try_into().unwrap_or(u32::MAX), Ordering::SeqCst);
        }
    }

    /// The worker with the longest waiter, and since when it waits.
    pub fn oldest_waiter(&self) -> Option<(usize, u64)> {
        let since = |demand: &WorkerDemand| demand.oldest_waiter.load(Ordering::SeqCst);
        let (worker, since) = self.workers.iter().map(since).enumerate().min_by_key(|(_, since)| *since)?;
        (since != u64::MAX).then_some((worker, since))
    }

    /// The worker other than `but` with the most idle connections.
    pub fn idle_elsewhere(&self, but: usize) -> Option<usize> {
        let idle = |demand: &WorkerDemand| demand.idle.load(Ordering::SeqCst);
        let others =
            self.workers.iter().map(idle).enumerate().filter(|(worker, idle)| *worker != but && *idle > 0);
        others.max_by_key(|(_, idle)| *idle).map(|(worker, _)| worker)
    }

    /// The workers other than `but` with idle connections.
    pub fn all_idle_elsewhere(&self, but: usize) -> impl Iterator<Item = usize> {
        let idle = |demand: &WorkerDemand| demand.idle.load(Ordering::SeqCst) > 0;
        let workers = self.workers.iter().enumerate();
        workers.filter(move |(worker, demand)| *worker != but && idle(demand)).map(|(worker, _)| worker)
    }

    /// Wakes the worker with the longest waiter, unless a poke is already on its way to it.
    pub fn poke_oldest(&self, pokes: &Outbox<HostgroupId>) {
        let Some((worker, _)) = self.oldest_waiter() else { return };
        if self.workers.get(worker).is_some_and(|demand| !demand.is_poked.swap(true, Ordering::SeqCst)) {
            pokes.send(worker, self.hostgroup);
        }
    }

    /// A worker has received a poke, and then looks for connections.
    pub fn hears_poke(&self, worker: usize) {
        if let Some(demand) = self.workers.get(worker) {
            demand.is_poked.store(false, Ordering::SeqCst);
        }
    }

    /// Whether `lender` should be asked for a connection for `borrower`: not while such a request is on its way.
    pub fn may_ask(&self, lender: usize, borrower: usize) -> bool {
        self.asked(lender, borrower).is_some_and(|asked| !asked.swap(true, Ordering::SeqCst))
    }

    /// `lender` has received the request, and then looks for a connection.
    pub fn hears_borrower(&self, lender: usize, borrower: usize) {
        if let Some(asked) = self.asked(lender, borrower) {
            asked.store(false, Ordering::SeqCst);
        }
    }

    fn asked(&self, lender: usize, borrower: usize) -> Option<&AtomicBool> {
        self.workers.get(lender)?.borrowers.get(borrower)
    }
}

/// Whether others can serve may change many times a second.
const BETWEEN_LINES_NS: u64 = 60_000_000_000;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::rows::server;

    #[test]
    fn slots_that_become_free_poke_the_oldest_waiter_once_until_it_has_heard() {
        let (sender, pokes) = channel();
        let outbox = Outbox::new(move |worker, hostgroup| sender.send((worker, hostgroup)).unwrap());
        let demand = Arc::new(Demand::new(HostgroupId(7), 3));
        let server = Server::new(server(7, "a", 1), Default::default());
        let slots = |count| -> Vec<ConnectionSlot> {
            (0..count).map(|_| ConnectionSlot::take(&server, &demand, &outbox).expect("room")).collect()
        };
        drop(slots(2));
        assert_eq!(pokes.try_iter().count(), 0, "nobody waits");
        demand.set_oldest_waiter(2, Some(5));
        drop(slots(100));
        assert_eq!(pokes.try_iter().collect::<Vec<_>>(), [(2, HostgroupId(7))]);
        demand.set_oldest_waiter(1, Some(4));
        drop(slots(1));
        assert_eq!(pokes.try_iter().collect::<Vec<_>>(), [(1, HostgroupId(7))], "another one waits longer");
        demand.hears_poke(1);
        drop(slots(2));
        assert_eq!(pokes.try_iter().collect::<Vec<_>>(), [(1, HostgroupId(7))]);
    }

    #[test]
    fn a_lender_is_asked_once_by_each_worker_until_it_has_heard() {
        let demand = Demand::new(HostgroupId(0), 3);
        let asked = (0..10).filter(|_| demand.may_ask(2, 0)).count() + usize::from(demand.may_ask(2, 1));
        assert_eq!(asked, 2);
        demand.hears_borrower(2, 0);
        assert!(demand.may_ask(2, 0) && !demand.may_ask(2, 1));
        assert!(!demand.may_ask(3, 0), "no such worker");
    }
}
