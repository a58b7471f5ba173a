//! The monotonic clock.

use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

use super::nanoseconds;

/// A moment of the monotonic clock, as a number: sessions compare and subtract many for each statement, which takes the
/// standard library's type of two numbers ten times as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    /// Nanoseconds since some moment before the process began: enough for 584 years.
    ns: u64,
}

impl Instant {
    /// The current time.
    pub fn now() -> Instant {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: it writes to `now`, and to nothing else. It does not fail: there is such a clock.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        Instant { ns: now.tv_sec as u64 * NS_PER_SECOND + now.tv_nsec as u64 }
    }

    /// The time since then.
    pub fn elapsed(self) -> Duration {
        Instant::now().duration_since(self)
    }

    /// The time from `earlier` until then; zero if that is later.
    pub fn duration_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(earlier.ns))
    }

    /// The same as [`Instant::duration_since`].
    pub fn saturating_duration_since(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }

    /// So long before; `None` if the clock began later.
    pub fn checked_sub(self, time: Duration) -> Option<Instant> {
        self.ns.checked_sub(nanoseconds(time)).map(|ns| Instant { ns })
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// A time that never comes, if it is too long.
    fn add(self, time: Duration) -> Instant {
        Instant { ns: self.ns.saturating_add(nanoseconds(time)) }
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, time: Duration) {
        *self = *self + time;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    /// The moment that the clock began, if it is too long.
    fn sub(self, time: Duration) -> Instant {
        Instant { ns: self.ns.saturating_sub(nanoseconds(time)) }
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}

const NS_PER_SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_as_the_clock_does() {
        let (ours, theirs) = (Instant::now(), std::time::Instant::now());
        std::thread::sleep(Duration::from_millis(20));
        let one = ours.elapsed();
        // It began a little before, and was read a little earlier.
        assert!(one >= Duration::from_millis(20) && one <= theirs.elapsed() + Duration::from_secs(5));
    }

    #[test]
    fn nothing_overflows() {
        let now = Instant::now();
        assert!(now + Duration::MAX > now);
        assert_eq!(now - (now + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!(now.checked_sub(Duration::MAX), None);
        assert_eq!((now - Duration::MAX).duration_since(now), Duration::ZERO);
        assert_eq!((now + Duration::from_secs(3)) - now, Duration::from_secs(3));
    }
}
