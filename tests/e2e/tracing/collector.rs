//! A collector of traces in the test's own process: it keeps the spans that it has accepted, or misbehaves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use narrows_testkit::wait_until;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It accepts everything.
    Accept,
    /// It reads requests, and never answers.
    Hang,
    /// It answers with this status and these header lines.
    Fail(&'static str),
    /// It reads a request, and answers with this, which may be nothing, and the end of the connection.
    Raw(&'static [u8]),
    /// It accepts all but so many spans.
    AcceptAllBut(i64),
}

/// What it knows.
#[derive(Debug)]
struct State {
    manner: Manner,
    spans: Vec<Received>,
    heads: Vec<String>,
}

/// A span, and the resource that it came from.
#[derive(Debug, Clone)]
pub struct Received {
    /// The span.
    pub span: Span,
    /// The attributes of its resource.
    pub resource: Vec<KeyValue>,
}

/// The collector. Its thread ends with the process.
#[derive(Debug, Clone)]
pub struct Collector {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl Collector {
    /// Starts one on a free port.
    pub fn start(manner: Manner) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        Collector::on(listener, port, manner)
    }

    /// Starts one on this port.
    pub fn start_at(port: u16) -> Collector {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
        Collector::on(listener, port, Manner::Accept)
    }

    fn on(listener: TcpListener, port: u16, manner: Manner) -> Collector {
        let state = Arc::new(Mutex::new(State { manner, spans: Vec::new(), heads: Vec::new() }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(&stream, &state));
            }
        });
        Collector { port, state }
    }

    /// Its base address.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Behaves like this from now on.
    pub fn set(&self, manner: Manner) {
        self.state().manner = manner;
    }

    /// The heads of all requests.
    pub fn heads(&self) -> Vec<String> {
        self.state().heads.clone()
    }

    /// Everything that it has accepted.
    pub fn received(&self) -> Vec<Received> {
        self.state().spans.clone()
    }

    /// The spans of a trace, once there is one of this name.
    pub fn trace_with(&self, trace_id: &[u8], name: &str) -> Vec<Span> {
        let mut found = Vec::new();
        wait_until(&format!("the span `{name}` has arrived"), || {
            let all = self.received().into_iter().map(|received| received.span);
            found = all.filter(|span| span.trace_id == trace_id).collect();
            found.iter().any(|span| span.name == name)
        });
        found
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The value of an attribute.
pub fn value(attributes: &[KeyValue], key: &str) -> Option<String> {
    let pair = attributes.iter().find(|pair| pair.key == key)?;
    match pair.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{key}: {other:?}"),
    }
}

/// Answers the requests of one connection.
fn serve(stream: &TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream);
    while let Some((head, body)) = request(&mut reader) {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.heads.push(head);
        let (status, answer) = match state.manner {
            Manner::Hang => {
                drop(state);
                std::thread::sleep(Duration::from_secs(3_600));
                return;
            }
            Manner::Raw(bytes) => {
                // The other end may have closed it.
                let _ = (&*stream).write_all(bytes);
                return;
            }
            Manner::Fail(status) => (status, ExportTraceServiceResponse::default()),
            Manner::Accept => ("200 OK", ExportTraceServiceResponse::default()),
            Manner::AcceptAllBut(rejected_spans) => {
                let error_message = "too many".to_owned();
                let partial_success = Some(ExportTracePartialSuccess { rejected_spans, error_message });
                ("200 OK", ExportTraceServiceResponse { partial_success })
            }
        };
        if status == "200 OK" {
            keep(&body, &mut state.spans);
        }
        drop(state);
        let answer = answer.encode_to_vec();
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", answer.len());
        if (&*stream).write_all(&[head.as_bytes(), &answer].concat()).is_err() {
            return;
        }
    }
}

/// The head and the body of the next request.
fn request(reader: &mut BufReader<&TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let lower = head.to_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.expect("a length").trim().parse().expect("a number")];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn keep(body: &[u8], spans: &mut Vec<Received>) {
    let request = ExportTraceServiceRequest::decode(body).expect("a request of OTLP");
    for of_resource in request.resource_spans {
        let resource = of_resource.resource.map(|resource| resource.attributes).unwrap_or_default();
        let all = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        spans.extend(all.map(|span| Received { span, resource: resource.clone() }));
    }
}
