//! A statement's record for the query log and for traces: created when the statement arrives, filled in while it runs, and queued
//! when it has ended.

use std::time::Duration;

use narrows_sql::TraceParent;
use narrows_wire::query::{NO_ATTRIBUTES, attribute_text, with_attribute};
use narrows_wire::{Capabilities, Command, Errno};

use super::Session;
use super::execute::framed_query;
use super::job::Job;
use super::outcome::Outcome;
use super::request::Request;
use crate::backend::Backend;
use crate::query_log::{BoundValues, Phases, Record, Trace};
use crate::route::Recording;

impl Session {
    /// Creates the record of a statement, if that must be logged or traced.
    pub(super) fn begin_record(&mut self, job: &Job, request: &Request) {
        if job.options.recorded != Recording::default() {
            self.begin_chosen_record(job, request);
        }
    }

    #[cold]
    fn begin_chosen_record(&mut self, job: &Job, request: &Request) {
        let snapshot = self.snapshot();
        let variables = &snapshot.variables;
        let trace = match job.options.recorded.is_traced {
            true => new_trace(job, request, || self.worker.lottery.chooses(variables.otlp_rate_limit)),
            false => None,
        };
        let is_wanted = job.options.recorded.is_logged;
        let is_logged = is_wanted && self.worker.lottery.chooses(variables.eventslog_rate_limit);
        let if_slow = is_wanted && !is_logged && !variables.eventslog_slow_time.is_zero();
        if !is_logged && !if_slow && trace.is_none() {
            return;
        }
        let query = match &job.prepared {
            Some(statement) => statement.prepared.text.to_vec(),
            None => request.argument_after(job.attributes).to_vec(),
        };
        let digest = job.digest.as_ref().map(|digest| digest.hash);
        let mut record = self.new_record(job.command, query, digest);
        (record.is_logged, record.if_slow, record.trace) = (is_logged, if_slow, trace);
        record.login = self.run.login_time.take().filter(|_| self.handle.commands() <= 1).map(|took| {
            let since = record.arrived.duration_since(self.handle.logged_in());
            (since + took, since)
        });
        if let Some(statement) = &job.prepared {
            record.statement_id = statement.id;
            record.values = match variables.eventslog_stmt_parameters && request.whole {
                true => self.values(job, request),
                false => None,
            };
        }
        self.run.record = Some(record);
    }

    /// The values with which a statement is executed. Those that were sent before, in parts, are not known, and where the others
    /// are depends on them.
    fn values(&self, job: &Job, request: &Request) -> Option<BoundValues> {
        let statement = job.prepared.as_ref()?;
        let parameters = job.parameters.as_ref().filter(|_| job.command == Command::StmtExecute)?;
        if statement.has_long_data.take() {
            return None;
        }
        let argument = request.argument();
        let types =
            parameters.types(argument).map_or_else(|| statement.types.borrow().clone(), <[u8]>::to_vec);
        Some(BoundValues {
            argument: argument.to_vec(),
            types,
            params: statement.params.get(),
            named: self.client.capabilities.contains(Capabilities::QUERY_ATTRIBUTES),
            parameters: parameters.clone(),
        })
    }

    /// Queues the record of a statement that Narrows answers itself, with OK or with this error.
    pub(super) fn record_answered(&mut self, command: Command, text: &[u8], error: Option<Errno>) {
        if !self.worker.lottery.chooses(self.snapshot().variables.eventslog_rate_limit) {
            return;
        }
        let mut record = self.new_record(command, text.to_vec(), None);
        record.error = error.map(|errno| errno.number);
        record.is_logged = true;
        self.run.record = Some(record);
        self.end_record();
    }

    /// A record with nothing of the outcome. The digest is computed if it is not known.
    fn new_record(&self, command: Command, query: Vec<u8>, digest: Option<u64>) -> Box<Record> {
        let snapshot = self.snapshot();
        let digest = digest.or_else(|| self.digest(&query, &snapshot.variables));
        Box::new(Record {
            thread_id: self.handle.id,
            username: self.want.account.row.username.clone(),
            schemaname: self.data.state.schema.as_deref().unwrap_or_default().to_vec(),
            client: format!("{}:{}", self.handle.peer.0, self.handle.peer.1),
            digest,
            ..Record::new(command.name(), query, self.handle.since())
        })
    }

    /// A part of the statement has ended.
    pub(super) fn mark(&mut self, part: impl FnOnce(&mut Phases) -> &mut Option<Duration>) {
        if let Some(record) = &mut self.run.record {
            *part(&mut record.phases) = Some(record.arrived.elapsed());
        }
    }

