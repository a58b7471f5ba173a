//! What runs: the data plane, the current servers, and the admin interface's listeners.
//!
//! [`load`] applies configuration, [`learn`] the monitor's findings, and [`serve`] stops and starts. The store, which
//! holds the configuration, is passed in; workers only receive messages.

mod admin;
mod fleet;
mod fleet_questions;
mod fleet_trial;
mod hold;
mod hour;
mod http;
mod keys;
mod learn;
mod load;
mod pair_writers;
mod plan;
mod plane;
mod process;
mod remarks;
mod scheduler;
mod secrets;
mod serve;
mod servers;
mod switchover;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use narrows_proxy::hostgroup::NameFigures;
use narrows_proxy::server::{DataPlane, Listening, Pulse, RecordLogs};
use narrows_proxy::snapshot::{HostgroupId, Rows, Snapshot};
use narrows_proxy::sockets::Sockets;
use narrows_proxy::stats::Observer;
use narrows_proxy::tls::Tls;

use crate::holds::Holds;
use crate::monitor::Monitor;
use crate::monitor::cluster::seats::Seats;
use crate::monitor::health::Health;
use crate::monitor::log::CheckCounts;
use crate::monitor::placement::Known;
use crate::monitor::plan::{Address, MonitorLogin, Plan};
use crate::monitor::settings::MonitorSettings;
use crate::query_log::kept::Kept;
use crate::scheduler::Scheduler;
use crate::secrets::{self as passwords, SecretWatch, Secrets};
use crate::store::Store;
use crate::switchover::{Journal, SwitchoverOrder};
use crate::tls::KeyFile;
use crate::tokens::TokenKeeper;
pub use admin::{AdminListeners, BeginError};
pub use fleet::{ChangeState, FleetMember};
pub use http::HttpListeners;
pub use load::Strictness;
pub use plan::{ChangePlan, ClientEffect, ServerEffect};
pub use plane::Plane;
pub use process::{End, Process};
use servers::Servers;
pub use servers::as_known;
use switchover::Switchover;

/// The running parts of the program.
pub struct Runtime {
    plane: Plane,
    /// The loaded configuration, with passwords where the store has references.
    rows: Rows,
    secrets: Secrets,
    watch: Option<SecretWatch>,
    /// Keeps the keys of issuers.
    tokens: TokenKeeper,
    key_files: Vec<KeyFile>,
    expiry: keys::ExpiryWarnings,
    /// The current servers, which are not always where they are configured.
    servers: Servers,
    listeners: AdminListeners,
    http: HttpListeners,
    scheduler: Scheduler,
    /// The folder of everything that is written.
    datadir: PathBuf,
    logs: RecordLogs,
    /// The rows of `stats_mysql_query_events`.
    events: Kept,
    sockets: Arc<dyn Sockets>,
    keep: Option<Keep>,
    /// Before that, edits of memory are not kept again.
    keeps_again: Instant,
    on_pulse: OnPulse,
    set_log_levels: SetLogLevels,
    /// The hostgroups that are held.
    holds: Holds,
    switchover: Option<Switchover>,
    begin_work: BeginSwitchover,
    plans: plan::Plans,
    /// How often statements ran within the last hour.
    hour: hour::RecentCounts,
    fleet: Option<FleetMember>,
}

/// What runs when the control thread starts.
pub struct Begun {
    /// The data plane.
    pub plane: DataPlane,
    /// The configuration; the data plane runs with it [`as_known`].
    pub rows: Rows,
    /// What its references lead to.
    pub secrets: Secrets,
    /// The files that its keys and certificates are from.
    pub key_files: Vec<KeyFile>,
    /// What keeps the keys of the issuers in `rows`.
    pub tokens: TokenKeeper,
    /// What is known about servers.
    pub known: Known,
    /// The hostgroups that are held; the data plane holds them.
    pub holds: Holds,
    /// Where listening sockets come from.
    pub sockets: Arc<dyn Sockets>,
    /// Keeps what runs for the next process.
    pub keep: Option<Keep>,
    /// The folder of everything that is written.
    pub datadir: PathBuf,
    /// What starts the programs of the scheduler, as [`crate::scheduler::Surroundings`] has it.
    pub job_starter: Option<PathBuf>,
    /// The query log and the audit log.
    pub logs: RecordLogs,
    /// Notified when the serving workers change.
    pub on_pulse: OnPulse,
    /// Sets which lines the log has.
    pub set_log_levels: SetLogLevels,
}

