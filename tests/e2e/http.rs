//! The HTTP interface: metrics, health checks, draining, and clients that mean no good.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use narrows_testkit::{
    Conversation, FakeMysql, Flavour, Narrows, NarrowsConfig, ServerOptions, free_port, kill, serving_worker,
    wait_until,
};

use crate::support::start;

/// An answer: status, head and body.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the interface listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    stream
}

/// Sends a request on a connection of its own.
pub fn ask(port: u16, method: &str, path: &str, headers: &[&str]) -> Answer {
    ask_with(port, method, path, headers, "")
}

/// The same with a body, whose length is among the headers.
pub fn ask_with(port: u16, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
    let mut stream = connect(port);
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: narrows\r\nConnection: close\r\n{headers}\r\n{body}");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("an answer: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

pub fn get(port: u16, path: &str) -> Answer {
    ask(port, "GET", path, &[])
}

/// admin:admin and stats:stats
pub const ADMIN: &str = "Authorization: Basic YWRtaW46YWRtaW4=";
pub const STATS: &str = "Authorization: Basic c3RhdHM6c3RhdHM=";

/// Makes a running Narrows serve HTTP.
pub fn enable(narrows: &Narrows) -> u16 {
    let port = free_port();
    let mut admin = narrows.admin();
    for statement in [
        format!("SET admin-restapi_port = {port}"),
        "SET admin-restapi_enabled = 'true'".to_owned(),
        "LOAD ADMIN VARIABLES TO RUNTIME".to_owned(),
    ] {
        assert_eq!(admin.query(statement).error(), None);
    }
    assert!(admin.query("SHOW WARNINGS").text_rows().is_empty());
    // The thread receives the socket after the answer, but the socket listens already.
    port
}

#[test]
fn metrics_are_those_of_the_admin_interface() {
    let narrows = start(&NarrowsConfig::in_front_of(free_port()));
    let port = enable(&narrows);
    let metrics = get(port, "/metrics");
    assert_eq!(metrics.status, 200, "{}", metrics.body);
    assert!(metrics.head.contains("content-type: text/plain; version=0.0.4"), "{}", metrics.head);
    let told = narrows.stats().query("SHOW PROMETHEUS METRICS").cell().expect("a text");
    let names = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("# TYPE")).map(ToOwned::to_owned).collect()
    };
    assert_eq!(names(&metrics.body), names(&told));
    assert!(metrics.body.contains("\nproxysql_uptime_seconds_total "), "{}", metrics.body);
    let head = ask(port, "HEAD", "/metrics", &[]);
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

#[test]
fn readiness_follows_the_servers_and_the_administrators() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let port = enable(&narrows);
    assert_eq!(get(port, "/livez").status, 200);
    assert_eq!(get(port, "/readyz").status, 200, "{}", get(port, "/readyz").body);
    let mut admin = narrows.admin();
    let mut run = |statement: &str| assert_eq!(admin.query(statement).error(), None, "{statement}");
    let is_not_ready = |reason: &str| {
        let answer = get(port, "/readyz");
        assert_eq!(answer.status, 503);
        assert!(answer.body.contains(reason), "{}", answer.body);
        assert_eq!(get(port, "/livez").status, 200);
    };
    run("UPDATE mysql_servers SET status = 'OFFLINE_SOFT'");
    run("LOAD MYSQL SERVERS TO RUNTIME");
    is_not_ready("in hostgroup 0 is OFFLINE_SOFT");
    run("DELETE FROM mysql_servers");
    run("LOAD MYSQL SERVERS TO RUNTIME");
    is_not_ready("there is no server in mysql_servers");
    run("LOAD MYSQL SERVERS FROM DISK");
    run("LOAD MYSQL SERVERS TO RUNTIME");
    run("PROXYSQL PAUSE");
    is_not_ready("PROXYSQL RESUME");
    run("PROXYSQL RESUME");
    run("PROXYSQL STOP");
    is_not_ready("PROXYSQL START");
    run("PROXYSQL START");
}

