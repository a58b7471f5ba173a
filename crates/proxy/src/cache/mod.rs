//! The query cache: answers that rules or comments allow to be given again, shared by all workers without a lock.
//!
//! A [`Key`] says which worker *owns* an answer. The owner's shard has the entries, counts their bytes, drops what is used
//! least, and knows who is fetching an answer just now: of many that ask for the same only one runs the statement, and
//! the others wait for what it brings (`shard.rs`). Every other worker keeps pointers to entries that it was given before,
//! so that it need not ask again. An [`Entry`] never changes but for a few atomics, and knows by itself when it is no
//! longer good: its time is over, its owner has dropped it, or everything was flushed. A copy of the pointer therefore
//! needs no care.
//!
//! - `key.rs`: what makes two statements the same.
//! - `entry.rs`: an answer and how long it is good for.
//! - `answer.rs`: an answer in wire form, for clients of either form.
//! - `shelf.rs`: entries under a bound, the least used of which make room (S3-FIFO).
//! - `shard.rs`: what a worker owns, and who waits for what.
//! - `ticket.rs`: the right and the duty to fetch an answer.
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
pub use shard::{Delivery, Landing, Reply};
use shelf::Shelf;
pub use ticket::Ticket;

/// What all workers' caches share.
#[derive(Debug)]
pub struct Shared {
    workers: usize,
    outbox: Outbox<Delivery>,
    /// How often everything was flushed. What was asked of a server before the last time is of no use.
    generation: AtomicU64,
    /// Bytes of answers that are being recorded.
    recorded: AtomicUsize,
    /// Answers that nobody waits for, on their way to their owners.
    unasked: AtomicUsize,
    /// Those that were dropped since too many were.
    dropped: AtomicU64,
}

impl Shared {
    /// Nothing is flushed or recorded yet. Deliveries between `workers` go by `outbox`.
    pub fn new(workers: usize, outbox: Outbox<Delivery>) -> Shared {
        let (generation, recorded, unasked, dropped) = Default::default();
        Shared { workers, outbox, generation, recorded, unasked, dropped }
    }

    /// Tells the owner of a key something.
    fn deliver(&self, key: Key, delivery: Delivery) {
        self.outbox.send(key.owner(self.workers), delivery);
    }

    /// Whether one more answer that nobody waits for may go to its owner; it is counted until [`Shared::has_landed`].
    fn may_land(&self) -> bool {
        let may = self.unasked.fetch_add(1, Ordering::Relaxed) < MOST_UNASKED;
        if !may {
            self.has_landed();
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        may
    }

    /// The owner has it.
    fn has_landed(&self) {
        self.unasked.fetch_sub(1, Ordering::Relaxed);
    }

    /// The generation of now.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Makes everything that is kept, and everything that is being fetched, useless at once.
    pub fn flush(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

/// The cache as one worker has it.
#[derive(Debug)]
pub struct Cache {
    index: usize,
    shared: Arc<Shared>,
    /// What it owns.
    shard: RefCell<Shard>,
    /// Pointers to what others own.
    replicas: RefCell<Shelf>,
    /// Hashes of states that were seen last.
    pub states: StateHashes,
}

/// What a look into the cache has found.
pub enum Found<T> {
    /// An answer.
    Hit(T),
    /// The asker is to run the statement: to renew an answer that is getting old, or because answers to it are not kept.
    Run(Ticket),
    /// Nothing here: [`Cache::ask`].
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

    /// Goes by these variables from now on.
    pub fn take_over(&self, variables: &Variables) {
        let entries = variables.query_cache_size - recordings(variables);
        self.shard.borrow_mut().resize(entries / self.shared.workers);
    }

    /// Looks for an answer in what is here, without asking anybody; `take` is given an entry that is good, and says `None`
    /// of one without an answer. Where it is getting old, one asker of all is told to renew it instead.
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

    /// Asks the owner. The answer may take as long as the statement that somebody else runs just now.
    pub fn ask(&self, key: Key, now: Instant) -> oneshot::Receiver<Reply> {
        let (reply, answer) = oneshot::channel();
        if self.owns(key) {
            self.shard.borrow_mut().ask(key, now, reply);
        } else {
            self.shared.deliver(key, Delivery::Ask { key, now, reply });
        }
        answer
    }

    /// The ticket of one who runs a statement with nobody waiting for the answer.
    pub fn ticket(&self, key: Key) -> Ticket {
        Ticket::alone(Arc::clone(&self.shared), self.shared.generation(), key)
    }

    /// Keeps a pointer to an entry that somebody else owns.
    pub fn keep_replica(&self, entry: &Arc<Entry>) {
        if !self.owns(entry.key) {
            self.replicas.borrow_mut().insert(Arc::clone(entry), 1);
        }
    }

    /// What another worker, or a ticket of this one, has to say.
    pub fn receive(&self, delivery: Delivery) {
        self.shard.borrow_mut().receive(delivery, Instant::now());
    }

    /// Drops what is no longer good, some at a time.
    pub fn tidy(&self, now: Instant) {
        let generation = self.shared.generation();
        self.shard.borrow_mut().purge(now, generation);
        self.replicas.borrow_mut().purge(REPLICAS, now, generation);
    }

    /// Frees what a flush has made useless.
    pub fn clear(&self) {
        self.shard.borrow_mut().clear();
        self.replicas.borrow_mut().clear();
    }

    /// Adds what this worker owns and has counted.
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

/// Bytes of the cache's size that are set aside for answers on their way into it.
pub fn recordings(variables: &Variables) -> usize {
    variables.query_cache_size / 16
}

/// Answers that nobody waits for which may be on their way to their owners, of all workers: a worker that is late must not be
/// flooded, and nobody misses them.
const MOST_UNASKED: usize = 1_024;

/// Entries of others that a worker points to: the hot ones, of which there are few.
const REPLICAS: usize = 4_096;
#[cfg(test)]
mod tests;
