//! The first packet of a client (manual: "Protocol::HandshakeResponse41", "Protocol::SSLRequest"; MariaDB knowledge
//! base: "Connection"). The 3.x form is refused.
//!
//! More is accepted than servers accept, if the meaning is clear:
//!
//! | what the client leaves out | MariaDB 10.11 | MySQL 9.7 | here |
//! |---|---|---|---|
//! | terminator of the plugin, or the plugin | accepts | switches | accepts |
//! | terminator of the schema, last in the packet | accepts | 1043 | accepts |
//! | the schema, though `CONNECT_WITH_DB` is set | 1043 | 1043 | none |
//! | the attributes, though `CONNECT_ATTRS` is set | 1043 | 1043 | none |
//! | the level, though `ZSTD_COMPRESSION` is set | accepts | 3923 | none |
//! | TLS, though a whole login has the SSL flag | accepts | waits for TLS | accepts |
//! | user, answer, or their terminator or length | 1043 | 1043 | malformed |
//!
//! Attributes with a false length or of more than 64 KiB are malformed everywhere; the pairs inside are not checked;
//! bytes after the last field are ignored.

use super::ConnectAttributes;
use crate::capability::Capabilities;
use crate::codec::{Malformed, Reader, put_lenenc_bytes, put_null_terminated};

/// Length of the part that an SSLRequest and a login have in common.
const FIXED_LENGTH: usize = 32;

/// Why a client's first packet is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// The client speaks the pre-4.1 protocol.
    #[error("the client does not speak the 4.1 protocol")]
    OldProtocol,
    /// The bytes are not a login.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// A client's first packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// TLS follows, and then the login inside it.
    SslRequest(SslRequest),
    /// The login.
    Response(HandshakeResponse),
}

/// A client's request for TLS: the first 32 bytes of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SslRequest {
    /// Capabilities of the client; the login repeats them.
    pub capabilities: Capabilities,
    /// The longest packet the client takes, in bytes.
    pub max_packet_size: u32,
    /// Low byte of the collation's id.
    pub charset: u8,
}

/// A login.
#[derive(Clone, PartialEq, Eq)]
pub struct HandshakeResponse {
    /// What the client supports and wants of what the server announced.
    pub capabilities: Capabilities,
    /// The longest packet the client takes, in bytes.
    pub max_packet_size: u32,
    /// Low byte of the id of the collation for the whole connection (clients cut ids above 255).
    pub charset: u8,
    /// Who logs in.
    pub user: Vec<u8>,
    /// The answer of `plugin` to the greeting's nonce.
    pub auth_response: Vec<u8>,
    /// The initial schema; an empty name means none.
    pub schema: Option<Vec<u8>>,
    /// The plugin the client answered with.
    pub plugin: Option<Vec<u8>>,
    /// Connection attributes.
    pub attributes: ConnectAttributes,
    /// The client's compression level, with `ZSTD_COMPRESSION`.
    pub zstd_level: Option<u8>,
}

impl Hello {
    /// Reads the payload of a client's first packet, or of its first packet inside TLS.
    ///
    /// The length distinguishes an SSLRequest from a login: both have the SSL flag, but a login is never that short.
    pub fn decode(payload: &[u8]) -> Result<Self, HelloError> {
        let fixed = SslRequest::take(&mut Reader::new(payload))?;
        if payload.len() == FIXED_LENGTH && fixed.capabilities.contains(Capabilities::SSL) {
            return Ok(Hello::SslRequest(fixed));
        }
        HandshakeResponse::decode(payload).map(Hello::Response)
    }
}

impl SslRequest {
    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.capabilities.lower().to_le_bytes());
        out.extend(self.max_packet_size.to_le_bytes());
        out.push(self.charset);
        out.extend([0; 19]);
        let announces_extended = !self.capabilities.contains(Capabilities::LONG_PASSWORD);
        out.extend(if announces_extended { self.capabilities.extended() } else { 0 }.to_le_bytes());
    }

    /// Takes the 32 bytes that make up an SSLRequest and that a login begins with.
    fn take(reader: &mut Reader<'_>) -> Result<Self, HelloError> {
        // The 3.x form has two bytes of capabilities and may be shorter than what is read below.
        let mut lower = *reader;
        if !Capabilities(lower.u16()?.into()).contains(Capabilities::PROTOCOL_41) {
            return Err(HelloError::OldProtocol);
        }
        let mut capabilities = Capabilities(reader.u32()?.into());
        let max_packet_size = reader.u32()?;
        let charset = reader.u8()?;
        reader.bytes(19)?;
        let extended = reader.u32()?;
        if !capabilities.contains(Capabilities::LONG_PASSWORD) {
            capabilities = capabilities | Capabilities(u64::from(extended) << 32);
        }
        Ok(SslRequest { capabilities, max_packet_size, charset })
    }
}

