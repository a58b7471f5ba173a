//! How often something has happened in the current second: connections that a hostgroup has opened
//! (`mysql-throttle_connections_per_sec_to_hostgroup` protects a server that has just come up from overload), or failed
//! connects to a server (`mysql-shun_on_failures`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One counter, over all workers.
#[derive(Debug, Default)]
pub struct PerSecond {
    /// The second since the process started, and the events in it, 32 bits each.
    counted: AtomicU64,
}

impl PerSecond {
    /// Counts one event at `now`, a time since the process started; returns false, and does not count it, if it would
    /// exceed `most`.
    pub fn count(&self, most: u32, now: Duration) -> bool {
        let count = |seen| {
            let (second, events) = in_second(seen, now);
            (events < u64::from(most)).then_some(second << 32 | (events + 1))
        };
        self.counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
    }

    /// The pause after `now` before the next event is allowed; `None` if it is allowed immediately.
    pub fn pause(&self, most: u32, now: Duration) -> Option<Duration> {
        let (_, events) = in_second(self.counted.load(Ordering::Relaxed), now);
        let rest = Duration::from_secs(1).saturating_sub(Duration::from_nanos(now.subsec_nanos().into()));
        (events >= u64::from(most)).then_some(rest)
    }
}

/// The second of `now`, and the part of `counted` that belongs to it.
fn in_second(counted: u64, now: Duration) -> (u64, u64) {
    let second = now.as_secs() & u64::from(u32::MAX);
    (second, if counted >> 32 == second { counted & u64::from(u32::MAX) } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_events_and_the_next_one_others() {
        let events = PerSecond::default();
        let at = Duration::from_millis;
        assert_eq!(events.pause(2, at(5_100)), None);
        assert!(events.count(2, at(5_100)));
        assert!(events.count(2, at(5_200)));
        assert!(!events.count(2, at(5_900)));
        assert_eq!(events.pause(2, at(5_900)), Some(at(100)));
        assert_eq!(events.pause(2, at(6_000)), None);
        assert!(events.count(2, at(6_000)));
    }
}
