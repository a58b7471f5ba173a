//! Servers that could not be had: how far and how long each is left alone, and how it comes back.

use std::sync::Arc;
use std::time::Duration;

use super::{Group, LeaseError, Pool};
use crate::backend::{Backend, BackendError, ServerError, Want};
use crate::hostgroup::{Hostgroup, READY, Server, ShunLimits, readiness};
use crate::rt::Instant;
use crate::snapshot::{Snapshot, Variables};

/// Why a server is left alone for a while.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) text: String,
    pub(super) at: Instant,
    /// How long it is left alone; doubles with each failure.
    pub(super) pause: Duration,
    /// What is not done meanwhile.
    pub(super) scope: Scope,
    /// When the first of these failures was.
    since: Instant,
}

/// How far a server is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// No connection is opened; those that are open serve.
    Opening,
    /// Nothing is sent there.
    Everything,
    /// The same, since it is read-only.
    Writes,
}

impl Scope {
    /// How far a server is left alone that has failed like this.
    fn of(error: &BackendError) -> Scope {
        match error {
            // A server that answers with an error is there, for those who are connected.
            BackendError::Server(_) | BackendError::InitConnect(_) => Scope::Opening,
            BackendError::ReadOnly => Scope::Writes,
            _ => Scope::Everything,
        }
    }
}

impl Pool {
    /// A server could be connected to.
    pub(super) fn succeeded(&self, group: &Group, snapshot: &Snapshot, server: &Server) {
        group.succeeded(server, Instant::now());
        for server in snapshot.end_shuns(server, self.epoch.elapsed()) {
            tracing::info!(
                hostgroup = server.row.hostgroup.0,
                server = server.address(),
                "a shunned server is back"
            );
        }
    }

    /// Keeps why a server could not be had, and shuns it for a while when that was so too often; an error about the login is the
    /// client's and says nothing about the server.
    pub(super) fn failed(
        &self,
        group: &Group,
        (variables, hostgroup): (&Variables, &Hostgroup),
        (server, want): (&Arc<Server>, &Want),
        error: BackendError,
    ) -> Result<Option<Backend>, LeaseError> {
        let scope = Scope::of(&error);
        if let Some(refusal) = refusal(server, want, &error) {
            self.tell_refusal(server, want, &error);
            return Err(LeaseError::Refused(refusal));
        }
        group.leave_alone(server, error.to_string(), scope, variables.connect_retries_delay);
        if scope == Scope::Everything
            && group.has_another(hostgroup, server)
            && server.figures.shun.failed(ShunLimits::of(variables), self.epoch.elapsed())
        {
            tracing::warn!(
                hostgroup = server.row.hostgroup.0,
                server = server.address(),
                "a server is shunned: too many connects have failed"
            );
        }
        Ok(None)
    }

    /// Writes a line about an account that a server refuses, unless one was written within the minute.
    fn tell_refusal(&self, server: &Server, want: &Want, error: &BackendError) {
        let username = &want.account.row.username;
        if let Some(untold) = server.figures.refusals.tell(username, self.epoch.elapsed()) {
            let what = match error {
                BackendError::InitConnect(_) => "what a connection runs first",
                _ => "an account",
            };
            tracing::warn!(
                hostgroup = server.row.hostgroup.0,
                server = server.address(),
                user = username,
                untold,
                %error,
                "a server refuses {what}"
            );
        }
    }
}

/// What the client is told at once, where a server has refused its account, or what runs first: another try would end
/// in the same way.
fn refusal(server: &Server, want: &Want, error: &BackendError) -> Option<ServerError> {
    match error {
        BackendError::Server(error) if error.is_about_login() => {
            Some(error.of_refusal(server, &want.account.row.username))
        }
        BackendError::InitConnect(error) => Some(error.clone().at(server, "refuses init_connect")),
        BackendError::Login(failure) => Some(ServerError::of_login(server, failure)),
        _ => None,
    }
}

impl Group {
    /// Whether the hostgroup has a server in use beside `server`.
    fn has_another(&self, hostgroup: &Hostgroup, server: &Server) -> bool {
        let failures = self.failures.borrow();
        hostgroup.servers.iter().any(|other| {
            !std::ptr::eq(&*other.figures, &*server.figures)
                && hostgroup.may_use(other)
                && !other.figures.shun.is_shunned()
                && !failures.contains_key(&Arc::as_ptr(&other.figures))
        })
    }

    /// A server could be connected to.
    fn succeeded(&self, server: &Server, now: Instant) {
        let figures = std::ptr::from_ref(&*server.figures);
        if let Some(failure) = self.failures.borrow_mut().remove(&figures)
            && now.saturating_duration_since(failure.since) >= LONGEST_PAUSE
        {
            self.back_since.borrow_mut().insert(figures, now);
        }
    }

    /// How much of its weight a server has: not all when it has just come back.
    pub(super) fn readiness(&self, server: &Server, now: Instant) -> u32 {
        let mut back_since = self.back_since.borrow_mut();
        if back_since.is_empty() && server.back_since.is_none() {
            return READY;
        }
        let figures = std::ptr::from_ref(&*server.figures);
        let since = back_since.get(&figures).copied().max(server.back_since);
        let ready = since.map_or(READY, |since| readiness(now.saturating_duration_since(since)));
        if ready == READY {
            back_since.remove(&figures);
        }
        ready
    }

    /// How far a server is left alone now.
    pub(super) fn pause(&self, server: &Server, now: Instant) -> Option<Scope> {
        let failures = self.failures.borrow();
        let failure = failures.get(&std::ptr::from_ref(&*server.figures))?;
        (failure.at + failure.pause > now).then_some(failure.scope)
    }

    /// When the first server that is left alone may be tried again.
    pub(super) fn next_unpaused(&self, hostgroup: &Hostgroup) -> Option<Instant> {
        let failures = self.failures.borrow();
        let eligible = hostgroup.servers.iter().filter(|server| hostgroup.may_use(server));
        let until = |server: &Arc<Server>| {
            failures.get(&Arc::as_ptr(&server.figures)).map(|failure| failure.at + failure.pause)
        };
        let now = Instant::now();
        eligible.filter_map(until).filter(|at| *at > now).min()
    }

    /// Leaves a server alone for a while, and not for less than `delay`.
    pub(super) fn leave_alone(&self, server: &Arc<Server>, text: String, scope: Scope, delay: Duration) {
        server.figures.distrust();
        let mut failures = self.failures.borrow_mut();
        let before = failures.get(&Arc::as_ptr(&server.figures)).map(|it| (it.pause * 2, it.since));
        let now = Instant::now();
        let pause = before.map_or(FIRST_PAUSE, |before| before.0).min(LONGEST_PAUSE).max(delay);
        if before.is_none() {
            tracing::warn!(
                hostgroup = server.row.hostgroup.0,
                server = server.address(),
                error = text,
                "cannot connect to a server"
            );
        }
        let since = before.map_or(now, |before| before.1);
        failures.insert(Arc::as_ptr(&server.figures), Failure { text, at: now, pause, scope, since });
    }
}

/// A server that could not be reached is left alone this long at first, so that a restart is hardly noticed;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// and this long at most, so that it is found again within a second of its coming back.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
