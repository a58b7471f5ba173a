//! What connections have taken from their server when they were opened, and whether that is still what the server would give them:
//! values of global variables, the character set of their schema, privileges. Only counters: a connection remembers the counts at
//! which it was opened or reset.

use std::sync::atomic::{AtomicU64, Ordering};

use narrows_sql::ChangedDefaults;

/// Counts of changes on one server, shared by its hostgroups.
#[derive(Debug, Default)]
pub struct Defaults {
    /// Changes of global variables, and of schemas.
    variables: AtomicU64,
    /// Changes of accounts.
    accounts: AtomicU64,
    /// Whether the server has an `init_connect`: the count of changes at which that was found out, times four, and 1 for no, 2
    /// for yes.
    init_connect: AtomicU64,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DefaultsRead {
    variables: u64,
    accounts: u64,
}

impl DefaultsRead {
    /// The session was reset, after `read` was read; its login is the old one.
    pub fn session_began(&mut self, read: DefaultsRead) {
        self.variables = read.variables;
    }
}

/// What a connection has that its server would not give to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outdated {
    /// Nothing.
    No,
    /// What a reset and choosing the schema again renew.
    Session,
    /// What only a new login renews.
    Login,
}

impl Defaults {
    /// Notes that this may have changed.
    pub fn change(&self, what: ChangedDefaults) {
        let count = match what {
            ChangedDefaults::Sessions => &self.variables,
            ChangedDefaults::Logins => &self.accounts,
        };
        count.fetch_add(1, Ordering::Release);
    }

    /// The counts, to be read before the connection takes anything over.
    pub fn read(&self) -> DefaultsRead {
        let (variables, accounts) =
            (self.variables.load(Ordering::Acquire), self.accounts.load(Ordering::Acquire));
        DefaultsRead { variables, accounts }
    }

    /// What of a connection that was opened or reset at these counts is outdated.
    #[inline]
    pub fn outdated(&self, read: DefaultsRead) -> Outdated {
        let now = self.read();
        match now == read {
            true => Outdated::No,
            false if now.accounts == read.accounts => Outdated::Session,
            false => Outdated::Login,
        }
    }

    /// Whether the server has an `init_connect`, as far as is known at this count.
    pub fn has_init_connect(&self, at: DefaultsRead) -> Option<bool> {
        let known = self.init_connect.load(Ordering::Acquire);
        (known >> 2 == at.variables && known & 3 != 0).then_some(known & 3 == 2)
    }

    /// The answer to that.
    pub fn note_init_connect(&self, at: DefaultsRead, has: bool) {
        self.init_connect.store(at.variables << 2 | if has { 2 } else { 1 }, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_outdated_by_the_next_change_only() {
        let defaults = Defaults::default();
        let first = defaults.read();
        assert_eq!((defaults.outdated(first), defaults.has_init_connect(first)), (Outdated::No, None));
        defaults.note_init_connect(first, true);
        assert_eq!(defaults.has_init_connect(first), Some(true));
        defaults.change(ChangedDefaults::Sessions);
        assert_eq!(defaults.outdated(first), Outdated::Session);
        let second = defaults.read();
        assert_eq!((defaults.outdated(second), defaults.has_init_connect(second)), (Outdated::No, None));
        defaults.change(ChangedDefaults::Logins);
        assert_eq!(defaults.outdated(second), Outdated::Login);
    }
}
