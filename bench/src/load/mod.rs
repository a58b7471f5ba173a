//! A closed-loop load generator: N connections on one thread, each with one query outstanding.
//!
//! It logs in as an ordinary client, so that it works through any proxy, and it reads every answer to its end: an
//! answer that is truncated, has the wrong number of rows or is followed by more bytes is an error. It does not decode
//! rows. A run has four parts, so that its caller can read clocks between them: [`Generator::new`] connects,
//! [`Generator::warm_up`], [`Generator::measure`], [`Generator::finish`].

mod report;
mod response;
#[cfg(test)]
mod tests;

use std::io;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};

pub use self::report::{Report, Tally};
pub use self::response::{Response, Step};
use crate::codec::{
    Greeting, HEADER, NATIVE_PASSWORD, Walker, capability, error_text, native_scramble, put_packet,
    whole_packet, write_login,
};
use crate::process;
use crate::socket::{Address, Stream};

/// How long all connections together may take to log in, and at the end to receive outstanding answers.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often one connection is read before the others have their turn; only matters for large results.
const READS_PER_TURN: usize = 16;
const READ_BYTES: usize = 128 << 10;

const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;

/// What to run, and against which server.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The proxy or server.
    pub target: Address,
    /// Account.
    pub user: String,
    /// Its password, in clear text.
    pub password: String,
    /// Default schema; empty for none.
    pub schema: String,
    /// Connections, all open for the whole run.
    pub connections: usize,
    /// The statement.
    pub statement: String,
    /// Rows that its answer must have.
    pub rows: u64,
    /// How a connection is used.
    pub usage: Usage,
    /// Whether CLIENT_DEPRECATE_EOF is requested.
    pub deprecate_eof: bool,
}

/// How a connection is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Usage {
    /// One query after another.
    Keep,
    /// The same, each with another number in the place of the last digits of the statement.
    Vary,
    /// Connect, log in, one query, COM_QUIT; the latency covers all of it.
    Reconnect,
    /// COM_STMT_PREPARE once, then one COM_STMT_EXECUTE after another; the statement has one parameter, a number.
    Execute,
}

/// When a window ends.
#[derive(Debug, Clone, Copy)]
pub enum Limit {
    /// After a time.
    Time(Duration),
    /// After a number of answers, correct or not.
    Queries(u64),
}

/// The generator, with its connections.
#[derive(Debug)]
pub struct Generator {
    plan: Plan,
    /// What each connection sends first after its login: the query, or what prepares it.
    query: Vec<u8>,
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
    slots: Vec<Slot>,
    tally: Tally,
    /// Whether a connection sends another query after an answer.
    asking: bool,
}

#[derive(Debug)]
struct Slot {
    stream: Stream,
    stage: Stage,
    /// The start of a packet of the login.
    inbox: Vec<u8>,
    walker: Walker,
    response: Response,
    /// What is sent again and again in the place of the query.
    execution: Option<Vec<u8>>,
    deprecate_eof: bool,
    /// When the query, or the connection of [`Usage::Reconnect`], began.
    begun: Instant,
}

/// Greeting -> LoginAnswer -> Answer, and Answer again for each query; with [`Usage::Execute`] Preparation before the first.
#[derive(Debug)]
enum Stage {
    /// Waits for the greeting.
    Greeting,
    /// Waits for OK, ERR or a request for another plugin.
    LoginAnswer { salt: [u8; 20] },
    /// Waits for the answer to COM_STMT_PREPARE.
    Preparation,
    /// Waits for the answer to a query.
    Answer,
    /// Sends no more queries.
    Rest,
}

/// The state of a connection after its turn.
enum Turn {
    Waits,
    /// There may be more to read, for which no new event will arrive.
    Unfinished,
    Answered,
    Failed(String),
}

impl Generator {
    /// Opens all connections, logs in and sends the first query on each.
    pub fn new(plan: Plan) -> io::Result<Generator> {
        let mut query = Vec::new();
        put_packet(&mut query, 0, |out| {
            out.push(if plan.usage == Usage::Execute { COM_STMT_PREPARE } else { COM_QUERY });
            out.extend_from_slice(plan.statement.as_bytes());
        });
        let mut generator = Generator {
            query,
            poll: Poll::new()?,
            events: Events::with_capacity(1024),
            buffer: vec![0; READ_BYTES],
            slots: Vec::with_capacity(plan.connections),
            tally: Tally::new(),
            asking: true,
            plan,
        };
        for index in 0..generator.plan.connections {
            let slot = generator.connect(index)?;
            generator.slots.push(slot);
        }
        let deadline = Instant::now() + PATIENCE;
        while generator.slots.iter().any(Slot::logs_in) && generator.plan.usage != Usage::Reconnect {
            generator.turn(deadline)?;
            let waiting = generator.slots.iter().filter(|slot| slot.logs_in()).count();
            let hopeless = generator.tally.errors > 10 * generator.plan.connections as u64;
            if waiting > 0 && (hopeless || Instant::now() >= deadline) {
                return Err(io::Error::other(format!(
                    "{waiting} of {} connections could not log in: {}",
                    generator.plan.connections,
                    generator.tally.first_error.as_deref().unwrap_or("no answer")
                )));
            }
        }
        Ok(generator)
    }

