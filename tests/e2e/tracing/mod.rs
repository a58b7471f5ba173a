//! Traces: what a collector receives, and what clients notice if it misbehaves.

mod application;
mod collector;

use std::time::{Duration, Instant};

use narrows_testkit::{
    Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions, capability, command,
    free_port, wait_until,
};
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::support::start;
use collector::{Collector, Manner, value};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    (0..hex.len()).step_by(2).map(digits).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Narrows in front of a server, which sends traces to `endpoint`; of the statements that name none, one in `one_in`.
fn traced(server: &RealServer, endpoint: &str, one_in: &str) -> NarrowsConfig {
    NarrowsConfig::in_front_of(server.port())
        .variable("otlp_endpoint", endpoint)
        .variable("otlp_rate_limit", one_in)
}

fn one<'s>(spans: &'s [Span], name: &str) -> &'s Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no span `{name}` in {spans:?}"));
    assert!(found.next().is_none(), "two spans `{name}`");
    span
}

/// A counter in `SHOW NARROWS STATUS`.
fn counter(narrows: &Narrows, name: &str) -> u64 {
    let rows = narrows.admin().query("SHOW NARROWS STATUS").text_rows();
    let row = rows.into_iter().find(|row| row[0].as_deref() == Some(name)).expect("a row");
    row[1].as_deref().and_then(|value| value.parse().ok()).expect("a number")
}

#[test]
fn a_statement_with_a_comment_is_part_of_the_applications_trace() {
    let server = RealServer::shared(Flavour::MariaDb);
    let collector = Collector::start(Manner::Accept);
    let config = traced(server, &collector.endpoint(), "0")
        .environment("OTEL_SERVICE_NAME", "shop-proxy")
        .environment("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20secret");
    let narrows = start(&config);
    let mut client = narrows.client();
    client.query("SELECT 'not traced'");
    let before = Instant::now();
    client.query(format!("SELECT 'secret', SLEEP(0.2) /*traceparent='00-{TRACE}-{PARENT}-01'*/"));
    let took = before.elapsed();

    let spans = collector.trace_with(&bytes(TRACE), "narrows SELECT");
    let (own, on_server) = (one(&spans, "narrows SELECT"), one(&spans, "server"));
    assert_eq!(hex(&own.parent_span_id), PARENT);
    assert_eq!(on_server.parent_span_id, own.span_id);
    let length = |span: &Span| Duration::from_nanos(span.end_time_unix_nano - span.start_time_unix_nano);
    // It may end a little later than the client has its answer.
    let possible = Duration::from_millis(200)..took + Duration::from_secs(1);
    assert!(possible.contains(&length(own)), "{:?}", length(own));
    assert!(length(on_server) <= length(own));
    assert_eq!(value(&on_server.attributes, "db.system.name").as_deref(), Some("mariadb"));
    assert_eq!(value(&on_server.attributes, "db.query.text").as_deref(), Some("SELECT ?,SLEEP(?)"));
    assert_eq!(value(&on_server.attributes, "server.port"), Some(server.port().to_string()));
    assert_eq!(value(&own.attributes, "narrows.rows_sent").as_deref(), Some("1"));

    let received = collector.received();
    assert!(received.iter().all(|received| received.span.trace_id == bytes(TRACE)), "only that one");
    assert_eq!(value(&received[0].resource, "service.name").as_deref(), Some("shop-proxy"));
    let head = &collector.heads()[0];
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
    assert!(head.contains("api-key: a secret\r\n"), "{head}");
    assert!(!narrows.log().contains("a secret"), "keys are not logged");
    assert_eq!(counter(&narrows, "Narrows_trace_spans_sent"), received.len() as u64);
}

#[test]
fn a_statement_on_a_new_connection_with_a_long_answer_has_all_parts() {
    let server = RealServer::shared(Flavour::MariaDb);
    let collector = Collector::start(Manner::Accept);
    let narrows = start(&traced(server, &collector.endpoint(), "0").variable("threads", "1"));
    let (mut client, mut other) = (narrows.client(), narrows.client());
    client.query("SET time_zone = '+05:00'");
    // Takes the only connection, and keeps it.
    other.query("BEGIN");
    other.query("SELECT 1 FROM mysql.user FOR UPDATE");
    client.query(format!("SELECT REPEAT('x', 8000000) /*traceparent='00-{TRACE}-{PARENT}-01'*/"));
    let spans = collector.trace_with(&bytes(TRACE), "narrows SELECT");
    let own = one(&spans, "narrows SELECT");
    let mut ended = own.start_time_unix_nano;
    for name in ["wait", "align", "server", "relay"] {
        let part = one(&spans, name);
        assert_eq!(part.parent_span_id, own.span_id, "{name}");
        assert!(ended <= part.start_time_unix_nano, "`{name}` begins after the part before");
        ended = part.end_time_unix_nano;
    }
    assert!(ended <= own.end_time_unix_nano);
    assert_eq!(one(&spans, "connect").parent_span_id, one(&spans, "wait").span_id);
}

