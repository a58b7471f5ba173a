//! What is wrong with a configuration, where, and what was expected instead.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

use super::tree::{Document, Position};

/// Whether a configuration with this problem can be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// It cannot be started.
    Error,
    /// It can be started, but something is probably a mistake.
    Warning,
}

/// One problem and its place. `Display` writes `file:line:column: error: ...`.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    /// The file with the problem.
    pub file: PathBuf,
    /// The line, counted from 1; 0 for the file as a whole.
    pub line: u32,
    /// The column in characters, counted from 1.
    pub column: u32,
    /// What is wrong.
    pub problem: Problem,
}

impl Diagnostic {
    /// Whether the configuration can be started with it.
    pub fn severity(&self) -> Severity {
        self.problem.severity()
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity() {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{}:", self.file.display())?;
        if self.line > 0 {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        write!(f, " {severity}: {}", self.problem)
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each variant's sentence is its documentation")]
pub enum Problem {
    #[error("cannot be read: {0}")]
    Unreadable(String),
    #[error("{0}")]
    Syntax(String),
    #[error("`{name}` is set twice in the same group; first in line {first}")]
    Repeated { name: String, first: u32 },
    #[error("ignored: there is no section or key `{name}`{}", meant(.nearest))]
    UnknownSection { name: String, nearest: Option<&'static str> },
    #[error("ignored: `{name}` is not read by this version of Narrows")]
    NotRead { name: String },
    #[error("`{name}` {what}")]
    NoEffect { name: String, what: String },
    #[error("ignored: there is no variable `{name}` in {section}{}", meant(.nearest))]
    UnknownVariable { section: &'static str, name: String, nearest: Option<&'static str> },
    #[error("ignored: the variable `{name}` of older releases no longer exists")]
    FormerVariable { name: String },
    #[error("ignored: `{name}` cannot be set")]
    FixedVariable { name: String },
    #[error("ignored: there is no column `{name}` in {section}{}", meant(.nearest))]
    UnknownColumn { section: &'static str, name: String, nearest: Option<&'static str> },
    #[error("{name}: expected {expected}, found {found}{}", meant(.nearest))]
    Value { name: String, expected: String, found: String, nearest: Option<&'static str> },
    #[error("{section}: the column `{name}` must be given")]
    Missing { section: &'static str, name: &'static str },
    #[error("{name} and its alias `{alias}` are both given")]
    BothNames { name: &'static str, alias: &'static str },
    #[error("{name}: the expression does not compile, at character {character}: {reason}")]
    Expression { name: String, character: usize, reason: String },
    #[error("{name}: the expression does not compile: {reason}")]
    ExpressionTooLarge { name: String, reason: String },
    #[error("{section}: duplicate {key}; first in line {first}")]
    DuplicateRow { section: &'static str, key: String, first: u32 },
    #[error("{name}: {address} is also listened on by {other}")]
    DuplicateAddress { name: String, address: String, other: String },
    #[error("no HTTP interface: admin-restapi_port {port} is a port of {name}")]
    HttpPortTaken { port: String, name: &'static str },
    #[error("replace_pattern needs a match_pattern: it replaces what match_pattern finds")]
    ReplaceWithoutMatch,
    #[error("with port 0, hostname must be the path of a Unix socket; found {hostname:?}")]
    SocketWithoutPath { hostname: String },
    #[error("gtid_port must differ from port; both are {port}")]
    SameGtidPort { port: u16 },
    #[error("{name}: begins with `{prefix}` but is not {expected}; it is taken as a password in clear text")]
    PasswordForm { name: String, prefix: &'static str, expected: &'static str },
    #[error(
        "{name}: everybody knows the password of {account:?}, and the admin interface listens on {address}, where others \
         may reach it"
    )]
    KnownPassword { name: &'static str, account: &'static str, address: String },
    #[error("user {username:?}: hostgroup {hostgroup} has no server")]
    UserWithoutServer { username: String, hostgroup: i32 },
    #[error("user {username:?}: reader_hostgroup {hostgroup} has no server: reads go where writes go")]
    ReaderWithoutServer { username: String, hostgroup: i32 },
    #[error("rule {rule_id}: {what} hostgroup {hostgroup} has no server")]
    RuleWithoutServer { rule_id: i64, what: &'static str, hostgroup: i32 },
    #[error(
        "mysql_query_rules_fast_routing: hostgroup {hostgroup} has no server; {rows} {} there, the first of them for user \
         {username:?} and schema {schemaname:?}",
        lead(.rows)
    )]
    FastRoutingWithoutServer { username: String, schemaname: String, rows: usize, hostgroup: i32 },
    #[error("rule {rule_id}: {name} is {flag}, but no active rule has that flagIN")]
    NoSuchChain { rule_id: i64, name: &'static str, flag: u32 },
    #[error("rule {rule_id}: {column} is {text:?}, which no client meets, so the rule never matches: {why}")]
    NeverMet { rule_id: i64, column: &'static str, text: String, why: &'static str },
    #[error("{row}: {name} {flaw}")]
    NotAsWritten { row: String, name: String, flaw: String },
    #[error(
        "auto_read_write_split_functions: ignored: {written:?} is not a function name; expected name or schema.name, separated \
         by commas"
    )]
    NoFunction { written: String },
    #[error(
        "managed: this file owns `{name}`, and has no section {section}; if it shall be empty, write `{empty}`"
    )]
    OwnedAndAbsent { name: &'static str, section: &'static str, empty: String },
    #[error(
        "`{name}` must be at the top of the file, before the first section: here it is taken as a part of {section}"
    )]
    NotAtTheTop { name: &'static str, section: String },
    #[error("mysql_servers has no rows: statements have nowhere to go")]
    NoServers,
    #[error("mysql_users has no active rows: no client can log in")]
    NoUsers,
    #[error("{name}: {reason}")]
    NotLookedUp { name: String, reason: String },
    #[error("{name}: {path}: {why}")]
    Path { name: String, path: String, why: String },
    #[error("{name}: {reason}; servers with use_ssl cannot be reached by it")]
    TlsTowardServers { name: String, reason: String },
    #[error(
        "mysql_replication_hostgroups: replaces the row in line {line}, which has reader_hostgroup {hostgroup} too"
    )]
    ReplacedPair { hostgroup: i32, line: u32 },
    #[error("{row} has no effect: {why}")]
    RowNoEffect { row: String, why: &'static str },
    #[error("user {username:?}: no client can log in: use_ssl is set, and mysql-have_ssl is false")]
    NoLogin { username: String },
    #[error("rule {rule_id} is never evaluated: its flagIN is {flag}, and no active rule leads there")]
    ChainNotReached { rule_id: i64, flag: u32 },
    #[error(
        "rule {rule_id} is never evaluated: rule {earlier} before it has no condition, and is the last one of its chain"
    )]
    Shadowed { rule_id: i64, earlier: i64 },
    #[error("{section} {key}: left out: {reason}")]
    LeftOut { section: &'static str, key: String, reason: String },
    #[error("{section} {key}: {reason}")]
    Contradicts { section: &'static str, key: String, reason: String },
    #[error("hostgroup {hostgroup}: every server has weight 0, so none is ever chosen")]
    NoWeight { hostgroup: i32 },
    #[error(
        "rule {rule_id}: digest and match_digest are ignored while mysql-query_digests is false; only other conditions apply"
    )]
    NoDigests { rule_id: i64 },
    #[error("rule {rule_id}: replace_pattern replaces nothing: {why}")]
    ReplacesNothing { rule_id: i64, why: &'static str },
    #[error(
        "user {username:?}: auto_read_write_split has no effect: no row of mysql_replication_hostgroups has the writer \
         hostgroup {hostgroup}, and the account has no reader_hostgroup"
    )]
    SplitWithoutReaders { username: String, hostgroup: i32 },
}

