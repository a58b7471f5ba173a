use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;
use crate::codec::write_login;

/// A blocking client of a mock server that runs on a thread of its own.
struct Client {
    stream: TcpStream,
}

impl Client {
    fn login(capabilities: u32) -> Client {
        let mut listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let Address::Tcp(address) = listener.address(&"/unused".parse().unwrap()).unwrap() else {
            unreachable!("it was bound to TCP")
        };
        std::thread::spawn(move || serve(&mut listener));
        let mut client = Client { stream: TcpStream::connect(address).unwrap() };
        let (sequence, greeting) = client.packet();
        assert_eq!((sequence, Greeting::read(&greeting).unwrap().capabilities), (0, CAPABILITIES));
        let mut login = Vec::new();
        put_packet(&mut login, 1, |out| write_login(out, capabilities, "anybody", &[7; 20], ""));
        client.stream.write_all(&login).unwrap();
        assert_eq!(client.packet(), (2, vec![0, 0, 0, 2, 0, 0, 0]));
        client
    }

    fn command(&mut self, payload: &[u8]) {
        let mut packet = Vec::new();
        put_packet(&mut packet, 0, |out| out.extend_from_slice(payload));
        self.stream.write_all(&packet).unwrap();
    }

    fn packet(&mut self) -> (u8, Vec<u8>) {
        let mut header = [0; HEADER];
        self.stream.read_exact(&mut header).unwrap();
        let mut payload = vec![0; crate::codec::payload_length(&header)];
        self.stream.read_exact(&mut payload).unwrap();
        (header[3], payload)
    }
}

const CLASSIC: u32 = capability::PROTOCOL_41 | capability::PLUGIN_AUTH;

#[test]
fn answers_pipelined_commands_in_order() {
    let mut client = Client::login(CLASSIC | capability::DEPRECATE_EOF);
    let mut commands = Vec::new();
    for text in [b"\x03SET NAMES utf8mb4".as_slice(), b"\x03select c from sbtest7 where id=1"] {
        put_packet(&mut commands, 0, |out| out.extend_from_slice(text));
    }
    client.stream.write_all(&commands).unwrap();
    assert_eq!(client.packet(), (1, vec![0, 0, 0, 2, 0, 0, 0]));
    assert_eq!(client.packet(), (1, vec![1]));
    assert_eq!(client.packet().0, 2);
    let (sequence, row) = client.packet();
    assert_eq!((sequence, row.len(), row[0]), (3, 121, 120));
    assert_eq!(client.packet(), (4, vec![0xFE, 0, 0, 2, 0, 0, 0]));
}

#[test]
fn streams_large_results_with_running_sequence_numbers() {
    let mut client = Client::login(CLASSIC);
    client.command(b"\x03SELECT c FROM rows LIMIT 70000");
    let mut expected = 1u8;
    let mut ends = 0;
    let mut rows = 0;
    while ends < 2 {
        let (sequence, payload) = client.packet();
        assert_eq!(sequence, expected);
        expected = expected.wrapping_add(1);
        ends += usize::from(payload == [0xFE, 0, 0, 2, 0]);
        rows += usize::from(payload.len() == ROW_BYTES - HEADER);
    }
    assert_eq!(rows, 70_000);
}

#[test]
fn status_flags_follow_the_transaction() {
    let mut client = Client::login(CLASSIC);
    let ok = |status| (1, vec![0, 0, 0, status, 0, 0, 0]);
    for (command, status) in [
        (b"\x03BEGIN".as_slice(), 3),
        (b"\x0e", 3),
        (b"\x03COMMIT", 2),
        (b"\x03/* x */ SET autocommit=0", 0),
        (b"\x03START TRANSACTION", 1),
        (b"\x1f", 2),
        (b"\x02other", 2),
        (b"\x03KILL 5", 2),
    ] {
        client.command(command);
        assert_eq!(client.packet(), ok(status), "{command:?}");
    }
}

#[test]
fn tracks_the_schema_for_those_who_ask() {
    let mut client = Client::login(CLASSIC | capability::SESSION_TRACK);
    client.command(b"\x02shop");
    let report = b"\x00\x00\x00\x02\x40\x00\x00\x00\x07\x01\x05\x04shop";
    assert_eq!(client.packet(), (1, report.to_vec()));
}

#[test]
fn unknown_commands_get_an_error() {
    let mut client = Client::login(CLASSIC);
    client.command(b"\x1cSELECT 1");
    let (sequence, payload) = client.packet();
    assert_eq!((sequence, crate::codec::error_text(&payload)), {
        (1, "1047: the mock server does not know command 28".to_owned())
    });
}
