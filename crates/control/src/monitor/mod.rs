//! The monitor: checks servers at intervals, on a separate thread, and reports to the control thread what it finds.
//!
//! It decides what a result means ([`ping`], [`read_only`], [`replication_lag`], [`cluster`]); [`placement`] decides the
//! consequences, on the control thread, the only one that changes the runtime. Connections are opened as workers open
//! theirs, with the same TLS settings and authentication.

pub mod check;
pub mod cluster;
mod connect;
pub mod connections;
pub mod finding;
pub mod found_readers;
pub mod health;
pub mod log;
pub mod names;
pub mod ping;
pub mod placement;
pub mod plan;
pub mod position;
pub mod rds_topology;
pub mod read_only;
pub mod replication_lag;
mod report;
mod report_queue;
pub mod role;
pub mod roles;
mod rounds;
pub mod settings;
pub mod trial;
mod watch;

use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use narrows_proxy::hostgroup::Demand;
use narrows_proxy::rt::{self, Instant, MailboxReceiver, MailboxSender, sleep_until, spawn_local};

use crate::urgency::Urgency;
use check::CheckKind;
use names::Resolver;
use plan::{Address, Plan};
pub use report::Report;
use report_queue::ReportQueue;
use rounds::Rounds;
use watch::Watch;

/// Every kind of check.
pub static CHECKS: [CheckKind; 7] = [
    &connect::CHECK,
    &ping::CHECK,
    &read_only::CHECK,
    &replication_lag::CHECK,
    &cluster::galera::CHECK,
    &cluster::group_replication::CHECK,
    &cluster::aurora::CHECK,
];

/// Whether the monitor runs at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Monitoring {
    /// It runs, subject to `mysql-monitor_enabled`.
    On,
    /// It does not run, whatever the variable says.
    Off,
}

/// The handle of the monitor, which ends when this is dropped.
#[derive(Debug)]
pub struct Monitor {
    plans: MailboxSender<Plan>,
    alarms: MailboxSender<Arc<Demand>>,
}

impl Monitor {
    /// Starts the thread. It checks nothing until it has a plan. `urgency` interrupts what keeps `control` busy when
    /// something has been found.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start<M>(control: Sender<M>, urgency: Urgency) -> io::Result<Monitor>
    where
        M: From<Report> + Send + 'static,
    {
        let ((plans, mailbox), (alarms, alarmed)) = (rt::mailbox(), rt::mailbox());
        let run = move || {
            if let Err(error) = rt::block_on(run((mailbox, alarmed), control, urgency)) {
                tracing::error!(%error, "the monitor cannot start");
            }
        };
        std::thread::Builder::new().name("monitor".to_owned()).spawn(run)?;
        Ok(Monitor { plans, alarms })
    }

    /// Where it hears which writer hostgroups are doubtful, because of what happened to statements.
    pub fn alarms(&self) -> MailboxSender<Arc<Demand>> {
        self.alarms.clone()
    }

    /// Gives the monitor another plan.
    pub fn follow(&self, plan: Plan) {
        // A monitor that has ended has reported the reason.
        let _ = self.plans.send(plan);
    }
}

async fn run<M>(
    (mut plans, mut alarms): (MailboxReceiver<Plan>, MailboxReceiver<Arc<Demand>>),
    control: Sender<M>,
    urgency: Urgency,
) where
    M: From<Report> + 'static,
{
    let reports = Rc::new(ReportQueue::new(urgency));
    spawn_local(Rc::clone(&reports).tell(control));
    let resolver = Rc::new(Resolver::new(&reports));
    spawn_local(Rc::clone(&resolver).run());
    let mut watches: BTreeMap<Address, Watch> = BTreeMap::new();
    let mut rounds = Rounds::default();
    loop {
        let due = rounds.next(Instant::now());
        let plan = rt::select! {
            plan = plans.recv() => plan,
            () = resolver.moved.notified() => {
                watches.values().for_each(Watch::follow_names);
                continue;
            }
            Some(alarm) = alarms.recv() => {
                rounds.ask(alarm);
                continue;
            }
            () = sleep_until(due) => {
                for writers in rounds.begin(Instant::now()) {
                    watches.values().for_each(|watch| watch.check_now(writers));
                }
                continue;
            }
        };
        let Some(Plan { settings, access, targets }) = plan else { return };
        let targets = if settings.enabled { targets } else { Vec::new() };
        reports.set(settings);
        resolver.follow(&targets);
        watches.retain(|address, _| targets.iter().any(|target| target.address == *address));
        let spread = (SPREAD_PER_SERVER * u32::try_from(targets.len()).unwrap_or(u32::MAX)).max(LEAST_SPREAD);
        for target in &targets {
            match watches.get_mut(&target.address) {
                Some(watch) => watch.follow(target, &access),
                None => {
                    let watch = Watch::new(&reports, &resolver, target, &access, spread);
                    watches.insert(target.address.clone(), watch);
                }
            }
        }
    }
}

/// The time per server over which the first checks of all servers are spread, so that a thousand are not connected to
/// at once.
const SPREAD_PER_SERVER: Duration = Duration::from_millis(10);

/// The minimum spread, if there are few servers.
const LEAST_SPREAD: Duration = Duration::from_millis(500);