/// Begins a switchover, whose wishes then reach the control thread.
pub type BeginSwitchover = Box<dyn Fn(SwitchoverOrder, Observer, Journal) -> io::Result<()> + Send>;

/// Receives the levels of the log (`admin-log_level`); returns why they cannot be used.
pub type SetLogLevels = Box<dyn Fn(&str) -> Result<(), String> + Send>;

/// Receives the bytes of [`Store::freeze`] each time what runs has changed.
pub type Keep = Box<dyn Fn(&[u8]) + Send>;

/// Receives the pulse of the workers that serve now; `None`: none serves.
pub type OnPulse = Box<dyn Fn(Option<Pulse>) + Send>;

impl Runtime {
    /// The running state, with the monitor (`None`: there is none), the listeners for administrators, and the scheduler.
    pub fn new(
        store: &mut Store,
        mut begun: Begun,
        monitor: Option<Monitor>,
        (listeners, http): (AdminListeners, HttpListeners),
        scheduler: Scheduler,
        begin_work: BeginSwitchover,
    ) -> Runtime {
        monitor.iter().for_each(|monitor| begun.plane.raise_alarms_at(monitor.alarms()));
        let mut runtime = Runtime {
            servers: Servers::new(monitor, &begun.rows, store.variables(), begun.known),
            plane: Plane::Running(begun.plane),
            rows: begun.rows,
            secrets: begun.secrets,
            key_files: begun.key_files,
            expiry: keys::ExpiryWarnings::default(),
            watch: None,
            tokens: begun.tokens,
            listeners,
            http,
            scheduler,
            datadir: begun.datadir,
            logs: begun.logs,
            events: Kept::default(),
            sockets: begun.sockets,
            keep: begun.keep,
            keeps_again: Instant::now(),
            on_pulse: begun.on_pulse,
            set_log_levels: begun.set_log_levels,
            switchover: begun.holds.take_cut_off().map(|it| Switchover::cut_off(&it)),
            holds: begun.holds,
            begin_work,
            plans: plan::Plans::default(),
            hour: hour::RecentCounts::new(std::time::Instant::now()),
            fleet: None,
        };
        if runtime.servers.monitor.is_some() {
            store.show_servers(&runtime.servers.placed_rows());
        }
        runtime.schedule(store).into_iter().for_each(|fault| tracing::warn!("{fault}"));
        runtime.set_log_levels(store).into_iter().for_each(|remark| tracing::warn!("{remark}"));
        runtime.announce_plan(store);
        runtime.keep_what_runs(store);
        runtime
    }

    /// The handle for querying the workers; `None` while there are none.
    pub fn observer(&self) -> Option<Observer> {
        self.plane.running().map(DataPlane::observer)
    }

    /// How many servers take writes in each writer hostgroup of a replication pair.
    pub fn pair_writers(&self) -> impl Iterator<Item = (HostgroupId, usize)> {
        self.servers.pair_writers.counts()
    }

