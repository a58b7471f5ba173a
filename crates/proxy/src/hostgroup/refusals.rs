//! Accounts that a server refuses: one line of the log a minute for each, and how many were not written.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::hash;

/// What was told of the accounts of one server, over all workers. Accounts are told apart by a hash: two that share a place
/// share their lines.
#[derive(Debug, Default)]
pub struct Refusals {
    places: [Place; PLACES],
}

#[derive(Debug, Default)]
struct Place {
    /// When a line was written last, in ms since the process started; 0: never.
    told_ms: AtomicU64,
    /// How many were not written since.
    untold: AtomicU64,
}

impl Refusals {
    /// An account was refused, so long after the start of the process. How many were not written before, if a line is to
    /// be written now.
    pub fn tell(&self, username: &str, now: Duration) -> Option<u64> {
        let number = hash::wide(|hasher| std::hash::Hash::hash(username, hasher)) as usize % PLACES;
        let place = self.places.get(number)?;
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX).max(1);
        let told = place.told_ms.load(Ordering::Relaxed);
        let is_due = told == 0 || now.saturating_sub(told) >= BETWEEN_LINES_MS;
        let takes_it =
            is_due && place.told_ms.compare_exchange(told, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !takes_it {
            place.untold.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(place.untold.swap(0, Ordering::Relaxed))
    }
}

/// Most of those in use have one account, or a few.
const PLACES: usize = 8;

/// Clients try again and again, by the hundred in a second.
const BETWEEN_LINES_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute_says_how_many_there_were() {
        let refusals = Refusals::default();
        let at = Duration::from_secs;
        assert_eq!(refusals.tell("app", at(0)), Some(0));
        for second in 1..60 {
            assert_eq!(refusals.tell("app", at(second)), None);
        }
        assert_eq!(refusals.tell("app", at(61)), Some(59));
        assert_eq!(refusals.tell("app", at(62)), None);
    }
}
