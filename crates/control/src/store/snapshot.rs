//! What users of statistics see: a copy of the figures as they were at one moment, in a connection that is made for one
//! statement.
//!
//! It shares neither memory nor locks with the store, so that a statement may take as long as it likes on another thread: those
//! of full users and what the monitor has found go on meanwhile. Only `stats_history` is the file that the store writes to.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::answer::{Answer, Refusal};
use super::execute::{Access, Handle};
use super::guard::{Abandoned, Limits};
use super::{Store, open};
use crate::schema::{self, Database, create_missing};
use crate::urgency::Urgency;

/// The figures at one moment.
#[derive(Debug)]
pub struct Snapshot {
    statistics: Vec<u8>,
    /// What was seen of servers, where the statement names it.
    monitor: Option<Vec<u8>>,
    history: PathBuf,
    pub(super) limits: Limits,
}

impl Store {
    /// What a statement of a user of statistics reads.
    ///
    /// # Errors
    /// There is no memory for it.
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
    /// Carries out one statement of SQL, until `abandoned` says that nobody waits for it.
    ///
    /// # Errors
    /// What SQLite says; what is not allowed; what takes too long or too much memory.
    pub fn sql(self, text: &str, abandoned: &Abandoned) -> Result<Answer, Refusal> {
        self.open(abandoned)?.run(text, Access::ReadOnly)
    }

    /// Whether SQLite takes one statement of SQL: it is not carried out.
    ///
    /// # Errors
    /// What SQLite says; what is not allowed.
    pub fn check(self, text: &str, abandoned: &Abandoned) -> Result<(), Refusal> {
        self.open(abandoned)?.check(text, Access::ReadOnly)
    }

    /// The tables of figures are in `main`, as users of statistics know them.
    fn open(self, abandoned: &Abandoned) -> rusqlite::Result<Handle> {
        let mut connection = Connection::open_in_memory()?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        restore(&mut connection, Database::Main, &self.statistics)?;
        open::attach(&connection, ":memory:", Database::Monitor)?;
        match &self.monitor {
            Some(bytes) => restore(&mut connection, Database::Monitor, bytes)?,
            None => create_missing(&connection, Database::Monitor)?,
        }
        open::attach(&connection, &for_reading(&self.history), Database::StatsHistory)?;
        Handle::new(connection, self.limits, Urgency::default(), abandoned.clone())
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
