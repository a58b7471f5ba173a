//! Modules that the configuration file owns change with the file, and with nothing else.
//!
//! What an owned module may become is decided by contents: what runs, or what the file says. Who brings it does not matter.
//! Statements on the tables are refused by [`super::guard`], and on rows of variables by triggers.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};
use serde_json::Value as Json;

use super::Store;
use super::answer::Refusal;
use super::open::{OpenError, Opening};
use super::owned::{Ownership, name_of, part};
use super::versions::write;
use crate::config::diagnostic::Diagnostic;
use crate::config::managed::{MANAGED_NAMES, ManagedName};
use crate::config::parse;
use crate::config_file;
use crate::schema::{Database, Layer, MODULES, Module};
use crate::versions::ConfigDocument;

/// A section, and who may change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionOwner {
    /// Its name in the key `managed`.
    pub section: &'static str,
    /// Its module.
    pub module: Module,
    /// The file that owns it; `None`: administrators change it.
    pub owner: Option<PathBuf>,
    /// Whether what runs is what the file says; `Err`: why that is not known. Only if there is an owner.
    pub is_in_force: Option<Result<bool, String>>,
}

impl Store {
    /// What the configuration file owns.
    pub fn ownership(&self) -> &Ownership {
        self.all.ownership()
    }

    /// Takes what the configuration file owns from it, to memory and to disk.
    pub(super) fn take_owned(&mut self, opening: Opening<'_>) -> Result<(), OpenError> {
        let Some(file) = opening.file else { return Ok(()) };
        let ownership = match owned_by(file) {
            // The program read it when it began, and the process starts again since.
            Err(OpenError::File(problems)) => return self.own_as_before(&problems),
            found => found?,
        };
        remember(self.all.open()?, &ownership)?;
        if ownership.modules().is_empty() {
            return Ok(());
        }
        let wanted = part(ownership.modules(), &Store::document_of_file(ownership.file())?);
        let disk = self.document(Database::Disk)?;
        let transaction = self.all.open()?.transaction()?;
        write(&transaction, &wanted)?;
        for module in ownership.modules().iter().filter(|module| !is_same(**module, &wanted, &disk)) {
            super::layers::copy_tables(&transaction, *module, Layer::Memory, Layer::Disk)?;
        }
        transaction.commit()?;
        self.own(ownership)?;
        Ok(())
    }

    /// Continues with what the disk has, if the file cannot be used. What it owned stays owned.
    fn own_as_before(&mut self, problems: &[Diagnostic]) -> Result<(), OpenError> {
        let Some(ownership) = remembered(self.all.open()?)? else { return Ok(()) };
        let why = problems.first().map(ToString::to_string).unwrap_or_default();
        let names = ownership.names();
        self.remarks.push(format!(
            "the configuration file owns {names}, which stay as on disk, because it cannot be used: {why}"
        ));
        Ok(self.own(ownership)?)
    }

    /// From now on, administrators do not change what is owned.
    pub(super) fn own(&mut self, ownership: Ownership) -> Result<(), Refusal> {
        guard_variables(self.all.open()?, &ownership)?;
        self.all.own(ownership);
        Ok(())
    }

    /// Takes over what another process has owned beside the configuration that runs: memory is what runs.
    pub(super) fn keep_owned(&mut self, ownership: Option<Ownership>) -> Result<(), Refusal> {
        // A process of a version that did not know of owners.
        let of_file = || owned_by(self.file.as_deref()?).ok();
        let Some(ownership) = ownership.or_else(of_file).filter(|it| !it.modules().is_empty()) else {
            return Ok(());
        };
        let running = part(ownership.modules(), &self.current.document);
        let transaction = self.all.open()?.transaction()?;
        write(&transaction, &running)?;
        transaction.commit()?;
        self.own(ownership)
    }

    /// What the file says of the modules that it owns.
    ///
    /// # Errors
    /// A file that cannot be used.
    pub(super) fn owned_document(&self) -> Result<ConfigDocument, Refusal> {
        let ownership = self.ownership();
        let file = ownership.file().display();
        let unusable = |error: OpenError| {
            Refusal::admin(format!("{file} cannot be used, and it owns {}: {error}", ownership.names()))
        };
        // What a file does not own, it need not have.
        let now = owned_by(ownership.file()).map_err(unusable)?;
        if let Some(module) = ownership.modules().iter().find(|module| !now.owns(**module)) {
            return Err(Refusal::admin(format!(
                "{file} does not have {} in its list of managed sections any more, which counts from the next start: until then \
                 nothing changes it",
                name_of(*module).name
            )));
        }
        let document = Store::document_of_file(ownership.file()).map_err(unusable)?;
        Ok(part(ownership.modules(), &document))
    }

