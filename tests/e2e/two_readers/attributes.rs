//! Query attributes precede the text of a `COM_QUERY`. A proxy that reads them as longer or shorter than the server
//! does sees a text other than the one that runs.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use narrows_testkit::{
    Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions, capability, command, writer,
};

use super::random_cases;
use crate::model::random::Random;
use crate::support::start;

/// MySQL 9, which logs what it runs, and Narrows, which logs what it has read.
struct Witness {
    server: RealServer,
    narrows: Narrows,
    client: RawClient,
    /// The payloads sent, their errors, and the number that each ends with.
    sent: Vec<(Vec<u8>, Option<u16>)>,
}

impl Witness {
    fn start() -> Witness {
        let server = ServerOptions::new(Flavour::MySql9)
            .option("--log-output=TABLE")
            .option("--general-log=1")
            .option("--log-raw=1")
            .start();
        server.execute(&["CREATE DATABASE shop", "CREATE TABLE shop.t (n INT)"]);
        let config = NarrowsConfig::in_front_of(server.port())
            .variable("eventslog_filename", "queries")
            .variable("eventslog_default_log", "1");
        let narrows = start(&config);
        // Servers' capabilities are offered once a server is known.
        narrows.client().query("SELECT 1");
        let login = Login::new("sbtest", "sbtest").schema("shop").with(capability::QUERY_ATTRIBUTES);
        let client = RawClient::open(&narrows.endpoint(), &login);
        assert_ne!(client.capabilities() & capability::QUERY_ATTRIBUTES, 0, "attributes were negotiated");
        Witness { server, narrows, client, sent: Vec::new() }
    }

    /// Sends attributes and what follows them; returns the error.
    fn send(&mut self, attributes: &[u8], text: &str) -> Option<u16> {
        let payload = [attributes, text.as_bytes(), mark(self.sent.len()).as_bytes()].concat();
        let error = self.client.command(command::QUERY, &payload).error().map(|error| error.code);
        assert_ne!(error, Some(2013), "the session continues after {:?}", payload.escape_ascii().to_string());
        self.sent.push((payload, error));
        error
    }