    /// A connection was leased, after a wait or at once.
    pub(super) fn mark_lease(&mut self, backend: &Backend, has_waited: bool) {
        let Some(record) = &mut self.run.record else { return };
        let login = &backend.login;
        record.phases = Phases::default();
        record.phases.waited = has_waited.then(|| record.arrived.elapsed());
        record.phases.connected = (login.created > record.arrived).then_some(login.connect_time);
    }

    /// The statement with the place of its trace as a query attribute, if it is traced and client and server have negotiated that.
    pub(super) fn traced_query(&self, backend: &Backend, request: &Request, job: &Job) -> Option<Vec<u8>> {
        let trace = self.run.record.as_ref()?.trace?;
        let negotiated = backend.login.capabilities.intersection(self.client.capabilities);
        if job.command != Command::Query || !negotiated.contains(Capabilities::QUERY_ATTRIBUTES) {
            return None;
        }
        let (attributes, text) = request.argument().split_at_checked(job.attributes)?;
        let told = TraceParent { span_id: trace.on_server, ..trace.own }.to_string();
        let attributes = with_attribute(attributes, TRACE_PARENT, told.as_bytes()).ok()?;
        Some(framed_query(&[&attributes, text]))
    }

    /// The statement is about to be sent to a server, which may be another one than its rules say: a client keeps its connection.
    pub(super) fn record_server(&mut self, backend: &Backend) {
        if let Some(record) = &mut self.run.record {
            record.hostgroup = backend.login.server.row.hostgroup;
            record.server = Some(backend.login.server.address());
            record.family = Some(backend.login.family);
            record.phases.sent = Some(record.arrived.elapsed());
        }
    }

    /// Fills in what an answer reports.
    pub(super) fn fill_record(&mut self, outcome: &mut Outcome) {
        if let Some(record) = &mut self.run.record {
            record.rows_affected = outcome.affected_rows;
            record.last_insert_id = outcome.last_insert_id;
            record.rows_sent = outcome.rows;
            record.bytes_sent = outcome.bytes;
            record.error = outcome.error;
            record.error_text = std::mem::take(&mut outcome.error_text);
            record.phases.first_byte = outcome.first_byte.map(|moment| moment.duration_since(record.arrived));
        }
    }

    /// Queues the record of a statement whose answer came from the cache.
    pub(super) fn end_record_from_cache(&mut self, outcome: &Outcome) {
        if let Some(record) = &mut self.run.record {
            record.rows_sent = outcome.rows;
            record.bytes_sent = outcome.bytes;
        }
        self.end_record();
    }

    /// Fills in an error of Narrows' own.
    pub(super) fn fail_record(&mut self, errno: u16) {
        if let Some(record) = &mut self.run.record {
            record.error = Some(errno);
        }
    }

    /// Fills in the message of an error of Narrows' own.
    pub(super) fn note_record_error(&mut self, text: &str) {
        if let Some(record) = &mut self.run.record {
            record.error_text = text.as_bytes().to_vec();
        }
    }

    /// The statement is tried again.
    pub(super) fn count_retry(&mut self) {
        self.worker.counters.borrow_mut().retries += 1;
        if let Some(record) = &mut self.run.record {
            record.retries += 1;
        }
    }

    /// Queues the record, if it is still wanted.
    pub(super) fn end_record(&mut self) {
        let Some(mut record) = self.run.record.take() else { return };
        record.duration = record.arrived.elapsed();
        let slow = self.snapshot().variables.eventslog_slow_time;
        record.is_logged |= record.if_slow && record.duration >= slow;
        if !record.is_logged && record.trace.is_none() {
            return;
        }
        if let Some(log) = &*self.worker.query_log.borrow() {
            log.offer(record);
        }
    }
}

/// The place of a statement in its trace: below the span that the application names, or in a trace of its own if it is chosen.
///
/// An attribute that names a trace as not recorded may be wrong: Connector/Python names all of them so, and has no attribute for
/// those that are not recorded. It counts if the statement is chosen.
fn new_trace(job: &Job, request: &Request, is_chosen: impl Fn() -> bool) -> Option<Trace> {
    let named = job.attributes > NO_ATTRIBUTES.len();
    let attribute = match named {
        true => attribute_text(request.argument(), TRACE_PARENT).and_then(TraceParent::parse),
        false => None,
    };
    let (trace_id, parent) = match attribute.or_else(|| TraceParent::of_comment(job.text(request))) {
        Some(above) if above.is_sampled || (attribute.is_some() && is_chosen()) => {
            (above.trace_id, Some(above.span_id))
        }
        Some(_) => return None,
        None if is_chosen() => (rand::random(), None),
        None => return None,
    };
    let own = TraceParent { trace_id, span_id: rand::random(), is_sampled: true };
    Some(Trace { own, parent, on_server: rand::random() })
}

/// The name of the query attribute.
const TRACE_PARENT: &[u8] = b"traceparent";
