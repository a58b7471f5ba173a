//! Where the Narrows of a data folder listens, for programs that look for it. The database is only read.

use std::path::Path;

use narrows_proxy::rows::convert::items;
use narrows_proxy::snapshot;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::open::{DISK, OpenError};
use crate::variables::Values;

/// The listening addresses, as they are written in the variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listening {
    /// `mysql-interfaces`.
    pub clients: Vec<String>,
    /// `admin-mysql_ifaces`.
    pub administrators: Vec<String>,
}

impl Listening {
    /// The saved addresses of `datadir`; those in `file` if nothing has been saved there yet.
    ///
    /// # Errors
    /// A database that cannot be read.
    pub fn read(datadir: &Path, file: &Values) -> Result<Listening, OpenError> {
        let path = datadir.join(DISK);
        let stored = stored(&path).map_err(|source| OpenError::Database { path, source })?;
        let [clients, administrators] = stored;
        let in_file = |name| file.value(name).map(ToString::to_string).unwrap_or_default();
        let clients = clients.unwrap_or_else(|| in_file(CLIENTS));
        let administrators = administrators.unwrap_or_else(|| in_file(ADMINISTRATORS));
        let mut listening = Listening {
            clients: items(&clients, ';').map(str::to_owned).collect(),
            administrators: administrators.split([';', ',']).map(|one| one.trim().to_owned()).collect(),
        };
        if listening.clients.is_empty() {
            listening.clients = snapshot::Variables::default().interfaces;
        }
        listening.administrators.retain(|one| !one.is_empty());
        Ok(listening)
    }
}

/// The two variables in a database; `None` if there is no such database, or nothing is in it.
fn stored(path: &Path) -> rusqlite::Result<[Option<String>; 2]> {
    // A folder that may not be searched is not one without a database.
    if path.try_exists().is_ok_and(|exists| !exists) {
        return Ok([None, None]);
    }
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    // A killed first start has left a file without tables.
    let has_table = "SELECT 1 FROM sqlite_master WHERE name = 'global_variables'";
    if connection.query_row(has_table, [], |_| Ok(())).optional()?.is_none() {
        return Ok([None, None]);
    }
    let value = |name| {
        let query = "SELECT variable_value FROM global_variables WHERE variable_name = ?1";
        connection.query_row(query, [name], |row| row.get(0)).optional()
    };
    Ok([value(CLIENTS)?, value(ADMINISTRATORS)?])
}

const CLIENTS: &str = "mysql-interfaces";
const ADMINISTRATORS: &str = "admin-mysql_ifaces";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Opening, Start, Store};

    #[test]
    fn what_is_saved_takes_precedence_over_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = || Listening::read(folder.path(), &Values::default()).expect("readable");
        let of_file = read();
        assert_eq!(of_file.clients, ["0.0.0.0:6033"]);
        assert_eq!(of_file.administrators, ["127.0.0.1:6032"]);
        let opening = Opening { datadir: folder.path(), file: None, start: Start::Usual, uuid: None };
        let mut store = Store::open(opening).expect("a store");
        assert_eq!(read(), of_file);
        for statement in [
            "UPDATE disk.global_variables SET variable_value = '127.0.0.1:1;/s' WHERE variable_name = 'mysql-interfaces'",
            "UPDATE disk.global_variables SET variable_value = '/a, [::1]:2' WHERE variable_name = 'admin-mysql_ifaces'",
        ] {
            store.sql(statement).expect("an update");
        }
        let saved = read();
        assert_eq!(saved.clients, ["127.0.0.1:1", "/s"]);
        assert_eq!(saved.administrators, ["/a", "[::1]:2"]);
        std::fs::write(folder.path().join(DISK), [b'x'; 4096]).expect("written");
        assert!(Listening::read(folder.path(), &Values::default()).is_err());
    }
}
