//! A minimal client that connects to a server as `root` over the Unix socket, without a password.
//!
//! It exists so that a sandbox needs no installed client program, and only supports the text protocol without
//! DEPRECATE_EOF: enough to set up replication and wait for it. Narrows does not use it for its backends.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

/// An authenticated connection.
pub struct Client {
    stream: UnixStream,
    sequence: u8,
}

/// The rows of a result, each value as text; empty for a statement that returns none.
pub type Rows = Vec<Vec<Option<String>>>;

impl Client {
    /// Connects as `root`. Fails while the server does not accept connections yet.
    pub fn connect(socket: &Path) -> anyhow::Result<Client> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let mut client = Client { stream, sequence: 0 };
        let greeting = client.read_packet()?;
        ensure!(greeting.first() == Some(&10), "not a greeting of protocol version 10");
        client.write_packet(&handshake_response())?;
        loop {
            let answer = client.read_packet()?;
            match answer.first() {
                Some(0x00) => return Ok(client),
                Some(0xfe) => {
                    // caching_sha2_password sends "no password" as one zero byte, all other plugins as nothing.
                    let no_password: &[u8] =
                        if answer[1..].starts_with(b"caching_sha2_password\0") { &[0] } else { &[] };
                    client.write_packet(no_password)?;
                }
                _ => bail!("login as root failed: {}", error_text(&answer)),
            }
        }
    }

    /// Runs one statement.
    pub fn query(&mut self, sql: &str) -> anyhow::Result<Rows> {
        self.run(sql).with_context(|| format!("statement {sql:?}"))
    }

    fn run(&mut self, sql: &str) -> anyhow::Result<Rows> {
        self.sequence = 0;
        let mut command = vec![COM_QUERY];
        command.extend_from_slice(sql.as_bytes());
        self.write_packet(&command)?;
        let first = self.read_packet()?;
        match first.first() {
            Some(0x00) => return Ok(Rows::new()),
            Some(0xff) | None => bail!("{}", error_text(&first)),
            Some(_) => {}
        }
        while !is_eof(&self.read_packet()?) {}
        let mut rows = Rows::new();
        loop {
            let packet = self.read_packet()?;
            match packet.first() {
                Some(0xff) => bail!("{}", error_text(&packet)),
                _ if is_eof(&packet) => return Ok(rows),
                _ => rows.push(row(&packet).context("malformed row")?),
            }
        }
    }

    fn read_packet(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header)?;
        let [low, middle, high, sequence] = header;
        self.sequence = sequence.wrapping_add(1);
        let mut payload = vec![0; u32::from_le_bytes([low, middle, high, 0]) as usize];
        self.stream.read_exact(&mut payload)?;
        Ok(payload)
    }

    fn write_packet(&mut self, payload: &[u8]) -> anyhow::Result<()> {
        let [low, middle, high, _] = u32::try_from(payload.len())?.to_le_bytes();
        let mut packet = vec![low, middle, high, self.sequence];
        packet.extend_from_slice(payload);
        self.stream.write_all(&packet)?;
        Ok(())
    }
}

fn handshake_response() -> Vec<u8> {
    let mut packet = Vec::new();
    packet.extend_from_slice(&CAPABILITIES.to_le_bytes());
    packet.extend_from_slice(&(16_u32 << 20).to_le_bytes());
    packet.push(UTF8MB4_GENERAL_CI);
    packet.extend_from_slice(&[0; 23]);
    packet.extend_from_slice(b"root\0");
    packet.push(0); // length of the authentication data
    packet.extend_from_slice(b"mysql_native_password\0");
    packet
}

fn is_eof(packet: &[u8]) -> bool {
    packet.first() == Some(&0xfe) && packet.len() < 9
}

fn error_text(packet: &[u8]) -> String {
    match packet {
        [0xff, low, high, b'#', rest @ ..] => {
            let message = String::from_utf8_lossy(rest.get(5..).unwrap_or_default());
            format!("error {}: {message}", u16::from_le_bytes([*low, *high]))
        }
        [0xff, low, high, rest @ ..] => {
            format!("error {}: {}", u16::from_le_bytes([*low, *high]), String::from_utf8_lossy(rest))
        }
        _ => "unexpected answer".to_owned(),
    }
}

fn row(mut packet: &[u8]) -> Option<Vec<Option<String>>> {
    let mut values = Vec::new();
    while let Some((&first, rest)) = packet.split_first() {
        let (length, rest) = match first {
            0xfb => {
                values.push(None);
                packet = rest;
                continue;
            }
            0xfc => (usize::from(u16::from_le_bytes(rest.get(..2)?.try_into().ok()?)), rest.get(2..)?),
            0xfd => {
                let bytes = rest.get(..3)?;
                (
                    usize::from(bytes[0]) | usize::from(bytes[1]) << 8 | usize::from(bytes[2]) << 16,
                    rest.get(3..)?,
                )
            }
            _ => (usize::from(first), rest),
        };
        values.push(Some(String::from_utf8_lossy(rest.get(..length)?).into_owned()));
        packet = rest.get(length..)?;
    }
    Some(values)
}

const COM_QUERY: u8 = 0x03;
const UTF8MB4_GENERAL_CI: u8 = 45;
/// LONG_PASSWORD, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, PLUGIN_AUTH.
const CAPABILITIES: u32 = 0x1 | 0x200 | 0x2000 | 0x8000 | 0x8_0000;
/// Longer than any statement here takes: waiting for a replica gives up after 30 seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
