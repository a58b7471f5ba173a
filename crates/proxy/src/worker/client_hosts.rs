//! Failed logins by client address: after `mysql-client_host_error_counts` of them an address is closed at once.
//!
//! The one table for all workers; nobody looks at it while `mysql-client_host_cache_size` leaves it off.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock;
use crate::rows::Variables;

/// One address that failed to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientHost {
    /// Its IP address, or `localhost` for the Unix socket.
    pub address: String,
    /// Failures in a row.
    pub errors: u32,
    /// When it failed last, since 1970.
    pub last_failure: Duration,
}

/// The table.
#[derive(Debug, Default)]
pub struct ClientHosts {
    #[expect(
        clippy::disallowed_types,
        reason = "taken at logins only, and only where the variables ask for it"
    )]
    hosts: std::sync::Mutex<HashMap<String, (u32, Duration)>>,
}

impl ClientHosts {
    /// Whether an address has failed too often to be listened to.
    pub fn refuse(&self, variables: &Variables, address: &str) -> bool {
        is_on(variables)
            && variables.client_host_error_counts > 0
            && self.with(|hosts| {
                hosts.get(address).is_some_and(|(errors, _)| *errors >= variables.client_host_error_counts)
            })
    }

    /// Counts a failure.
    pub fn failed(&self, variables: &Variables, address: &str) {
        if !is_on(variables) {
            return;
        }
        let now = clock::now();
        self.with(|hosts| {
            if hosts.len() >= variables.client_host_cache_size && !hosts.contains_key(address) {
                let oldest = hosts.iter().min_by_key(|(_, (_, last))| *last);
                if let Some(oldest) = oldest.map(|(address, _)| address.clone()) {
                    hosts.remove(&oldest);
                }
            }
            let (errors, last) = hosts.entry(address.to_owned()).or_default();
            *errors = errors.saturating_add(1);
            *last = now;
        });
    }

    /// Forgets the failures of an address that has logged in.
    pub fn succeeded(&self, variables: &Variables, address: &str) {
        if is_on(variables) {
            self.with(|hosts| hosts.remove(address));
        }
    }

    /// All of them, by address.
    pub fn list(&self) -> Vec<ClientHost> {
        let host = |(address, (errors, last_failure)): (&String, &(u32, Duration))| ClientHost {
            address: address.clone(),
            errors: *errors,
            last_failure: *last_failure,
        };
        let mut hosts: Vec<ClientHost> = self.with(|hosts| hosts.iter().map(host).collect());
        hosts.sort_by(|one, other| one.address.cmp(&other.address));
        hosts
    }

    /// Forgets them all.
    pub fn clear(&self) {
        self.with(HashMap::clear);
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<String, (u32, Duration)>) -> T) -> T {
        // Nothing panics while it is held; if it did, counts are still counts.
        work(&mut self.hosts.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

fn is_on(variables: &Variables) -> bool {
    variables.client_host_cache_size > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(cache_size: usize, error_counts: u32) -> Variables {
        Variables {
            client_host_cache_size: cache_size,
            client_host_error_counts: error_counts,
            ..Variables::default()
        }
    }

    #[test]
    fn an_address_is_refused_after_so_many_failures_until_it_logs_in() {
        let (hosts, on) = (ClientHosts::default(), variables(10, 2));
        hosts.failed(&on, "a");
        assert!(!hosts.refuse(&on, "a"));
        hosts.failed(&on, "a");
        assert!(hosts.refuse(&on, "a") && !hosts.refuse(&on, "b"));
        assert_eq!((hosts.list()[0].address.as_str(), hosts.list()[0].errors), ("a", 2));
        hosts.succeeded(&on, "a");
        assert!(!hosts.refuse(&on, "a"));
    }

    #[test]
    fn nothing_is_counted_without_room_and_nobody_refused_without_a_limit() {
        let hosts = ClientHosts::default();
        let (no_room, no_limit) = (variables(0, 1), variables(1, 0));
        hosts.failed(&no_room, "a");
        assert!(!hosts.refuse(&no_room, "a") && hosts.list().is_empty());
        hosts.failed(&no_limit, "a");
        assert!(!hosts.refuse(&no_limit, "a") && hosts.list().len() == 1);
    }

    #[test]
    fn the_oldest_makes_room() {
        let (hosts, on) = (ClientHosts::default(), variables(2, 1));
        for address in ["a", "b", "c"] {
            hosts.failed(&on, address);
            // The clock is finer than this loop on every machine that matters; equal times leave the choice.
        }
        assert_eq!(hosts.list().len(), 2);
        assert!(hosts.refuse(&on, "c"));
    }
}
