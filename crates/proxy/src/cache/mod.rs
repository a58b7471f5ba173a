//! The query cache: answers that rules or comments allow to be reused, shared by all workers without a lock.
//!
//! A [`Key`] determines which worker *owns* an answer. The owner's shard holds the entries, counts their bytes, drops
//! the least used, and knows who is currently fetching an answer: of many clients that request the same answer, only
//! one runs the statement, and the others wait for the result (`shard.rs`). Every other worker keeps pointers to
//! entries that it received before, so that it need not ask again. An [`Entry`] never changes except for a few atomics,
//! and determines by itself when it is no longer valid: it has expired, its owner has dropped it, or everything was
//! flushed. Copies of the pointer therefore need no synchronisation.
//!
//! - `key.rs`: what makes two statements the same.
//! - `entry.rs`: an answer and how long it is valid.
//! - `answer.rs`: an answer in wire format, for clients of either form.
//! - `shelf.rs`: entries within a limit, the least used of which are evicted (S3-FIFO).
//! - `shard.rs`: what a worker owns, and which clients wait for which answers.
//! - `ticket.rs`: the right and the duty to fetch an answer, and messages about it.
//! - `recording.rs`: an answer on its way to a client and into the cache.

mod answer;
mod entry;
mod key;
mod recording;
mod shard;
mod shelf;
mod ticket;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::figures::Counters;
use crate::outbox::Outbox;
use crate::rows::Variables;
use crate::rt::{Instant, oneshot};

pub use answer::{Answer, Replay};
pub use entry::{Entry, Life};
pub use key::{Key, StateHashes, Subject};
pub use recording::Recording;
use shard::Shard;
use shelf::Shelf;
pub use ticket::{Delivery, Landing, Reply, Ticket};

/// The state shared by all workers' caches.
#[derive(Debug)]
pub struct Shared {
    workers: usize,
    outbox: Outbox<Delivery>,
    /// How often everything was flushed. Answers requested before the last flush must not be used.
    generation: AtomicU64,
    /// The total size of answers that are being recorded.
    recorded: AtomicUsize,
    /// The number of answers that nobody waits for, on their way to their owners.
    unasked: AtomicUsize,
    /// The number of such answers that were dropped because there were too many.
    dropped: AtomicU64,
}

impl Shared {
    /// The state before anything was flushed or recorded. Messages between `workers` go through `outbox`.
    pub fn new(workers: usize, outbox: Outbox<Delivery>) -> Shared {
        let (generation, recorded, unasked, dropped) = Default::default();
        Shared { workers, outbox, generation, recorded, unasked, dropped }
    }

    /// Sends a message to the owner of a key.
    fn deliver(&self, key: Key, delivery: Delivery) {
        self.outbox.send(key.owner(self.workers), delivery);
    }

