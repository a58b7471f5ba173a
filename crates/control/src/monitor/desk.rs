//! What all checks share: the settings in force, how many of them run at once, and what they have found until it is told.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use narrows_proxy::hostgroup::NameTable;
use narrows_proxy::rt::{Notify, Semaphore, oneshot, timeout};

use super::Report;
use super::log::Record;
use super::placement::Finding;
use super::settings::Settings;
use crate::control::Message;
use crate::store::Urgency;

/// Shared by all tasks of the monitor's thread.
#[derive(Debug)]
pub struct Desk {
    settings: RefCell<Rc<Settings>>,
    /// Wakes those that wait for their time: it may be another.
    pub changed: Notify,
    /// The right to run a check.
    pub places: Semaphore,
    outbox: RefCell<Outbox>,
    /// Host names as they were told last.
    names: RefCell<NameTable>,
    written: Notify,
    urgent: Notify,
    /// Says so to whoever keeps the control thread busy.
    urgency: Urgency,
}

#[derive(Debug, Default)]
struct Outbox {
    records: Vec<Record>,
    findings: Vec<Finding>,
    names: Option<NameTable>,
}

impl Desk {
    /// An empty one.
    pub fn new(urgency: Urgency) -> Desk {
        Desk {
            settings: RefCell::default(),
            changed: Notify::new(),
            places: Semaphore::new(MOST_AT_ONCE),
            outbox: RefCell::default(),
            names: RefCell::default(),
            written: Notify::new(),
            urgent: Notify::new(),
            urgency,
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> Rc<Settings> {
        Rc::clone(&self.settings.borrow())
    }

    /// Puts other settings into force.
    pub fn set(&self, settings: Settings) {
        self.settings.replace(Rc::new(settings));
        self.changed.notify_waiters();
    }

    /// Keeps the result of a check until it is told. What nobody takes in time is lost, the oldest first.
    pub fn record(&self, record: Record) {
        let records = &mut self.outbox.borrow_mut().records;
        if records.len() >= MOST_RECORDS {
            records.drain(..MOST_RECORDS / 2);
        }
        records.push(record);
        self.written.notify_one();
    }

    /// Has a finding told at once.
    pub fn find(&self, finding: Finding) {
        self.outbox.borrow_mut().findings.push(finding);
        self.urgency.set(true);
        self.written.notify_one();
        self.urgent.notify_one();
    }

    /// Has host names told at once where they are others than before; whether they are.
    pub fn tell_names(&self, names: NameTable) -> bool {
        if *self.names.borrow() == names {
            return false;
        }
        self.names.replace(names.clone());
        self.outbox.borrow_mut().names = Some(names);
        self.urgency.set(true);
        self.written.notify_one();
        self.urgent.notify_one();
        true
    }

    /// Tells what there is: findings at once, results together. The next is told when the one before was taken, so that
    /// a control thread that is busy is not buried. Ends with it.
    pub async fn tell(self: Rc<Desk>, control: Sender<Message>) {
        loop {
            self.written.notified().await;
            // Urgent or not, it is told now.
            let _ = timeout(GATHERED, self.urgent.notified()).await;
            let Outbox { records, findings, names } = self.outbox.take();
            if records.is_empty() && findings.is_empty() && names.is_none() {
                continue;
            }
            let (taken, wait) = oneshot::channel();
            if control.send(Message::Monitor(Report { records, findings, names, taken })).is_err() {
                return;
            }
            // Dropped or answered, it is the next one's turn.
            let _ = wait.await;
            let outbox = self.outbox.borrow();
            self.urgency.set(!outbox.findings.is_empty() || outbox.names.is_some());
        }
    }
}

/// Checks that run at once, each with a socket: as many as servers that answer nothing, with all kinds of checks, take.
const MOST_AT_ONCE: usize = 1_024;

/// Results that wait for a control thread that is busy: ten seconds of a thousand servers.
const MOST_RECORDS: usize = 10_000;

/// Results are told together this often, which costs the control thread a transaction.
const GATHERED: Duration = Duration::from_millis(200);
