//! Opening the databases.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;

use super::Store;
use super::execute::{Access, Handle};
use super::schema::{Database, create_missing};

/// What a store is opened with.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a> {
    /// The folder of `narrows.db`.
    pub datadir: &'a Path,
}

/// Why there is no store; nothing has been changed on disk.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A database cannot be opened.
    #[error("{}: {source}", path.display())]
    Database {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// A database in memory cannot be made.
    #[error("the databases in memory: {0}")]
    Memory(#[from] rusqlite::Error),
}

/// The file of the configuration.
pub const DISK: &str = "narrows.db";

/// The file of figures over time.
pub const HISTORY: &str = "narrows_stats.db";

/// Pages of 4 KiB that operators can fill in `main`: 256 MiB, a hundred times what 10,000 rules take.
const MAIN_PAGES: u32 = 65_536;

/// Memory of SQLite in all, in bytes: what is left when a statement sorts or joins without measure.
const HEAP_LIMIT: i64 = 1 << 30;

impl Store {
    /// Opens the databases in `opening.datadir`.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(opening: Opening<'_>) -> Result<Store, OpenError> {
        let (stats, monitor) = (shared_memory("stats"), shared_memory("monitor"));
        let disk = opening.datadir.join(DISK);
        let history = opening.datadir.join(HISTORY);

        let all = Connection::open_in_memory()?;
        all.pragma_update(None, "hard_heap_limit", HEAP_LIMIT)?;
        all.pragma_update(None, "temp_store", "MEMORY")?;
        all.pragma_update(None, "max_page_count", MAIN_PAGES)?;
        attach_file(&all, &disk, Database::Disk)?;
        attach(&all, &stats, Database::Stats)?;
        attach(&all, &monitor, Database::Monitor)?;
        attach_file(&all, &history, Database::StatsHistory)?;
        for database in [Database::Main, Database::Stats, Database::Monitor] {
            create_missing(&all, database)?;
        }
        for (database, path) in [(Database::Disk, &disk), (Database::StatsHistory, &history)] {
            create_missing(&all, database)
                .map_err(|source| OpenError::Database { path: path.clone(), source })?;
        }

        let statistics = Connection::open(&stats)?;
        statistics.pragma_update(None, "temp_store", "MEMORY")?;
        attach(&statistics, &monitor, Database::Monitor)?;
        attach_file(&statistics, &history, Database::StatsHistory)?;
        Ok(Store { all: Handle::new(all)?, statistics: Handle::new(statistics)?, access: Access::ReadWrite })
    }
}

/// The name of a database in memory that several connections of this process can open.
fn shared_memory(name: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("file:/narrows-{number}-{name}?vfs=memdb")
}

fn attach_file(connection: &Connection, path: &Path, database: Database) -> Result<(), OpenError> {
    attach(connection, &path.to_string_lossy(), database)
        .map_err(|source| OpenError::Database { path: path.to_owned(), source })
}

fn attach(connection: &Connection, file: &str, database: Database) -> rusqlite::Result<()> {
    connection.execute(&format!("ATTACH DATABASE ?1 AS {}", database.name()), [file]).map(drop)
}
