//! `PROXYSQL STOP`: no client is served, none waits in vain, and nothing treats it as a fault.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use narrows_testkit::Narrows;

use super::{BINARY, scene, upgrade};

/// Longer than a process lives that misses its heartbeats, if one may be missed.
const WATCHED: Duration = Duration::from_millis(8_500);

#[test]
fn a_stopped_proxy_stays_stopped_and_refuses_clients() {
    let (_server, narrows) = scene(|config| config.missing_heartbeats(1));
    let mut admin = narrows.admin();
    let worker = narrows.worker();
    narrows.client().query("DO 1").ok().expect("it serves");
    // It must have sent a heartbeat before one can be missed.
    std::thread::sleep(Duration::from_secs(2));
    admin.query("PROXYSQL STOP").ok().expect("it stops");
    wait_until_refused(&narrows);
    std::thread::sleep(WATCHED);
    assert!(!narrows.log().contains("is not responding"), "{}", narrows.log());
    admin.query("SELECT 1").cell().expect("administrators are served");
    assert_eq!(narrows.worker(), worker);
    wait_until_refused(&narrows);
    let (done, text) = upgrade(BINARY.as_ref(), &narrows);
    assert!(!done && text.contains("PROXYSQL STOP is in force"), "{text}");
    for _ in 0..10 {
        admin.query("PROXYSQL START").ok().unwrap_or_else(|| panic!("it starts:\n{}", narrows.log()));
        narrows.client().query("DO 1").ok().expect("it serves");
        admin.query("PROXYSQL STOP").ok().expect("it stops");
    }
    wait_until_refused(&narrows);
}

#[test]
fn a_client_of_a_proxy_that_was_stopped_and_started_keeps_its_connection() {
    let (_server, narrows) = scene(|config| config.missing_heartbeats(1));
    let mut admin = narrows.admin();
    let worker = narrows.worker();
    std::thread::sleep(Duration::from_secs(2));
    admin.query("PROXYSQL STOP").ok().expect("it stops");
    admin.query("PROXYSQL START").ok().expect("it starts");
    let mut client = narrows.client();
    client.query("DO 1").ok().expect("it serves");
    std::thread::sleep(WATCHED);
    client.query("DO 1").ok().expect("it still does");
    assert_eq!(narrows.worker(), worker);
    assert!(!narrows.log().contains("is not responding"), "{}", narrows.log());
}

fn wait_until_refused(narrows: &Narrows) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match TcpStream::connect(("127.0.0.1", narrows.port())) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return,
            _ => assert!(Instant::now() < deadline, "clients can log in, and wait for nothing"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