impl Problem {
    /// Whether a configuration with this problem can be started.
    pub fn severity(&self) -> Severity {
        use Problem::*;
        match self {
            Unreadable(_)
            | Syntax(_)
            | Repeated { .. }
            | Value { .. }
            | Missing { .. }
            | BothNames { .. }
            | Expression { .. }
            | ExpressionTooLarge { .. }
            | DuplicateRow { .. }
            | DuplicateAddress { .. }
            | Contradicts { .. }
            | OwnedAndAbsent { .. }
            | NotAtTheTop { .. }
            | ReplaceWithoutMatch
            | SocketWithoutPath { .. }
            | SameGtidPort { .. } => Severity::Error,
            UnknownSection { .. }
            | NotRead { .. }
            | NoEffect { .. }
            | UnknownVariable { .. }
            | FormerVariable { .. }
            | FixedVariable { .. }
            | UnknownColumn { .. }
            | PasswordForm { .. }
            | KnownPassword { .. }
            | HttpPortTaken { .. }
            | UserWithoutServer { .. }
            | ReaderWithoutServer { .. }
            | RuleWithoutServer { .. }
            | FastRoutingWithoutServer { .. }
            | NeverMet { .. }
            | NotAsWritten { .. }
            | NoFunction { .. }
            | NoServers
            | NoUsers
            | NotLookedUp { .. }
            | Path { .. }
            | TlsTowardServers { .. }
            | ReplacedPair { .. }
            | RowNoEffect { .. }
            | NoLogin { .. }
            | ChainNotReached { .. }
            | Shadowed { .. }
            | LeftOut { .. }
            | NoSuchChain { .. }
            | NoWeight { .. }
            | NoDigests { .. }
            | ReplacesNothing { .. }
            | SplitWithoutReaders { .. } => Severity::Warning,
        }
    }

