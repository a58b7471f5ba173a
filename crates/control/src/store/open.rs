//! Opens the databases, and combines file, disk and memory at a start.
//!
//! The file counts at the first start, with [`Start::Initial`] and with [`Start::Reload`]; otherwise the disk counts. A
//! database that cannot be read or written prevents the start: it is never replaced without a request.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use narrows_wire::charset::{Collation, Family};
use rusqlite::{Connection, ErrorCode, OptionalExtension};

use super::answer::Refusal;
use super::execute::{Access, GuardedConnection};
use super::guard::{Abandoned, Limits};
use super::layers::copy_between;
use super::running::Running;
use super::source::{SourceError, SourceTables};
use super::takeover::{self, TakenOver};
use super::versions::Current;
use super::{Frozen, Store, config_file, variables};
use crate::config::diagnostic::{Diagnostic, Problem};
use crate::config::{charset, parse};
use crate::config_file::LoadedFile;
use crate::config_file::checks::known_passwords;
use crate::config_file::finding::Scope;
use crate::config_file::together::Together;
use crate::schema::{self, Database, bring_up_to_date};
use crate::schema::{Layer, MODULES};
use crate::urgency::Urgency;
use crate::versions::ConfigDocument;

/// Options for opening a store.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a> {
    /// The folder of `narrows.db`.
    pub datadir: &'a Path,
    /// The configuration file.
    pub file: Option<&'a Path>,
    /// Which configuration takes precedence.
    pub start: Start,
    /// The identity of this node from the command line or the file.
    pub uuid: Option<&'a str>,
}

/// Which configuration takes precedence at a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// The disk; at the first start, the file.
    #[default]
    Usual,
    /// The file; the disk is set aside.
    Initial,
    /// The disk, with the file merged over it.
    Reload,
}

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A database cannot be opened.
    #[error("the database {} cannot be used: {source}", path.display())]
    Database {
        /// The file of the database.
        path: PathBuf,
        /// The reason.
        source: rusqlite::Error,
    },
    /// A database is damaged.
    #[error("the database {} is damaged: {finding}; it was left as it is", path.display())]
    Damaged {
        /// The file of the database.
        path: PathBuf,
        /// SQLite's first finding.
        finding: String,
    },
    /// A database cannot be written.
    #[error("the database {} cannot be written, and SAVE ... TO DISK would be lost", path.display())]
    ReadOnly {
        /// The file of the database.
        path: PathBuf,
    },
    /// A database cannot be set aside.
    #[error("the database {} cannot be put aside: {source}", path.display())]
    PutAside {
        /// The file of the database.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The configuration file cannot be started.
    #[error("the configuration cannot be started\n{}", lines(.0))]
    File(Vec<Diagnostic>),
    /// Another program's configuration cannot be read.
    #[error("{} cannot be used: {source}", path.display())]
    Source {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: SourceError,
    },
    /// A configuration already exists where another one is to be imported.
    #[error("{} holds a configuration already; it was left as it is", path.display())]
    Occupied {
        /// The file of the database.
        path: PathBuf,
    },
    /// An in-memory database cannot be created.
    #[error("the databases in memory: {0}")]
    Memory(#[from] rusqlite::Error),
    /// The stored configuration cannot be loaded to runtime.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl OpenError {
    /// Whether the disk is full, or a file may not grow.
    fn is_for_want_of_room(&self) -> bool {
        let (OpenError::Database { source, .. } | OpenError::Memory(source)) = self else { return false };
        matches!(source.sqlite_error_code(), Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure))
    }
}

