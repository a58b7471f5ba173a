//! Many clients on one thread, each with one statement outstanding at most.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use narrows_testkit::{ErrorPacket, Greeting, Login, Packet, command};
use socket2::{Domain, Socket, Type};

/// The most connections from one source address: the kernel has some 28,000 ports.
const PER_ADDRESS: usize = 20_000;

/// How long a login may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The clients, logged in.
pub struct Swarm {
    poll: Poll,
    events: Events,
    clients: Vec<Client>,
}

struct Client {
    stream: mio::net::TcpStream,
    inbox: Vec<u8>,
    asked_at: Option<Instant>,
}

/// The outcome of a client's statement.
pub struct Answered {
    /// Which client.
    pub client: usize,
    /// From sending the statement to the end of its answer.
    pub wait: Duration,
    /// What went wrong.
    pub error: Option<String>,
}

impl Swarm {
    /// Logs in `count` clients as `sbtest`, one after another.
    pub fn log_in(port: u16, count: usize) -> Swarm {
        let poll = Poll::new().expect("an epoll instance");
        let mut clients = Vec::with_capacity(count);
        for index in 0..count {
            let stream = log_in(port, index);
            stream.set_nonblocking(true).expect("a socket can");
            let mut stream = mio::net::TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(index), Interest::READABLE).expect("room in epoll");
            clients.push(Client { stream, inbox: Vec::new(), asked_at: None });
        }
        Swarm { poll, events: Events::with_capacity(1024), clients }
    }

    /// How many clients there are.
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Sends a statement for a client that has none outstanding.
    pub fn ask(&mut self, client: usize, statement: &str) {
        let client = &mut self.clients[client];
        assert!(client.asked_at.is_none(), "a client has one statement at a time");
        let mut packet = Vec::with_capacity(statement.len() + 5);
        Packet::write(&mut packet, &[&[command::QUERY], statement.as_bytes()].concat(), 0)
            .expect("writing to a Vec cannot fail");
        client.asked_at = Some(Instant::now());
        // The socket's buffer is empty and larger than any statement here. A closed connection is noticed at the next
        // read.
        let _ = client.stream.write_all(&packet);
    }

    /// Waits for answers, for at most `limit`.
    pub fn answers(&mut self, limit: Duration) -> Vec<Answered> {
        match self.poll.poll(&mut self.events, Some(limit)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Vec::new(),
            result => result.expect("epoll"),
        }
        let ready: Vec<usize> = self.events.iter().map(|event| event.token().0).collect();
        let answer = |client: usize| {
            let end = self.clients[client].read()?;
            let asked_at = self.clients[client].asked_at.take();
            let wait = asked_at.map(|at| at.elapsed()).unwrap_or_default();
            Some(Answered { client, wait, error: end.err() })
        };
        ready.into_iter().filter_map(answer).collect()
    }

    /// Makes every client send one statement and waits for all answers.
    ///
    /// # Panics
    /// If one is an error or does not arrive.
    pub fn ask_all(&mut self, statement: &str) {
        // In batches, so that no statement waits longer than the proxy allows.
        for first in (0..self.len()).step_by(1000) {
            let part = first..self.len().min(first + 1000);
            part.clone().for_each(|client| self.ask(client, statement));
            let mut missing = part.len();
            while missing > 0 {
                let answers = self.answers(PATIENCE);
                assert!(!answers.is_empty(), "{missing} answers are missing");
                for answer in answers {
                    assert_eq!(answer.error, None, "client {}", answer.client);
                    missing -= 1;
                }
            }
        }
    }
}

impl Drop for Swarm {
    /// Sends COM_QUIT, as libraries do.
    fn drop(&mut self) {
        for client in &mut self.clients {
            // A connection that the other side closed needs no COM_QUIT.
            let _ = client.stream.write_all(&[1, 0, 0, 0, command::QUIT]);
        }
    }
}

impl Client {
    /// Reads what has arrived; returns whether the answer is complete, and its error.
    fn read(&mut self) -> Option<Result<(), String>> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Some(Err("the connection was closed".to_owned())),
                Ok(count) => self.inbox.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Some(Err(error.to_string())),
            }
        }
        let result = whole_answer(&self.inbox)?;
        // An idle client uses no memory here either.
        self.inbox = Vec::new();
        Some(result)
    }
}

/// Whether the bytes are the whole answer to a statement, of a session without DEPRECATE_EOF.
fn whole_answer(mut bytes: &[u8]) -> Option<Result<(), String>> {
    let mut ends = 0;
    for index in 0.. {
        let length = usize::from(*bytes.first()?) + (usize::from(*bytes.get(1)?) << 8);
        let payload = bytes.get(4..4 + length)?;
        bytes = &bytes[4 + length..];
        match payload[0] {
            0xFF => {
                let error = ErrorPacket::decode(payload).expect("an ERR packet");
                return Some(Err(format!("{}: {}", error.code, error.message)));
            }
            0x00 if index == 0 => return Some(Ok(())),
            0xFE if length < 9 => ends += 1,
            _ => {}
        }
        if ends == 2 {
            return Some(Ok(()));
        }
    }
    None
}

fn log_in(port: u16, index: usize) -> TcpStream {
    let source = Ipv4Addr::new(127, 0, 0, 1 + u8::try_from(index / PER_ADDRESS).expect("few addresses"));
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a file descriptor");
    if index >= PER_ADDRESS {
        socket.bind(&SocketAddr::from((source, 0)).into()).expect("a loopback address");
    }
    socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into()).expect("narrows listens");
    let mut stream = TcpStream::from(socket);
    stream.set_nodelay(true).expect("TCP");
    stream.set_read_timeout(Some(PATIENCE)).expect("a positive time");
    let packet = Packet::read(&mut stream).expect("a greeting");
    let greeting = Greeting::decode(&packet.payload)
        .unwrap_or_else(|| panic!("client {index}: {:?}", ErrorPacket::decode(&packet.payload)));
    let response = Login::new("sbtest", "sbtest").response(&greeting.seed, &greeting.plugin);
    Packet::write(&mut stream, &response, 1).expect("send the login");
    let answer = Packet::read(&mut stream).expect("an answer to the login");
    assert_eq!(answer.first(), 0, "client {index}: {:?}", ErrorPacket::decode(&answer.payload));
    stream
}
