//! How many connections a hostgroup has opened in the second at hand: the limit
//! `mysql-throttle_connections_per_sec_to_hostgroup` keeps a server that has just come up from being overrun.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The count of one hostgroup, over all workers.
#[derive(Debug, Default)]
pub struct Openings {
    /// The second since the process started, and the openings in it, 32 bits each.
    counted: AtomicU64,
}

impl Openings {
    /// Counts one opening at `now`, a time since the process started; `false`: it would be one more than `most`, and is
    /// not counted.
    pub fn count(&self, most: u32, now: Duration) -> bool {
        let count = |seen| {
            let (second, openings) = in_second(seen, now);
            (openings < u64::from(most)).then_some(second << 32 | (openings + 1))
        };
        self.counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
    }

    /// When the next opening may be, from `now` on; `None`: at once.
    pub fn pause(&self, most: u32, now: Duration) -> Option<Duration> {
        let (_, openings) = in_second(self.counted.load(Ordering::Relaxed), now);
        let rest = Duration::from_secs(1).saturating_sub(Duration::from_nanos(now.subsec_nanos().into()));
        (openings >= u64::from(most)).then_some(rest)
    }
}

/// The second of `now`, and what of `counted` belongs to it.
fn in_second(counted: u64, now: Duration) -> (u64, u64) {
    let second = now.as_secs() & u64::from(u32::MAX);
    (second, if counted >> 32 == second { counted & u64::from(u32::MAX) } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_openings_and_the_next_one_others() {
        let openings = Openings::default();
        let at = Duration::from_millis;
        assert_eq!(openings.pause(2, at(5_100)), None);
        assert!(openings.count(2, at(5_100)));
        assert!(openings.count(2, at(5_200)));
        assert!(!openings.count(2, at(5_900)));
        assert_eq!(openings.pause(2, at(5_900)), Some(at(100)));
        assert_eq!(openings.pause(2, at(6_000)), None);
        assert!(openings.count(2, at(6_000)));
    }
}
