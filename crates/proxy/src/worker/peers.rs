//! What the workers share: counts of clients, connection ids, and the senders to each of them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use narrows_sql::KillKind;

use super::client_hosts::ClientHosts;
use super::lockouts::Lockouts;
use crate::audit::{AuditEvent, AuditLog};
use crate::auth_query::QueriedAccounts;
use crate::cache;
use crate::outbox::Outbox;
use crate::passthrough::FoundAccounts;
use crate::pool;
use crate::rows::HostgroupId;
use crate::rt::{Instant, oneshot};
use crate::threads::Threads;

/// What reaches the workers, by kind.
#[derive(Debug)]
pub struct Outboxes {
    /// Their pools.
    pub pools: Outbox<pool::Mail>,
    /// Who waits there for a connection.
    pub pokes: Outbox<HostgroupId>,
    /// Their parts of the query cache.
    pub caches: Outbox<cache::Delivery>,
    /// Their sessions.
    pub kills: Outbox<Kill>,
}

/// A request to end a session or its statement.
#[derive(Debug)]
pub struct Kill {
    /// The session.
    pub id: u32,
    /// What of it.
    pub kind: KillKind,
    /// Who asks; nobody else's sessions are touched.
    pub username: String,
    /// Whether the session is here, and whose it is.
    pub answer: oneshot::Sender<KillAnswer>,
}

/// The outcome of a request to kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillAnswer {
    /// Done.
    Done,
    /// The session is another user's.
    NotOwner,
    /// No such session on this worker.
    Unknown,
}

/// A client's place in the count of a worker, from its acceptance to its end: of many that come at once none has logged
/// in yet, and they are to be spread all the same. Given back when dropped.
#[derive(Debug)]
pub struct Place {
    peers: Arc<Peers>,
    worker: usize,
}

impl Place {
    /// One more client on a worker.
    pub fn take(peers: &Arc<Peers>, worker: usize) -> Place {
        if let Some(clients) = peers.clients.get(worker) {
            clients.fetch_add(1, Ordering::Relaxed);
        }
        Place { peers: Arc::clone(peers), worker }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(clients) = self.peers.clients.get(self.worker) {
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What all workers share.
#[derive(Debug)]
pub struct Peers {
    clients: Box<[AtomicU32]>,
    /// How many times each worker has run its timers.
    beats: Box<[AtomicU64]>,
    next_connection_id: AtomicU32,
    /// Connections accepted since the start.
    pub accepted: AtomicU64,
    /// When the process started.
    pub started: Instant,
    /// Makes logins of unknown users look like those of known ones.
    pub decoy_key: [u8; 32],
    /// The threads for the slow work of logins.
    pub(crate) threads: Threads,
    /// Failed logins by client address.
    pub client_hosts: ClientHosts,
    /// Accounts that servers have accepted.
    pub found: FoundAccounts,
    /// Accounts that `mysql-auth_query` has found.
    pub queried: QueriedAccounts,
    /// Addresses that are locked out of accounts.
    pub(crate) lockouts: Lockouts,
    /// What the workers' caches share.
    pub cache: Arc<cache::Shared>,
    /// Bytes of buffers for long commands that are taken in.
    pub upload_bytes: AtomicU64,
    /// The audit log, once there is one.
    audit: OnceLock<AuditLog>,
    /// What reaches the workers' pools,
    pub(crate) pools: Outbox<pool::Mail>,
    /// who waits there,
    pub(crate) pokes: Outbox<HostgroupId>,
    /// and their sessions.
    pub(crate) kills: Outbox<Kill>,
}

impl Peers {
    /// Those of so many workers.
    pub fn new(workers: usize, outboxes: Outboxes) -> Peers {
        let Outboxes { pools, pokes, caches, kills } = outboxes;
        Peers {
            clients: (0..workers).map(|_| AtomicU32::new(0)).collect(),
            beats: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            next_connection_id: AtomicU32::new(FIRST_ID + 1),
            accepted: AtomicU64::new(0),
            started: Instant::now(),
            decoy_key: rand::random(),
            threads: Threads::for_logins(workers),
            client_hosts: ClientHosts::default(),
            found: FoundAccounts::default(),
            queried: QueriedAccounts::default(),
            lockouts: Lockouts::default(),
            cache: Arc::new(cache::Shared::new(workers, caches)),
            upload_bytes: AtomicU64::new(0),
            audit: OnceLock::new(),
            pools,
            pokes,
            kills,
        }
    }

    /// From now on, events go to this audit log. Set once.
    pub fn audit_to(&self, log: AuditLog) {
        let is_first = self.audit.set(log).is_ok();
        debug_assert!(is_first, "a data plane has one audit log");
    }

    /// Adds an event to the audit log, if there is one and it is on.
    pub fn audit(&self, event: impl FnOnce() -> AuditEvent) {
        if let Some(log) = self.audit.get() {
            log.tell(event);
        }
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.clients.len()
    }

    /// Client connections in all, those included that have not logged in yet.
    pub fn clients(&self) -> u32 {
        self.clients.iter().map(|clients| clients.load(Ordering::Relaxed)).sum()
    }

    /// How often each worker has come to keep time since the start; one that hangs stands still.
    pub fn beats(&self) -> Vec<u64> {
        self.beats.iter().map(|beats| beats.load(Ordering::Relaxed)).collect()
    }

    /// A worker keeps time.
    pub(crate) fn beat(&self, worker: usize) {
        if let Some(beats) = self.beats.get(worker) {
            beats.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Client connections of one worker.
    pub(crate) fn clients_of(&self, worker: usize) -> u32 {
        self.clients.get(worker).map_or(0, |clients| clients.load(Ordering::Relaxed))
    }

    /// No client connection has this id yet, nor a greater one.
    pub fn begin_ids_at(&self, id: u32) {
        self.next_connection_id.fetch_max(id, Ordering::Relaxed);
    }

    /// The id of the next client connection: from [`FIRST_ID`] up, below what clients take for negative.
    ///
    /// Servers count from 1. An id of theirs that a client uses as one of ours, or the other way round, where it cannot
    /// be translated (a routine that kills), therefore matches no session instead of a wrong one.
    pub fn next_connection_id(&self) -> u32 {
        FIRST_ID | self.next_connection_id.fetch_add(1, Ordering::Relaxed) & (FIRST_ID - 1)
    }

    /// The worker with the fewest clients; `preferred` when it is among them.
    pub fn least_loaded(&self, preferred: usize) -> usize {
        let load = |worker: &usize| self.clients.get(*worker).map_or(u32::MAX, |n| n.load(Ordering::Relaxed));
        let least = (0..self.workers()).min_by_key(load).unwrap_or(preferred);
        if load(&preferred) <= load(&least) { preferred } else { least }
    }
}

/// The lowest id of a client connection.
pub const FIRST_ID: u32 = 1 << 30;