    /// The running data plane; `None` while it is stopped.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.plane.running().map(|plane| plane.snapshot().as_ref())
    }

    /// Whether clients are accepted; `None` while nothing runs.
    pub fn listening(&self) -> Option<Listening> {
        self.plane.running().map(DataPlane::listening)
    }

    /// The first address for clients.
    pub fn first_listener(&self) -> (String, u16) {
        let address = self.plane.running().and_then(|plane| plane.addresses().first().cloned());
        let address = address.unwrap_or_default();
        match address.rsplit_once(':') {
            Some((host, port)) => (host.to_owned(), port.parse().unwrap_or(0)),
            None => (String::new(), 0),
        }
    }

    /// The only active user, if there is exactly one.
    pub fn only_user(&self) -> Option<String> {
        let mut active = self.rows.users.iter().filter(|user| user.active);
        let first = active.next()?;
        active.next().is_none().then(|| first.username.clone())
    }

    /// The listening addresses for clients and for administrators.
    pub fn listeners(&self) -> (Vec<String>, &[String]) {
        let clients = self.plane.running().map(|plane| plane.addresses().to_vec());
        (clients.unwrap_or_default(), self.listeners.interfaces())
    }

    /// The folder of everything that is written.
    pub fn datadir(&self) -> &Path {
        &self.datadir
    }

    /// How many times servers were loaded.
    pub fn servers_version(&self) -> u64 {
        self.servers.version
    }

    /// The number of checks, by kind.
    pub fn check_counts(&self) -> &CheckCounts {
        &self.servers.checks
    }

    /// How many times servers have changed, by address and change.
    pub fn server_changes(&self) -> &BTreeMap<(Address, &'static str), u64> {
        &self.servers.changes
    }

    /// The nodes of clusters.
    pub fn seats(&self) -> &Seats {
        &self.servers.known.seats
    }

    /// Keys and certificates in use.
    pub fn tls(&self) -> &Tls {
        &self.rows.tls
    }

    /// The state of the servers' checks; `None`: there is no monitor.
    pub fn health(&self, store: &Store) -> Option<&Health> {
        let is_on = self.servers.monitor.is_some() && store.variables().for_monitor().enabled;
        is_on.then_some(&self.servers.health)
    }

    /// The counters of host names.
    pub fn name_figures(&self) -> &NameFigures {
        &self.servers.names.figures
    }

    /// The query log and the audit log.
    pub fn logs(&self) -> &RecordLogs {
        &self.logs
    }

    /// The records that are rows of `stats_mysql_query_events`.
    pub fn events(&self) -> &Kept {
        &self.events
    }

    /// The same, to be changed.
    pub fn events_mut(&mut self) -> &mut Kept {
        &mut self.events
    }

    /// Makes the log have the lines that the variable says; returns a remark if it cannot.
    fn set_log_levels(&self, store: &Store) -> Option<String> {
        let levels = store.variable("admin-log_level").unwrap_or_default();
        let refused = (self.set_log_levels)(&levels).err()?;
        Some(format!("admin-log_level: the levels of the log stay as they are: {refused}"))
    }

    /// Gives the monitor its plan: what to check, and how.
    fn announce_plan(&self, store: &Store) {
        let Some(monitor) = &self.servers.monitor else { return };
        let mut settings = store.variables().for_monitor();
        settings.asks_positions = self.plane.running().is_some_and(|plane| plane.snapshot().tracks_gtids);
        let access = self.access_of_monitor(&settings);
        let targets = self.servers.targets(&self.rows);
        monitor.follow(Plan { settings, access, targets });
    }

    /// How the monitor logs in to servers.
    fn access_of_monitor(&self, settings: &MonitorSettings) -> MonitorLogin {
        MonitorLogin {
            username: settings.username.clone(),
            // Servers refuse the monitor while its password is not known.
            password: self.secrets.value(&settings.password).unwrap_or_default().to_owned(),
            tokens: passwords::tokens(&settings.password),
            tls: self.rows.tls.clone(),
            may_ask_for_key: self.rows.variables.get_server_public_key,
        }
    }

    /// Saves what runs and what is in memory for the next process.
    fn keep_what_runs(&mut self, store: &mut Store) {
        let Some(keep) = &self.keep else { return };
        let began = Instant::now();
        keep(&store.freeze(&self.servers.known, &self.holds));
        self.keeps_again = began + began.elapsed() * KEEPING;
    }

    /// The same after edits of memory: at once, or soon, if many follow each other.
    pub fn keep_edits(&mut self, store: &mut Store) {
        if store.is_unkept() && Instant::now() >= self.keeps_again {
            self.keep_what_runs(store);
        }
    }

    /// When edits that were not kept are to be.
    pub fn keeps_again(&self, store: &Store) -> Option<Instant> {
        (self.keep.is_some() && store.is_unkept()).then_some(self.keeps_again)
    }

    /// Releases everything but the data plane.
    pub fn into_plane(self) -> Plane {
        self.plane
    }
}

/// Edits are kept this many times less often than keeping them takes: many statements in a row, of a script, are kept together.
const KEEPING: u32 = 5;
