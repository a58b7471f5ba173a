//! `COM_CHANGE_USER` (manual: "COM_CHANGE_USER"): a login on an established connection.

use super::ConnectAttributes;
use super::response::{put_short_bytes, until_zero_or_end};
use crate::capability::Capabilities;
use crate::codec::{Malformed, Reader, put_null_terminated};

/// A `COM_CHANGE_USER`; the payload includes the command's byte.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ChangeUser {
    /// Who logs in.
    pub user: Vec<u8>,
    /// `plugin`'s answer to the last nonce that the client received.
    pub auth_response: Vec<u8>,
    /// The initial schema; an empty name means none.
    pub schema: Option<Vec<u8>>,
    /// Id of the collation; older clients omit it and everything after it, and keep the collation they have.
    pub charset: Option<u16>,
    /// The plugin the client answered with.
    pub plugin: Option<Vec<u8>>,
    /// Connection attributes.
    pub attributes: ConnectAttributes,
}

impl ChangeUser {
    /// First byte of the payload.
    pub const COMMAND: u8 = 0x11;

    /// Reads the payload of a client that logged in with `capabilities`.
    pub fn decode(payload: &[u8], capabilities: Capabilities) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != Self::COMMAND {
            return Err(Malformed("not a COM_CHANGE_USER"));
        }
        let has = |flag| capabilities.contains(flag);
        let user = reader.null_terminated()?.to_vec();
        let auth_response = if has(Capabilities::SECURE_CONNECTION) {
            let length = reader.u8()?;
            reader.bytes(length.into())?.to_vec()
        } else {
            reader.null_terminated()?.to_vec()
        };
        let schema = until_zero_or_end(&mut reader);
        let mut change = ChangeUser { user, auth_response, schema, ..ChangeUser::default() };
        // A single byte is no charset, and nothing can follow it.
        let Ok(charset) = reader.u16() else { return Ok(change) };
        change.charset = Some(charset);
        if has(Capabilities::PLUGIN_AUTH) {
            change.plugin = until_zero_or_end(&mut reader);
        }
        if has(Capabilities::CONNECT_ATTRS) {
            change.attributes = ConnectAttributes::take(&mut reader)?;
        }
        Ok(change)
    }

    /// Appends the payload, for a server that was logged in to with `capabilities`.
    ///
    /// An answer of more than 255 bytes is truncated: no plugin has one that long. Without a charset the packet ends
    /// after the schema.
    pub fn encode(&self, capabilities: Capabilities, out: &mut Vec<u8>) {
        let has = |flag| capabilities.contains(flag);
        out.push(Self::COMMAND);
        put_null_terminated(out, &self.user);
        if has(Capabilities::SECURE_CONNECTION) {
            put_short_bytes(out, &self.auth_response);
        } else {
            put_null_terminated(out, &self.auth_response);
        }
        put_null_terminated(out, self.schema.as_deref().unwrap_or_default());
        let Some(charset) = self.charset else { return };
        out.extend(charset.to_le_bytes());
        if has(Capabilities::PLUGIN_AUTH) {
            put_null_terminated(out, self.plugin.as_deref().unwrap_or_default());
        }
        if has(Capabilities::CONNECT_ATTRS) {
            self.attributes.put(out);
        }
    }
}

impl std::fmt::Debug for ChangeUser {
    /// The answer is left out: with some plugins it is the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChangeUser")
            .field("user", &String::from_utf8_lossy(&self.user))
            .field("schema", &self.schema.as_deref().map(String::from_utf8_lossy))
            .field("charset", &self.charset)
            .field("plugin", &self.plugin.as_deref().map(String::from_utf8_lossy))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPABILITIES: Capabilities =
        Capabilities::SECURE_CONNECTION.union(Capabilities::PLUGIN_AUTH).union(Capabilities::CONNECT_ATTRS);

    const ANSWER: &[u8] = b"\xAE\x6F\xF1\x40\x5F\x4E\x30\xD0\xA3\xDD\x86\xC3\x20\x39\x97\x51\xE6\xBF\xFE\x96";

    /// From libmariadb 10.11 (without some of its attributes), and from Node's mysql2, which sends none.
    fn recorded() -> [Vec<u8>; 2] {
        let head = [&b"\x11nat\0\x14"[..], ANSWER, b"app\0"].concat();
        [
            [&head[..], b"\x2D\0", b"mysql_native_password\0", b"\x0A\x03_os\x05Linux"].concat(),
            [&head[..], b"\xE0\0", b"mysql_native_password\0", b"\0"].concat(),
        ]
    }

    #[test]
    fn reads_what_drivers_send() {
        for (payload, (charset, attributes)) in recorded().iter().zip([(45, 1), (224, 0)]) {
            let change = ChangeUser::decode(payload, CAPABILITIES).unwrap();
            assert_eq!((&change.user[..], &change.auth_response[..]), (&b"nat"[..], ANSWER));
            assert_eq!(change.schema.as_deref(), Some(&b"app"[..]));
            assert_eq!(change.charset, Some(charset));
            assert_eq!(change.plugin.as_deref(), Some(&b"mysql_native_password"[..]));
            assert_eq!(change.attributes.iter().count(), attributes);
        }
    }

    #[test]
    fn writes_the_bytes_it_read() {
        for payload in recorded() {
            let mut out = Vec::new();
            ChangeUser::decode(&payload, CAPABILITIES).unwrap().encode(CAPABILITIES, &mut out);
            assert_eq!(out, payload);
        }
    }

    #[test]
    fn takes_packets_that_end_early() {
        let decode = |payload: &[u8]| ChangeUser::decode(payload, CAPABILITIES).unwrap();
        let shortest = decode(b"\x11root\0\0");
        assert_eq!((shortest.schema, shortest.charset, shortest.plugin), (None, None, None));
        assert_eq!(decode(b"\x11root\0\0app\0\0").charset, None);
        let no_plugin = decode(b"\x11root\0\0app\0\xFF\0");
        assert_eq!((no_plugin.charset, no_plugin.plugin), (Some(255), None));
    }

    #[test]
    fn refuses_what_is_cut_or_lies() {
        for payload in [&b""[..], b"\x03", b"\x11", b"\x11root", b"\x11root\0", b"\x11root\0\x14short"] {
            assert!(ChangeUser::decode(payload, CAPABILITIES).is_err(), "{payload:?}");
        }
        assert!(ChangeUser::decode(b"\x11u\0\0\0\x2D\0dialog\0\x50a", CAPABILITIES).is_err());
    }
}
