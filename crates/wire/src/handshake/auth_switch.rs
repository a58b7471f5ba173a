//! Authentication after the first answer (manual: "Protocol::AuthSwitchRequest", "Protocol::AuthMoreData").
//!
//! A client's packets have no format of their own: the payload is the plugin's bytes, or a single byte of them.

use crate::auth::{NONCE_LENGTH, Nonce};
use crate::codec::{Malformed, Reader, put_null_terminated};

/// A server asks for another plugin's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthSwitchRequest {
    /// The plugin.
    pub plugin: Vec<u8>,
    /// The plugin's data: for password plugins a nonce, see [`AuthSwitchRequest::nonce`].
    pub data: Vec<u8>,
}

impl AuthSwitchRequest {
    /// First byte of the payload.
    pub const HEADER: u8 = 0xFE;

    /// A request for `plugin`'s answer to `nonce`.
    pub fn with_nonce(plugin: &[u8], nonce: &Nonce) -> Self {
        let mut data = nonce.to_vec();
        data.push(0);
        AuthSwitchRequest { plugin: plugin.to_vec(), data }
    }

    /// Reads the payload. The single byte of servers before 5.5.7 means the pre-4.1 plugin.
    pub fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != Self::HEADER {
            return Err(Malformed("not an AuthSwitchRequest"));
        }
        if reader.is_empty() {
            return Ok(AuthSwitchRequest { plugin: b"mysql_old_password".to_vec(), data: Vec::new() });
        }
        Ok(AuthSwitchRequest { plugin: reader.null_terminated()?.to_vec(), data: reader.rest().to_vec() })
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(Self::HEADER);
        put_null_terminated(out, &self.plugin);
        out.extend_from_slice(&self.data);
    }

    /// The nonce, if the data is one: 20 bytes, with or without a zero byte after them.
    pub fn nonce(&self) -> Option<Nonce> {
        let (nonce, rest) = self.data.split_first_chunk::<NONCE_LENGTH>()?;
        matches!(rest, [] | [0]).then_some(*nonce)
    }
}

/// More bytes from a plugin to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthMoreData<'a>(pub &'a [u8]);

impl<'a> AuthMoreData<'a> {
    /// First byte of the payload.
    pub const HEADER: u8 = 0x01;

    /// Reads the payload.
    pub fn decode(payload: &'a [u8]) -> Result<Self, Malformed> {
        match payload.split_first() {
            Some((&Self::HEADER, data)) => Ok(AuthMoreData(data)),
            _ => Err(Malformed("not an AuthMoreData")),
        }
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(Self::HEADER);
        out.extend_from_slice(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(payload: &[u8]) -> AuthSwitchRequest {
        let request = AuthSwitchRequest::decode(payload).unwrap();
        let mut out = Vec::new();
        request.encode(&mut out);
        assert_eq!(out, payload);
        request
    }

    #[test]
    fn reads_what_servers_send() {
        // From MySQL 9.7, to a client that named no plugin.
        let request = round_trip(b"\xFEcaching_sha2_password\0mN?uOXS7\x08{Y\x06Ly\x02lsa=\x1A\0");
        assert_eq!(request.plugin, b"caching_sha2_password");
        assert_eq!(request.nonce().as_ref(), Some(b"mN?uOXS7\x08{Y\x06Ly\x02lsa=\x1A"));
        assert_eq!(AuthSwitchRequest::with_nonce(&request.plugin, &request.nonce().unwrap()), request);
        // From MariaDB 10.11, for an account with ed25519: 32 bytes and no terminator.
        let request = round_trip(
            b"\xFEclient_ed25519\0>\xC4u\xB4mb\xC9\xCD\x8A\xAC\xB6|T&\x87>\x9C\xE8S\xD5+\xE5\xD3\xAEr|\xB4\x98|\x8F(.",
        );
        assert_eq!((request.data.len(), request.nonce()), (32, None));
    }

    #[test]
    fn a_lone_byte_asks_for_the_plugin_of_before_4_1() {
        assert_eq!(AuthSwitchRequest::decode(&[0xFE]).unwrap().plugin, b"mysql_old_password");
    }

    #[test]
    fn refuses_other_packets() {
        assert!(AuthSwitchRequest::decode(b"").is_err());
        assert!(AuthSwitchRequest::decode(b"\x01\x04").is_err());
        assert!(AuthSwitchRequest::decode(b"\xFEno_terminator").is_err());
        assert!(AuthMoreData::decode(b"").is_err());
        assert_eq!(AuthMoreData::decode(b"\x01\x04"), Ok(AuthMoreData(&[4])));
    }
}
