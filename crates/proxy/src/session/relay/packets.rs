//! The packets of an answer that are examined: the end of the columns, OK, EOF, ERR.

use narrows_sql::{Flags, Kind};
use narrows_wire::charset::Family;
use narrows_wire::frame::{HEADER_LENGTH, put_encoded};
use narrows_wire::packet::{Change, Changes, Eof, Err as ErrPacket, Ok as OkPacket};
use narrows_wire::response::{Expect, Next};
use narrows_wire::{Capabilities, Errno, Malformed, Status};

use super::super::errors::QUERY_TIMEOUT;
use super::super::outcome::Broken;
use super::Relay;
use crate::backend::{PrepareOk, Reports, ServerError, TransactionReports, WantedReports};

impl Relay<'_> {
    /// Handles a packet that is examined; it follows the ready bytes.
    pub(super) async fn special(&mut self, next: Next) -> Result<Result<(), Malformed>, Broken> {
        if let Next::Eof { length } | Next::ColumnsEnd { length } = next
            && length > 0
            && self.changes_status()
            && let Ok(eof) = Eof::decode(self.payload(length))
        {
            self.put_status(Eof::STATUS_AT, self.shown(eof.status));
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
        if matches!(next, Next::Ok { .. } | Next::Eof { .. } | Next::Err { .. }) {
            self.note_end();
        }
        Ok(done)
    }

    /// After the last packet of an answer, or of that to one of several statements, and before the client has it: what others take
    /// for everything that was written may be all no longer.
    fn note_end(&self) {
        let of = &self.answering.of;
        let is_several = of.flags.intersects(Flags::MULTI);
        if is_several || of.kind != Kind::Select && self.tracker.is_done() {
            self.session.publish_losses(self.backend, of, self.outcome);
        }
    }

    /// Whether a prepared statement has another number of columns than its client knows: the server has sent others, or a
    /// connection on which the statement was prepared later.
    fn has_new_columns(&self) -> bool {
        let (told, found) = (self.answering.columns_told, self.tracker.columns());
        told != 0 && found != 0 && found != u64::from(told)
    }

    /// Whether the client may have to see other status flags than the server's.
    fn changes_status(&self) -> bool {
        self.answering.apart || self.answering.columns_told != 0
    }

    /// The status flags of a packet, as the client is to see them.
    fn shown(&self, status: Status) -> Status {
        let status = if self.answering.apart { status.without(Status::AUTOCOMMIT) } else { status };
        match self.answering.columns_told {
            0 => status,
            _ => with_new_columns(status, self.has_new_columns()),
        }
    }

    /// Replaces the status flags of the packet that follows the ready bytes; `place` is theirs in its payload.
    fn put_status(&mut self, place: usize, status: Status) {
        let start = self.ready + HEADER_LENGTH + place;
        if let Some(flags) = self.buffer.filled_mut().get_mut(start..start + 2) {
            flags.copy_from_slice(&status.0.to_le_bytes());
        }
    }

    /// The packet that follows the ready bytes, with its header.
    pub(super) fn packet(&self, length: usize) -> &[u8] {
        self.buffer.filled().get(self.ready..self.ready + length).unwrap_or_default()
    }

    pub(super) fn payload(&self, length: usize) -> &[u8] {
        self.packet(length).get(HEADER_LENGTH..).unwrap_or_default()
    }

    /// Forwards a packet, with the sequence number adjusted.
    pub(super) fn pass(&mut self, length: usize) {
        let shift = self.tracker.shift();
        if shift != 0
            && let Some(sequence) = self.buffer.filled_mut().get_mut(self.ready + HEADER_LENGTH - 1)
        {
            *sequence = sequence.wrapping_add(shift);
        }
        self.ready += length;
    }

    /// Replaces a packet by another one, or by none.
    pub(super) fn replace(&mut self, length: usize, encode: Option<&Encode<'_>>) {
        let sequence = self.packet(length).get(HEADER_LENGTH - 1).copied().unwrap_or_default();
        let mut sequence = sequence.wrapping_add(self.tracker.shift());
        self.set_ready_aside();
        self.buffer.consume(length);
        match encode {
            Some(encode) => put_encoded(&mut self.out, &mut sequence, encode),
            None => self.tracker.omitted(),
        }
    }

    pub(super) fn client_deprecates_eof(&self) -> bool {
        self.session.client.capabilities.contains(Capabilities::DEPRECATE_EOF)
    }

    pub(super) fn columns_end(&mut self, length: usize) -> Result<(), Malformed> {
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

    /// Inserts the EOF packet that a client without `CLIENT_DEPRECATE_EOF` expects after the columns; returns whether it
    /// could. Its status flags are those of the packet after the rows, if that was already read; there is no wait for the
    /// end of a long result. If the server has opened a cursor, the packet that reports it is the only one; if it failed to
    /// open one, for example because the statement was killed, the error is the only one.
    pub(super) fn owed_eof(&mut self) -> bool {
        let capabilities = self.backend.login.capabilities;
        let rest = self.buffer.filled_mut().get_mut(self.ready..).unwrap_or_default();
        // The same bytes are walked again later, so this walk must not change sequence numbers.
        let mut ahead = self.tracker.looking_ahead();
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
            self.put_owed_eof(status.without(Status::SESSION_STATE_CHANGED));
        }
        true
    }

    pub(super) fn put_owed_eof(&mut self, status: Status) {
        self.eof_owed = false;
        let mut sequence = self.tracker.sequence().wrapping_add(1);
        self.set_ready_aside();
        let eof = Eof { warnings: 0, status: self.shown(status) };
        put_encoded(&mut self.out, &mut sequence, |out| eof.encode(out));
        self.tracker.inserted();
    }

    /// Moves the ready bytes to the rewritten packets, so that another packet can be added after them.
    pub(super) fn set_ready_aside(&mut self) {
        self.out.extend_from_slice(self.buffer.filled().get(..self.ready).unwrap_or_default());
        self.buffer.consume(self.ready);
        self.ready = 0;
    }

    pub(super) fn ok(&mut self, length: usize) -> Result<(), Malformed> {
        let capabilities = self.backend.login.capabilities;
        let payload = self.payload(length);
        let ok = OkPacket::decode(payload, capabilities)?;
        let status = self.shown(ok.status);
        if status == ok.status
            && let Some(ok) = ok.without_texts()
        {
            return self.ok_as_told(length, &ok);
        }
        let place = (status != ok.status).then(|| OkPacket::status_at(payload)).flatten();
        let payload = payload.to_vec();
        if let Some(place) = place {
            self.put_status(place, status);
        }
        self.ok_as_told(length, &OkPacket { status, ..OkPacket::decode(&payload, capabilities)? })
    }

    fn ok_as_told(&mut self, length: usize, ok: &OkPacket<'_>) -> Result<(), Malformed> {
        self.learn(ok)?;
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
            let eof = Eof { warnings: ok.warnings, status: self.status_of_eof(ok)? };
            if ok.status.contains(Status::SESSION_STATE_CHANGED) {
                let untold = self.untold_changes(ok)?;
                self.session.data.untold_changes.replace(untold);
            }
            self.replace(length, Some(&|out| eof.encode(out)));
        } else if self.is_init_db && ok.warnings != self.session.data.warnings {
            // MySQL repeats the count of the previous statement here, which may have been one of our own.
            let session_state = self.visible_changes(ok)?;
            let shown =
                OkPacket { session_state: &session_state, warnings: self.session.data.warnings, ..*ok };
            let client = self.session.client.capabilities;
            self.replace(length, Some(&|out| shown.encode(out, client)));
        } else if ok.status.contains(Status::SESSION_STATE_CHANGED)
            || !self.session.data.untold_changes.borrow().is_empty()
        {
            let session_state = self.untold_changes(ok)?;
            self.session.data.untold_changes.take();
            let tracks = self.session.client.capabilities.contains(Capabilities::SESSION_TRACK);
            if tracks && session_state == ok.session_state {
                self.pass(length);
            } else {
                let status = ok.status.union(Status::SESSION_STATE_CHANGED);
                let visible = OkPacket { session_state: &session_state, status, ..*ok };
                let client = self.session.client.capabilities;
                self.replace(length, Some(&|out| visible.encode(out, client)));
            }
        } else {
            self.pass(length);
        }
        Ok(())
    }

    pub(super) fn note_warnings(&mut self, warnings: u16, status: Status) {
        // `COM_INIT_DB` reports the count of the previous statement, which may have been one of our own.
        self.outcome.warnings = if self.is_init_db { self.session.data.warnings } else { warnings };
        if status.contains(Status::MORE_RESULTS_EXISTS) {
            self.outcome.warnings_before.push(warnings);
        }
    }

    /// A result has ended: its rows are those since the end of the last one.
    pub(super) fn note_rows(&mut self) {
        self.outcome.rows = Some(self.tracker.rows() - self.rows_before);
        self.rows_before = self.tracker.rows();
    }

    /// The status of an OK packet in the EOF packet that takes its place.
    fn status_of_eof(&self, ok: &OkPacket<'_>) -> Result<Status, Malformed> {
        let is_mysql = self.backend.login.family == Family::MySql;
        // MariaDB reports changes of the session state in EOF packets too, whether or not the client has asked for that;
        // MySQL does not. Changes that only Narrows has asked for are omitted.
        let ours = !ok.session_state.is_empty() && self.foreign_changes(ok)?.is_empty();
        let silent = is_mysql || ours;
        let status = if silent { ok.status.without(Status::SESSION_STATE_CHANGED) } else { ok.status };
        // MySQL sets these flags in one packet only, and that was the one after the columns.
        match is_mysql && status.contains(Status::OUT_PARAMETERS_AND_MORE) {
            true => Ok(status.without(Status::OUT_PARAMETERS_AND_MORE)),
            false => Ok(status),
        }
    }

    /// Takes over what an OK packet reports about the session.
    pub(super) fn learn(&mut self, ok: &OkPacket<'_>) -> Result<(), Malformed> {
        self.outcome.status = Some(ok.status);
        self.note_warnings(ok.warnings, ok.status);
        // MariaDB tells what it has not told before only along with something new.
        if self.backend.login.family == Family::MySql || !ok.session_state.is_empty() {
            self.outcome.is_untold = false;
            self.outcome.tells_all = true;
        }
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
                Change::Gtids(gtids) => self.note_gtids(gtids),
                Change::SystemVariable { name: b"last_gtid", value } => self.note_gtids(value),
                Change::SystemVariable { name, value } => {
                    let name = String::from_utf8_lossy(name).to_lowercase();
                    self.outcome.variables.push((name, value.to_vec()));
                }
                Change::Schema(schema) => self.outcome.schema = Some(schema.to_vec()),
                Change::State => self.outcome.state_changed = true,
                Change::TransactionState(text) => {
                    let data = &self.session.data;
                    let goes_on = data.has_begun.get() && data.status.contains(Status::IN_TRANS);
                    data.has_begun.set(text.starts_with(BEGUN) || goes_on);
                }
                Change::TransactionCharacteristics(text) => {
                    self.outcome.characteristics = Some(text.to_vec())
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The server has written transactions. Others may have to see them as soon as the client knows, so they are noted first.
    fn note_gtids(&mut self, gtids: &[u8]) {
        if let Some(written) = self.session.publish_written(self.backend, gtids) {
            self.outcome.gtids.get_or_insert_default().add(&written);
        }
    }

    /// The changes that this client would receive without a proxy: Narrows asks servers for more than clients do.
    pub(super) fn visible_changes(&self, ok: &OkPacket<'_>) -> Result<Vec<u8>, Malformed> {
        if !self.session.client.capabilities.contains(Capabilities::SESSION_TRACK) {
            return Ok(Vec::new());
        }
        self.foreign_changes(ok)
    }

    /// What the client has yet to receive: the changes of this packet, after earlier ones that they do not replace.
    fn untold_changes(&self, ok: &OkPacket<'_>) -> Result<Vec<u8>, Malformed> {
        let changes = self.visible_changes(ok)?;
        let earlier = self.session.data.untold_changes.borrow();
        if earlier.is_empty() {
            return Ok(changes);
        }
        let later: Vec<Change<'_>> =
            Changes::of(&changes).map(|it| Ok(it?.1)).collect::<Result<_, Malformed>>()?;
        let mut all = Vec::with_capacity(earlier.len() + changes.len());
        for change in Changes::of(&earlier) {
            let (encoded, change) = change?;
            if !later.iter().any(|later| later.is_about_the_same(&change)) {
                all.extend_from_slice(encoded);
            }
        }
        all.extend_from_slice(&changes);
        Ok(all)
    }

    /// The changes that a server would report if Narrows had not asked for more.
    pub(super) fn foreign_changes(&self, ok: &OkPacket<'_>) -> Result<Vec<u8>, Malformed> {
        let login = &self.backend.login;
        let client = login.reports_for(&self.session.data.state);
        // The statement may have changed what is reported, also of itself.
        let is_asked_for = matches!(login.reports, Reports::Client { .. });
        let asks_for_gtids = self.session.asks_for_gtids();
        let mut visible = Vec::with_capacity(ok.session_state.len());
        for change in ok.changes() {
            let (encoded, change) = change?;
            let is_visible = match change {
                Change::SystemVariable { name, .. } => is_asked_for || client.has(name),
                Change::Schema(_) => is_asked_for || client.schema,
                Change::Gtids(_) => asks_for_gtids,
                Change::TransactionState(text) => self.shows_state(text, client.transactions),
                Change::TransactionCharacteristics(_) => {
                    self.shows(TransactionReports::Characteristics, client.transactions)
                }
                Change::State => is_asked_for || client.state,
                Change::Other { .. } => true,
            };
            if is_visible {
                visible.extend_from_slice(encoded);
            }
        }
        Ok(visible)
    }

    /// Whether the client receives a report of what its transaction has done.
    fn shows_state(&self, text: &[u8], client: TransactionReports) -> bool {
        if self.shows(TransactionReports::State, client) {
            return true;
        }
        // A client that has not asked for it receives what the server sends by itself: MySQL, the begin of a transaction and its
        // end, if it was begun by a statement.
        let login = &self.backend.login;
        let before = self.session.data.status;
        match login.transaction_reports() {
            TransactionReports::Off => true,
            _ if login.family == Family::MariaDb => false,
            _ if before.contains(Status::IN_TRANS) => {
                let data = &self.session.data;
                text == NO_TRANSACTION && (before.contains(Status::AUTOCOMMIT) || data.has_begun.get())
            }
            _ => text.starts_with(BEGUN),
        }
    }

    /// Whether the client receives a report about transactions, for which it must have asked with this value at least.
    fn shows(&self, value: TransactionReports, client: TransactionReports) -> bool {
        let login = &self.backend.login;
        let is_asked_for = matches!(login.reports, Reports::Client { .. })
            && login.wants_reports == (WantedReports::Client { transactions: false });
        is_asked_for || client >= value
    }

    pub(super) fn eof(&mut self, length: usize) -> Result<(), Malformed> {
        let eof = Eof::decode(self.payload(length))?;
        self.outcome.is_untold |= eof.status.contains(Status::SESSION_STATE_CHANGED);
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

    /// Forwards an EOF packet, without the flag for a change that was reported to Narrows and not to the client.
    pub(super) fn eof_as_told(&mut self, length: usize, eof: Eof) {
        let login = &self.backend.login;
        // The packet does not say what has changed. MySQL never sets the flag here; of MariaDB's, most are about transactions
        // where these are reported.
        let client = login.reports_for(&self.session.data.state);
        let tells = login.family == Family::MariaDb && login.transaction_reports() <= client.transactions;
        if !tells && eof.status.contains(Status::SESSION_STATE_CHANGED) {
            let eof = Eof { status: eof.status.without(Status::SESSION_STATE_CHANGED), ..eof };
            self.replace(length, Some(&|out| eof.encode(out)));
        } else {
            self.pass(length);
        }
    }

    pub(super) fn err(&mut self, length: usize) -> Result<(), Malformed> {
        self.outcome.is_untold = true;
        let error = ErrPacket::decode(self.payload(length))?;
        let code = error.code;
        let untold = !self.started && self.ready == 0 && self.out.is_empty();
        // A killed statement does not run elsewhere.
        if untold && self.outcome.kill.is_none() && self.answering.hold_back.has(code) {
            self.outcome.held_back = ServerError::decode(self.payload(length)).ok();
            self.buffer.consume(length);
            return Ok(());
        }
        self.session.count_error(self.backend, code, error.message);
        let told = self.session.run.record.is_some().then(|| error.message.to_vec());
        self.outcome.sqlstate = error.sqlstate;
        (self.outcome.error, self.outcome.error_text) = (Some(code), told.unwrap_or_default());
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
}

/// How the report of a transaction begins that a statement has begun.
const BEGUN: &[u8] = b"T";

/// The report that there is no transaction.
const NO_TRANSACTION: &[u8] = b"________";

/// The flag for new columns is for a client that knows others, whatever the server has sent to whom.
fn with_new_columns(status: Status, differs: bool) -> Status {
    match differs {
        true => status.union(Status::METADATA_CHANGED),
        false => status.without(Status::METADATA_CHANGED),
    }
}

fn first_number(info: &[u8]) -> Option<u64> {
    let mut numbers = info.split(|byte| !byte.is_ascii_digit()).filter(|number| !number.is_empty());
    std::str::from_utf8(numbers.next()?).ok()?.parse().ok()
}

/// Writes a packet's payload.
type Encode<'a> = dyn Fn(&mut Vec<u8>) + 'a;
