//! The client's side of a session: its connection, what it has sent and is not parsed yet, and how fast it is.
//!
//! Every wait for a client to send or read ends with a kill, a deadline or the shutdown of Narrows. While the command holds
//! a backend connection, it also ends if too few bytes are transferred for too long. Transfers without a wait cost nothing
//! of this.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use narrows_wire::auth::Nonce;
use narrows_wire::{Capabilities, Errno};

use super::outcome::Broken;
use super::patience::Patience;
use super::{End, Handle, Interrupt};
use crate::buffer::Buffer;
use crate::reply::put_error;
use crate::rt::{Instant, select, sleep};
use crate::stream::Stream;
use crate::worker::Worker;

/// The connection of a client.
pub(super) struct ClientConnection {
    pub(super) worker: Rc<Worker>,
    /// How others interrupt the session.
    pub(super) handle: Rc<Handle>,
    pub(super) stream: Stream,
    /// Bytes that were received and not parsed yet; allocated only while there are any.
    pub(super) input: Buffer,
    /// The address and port that the client connected to.
    pub(super) local: (String, u16),
    pub(super) capabilities: Capabilities,
    /// The nonce of the greeting, which `COM_CHANGE_USER` needs again.
    pub(super) nonce: Nonce,
    /// The session's own timeouts.
    pub(super) patience: Patience,
    /// When the open transaction was first seen: it limits how long the client may be idle.
    pub(super) transaction_since: Option<Instant>,
    /// When its account's `max_connection_age_s` is over.
    pub(super) expires: Option<Instant>,
    /// How fast the client is during the current command.
    pub(super) pace: Cell<Pace>,
    /// When the client may receive more, if that is limited.
    pub(super) throttled_until: Cell<Option<Instant>>,
}

/// How fast a peer is, over the waits of one command.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// The number of the command in the session.
    command: u64,
    /// How long Narrows has waited since the peer last transferred the required number of bytes.
    waited: Duration,
    /// Bytes transferred since then.
    moved: u64,
}

impl Pace {
    /// The peer has transferred `bytes`; it must transfer `least`.
    pub(super) fn moved(&mut self, bytes: usize, least: u64) {
        self.moved += bytes as u64;
        if self.moved >= least {
            (self.moved, self.waited) = (0, Duration::ZERO);
        }
    }

    /// How long Narrows waits for it from now on; a limit of zero means no limit.
    pub(super) fn left(self, limit: Duration) -> Duration {
        if limit.is_zero() { FOREVER } else { limit.saturating_sub(self.waited) }
    }
}

/// Why a command was stopped.
#[derive(Debug)]
pub(super) enum Stop {
    /// The session is over.
    End(End),
    /// The statement was killed, or its time is over.
    Killed { timed_out: bool },
    /// The server does not read the command.
    Stalled { text: String },
    /// The server has closed the connection.
    Closed { text: String },
}

impl From<Stop> for Broken {
    fn from(stop: Stop) -> Broken {
        match stop {
            Stop::End(end) => Broken::Session(end),
            Stop::Killed { timed_out } => Broken::Cut { started: false, timed_out },
            Stop::Stalled { text } => Broken::Stalled { text },
            Stop::Closed { text } => Broken::Unsent { text },
        }
    }
}

/// What the client must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    /// Send the rest of a command, or a file.
    Sends,
    /// Read an answer.
    Takes,
}

impl ClientConnection {
    /// Waits for an interrupt of the current command.
    pub(super) async fn interrupted(&self) -> Interrupt {
        loop {
            match self.handle.interrupted().await {
                // The session is not idle any more. If the command has no deadline of its own, that of an idle client holds.
                Interrupt::LongRest if self.handle.deadline.get().is_some() => {}
                Interrupt::LongRest => self.set_idle_deadline(self.handle.since()),
                // It ends after the command, if that ends its transaction.
                Interrupt::Drain => {}
                reason => return reason,
            }
        }
    }

    /// Sets the deadline of a session that has been idle since `since`.
    pub(super) fn set_idle_deadline(&self, since: Instant) {
        let (deadline, reason) = self.idle_deadline(since);
        self.worker.set_deadline(&self.handle, deadline, reason);
    }

    /// The same, or an earlier deadline at which an idle session releases its memory.
    pub(super) fn set_rest_deadline(&self) {
        let (deadline, reason) = self.idle_deadline(self.handle.since());
        let long = self.worker.long_rest();
        let (deadline, reason) =
            if long < deadline { (long, Interrupt::LongRest) } else { (deadline, reason) };
        self.worker.set_deadline(&self.handle, deadline, reason);
    }

    /// Whether the session has to end, and can: no transaction is open.
    pub(super) fn has_aged(&self, now: Instant) -> bool {
        self.transaction_since.is_none() && self.expires.is_some_and(|expires| expires <= now)
    }

