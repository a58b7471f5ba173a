//! Sends traces of statements to a collector, in OTLP over HTTP.
//!
//! The writer of the query log passes the records that have a place in a trace. A thread of its own makes spans of them and sends
//! those; it has a bounded queue, and what does not fit is dropped and counted: no statement and no log waits for a collector.
//! The thread exists while there is a collector.

mod attributes;
mod collector;
pub mod endpoint;
mod environment;
mod exporter;
pub mod private;
mod resource;
mod roots;
mod sender;
mod spans;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use narrows_proxy::query_log::{Record, TraceFigures};
use narrows_proxy::rt::{self, MailboxSender};

use endpoint::Endpoint;
use exporter::Exporter;

/// The handle of the thread.
#[derive(Debug)]
pub struct Traces {
    /// Where it sends to; empty: there is no thread.
    collector: String,
    running: Option<Running>,
    figures: Arc<TraceFigures>,
}

#[derive(Debug)]
struct Running {
    orders: MailboxSender<Order>,
    fill: Arc<Fill>,
}

/// Messages to the thread.
#[derive(Debug)]
enum Order {
    /// Send to this collector from now on.
    Collector(Endpoint),
    /// Send this.
    Record(Box<Record>),
    /// Drop everything, and end.
    Stop,
}

impl Order {
    fn into_record(self) -> Option<Box<Record>> {
        match self {
            Order::Record(record) => Some(record),
            Order::Collector(_) | Order::Stop => None,
        }
    }
}

/// How much is in the queue to the thread.
#[derive(Debug, Default)]
struct Fill {
    records: AtomicUsize,
    bytes: AtomicUsize,
}

impl Fill {
    /// A record was taken from the queue.
    fn take(&self, record: &Record) {
        self.records.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(record.bytes(), Ordering::Relaxed);
    }
}

impl Traces {
    /// No collector yet.
    pub fn new(figures: Arc<TraceFigures>) -> Traces {
        Traces { collector: String::new(), running: None, figures }
    }

    /// Sends to this collector from now on; empty: what has not been sent is dropped.
    pub fn configure(&mut self, collector: &str) {
        if self.collector == collector {
            return;
        }
        collector.clone_into(&mut self.collector);
        if let Some(endpoint) = Endpoint::parse(collector) {
            self.send_to(endpoint);
            return;
        }
        if !collector.is_empty() {
            tracing::warn!("mysql-otlp_endpoint is no address that traces can be sent to");
        }
        if let Some(running) = self.running.take() {
            // It has ended if nobody hears that.
            let _ = running.orders.send(Order::Stop);
        }
    }

    fn send_to(&mut self, endpoint: Endpoint) {
        if self.running.is_none() {
            self.running = match start(&self.figures) {
                Ok(running) => Some(running),
                Err(error) => {
                    tracing::error!(%error, "the thread that sends traces cannot be started");
                    None
                }
            };
        }
        if let Some(running) = &self.running {
            // It has ended if nobody hears that; its log line says why.
            let _ = running.orders.send(Order::Collector(endpoint));
        }
    }

    /// Passes a record to the thread, or drops and counts it if too much is waiting.
    pub fn offer(&self, mut record: Box<Record>) {
        let dropped = match &self.running {
            None => Some(record),
            Some(running) => {
                // Only this much is read of it.
                record.query.truncate(private::READ_TEXT);
                record.query.shrink_to_fit();
                record.values = None;
                running.offer(record)
            }
        };
        if let Some(record) = dropped {
            self.figures.dropped.fetch_add(spans::count(&record), Ordering::Relaxed);
        }
    }
}

impl Running {
    /// Returns the record if there is no place for it, or no thread.
    fn offer(&self, record: Box<Record>) -> Option<Box<Record>> {
        let size = record.bytes();
        let (records, bytes) =
            (self.fill.records.load(Ordering::Relaxed), self.fill.bytes.load(Ordering::Relaxed));
        if records >= MOST_RECORDS || bytes + size > MOST_BYTES {
            return Some(record);
        }
        self.fill.records.fetch_add(1, Ordering::Relaxed);
        self.fill.bytes.fetch_add(size, Ordering::Relaxed);
        match self.orders.send(Order::Record(record)) {
            Ok(()) => None,
            Err(unsent) => unsent.0.into_record(),
        }
    }
}

/// Starts the thread. It ends with [`Order::Stop`], or when its handle is dropped: then it sends what it has, for a while.
fn start(figures: &Arc<TraceFigures>) -> std::io::Result<Running> {
    let (orders, mailbox) = rt::mailbox();
    let fill = Arc::<Fill>::default();
    let (taken, figures) = (Arc::clone(&fill), Arc::clone(figures));
    let run = move || {
        if let Err(error) = rt::block_on(async { Exporter::new(taken, figures).run(mailbox).await }) {
            tracing::error!(%error, "the thread that sends traces cannot start");
        }
    };
    std::thread::Builder::new().name("traces".to_owned()).spawn(run)?;
    Ok(Running { orders, fill })
}

/// The maximum number of records that wait for the thread.
const MOST_RECORDS: usize = 2_048;

/// The maximum number of their bytes.
const MOST_BYTES: usize = 16 << 20;
