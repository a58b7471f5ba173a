//! The error for clients and operators if no server of a hostgroup was available in time: each server, its state and
//! the reason, and how long the client waited. The same text is the client's error and a log line, and its cause is
//! counted.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use super::{Group, LeaseError, Pool, Scope};
use crate::hostgroup::{Crowded, Hostgroup, LagFilter, Server};
use crate::rt::Instant;
use crate::snapshot::{HostgroupId, ServerStatus, Snapshot};

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
    /// An operator, or a switchover, holds the hostgroup.
    Held,
    /// As many wait already as may.
    Crowded,
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
            UnavailableCause::Held => "held",
            UnavailableCause::Crowded => "too_many_wait",
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
    /// The error for a client that has waited since `started` for a server of a hostgroup with this configuration, and within
    /// this limit of lag.
    pub(super) fn unavailable(
        &self,
        id: HostgroupId,
        known: Option<(&Group, &Hostgroup)>,
        (started, lag): (Instant, Option<LagFilter>),
    ) -> LeaseError {
        let now = Instant::now();
        let waited = format!(
            "Max connect timeout reached while reaching hostgroup {id} after {}ms",
            now.saturating_duration_since(started).as_millis()
        );
        let servers = known.map_or(&[][..], |(_, hostgroup)| &hostgroup.servers);
        let (cause, text) = match known {
            _ if let Some(end) = self.held_until(id) => {
                let left = end.saturating_duration_since(now).as_millis();
                (UnavailableCause::Held, format!("{waited}. NARROWS HOLD is in force for another {left} ms"))
            }
            Some((group, hostgroup)) if !servers.is_empty() => {
                let lag = lag.map(|limit| limit.in_hostgroup(hostgroup));
                let cause = self.cause_of_wait((group, hostgroup), lag, now);
                let sets = self.open_sets((group, hostgroup), (now, None));
                let is_open = |server: &Server| sets.is_none_or(|sets| sets.set_of(server).is_some());
                let states = servers.iter().map(|server| {
                    let unused = if is_open(server) { "" } else { ", a backup that is not used" };
                    group.describe(hostgroup, (server, lag), now) + unused
                });
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

    /// The error for a client that may not wait, because others do already.
    pub(super) fn crowded(&self, id: HostgroupId, crowded: Crowded, started: Instant) -> LeaseError {
        let now = Instant::now();
        let limit = match crowded {
            Crowded::Clients(most) => format!("{most} clients wait already (max_waiting)"),
            Crowded::Bytes(most) => {
                format!(
                    "the statements of those who wait would have more than {most} bytes (max_waiting_bytes)"
                )
            }
        };
        let waited = now.saturating_duration_since(started).as_millis();
        let text =
            format!("Max connect timeout reached while reaching hostgroup {id} after {waited}ms. {limit}");
        self.reports.tell(id, UnavailableCause::Crowded, &text, now);
        LeaseError::Unavailable(text)
    }

    /// Why no server of a hostgroup can be had, in a word.
    pub fn cause_of(&self, snapshot: &Snapshot, id: HostgroupId) -> &'static str {
        let cause = snapshot.hostgroups.get(&id).map(|hostgroup| {
            self.cause_of_wait((&self.group(&hostgroup.demand), hostgroup), None, Instant::now())
        });
        cause.unwrap_or(UnavailableCause::NoServers).name()
    }

    /// What who waits for a hostgroup waits for.
    pub(super) fn cause_of_wait(
        &self,
        (group, hostgroup): (&Group, &Hostgroup),
        lag: Option<LagFilter>,
        now: Instant,
    ) -> UnavailableCause {
        if self.held_until(hostgroup.id).is_some() {
            return UnavailableCause::Held;
        }
        let sets = self.open_sets((group, hostgroup), (now, None));
        let is_open = |server: &Server| sets.is_none_or(|sets| sets.set_of(server).is_some());
        let open = hostgroup.servers.iter().filter(|server| is_open(server));
        let is_far =
            |server: &Server| hostgroup.may_use(server) && lag.is_some_and(|limit| !limit.admits(server));
        let causes = open.map(|server| match is_far(server) {
            true => UnavailableCause::Lag,
            false => self.cause(group, hostgroup, server, now),
        });
        causes.max().unwrap_or(UnavailableCause::NoServers)
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
            | ServerStatus::Gone
            | ServerStatus::Withheld => {
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
    fn describe(
        &self,
        hostgroup: &Hostgroup,
        (server, lag): (&Server, Option<LagFilter>),
        now: Instant,
    ) -> String {
        let shunned =
            || server.figures.shun.is_shunned().then(|| "SHUNNED: too many connects have failed".to_owned());
        let state = hostgroup.why_not(server).or_else(|| lag?.why_not(server)).or_else(shunned);
        let state = state.unwrap_or_else(|| server.row.status.name().to_owned());
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
