//! ProxySQL's security advisories, tried on Narrows: the eight that were fixed in its 2.7.4 and 3.0.12 of 2026, one
//! test each. Narrows refuses or ignores each attack, no process ends, and a client connected at the same time notices
//! nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use narrows_testkit::{
    Conversation, FakeMysql, Flavour, Login, Move, Narrows, NarrowsConfig, RawClient, RealServer, capability,
    command, writer,
};

use crate::prepared::statement::{Statement, Value};
use crate::support::start;

/// Long enough for anything on this machine, short enough for a failing test.
const SOON: Duration = Duration::from_secs(10);

/// Narrows in front of a real server, and one client that is logged in all the time.
struct Stand {
    narrows: Narrows,
    bystander: RawClient,
}

impl Stand {
    fn new(config: &NarrowsConfig) -> Stand {
        let narrows = start(config);
        let bystander = narrows.client();
        Stand { narrows, bystander }
    }

    fn usual() -> Stand {
        Stand::new(&NarrowsConfig::in_front_of(RealServer::shared(Flavour::MariaDb).port()))
    }

    /// Narrows still serves the same client, and a new one.
    fn check(&mut self) {
        assert_eq!(self.bystander.query("SELECT 'there'").cell().as_deref(), Some("there"));
        assert_eq!(self.narrows.client().query("SELECT 1").cell().as_deref(), Some("1"));
        assert!(self.narrows.process().try_wait().is_none(), "Narrows has ended");
        assert!(!self.narrows.log().contains("panicked"), "{}", self.narrows.log());
    }

    /// Sends one packet where the handshake response belongs; the connection must not get in.
    fn refuses_login(&self, payload: &[u8]) {
        let mut client = RawClient::connect(&self.narrows.endpoint());
        client.greeting().expect("a greeting");
        client.set_patience(SOON);
        client.send(payload).expect("it reads");
        client.finish_sending();
        while let Ok(packet) = client.read() {
            assert_ne!(packet.first(), 0, "logged in with {payload:?}");
        }
    }
}

/// GHSA-58ww-865x-grpr, CVE-2026-48773: a first packet longer than the receive buffer overflows the heap before the login.
#[test]
fn a_first_packet_of_any_announced_length_is_refused_within_a_bound() {
    let mut stand = Stand::usual();
    let before = stand.narrows.resident_bytes();
    let clients: Vec<RawClient> = [65_537_u32, 1 << 20, 0xFF_FFFE, 0xFF_FFFF]
        .iter()
        .cycle()
        .take(64)
        .map(|announced| {
            let mut client = RawClient::connect(&stand.narrows.endpoint());
            client.greeting().expect("a greeting");
            let [a, b, c, _] = announced.to_le_bytes();
            // It may close the connection while this is still being sent.
            let _ = client.send_bytes(&[&[a, b, c, 1], &[b'x'; 200_000][..]].concat());
            client
        })
        .collect();
    for mut client in clients {
        assert!(client.is_closed_within(SOON));
    }
    let grown = stand.narrows.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for packets that were refused");
    stand.check();
}

/// GHSA-gw94-85m2-x8v2, CVE-2026-48772: the addresses of a PROXY header that says UNKNOWN are taken for the client's.
#[test]
fn a_proxy_header_of_an_unknown_connection_names_no_address() {
    let config = NarrowsConfig::in_front_of(RealServer::shared(Flavour::MariaDb).port())
        .variable("proxy_protocol_networks", "*");
    let mut stand = Stand::new(&config);
    for header in
        ["PROXY UNKNOWN 203.0.113.7 127.0.0.1 1 2\r\n", "PROXY UNKNOWN TCP4 203.0.113.7 ::1 1 2\r\n"]
    {
        let mut client = RawClient::connect(&stand.narrows.endpoint());
        client.send_bytes(header.as_bytes()).expect("it reads");
        let error = client.login(&Login::new("sbtest", "wrong")).expect_err("a wrong password");
        assert!(error.message.contains("'sbtest'@'127.0.0.1'"), "{header}: {error:?}");
    }
    assert!(!stand.narrows.log().contains("203.0.113.7"), "{}", stand.narrows.log());
    stand.check();
}

