//! The requests that wait for the collector, in order, and what has become of their spans.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::body::Bytes;
use narrows_proxy::query_log::TraceFigures;
use narrows_proxy::rt::Notify;

/// One request.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Its body.
    pub body: Bytes,
    /// How many spans are in it.
    pub spans: u64,
}

/// The requests that wait.
#[derive(Debug)]
pub struct Waiting {
    batches: RefCell<VecDeque<Batch>>,
    bytes: Cell<usize>,
    changed: Notify,
    /// The counters of all spans.
    pub figures: Arc<TraceFigures>,
}

impl Waiting {
    /// None wait.
    pub fn new(figures: Arc<TraceFigures>) -> Waiting {
        Waiting { batches: RefCell::default(), bytes: Cell::default(), changed: Notify::new(), figures }
    }

    /// Whether there is no place for another one.
    pub fn is_full(&self) -> bool {
        self.bytes.get() >= MOST_BYTES
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.batches.borrow().is_empty()
    }

    /// Adds one as the last.
    pub fn add(&self, batch: Batch) {
        self.bytes.set(self.bytes.get() + batch.body.len());
        self.batches.borrow_mut().push_back(batch);
        self.changed.notify_one();
    }

    /// The first one, which stays the first until [`Waiting::end_first`].
    pub async fn first(&self) -> Batch {
        loop {
            let first = self.batches.borrow().front().cloned();
            match first {
                Some(batch) => return batch,
                None => self.changed.notified().await,
            }
        }
    }

    /// The first one has been answered; so many of its spans were not taken.
    pub fn end_first(&self, refused: u64) {
        let Some(batch) = self.batches.borrow_mut().pop_front() else { return };
        self.bytes.set(self.bytes.get().saturating_sub(batch.body.len()));
        let refused = refused.min(batch.spans);
        self.figures.dropped.fetch_add(refused, Ordering::Relaxed);
        self.figures.sent.fetch_add(batch.spans - refused, Ordering::Relaxed);
    }

    /// Drops all.
    pub fn clear(&self) {
        while !self.is_empty() {
            self.end_first(u64::MAX);
        }
    }
}

/// The number of bytes from which on no more are added: those of some ten thousand statements.
const MOST_BYTES: usize = 16 << 20;
