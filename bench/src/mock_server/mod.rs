//! A MySQL server that answers from memory: any user, any password, a few prepared answers.
//!
//! It replaces a real server, because a real one uses many times a proxy's CPU per query, and the bench would measure
//! the server. One thread, one poll, no allocation per query. Pipelined commands are answered in order. It executes
//! nothing and holds no data.

mod answers;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use mio::{Events, Interest, Poll, Token};
use slab::Slab;

use self::answers::{Answers, ROW_BYTES, Variant, put_end, write_ok, write_ok_schema};
use crate::codec::{Greeting, HEADER, Login, NATIVE_PASSWORD, capability, put_packet, whole_packet};
use crate::socket::{Address, Listener, Stream};

/// Announced in the greeting.
const VERSION: &str = "8.0.36-narrows-mock";
/// Everything that needs no code here beyond the two formats of answers.
const CAPABILITIES: u32 = capability::LONG_PASSWORD
    | capability::FOUND_ROWS
    | capability::LONG_FLAG
    | capability::CONNECT_WITH_DB
    | capability::LOCAL_FILES
    | capability::PROTOCOL_41
    | capability::INTERACTIVE
    | capability::TRANSACTIONS
    | capability::SECURE_CONNECTION
    | capability::MULTI_STATEMENTS
    | capability::MULTI_RESULTS
    | capability::PS_MULTI_RESULTS
    | capability::PLUGIN_AUTH
    | capability::CONNECT_ATTRS
    | capability::PLUGIN_AUTH_LENENC
    | capability::SESSION_TRACK
    | capability::DEPRECATE_EOF;
/// Any salt will do: no password is checked.
const SALT: [u8; 20] = *b"no-password-checked!";
const LISTENER: Token = Token(usize::MAX);

/// Prints its address and serves until the process ends.
pub fn run(address: &Address) -> io::Result<()> {
    let mut listener = Listener::bind(address)?;
    writeln!(io::stdout().lock(), "listening on {}", listener.address(address)?)?;
    serve(&mut listener)
}

/// Serves the clients of a listener; returns only with an error of the poll or of the listener.
pub fn serve(listener: &mut Listener) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(1024);
    poll.registry().register(listener, LISTENER, Interest::READABLE)?;
    let answers = Answers::new();
    let mut connections: Slab<Connection> = Slab::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                accept_all(listener, &poll, &mut connections)?;
                continue;
            }
            let Some(connection) = connections.get_mut(event.token().0) else { continue };
            // A client that disconnects affects neither the others nor the figures: the load generator does the
            // counting.
            match connection.turn(&answers, &mut buffer, event.is_read_closed()) {
                Ok(Flow::Open) => {}
                Ok(Flow::Closed) | Err(_) => drop(connections.remove(event.token().0)),
            }
        }
    }
}

fn accept_all(listener: &Listener, poll: &Poll, connections: &mut Slab<Connection>) -> io::Result<()> {
    while let Some(stream) = listener.accept()? {
        let slot = connections.vacant_entry();
        let token = Token(slot.key());
        let mut connection = Connection::new(stream);
        if connection.greet(token.0 as u32 + 1).is_err() {
            continue;
        }
        poll.registry().register(&mut connection.stream, token, Interest::READABLE | Interest::WRITABLE)?;
        slot.insert(connection);
    }
    Ok(())
}

/// Whether a connection continues.
#[derive(Debug, PartialEq, Eq)]
enum Flow {
    Open,
    Closed,
}

/// What the next packet of a client is.
#[derive(Debug)]
enum Stage {
    Login,
    /// The answer to a request for another plugin.
    Switch,
    Command,
}

#[derive(Debug)]
struct Connection {
    stream: Stream,
    stage: Stage,
    variant: Variant,
    session_track: bool,
    /// Bytes of commands that have not been answered yet.
    input: Vec<u8>,
    output: Output,
}

/// What the socket has not accepted yet, in this order. A command is only handled once this is empty.
#[derive(Debug, Default)]
struct Output {
    head: Vec<u8>,
    rows_position: usize,
    rows_left: usize,
    tail: Vec<u8>,
}

impl Connection {
    fn new(stream: Stream) -> Connection {
        Connection {
            stream,
            stage: Stage::Login,
            variant: Variant::default(),
            session_track: false,
            input: Vec::new(),
            output: Output::default(),
        }
    }

    fn greet(&mut self, connection_id: u32) -> io::Result<()> {
        let greeting = Greeting { capabilities: CAPABILITIES, salt: SALT };
        let status = self.variant.status();
        self.send(0, |out| greeting.write(out, VERSION, connection_id, status))
    }