    /// Sends queries for a while without counting; fails if all answers are errors.
    pub fn warm_up(&mut self, time: Duration) -> io::Result<()> {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            self.turn(deadline)?;
        }
        match self.tally.first_error.take() {
            Some(error) if self.tally.queries == 0 => Err(io::Error::other(error)),
            _ => Ok(()),
        }
    }

    /// Sends queries and counts until the limit.
    pub fn measure(&mut self, limit: Limit) -> io::Result<Report> {
        let begun = Instant::now();
        let (deadline, queries) = match limit {
            Limit::Time(time) => (begun + time, u64::MAX),
            Limit::Queries(queries) => (begun + Duration::from_secs(3600), queries),
        };
        self.tally = Tally::new();
        let cpu = process::own_cpu()?;
        while Instant::now() < deadline && self.tally.queries + self.tally.errors < queries {
            self.turn(deadline)?;
        }
        let elapsed = begun.elapsed();
        Ok(self.tally.report(elapsed, process::own_cpu()?.saturating_sub(cpu)))
    }

    /// Receives outstanding answers and disconnects; fails if an answer never arrives.
    pub fn finish(mut self) -> io::Result<()> {
        self.rest()?;
        self.slots.iter_mut().for_each(Slot::quit);
        Ok(())
    }

    /// Receives outstanding answers, and sends no more queries; fails if an answer never arrives.
    pub fn rest(&mut self) -> io::Result<()> {
        self.asking = false;
        let deadline = Instant::now() + PATIENCE;
        while self.slots.iter().any(|slot| !matches!(slot.stage, Stage::Rest)) {
            if Instant::now() >= deadline {
                let stuck = self.slots.iter().filter(|slot| !matches!(slot.stage, Stage::Rest)).count();
                return Err(io::Error::other(format!("{stuck} connections never received their answer")));
            }
            self.turn(deadline)?;
        }
        Ok(())
    }

    /// Waits for events, at most until `deadline`, and handles them.
    fn turn(&mut self, deadline: Instant) -> io::Result<()> {
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        self.poll.poll(&mut events, Some(deadline.saturating_duration_since(Instant::now())))?;
        for event in &events {
            let index = event.token().0;
            match self.slots[index].turn(&self.plan, &self.query, &mut self.buffer, &mut self.tally) {
                Ok(Turn::Waits) => {}
                Ok(Turn::Unfinished) => {
                    let stream = &mut self.slots[index].stream;
                    self.poll.registry().reregister(stream, Token(index), Interest::READABLE)?;
                }
                Ok(Turn::Answered) => self.answered(index)?,
                Ok(Turn::Failed(why)) => self.failed(index, why)?,
                Err(error) => self.failed(index, error.to_string())?,
            }
        }
        self.events = events;
        Ok(())
    }

    fn answered(&mut self, index: usize) -> io::Result<()> {
        let slot = &mut self.slots[index];
        let now = Instant::now();
        self.tally.answered(now - slot.begun);
        if !self.asking {
            slot.stage = Stage::Rest;
            return Ok(());
        }
        match self.plan.usage {
            Usage::Reconnect => {
                slot.quit();
                self.reconnect(index)
            }
            Usage::Keep | Usage::Vary | Usage::Execute => {
                if self.plan.usage == Usage::Vary {
                    count_up(&mut self.query);
                }
                slot.begun = now;
                match slot.ask(&self.query) {
                    Ok(()) => Ok(()),
                    Err(error) => self.failed(index, error.to_string()),
                }
            }
        }
    }

    fn failed(&mut self, index: usize, why: String) -> io::Result<()> {
        self.tally.failed(|| why);
        if self.asking {
            return self.reconnect(index);
        }
        self.slots[index].stage = Stage::Rest;
        Ok(())
    }

    fn reconnect(&mut self, index: usize) -> io::Result<()> {
        self.slots[index] = self.connect(index)?;
        Ok(())
    }

    fn connect(&self, index: usize) -> io::Result<Slot> {
        let begun = Instant::now();
        let mut stream = Stream::connect(&self.plan.target)?;
        self.poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
        Ok(Slot {
            stream,
            stage: Stage::Greeting,
            inbox: Vec::new(),
            walker: Walker::default(),
            response: Response::new(false),
            execution: None,
            deprecate_eof: false,
            begun,
        })
    }
}

