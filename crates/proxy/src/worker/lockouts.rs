//! Addresses that are locked out of an account, because they have sent wrong passwords. One table for all workers.

use std::collections::HashMap;
use std::time::Duration;

use crate::rt::Instant;
use crate::snapshot::Lockout;

/// The table. Only accounts with `attributes.failed_login_attempts` are in it.
#[derive(Debug, Default)]
pub struct Lockouts {
    #[expect(
        clippy::disallowed_types,
        reason = "taken at logins only, and only for accounts that ask for it"
    )]
    failures: std::sync::Mutex<HashMap<(String, String), Failures>>,
}

/// What an address has done to an account.
#[derive(Debug, Clone, Copy)]
struct Failures {
    /// Wrong passwords since the last login, or the end of the last lock.
    in_a_row: u32,
    /// How often it was locked out since the last login.
    locks: u32,
    until: Instant,
}

impl Lockouts {
    /// How much longer an address is locked out of an account; `None`: it may try.
    pub fn left(&self, user: &str, address: &str, now: Instant) -> Option<Duration> {
        let failures = self.with(|all| all.get(&(user.to_owned(), address.to_owned())).copied())?;
        Some(failures.until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// Counts a wrong password. Returns for how long the address is locked out from now on, if it is.
    pub fn failed(&self, lockout: Lockout, user: &str, address: &str, now: Instant) -> Option<Duration> {
        self.with(|all| {
            if all.len() >= MOST {
                all.retain(|_, failures| failures.until > now);
            }
            if all.len() >= MOST {
                // Each of them is locked out. The limits on logins in general still hold for this one.
                return None;
            }
            let fresh = Failures { in_a_row: 0, locks: 0, until: now };
            let failures = all.entry((user.to_owned(), address.to_owned())).or_insert(fresh);
            failures.in_a_row += 1;
            if failures.in_a_row < lockout.attempts {
                return None;
            }
            let time =
                lockout.time.saturating_mul(1 << failures.locks.min(16)).min(LONGEST.max(lockout.time));
            (failures.in_a_row, failures.locks) = (0, failures.locks.saturating_add(1));
            failures.until = now + time;
            Some(time)
        })
    }

    /// Forgets the failures of an address that has logged in.
    pub fn succeeded(&self, user: &str, address: &str) {
        self.with(|all| all.remove(&(user.to_owned(), address.to_owned())));
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<(String, String), Failures>) -> T) -> T {
        // Nothing panics while it is held; if it did, counts are still counts.
        work(&mut self.failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// The longest lock, unless the account asks for a longer one.
const LONGEST: Duration = Duration::from_secs(3_600);

/// How many accounts and addresses are remembered, some 10 MB.
const MOST: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lock_is_twice_as_long_until_a_login() {
        let (lockouts, begun) = (Lockouts::default(), Instant::now());
        let lockout = Lockout { attempts: 2, time: Duration::from_secs(10) };
        let fail =
            |address: &str, now| lockouts.failed(lockout, "app", address, now).map(|time| time.as_secs());
        assert_eq!((fail("a", begun), fail("a", begun)), (None, Some(10)));
        assert!(lockouts.left("app", "a", begun).is_some() && lockouts.left("app", "b", begun).is_none());
        assert!(lockouts.left("other", "a", begun).is_none());
        let after = begun + Duration::from_secs(11);
        assert!(lockouts.left("app", "a", after).is_none());
        assert_eq!((fail("a", after), fail("a", after)), (None, Some(20)));
        let mut last = None;
        for _ in 0..40 {
            last = fail("a", after).or(last);
        }
        assert_eq!(last, Some(3_600));
        lockouts.succeeded("app", "a");
        assert!(lockouts.left("app", "a", after).is_none());
        assert_eq!((fail("a", after), fail("a", after)), (None, Some(10)));
    }

    #[test]
    fn the_table_has_a_bound_and_keeps_those_that_are_locked_out() {
        let (lockouts, now) = (Lockouts::default(), Instant::now());
        let lockout = |attempts| Lockout { attempts, time: Duration::from_secs(10) };
        lockouts.failed(lockout(1), "app", "locked", now);
        for one in 0..MOST {
            lockouts.failed(lockout(2), "app", &one.to_string(), now);
        }
        assert!(lockouts.with(|all| all.len()) <= MOST);
        assert!(lockouts.left("app", "locked", now).is_some());
    }
}
