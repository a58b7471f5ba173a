//! The current servers: the configuration, overlaid with what the monitor has found.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use narrows_proxy::hostgroup::{NameTable, Names};
use narrows_proxy::lag::ReplicaLag;
use narrows_proxy::snapshot::{Rows, ServerRow, ServerStatus};

use super::pair_writers::PairWriters;
use crate::monitor::check::CheckKind;
use crate::monitor::cluster::decide::{Change, NodeRole};
use crate::monitor::cluster::roster::{Arrival, MOST_FOUND};
use crate::monitor::cluster::seats::Event;
use crate::monitor::cluster::{ClusterId, aurora};
use crate::monitor::finding::{Finding, Lag, MeasuredLag, Reach};
use crate::monitor::health::Health;
use crate::monitor::log::{CheckCounts, Record};
use crate::monitor::ping;
use crate::monitor::placement::{Known, Placement};
use crate::monitor::plan::{Address, Target, targets};
use crate::monitor::rds_topology::BlueGreen;
use crate::monitor::role::ServerRole;
use crate::monitor::roles::Heard;
use crate::monitor::settings::MonitorSettings;
use crate::monitor::{Monitor, Monitoring, replication_lag};
use crate::variables::Values;

/// What is known about servers, and where they are.
pub(super) struct Servers {
    /// `None`: there is no monitor.
    pub monitor: Option<Monitor>,
    pub known: Known,
    pub placement: Placement,
    /// The servers that the data plane uses.
    pub running: Vec<ServerRow>,
    pub latencies_us: BTreeMap<Address, u64>,
    /// The lags of servers that follow others, by the check that has found them.
    pub lags: BTreeMap<(Address, CheckKind), ReplicaLag>,
    /// The zones that servers say they are in, as the data plane gets them.
    said_zones: Arc<BTreeMap<String, Arc<str>>>,
    pub names: Names,
    pub checks: CheckCounts,
    pub health: Health,
    /// The writers of replication pairs.
    pub pair_writers: PairWriters,
    /// How many times servers have changed, by address and change.
    pub changes: BTreeMap<(Address, &'static str), u64>,
    /// Whether other servers are to be checked, although none has moved.
    pub has_another_plan: bool,
    /// Whether servers of pairs may have to be elsewhere.
    is_misplaced: bool,
    /// Nodes that have become writers, until that is stored.
    pub new_writers: Vec<(ClusterId, Address)>,
    pub purged: Instant,
    /// How many times servers were loaded or moved.
    pub version: u64,
}

impl Servers {
    /// The configured servers, with what is known about them.
    pub fn new(monitor: Option<Monitor>, rows: &Rows, variables: &Values, known: Known) -> Servers {
        let mut known = known;
        let monitoring = if monitor.is_some() { Monitoring::On } else { Monitoring::Off };
        let placement = seated(rows, &settings(variables, monitoring), &mut known);
        let mut pair_writers = PairWriters::default();
        pair_writers.follow(rows, &placement, &known);
        Servers {
            monitor,
            running: placement.with_states(&known),
            placement,
            known,
            latencies_us: BTreeMap::new(),
            lags: BTreeMap::new(),
            said_zones: Arc::default(),
            names: Names::default(),
            checks: CheckCounts::default(),
            health: Health::default(),
            pair_writers,
            changes: BTreeMap::new(),
            has_another_plan: false,
            is_misplaced: false,
            new_writers: Vec::new(),
            purged: Instant::now(),
            version: 1,
        }
    }

