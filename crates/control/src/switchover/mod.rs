//! Planned switchovers: another server of a replication pair becomes the primary, while clients wait.
//!
//! [`plan`] decides what is to be done from what the servers say ([`facts`]), and [`dialect`] spells it; neither has a
//! connection. [`run`] does it on a thread of its own, with the account of the monitor, and undoes it if it cannot be
//! finished. It holds clients and changes roles by asking the control thread ([`Wanted`]).

mod account;
mod dialect;
mod facts;
mod fault;
mod gather;
mod journal;
mod link;
mod plan;
mod run;

use std::io;
use std::sync::mpsc::Sender;
use std::time::Duration;

use narrows_proxy::rt::{self, oneshot};
use narrows_proxy::snapshot::HostgroupId;
use narrows_proxy::stats::Observer;

use crate::monitor::finding::Finding;
use crate::monitor::plan::{MonitorLogin, Target};
pub use journal::{Journal, Step, StepState};
pub use plan::Wish;

/// A switchover that an administrator wants.
#[derive(Debug, Clone)]
pub struct SwitchoverOrder {
    /// What is wanted.
    pub wish: Wish,
    /// The primary.
    pub old: Target,
    /// The one that is to be primary.
    pub new: Target,
    /// The other servers of the pair.
    pub others: Vec<Target>,
    /// The account that runs the statements.
    pub access: MonitorLogin,
    /// Who wants it.
    pub by: String,
    /// Whether it is only shown.
    pub is_dry: bool,
}

/// What a switchover wants from the control thread.
#[derive(Debug)]
pub enum Wanted {
    /// Hold a hostgroup.
    Hold {
        /// The hostgroup.
        hostgroup: HostgroupId,
        /// For how long at most.
        length: Duration,
        /// What holds it.
        by: String,
        /// Signalled when it is held.
        done: oneshot::Sender<()>,
    },
    /// Servers have other roles now.
    Roles {
        /// Which ones.
        findings: Vec<Finding>,
        /// Signalled when they are in force.
        done: oneshot::Sender<()>,
    },
    /// The hostgroup is not held any more.
    Released {
        /// The hostgroup.
        hostgroup: HostgroupId,
        /// Signalled when the next process would know it.
        done: oneshot::Sender<()>,
    },
    /// It has ended.
    Ended(HostgroupId),
}

/// Begins a switchover on a thread of its own, which asks `control` and writes `journal`.
///
/// # Errors
/// The thread cannot be started.
pub fn begin<M>(
    order: SwitchoverOrder,
    observer: Observer,
    control: Sender<M>,
    journal: Journal,
) -> io::Result<()>
where
    M: From<Wanted> + Send + 'static,
{
    let work = move || {
        let (also, hostgroup) = (journal.clone(), order.wish.hostgroup);
        let ended = control.clone();
        let ask = move |wanted: Wanted| control.send(wanted.into()).is_ok();
        let outcome = rt::block_on(run::run(order, observer, Box::new(ask), journal));
        let outcome = outcome.unwrap_or_else(|error| Err(format!("no thread for it: {error}")));
        if let Err(reason) = &outcome {
            tracing::warn!(%hostgroup, reason, "a switchover was not made");
        }
        also.end(outcome);
        // A control thread that has ended keeps nothing.
        let _ = ended.send(Wanted::Ended(hostgroup).into());
    };
    std::thread::Builder::new().name("switchover".to_owned()).spawn(work).map(drop)
}
