//! Servers that failed: for how long each is avoided, to what extent, and how it comes back.

use std::sync::Arc;
use std::time::Duration;

use super::{Group, LeaseError, Pool};
use crate::backend::{Backend, BackendError, ServerError, Want};
use crate::hostgroup::{Hostgroup, READY, Server, ShunLimits, readiness};
use crate::rt::Instant;
use crate::snapshot::{Snapshot, Variables};

/// Why a server is avoided for a while.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) text: String,
    pub(super) at: Instant,
    /// How long it is avoided; doubles with each failure.
    pub(super) pause: Duration,
    /// What is not done in the meantime.
    pub(super) scope: Scope,
    /// When the first of these failures was.
    since: Instant,
}

/// To what extent a server is avoided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// No connection is opened; open ones are used.
    Opening,
    /// Nothing is sent there.
    Everything,
    /// The same, because it is read-only.
    Writes,
}

impl Scope {
    /// To what extent a server is avoided after this failure.
    fn of(error: &BackendError) -> Scope {
        match error {
            // A server that answers with an error is up for existing connections.
            BackendError::Server(_) | BackendError::InitConnect(_) => Scope::Opening,
            BackendError::ReadOnly | BackendError::NoCluster => Scope::Writes,
            _ => Scope::Everything,
        }
    }
}

impl Pool {
    /// A connection to a server succeeded.
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

    /// Records why a server failed, and shuns it for a while if that happened too often; an error about the login
    /// belongs to the client and says nothing about the server.
    pub(super) fn failed(
        &self,
        group: &Group,
        (variables, hostgroup): (&Variables, &Hostgroup),
        (server, want): (&Arc<Server>, &Want),
        error: BackendError,
    ) -> Result<Option<Backend>, LeaseError> {
        let scope = Scope::of(&error);
        if let Some(refusal) = refusal(server, want, &error) {
            if matches!(&error, BackendError::Server(error) if error.is_about_account()) {
                want.account.refuse();
            }
            if matches!(&error, BackendError::Server(error) if error.is_too_many_connections_of_account()) {
                self.close_idle_of(&hostgroup.demand, server, &want.account.row.username);
                return Err(LeaseError::Full(refusal));
            }
            self.tell_refusal(server, want, &error);
            return Err(match error {
                BackendError::InitConnect(_) => LeaseError::NoInit(refusal),
                _ => LeaseError::Refused(refusal),
            });
        }
        hostgroup.raise_alarm();
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

    /// Logs that a server refuses an account, unless this was logged within the last minute.
    fn tell_refusal(&self, server: &Server, want: &Want, error: &BackendError) {
        let username = &want.account.row.username;
        if let Some(suppressed) = server.figures.refusals.tell(username, self.epoch.elapsed()) {
            let what = match error {
                BackendError::InitConnect(_) => "what a connection runs first",
                _ => "an account",
            };
            tracing::warn!(
                hostgroup = server.row.hostgroup.0,
                server = server.address(),
                user = username,
                suppressed,
                %error,
                "a server refuses {what}"
            );
        }
    }
}

/// The error that a client gets at once if a server refused its account, or the initial statement: another attempt
/// would end in the same way.
fn refusal(server: &Server, want: &Want, error: &BackendError) -> Option<ServerError> {
    match error {
        BackendError::Server(error) if error.is_about_login() => {
            Some(error.of_refusal(server, &want.account.row.username))
        }
        BackendError::InitConnect(error) => Some(error.clone().at(server, "refuses init_connect")),
        BackendError::Login(failure) => Some(ServerError::of_login(server, failure)),
        BackendError::NoToken(reason) => Some(ServerError::of_login(server, reason)),
        BackendError::NoCredentials(_) => {
            let reason = "there are no credentials for its IAM token; the log of Narrows says why";
            Some(ServerError::of_login(server, &reason))
        }
        _ => None,
    }
}

impl Group {
    /// Whether the hostgroup has a server in use besides `server`.
    fn has_another(&self, hostgroup: &Hostgroup, server: &Server) -> bool {
        let failures = self.failures.borrow();
        hostgroup.servers.iter().any(|other| {
            !std::ptr::eq(&*other.figures, &*server.figures)
                && hostgroup.may_use(other)
                && !other.figures.shun.is_shunned()
                && !failures.contains_key(&Arc::as_ptr(&other.figures))
        })
    }

    /// A connection to a server succeeded.
    fn succeeded(&self, server: &Server, now: Instant) {
        let figures = std::ptr::from_ref(&*server.figures);
        if let Some(failure) = self.failures.borrow_mut().remove(&figures)
            && now.saturating_duration_since(failure.since) >= LONGEST_PAUSE
        {
            self.back_since.borrow_mut().insert(figures, now);
        }
    }

    /// How much of its weight a server has: not all of it if it has just come back.
    pub(super) fn readiness(&self, server: &Server, now: Instant, slow_start: Duration) -> u32 {
        let mut back_since = self.back_since.borrow_mut();
        if back_since.is_empty() && server.back_since.is_none() {
            return READY;
        }
        let figures = std::ptr::from_ref(&*server.figures);
        let since = back_since.get(&figures).copied().max(server.back_since);
        let ready = since.map_or(READY, |since| readiness(now.saturating_duration_since(since), slow_start));
        if ready == READY {
            back_since.remove(&figures);
        }
        ready
    }

    /// To what extent a server is currently avoided.
    pub(super) fn pause(&self, server: &Server, now: Instant) -> Option<Scope> {
        let failures = self.failures.borrow();
        let failure = failures.get(&std::ptr::from_ref(&*server.figures))?;
        (failure.at + failure.pause > now).then_some(failure.scope)
    }

    /// When the first avoided server may be tried again.
    pub(super) fn next_unpaused(&self, hostgroup: &Hostgroup) -> Option<Instant> {
        let failures = self.failures.borrow();
        let eligible = hostgroup.servers.iter().filter(|server| hostgroup.may_use(server));
        let until = |server: &Arc<Server>| {
            failures.get(&Arc::as_ptr(&server.figures)).map(|failure| failure.at + failure.pause)
        };
        let now = Instant::now();
        eligible.filter_map(until).filter(|at| *at > now).min()
    }

    /// Avoids a server for a while, and for at least `delay`.
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

/// For how long an unreachable server is avoided at first, so that a restart is hardly noticed;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// and the maximum, so that it is used again within a second after it comes back.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
