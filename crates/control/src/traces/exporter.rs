//! The thread: gathers records, makes requests of them, and has one task that sends those.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use narrows_proxy::query_log::{Record, TraceFigures};
use narrows_proxy::rt::{Instant, JoinHandle, MailboxReceiver, sleep, spawn_local, timeout};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use prost::Message;

use super::collector::Collector;
use super::endpoint::Endpoint;
use super::resource::{SCHEMA, resource, scope};
use super::sender;
use super::waiting::{Batch, Waiting};
use super::{Fill, Order, spans};

/// The state of the thread.
pub struct Exporter {
    fill: Arc<Fill>,
    waiting: Rc<Waiting>,
    resource: Resource,
    /// Records of the next request, and when the first of them came.
    gathered: Vec<Record>,
    since: Instant,
    /// What sends; `None`: nothing can be sent.
    sender: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Nothing to send yet.
    pub fn new(fill: Arc<Fill>, figures: Arc<TraceFigures>) -> Exporter {
        Exporter {
            fill,
            waiting: Rc::new(Waiting::new(figures)),
            resource: resource(),
            gathered: Vec::new(),
            since: Instant::now(),
            sender: None,
        }
    }

    /// Obeys until [`Order::Stop`], or until nobody is left who could send an order.
    pub async fn run(mut self, mut mailbox: MailboxReceiver<Order>) {
        loop {
            let limit = match self.gathered.is_empty() {
                true => Duration::MAX,
                false => GATHER_TIME.saturating_sub(self.since.elapsed()),
            };
            match timeout(limit, mailbox.recv()).await {
                Err(_) => self.pack(),
                Ok(Some(Order::Record(record))) => self.gather(*record),
                Ok(Some(Order::Collector(endpoint))) => self.send_to(endpoint),
                Ok(Some(Order::Stop)) => return self.drop_all(&mut mailbox),
                Ok(None) => break,
            }
        }
        self.pack();
        let deadline = Instant::now();
        while !self.waiting.is_empty() && deadline.elapsed() < LAST_TIME {
            sleep(LAST_TIME / 20).await;
        }
    }

    fn gather(&mut self, record: Record) {
        self.fill.take(&record);
        if self.gathered.is_empty() {
            self.since = Instant::now();
        }
        self.gathered.push(record);
        if self.gathered.len() >= MOST_RECORDS {
            self.pack();
        }
    }

    /// Makes a request of what was gathered, or drops it if too much is waiting.
    fn pack(&mut self) {
        let records = std::mem::take(&mut self.gathered);
        if records.is_empty() {
            return;
        }
        if self.sender.is_none() || self.waiting.is_full() {
            return self.drop_records(records.iter());
        }
        let mut spans = Vec::new();
        records.iter().for_each(|record| spans::add(record, &mut spans));
        let count = spans.len() as u64;
        let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans, schema_url: SCHEMA.to_owned() }];
        let resource_spans = vec![ResourceSpans {
            resource: Some(self.resource.clone()),
            scope_spans,
            schema_url: SCHEMA.to_owned(),
        }];
        let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        self.waiting.add(Batch { body: body.into(), spans: count });
    }

    /// Sends what waits to this collector, and all that comes.
    fn send_to(&mut self, endpoint: Endpoint) {
        if let Some(sender) = self.sender.take() {
            sender.abort();
        }
        let shown = endpoint.to_string();
        match Collector::new(endpoint) {
            Ok(collector) => {
                self.sender = Some(spawn_local(sender::send_all(Rc::clone(&self.waiting), collector)));
            }
            Err(error) => tracing::error!(collector = shown, error, "traces cannot be sent, and are dropped"),
        }
    }

    fn drop_all(&mut self, mailbox: &mut MailboxReceiver<Order>) {
        if let Some(sender) = self.sender.take() {
            sender.abort();
        }
        self.waiting.clear();
        let gathered = std::mem::take(&mut self.gathered);
        self.drop_records(gathered.iter());
        while let Ok(order) = mailbox.try_recv() {
            self.drop_records(order.into_record().as_deref().into_iter());
        }
    }

    fn drop_records<'r>(&self, records: impl Iterator<Item = &'r Record>) {
        let count = records.map(spans::count).sum();
        self.waiting.figures.dropped.fetch_add(count, Ordering::Relaxed);
    }
}

/// The most records in one request.
const MOST_RECORDS: usize = 512;

/// How long a record waits for others.
const GATHER_TIME: Duration = Duration::from_secs(1);

/// The time to send the rest when the process ends.
const LAST_TIME: Duration = Duration::from_secs(1);
