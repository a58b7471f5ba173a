//! The data plane's part of the query log and of traces: the outcome of each statement, passed to the writer.
//!
//! The control plane writes the log. Each worker has a queue, and the writer empties all of them some times in a second. The queues are
//! bounded; if one is full, records are dropped and counted: no statement waits for a disk.

mod lottery;
mod queue;
mod record;
mod traces;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::log_target::{LogOutput, LogTarget};
use crate::rows::Variables;
pub(crate) use lottery::Lottery;
use queue::Shared;
pub use queue::{QueueEnd, RecordQueue};
pub use record::{BoundValues, Phases, Record, Trace};
pub use traces::TraceFigures;

/// Messages to the writer.
#[derive(Debug)]
pub enum Message {
    /// Take records from this queue, too.
    Queue(QueueEnd),
    /// There are records.
    Records,
    /// Continue with these settings.
    Settings(Box<Settings>),
    /// Continue in a new file.
    Rotate,
    /// Write everything that is there, and reply.
    Finish(Sender<()>),
    /// Return the records that are kept, and forget them.
    Take(Sender<VecDeque<Box<Record>>>),
}

/// Where and how the log is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where to.
    pub target: LogTarget,
    /// Whether a record is a line of text instead of an object of JSON.
    pub is_text: bool,
    /// The number of records that are kept for `DUMP EVENTSLOG`.
    pub kept: usize,
    /// Bytes of a kept record's text.
    pub kept_text: usize,
    /// Where traces are sent to; empty: nowhere.
    pub collector: String,
}

impl Settings {
    /// The settings from the variables.
    pub fn of(variables: &Variables) -> Settings {
        Settings {
            target: LogTarget {
                output: LogOutput::of(&variables.eventslog_output),
                filename: variables.eventslog_filename.clone(),
                filesize: variables.eventslog_filesize,
                interval: variables.eventslog_rotate_interval,
            },
            is_text: variables.eventslog_line_format == TEXT,
            kept: variables.eventslog_buffer_history_size,
            kept_text: variables.eventslog_buffer_max_query_length,
            collector: variables.otlp_endpoint.clone(),
        }
    }
}

/// Whether the query log goes anywhere.
pub fn is_wanted(variables: &Variables) -> bool {
    let is_written = !variables.eventslog_filename.is_empty()
        || LogOutput::of(&variables.eventslog_output) != LogOutput::File;
    is_written || variables.eventslog_buffer_history_size > 0
}

/// The handle of the writer.
#[derive(Debug, Clone)]
pub struct QueryLog {
    sender: Sender<Message>,
    shared: Arc<Shared>,
}

/// The writer's end.
#[derive(Debug)]
pub struct Intake {
    receiver: Receiver<Message>,
    shared: Arc<Shared>,
    queues: Vec<QueueEnd>,
}

impl QueryLog {
    /// A log, and the end for the writer.
    pub fn new() -> (QueryLog, Intake) {
        let (sender, receiver) = channel();
        let shared = Arc::<Shared>::default();
        (QueryLog { sender, shared: Arc::clone(&shared) }, Intake { receiver, shared, queues: Vec::new() })
    }

    /// A queue for one more worker.
    pub fn queue(&self) -> RecordQueue {
        let (queue, end) = queue::queue(&self.shared, &self.sender);
        // Without a writer nothing is written.
        let _ = self.sender.send(Message::Queue(end));
        queue
    }

    /// Sends new settings to the writer.
    pub fn configure(&self, settings: Settings) {
        // Without a writer nothing is written.
        let _ = self.sender.send(Message::Settings(Box::new(settings)));
    }

    /// Makes the writer continue in a new file.
    pub fn rotate(&self) {
        // Without a writer nothing is written.
        let _ = self.sender.send(Message::Rotate);
    }

    /// Waits until everything that is there is written, but not longer than `limit`.
    pub fn finish(&self, limit: Duration) {
        let (sender, receiver) = channel();
        if self.sender.send(Message::Finish(sender)).is_ok() {
            // If it does not answer in time, the rest is lost.
            let _ = receiver.recv_timeout(limit);
        }
    }

    /// Takes the records that are kept, unless the writer does not answer in time.
    pub fn take(&self, limit: Duration) -> Option<VecDeque<Box<Record>>> {
        let (sender, receiver) = channel();
        self.sender.send(Message::Take(sender)).ok()?;
        receiver.recv_timeout(limit).ok()
    }

    /// The number of records that were dropped, because the writer was too slow or could not write them.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// What has become of spans.
    pub fn traces(&self) -> &TraceFigures {
        &self.shared.traces
    }
}

impl Intake {
    /// The messages.
    pub fn messages(&self) -> &Receiver<Message> {
        &self.receiver
    }

    /// Where what becomes of spans is counted.
    pub fn traces(&self) -> Arc<TraceFigures> {
        Arc::clone(&self.shared.traces)
    }

    /// Takes records from one more queue.
    pub fn add(&mut self, queue: QueueEnd) {
        self.queues.push(queue);
    }

    /// Counts records that could not be written among those that were dropped.
    pub fn count_dropped(&self, records: u64) {
        self.shared.dropped.fetch_add(records, Ordering::Relaxed);
    }

    /// Takes what the workers have queued, in the order in which the statements have ended. After [`Message::Records`].
    pub fn take(&self) -> Vec<Box<Record>> {
        // Before the queues are emptied: a worker that adds a record after that says so again.
        self.shared.is_awake.store(false, Ordering::SeqCst);
        let take =
            |queue: &'_ QueueEnd| std::iter::from_fn(|| queue.next()).take(MOST_RECORDS).collect::<Vec<_>>();
        let mut records: Vec<Box<Record>> = self.queues.iter().flat_map(take).collect();
        records.sort_by_key(|record| record.arrived + record.duration);
        records
    }
}

/// The values of `mysql-eventslog_line_format`.
pub const LINE_FORMATS: &[&str] = &["json", TEXT];

const TEXT: &str = "text";

/// The maximum number of records of one worker that wait for the writer.
const MOST_RECORDS: usize = 8_192;

/// The maximum number of their bytes.
const MOST_BYTES: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::Instant;

    fn record(query: usize) -> Box<Record> {
        Box::new(Record::new("COM_QUERY", vec![b'x'; query], Instant::now()))
    }

    #[test]
    fn full_queues_drop_and_count() {
        let (log, mut intake) = QueryLog::new();
        let (one, other) = (log.queue(), log.queue());
        for _ in 0..2 {
            let Ok(Message::Queue(queue)) = intake.messages().try_recv() else { panic!("a queue") };
            intake.add(queue);
        }
        for _ in 0..MOST_RECORDS + 5 {
            one.offer(record(10));
        }
        assert_eq!(log.dropped(), 5);
        // One that is longer than all may be is taken alone.
        for _ in 0..3 {
            other.offer(record(MOST_BYTES));
        }
        assert_eq!(log.dropped(), 7);
        assert!(matches!(intake.messages().try_recv(), Ok(Message::Records)));
        assert!(intake.messages().try_recv().is_err(), "one message is enough");
        assert_eq!(intake.take().len(), MOST_RECORDS + 1);
        one.offer(record(10));
        assert!(matches!(intake.messages().try_recv(), Ok(Message::Records)));
        assert_eq!(intake.take().len(), 1);
    }
}