fn lines(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The file of the configuration.
pub const DISK: &str = "narrows.db";

/// The file of figures over time.
pub const HISTORY: &str = "narrows_stats.db";

/// How many pages of 4 KiB operators can fill in `main`: 256 MiB, a hundred times what 10,000 rules take.
const MAIN_PAGES: u32 = 65_536;

/// Where a database is that is not in a file.
const IN_MEMORY: &str = ":memory:";

/// Where the databases are that are otherwise files.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// In this folder.
    Folder(&'a Path),
    /// In memory: nothing is written.
    Memory,
}

/// What was loaded into memory, besides what is on disk.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// What another program's configuration gave.
    pub taken: Option<TakenOver>,
    /// How many variables the configuration file sets.
    pub variables_of_file: u64,
    /// Rows of the file that do not fit.
    pub rows_left_out: Vec<String>,
}

/// Whether opening the store changes what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disk {
    /// New settings of this version are stored.
    Written,
    /// Nothing is stored.
    AsItIs,
}

/// The most findings that one start logs; a completely wrong set of rules has thousands.
const MOST_FINDINGS: usize = 100;

/// SQLite's total memory in bytes, which limits statements with huge sorts or joins.
const HEAP_LIMIT: i64 = 1 << 30;

impl Store {
    /// Opens the databases in `opening.datadir` and loads the configuration to runtime.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(opening: Opening<'_>) -> Result<Store, OpenError> {
        let mut store = Store::fill(opening, Disk::Written)?;
        store.take_owned(opening)?;
        if opening.start == Start::Usual {
            let differences = store.differences_from_file()?;
            store.remarks.extend(differences);
        }
        for module in MODULES {
            let candidate = store.candidate(&[module])?;
            candidate.warnings.iter().for_each(|warning| store.remark_once(warning.message.clone()));
            store.accept(candidate)?;
        }
        let findings = Together::of_rows(&store.running.rows, &store.running.variables).findings(Scope::All);
        for finding in findings.into_iter().map(|finding| finding.problem.to_string()).take(MOST_FINDINGS) {
            store.remark_once(finding);
        }
        store.remark_on_passwords();
        if let Err(refusal) = store.begin_versions() {
            store.remarks.push(format!("this version of the configuration was not recorded: {refusal}"));
        }
        store.remarked = HashSet::new();
        store.phase = variables::Phase::Serving;
        Ok(store)
    }

    /// Opens the databases in `opening.datadir` while a configuration already runs: that one stays unchanged, and
    /// so does memory. A full disk does not prevent administration, because administrators may be the ones
    /// who free space.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_beside(opening: Opening<'_>, frozen: &Frozen) -> Result<Store, OpenError> {
        let mut store = match Store::fill(opening, Disk::Written) {
            Err(error) if error.is_for_want_of_room() => {
                let mut store = Store::fill(opening, Disk::AsItIs)?;
                store.remarks.push(format!("nothing can be saved until there is space on the disk: {error}"));
                store
            }
            filled => filled?,
        };
        store.running = frozen.running.clone();
        store.phase = variables::Phase::Serving;
        store.follow_admin_variables();
        store.remark_on_passwords();
        if let Err(refusal) = store.resume_versions(frozen.version) {
            store
                .remarks
                .push(format!("the versions of the configuration cannot be read or recorded: {refusal}"));
        }
        store.bring_back(frozen.memory.as_ref());
        store.keep_owned(frozen.ownership.clone())?;
        Ok(store)
    }

    /// Makes memory what it was in the process before. Memory from disk would take away what was loaded and not saved with
    /// the next LOAD.
    fn bring_back(&mut self, memory: Option<&ConfigDocument>) {
        let brought = match memory {
            Some(memory) => self.write_memory(memory),
            None => Err(Refusal::admin("the process before has not kept it")),
        };
        if let Err(refusal) = brought {
            self.remarks.push(format!(
                "memory is what is on disk, and edits are lost: {refusal}; SHOW NARROWS DRIFT has what runs and is not in memory, \
                 and SAVE .. TO MEMORY brings it there, before a LOAD would take it away"
            ));
        }
    }

    fn write_memory(&mut self, memory: &ConfigDocument) -> Result<(), Refusal> {
        let transaction = self.all.open()?.transaction()?;
        super::versions::write(&transaction, memory)?;
        Ok(transaction.commit()?)
    }

    pub(super) fn remark_on_passwords(&mut self) {
        for problem in known_passwords(&self.running.variables) {
            self.remark_once(problem.to_string());
        }
    }

    /// Reports what has not been reported yet, with its position if it is about a file.
    pub(super) fn remark_once(&mut self, message: String) {
        if self.remarked.insert(message.clone()) {
            self.remarks.push(message);
        }
    }

    /// Opens the databases in `opening.datadir` and fills memory and disk.
    fn fill(opening: Opening<'_>, writes: Disk) -> Result<Store, OpenError> {
        let disk = opening.datadir.join(DISK);
        if opening.start == Start::Initial {
            put_aside(&disk)?;
        }
        let mut store = Store::connect(Place::Folder(opening.datadir))?;
        store.file = opening.file.map(Path::to_owned);
        // A killed first start has left a file without tables.
        let is_new = !schema::exists(&store.all.connection, Database::Disk, "global_variables")
            .map_err(|source| OpenError::Database { path: disk.clone(), source })?;
        let path = opening.datadir.join(takeover::PROXYSQL);
        let is_taken_over = is_new && opening.start != Start::Initial && path.exists();
        let former = match is_taken_over {
            true => {
                Some(SourceTables::of_database(&path).map_err(|source| OpenError::Source { path, source })?)
            }
            false => None,
        };
        let loaded = store.load(opening, former.as_ref(), writes).map_err(|error| match error {
            OpenError::Memory(source) => OpenError::Database { path: disk, source },
            other => other,
        })?;
        if let Some(taken) = loaded.taken {
            let rows: u64 = taken.rows.iter().map(|(_, rows)| rows).sum();
            let former = opening.datadir.join(takeover::PROXYSQL);
            store.remarks.push(format!("{}: imported, {rows} rows", former.display()));
            store.remarks.extend(taken.left_out);
        }
        Ok(store)
    }

    /// Opens all databases, those in memory with their tables and those on disk unchanged.
    pub(super) fn connect(place: Place<'_>) -> Result<Store, OpenError> {
        let (disk, history) = match place {
            Place::Folder(folder) => (folder.join(DISK), folder.join(HISTORY)),
            Place::Memory => (PathBuf::from(IN_MEMORY), PathBuf::from(IN_MEMORY)),
        };
        let mut all = Connection::open_in_memory()?;
        all.pragma_update(None, "hard_heap_limit", HEAP_LIMIT)?;
        all.pragma_update(None, "temp_store", "MEMORY")?;
        all.pragma_update(None, "max_page_count", MAIN_PAGES)?;
        if let Place::Folder(_) = place {
            [&disk, &history].into_iter().for_each(|path| make_private(path));
        }
        attach_file(&all, &disk, Database::Disk)?;
        attach(&all, IN_MEMORY, Database::Stats)?;
        attach(&all, IN_MEMORY, Database::Monitor)?;
        attach_file(&all, &history, Database::StatsHistory)?;
        // The figures are copied for each statement of a statistics user: the memory of a large table is released.
        all.pragma_update(Some("stats"), "auto_vacuum", "FULL")?;
        for database in [Database::Main, Database::Stats, Database::Monitor] {
            bring_up_to_date(&all, database)?;
        }
        let remarks = create_history(&mut all)
            .map_err(|source| OpenError::Database { path: history.clone(), source })?;
        add_collations(&all)?;
        // Variables that drivers query first.
        all.execute("INSERT INTO stats.global_variables VALUES ('mysql-max_allowed_packet', '4194304')", [])?;

        let urgency = Urgency::default();
        Ok(Store {
            all: GuardedConnection::new(all, Limits::FULL, urgency.clone(), Abandoned::default())?,
            history,
            urgency,
            access: Access::ReadWrite,
            running: Running::default(),
            current: Current::default(),
            drift: None,
            kept_memory: None,
            phase: variables::Phase::Starting,
            file: None,
            uuid: String::new(),
            remarks,
            remarked: HashSet::new(),
        })
    }

    /// Fills memory and disk. The disk changes in one transaction, or not at all.
    pub(super) fn load(
        &mut self,
        opening: Opening<'_>,
        former: Option<&SourceTables>,
        writes: Disk,
    ) -> Result<Loaded, OpenError> {
        let disk = opening.datadir.join(DISK);
        let connection = &mut self.all.connection;
        let transaction = connection.transaction()?;
        let is_new = !schema::exists(&transaction, Database::Disk, "global_variables")?;
        if !is_new {
            check(&transaction, &disk)?;
        }
        if transaction.is_readonly("disk")? {
            return Err(OpenError::ReadOnly { path: disk });
        }
        if writes == Disk::Written {
            self.remarks.extend(bring_up_to_date(&transaction, Database::Disk)?);
        }
        fill_collations(&transaction, writes)?;
        variables::complete(&transaction)?;
        let taken = former.map(|former| takeover::take_over(&transaction, former)).transpose()?;
        let is_first = is_new && taken.is_none();
        let merges = is_first || opening.start == Start::Reload;
        let file = opening.file.filter(|_| merges);
        let loaded = file.map(crate::config_file::load).transpose().map_err(OpenError::File)?;
        let document = file.map(parse::document).transpose().map_err(OpenError::File)?;
        if !is_new {
            for module in MODULES {
                super::layers::copy_tables(&transaction, module, Layer::Disk, Layer::Memory)?;
            }
            variables::complete(&transaction)?;
        }
        let (mut variables_of_file, mut rows_left_out) = (0, Vec::new());
        if let (Some(loaded), Some(document)) = (loaded, document) {
            for diagnostic in reported_at_start(&loaded) {
                self.remarks.push(diagnostic.to_string());
                self.remarked.insert(diagnostic.problem.to_string());
            }
            let merged = config_file::merge_all(&transaction, &document)?;
            variables_of_file = merged.variables;
            for warning in merged.warnings {
                self.remarked.insert(warning.message.clone());
                self.remarks.push(warning.message.clone());
                rows_left_out.push(warning.message);
            }
        }
        if is_new || merges {
            for module in MODULES {
                super::layers::copy_tables(&transaction, module, Layer::Memory, Layer::Disk)?;
            }
        }
        self.uuid = node_uuid(&transaction, opening.uuid, writes)?;
        transaction.commit()?;
        Ok(Loaded { taken, variables_of_file, rows_left_out })
    }

    /// The remarks on what was read at the start.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// The identity of this node.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }
}

