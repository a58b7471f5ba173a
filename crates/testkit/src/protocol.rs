//! The MySQL protocol for the tests: plain values, written to be read. It deliberately shares no code with
//! `narrows-wire`; see the crate's page.

use std::io::{self, Read, Write};

use sha1::{Digest, Sha1};
use sha2::Sha256;

/// Capability flags: the manual's names without `CLIENT_`.
#[allow(missing_docs)]
pub mod capability {
    pub const LONG_PASSWORD: u32 = 1;
    pub const FOUND_ROWS: u32 = 1 << 1;
    pub const LONG_FLAG: u32 = 1 << 2;
    pub const CONNECT_WITH_DB: u32 = 1 << 3;
    pub const NO_SCHEMA: u32 = 1 << 4;
    pub const COMPRESS: u32 = 1 << 5;
    pub const ODBC: u32 = 1 << 6;
    pub const LOCAL_FILES: u32 = 1 << 7;
    pub const IGNORE_SPACE: u32 = 1 << 8;
    pub const PROTOCOL_41: u32 = 1 << 9;
    pub const INTERACTIVE: u32 = 1 << 10;
    pub const SSL: u32 = 1 << 11;
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
    pub const ZSTD_COMPRESSION: u32 = 1 << 26;
    pub const QUERY_ATTRIBUTES: u32 = 1 << 27;
    /// MariaDB's extended flags, counted from 0.
    pub const EXTENDED_STMT_BULK: u32 = 1 << 2;
    pub const EXTENDED_METADATA: u32 = 1 << 3;
    /// The capabilities of a test's login by default.
    pub const USUAL: u32 = LONG_PASSWORD
        | LONG_FLAG
        | LOCAL_FILES
        | PROTOCOL_41
        | TRANSACTIONS
        | SECURE_CONNECTION
        | MULTI_RESULTS
        | PS_MULTI_RESULTS
        | PLUGIN_AUTH
        | PLUGIN_AUTH_LENENC;
}

/// Command codes: the manual's names without `COM_`.
#[allow(missing_docs)]
pub mod command {
    pub const QUIT: u8 = 1;
    pub const INIT_DB: u8 = 2;
    pub const QUERY: u8 = 3;
    pub const FIELD_LIST: u8 = 4;
    pub const STATISTICS: u8 = 9;
    pub const PROCESS_INFO: u8 = 10;
    pub const PROCESS_KILL: u8 = 12;
    pub const DEBUG: u8 = 13;
    pub const PING: u8 = 14;
    pub const CHANGE_USER: u8 = 17;
    pub const STMT_PREPARE: u8 = 22;
    pub const STMT_EXECUTE: u8 = 23;
    pub const STMT_SEND_LONG_DATA: u8 = 24;
    pub const STMT_CLOSE: u8 = 25;
    pub const STMT_RESET: u8 = 26;
    pub const SET_OPTION: u8 = 27;
    pub const STMT_FETCH: u8 = 28;
    pub const RESET_CONNECTION: u8 = 31;
    pub const STMT_BULK_EXECUTE: u8 = 0xFA;
}

/// One packet as it was on the wire. A payload of 16 MiB or more is several packets.
#[derive(Clone, PartialEq, Eq)]
pub struct Packet {
    /// The sequence number.
    pub sequence: u8,
    /// The bytes after the header.
    pub payload: Vec<u8>,
}

impl Packet {
    /// The largest payload of one packet; a payload of exactly this size continues in the next packet.
    pub const MAX: usize = 0xFF_FFFF;

    /// Reads the next packet.
    ///
    /// # Errors
    /// Those of the stream; `UnexpectedEof` if the peer has closed the connection.
    pub fn read(stream: &mut impl Read) -> io::Result<Packet> {
        let mut header = [0; 4];
        stream.read_exact(&mut header)?;
        let length = usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload)?;
        Ok(Packet { sequence: header[3], payload })
    }

    /// Writes a payload as one or more packets, the first with `sequence`; returns the next sequence number.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn write(stream: &mut impl Write, payload: &[u8], mut sequence: u8) -> io::Result<u8> {
        let mut chunks: Vec<&[u8]> = payload.chunks(Packet::MAX).collect();
        if payload.len().is_multiple_of(Packet::MAX) {
            chunks.push(&[]);
        }
        for chunk in chunks {
            let mut header = (chunk.len() as u32).to_le_bytes();
            header[3] = sequence;
            // Small packets are written at once, so that they are one segment.
            stream.write_all(&[&header, &chunk[..chunk.len().min(1024)]].concat())?;
            stream.write_all(&chunk[chunk.len().min(1024)..])?;
            sequence = sequence.wrapping_add(1);
        }
        Ok(sequence)
    }

    /// The first byte; 0 for an empty packet.
    pub fn first(&self) -> u8 {
        self.payload.first().copied().unwrap_or(0)
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = &self.payload[..self.payload.len().min(120)];
        let rest = if shown.len() < self.payload.len() { "..." } else { "" };
        write!(f, "#{} [{}] {}{rest}", self.sequence, self.payload.len(), shown.escape_ascii())
    }
}

