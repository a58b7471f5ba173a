//! The channel to the control thread: its messages, and how it is ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use narrows_proxy::server::DataPlane;

use crate::admin::readers::Returned;
use crate::admin::request::Request;
use crate::fleet::FleetWish;
use crate::monitor::Report;
use crate::runtime::Plane;
use crate::secrets::Renewal;
use crate::switchover::Wanted;

/// Messages to the control thread.
#[derive(Debug)]
pub enum Message {
    /// Answer a statement.
    Statement(Request),
    /// What the statistics users' thread sends back.
    Returned(Returned),
    /// Reopen the log files.
    FlushLogs,
    /// Process the findings of checks.
    Monitor(Report),
    /// Do what a switchover wants.
    Switchover(Wanted),
    /// Put passwords, keys and certificates that have changed into force.
    Renewal(Renewal),
    /// Make a version of the fleet the configuration.
    Fleet(FleetWish),
    /// Release everything but the data plane, and hand over the data plane.
    HandOver(HandOver),
}

impl From<Request> for Message {
    fn from(request: Request) -> Message {
        Message::Statement(request)
    }
}

impl From<Returned> for Message {
    fn from(returned: Returned) -> Message {
        Message::Returned(returned)
    }
}

impl From<Wanted> for Message {
    fn from(wanted: Wanted) -> Message {
        Message::Switchover(wanted)
    }
}

impl From<Renewal> for Message {
    fn from(renewal: Renewal) -> Message {
        Message::Renewal(renewal)
    }
}

impl From<FleetWish> for Message {
    fn from(wish: FleetWish) -> Message {
        Message::Fleet(wish)
    }
}

impl From<Report> for Message {
    fn from(report: Report) -> Message {
        Message::Monitor(report)
    }
}

/// A request for the data plane, until one side gives it up.
#[derive(Debug)]
pub struct HandOver {
    /// Set by whichever comes first: the control thread, which then hands over, or the waiting side, which gives up.
    pub is_settled: Arc<AtomicBool>,
    pub to: Sender<Plane>,
}

/// The channel to the control thread.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(super) messages: Sender<Message>,
    pub(super) addresses: Vec<String>,
}

impl Handle {
    /// Where the admin interface listens.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Reopens the log files.
    pub fn flush_logs(&self) {
        // A control thread that has ended has no logs.
        let _ = self.messages.send(Message::FlushLogs);
    }

    /// Ends the admin interface, the monitor and the store, and returns what is left: the data plane, if it runs.
    ///
    /// # Errors
    /// If an administrator's statement runs for longer than `limit`; then everything continues.
    pub fn hand_over(&self, limit: Duration) -> Result<Option<DataPlane>, StillBusy> {
        let (to, handed) = channel();
        let is_settled = Arc::new(AtomicBool::new(false));
        let _ = self.messages.send(Message::HandOver(HandOver { is_settled: Arc::clone(&is_settled), to }));
        let plane = match handed.recv_timeout(limit) {
            Err(RecvTimeoutError::Timeout) if !is_settled.swap(true, Ordering::AcqRel) => {
                return Err(StillBusy);
            }
            // The data plane is being handed over; a control thread that has ended has nothing to hand over.
            Err(RecvTimeoutError::Timeout) => handed.recv().ok(),
            handed => handed.ok(),
        };
        Ok(match plane {
            Some(Plane::Running(plane)) => Some(plane),
            Some(Plane::Stopped) | None => None,
        })
    }
}

/// The control thread could not be reached in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an administrator's statement is still running")]
pub struct StillBusy;