/// Adds one to the number at the end of a statement, which keeps its length.
fn count_up(query: &mut [u8]) {
    for digit in query.iter_mut().rev().take_while(|byte| byte.is_ascii_digit()) {
        *digit = if *digit == b'9' { b'0' } else { *digit + 1 };
        if *digit != b'0' {
            break;
        }
    }
}

impl Slot {
    fn logs_in(&self) -> bool {
        matches!(self.stage, Stage::Greeting | Stage::LoginAnswer { .. } | Stage::Preparation)
    }

    /// Reads and processes what has arrived.
    fn turn(&mut self, plan: &Plan, query: &[u8], buffer: &mut [u8], tally: &mut Tally) -> io::Result<Turn> {
        for _ in 0..READS_PER_TURN {
            let count = match self.stream.read_some(buffer)? {
                None => return Ok(Turn::Waits),
                Some(0) if matches!(self.stage, Stage::Rest) => return Ok(Turn::Waits),
                Some(0) => return Ok(Turn::Failed("the connection was closed".to_owned())),
                Some(count) => count,
            };
            let bytes = &buffer[..count];
            let turn = match self.stage {
                Stage::Greeting | Stage::LoginAnswer { .. } => self.login(bytes, plan, query)?,
                Stage::Preparation => self.prepared(bytes)?,
                Stage::Answer => self.answer(bytes, plan, tally),
                Stage::Rest => Turn::Failed("bytes that do not answer a query".to_owned()),
            };
            // One query is outstanding, so nothing follows an answer; and a short read means that the socket is empty.
            if !matches!(turn, Turn::Waits) || count < buffer.len() {
                return Ok(turn);
            }
        }
        Ok(Turn::Unfinished)
    }

    fn login(&mut self, bytes: &[u8], plan: &Plan, query: &[u8]) -> io::Result<Turn> {
        self.inbox.extend_from_slice(bytes);
        let inbox = std::mem::take(&mut self.inbox);
        let Some((sequence, payload)) = whole_packet(&inbox) else {
            self.inbox = inbox;
            return Ok(Turn::Waits);
        };
        match (&self.stage, payload.first()) {
            (_, Some(0xFF)) => Ok(Turn::Failed(error_text(payload))),
            (Stage::Greeting, _) => self.present(sequence, payload, plan),
            (Stage::LoginAnswer { .. }, Some(0)) => {
                if plan.usage != Usage::Reconnect {
                    self.begun = Instant::now();
                }
                self.ask(query)?;
                if plan.usage == Usage::Execute {
                    self.stage = Stage::Preparation;
                }
                Ok(Turn::Waits)
            }
            (Stage::LoginAnswer { .. }, Some(0xFE)) => self.switch(sequence, payload, plan),
            _ => Ok(Turn::Failed(format!("unexpected packet in the login: {payload:02x?}"))),
        }
    }

    /// Answers the greeting.
    fn present(&mut self, sequence: u8, payload: &[u8], plan: &Plan) -> io::Result<Turn> {
        let Some(greeting) = Greeting::read(payload) else {
            return Ok(Turn::Failed(format!("not a greeting: {payload:02x?}")));
        };
        let mut wanted = capability::LONG_PASSWORD
            | capability::LONG_FLAG
            | capability::PROTOCOL_41
            | capability::TRANSACTIONS
            | capability::SECURE_CONNECTION
            | capability::MULTI_RESULTS
            | capability::PLUGIN_AUTH;
        if !plan.schema.is_empty() {
            wanted |= capability::CONNECT_WITH_DB;
        }
        if plan.deprecate_eof {
            wanted |= capability::DEPRECATE_EOF;
        }
        // Without this bit MariaDB assumes a MariaDB client and looks for extended capabilities.
        let capabilities = wanted & (greeting.capabilities | capability::LONG_PASSWORD);
        self.deprecate_eof = capabilities & capability::DEPRECATE_EOF != 0;
        let scramble = native_scramble(&plan.password, &greeting.salt);
        let mut packet = Vec::new();
        put_packet(&mut packet, sequence.wrapping_add(1), |out| {
            write_login(out, capabilities, &plan.user, &scramble, &plan.schema);
        });
        self.stage = Stage::LoginAnswer { salt: greeting.salt };
        self.write_all(&packet).map(|()| Turn::Waits)
    }

