//! A connection as seen by sessions and pools: bytes in, bytes out, with or without TLS and compression.
//!
//! A plain connection is just its socket. One with layers has them in a box; all of their buffers are empty, and use no
//! memory, while no data is in transit.

mod layers;
mod tls;

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use narrows_wire::compression::{Algorithm, End};

use crate::hot_restart::{RestoredClient, SlotGuard, TrackedSocket};
use crate::rt::{DetachedSocket, Socket};
use layers::Layers;

pub use tls::{TlsError, TlsInfo};

/// A connection.
#[derive(Debug)]
pub enum Stream {
    /// A socket without any layer.
    Plain(Socket),
    /// The socket of a client that another process can continue with.
    Tracked(TrackedSocket),
    /// TLS, compression, or both.
    Layered(Box<Layered>),
}

/// A socket and the layers between it and the session.
#[derive(Debug)]
pub struct Layered {
    /// `None` once the socket has been moved to another worker, or to another layer.
    socket: Option<Socket>,
    layers: std::cell::RefCell<Layers>,
}

/// A connection that belongs to no runtime, so that it can be passed between workers.
#[derive(Debug)]
pub struct DetachedStream {
    socket: DetachedSocket,
    entry: Option<SlotGuard>,
    layers: Option<Box<Layers>>,
}

/// How secure the transport is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP without TLS.
    Tcp,
    /// TCP or a Unix socket, with TLS.
    Tls,
    /// A Unix socket.
    Unix,
}

impl Stream {
    /// The stream of a client that was just accepted.
    pub fn accepted(socket: Socket) -> Stream {
        match SlotGuard::begin(&socket) {
            Some(entry) => Stream::Tracked(TrackedSocket::new(socket, entry)),
            None => Stream::Plain(socket),
        }
    }

    /// The tracked socket, if another process can continue with the connection.
    pub fn tracked(&self) -> Option<&TrackedSocket> {
        if let Stream::Tracked(tracked) = self { Some(tracked) } else { None }
    }

    /// Connects over TCP; each address of the name is tried.
    ///
    /// # Errors
    /// The error of the last address.
    pub async fn connect_tcp(host: &str, port: u16) -> io::Result<Stream> {
        Socket::connect_tcp(host, port).await.map(Stream::Plain)
    }

    /// Connects over TCP to the first of `addresses` that can be connected to.
    ///
    /// # Errors
    /// The error of the last address.
    pub async fn connect_first(addresses: &[IpAddr], port: u16) -> io::Result<Stream> {
        Socket::connect_first(addresses, port).await.map(Stream::Plain)
    }

    /// Connects to a Unix socket.
    ///
    /// # Errors
    /// The error of `connect(2)`.
    pub async fn connect_unix(path: &str) -> io::Result<Stream> {
        Socket::connect_unix(path).await.map(Stream::Plain)
    }

    /// Takes the connection off this runtime.
    ///
    /// # Errors
    /// If the runtime cannot deregister it.
    pub fn detach(self) -> io::Result<DetachedStream> {
        match self {
            Stream::Plain(socket) => {
                Ok(DetachedStream { socket: socket.detach()?, entry: None, layers: None })
            }
            Stream::Tracked(tracked) => {
                let (socket, entry) = tracked.into_parts();
                Ok(DetachedStream { socket: socket.detach()?, entry: Some(entry), layers: None })
            }
            Stream::Layered(layered) => {
                let (socket, layers) = layered.into_parts();
                Ok(DetachedStream { socket: socket.detach()?, entry: None, layers: Some(Box::new(layers)) })
            }
        }
    }

    /// How the peer is connected.
    pub fn transport(&self) -> Transport {
        let tls = match self {
            Stream::Plain(_) | Stream::Tracked(_) => false,
            Stream::Layered(layered) => layered.layers.borrow().has_tls(),
        };
        match self.socket() {
            _ if tls => Transport::Tls,
            Socket::Tcp(_) => Transport::Tcp,
            Socket::Unix(_) => Transport::Unix,
        }
    }

    /// Whether packets are in frames of the compressed protocol.
    pub fn is_compressed(&self) -> bool {
        match self {
            Stream::Plain(_) | Stream::Tracked(_) => false,
            Stream::Layered(layered) => layered.layers.borrow().has_compression(),
        }
    }

    /// Whether the peer is on this machine: a Unix socket, or a loopback address.
    pub fn is_local(&self) -> bool {
        self.socket().is_local()
    }

