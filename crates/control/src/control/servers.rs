//! Servers as they are: what the monitor finds, laid over what is configured, and put into force.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use narrows_proxy::hostgroup::{NameFigures, Names};
use narrows_proxy::server::DataPlane;
use narrows_proxy::snapshot::{Rows, ServerRow};

use super::Control;
use crate::monitor::health::Health;
use crate::monitor::log::{CheckCounts, Kind, Record};
use crate::monitor::ping::Reach;
use crate::monitor::placement::{Finding, Known, Placement};
use crate::monitor::plan::{Access, Address, Plan, targets};
use crate::monitor::read_only::Role;
use crate::monitor::replication_lag::{Lag, Seen};
use crate::monitor::settings::Settings;
use crate::monitor::{Monitor, Report};
use crate::schema::Module;
use crate::variables::Values;

/// Whether servers are checked at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Monitoring {
    /// They are, as far as `mysql-monitor_enabled` says so.
    On,
    /// They are not, whatever it says.
    Off,
}

/// What is known of servers, and where they are.
pub(super) struct Servers {
    /// `None`: nobody checks.
    monitor: Option<Monitor>,
    known: Known,
    placement: Placement,
    /// What the data plane has.
    running: Vec<ServerRow>,
    latencies_us: BTreeMap<Address, u64>,
    names: Names,
    checks: CheckCounts,
    health: Health,
    purged: Instant,
}

impl Servers {
    /// Those that are configured, with what is known of them.
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
            purged: Instant::now(),
        }
    }

    /// Where servers are once `rows` are loaded with `settings`: what is known of their roles holds for them too.
    fn place(&self, rows: &Rows, settings: &Settings) -> Placement {
        placement(rows, settings, &self.known)
    }
}

fn placement(rows: &Rows, settings: &Settings, known: &Known) -> Placement {
    let pairs = &rows.replication_hostgroups;
    Placement::new(&rows.servers, pairs, known, settings.writer_is_also_reader)
}

/// What runs where `rows` are configured and `known` is known of their servers.
pub fn as_known(rows: &Rows, variables: &Values, known: &Known) -> Rows {
    let servers = placement(rows, &variables.for_monitor(), known).with_states(known);
    Rows { servers, ..rows.clone() }
}

impl Control {
    /// The rows that are to run in the place of `rows`, of which `module` is loaded, and where servers are then.
    pub(super) fn placed(&mut self, module: Module, rows: &Rows, variables: &Values) -> (Rows, Placement) {
        let (before, settings) = (self.store.variables().for_monitor(), variables.for_monitor());
        if module == Module::MysqlServers
            && let Some(plane) = self.plane.running()
        {
            plane.end_shuns();
        }
        if !settings.enabled {
            self.servers.known.forget_health();
            self.servers.health.forget();
        } else if module == Module::MysqlServers {
            let targets = targets(&rows.servers, rows);
            self.servers.known.keep(&targets);
            self.servers.health.keep(&targets);
            self.servers
                .latencies_us
                .retain(|address, _| targets.iter().any(|target| target.address == *address));
        }
        let anew =
            module == Module::MysqlServers || before.writer_is_also_reader != settings.writer_is_also_reader;
        let placement =
            if anew { self.servers.place(rows, &settings) } else { self.servers.placement.clone() };
        let servers = placement.with_states(&self.servers.known);
        (Rows { servers, names: self.servers.names.clone(), ..rows.clone() }, placement)
    }

    /// Notes what has been put into force, and has the monitor follow.
    pub(super) fn follow(&mut self, servers: Vec<ServerRow>, placement: Placement) {
        self.servers.placement = placement;
        self.servers.running = servers;
        if self.servers.monitor.is_some() {
            self.store.show_servers(&self.servers.running);
        }
        self.announce_latencies(&self.servers.latencies_us);
        self.announce_plan();
    }

    /// Tells the monitor what to check, and how.
    pub(super) fn announce_plan(&self) {
        let Some(monitor) = &self.servers.monitor else { return };
        let settings = self.store.variables().for_monitor();
        let access = Access {
            username: settings.username.clone(),
            password: settings.password.clone(),
            tls: self.rows.tls.clone(),
            may_ask_for_key: self.rows.variables.get_server_public_key,
        };
        let targets = targets(self.servers.placement.rows(), &self.rows);
        monitor.follow(Plan { settings, access, targets });
    }

    /// How many checks there were.
    pub fn check_counts(&self) -> &CheckCounts {
        &self.servers.checks
    }

    /// How the checks of servers fare; `None`: nobody checks.
    pub fn health(&self) -> Option<&Health> {
        let is_on = self.servers.monitor.is_some() && self.store.variables().for_monitor().enabled;
        is_on.then_some(&self.servers.health)
    }

    /// The rows that run, or would if anything did.
    pub(super) fn running_rows(&self) -> Rows {
        Rows { servers: self.servers.running.clone(), names: self.servers.names.clone(), ..self.rows.clone() }
    }

