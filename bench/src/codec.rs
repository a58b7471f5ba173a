//! The few pieces of the MySQL protocol that a bench needs: where packets end, and the fields of a login.
//!
//! Not a decoder for general use: it serves both ends of a conversation that the bench itself started, and does not
//! support packets of 16 MiB or more. The proxy's own codec is deliberately not used here, so that a mistake in one
//! does not hide a mistake in the other.

use sha1::{Digest, Sha1};

/// Bytes of a packet header: three of length, one of sequence number.
pub const HEADER: usize = 4;

/// The authentication plugin that every party of the bench supports.
pub const NATIVE_PASSWORD: &str = "mysql_native_password";

/// Capability flags, by their names in the manual.
pub mod capability {
    pub const LONG_PASSWORD: u32 = 1;
    pub const FOUND_ROWS: u32 = 1 << 1;
    pub const LONG_FLAG: u32 = 1 << 2;
    pub const CONNECT_WITH_DB: u32 = 1 << 3;
    pub const LOCAL_FILES: u32 = 1 << 7;
    pub const PROTOCOL_41: u32 = 1 << 9;
    pub const INTERACTIVE: u32 = 1 << 10;
    pub const TRANSACTIONS: u32 = 1 << 13;
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    pub const MULTI_STATEMENTS: u32 = 1 << 16;
    pub const MULTI_RESULTS: u32 = 1 << 17;
    pub const PS_MULTI_RESULTS: u32 = 1 << 18;
    pub const PLUGIN_AUTH: u32 = 1 << 19;
    pub const CONNECT_ATTRS: u32 = 1 << 20;
    pub const PLUGIN_AUTH_LENENC: u32 = 1 << 21;
    pub const SESSION_TRACK: u32 = 1 << 23;
    pub const DEPRECATE_EOF: u32 = 1 << 24;
}

/// A packet that has been read to its last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketEnd {
    /// Bytes of payload.
    pub length: usize,
    /// Sequence number.
    pub sequence: u8,
    /// First byte of the payload; 0 if it is empty.
    pub first: u8,
}

/// Finds the ends of packets in a stream that arrives in pieces, without storing any of it.
#[derive(Debug, Default)]
pub struct Walker {
    header: [u8; HEADER],
    header_filled: usize,
    length: usize,
    remaining: usize,
    first: u8,
}

impl Walker {
    /// Goes through `bytes` and calls `ended` once for each packet that ends in them.
    pub fn feed(&mut self, mut bytes: &[u8], mut ended: impl FnMut(PacketEnd)) {
        while !bytes.is_empty() {
            if self.header_filled < HEADER {
                let Some(rest) = self.take_header(bytes) else { return };
                bytes = rest;
                if self.length == 0 {
                    ended(self.end());
                    continue;
                }
                if bytes.is_empty() {
                    return;
                }
            }
            if self.remaining == self.length {
                self.first = bytes[0];
            }
            let taken = self.remaining.min(bytes.len());
            self.remaining -= taken;
            bytes = &bytes[taken..];
            if self.remaining == 0 {
                ended(self.end());
            }
        }
    }

    /// Whether the last byte fed was the last of a packet.
    pub fn between_packets(&self) -> bool {
        self.header_filled == 0
    }

    fn take_header<'b>(&mut self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let taken = (HEADER - self.header_filled).min(bytes.len());
        self.header[self.header_filled..self.header_filled + taken].copy_from_slice(&bytes[..taken]);
        self.header_filled += taken;
        if self.header_filled < HEADER {
            return None;
        }
        self.length = payload_length(&self.header);
        self.remaining = self.length;
        self.first = 0;
        Some(&bytes[taken..])
    }

    fn end(&mut self) -> PacketEnd {
        self.header_filled = 0;
        PacketEnd { length: self.length, sequence: self.header[3], first: self.first }
    }
}

/// The payload length that a header announces.
pub fn payload_length(header: &[u8]) -> usize {
    u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize
}

/// Sequence number and payload of the packet at the start of `bytes`, if it is complete.
pub fn whole_packet(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let end = HEADER + payload_length(bytes.get(..HEADER)?);
    Some((bytes[3], bytes.get(HEADER..end)?))
}

