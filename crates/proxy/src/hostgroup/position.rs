//! Which transactions a server is known to have applied, over all workers.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use narrows_wire::gtid::GtidSet;

/// The transactions that a server is known to have applied. Only used where reads must see writes.
///
/// It may have applied more. What is known ends with a lost connection: a server that has crashed may come back with less.
#[derive(Debug, Default)]
pub struct Position {
    #[expect(
        clippy::disallowed_types,
        reason = "taken only for writes and reads of sessions with causal_reads; held for no I/O"
    )]
    applied: std::sync::Mutex<GtidSet>,
    /// Until when it is not waited for, in ms since the process started.
    behind_until_ms: AtomicU64,
    /// How often it was waited for in vain since it had what it was asked for.
    vain_waits: AtomicU32,
    /// Statements that wait for it now.
    waiting: AtomicU32,
    /// How often it has said what it has applied.
    reports: AtomicU64,
}

/// The right to wait for a server; released when dropped.
#[derive(Debug)]
pub struct Patience<'a>(&'a AtomicU32);

impl Drop for Patience<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Position {
    /// Whether the server is known to have applied all of these.
    pub fn has(&self, wanted: &GtidSet) -> bool {
        self.applied().contains(wanted)
    }

    /// It has applied these.
    pub fn learn(&self, applied: &GtidSet) {
        self.reports.fetch_add(1, Ordering::Relaxed);
        self.applied().add(applied);
    }

    /// Nothing is known any more.
    pub fn forget(&self) {
        *self.applied() = GtidSet::default();
    }

    /// What is known, as text, and how often the server has said it.
    pub fn shown(&self) -> (String, u64) {
        (self.applied().to_string(), self.reports.load(Ordering::Relaxed))
    }

    /// The right to wait for it now, `now` after the start of the process; `None`: it has just been waited for in vain, or
    /// `most` already wait.
    pub fn may_wait(&self, now: Duration, most: u32) -> Option<Patience<'_>> {
        if milliseconds(now) < self.behind_until_ms.load(Ordering::Relaxed) {
            return None;
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let right = Patience(&self.waiting);
        (before < most).then_some(right)
    }

    /// It was waited for in vain for `wait`, until `now` after the start of the process. It is not waited for again for the same
    /// time, and for twice as long each time that this happens again, up to a second.
    pub fn fell_behind(&self, now: Duration, wait: Duration) {
        if milliseconds(now) < self.behind_until_ms.load(Ordering::Relaxed) {
            // Others have waited at the same time.
            return;
        }
        let times = self.vain_waits.fetch_add(1, Ordering::Relaxed);
        let pause = wait.saturating_mul(1 << times.min(10)).min(LONGEST_PAUSE);
        self.behind_until_ms.store(milliseconds(now + pause), Ordering::Relaxed);
    }

    /// It had what it was asked for.
    pub fn caught_up(&self) {
        self.vain_waits.store(0, Ordering::Relaxed);
    }

    fn applied(&self) -> MutexGuard<'_, GtidSet> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How long a replica that lags is left alone at most: as long as a server that cannot be connected to.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> GtidSet {
        GtidSet::parse(text).unwrap()
    }

    #[test]
    fn what_a_server_has_applied_is_known_until_it_is_lost() {
        let position = Position::default();
        assert!(!position.has(&set("0-1-5")));
        position.learn(&set("0-1-5"));
        position.learn(&set("0-1-4,1-1-1"));
        assert!(position.has(&set("0-1-5,1-1-1")) && !position.has(&set("0-1-6")));
        position.forget();
        assert!(!position.has(&set("0-1-1")));
    }

    #[test]
    fn one_that_is_behind_is_not_waited_for_until_the_time_is_over() {
        let position = Position::default();
        let at = Duration::from_millis;
        position.fell_behind(at(60), at(40));
        assert!(position.may_wait(at(99), 5).is_none());
        let first = position.may_wait(at(100), 1).unwrap();
        assert!(position.may_wait(at(100), 1).is_none());
        drop(first);
        assert!(position.may_wait(at(100), 1).is_some());
    }

    #[test]
    fn one_that_stays_behind_is_left_alone_for_longer_each_time() {
        let (position, at) = (Position::default(), Duration::from_millis);
        let mut now = at(1_000);
        for pause in [100, 200, 400, 800, 1_000, 1_000] {
            position.fell_behind(now, at(100));
            // Of several that have waited at the same time, one counts.
            position.fell_behind(now + at(1), at(100));
            assert!(position.may_wait(now + at(pause - 1), 5).is_none(), "{pause}");
            now += at(pause);
            assert!(position.may_wait(now, 5).is_some(), "{pause}");
        }
        position.caught_up();
        position.fell_behind(now, at(100));
        assert!(position.may_wait(now + at(100), 5).is_some());
    }
}
