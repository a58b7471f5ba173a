//! What was written through this process to the servers of one writer hostgroup, over all workers: what reads with
//! `causal_reads` `user` and `global` must see.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{MutexGuard, PoisonError};

use narrows_wire::gtid::GtidSet;

/// The transactions that clients of this process have written.
#[derive(Debug, Default)]
pub struct Writes {
    #[expect(
        clippy::disallowed_types,
        reason = "taken only for writes and reads of sessions with causal_reads; held for no I/O"
    )]
    known: std::sync::Mutex<Known>,
    /// Whether anybody has asked the writer: from then on, what is written counts even while no setting makes reads see it.
    are_followed: AtomicBool,
}

#[derive(Debug, Default)]
struct Known {
    /// What the writer had applied when it was asked. `None`: it was not asked since something was written without a GTID,
    /// or since the process started.
    base: Option<GtidSet>,
    /// How often track was lost.
    losses: u64,
    all: GtidSet,
    users: HashMap<String, GtidSet>,
}

impl Writes {
    /// A client of this account has written these.
    pub fn add(&self, username: &str, written: &GtidSet) {
        let mut known = self.known();
        known.all.add(written);
        known.all.widen(MOST_INTERVALS);
        match known.users.get_mut(username) {
            Some(own) => {
                own.add(written);
                own.widen(MOST_INTERVALS);
            }
            None => {
                known.users.insert(username.to_owned(), written.clone());
            }
        }
    }

    /// Something was written of which no GTID is known.
    pub fn lose_track(&self) {
        let mut known = self.known();
        known.base = None;
        known.losses += 1;
    }

    /// What is known is not true any more: a new writer lacks some of it.
    pub fn forget(&self) {
        let mut known = self.known();
        *known = Known { losses: known.losses + 1, ..Known::default() };
    }

    /// How often track was lost: to be read before the writer is asked.
    pub fn losses(&self) -> u64 {
        self.are_followed.store(true, Ordering::SeqCst);
        self.known().losses
    }

    /// Whether it matters what is written, although no setting makes reads see it now: they may later.
    pub fn are_followed(&self) -> bool {
        self.are_followed.load(Ordering::SeqCst)
    }

    /// The writer had applied these when it was asked, and so everything written before that. Without effect if track was
    /// lost since.
    pub fn begin_with(&self, applied: GtidSet, losses: u64) {
        let mut known = self.known();
        if known.losses == losses {
            known.base = Some(applied);
        }
    }

    /// What clients have written; with `username`, those of this account. `None` if it is not known.
    pub fn of(&self, username: Option<&str>) -> Option<GtidSet> {
        let known = self.known();
        let mut written = known.base.clone()?;
        match username {
            None => written.add(&known.all),
            Some(username) => known.users.get(username).iter().for_each(|own| written.add(own)),
        }
        Some(written)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of one source. The writes of all sessions are without gaps, but for those of others; with more gaps, reads wait for those too.
const MOST_INTERVALS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> GtidSet {
        GtidSet::parse(text).unwrap()
    }

    #[test]
    fn writes_are_known_by_account_and_in_all() {
        let writes = Writes::default();
        writes.add("a", &set("0-1-5"));
        assert_eq!(writes.of(None), None, "what was written before is not known");
        writes.begin_with(set("0-1-7"), writes.losses());
        writes.add("a", &set("0-1-9"));
        writes.add("b", &set("1-1-1"));
        assert_eq!(writes.of(Some("a")), Some(set("0-1-9")));
        assert_eq!(writes.of(Some("b")), Some(set("0-1-7,1-1-1")));
        assert_eq!(writes.of(Some("c")), Some(set("0-1-7")));
        assert_eq!(writes.of(None), Some(set("0-1-9,1-1-1")));
        writes.lose_track();
        assert_eq!(writes.of(Some("c")), None);
    }

    #[test]
    fn an_answer_from_before_track_was_lost_does_not_count() {
        let writes = Writes::default();
        let asked = writes.losses();
        writes.add("a", &set("0-1-9"));
        writes.forget();
        writes.begin_with(set("0-1-7"), asked);
        assert_eq!(writes.of(None), None);
        writes.begin_with(set("0-1-10"), writes.losses());
        assert_eq!(writes.of(None), Some(set("0-1-10")));
    }
}
