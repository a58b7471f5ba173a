//! The one relay of answers: from server to client, row after row undecoded, OK, EOF and ERR packets looked at.
//!
//! The two sides may differ in `CLIENT_DEPRECATE_EOF` and `CLIENT_SESSION_TRACK`; packets are put in, left out or
//! written anew then, and sequence numbers shifted. Where nothing differs, the bytes read are the bytes written.
//!
//! Nothing is read from the server while the client does not take what was read before.

mod file;
mod pace;

use narrows_sql::{Flags, Kind, Statement};
use narrows_wire::charset::Family;
use narrows_wire::frame::{HEADER_LENGTH, put_encoded};
use narrows_wire::packet::{Change, Eof, Err as ErrPacket, Ok as OkPacket};
use narrows_wire::response::{Expect, Next};
use narrows_wire::{Capabilities, Command, Errno, Malformed, Status, Tracker};

use super::errors::{QUERY_TIMEOUT, killed};
use super::execute::Job;
use super::request::Request;
use super::{End, Interrupt, Session};
use crate::backend::{Backend, PrepareOk, ServerError, TOO_MANY_STATEMENTS, TRACKED_VARIABLES};
use crate::buffer::{Buffer, LARGE, Side};
use crate::reply::put_error;
use crate::rt::{oneshot, select};

/// What an answer told, by its OK, EOF and ERR packets.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Status flags of the last OK or EOF packet; `None` when there was none.
    pub(super) status: Option<Status>,
    /// The last insert id that an OK packet named.
    pub(super) last_insert_id: u64,
    /// Rows changed, as the last OK packet told; `None` when rows came last.
    pub(super) affected_rows: Option<u64>,
    /// The first number in the text of the last OK packet, in whatever language: rows matched, or records.
    pub(super) counted: Option<u64>,
    /// Rows changed in all.
    pub(super) rows_changed: u64,
    /// Rows sent in all.
    pub(super) rows_sent: u64,
    /// Bytes read of the server.
    pub(super) received: u64,
    /// Rows of the last result that had any columns.
    pub(super) rows: Option<u64>,
    /// Its columns.
    pub(super) columns: u64,
    /// Warnings of the last result.
    pub(super) warnings: u16,
    /// Warnings of each result before it, where there are several.
    pub(super) warnings_before: Vec<u16>,
    /// Bytes sent to the client.
    pub(super) bytes: u64,
    /// The error that ended the answer.
    pub(super) error: Option<u16>,
    /// Session variables that were reported as changed, in order.
    pub(super) variables: Vec<(String, Vec<u8>)>,
    /// The schema that was reported last.
    pub(super) schema: Option<Vec<u8>>,
    /// The statement that was prepared, in the server's words.
    pub(super) prepared: Option<PrepareOk>,
    /// An error that the client was not told; see [`Answering::hold_back`].
    pub(super) held_back: Option<ServerError>,
    /// A kill of the statement was sent; resolves when it has arrived.
    pub(super) kill: Option<oneshot::Receiver<()>>,
}

/// What is particular about the answer to one command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answering {
    /// Its form.
    pub(super) expect: Expect,
    /// The client's number for the statement that is being prepared.
    pub(super) statement: u32,
    /// Errors that the client is not told when they are the whole answer: something can be done about them.
    pub(super) hold_back: HoldBack,
    /// It runs outside of the client's transaction, with autocommit on, which the client has off.
    pub(super) apart: bool,
    /// Its server may ask for a file of the client.
    pub(super) file: bool,
    /// Bytes of answers that the client is sent in a second; 0: no limit.
    pub(super) throttle: u64,
}

/// Whether a server that asks for a file of the client has been told to: else it wants what nobody gives it.
pub(super) fn may_load_a_file(statement: &Statement) -> bool {
    let unread = Flags::MULTI | Flags::UNSURE | Flags::UNTERMINATED;
    let kinds = [Kind::LoadDataLocal, Kind::SetStatement, Kind::Execute, Kind::Call];
    kinds.contains(&statement.kind) || statement.flags.intersects(unread)
}

