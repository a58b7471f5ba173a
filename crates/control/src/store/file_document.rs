//! A configuration file as a document: the tables and variables that it has, and no others.

use std::path::Path;

use super::Store;
use super::config_file::{has_rows, merge_all};
use super::open::{OpenError, Place};
use super::owned::name_of;
use crate::config::diagnostic::Diagnostic;
use crate::config::tree::Document;
use crate::config_file::{self, LoadedFile};
use crate::schema::{Database, MODULES, Module};
use crate::versions::ConfigDocument;

impl Store {
    /// What the configuration file `path` says, to be planned. A section that is not there, or is empty, leaves its rows to the
    /// administrators, unless the file owns it.
    ///
    /// # Errors
    /// A file that cannot be started with, or has names that Narrows does not have: what they were to do would be missing;
    /// rows that do not fit.
    pub fn document_to_plan(path: &Path) -> Result<ConfigDocument, OpenError> {
        to_plan(config_file::load_with_tree(path))
    }

    /// The same of `text`, the content of `path`, which is not read again: it may be a pipe.
    ///
    /// # Errors
    /// The same.
    pub fn document_of_text_to_plan(path: &Path, text: &str) -> Result<ConfigDocument, OpenError> {
        to_plan(config_file::read_with_tree(path, text))
    }

    /// The same as at a start, when other names are passed over: the file may be that of a newer version.
    ///
    /// # Errors
    /// A file that cannot be started with; rows that do not fit.
    pub fn document_of_file(path: &Path) -> Result<ConfigDocument, OpenError> {
        document_of(config_file::load_with_tree(path)).map(|(document, _)| document)
    }
}

/// A file that was read, with its tree.
type FileRead = Result<(LoadedFile, Document), Vec<Diagnostic>>;

fn to_plan(read: FileRead) -> Result<ConfigDocument, OpenError> {
    let (document, loaded) = document_of(read)?;
    let unknown: Vec<Diagnostic> =
        loaded.passed_over.into_iter().filter(|it| it.problem.is_unknown_name()).collect();
    if unknown.is_empty() { Ok(document) } else { Err(OpenError::File(unknown)) }
}

fn document_of(read: FileRead) -> Result<(ConfigDocument, LoadedFile), OpenError> {
    let (loaded, tree) = read.map_err(OpenError::File)?;
    let mut store = Store::connect(Place::Memory)?;
    let merged = merge_all(&store.all.connection, &tree)?;
    if let Some(warning) = merged.warnings.first() {
        return Err(OpenError::Refused(super::Refusal::admin(&warning.message)));
    }
    let whole = store.document(Database::Main)?;
    let mut part = ConfigDocument::default();
    for table in MODULES.into_iter().filter(|module| module.prefix().is_none()).flat_map(Module::tables) {
        if has_rows(&tree, table) {
            part.put_table(table, whole.rows(table).to_vec());
        }
    }
    // Memory has only the variables of the file.
    for (name, text) in whole.variables() {
        part.put_variable(name, text.to_owned());
    }
    // What the file owns is as the file says: what is not there is empty, or has its default.
    let mut complete = ConfigDocument::of_defaults();
    whole.tables().for_each(|(table, rows)| complete.put_table(table, rows.to_vec()));
    whole.variables().for_each(|(name, text)| complete.put_variable(name, text.to_owned()));
    for module in MODULES {
        if loaded.bootstrap.managed.contains(&name_of(module)) {
            part.take_module(module, &complete);
        }
    }
    Ok((part, loaded))
}