    /// Does everything possible now: writes what is waiting, answers what has arrived, reads.
    fn turn(&mut self, answers: &Answers, buffer: &mut [u8], read_closed: bool) -> io::Result<Flow> {
        loop {
            if !self.output.flush(&mut self.stream, answers)? {
                return Ok(Flow::Open);
            }
            if !self.input.is_empty() {
                let mut input = std::mem::take(&mut self.input);
                let Some(used) = self.answer_all(&input, answers)? else { return Ok(Flow::Closed) };
                input.drain(..used);
                self.input = input;
                if !self.output.is_empty() {
                    continue;
                }
            }
            let count = match self.stream.read_some(buffer)? {
                None => return Ok(Flow::Open),
                Some(0) => return Ok(Flow::Closed),
                Some(count) => count,
            };
            if self.input.is_empty() {
                let Some(used) = self.answer_all(&buffer[..count], answers)? else { return Ok(Flow::Closed) };
                self.input.extend_from_slice(&buffer[used..count]);
            } else {
                self.input.extend_from_slice(&buffer[..count]);
                continue;
            }
            // A short read means that the socket is empty, and new bytes cause a new event.
            if count < buffer.len() && self.output.is_empty() && !read_closed {
                return Ok(Flow::Open);
            }
        }
    }

    /// Answers the complete packets at the start of `bytes` and returns their length in bytes; stops early if the
    /// socket is full. `None` after COM_QUIT.
    fn answer_all(&mut self, bytes: &[u8], answers: &Answers) -> io::Result<Option<usize>> {
        let mut used = 0;
        while self.output.is_empty() {
            let Some((sequence, payload)) = whole_packet(&bytes[used..]) else { break };
            if self.packet(sequence, payload, answers)? == Flow::Closed {
                return Ok(None);
            }
            used += HEADER + payload.len();
        }
        Ok(Some(used))
    }

    fn packet(&mut self, sequence: u8, payload: &[u8], answers: &Answers) -> io::Result<Flow> {
        match self.stage {
            Stage::Command => return self.command(payload, answers),
            Stage::Switch => self.welcome(sequence)?,
            Stage::Login => {
                let Some(login) = Login::read(payload) else { return Ok(Flow::Closed) };
                self.variant.deprecate_eof = login.capabilities & capability::DEPRECATE_EOF != 0;
                self.session_track = login.capabilities & capability::SESSION_TRACK != 0;
                if login.plugin.is_empty() || login.plugin == NATIVE_PASSWORD {
                    self.welcome(sequence)?;
                } else {
                    self.stage = Stage::Switch;
                    self.send(sequence.wrapping_add(1), |out| {
                        out.push(0xFE);
                        out.extend_from_slice(NATIVE_PASSWORD.as_bytes());
                        out.push(0);
                        out.extend_from_slice(&SALT);
                        out.push(0);
                    })?;
                }
            }
        }
        Ok(Flow::Open)
    }

    fn welcome(&mut self, sequence: u8) -> io::Result<()> {
        self.stage = Stage::Command;
        let status = self.variant.status();
        self.send(sequence.wrapping_add(1), |out| write_ok(out, status))
    }

    fn command(&mut self, payload: &[u8], answers: &Answers) -> io::Result<Flow> {
        let Some((&code, rest)) = payload.split_first() else { return Ok(Flow::Closed) };
        match code {
            command::QUIT => return Ok(Flow::Closed),
            command::QUERY => self.query(rest, answers)?,
            command::INIT_DB => self.use_schema(rest, answers)?,
            command::CHANGE_USER | command::RESET_CONNECTION => {
                self.variant = Variant { deprecate_eof: self.variant.deprecate_eof, ..Variant::default() };
                self.copy(&answers.of(self.variant).ok)?;
            }
            // Whatever is prepared is the point select, and its number is the same on each connection.
            command::STMT_PREPARE => self.copy(&answers.of(self.variant).prepared)?,
            command::STMT_EXECUTE => self.copy(&answers.of(self.variant).point_binary)?,
            command::STMT_CLOSE => {}
            command::PING | command::PROCESS_KILL | command::DEBUG | command::STMT_RESET => {
                self.copy(&answers.of(self.variant).ok)?;
            }
            command::SET_OPTION => self.copy(&answers.of(self.variant).end)?,
            command::STATISTICS => self.send(1, |out| out.extend_from_slice(b"Uptime: 1  Threads: 1"))?,
            unknown => self.send(1, |out| {
                out.extend_from_slice(b"\xFF\x17\x04#08S01");
                let _ = write!(out, "the mock server does not know command {unknown}");
            })?,
        }
        Ok(Flow::Open)
    }

    fn query(&mut self, text: &[u8], answers: &Answers) -> io::Result<()> {
        let statement = Statement::read(text);
        match statement {
            Statement::Begin => self.variant.in_transaction = true,
            Statement::End => self.variant.in_transaction = false,
            Statement::Autocommit(on) => {
                self.variant.autocommit_off = !on;
                self.variant.in_transaction &= !on;
            }
            Statement::Point | Statement::Rows(_) => {
                self.variant.in_transaction |= self.variant.autocommit_off;
            }
            Statement::Use(schema) => return self.use_schema(schema, answers),
            Statement::Small | Statement::Node | Statement::Other => {}
        }
        let set = answers.of(self.variant);
        match statement {
            Statement::Point => self.copy(&set.point),
            Statement::Small => self.copy(&set.small),
            Statement::Node => self.copy(&set.node),
            Statement::Rows(count) => {
                self.copy(&set.rows_head)?;
                self.output.rows_position = usize::from(set.first_row) * ROW_BYTES;
                self.output.rows_left = count * ROW_BYTES;
                let end = usize::from(set.first_row).wrapping_add(count) % 256;
                put_end(&mut self.output.tail, end as u8, self.variant);
                self.output.flush(&mut self.stream, answers).map(drop)
            }
            _ => self.copy(&set.ok),
        }
    }

