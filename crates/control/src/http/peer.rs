//! The other end of a connection.

/// Who is connected.
#[derive(Debug)]
pub struct Peer {
    /// The address; empty for Unix sockets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether it is on this machine.
    pub is_local: bool,
}