/// A load balancer sends no client to a Narrows that is not ready, so that nothing but checks can show that a server is back.
#[test]
fn a_server_that_is_back_makes_narrows_ready_without_a_client() {
    let mut server = ServerOptions::new(Flavour::MariaDb).account("sbtest", "sbtest").start();
    let config = NarrowsConfig::new()
        .monitor()
        .server(0, server.port(), "")
        .user("sbtest", "sbtest", "")
        .variable("monitor_username", "sbtest")
        .variable("monitor_password", "sbtest")
        .variable("monitor_ping_interval", "500")
        .variable("monitor_ping_max_failures", "1000")
        .variable("connect_timeout_server_max", "1500")
        .variable("shun_recovery_time_sec", "2");
    let narrows = start(&config);
    let port = enable(&narrows);
    let mut client = narrows.client();
    for failures in ["1", "5"] {
        narrows.admin().query(format!("SET mysql-shun_on_failures = {failures}"));
        narrows.admin().query("LOAD MYSQL VARIABLES TO RUNTIME");
        assert_eq!(client.query("SELECT 1").error(), None);
        server.kill();
        assert!(client.query("SELECT 1").error().is_some());
        let answer = get(port, "/readyz");
        assert!(answer.status == 503 && answer.body.contains("connects have failed"), "{}", answer.body);
        server.restart();
        wait_until("it is ready again", || get(port, "/readyz").status == 200);
        let state = narrows.admin().query("SELECT status FROM stats_mysql_connection_pool").cell();
        assert_eq!(state.as_deref(), Some("ONLINE"));
    }
}

#[test]
fn draining_needs_an_administrator_and_can_be_undone() {
    let server = FakeMysql::start(Conversation::new());
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let port = enable(&narrows);
    for (headers, status) in [
        (&[][..], 401),
        (&["Authorization: Basic YWRtaW46d3Jvbmc="][..], 401),
        (&["Authorization: Basic bm9ib2R5OmFkbWlu"], 401),
        (&["Authorization: Bearer x"], 401),
        (&[STATS], 403),
        (&[ADMIN, "Origin: http://elsewhere.example"], 403),
        (&[ADMIN, "Origin: null"], 403),
    ] {
        let answer = ask(port, "POST", "/drain", headers);
        assert_eq!(answer.status, status, "{headers:?}: {}", answer.body);
        assert_eq!(answer.head.contains("www-authenticate: basic"), status == 401, "{}", answer.head);
    }
    assert_eq!(get(port, "/readyz").status, 200);
    assert_eq!(ask(port, "POST", "/drain", &[ADMIN, "Origin: http://narrows"]).status, 200);
    let answer = get(port, "/readyz");
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("draining (POST /drain by admin from 127.0.0.1"), "{}", answer.body);
    // Clients are still served.
    drop(narrows.client());
    assert_eq!(ask(port, "DELETE", "/drain", &[ADMIN]).status, 200);
    assert_eq!(get(port, "/readyz").status, 200);
    let log = narrows.log();
    assert!(log.contains("draining: /readyz says") && log.contains("draining has ended"), "{log}");
    assert!(log.contains("an HTTP client was refused"), "{log}");
}

#[test]
fn it_listens_where_the_variables_say() {
    let narrows = start(&NarrowsConfig::in_front_of(free_port()));
    let first = enable(&narrows);
    let second = enable(&narrows);
    assert_eq!(get(second, "/livez").status, 200);
    wait_until("the first port is closed", || TcpStream::connect(("127.0.0.1", first)).is_err());
    // A port that is taken is a warning, and the interface is off, as a change of its place does not keep the old one.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let mut admin = narrows.admin();
    admin.query(format!("SET admin-restapi_port = {port}"));
    assert_eq!(admin.query("LOAD ADMIN VARIABLES TO RUNTIME").error(), None);
    let warnings = admin.query("SHOW WARNINGS").text_rows();
    assert!(format!("{warnings:?}").contains("cannot listen on 127.0.0.1:"), "{warnings:?}");
    for wrong in ["localhost", "127.0.0.1:6070", "1.2.3"] {
        admin.query(format!("SET admin-restapi_address = '{wrong}'"));
        admin.query("LOAD ADMIN VARIABLES TO RUNTIME");
        let warnings = format!("{:?}", admin.query("SHOW WARNINGS").text_rows());
        assert!(warnings.contains("IP addresses"), "{wrong}: {warnings}");
    }
    admin.query("SET admin-restapi_enabled = 'false'");
    admin.query("LOAD ADMIN VARIABLES TO RUNTIME");
    wait_until("the second port is closed", || TcpStream::connect(("127.0.0.1", second)).is_err());
}