    /// The rows to run in place of `rows`, which have other servers or not, and where servers then are.
    pub fn placed(
        &mut self,
        has_servers: bool,
        rows: &Rows,
        before: &MonitorSettings,
        settings: &MonitorSettings,
    ) -> (Rows, Placement) {
        if !settings.enabled {
            self.known.forget_health();
            self.health.forget();
            self.pair_writers.forget();
            self.lags.clear();
        } else if has_servers {
            let found = self.known.readers.rows(rows);
            let servers = self.known.seats.with_found(&[rows.servers.as_slice(), &found].concat(), rows);
            let targets = targets(&servers, rows);
            self.known.keep(&targets);
            self.health.keep(&targets);
            let is_known = |address: &Address| targets.iter().any(|target| target.address == *address);
            self.latencies_us.retain(|address, _| is_known(address));
            self.lags.retain(|(address, check), _| {
                targets
                    .iter()
                    .any(|target| target.address == *address && !(check.subjects)(target).is_empty())
            });
            self.said_zones = Arc::new(self.known.said_zones());
            self.changes.retain(|(address, _), _| is_known(address));
        }
        let is_outdated = has_servers || before.pairs() != settings.pairs();
        let mut placement = if is_outdated { self.place(rows, settings) } else { self.placement.clone() };
        let is_checked = settings.enabled && self.monitor.is_some();
        if is_checked || !self.known.seats.is_empty() {
            let changed = placement.seat(&mut self.known, rows, Instant::now());
            self.note_changes(changed);
        }
        let servers = placement.with_states(&self.known);
        (self.with_found(servers, rows), placement)
    }

    /// Records what has been applied.
    pub fn follow(&mut self, servers: Vec<ServerRow>, placement: Placement) {
        self.known.roles.hold(placement.writers().clone());
        self.placement = placement;
        self.running = servers;
    }

    /// The rows that run, or would run if the data plane were running.
    pub fn over(&self, rows: &Rows) -> Rows {
        self.with_found(self.running.clone(), rows)
    }

    /// `rows` with these servers, and with what is known of them.
    pub fn with_found(&self, servers: Vec<ServerRow>, rows: &Rows) -> Rows {
        let (names, said_zones) = (self.names.clone(), Arc::clone(&self.said_zones));
        let unfenced = self.known.roles.unfenced();
        let unfenced = Arc::new(unfenced.into_iter().map(|it| (it.hostname, it.port)).collect());
        Rows { servers, names, said_zones, unfenced, ..rows.clone() }
    }

    /// Takes over the zones that servers say they are in; returns whether they are others than before.
    pub fn follow_zones(&mut self) -> bool {
        let zones = self.known.said_zones();
        let are_others = zones != *self.said_zones;
        if are_others {
            self.said_zones = Arc::new(zones);
        }
        are_others
    }

    /// The rows that run, without what remains in the hostgroups that nodes of clusters have left.
    pub fn placed_rows(&self) -> Vec<ServerRow> {
        let is_placed = |row: &&ServerRow| !matches!(row.status, ServerStatus::Leaving | ServerStatus::Gone);
        self.running.iter().filter(is_placed).cloned().collect()
    }

    /// The monitor's plan.
    pub fn targets(&self, rows: &Rows) -> Vec<Target> {
        targets(&self.placement.to_check(), rows)
    }

    /// Records a finding about a server; returns whether it is new.
    pub fn learn(&mut self, finding: &Finding, rows: &Rows, settings: &MonitorSettings) -> bool {
        if !settings.enabled {
            return false;
        }
        if let Finding::Role(address, check_type, report) = finding {
            match self.known.roles.hear(address, *check_type, report) {
                Heard::Nothing => return false,
                Heard::Standing => {}
                Heard::Role(role) => {
                    tell_role(address, role);
                    *self.changes.entry((address.clone(), role.name())).or_default() += 1;
                }
            }
        } else if !self.known.learn(finding) {
            return false;
        }
        tell(finding);
        if let Some((server, change)) = finding.change() {
            *self.changes.entry((server.clone(), change)).or_default() += 1;
        }
        // Of several that take writes, which one is written to depends on all of them, and on whether they are reached.
        self.is_misplaced |= matches!(finding, Finding::Role(..) | Finding::Reach(..));
        // A reader of RDS is there, or gone, or has been heard for the first time.
        if matches!(finding, Finding::Topology(..) | Finding::Role(..)) {
            self.find_readers(rows, settings, Instant::now());
        }
        true
    }

