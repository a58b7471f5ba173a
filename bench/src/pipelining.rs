//! What pipelining would bring: the next statement is sent on a connection before the answer to the previous one has come.
//!
//! Narrows does not do this; the figures are for the decision, see docs/design/performance.md. Many clients in this process share
//! few connections to the mock server. There is no proxy between them, and every statement and every answer is held for the
//! one-way delay of a network that loopback does not have. The loop never sleeps, so the delays are exact.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use clap::Args;
use hdrhistogram::Histogram;

use crate::codec::{
    Greeting, HEADER, Walker, capability, native_scramble, put_packet, whole_packet, write_login,
};
use crate::load::{Response, Step};
use crate::process::{self, Process};

/// Options of `pipelining`.
#[derive(Debug, Args)]
pub struct PipeliningFlags {
    /// Connections that the clients share.
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Clients, each with one statement at a time.
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// Delay of the network in one direction, in microseconds.
    #[arg(long, default_value_t = 500)]
    delay_us: u64,
    /// Statements that may be outstanding on one connection.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    depths: Vec<usize>,
    /// Length of each measurement in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

const SHORT: &str = "SELECT c FROM sbtest1 WHERE id=5000";
const LONG: &str = "SELECT c FROM rows LIMIT 20000";

/// A statement on its way.
#[derive(Debug, Clone, Copy)]
struct Statement {
    begun: Instant,
    is_long: bool,
}

/// One connection, and the statements on it in the order in which they were sent.
struct Lane {
    stream: TcpStream,
    /// Held until they have crossed the network.
    leaving: VecDeque<(Instant, Statement)>,
    /// At the server.
    asked: VecDeque<Statement>,
    /// Answered, but the answer is still on its way.
    returning: VecDeque<(Instant, Statement)>,
    walker: Walker,
    response: Response,
}

impl Lane {
    fn outstanding(&self) -> usize {
        self.leaving.len() + self.asked.len() + self.returning.len()
    }
}

/// Measures each depth, without and with long statements, and prints a table.
pub fn run(flags: &PipeliningFlags) -> io::Result<()> {
    let (_server, address) = Process::start_own(Some(0), &["mock-server".to_owned()])?;
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    process::pin_to(1)?;
    println!(
        "{} clients on {} connections, {} us of delay in each direction",
        flags.clients, flags.connections, flags.delay_us
    );
    println!(
        "\n{:>5} {:>8}  {:>12} {:>9} {:>9} {:>9}",
        "depth", "long", "statements/s", "p50 us", "p99 us", "max us"
    );
    for long_one_in in [0, 100] {
        for &depth in &flags.depths {
            let mut trial = Trial::begin(flags, address, depth, long_one_in)?;
            let rate = trial.measure(Duration::from_secs_f64(flags.seconds))?;
            let at = |quantile| trial.latency_us.value_at_quantile(quantile);
            println!(
                "{depth:>5} {:>8}  {rate:>12.0} {:>9} {:>9} {:>9}",
                if long_one_in == 0 { "none".to_owned() } else { format!("1 in {long_one_in}") },
                at(0.5),
                at(0.99),
                trial.latency_us.max()
            );
        }
    }
    println!("\nThe times are those of the short statements.");
    Ok(())
}

struct Trial {
    lanes: Vec<Lane>,
    depth: usize,
    delay: Duration,
    /// One in so many statements is long; 0: none.
    long_one_in: u64,
    sent: u64,
    waiting: VecDeque<Statement>,
    latency_us: Histogram<u64>,
}

impl Trial {
    fn begin(
        flags: &PipeliningFlags,
        address: SocketAddr,
        depth: usize,
        long_one_in: u64,
    ) -> io::Result<Trial> {
        let lane = || {
            let stream = log_in(address)?;
            stream.set_nonblocking(true)?;
            Ok(Lane {
                stream,
                leaving: VecDeque::new(),
                asked: VecDeque::new(),
                returning: VecDeque::new(),
                walker: Walker::default(),
                response: Response::new(true),
            })
        };
        let latency_us = Histogram::new_with_bounds(1, 60_000_000, 3).map_err(io::Error::other)?;
        let mut trial = Trial {
            lanes: (0..flags.connections).map(|_| lane()).collect::<io::Result<_>>()?,
            depth,
            delay: Duration::from_micros(flags.delay_us),
            long_one_in,
            sent: 0,
            waiting: VecDeque::new(),
            latency_us,
        };
        (0..flags.clients).for_each(|_| trial.ask());
        Ok(trial)
    }