    /// Refuses a configuration that has other contents of what is owned than run, and than the file says.
    ///
    /// # Errors
    /// Who owns what, and what to do instead.
    pub fn refuse_not_owner(&self, wanted: &ConfigDocument) -> Result<(), Refusal> {
        let owned = self.ownership().modules().iter().copied();
        let foreign: Vec<Module> =
            owned.filter(|module| !is_same(*module, wanted, &self.current.document)).collect();
        if foreign.is_empty() {
            return Ok(());
        }
        let of_file = self.owned_document()?;
        match foreign.into_iter().find(|module| !is_same(*module, wanted, &of_file)) {
            Some(module) => Err(Refusal::admin(self.ownership().refusal(module.name(), module))),
            None => Ok(()),
        }
    }

    /// Every section, with its owner.
    pub fn section_owners(&self) -> Vec<SectionOwner> {
        let of_file = match self.ownership().modules().is_empty() {
            true => Ok(ConfigDocument::default()),
            false => self.owned_document(),
        };
        let row = |managed: &ManagedName| {
            let module = MODULES.into_iter().find(|module| name_of(*module) == managed)?;
            let is_owned = self.ownership().owns(module);
            let is_in_force = match &of_file {
                Ok(document) => Ok(is_same(module, document, &self.current.document)),
                Err(refusal) => Err(refusal.message.clone()),
            };
            Some(SectionOwner {
                section: managed.name,
                module,
                owner: is_owned.then(|| self.ownership().file().to_owned()),
                is_in_force: is_owned.then_some(is_in_force),
            })
        };
        MANAGED_NAMES.iter().filter_map(row).collect()
    }

    /// Whether `path` is the file that owns something, or one that it includes, under whatever name.
    pub fn is_owner(&self, path: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().ok();
        let owner = self.ownership();
        if owner.modules().is_empty() {
            return false;
        }
        // A file with a mistake in it is no less the owner.
        let files =
            parse::document(owner.file()).map_or_else(|_| vec![owner.file().to_owned()], |it| it.files);
        real(path).is_some_and(|path| files.iter().any(|file| real(file).as_ref() == Some(&path)))
    }
}

/// What a file owns.
fn owned_by(file: &Path) -> Result<Ownership, OpenError> {
    let loaded = config_file::load(file).map_err(OpenError::File)?;
    Ok(Ownership::new(&loaded.bootstrap.managed, file))
}

/// Whether two documents have the same of a module.
pub(super) fn is_same(module: Module, one: &ConfigDocument, other: &ConfigDocument) -> bool {
    part(&[module], one) == part(&[module], other)
}

/// Keeps on disk what the file owns, for a start at which it cannot be used.
fn remember(connection: &Connection, ownership: &Ownership) -> rusqlite::Result<()> {
    if ownership.modules().is_empty() {
        return connection
            .execute("DELETE FROM disk.global_settings WHERE variable_name = 'managed'", [])
            .map(drop);
    }
    let sql =
        "INSERT OR REPLACE INTO disk.global_settings (variable_name, variable_value) VALUES ('managed', ?1)";
    connection.execute(sql, [ownership.to_json().to_string()]).map(drop)
}

/// What [`remember`] has kept.
fn remembered(connection: &Connection) -> rusqlite::Result<Option<Ownership>> {
    let sql = "SELECT variable_value FROM disk.global_settings WHERE variable_name = 'managed'";
    let text: Option<String> = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    let json = text.and_then(|text| serde_json::from_str::<Json>(&text).ok());
    Ok(json.and_then(|json| Ownership::from_json(&json)))
}

/// Refuses statements on the rows of owned variables. The authorizer sees tables and not rows, so triggers do it; they let
/// pass what the store itself does.
fn guard_variables(connection: &Connection, ownership: &Ownership) -> rusqlite::Result<()> {
    for module in ownership.modules() {
        let Some(prefix) = module.prefix() else { continue };
        let name = module.name().to_ascii_lowercase().replace(' ', "_");
        let message = ownership.refusal(module.name(), *module).replace('\'', "''");
        for (database, (action, rows)) in
            [Database::Main, Database::Disk].into_iter().flat_map(|of| ROWS_OF.map(|action| (of, action)))
        {
            let database = database.name();
            let is_owned: Vec<String> =
                rows.iter().map(|row| format!("{row}.variable_name LIKE '{prefix}%'")).collect();
            connection.execute_batch(&format!(
                "CREATE TEMP TRIGGER owned_{name}_{database}_{action} BEFORE {action} ON {database}.global_variables \
                 WHEN ({}) AND narrows_is_operator() BEGIN SELECT RAISE(ABORT, '{message}'); END",
                is_owned.join(" OR ")
            ))?;
        }
    }
    Ok(())
}

/// The rows that statements of each kind see.
const ROWS_OF: [(&str, &[&str]); 3] =
    [("INSERT", &["NEW"]), ("UPDATE", &["OLD", "NEW"]), ("DELETE", &["OLD"])];
