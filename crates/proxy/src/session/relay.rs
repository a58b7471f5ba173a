//! A command on its way to the server, and the relay of its answer: rows are not decoded, OK, EOF and ERR packets are examined.
//!
//! Every wait for a server ends with a kill, a deadline, the shutdown of Narrows, or when the server reads nothing for too long.
//!
//! The two sides may differ in `CLIENT_DEPRECATE_EOF` and `CLIENT_SESSION_TRACK`. Then packets are inserted, omitted or
//! rewritten, and sequence numbers shifted. A server with compression numbers the packets inside its frames as it likes, so
//! they are renumbered. Otherwise the bytes that were read are written unchanged.
//!
//! Nothing is read from the server until the client has received what was read before.

mod file;
mod pace;
mod packets;

use narrows_wire::frame::HEADER_LENGTH;
use narrows_wire::response::{Expect, Next, Walk};
use narrows_wire::{Capabilities, Command, Errno, Status, Tracker};

use super::connection::{Pace, Stop, stop};
use super::errors::killed;
use super::outcome::{Answering, Broken, Outcome};
use super::request::Request;
use super::{End, Interrupt, Session};
use crate::backend::Backend;
use crate::buffer::{Buffer, LARGE, Side};
use crate::reply::put_error;
use crate::rt::{Instant, nanoseconds, select, sleep};

/// One answer that is being relayed.
struct Relay<'a> {
    session: &'a Session,
    backend: &'a Backend,
    request: &'a mut Request,
    tracker: Tracker,
    answering: Answering,
    outcome: &'a mut Outcome,
    /// Bytes read; the first `ready` of them are to be written unchanged.
    buffer: Buffer,
    ready: usize,
    /// Rewritten packets and those between them, which are written before the ready bytes.
    out: Vec<u8>,
    /// Whether the client was sent anything.
    started: bool,
    /// The client cannot be asked for a file, so the statement has failed for it.
    file_refused: bool,
    /// The ready bytes end the answer.
    is_last: bool,
    /// The statement was killed because it took too long.
    timed_out: bool,
    /// The client expects an EOF packet after the columns, which was not inserted yet; see [`Relay::owed_eof`].
    eof_owed: bool,
    /// The command is `COM_INIT_DB`.
    is_init_db: bool,
    /// Rows of the results that have ended.
    rows_before: u64,
    /// The flags for OUT parameters in the EOF packet after the columns. That packet is omitted if the client deprecates
    /// EOF, and MySQL does not repeat the flags after the rows.
    out_parameters: Status,
}

impl Session {
    /// Writes bytes that are not a command, or a command without an answer.
    pub(super) async fn write_to_server(&self, backend: &Backend, bytes: &[u8]) -> Result<(), Stop> {
        let mut rest = bytes;
        match backend.stream.try_write_all(&mut rest) {
            Ok(true) => Ok(()),
            Ok(false) => Box::pin(self.write_rest(backend, None, rest)).await,
            Err(error) => Err(Stop::Closed { text: error.to_string() }),
        }
    }

    /// Sends a whole command: the request, or these bytes instead.
    pub(super) async fn write_command(
        &self,
        backend: &Backend,
        request: &mut Request,
        replaced: Option<&[u8]>,
    ) -> Result<(), Stop> {
        let mut rest = replaced.unwrap_or_else(|| request.packet());
        match backend.stream.try_write_all(&mut rest) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let rest = rest.to_vec();
                Box::pin(self.write_rest(backend, Some(request), &rest)).await
            }
            Err(error) => Err(Stop::Closed { text: error.to_string() }),
        }
    }

    async fn write_rest(
        &self,
        backend: &Backend,
        mut request: Option<&mut Request>,
        mut rest: &[u8],
    ) -> Result<(), Stop> {
        loop {
            self.server_takes(backend, request.as_deref_mut()).await?;
            let written = backend.stream.try_write_all(&mut rest);
            if written.map_err(|error| Stop::Closed { text: error.to_string() })? {
                return Ok(());
            }
        }
    }

    /// Waits until the server can read more of a command.
    pub(super) async fn server_takes(
        &self,
        backend: &Backend,
        request: Option<&mut Request>,
    ) -> Result<(), Stop> {
        let limit = self.snapshot().variables.stall_timeout_server;
        let client_gone = async {
            match request {
                Some(request) => request.client_gone(&self.client.stream).await,
                None => std::future::pending().await,
            }
        };
        select! {
            biased;
            ready = backend.stream.writable() => {
                ready.map_err(|error| Stop::Closed { text: error.to_string() })?;
            }
            reason = self.client.interrupted() => return Err(stop(reason)),
            () = client_gone => return Err(Stop::End(End::Gone)),
            () = sleep(Pace::default().left(limit)) => {
                self.worker.counters.borrow_mut().stalled_backends += 1;
                let limit = limit.as_millis();
                let text = format!("the server has read nothing of a command for {limit} ms (mysql-stall_timeout_server)");
                return Err(Stop::Stalled { text });
            }
        }
        Ok(())
    }

    /// Whether servers have a limited time to end a killed statement.
    pub(super) fn limits_kills(&self) -> bool {
        !self.snapshot().variables.kill_timeout_server.is_zero()
    }

    /// Relays the answer to a command that was sent on `backend`; what it reports is stored in `outcome`.
    pub(super) async fn relay(
        &self,
        backend: &Backend,
        request: &mut Request,
        answering: Answering,
        outcome: &mut Outcome,
    ) -> Result<(), Broken> {
        let (timed, throttle) = {
            let variables = &self.snapshot().variables;
            (variables.stats_time_backend_query, variables.throttle_to_client)
        };
        let began = timed.then(Instant::now);
        let expect = answering.expect;
        let deprecate_eof = backend.login.capabilities.contains(Capabilities::DEPRECATE_EOF);
        let is_init_db = Command::from_code(request.code()) == Some(Command::InitDb);
        let mut tracker = Tracker::new(expect, deprecate_eof);
        match backend.stream.is_compressed() {
            true => tracker = tracker.numbered_from(request.answer()),
            false => tracker.add_shift(request.shift()),
        }
        let mut relay = Relay {
            session: self,
            backend,
            request,
            tracker,
            answering: Answering { throttle, ..answering },
            outcome,
            buffer: self.worker.buffers.small(Side::Backend),
            ready: 0,
            out: Vec::new(),
            started: false,
            file_refused: false,
            is_last: false,
            timed_out: false,
            eof_owed: false,
            is_init_db,
            rows_before: 0,
            out_parameters: Status::default(),
        };
        let result = relay.run().await;
        if let Some(began) = began {
            self.worker.counters.borrow_mut().backend_time_ns += nanoseconds(began.elapsed());
        }
        relay.outcome.rows_sent = relay.tracker.rows();
        relay.outcome.columns = relay.tracker.columns();
        self.worker.buffers.give_back(relay.buffer);
        result
    }
}

