//! The errors that servers returned, by server, user, schema and number.

use std::collections::HashMap;
use std::sync::Arc;

use crate::hostgroup::Server;
use crate::rows::HostgroupId;

/// The errors that one worker has seen. Their number is limited: the error that has not occurred for the longest time
/// is dropped.
#[derive(Debug, Default)]
pub struct ErrorTable(HashMap<ErrorKey, ErrorFigures>);

/// The key of an error.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ErrorKey {
    /// The hostgroup.
    pub hostgroup: HostgroupId,
    /// The server.
    pub hostname: String,
    /// The server's port.
    pub port: u16,
    /// The user.
    pub username: String,
    /// The client's address; empty if that is not kept.
    pub client_address: String,
    /// The current schema.
    pub schemaname: Vec<u8>,
    /// The error number.
    pub errno: u16,
}

/// What is kept about an error.
#[derive(Debug, Clone)]
pub struct ErrorFigures {
    /// How often the error occurred.
    pub count: u64,
    /// When it first occurred, in seconds since the process started.
    pub first_s: u64,
    /// When it last occurred.
    pub last_s: u64,
    /// The text of the last one.
    pub text: Box<[u8]>,
}

impl ErrorKey {
    /// An error of `server`; the caller fills in the user.
    pub fn of(server: &Arc<Server>, errno: u16) -> ErrorKey {
        ErrorKey {
            hostgroup: server.row.hostgroup,
            hostname: server.row.hostname.clone(),
            port: server.row.port,
            username: String::new(),
            client_address: String::new(),
            schemaname: Vec::new(),
            errno,
        }
    }
}

impl ErrorFigures {
    /// Adds another worker's figures of the same error.
    pub(crate) fn add(&mut self, other: ErrorFigures) {
        self.count += other.count;
        self.first_s = self.first_s.min(other.first_s);
        if other.last_s >= self.last_s {
            self.last_s = other.last_s;
            self.text = other.text;
        }
    }
}

impl ErrorTable {
    /// Counts one error.
    pub fn add(&mut self, key: ErrorKey, text: &[u8], at_s: u64) {
        let text: Box<[u8]> = text.get(..LONGEST_TEXT).unwrap_or(text).into();
        if let Some(figures) = self.0.get_mut(&key) {
            figures.count += 1;
            figures.last_s = at_s;
            figures.text = text;
            return;
        }
        self.put(key, ErrorFigures { count: 1, first_s: at_s, last_s: at_s, text });
    }

    /// Returns an error that was taken: it is added to those counted since.
    pub fn give_back(&mut self, key: ErrorKey, figures: ErrorFigures) {
        match self.0.get_mut(&key) {
            Some(newer) => newer.add(figures),
            None => self.put(key, figures),
        }
    }

    fn put(&mut self, key: ErrorKey, figures: ErrorFigures) {
        if self.0.len() >= MOST
            && let Some(oldest) = self.0.iter().min_by_key(|(_, figures)| figures.last_s)
        {
            let oldest = oldest.0.clone();
            self.0.remove(&oldest);
        }
        self.0.insert(key, figures);
    }

    /// A copy of all errors.
    pub fn copy(&self) -> Vec<(ErrorKey, ErrorFigures)> {
        self.0.iter().map(|(key, figures)| (key.clone(), figures.clone())).collect()
    }

    /// Takes all errors.
    pub fn take(&mut self) -> Vec<(ErrorKey, ErrorFigures)> {
        std::mem::take(&mut self.0).into_iter().collect()
    }
}

/// How many different errors a worker keeps: at most half a megabyte with their texts.
const MOST: usize = 1024;

/// The maximum length of a server's message (manual: `MYSQL_ERRMSG_SIZE`).
const LONGEST_TEXT: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(errno: u16, schemaname: &str) -> ErrorKey {
        ErrorKey {
            hostgroup: HostgroupId(0),
            hostname: "db".to_owned(),
            port: 3306,
            username: "app".to_owned(),
            client_address: String::new(),
            schemaname: schemaname.into(),
            errno,
        }
    }

    #[test]
    fn counts_equal_errors_in_one_row_with_the_last_text() {
        let mut table = ErrorTable::default();
        table.add(key(1146, "shop"), b"no table a", 1);
        table.add(key(1146, "shop"), b"no table b", 3);
        table.add(key(1146, ""), b"no table c", 4);
        let rows = table.copy();
        assert_eq!(rows.len(), 2);
        let (_, figures) = rows.iter().find(|(key, _)| key.schemaname == b"shop").unwrap();
        assert_eq!((figures.count, figures.first_s, figures.last_s), (2, 1, 3));
        assert_eq!(&*figures.text, b"no table b");
        assert_eq!((table.take().len(), table.take().len()), (2, 0));
    }

    #[test]
    fn is_bounded_and_keeps_what_was_seen_last() {
        let mut table = ErrorTable::default();
        for number in 0..3 * MOST as u64 {
            table.add(key(1, &number.to_string()), b"", number);
        }
        let rows = table.copy();
        assert_eq!(rows.len(), MOST);
        assert!(rows.iter().all(|(_, figures)| figures.last_s >= 2 * MOST as u64));
    }
}