    /// The outcome of the TLS handshake; `None` without TLS.
    pub fn tls(&self) -> Option<TlsInfo> {
        match self {
            Stream::Plain(_) | Stream::Tracked(_) => None,
            Stream::Layered(layered) => layered.layers.borrow().tls_info(),
        }
    }

    /// Performs the server side of a TLS handshake. `early` is what was read after the client's request for it.
    ///
    /// # Errors
    /// See [`TlsError`]; the peer has been sent an alert.
    pub async fn accept_tls(
        self,
        config: &std::sync::Arc<rustls::ServerConfig>,
        early: &[u8],
    ) -> Result<Stream, TlsError> {
        self.with_tls(tls::Tls::server(config)?, early).await
    }

    /// Performs the client side of a TLS handshake with the server `name`.
    ///
    /// # Errors
    /// See [`TlsError`]; for a refused certificate it contains the reason.
    pub async fn connect_tls(
        self,
        config: &std::sync::Arc<rustls::ClientConfig>,
        name: rustls::pki_types::ServerName<'static>,
    ) -> Result<Stream, TlsError> {
        self.with_tls(tls::Tls::client(config, name)?, b"").await
    }

    async fn with_tls(self, tls: tls::Tls, early: &[u8]) -> Result<Stream, TlsError> {
        let (socket, mut layers) = self.into_parts();
        layers.add_tls(tls, early);
        let layered = Layered::new(socket, layers);
        layered.shake_hands().await?;
        Ok(Stream::Layered(layered))
    }

    /// Turns on the compressed protocol, for all bytes from now on. `early` is what has already been read.
    ///
    /// # Errors
    /// If `early` is not a frame.
    pub fn with_compression(self, algorithm: Algorithm, end: End, early: &[u8]) -> io::Result<Stream> {
        let (socket, mut layers) = self.into_parts();
        layers.add_compression(algorithm, end, early)?;
        Ok(Stream::Layered(Layered::new(socket, layers)))
    }

    fn into_parts(self) -> (Socket, Layers) {
        match self {
            Stream::Plain(socket) => (socket, Layers::default()),
            // TLS keys are not passed to another process.
            Stream::Tracked(tracked) => (tracked.into_parts().0, Layers::default()),
            Stream::Layered(layered) => layered.into_parts(),
        }
    }

    fn socket(&self) -> &Socket {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tracked(tracked) => &tracked.socket,
            Stream::Layered(layered) => layered.socket(),
        }
    }

    /// Waits until reading may yield bytes or the end.
    ///
    /// # Errors
    /// Only if the runtime is shutting down.
    pub async fn readable(&self) -> io::Result<()> {
        let socket = match self {
            Stream::Plain(socket) => socket,
            Stream::Tracked(tracked) => &tracked.socket,
            Stream::Layered(layered) if layered.layers.borrow().has_unread() => return Ok(()),
            Stream::Layered(layered) => layered.socket(),
        };
        socket.readable().await
    }

    /// Reads what has arrived; `Ok(0)` is the end.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has arrived.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.try_read(buffer),
            Stream::Tracked(tracked) => tracked.try_read(buffer),
            Stream::Layered(layered) => layered.layers.borrow_mut().try_read(layered.socket(), buffer),
        }
    }

    /// Reads at least one byte; `Ok(0)` is the end.
    ///
    /// # Errors
    /// The socket's error.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.try_read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable().await?,
                result => return result,
            }
        }
    }

    /// Writes all of `bytes`, waiting while the peer does not read. There is no time limit; see `session/relay.rs` for
    /// writes with one.
    ///
    /// # Errors
    /// The socket's error; some bytes may have been written.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !self.try_write_all(&mut bytes)? {
            self.writable().await?;
        }
        Ok(())
    }

    /// Writes what the peer accepts immediately, and leaves the rest in `bytes`; returns whether nothing is left. Once
    /// some bytes have been passed, the next call must continue with their rest.
    ///
    /// # Errors
    /// The socket's error; some bytes may have been written.
    pub fn try_write_all(&self, bytes: &mut &[u8]) -> io::Result<bool> {
        #[cfg(test)]
        let all = *bytes;
        let done = match self {
            Stream::Plain(socket) => socket.try_write_all(bytes)?,
            Stream::Tracked(tracked) => tracked.try_write_all(bytes)?,
            Stream::Layered(layered) => layered.try_write_all(bytes)?,
        };
        #[cfg(test)]
        if done {
            tests::panic_on_demand(all);
        }
        Ok(done)
    }

    /// The number of bytes that were accepted from the writer and wait for the peer.
    pub fn backlog(&self) -> usize {
        match self {
            Stream::Plain(_) | Stream::Tracked(_) => 0,
            Stream::Layered(layered) => layered.layers.borrow().backlog(),
        }
    }

    /// Waits until the peer may accept more.
    ///
    /// # Errors
    /// Only if the runtime is shutting down.
    pub async fn writable(&self) -> io::Result<()> {
        self.socket().writable().await
    }

    /// The file descriptor, for display.
    pub fn descriptor(&self) -> i32 {
        self.socket().descriptor()
    }

    /// The peer's address and port: the IP address, or `localhost` for a Unix socket.
    pub fn peer(&self) -> (String, u16) {
        self.socket().peer()
    }

    /// The peer's IP address; `None` for a Unix socket.
    pub fn peer_address(&self) -> Option<IpAddr> {
        self.socket().peer_address()
    }

    /// The IP address and port that the peer connected to; empty for a Unix socket.
    pub fn local(&self) -> (String, u16) {
        self.socket().local()
    }

    /// Turns TCP keepalive on, with `idle` before the first probe.
    pub fn set_keepalive(&self, idle: Option<Duration>) {
        self.socket().set_keepalive(idle);
    }
}

