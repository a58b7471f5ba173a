//! A command: what is typed, who may, and what it works on.

use std::time::Instant;

use crate::admin::reply::Reply;
use crate::admin::request::Caller;
use crate::admin::statement::Statement;
use crate::runtime::{Process, Runtime};
use crate::stats::Sources;
use crate::stats::nodes::Nodes;
use crate::store::{Role, Store};

/// A command.
pub struct Verb {
    /// What is typed; see [`captures`].
    pub pattern: &'static str,
    /// Who may. To others it is no command but bad SQL.
    pub who: Who,
    /// Carries it out; `None`: it was none after all.
    pub run: fn(&mut Parts<'_>, &Call<'_>) -> Option<Reply>,
    /// What it does, for operators.
    pub doc: &'static str,
}

/// Who may use a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Full users.
    Admin,
    /// Users of statistics too.
    Everybody,
}

impl Who {
    /// Whether users of that role are meant.
    pub fn includes(self, role: Role) -> bool {
        self == Who::Everybody || role == Role::Admin
    }
}

/// A command as it was typed.
pub struct Call<'a> {
    /// Who typed it.
    pub caller: &'a Caller,
    /// The statement.
    pub statement: &'a Statement<'a>,
    /// What the holes of the pattern hold.
    pub words: Vec<&'a str>,
    /// When it came.
    pub since: Instant,
}

impl<'a> Call<'a> {
    /// What the hole of that number holds; empty where there is none.
    pub fn word(&self, index: usize) -> &'a str {
        self.words.get(index).copied().unwrap_or_default()
    }
}

/// What commands work on; the control thread lends it.
pub struct Parts<'a> {
    /// What is configured.
    pub store: &'a mut Store,
    /// What runs.
    pub runtime: &'a mut Runtime,
    /// Other nodes of a cluster.
    pub nodes: &'a mut Nodes,
    /// The program.
    pub process: &'a Process,
}

impl Parts<'_> {
    /// What figures are made from.
    pub fn sources(&self) -> Sources<'_> {
        Sources { store: self.store, runtime: self.runtime, nodes: self.nodes }
    }
}
