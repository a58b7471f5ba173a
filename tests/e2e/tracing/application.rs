//! An application in Python with OpenTelemetry's own instrumentation (`tests/drivers/tracing`): its spans and those of Narrows are
//! one trace.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use narrows_testkit::{Flavour, RealServer, ServerOptions};
use opentelemetry_proto::tonic::trace::v1::Span;

use super::collector::{Collector, Manner};
use super::{bytes, hex, one, traced};
use crate::support::start;

#[test]
fn a_comment_of_pymysql_joins_the_spans() {
    if is_skipped() {
        return;
    }
    let (spans, _) = run("pymysql", "0", RealServer::shared(Flavour::MariaDb));
    are_one_trace(&spans);
}

#[test]
fn an_attribute_of_connector_python_joins_the_spans() {
    if is_skipped() || !Flavour::MySql9.is_tested() {
        return;
    }
    let server = ServerOptions::new(Flavour::MySql9).start();
    server.execute(&["INSTALL COMPONENT 'file://component_query_attributes'"]);
    // The connector says of all traces that they are not recorded.
    let (spans, told) = run("connector", "1", &server);
    are_one_trace(&spans);
    let on_server = one(&spans, "server");
    assert_eq!(told, format!("00-{}-{}-01", hex(&on_server.trace_id), hex(&on_server.span_id)));
}

fn is_skipped() -> bool {
    let is_skipped = std::env::var("NARROWS_SKIP_DRIVERS").as_deref() == Ok("1");
    if is_skipped {
        eprintln!("the application is skipped: NARROWS_SKIP_DRIVERS=1");
    }
    is_skipped
}

/// The spans of the application's trace, and what its statement has returned.
fn run(driver: &str, one_in: &str, server: &RealServer) -> (Vec<Span>, String) {
    let collector = Collector::start(Manner::Accept);
    let narrows = start(&traced(server, &collector.endpoint(), one_in));
    // Servers' capabilities are offered once a server is known.
    narrows.client().query("SELECT 1");
    let drivers = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers");
    let installed =
        Command::new(drivers.join("install.sh")).arg("tracing").status().expect("bash runs scripts");
    assert!(installed.success(), "NARROWS_SKIP_DRIVERS=1 skips this");
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/drivers/tracing/bin/python");
    let output = Command::new(python)
        .arg(drivers.join("tracing/application.py"))
        .args([driver, &collector.endpoint(), "127.0.0.1", &narrows.port().to_string(), "sbtest", "sbtest"])
        .output()
        .expect("Python");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let (trace_id, told) = text.trim().split_once(' ').expect("two words");
    collector.trace_with(&bytes(trace_id), "checkout");
    (collector.trace_with(&bytes(trace_id), "narrows SELECT"), told.to_owned())
}

/// The application's span, the one of its driver, and those of Narrows, each below the one before.
fn are_one_trace(spans: &[Span]) {
    let by_id: BTreeMap<&[u8], &Span> = spans.iter().map(|span| (&*span.span_id, span)).collect();
    let mut path = Vec::new();
    let mut span = one(spans, "server");
    loop {
        path.push(span.name.as_str());
        match by_id.get(&*span.parent_span_id) {
            Some(parent) => span = parent,
            None => break,
        }
    }
    assert!(path.len() >= 4, "{path:?}");
    assert_eq!((path[1], path.last()), ("narrows SELECT", Some(&"checkout")), "{path:?}");
    assert!(span.parent_span_id.is_empty(), "{path:?}");
}