    /// A client has another statement.
    fn ask(&mut self) {
        self.sent += 1;
        let is_long = self.long_one_in > 0 && self.sent.is_multiple_of(self.long_one_in);
        self.waiting.push_back(Statement { begun: Instant::now(), is_long });
    }

    /// Runs for a while; returns the statements per second.
    fn measure(&mut self, time: Duration) -> io::Result<f64> {
        let begun = Instant::now();
        let (mut buffer, mut answered) = (vec![0; 256 << 10], 0u64);
        while begun.elapsed() < time {
            self.assign();
            for index in 0..self.lanes.len() {
                answered += self.turn(index, &mut buffer)?;
            }
        }
        Ok(answered as f64 / begun.elapsed().as_secs_f64())
    }

    /// Those who wait longest get the connections with the fewest statements.
    fn assign(&mut self) {
        while !self.waiting.is_empty() {
            let free = self.lanes.iter_mut().filter(|lane| lane.outstanding() < self.depth);
            let Some(lane) = free.min_by_key(|lane| lane.outstanding()) else { return };
            if let Some(statement) = self.waiting.pop_front() {
                lane.leaving.push_back((Instant::now() + self.delay, statement));
            }
        }
    }

    /// Sends, receives and delivers what is due on one connection; returns how many answers were delivered.
    fn turn(&mut self, index: usize, buffer: &mut [u8]) -> io::Result<u64> {
        let lane = &mut self.lanes[index];
        let now = Instant::now();
        while let Some(statement) = due(&mut lane.leaving, now) {
            let mut packet = Vec::new();
            put_packet(&mut packet, 0, |out| {
                out.push(3);
                out.extend_from_slice(if statement.is_long { LONG } else { SHORT }.as_bytes());
            });
            lane.stream.write_all(&packet)?;
            lane.asked.push_back(statement);
        }
        match lane.stream.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => lane.receive(&buffer[..count], self.delay)?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        let mut delivered = 0;
        while let Some(statement) = due(&mut self.lanes[index].returning, Instant::now()) {
            if !statement.is_long {
                self.latency_us.saturating_record(statement.begun.elapsed().as_micros() as u64);
            }
            delivered += 1;
            self.ask();
        }
        Ok(delivered)
    }
}

/// The first statement, if it has crossed the network.
fn due(statements: &mut VecDeque<(Instant, Statement)>, now: Instant) -> Option<Statement> {
    statements.front().filter(|(due, _)| *due <= now)?;
    statements.pop_front().map(|(_, statement)| statement)
}

impl Lane {
    fn receive(&mut self, bytes: &[u8], delay: Duration) -> io::Result<()> {
        let (mut ended, mut is_broken) = (0, false);
        let response = &mut self.response;
        self.walker.feed(bytes, |packet| match response.packet(packet) {
            Step::More | Step::Row => {}
            Step::End(_) => {
                ended += 1;
                *response = Response::new(true);
            }
            Step::Refused | Step::Broken => is_broken = true,
        });
        if is_broken {
            return Err(io::Error::other("an unexpected packet in an answer"));
        }
        for statement in self.asked.drain(..ended.min(self.asked.len())) {
            self.returning.push_back((Instant::now() + delay, statement));
        }
        Ok(())
    }
}

/// Logs in to the mock server, waiting for each packet.
fn log_in(address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let packet = read_packet(&mut stream)?;
    let (sequence, payload) = whole_packet(&packet).ok_or(io::ErrorKind::UnexpectedEof)?;
    let greeting = Greeting::read(payload).ok_or_else(|| io::Error::other("not a greeting"))?;
    let capabilities = capability::LONG_PASSWORD
        | capability::PROTOCOL_41
        | capability::SECURE_CONNECTION
        | capability::PLUGIN_AUTH
        | capability::DEPRECATE_EOF;
    let scramble = native_scramble("bench", &greeting.salt);
    let mut login = Vec::new();
    put_packet(&mut login, sequence + 1, |out| write_login(out, capabilities, "bench", &scramble, ""));
    stream.write_all(&login)?;
    match whole_packet(&read_packet(&mut stream)?) {
        Some((_, [0, ..])) => Ok(stream),
        _ => Err(io::Error::other("the mock server has refused the login")),
    }
}

fn read_packet(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut packet = vec![0; HEADER];
    stream.read_exact(&mut packet)?;
    let length = crate::codec::payload_length(&packet);
    packet.resize(HEADER + length, 0);
    stream.read_exact(&mut packet[HEADER..])?;
    Ok(packet)
}
