//! An answer in the cache, and how long it is good for.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use super::answer::Answer;
use super::key::Key;
use crate::rt::Instant;

/// How long an answer is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// Until then.
    pub expires: Instant,
    /// From then on one asker renews it, while the others still get it.
    pub renew_from: Option<Instant>,
}

impl Life {
    /// A life of `ttl` from `now` on, the last part of which begins after `soft_pct` percent; 0: there is none.
    pub fn new(now: Instant, ttl: Duration, soft_pct: u32) -> Life {
        let renew_from = (soft_pct > 0).then(|| now + ttl.mul_f64(f64::from(soft_pct.min(100)) / 100.0));
        Life { expires: now + ttl, renew_from }
    }
}

/// An answer that is kept, or that none is: then whoever asks runs the statement, and nobody waits for anybody.
#[derive(Debug)]
pub struct Entry {
    /// What it answers.
    pub key: Key,
    answer: Option<Answer>,
    life: Life,
    /// The flush that it came after.
    pub(super) generation: u64,
    /// How often it was used since its owner last looked, up to [`MOST_USES`]. Beyond, nothing is written: readers on
    /// many cores share the line.
    uses: AtomicU8,
    /// Somebody renews it.
    claimed: AtomicBool,
    /// Its owner has it no longer.
    gone: AtomicBool,
}

impl Entry {
    /// An entry that nobody has used yet.
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

    /// The answer, where there is one.
    pub fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }

    /// Bytes that it takes, those of the tables that lead to it included, and what the allocator loses between pieces of
    /// all lengths. Held against the process's memory by the test of a full cache.
    pub fn weight(&self) -> usize {
        let bytes = self.answer.as_ref().map_or(0, Answer::bytes);
        bytes + bytes / 8 + COST
    }

    /// Whether it may be given to anybody.
    pub(super) fn is_good(&self, now: Instant, generation: u64) -> bool {
        now < self.life.expires && self.generation == generation && !self.gone.load(Ordering::Relaxed)
    }

    /// Takes the right to renew it, where it is time for that and nobody else has it.
    pub(super) fn claim(&self, now: Instant) -> bool {
        self.life.renew_from.is_some_and(|from| from <= now)
            && !self.claimed.load(Ordering::Relaxed)
            && !self.claimed.swap(true, Ordering::AcqRel)
    }

    /// Gives that right back: nothing has come of it.
    pub(super) fn unclaim(&self) {
        self.claimed.store(false, Ordering::Release);
    }

    pub(super) fn uses(&self) -> u8 {
        self.uses.load(Ordering::Relaxed)
    }

    /// It was used.
    pub(super) fn count_use(&self) {
        let uses = self.uses();
        if uses < MOST_USES {
            // Of two uses at once one may be lost.
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
    }

    pub(super) fn set_uses(&self, uses: u8) {
        self.uses.store(uses, Ordering::Relaxed);
    }

    /// Its owner drops it.
    pub(super) fn set_gone(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

/// Uses that are counted; as in S3-FIFO.
const MOST_USES: u8 = 3;

/// Bytes of an entry beside its packets: itself, the allocator's, its places in the table, in a queue and, once it was
/// dropped, among those that were.
const COST: usize = 400;