impl HandshakeResponse {
    /// Reads the payload of a login.
    pub fn decode(payload: &[u8]) -> Result<Self, HelloError> {
        let mut reader = Reader::new(payload);
        let SslRequest { capabilities, max_packet_size, charset } = SslRequest::take(&mut reader)?;
        let has = |flag| capabilities.contains(flag);
        let user = reader.null_terminated()?.to_vec();
        let auth_response = if has(Capabilities::PLUGIN_AUTH_LENENC_DATA) {
            reader.lenenc_bytes()?
        } else if has(Capabilities::SECURE_CONNECTION) {
            let length = reader.u8()?;
            reader.bytes(length.into())?
        } else {
            reader.null_terminated()?
        };
        let auth_response = auth_response.to_vec();
        let schema = has(Capabilities::CONNECT_WITH_DB).then(|| until_zero_or_end(&mut reader));
        let plugin = has(Capabilities::PLUGIN_AUTH).then(|| until_zero_or_end(&mut reader));
        let attributes = match has(Capabilities::CONNECT_ATTRS) {
            true => ConnectAttributes::take(&mut reader)?,
            false => ConnectAttributes::default(),
        };
        let zstd_level = if has(Capabilities::ZSTD_COMPRESSION) { reader.u8().ok() } else { None };
        Ok(HandshakeResponse {
            capabilities,
            max_packet_size,
            charset,
            user,
            auth_response,
            schema: schema.flatten(),
            plugin: plugin.flatten(),
            attributes,
            zstd_level,
        })
    }

    /// Appends the payload. Writes the fields that `capabilities` announce: a schema if `CONNECT_WITH_DB` is set, and
    /// so on.
    ///
    /// Without `PLUGIN_AUTH_LENENC_DATA` an answer of more than 255 bytes is truncated: no plugin has one that long.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let has = |flag| self.capabilities.contains(flag);
        self.ssl_request().encode(out);
        put_null_terminated(out, &self.user);
        if has(Capabilities::PLUGIN_AUTH_LENENC_DATA) {
            put_lenenc_bytes(out, &self.auth_response);
        } else if has(Capabilities::SECURE_CONNECTION) {
            put_short_bytes(out, &self.auth_response);
        } else {
            put_null_terminated(out, &self.auth_response);
        }
        if has(Capabilities::CONNECT_WITH_DB) {
            put_null_terminated(out, self.schema.as_deref().unwrap_or_default());
        }
        if has(Capabilities::PLUGIN_AUTH) {
            put_null_terminated(out, self.plugin.as_deref().unwrap_or_default());
        }
        if has(Capabilities::CONNECT_ATTRS) {
            self.attributes.put(out);
        }
        if has(Capabilities::ZSTD_COMPRESSION) {
            out.push(self.zstd_level.unwrap_or(DEFAULT_ZSTD_LEVEL));
        }
    }

    /// The packet that asks for TLS before this login.
    pub fn ssl_request(&self) -> SslRequest {
        SslRequest {
            capabilities: self.capabilities,
            max_packet_size: self.max_packet_size,
            charset: self.charset,
        }
    }
}

impl std::fmt::Debug for HandshakeResponse {
    /// The answer is left out: with some plugins it is the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandshakeResponse")
            .field("capabilities", &self.capabilities)
            .field("user", &String::from_utf8_lossy(&self.user))
            .field("schema", &self.schema.as_deref().map(String::from_utf8_lossy))
            .field("plugin", &self.plugin.as_deref().map(String::from_utf8_lossy))
            .finish_non_exhaustive()
    }
}

/// `zstd_compression_level` of MySQL's clients.
const DEFAULT_ZSTD_LEVEL: u8 = 3;

/// A string terminated by a zero byte or by the end of the packet; none if it is empty.
pub(super) fn until_zero_or_end(reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    let text = reader.null_terminated().unwrap_or_else(|_| reader.rest());
    (!text.is_empty()).then(|| text.to_vec())
}

/// A string with a one-byte length; truncated at 255.
pub(super) fn put_short_bytes(out: &mut Vec<u8>, text: &[u8]) {
    let length = u8::try_from(text.len()).unwrap_or(u8::MAX);
    out.push(length);
    out.extend(text.iter().take(length.into()));
}

#[cfg(test)]
mod tests;