    pub(super) fn idle_deadline(&self, begun: Instant) -> (Instant, Interrupt) {
        let snapshot = self.worker.snapshot();
        let variables = &snapshot.variables;
        let own = self.patience.idle.unwrap_or(variables.wait_timeout);
        let wait = begun + variables.wait_timeout.min(own);
        match self.transaction_since {
            None => match self.expires {
                Some(expires) if expires < wait => (expires, Interrupt::Aged),
                _ => (wait, Interrupt::Idle),
            },
            Some(since) => {
                let idle = begun + variables.max_transaction_idle_time;
                let whole = since + variables.max_transaction_time;
                let in_transaction = if idle < whole {
                    (idle, Interrupt::TransactionIdle)
                } else {
                    (whole, Interrupt::TransactionTime)
                };
                if wait < in_transaction.0 { (wait, Interrupt::Idle) } else { in_transaction }
            }
        }
    }

    /// Sends an error of our own that no later statement can ask about.
    pub(super) async fn send_error(&self, mut sequence: u8, errno: Errno, text: &str) -> Result<(), End> {
        let mut out = Vec::with_capacity(64 + text.len());
        put_error(&mut out, &mut sequence, errno, text);
        self.worker.counters.borrow_mut().generated_errors += 1;
        self.send(&out).await
    }

    /// Writes to the client. A client that does not read can be killed, and times out like an idle one.
    pub(super) async fn send(&self, bytes: &[u8]) -> Result<(), End> {
        self.worker.counters.borrow_mut().client_bytes_sent += bytes.len() as u64;
        let mut rest = bytes;
        match self.stream.try_write_all(&mut rest) {
            Ok(true) => Ok(()),
            Ok(false) => Box::pin(self.send_rest(rest)).await,
            Err(_) => Err(End::Gone),
        }
    }

    /// Waits for an interrupt that ends the session.
    pub(super) async fn must_end(&self) -> End {
        loop {
            match self.interrupted().await {
                Interrupt::KillQuery | Interrupt::QueryTime | Interrupt::KillTime => self.go_on_after_kill(),
                reason => return End::Interrupted(reason),
            }
        }
    }

    /// Reads at least one byte of a command of which a part is already held, within a time limit. `sequence` is the
    /// sequence number of an error.
    pub(super) async fn read_or_stop(&self, held: &mut Buffer, sequence: u8) -> Result<(), Stop> {
        held.make_room(1);
        match held.try_fill(&self.stream) {
            Ok(0) => Err(Stop::End(End::Gone)),
            Ok(count) => {
                self.moved(count);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Box::pin(self.wait_to_read(held, sequence, true)).await
            }
            Err(_) => Err(Stop::End(End::Gone)),
        }
    }

