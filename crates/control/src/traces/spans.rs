//! The spans of one statement: its own, and below that its parts.
//!
//! ```text
//! narrows SELECT            from its arrival to the end of its answer; below the application's span
//! ├─ login                  before the first statement of a session
//! ├─ wait                   for a connection; only if it had to
//! │  └─ connect             the opening of one, at the end of the wait
//! ├─ align                  the connection receives the session's state; only if it did not have it
//! ├─ server                 from sending it to the first byte of the answer; known to the server as its parent
//! └─ relay                  the rest of the answer; only if it did not arrive as a whole
//! ```

use std::time::Duration;

use narrows_proxy::clock::since_1970;
use narrows_proxy::query_log::{Record, Trace};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};

use super::attributes::{Told, of_narrows};
use super::private::message;

/// Adds the spans of a record to `spans`; none, if it is not traced.
pub fn add(record: &Record, spans: &mut Vec<Span>) {
    let Some(trace) = &record.trace else { return };
    let told = Told::of(record);
    let build = Build { record, trace };
    let own = build.own(&told);
    let parts = parts(record);
    spans.extend(record.login.map(|times| build.login(times)));
    let wait = parts.wait.map(|times| build.part("wait", times, rand::random(), &trace.own.span_id));
    if let (Some(wait), Some(times)) = (&wait, parts.connect) {
        spans.push(build.below(&wait.span_id, "connect", times, rand::random()));
    }
    spans.extend(wait);
    let part = |name, times| build.part(name, times, rand::random(), &trace.own.span_id);
    spans.extend(parts.align.map(|times| part("align", times)));
    spans.extend(parts.server.map(|times| build.on_server(&told, times)));
    spans.extend(parts.relay.map(|times| part("relay", times)));
    spans.push(own);
}

/// How many spans a record becomes.
pub fn count(record: &Record) -> u64 {
    if record.trace.is_none() {
        return 0;
    }
    let Parts { wait, connect, align, server, relay } = parts(record);
    let login = u64::from(record.login.is_some());
    1 + login + [wait, connect, align, server, relay].iter().flatten().map(|_| 1).sum::<u64>()
}

/// When a part began and ended, after the arrival of the statement.
type Times = (Duration, Duration);

/// The parts that a statement had.
struct Parts {
    wait: Option<Times>,
    connect: Option<Times>,
    align: Option<Times>,
    server: Option<Times>,
    relay: Option<Times>,
}

/// Reads the parts; none of them ends before it begins, or after the statement.
fn parts(record: &Record) -> Parts {
    let (phases, end) = (&record.phases, record.duration);
    let within = |from: Duration, to: Duration| {
        let to = to.min(end);
        (from.min(to), to)
    };
    let both = |from: Option<Duration>, to: Option<Duration>| Some(within(from?, to?));
    let wait = phases.waited.map(|waited| within(Duration::ZERO, waited));
    let connect = wait
        .zip(phases.connected)
        .map(|((_, waited), connected)| within(waited.saturating_sub(connected), waited));
    let is_sent = record.server.is_some();
    Parts {
        wait,
        connect,
        align: both(phases.align_began, phases.aligned),
        server: both(phases.sent, Some(phases.first_byte.unwrap_or(end))).filter(|_| is_sent),
        relay: both(phases.first_byte, Some(end)).filter(|_| is_sent),
    }
}

/// What the spans of a statement have in common.
struct Build<'r> {
    record: &'r Record,
    trace: &'r Trace,
}

impl Build<'_> {
    fn own(&self, told: &Told) -> Span {
        let name = told.operation().map_or_else(|| "narrows".to_owned(), |name| format!("narrows {name}"));
        let mut attributes = told.of_database(self.record);
        attributes.extend(of_narrows(self.record));
        let mut span = self.below(&[], &name, (Duration::ZERO, self.record.duration), self.trace.own.span_id);
        if let Some(parent) = self.trace.parent {
            span.parent_span_id = parent.to_vec();
            span.flags |= PARENT_IS_REMOTE;
        }
        self.with_outcome(span, SpanKind::Server, attributes)
    }

    /// The login of the client; its times are those before the arrival of the statement.
    fn login(&self, (from, to): Times) -> Span {
        let mut span =
            self.part("login", (Duration::ZERO, Duration::ZERO), rand::random(), &self.trace.own.span_id);
        let arrival = span.start_time_unix_nano;
        let before =
            |time: Duration| arrival.saturating_sub(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        (span.start_time_unix_nano, span.end_time_unix_nano) = (before(from), before(to));
        span
    }

    fn on_server(&self, told: &Told, times: Times) -> Span {
        let span = self.part("server", times, self.trace.on_server, &self.trace.own.span_id);
        self.with_outcome(span, SpanKind::Client, told.of_database(self.record))
    }

    fn part(&self, name: &str, times: Times, id: [u8; 8], parent: &[u8; 8]) -> Span {
        self.below(parent, name, times, id)
    }

    fn below(&self, parent: &[u8], name: &str, (from, to): Times, id: [u8; 8]) -> Span {
        Span {
            trace_id: self.trace.own.trace_id.to_vec(),
            span_id: id.to_vec(),
            parent_span_id: parent.to_vec(),
            flags: SAMPLED | PARENT_IS_KNOWN,
            name: name.to_owned(),
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: self.at(from),
            end_time_unix_nano: self.at(to),
            ..Span::default()
        }
    }

    fn with_outcome(&self, span: Span, kind: SpanKind, attributes: Vec<KeyValue>) -> Span {
        let status = self.record.error.map(|errno| Status {
            code: StatusCode::Error.into(),
            message: message(errno, &self.record.error_text),
        });
        Span { kind: kind.into(), attributes, status, ..span }
    }

    /// A time in ns since 1970.
    fn at(&self, after: Duration) -> u64 {
        let since = since_1970(self.record.began) + after;
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The flag of W3C Trace Context for a trace that is recorded.
const SAMPLED: u32 = 0x001;

/// It is known whether the span above is in another process.
const PARENT_IS_KNOWN: u32 = 0x100;

/// It is.
const PARENT_IS_REMOTE: u32 = 0x200;

#[cfg(test)]
mod tests;