/// GHSA-7r26-v5rr-ccj5: an overlong address in a PROXY header overflows the stack.
#[test]
fn an_address_of_a_proxy_header_longer_than_any_address_is_refused() {
    let config = NarrowsConfig::in_front_of(RealServer::shared(Flavour::MariaDb).port())
        .variable("proxy_protocol_networks", "*");
    let mut stand = Stand::new(&config);
    let endless = "9".repeat(5_000);
    for header in [
        format!("PROXY TCP4 {} 127.0.0.1 1 2\r\n", "1".repeat(60)),
        format!("PROXY TCP6 {} ::1 1 2\r\n", "f".repeat(80)),
        format!("PROXY TCP4 1.2.3.4 127.0.0.1 {} 2\r\n", "7".repeat(50)),
        format!("PROXY {} 1.2.3.4 127.0.0.1 1 2\r\n", "T".repeat(70)),
        format!("PROXY TCP4 {endless} {endless} {endless} {endless}\r\n"),
        format!("PROXY TCP4 {endless}"),
    ] {
        let mut client = RawClient::connect(&stand.narrows.endpoint());
        // It may close the connection while this is still being sent.
        let _ = client.send_bytes(header.as_bytes());
        client.finish_sending();
        assert!(client.is_closed_within(SOON), "{header}");
    }
    stand.check();
}

/// GHSA-24vm-gh4h-hfr3: fields of the handshake response whose lengths and terminators are trusted.
#[test]
fn a_login_without_its_terminators_or_cut_anywhere_is_refused() {
    let mut stand = Stand::usual();
    let login = Login::new("sbtest", "wrong")
        .schema("test")
        .with(capability::PLUGIN_AUTH_LENENC)
        .attribute("program_name", "advisory");
    let whole = login.response(&[7; 20], "mysql_native_password");
    for length in 0..whole.len() {
        stand.refuses_login(&whole[..length]);
    }
    // None of its fields is terminated: name, answer, schema, plugin.
    for at in 32..whole.len() {
        let endless = [&whole[..at], &vec![b'x'; whole.len() - at][..]].concat();
        stand.refuses_login(&endless);
    }
    stand.check();
}

/// GHSA-x23w-3v26-vgvj: length-encoded integers read past the end, in logins, in parameters and in results that are cached.
#[test]
fn a_length_past_the_end_is_refused_wherever_it_stands() {
    let fake = FakeMysql::start(Conversation::new());
    let config = NarrowsConfig::in_front_of(RealServer::shared(Flavour::MariaDb).port())
        .server(7, fake.port(), "")
        .rule("rule_id=1 active=1 match_pattern=\"lying\" destination_hostgroup=7 cache_ttl=60000 apply=1");
    let mut stand = Stand::new(&config);
    let login = Login::new("sbtest", "wrong").with(capability::PLUGIN_AUTH_LENENC);
    let honest = login.response(&[7; 20], "mysql_native_password");
    let at = 32 + "sbtest".len() + 1;
    for lie in LIES {
        stand.refuses_login(&[&honest[..at], lie, &honest[at + 1..]].concat());
        stand.refuses_login(&[&honest[..at], lie].concat());
    }
    let mut client = stand.narrows.client();
    let statement = Statement::prepare(&mut client, "SELECT ?, ?");
    let honest = statement.execution(0, &[Value::Text("a"), Value::Text("b")], true);
    for lie in LIES {
        for cut in [2, 4] {
            let body = [&honest[..honest.len() - cut], lie].concat();
            // MySQL refuses it, MariaDB accepts what is there; Narrows need not decide, and the session continues.
            client.command(command::STMT_EXECUTE, &body);
            assert_eq!(client.query("SELECT 'on'").cell().as_deref(), Some("on"), "{lie:?}");
        }
    }
    for (number, lie) in LIES.iter().enumerate() {
        for place in 0..3 {
            let statement = format!("SELECT 'lying {number} {place}'");
            let mut head = vec![1];
            let mut column = writer::column("c");
            let mut row = writer::row(&[Some("value")]);
            match place {
                0 => head = lie.to_vec(),
                1 => column.splice(0..1, lie.iter().copied()).for_each(drop),
                _ => row.splice(0..1, lie.iter().copied()).for_each(drop),
            }
            let answer = vec![head, column, writer::eof(2, 0), row, writer::eof(2, 0)];
            fake.say(Conversation::new().on(&statement, &[Move::Reply(answer), Move::Close]));
            // Forwarded unchanged or refused every time, from the server and from the cache.
            for _ in 0..2 {
                let mut client = stand.narrows.client();
                client.set_patience(SOON);
                client.send_command(command::QUERY, statement.as_bytes()).expect("it reads");
                while let Ok(packet) = client.read() {
                    if packet.first() == 0xFF {
                        break;
                    }
                    if packet.first() == 0xFE && packet.payload.len() < 9 {
                        break;
                    }
                }
            }
        }
    }
    stand.check();
}

