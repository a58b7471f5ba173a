//! What a kind of check is. Each is one row, `CHECK`, in a file of its own, and a line of [`CHECKS`](super::CHECKS).

use std::cmp::Ordering;
use std::fmt::Debug;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::time::Duration;

use narrows_proxy::backend::BackendError;
use narrows_proxy::snapshot::CheckType;

use super::cluster::ClusterId;
use super::connections::MonitorConnections;
use super::finding::Finding;
use super::plan::Target;
use super::position::CheckedPosition;
use super::settings::MonitorSettings;

/// A kind of check.
pub struct Check {
    /// Its name, which is also the key of its timing in `MonitorSettings`.
    pub name: &'static str,
    /// The table of its results, in `monitor`.
    pub table: &'static str,
    /// What the table's columns for the values have if a check fails; empty: it has no such columns.
    pub values: &'static [LogCell],
    /// Whether the table has the error before the values, and a row for each of several sets of them.
    pub has_error_first: bool,
    /// The names of its counters in `stats_mysql_global`: successful checks, and failed ones.
    pub counters: Option<(&'static str, &'static str)>,
    /// Whether its results have consequences that do not depend on pings.
    pub decides_without_pings: bool,
    /// The consequence of a failure, for the log.
    pub consequence: &'static str,
    /// The subjects on a server that are checked separately.
    pub subjects: fn(&Target) -> Vec<Subject>,
    /// Creates the task that checks a subject.
    pub begin: fn(Subject) -> Box<dyn Task>,
}

/// What a check examines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The server as a whole.
    Server,
    /// Its role, as determined by these variables.
    Role(CheckType),
    /// Its state as a node of a cluster.
    Node(ClusterId),
}

/// A value that a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogCell {
    /// Nothing.
    Null,
    /// A number.
    Integer(i64),
    /// A word.
    Text(&'static str),
    /// What a server has said.
    Said(String),
}

/// The repeated check of one subject.
pub trait Task {
    /// Takes note of how the server is configured, before each check.
    fn prepare(&mut self, _: &Target) {}

    /// Checks once, within `limit`.
    fn ask<'a>(
        &'a mut self,
        connections: &'a MonitorConnections,
        settings: &'a MonitorSettings,
        limit: Duration,
    ) -> Asking<'a>;

    /// The changes that follow from an outcome.
    fn decide(&mut self, _: &Outcome, _: &MonitorSettings, _: &Target) -> Vec<Finding> {
        Vec::new()
    }

    /// Whether the name of the server may lead elsewhere by now.
    fn may_have_moved(&mut self) -> bool {
        false
    }

    /// The lag of the server in milliseconds by the last check; `None`: it follows nobody, or its lag is not known.
    fn lag_ms(&self) -> Option<u32> {
        None
    }

    /// What the last check has found that the server has applied, if it asked for that.
    fn position(&mut self) -> Option<CheckedPosition> {
        None
    }
}

/// A running check.
pub type Asking<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// The values that a check found, one for each column that its table has for them, or why the check failed.
pub type Outcome = Result<Vec<LogCell>, BackendError>;

/// A kind of check, by its name.
pub type CheckKind = &'static Check;

impl Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Check {
    fn eq(&self, other: &Check) -> bool {
        self.name == other.name
    }
}

impl Eq for Check {}

impl PartialOrd for Check {
    fn partial_cmp(&self, other: &Check) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Check {
    fn cmp(&self, other: &Check) -> Ordering {
        self.name.cmp(other.name)
    }
}

impl Hash for Check {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}
