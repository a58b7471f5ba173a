//! The current servers: the configuration, overlaid with what the monitor has found.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use narrows_proxy::hostgroup::{NameTable, Names};
use narrows_proxy::snapshot::{Rows, ServerRow};

use crate::monitor::Monitor;
use crate::monitor::finding::{Finding, Lag, MeasuredLag, Reach, ServerRole};
use crate::monitor::health::Health;
use crate::monitor::log::{CheckCounts, Record};
use crate::monitor::ping;
use crate::monitor::placement::{Known, Placement};
use crate::monitor::plan::{Address, Target, targets};
use crate::monitor::settings::MonitorSettings;
use crate::schema::Module;
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
    pub names: Names,
    pub checks: CheckCounts,
    pub health: Health,
    /// How many times servers have changed, by address and change.
    pub changes: BTreeMap<(Address, &'static str), u64>,
    pub purged: Instant,
    /// How many times servers were loaded or moved.
    pub version: u64,
}

impl Servers {
    /// The configured servers, with what is known about them.
    pub fn new(monitor: Option<Monitor>, rows: &Rows, variables: &Values, known: Known) -> Servers {
        let placement = placement(rows, &variables.for_monitor(), &known);
        Servers {
            monitor,
            running: placement.with_states(&known),
            placement,
            known,
            latencies_us: BTreeMap::new(),
            names: Names::default(),
            checks: CheckCounts::default(),
            health: Health::default(),
            changes: BTreeMap::new(),
            purged: Instant::now(),
            version: 1,
        }
    }

    /// The rows to run in place of `rows`, of which `module` is loaded, and where servers then are.
    pub fn placed(
        &mut self,
        module: Module,
        rows: &Rows,
        before: &MonitorSettings,
        settings: &MonitorSettings,
    ) -> (Rows, Placement) {
        if !settings.enabled {
            self.known.forget_health();
            self.health.forget();
        } else if module == Module::MysqlServers {
            let targets = targets(&rows.servers, rows);
            self.known.keep(&targets);
            self.health.keep(&targets);
            let is_known = |address: &Address| targets.iter().any(|target| target.address == *address);
            self.latencies_us.retain(|address, _| is_known(address));
            self.changes.retain(|(address, _), _| is_known(address));
        }
        let anew =
            module == Module::MysqlServers || before.writer_is_also_reader != settings.writer_is_also_reader;
        let placement = if anew { self.place(rows, settings) } else { self.placement.clone() };
        let servers = placement.with_states(&self.known);
        (Rows { servers, names: self.names.clone(), ..rows.clone() }, placement)
    }

    /// Records what has been applied.
    pub fn follow(&mut self, servers: Vec<ServerRow>, placement: Placement) {
        self.placement = placement;
        self.running = servers;
    }

    /// The rows that run, or would run if the data plane were running.
    pub fn over(&self, rows: &Rows) -> Rows {
        Rows { servers: self.running.clone(), names: self.names.clone(), ..rows.clone() }
    }

    /// The monitor's plan.
    pub fn targets(&self, rows: &Rows) -> Vec<Target> {
        targets(self.placement.rows(), rows)
    }

    /// Records a finding about a server; returns whether it is new.
    pub fn learn(&mut self, finding: &Finding, rows: &Rows, settings: &MonitorSettings) -> bool {
        if !settings.enabled || !self.known.learn(finding) {
            return false;
        }
        tell(finding);
        let (server, change) = finding.change();
        *self.changes.entry((server.clone(), change)).or_default() += 1;
        if let Finding::Role(address, check_type, role) = finding {
            let pairs = &rows.replication_hostgroups;
            self.placement.place(pairs, (address, *check_type), *role, settings.writer_is_also_reader);
        }
        true
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
            if settings.enabled {
                self.health.note(record);
            }
        }
        let pings = records.iter().filter(|record| record.kind == &ping::CHECK);
        let latency = |record: &Record| Some((record.address.clone(), *record.outcome.as_ref().ok()?));
        pings.filter_map(latency).collect()
    }

    /// Where servers are once `rows` are loaded with `settings`: known roles apply to them too.
    fn place(&self, rows: &Rows, settings: &MonitorSettings) -> Placement {
        placement(rows, settings, &self.known)
    }
}

fn placement(rows: &Rows, settings: &MonitorSettings, known: &Known) -> Placement {
    let pairs = &rows.replication_hostgroups;
    Placement::new(&rows.servers, pairs, known, settings.writer_is_also_reader)
}

/// The rows that run if `rows` are configured and `known` is known about their servers.
pub fn as_known(rows: &Rows, variables: &Values, known: &Known) -> Rows {
    let servers = placement(rows, &variables.for_monitor(), known).with_states(known);
    Rows { servers, ..rows.clone() }
}

/// Logs what has been found.
fn tell(finding: &Finding) {
    match finding {
        Finding::Reach(server, Reach::Reachable) => tracing::info!(%server, "a server answers pings again"),
        Finding::Reach(server, Reach::Unreachable) => {
            tracing::warn!(%server, "a server has missed too many pings and is shunned");
        }
        Finding::Role(server, _, ServerRole::Writer) => tracing::info!(%server, "a server may be written to"),
        Finding::Role(server, _, ServerRole::Reader) => tracing::info!(%server, "a server is read-only"),
        Finding::Lag(server, hostgroup, Lag::Fine, MeasuredLag { behind, limit_s }) => {
            tracing::info!(%server, %hostgroup, lag = %behind, limit_s, "a server has caught up");
        }
        Finding::Lag(server, hostgroup, Lag::TooMuch, MeasuredLag { behind, limit_s }) => {
            tracing::warn!(%server, %hostgroup, lag = %behind, limit_s, "a server is too far behind and is shunned");
        }
    }
}
