//! The configuration file: one schema in two syntaxes, `narrows.toml` and `proxysql.cnf`.
//!
//! Text becomes a [`tree::Document`] in which everything knows its place; the tree is read by the rows of
//! [`tables`] and of [`crate::variables`]; then [`checks`] looks at what only shows when rows are seen together.
//! What Narrows does not know is passed over and said, so that a `proxysql.cnf` from anywhere starts.

pub mod bootstrap;
pub mod charset;
pub(crate) mod checks;
pub mod diagnostic;
pub mod form;
mod libconfig;
pub mod nearest;
pub mod schema;
pub mod tables;
mod toml_syntax;
pub mod tree;

use std::path::{Path, PathBuf};

use narrows_proxy::hostgroup::Names;
use narrows_proxy::snapshot::{
    FastRoutingRow, FirewallFingerprintRow, FirewallRuleRow, FirewallUserRow, HostgroupAttributesRow,
    ReplicationHostgroupRow, Rows, RuleRow, ServerRow, SslParamsRow, UserRow,
};
use narrows_proxy::tls::SharedTls;

use crate::schema as schema_of_tables;
use crate::variables::{VARIABLES, Values, Variable};
use bootstrap::Bootstrap;
use diagnostic::{Diagnostic, Problem, Report, Severity, placed};
use nearest::nearest;
use schema::Placed;
use tree::{Document, Entry, Node, Position, Value};

pub use libconfig::ReadFile;

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

/// Which of the two syntaxes a text is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// That of `proxysql.cnf`.
    Libconfig,
    /// That of `narrows.toml`.
    Toml,
}

/// Reads and checks the file `path`. On failure all problems are told, warnings too, in the order of the file.
pub fn load(path: &Path) -> Result<Loaded, Vec<Diagnostic>> {
    let text = read_file(path).map_err(|reason| unreadable(path, reason))?;
    read(path, &text, &read_file)
}

/// Reads the file `path` as a tree; what the names in it mean is not looked at.
///
/// # Errors
/// A file that cannot be read, or mistakes of the syntax.
pub fn document(path: &Path) -> Result<Document, Vec<Diagnostic>> {
    let text = read_file(path).map_err(|reason| unreadable(path, reason))?;
    parse(path, &text, &read_file)
}

fn unreadable(path: &Path, reason: String) -> Vec<Diagnostic> {
    vec![placed(&[path.to_owned()], Position::default(), Problem::Unreadable(reason))]
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

/// Reads `text` in the syntax it is in.
///
/// What can be read in both syntaxes means the same in both; of what can be read in neither, the mistakes are
/// told as those of the syntax it looks like.
pub fn parse(path: &Path, text: &str, read_file: ReadFile<'_>) -> Result<Document, Vec<Diagnostic>> {
    // Editors of Windows begin a file with this mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let libconfig = || libconfig::parse(path, text, read_file).map_err(|diagnostic| vec![diagnostic]);
    let toml = || toml_syntax::parse(path, text);
    match looks_like(text) {
        Syntax::Toml => toml().or_else(|problems| libconfig().map_err(|_| problems)),
        Syntax::Libconfig => libconfig().or_else(|problems| toml().map_err(|_| problems)),
    }
}

/// TOML when a line is the head of a table, which libconfig has no use for.
pub fn looks_like(text: &str) -> Syntax {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_head = |line: &str| {
        let line = line.split('#').next().unwrap_or_default().trim();
        let head = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let name = head.map(|name| name.trim_start_matches('[').trim_end_matches(']').trim());
        name.is_some_and(|name| {
            name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_name)
        })
    };
    if text.lines().any(is_head) { Syntax::Toml } else { Syntax::Libconfig }
}

fn read_file(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
    String::from_utf8(bytes).map_err(|e| {
        let before = e.as_bytes().iter().take(e.utf8_error().valid_up_to());
        let line = before.filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line} is not UTF-8")
    })
}