    /// Whether one more answer that nobody waits for may be sent to its owner; it is counted until
    /// [`Shared::has_landed`].
    fn may_land(&self) -> bool {
        let may = self.unasked.fetch_add(1, Ordering::Relaxed) < MOST_UNASKED;
        if !may {
            self.has_landed();
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        may
    }

    /// The owner has received such an answer.
    fn has_landed(&self) {
        self.unasked.fetch_sub(1, Ordering::Relaxed);
    }

    /// The current generation.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Invalidates everything that is cached or being fetched.
    pub fn flush(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

/// One worker's part of the cache.
#[derive(Debug)]
pub struct Cache {
    index: usize,
    shared: Arc<Shared>,
    /// The entries that this worker owns.
    shard: RefCell<Shard>,
    /// Pointers to entries that other workers own.
    replicas: RefCell<Shelf>,
    /// Hashes of the latest session states.
    pub states: StateHashes,
}

/// The result of a lookup.
pub enum Found<T> {
    /// An answer.
    Hit(T),
    /// The caller must run the statement: to refresh an answer that is getting old, or because its answers are not
    /// cached.
    Run(Ticket),
    /// There is no entry here; the owner can be asked with [`Cache::ask`].
    Nothing,
}

impl Cache {
    /// The empty cache of worker `index`.
    pub fn new(index: usize, shared: Arc<Shared>, variables: &Variables) -> Cache {
        let shard = Shard::new(Arc::clone(&shared));
        let cache = Cache {
            index,
            shared,
            shard: RefCell::new(shard),
            replicas: RefCell::new(Shelf::new(REPLICAS, |_| ())),
            states: StateHashes::default(),
        };
        cache.take_over(variables);
        cache
    }

    /// Applies the variables.
    pub fn take_over(&self, variables: &Variables) {
        let entries = variables.query_cache_size - recordings(variables);
        self.shard.borrow_mut().resize(entries / self.shared.workers);
    }

    /// Looks for an answer locally, without asking the owner; `take` receives a valid entry, and returns `None` for one
    /// without an answer. If the entry is getting old, one of the callers has to refresh it instead.
    pub fn find<T>(&self, key: Key, now: Instant, take: impl FnOnce(&Arc<Entry>) -> Option<T>) -> Found<T> {
        let generation = self.shared.generation();
        let mut found = Found::Nothing;
        let look = |entry: &Arc<Entry>| {
            found = if entry.claim(now) {
                Found::Run(Ticket::to_renew(Arc::clone(&self.shared), generation, Arc::clone(entry)))
            } else {
                take(entry).map_or_else(|| Found::Run(self.ticket(key)), Found::Hit)
            };
        };
        if self.owns(key) {
            self.shard.borrow_mut().look(key, now, generation, look);
        } else {
            self.replicas.borrow_mut().look(key, now, generation, look);
        }
        found
    }

    /// Asks the owner. The reply may take as long as a statement that another client is currently running.
    pub fn ask(&self, key: Key, now: Instant) -> oneshot::Receiver<Reply> {
        let (reply, answer) = oneshot::channel();
        if self.owns(key) {
            self.shard.borrow_mut().ask(key, now, reply);
        } else {
            self.shared.deliver(key, Delivery::Ask { key, now, reply });
        }
        answer
    }

    /// A ticket for running a statement whose answer nobody waits for.
    pub fn ticket(&self, key: Key) -> Ticket {
        Ticket::alone(Arc::clone(&self.shared), self.shared.generation(), key)
    }

    /// Keeps a pointer to an entry that another worker owns.
    pub fn keep_replica(&self, entry: &Arc<Entry>) {
        if !self.owns(entry.key) {
            self.replicas.borrow_mut().insert(Arc::clone(entry), 1);
        }
    }

    /// Handles a message from another worker, or from a ticket of this one.
    pub fn receive(&self, delivery: Delivery) {
        self.shard.borrow_mut().receive(delivery, Instant::now());
    }

    /// Drops invalid entries, a few at a time.
    pub fn tidy(&self, now: Instant) {
        let generation = self.shared.generation();
        self.shard.borrow_mut().purge(now, generation);
        self.replicas.borrow_mut().purge(REPLICAS, now, generation);
    }

    /// Frees everything that a flush has invalidated.
    pub fn clear(&self) {
        self.shard.borrow_mut().clear();
        self.replicas.borrow_mut().clear();
    }

    /// Adds this worker's entries and counters.
    pub fn count_into(&self, counters: &mut Counters) {
        self.shard.borrow().count_into(counters);
        if self.index == 0 {
            counters.query_cache_purged += self.shared.dropped.load(Ordering::Relaxed);
        }
    }

    fn owns(&self, key: Key) -> bool {
        key.owner(self.shared.workers) == self.index
    }
}

/// The part of the cache's size that is reserved for answers being recorded.
pub fn recordings(variables: &Variables) -> usize {
    variables.query_cache_size / 16
}

/// The maximum number of answers that nobody waits for on their way to their owners, for all workers: a worker that is
/// late must not be flooded, and nobody misses these answers.
const MOST_UNASKED: usize = 1_024;

/// How many entries of other workers a worker points to: the hot ones, of which there are few.
const REPLICAS: usize = 4_096;
#[cfg(test)]
mod tests;
