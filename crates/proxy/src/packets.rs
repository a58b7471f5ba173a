//! Reads single packets from a socket, for exchanges in which each packet is read as a whole.

use std::io;

use narrows_wire::frame::HEADER_LENGTH;
use narrows_wire::{Header, Malformed};

use crate::buffer::Buffer;
use crate::stream::Stream;

/// Why no packet was received.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer closed the connection.
    #[error("connection closed by the peer")]
    Closed,
    /// Not a packet of this exchange.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl ReadError {
    /// Whether the peer has disconnected, in order or not.
    pub fn is_disconnect(&self) -> bool {
        match self {
            ReadError::Closed => true,
            ReadError::Io(error) => {
                matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
            }
            ReadError::Malformed(_) => false,
        }
    }
}

/// Waits until a whole packet of at most `limit` bytes is at the front of `buffer`; returns its header. The caller
/// consumes it.
///
/// # Errors
/// See [`ReadError`]; a packet above `limit` is malformed.
pub async fn read_packet(stream: &Stream, buffer: &mut Buffer, limit: usize) -> Result<Header, ReadError> {
    loop {
        let filled = buffer.filled();
        let mut missing = HEADER_LENGTH;
        if let Some(header) = Header::decode(filled) {
            if header.length > limit {
                return Err(Malformed("packet longer than this exchange allows").into());
            }
            if filled.len() >= header.packet_length() {
                return Ok(header);
            }
            missing = header.packet_length() - filled.len();
        }
        buffer.make_room_for(missing);
        if buffer.fill(stream).await? == 0 {
            return Err(ReadError::Closed);
        }
    }
}

/// The payload of the whole packet at the front of `buffer`.
pub fn payload(buffer: &Buffer, header: Header) -> &[u8] {
    buffer.filled().get(HEADER_LENGTH..header.packet_length()).unwrap_or_default()
}

/// The maximum size of a packet before the login is complete. Client libraries limit the longest part of a login, its
/// connection attributes, to a total of 64 KiB.
pub const LOGIN_PACKET: usize = 64 * 1024;

/// The maximum size of a server's packet in an exchange of small packets.
pub const SMALL_PACKET: usize = 256 * 1024;