/// The server's first packet, handshake version 10.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// Protocol version.
    pub protocol: u8,
    /// Version text.
    pub version: String,
    /// Id of the connection.
    pub connection_id: u32,
    /// The 20 bytes of the challenge.
    pub seed: Vec<u8>,
    /// Capability flags.
    pub capabilities: u32,
    /// Collation number.
    pub collation: u8,
    /// Status flags.
    pub status: u16,
    /// Length of the challenge with its final zero.
    pub seed_length: u8,
    /// Ten bytes; the last four are MariaDB's extended capabilities.
    pub reserved: Vec<u8>,
    /// Plugin name.
    pub plugin: String,
}

impl Greeting {
    /// Decodes one; `None` if it is not a greeting.
    pub fn decode(payload: &[u8]) -> Option<Greeting> {
        let mut bytes = reader::Bytes::new(payload);
        let protocol = bytes.u8()?;
        let version = bytes.until_zero()?;
        let connection_id = bytes.u32()?;
        let mut seed = bytes.take(8)?.to_vec();
        bytes.take(1)?;
        let low = bytes.u16()?;
        let collation = bytes.u8()?;
        let status = bytes.u16()?;
        let high = bytes.u16()?;
        let seed_length = bytes.u8()?;
        let reserved = bytes.take(10)?.to_vec();
        seed.extend_from_slice(bytes.take(12)?);
        bytes.take(1)?;
        let plugin = bytes.until_zero().unwrap_or_default();
        Some(Greeting {
            protocol,
            version: text(version),
            connection_id,
            seed,
            capabilities: u32::from(low) | u32::from(high) << 16,
            collation,
            status,
            seed_length,
            reserved,
            plugin: text(plugin),
        })
    }
}

/// An ERR packet.
#[derive(Clone, PartialEq, Eq)]
pub struct ErrorPacket {
    /// Error number.
    pub code: u16,
    /// SQLSTATE; empty before the handshake is complete.
    pub state: String,
    /// Text.
    pub message: String,
}

impl ErrorPacket {
    /// Decodes one; `None` when it is none.
    pub fn decode(payload: &[u8]) -> Option<ErrorPacket> {
        let mut bytes = reader::Bytes::new(payload);
        if bytes.u8()? != 0xFF {
            return None;
        }
        let code = bytes.u16()?;
        let rest = bytes.rest();
        let (state, message) = match rest.split_first() {
            Some((b'#', after)) if after.len() >= 5 => after.split_at(5),
            _ => (&[][..], rest),
        };
        Some(ErrorPacket { code, state: text(state), message: text(message) })
    }
}

impl std::fmt::Debug for ErrorPacket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ERROR {} ({}): {}", self.code, self.state, self.message)
    }
}

/// An OK packet, without session state changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OkPacket {
    /// Rows changed.
    pub affected_rows: u64,
    /// The last AUTO_INCREMENT value.
    pub last_insert_id: u64,
    /// Status flags.
    pub status: u16,
    /// Warnings of the statement.
    pub warnings: u16,
    /// The rest: the information text, in the format that the capabilities determine.
    pub rest: Vec<u8>,
}

impl OkPacket {
    /// Decodes one, with either of its two first bytes; `None` if it is not an OK packet.
    pub fn decode(payload: &[u8]) -> Option<OkPacket> {
        let mut bytes = reader::Bytes::new(payload);
        if !matches!(bytes.u8()?, 0 | 0xFE) {
            return None;
        }
        let (affected_rows, last_insert_id) = (bytes.lenenc()?, bytes.lenenc()?);
        let (status, warnings) = (bytes.u16()?, bytes.u16()?);
        Some(OkPacket { affected_rows, last_insert_id, status, warnings, rest: bytes.rest().to_vec() })
    }
}

/// A column definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name as shown.
    pub name: String,
    /// Collation number.
    pub collation: u16,
    /// Display width.
    pub length: u32,
    /// Type code.
    pub kind: u8,
    /// Flags.
    pub flags: u16,
    /// Digits after the point.
    pub decimals: u8,
}

impl Column {
    /// Decodes one; `None` when it is none.
    pub fn decode(payload: &[u8]) -> Option<Column> {
        let mut bytes = reader::Bytes::new(payload);
        for _catalog_schema_table_original_table in 0..4 {
            bytes.lenenc_bytes()?;
        }
        let name = text(bytes.lenenc_bytes()?);
        bytes.lenenc_bytes()?;
        // These tests do not request MariaDB's extended metadata, so the fixed part follows.
        bytes.u8()?;
        let (collation, length) = (bytes.u16()?, bytes.u32()?);
        Some(Column {
            name,
            collation,
            length,
            kind: bytes.u8()?,
            flags: bytes.u16()?,
            decimals: bytes.u8()?,
        })
    }
}