    /// Whether it is about a name that Narrows does not have, so that nobody knows what it was to do.
    pub fn is_unknown_name(&self) -> bool {
        use Problem::*;
        matches!(self, UnknownSection { .. } | UnknownVariable { .. } | UnknownColumn { .. })
    }

    /// The setting, the row or the section that it is about, if it names one.
    pub fn subject(&self) -> Option<String> {
        use Problem::*;
        match self {
            Repeated { name, .. }
            | UnknownSection { name, .. }
            | NotRead { name }
            | NoEffect { name, .. }
            | FormerVariable { name }
            | FixedVariable { name }
            | Value { name, .. }
            | Expression { name, .. }
            | ExpressionTooLarge { name, .. }
            | DuplicateAddress { name, .. }
            | PasswordForm { name, .. }
            | Path { name, .. }
            | TlsTowardServers { name, .. } => Some(name.clone()),
            BothNames { name, .. } | KnownPassword { name, .. } => Some((*name).to_owned()),
            UnknownVariable { section, name, .. } | UnknownColumn { section, name, .. } => {
                Some(format!("{section}.{name}"))
            }
            Missing { section, name } => Some(format!("{section}.{name}")),
            DuplicateRow { section, key, .. }
            | LeftOut { section, key, .. }
            | Contradicts { section, key, .. } => Some(format!("{section} {key}")),
            _ => self.row(),
        }
    }

    /// The row that it is about.
    fn row(&self) -> Option<String> {
        use Problem::*;
        let text = |text: &str| Some(text.to_owned());
        match self {
            UserWithoutServer { username, .. }
            | ReaderWithoutServer { username, .. }
            | SplitWithoutReaders { username, .. }
            | NoLogin { username } => Some(format!("user {username:?}")),
            RuleWithoutServer { rule_id, .. }
            | NoSuchChain { rule_id, .. }
            | NeverMet { rule_id, .. }
            | NoDigests { rule_id }
            | ReplacesNothing { rule_id, .. }
            | ChainNotReached { rule_id, .. }
            | Shadowed { rule_id, .. } => Some(format!("rule {rule_id}")),
            NotAsWritten { row, .. } | RowNoEffect { row, .. } => Some(row.clone()),
            NoWeight { hostgroup } => Some(format!("hostgroup {hostgroup}")),
            OwnedAndAbsent { section, .. } => text(section),
            NotAtTheTop { name, .. } => text(name),
            NoServers => text("mysql_servers"),
            NoUsers => text("mysql_users"),
            FastRoutingWithoutServer { .. } => text("mysql_query_rules_fast_routing"),
            ReplacedPair { .. } => text("mysql_replication_hostgroups"),
            ReplaceWithoutMatch => text("replace_pattern"),
            SocketWithoutPath { .. } => text("hostname"),
            SameGtidPort { .. } => text("gtid_port"),
            NoFunction { .. } => text("mysql-auto_read_write_split_functions"),
            HttpPortTaken { .. } => text("admin-restapi_port"),
            _ => None,
        }
    }

    /// Whether the problem is that something in the file has no effect.
    pub fn is_passed_over(&self) -> bool {
        use Problem::*;
        matches!(
            self,
            UnknownSection { .. }
                | NotRead { .. }
                | NoEffect { .. }
                | UnknownVariable { .. }
                | FormerVariable { .. }
                | FixedVariable { .. }
                | UnknownColumn { .. }
        )
    }
}

fn meant(nearest: &Option<&'static str>) -> String {
    nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

fn lead(rows: &usize) -> &'static str {
    if *rows == 1 { "row leads" } else { "rows lead" }
}

/// Collects the problems of one document.
#[derive(Debug)]
pub struct Problems {
    files: Vec<PathBuf>,
    diagnostics: Vec<(Position, Problem)>,
}

impl Problems {
    /// An empty report on `document`.
    pub fn new(document: &Document) -> Problems {
        Problems { files: document.files.clone(), diagnostics: Vec::new() }
    }

    /// Adds a problem.
    pub fn add(&mut self, at: Position, problem: Problem) {
        self.diagnostics.push((at, problem));
    }

    /// All problems, in the order of the file.
    pub fn finish(mut self) -> Vec<Diagnostic> {
        self.diagnostics.sort_by_key(|(at, _)| *at);
        let files = self.files;
        self.diagnostics.into_iter().map(|(at, problem)| placed(&files, at, problem)).collect()
    }
}

/// The diagnostic for a problem, with the name of its file.
pub fn placed(files: &[PathBuf], at: Position, problem: Problem) -> Diagnostic {
    let file = files.get(at.file).cloned().unwrap_or_default();
    Diagnostic { file, line: at.line, column: at.column, problem }
}
