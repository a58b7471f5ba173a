//! Schemas that a server was seen to let users into.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Schemas that servers have let users into, by user.
#[derive(Debug, Default)]
pub struct KnownSchemas {
    by_user: RefCell<HashMap<String, HashSet<Box<[u8]>>>>,
}

impl KnownSchemas {
    /// Whether that was seen.
    pub fn contains(&self, user: &str, schema: &[u8]) -> bool {
        self.by_user.borrow().get(user).is_some_and(|schemas| schemas.contains(schema))
    }

    /// It was.
    pub fn insert(&self, user: &str, schema: &[u8]) {
        let mut by_user = self.by_user.borrow_mut();
        if by_user.values().map(HashSet::len).sum::<usize>() >= MOST_KNOWN {
            by_user.clear();
        }
        by_user.entry(user.to_owned()).or_default().insert(schema.into());
    }

    /// Forgets all of them: users may have other servers now.
    pub fn forget(&self) {
        self.by_user.borrow_mut().clear();
    }
}

/// Schemas that a worker remembers: a bound for those who have a schema per customer.
const MOST_KNOWN: usize = 10_000;