#[test]
fn tls_is_that_of_mysql_clients() {
    let narrows = start(&NarrowsConfig::in_front_of(free_port()).variable("have_ssl", "true"));
    let port = enable(&narrows);
    let mut admin = narrows.admin();
    admin.query("SET admin-restapi_tls = 'true'");
    assert_eq!(admin.query("LOAD ADMIN VARIABLES TO RUNTIME").error(), None);
    let authority = narrows.data_file("proxysql-ca.pem");
    let output = std::process::Command::new("openssl")
        .args(["s_client", "-quiet", "-verify_return_error", "-CAfile"])
        .arg(&authority)
        .args(["-connect", &format!("127.0.0.1:{port}")])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            let mut input = child.stdin.take().expect("a pipe");
            input.write_all(b"GET /livez HTTP/1.1\r\nHost: narrows\r\nConnection: close\r\n\r\n")?;
            let output = child.wait_with_output();
            drop(input);
            output
        })
        .expect("openssl runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("HTTP/1.1 200"), "{text} {}", String::from_utf8_lossy(&output.stderr));
    let mut plain = connect(port);
    plain.write_all(b"GET /livez HTTP/1.1\r\nHost: narrows\r\n\r\n").expect("a request");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn hostile_clients_are_cut_off_and_hold_up_nobody() {
    let narrows = start(&NarrowsConfig::in_front_of(free_port()));
    let port = enable(&narrows);
    for (path, method, status) in [
        ("/nothing", "GET", 404),
        ("/metrics", "POST", 405),
        ("/drain", "GET", 405),
        ("/../etc/passwd", "GET", 404),
        ("/metrics%00", "GET", 404),
    ] {
        assert_eq!(ask(port, method, path, &[]).status, status, "{method} {path}");
    }
    // Heads without an end, and bytes that are no request.
    for bytes in [&b"GET / HTTP/1.1\r\nX: "[..], b"\x16\x03\x01\x02\x00\x01", b"\n\n\n\n", &[0; 64]] {
        let mut stream = connect(port);
        let began = Instant::now();
        // It may be closed before all is written.
        let _ = (0..200).try_for_each(|_| stream.write_all(&bytes.repeat(200)));
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
        assert!(began.elapsed() < Duration::from_secs(30));
    }
    // More clients that stall than there are places.
    let stalled: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = connect(port);
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:").expect("half a request");
            stream
        })
        .collect();
    assert_eq!(get(port, "/livez").status, 200);
    // The ones that have been silent for longest have made room, and the others have not lost their time.
    let mut last = stalled.last().expect("a client");
    last.set_nonblocking(true).expect("a setting");
    let error = last.read(&mut [0]).expect_err("it is neither answered nor closed");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    drop(stalled);
    // Clients that do not read.
    let deaf: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = connect(port);
            let _ = stream.write_all(&b"GET /metrics HTTP/1.1\r\nHost: narrows\r\n\r\n".repeat(100));
            stream
        })
        .collect();
    assert_eq!(get(port, "/livez").status, 200);
    assert_eq!(get(port, "/metrics").status, 200);
    drop(deaf);
}

#[test]
fn no_scrape_is_refused_while_the_worker_process_is_replaced() {
    let narrows = start(&NarrowsConfig::in_front_of(free_port()).supervised());
    let port = enable(&narrows);
    let scraping = std::thread::spawn(move || {
        let (began, mut answers) = (Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(5) {
            // A process that is killed may cut off an answer. It must not refuse a connection.
            let mut stream = connect(port);
            stream.write_all(b"GET /livez HTTP/1.0\r\n\r\n").expect("a request");
            let mut text = Vec::new();
            let _ = stream.read_to_end(&mut text);
            answers += u32::from(text.starts_with(b"HTTP/1.0 200"));
        }
        answers
    });
    for _ in 0..2 {
        let worker = narrows.worker();
        kill(worker);
        wait_until("another process serves", || {
            serving_worker(narrows.folder()).is_some_and(|serving| serving != worker)
        });
    }
    assert!(scraping.join().expect("nobody was refused") > 10);
}

#[test]
fn the_address_may_change_and_the_port_is_no_others() {
    let narrows = start(&NarrowsConfig::in_front_of(free_port()));
    let port = enable(&narrows);
    let mut admin = narrows.admin();
    for address in ["0.0.0.0", "127.0.0.1", "127.0.0.1;127.0.0.1"] {
        for statement in
            [format!("SET admin-restapi_address = '{address}'"), "LOAD ADMIN VARIABLES TO RUNTIME".to_owned()]
        {
            assert_eq!(admin.query(statement).error(), None);
        }
        assert!(admin.query("SHOW WARNINGS").text_rows().is_empty(), "{address}");
        wait_until("it listens there", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        assert_eq!(get(port, "/livez").status, 200, "{address}");
    }
    let set = format!("SET admin-restapi_port = {}", narrows.port());
    assert_eq!(admin.query(set).error(), None);
    assert_eq!(admin.query("LOAD ADMIN VARIABLES TO RUNTIME").error(), None);
    let warning = admin.query("SHOW WARNINGS").text_rows().into_iter().flatten().flatten().last();
    assert!(warning.is_some_and(|text| text.ends_with("is a port of mysql-interfaces")));
    (0..20).for_each(|_| drop(narrows.client()));
}
