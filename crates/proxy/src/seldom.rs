//! Log lines that each worker writes at most once a minute.

use std::cell::Cell;
use std::time::Duration;

use crate::rt::Instant;

/// One kind of line.
#[derive(Debug, Default)]
pub struct Seldom {
    last: Cell<Option<Instant>>,
    suppressed: Cell<u64>,
}

impl Seldom {
    /// Whether to write the line; if so, how many were left out since the last one.
    pub fn due(&self, now: Instant) -> Option<u64> {
        if self.last.get().is_some_and(|last| now.saturating_duration_since(last) < BETWEEN_LINES) {
            self.suppressed.set(self.suppressed.get() + 1);
            return None;
        }
        self.last.set(Some(now));
        Some(self.suppressed.take())
    }
}

/// Often enough to be noticed, rarely enough not to fill a disk.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_minute_says_how_many_it_stands_for() {
        let (seldom, start) = (Seldom::default(), Instant::now());
        assert_eq!(seldom.due(start), Some(0));
        assert_eq!(seldom.due(start + Duration::from_secs(1)), None);
        assert_eq!(seldom.due(start + Duration::from_secs(59)), None);
        assert_eq!(seldom.due(start + Duration::from_secs(61)), Some(2));
    }
}