impl Relay<'_> {
    async fn run(&mut self) -> Result<(), Broken> {
        loop {
            if self.eof_owed && !self.owed_eof() {
                self.flush().await?;
                self.fill(HEADER_LENGTH + 1).await?;
                continue;
            }
            let walk = {
                let rest = self.buffer.filled_mut().get_mut(self.ready..).unwrap_or_default();
                self.tracker.walk(rest)
            };
            let walk = match walk {
                Ok(walk) => walk,
                Err(error) => return self.lost(error.to_string()).await,
            };
            if self.outcome.answer.is_some() {
                self.read_for_replay(walk);
            }
            self.ready += walk.passed;
            if let Next::More { need } = walk.next {
                if self.outcome.received > 0 && self.outcome.first_byte.is_none() {
                    self.outcome.first_byte = Some(Instant::now());
                }
                self.flush().await?;
                self.fill(need).await?;
                continue;
            }
            if let Err(error) = self.special(walk.next).await? {
                return self.lost(error.to_string()).await;
            }
            if self.tracker.is_done() {
                if self.eof_owed {
                    self.put_owed_eof(self.session.data.status);
                }
                if self.buffer.filled().len() > self.ready {
                    return self.lost("bytes after the end of an answer".to_owned()).await;
                }
                self.is_last = true;
                return self.flush().await;
            }
        }
    }

    /// Reads what the walk has found, for the checksum of the answer, before any of it is rewritten.
    fn read_for_replay(&mut self, walk: Walk) {
        let Some(reading) = &mut self.outcome.answer else { return };
        let bytes = self.buffer.filled().get(self.ready..).unwrap_or_default();
        let (passed, rest) = bytes.split_at_checked(walk.passed).unwrap_or_default();
        let payload = rest.get(HEADER_LENGTH..walk.next.length()).unwrap_or_default();
        reading.read(passed, walk.next, payload, self.backend.login.capabilities);
    }

    /// The bytes to write to the client.
    fn ready_bytes(&self) -> &[u8] {
        if self.out.is_empty() {
            self.buffer.filled().get(..self.ready).unwrap_or_default()
        } else {
            &self.out
        }
    }

    /// Writes the ready bytes to the client.
    async fn flush(&mut self) -> Result<(), Broken> {
        if self.ready > 0 && !self.out.is_empty() {
            self.set_ready_aside();
        }
        if self.ready_bytes().is_empty() {
            return Ok(());
        }
        if self.answering.throttle > 0 {
            Box::pin(self.throttle()).await?;
        }
        let bytes = self.ready_bytes();
        if self.is_last
            && let Some(tracked) = self.session.client.stream.tracked()
            && self.leaves_everything()
        {
            tracked.answer_ends(bytes.len(), self.outcome.last_insert_id != 0);
        }
        let length = bytes.len() as u64;
        self.session.worker.counters.borrow_mut().client_bytes_sent += length;
        self.session.record(bytes);
        let mut rest = bytes;
        let done = self.session.client.stream.try_write_all(&mut rest);
        let written = bytes.len() - rest.len();
        self.started = true;
        self.outcome.bytes += length;
        match done {
            Ok(true) => {}
            Ok(false) => Box::pin(self.flush_rest(written)).await?,
            Err(_) => return Err(Broken::Session(End::Gone)),
        }
        self.buffer.consume(self.ready);
        self.ready = 0;
        self.out.clear();
        Ok(())
    }

    /// Whether the session is unchanged by this answer, except for `LAST_INSERT_ID()`.
    fn leaves_everything(&self) -> bool {
        let outcome = &*self.outcome;
        outcome.variables.is_empty()
            && outcome.schema.is_none()
            && !outcome.status.unwrap_or_default().contains(Status::IN_TRANS)
            && !self.session.binding.multiplexing_off
            && self.session.data.next_flag_in == 0
    }

    /// Reads more, and handles interrupts and the end of the client while it waits.
    async fn fill(&mut self, need: usize) -> Result<(), Broken> {
        // If a read has filled the buffer, more will follow: larger reads cost less per row.
        if self.buffer.room() == 0 && self.buffer.capacity() < LARGE && self.answering.throttle == 0 {
            let mut larger = self.session.worker.buffers.large(Side::Backend);
            larger.append(self.buffer.filled());
            self.session.worker.buffers.give_back(std::mem::replace(&mut self.buffer, larger));
        }
        self.buffer.make_room(need.saturating_sub(self.buffer.filled().len()).max(1));
        loop {
            match self.buffer.try_fill(&self.backend.stream) {
                Ok(0) => return self.lost("the server closed the connection".to_owned()).await,
                Ok(count) => {
                    self.outcome.received += count as u64;
                    return Ok(());
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return self.lost(error.to_string()).await,
            }
            select! {
                biased;
                // An error shows when reading.
                _ = self.backend.stream.readable() => {}
                reason = self.session.client.interrupted() => {
                    if let Err(broken) = self.interrupted(reason) {
                        return self.cut(broken);
                    }
                }
                () = self.request.client_gone(&self.session.client.stream) => {
                    return Err(Broken::Session(End::Gone));
                }
            }
        }
    }

    fn interrupted(&mut self, reason: Interrupt) -> Result<(), Broken> {
        let is_killed = self.outcome.kill.is_some();
        match reason {
            Interrupt::KillTime if is_killed => {
                self.session.note_ignored_kill(self.backend);
                return Err(Broken::Cut { started: self.started, timed_out: self.timed_out });
            }
            // For an earlier statement.
            Interrupt::KillTime => {}
            // The server already has a time limit for ending the statement.
            Interrupt::KillQuery | Interrupt::QueryTime if is_killed && self.session.limits_kills() => {}
            Interrupt::KillQuery | Interrupt::QueryTime => {
                self.timed_out |= reason == Interrupt::QueryTime;
                self.outcome.was_killed = true;
                // Nor does the next process run it again.
                self.session.note_tie();
                self.outcome.kill = Some(self.session.kill_statement(self.backend));
            }
            reason => return Err(Broken::Session(End::Interrupted(reason))),
        }
        Ok(())
    }

    /// The server does not end a killed statement. A client that has received part of the answer receives the error only if
    /// that part ends with a whole packet.
    fn cut(&self, broken: Broken) -> Result<(), Broken> {
        if let Broken::Cut { started: true, timed_out } = broken
            && self.tracker.is_between_packets()
        {
            let mut sequence = self.tracker.sequence().wrapping_add(1);
            let (errno, text) = killed(timed_out);
            let mut out = Vec::with_capacity(128);
            put_error(&mut out, &mut sequence, errno, &text);
            self.session.worker.counters.borrow_mut().generated_errors += 1;
            // The session ends in any case, and everything before this was written.
            let _ = self.session.client.stream.try_write_all(&mut &*out);
        }
        Err(broken)
    }

    /// The server was lost during the answer. A client that has received part of the answer receives the error only if that
    /// part ends with a whole packet.
    async fn lost(&mut self, text: String) -> Result<(), Broken> {
        if self.started && self.tracker.is_between_packets() {
            let mut out = Vec::with_capacity(128);
            if self.eof_owed && self.answering.expect != Expect::Cursor {
                self.put_owed_eof(self.session.data.status);
                out.append(&mut self.out);
            }
            let mut sequence = self.tracker.sequence().wrapping_add(1);
            let (address, text) = (self.backend.login.server.address(), self.backend.broken_by(&text));
            let message = format!(
                "Lost connection to MySQL server during query ({address}: {text}). The answer is incomplete."
            );
            put_error(&mut out, &mut sequence, Errno::SERVER_LOST, &message);
            self.session.worker.counters.borrow_mut().generated_errors += 1;
            // The session ends in any case.
            let _ = Box::pin(self.session.client.send(&out)).await;
        }
        Err(self.gone(text))
    }

    /// The server was lost.
    fn gone(&self, text: String) -> Broken {
        let killed = self.outcome.kill.is_some().then_some(self.timed_out);
        Broken::Backend { started: self.started, killed, text }
    }
}