    /// Puts the servers of pairs where they belong, if anything has been learnt that decides it.
    pub fn place_again(&mut self, rows: &Rows, settings: &MonitorSettings) {
        if std::mem::take(&mut self.is_misplaced) {
            self.placement = self.place(rows, settings);
            self.known.roles.hold(self.placement.writers().clone());
        }
    }

    /// Finds the readers of RDS, and puts them where they belong.
    pub fn find_readers(&mut self, rows: &Rows, settings: &MonitorSettings, now: Instant) {
        let before = self.known.readers.clone();
        self.known.find_readers(rows, now);
        if self.known.readers != before || !before.is_empty() {
            self.placement = self.place(rows, settings);
            self.has_another_plan = true;
        }
    }

    /// Gives the nodes of clusters the roles that follow from what is known.
    pub fn seat(&mut self, rows: &Rows, now: Instant) {
        let changed = self.placement.seat(&mut self.known, rows, now);
        self.note_changes(changed);
    }

    /// Logs and counts nodes that have other roles.
    fn note_changes(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Role(cluster, change) => self.note_role(cluster, change),
                Event::Arrival(cluster, server, Arrival::Came) => {
                    tracing::info!(%server, %cluster, "a node of a cluster was found");
                }
                Event::Arrival(cluster, server, Arrival::Left) => {
                    tracing::warn!(%server, %cluster, "a node that was found is no longer named, and leaves");
                }
                Event::TooMany(cluster, more) => {
                    let most = MOST_FOUND;
                    tracing::warn!(%cluster, most, more, "nodes name more others than are taken into use");
                }
            }
        }
    }

    fn note_role(&mut self, cluster: ClusterId, change: Change) {
        let (server, from, to, reason) = (&change.address, change.from.name(), change.to.name(), &change.why);
        if change.to.serves() {
            tracing::info!(%server, %cluster, from, to, reason, "a node of a cluster has another role");
        } else {
            tracing::warn!(%server, %cluster, from, to, reason, "a node of a cluster is out of use");
        }
        if change.to == NodeRole::Writer {
            self.new_writers.push((cluster, change.address.clone()));
        }
        *self.changes.entry((change.address, to)).or_default() += 1;
    }

    /// Follows which servers are writers of the pairs of `rows`.
    pub fn follow_writers(&mut self, rows: &Rows) {
        self.pair_writers.follow(rows, &self.placement, &self.known);
    }

    /// Records the addresses of host names.
    pub fn learn_names(&mut self, table: NameTable) {
        let before = std::mem::replace(&mut self.names.table, Arc::new(table));
        let after = &self.names.table;
        let updated = after.iter().filter(|(name, addresses)| before.get(*name) != Some(addresses)).count();
        self.names.figures.updated.fetch_add(updated as u64, Ordering::Relaxed);
    }

    /// Counts the results of checks; returns the latency of pings.
    pub fn note(&mut self, records: &[Record], settings: &MonitorSettings) -> BTreeMap<Address, u64> {
        for record in records {
            self.checks.add(record);
            if settings.enabled && LAG_CHECKS.contains(&record.kind) {
                self.note_lag(record);
            }
            if settings.enabled {
                self.health.note(record);
                self.pair_writers.note(record);
            }
        }
        let pings = records.iter().filter(|record| record.kind == &ping::CHECK);
        let latency = |record: &Record| Some((record.address.clone(), *record.outcome.as_ref().ok()?));
        pings.filter_map(latency).collect()
    }

    /// Keeps the lag that a check has found. A failed check changes nothing.
    fn note_lag(&mut self, record: &Record) {
        if record.outcome.is_err() {
            return;
        }
        let (key, at_ms) = ((record.address.clone(), record.kind), record.start_us / 1_000);
        let lag = record.lag_ms.map(|lag_ms| ReplicaLag {
            lag_ms,
            at_ms: u64::try_from(at_ms).unwrap_or(0),
            is_aurora: record.kind == &aurora::CHECK,
        });
        match lag {
            Some(lag) => drop(self.lags.insert(key, lag)),
            None => drop(self.lags.remove(&key)),
        }
    }

    /// Where servers are once `rows` are loaded with `settings`: known roles apply to them too.
    fn place(&self, rows: &Rows, settings: &MonitorSettings) -> Placement {
        placement(rows, settings, &self.known)
    }
}