/// The known collations, which operators do not change.
fn fill_collations(connection: &Connection, writes: Disk) -> rusqlite::Result<()> {
    connection.execute_batch("DELETE FROM main.mysql_collations")?;
    let mut insert = connection.prepare("INSERT INTO main.mysql_collations VALUES (?1, ?2, ?3, ?4)")?;
    for (collation, is_first) in charset::collations() {
        let first = if is_first { "Yes" } else { "" };
        insert.execute(rusqlite::params![collation.id, collation.name, collation.charset, first])?;
    }
    if writes == Disk::AsItIs {
        return Ok(());
    }
    connection.execute_batch("DELETE FROM disk.mysql_collations")?;
    copy_between(connection, "mysql_collations", [Database::Main, Database::Disk], "1").map(drop)
}

/// The tables of figures over time, in one transaction: separate ones would each wait for the disk.
fn create_history(connection: &mut Connection) -> rusqlite::Result<Vec<String>> {
    // Losing the latest figures if the machine crashes is acceptable; waiting for the disk at each sample is not.
    connection.pragma_update(Some("stats_history"), "synchronous", "NORMAL")?;
    let transaction = connection.transaction()?;
    let said = bring_up_to_date(&transaction, Database::StatsHistory)?;
    transaction.commit()?;
    Ok(said)
}

