//! Versions of the configuration on disk: recorded with each change, listed, and made the configuration again.
//!
//! `narrows_config_history` has one row for each version; what versions hold is in `narrows_config_documents`, compressed,
//! once for equal contents. Contents have passwords, as the tables of the configuration do.

use std::sync::Arc;

use narrows_proxy::clock;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension};

use super::answer::{Answer, Refusal, Warning};
use super::layers::{Candidate, Loaded, copy_tables, insert};
use super::reading::cells_where;
use super::variables::in_memory;
use super::{Store, fleet};
use crate::schema::{Database, Layer, MODULES, Module};
use crate::versions::{ConfigDocument, RowChange, VersionOrigin, VersionSource, changes, checksum, summary};

/// The version that runs.
#[derive(Debug, Clone, Default)]
pub(super) struct Current {
    /// Its number; 0 if none could be recorded yet.
    pub version: i64,
    /// What it holds.
    pub document: ConfigDocument,
}

/// A row of `narrows_config_history`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRow {
    /// The number.
    pub version: i64,
    /// When it was made, in seconds since 1970.
    pub epoch: i64,
    /// Who has made it.
    pub username: String,
    /// Where the administrator's connection came from.
    pub client: String,
    /// How it was made: the name of a [`VersionSource`].
    pub source: String,
    /// The command.
    pub command: String,
    /// Why it was made.
    pub comment: String,
    /// What is different from the version before, in one line.
    pub changes: String,
    /// The checksum of what it holds.
    pub checksum: String,
}

/// What differs between the layers.
#[derive(Debug, Default)]
pub struct Drift {
    /// What is in memory but does not run.
    pub not_loaded: Vec<RowChange>,
    /// What runs but is not on disk.
    pub not_saved: Vec<RowChange>,
}

/// What a change has made.
#[derive(Debug)]
pub struct Changed<T> {
    /// What the preparation has returned.
    pub prepared: T,
    /// The new version; that of before if nothing has changed.
    pub version: i64,
    /// What was left out or reset.
    pub answer: Answer,
}

impl Store {
    /// The number of the version that runs.
    pub fn version(&self) -> i64 {
        self.current.version
    }

    /// What the version that runs holds.
    pub fn current(&self) -> &ConfigDocument {
        &self.current.document
    }

