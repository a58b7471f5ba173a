//! An answer in the cache, and how long it is valid.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use super::answer::Answer;
use super::key::Key;
use crate::rt::Instant;

/// How long an answer is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// The time at which it expires.
    pub expires: Instant,
    /// After this time one client refreshes it, while the others still receive it.
    pub renew_from: Option<Instant>,
}

impl Life {
    /// A life of `ttl` from `now` on, with refreshes after `soft_pct` percent of it; 0: no refreshes.
    pub fn new(now: Instant, ttl: Duration, soft_pct: u32) -> Life {
        let renew_from = (soft_pct > 0).then(|| now + ttl.mul_f64(f64::from(soft_pct.min(100)) / 100.0));
        Life { expires: now + ttl, renew_from }
    }
}

/// A cached answer, or the information that none is cached: then each client runs the statement, and nobody waits.
#[derive(Debug)]
pub struct Entry {
    /// The key of the answer.
    pub key: Key,
    answer: Option<Answer>,
    life: Life,
    /// The flush after which it was fetched.
    pub(super) generation: u64,
    /// How often it was used since its owner last checked, up to [`MOST_USES`]. At that count nothing is written any
    /// more, because readers on many cores share the cache line.
    uses: AtomicU8,
    /// Whether a client is refreshing it.
    claimed: AtomicBool,
    /// Whether its owner has dropped it.
    gone: AtomicBool,
}

impl Entry {
    /// An entry that has not been used yet.
    pub fn new(key: Key, answer: Option<Answer>, life: Life, generation: u64) -> Entry {
        Entry {
            key,
            answer,
            life,
            generation,
            uses: AtomicU8::new(0),
            claimed: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        }
    }

    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }

    /// Its size in bytes, including its entries in tables and the allocator's overhead. The test of a full cache
    /// compares it with the process's memory.
    pub fn weight(&self) -> usize {
        let bytes = self.answer.as_ref().map_or(0, Answer::bytes);
        bytes + bytes / 8 + COST
    }

    /// Whether it may be returned to clients.
    pub(super) fn is_good(&self, now: Instant, generation: u64) -> bool {
        now < self.life.expires && self.generation == generation && !self.gone.load(Ordering::Relaxed)
    }

    /// Takes the right to refresh the answer, if it is time and nobody else has the right.
    pub(super) fn claim(&self, now: Instant) -> bool {
        self.life.renew_from.is_some_and(|from| from <= now)
            && !self.claimed.load(Ordering::Relaxed)
            && !self.claimed.swap(true, Ordering::AcqRel)
    }

    /// Gives up that right after a failed refresh.
    pub(super) fn unclaim(&self) {
        self.claimed.store(false, Ordering::Release);
    }

    pub(super) fn uses(&self) -> u8 {
        self.uses.load(Ordering::Relaxed)
    }

    /// Counts one use.
    pub(super) fn count_use(&self) {
        let uses = self.uses();
        if uses < MOST_USES {
            // Of two concurrent uses one may be lost.
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
    }

    pub(super) fn set_uses(&self, uses: u8) {
        self.uses.store(uses, Ordering::Relaxed);
    }

    /// Marks it as dropped by its owner.
    pub(super) fn set_gone(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

/// The maximum use count, as in S3-FIFO.
const MOST_USES: u8 = 3;

/// The overhead of an entry besides its packets: the entry itself, the allocator's overhead, and its places in the
/// table, in a queue and, after it was dropped, among the ghosts.
const COST: usize = 400;
