//! The configuration file as a whole: `narrows.toml` or `proxysql.cnf`.
//!
//! Its tree is read by the rows of [`tables`] and of [`crate::variables`]; then [`checks`] looks at what only shows when rows
//! are seen together. What Narrows does not know is passed over and said, so that a `proxysql.cnf` from anywhere starts.

pub(crate) mod checks;
mod sections;

use std::path::{Path, PathBuf};

use narrows_proxy::hostgroup::Names;
use narrows_proxy::snapshot::Rows;
use narrows_proxy::tls::SharedTls;

use crate::config::bootstrap::Bootstrap;
use crate::config::diagnostic::{Diagnostic, Problem, Report, Severity};
use crate::config::parse::{ReadFile, parse, read_file, unreadable};
use crate::config::schema::Placed;
use crate::config::tables;
use crate::variables::Values;
use sections::Sections;

/// A configuration that can be started.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// What the data plane starts with.
    pub rows: Rows,
    /// Every variable.
    pub variables: Values,
    /// The keys at the top of the file.
    pub bootstrap: Bootstrap,
    /// What the file says and Narrows does not read, in the order of the file.
    pub passed_over: Vec<Diagnostic>,
    /// What is probably not meant as it stands.
    pub warnings: Vec<Diagnostic>,
}

impl Loaded {
    /// Keys at the top that nobody acts on. Those of the sections are told by whoever takes the sections.
    pub fn at_the_top_without_effect(&self) -> impl Iterator<Item = &Diagnostic> {
        let is_key = |diagnostic: &&Diagnostic| match &diagnostic.problem {
            Problem::NoEffect { name, .. } => tables::BOOTSTRAP.column(name).is_some(),
            _ => false,
        };
        self.passed_over.iter().filter(is_key)
    }
}

/// Reads and checks the file `path`. On failure all problems are told, warnings too, in the order of the file.
pub fn load(path: &Path) -> Result<Loaded, Vec<Diagnostic>> {
    let text = read_file(path).map_err(|reason| unreadable(path, reason))?;
    read(path, &text, &read_file)
}

/// Reads and checks `text` as the content of `path`; `read_file` is asked for what it includes.
pub fn read(path: &Path, text: &str, read_file: ReadFile<'_>) -> Result<Loaded, Vec<Diagnostic>> {
    let document = parse(path, text, read_file)?;
    let mut report = Report::new(&document);
    let sections = Sections::read(&document, &mut report);
    checks::check(&sections, &mut report);
    let diagnostics = report.finish();
    if diagnostics.iter().any(|diagnostic| diagnostic.severity() == Severity::Error) {
        return Err(diagnostics);
    }
    let (passed_over, warnings) =
        diagnostics.into_iter().partition(|diagnostic| diagnostic.problem.is_passed_over());
    Ok(Loaded {
        rows: Rows {
            variables: sections.variables.for_data_plane(),
            servers: rows(sections.servers),
            users: rows(sections.users),
            rules: rows(sections.rules),
            fast_routing: rows(sections.fast_routing),
            replication_hostgroups: rows(sections.replication_hostgroups),
            hostgroup_attributes: rows(sections.hostgroup_attributes),
            firewall_users: rows(sections.firewall_users),
            firewall_rules: rows(sections.firewall_rules),
            firewall_fingerprints: rows(sections.firewall_fingerprints),
            ssl_params: rows(sections.ssl_params),
            // Files are read once it is known in which folder.
            tls: SharedTls::default(),
            // And these by the monitor.
            names: Names::default(),
        },
        variables: sections.variables,
        bootstrap: sections.bootstrap,
        passed_over,
        warnings,
    })
}

fn rows<R>(placed: Vec<Placed<R>>) -> Vec<R> {
    placed.into_iter().map(|placed| placed.row).collect()
}

/// Where a configuration is looked for when none is named, first match first.
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

/// Reads any bytes as a configuration without includes: what the fuzzer and the mutation test call.
pub fn read_untrusted(bytes: &[u8]) -> Result<Loaded, Vec<Diagnostic>> {
    let text = String::from_utf8_lossy(bytes);
    read(Path::new("fuzz"), &text, &|_| Err("includes are refused".to_owned()))
}

#[cfg(test)]
mod tests;
