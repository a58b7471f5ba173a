//! A blocking client that shows every packet and can send any bytes.

mod answer;
mod compressed;
mod login;
mod secure;

pub use answer::Answer;
pub use login::Login;
pub use secure::{TlsClient, tls_client};

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::protocol::{Greeting, Packet, capability, command};
use crate::{Endpoint, ErrorPacket};

/// How long the client waits for a byte before it gives up; far above what any test needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to a server or to Narrows.
#[derive(Debug)]
pub struct RawClient {
    stream: io::BufReader<Stream>,
    endpoint: Endpoint,
    /// Whether the connection uses TLS.
    is_secure: bool,
    greeting: Option<Greeting>,
    capabilities: u32,
    sequence: u8,
    /// Whether the session has begun, so that dropping the client sends COM_QUIT.
    logged_in: bool,
    /// What LOAD DATA LOCAL sends if the server asks for a file, whatever its name.
    local_file: Vec<u8>,
}

impl RawClient {
    /// Connects and sends nothing.
    ///
    /// # Panics
    /// If nobody listens there.
    pub fn connect(endpoint: &Endpoint) -> RawClient {
        RawClient::try_connect(endpoint).unwrap_or_else(|error| panic!("connect to {endpoint:?}: {error}"))
    }

    /// Connects and sends nothing.
    ///
    /// # Errors
    /// If nobody listens there.
    pub fn try_connect(endpoint: &Endpoint) -> io::Result<RawClient> {
        let stream = match endpoint {
            Endpoint::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Stream::Tcp(stream)
            }
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Stream::Unix(stream)
            }
        };
        Ok(RawClient {
            stream: io::BufReader::with_capacity(64 * 1024, stream),
            endpoint: endpoint.clone(),
            is_secure: false,
            greeting: None,
            capabilities: capability::USUAL,
            sequence: 0,
            logged_in: false,
            local_file: Vec::new(),
        })
    }

    /// Connects and logs in.
    ///
    /// # Panics
    /// If either fails.
    pub fn open(endpoint: &Endpoint, login: &Login) -> RawClient {
        let mut client = RawClient::connect(endpoint);
        client
            .login(login)
            .unwrap_or_else(|error| panic!("log in to {endpoint:?} with {login:?}: {error:?}"));
        client
    }

    /// Logs in; the answer is the payload of the OK packet.
    ///
    /// # Errors
    /// The server's refusal. Two errors are the client's own: 2013 if the connection is closed instead; 0 if
    /// the server asks for the password itself and the transport is not secure.
    pub fn login(&mut self, login: &Login) -> Result<Vec<u8>, ErrorPacket> {
        login::log_in(self, login, None)
    }

    /// Logs in with the caller's own answer to the challenge.
    ///
    /// # Errors
    /// As for [`RawClient::login`].
    pub fn login_with(&mut self, login: &Login, answer: &[u8]) -> Result<Vec<u8>, ErrorPacket> {
        login::log_in(self, login, Some(answer))
    }

    /// From now on packets are in frames, if that was negotiated.
    fn begin_compression(&mut self) {
        let is_zstd = match self.capabilities & (capability::COMPRESS | capability::ZSTD_COMPRESSION) {
            0 => return,
            flags => flags & capability::COMPRESS == 0,
        };
        assert_eq!(self.stream.buffer().len(), 0, "bytes after the login");
        let empty = io::BufReader::new(Stream::Gone);
        let plain = std::mem::replace(&mut self.stream, empty).into_inner();
        let framed = Stream::Compressed(Box::new(compressed::Compressed::new(plain, is_zstd)));
        self.stream = io::BufReader::with_capacity(64 * 1024, framed);
    }

    /// Reads the greeting, unless it has been read.
    ///
    /// # Errors
    /// A refusal sent in its place, or error 2013 if the connection is closed.
    pub fn greeting(&mut self) -> Result<&Greeting, ErrorPacket> {
        if self.greeting.is_none() {
            let packet = self.read().map_err(|error| lost(&error))?;
            if let Some(error) = ErrorPacket::decode(&packet.payload) {
                return Err(error);
            }
            self.greeting =
                Some(Greeting::decode(&packet.payload).unwrap_or_else(|| panic!("no greeting: {packet:?}")));
        }
        Ok(self.greeting.as_ref().expect("just set"))
    }

    /// The capabilities of the session.
    pub fn capabilities(&self) -> u32 {
        self.capabilities
    }

    /// Sets what LOAD DATA LOCAL sends.
    pub fn set_local_file(&mut self, content: Vec<u8>) {
        self.local_file = content;
    }

    /// Sends COM_QUERY and reads its whole answer.
    pub fn query(&mut self, statement: impl AsRef<[u8]>) -> Answer {
        let attributes: &[u8] =
            if self.capabilities & capability::QUERY_ATTRIBUTES != 0 { &[0, 1] } else { &[] };
        self.command(command::QUERY, &[attributes, statement.as_ref()].concat())
    }

    /// Sends any command and reads its whole answer, if such a command has one.
    pub fn command(&mut self, code: u8, body: &[u8]) -> Answer {
        if let Err(error) = self.send_command(code, body) {
            return Answer::lost(Vec::new(), &error);
        }
        self.answer(code)
    }

    /// Sends a command and reads nothing.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn send_command(&mut self, code: u8, body: &[u8]) -> io::Result<()> {
        if let Stream::Compressed(stream) = self.stream.get_mut() {
            stream.begin_command();
        }
        self.sequence = Packet::write(self.stream.get_mut(), &[&[code], body].concat(), 0)?;
        Ok(())
    }

    /// Reads the whole answer to a command of this code.
    pub fn answer(&mut self, code: u8) -> Answer {
        answer::read_answer(self, code)
    }

    /// Sends a payload with the next sequence number.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        self.sequence = Packet::write(self.stream.get_mut(), payload, self.sequence)?;
        Ok(())
    }

    /// Sends bytes unchanged.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Reads one packet.
    ///
    /// # Errors
    /// Those of the stream; `UnexpectedEof` if the peer has closed the connection.
    pub fn read(&mut self) -> io::Result<Packet> {
        let packet = Packet::read(&mut self.stream)?;
        self.sequence = packet.sequence.wrapping_add(1);
        Ok(packet)
    }

    /// How many received bytes have not been read; none between an answer and the next command.
    pub fn unread(&self) -> usize {
        self.stream.buffer().len()
    }

    /// Reads up to `buffer.len()` raw bytes.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn read_bytes(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }

    /// Whether the peer closes the connection within `limit`; whatever it still sends is ignored.
    pub fn is_closed_within(&mut self, limit: Duration) -> bool {
        self.stream.get_ref().set_read_timeout(limit);
        let mut buffer = [0; 4096];
        let closed = loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => break true,
                Ok(_) => {}
                Err(error) => {
                    break !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
                }
            }
        };
        self.stream.get_ref().set_read_timeout(PATIENCE);
        closed
    }

    /// Sets how long a read waits.
    pub fn set_patience(&mut self, limit: Duration) {
        self.stream.get_ref().set_read_timeout(limit);
    }

    /// Shuts down the sending half.
    pub fn finish_sending(&mut self) {
        // This fails if the peer has already closed the connection, which does no harm.
        let _ = match self.stream.get_ref().socket() {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
            Stream::Tls(_) | Stream::Compressed(_) | Stream::Gone => Ok(()),
        };
    }

    /// Closes with a reset, as a killed host would; a Unix socket is just closed.
    pub fn vanish(mut self) {
        self.logged_in = false;
        if let Stream::Tcp(stream) = self.stream.get_ref().socket() {
            crate::fake::linger_zero(stream);
        }
    }
}