/// What the sections hold, with the places of the rows.
#[derive(Default)]
struct Sections {
    bootstrap: Bootstrap,
    variables: Values,
    /// Where variables were set, by their full names.
    variables_at: Vec<(&'static str, Position)>,
    servers: Vec<Placed<ServerRow>>,
    users: Vec<Placed<UserRow>>,
    rules: Vec<Placed<RuleRow>>,
    fast_routing: Vec<Placed<FastRoutingRow>>,
    replication_hostgroups: Vec<Placed<ReplicationHostgroupRow>>,
    hostgroup_attributes: Vec<Placed<HostgroupAttributesRow>>,
    firewall_users: Vec<Placed<FirewallUserRow>>,
    firewall_rules: Vec<Placed<FirewallRuleRow>>,
    firewall_fingerprints: Vec<Placed<FirewallFingerprintRow>>,
    ssl_params: Vec<Placed<SslParamsRow>>,
}

impl Sections {
    fn read(document: &Document, report: &mut Report) -> Sections {
        repeated(&document.root, report);
        let mut sections = Sections::default();
        let top = tables::BOOTSTRAP.read_known(&document.root, Position::default(), report);
        sections.bootstrap = top.map(|placed| placed.row).unwrap_or_default();
        for entry in &document.root {
            let node = &entry.node;
            if let Some(what) = rows_lack_effect(entry) {
                report.add(entry.at, Problem::NoEffect { name: entry.name.clone(), what });
            }
            match entry.name.as_str() {
                "mysql_variables" => sections.read_variables("mysql_variables", "mysql-", node, report),
                "admin_variables" => sections.read_variables("admin_variables", "admin-", node, report),
                "mysql_servers" => sections.servers = tables::SERVERS.read(node, report),
                "mysql_users" => sections.users = tables::USERS.read(node, report),
                "mysql_query_rules" => sections.rules = tables::RULES.read(node, report),
                name if sections.read_table(name, node, report) => {}
                name if tables::BOOTSTRAP.column(name).is_some() => {}
                name if stored_section(name).is_some() => {}
                name => report.add(entry.at, unknown_section(name)),
            }
        }
        sections
    }

    /// Reads one of the smaller tables; false: `name` is none of them.
    fn read_table(&mut self, name: &str, node: &Node, report: &mut Report) -> bool {
        match name {
            "mysql_query_rules_fast_routing" => self.fast_routing = tables::FAST_ROUTING.read(node, report),
            "mysql_replication_hostgroups" => {
                self.replication_hostgroups = tables::REPLICATION_HOSTGROUPS.read(node, report);
            }
            "mysql_hostgroup_attributes" => {
                self.hostgroup_attributes = tables::HOSTGROUP_ATTRIBUTES.read(node, report);
            }
            "mysql_firewall_whitelist_users" => {
                self.firewall_users = tables::FIREWALL_USERS.read(node, report)
            }
            "mysql_firewall_whitelist_rules" => {
                self.firewall_rules = tables::FIREWALL_RULES.read(node, report)
            }
            "mysql_firewall_whitelist_sqli_fingerprints" => {
                self.firewall_fingerprints = tables::FIREWALL_FINGERPRINTS.read(node, report);
            }
            "mysql_servers_ssl_params" => self.ssl_params = tables::SSL_PARAMS.read(node, report),
            _ => return false,
        }
        true
    }

    /// Where the variable of that full name is set.
    fn variable_at(&self, name: &str) -> Option<Position> {
        self.variables_at.iter().find(|(set, _)| *set == name).map(|(_, at)| *at)
    }