/// Reading from bytes.
pub mod reader {
    /// A position in a payload; every method returns `None` at its end.
    #[derive(Debug, Clone)]
    pub struct Bytes<'a>(&'a [u8]);

    #[allow(missing_docs)]
    impl<'a> Bytes<'a> {
        pub fn new(payload: &'a [u8]) -> Bytes<'a> {
            Bytes(payload)
        }

        pub fn rest(&self) -> &'a [u8] {
            self.0
        }

        pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
            let (head, tail) = self.0.split_at_checked(count)?;
            self.0 = tail;
            Some(head)
        }

        pub fn u8(&mut self) -> Option<u8> {
            self.integer(1).map(|value| value as u8)
        }

        pub fn u16(&mut self) -> Option<u16> {
            self.integer(2).map(|value| value as u16)
        }

        pub fn u32(&mut self) -> Option<u32> {
            self.integer(4).map(|value| value as u32)
        }

        pub fn integer(&mut self, width: usize) -> Option<u64> {
            Some(self.take(width)?.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
        }

        pub fn lenenc(&mut self) -> Option<u64> {
            match self.u8()? {
                0xFC => self.integer(2),
                0xFD => self.integer(3),
                0xFE => self.integer(8),
                0xFB | 0xFF => None,
                small => Some(u64::from(small)),
            }
        }

        pub fn lenenc_bytes(&mut self) -> Option<&'a [u8]> {
            let length = self.lenenc()?;
            self.take(usize::try_from(length).ok()?)
        }

        pub fn until_zero(&mut self) -> Option<&'a [u8]> {
            let end = self.0.iter().position(|byte| *byte == 0)?;
            let found = self.take(end)?;
            self.take(1)?;
            Some(found)
        }
    }
}

/// Building payloads.
pub mod writer {
    /// A length-encoded integer.
    pub fn lenenc(value: u64) -> Vec<u8> {
        let bytes = value.to_le_bytes();
        match value {
            0..=0xFA => vec![bytes[0]],
            0xFB..=0xFFFF => [&[0xFC], &bytes[..2]].concat(),
            0x1_0000..=0xFF_FFFF => [&[0xFD], &bytes[..3]].concat(),
            _ => [&[0xFE], &bytes[..]].concat(),
        }
    }

    /// Bytes preceded by their length.
    pub fn lenenc_bytes(bytes: &[u8]) -> Vec<u8> {
        [lenenc(bytes.len() as u64), bytes.to_vec()].concat()
    }

    /// An OK packet.
    pub fn ok(affected_rows: u64, last_insert_id: u64, status: u16, warnings: u16) -> Vec<u8> {
        let mut payload = vec![0];
        payload.extend(lenenc(affected_rows));
        payload.extend(lenenc(last_insert_id));
        payload.extend(status.to_le_bytes());
        payload.extend(warnings.to_le_bytes());
        payload
    }

    /// An EOF packet.
    pub fn eof(status: u16, warnings: u16) -> Vec<u8> {
        let mut payload = vec![0xFE];
        payload.extend(warnings.to_le_bytes());
        payload.extend(status.to_le_bytes());
        payload
    }

    /// An ERR packet.
    pub fn error(code: u16, state: &str, message: &str) -> Vec<u8> {
        let mut payload = vec![0xFF];
        payload.extend(code.to_le_bytes());
        payload.extend(format!("#{state}{message}").bytes());
        payload
    }

    /// The definition of a text column.
    pub fn column(name: &str) -> Vec<u8> {
        let mut payload = Vec::new();
        for part in ["def", "", "", "", name, ""] {
            payload.extend(lenenc_bytes(part.as_bytes()));
        }
        // utf8mb3, 255 characters, VAR_STRING.
        payload.extend([0x0C, 33, 0, 0xFD, 2, 0, 0, 0xFD, 0, 0, 0, 0, 0]);
        payload
    }

    /// A row of text cells.
    pub fn row(cells: &[Option<&str>]) -> Vec<u8> {
        let cell =
            |cell: &Option<&str>| cell.map_or_else(|| vec![0xFB], |text| lenenc_bytes(text.as_bytes()));
        cells.iter().flat_map(cell).collect()
    }
}

/// The authentication plugins' answers to the challenge.
pub mod scramble {
    use super::{Digest, Sha1, Sha256};

    /// `mysql_native_password`; empty for an empty password.
    pub fn native(password: &str, seed: &[u8]) -> Vec<u8> {
        if password.is_empty() {
            return Vec::new();
        }
        let once = Sha1::digest(password);
        let twice = Sha1::digest(once);
        let mask = Sha1::new().chain_update(seed).chain_update(twice).finalize();
        once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
    }

    /// A password as `mysql_native_password` stores it: `*` and 40 digits.
    pub fn native_hash(password: &str) -> String {
        let twice = Sha1::digest(Sha1::digest(password));
        twice.iter().fold("*".to_owned(), |text, byte| text + &format!("{byte:02X}"))
    }

    /// `caching_sha2_password`, the fast path; empty for an empty password.
    pub fn sha2(password: &str, seed: &[u8]) -> Vec<u8> {
        if password.is_empty() {
            return Vec::new();
        }
        let once = Sha256::digest(password);
        let twice = Sha256::digest(once);
        let mask = Sha256::new().chain_update(twice).chain_update(seed).finalize();
        once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
