//! The first packet of a server (manual: "Protocol::HandshakeV10"; MariaDB knowledge base: "Connection").
//!
//! A server that refuses the connection sends an ERR packet instead; look at the first byte before decoding.

use crate::auth::{NONCE_LENGTH, Nonce};
use crate::capability::Capabilities;
use crate::codec::{Malformed, Reader, put_null_terminated};
use crate::packet::Status;

/// The only version of the greeting since MySQL 3.22.
const PROTOCOL_VERSION: u8 = 10;

/// Bytes of the nonce that come before the capabilities; the rest comes after.
const NONCE_FIRST_PART: usize = 8;

/// What a server announces about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// As `SELECT VERSION()` returns it; MariaDB before 11 prefixes `5.5.5-`.
    pub server_version: Vec<u8>,
    /// The id that `KILL` takes.
    pub connection_id: u32,
    /// The challenge that the client answers with its password.
    pub nonce: Nonce,
    /// What the server can do.
    pub capabilities: Capabilities,
    /// Low byte of the id of the server's default collation.
    pub charset: u8,
    /// Status flags, as in OK packets.
    pub status: Status,
    /// The plugin that a client should answer for; empty if the server names none.
    pub plugin: Vec<u8>,
}

impl Greeting {
    /// Reads the payload of a greeting.
    ///
    /// MariaDB's extended capabilities are read if `LONG_PASSWORD` is unset: a MySQL server always sets it.
    pub fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != PROTOCOL_VERSION {
            return Err(Malformed("not a version 10 greeting"));
        }
        let server_version = reader.null_terminated()?.to_vec();
        let connection_id = reader.u32()?;
        let first_part: [u8; NONCE_FIRST_PART] = reader.array()?;
        reader.u8()?;
        let lower = reader.u16()?;
        let charset = reader.u8()?;
        let status = Status(reader.u16()?);
        let upper = reader.u16()?;
        let auth_data_length = usize::from(reader.u8()?);
        reader.bytes(6)?;
        let extended = reader.u32()?;
        let mut capabilities = Capabilities(u64::from(upper) << 16 | u64::from(lower));
        if !capabilities.contains(Capabilities::LONG_PASSWORD) {
            capabilities = capabilities | Capabilities(u64::from(extended) << 32);
        }

        // At least 13 bytes, whatever the length says: 12 of the nonce and a zero.
        let mut second_part =
            Reader::new(reader.bytes(auth_data_length.saturating_sub(NONCE_FIRST_PART).max(13))?);
        let mut nonce = [0; NONCE_LENGTH];
        let second_part: [u8; NONCE_LENGTH - NONCE_FIRST_PART] = second_part.array()?;
        nonce.iter_mut().zip(first_part.iter().chain(&second_part)).for_each(|(to, from)| *to = *from);

        // MySQL 5.5.7 to 5.5.9 omit the terminator.
        let plugin = reader.rest();
        let plugin = plugin.strip_suffix(&[0]).unwrap_or(plugin).to_vec();
        Ok(Greeting { server_version, connection_id, nonce, capabilities, charset, status, plugin })
    }

    /// Appends the payload of this greeting.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (first_part, second_part) = self.nonce.split_at(NONCE_FIRST_PART);
        let [lower_a, lower_b, upper_a, upper_b] = self.capabilities.lower().to_le_bytes();
        let names_plugin = self.capabilities.contains(Capabilities::PLUGIN_AUTH);
        out.push(PROTOCOL_VERSION);
        put_null_terminated(out, &self.server_version);
        out.extend(self.connection_id.to_le_bytes());
        put_null_terminated(out, first_part);
        out.extend([lower_a, lower_b, self.charset]);
        out.extend(self.status.0.to_le_bytes());
        out.extend([upper_a, upper_b]);
        out.push(if names_plugin { NONCE_LENGTH as u8 + 1 } else { 0 });
        out.extend([0; 6]);
        let announces_extended = !self.capabilities.contains(Capabilities::LONG_PASSWORD);
        out.extend(if announces_extended { self.capabilities.extended() } else { 0 }.to_le_bytes());
        put_null_terminated(out, second_part);
        if names_plugin {
            put_null_terminated(out, &self.plugin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From MariaDB 10.11: extended capabilities in the last reserved bytes.
    fn mariadb() -> Vec<u8> {
        [
            &b"\x0A5.5.5-10.11.19-MariaDB-0+deb12u1\0"[..],
            b"\x05\0\0\0",                     // connection id
            b"qlMx8IIq\0",                     // nonce, first part
            b"\xFE\xF7\x08\x02\0\xFF\x81\x15", // capabilities, latin1, autocommit, capabilities, 21
            b"\0\0\0\0\0\0\x1D\0\0\0",         // reserved, extended capabilities
            b"}Aioo`sD6\"Dr\0",                // nonce, second part
            b"mysql_native_password\0",
        ]
        .concat()
    }

    /// MySQL 9.7.
    fn mysql() -> Vec<u8> {
        [
            &b"\x0A9.7.4-2\0"[..],
            b"\x0B\0\0\0",
            b"qP'hXN\x1E\x0C\0",
            b"\xFF\xFF\xFF\x02\0\xFF\xDF\x15",
            b"\0\0\0\0\0\0\0\0\0\0",
            b"\x18uO\x16r\n`\x07:(pD\0",
            b"caching_sha2_password\0",
        ]
        .concat()
    }

    #[test]
    fn reads_what_mariadb_sends() {
        let greeting = Greeting::decode(&mariadb()).unwrap();
        assert_eq!(greeting.server_version, b"5.5.5-10.11.19-MariaDB-0+deb12u1");
        assert_eq!(greeting.connection_id, 5);
        assert_eq!(&greeting.nonce, b"qlMx8IIq}Aioo`sD6\"Dr");
        assert_eq!(greeting.capabilities, Capabilities(0x1D_81FF_F7FE));
        assert_eq!((greeting.charset, greeting.status), (8, Status::AUTOCOMMIT));
        assert_eq!(greeting.plugin, b"mysql_native_password");
    }

    #[test]
    fn reads_what_mysql_sends() {
        let greeting = Greeting::decode(&mysql()).unwrap();
        assert_eq!(greeting.server_version, b"9.7.4-2");
        assert_eq!(&greeting.nonce, b"qP'hXN\x1E\x0C\x18uO\x16r\n`\x07:(pD");
        assert_eq!(greeting.capabilities, Capabilities(0xDFFF_FFFF));
        assert_eq!((greeting.charset, greeting.status), (255, Status::AUTOCOMMIT));
        assert_eq!(greeting.plugin, b"caching_sha2_password");
    }

    #[test]
    fn writes_the_bytes_it_read() {
        for payload in [mariadb(), mysql()] {
            let mut out = Vec::new();
            Greeting::decode(&payload).unwrap().encode(&mut out);
            assert_eq!(out, payload);
        }
    }

    #[test]
    fn refuses_a_greeting_cut_anywhere_before_its_plugin() {
        let payload = mysql();
        let name = payload.len() - b"caching_sha2_password\0".len();
        for length in 0..name {
            assert!(Greeting::decode(&payload[..length]).is_err(), "{length}");
        }
        assert_eq!(Greeting::decode(&payload[..name]).unwrap().plugin, b"");
    }

    #[test]
    fn refuses_an_error_packet_and_other_versions() {
        assert!(Greeting::decode(b"\xFF\x10\x04Too many connections").is_err());
        assert!(Greeting::decode(b"\x093.20\0").is_err());
    }
}
