//! What clients and operators are told when no server of a hostgroup could be had in time: each server, its state and why,
//! and how long somebody has waited. The same text is the client's error, a line of the log, and, by its cause, a figure.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use super::{Group, LeaseError, Pool, Scope};
use crate::hostgroup::{Hostgroup, Server};
use crate::rt::Instant;
use crate::snapshot::{HostgroupId, ServerStatus};

/// Why there was no server: of several reasons that of the server which was nearest to being had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The hostgroup has no servers, or none that is ever chosen.
    NoServers,
    /// They are offline, or shunned, as the operator says.
    Offline,
    /// More are ONLINE than may be.
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
    /// All connections that there may be are in use.
    PoolFull,
    /// No more connections may be opened in the second at hand.
    Throttled,
}

/// What was told of one worker's hostgroups.
#[derive(Debug, Default)]
pub(super) struct Told {
    counts: RefCell<BTreeMap<(HostgroupId, Cause), u64>>,
    /// When a line was written last, and how many were not since.
    last: Cell<Option<Instant>>,
    silent: Cell<u64>,
}

impl Cause {
    /// Its name, as a label of a metric.
    pub fn name(self) -> &'static str {
        match self {
            Cause::NoServers => "no_servers",
            Cause::Offline => "offline",
            Cause::TooManyOnline => "too_many_online",
            Cause::Unreachable => "unreachable",
            Cause::Lag => "lag",
            Cause::Latency => "latency",
            Cause::ReadOnly => "read_only",
            Cause::ConnectFailed => "connect_failed",
            Cause::PoolFull => "pool_full",
            Cause::Throttled => "throttled",
        }
    }
}

impl Told {
    /// How often that was told, by hostgroup and cause.
    pub(super) fn counts(&self) -> BTreeMap<(HostgroupId, Cause), u64> {
        self.counts.borrow().clone()
    }

    /// Counts, and writes a line, unless one was written just before: with a server thousands of clients lose it.
    fn tell(&self, hostgroup: HostgroupId, cause: Cause, text: &str, now: Instant) {
        *self.counts.borrow_mut().entry((hostgroup, cause)).or_default() += 1;
        if self.last.get().is_some_and(|last| now.saturating_duration_since(last) < BETWEEN_LINES) {
            self.silent.set(self.silent.get() + 1);
            return;
        }
        self.last.set(Some(now));
        let untold = self.silent.take();
        tracing::warn!(%hostgroup, cause = cause.name(), untold, error = text, "no server was available in time");
    }
}

impl Pool {
    /// The error of somebody who has waited since `started` for a server of a hostgroup, of which the configuration has
    /// that much.
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
                let cause = causes.max().unwrap_or(Cause::NoServers);
                let states = servers.iter().map(|server| group.describe(hostgroup, server, now));
                let states: Vec<String> = states.collect();
                let waiting = match group.waiters.len() {
                    0 => String::new(),
                    others => format!("; {others} wait here"),
                };
                (cause, format!("{waited}. {} servers: {}{waiting}", servers.len(), states.join("; ")))
            }
            _ => (Cause::NoServers, format!("{waited}. Hostgroup {id} has no servers")),
        };
        self.told.tell(id, cause, &text, now);
        LeaseError::Unavailable(text)
    }

    /// Why a server could not be had.
    fn cause(&self, group: &Group, hostgroup: &Hostgroup, server: &Server, now: Instant) -> Cause {
        match server.row.status {
            ServerStatus::Online if server.row.weight == 0 => return Cause::NoServers,
            ServerStatus::Online if hostgroup.is_overfull => return Cause::TooManyOnline,
            ServerStatus::Online if !hostgroup.may_use(server) => return Cause::Latency,
            ServerStatus::Online => {}
            ServerStatus::Unreachable => return Cause::Unreachable,
            ServerStatus::ShunnedReplicationLag => return Cause::Lag,
            ServerStatus::Shunned | ServerStatus::OfflineSoft | ServerStatus::OfflineHard => {
                return Cause::Offline;
            }
        }
        let failures = group.failures.borrow();
        match failures.get(&std::ptr::from_ref(&*server.figures)).map(|failure| failure.scope) {
            Some(Scope::Writes) => Cause::ReadOnly,
            Some(_) if server.figures.connections() == 0 => Cause::ConnectFailed,
            _ if server.has_room() && self.opening_pause(hostgroup, now).is_some() => Cause::Throttled,
            _ if server.has_room() => Cause::ConnectFailed,
            _ => Cause::PoolFull,
        }
    }
}

impl Group {
    /// A server in words: where, what it is and why, what it has in use, and what went wrong last.
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

/// Between two lines of one worker about servers that could not be had.
const BETWEEN_LINES: Duration = Duration::from_secs(1);
