//! The figures of one worker.

use std::cell::{Cell, RefCell};
use std::hash::BuildHasher;
use std::rc::Rc;

use hashbrown::DefaultHashBuilder;

use super::{Commands, DigestTable, ErrorTable};
use crate::rt::Instant;

/// What one worker counts, besides its [`super::Counters`].
#[derive(Debug)]
pub struct Figures {
    /// Statements by class.
    pub commands: Commands,
    /// Statements by digest.
    pub digests: RefCell<DigestTable>,
    /// Digests of recent statements.
    pub recent_digests: RecentDigests,
    /// Errors of servers; the pool adds those of connecting.
    pub errors: Rc<RefCell<ErrorTable>>,
    /// When the process started.
    started: Instant,
    /// Memory for the texts of running statements.
    spare_texts: RefCell<Vec<Vec<u8>>>,
}

impl Figures {
    /// Empty tables. `workers` workers share the budget for digests.
    pub fn new(workers: usize, started: Instant) -> Figures {
        let budget = (DIGEST_BUDGET / workers.max(1)).max(LEAST_DIGEST_BUDGET);
        Figures {
            commands: Commands::default(),
            digests: RefCell::new(DigestTable::new(budget)),
            recent_digests: RecentDigests::default(),
            errors: Rc::default(),
            started,
            spare_texts: RefCell::default(),
        }
    }

    /// Seconds from the start of the process to `now`.
    pub fn seconds(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.started).as_secs()
    }

    /// An empty text that reuses the memory of an earlier one.
    pub fn spare_text(&self) -> Vec<u8> {
        self.spare_texts.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes the memory of a text back.
    pub fn give_back_text(&self, mut text: Vec<u8>) {
        let mut spare = self.spare_texts.borrow_mut();
        if text.capacity() > 0 && spare.len() < SPARE_TEXTS {
            text.clear();
            spare.push(text);
        }
    }
}

/// The digests of recent statements, by the hash of their text, because applications repeat statements. The hash has a
/// random key per process, so that nobody can cause collisions.
#[derive(Debug)]
pub struct RecentDigests {
    hasher: DefaultHashBuilder,
    /// Hash of a statement and its digest, at the index given by the hash.
    places: Box<[Cell<(u64, u64)>]>,
}

impl Default for RecentDigests {
    fn default() -> RecentDigests {
        RecentDigests {
            hasher: DefaultHashBuilder::default(),
            places: std::iter::repeat_with(Cell::default).take(RECENT).collect(),
        }
    }
}

impl RecentDigests {
    /// The digest of `text`, which `digest` computes if it is not known.
    pub fn of(&self, text: &[u8], digest: impl FnOnce() -> u64) -> u64 {
        let hash = self.hasher.hash_one(text) | 1;
        let Some(place) = self.places.get(hash as usize / 2 % RECENT) else { return digest() };
        let (known, found) = place.get();
        if known == hash {
            return found;
        }
        let fresh = digest();
        place.set((hash, fresh));
        fresh
    }

    /// Forgets everything, because digests are computed differently from now on.
    pub fn forget(&self) {
        self.places.iter().for_each(|place| place.set((0, 0)));
    }
}

/// Bytes for the digests of the whole process: some 200,000 of them with texts of a hundred bytes.
const DIGEST_BUDGET: usize = 64 << 20;

/// The minimum per worker, however many share it.
const LEAST_DIGEST_BUDGET: usize = 2 << 20;

/// Statements whose digests are remembered: 8 KiB, which stay in a core's first cache.
const RECENT: usize = 512;

/// Texts whose memory is kept: at most [`super::SHOWN_TEXT`] bytes each.
const SPARE_TEXTS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_made_once_while_its_statement_is_repeated() {
        let recent = RecentDigests::default();
        assert_eq!(recent.of(b"SELECT 1", || 7), 7);
        assert_eq!(recent.of(b"SELECT 1", || unreachable!("it is known")), 7);
        assert_eq!(recent.of(b"SELECT 2", || 8), 8);
        recent.forget();
        assert_eq!(recent.of(b"SELECT 1", || 9), 9);
    }

    #[test]
    fn memory_of_texts_is_used_again() {
        let figures = Figures::new(1, Instant::now());
        let mut text = figures.spare_text();
        text.extend_from_slice(b"SELECT 1");
        figures.give_back_text(text);
        let text = figures.spare_text();
        assert!(text.is_empty() && text.capacity() >= 8);
    }
}