    /// What Narrows has read in each payload up to `last`.
    fn read(&self, last: usize) -> HashMap<usize, String> {
        let log = self.narrows.folder().join("queries.00000001");
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
            let lines = whole.lines().map(|line| serde_json::from_str(line).expect("JSON"));
            let queries =
                lines.filter_map(|line: serde_json::Value| Some(line["query"].as_str()?.to_owned()));
            let read: HashMap<_, _> = queries.filter_map(numbered).collect();
            if read.contains_key(&last) {
                return read;
            }
            assert!(Instant::now() < deadline, "case {last} is not in the query log");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the server has run.
    fn ran(&self) -> HashMap<usize, String> {
        let log = "SELECT HEX(argument) FROM mysql.general_log WHERE command_type = 'Query'";
        let texts = self.server.rows(log).into_iter().filter_map(|mut row| row.remove(0));
        texts.filter_map(|hex| numbered(String::from_utf8_lossy(&unhex(&hex)).into_owned())).collect()
    }

    /// For everything sent, Narrows has read what the server has run.
    fn compare(&mut self) {
        // The log is in order: once it has this one, it has all.
        assert_eq!(self.send(b"\0\x01", "SELECT 'last'"), None);
        let (read, ran) = (self.read(self.sent.len() - 1), self.ran());
        for (number, (payload, error)) in self.sent.iter().enumerate() {
            let payload = payload.escape_ascii();
            let read = if *error == Some(MALFORMED) { None } else { read.get(&number) };
            assert_eq!(read, ran.get(&number), "case {number}, error {error:?}: {payload}");
        }
    }
}

/// `ER_MALFORMED_PACKET`.
const MALFORMED: u16 = 1835;

/// Ends a payload, so that whatever is read as its text ends like this.
fn mark(number: usize) -> String {
    format!(" -- case {number}")
}

/// The number of the text's case, and the text without leading blanks, which servers remove.
fn numbered(text: String) -> Option<(usize, String)> {
    let number = text.rsplit_once("-- case ")?.1.parse().ok()?;
    Some((number, text.trim_start().to_owned()))
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("two digits");
    (0..text.len()).step_by(2).map(digits).collect()
}

/// The header of one attribute `n` of a type, bound and not NULL.
fn one(kind: u16) -> Vec<u8> {
    [&[1, 1, 0, 1][..], &kind.to_le_bytes(), b"\x01n"].concat()
}

#[test]
fn no_type_of_an_attribute_hides_a_statement() {
    if !Flavour::MySql9.is_tested() {
        return;
    }
    let mut witness = Witness::start();
    // Whatever is read as the value begins with a length, or is this many bytes.
    let values: [&[u8]; 6] =
        [b"\x12", b"\x00", b"\x04\xE9\x07\x01\x02", b"\xFC\x02\x00ab", b"\xFE\x01\0\0\0\x01\0\0\0", b"\xFB"];
    for kind in 0..=0xFF_u16 {
        for high in [0, 0x80, 0x01, 0x7F] {
            for value in values {
                let head = [&one(kind | high << 8), value].concat();
                witness.send(&head, "SELECT 1 -- \nDROP TABLE nothing -- \nSELECT 2");
            }
        }
    }
    witness.compare();
}

#[test]
fn what_drivers_send_gets_through() {
    if !Flavour::MySql9.is_tested() {
        return;
    }
    let mut witness = Witness::start();
    for (kind, value) in [
        (1, b"a".to_vec()),
        (2, b"ab".to_vec()),
        (3, b"abcd".to_vec()),
        (4, b"abcd".to_vec()),
        (5, b"abcdefgh".to_vec()),
        (8, b"abcdefgh".to_vec()),
        (0x8008, b"abcdefgh".to_vec()),
        (10, b"\x04\xE9\x07\x01\x02".to_vec()),
        (11, b"\x00".to_vec()),
        (12, b"\x07\xE9\x07\x01\x02\x03\x04\x05".to_vec()),
        (7, b"\x07\xE9\x07\x01\x02\x03\x04\x05".to_vec()),
        (246, writer::lenenc_bytes(b"1.5")),
        (252, writer::lenenc_bytes(&[b'x'; 300])),
        (253, writer::lenenc_bytes(b"text")),
        (254, writer::lenenc_bytes(b"")),
    ] {
        assert_eq!(witness.send(&[one(kind), value].concat(), "SELECT 1"), None, "{kind}");
    }
    // NULL, with the type NULL and with others; several of them; none at all.
    for kind in [6_u8, 3, 13, 254] {
        assert_eq!(witness.send(&[1, 1, 1, 1, kind, 0, 1, b'n'], "SELECT 1"), None, "{kind}");
    }
    assert_eq!(witness.send(b"\x03\x01\x02\x01\x01\0\x01a\x06\0\x01b\xFE\0\0\x05\x02hi", "SELECT 1"), None);
    assert_eq!(witness.send(b"\0\x01", "SELECT 1"), None);
    witness.compare();
}

#[test]
fn random_attributes_are_read_as_the_server_reads_them() {
    if !Flavour::MySql9.is_tested() {
        return;
    }
    let (cases, mut random) = random_cases(1500);
    // The server's log is a text table, and is read as a whole.
    for start in (0..cases).step_by(5000) {
        let mut witness = Witness::start();
        for _ in start..cases.min(start + 5000) {
            let head = attributes(&mut random);
            let text = *random.pick(&["SELECT 1", "SELECT 1 -- \nDROP TABLE nothing", "DO 1"]);
            witness.send(&head, text);
        }
        witness.compare();
    }
}

/// Correct attributes, except for a few bytes.
fn attributes(random: &mut Random) -> Vec<u8> {
    let count = random.below(4);
    let mut head = vec![count as u8, 1];
    if count > 0 {
        head.push(random.below(1 << count) as u8);
        head.push(1);
        let kinds: Vec<u8> = (0..count).map(|_| kind(random)).collect();
        for kind in &kinds {
            head.extend([*kind, if random.percent(20) { 0x80 } else { 0 }, 1, b'n']);
        }
        let nulls = head[2];
        for (index, kind) in kinds.iter().enumerate() {
            if nulls >> index & 1 == 0 {
                head.extend(value(*kind, random));
            }
        }
    }
    for _ in 0..random.below(3) {
        let place = random.below(head.len());
        match random.below(3) {
            0 => head[place] = *random.pick(&[0, 1, 2, 6, 9, 13, 0x7F, 0x80, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF]),
            1 => head.insert(place, random.below(256) as u8),
            _ => drop(head.remove(place)),
        }
        if head.is_empty() {
            break;
        }
    }
    head
}

fn kind(random: &mut Random) -> u8 {
    match random.percent(85) {
        true => *random
            .pick(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 245, 246, 252, 253, 254, 255]),
        false => random.below(256) as u8,
    }
}

fn value(kind: u8, random: &mut Random) -> Vec<u8> {
    let bytes = |length| vec![b'v'; length];
    match kind {
        1 => bytes(1),
        2 => bytes(2),
        3 | 4 => bytes(4),
        5 | 8 => bytes(8),
        _ => writer::lenenc_bytes(&bytes(random.below(20))),
    }
}
