//! Which transactions a server is known to have applied, over all workers.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use narrows_wire::gtid::GtidSet;

use crate::clock::now_us;

/// The transactions that a server is known to have applied. Only used where reads must see writes.
///
/// It may have applied more. What is known ends with a lost connection: a server that has crashed may come back with less. It also ends
/// when the server says that it has less.
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
    /// When what was known was forgotten, in us since 1970; 0: never.
    forgotten_us: AtomicI64,
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

    /// What it is known to have applied.
    pub fn known(&self) -> GtidSet {
        self.applied().clone()
    }

    /// It has applied these and no others, as it has said to a question; `before`: what was known when it was asked. Returns whether
    /// it has lost some of that: it was filled with older data, and what else was known is forgotten.
    pub fn told(&self, applied: &GtidSet, before: &GtidSet) -> bool {
        let went_back = !applied.contains(before);
        if went_back {
            self.forget();
        }
        self.learn(applied);
        went_back
    }

    /// A check that began at `at_us`, in us since 1970, has found that it has applied these; `went_back`: it had more at the check
    /// before, or is another server. Without effect if what was known was forgotten since then.
    pub fn checked(&self, applied: &GtidSet, went_back: bool, at_us: i64) {
        let mut known = self.applied();
        if at_us <= self.forgotten_us.load(Ordering::SeqCst) {
            return;
        }
        self.reports.fetch_add(1, Ordering::Relaxed);
        if went_back {
            *known = GtidSet::default();
        }
        known.add(applied);
    }

    /// It has applied these.
    pub fn learn(&self, applied: &GtidSet) {
        self.reports.fetch_add(1, Ordering::Relaxed);
        self.applied().add(applied);
    }

    /// Nothing is known any more.
    pub fn forget(&self) {
        let mut applied = self.applied();
        self.forgotten_us.store(now_us(), Ordering::SeqCst);
        *applied = GtidSet::default();
    }

    /// What is known, as text, and how often the server has said it.
    pub fn shown(&self) -> (String, u64) {
        (self.applied().to_string(), self.reports.load(Ordering::Relaxed))
    }

    /// Whether it is left alone, `now` after the start of the process: it was asked in vain a moment ago.
    pub fn is_left_alone(&self, now: Duration) -> bool {
        milliseconds(now) < self.behind_until_ms.load(Ordering::Relaxed)
    }

    /// The right to wait for it now, `now` after the start of the process; `None`: it is left alone, or `most` already wait.
    pub fn may_wait(&self, now: Duration, most: u32) -> Option<Patience<'_>> {
        if self.is_left_alone(now) {
            return None;
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let right = Patience(&self.waiting);
        (before < most).then_some(right)
    }

    /// It was waited for in vain for `wait`, until `now` after the start of the process. It is not waited for again for the same
    /// time, and for twice as long each time that this happens again, up to a second.
    pub fn fell_behind(&self, now: Duration, wait: Duration) {
        if self.is_left_alone(now) {
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
    fn a_server_that_says_that_it_has_less_than_it_had_is_known_by_that_alone() {
        let position = Position::default();
        let asked = position.known();
        assert!(!position.told(&set("0-1-9,1-1-4"), &asked));
        let asked = position.known();
        // Another answer, from later, arrives before.
        position.learn(&set("0-1-12"));
        assert!(!position.told(&set("0-1-10,1-1-4"), &asked));
        assert!(position.has(&set("0-1-12,1-1-4")));
        let asked = position.known();
        assert!(position.told(&set("0-1-3"), &asked));
        assert!(position.has(&set("0-1-3")) && !position.has(&set("0-1-4")) && !position.has(&set("1-1-1")));
    }

    #[test]
    fn a_check_tells_what_a_server_has_unless_that_was_forgotten_after_it_began() {
        let position = Position::default();
        let began = now_us();
        position.checked(&set("0-1-5"), false, began);
        assert!(position.has(&set("0-1-5")));
        position.forget();
        position.checked(&set("0-1-5"), false, began);
        assert!(!position.has(&set("0-1-5")), "the server may have lost it since");
        position.checked(&set("0-1-4"), false, i64::MAX);
        position.learn(&set("1-1-1"));
        position.checked(&set("0-1-3"), true, i64::MAX);
        assert!(position.has(&set("0-1-3")) && !position.has(&set("0-1-4")) && !position.has(&set("1-1-1")));
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
