//! The configuration file as a whole: `narrows.toml` or `proxysql.cnf`.
//!
//! Its tree is read by the rows of [`tables`] and of [`crate::variables`]; then [`checks`] examines rows together. What
//! Narrows does not know is skipped and reported, so that any `proxysql.cnf` can be started.

mod causal;
pub(crate) mod checks;
pub(crate) mod finding;
mod fleet;
pub(crate) mod hostgroups;
pub mod http_interfaces;
mod passthrough;
mod paths;
mod preference;
mod rules;
mod sections;
pub(crate) mod together;
mod token_logins;
mod tokens;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use narrows_proxy::hostgroup::Names;
use narrows_proxy::server_tokens::SharedTokens;
use narrows_proxy::snapshot::Rows;
use narrows_proxy::tls::SharedTls;
use narrows_proxy::tokens::SharedIssuers;

use crate::config::bootstrap::Bootstrap;
use crate::config::diagnostic::{Diagnostic, Problem, Problems, Severity};
use crate::config::parse::{ReadFile, in_utf8, parse, read_included, unreadable};
pub use crate::config::parse::{read_bounded, read_file};
use crate::config::schema::Placed;
use crate::config::tables;
use crate::config::tree::{Document, Position};
use crate::monitor::trial::TrialRow;
use crate::variables::Values;
use sections::Sections;

/// A configuration that can be started.
#[derive(Debug, Clone, Default)]
pub struct LoadedFile {
    /// The configuration for the data plane.
    pub rows: Rows,
    /// Every variable.
    pub variables: Values,
    /// The keys at the top of the file.
    pub bootstrap: Bootstrap,
    /// What Narrows does not read in the file, in the order of the file.
    pub passed_over: Vec<Diagnostic>,
    /// What is probably a mistake.
    pub warnings: Vec<Diagnostic>,
}

impl LoadedFile {
    /// Top-level keys without effect. Those in sections are reported by the code that loads the sections.
    pub fn at_the_top_without_effect(&self) -> impl Iterator<Item = &Diagnostic> {
        let is_key = |diagnostic: &&Diagnostic| match &diagnostic.problem {
            Problem::NoEffect { name, .. } => tables::BOOTSTRAP.column(name).is_some(),
            _ => false,
        };
        self.passed_over.iter().filter(is_key)
    }
}

/// Reads and checks the file `path`. On failure, returns all problems, including warnings, in the order of the file.
pub fn load(path: &Path) -> Result<LoadedFile, Vec<Diagnostic>> {
    load_with_tree(path).map(|(loaded, _)| loaded)
}

/// The same, and the file as a tree.
pub fn load_with_tree(path: &Path) -> Result<(LoadedFile, Document), Vec<Diagnostic>> {
    read_with_tree(path, &read_file(path).map_err(|reason| unreadable(path, reason))?)
}

/// The same of `text`, the content of `path`.
pub fn read_with_tree(path: &Path, text: &str) -> Result<(LoadedFile, Document), Vec<Diagnostic>> {
    let tree = parse(path, text, &read_included)?;
    Ok((checked(&tree)?, tree))
}

/// Reads and checks `text` as the content of `path`; `read_file` returns included files.
pub fn read(path: &Path, text: &str, read_file: ReadFile<'_>) -> Result<LoadedFile, Vec<Diagnostic>> {
    checked(&parse(path, text, read_file)?)
}

fn checked(document: &Document) -> Result<LoadedFile, Vec<Diagnostic>> {
    let mut report = Problems::new(document);
    let sections = Sections::read(document, &mut report);
    checks::check(&sections, &mut report);
    fleet::check(&sections, &mut report);
    let diagnostics = report.finish();
    if !is_valid(&diagnostics) {
        return Err(diagnostics);
    }
    Ok(loaded(sections, diagnostics))
}

/// A file as `narrows check` sees it.
#[derive(Debug)]
pub struct ExaminedFile {
    /// Everything that is wrong with it, in its order.
    pub diagnostics: Vec<Diagnostic>,
    /// Its contents; `None`: it cannot be started.
    pub loaded: Option<(LoadedFile, Places)>,
}

/// Where the rows of a file are.
#[derive(Debug)]
pub struct Places {
    files: Vec<PathBuf>,
    servers: Vec<Position>,
    users: Vec<Position>,
    monitor: Position,
}

impl Places {
    fn new(document: &Document, sections: &Sections) -> Places {
        let names = ["mysql-monitor_username", "mysql-monitor_enabled"];
        Places {
            files: document.files.clone(),
            servers: sections.servers.iter().map(|placed| placed.at("")).collect(),
            users: sections.users.iter().map(|placed| placed.at("")).collect(),
            monitor: names.into_iter().find_map(|name| sections.variable_at(name)).unwrap_or_default(),
        }
    }

