//! What statistics users see: a copy of the figures at one moment, in a connection created for one statement.
//!
//! It shares neither memory nor locks with the store, so that a long statement can run on another thread while the
//! statements of full users and the monitor's findings are processed. Only `stats_history` is the file that the store
//! writes to.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::answer::{Answer, Refusal};
use super::execute::{Access, GuardedConnection};
use super::guard::{Abandoned, Limits};
use super::{Store, open};
use crate::schema::{self, Database, bring_up_to_date};
use crate::urgency::Urgency;

/// The figures at one moment.
#[derive(Debug)]
pub struct Snapshot {
    statistics: Vec<u8>,
    /// The results of checks, if the statement names them.
    monitor: Option<Vec<u8>>,
    history: PathBuf,
    pub(super) limits: Limits,
}

impl Store {
    /// The data that a statistics user's statement reads.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn snapshot(&mut self, text: &str) -> Result<Snapshot, Refusal> {
        let text = text.to_ascii_lowercase();
        let mut names = schema::tables().flat_map(|table| table.names_in(Database::Monitor));
        let names_monitor = names.any(|name| text.contains(&name));
        let history = self.history.clone();
        let connection = self.all.open()?;
        let mut copy = |database: Database| Ok(connection.serialize(database.name())?.to_vec());
        let monitor = names_monitor.then(|| copy(Database::Monitor)).transpose();
        let monitor = monitor.map_err(|error: rusqlite::Error| Refusal::from(error))?;
        let statistics = copy(Database::Stats)?;
        Ok(Snapshot { statistics, monitor, history, limits: Limits::STATISTICS })
    }
}

impl Snapshot {
    /// Executes one SQL statement, until `abandoned` signals that nobody waits for it.
    ///
    /// # Errors
    /// SQLite's error, a forbidden statement, or one that takes too long or too much memory.
    pub fn sql(self, text: &str, abandoned: &Abandoned) -> Result<Answer, Refusal> {
        self.open(abandoned)?.run(text, Access::ReadOnly)
    }

    /// Whether SQLite accepts one SQL statement, without executing it.
    ///
    /// # Errors
    /// SQLite's error, or a forbidden statement.
    pub fn check(self, text: &str, abandoned: &Abandoned) -> Result<(), Refusal> {
        self.open(abandoned)?.check(text, Access::ReadOnly)
    }

    /// The statistics tables are in `main`, as statistics users expect.
    fn open(self, abandoned: &Abandoned) -> rusqlite::Result<GuardedConnection> {
        let mut connection = Connection::open_in_memory()?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        restore(&mut connection, Database::Main, &self.statistics)?;
        open::attach(&connection, ":memory:", Database::Monitor)?;
        match &self.monitor {
            Some(bytes) => restore(&mut connection, Database::Monitor, bytes)?,
            None => drop(bring_up_to_date(&connection, Database::Monitor)?),
        }
        open::attach(&connection, &for_reading(&self.history), Database::StatsHistory)?;
        GuardedConnection::new(connection, self.limits, Urgency::default(), abandoned.clone())
    }
}

fn restore(connection: &mut Connection, database: Database, bytes: &[u8]) -> rusqlite::Result<()> {
    connection.deserialize_read_exact(database.name(), bytes, bytes.len(), true)
}

/// A file as a URI.
fn for_reading(path: &Path) -> String {
    let path = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{path}?mode=ro")
}