    fn read_variables(
        &mut self,
        section: &'static str,
        prefix: &'static str,
        node: &Node,
        report: &mut Report,
    ) {
        let Value::Group(entries) = &node.value else {
            report.add(
                node.at,
                Problem::Value {
                    name: section.to_owned(),
                    expected: "a group".to_owned(),
                    found: node.value.describe(),
                    nearest: None,
                },
            );
            return;
        };
        for entry in entries {
            let Some(variable) = Variable::named(&format!("{prefix}{}", entry.name)) else {
                report.add(entry.at, unknown_variable(section, prefix, &entry.name));
                continue;
            };
            self.variables_at.push((variable.name, entry.node.at));
            if let Err(problem) = self.variables.set(variable, &entry.node.value) {
                report.add(entry.node.at, problem);
            }
            let set = self.variables.value(variable.name);
            if let Some(what) = set.and_then(|value| variable.lacks_effect(value)) {
                report.add(entry.node.at, Problem::NoEffect { name: variable.name.to_owned(), what });
            }
        }
    }
}

/// Reports names that are given twice in one group, at any depth. Case makes no difference, as none of ours
/// differ by it.
fn repeated(entries: &[Entry], report: &mut Report) {
    let mut lines = std::collections::HashMap::new();
    for entry in entries {
        let name = entry.name.to_ascii_lowercase();
        match lines.get(&name) {
            Some(first) => {
                report.add(entry.at, Problem::Repeated { name: entry.name.clone(), first: *first })
            }
            None => drop(lines.insert(name, entry.at.line)),
        }
        repeated_below(&entry.node, report);
    }
}

fn repeated_below(node: &Node, report: &mut Report) {
    match &node.value {
        Value::Group(entries) => repeated(entries, report),
        Value::List(nodes) => nodes.iter().for_each(|node| repeated_below(node, report)),
        _ => {}
    }
}

/// The admin table of a section that only that table describes.
fn stored_section(name: &str) -> Option<&'static str> {
    tables::SECTIONS_STORED_ONLY.iter().find(|(section, _)| *section == name).map(|(_, table)| *table)
}

/// What is to be said of a section that has rows which nobody acts on.
fn rows_lack_effect(entry: &Entry) -> Option<String> {
    let Value::List(rows) = &entry.node.value else { return None };
    let table = stored_section(&entry.name).unwrap_or(&entry.name);
    schema_of_tables::effect(table).lacking().filter(|_| !rows.is_empty())
}

fn unknown_section(name: &str) -> Problem {
    if tables::SECTIONS_NOT_READ.contains(&name) {
        return Problem::NotRead { name: name.to_owned() };
    }
    Problem::UnknownSection { name: name.to_owned(), nearest: nearest(name, top_level_names()) }
}

/// Every section and key that is read.
fn top_level_names() -> impl Iterator<Item = &'static str> {
    let sections = ["mysql_variables", "admin_variables"];
    let tables = tables::SECTIONS.iter().map(|section| section.name());
    sections.into_iter().chain(tables).chain(tables::BOOTSTRAP.names())
}

fn unknown_variable(section: &'static str, prefix: &'static str, name: &str) -> Problem {
    if prefix == "mysql-" && FORMER_VARIABLES.contains(&name) {
        return Problem::FormerVariable { name: name.to_owned() };
    }
    let known = VARIABLES.iter().filter(|variable| variable.name.starts_with(prefix));
    let bare = name.strip_prefix(prefix).unwrap_or(name);
    let nearest = nearest(bare, known.map(Variable::short_name));
    Problem::UnknownVariable { section, name: name.to_owned(), nearest }
}

/// Variables of older releases of ProxySQL, which files in use still set.
const FORMER_VARIABLES: &[&str] = &[
    "client_found_rows",
    "client_multi_statements",
    "default_character_set_results",
    "default_isolation_level",
    "default_max_join_size",
    "default_net_write_timeout",
    "default_sql_auto_is_null",
    "default_sql_mode",
    "default_sql_safe_updates",
    "default_sql_select_limit",
    "default_time_zone",
    "default_transaction_read",
    "default_tx_isolation",
    "forward_autocommit",
    "monitor_timer_cached",
    "ping_interval_server",
];

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
