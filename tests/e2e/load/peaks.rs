//! What peaks cost, and whether the memory is released after them. With NARROWS_LOAD=long each peak is ten times as
//! high, and the memory is watched for up to a minute.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use narrows_testkit::{Conversation, FakeMysql, Login, Narrows, NarrowsConfig, Packet, RawClient, command};

use crate::alone;
use crate::limits::{clients_allowed, open_to_all};
use crate::swarm::Swarm;

fn scale(short: u64) -> u64 {
    if std::env::var("NARROWS_LOAD").is_ok_and(|load| load == "long") { short * 10 } else { short }
}

/// Memory may be released gradually.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(60);

/// Afterwards there may be a fifth more than before, plus a few pages.
fn settles(narrows: &mut Narrows, before: u64, what: &str) {
    let bound = before + before / 5;
    let began = Instant::now();
    loop {
        let now = narrows.process().resident_bytes();
        if now <= bound {
            println!("{what}: {} MiB, as before, after {:?}", now >> 20, began.elapsed());
            return;
        }
        assert!(
            began.elapsed() < GIVEN_BACK_WITHIN,
            "{what}: {} MiB are left of {} MiB before",
            now >> 20,
            before >> 20
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn config(port: u16) -> NarrowsConfig {
    open_to_all(port)
        .variable("free_connections_pct", "100")
        // No client is closed while memory is measured.
        .variable("connect_timeout_client", "600000")
}

/// The memory once everything permanent is in use.
fn warm(narrows: &mut Narrows) -> u64 {
    for _ in 0..2 {
        Swarm::log_in(narrows.port(), 500).ask_all("DO 1");
    }
    narrows.process().resident_bytes()
}

/// Clients that have received the greeting and send `bytes`, and no more.
fn half_open(narrows: &Narrows, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let open = |_| {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, narrows.port())).expect("Narrows listens");
        let mut header = [0; 4];
        stream.read_exact(&mut header).expect("a greeting");
        stream.write_all(bytes).expect("room in the socket");
        stream
    };
    (0..count).map(open).collect()
}

/// Once later clients have been served, what was sent before has been read.
fn all_was_read(narrows: &Narrows) {
    Swarm::log_in(narrows.port(), 200).ask_all("DO 1");
}

#[test]
fn logins_that_are_announced_and_do_not_come_cost_what_came() {
    let _alone = alone();
    let server = FakeMysql::start(Conversation::new());
    let mut narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config(server.port()));
    let before = warm(&mut narrows);
    // The header of a packet of 256 KiB without its payload; one of 64 KiB without its payload.
    for announced in [[0, 0, 4, 1], [0xFF, 0xFF, 0, 1]] {
        let clients = half_open(&narrows, clients_allowed(scale(1_000)), &announced);
        all_was_read(&narrows);
        let each = narrows.process().resident_bytes().saturating_sub(before) / clients.len() as u64;
        println!("{} half-open logins: {each} bytes each", clients.len());
        // 10,000 of them take less than 100 MiB.
        assert!(each < 10 * 1024, "{each} bytes each");
        drop(clients);
        settles(&mut narrows, before, "half-open logins");
    }
}

#[test]
fn commands_that_are_announced_and_do_not_come_cost_what_came() {
    let _alone = alone();
    let server = FakeMysql::start(Conversation::new());
    let mut narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config(server.port()));
    let before = warm(&mut narrows);
    let login = Login::new("sbtest", "sbtest");
    let open = |_| {
        let mut client = RawClient::open(&narrows.endpoint(), &login);
        // The beginning of the longest possible packet.
        client.send_bytes(&[0xFF, 0xFF, 0xFF, 0, command::QUERY]).expect("room in the socket");
        client
    };
    let clients: Vec<RawClient> = (0..scale(500)).map(open).collect();
    all_was_read(&narrows);
    let each = narrows.process().resident_bytes().saturating_sub(before) / clients.len() as u64;
    println!("{} unfinished commands: {each} bytes each", clients.len());
    assert!(each < 64 * 1024, "{each} bytes each");
    drop(clients);
    settles(&mut narrows, before, "unfinished commands");
}

#[test]
fn memory_is_given_back_behind_peaks_of_clients_and_of_statements() {
    let _alone = alone();
    let server = FakeMysql::start(Conversation::new());
    let mut narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config(server.port()));
    let before = warm(&mut narrows);

    let mut swarm = Swarm::log_in(narrows.port(), clients_allowed(scale(3_000)));
    swarm.ask_all("DO 2");
    drop(swarm);
    settles(&mut narrows, before, "clients");

    let login = Login::new("sbtest", "sbtest");
    let text = [b"DO '".as_slice(), &vec![b'x'; 900_000], b"'"].concat();
    let mut clients: Vec<RawClient> =
        (0..scale(40)).map(|_| RawClient::open(&narrows.endpoint(), &login)).collect();
    for client in &mut clients {
        let mut packet = Vec::new();
        Packet::write(&mut packet, &[&[command::QUERY], text.as_slice()].concat(), 0)
            .expect("writing to a Vec cannot fail");
        // Everything except its end.
        client.send_bytes(&packet[..packet.len() - 1]).expect("Narrows reads");
    }
    for client in &mut clients {
        client.send_bytes(b"'").expect("Narrows reads");
        client.read().expect("an answer");
    }
    drop(clients);
    settles(&mut narrows, before, "long statements");
}
