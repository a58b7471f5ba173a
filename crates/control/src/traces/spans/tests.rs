//! Tests of the spans of a statement.

use std::collections::BTreeMap;
use std::time::SystemTime;

use narrows_proxy::query_log::Phases;
use narrows_proxy::rows::HostgroupId;
use narrows_proxy::rt::Instant;
use narrows_sql::TraceParent;
use narrows_wire::charset::Family;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use super::*;

const fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

fn record(phases: Phases) -> Record {
    Record {
        thread_id: 7,
        username: "app".to_owned(),
        schemaname: b"shop".to_vec(),
        client: "10.0.0.5:40000".to_owned(),
        digest: Some(0xAB),
        hostgroup: HostgroupId(3),
        server: Some("db1:3306".to_owned()),
        family: Some(Family::MariaDb),
        began: SystemTime::UNIX_EPOCH + Duration::from_secs(1_000),
        duration: ms(100),
        phases,
        retries: 1,
        rows_sent: Some(5),
        bytes_sent: 60,
        trace: Some(Trace {
            own: TraceParent { trace_id: [1; 16], span_id: [2; 8], is_sampled: true },
            parent: Some([3; 8]),
            on_server: [4; 8],
        }),
        ..Record::new("COM_QUERY", b"SELECT 'secret' FROM t".to_vec(), Instant::now())
    }
}

#[test]
fn a_login_is_before_the_first_statement() {
    let mut record = record(Phases::default());
    record.login = Some((ms(70), ms(30)));
    let (spans, ns) = (spans(&record), |ms: u64| ms * 1_000_000);
    let (own, login) = (&spans["narrows SELECT"], &spans["login"]);
    assert_eq!(login.parent_span_id, own.span_id);
    assert_eq!(login.start_time_unix_nano + ns(70), own.start_time_unix_nano);
    assert_eq!(login.end_time_unix_nano + ns(30), own.start_time_unix_nano);
}

fn spans(record: &Record) -> BTreeMap<String, Span> {
    let mut all = Vec::new();
    add(record, &mut all);
    assert_eq!(all.len() as u64, count(record));
    assert!(all.iter().all(|span| span.trace_id == [1; 16] && span.span_id.len() == 8));
    all.into_iter().map(|span| (span.name.clone(), span)).collect()
}

fn attributes(span: &Span) -> BTreeMap<String, String> {
    let shown = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("{other:?}"),
    };
    span.attributes.iter().map(|pair| (pair.key.clone(), shown(pair))).collect()
}

/// Begin and end in ms after the arrival.
fn times(span: &Span) -> (u64, u64) {
    let after = |ns: u64| (ns - 1_000_000_000_000) / 1_000_000;
    (after(span.start_time_unix_nano), after(span.end_time_unix_nano))
}

const ALL: Phases = Phases {
    waited: Some(ms(30)),
    connected: Some(ms(20)),
    align_began: Some(ms(31)),
    aligned: Some(ms(40)),
    sent: Some(ms(41)),
    first_byte: Some(ms(80)),
};

#[test]
fn parts_have_their_times_and_parents() {
    let spans = spans(&record(ALL));
    let found: Vec<_> = spans.values().map(|span| (span.name.as_str(), times(span))).collect();
    assert_eq!(
        found,
        [
            ("align", (31, 40)),
            ("connect", (10, 30)),
            ("narrows SELECT", (0, 100)),
            ("relay", (80, 100)),
            ("server", (41, 80)),
            ("wait", (0, 30)),
        ]
    );
    assert_eq!(spans["narrows SELECT"].parent_span_id, [3; 8]);
    assert_eq!(spans["narrows SELECT"].flags, 0x301);
    assert_eq!(spans["narrows SELECT"].kind(), SpanKind::Server);
    assert_eq!((spans["server"].span_id.as_slice(), spans["server"].kind()), (&[4; 8][..], SpanKind::Client));
    for part in ["wait", "align", "server", "relay"] {
        assert_eq!(
            (spans[part].parent_span_id.as_slice(), spans[part].flags),
            (&[2; 8][..], 0x101),
            "{part}"
        );
    }
    assert_eq!(spans["connect"].parent_span_id, spans["wait"].span_id);
    assert!(spans.values().all(|span| span.status.is_none()));
}