    /// What is in memory, or on disk.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn document(&mut self, database: Database) -> Result<ConfigDocument, Refusal> {
        Ok(document_in(self.all.open()?, database, &MODULES)?)
    }

    /// What is in memory but does not run, and what runs but is not on disk.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn drift(&mut self) -> Result<Arc<Drift>, Refusal> {
        if let Some(drift) = &self.drift {
            return Ok(Arc::clone(drift));
        }
        let (memory, disk) = (self.document(Database::Main)?, self.document(Database::Disk)?);
        let running = &self.current.document;
        let found = Drift { not_loaded: changes(running, &memory), not_saved: changes(&disk, running) };
        let found = Arc::new(found);
        self.drift = Some(Arc::clone(&found));
        Ok(found)
    }

    /// The latest versions, the newest first.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn latest_versions(&mut self, most: u32) -> Result<Vec<VersionRow>, Refusal> {
        let sql = format!("SELECT {COLUMNS} FROM disk.narrows_config_history ORDER BY version DESC LIMIT ?1");
        let mut select = self.all.open()?.prepare(&sql)?;
        let rows = select.query_map([most], version_row)?.collect::<Result<_, _>>()?;
        Ok(rows)
    }

    /// What a version holds; `None`: there is no such version any more. Also returns the names in it that this program
    /// does not have.
    ///
    /// # Errors
    /// SQLite's error, or contents that cannot be read.
    pub fn version_document(
        &mut self,
        version: i64,
    ) -> Result<Option<(ConfigDocument, Vec<String>)>, Refusal> {
        stored(self.all.open()?, version)
    }

    /// Records that `candidate` runs, and the version that it makes. If that cannot be recorded, a warning says so.
    ///
    /// # Errors
    /// SQLite's error; then nothing has changed.
    pub fn adopt(&mut self, candidate: Candidate, origin: &VersionOrigin) -> Result<Answer, Refusal> {
        self.has_changed();
        let (modules, loaded) = (candidate.modules().to_vec(), candidate.loaded.clone());
        if modules.iter().any(|module| self.ownership().owns(*module)) {
            let wanted = self.with_loaded(&modules, &loaded)?;
            self.refuse_not_owner(&wanted)?;
        }
        let mut answer = self.accept(candidate)?;
        let document = self.with_loaded(&modules, &loaded)?;
        if let (Err(refusal), Answer::Done { warnings, .. }) =
            (self.record_version(document, origin), &mut answer)
        {
            let message = format!("this version of the configuration was not recorded: {refusal}");
            warnings.push(Warning { code: NOT_RECORDED, message });
        }
        Ok(answer)
    }

    /// What runs, with what is loaded from memory.
    fn with_loaded(&mut self, modules: &[Module], loaded: &Loaded) -> Result<ConfigDocument, Refusal> {
        let in_memory = document_in(self.all.open()?, Database::Main, modules)?;
        let mut document = self.current.document.clone();
        for module in modules {
            match loaded {
                Loaded::Whole => document.take_module(*module, &in_memory),
                Loaded::User(name) => document.take_user(name, &in_memory),
            }
        }
        Ok(document)
    }

    /// Records the contents that run now, unless they are those of the current version.
    pub(super) fn record_version(
        &mut self,
        document: ConfigDocument,
        origin: &VersionOrigin,
    ) -> Result<(), Refusal> {
        if self.current.version > 0 && document == self.current.document {
            return Ok(());
        }
        let kept = self.kept_versions();
        let before = std::mem::replace(&mut self.current.document, document);
        // It is not known any more if it cannot be recorded.
        self.current.version = 0;
        let transaction = self.all.open()?.transaction()?;
        let version = add(&transaction, &before, &self.current.document, origin, kept)?;
        transaction.commit()?;
        self.current.version = version;
        Ok(())
    }

    /// Makes `document` the configuration, in memory, on disk and for what runs, all of it or nothing. `prepare` is asked
    /// whether the candidate can run, before anything is stored.
    ///
    /// # Errors
    /// SQLite's error, or that of `prepare`; then nothing has changed.
    pub fn change<T>(
        &mut self,
        document: &ConfigDocument,
        origin: &VersionOrigin,
        prepare: impl FnOnce(&Store, &Candidate) -> Result<T, Refusal>,
    ) -> Result<Changed<T>, Refusal> {
        if !self.ownership().modules().is_empty() {
            self.refuse_not_owner(&document.over(&self.current.document))?;
        }
        self.has_changed();
        let (running, current) = (self.running.clone(), self.current.clone());
        self.all.open()?.execute_batch("BEGIN IMMEDIATE")?;
        let changed = self.change_within(document, origin, prepare);
        let ended = changed.and_then(|changed| {
            self.all.open()?.execute_batch("COMMIT")?;
            Ok(changed)
        });
        if ended.is_err() {
            (self.running, self.current) = (running, current);
            self.follow_admin_variables();
            // SQLite has rolled back by itself after some errors.
            let _ = self.all.open()?.execute_batch("ROLLBACK");
        }
        ended
    }

    /// Shows `try_out` the candidate that `document` would be, and changes nothing.
    ///
    /// # Errors
    /// SQLite's error, or that of `try_out`.
    pub fn attempt<T>(
        &mut self,
        document: &ConfigDocument,
        try_out: impl FnOnce(&Store, &Candidate) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.all.open()?.execute_batch("BEGIN IMMEDIATE")?;
        let tried = write(&self.all.connection, document).map_err(Refusal::from).and_then(|()| {
            let modules = document.modules_that_differ(&self.current.document);
            let candidate = self.candidate(&modules)?;
            try_out(self, &candidate)
        });
        let undone = self.all.open()?.execute_batch("ROLLBACK");
        let tried = tried?;
        undone?;
        Ok(tried)
    }

    fn change_within<T>(
        &mut self,
        document: &ConfigDocument,
        origin: &VersionOrigin,
        prepare: impl FnOnce(&Store, &Candidate) -> Result<T, Refusal>,
    ) -> Result<Changed<T>, Refusal> {
        let kept = self.kept_versions();
        write(self.all.open()?, document)?;
        let modules = document.modules_that_differ(&self.current.document);
        let candidate = self.candidate(&modules)?;
        let prepared = prepare(self, &candidate)?;
        let answer = self.accept(candidate)?;
        let connection = self.all.open()?;
        for module in MODULES {
            copy_tables(connection, module, Layer::Memory, Layer::Disk)?;
        }
        // Values that cannot be used were reset.
        let after = document_in(connection, Database::Main, &MODULES)?;
        if after != self.current.document {
            self.current.version = add(connection, &self.current.document, &after, origin, kept)?;
            self.current.document = after;
        }
        if let Some(place) = &origin.fleet {
            fleet::write(connection, place, self.current.version)?;
        }
        Ok(Changed { prepared, version: self.current.version, answer })
    }

    /// Takes up the versions on disk at a start from disk.
    pub(super) fn begin_versions(&mut self) -> Result<(), Refusal> {
        let connection = self.all.open()?;
        let document = document_in(connection, Database::Main, &MODULES)?;
        let last = last(connection)?;
        let is_known = last.as_ref().is_some_and(|(_, checksum)| *checksum == document.checksum());
        let version = last.as_ref().map_or(0, |(version, _)| *version);
        let before = stored(connection, version)?.map(|(document, _)| document);
        self.current = Current { version, document: before.unwrap_or_else(ConfigDocument::of_defaults) };
        if is_known {
            return Ok(());
        }
        let owner = self.ownership();
        let what = match version {
            0 => "the program started for the first time".to_owned(),
            _ if !owner.modules().is_empty() => {
                let (names, file) = (owner.names(), owner.file().display());
                format!("the program started, and took {names} from {file}")
            }
            _ => "the program started from disk, which has another configuration than ran before".to_owned(),
        };
        self.record_version(document, &VersionOrigin::of_program(VersionSource::Start, &what))
    }

    /// Takes up the versions on disk beside a configuration that runs already, with this version. A version that was
    /// stored after it never came into force, because its process ended: the disk has the one before again.
    pub(super) fn resume_versions(&mut self, runs: i64) -> Result<(), Refusal> {
        let connection = self.all.open()?;
        let (last, _) = last(connection)?.unwrap_or_default();
        let Some((document, _)) = stored(connection, runs)? else {
            let what = "the program continued with a configuration that was not recorded";
            let document = self.running.document();
            return self.record_version(document, &VersionOrigin::of_program(VersionSource::Start, what));
        };
        self.current = Current { version: runs, document };
        if last <= runs {
            return Ok(());
        }
        let cut_off: Vec<VersionRow> =
            self.latest_versions(u32::try_from(last - runs).unwrap_or(u32::MAX))?;
        let was_saved = cut_off.iter().any(|row| SAVED.iter().any(|source| source.name() == row.source));
        let what = format!("the process ended before version {last} was in force");
        let kept = self.kept_versions();
        let transaction = self.all.open()?.transaction()?;
        if was_saved {
            fleet::forget_after(&transaction, runs)?;
            write(&transaction, &self.current.document)?;
            for module in MODULES {
                copy_tables(&transaction, module, Layer::Memory, Layer::Disk)?;
            }
        }
        let before = stored(&transaction, last)?.map(|(document, _)| document).unwrap_or_default();
        let origin = VersionOrigin::of_program(VersionSource::Rollback, &what);
        let version = add(&transaction, &before, &self.current.document, &origin, kept)?;
        transaction.commit()?;
        self.current.version = version;
        self.remarks.push(format!("{what}: version {runs} runs, as version {version}"));
        Ok(())
    }

    fn kept_versions(&self) -> Kept {
        let number = |name: &str| self.variable(name).and_then(|text| text.parse().ok()).unwrap_or(i64::MAX);
        Kept {
            versions: number("admin-config_history_versions"),
            seconds: number("admin-config_history_days").saturating_mul(86_400),
        }
    }
}