/// Errors about which something can be done.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HoldBack {
    /// The server is read only: the statement is run where it may write.
    pub(super) read_only: bool,
    /// The server goes away: the statement is run elsewhere.
    pub(super) going_away: bool,
    /// The server's statement is not what was prepared, or is forgotten: it is prepared again.
    pub(super) stale: bool,
    /// The server has too many statements: some are closed.
    pub(super) too_many_statements: bool,
}

impl HoldBack {
    fn has(self, code: u16) -> bool {
        self.read_only && READ_ONLY.contains(&code)
            || self.going_away && GOING_AWAY.contains(&code)
            || self.stale && STALE.contains(&code)
            || self.too_many_statements && code == TOO_MANY_STATEMENTS
    }
}

impl Answering {
    /// The answer to a command that is about no prepared statement.
    pub(super) fn plain(job: &Job) -> Answering {
        let Job { hold_back, apart, .. } = *job;
        let file = may_load_a_file(&job.statement);
        Answering { expect: job.expect, statement: 0, hold_back, apart, file, throttle: 0 }
    }
}

/// Why an answer did not come through.
#[derive(Debug)]
pub(super) enum Broken {
    /// The server went away before it had all of the command.
    Unsent { text: String },
    /// The server takes nothing of the command.
    Stalled { text: String },
    /// The command is longer than `max_allowed_packet`; the server has a part of it.
    TooLong,
    /// The server went away. `started`: the client has a part of the answer; `killed`: the statement was, and whether because it
    /// took too long.
    Backend { started: bool, killed: Option<bool>, text: String },
    /// The statement was killed in the middle of its command, or the server does not end it.
    Cut { started: bool, timed_out: bool },
    /// The session is over; the statement may still run.
    Session(End),
}

impl Broken {
    /// The same where the client does not read: it cannot be told.
    fn unread(self) -> Broken {
        match self {
            Broken::Cut { .. } => {
                Broken::Session(End::Told("killed while the client did not read".to_owned()))
            }
            broken => broken,
        }
    }
}

/// One answer on its way.
struct Relay<'a> {
    session: &'a Session,
    backend: &'a Backend,
    request: &'a mut Request,
    tracker: Tracker,
    answering: Answering,
    outcome: &'a mut Outcome,
    /// Bytes read, the first `ready` of them to be written as they are.
    buffer: Buffer,
    ready: usize,
    /// Packets written anew, and what stands between them; written before `ready`.
    out: Vec<u8>,
    /// Whether the client was sent anything.
    started: bool,
    /// The client cannot be asked for a file; the statement has failed for it.
    file_refused: bool,
    /// What is ready is the end of the answer.
    is_last: bool,
    /// The statement was killed because it took too long.
    timed_out: bool,
    /// An EOF packet is owed to the client behind the columns; see [`Relay::owed_eof`].
    eof_owed: bool,
    /// The command is `COM_INIT_DB`.
    is_init_db: bool,
    /// Rows of the results that have ended.
    rows_before: u64,
    /// What the EOF packet behind the columns says of OUT parameters: it is left out where the client deprecates EOF,
    /// and MySQL does not say it again behind the rows.
    out_parameters: Status,
}

