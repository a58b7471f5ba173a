//! Listeners and connections, each one type for TCP and Unix sockets; non-blocking, ready to be registered with a poll.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};

/// Where a party listens: `IP:PORT` or the absolute path of a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Tcp(SocketAddr),
    /// Unix socket.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return Ok(Address::Unix(PathBuf::from(text)));
        }
        text.parse().map(Address::Tcp).map_err(|_| format!("expected IP:PORT or /path, found {text:?}"))
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// Unix socket.
    Unix(UnixListener),
}

impl Listener {
    /// Binds; a Unix socket left over from an earlier run is replaced.
    pub fn bind(address: &Address) -> io::Result<Listener> {
        match address {
            Address::Tcp(address) => TcpListener::bind(*address).map(Listener::Tcp),
            Address::Unix(path) => {
                let _ = std::fs::remove_file(path);
                UnixListener::bind(path).map(Listener::Unix)
            }
        }
    }

    /// The address that clients connect to, with the port that the kernel chose.
    pub fn address(&self, asked: &Address) -> io::Result<Address> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            Listener::Unix(_) => Ok(asked.clone()),
        }
    }

    /// The next client; `None` if none is waiting.
    pub fn accept(&self) -> io::Result<Option<Stream>> {
        let accepted = match self {
            Listener::Tcp(listener) => listener.accept().and_then(|(stream, _)| {
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }),
            Listener::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        };
        match accepted {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A connected (or connecting) socket.
#[derive(Debug)]
pub enum Stream {
    /// TCP, without Nagle's delay.
    Tcp(TcpStream),
    /// Unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Starts to connect; the first read shows whether it succeeded.
    pub fn connect(address: &Address) -> io::Result<Stream> {
        match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(*address)?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Address::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
        }
    }

    /// Reads once; `None` if nothing has arrived.
    pub fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.read(buffer) {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes as much as the socket accepts now.
    pub fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < bytes.len() {
            match self.write(&bytes[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Both types are registered through the mio socket inside them.
macro_rules! source_of_variants {
    ($type:ident) => {
        impl Source for $type {
            fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
                match self {
                    $type::Tcp(source) => source.register(registry, token, interest),
                    $type::Unix(source) => source.register(registry, token, interest),
                }
            }

            fn reregister(
                &mut self,
                registry: &Registry,
                token: Token,
                interest: Interest,
            ) -> io::Result<()> {
                match self {
                    $type::Tcp(source) => source.reregister(registry, token, interest),
                    $type::Unix(source) => source.reregister(registry, token, interest),
                }
            }

            fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
                match self {
                    $type::Tcp(source) => source.deregister(registry),
                    $type::Unix(source) => source.deregister(registry),
                }
            }
        }
    };
}

source_of_variants!(Listener);
source_of_variants!(Stream);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_told_apart_by_its_first_character() {
        assert_eq!("/run/x.sock".parse(), Ok(Address::Unix(PathBuf::from("/run/x.sock"))));
        assert_eq!("127.0.0.1:0".parse(), Ok(Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)))));
        assert!("localhost".parse::<Address>().is_err());
    }
}
