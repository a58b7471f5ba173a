//! What one worker thread owns and its sessions and logins use: pool, cache, buffers, counters, the configuration in
//! force, and the list of its sessions. It starts none of them; `event_loop.rs` does.

mod client_hosts;
mod handle;
mod known_schemas;
mod lockouts;
mod peers;
mod running;
mod sessions;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::buffer::BufferPool;
use crate::cache::Cache;
use crate::figures::{Counters, Figures};
use crate::log_limit::Limiter;
use crate::mirror::Mirror;
use crate::pool::{Pool, Station};
use crate::prepared::Registry;
use crate::query_log::{Lottery, RecordQueue};
use crate::recent_texts::RecentTexts;
use crate::route::DryRunMemory;
use crate::rt::Instant;
use crate::rules;
use crate::seldom::Seldom;
use crate::snapshot::{InForce, Snapshot};
use crate::state::{SessionState, SharedState};

pub use crate::snapshot::LocalSnapshot;
pub use client_hosts::{ClientHost, ClientHosts};
pub use handle::{Handle, Interrupt, Pinning};
pub use known_schemas::KnownSchemas;
pub use lockouts::Lockouts;
pub use peers::{FIRST_ID, Kill, KillAnswer, Outboxes, Peers, Place};
use sessions::Sessions;

/// One worker.
pub struct Worker {
    /// Its number.
    pub index: usize,
    /// The others, and itself.
    pub peers: Arc<Peers>,
    /// Its backend connections.
    pub pool: Rc<Pool>,
    /// Its part of the query cache.
    pub cache: Cache,
    /// Its spare buffers.
    pub buffers: BufferPool,
    /// Schemas that need not be asked for at a login.
    pub known_schemas: KnownSchemas,
    /// The prepared statements of its clients and backend connections.
    pub prepared: Registry,
    /// Its counters.
    pub counters: RefCell<Counters>,
    /// Hints in comments that were ignored.
    pub(crate) ignored_hints: Seldom,
    /// When it was last logged that a session was not as it was believed to be, by what differed.
    pub(crate) mismatches: RefCell<BTreeMap<String, Seldom>>,
    /// Receives logged statements.
    pub query_log: RefCell<Option<RecordQueue>>,
    /// Chooses statements for the query log and for traces.
    pub(crate) lottery: Lottery,
    /// Its mirrored statements.
    pub mirror: Rc<Mirror>,
    /// What it remembers about the query rules.
    pub rules: RefCell<rules::Memory>,
    /// What it remembers about those of a dry run.
    pub(crate) dry_run: RefCell<DryRunMemory>,
    /// Its other figures.
    pub figures: Figures,
    /// Prevents failed logins from filling the log.
    pub failed_logins: Rc<Limiter>,
    /// Lines about accounts that servers have accepted.
    pub(crate) found_accounts: Rc<Limiter>,
    /// Lines about transactions that were to be run again.
    pub(crate) replays: Rc<Limiter>,
    /// What was read of recent statements.
    pub recent_texts: RecentTexts,
    /// Buffers of the lexer.
    pub scratch: RefCell<narrows_sql::Scratch>,
    in_force: Rc<InForce>,
    sessions: Sessions,
    /// The latest initial states of logins; see [`Worker::shared_state`].
    login_states: RefCell<VecDeque<SharedState>>,
    /// See [`Worker::long_rest`].
    long_rest: Cell<Instant>,
    /// How many sessions keep a command buffer.
    buffer_permits: Rc<Cell<usize>>,
}

