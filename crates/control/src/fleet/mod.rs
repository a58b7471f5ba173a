//! A fleet: many Narrows with one configuration, whose versions are in etcd.
//!
//! [`member`] decides what one Narrows does about what etcd says, and [`trial`] what becomes of a version that some try first;
//! neither has a connection. [`run`] is the thread that speaks to etcd. It makes a version the configuration by asking the control
//! thread ([`FleetWish`]), which tells it what runs and what an administrator wants ([`FleetOrder`]).

mod address;
mod claim;
mod duty;
mod etcd;
mod figures;
mod keys;
mod member;
mod own;
mod propose;
mod record;
mod report;
mod run;
mod standing;
mod taken_back;
mod transaction;
mod trial;

use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use narrows_proxy::rt::{self, MailboxSender, oneshot};

use crate::config::bootstrap::FleetSettings;
use crate::versions::{FleetMark, FleetPlace};
pub use duty::{NeededHostgroup, TrialDuty};
pub use figures::{FiguresWish, FleetFigures, MemberFigures};
pub use member::{FleetTrial, MemberState, Mismatch, RefusedVersion, Seen};
pub use own::shared;
pub use propose::{Audience, Proposal, TrialWish};
pub use record::{FleetVersion, LONGEST_TRIAL};
pub use report::{ModuleReport, NodeReport};
pub use taken_back::TakenBack;

/// What the fleet wants from the control thread: a version is to be the configuration.
#[derive(Debug)]
pub struct FleetWish {
    /// Which one it is, and where it was found.
    pub place: FleetPlace,
    /// What it holds.
    pub version: Box<FleetVersion>,
    /// Receives what is to be proven about it, if it is on trial, or why it cannot be applied.
    pub done: oneshot::Sender<Result<Option<TrialDuty>, String>>,
}

/// What the control thread tells and asks. There are few of each: it sends no other proposal before one was answered, asks for as
/// many administrators as it waits for, and sends [`FleetOrder::Status`] once a second.
#[derive(Debug)]
pub enum FleetOrder {
    /// How it is here.
    Status(LocalStatus),
    /// A change of the configuration is to be a version.
    Propose(Box<Proposal>),
    /// The reports of all members are wanted.
    Members(Sender<Result<Vec<NodeReport>, String>>),
    /// The versions that were taken back last are wanted.
    TakenBack(Sender<Result<Vec<TakenBack>, String>>),
    /// Figures of the other members are wanted.
    Figures(Box<FiguresWish>),
}

/// How a member is, as its control thread knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalStatus {
    /// The number of the version in its own history.
    pub local_version: i64,
    /// How many rows and variables run differently than in the fleet's version.
    pub drift: u64,
    /// What was loaded since the version on trial was applied, also if that has ended; empty: nothing.
    pub loaded: String,
    /// Why it cannot serve clients; empty: it can.
    pub not_ready: String,
    /// Where its port for administrators listens.
    pub listening: Vec<String>,
    /// Whether that port offers TLS.
    pub is_encrypted: bool,
    /// The parts of the configuration that run.
    pub modules: Vec<ModuleReport>,
}

/// How the fleet is, as it was seen last.
#[derive(Debug, Clone, Default)]
pub struct FleetView {
    /// Why etcd cannot be used now; `None`: it can.
    pub trouble: Option<String>,
    /// The server of etcd that is asked.
    pub endpoint: String,
    /// What etcd has said last.
    pub seen: Seen,
    /// This member.
    pub member: MemberState,
    /// Why this member does not report: another one has its name.
    pub rival: Option<String>,
    /// Which servers of etcd are of another cluster than the fleet's.
    pub strangers: Option<String>,
}

impl FleetView {
    /// Why it cannot be said that this member runs what the fleet has; `None`: it does, or will.
    pub fn mismatch(&self) -> Option<&str> {
        self.member.mismatch.as_ref().map(|it| it.reason.as_str()).or(self.strangers.as_deref())
    }

    /// The version that runs here; `None`: none of the fleet.
    pub fn running(&self) -> Option<FleetMark> {
        self.member.running.as_ref().map(|place| place.mark)
    }
}

/// The handle of the thread, which ends when this is dropped.
#[derive(Debug)]
pub struct Fleet {
    node: String,
    orders: MailboxSender<FleetOrder>,
    view: SharedView,
}

/// What the thread writes, and the control thread reads.
#[derive(Debug, Clone, Default)]
struct SharedView(Arc<Mutex<FleetView>>);

impl SharedView {
    fn read(&self) -> FleetView {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, change: impl FnOnce(&mut FleetView)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Says that the thread has ended, whatever has ended it: what was seen last is not what is.
struct Ended(SharedView);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.change(|view| view.trouble = Some("the thread of the fleet has ended".to_owned()));
    }
}

impl Fleet {
    /// Starts the thread of the member `node` with the data folder `uuid`, which runs the version `running` of the fleet.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start<M>(
        settings: FleetSettings,
        (node, uuid, running): (String, String, Option<FleetPlace>),
        control: Sender<M>,
    ) -> io::Result<Fleet>
    where
        M: From<FleetWish> + Send + 'static,
    {
        let (orders, mailbox) = rt::mailbox();
        let view = SharedView::default();
        let member = MemberState { node: node.clone(), running, ..MemberState::default() };
        view.change(|view| {
            view.trouble = Some("etcd has not answered yet".to_owned());
            view.member = member.clone();
        });
        let also = view.clone();
        let work = move || {
            let _ended = Ended(also.clone());
            let ask = Box::new(move |wish: FleetWish| control.send(wish.into()).is_ok());
            if let Err(error) = rt::block_on(run::run(settings, (member, uuid), (mailbox, ask), also)) {
                tracing::error!(%error, "the thread of the fleet cannot start");
            }
        };
        std::thread::Builder::new().name("fleet".to_owned()).spawn(work)?;
        Ok(Fleet { node, orders, view })
    }

    /// The name of this member.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// How the fleet is.
    pub fn view(&self) -> FleetView {
        self.view.read()
    }

    /// Tells or asks the thread.
    pub fn send(&self, order: FleetOrder) {
        // A thread that has ended has reported the reason, and answers nothing.
        let _ = self.orders.send(order);
    }
}

/// Why nothing can be done with etcd, as administrators read it.
pub fn unusable(reason: &str) -> String {
    match reason.contains(record::FOREIGN) {
        true => format!("what etcd has cannot be used ({reason})"),
        false => format!("etcd cannot be reached ({reason})"),
    }
}

/// The name of a Narrows that its settings do not name: that of the host, and the port of the first of its `addresses` for
/// administrators.
pub fn usual_node(addresses: &[String]) -> String {
    let port = addresses.iter().find_map(|address| address.rsplit_once(':')).map_or("0", |(_, port)| port);
    format!("{}:{port}", host_name())
}

/// The name of this machine.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