impl Drop for RawClient {
    /// Sends COM_QUIT, as libraries do: a client that just disappears is a separate case, [`RawClient::vanish`].
    fn drop(&mut self) {
        if self.logged_in {
            // If the peer has closed the connection or does not read, there is nothing to send.
            self.stream.get_ref().set_write_timeout(Duration::from_millis(100));
            let _ = self.send_command(command::QUIT, b"");
        }
    }
}

/// What a client library reports if the peer is gone.
fn lost(error: &io::Error) -> ErrorPacket {
    ErrorPacket {
        code: 2013,
        state: "HY000".to_owned(),
        message: format!("connection lost: {:?}", error.kind()),
    }
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<secure::Secure>),
    Compressed(Box<compressed::Compressed>),
    /// While TLS takes over the socket.
    Gone,
}

impl Stream {
    fn set_write_timeout(&self, limit: Duration) {
        let result = match self.socket() {
            Stream::Tcp(stream) => stream.set_write_timeout(Some(limit)),
            Stream::Unix(stream) => stream.set_write_timeout(Some(limit)),
            Stream::Tls(_) | Stream::Compressed(_) | Stream::Gone => Ok(()),
        };
        result.expect("a positive time is always accepted");
    }

    fn set_read_timeout(&self, limit: Duration) {
        let result = match self.socket() {
            Stream::Tcp(stream) => stream.set_read_timeout(Some(limit)),
            Stream::Unix(stream) => stream.set_read_timeout(Some(limit)),
            Stream::Tls(_) | Stream::Compressed(_) | Stream::Gone => Ok(()),
        };
        result.expect("a positive time is always accepted");
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tls(stream) => secure::read(stream, buffer),
            Stream::Compressed(stream) => stream.read(buffer),
            Stream::Gone => Ok(0),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(buffer),
            Stream::Unix(stream) => stream.write(buffer),
            Stream::Tls(stream) => secure::write(stream, buffer),
            Stream::Compressed(stream) => stream.write(buffer),
            Stream::Gone => Ok(0),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
