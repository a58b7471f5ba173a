//! The query log, as far as the data plane goes: what became of a statement, handed to whoever writes it down.
//!
//! Writing is the control plane's. The queue between has a bound, and what finds it full is dropped and counted: no
//! statement waits for a disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use crate::rows::{HostgroupId, Variables};

/// One statement and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The command: `COM_QUERY` and its like.
    pub event: &'static str,
    /// What `KILL` calls the session.
    pub thread_id: u32,
    /// Whose statement it was.
    pub username: String,
    /// In which schema; empty: none.
    pub schemaname: Vec<u8>,
    /// From where: address and port.
    pub client: String,
    /// Hash of its digest text, where digests are made.
    pub digest: Option<u64>,
    /// Its text.
    pub query: Vec<u8>,
    /// Where it ran.
    pub hostgroup: HostgroupId,
    /// On which server; `None`: it reached none.
    pub server: Option<String>,
    /// When it came.
    pub began: SystemTime,
    /// How long it took, waiting included.
    pub duration: Duration,
    /// Rows changed, where the server said.
    pub rows_affected: Option<u64>,
    /// The insert id that the server told; 0: none.
    pub last_insert_id: u64,
    /// Rows sent, where there was a result.
    pub rows_sent: Option<u64>,
    /// Bytes sent to the client.
    pub bytes_sent: u64,
    /// The error that the client was told.
    pub error: Option<u16>,
}

/// What the writer is told.
#[derive(Debug)]
pub enum Message {
    /// Write this down.
    Record(Box<Record>),
    /// Go on so.
    Settings(Settings),
    /// Go on in a new file.
    Rotate,
}

/// Where and how it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Beginning of the files' names; empty: nothing is written.
    pub filename: String,
    /// Bytes after which the log continues in a new file.
    pub filesize: u64,
    /// Time after which it does; zero: never.
    pub interval: Duration,
}

impl Settings {
    /// What the variables say.
    pub fn of(variables: &Variables) -> Settings {
        Settings {
            filename: variables.eventslog_filename.clone(),
            filesize: variables.eventslog_filesize,
            interval: variables.eventslog_rotate_interval,
        }
    }
}

/// The way to the writer.
#[derive(Debug, Clone)]
pub struct QueryLog {
    sender: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl QueryLog {
    /// A log, and what its writer reads.
    pub fn new() -> (QueryLog, Receiver<Message>) {
        let (sender, receiver) = sync_channel(QUEUE);
        (QueryLog { sender, dropped: Arc::default() }, receiver)
    }

    /// Hands a record over, or drops and counts it when too many wait.
    pub fn offer(&self, record: Box<Record>) {
        if self.sender.try_send(Message::Record(record)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells the writer how to go on; waits until there is room. Not for workers.
    pub fn configure(&self, settings: Settings) {
        // Without a writer nothing is written.
        let _ = self.sender.send(Message::Settings(settings));
    }

    /// Has the writer go on in a new file; waits until there is room. Not for workers.
    pub fn rotate(&self) {
        // Without a writer nothing is written.
        let _ = self.sender.send(Message::Rotate);
    }

    /// Records that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Records that wait for the writer at most.
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