#[test]
fn what_did_not_happen_has_no_span() {
    let mut answered = record(Phases::default());
    answered.server = None;
    answered.trace = answered.trace.map(|trace| Trace { parent: None, ..trace });
    let one = spans(&answered);
    assert_eq!(one.len(), 1);
    assert_eq!(one["narrows SELECT"].parent_span_id, [0_u8; 0]);
    assert!(!attributes(&one["narrows SELECT"]).contains_key("narrows.hostgroup"));
    // The connection was lost: there was no answer.
    let lost = spans(&record(Phases { sent: Some(ms(5)), ..Phases::default() }));
    assert_eq!(lost.keys().collect::<Vec<_>>(), ["narrows SELECT", "server"]);
    assert_eq!(times(&lost["server"]), (5, 100));
    answered.trace = None;
    assert_eq!(count(&answered), 0);
}

#[test]
fn times_out_of_order_do_not_end_before_they_begin() {
    let odd = Phases {
        waited: Some(ms(500)),
        connected: Some(ms(900)),
        align_began: Some(ms(90)),
        aligned: Some(ms(10)),
        sent: Some(ms(70)),
        first_byte: Some(ms(60)),
    };
    for span in spans(&record(odd)).values() {
        let (from, to) = times(span);
        assert!(from <= to && to <= 100, "{}: {from} to {to}", span.name);
    }
}

#[test]
fn attributes_are_those_of_the_conventions() {
    let spans = spans(&record(ALL));
    let server = attributes(&spans["server"]);
    let expected = [
        ("db.namespace", "shop"),
        ("db.operation.name", "SELECT"),
        ("db.query.text", "SELECT ? FROM t"),
        ("db.system.name", "mariadb"),
        ("server.address", "db1"),
        ("server.port", "3306"),
    ];
    assert_eq!(server, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    let own = attributes(&spans["narrows SELECT"]);
    for (key, value) in expected.into_iter().chain([
        ("client.address", "10.0.0.5"),
        ("client.port", "40000"),
        ("user.name", "app"),
        ("narrows.hostgroup", "3"),
        ("narrows.digest", "0x00000000000000AB"),
        ("narrows.rows_sent", "5"),
        ("narrows.retries", "1"),
    ]) {
        assert_eq!(own.get(key).map(String::as_str), Some(value), "{key}");
    }
}

#[test]
fn hostile_texts_stay_short_and_valid() {
    let mut hostile = record(ALL);
    hostile.query = [&b"SELECT '"[..], &b"\xFF\0\x80".repeat(400_000)].concat();
    hostile.schemaname = b"\xF0\x9F".repeat(3_000);
    hostile.username = "\u{1F600}".repeat(3_000);
    hostile.client = ":0".to_owned();
    hostile.server = Some("/run/mysqld/my:sqld.sock".to_owned());
    hostile.error = Some(1064);
    hostile.error_text = b"near '\xFF secret' secret' at line 1".repeat(2_000);
    let spans = spans(&hostile);
    let own = &spans["narrows SELECT"];
    let shown = attributes(own);
    assert!(shown.values().all(|value| value.len() <= 2_048), "{shown:?}");
    assert!(!shown.contains_key("client.address"));
    assert_eq!(shown["server.address"], "/run/mysqld/my:sqld.sock");
    assert_eq!((shown["error.type"].as_str(), shown["db.response.status_code"].as_str()), ("1064", "1064"));
    for span in [own, &spans["server"]] {
        let status = span.status.as_ref().expect("a status");
        assert_eq!((status.code(), status.message.starts_with("near '?")), (StatusCode::Error, true));
        assert!(!status.message.contains("secret"), "{}", status.message);
    }
}
