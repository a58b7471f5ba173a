//! What a kind of check is. Each is one row, `CHECK`, in a file of its own, and a line of [`CHECKS`](super::CHECKS).

use std::cmp::Ordering;
use std::fmt::Debug;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::time::Duration;

use narrows_proxy::backend::BackendError;
use narrows_proxy::snapshot::CheckType;

use super::connections::MonitorConnections;
use super::finding::Finding;
use super::plan::Target;
use super::settings::MonitorSettings;

/// A kind of check.
pub struct Check {
    /// Its name. The variables for its times are those that set `MonitorSettings::timing` of this name.
    pub name: &'static str,
    /// The table of its results, in `monitor`.
    pub table: &'static str,
    /// Whether that has a column for what was found.
    pub has_value: bool,
    /// Names in `stats_mysql_global`: of checks that succeeded, and of those that failed.
    pub counters: (&'static str, &'static str),
    /// Whether something is decided by it that pings say nothing of.
    pub decides_without_pings: bool,
    /// What follows from it that it fails.
    pub consequence: &'static str,
    /// What of a server is checked, each by itself.
    pub subjects: fn(&Target) -> Vec<Subject>,
    /// Before the first check of a subject.
    pub begin: fn(Subject) -> Box<dyn Task>,
}

/// What of a server is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The server as such.
    Server,
    /// Its role, as this check tells it.
    Role(CheckType),
}

/// One check of one server, which is made again and again.
pub trait Task {
    /// Checks once, within `limit`.
    fn ask<'a>(
        &'a mut self,
        connections: &'a MonitorConnections,
        settings: &'a MonitorSettings,
        limit: Duration,
    ) -> Asking<'a>;

    /// What has changed by the outcome.
    fn decide(&mut self, _: &Outcome, _: &MonitorSettings, _: &Target) -> Vec<Finding> {
        Vec::new()
    }
}

/// A check that is being made.
pub type Asking<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// What a check has found, where its table has a column for that; or why it failed.
pub type Outcome = Result<Option<i64>, BackendError>;

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
