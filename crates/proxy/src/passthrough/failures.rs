//! Passwords that servers have refused, counted for a while by the address of the client, and by name and address: a
//! client that guesses the password of a name keeps no other address out.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::rows::Variables;
use crate::rt::Instant;

/// Whose failures are counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Name(Box<str>, Box<str>),
    Address(Box<str>),
}

/// A limit that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany {
    /// The variable that sets it.
    pub variable: &'static str,
    /// How long it stays reached.
    pub left: Duration,
}

/// How often each has failed since its first failure of late. Names come from clients, so there is a limit to them
/// (`mysql-passthrough_auth_failure_map_cap`).
#[derive(Debug, Default)]
pub(super) struct Failures {
    counts: HashMap<Key, (u32, Instant)>,
    /// The same keys, the oldest first.
    order: VecDeque<(Key, Instant)>,
}

impl Failures {
    /// A server has refused a password.
    pub(super) fn count(&mut self, variables: &Variables, name: &str, address: &str, now: Instant) {
        self.forget_old(variables, now);
        for key in [Key::Name(name.into(), address.into()), Key::Address(address.into())] {
            if let Some((count, _)) = self.counts.get_mut(&key) {
                *count = count.saturating_add(1);
                continue;
            }
            if self.counts.len() >= variables.passthrough_auth_failure_map_cap {
                self.forget_oldest();
            }
            self.counts.insert(key.clone(), (1, now));
            self.order.push_back((key, now));
        }
    }

    /// The limit that keeps servers from being asked.
    pub(super) fn limit(
        &self,
        variables: &Variables,
        name: &str,
        address: &str,
        now: Instant,
    ) -> Option<TooMany> {
        let window = variables.passthrough_auth_failure_window;
        let limits = [
            (
                Key::Name(name.into(), address.into()),
                variables.passthrough_auth_max_failures_per_user,
                "mysql-passthrough_auth_max_failures_per_user",
            ),
            (
                Key::Address(address.into()),
                variables.passthrough_auth_max_failures_per_ip,
                "mysql-passthrough_auth_max_failures_per_ip",
            ),
        ];
        limits.into_iter().find_map(|(key, most, variable)| {
            let (count, since) = self.counts.get(&key)?;
            let left = window.saturating_sub(now.saturating_duration_since(*since));
            (most > 0 && *count >= most && !left.is_zero()).then_some(TooMany { variable, left })
        })
    }

    pub(super) fn clear(&mut self, name: Option<&str>) {
        match name {
            Some(name) => self.counts.retain(|key, _| !matches!(key, Key::Name(of, _) if **of == *name)),
            None => *self = Failures::default(),
        }
    }

    fn forget_old(&mut self, variables: &Variables, now: Instant) {
        let window = variables.passthrough_auth_failure_window;
        while self.order.front().is_some_and(|(_, at)| now.saturating_duration_since(*at) >= window) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((key, at)) = self.order.pop_front()
            // It may have been forgotten, and counted again since.
            && self.counts.get(&key).is_some_and(|(_, since)| *since == at)
        {
            self.counts.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_reach_their_limits_for_a_while() {
        let variables = Variables {
            passthrough_auth_max_failures_per_user: 2,
            passthrough_auth_max_failures_per_ip: 3,
            ..Variables::default()
        };
        let (mut failures, now) = (Failures::default(), Instant::now());
        for _ in 0..2 {
            assert_eq!(failures.limit(&variables, "app", "a", now), None);
            failures.count(&variables, "app", "a", now);
        }
        let limit = |failures: &Failures, name, address, after| {
            let found = failures.limit(&variables, name, address, now + Duration::from_secs(after));
            found.map(|it| (it.variable.trim_start_matches("mysql-passthrough_auth_max_"), it.left.as_secs()))
        };
        assert_eq!(limit(&failures, "app", "a", 20), Some(("failures_per_user", 40)));
        assert_eq!(limit(&failures, "app", "b", 20), None, "from elsewhere");
        assert_eq!(limit(&failures, "other", "a", 20), None);
        failures.count(&variables, "other", "a", now + Duration::from_secs(30));
        assert_eq!(limit(&failures, "new", "a", 50), Some(("failures_per_ip", 10)));
        assert_eq!(limit(&failures, "app", "a", 60), None);
        failures.count(&variables, "new", "b", now + Duration::from_secs(61));
        assert_eq!(failures.counts.len(), 3, "the first two are forgotten: {failures:?}");
        failures.clear(None);
        assert_eq!(failures.counts.len(), 0);
    }

    #[test]
    fn the_oldest_make_room() {
        let variables = Variables { passthrough_auth_failure_map_cap: 100, ..Variables::default() };
        let (mut failures, now) = (Failures::default(), Instant::now());
        for number in 0..1000 {
            failures.count(&variables, &number.to_string(), "a", now);
        }
        assert_eq!((failures.counts.len(), failures.order.len()), (100, 100));
    }
}