/// GHSA-fvch-fpgq-pwfx, CVE-2026-102664: a compressed packet whose stated length differs from its decompressed length.
#[test]
fn a_compressed_packet_that_lies_about_its_length_ends_its_connection() {
    let mut stand = Stand::usual();
    let query = [&9_u32.to_le_bytes()[..3], b"\0\x03SELECT 7"].concat();
    let packed = zlib(&query);
    let bomb = zlib(&vec![0; 64 << 20]);
    let frame = |content: &[u8], packed: usize, unpacked: usize| {
        let mut frame = packed.to_le_bytes()[..3].to_vec();
        frame.push(0);
        frame.extend(&unpacked.to_le_bytes()[..3]);
        frame.extend(content);
        frame
    };
    let refuses = |narrows: &Narrows, frames: &[u8]| {
        let stream = compressed(narrows, frames);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        !is_answered(stream)
    };
    // The valid one is answered: Narrows reads such frames.
    assert!(is_answered(compressed(&stand.narrows, &frame(&packed, packed.len(), query.len()))));
    let before = stand.narrows.resident_bytes();
    for lie in [1, query.len() - 1, query.len() + 1, 65_536, 0xFF_FFFF] {
        assert!(refuses(&stand.narrows, &frame(&packed, packed.len(), lie)), "unpacked length {lie}");
    }
    assert!(refuses(&stand.narrows, &frame(&packed[..5], 5, query.len())), "cut off");
    assert!(refuses(&stand.narrows, &frame(&[0xAA; 40], 40, 100)), "no zlib stream");
    assert!(refuses(&stand.narrows, &frame(&bomb, bomb.len(), 100)), "a bomb");
    assert!(refuses(&stand.narrows, &frame(&bomb, bomb.len(), 0xFF_FFFF)), "a large bomb");
    // If an inner packet announces more than its frame has, Narrows waits for the rest until the client disconnects.
    let announces = [&[0xFF, 0xFF, 0xFF][..], b"\0\x03SELECT 7"].concat();
    let unfinished = zlib(&announces);
    assert!(refuses(&stand.narrows, &frame(&unfinished, unfinished.len(), announces.len())));
    let grown = stand.narrows.resident_bytes().saturating_sub(before);
    assert!(grown < 48 << 20, "{grown} bytes kept after packets that were refused");
    stand.check();
}

/// GHSA-8mqj-34cf-rj43: fields of `COM_CHANGE_USER` that are trusted, and an answer longer than its fixed buffer.
#[test]
fn a_change_of_user_cut_or_longer_than_said_is_refused() {
    let mut stand = Stand::usual();
    let login = Login::new("sbtest", "wrong").schema("test").attribute("program_name", "advisory");
    let mut bodies = Vec::new();
    let whole = login.change_user(&[7; 20], "mysql_native_password");
    for length in 0..whole.len() {
        bodies.push(whole[..length].to_vec());
        bodies.push([&whole[..length], &vec![b'x'; whole.len() - length][..]].concat());
    }
    for length in 0..=255_u8 {
        let answer = vec![0x55; usize::from(length)];
        bodies.push(
            [&b"sbtest\0"[..], &[length], &answer[..], b"test\0\x21\0mysql_native_password\0"].concat(),
        );
        // The length alone, without the bytes.
        bodies.push([&b"sbtest\0"[..], &[length]].concat());
    }
    for body in bodies {
        let mut client = stand.narrows.client();
        client.set_patience(SOON);
        client.send_command(command::CHANGE_USER, &body).expect("it reads");
        client.finish_sending();
        while let Ok(packet) = client.read() {
            assert_ne!(packet.first(), 0, "changed by {body:?}");
        }
    }
    stand.check();
}