    /// The file, line and column of what was tried; line 0 means the file as a whole.
    pub fn of(&self, row: TrialRow) -> (&Path, u32, u32) {
        let at = match row {
            TrialRow::Server(index) => self.servers.get(index).copied(),
            TrialRow::User(index) => self.users.get(index).copied(),
            TrialRow::Monitor => Some(self.monitor),
        };
        let at = at.unwrap_or_default();
        (self.files.get(at.file).map_or(Path::new(""), PathBuf::as_path), at.line, at.column)
    }
}

/// Reads and checks the file `path` for `narrows check`; see [`examine`].
pub fn examine_file(path: &Path) -> ExaminedFile {
    examine_bytes(path, std::fs::File::open(path).and_then(read_bounded))
}

/// Examines `bytes`, if they could be read, as the content of `path`; see [`examine`].
pub fn examine_bytes(path: &Path, bytes: std::io::Result<Vec<u8>>) -> ExaminedFile {
    match bytes.map_err(|error| error.to_string()).and_then(in_utf8) {
        Ok(text) => examine(path, &text),
        Err(reason) => ExaminedFile { diagnostics: unreadable(path, reason), loaded: None },
    }
}

/// Reads and checks `text` as the content of `path`; also looks for the files that it names, and for what it lacks.
pub fn examine(path: &Path, text: &str) -> ExaminedFile {
    let document = match parse(path, text, &read_included) {
        Ok(document) => document,
        Err(diagnostics) => return ExaminedFile { diagnostics, loaded: None },
    };
    let mut report = Problems::new(&document);
    let sections = Sections::read(&document, &mut report);
    checks::check(&sections, &mut report);
    fleet::check(&sections, &mut report);
    checks::nothing_to_serve(&sections, &mut report);
    paths::check(&document, &sections, &mut report);
    fleet::files(&sections, &mut report);
    let diagnostics = report.finish();
    let places = Places::new(&document, &sections);
    let loaded = is_valid(&diagnostics).then(|| (loaded(sections, diagnostics.clone()), places));
    ExaminedFile { diagnostics, loaded }
}

fn is_valid(diagnostics: &[Diagnostic]) -> bool {
    !diagnostics.iter().any(|diagnostic| diagnostic.severity() == Severity::Error)
}

/// What a file without errors contains, and the remarks on it.
fn loaded(sections: Sections, diagnostics: Vec<Diagnostic>) -> LoadedFile {
    let (passed_over, warnings) =
        diagnostics.into_iter().partition(|diagnostic| diagnostic.problem.is_passed_over());
    LoadedFile {
        rows: Rows {
            variables: sections.variables.for_data_plane(),
            servers: rows(sections.servers),
            users: rows(sections.users),
            // The store says who these are, once the rows are in memory.
            kept_out: Vec::new(),
            rules: rows(sections.rules),
            fast_routing: rows(sections.fast_routing),
            replication_hostgroups: rows(sections.replication_hostgroups),
            galera_hostgroups: rows(sections.galera_hostgroups),
            group_replication_hostgroups: rows(sections.group_replication_hostgroups),
            aurora_hostgroups: rows(sections.aurora_hostgroups),
            hostgroup_attributes: rows(sections.hostgroup_attributes),
            firewall_users: rows(sections.firewall_users),
            firewall_rules: rows(sections.firewall_rules),
            firewall_fingerprints: rows(sections.firewall_fingerprints),
            ssl_params: rows(sections.ssl_params),
            token_issuers: rows(sections.token_issuers),
            // Files are read once their folder is known.
            tls: SharedTls::default(),
            // Those follow from accounts when passwords are looked up.
            tokens: SharedTokens::default(),
            auth_query_tokens: None,
            // Only what runs has issuers.
            issuers: SharedIssuers::default(),
            // Only the monitor resolves names.
            names: Names::default(),
            said_zones: Arc::default(),
            unfenced: Arc::default(),
        },
        variables: sections.variables,
        bootstrap: sections.bootstrap,
        passed_over,
        warnings,
    }
}

fn rows<R>(placed: Vec<Placed<R>>) -> Vec<R> {
    placed.into_iter().map(|placed| placed.row).collect()
}

/// Where a configuration is searched for if none is given; the first match is used.
pub const SEARCHED: &[&str] = &[
    "./narrows.toml",
    "/etc/narrows/narrows.toml",
    "./proxysql.cnf",
    "./proxysql.cfg",
    "/etc/proxysql.cnf",
    "/etc/proxysql.cfg",
];

/// The first of [`SEARCHED`] that exists.
pub fn find() -> Option<PathBuf> {
    SEARCHED.iter().map(PathBuf::from).find(|path| path.exists())
}

/// Reads any bytes as a configuration without includes: called by the fuzzer and the mutation test.
pub fn read_untrusted(bytes: &[u8]) -> Result<LoadedFile, Vec<Diagnostic>> {
    let text = String::from_utf8_lossy(bytes);
    read(Path::new("fuzz"), &text, &|_| Err("includes are refused".to_owned()))
}

#[cfg(test)]
mod tests;