#[test]
fn statements_without_a_trace_begin_one_and_errors_are_shown() {
    let server = RealServer::shared(Flavour::MariaDb);
    let collector = Collector::start(Manner::Accept);
    let narrows = start(&traced(server, &format!("{}/otel/", collector.endpoint()), "1"));
    assert!(narrows.client().query("SELECT * FROM nowhere.t WHERE a = 'secret'").error().is_some());
    wait_until("the span has arrived", || !collector.received().is_empty());
    let spans: Vec<Span> = collector.received().into_iter().map(|received| received.span).collect();
    let own = one(&spans, "narrows SELECT");
    assert!(own.parent_span_id.is_empty());
    let login = one(&spans, "login");
    assert!(login.start_time_unix_nano < login.end_time_unix_nano);
    assert!(login.end_time_unix_nano <= own.start_time_unix_nano && login.parent_span_id == own.span_id);
    assert!(spans.iter().all(|span| span.trace_id == own.trace_id));
    assert_eq!(value(&own.attributes, "error.type").as_deref(), Some("1146"));
    let status = own.status.as_ref().expect("a status");
    assert_eq!((status.code, status.message.contains("nowhere.t")), (2, true), "{status:?}");
    assert!(collector.heads()[0].starts_with("POST /otel/v1/traces "), "{:?}", collector.heads());
}

/// Narrows adds the attribute for the server, which then has the same trace, and the span on it as its parent.
#[test]
fn the_server_has_the_trace_of_a_query_attribute() {
    if !Flavour::MySql9.is_tested() {
        return;
    }
    let server = ServerOptions::new(Flavour::MySql9).start();
    server.execute(&["INSTALL COMPONENT 'file://component_query_attributes'"]);
    let collector = Collector::start(Manner::Accept);
    let narrows = start(&traced(&server, &collector.endpoint(), "0"));
    // Servers' capabilities are offered once a server is known.
    narrows.client().query("SELECT 1");
    let login = Login::new("sbtest", "sbtest").with(capability::QUERY_ATTRIBUTES);
    let mut client = RawClient::open(&narrows.endpoint(), &login);
    let attribute = format!("00-{TRACE}-{PARENT}-01");
    // One parameter in one set, bound, not NULL: a string with a name.
    let head = [&[1, 1, 0, 1, 0xFE, 0][..], b"\x0Btraceparent", &[55]].concat();
    let payload =
        [&head, attribute.as_bytes(), b"SELECT mysql_query_attribute_string('traceparent')"].concat();
    let seen = client.command(command::QUERY, &payload).cell().expect("a text");

    let spans = collector.trace_with(&bytes(TRACE), "narrows SELECT");
    let (own, on_server) = (one(&spans, "narrows SELECT"), one(&spans, "server"));
    assert_eq!(hex(&own.parent_span_id), PARENT);
    assert_eq!(seen, format!("00-{TRACE}-{}-01", hex(&on_server.span_id)));
    assert_eq!(value(&own.attributes, "db.system.name").as_deref(), Some("mysql"));
}

/// Statements of a client, each with a trace, none of which may wait for the collector.
fn run_statements(narrows: &Narrows, count: usize) {
    let mut client = narrows.client();
    for _ in 0..count {
        let began = Instant::now();
        assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"));
        assert!(began.elapsed() < Duration::from_secs(2), "a statement took {:?}", began.elapsed());
    }
}

#[test]
fn a_collector_that_is_away_is_tried_again_and_logged_once() {
    let server = RealServer::shared(Flavour::MariaDb);
    let port = free_port();
    let narrows = start(&traced(server, &format!("http://127.0.0.1:{port}"), "1"));
    run_statements(&narrows, 100);
    wait_until("two requests have failed", || counter(&narrows, "Narrows_trace_requests_failed") >= 2);
    run_statements(&narrows, 100);
    let collector = Collector::start_at(port);
    let narrows_spans = || {
        let received = collector.received();
        received.iter().filter(|received| received.span.name == "narrows SELECT").count()
    };
    wait_until("everything has arrived", || narrows_spans() >= 200);
    assert_eq!(counter(&narrows, "Narrows_trace_spans_dropped"), 0);
    let log = narrows.wait_for_log(0, |line| line.contains("the collector takes traces again"));
    assert!(log.contains("dropped=0"), "{log}");
    assert_eq!(narrows.log().matches("the collector does not take traces").count(), 1);
}