/// GHSA-r23x-jg5r-jmcc: an answer to the challenge that is shorter than the value it is compared with.
#[test]
fn an_answer_to_the_challenge_of_any_length_but_the_right_one_is_refused() {
    let hash = narrows_testkit::scramble::native_hash("sbtest");
    let config = NarrowsConfig::in_front_of(RealServer::shared(Flavour::MariaDb).port())
        .user("hashed", &hash, "")
        .user("sha2", SHA2_OF_SECRET, "");
    let mut stand = Stand::new(&config);
    for user in ["sbtest", "hashed", "sha2", "nobody", "monitor", ""] {
        for plugin in
            ["mysql_native_password", "caching_sha2_password", "mysql_clear_password", "client_ed25519", ""]
        {
            for length in (0..=40).chain([64, 127, 250, 255]) {
                let login = Login::new(user, "");
                stand.refuses_login(&login.response_with(&vec![0x2A; length], plugin));
            }
        }
    }
    stand.check();
}

/// Length-encoded integers that promise more than there is, or that cannot be read.
const LIES: [&[u8]; 7] = [
    &[0xFA],
    &[0xFC, 0xFF, 0xFF],
    &[0xFD, 0xFF, 0xFF, 0xFF],
    &[0xFE, 255, 255, 255, 255, 255, 255, 255, 255],
    &[0xFE, 0, 0, 0, 0, 0, 0, 0, 128],
    &[0xFC],
    &[0xFE, 1],
];

/// A password of `caching_sha2_password` as `mysql_users` keeps it; which one does not matter, because nobody knows it
/// here.
const SHA2_OF_SECRET: &str = "$A$005$abcdefghijklmnopqrst1234567890123456789012345678901234567890123";

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

/// Logs in with the compressed protocol and sends these bytes as the first command.
fn compressed(narrows: &Narrows, frames: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", narrows.port())).expect("it listens");
    stream.set_read_timeout(Some(SOON)).expect("a socket");
    let greeting = narrows_testkit::Packet::read(&mut stream).expect("a greeting");
    let seed = narrows_testkit::Greeting::decode(&greeting.payload).expect("a greeting").seed;
    let login = Login::new("sbtest", "sbtest").with(capability::COMPRESS);
    let response = login.response(&seed, "mysql_native_password");
    narrows_testkit::Packet::write(&mut stream, &response, 1).expect("it reads");
    let mut packet = narrows_testkit::Packet::read(&mut stream).expect("an answer");
    if packet.first() == 0xFE {
        let mut bytes = narrows_testkit::reader::Bytes::new(&packet.payload[1..]);
        bytes.until_zero().expect("a plugin");
        let answer = narrows_testkit::scramble::native("sbtest", &bytes.rest()[..20]);
        narrows_testkit::Packet::write(&mut stream, &answer, packet.sequence.wrapping_add(1))
            .expect("it reads");
        packet = narrows_testkit::Packet::read(&mut stream).expect("an answer");
    }
    assert_eq!(packet.first(), 0, "logged in: {packet:?}");
    // It may close the connection while this is still being sent.
    let _ = stream.write_all(frames);
    stream
}

/// Whether the first command after the login gets a result, rather than an error or a closed connection.
fn is_answered(mut stream: TcpStream) -> bool {
    let mut head = [0; 12];
    // A frame's header of seven bytes, a packet's of four, and the packet's first byte; a refusal is an ERR packet,
    // short enough not to be compressed.
    stream.read_exact(&mut head).is_ok() && !(head[4..7] == [0, 0, 0] && head[11] == 0xFF)
}
