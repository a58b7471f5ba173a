//! The queue of records between one worker and the writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::record::Record;
use super::traces::TraceFigures;
use super::{MOST_BYTES, MOST_RECORDS, Message};

/// What the queues of all workers have in common.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Whether the writer knows that a queue has records.
    pub(super) is_awake: AtomicBool,
    /// Records that were dropped because their queue was full.
    pub(super) dropped: AtomicU64,
    /// What has become of spans.
    pub(super) traces: Arc<TraceFigures>,
}

/// How much is in a queue.
#[derive(Debug, Default)]
struct Fill {
    records: AtomicUsize,
    bytes: AtomicUsize,
}

/// A worker's end of its queue.
#[derive(Debug)]
pub struct RecordQueue {
    records: Sender<Box<Record>>,
    fill: Arc<Fill>,
    shared: Arc<Shared>,
    messages: Sender<Message>,
}

/// The writer's end of a queue.
#[derive(Debug)]
pub struct QueueEnd {
    records: Receiver<Box<Record>>,
    fill: Arc<Fill>,
}

/// Both ends of a new queue.
pub(super) fn queue(shared: &Arc<Shared>, messages: &Sender<Message>) -> (RecordQueue, QueueEnd) {
    let (sender, receiver) = channel();
    let fill = Arc::<Fill>::default();
    let queue = RecordQueue {
        records: sender,
        fill: Arc::clone(&fill),
        shared: Arc::clone(shared),
        messages: messages.clone(),
    };
    (queue, QueueEnd { records: receiver, fill })
}

impl RecordQueue {
    /// Passes a record to the writer, or drops and counts it if too much is waiting.
    pub fn offer(&self, record: Box<Record>) {
        let size = record.bytes();
        let (records, bytes) =
            (self.fill.records.load(Ordering::Relaxed), self.fill.bytes.load(Ordering::Relaxed));
        if records >= MOST_RECORDS || (records > 0 && bytes + size > MOST_BYTES) {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.fill.records.fetch_add(1, Ordering::Relaxed);
        self.fill.bytes.fetch_add(size, Ordering::Relaxed);
        // Without a writer nothing is written.
        let _ = self.records.send(record);
        // The flag is usually set, and then it is only read.
        let shared = &self.shared;
        if !shared.is_awake.load(Ordering::SeqCst) && !shared.is_awake.swap(true, Ordering::SeqCst) {
            let _ = self.messages.send(Message::Records);
        }
    }
}

impl QueueEnd {
    /// Takes a record.
    pub(super) fn next(&self) -> Option<Box<Record>> {
        let record = self.records.try_recv().ok()?;
        self.fill.records.fetch_sub(1, Ordering::Relaxed);
        self.fill.bytes.fetch_sub(record.bytes(), Ordering::Relaxed);
        Some(record)
    }
}