/// The remarks on a file that are reported at a start; what has no effect, or is left out, is reported when its module
/// is loaded.
fn reported_at_start(loaded: &LoadedFile) -> impl Iterator<Item = &Diagnostic> {
    let by_module = |problem: &Problem| matches!(problem, Problem::NoEffect { .. } | Problem::LeftOut { .. });
    loaded.passed_over.iter().chain(&loaded.warnings).filter(move |it| !by_module(&it.problem))
}

/// The identity of this node: the given one, otherwise the stored one, otherwise a new one.
fn node_uuid(connection: &Connection, given: Option<&str>, writes: Disk) -> rusqlite::Result<String> {
    let sql = "SELECT variable_value FROM disk.global_settings WHERE variable_name = 'uuid'";
    let stored: Option<String> = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    let uuid = given.map(str::to_owned).or(stored).unwrap_or_else(new_uuid);
    // The UUID is written at every start, so that a disk that cannot be written is noticed now, and not at the next
    // SAVE.
    if writes == Disk::Written {
        connection.execute(
            "INSERT OR REPLACE INTO disk.global_settings (variable_name, variable_value) VALUES ('uuid', ?1)",
            [&uuid],
        )?;
    }
    Ok(uuid)
}

/// A random UUID, of version 4.
fn new_uuid() -> String {
    let mut bytes = [0_u8; 16];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has random numbers");
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Verifies that the database on disk is intact.
fn check(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let finding: String = connection.query_row("PRAGMA disk.quick_check(1)", [], |row| row.get(0))?;
    if finding == "ok" { Ok(()) } else { Err(OpenError::Damaged { path: path.to_owned(), finding }) }
}

/// Renames a database so that it can be found again.
fn put_aside(path: &Path) -> Result<(), OpenError> {
    if !path.exists() {
        return Ok(());
    }
    // Opening it rolls back what a crash left in its journal. If that fails, the file is renamed unchanged.
    let opened = Connection::open(path);
    let _ = opened.and_then(|opened| opened.query_row("SELECT COUNT(*) FROM sqlite_master", [], |_| Ok(())));
    let with = |behind: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(behind);
        PathBuf::from(name)
    };
    let moved = match std::fs::rename(path, with(".bak")) {
        Ok(()) => std::fs::rename(with("-journal"), with(".bak-journal")),
        failed => failed,
    };
    match moved {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            Err(OpenError::PutAside { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Creates the file of a database before SQLite would: it contains passwords, so only its owner may read it.
fn make_private(path: &Path) {
    // An existing file keeps its mode; if it cannot be created, SQLite reports the reason.
    let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
}

/// Fills `mysql_collations`, which `SHOW COLLATION` and `SHOW CHARSET` read.
fn add_collations(connection: &Connection) -> rusqlite::Result<()> {
    let transaction = connection.unchecked_transaction()?;
    let mut insert = transaction.prepare("INSERT INTO main.mysql_collations VALUES (?1, ?2, ?3, ?4)")?;
    for collation in Collation::all().filter(|collation| collation.is_of(Family::MySql)) {
        let first = Collation::default_of(collation.charset, Family::MySql);
        let is_default = if first == Some(collation) { "Yes" } else { "" };
        insert.execute(rusqlite::params![collation.id, collation.name, collation.charset, is_default])?;
    }
    drop(insert);
    transaction.commit()
}

fn attach_file(connection: &Connection, path: &Path, database: Database) -> Result<(), OpenError> {
    attach(connection, &path.to_string_lossy(), database)
        .map_err(|source| OpenError::Database { path: path.to_owned(), source })
}

pub(super) fn attach(connection: &Connection, file: &str, database: Database) -> rusqlite::Result<()> {
    connection.execute(&format!("ATTACH DATABASE ?1 AS {}", database.name()), [file]).map(drop)
}
