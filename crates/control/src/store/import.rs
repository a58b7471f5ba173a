//! Imports another program's configuration as a whole, and reports what becomes of each part of it.

use std::collections::HashSet;
use std::path::Path;

use super::Store;
use super::answer::Warning;
use super::differs;
use super::open::{DISK, Disk, HISTORY, OpenError, Opening, Place, Start};
use super::reading::{NO_EFFECT, ROW_LEFT_OUT};
use super::source::SourceTables;
use super::variables::{PUT_BACK, Phase, UNKNOWN};
use crate::config::diagnostic::{Diagnostic, Problem};
use crate::config::tables;
use crate::config_file;
use crate::config_file::finding::Scope;
use crate::config_file::together::Together;
use crate::schema::{self, Database, MODULES, Module};

/// A configuration to import.
#[derive(Debug, Clone, Copy)]
pub enum ImportSource<'a> {
    /// Tables that were read from a database or from an admin port.
    Tables(&'a SourceTables),
    /// A configuration file.
    File(&'a Path),
}

/// What becomes of a configuration. No sentence has a password.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// What is carried over: tables with rows, and how many rows.
    pub carried_over: Vec<(&'static str, u64)>,
    /// What is not, and why.
    pub left_out: Vec<String>,
    /// What works differently in Narrows.
    pub differs: Vec<String>,
    /// What is carried over and does nothing in Narrows.
    pub without_effect: Vec<String>,
    /// What is probably a mistake, in ProxySQL as well.
    pub mistakes: Vec<String>,
}

/// The most sentences of one kind; a completely wrong set of rules has thousands.
const MOST_SENTENCES: usize = 1000;

impl Store {
    /// Imports a configuration: to the folder, where there must be none yet, or to memory alone.
    ///
    /// # Errors
    /// See [`OpenError`]. An existing configuration is left unchanged, and no file is left.
    pub fn import(
        folder: Option<&Path>,
        source: ImportSource<'_>,
    ) -> Result<(Store, ImportReport), OpenError> {
        let Some(folder) = folder else { return Store::import_to(Place::Memory, source) };
        let files = [DISK, HISTORY].map(|name| folder.join(name));
        let new: Vec<_> = files.iter().filter(|path| !path.exists()).collect();
        let imported = Store::import_to(Place::Folder(folder), source);
        if imported.is_err() {
            // If they cannot be removed, the next start finds them empty, and fills them.
            new.into_iter().for_each(|path| drop(std::fs::remove_file(path)));
        }
        imported
    }

    fn import_to(place: Place<'_>, source: ImportSource<'_>) -> Result<(Store, ImportReport), OpenError> {
        let mut store = Store::connect(place)?;
        let datadir = match place {
            Place::Folder(folder) => folder,
            Place::Memory => Path::new(""),
        };
        let path = datadir.join(DISK);
        let database = |source| OpenError::Database { path: path.clone(), source };
        if schema::exists(&store.all.connection, Database::Disk, "global_variables").map_err(database)? {
            return Err(OpenError::Occupied { path });
        }
        let mut report = ImportReport::default();
        let (file, tables) = match source {
            ImportSource::File(path) => (Some(path), None),
            ImportSource::Tables(tables) => (None, Some(tables)),
        };
        if let Some(path) = file {
            report.of_file(path)?;
        }
        let opening = Opening { datadir, file, start: Start::Usual, uuid: None };
        let loaded = store.load(opening, tables, Disk::Written).map_err(|error| match error {
            OpenError::Memory(source) => database(source),
            other => other,
        })?;
        match loaded.taken {
            Some(taken) => {
                report.carried_over = taken.rows;
                report.left_out = taken.left_out;
            }
            None => {
                report.carried_over = store.rows_in_memory(loaded.variables_of_file)?;
                report.left_out.extend(loaded.rows_left_out);
            }
        }
        report.of_store(&mut store, file.is_some())?;
        report.differs = differs::found(&store.all.connection).map_err(database)?;
        report.bound();
        Ok((store, report))
    }

    /// How many rows each table has.
    fn rows_in_memory(&mut self, variables: u64) -> Result<Vec<(&'static str, u64)>, OpenError> {
        let modules = MODULES.into_iter().filter(|module| module.prefix().is_none());
        let mut counts = Vec::new();
        for table in modules.flat_map(Module::tables) {
            let sql = format!("SELECT COUNT(*) FROM main.{table}");
            let rows: i64 = self.all.connection.query_row(&sql, [], |row| row.get(0))?;
            counts.push((*table, rows.unsigned_abs()));
        }
        counts.push(("global_variables", variables));
        counts.retain(|(_, rows)| *rows > 0);
        Ok(counts)
    }
}

impl ImportReport {
    /// What can be said of a file before it is loaded.
    fn of_file(&mut self, path: &Path) -> Result<(), OpenError> {
        let (loaded, document) = config_file::load_with_tree(path).map_err(OpenError::File)?;
        for entry in &document.root {
            let column = tables::BOOTSTRAP.column(&entry.name).map(|column| column.name);
            if let Some(name) = column.or((entry.name == tables::FLEET.name).then_some(tables::FLEET.name)) {
                self.left_out.push(format!("{name}: it is read from the configuration file only"));
            }
        }
        let is_of_module = |diagnostic: &&Diagnostic| {
            matches!(diagnostic.problem, Problem::NoEffect { .. } | Problem::LeftOut { .. })
        };
        let passed_over = loaded.passed_over.iter().filter(|it| !is_of_module(it));
        self.left_out.extend(passed_over.map(ToString::to_string));
        Ok(())
    }

    /// What a start would say of the configuration that was loaded into memory.
    fn of_store(&mut self, store: &mut Store, is_of_file: bool) -> Result<(), OpenError> {
        store.remarks.clear();
        store.remarked.clear();
        store.phase = Phase::Starting;
        for module in MODULES {
            let candidate = store.candidate(&[module])?;
            // Of a file it is known already, with the place.
            let is_said = |warning: &&Warning| is_of_file && warning.code == UNKNOWN;
            candidate.warnings.iter().filter(|it| !is_said(it)).for_each(|warning| self.warning(warning));
            store.accept(candidate)?;
        }
        let together = Together::of_rows(&store.running.rows, &store.running.variables);
        let found = together.findings(Scope::All).into_iter();
        self.mistakes.extend(found.map(|found| found.problem.to_string()));
        store.remark_on_passwords();
        self.mistakes.append(&mut store.remarks);
        Ok(())
    }

    fn warning(&mut self, warning: &Warning) {
        let list = match warning.code {
            NO_EFFECT => &mut self.without_effect,
            ROW_LEFT_OUT | PUT_BACK | UNKNOWN => &mut self.left_out,
            _ => &mut self.mistakes,
        };
        list.push(warning.message.clone());
    }

    /// Each sentence once, and not endlessly many.
    fn bound(&mut self) {
        let mut said = HashSet::new();
        for list in [&mut self.left_out, &mut self.differs, &mut self.without_effect, &mut self.mistakes] {
            list.retain(|sentence| said.insert(sentence.clone()));
            if list.len() > MOST_SENTENCES {
                let more = list.len() - MOST_SENTENCES;
                list.truncate(MOST_SENTENCES);
                list.push(format!("and {more} more"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_cannot_be_applied_are_reported_and_not_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("proxysql.db");
        let sql = "CREATE TABLE mysql_query_rules (rule_id, active, match_pattern, destination_hostgroup);
                   INSERT INTO mysql_query_rules VALUES (17, 1, '(unclosed', 1), (18, 1, 'x', 1);
                   CREATE TABLE mysql_users (username, password);
                   INSERT INTO mysql_users VALUES ('ok', 'x'), ('latin1', CAST(x'70e4' AS TEXT));";
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let tables = SourceTables::of_database(&path).unwrap();
        let (mut store, report) = Store::import(None, ImportSource::Tables(&tables)).unwrap();
        let latin1 = "mysql_users: a row was left out (username='latin1'): password is not UTF-8";
        assert!(report.left_out.iter().any(|it| it.starts_with(latin1)), "{:?}", report.left_out);
        assert!(report.left_out.iter().any(|it| it.contains("rule_id=17")), "{:?}", report.left_out);
        let (text, left_out) = store.toml_text().unwrap();
        assert!(text.contains("rule_id = 18") && !text.contains("rule_id = 17"), "{text}");
        assert!(left_out[0].starts_with("mysql_query_rules rule_id=17"), "{left_out:?}");
    }
}
