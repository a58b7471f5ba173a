//! Hostgroups and their servers: their configuration, and the few atomics that workers share.

mod alarm;
mod balance;
mod crowd;
mod defaults;
mod demand;
mod lag_filter;
mod names;
mod per_second;
mod position;
mod preference;
mod refusals;
mod settings;
mod shun;
mod writes;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use narrows_wire::{Capabilities, Status};

use crate::lag::KnownLag;
use crate::rows::{Bond, CheckType, HostgroupId, ServerRow, ServerStatus};
use crate::rt::Instant;
use crate::tls::SharedTls;

pub use crate::rows::{Balance, UnshunAlgorithm};
pub use alarm::Alarm;
pub use balance::{Latency, Load, READY, RoundRobin, readiness};
pub use crowd::{Crowd, CrowdLimits, CrowdPlace, Crowded};
pub use defaults::{Defaults, DefaultsRead, Outdated};
pub use demand::{ConnectionSlot, Demand};
pub use lag_filter::LagFilter;
pub use names::{Addresses, NameFigures, NameTable, Names};
pub use per_second::PerSecond;
pub use position::{Patience, Position};
pub use preference::{Preference, ServerSet, ServerSets};
pub use refusals::Refusals;
pub use settings::HostgroupSettings;
pub use shun::{Shun, ShunLimits};
pub use writes::Writes;

/// One hostgroup of a snapshot.
#[derive(Debug, Clone)]
pub struct Hostgroup {
    /// Its number.
    pub id: HostgroupId,
    /// Its servers, in the order of the configuration.
    pub servers: Vec<Arc<Server>>,
    /// What workers share about it; outlives snapshots.
    pub demand: Arc<Demand>,
    /// The settings in force.
    pub settings: HostgroupSettings,
    /// Whether more of its servers are ONLINE than allowed.
    pub is_overfull: bool,
    /// Which servers are used first; `None` if all are equal.
    pub preference: Option<Preference>,
    /// For a writer hostgroup: the variable that shows whether a server is writable, and what the servers form.
    pub writers: Option<(CheckType, Bond)>,
    /// Where it goes that the writers of a cluster are doubtful.
    pub alarm: Alarm,
}

/// One server of a hostgroup.
#[derive(Debug)]
pub struct Server {
    /// Its configuration.
    pub row: ServerRow,
    /// The server's figures, which outlive snapshots.
    pub figures: Arc<ServerFigures>,
    /// Keys and certificates, if its row requires TLS.
    pub tls: SharedTls,
    /// The addresses of its host name.
    pub addresses: Addresses,
    /// When it came back, if checks had found it down.
    pub back_since: Option<Instant>,
    /// Since when it is OFFLINE_SOFT.
    pub drains_since: Option<Instant>,
    /// The zone that it says it is in, unless the configuration has another one.
    pub said_zone: Option<Arc<str>>,
}

/// Figures of one server, over all workers.
#[derive(Debug, Default)]
pub struct ServerFigures {
    /// Backend connections that are open or being opened.
    connections: AtomicU32,
    /// Statements that backend connections have prepared there, now.
    pub prepared: AtomicU64,
    /// Statements that were prepared there since the start.
    pub prepared_in_all: AtomicU64,
    /// Statements that were closed there since the start, other than with their connections.
    pub prepared_closed: AtomicU64,
    /// Its `max_prepared_stmt_count`; 0 until that has been read.
    pub prepared_limit: AtomicU64,
    /// When the limit was last read, in seconds since the process started.
    pub prepared_limit_at: AtomicU64,
    /// The maximum number of connections at once.
    most_connections: AtomicU32,
    /// When a connection was last opened, or counts as opened, in ns since the process started; 0: never.
    reached_ns: AtomicU64,
    /// The latency that the monitor last measured, in us; 0 if not known.
    latency_us: AtomicU64,
    /// How far it is behind, as the monitor last found.
    pub lag: KnownLag,
    /// The capabilities in its greeting; 0 until they are known.
    capabilities: AtomicU64,
    /// The status flags in its greeting.
    first_status: AtomicU16,
    /// The failed connects to it.
    pub shun: Shun,
    /// What it is known to have applied.
    pub position: Arc<Position>,
    /// Whether what its connections have taken from it is up to date.
    pub defaults: Arc<Defaults>,
    /// The accounts that it has refused.
    pub refusals: Refusals,
    /// Whether its role may have changed; see [`ServerFigures::distrust`].
    is_distrusted: AtomicBool,
    /// A bit for each worker to which a request to close statements there is on its way.
    closings: AtomicU64,
}