    /// Reads at least one byte, also after the statement was killed.
    pub(super) async fn read_more(&self, held: &mut Buffer, sequence: u8) -> Result<(), End> {
        held.make_room(1);
        loop {
            match held.try_fill(&self.stream) {
                Ok(0) => return Err(End::Gone),
                Ok(count) => {
                    self.moved(count);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(End::Gone),
            }
            let limited = self.handle.holds_backend();
            match Box::pin(self.wait_to_read(held, sequence, limited)).await {
                Ok(()) => return Ok(()),
                Err(Stop::End(end)) => return Err(end),
                Err(_) => self.go_on_after_kill(),
            }
        }
    }

    /// Reads until at least `count` bytes are held.
    pub(super) async fn hold(&self, held: &mut Buffer, count: usize, sequence: u8) -> Result<(), End> {
        while held.filled().len() < count {
            held.make_room(count - held.filled().len());
            self.read_more(held, sequence).await?;
        }
        Ok(())
    }

    /// The same, but a kill ends it.
    pub(super) async fn hold_or_stop(
        &self,
        held: &mut Buffer,
        count: usize,
        sequence: u8,
    ) -> Result<(), Stop> {
        while held.filled().len() < count {
            held.make_room(count - held.filled().len());
            self.read_or_stop(held, sequence).await?;
        }
        Ok(())
    }

    pub(super) async fn wait_to_read(
        &self,
        held: &mut Buffer,
        sequence: u8,
        limited: bool,
    ) -> Result<(), Stop> {
        loop {
            let limit = self.limit(Client::Sends, limited);
            let began = Instant::now();
            let left = self.pace().left(limit);
            let stalled = select! {
                biased;
                ready = self.stream.readable() => {
                    ready.map_err(|_| Stop::End(End::Gone))?;
                    false
                }
                reason = self.interrupted() => return Err(stop(reason)),
                () = sleep(left) => true,
            };
            self.waited(began.elapsed());
            if stalled {
                return Err(Stop::End(self.stalled_sending(sequence, limit).await));
            }
            match held.try_fill(&self.stream) {
                Ok(0) => return Err(Stop::End(End::Gone)),
                Ok(count) => {
                    self.moved(count);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(Stop::End(End::Gone)),
            }
        }
    }

    /// Ends the session of a client that does not send the rest, with an error in case it reads.
    pub(super) async fn stalled_sending(&self, sequence: u8, limit: Duration) -> End {
        let text = self.stall(Client::Sends, limit);
        let mut out = Vec::with_capacity(64 + text.len());
        let errno = Errno { number: 1159, sqlstate: *b"08S01" };
        put_error(&mut out, &mut { sequence }, errno, &text);
        self.worker.counters.borrow_mut().generated_errors += 1;
        let _ = self.stream.try_write_all(&mut &*out);
        End::ErrorSent(text)
    }

    /// Counts a client that is too slow; returns the error.
    pub(super) fn stall(&self, client: Client, limit: Duration) -> String {
        self.worker.counters.borrow_mut().stalled_clients += 1;
        let least = self.worker.snapshot().variables.stall_bytes_client;
        let limit = limit.as_millis();
        let own = |set: bool, name| if set { name } else { "mysql-stall_timeout_client" };
        match client {
            Client::Sends => format!(
                "Got timeout reading communication packets: less than {least} bytes of a command in {limit} ms ({})",
                own(self.patience.read.is_some(), "the client's own net_read_timeout")
            ),
            Client::Takes => format!(
                "Got timeout writing communication packets: the client has read less than {least} bytes of an answer \
                 in {limit} ms ({})",
                own(self.patience.write.is_some(), "the client's own net_write_timeout")
            ),
        }
    }

    /// Writes the rest of an answer of our own to a client that does not read it at once.
    pub(super) async fn send_rest(&self, mut rest: &[u8]) -> Result<(), End> {
        loop {
            let limited = self.handle.holds_backend();
            let limit = self.limit(Client::Takes, limited);
            let began = Instant::now();
            select! {
                biased;
                ready = self.stream.writable() => ready.map_err(|_| End::Gone)?,
                end = self.must_end() => return Err(end),
                () = sleep(self.pace().left(limit)) => return Err(End::ErrorSent(self.stall(Client::Takes, limit))),
            }
            self.waited(began.elapsed());
            let before = rest.len() + self.stream.backlog();
            let done = self.stream.try_write_all(&mut rest).map_err(|_| End::Gone)?;
            self.moved(before.saturating_sub(rest.len() + self.stream.backlog()));
            if done {
                return Ok(());
            }
        }
    }

    /// How long Narrows waits for a client that transfers too little; zero: no limit. If the session has set its own
    /// `net_read_timeout` or `net_write_timeout`, that holds, as on a server. Otherwise there is a limit only if the session
    /// holds a backend connection, or memory, that others need.
    pub(super) fn limit(&self, client: Client, holds: bool) -> Duration {
        let snapshot = self.worker.snapshot();
        let variables = &snapshot.variables;
        let own = match client {
            Client::Sends => self.patience.read,
            Client::Takes => self.patience.write,
        };
        match own {
            Some(own) => own.min(variables.wait_timeout),
            None if holds => variables.stall_timeout_client,
            None => Duration::ZERO,
        }
    }

    /// How fast the client was during the current command.
    pub(super) fn pace(&self) -> Pace {
        let (pace, command) = (self.pace.get(), self.handle.commands());
        if pace.command == command { pace } else { Pace { command, ..Pace::default() } }
    }

    /// The client has transferred `bytes`.
    pub(super) fn moved(&self, bytes: usize) {
        let mut pace = self.pace.get();
        // There was no wait, so there is none to reset.
        if pace.waited.is_zero() {
            return;
        }
        pace.moved(bytes, self.worker.snapshot().variables.stall_bytes_client);
        self.pace.set(pace);
    }

    /// There was a wait for the client.
    pub(super) fn waited(&self, time: Duration) {
        let mut pace = self.pace();
        pace.waited += time;
        self.pace.set(pace);
    }

    /// A kill had no effect, but has removed the deadline: sets it again.
    pub(super) fn go_on_after_kill(&self) {
        if self.handle.deadline.get().is_none() {
            self.set_idle_deadline(Instant::now());
        }
    }
}

pub(super) fn stop(reason: Interrupt) -> Stop {
    match reason {
        Interrupt::KillQuery | Interrupt::KillTime => Stop::Killed { timed_out: false },
        Interrupt::QueryTime => Stop::Killed { timed_out: true },
        reason => Stop::End(End::Interrupted(reason)),
    }
}

/// No limit.
pub(super) const FOREVER: Duration = Duration::from_secs(365 * 86_400);
