//! Memory: data larger than memory is passed on in pieces, and a client that stops reading costs a few buffers.

use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, command};

use crate::support::start;

const MIB: u64 = 1 << 20;

/// The bound that the documentation promises for large statements and values.
const BOUND: u64 = 64 * MIB;

fn narrows() -> (Narrows, &'static RealServer) {
    let server = RealServer::shared(Flavour::MariaDb);
    let config = NarrowsConfig::in_front_of(server.port())
        .variable("max_allowed_packet", "268435456")
        .variable("enable_load_data_local_infile", "true");
    (start(&config), server)
}

#[test]
fn a_gigabyte_of_load_data_local_is_streamed() {
    let (mut narrows, server) = narrows();
    server.execute(&[
        "CREATE DATABASE IF NOT EXISTS streaming_load",
        "CREATE OR REPLACE TABLE streaming_load.t (n INT, c INT UNSIGNED) ENGINE=MyISAM",
    ]);
    let mut client = narrows.client();
    client.query("SELECT 1");
    let before = narrows.process().resident_bytes();

    // The rows store the lengths and checksums of the lines, so that the server stores next to nothing.
    let statement = "LOAD DATA LOCAL INFILE 'generated' INTO TABLE streaming_load.t (@line) \
                     SET n = LENGTH(@line), c = CRC32(@line)";
    client.send_command(command::QUERY, statement.as_bytes()).expect("send the statement");
    let request = client.read().expect("the request for the file");
    assert_eq!(request.payload, b"\xfbgenerated", "{request:?}");
    let mut line = vec![b'x'; MIB as usize - 1];
    line.push(b'\n');
    for _ in 0..1024 {
        client.send(&line).expect("send a piece of the file");
    }
    client.send(b"").expect("end the file");
    let ok = client.answer(command::QUERY).ok().expect("the rows are loaded");

    assert_eq!(ok.affected_rows, 1024);
    let sum = client.query("SELECT SUM(n), COUNT(DISTINCT c) FROM streaming_load.t").text_rows();
    assert_eq!(sum, [[Some((1024 * (MIB - 1)).to_string()), Some("1".to_owned())]]);
    assert_growth(&mut narrows, before, BOUND);
}

#[test]
fn a_blob_of_64_mib_goes_in_and_comes_back() {
    let (mut narrows, server) = narrows();
    server.execute(&[
        "CREATE DATABASE IF NOT EXISTS streaming_blob",
        "CREATE OR REPLACE TABLE streaming_blob.t (v LONGBLOB) ENGINE=MyISAM",
    ]);
    let mut client = narrows.client();
    client.query("SELECT 1");
    let before = narrows.process().resident_bytes();

    let blob: Vec<u8> = (0..64 * MIB).map(|at| b'a' + (at % 23) as u8).collect();
    let statement = [b"INSERT INTO streaming_blob.t VALUES ('", &blob[..], b"')"].concat();
    assert_eq!(client.query(&statement).ok().expect("the blob is stored").affected_rows, 1);
    let answer = client.query("SELECT v FROM streaming_blob.t");

    let rows: Vec<u8> =
        answer.packets.iter().skip(3).flat_map(|packet| packet.payload.iter().copied()).collect();
    let at = rows.windows(64).position(|window| *window == blob[..64]).expect("the blob begins");
    assert!(rows[at..].starts_with(&blob), "the blob came back changed");
    assert_growth(&mut narrows, before, BOUND);
}

#[test]
fn a_client_that_stops_reading_costs_a_few_buffers() {
    let (mut narrows, server) = narrows();
    let mut bystander = narrows.client();
    bystander.query("SELECT 1");
    let before = narrows.process().resident_bytes();

    let mut stalled = RawClient::open(&narrows.endpoint(), &Login::new("sbtest", "sbtest"));
    let ten_gigabytes = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 100) \
                         SELECT REPEAT('x', 1000000) AS stalled FROM n a, n b";
    stalled.send_command(command::QUERY, ten_gigabytes.as_bytes()).expect("send the statement");
    stalled.read().expect("the answer begins");
    wait_until_idle(&mut narrows);

    assert_growth(&mut narrows, before, 16 * MIB);
    assert_eq!(bystander.query("SELECT 2").cell().as_deref(), Some("2"));
    stalled.vanish();
    // The statement ends on the server too, instead of occupying a connection forever.
    let running = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%AS stalled FROM%' AND ID <> CONNECTION_ID()";
    eventually(|| server.rows(running)[0][0].as_deref() == Some("0"));
    assert_eq!(bystander.query("SELECT 3").cell().as_deref(), Some("3"));
}

fn assert_growth(narrows: &mut Narrows, before: u64, bound: u64) {
    let peak = narrows.process().peak_resident_bytes();
    let growth = peak.saturating_sub(before);
    println!("resident set: {} KiB before, {} KiB at its peak", before / 1024, peak / 1024);
    assert!(growth < bound, "the resident set grew by {} MiB", growth / MIB);
}

/// Waits until the program has used no CPU time for a while: nothing is transferred any more.
fn wait_until_idle(narrows: &mut Narrows) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut quiet = 0;
    let mut last = narrows.process().cpu();
    while quiet < 10 {
        assert!(Instant::now() < deadline, "still busy");
        std::thread::sleep(Duration::from_millis(20));
        let now = narrows.process().cpu();
        // Timers of an idle program take microseconds.
        quiet = if now - last < Duration::from_millis(1) { quiet + 1 } else { 0 };
        last = now;
    }
}

fn eventually(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "not in 30 seconds");
        std::thread::sleep(Duration::from_millis(20));
    }
}