impl Hostgroup {
    /// The hostgroup, with what follows from its servers.
    pub fn complete(self) -> Hostgroup {
        let online = self.servers.iter().filter(|server| server.row.status == ServerStatus::Online).count();
        let preference = Preference::of(&self.settings, &self.servers);
        Hostgroup { is_overfull: online > self.settings.max_online, preference, ..self }
    }

    /// Whether a server may get new statements.
    pub fn may_use(&self, server: &Server) -> bool {
        !self.is_overfull && server.is_eligible() && self.latency_above(server).is_none()
    }

    /// Whether any of its servers may get new statements.
    pub fn has_server(&self) -> bool {
        self.servers.iter().any(|server| self.may_use(server))
    }

    /// The ping time, in us, above which a server of `candidates` gets no statements: their average, if there are at
    /// least `mysql-min_num_servers_lantency_awareness` servers and all have answered a ping.
    pub fn latency_limit<'a>(&self, candidates: impl Iterator<Item = &'a Arc<Server>>) -> Option<u64> {
        if self.servers.len() < self.settings.latency_aware_from {
            return None;
        }
        let latencies: Vec<u64> = candidates.map(|server| server.figures.latency_us()).collect();
        let known = latencies.len() >= self.settings.latency_aware_from && latencies.iter().all(|us| *us > 0);
        (known && !latencies.is_empty())
            .then(|| latencies.iter().sum::<u64>().div_ceil(latencies.len() as u64))
    }

    /// Why a server gets no new statements, regardless of its connections; `None` if it gets some.
    pub fn why_not(&self, server: &Server) -> Option<String> {
        if let Some(reason) = server.row.status.reason() {
            return Some(reason.to_owned());
        }
        if self.is_overfull {
            return Some(format!(
                "more than max_num_online_servers ({}) are ONLINE",
                self.settings.max_online
            ));
        }
        if server.row.weight == 0 {
            return Some("weight 0: it is never chosen".to_owned());
        }
        let (latency, most) = self.latency_above(server)?;
        Some(format!("pings take {} ms, more than {} ms", latency.as_millis(), most.as_millis()))
    }

    /// The latency of pings and their limit, if the limit is exceeded.
    fn latency_above(&self, server: &Server) -> Option<(Duration, Duration)> {
        let most = match server.row.max_latency_ms {
            0 => self.settings.max_latency,
            ms => Duration::from_millis(ms.into()),
        };
        let latency = Duration::from_micros(server.figures.latency_us());
        (latency > most && !most.is_zero()).then_some((latency, most))
    }
}

impl Server {
    /// A server with that row, about which nothing is known.
    pub fn new(row: ServerRow, tls: SharedTls) -> Server {
        let (figures, addresses) = Default::default();
        Server { row, figures, tls, addresses, back_since: None, drains_since: None, said_zone: None }
    }

    /// `host:port`, or the path of the Unix socket.
    pub fn address(&self) -> String {
        match self.row.port {
            0 => self.row.hostname.clone(),
            port => format!("{}:{port}", self.row.hostname),
        }
    }

    /// Whether a row of another hostgroup or configuration is about the same server.
    pub fn is_at_address_of(&self, other: &Server) -> bool {
        self.row.hostname == other.row.hostname && self.row.port == other.row.port
    }

    /// Whether connections use TLS; a Unix socket needs none.
    pub fn wants_tls(&self) -> bool {
        self.row.use_ssl && self.row.port != 0
    }