    /// Answers a request for another plugin, if it is the one we support.
    fn switch(&mut self, sequence: u8, payload: &[u8], plan: &Plan) -> io::Result<Turn> {
        let Stage::LoginAnswer { salt } = &self.stage else { return Ok(Turn::Waits) };
        let mut fields = payload[1..].splitn(2, |&byte| byte == 0);
        let plugin = String::from_utf8_lossy(fields.next().unwrap_or_default()).into_owned();
        if plugin != NATIVE_PASSWORD {
            return Ok(Turn::Failed(format!(
                "the server wants {plugin}, the load generator only supports {NATIVE_PASSWORD}"
            )));
        }
        let salt = fields.next().and_then(|rest| rest.first_chunk::<20>()).unwrap_or(salt);
        let scramble = native_scramble(&plan.password, salt);
        let mut packet = Vec::new();
        put_packet(&mut packet, sequence.wrapping_add(1), |out| out.extend_from_slice(&scramble));
        self.write_all(&packet).map(|()| Turn::Waits)
    }

    /// Takes the answer to COM_STMT_PREPARE, and executes the statement when it is whole.
    fn prepared(&mut self, bytes: &[u8]) -> io::Result<Turn> {
        self.inbox.extend_from_slice(bytes);
        let mut packets = Vec::new();
        let mut rest = self.inbox.as_slice();
        while let Some((_, payload)) = whole_packet(rest) {
            packets.push(payload);
            rest = &rest[HEADER + payload.len()..];
        }
        let Some(first) = packets.first() else { return Ok(Turn::Waits) };
        let &[0, a, b, c, d, columns, _, params, ..] = *first else {
            return Ok(Turn::Failed(error_text(first)));
        };
        let list = |entries: u8| match entries {
            0 => 0,
            entries => usize::from(entries) + usize::from(!self.deprecate_eof),
        };
        if packets.len() < 1 + list(columns) + list(params) {
            return Ok(Turn::Waits);
        }
        if params != 1 {
            return Ok(Turn::Failed(format!("{params} parameters instead of one")));
        }
        let mut execution = Vec::new();
        put_packet(&mut execution, 0, |out| {
            out.extend_from_slice(&[COM_STMT_EXECUTE, a, b, c, d, 0]);
            // One iteration; no NULL; types follow: BIGINT.
            out.extend_from_slice(&[1, 0, 0, 0, 0, 1, 8, 0]);
            out.extend_from_slice(&5_000u64.to_le_bytes());
        });
        self.inbox = Vec::new();
        self.execution = Some(execution);
        self.begun = Instant::now();
        self.ask(&[]).map(|()| Turn::Waits)
    }

    fn answer(&mut self, bytes: &[u8], plan: &Plan, tally: &mut Tally) -> Turn {
        let Slot { walker, response, .. } = self;
        let (mut last, mut rows) = (Step::More, 0);
        walker.feed(bytes, |packet| {
            let step = response.packet(packet);
            rows += u64::from(step == Step::Row);
            if last != Step::Broken {
                last = step;
            }
        });
        tally.rows += rows;
        match last {
            Step::More | Step::Row => Turn::Waits,
            Step::End(rows) if rows != plan.rows => {
                Turn::Failed(format!("{rows} rows instead of {}", plan.rows))
            }
            Step::End(_) if !walker.between_packets() => Turn::Failed("bytes after the answer".to_owned()),
            Step::End(_) => Turn::Answered,
            Step::Refused => Turn::Failed(
                whole_packet(bytes).map_or("refused".to_owned(), |(_, payload)| error_text(payload)),
            ),
            Step::Broken => Turn::Failed("an unexpected packet in an answer".to_owned()),
        }
    }

    /// Sends the query, or executes what was prepared.
    fn ask(&mut self, query: &[u8]) -> io::Result<()> {
        self.stage = Stage::Answer;
        self.response = Response::new(self.deprecate_eof);
        match self.execution.take() {
            None => self.write_all(query),
            Some(execution) => {
                let written = self.write_all(&execution);
                self.execution = Some(execution);
                written
            }
        }
    }

    fn quit(&mut self) {
        // The connection is dropped next, so it does not matter if the peer has already closed it.
        let _ = self.stream.write_some(&[1, 0, 0, 0, 1]);
    }

    /// Writes bytes that must fit: with one query outstanding the socket's buffer is empty.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.stream.write_some(bytes)? < bytes.len() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(())
    }
}
