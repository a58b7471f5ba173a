//! Memory for answers that clients have not read yet: one limit for all sessions, part of it for statistics users.

use std::cell::Cell;
use std::rc::Rc;

use crate::store::{Refusal, Role};

/// The remaining memory.
#[derive(Debug, Default)]
pub struct Budget {
    all: Cell<usize>,
    statistics: Cell<usize>,
}

/// The memory of one answer; released when dropped.
#[derive(Debug)]
pub struct Share {
    budget: Rc<Budget>,
    role: Role,
    bytes: usize,
}

impl Budget {
    /// Memory for an answer of this many bytes.
    ///
    /// # Errors
    /// If none is left until other clients have read their answers. A short answer is always sent.
    pub fn take(self: &Rc<Budget>, role: Role, bytes: usize) -> Result<Share, Refusal> {
        let fits = match role {
            Role::Admin => self.all.get() + bytes <= MOST,
            Role::Stats => {
                self.all.get() + bytes <= MOST && self.statistics.get() + bytes <= MOST_OF_STATISTICS
            }
        };
        if !fits && bytes > SHORT {
            let (held, needed) = (self.all.get() >> 20, bytes.div_ceil(1 << 20));
            return Err(Refusal::admin(format!(
                "there is no room for an answer of {needed} MiB: clients have not taken {held} MiB of others yet; ask \
                 again later, or for fewer rows"
            )));
        }
        self.add(role, bytes);
        Ok(Share { budget: Rc::clone(self), role, bytes })
    }

    fn add(&self, role: Role, bytes: usize) {
        self.all.set(self.all.get() + bytes);
        if role == Role::Stats {
            self.statistics.set(self.statistics.get() + bytes);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.all.set(self.budget.all.get() - self.bytes);
        if self.role == Role::Stats {
            self.budget.statistics.set(self.budget.statistics.get() - self.bytes);
        }
    }
}

/// The limit in bytes for all answers together: two of the largest size.
const MOST: usize = 256 << 20;

/// The limit in bytes for statistics users: one of the largest size, so that as much is left for administrators.
const MOST_OF_STATISTICS: usize = 128 << 20;

/// An answer of up to this many bytes is not counted; if every possible session has one, they take 64 MiB.
const SHORT: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_statistics_leave_room_for_administrators() {
        let budget = Rc::new(Budget::default());
        let large = 100 << 20;
        let first = budget.take(Role::Stats, large).unwrap();
        assert!(budget.take(Role::Stats, large).is_err());
        let short = budget.take(Role::Stats, SHORT).unwrap();
        let second = budget.take(Role::Admin, large).unwrap();
        assert!(budget.take(Role::Admin, large).is_err());
        drop((first, short));
        assert!(budget.take(Role::Stats, large).is_ok());
        drop(second);
        assert_eq!((budget.all.get(), budget.statistics.get()), (0, 0));
    }
}
