//! A command: what is typed, who may use it, and what it works on.

use std::time::Instant;

use crate::admin::reply::Reply;
use crate::admin::request::Caller;
use crate::admin::statement::Statement;
use crate::runtime::{Process, Runtime};
use crate::stats::Sources;
use crate::stats::nodes::Nodes;
use crate::store::{Role, Store};
use crate::versions::{VersionOrigin, VersionSource};

/// A command.
pub struct Verb {
    /// What is typed; see [`captures`].
    pub pattern: &'static str,
    /// Who may use it. For others it is not a command but invalid SQL.
    pub who: Who,
    /// Executes it; `None` if the statement is not this command after all.
    pub run: fn(&mut Parts<'_>, &Call<'_>) -> Option<Reply>,
    /// What it does, for operators.
    pub doc: &'static str,
}

/// Who may use a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Full users.
    Admin,
    /// Statistics users too.
    Everybody,
}

impl Who {
    /// Whether users with that role may use it.
    pub fn includes(self, role: Role) -> bool {
        self == Who::Everybody || role == Role::Admin
    }
}

/// A command as typed.
pub struct Call<'a> {
    /// Who typed it.
    pub caller: &'a Caller,
    /// The statement.
    pub statement: &'a Statement<'a>,
    /// What the pattern's placeholders matched.
    pub words: Vec<&'a str>,
    /// When it arrived.
    pub since: Instant,
    /// Whether it is interpreted for the first time: one that has no answer yet is interpreted again.
    pub is_first: bool,
}

impl<'a> Call<'a> {
    /// What the placeholder with that number matched; empty if there is none.
    pub fn word(&self, index: usize) -> &'a str {
        self.words.get(index).copied().unwrap_or_default()
    }

    /// What is recorded of the command if it makes a version of the configuration.
    pub fn origin(&self, source: VersionSource, comment: &str) -> VersionOrigin {
        VersionOrigin {
            user: self.caller.user.clone(),
            client: format!("{}:{}", self.caller.host, self.caller.port),
            source,
            command: self.statement.plain.chars().take(LONGEST_COMMAND).collect(),
            comment: comment.to_owned(),
            fleet: None,
        }
    }
}

/// How many characters of a command are recorded.
const LONGEST_COMMAND: usize = 200;

/// What commands work on, borrowed from the control thread.
pub struct Parts<'a> {
    /// The configuration.
    pub store: &'a mut Store,
    /// The running parts of the program.
    pub runtime: &'a mut Runtime,
    /// Other nodes of a cluster.
    pub nodes: &'a mut Nodes,
    /// The program.
    pub process: &'a Process,
}

impl Parts<'_> {
    /// The sources of figures.
    pub fn sources(&self) -> Sources<'_> {
        Sources { store: self.store, runtime: self.runtime, nodes: self.nodes }
    }
}
