//! The data plane's part of the query log: the outcome of each statement, passed to the writer.
//!
//! The control plane writes the log. The queue between them is bounded; if it is full, records are dropped and counted:
//! no statement waits for a disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use crate::rows::{HostgroupId, Variables};

/// One statement and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The name of the command, such as `COM_QUERY`.
    pub event: &'static str,
    /// The id of the session, as used by `KILL`.
    pub thread_id: u32,
    /// The user.
    pub username: String,
    /// The current schema; empty if none.
    pub schemaname: Vec<u8>,
    /// The client's address and port.
    pub client: String,
    /// The hash of the digest text, if digests are computed.
    pub digest: Option<u64>,
    /// The text of the statement.
    pub query: Vec<u8>,
    /// The hostgroup that ran the statement.
    pub hostgroup: HostgroupId,
    /// The server that ran the statement; `None` if it reached none.
    pub server: Option<String>,
    /// When the statement arrived.
    pub began: SystemTime,
    /// How long it took, including waits.
    pub duration: Duration,
    /// The number of rows changed, if the server reported it.
    pub rows_affected: Option<u64>,
    /// The insert id that the server returned; 0 if none.
    pub last_insert_id: u64,
    /// The number of rows sent, if there was a result.
    pub rows_sent: Option<u64>,
    /// The number of bytes sent to the client.
    pub bytes_sent: u64,
    /// The error sent to the client.
    pub error: Option<u16>,
}

/// Messages to the writer.
#[derive(Debug)]
pub enum Message {
    /// Write this record.
    Record(Box<Record>),
    /// Continue with these settings.
    Settings(Settings),
    /// Continue in a new file.
    Rotate,
}

/// Where and how the log is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The prefix of the files' names; empty: nothing is written.
    pub filename: String,
    /// Bytes after which the log continues in a new file.
    pub filesize: u64,
    /// The time after which the log continues in a new file; zero: never.
    pub interval: Duration,
}

impl Settings {
    /// The settings from the variables.
    pub fn of(variables: &Variables) -> Settings {
        Settings {
            filename: variables.eventslog_filename.clone(),
            filesize: variables.eventslog_filesize,
            interval: variables.eventslog_rotate_interval,
        }
    }
}

/// The handle of the writer.
#[derive(Debug, Clone)]
pub struct QueryLog {
    sender: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl QueryLog {
    /// A log, and the receiving end of its queue for the writer.
    pub fn new() -> (QueryLog, Receiver<Message>) {
        let (sender, receiver) = sync_channel(QUEUE);
        (QueryLog { sender, dropped: Arc::default() }, receiver)
    }

    /// Passes a record to the writer, or drops and counts it if too many are waiting.
    pub fn offer(&self, record: Box<Record>) {
        if self.sender.try_send(Message::Record(record)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends new settings to the writer; waits until the queue has space. Not for workers.
    pub fn configure(&self, settings: Settings) {
        // Without a writer nothing is written.
        let _ = self.sender.send(Message::Settings(settings));
    }

    /// Makes the writer continue in a new file; waits until the queue has space. Not for workers.
    pub fn rotate(&self) {
        // Without a writer nothing is written.
        let _ = self.sender.send(Message::Rotate);
    }

    /// The number of records that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The maximum number of records waiting for the writer.
const QUEUE: usize = 8_192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_and_counts() {
        let (log, receiver) = QueryLog::new();
        let record = Record {
            event: "COM_QUERY",
            thread_id: 1,
            username: String::new(),
            schemaname: Vec::new(),
            client: String::new(),
            digest: None,
            query: b"SELECT 1".to_vec(),
            hostgroup: HostgroupId(0),
            server: None,
            began: SystemTime::UNIX_EPOCH,
            duration: Duration::ZERO,
            rows_affected: None,
            last_insert_id: 0,
            rows_sent: None,
            bytes_sent: 0,
            error: None,
        };
        for _ in 0..QUEUE + 5 {
            log.offer(Box::new(record.clone()));
        }
        assert_eq!(log.dropped(), 5);
        assert_eq!(receiver.try_iter().count(), QUEUE);
    }
}
