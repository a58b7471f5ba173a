//! `narrows connect-speed`: what it counts, on each kind of connection.

use std::process::Command;

use narrows_testkit::{Conversation, FakeMysql, Move, Narrows, NarrowsConfig, free_port};
use serde_json::Value;

use crate::support::start;

/// Runs it; returns its exit code and output.
pub fn connect_speed(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .arg("connect-speed")
        .args(arguments)
        .output()
        .expect("the program starts");
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

fn scene() -> (FakeMysql, Narrows) {
    let server = FakeMysql::start(Conversation::new().on("DO 1", &[Move::ok()]));
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    (server, narrows)
}

#[test]
fn counts_over_tcp_tls_and_a_unix_socket() {
    let (server, narrows) = scene();
    let (port, socket) = (narrows.port().to_string(), narrows.socket().display().to_string());
    let ways: [&[&str]; 3] = [&["-P", &port], &["-P", &port, "-s"], &["-h", &socket]];
    for way in ways {
        let account =
            ["-u", "sbtest", "-p", "sbtest", "-i", "100", "-c", "50", "-t", "4", "-q", "2", "--json"];
        let (code, text) = connect_speed(&[way, &account].concat());
        assert_eq!(code, Some(0), "{way:?}: {text}");
        let report: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&report["ok"], &report["err"]), (&50.into(), &0.into()), "{way:?}: {text}");
        let rows = report["histogram"].as_array().expect("rows");
        assert_eq!(rows.iter().filter_map(|row| row["count"].as_u64()).sum::<u64>(), 50, "{text}");
        assert!(report["connect_us"]["max"].as_u64() >= report["connect_us"]["p50"].as_u64());
    }
    let statements = server.received().iter().filter(|command| command.body == "DO 1").count();
    assert_eq!(statements, 3 * 50 * 2);
}

#[test]
fn tells_a_refused_connect_from_a_refused_login() {
    let nobody = free_port().to_string();
    let (code, text) = connect_speed(&["-P", &nobody, "-c", "3", "-H"]);
    assert_eq!(code, Some(1));
    assert!(text.starts_with("OK 0\nERR 3\nrefused: 3\nlost: 0\n"), "{text}");
    let (_server, narrows) = scene();
    let (code, text) =
        connect_speed(&["-P", &narrows.port().to_string(), "-u", "sbtest", "-p", "wrong", "-c", "3"]);
    assert_eq!(code, Some(1));
    assert!(text.starts_with("OK 0\nERR 3\nrefused: 0\nlost: 3\n  3 times: error 1045 (28000): "), "{text}");
}
