//! The storage of the configuration and the admin interface's SQL: tables in SQLite, in three layers.
//!
//! *Disk* is a file, *memory* is what operators edit, *runtime* is what the data plane received. Only the last is more
//! than tables: [`crate::config`] reads rows, and the store remembers which ones are running.
//!
//! Full users have a connection to all of it; statistics users only have copies of statistics ([`Snapshot`]).

mod answer;
mod beside_file;
mod bounded;
mod checksum;
mod config_file;
mod config_text;
mod differs;
mod events;
mod execute;
mod file_document;
mod fleet;
mod frozen;
mod functions;
mod guard;
mod history;
mod import;
mod layers;
mod listening;
mod look;
mod open;
mod owned;
mod ownership;
mod packed;
mod passwords;
mod reading;
mod records;
mod row_watch;
mod running;
mod snapshot;
mod source;
mod takeover;
mod toml_text;
mod variables;
mod versions;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::types::Value;

use crate::urgency::Urgency;
use crate::variables::Variable;
use crate::versions::ConfigDocument;

pub use answer::{Answer, Refusal, ResultSet, Warning};
pub use checksum::Checksum;
use execute::{Access, GuardedConnection};
pub use frozen::{Frozen, FrozenError};
pub use guard::{Abandoned, sqlite_bytes};
pub use history::{AGGREGATES, Progress};
pub use import::{ImportReport, ImportSource};
pub use layers::Candidate;
pub use listening::Listening;
pub use open::{OpenError, Opening, Start};
pub use owned::Ownership;
pub use ownership::SectionOwner;
pub use packed::{Cell, Packed, rows_of};
pub use row_watch::RowsChanged;
use running::Running;
pub use snapshot::Snapshot;
pub use source::{MOST_BYTES, SourceError, SourceTable, SourceTables, holds_settings, imported_tables};
pub use toml_text::quoted as toml_string;
pub use versions::{Changed, Drift, VersionRow};

/// The role of the user who sends a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// May execute any statement.
    Admin,
    /// May only read statistics.
    Stats,
}

/// The databases, and what is running.
#[derive(Debug)]
pub struct Store {
    /// The connection to all databases.
    all: GuardedConnection,
    /// The file of figures over time.
    history: PathBuf,
    urgency: Urgency,
    access: Access,
    running: Running,
    phase: variables::Phase,
    /// The configuration file, if there is one.
    file: Option<PathBuf>,
    uuid: String,
    /// The version of the configuration that runs.
    current: versions::Current,
    /// What differs between the layers; `None`: something may have changed since it was found out.
    drift: Option<Arc<versions::Drift>>,
    /// What [`Store::freeze`] has kept of memory; `None`: something may have changed since.
    kept_memory: Option<ConfigDocument>,
    remarks: Vec<String>,
    /// The remarks already reported, without positions in a file; only used while the store is opened.
    remarked: HashSet<String>,
}

impl Store {
    /// Executes one SQL statement of a full user.
    ///
    /// # Errors
    /// SQLite's error, a forbidden statement, or one that takes too long or too much memory.
    pub fn sql(&mut self, text: &str) -> Result<Answer, Refusal> {
        let before = self.all.connection.total_changes();
        let answer = self.all.run(text, self.access);
        if self.all.connection.total_changes() != before {
            self.has_changed();
        }
        answer
    }

    /// Something in memory, on disk or of what runs may have changed.
    fn has_changed(&mut self) {
        self.drift = None;
        self.kept_memory = None;
    }

    /// Whether something in memory may have changed since [`Store::freeze`].
    pub fn is_unkept(&self) -> bool {
        self.kept_memory.is_none()
    }

    /// Whether the rows that statements change are kept, for [`Store::take_changed_rows`].
    ///
    /// # Errors
    /// SQLite's.
    pub fn watch_rows(&mut self, on: bool) -> Result<(), Refusal> {
        Ok(self.all.watch_rows(on)?)
    }

    /// The rows that the last statement has changed.
    pub fn take_changed_rows(&mut self) -> RowsChanged {
        self.all.watch.take()
    }

    /// Whether SQLite accepts one SQL statement of a full user, without executing it.
    ///
    /// # Errors
    /// SQLite's error, or a forbidden statement.
    pub fn check(&mut self, text: &str) -> Result<(), Refusal> {
        self.all.check(text, self.access)
    }

    /// The signal that interrupts statements when something urgent waits.
    pub fn urgency(&self) -> Urgency {
        self.urgency.clone()
    }

    /// Replaces all rows of `table`, given with its database, by `rows`.
    ///
    /// # Errors
    /// If there is no such table, or the rows do not fit; then the old rows are kept.
    pub fn refill(&mut self, table: &str, rows: Vec<Vec<Value>>) -> Result<(), Refusal> {
        let transaction = self.all.open()?.transaction()?;
        transaction.execute(&format!("DELETE FROM {table}"), [])?;
        if let Some(first) = rows.first() {
            let places = vec!["?"; first.len()].join(", ");
            let mut insert =
                transaction.prepare(&format!("INSERT OR REPLACE INTO {table} VALUES ({places})"))?;
            for row in rows {
                insert.execute(rusqlite::params_from_iter(row))?;
            }
        }
        Ok(transaction.commit()?)
    }

    /// Whether full users may not change anything.
    pub fn is_read_only(&self) -> bool {
        self.access == Access::ReadOnly
    }

    /// Sets whether full users may not change anything.
    pub fn set_read_only(&mut self, read_only: bool) {
        self.access = if read_only { Access::ReadOnly } else { Access::ReadWrite };
        let variable = Variable::named("admin-read_only").expect("a variable of ours");
        self.running.variables.put(variable, crate::variables::Value::Flag(read_only));
    }
}

#[cfg(test)]
mod frozen_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod layer_tests;
#[cfg(test)]
mod limit_tests;
#[cfg(test)]
mod ownership_tests;
#[cfg(test)]
mod probes;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod version_tests;