    /// Takes what the monitor has found.
    pub(super) fn learn(&mut self, report: Report) {
        let settings = self.store.variables().for_monitor();
        let mut changed = false;
        for finding in &report.findings {
            if !settings.enabled || !self.servers.known.learn(finding) {
                continue;
            }
            changed = true;
            tell(finding);
            if let Finding::Role(address, check_type, role) = finding {
                let pairs = &self.rows.replication_hostgroups;
                let also = settings.writer_is_also_reader;
                self.servers.placement.place(pairs, (address, *check_type), *role, also);
            }
        }
        if let Some(table) = report.names {
            let before = std::mem::replace(&mut self.servers.names.table, Arc::new(table));
            let after = &self.servers.names.table;
            let updated =
                after.iter().filter(|(name, addresses)| before.get(*name) != Some(addresses)).count();
            self.servers.names.figures.updated.fetch_add(updated as u64, Ordering::Relaxed);
            self.publish_servers(self.servers.running.clone());
        }
        if changed {
            self.put_into_force();
        }
        self.keep_records(&report.records, &settings);
        // A monitor that has ended reports no more.
        let _ = report.taken.send(());
    }

    /// Has workers know what has changed.
    fn put_into_force(&mut self) {
        let servers = self.servers.placement.with_states(&self.servers.known);
        if servers == self.servers.running {
            return;
        }
        if !self.publish_servers(servers.clone()) {
            return;
        }
        self.servers_version += 1;
        let placement = std::mem::take(&mut self.servers.placement);
        self.follow(servers, placement);
        self.keep_what_runs();
    }

    /// Has workers use these servers; whether they do.
    fn publish_servers(&mut self, servers: Vec<ServerRow>) -> bool {
        let rows = Rows { servers, names: self.servers.names.clone(), ..self.rows.clone() };
        if let Err(error) = self.plane.publish(rows) {
            // Nothing but servers is another, and no server is a reason to refuse.
            tracing::error!(%error, "what the monitor has found cannot be put into force");
            return false;
        }
        true
    }

    /// What is counted of host names.
    pub fn name_figures(&self) -> &NameFigures {
        &self.servers.names.figures
    }

    /// Writes down what runs, for the process that comes after this one.
    pub(super) fn keep_what_runs(&self) {
        if let Some(keep) = &self.keep {
            keep(&self.store.freeze(&self.servers.known));
        }
    }

    fn keep_records(&mut self, records: &[Record], settings: &Settings) {
        for record in records {
            self.servers.checks.add(record);
            if settings.enabled {
                self.servers.health.note(record);
            }
        }
        let pings = records.iter().filter(|record| record.kind == Kind::Ping);
        let latency = |record: &Record| Some((record.address.clone(), *record.outcome.as_ref().ok()?));
        let latencies: BTreeMap<Address, u64> = pings.filter_map(latency).collect();
        self.announce_latencies(&latencies);
        self.servers.latencies_us.extend(latencies);
        if let Err(refusal) = self.store.record(records) {
            tracing::warn!(reason = refusal.message, "results of checks are not kept");
        }
        if self.servers.purged.elapsed() < PURGE_INTERVAL {
            return;
        }
        self.servers.purged = Instant::now();
        let intervals = [settings.connect, settings.ping, settings.read_only, settings.replication_lag];
        let longest = intervals.into_iter().map(|timing| timing.interval).max().unwrap_or_default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let oldest = now.saturating_sub(settings.history.max(longest));
        if let Err(refusal) = self.store.forget_records_before(i64::try_from(oldest.as_micros()).unwrap_or(0))
        {
            tracing::warn!(reason = refusal.message, "old results of checks are not deleted");
        }
    }

    /// Tells the data plane how long pings have taken.
    fn announce_latencies(&self, latencies_us: &BTreeMap<Address, u64>) {
        let Some(snapshot) = self.plane.running().map(DataPlane::snapshot) else { return };
        let latencies_us: HashMap<(&str, u16), u64> =
            latencies_us.iter().map(|(of, us)| ((of.hostname.as_str(), of.port), *us)).collect();
        for server in snapshot.hostgroups.values().flat_map(|hostgroup| &hostgroup.servers) {
            if let Some(latency_us) = latencies_us.get(&(server.row.hostname.as_str(), server.row.port)) {
                server.figures.set_latency_us(*latency_us);
            }
        }
    }
}

/// Says in the log what has been found.
fn tell(finding: &Finding) {
    match finding {
        Finding::Reach(server, Reach::Reachable) => tracing::info!(%server, "a server answers pings again"),
        Finding::Reach(server, Reach::Unreachable) => {
            tracing::warn!(%server, "a server has missed too many pings and is shunned");
        }
        Finding::Role(server, _, Role::Writer) => tracing::info!(%server, "a server may be written to"),
        Finding::Role(server, _, Role::Reader) => tracing::info!(%server, "a server is read-only"),
        Finding::Lag(server, hostgroup, Lag::Fine, Seen { behind, limit_s }) => {
            tracing::info!(%server, %hostgroup, lag = %behind, limit_s, "a server has caught up");
        }
        Finding::Lag(server, hostgroup, Lag::TooMuch, Seen { behind, limit_s }) => {
            tracing::warn!(%server, %hostgroup, lag = %behind, limit_s, "a server is too far behind and is shunned");
        }
    }
}

/// Old results are looked for this often.
const PURGE_INTERVAL: Duration = Duration::from_secs(5);
