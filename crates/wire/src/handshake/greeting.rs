//! The first packet of a server (manual: "Protocol::HandshakeV10"; MariaDB knowledge base: "Connection").
//!
//! A server that cannot serve sends an ERR packet in its place; look at the first byte before decoding.

use crate::auth::{NONCE_LENGTH, Nonce};
use crate::capability::Capabilities;
use crate::codec::{Malformed, Reader, put_null_terminated};

/// The only version of the greeting there is since MySQL 3.22.
const PROTOCOL_VERSION: u8 = 10;

/// Bytes of the nonce that come before the capabilities; the rest comes after.
const NONCE_FIRST_PART: usize = 8;

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// As `SELECT VERSION()` says it; MariaDB before 11 puts `5.5.5-` in front.
    pub server_version: Vec<u8>,
    /// The number `KILL` takes.
    pub connection_id: u32,
    /// The challenge to the client's password.
    pub nonce: Nonce,
    /// What the server can do.
    pub capabilities: Capabilities,
    /// Low byte of the id of the server's default collation.
    pub charset: u8,
    /// Status flags, as in OK packets.
    pub status: u16,
    /// The plugin that a client should answer for; empty where the server names none.
    pub plugin: Vec<u8>,
}

impl Greeting {
    /// Reads the payload of a greeting.
    ///
    /// MariaDB's extended capabilities are read where `LONG_PASSWORD` is unset: a MySQL server always sets it.
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
        let status = reader.u16()?;
        let upper = reader.u16()?;
        let auth_data_length = usize::from(reader.u8()?);
        reader.bytes(6)?;
        let extended = reader.u32()?;
        let mut capabilities = Capabilities(u64::from(upper) << 16 | u64::from(lower));
        if !capabilities.contains(Capabilities::LONG_PASSWORD) {
            capabilities = capabilities | Capabilities(u64::from(extended) << 32);
        }

        // At least 13 bytes whatever the length says: 12 of the nonce and a zero.
        let mut second_part =
            Reader::new(reader.bytes(auth_data_length.saturating_sub(NONCE_FIRST_PART).max(13))?);
        let mut nonce = [0; NONCE_LENGTH];
        let second_part: [u8; NONCE_LENGTH - NONCE_FIRST_PART] = second_part.array()?;
        nonce.iter_mut().zip(first_part.iter().chain(&second_part)).for_each(|(to, from)| *to = *from);

        // MySQL 5.5.7 to 5.5.9 leave the terminator out.
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
        out.extend(self.status.to_le_bytes());
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