/// How a version is made that also changes the disk.
const SAVED: [VersionSource; 3] = [VersionSource::Apply, VersionSource::Rollback, VersionSource::Fleet];

/// How many versions are kept, and for how many seconds.
#[derive(Debug, Clone, Copy)]
struct Kept {
    versions: i64,
    seconds: i64,
}

/// The contents of modules in memory or on disk.
fn document_in(
    connection: &Connection,
    database: Database,
    modules: &[Module],
) -> rusqlite::Result<ConfigDocument> {
    let mut document = ConfigDocument::default();
    for module in modules {
        match module.prefix() {
            Some(prefix) => {
                for (name, text) in variables_in(connection, database, prefix)? {
                    document.put_variable(&name, text);
                }
            }
            None => {
                for table in module.tables() {
                    document.put_table(table, cells_where(connection, database, table, "1")?);
                }
            }
        }
    }
    Ok(document)
}

fn variables_in(
    connection: &Connection,
    database: Database,
    prefix: &str,
) -> rusqlite::Result<Vec<(String, String)>> {
    if database == Database::Main {
        return in_memory(connection, prefix);
    }
    let condition = format!("variable_name LIKE '{prefix}%'");
    let rows = cells_where(connection, database, "global_variables", &condition)?;
    let text = |value: Option<&Value>| match value {
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Integer(integer)) => integer.to_string(),
        _ => String::new(),
    };
    Ok(rows.iter().map(|row| (text(row.first()), text(row.get(1)))).collect())
}

