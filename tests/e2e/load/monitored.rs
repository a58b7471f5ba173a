//! What it costs to monitor a thousand servers.
//!
//! `cargo test --release --test load monitored` holds it to five percent of a core.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use narrows_testkit::{FakeMysql, Login, Narrows, NarrowsConfig, RawClient, command, writer};

use super::alone;

const SERVERS: usize = 1_000;

/// As many servers as this machine has addresses, on one port and one thread. They accept every login, are writable, do
/// not replicate, and answer everything.
fn crowd() -> u16 {
    let mut listener = TcpListener::bind("0.0.0.0:0".parse().unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut poll = Poll::new().unwrap();
    poll.registry().register(&mut listener, Token(0), Interest::READABLE).unwrap();
    std::thread::spawn(move || {
        let mut connections: HashMap<usize, (TcpStream, Vec<u8>, bool)> = HashMap::new();
        let (mut events, mut next) = (Events::with_capacity(1_024), 1);
        loop {
            poll.poll(&mut events, None).unwrap();
            for event in &events {
                if event.token() == Token(0) {
                    while let Ok((mut stream, _)) = listener.accept() {
                        poll.registry().register(&mut stream, Token(next), Interest::READABLE).unwrap();
                        // A socket that has just been opened has room for a greeting.
                        let _ = stream.write_all(&packet(0, &FakeMysql::greeting(next as u32)));
                        connections.insert(next, (stream, Vec::new(), false));
                        next += 1;
                    }
                } else if let Some(connection) = connections.get_mut(&event.token().0)
                    && !converse(connection)
                {
                    connections.remove(&event.token().0);
                }
            }
        }
    });
    port
}

/// Answers what has arrived; returns whether the connection stays open.
fn converse((stream, bytes, is_in): &mut (TcpStream, Vec<u8>, bool)) -> bool {
    let mut part = [0; 4_096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return false,
            Ok(count) => bytes.extend(&part[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(_) => return false,
        }
    }
    while let Some([a, b, c, sequence]) = bytes.first_chunk() {
        let length = usize::from(*a) | usize::from(*b) << 8 | usize::from(*c) << 16;
        let sequence = sequence.wrapping_add(1);
        if bytes.len() < 4 + length {
            break;
        }
        let payload: Vec<u8> = bytes.drain(..4 + length).skip(4).collect();
        let asks =
            *is_in && payload.first() == Some(&command::QUERY) && payload.ends_with(b"read_only read_only");
        let answer = if asks {
            [
                vec![1],
                writer::column("read_only"),
                writer::eof(2, 0),
                writer::row(&[Some("0")]),
                writer::eof(2, 0),
            ]
            .iter()
            .zip(sequence..)
            .flat_map(|(payload, sequence)| packet(sequence, payload))
            .collect()
        } else {
            packet(sequence, &writer::ok(0, 0, 2, 0))
        };
        *is_in = true;
        if stream.write_all(&answer).is_err() {
            return false;
        }
    }
    true
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = (payload.len() as u32).to_le_bytes()[..3].to_vec();
    packet.push(sequence);
    packet.extend(payload);
    packet
}

#[test]
fn a_thousand_servers_are_looked_after_by_one_thread_at_little_cost() {
    let _alone = alone();
    let port = crowd();
    let mut config = NarrowsConfig::new()
        .user("sbtest", "sbtest", "")
        .monitor()
        .row("mysql_replication_hostgroups", "writer_hostgroup=0 reader_hostgroup=1");
    // The test measures the cost of checks; on a busy machine they must not fail because of it.
    for check in ["ping", "connect", "read_only", "replication_lag"] {
        config = config.variable(&format!("monitor_{check}_timeout"), "30000");
    }
    for server in 0..SERVERS {
        let address = format!("127.1.{}.{}", server / 250, server % 250 + 1);
        config = config.server_at(0, &address, port, "max_replication_lag=10");
    }
    let mut narrows = Narrows::start(env!("CARGO_BIN_EXE_narrows"), &config);
    let mut admin = RawClient::open(&narrows.admin_endpoint(), &Login::new("admin", "admin"));
    for log in ["ping", "connect", "read_only", "replication_lag"] {
        let all = format!("SELECT count(DISTINCT hostname) FROM monitor.mysql_server_{log}_log");
        while admin.query(&all).cell() != Some(SERVERS.to_string()) {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    let pid = narrows.process().pid();
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
    let (before, begun) = (narrows.process().cpu(), Instant::now());
    // This is not a wait but the length of the measurement, with ProxySQL's intervals.
    std::thread::sleep(Duration::from_secs(10));
    let (took, used) = (begun.elapsed(), narrows.process().cpu() - before);
    let percent = used.as_secs_f64() / took.as_secs_f64() * 100.0;
    println!("{SERVERS} servers: {percent:.1} % of a core, {threads} threads in all");
    let failed = "SELECT count(*) FROM monitor.mysql_server_read_only_log WHERE error IS NOT NULL";
    assert_eq!(admin.query(failed).cell().as_deref(), Some("0"));
    // Whatever the number of servers: the first one, two workers, control, administrators, figures, HTTP, memory, monitor, query
    // log, audit log, secrets, scheduler, and that of the log while it leaves lines out, which a thousand servers make it do.
    assert!(threads <= 14, "{threads} threads");
    let most = if cfg!(debug_assertions) { 50.0 } else { 5.0 };
    assert!(percent < most, "{percent} % of a core");
}