impl Layered {
    fn new(socket: Socket, layers: Layers) -> Box<Layered> {
        Box::new(Layered { socket: Some(socket), layers: layers.into() })
    }

    fn into_parts(mut self) -> (Socket, Layers) {
        let socket = self.socket.take().expect("nobody else takes it");
        (socket, self.layers.take())
    }

    fn socket(&self) -> &Socket {
        self.socket.as_ref().expect("taken by `into_parts` only, which ends this")
    }

    fn try_write_all(&self, bytes: &mut &[u8]) -> io::Result<bool> {
        let mut layers = self.layers.borrow_mut();
        loop {
            // Bytes that an earlier write could not write come first.
            if !layers.try_flush(self.socket())? {
                return Ok(false);
            }
            if bytes.is_empty() {
                return Ok(true);
            }
            let (part, rest) = bytes.split_at(bytes.len().min(WRITTEN_AT_ONCE));
            layers.encode(part)?;
            *bytes = rest;
        }
    }

    /// Writes the bytes that wait for the socket.
    async fn flush(&self) -> io::Result<()> {
        while !self.layers.borrow_mut().try_flush(self.socket())? {
            self.socket().writable().await?;
        }
        Ok(())
    }

    async fn shake_hands(&self) -> Result<(), TlsError> {
        loop {
            // Not `?` here: the alert with the reason must be written to the peer first.
            let done = self.layers.borrow_mut().shake_hands(self.socket());
            let flushed = self.flush().await;
            if done? {
                return Ok(flushed?);
            }
            self.socket().readable().await?;
        }
    }
}

impl Drop for Layered {
    /// Sends close_notify, so that the peer knows that nothing was truncated; does not wait for a peer that does not
    /// read.
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            self.layers.get_mut().say_goodbye(socket);
        }
    }
}

impl From<Socket> for Stream {
    fn from(socket: Socket) -> Stream {
        Stream::Plain(socket)
    }
}

impl DetachedStream {
    /// The stream of a client of another process; `None` if it cannot be recorded here.
    pub fn adopted(socket: DetachedSocket, restored: &RestoredClient) -> Option<DetachedStream> {
        let entry = SlotGuard::adopt(&socket, restored)?;
        Some(DetachedStream { socket, entry: Some(entry), layers: None })
    }

    /// Attaches the connection to the calling thread's runtime.
    ///
    /// # Errors
    /// If the runtime cannot take it (no memory, no descriptor).
    pub fn attach(self) -> io::Result<Stream> {
        let socket = self.socket.attach()?;
        Ok(match (self.layers, self.entry) {
            (None, None) => Stream::Plain(socket),
            (None, Some(entry)) => Stream::Tracked(TrackedSocket::new(socket, entry)),
            (Some(layers), _) => Stream::Layered(Layered::new(socket, *layers)),
        })
    }
}

/// Bytes that are compressed and encrypted before the first of them is written: four TLS records.
const WRITTEN_AT_ONCE: usize = 64 * 1024;

#[cfg(test)]
pub(crate) mod tests;
