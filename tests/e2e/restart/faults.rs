//! Worker processes that crash or hang: which clients continue, and what is left for diagnosis.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use narrows_testkit::{
    Endpoint, Login, NarrowsConfig, RawClient, TempFolder, command, free_port, kill, serving_worker,
};

use super::{scene, start_with_log_file, wait_for_another};

/// How long a closed client may take to notice.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_statement_that_has_the_process_abort_is_not_repeated_and_leaves_a_back_trace() {
    let (server, narrows) = scene(|config| config.environment("NARROWS_INJECT_PANIC", "1"));
    let mut idle = narrows.client();
    let mut client = narrows.client();
    let worker = narrows.worker();
    client.send_command(command::QUERY, b"SELECT 1 /* abort */").expect("it is sent");
    assert!(client.is_closed_within(SOON), "{}", narrows.log());
    wait_for_another(&narrows, worker);
    idle.query("DO 1").ok().expect("an idle client continues");
    assert!(server.received().iter().all(|command| !command.body.contains("abort")));
    let place = narrows.folder().join(format!("narrows.backtrace.{worker}"));
    let text = fs::read_to_string(&place).expect("a back-trace");
    assert!(text.starts_with("signal 6, "), "{text}");
    assert!(text.contains("thread worker-") && text.contains("session/fault.rs"), "{text}");
    let log = narrows.log();
    let told = log.lines().find(|line| line.contains("the worker process has died")).expect("it is logged");
    assert!(told.contains(&place.display().to_string()), "{told}");
}

#[test]
fn a_process_that_hangs_is_killed_and_its_clients_go_on() {
    let config =
        |config: NarrowsConfig| config.environment("NARROWS_INJECT_PANIC", "1").missing_heartbeats(1);
    let (_server, narrows) = scene(config);
    let mut idle: Vec<RawClient> = (0..4).map(|_| narrows.client()).collect();
    let mut client = narrows.client();
    let worker = narrows.worker();
    // It must have sent a heartbeat before one can be missed.
    client.query("DO 1").ok().expect("it serves");
    std::thread::sleep(Duration::from_secs(3));
    client.send_command(command::QUERY, b"SELECT 1 /* hang */").expect("it is sent");
    assert!(client.is_closed_within(SOON), "{}", narrows.log());
    wait_for_another(&narrows, worker);
    idle.iter_mut().for_each(|client| drop(client.query("DO 1").ok().expect("an idle client continues")));
    assert!(narrows.log().contains("is not responding"), "{}", narrows.log());
    let place = narrows.folder().join(format!("narrows.backtrace.{worker}"));
    let text = fs::read_to_string(&place).expect("a back-trace");
    assert!(text.contains("thread worker-") && text.contains("session/fault.rs"), "{text}");
}

#[test]
fn the_log_is_opened_again_by_all_processes() {
    let folder = TempFolder::new("logs");
    let (port, admin) = (free_port(), free_port());
    let mut process = start_with_log_file(&folder, port, admin);
    let (log, moved) = (folder.file("narrows.log"), folder.file("narrows.log.1"));
    wait_for(&log, " serving interfaces=");
    fs::rename(&log, &moved).expect("it is moved");
    let endpoint = Endpoint::local(admin);
    let mut client = RawClient::open(&endpoint, &Login::new("admin", "admin"));
    client.query("PROXYSQL FLUSH LOGS").ok().expect("it does so");
    kill(serving_worker(folder.path()).expect("one serves"));
    // The supervisor reports it.
    wait_for(&log, "the worker process has died");
    assert!(!fs::read_to_string(&moved).expect("a log").contains("has died"));
    wait_for(&log, "administrators are served");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    process.stop(SOON);
}

fn wait_for(log: &Path, text: &str) {
    let deadline = Instant::now() + SOON;
    while !fs::read_to_string(log).unwrap_or_default().contains(text) {
        assert!(Instant::now() < deadline, "{}: no {text}", log.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}
