//! Names of what a client has left on its connection: locks and temporary tables.

use narrows_sql::TableName;

/// What is left, by name.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// Each lock as many times as it may have been taken.
    pub(super) user_locks: Named<Vec<u8>>,
    pub(super) temporary_tables: Named<TableName>,
    pub(super) tables_are_locked: bool,
    pub(super) instance_is_locked: bool,
    /// Locks of MariaDB's `BACKUP`, of which there are several kinds.
    pub(super) backup_is_locked: bool,
}

/// Names of things that are left.
#[derive(Debug)]
pub(super) struct Named<T> {
    pub(super) names: Vec<T>,
    /// There may be more, with other names.
    pub(super) others: bool,
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Named { names: Vec::new(), others: false }
    }
}

impl<T: PartialEq> Named<T> {
    /// Adds one; `None`: its name is unknown.
    pub(super) fn add(&mut self, name: Option<T>) {
        match name {
            Some(name) if self.names.len() < MOST_NAMES => self.names.push(name),
            _ => self.others = true,
        }
    }

    pub(super) fn remove(&mut self, name: &T) {
        if let Some(place) = self.names.iter().position(|known| known == name) {
            self.names.swap_remove(place);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.others
    }
}

/// Names that are remembered for a client; one with more keeps its connection.
const MOST_NAMES: usize = 64;
