//! The figures of one worker.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Commands, DigestTable, DryRunTable, ErrorTable, HostgroupTable};
use crate::rt::Instant;

/// The figures that one worker counts, besides its [`super::Counters`].
#[derive(Debug)]
pub struct Figures {
    /// Statements by class.
    pub commands: Commands,
    /// Statements by digest.
    pub digests: RefCell<DigestTable>,
    /// What a dry run of rules would change.
    pub dry_run: RefCell<DryRunTable>,
    /// Errors of servers; the pool adds errors of connects.
    pub errors: Rc<RefCell<ErrorTable>>,
    /// Statements and waits by hostgroup.
    pub hostgroups: HostgroupTable,
    /// When the process started.
    started: Instant,
    /// Memory for the texts of running statements.
    spare_texts: RefCell<Vec<Vec<u8>>>,
}

impl Figures {
    /// Empty tables. All `workers` workers share the budget for digests.
    pub fn new(workers: usize, started: Instant) -> Figures {
        let budget = (DIGEST_BUDGET / workers.max(1)).max(LEAST_DIGEST_BUDGET);
        Figures {
            commands: Commands::default(),
            digests: RefCell::new(DigestTable::new(budget)),
            dry_run: RefCell::default(),
            errors: Rc::default(),
            hostgroups: HostgroupTable::default(),
            started,
            spare_texts: RefCell::default(),
        }
    }

    /// Seconds from the start of the process to `now`.
    pub fn seconds(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.started).as_secs()
    }

    /// An empty text, which reuses the memory of an earlier one.
    pub fn spare_text(&self) -> Vec<u8> {
        self.spare_texts.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps the memory of a text for later ones.
    pub fn give_back_text(&self, mut text: Vec<u8>) {
        let mut spare = self.spare_texts.borrow_mut();
        if text.capacity() > 0 && spare.len() < SPARE_TEXTS {
            text.clear();
            spare.push(text);
        }
    }
}

/// Bytes for the digests of the whole process: some 200,000 digests with texts of a hundred bytes.
const DIGEST_BUDGET: usize = 64 << 20;

/// The minimum per worker, however many share it.
const LEAST_DIGEST_BUDGET: usize = 2 << 20;

/// The number of texts whose memory is kept: each has at most [`super::SHOWN_TEXT`] bytes.
const SPARE_TEXTS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

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
