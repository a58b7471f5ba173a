//! The error for clients and operators if no server of a hostgroup was available in time: each server, its state and
//! the reason, and how long the client waited. The same text is the client's error and a log line, and its cause is
//! counted.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use super::{Group, LeaseError, Pool, Scope};
use crate::hostgroup::{Hostgroup, Server};
use crate::rt::Instant;
use crate::snapshot::{HostgroupId, ServerStatus};

/// Why there was no server: of several reasons, that of the server that was closest to being available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnavailableCause {
    /// The hostgroup has no servers, or none that is ever chosen.
    NoServers,
    /// They are offline, or shunned by the operator.
    Offline,
    /// More are ONLINE than allowed.
    TooManyOnline,
    /// They answer no pings.
    Unreachable,
    /// They lag.
    Lag,
    /// Pings take too long.
    Latency,
    /// They are read-only, and the hostgroup is for writers.
    ReadOnly,
    /// They cannot be connected to.
    ConnectFailed,
    /// All allowed connections are in use.
    PoolFull,
    /// No more connections may be opened in the current second.
    Throttled,
}

/// What was reported about one worker's hostgroups.
#[derive(Debug, Default)]
pub(super) struct UnavailableReports {
    counts: RefCell<BTreeMap<(HostgroupId, UnavailableCause), u64>>,
    /// When a line was last logged, and how many were left out since.
    last: Cell<Option<Instant>>,
    silent: Cell<u64>,
}

impl UnavailableCause {
    /// Its name, as a label of a metric.
    pub fn name(self) -> &'static str {
        match self {
            UnavailableCause::NoServers => "no_servers",
            UnavailableCause::Offline => "offline",
            UnavailableCause::TooManyOnline => "too_many_online",
            UnavailableCause::Unreachable => "unreachable",
            UnavailableCause::Lag => "lag",
            UnavailableCause::Latency => "latency",
            UnavailableCause::ReadOnly => "read_only",
            UnavailableCause::ConnectFailed => "connect_failed",
            UnavailableCause::PoolFull => "pool_full",
            UnavailableCause::Throttled => "throttled",
        }
    }
}

impl UnavailableReports {
    /// How often this was reported, by hostgroup and cause.
    pub(super) fn counts(&self) -> BTreeMap<(HostgroupId, UnavailableCause), u64> {
        self.counts.borrow().clone()
    }

    /// Counts, and logs a line, unless one was logged just before: thousands of clients may lose a server at once.
    fn tell(&self, hostgroup: HostgroupId, cause: UnavailableCause, text: &str, now: Instant) {
        *self.counts.borrow_mut().entry((hostgroup, cause)).or_default() += 1;
        if self.last.get().is_some_and(|last| now.saturating_duration_since(last) < BETWEEN_LINES) {
            self.silent.set(self.silent.get() + 1);
            return;
        }
        self.last.set(Some(now));
        let suppressed = self.silent.take();
        tracing::warn!(%hostgroup, cause = cause.name(), suppressed, error = text, "no server was available in time");
    }
}

impl Pool {
    /// The error for a client that has waited since `started` for a server of a hostgroup with this configuration.
    pub(super) fn unavailable(
        &self,
        id: HostgroupId,
        known: Option<(&Group, &Hostgroup)>,
        started: Instant,
    ) -> LeaseError {
        let now = Instant::now();
        let waited = format!(
            "Max connect timeout reached while reaching hostgroup {id} after {}ms",
            now.saturating_duration_since(started).as_millis()
        );
        let servers = known.map_or(&[][..], |(_, hostgroup)| &hostgroup.servers);
        let (cause, text) = match known {
            Some((group, hostgroup)) if !servers.is_empty() => {
                let causes = servers.iter().map(|server| self.cause(group, hostgroup, server, now));
                let cause = causes.max().unwrap_or(UnavailableCause::NoServers);
                let states = servers.iter().map(|server| group.describe(hostgroup, server, now));
                let states: Vec<String> = states.collect();
                let waiting = match group.waiters.len() {
                    0 => String::new(),
                    others => format!("; {others} wait here"),
                };
                (cause, format!("{waited}. {} servers: {}{waiting}", servers.len(), states.join("; ")))
            }
            _ => (UnavailableCause::NoServers, format!("{waited}. Hostgroup {id} has no servers")),
        };
        self.reports.tell(id, cause, &text, now);
        LeaseError::Unavailable(text)
    }

    /// Why a server was not available.
    fn cause(&self, group: &Group, hostgroup: &Hostgroup, server: &Server, now: Instant) -> UnavailableCause {
        match server.row.status {
            ServerStatus::Online if server.row.weight == 0 => return UnavailableCause::NoServers,
            ServerStatus::Online if hostgroup.is_overfull => return UnavailableCause::TooManyOnline,
            ServerStatus::Online if !hostgroup.may_use(server) => return UnavailableCause::Latency,
            ServerStatus::Online => {}
            ServerStatus::Unreachable => return UnavailableCause::Unreachable,
            ServerStatus::ShunnedReplicationLag => return UnavailableCause::Lag,
            ServerStatus::Shunned
            | ServerStatus::OfflineSoft
            | ServerStatus::OfflineHard
            | ServerStatus::Leaving
            | ServerStatus::Gone => {
                return UnavailableCause::Offline;
            }
        }
        let failures = group.failures.borrow();
        match failures.get(&std::ptr::from_ref(&*server.figures)).map(|failure| failure.scope) {
            Some(Scope::Writes) => UnavailableCause::ReadOnly,
            Some(_) if server.figures.connections() == 0 => UnavailableCause::ConnectFailed,
            _ if server.has_room() && self.opening_pause(hostgroup, now).is_some() => {
                UnavailableCause::Throttled
            }
            _ if server.has_room() => UnavailableCause::ConnectFailed,
            _ => UnavailableCause::PoolFull,
        }
    }
}

impl Group {
    /// A server as text: its address, its state with the reason, its connections in use, and its last failure.
    fn describe(&self, hostgroup: &Hostgroup, server: &Server, now: Instant) -> String {
        let shunned =
            || server.figures.shun.is_shunned().then(|| "SHUNNED: too many connects have failed".to_owned());
        let state =
            hostgroup.why_not(server).or_else(shunned).unwrap_or_else(|| server.row.status.name().to_owned());
        let (used, most) = (server.figures.connections(), server.row.max_connections);
        let failures = self.failures.borrow();
        let failure = failures.get(&std::ptr::from_ref(&*server.figures)).map(|failure| {
            let ago = now.saturating_duration_since(failure.at).as_millis();
            format!(", last error {ago} ms ago: {}", failure.text)
        });
        format!("{} {state} (pool {used}/{most}{})", server.address(), failure.unwrap_or_default())
    }
}

/// The time between two lines of one worker about unavailable servers.
const BETWEEN_LINES: Duration = Duration::from_secs(1);