#[test]
fn a_collector_that_hangs_disturbs_nobody_and_what_does_not_fit_is_counted() {
    let server = RealServer::shared(Flavour::MariaDb);
    let collector = Collector::start(Manner::Hang);
    let narrows = start(&traced(server, &collector.endpoint(), "1"));
    let resident = narrows.resident_bytes();
    let long = format!("SELECT {}", "a_long_name_of_a_column AS another_name, ".repeat(100));
    let mut client = narrows.client();
    wait_until("spans were dropped", || {
        for _ in 0..200 {
            let began = Instant::now();
            assert!(client.query(&long).error().is_some());
            assert!(began.elapsed() < Duration::from_secs(2), "a statement took {:?}", began.elapsed());
        }
        counter(&narrows, "Narrows_trace_spans_dropped") > 0
    });
    let grown = narrows.resident_bytes().saturating_sub(resident);
    assert!(grown < 120 << 20, "{grown} bytes");
    collector.set(Manner::Accept);
    wait_until("spans arrive", || counter(&narrows, "Narrows_trace_spans_sent") > 0);
    let log = narrows.wait_for_log(0, |line| line.contains("the collector takes traces again"));
    assert!(!log.contains("dropped=0"), "{log}");
}

#[test]
fn answers_of_a_collector_are_obeyed() {
    let server = RealServer::shared(Flavour::MariaDb);
    let collector = Collector::start(Manner::Fail("503 Service Unavailable\r\nRetry-After: 1"));
    let narrows = start(&traced(server, &collector.endpoint(), "1"));
    run_statements(&narrows, 1);
    wait_until("it was sent again", || counter(&narrows, "Narrows_trace_requests_failed") >= 2);
    collector.set(Manner::Accept);
    wait_until("it has arrived", || counter(&narrows, "Narrows_trace_spans_sent") > 0);
    assert_eq!(counter(&narrows, "Narrows_trace_spans_dropped"), 0);

    // What is refused is not sent again.
    collector.set(Manner::Fail("400 Bad Request"));
    run_statements(&narrows, 1);
    wait_until("it was dropped", || counter(&narrows, "Narrows_trace_spans_dropped") > 0);
    collector.set(Manner::AcceptAllBut(1));
    let (sent, dropped) =
        (counter(&narrows, "Narrows_trace_spans_sent"), counter(&narrows, "Narrows_trace_spans_dropped"));
    run_statements(&narrows, 1);
    wait_until("the others were accepted", || counter(&narrows, "Narrows_trace_spans_sent") > sent);
    assert_eq!(counter(&narrows, "Narrows_trace_spans_dropped"), dropped + 1);
}

#[test]
fn collectors_that_are_none_do_not_lose_spans() {
    let server = RealServer::shared(Flavour::MariaDb);
    let collector = Collector::start(Manner::Raw(b""));
    let narrows = start(&traced(server, &collector.endpoint(), "1"));
    run_statements(&narrows, 1);
    let mut failed = 0;
    for answer in [
        &b""[..],
        b"220 mail.example.com ESMTP\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n",
        b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: -1\r\n\r\n",
    ] {
        collector.set(Manner::Raw(answer));
        let known = failed;
        wait_until("it was sent again", || {
            failed = counter(&narrows, "Narrows_trace_requests_failed");
            failed > known
        });
    }
    run_statements(&narrows, 10);
    collector.set(Manner::Accept);
    let spans = || {
        let received = collector.received();
        received.iter().filter(|received| received.span.name == "narrows SELECT").count()
    };
    wait_until("all have arrived", || spans() >= 11);
    assert_eq!(counter(&narrows, "Narrows_trace_spans_dropped"), 0);
}

#[test]
fn the_endpoint_changes_at_runtime_and_must_be_an_address() {
    let server = RealServer::shared(Flavour::MariaDb);
    let (one, other) = (Collector::start(Manner::Hang), Collector::start(Manner::Accept));
    let narrows = start(&traced(server, &one.endpoint(), "1"));
    let mut admin = narrows.admin();
    let mut set = |value: &str| {
        admin.query(format!("SET mysql-otlp_endpoint = '{value}'"));
        admin.query("LOAD MYSQL VARIABLES TO RUNTIME");
    };
    run_statements(&narrows, 1);
    wait_until("the first is asked", || !one.heads().is_empty());
    for text in ["collector:4318", "grpc://127.0.0.1:4317", "http://key:secret@127.0.0.1:4318"] {
        let known = narrows.log().len();
        set(text);
        let log =
            narrows.wait_for_log(known, |line| line.contains("otlp_endpoint: expected http://host:port"));
        assert!(log.contains(&format!("it stays \"{}\"", one.endpoint())), "{log}");
        assert!(!log.contains("secret"), "{log}");
    }
    // What has not arrived there is sent to the other one.
    set(&other.endpoint());
    wait_until("the other one has it", || !other.received().is_empty());

    set("");
    let known = other.received().len();
    run_statements(&narrows, 10);
    set(&other.endpoint());
    run_statements(&narrows, 1);
    wait_until("there are traces again", || other.received().len() > known);
    let again = other.received().split_off(known);
    assert_eq!(again.iter().filter(|it| it.span.name == "narrows SELECT").count(), 1);
}
