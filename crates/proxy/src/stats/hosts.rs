//! Addresses whose logins fail, with `mysql-client_host_cache_size`.

use std::collections::HashMap;

/// Failed logins by address. Bounded by the variable.
#[derive(Debug, Default)]
pub struct HostTable(HashMap<String, HostFigures>);

/// What is kept of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostFigures {
    /// Failed logins since the last one that succeeded.
    pub errors: u64,
    /// The last one, in seconds since the process started.
    pub last_s: u64,
}

impl HostTable {
    /// A login from there has failed. Of too many addresses the one whose last failure is oldest is forgotten.
    pub fn failed(&mut self, address: &str, most: usize, at_s: u64) {
        if let Some(figures) = self.0.get_mut(address) {
            figures.errors += 1;
            figures.last_s = at_s;
            return;
        }
        while self.0.len() >= most.max(1) {
            let Some((oldest, _)) = self.0.iter().min_by_key(|(_, figures)| figures.last_s) else { break };
            let oldest = oldest.clone();
            self.0.remove(&oldest);
        }
        if most > 0 {
            self.0.insert(address.to_owned(), HostFigures { errors: 1, last_s: at_s });
        }
    }

    /// A login from there has succeeded.
    pub fn succeeded(&mut self, address: &str) {
        self.0.remove(address);
    }

    /// A copy of all.
    pub fn copy(&self) -> Vec<(String, HostFigures)> {
        self.0.iter().map(|(address, figures)| (address.clone(), *figures)).collect()
    }

    /// Takes all out.
    pub fn take(&mut self) -> Vec<(String, HostFigures)> {
        std::mem::take(&mut self.0).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_failures_until_a_login_succeeds() {
        let mut hosts = HostTable::default();
        hosts.failed("10.0.0.1", 2, 5);
        hosts.failed("10.0.0.1", 2, 6);
        assert_eq!(hosts.copy(), [("10.0.0.1".to_owned(), HostFigures { errors: 2, last_s: 6 })]);
        hosts.succeeded("10.0.0.1");
        assert!(hosts.take().is_empty());
    }

    #[test]
    fn keeps_the_addresses_that_failed_last() {
        let mut hosts = HostTable::default();
        for (at, address) in ["a", "b", "c"].into_iter().enumerate() {
            hosts.failed(address, 2, at as u64);
        }
        let mut known: Vec<String> = hosts.take().into_iter().map(|(address, _)| address).collect();
        known.sort();
        assert_eq!(known, ["b", "c"]);
        hosts.failed("d", 0, 9);
        assert!(hosts.copy().is_empty(), "none are kept when the variable says none");
    }
}
