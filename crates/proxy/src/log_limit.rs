//! Prevents strangers from filling the log: of events of one kind, the first few in a period are logged, and the others
//! are counted and logged together.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::rt::{Instant, sleep, spawn_local};

/// Events of one kind, on one thread.
#[derive(Debug)]
pub struct Limiter {
    /// When the period began, and how many were logged in it.
    begun: Cell<Option<Instant>>,
    told: Cell<u32>,
    suppressed: Cell<u64>,
    /// Logs how many were left out.
    tell_rest: fn(u64),
}

impl Limiter {
    /// None yet.
    pub fn new(tell_rest: fn(u64)) -> Rc<Limiter> {
        Rc::new(Limiter {
            begun: Cell::default(),
            told: Cell::default(),
            suppressed: Cell::default(),
            tell_rest,
        })
    }

    /// Makes `line` write a line, or counts it.
    pub fn tell(self: &Rc<Limiter>, line: impl FnOnce()) {
        let now = Instant::now();
        if self.begun.get().is_none_or(|begun| now.saturating_duration_since(begun) >= WHILE) {
            self.begun.set(Some(now));
            self.told.set(0);
        }
        if self.told.get() < MOST {
            self.told.set(self.told.get() + 1);
            return line();
        }
        let suppressed = self.suppressed.get();
        self.suppressed.set(suppressed + 1);
        if suppressed == 0 {
            let limiter = Rc::clone(self);
            spawn_local(async move {
                sleep(WHILE).await;
                (limiter.tell_rest)(limiter.suppressed.take());
            });
        }
    }
}

/// Lines per period.
const MOST: u32 = 10;

/// The length of a period, and the time between two counts of left-out lines.
const WHILE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_told_and_the_rest_is_counted() {
        crate::rt::block_on(async {
            let limiter = Limiter::new(|_| {});
            let told = Cell::new(0);
            for _ in 0..100 {
                limiter.tell(|| told.set(told.get() + 1));
            }
            assert_eq!((told.get(), limiter.suppressed.get()), (MOST, u64::from(100 - MOST)));
            // The period is over.
            limiter.begun.set(Instant::now().checked_sub(WHILE));
            limiter.tell(|| told.set(told.get() + 1));
            assert_eq!(told.get(), MOST + 1);
        })
        .unwrap();
    }
}