impl Worker {
    /// A worker without clients and connections.
    pub fn new(index: usize, peers: Arc<Peers>, snapshot: Arc<Snapshot>) -> Worker {
        let figures = Figures::new(peers.workers(), peers.started);
        let cache = Cache::new(index, Arc::clone(&peers.cache), &snapshot.variables);
        let in_force = Rc::new(InForce::new(snapshot));
        let pool = Rc::new(Pool::new(Station {
            worker: index,
            started: peers.started,
            in_force: Rc::clone(&in_force),
            outbox: peers.pools.clone(),
            pokes: peers.pokes.clone(),
            errors: Rc::clone(&figures.errors),
        }));
        Worker {
            index,
            mirror: Rc::new(Mirror::new(Rc::clone(&pool), Rc::clone(&in_force), peers.workers())),
            pool,
            cache,
            figures,
            peers,
            buffers: BufferPool::default(),
            ignored_hints: Seldom::default(),
            mismatches: RefCell::default(),
            known_schemas: KnownSchemas::default(),
            prepared: Registry::default(),
            counters: RefCell::default(),
            query_log: RefCell::default(),
            lottery: Lottery::new(rand::random()),
            rules: RefCell::default(),
            dry_run: RefCell::default(),
            failed_logins: Limiter::new(|suppressed| tracing::info!(suppressed, "more logins have failed")),
            found_accounts: Limiter::new(|suppressed| {
                tracing::info!(suppressed, "servers have accepted more accounts");
            }),
            replays: Limiter::new(|suppressed| {
                tracing::info!(suppressed, "more transactions have lost their server");
            }),
            recent_texts: RecentTexts::default(),
            scratch: RefCell::default(),
            in_force,
            sessions: Sessions::default(),
            login_states: RefCell::default(),
            long_rest: Cell::new(Instant::now() + 2 * LONG_REST),
            buffer_permits: Rc::default(),
        }
    }

    /// The configuration in force. Cheap: uses no atomics.
    pub fn snapshot(&self) -> LocalSnapshot {
        self.in_force.get()
    }

    /// Applies another configuration.
    pub fn take_over(&self, snapshot: Arc<Snapshot>) {
        self.in_force.replace(snapshot);
        let snapshot = self.snapshot();
        self.recent_texts.forget();
        self.cache.take_over(&snapshot.variables);
        self.pool.forget_gone(&snapshot);
        self.cut_off(&snapshot);
        self.known_schemas.forget();
        self.pool.take_over();
    }

    /// The state of a login as a value that is shared with clients that have logged in alike: thousands do, and each
    /// copy takes a kilobyte.
    pub fn shared_state(&self, state: SessionState) -> SharedState {
        let mut recent = self.login_states.borrow_mut();
        if let Some(known) = recent.iter().find(|known| ***known == state) {
            return Arc::clone(known);
        }
        if recent.len() == LOGIN_STATES {
            recent.pop_front();
        }
        let state = Arc::new(state);
        recent.push_back(Arc::clone(&state));
        state
    }

    /// The right to keep a command buffer between commands; `None` if enough sessions have it.
    pub(crate) fn buffer_permit(&self) -> Option<BufferPermit> {
        let buffer_permits = self.buffer_permits.get();
        (buffer_permits < MOST_BUFFER_PERMITS).then(|| {
            self.buffer_permits.set(buffer_permits + 1);
            BufferPermit(Rc::clone(&self.buffer_permits))
        })
    }

    /// When a client that rests now has done so for a while: one to two seconds. The same for many, which are swept at once.
    pub(crate) fn long_rest(&self) -> Instant {
        self.long_rest.get()
    }

    /// Does the work due at `now`: interrupts sessions whose deadline has passed, and looks after idle backend
    /// connections and the cache.
    pub fn tend(&self, now: Instant) {
        self.peers.beat(self.index);
        if now + LONG_REST > self.long_rest.get() {
            self.long_rest.set(now + 2 * LONG_REST);
        }
        self.sweep(now);
        self.cache.tidy(now);
        let snapshot = self.snapshot();
        if snapshot.has_overdue() {
            self.cut_off(&snapshot);
        }
        self.pool.tend();
    }
}

/// See [`Worker::buffer_permit`]; given back when dropped.
pub(crate) struct BufferPermit(Rc<Cell<usize>>);

impl Drop for BufferPermit {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Sessions that keep a command buffer, some five kilobytes each, while they rest.
const MOST_BUFFER_PERMITS: usize = 256;

/// After this time an idle client releases it.
const LONG_REST: Duration = Duration::from_secs(1);

/// Login states that are remembered: one for each collation and schema that applications of one worker use.
const LOGIN_STATES: usize = 32;