/// Makes `document` the contents of memory, where it says something.
pub(super) fn write(connection: &Connection, document: &ConfigDocument) -> rusqlite::Result<()> {
    for (table, rows) in document.tables() {
        connection.execute(&format!("DELETE FROM main.{table}"), [])?;
        insert(connection, Database::Main, table, rows)?;
    }
    let mut set = connection.prepare("INSERT OR REPLACE INTO main.global_variables VALUES (?1, ?2)")?;
    for (name, text) in document.variables() {
        set.execute([name, text])?;
    }
    Ok(())
}

/// Adds a version, and deletes those that are too many or too old; returns its number.
fn add(
    connection: &Connection,
    before: &ConfigDocument,
    after: &ConfigDocument,
    origin: &VersionOrigin,
    kept: Kept,
) -> Result<i64, Refusal> {
    let json = after.to_json();
    let checksum = checksum(&json);
    let bytes = zstd::encode_all(json.as_slice(), COMPRESSION).map_err(Refusal::admin)?;
    let now = clock::now_s();
    let text = |text: &str| text.chars().take(LONGEST).collect::<String>();
    connection.execute(
        "INSERT OR IGNORE INTO disk.narrows_config_documents (checksum, document) VALUES (?1, ?2)",
        rusqlite::params![checksum, bytes],
    )?;
    connection.execute(
        "INSERT INTO disk.narrows_config_history (epoch, username, client, source, command, comment, changes, checksum) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        rusqlite::params![
            now,
            origin.user,
            origin.client,
            origin.source.name(),
            text(&origin.command),
            text(&origin.comment),
            summary(&changes(before, after)),
            checksum,
        ],
    )?;
    let version = connection.last_insert_rowid();
    // What has drifted from it must be known.
    let fleet_version = fleet::read(connection)?.map_or(0, |(_, local)| local);
    connection.execute(
        "DELETE FROM disk.narrows_config_history WHERE version < ?1 AND (version <= ?1 - ?2 OR epoch < ?3) AND version <> ?4",
        [version, kept.versions, now.saturating_sub(kept.seconds), fleet_version],
    )?;
    connection.execute(
        "DELETE FROM disk.narrows_config_documents WHERE checksum NOT IN \
         (SELECT checksum FROM disk.narrows_config_history)",
        [],
    )?;
    Ok(version)
}

/// The newest version, with its checksum.
fn last(connection: &Connection) -> rusqlite::Result<Option<(i64, String)>> {
    let sql = "SELECT version, checksum FROM disk.narrows_config_history ORDER BY version DESC LIMIT 1";
    connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

fn stored(connection: &Connection, version: i64) -> Result<Option<(ConfigDocument, Vec<String>)>, Refusal> {
    let sql = "SELECT document FROM disk.narrows_config_documents WHERE checksum = \
               (SELECT checksum FROM disk.narrows_config_history WHERE version = ?1)";
    let bytes: Option<Vec<u8>> = connection.query_row(sql, [version], |row| row.get(0)).optional()?;
    let Some(bytes) = bytes else { return Ok(None) };
    let unreadable = |reason: &dyn std::fmt::Display| {
        Refusal::admin(format!("version {version} of the configuration cannot be read: {reason}"))
    };
    let json = zstd::decode_all(bytes.as_slice()).map_err(|error| unreadable(&error))?;
    ConfigDocument::from_json(&json).map(Some).map_err(|error| unreadable(&error))
}

const COLUMNS: &str = "version, epoch, username, client, source, command, comment, changes, checksum";

fn version_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<VersionRow> {
    Ok(VersionRow {
        version: row.get(0)?,
        epoch: row.get(1)?,
        username: row.get(2)?,
        client: row.get(3)?,
        source: row.get(4)?,
        command: row.get(5)?,
        comment: row.get(6)?,
        changes: row.get(7)?,
        checksum: row.get(8)?,
    })
}

/// `ER_UNKNOWN_ERROR`
const NOT_RECORDED: u16 = 1105;

/// zstd's usual level.
const COMPRESSION: i32 = 3;

/// How many characters of a command, or of a comment, are kept.
const LONGEST: usize = 1_000;
