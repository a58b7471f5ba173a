//! Servers that are shunned because of traffic: so many connects failed within one second that none is tried for a
//! while. This is independent of the monitor's checks.
//!
//! Shared by all workers. Times count from the start of the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{PerSecond, READY, readiness};
use crate::rows::Variables;
use crate::rt::nanoseconds;

/// What traffic has shown about one server.
#[derive(Debug, Default)]
pub struct Shun {
    failures: PerSecond,
    /// When the server may be tried again, in ns; 0: it is not shunned, `u64::MAX`: after a LOAD by an operator.
    until: AtomicU64,
    /// When it was reached again, in ns; 0: it never was shunned.
    back: AtomicU64,
}

/// When a server is shunned and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShunLimits {
    /// The number of failures within one second that shun it.
    pub failures: u32,
    /// How long it is not tried; `None`: until a LOAD by an operator.
    pub rest: Option<Duration>,
}

impl ShunLimits {
    /// Derives the limits from the variables: no statement encounters more failures than its retries, and no statement
    /// that waits for a server should end before that server is tried again.
    pub fn of(variables: &Variables) -> ShunLimits {
        let tries = variables.connect_retries_on_failure.saturating_add(1);
        let most = variables.connect_timeout_server_max.saturating_sub(LEAST_REST).max(LEAST_REST);
        let rest = variables.shun_recovery_time;
        ShunLimits {
            failures: variables.shun_on_failures.min(tries).max(1),
            rest: (!rest.is_zero()).then(|| rest.clamp(LEAST_REST, most)),
        }
    }
}

impl Shun {
    /// Records that a connect failed at `now`; returns whether that shuns the server.
    pub fn failed(&self, limits: ShunLimits, now: Duration) -> bool {
        if self.failures.count(limits.failures - 1, now) {
            return false;
        }
        let until = limits.rest.map_or(u64::MAX, |rest| nanoseconds(now + rest));
        self.until.swap(until, Ordering::Relaxed) == 0
    }

    /// Records that the server was reached at `now`, or should be tried as if it had been; returns whether it was
    /// shunned.
    pub fn end(&self, now: Duration) -> bool {
        // Nothing is written if it is not shunned, because all workers read this.
        let was_shunned = self.is_shunned() && self.until.swap(0, Ordering::Relaxed) != 0;
        if was_shunned {
            self.back.store(nanoseconds(now), Ordering::Relaxed);
        }
        was_shunned
    }

    /// Whether it was shunned and has not been reached since.
    pub fn is_shunned(&self) -> bool {
        self.until.load(Ordering::Relaxed) != 0
    }

    /// Whether it must not be tried yet.
    pub fn rests(&self, now: Duration) -> bool {
        self.until.load(Ordering::Relaxed) > nanoseconds(now)
    }

    /// How much of its weight the server has, out of [`READY`]: very little until it is reached, and then increasingly
    /// more, over the time of `slow_start`.
    pub fn readiness(&self, now: Duration, slow_start: Duration) -> u32 {
        if self.is_shunned() {
            return 1;
        }
        match self.back.load(Ordering::Relaxed) {
            0 => READY,
            back => readiness(now.saturating_sub(Duration::from_nanos(back)), slow_start),
        }
    }
}

/// The minimum time for which a shunned server is not tried, and how long before the timeout of waiting statements it
/// is tried again.
const LEAST_REST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ShunLimits = ShunLimits { failures: 3, rest: Some(Duration::from_secs(5)) };

    const SLOW_START: Duration = Duration::from_secs(10);

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn as_many_failures_as_are_allowed_within_one_second_shun_for_a_while() {
        let shun = Shun::default();
        assert!(!shun.failed(LIMITS, at(1_800)) && !shun.failed(LIMITS, at(1_900)));
        // A new second starts a new count.
        assert!(!shun.failed(LIMITS, at(2_000)) && !shun.failed(LIMITS, at(2_100)));
        assert!(!shun.is_shunned() && shun.readiness(at(2_100), SLOW_START) == READY);
        assert!(shun.failed(LIMITS, at(2_200)) && shun.is_shunned());
        assert!(shun.rests(at(7_199)) && !shun.rests(at(7_200)));
        // It is shunned until it is reached.
        assert!(shun.is_shunned() && shun.readiness(at(7_300), SLOW_START) == 1);
        assert!(shun.end(at(8_000)) && !shun.is_shunned());
        assert!(
            shun.readiness(at(8_100), SLOW_START) == 1 && shun.readiness(at(13_000), SLOW_START) == READY / 2
        );
        assert_eq!(shun.readiness(at(60_000), SLOW_START), READY);
        assert_eq!(shun.readiness(at(8_100), Duration::ZERO), READY);
        assert!(!shun.end(at(60_000)));
    }

    #[test]
    fn rest_has_no_end_where_that_is_wanted_and_begins_anew_with_new_failures() {
        let shun = Shun::default();
        let once = ShunLimits { failures: 1, rest: None };
        assert!(shun.failed(once, at(0)) && shun.rests(at(1 << 40)));
        assert!(shun.end(at(10)));
        let short = ShunLimits { failures: 1, ..LIMITS };
        assert!(shun.failed(short, at(20)));
        // Tried again without success: nothing new.
        assert!(!shun.failed(short, at(5_100)));
        assert!(shun.rests(at(10_000)) && !shun.rests(at(10_100)));
    }

    #[test]
    fn limits_are_those_of_the_variables_within_reason() {
        let mut variables = Variables::default();
        assert_eq!(ShunLimits::of(&variables), ShunLimits { failures: 5, rest: Some(at(9_000)) });
        variables.shun_recovery_time = at(4_000);
        variables.connect_retries_on_failure = 1;
        assert_eq!(ShunLimits::of(&variables), ShunLimits { failures: 2, rest: Some(at(4_000)) });
        variables.connect_timeout_server_max = at(100);
        variables.shun_on_failures = 0;
        assert_eq!(ShunLimits::of(&variables), ShunLimits { failures: 1, rest: Some(at(1_000)) });
        variables.shun_recovery_time = Duration::ZERO;
        assert_eq!(ShunLimits::of(&variables).rest, None);
    }
}