/// Appends a packet: header, then the payload that `fill` writes.
pub fn put_packet(out: &mut Vec<u8>, sequence: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, sequence]);
    fill(out);
    let length = u32::try_from(out.len() - start - HEADER).expect("bench packets are small").to_le_bytes();
    out[start..start + 3].copy_from_slice(&length[..3]);
}

/// Appends a length-encoded string of at most 64 KiB.
pub fn put_lenenc_string(out: &mut Vec<u8>, text: &[u8]) {
    match u8::try_from(text.len()) {
        Ok(short) if short < 251 => out.push(short),
        _ => {
            let length = u16::try_from(text.len()).expect("bench strings are under 64 KiB");
            out.push(0xFC);
            out.extend_from_slice(&length.to_le_bytes());
        }
    }
    out.extend_from_slice(text);
}

/// What a client needs from the greeting.
#[derive(Debug, PartialEq, Eq)]
pub struct Greeting {
    /// What the server offers.
    pub capabilities: u32,
    /// The 20 bytes to scramble the password with.
    pub salt: [u8; 20],
}

impl Greeting {
    /// Reads a handshake v10; `None` if it is something else or is truncated.
    pub fn read(payload: &[u8]) -> Option<Greeting> {
        let rest = payload.strip_prefix(&[10])?;
        let version_end = rest.iter().position(|&byte| byte == 0)?;
        // Connection id (4), salt part 1 (8), filler (1), low capabilities (2), charset (1), status (2),
        // high capabilities (2), length of the salt (1), reserved (10), salt part 2 (12).
        let fixed = rest.get(version_end + 1..version_end + 1 + 43)?;
        let mut salt = [0; 20];
        salt[..8].copy_from_slice(&fixed[4..12]);
        salt[8..].copy_from_slice(&fixed[31..43]);
        let capabilities = u32::from_le_bytes([fixed[13], fixed[14], fixed[18], fixed[19]]);
        Some(Greeting { capabilities, salt })
    }

    /// The greeting as a payload.
    pub fn write(&self, out: &mut Vec<u8>, version: &str, connection_id: u32, status: u16) {
        let capabilities = self.capabilities.to_le_bytes();
        out.push(10);
        out.extend_from_slice(version.as_bytes());
        out.push(0);
        out.extend_from_slice(&connection_id.to_le_bytes());
        out.extend_from_slice(&self.salt[..8]);
        out.push(0);
        out.extend_from_slice(&capabilities[..2]);
        out.push(UTF8MB4_GENERAL_CI);
        out.extend_from_slice(&status.to_le_bytes());
        out.extend_from_slice(&capabilities[2..]);
        out.push(21);
        out.extend_from_slice(&[0; 10]);
        out.extend_from_slice(&self.salt[8..]);
        out.push(0);
        out.extend_from_slice(NATIVE_PASSWORD.as_bytes());
        out.push(0);
    }
}

/// Supported by every server in the comparison, unlike the collations that MySQL 8 introduced.
const UTF8MB4_GENERAL_CI: u8 = 45;

/// Appends a handshake response (protocol 4.1, native password) as a payload.
pub fn write_login(out: &mut Vec<u8>, capabilities: u32, user: &str, scramble: &[u8], schema: &str) {
    out.extend_from_slice(&capabilities.to_le_bytes());
    out.extend_from_slice(&(16u32 << 20).to_le_bytes());
    out.push(UTF8MB4_GENERAL_CI);
    out.extend_from_slice(&[0; 23]);
    out.extend_from_slice(user.as_bytes());
    out.push(0);
    put_lenenc_string(out, scramble);
    if capabilities & capability::CONNECT_WITH_DB != 0 {
        out.extend_from_slice(schema.as_bytes());
        out.push(0);
    }
    if capabilities & capability::PLUGIN_AUTH != 0 {
        out.extend_from_slice(NATIVE_PASSWORD.as_bytes());
        out.push(0);
    }
}

/// What a server needs from a handshake response.
#[derive(Debug, PartialEq, Eq)]
pub struct Login {
    /// What the client asks for.
    pub capabilities: u32,
    /// The plugin its first answer is for; empty if it named none.
    pub plugin: String,
}

