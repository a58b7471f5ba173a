//! What all checks share: the settings in force, how many of them run at once, and their findings until these are
//! reported.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use narrows_proxy::hostgroup::NameTable;
use narrows_proxy::rt::{Instant, Notify, Semaphore, oneshot, timeout};

use super::finding::Finding;
use super::log::Record;
use super::report::Report;
use super::settings::MonitorSettings;
use crate::urgency::Urgency;

/// Shared by all tasks of the monitor's thread.
#[derive(Debug)]
pub struct ReportQueue {
    settings: RefCell<Rc<MonitorSettings>>,
    /// The start of the beats.
    begun: Instant,
    /// Wakes waiting tasks, because their time may have changed.
    pub changed: Notify,
    /// Permits to run checks.
    pub places: Semaphore,
    outbox: RefCell<Outbox>,
    /// Host names as last reported.
    names: RefCell<NameTable>,
    written: Notify,
    urgent: Notify,
    /// Interrupts a statement that keeps the control thread busy.
    urgency: Urgency,
}

#[derive(Debug, Default)]
struct Outbox {
    records: Vec<Record>,
    findings: Vec<Finding>,
    names: Option<NameTable>,
    /// Whether any of it is to be reported at once.
    is_urgent: bool,
}

impl ReportQueue {
    /// An empty queue.
    pub fn new(urgency: Urgency) -> ReportQueue {
        ReportQueue {
            settings: RefCell::default(),
            begun: Instant::now(),
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
    pub fn settings(&self) -> Rc<MonitorSettings> {
        Rc::clone(&self.settings.borrow())
    }

    /// The first beat that is not before `due`. Checks begin on beats, so that the thread wakes once for many of them.
    pub fn next_beat(&self, due: Instant) -> Instant {
        let beat = u32::try_from(BEAT.as_nanos()).expect("it is short");
        let since = due.saturating_duration_since(self.begun);
        let late = u32::try_from(since.as_nanos() % u128::from(beat)).expect("less than a beat");
        if late == 0 { due } else { due + Duration::from_nanos((beat - late).into()) }
    }

    /// Applies other settings.
    pub fn set(&self, settings: MonitorSettings) {
        self.settings.replace(Rc::new(settings));
        self.changed.notify_waiters();
    }

    /// Keeps the result of a check until it is reported. If there are too many, the oldest are lost.
    pub fn record(&self, record: Record) {
        let records = &mut self.outbox.borrow_mut().records;
        if records.len() >= MOST_RECORDS {
            records.drain(..MOST_RECORDS / 2);
        }
        records.push(record);
        self.written.notify_one();
    }

    /// Reports a finding, in the place of those that it replaces: at once, or together with results if it is no news.
    pub fn find(&self, finding: Finding) {
        let is_news = finding.is_news();
        {
            let findings = &mut self.outbox.borrow_mut().findings;
            findings.retain(|other| !finding.replaces(other));
            findings.push(finding);
        }
        match is_news {
            true => self.hurry(),
            false => self.written.notify_one(),
        }
    }

    fn hurry(&self) {
        self.outbox.borrow_mut().is_urgent = true;
        self.urgency.set(true);
        self.written.notify_one();
        self.urgent.notify_one();
    }

    /// Reports host names at once if they have changed; returns whether they have.
    pub fn tell_names(&self, names: NameTable) -> bool {
        if *self.names.borrow() == names {
            return false;
        }
        self.names.replace(names.clone());
        self.outbox.borrow_mut().names = Some(names);
        self.hurry();
        true
    }

    /// Sends reports: findings at once, results together. The next one is sent when the previous one has been
    /// processed, so that a busy control thread is not flooded. Ends with the control thread.
    pub async fn tell<M: From<Report>>(self: Rc<ReportQueue>, control: Sender<M>) {
        loop {
            self.written.notified().await;
            // The report is sent now, whether or not it is urgent.
            let _ = timeout(GATHERED, self.urgent.notified()).await;
            let Outbox { records, findings, names, .. } = self.outbox.take();
            if records.is_empty() && findings.is_empty() && names.is_none() {
                continue;
            }
            let (taken, wait) = oneshot::channel();
            if control.send(Report { records, findings, names, taken }.into()).is_err() {
                return;
            }
            // Whether the signal was sent or dropped, the next report may be sent.
            let _ = wait.await;
            self.urgency.set(self.outbox.borrow().is_urgent);
        }
    }
}

/// How many checks run at once, each with a socket: enough for many servers that do not answer any kind of check.
const MOST_AT_ONCE: usize = 1_024;

/// How many results wait for a busy control thread: ten seconds of a thousand servers.
const MOST_RECORDS: usize = 10_000;

/// How often results are reported together, which costs the control thread a transaction.
const GATHERED: Duration = Duration::from_millis(200);

/// From one beat to the next: short compared with the shortest interval of checks (100 ms); a thousand servers' checks
/// in one beat delay each other by less than a millisecond.
const BEAT: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_is_never_early_and_less_than_one_beat_late() {
        let reports = ReportQueue::new(Urgency::default());
        for us in [0, 1, 19_999, 20_000, 20_001, 123_456_789] {
            let due = reports.begun + Duration::from_micros(us);
            let (beat, late) = (reports.next_beat(due), reports.next_beat(due).duration_since(due));
            assert!(beat >= due && late < BEAT, "{us}");
            assert!((beat - reports.begun).as_micros().is_multiple_of(BEAT.as_micros()), "{us}");
        }
    }
}