/// The checks that find lags. What an Aurora replica says of itself comes first: to replication it follows nobody.
pub(super) const LAG_CHECKS: [CheckKind; 2] = [&aurora::CHECK, &replication_lag::CHECK];

/// The settings of the monitor, which are those of no checks if there is none.
fn settings(variables: &Values, monitoring: Monitoring) -> MonitorSettings {
    let settings = variables.for_monitor();
    MonitorSettings { enabled: settings.enabled && monitoring == Monitoring::On, ..settings }
}

/// The same, with the nodes of clusters in the hostgroups of their roles. Without checks, they stay as configured.
fn seated(rows: &Rows, settings: &MonitorSettings, known: &mut Known) -> Placement {
    let mut placement = placement(rows, settings, known);
    if settings.enabled || !known.seats.is_empty() {
        placement.seat(known, rows, Instant::now());
    }
    placement
}

/// The configured servers, with those of pairs where their known roles put them.
fn placement(rows: &Rows, settings: &MonitorSettings, known: &Known) -> Placement {
    Placement::with_readers(rows, known, &settings.pairs())
}

/// The rows that run if `rows` are configured and `known` is known about their servers.
pub fn as_known(rows: &Rows, variables: &Values, known: &Known, monitoring: Monitoring) -> Rows {
    let mut known = known.clone();
    let settings = settings(variables, monitoring);
    let servers = seated(rows, &settings, &mut known).with_states(&known);
    Rows { servers, ..rows.clone() }
}

/// Logs what has been found.
fn tell(finding: &Finding) {
    match finding {
        // The change of a role has a line of its own.
        Finding::Role(..) | Finding::Node(..) | Finding::View(..) | Finding::Roster(..) => {}
        Finding::Defaults(server, what) => {
            tracing::debug!(%server, ?what, "what connections take over from the server has changed");
        }
        Finding::Zone(server, segment) => tracing::debug!(%server, segment, "a node says its segment"),
        Finding::Topology(server, topology) => match topology.switchover {
            BlueGreen::None => {}
            BlueGreen::Runs => {
                tracing::warn!(%server, "a Blue/Green switchover runs: nothing is written to the server until it is over");
            }
            BlueGreen::Over => tracing::info!(%server, "a Blue/Green switchover is over"),
        },
        Finding::Reach(server, Reach::Reachable) => tracing::info!(%server, "a server answers pings again"),
        Finding::Reach(server, Reach::Unreachable) => {
            tracing::warn!(%server, "a server has missed too many pings and is shunned");
        }
        Finding::Lag(server, hostgroup, Lag::Fine, MeasuredLag { behind, limit_s }) => {
            tracing::info!(%server, %hostgroup, lag = %behind, limit_s, "a server has caught up");
        }
        Finding::Lag(server, hostgroup, Lag::TooMuch, MeasuredLag { behind, limit_s }) => {
            tracing::warn!(%server, %hostgroup, lag = %behind, limit_s, "a server is too far behind and is shunned");
        }
    }
}

/// Logs a change of a server's role.
fn tell_role(server: &Address, role: ServerRole) {
    match role {
        ServerRole::Writer => tracing::info!(%server, "a server may be written to"),
        ServerRole::Reader => tracing::info!(%server, "a server is read-only"),
        ServerRole::Silent => {
            tracing::warn!(%server, "a server has not answered several checks of read_only, and counts as read-only");
        }
    }
}