    /// Whether the server may get new statements.
    pub fn is_eligible(&self) -> bool {
        self.row.status == ServerStatus::Online && self.row.weight > 0
    }

    /// Whether another connection may be opened.
    pub fn has_room(&self) -> bool {
        self.figures.connections.load(Ordering::Relaxed) < self.row.max_connections
    }

    /// Whether more connections are open than allowed, because the row was changed.
    pub fn has_too_many(&self) -> bool {
        self.figures.connections.load(Ordering::Relaxed) > self.row.max_connections
    }
}

impl ServerFigures {
    /// Those of a server that is a server of another hostgroup, too: what it has applied is known of both.
    pub fn of_twin(twin: &Server) -> ServerFigures {
        ServerFigures {
            position: Arc::clone(&twin.figures.position),
            defaults: Arc::clone(&twin.figures.defaults),
            ..ServerFigures::default()
        }
    }

    /// Backend connections that are open or being opened.
    pub fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }

    /// The maximum number of backend connections at once.
    pub fn most_connections(&self) -> u32 {
        self.most_connections.load(Ordering::Relaxed)
    }

    /// Resets that maximum.
    pub fn forget_most_connections(&self) {
        self.most_connections.store(self.connections(), Ordering::Relaxed);
    }

    /// Records that a connection was opened.
    pub fn was_reached(&self, at_ns: u64) {
        self.reached_ns.fetch_max(at_ns, Ordering::Relaxed);
    }

    /// When a connection was last opened, in ns since the process started; 0: never.
    pub fn reached_ns(&self) -> u64 {
        self.reached_ns.load(Ordering::Relaxed)
    }

    /// The latency that the monitor last measured, in us; 0 if not known.
    pub fn latency_us(&self) -> u64 {
        self.latency_us.load(Ordering::Relaxed)
    }

    /// Stores a latency measured by the monitor.
    pub fn set_latency_us(&self, latency_us: u64) {
        self.latency_us.store(latency_us, Ordering::Relaxed);
    }

    /// Records that a connection to it was lost, or that it has refused a write: when it comes back it may have a
    /// different role, and lack transactions that it had.
    pub fn distrust(&self) {
        self.is_distrusted.store(true, Ordering::Relaxed);
        self.position.forget();
    }

    /// Records that it has reported its role.
    pub fn trust(&self) {
        self.is_distrusted.store(false, Ordering::Relaxed);
    }

    /// Whether its role must be checked before it gets statements.
    pub fn is_distrusted(&self) -> bool {
        self.is_distrusted.load(Ordering::Relaxed)
    }

    /// Whether `worker` should be asked to close statements there: not while such a request is on its way. With more
    /// than 64 workers some share a bit; one left out because of that is notified with the next excess statement.
    pub fn may_ask_to_close(&self, worker: usize) -> bool {
        let bit = 1 << (worker % 64);
        self.closings.fetch_or(bit, Ordering::SeqCst) & bit == 0
    }

    /// `worker` has received the request, and then closes them.
    pub fn hears_closing(&self, worker: usize) {
        self.closings.fetch_and(!(1 << (worker % 64)), Ordering::SeqCst);
    }

    /// The capabilities in its greeting; `None` until it is known.
    pub fn capabilities(&self) -> Option<Capabilities> {
        match self.capabilities.load(Ordering::Relaxed) {
            0 => None,
            seen => Some(Capabilities(seen)),
        }
    }

    /// Stores the capabilities in its greeting, and the initial status flags of its sessions.
    pub fn saw_greeting(&self, capabilities: Capabilities, status: Status) {
        self.capabilities.store(capabilities.0, Ordering::Relaxed);
        self.first_status.store(status.0, Ordering::Relaxed);
    }

    /// The initial status flags of its sessions; none if they are not known.
    pub fn first_status(&self) -> Status {
        Status(self.first_status.load(Ordering::Relaxed))
    }
}