    fn use_schema(&mut self, schema: &[u8], answers: &Answers) -> io::Result<()> {
        if !self.session_track {
            return self.copy(&answers.of(self.variant).ok);
        }
        let status = self.variant.status();
        self.send(1, |out| write_ok_schema(out, status, schema))
    }

    fn send(&mut self, sequence: u8, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut packet = Vec::new();
        put_packet(&mut packet, sequence, fill);
        self.copy(&packet)
    }

    /// Writes a prepared answer; what the socket does not accept waits in `output`.
    fn copy(&mut self, answer: &[u8]) -> io::Result<()> {
        let written = self.stream.write_some(answer)?;
        self.output.head.extend_from_slice(&answer[written..]);
        Ok(())
    }
}

impl Output {
    fn is_empty(&self) -> bool {
        self.head.is_empty() && self.rows_left == 0 && self.tail.is_empty()
    }

    /// Writes until nothing is left or the socket is full; true if nothing is left.
    fn flush(&mut self, stream: &mut Stream, answers: &Answers) -> io::Result<bool> {
        if !drain(&mut self.head, stream)? {
            return Ok(false);
        }
        while self.rows_left > 0 {
            let block = answers.block_from(self.rows_position);
            let block = &block[..block.len().min(self.rows_left)];
            let written = stream.write_some(block)?;
            self.rows_position += written;
            self.rows_left -= written;
            if written < block.len() {
                return Ok(false);
            }
        }
        drain(&mut self.tail, stream)
    }
}

fn drain(bytes: &mut Vec<u8>, stream: &mut Stream) -> io::Result<bool> {
    let written = stream.write_some(bytes)?;
    bytes.drain(..written);
    Ok(bytes.is_empty())
}

/// What a statement requests from the mock server.
#[derive(Debug, PartialEq, Eq)]
enum Statement<'t> {
    /// `SELECT c FROM sbtest...`
    Point,
    /// `SELECT c FROM rows LIMIT n`
    Rows(usize),
    /// What the monitor asks a node of a Galera cluster.
    Node,
    /// Any other `SELECT` or `SHOW`.
    Small,
    Begin,
    /// COMMIT or ROLLBACK.
    End,
    Autocommit(bool),
    Use(&'t [u8]),
    /// Answered with OK.
    Other,
}

impl Statement<'_> {
    fn read(text: &[u8]) -> Statement<'_> {
        const ROWS: &[u8] = b"SELECT c FROM rows LIMIT ";
        let text = skip_comments(text);
        let starts = |prefix: &[u8]| text.get(..prefix.len()).is_some_and(|t| t.eq_ignore_ascii_case(prefix));
        if starts(b"SELECT c FROM sbtest") {
            return Statement::Point;
        }
        if starts(ROWS) {
            let digits = text[ROWS.len()..].iter().take_while(|byte| byte.is_ascii_digit());
            return Statement::Rows(digits.fold(0, |n, digit| n * 10 + usize::from(digit - b'0')));
        }
        if starts(b"SELECT VARIABLE_NAME, VARIABLE_VALUE FROM") {
            Statement::Node
        } else if starts(b"SELECT") || starts(b"SHOW") {
            Statement::Small
        } else if starts(b"BEGIN") || starts(b"START TRANSACTION") {
            Statement::Begin
        } else if starts(b"COMMIT") || starts(b"ROLLBACK") {
            Statement::End
        } else if starts(b"SET autocommit") {
            Statement::Autocommit(text.trim_ascii_end().ends_with(b"1"))
        } else if starts(b"USE ") {
            Statement::Use(text[4..].trim_ascii())
        } else {
            Statement::Other
        }
    }
}

fn skip_comments(text: &[u8]) -> &[u8] {
    let mut text = text.trim_ascii_start();
    while text.starts_with(b"/*") {
        let Some(end) = text.windows(2).position(|pair| pair == b"*/") else { break };
        text = text[end + 2..].trim_ascii_start();
    }
    text
}

/// Command codes.
mod command {
    pub const QUIT: u8 = 1;
    pub const INIT_DB: u8 = 2;
    pub const QUERY: u8 = 3;
    pub const STATISTICS: u8 = 9;
    pub const PROCESS_KILL: u8 = 12;
    pub const DEBUG: u8 = 13;
    pub const PING: u8 = 14;
    pub const CHANGE_USER: u8 = 17;
    pub const STMT_PREPARE: u8 = 22;
    pub const STMT_EXECUTE: u8 = 23;
    pub const STMT_CLOSE: u8 = 25;
    pub const STMT_RESET: u8 = 26;
    pub const SET_OPTION: u8 = 27;
    pub const RESET_CONNECTION: u8 = 31;
}