impl Login {
    /// Reads a handshake response of protocol 4.1; `None` if it is truncated.
    pub fn read(payload: &[u8]) -> Option<Login> {
        let capabilities = u32::from_le_bytes(payload.get(..4)?.try_into().ok()?);
        let mut rest = payload.get(32..)?;
        rest = after_nul(rest)?;
        // One length byte is enough for every plugin used here, with or without PLUGIN_AUTH_LENENC.
        let answer = usize::from(*rest.first()?);
        rest = rest.get(1 + answer..)?;
        if capabilities & capability::CONNECT_WITH_DB != 0 {
            rest = after_nul(rest)?;
        }
        let mut plugin = String::new();
        if capabilities & capability::PLUGIN_AUTH != 0 {
            let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
            plugin = String::from_utf8_lossy(&rest[..end]).into_owned();
        }
        Some(Login { capabilities, plugin })
    }
}

fn after_nul(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    bytes.get(end + 1..)
}

/// The answer of mysql_native_password: `SHA1(password) XOR SHA1(salt + SHA1(SHA1(password)))`; empty for an
/// empty password.
pub fn native_scramble(password: &str, salt: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password);
    let twice = Sha1::digest(once);
    let mask = Sha1::new().chain_update(salt).chain_update(twice).finalize();
    once.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect()
}

/// The message of an ERR payload, with its number: `1045: Access denied ...`.
pub fn error_text(payload: &[u8]) -> String {
    let (Some(&0xFF), Some(number), Some(rest)) = (payload.first(), payload.get(1..3), payload.get(3..))
    else {
        return format!("not an error packet: {payload:02x?}");
    };
    let message = if rest.first() == Some(&b'#') { rest.get(6..).unwrap_or_default() } else { rest };
    format!("{}: {}", u16::from_le_bytes([number[0], number[1]]), String::from_utf8_lossy(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walker_finds_the_same_ends_however_the_bytes_are_cut() {
        let mut stream = Vec::new();
        for (sequence, length) in [(0, 1), (1, 0), (2, 300), (255, 5)] {
            put_packet(&mut stream, sequence, |out| out.resize(out.len() + length, sequence ^ 7));
        }
        let expected = [(1, 0, 7), (0, 1, 0), (300, 2, 5), (5, 255, 248)]
            .map(|(length, sequence, first)| PacketEnd { length, sequence, first });
        for cut in 1..stream.len() {
            let (mut walker, mut ends) = (Walker::default(), Vec::new());
            for piece in stream.chunks(cut) {
                walker.feed(piece, |end| ends.push(end));
            }
            assert_eq!(ends, expected, "cut every {cut} bytes");
            assert!(walker.between_packets());
        }
    }

    #[test]
    fn greeting_survives_a_round_trip() {
        let greeting = Greeting { capabilities: 0x0123_4567, salt: *b"abcdefghijklmnopqrst" };
        let mut payload = Vec::new();
        greeting.write(&mut payload, "8.0.11", 7, 2);
        assert_eq!(Greeting::read(&payload), Some(greeting));
        assert_eq!(Greeting::read(&payload[..30]), None);
        assert_eq!(Greeting::read(b"\xff\x15\x04#08S01no"), None);
    }

    #[test]
    fn login_names_capabilities_and_plugin() {
        let capabilities = capability::PLUGIN_AUTH | capability::CONNECT_WITH_DB;
        let mut payload = Vec::new();
        write_login(&mut payload, capabilities, "app", &[9; 20], "sbtest");
        let login = Login { capabilities, plugin: NATIVE_PASSWORD.to_owned() };
        assert_eq!(Login::read(&payload), Some(login));
        assert_eq!(Login::read(&payload[..40]), None);
    }

    #[test]
    fn native_scramble_unmasks_to_what_the_server_stores() {
        let salt = b"abcdefghijklmnopqrst";
        let stored = Sha1::digest(Sha1::digest("secret"));
        let mask = Sha1::new().chain_update(salt).chain_update(stored).finalize();
        let once: Vec<u8> =
            native_scramble("secret", salt).iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect();
        assert_eq!(Sha1::digest(once), stored);
        assert!(native_scramble("", salt).is_empty());
    }

    #[test]
    fn error_text_skips_the_sql_state() {
        assert_eq!(error_text(b"\xff\x15\x04#28000Access denied"), "1045: Access denied");
        assert_eq!(error_text(b"\xff\x10\x04Too many"), "1040: Too many");
    }
}
