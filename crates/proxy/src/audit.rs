//! The data plane's part of the audit log: who came, who was refused, who left.
//!
//! The control plane writes the log, and adds what administrators do. All events go through one bounded queue, so that
//! the log has them in their order; if the queue is full, they are dropped and counted: no client waits for a disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime};

use serde_json::Value as Json;

use crate::log_target::{LogOutput, LogTarget};
use crate::rows::Variables;

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEvent {
    /// What happened, by ProxySQL's names.
    pub event: &'static str,
    /// When.
    pub time: SystemTime,
    /// Who, and from where.
    pub peer: AuditPeer,
    /// What else is known, by name.
    pub more: Vec<(&'static str, Json)>,
}

/// A connection, and who uses it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditPeer {
    /// The id of the connection; 0 if it was refused before it had one.
    pub thread_id: u32,
    /// The name of the account, as the client wrote it.
    pub username: String,
    /// The initial schema that the client asked for, or the current one.
    pub schemaname: String,
    /// The client's address and port.
    pub client: (String, u16),
    /// The address and port that it connected to.
    pub local: (String, u16),
    /// Whether it uses TLS.
    pub tls: bool,
}

/// What the writer receives.
#[derive(Debug)]
pub enum AuditMessage {
    /// One more event.
    Event(Box<AuditEvent>),
    /// From now on events go there.
    Target(LogTarget),
    /// Continue in a new file.
    Rotate,
    /// Write everything that is there, and reply.
    Finish(Sender<()>),
}

/// The audit log, for those who have events for it.
#[derive(Debug, Clone)]
pub struct AuditLog {
    messages: Sender<AuditMessage>,
    shared: Arc<Shared>,
}

/// The writer's end.
#[derive(Debug)]
pub struct AuditIntake {
    messages: Receiver<AuditMessage>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    is_on: AtomicBool,
    /// Events that wait for the writer.
    waiting: AtomicUsize,
    dropped: AtomicU64,
}

impl AuditLog {
    /// A log that is off, and the end for its writer.
    pub fn new() -> (AuditLog, AuditIntake) {
        let ((sender, messages), shared) = (channel(), Arc::<Shared>::default());
        (AuditLog { messages: sender, shared: Arc::clone(&shared) }, AuditIntake { messages, shared })
    }

    /// Adds the event that `event` makes, if the log is on. It never waits.
    pub fn tell(&self, event: impl FnOnce() -> AuditEvent) {
        if !self.is_on() {
            return;
        }
        if self.shared.waiting.load(Ordering::Relaxed) >= MOST_EVENTS {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        // Without a writer nothing is written.
        let _ = self.messages.send(AuditMessage::Event(Box::new(event())));
    }

    /// Whether events are written.
    pub fn is_on(&self) -> bool {
        self.shared.is_on.load(Ordering::Relaxed)
    }

    /// Writes the events from now on where the variables say.
    pub fn configure(&self, variables: &Variables) {
        let target = LogTarget {
            output: LogOutput::of(&variables.auditlog_output),
            filename: variables.auditlog_filename.clone(),
            filesize: variables.auditlog_filesize,
            interval: Duration::ZERO,
        };
        let is_on = target.is_anywhere();
        let was_on = self.is_on();
        if was_on && !is_on {
            // The last line says that there are none any more.
            self.tell(|| AuditEvent::now("Audit_Log_Off", AuditPeer::default()));
        }
        self.shared.is_on.store(is_on, Ordering::Relaxed);
        // Without a writer nothing is written.
        let _ = self.messages.send(AuditMessage::Target(target));
        if is_on && !was_on {
            self.tell(|| AuditEvent::now("Audit_Log_On", AuditPeer::default()));
        }
    }

    /// Continues in a new file.
    pub fn rotate(&self) {
        // Without a writer nothing is written.
        let _ = self.messages.send(AuditMessage::Rotate);
    }

    /// Waits until everything that is there is written, but not longer than `limit`.
    pub fn finish(&self, limit: Duration) {
        let (done, finished) = channel();
        if self.messages.send(AuditMessage::Finish(done)).is_ok() {
            // If it does not answer in time, the rest is lost.
            let _ = finished.recv_timeout(limit);
        }
    }

    /// The number of events that were dropped, because the writer was too slow or could not write them.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

impl AuditIntake {
    /// The next message.
    ///
    /// # Errors
    /// If there is none within `limit`, or nobody is left who could send one.
    pub fn next(&self, limit: Duration) -> Result<AuditMessage, RecvTimeoutError> {
        let message = self.messages.recv_timeout(limit)?;
        if matches!(message, AuditMessage::Event(_)) {
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(message)
    }

    /// Counts events that could not be written.
    pub fn count_dropped(&self, events: u64) {
        self.shared.dropped.fetch_add(events, Ordering::Relaxed);
    }
}

impl AuditEvent {
    /// Something that happens now.
    pub fn now(event: &'static str, peer: AuditPeer) -> AuditEvent {
        AuditEvent { event, time: SystemTime::now(), peer, more: Vec::new() }
    }

    /// With one thing more.
    pub fn with(mut self, name: &'static str, value: impl Into<Json>) -> AuditEvent {
        self.more.push((name, value.into()));
        self
    }
}

/// How many events may wait for the writer: a second of the most logins that one machine can do.
const MOST_EVENTS: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_off_until_it_has_a_place_and_drops_what_nobody_takes() {
        let (log, intake) = AuditLog::new();
        let next = || intake.next(Duration::ZERO);
        log.tell(|| panic!("it is off"));
        let mut variables = Variables { auditlog_filename: "audit".to_owned(), ..Variables::default() };
        log.configure(&variables);
        assert!(matches!(next(), Ok(AuditMessage::Target(target)) if target.filename == "audit"));
        assert!(matches!(next(), Ok(AuditMessage::Event(event)) if event.event == "Audit_Log_On"));
        for _ in 0..MOST_EVENTS + 7 {
            log.tell(|| AuditEvent::now("MySQL_Client_Connect_OK", AuditPeer::default()));
        }
        assert_eq!(log.dropped(), 7);
        assert!((0..MOST_EVENTS).all(|_| matches!(next(), Ok(AuditMessage::Event(_)))));
        log.tell(|| AuditEvent::now("MySQL_Client_Quit", AuditPeer::default()));
        assert!(matches!(next(), Ok(AuditMessage::Event(event)) if event.event == "MySQL_Client_Quit"));
        variables.auditlog_filename.clear();
        log.configure(&variables);
        assert!(!log.is_on());
    }
}