impl Session {
    /// Relays the answer to a command that was sent on `backend`; `outcome` is what it tells.
    pub(super) async fn relay(
        &self,
        backend: &Backend,
        request: &mut Request,
        answering: Answering,
        outcome: &mut Outcome,
    ) -> Result<(), Broken> {
        let expect = answering.expect;
        let deprecate_eof = backend.login.capabilities.contains(Capabilities::DEPRECATE_EOF);
        let is_init_db = Command::from_code(request.code()) == Some(Command::InitDb);
        let mut tracker = Tracker::new(expect, deprecate_eof);
        tracker.add_shift(request.shift());
        let mut relay = Relay {
            session: self,
            backend,
            request,
            tracker,
            answering,
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
            self.ready += walk.passed;
            if let Next::More { need } = walk.next {
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
                    return self.lost("bytes behind the end of an answer".to_owned()).await;
                }
                self.is_last = true;
                return self.flush().await;
            }
        }
    }

    /// One of the packets that are looked at; it stands behind the ready bytes.
    async fn special(&mut self, next: Next) -> Result<Result<(), Malformed>, Broken> {
        if self.answering.apart {
            self.hide_autocommit(next);
        }
        let done = match next {
            Next::More { .. } => Ok(()),
            Next::ColumnsEnd { length } => self.columns_end(length),
            Next::Ok { length } => self.ok(length),
            Next::Eof { length } => self.eof(length),
            Next::Err { length } => self.err(length),
            Next::Text { length } => {
                self.pass(length);
                Ok(())
            }
            Next::PrepareOk { length } => {
                self.outcome.prepared = PrepareOk::decode(self.payload(length));
                self.outcome.warnings = self.outcome.prepared.map_or(0, |prepared| prepared.warnings);
                let place = self.ready + HEADER_LENGTH + 1;
                if let Some(id) = self.buffer.filled_mut().get_mut(place..place + 4) {
                    id.copy_from_slice(&self.answering.statement.to_le_bytes());
                }
                self.pass(length);
                Ok(())
            }
            Next::LocalInfile { length } => {
                Box::pin(self.local_infile(length)).await?;
                Ok(())
            }
        };
        Ok(done)
    }

    /// Takes the flag that says that autocommit is on out of a packet: the client has it off.
    fn hide_autocommit(&mut self, next: Next) {
        let (length, is_ok) = match next {
            Next::Ok { length } => (length, true),
            Next::Eof { length } | Next::ColumnsEnd { length } if length > 0 => (length, false),
            _ => return,
        };
        let place = match is_ok {
            true => OkPacket::status_at(self.payload(length)),
            false => Some(Eof::STATUS_AT),
        };
        let start = self.ready + HEADER_LENGTH;
        if let Some(place) = place
            && let Some(flags) = self.buffer.filled_mut().get_mut(start + place..start + place + 2)
            && let [low, high] = *flags
        {
            let status = Status(u16::from_le_bytes([low, high])).without(Status::AUTOCOMMIT);
            flags.copy_from_slice(&status.0.to_le_bytes());
        }
    }

    /// The packet behind the ready bytes, header included.
    fn packet(&self, length: usize) -> &[u8] {
        self.buffer.filled().get(self.ready..self.ready + length).unwrap_or_default()
    }

    fn payload(&self, length: usize) -> &[u8] {
        self.packet(length).get(HEADER_LENGTH..).unwrap_or_default()
    }

    /// Passes a packet on as it is, but for its sequence number.
    fn pass(&mut self, length: usize) {
        let shift = self.tracker.shift();
        if shift != 0
            && let Some(sequence) = self.buffer.filled_mut().get_mut(self.ready + HEADER_LENGTH - 1)
        {
            *sequence = sequence.wrapping_add(shift);
        }
        self.ready += length;
    }

    /// Leaves a packet out and puts another, or none, in its place.
    fn replace(&mut self, length: usize, encode: Option<&Encode<'_>>) {
        let sequence = self.packet(length).get(HEADER_LENGTH - 1).copied().unwrap_or_default();
        let mut sequence = sequence.wrapping_add(self.tracker.shift());
        self.set_ready_aside();
        self.buffer.consume(length);
        match encode {
            Some(encode) => put_encoded(&mut self.out, &mut sequence, encode),
            None => self.tracker.add_shift(u8::MAX),
        }
    }

    fn client_deprecates_eof(&self) -> bool {
        self.session.client.capabilities.contains(Capabilities::DEPRECATE_EOF)
    }

    fn columns_end(&mut self, length: usize) -> Result<(), Malformed> {
        match (length, self.client_deprecates_eof()) {
            (0, true) => {}
            (0, false) => self.eof_owed = true,
            (length, true) => {
                let status = Eof::decode(self.payload(length))?.status;
                if status.contains(Status::OUT_PARAMETERS_AND_MORE) {
                    self.out_parameters = Status::OUT_PARAMETERS_AND_MORE;
                }
                self.replace(length, None);
            }
            (length, false) => self.eof_as_told(length, Eof::decode(self.payload(length))?),
        }
        Ok(())
    }

    /// Puts in the EOF packet that a client without `CLIENT_DEPRECATE_EOF` expects behind the columns; returns whether
    /// it could. Its status flags are those of the packet behind the rows, where that is in sight; a long result's
    /// cannot be waited for. Where the server has opened a cursor, the packet that says so is the only one; where it was to
    /// open one and could not, because the statement was killed perhaps, its error is.
    fn owed_eof(&mut self) -> bool {
        let capabilities = self.backend.login.capabilities;
        let rest = self.buffer.filled_mut().get_mut(self.ready..).unwrap_or_default();
        let mut ahead = self.tracker.clone();
        // What it passes over is passed over again: it must not touch sequence numbers.
        ahead.add_shift(ahead.shift().wrapping_neg());
        let Ok(walk) = ahead.walk(rest) else { return true };
        let opens_cursor = self.answering.expect == Expect::Cursor && walk.passed == 0;
        let status = match walk.next {
            Next::Err { .. } if opens_cursor => {
                self.eof_owed = false;
                return true;
            }
            Next::Ok { length } => {
                let start = walk.passed + HEADER_LENGTH;
                let packet = rest.get(start..walk.passed + length).unwrap_or_default();
                OkPacket::decode(packet, capabilities).map(|ok| ok.status).unwrap_or_default()
            }
            Next::More { .. } if walk.passed == 0 => return false,
            _ => self.session.data.status,
        };
        if opens_cursor && status.contains(Status::CURSOR_EXISTS) {
            self.eof_owed = false;
        } else {
            let hidden = if self.answering.apart { Status::AUTOCOMMIT } else { Status::default() };
            self.put_owed_eof(status.without(Status::SESSION_STATE_CHANGED).without(hidden));
        }
        true
    }

    fn put_owed_eof(&mut self, status: Status) {
        self.eof_owed = false;
        let mut sequence = self.tracker.sequence().wrapping_add(1);
        self.set_ready_aside();
        let eof = Eof { warnings: 0, status };
        put_encoded(&mut self.out, &mut sequence, |out| eof.encode(out));
        self.tracker.add_shift(1);
    }

    /// Moves the ready bytes to what was written anew, to put something behind them.
    fn set_ready_aside(&mut self) {
        self.out.extend_from_slice(self.buffer.filled().get(..self.ready).unwrap_or_default());
        self.buffer.consume(self.ready);
        self.ready = 0;
    }

    fn ok(&mut self, length: usize) -> Result<(), Malformed> {
        let payload = self.payload(length).to_vec();
        let capabilities = self.backend.login.capabilities;
        let ok = OkPacket::decode(&payload, capabilities)?;
        self.learn(&ok)?;
        if self.file_refused {
            let text = b"The used command is not allowed with this MySQL version";
            let errno = Errno::NOT_ALLOWED_COMMAND;
            let error = ErrPacket { code: errno.number, sqlstate: Some(errno.sqlstate), message: text };
            self.replace(length, Some(&|out| error.encode(out)));
            self.outcome.error = Some(errno.number);
            return Ok(());
        }
        let was_eof = ok.header == OkPacket::END_OF_ROWS;
        if was_eof && !self.client_deprecates_eof() {
            // A MariaDB server says so in EOF packets too, a MySQL server does not.
            // A MariaDB server says in EOF packets too that something has changed, whether the client asked to be told
            // or not; a MySQL server does not. What only we asked for is left out.
            let ours = !ok.session_state.is_empty() && self.foreign_changes(&ok)?.is_empty();
            let silent = self.backend.login.family == Family::MySql || ours;
            let mut status =
                if silent { ok.status.without(Status::SESSION_STATE_CHANGED) } else { ok.status };
            // MySQL says this in one packet only, and that was the one behind the columns.
            if self.backend.login.family == Family::MySql && status.contains(Status::OUT_PARAMETERS_AND_MORE)
            {
                status = status.without(Status::OUT_PARAMETERS_AND_MORE);
            }
            let eof = Eof { warnings: ok.warnings, status };
            self.replace(length, Some(&|out| eof.encode(out)));
        } else if self.is_init_db && ok.warnings != self.session.data.warnings {
            // MySQL repeats those of the statement before here, and that was one of our own.
            let session_state = self.visible_changes(&ok)?;
            let shown =
                OkPacket { session_state: &session_state, warnings: self.session.data.warnings, ..ok };
            let client = self.session.client.capabilities;
            self.replace(length, Some(&|out| shown.encode(out, client)));
        } else if ok.status.contains(Status::SESSION_STATE_CHANGED) {
            let session_state = self.visible_changes(&ok)?;
            let tracks = self.session.client.capabilities.contains(Capabilities::SESSION_TRACK);
            if tracks && session_state == ok.session_state {
                self.pass(length);
            } else {
                let visible = OkPacket { session_state: &session_state, ..ok };
                let client = self.session.client.capabilities;
                self.replace(length, Some(&|out| visible.encode(out, client)));
            }
        } else {
            self.pass(length);
        }
        Ok(())
    }

    fn note_warnings(&mut self, warnings: u16, status: Status) {
        // What `COM_INIT_DB` says is of the statement before it, and that may have been one of our own.
        self.outcome.warnings = if self.is_init_db { self.session.data.warnings } else { warnings };
        if status.contains(Status::MORE_RESULTS_EXISTS) {
            self.outcome.warnings_before.push(warnings);
        }
    }

    /// A result has ended: its rows are those since the last one's end.
    fn note_rows(&mut self) {
        self.outcome.rows = Some(self.tracker.rows() - self.rows_before);
        self.rows_before = self.tracker.rows();
    }

    /// Keeps what an OK packet tells of the session.
    fn learn(&mut self, ok: &OkPacket<'_>) -> Result<(), Malformed> {
        self.outcome.status = Some(ok.status);
        self.note_warnings(ok.warnings, ok.status);
        let ends_rows = ok.header == OkPacket::END_OF_ROWS;
        self.outcome.affected_rows = (!ends_rows).then_some(ok.affected_rows);
        self.outcome.counted = first_number(ok.info);
        self.outcome.rows_changed += ok.affected_rows;
        if ends_rows {
            self.note_rows();
        }
        if ok.last_insert_id != 0 {
            self.outcome.last_insert_id = ok.last_insert_id;
        }
        for change in ok.changes() {
            match change?.1 {
                Change::SystemVariable { name, value } => {
                    let name = String::from_utf8_lossy(name).to_lowercase();
                    self.outcome.variables.push((name, value.to_vec()));
                }
                Change::Schema(schema) => self.outcome.schema = Some(schema.to_vec()),
                _ => {}
            }
        }
        Ok(())
    }

    /// The changes that this client would see without a proxy: we ask servers for more than it did.
    fn visible_changes(&self, ok: &OkPacket<'_>) -> Result<Vec<u8>, Malformed> {
        if !self.session.client.capabilities.contains(Capabilities::SESSION_TRACK) {
            return Ok(Vec::new());
        }
        self.foreign_changes(ok)
    }

    /// The changes that a server would report without our asking for more.
    fn foreign_changes(&self, ok: &OkPacket<'_>) -> Result<Vec<u8>, Malformed> {
        if self.session.data.state.literal(TRACKED_VARIABLES).is_some() {
            return Ok(ok.session_state.to_vec());
        }
        let mut visible = Vec::with_capacity(ok.session_state.len());
        for change in ok.changes() {
            let (encoded, change) = change?;
            let hidden = match change {
                Change::SystemVariable { name, .. } => !TRACKED_BY_DEFAULT.contains(&name),
                _ => false,
            };
            if !hidden {
                visible.extend_from_slice(encoded);
            }
        }
        Ok(visible)
    }

    fn eof(&mut self, length: usize) -> Result<(), Malformed> {
        let eof = Eof::decode(self.payload(length))?;
        self.outcome.status = Some(eof.status);
        self.note_warnings(eof.warnings, eof.status);
        self.outcome.affected_rows = None;
        self.note_rows();
        if self.client_deprecates_eof() {
            let ok = OkPacket {
                header: OkPacket::END_OF_ROWS,
                affected_rows: 0,
                last_insert_id: 0,
                status: eof.status.union(std::mem::take(&mut self.out_parameters)),
                warnings: eof.warnings,
                info: b"",
                session_state: b"",
            };
            let client = self.session.client.capabilities;
            self.replace(length, Some(&|out| ok.encode(out, client)));
        } else {
            self.eof_as_told(length, eof);
        }
        Ok(())
    }

    /// Passes an EOF packet on, without the flag that says that we were told of a change: the client was not.
    fn eof_as_told(&mut self, length: usize, eof: Eof) {
        let tells = self.backend.login.family == Family::MariaDb;
        if !tells && eof.status.contains(Status::SESSION_STATE_CHANGED) {
            let eof = Eof { status: eof.status.without(Status::SESSION_STATE_CHANGED), ..eof };
            self.replace(length, Some(&|out| eof.encode(out)));
        } else {
            self.pass(length);
        }
    }

    fn err(&mut self, length: usize) -> Result<(), Malformed> {
        let error = ErrPacket::decode(self.payload(length))?;
        let code = error.code;
        let untold = !self.started && self.ready == 0 && self.out.is_empty();
        // What was killed is not run elsewhere.
        if untold && self.outcome.kill.is_none() && self.answering.hold_back.has(code) {
            self.outcome.held_back = ServerError::decode(self.payload(length)).ok();
            self.buffer.consume(length);
            return Ok(());
        }
        self.session.count_error(self.backend, code, error.message);
        self.outcome.error = Some(code);
        if self.timed_out && code == Errno::QUERY_INTERRUPTED.number {
            let (errno, text) = QUERY_TIMEOUT;
            let error =
                ErrPacket { code: errno.number, sqlstate: Some(errno.sqlstate), message: text.as_bytes() };
            self.replace(length, Some(&|out| error.encode(out)));
        } else {
            self.pass(length);
        }
        Ok(())
    }

    /// What is to be written to the client.
    fn ready_bytes(&self) -> &[u8] {
        if self.out.is_empty() {
            self.buffer.filled().get(..self.ready).unwrap_or_default()
        } else {
            &self.out
        }
    }

    /// Writes what is ready to the client.
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
            && let Some(kept) = self.session.client.stream.kept()
            && self.leaves_everything()
        {
            kept.answer_ends(bytes.len(), self.outcome.last_insert_id != 0);
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

    /// Whether the session is after this answer what it was before, but for an insert id.
    fn leaves_everything(&self) -> bool {
        let outcome = &*self.outcome;
        outcome.variables.is_empty()
            && outcome.schema.is_none()
            && !outcome.status.unwrap_or_default().contains(Status::IN_TRANS)
            && !self.session.binding.multiplexing_off
            && self.session.data.next_flag_in == 0
    }

    /// Reads on, and meanwhile looks after the client and after interrupts.
    async fn fill(&mut self, need: usize) -> Result<(), Broken> {
        // A read that filled the buffer will be followed by more: larger reads cost less a row.
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
                // What this yields shows when reading.
                _ = self.backend.stream.readable() => {}
                reason = self.session.interrupted() => {
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
            // One of a statement before.
            Interrupt::KillTime => {}
            // The server has a limit for it already.
            Interrupt::KillQuery | Interrupt::QueryTime if is_killed && self.session.limits_kills() => {}
            Interrupt::KillQuery | Interrupt::QueryTime => {
                self.timed_out |= reason == Interrupt::QueryTime;
                self.outcome.kill = Some(self.session.kill_statement(self.backend));
            }
            reason => return Err(Broken::Session(End::Interrupted(reason))),
        }
        Ok(())
    }

    /// The server does not end a killed statement. A client that has a part of the answer is told between two packets, or
    /// not at all.
    fn cut(&self, broken: Broken) -> Result<(), Broken> {
        if let Broken::Cut { started: true, timed_out } = broken
            && self.tracker.is_between_packets()
        {
            let mut sequence = self.tracker.sequence().wrapping_add(1);
            let (errno, text) = killed(timed_out);
            let mut out = Vec::with_capacity(128);
            put_error(&mut out, &mut sequence, errno, &text);
            self.session.worker.counters.borrow_mut().generated_errors += 1;
            // The session ends in any case, and all that came before was taken.
            let _ = self.session.client.stream.try_write_all(&mut &*out);
        }
        Err(broken)
    }

    /// The server is lost in the middle. A client that has a part of the answer is told between two packets, or
    /// not at all.
    async fn lost(&mut self, text: String) -> Result<(), Broken> {
        if self.started && self.tracker.is_between_packets() {
            let mut out = Vec::with_capacity(128);
            let mut sequence = self.tracker.sequence().wrapping_add(1);
            if self.eof_owed && self.answering.expect != Expect::Cursor {
                self.put_owed_eof(self.session.data.status);
                out.append(&mut self.out);
                sequence = sequence.wrapping_add(1);
            }
            let (address, text) = (self.backend.login.server.address(), self.backend.broken_by(&text));
            let message = format!(
                "Lost connection to MySQL server during query ({address}: {text}). The answer is not whole."
            );
            put_error(&mut out, &mut sequence, Errno::SERVER_LOST, &message);
            self.session.worker.counters.borrow_mut().generated_errors += 1;
            // The session ends in any case.
            let _ = Box::pin(self.session.send(&out)).await;
        }
        Err(self.gone(text))
    }

    /// The server went away.
    fn gone(&self, text: String) -> Broken {
        let killed = self.outcome.kill.is_some().then_some(self.timed_out);
        Broken::Backend { started: self.started, killed, text }
    }
}

fn first_number(text: &[u8]) -> Option<u64> {
    let mut numbers = text.split(|byte| !byte.is_ascii_digit()).filter(|number| !number.is_empty());
    std::str::from_utf8(numbers.next()?).ok()?.parse().ok()
}

/// What a server says that is read only: `--read-only` in some form, or read only as a whole.
pub(super) const READ_ONLY: &[u16] = &[1290, 1836];

/// What a server says that shuts down, or has left its Galera cluster.
pub(super) const GOING_AWAY: &[u16] = &[1053, 1047];

/// What a server says of a statement that is not what was prepared: it was forgotten, or tables have changed too much.
const STALE: &[u16] = &[Errno::UNKNOWN_STMT_HANDLER.number, 1615];

/// Writes a packet's payload.
type Encode<'a> = dyn Fn(&mut Vec<u8>) + 'a;

/// What a server reports to a client that has not chosen (`session_track_system_variables`).
const TRACKED_BY_DEFAULT: &[&[u8]] = &[
    b"autocommit",
    b"character_set_client",
    b"character_set_connection",
    b"character_set_results",
    b"time_zone",
];
