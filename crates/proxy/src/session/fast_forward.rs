//! Users with `fast_forward`: client and server are tied to each other with the client's first command, and bytes are
//! moved between them without rules, digests or sharing. A client of any user that asks for a binary log is served in the same
//! way from then on: it is a replica, or reads like one, and its answer has no end.
//!
//! Only headers and first bytes of packets are looked at, to keep two things from happening: that a client becomes another
//! user, and that a server that was not told to load a file gets one of the client's.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::pin;

use narrows_sql::{Flags, Statement};
use narrows_wire::frame::{HEADER_LENGTH, MAX_PAYLOAD};
use narrows_wire::query::attributes_length;
use narrows_wire::{Capabilities, Command, Errno, Header};

use super::relay::may_load_a_file;
use super::request::Request;
use super::transfer::{Client, FOREVER, Stop};
use super::{End, Interrupt, PinReason, Session};
use crate::buffer::{SMALL, Side};
use crate::pool::{Ask, Lease, LeaseError};
use crate::rt::{Instant, select, timeout};
use crate::stream::Stream;

impl Session {
    /// Serves a client of a `fast_forward` user whose first bytes are there, up to its end. `None`: its server cannot
    /// speak with it in the form it expects, so that the session must go on as any other.
    pub(super) async fn fast_forward(&mut self) -> Option<End> {
        if self.client.input.filled() == COM_QUIT {
            return Some(End::Quit);
        }
        let backend = match self.own_connection().await {
            Ok(backend) => backend,
            Err(end) => return Some(end),
        };
        let (server, client) = (backend.login.capabilities, self.client.capabilities);
        if server.intersection(VISIBLE) != client.intersection(VISIBLE) {
            let address = backend.login.server.address();
            tracing::warn!(
                id = self.handle.id,
                server = address,
                "no fast_forward: client and server speak the protocol in different forms"
            );
            return None;
        }
        Some(self.forward_bytes(backend, "Fast forward").await)
    }

    /// `COM_BINLOG_DUMP`, `COM_BINLOG_DUMP_GTID`, `COM_REGISTER_SLAVE`: what the client has set is on the server already, or
    /// is set there, and then bytes are moved up to the client's end.
    pub(super) async fn replicate(&mut self, request: &mut Request) -> Result<(), End> {
        if !request.whole {
            return self.unknown_command(request).await;
        }
        if let Some(kept) = self.client.stream.kept() {
            kept.forget();
        }
        self.handle.keep_pins(PinReason::default());
        let backend = match self.binding.pinned.take() {
            Some(pinned) if pinned.backend.is_alive() => pinned.backend,
            Some(_) => return Err(End::Told("backend connection lost".to_owned())),
            None => self.own_connection().await?,
        };
        let form = |capabilities: Capabilities| capabilities.contains(Capabilities::DEPRECATE_EOF);
        if form(backend.login.capabilities) != form(self.client.capabilities) {
            let address = backend.login.server.address();
            let text = format!(
                "{address} cannot send a binary log in the form of the protocol that this session uses"
            );
            self.reply_error(Errno::UNKNOWN_COM_ERROR, &text).await?;
            return Err(End::Told(text));
        }
        let user = &self.want.account.row.username;
        let server = backend.login.server.address();
        tracing::info!(id = self.handle.id, user, server, "a client reads the binary log");
        request.hand_over(&mut self.client.input);
        Err(self.forward_bytes(backend, "Binlog Dump").await)
    }

    /// A new connection in the client's state, with the client's own capabilities.
    async fn own_connection(&mut self) -> Result<Lease, End> {
        let snapshot = self.snapshot();
        let want = self.want.own(self.client.capabilities);
        let hostgroup = self.want.account.row.default_hostgroup;
        let ask = Ask {
            want: &want,
            state: &self.data.state,
            untouched: None,
            statement: None,
            instead_of: None,
            new: false,
            now: self.handle.since(),
        };
        let found = select! {
            biased;
            found = self.worker.pool.lease(&snapshot, hostgroup, ask) => found,
            end = self.must_end() => return Err(end),
        };
        let failed = match found {
            Ok(mut backend) => {
                let limit = snapshot.variables.connect_timeout_server_max;
                match backend.align(&self.data.state, true, None, limit).await {
                    Ok(()) => return Ok(backend),
                    Err(error) => (Errno::SERVER_LOST, error.to_string()),
                }
            }
            Err(LeaseError::Unavailable(text)) => (Errno::NO_SERVER_IN_TIME, text),
            Err(LeaseError::Refused(error)) => error.into_reply(),
        };
        self.reply_error(failed.0, &failed.1).await?;
        Err(End::Told(failed.1))
    }

    async fn forward_bytes(&mut self, backend: Lease, doing: &'static str) -> End {
        self.handle.has_backend(Some(backend.card()));
        self.handle.begins(doing, Instant::now());
        let ahead = std::mem::take(&mut self.client.input);
        let commands = RefCell::new(Commands::new(self.client.capabilities));
        let answers = RefCell::new(Answers::default());
        let forbidden = Cell::new(None);
        // Whether bytes of the client may go to the server.
        let may_go = |bytes: &[u8]| {
            let may_load = self.snapshot().variables.enable_load_data_local_infile;
            let found = commands.borrow_mut().follow(bytes, may_load, answers.borrow().may_hide_a_file());
            answers.borrow_mut().client_speaks();
            forbidden.set(found);
            found.is_none()
        };
        if !may_go(ahead.filled()) {
            return self.keep_from_server(forbidden.get()).await;
        }
        self.count_forwarded(&backend, (ahead.filled().len(), 0));
        let sent = self.write_to_server(&backend, ahead.filled()).await;
        self.worker.buffers.give_back(ahead);
        match sent {
            Ok(()) => {}
            Err(Stop::End(end)) => return end,
            Err(_) => return End::Told("the server closed the connection".to_owned()),
        }
        let awaits_answer = Cell::new(true);
        let end = {
            let mut to_server =
                pin!(self.pump(&self.client.stream, (&backend.stream, Side::Backend), |bytes| {
                    if !may_go(bytes) {
                        return Err(io::ErrorKind::PermissionDenied.into());
                    }
                    awaits_answer.set(bytes != COM_QUIT);
                    self.count_forwarded(&backend, (bytes.len(), 0));
                    Ok(())
                }));
            let mut to_client =
                pin!(self.pump(&backend.stream, (&self.client.stream, Side::Client), |bytes| {
                    awaits_answer.set(false);
                    commands.borrow_mut().is_answered();
                    answers.borrow_mut().follow(bytes);
                    self.count_forwarded(&backend, (0, bytes.len()));
                    Ok(())
                }));
            loop {
                select! {
                    biased;
                    moved = &mut to_server => match moved {
                        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                            break self.keep_from_server(forbidden.get()).await;
                        }
                        moved => break after(moved, End::Gone),
                    },
                    // The server has closed after COM_QUIT, or is gone: the client sees the same.
                    moved = &mut to_client => break after(moved, End::Quit),
                    reason = self.interrupted() => match reason {
                        Interrupt::KillQuery => drop(self.kill_statement(&backend)),
                        // What was killed has ended, or gives its answer.
                        Interrupt::KillTime if !awaits_answer.get() => self.go_on_after_kill(),
                        Interrupt::KillTime => {
                            self.note_ignored_kill(&backend);
                            break End::Told("killed, and its server does not end the statement".to_owned());
                        }
                        // A farewell would stand in the middle of an answer.
                        Interrupt::Shutdown => break End::Quit,
                        reason => break End::Interrupted(reason),
                    },
                }
            }
        };
        if awaits_answer.get() {
            self.abandon(backend);
        }
        end
    }

    /// Tells the client what its server does not get of it.
    async fn keep_from_server(&self, forbidden: Option<Forbidden>) -> End {
        let (sequence, errno, text) = match forbidden {
            // Its file began with the number after the server's question.
            Some(Forbidden::File { sequence }) => (
                sequence.wrapping_add(1),
                Errno { number: 1047, sqlstate: *b"HY000" },
                "Unsupported 'LOAD DATA LOCAL INFILE' command",
            ),
            // The server would let in whoever it knows, and not whom mysql_users has.
            _ => (
                1,
                Errno::NOT_ALLOWED_COMMAND,
                "COM_CHANGE_USER is not supported for users with fast_forward: connect again",
            ),
        };
        let told = self.send_error(sequence, errno, text).await;
        told.err().unwrap_or_else(|| match forbidden {
            Some(Forbidden::File { .. }) => {
                tracing::warn!(
                    id = self.handle.id,
                    "a server has asked for a file of a client with fast_forward, which it does not get"
                );
                End::Told("the server asked for a file of the client, which no statement named".to_owned())
            }
            _ => End::Told("COM_CHANGE_USER of a client with fast_forward".to_owned()),
        })
    }

    /// Writes to a side, which must take some bytes in a given time.
    async fn push(&self, to: &Stream, mut bytes: &[u8], side: Side) -> io::Result<()> {
        while !to.try_write_all(&mut bytes)? {
            let limit = match side {
                Side::Client => self.client_limit(Client::Takes, true),
                Side::Backend => self.snapshot().variables.transfer.stall_timeout_server,
            };
            let limit = if limit.is_zero() { FOREVER } else { limit };
            if let Ok(ready) = timeout(limit, to.writable()).await {
                ready?;
                continue;
            }
            let mut counters = self.worker.counters.borrow_mut();
            match side {
                Side::Client => counters.stalled_clients += 1,
                Side::Backend => counters.stalled_backends += 1,
            }
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Moves bytes one way until a side ends. Holds memory only while there are any.
    async fn pump(
        &self,
        from: &Stream,
        (to, side): (&Stream, Side),
        moves: impl Fn(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let buffers = &self.worker.buffers;
        let mut streaming = false;
        loop {
            from.readable().await?;
            let mut buffer =
                if streaming { buffers.large(Side::Backend) } else { buffers.small(Side::Client) };
            let read = match buffer.try_fill(from) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    buffers.give_back(buffer);
                    continue;
                }
                read => read?,
            };
            if read == 0 {
                return Ok(());
            }
            // A read that filled its buffer will be followed by more: larger reads cost less a row.
            streaming = buffer.room() == 0 || streaming && read > SMALL;
            self.set_idle_deadline(Instant::now());
            moves(buffer.filled())?;
            self.push(to, buffer.filled(), side).await?;
            buffers.give_back(buffer);
        }
    }
}

/// What must not reach a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forbidden {
    /// `COM_CHANGE_USER`.
    ChangeUser,
    /// A file, or its first packet, for which the client's command was none to load one.
    File {
        /// Its number.
        sequence: u8,
    },
}

/// Where the commands of a client begin in its bytes, and what else there is: a packet that neither begins a command nor goes on
/// with a long one is of a file that the server has asked for.
#[derive(Debug)]
struct Commands {
    /// Bytes of the header that is being read.
    header: [u8; HEADER_LENGTH],
    held: usize,
    /// Bytes of its payload that are still to come.
    left: usize,
    /// The last packet was one of a file, or of a long command, so that the next one may go on with it: its sequence number.
    before: Option<u8>,
    /// The last packet of a command was full: the next one goes on with it.
    is_long: bool,
    /// The next byte is that of a command.
    begins: bool,
    /// The command may have been one to load a file of the client.
    loads: bool,
    /// So may be a statement that was prepared.
    prepared_loads: bool,
    /// Query attributes stand in front of texts.
    has_attributes: bool,
    /// A text may have several statements.
    has_several: bool,
}

impl Commands {
    fn new(capabilities: Capabilities) -> Commands {
        Commands {
            header: [0; HEADER_LENGTH],
            held: 0,
            left: 0,
            before: None,
            is_long: false,
            begins: false,
            loads: false,
            prepared_loads: false,
            has_attributes: capabilities.contains(Capabilities::QUERY_ATTRIBUTES),
            has_several: capabilities.contains(Capabilities::MULTI_STATEMENTS),
        }
    }

    /// The server has said something: what comes next begins with its sequence number, or is a command.
    fn is_answered(&mut self) {
        if self.left == 0 && self.held == 0 {
            self.before = None;
        }
    }

    /// Goes on with these bytes; what there is among them that must not reach the server. `may_load`: files may be loaded
    /// where a command says so. `may_hide`: what looks like a command may be a file.
    fn follow(&mut self, mut bytes: &[u8], may_load: bool, may_hide: bool) -> Option<Forbidden> {
        while let [first, rest @ ..] = bytes {
            if self.left > 0 {
                let step = self.left.min(bytes.len());
                let (now, later) = bytes.split_at_checked(step).unwrap_or_default();
                if std::mem::take(&mut self.begins) {
                    if *first == Command::ChangeUser.code() {
                        return Some(Forbidden::ChangeUser);
                    }
                    let whole = step == self.left && !self.is_long;
                    self.loads = may_load && self.may_load_a_file(now, whole);
                }
                self.left -= step;
                bytes = later;
                continue;
            }
            if let Some(place) = self.header.get_mut(self.held) {
                *place = *first;
            }
            self.held += 1;
            bytes = rest;
            if self.held == HEADER_LENGTH {
                self.held = 0;
                if let Some(sequence) = self.packet(may_hide) {
                    return Some(Forbidden::File { sequence });
                }
            }
        }
        None
    }

    /// A header is complete; its number, if it is the beginning of a file that no command was to load.
    fn packet(&mut self, may_hide: bool) -> Option<u8> {
        let header = Header::decode(&self.header)?;
        // Numbers begin again after 255: with a file, and with a command of 4 GiB.
        let goes_on = header.sequence != 0 || self.before == Some(u8::MAX);
        if !self.loads && !self.is_long && (goes_on || may_hide) {
            return Some(header.sequence);
        }
        self.begins = !goes_on;
        self.left = header.length;
        self.is_long = (self.begins || self.is_long) && header.length == MAX_PAYLOAD;
        // An empty packet ends a file.
        self.before = (header.length > 0).then_some(header.sequence);
        None
    }

    /// Whether a command may make the server ask for a file. Of a long one only what is here is looked at.
    fn may_load_a_file(&mut self, command: &[u8], whole: bool) -> bool {
        let Some((code, argument)) = command.split_first() else { return false };
        match Command::from_code(*code) {
            Some(Command::Query) => {
                let attributes = if self.has_attributes { attributes_length(argument) } else { Ok(0) };
                // Attributes that are not all here, or that cannot be read, hide the text.
                attributes
                    .map_or(true, |length| self.says_so(argument.get(length..).unwrap_or_default(), whole))
            }
            Some(Command::StmtPrepare) => {
                self.prepared_loads |= self.says_so(argument, whole);
                false
            }
            Some(Command::StmtExecute | Command::StmtBulkExecute) => self.prepared_loads,
            _ => false,
        }
    }

    fn says_so(&self, text: &[u8], whole: bool) -> bool {
        let looked_at = text.get(..LOOKED_AT).unwrap_or(text);
        let statement = narrows_sql::classify(looked_at);
        if whole && looked_at.len() == text.len() {
            return may_load_a_file(&statement);
        }
        // How it goes on says nothing of what it is, but that it may be several.
        let known = Statement { flags: statement.flags.without(Flags::UNTERMINATED), ..statement };
        self.has_several || looked_at.len() < LOOKED_AT || may_load_a_file(&known)
    }
}

/// Bytes of a statement that say what it is.
const LOOKED_AT: usize = 1024;

/// The last packets of a server's answer, by their headers and first bytes.
#[derive(Debug, Default)]
struct Answers {
    /// The header that is being read, and the byte after it.
    head: [u8; HEADER_LENGTH + 1],
    held: usize,
    /// Bytes of the packet that are still to come.
    left: usize,
    /// The last packet that has begun, and the one before it; `None`: the client's.
    last: Option<Packet>,
    before: Option<Packet>,
}

/// What is known of a packet.
#[derive(Debug, Clone, Copy)]
struct Packet {
    sequence: u8,
    /// Its first byte; 0 of an empty one.
    first: u8,
}

impl Answers {
    /// Whether the client may take the last packet for a question for a file, and answer with one that looks like a command: the
    /// number after 255 is 0. Such a question stands where a result begins: first of all, or after an OK or EOF packet.
    fn may_hide_a_file(&self) -> bool {
        let asks = self.last.is_some_and(|last| last.sequence == u8::MAX && last.first == 0xFB);
        asks && self.before.is_none_or(|before| matches!(before.first, 0 | 0xFE))
    }

    /// What comes next is the answer to something else.
    fn client_speaks(&mut self) {
        if self.left == 0 && self.held == 0 {
            (self.last, self.before) = (None, None);
        }
    }

    fn follow(&mut self, mut bytes: &[u8]) {
        loop {
            if self.left > 0 {
                let step = self.left.min(bytes.len());
                self.left -= step;
                bytes = bytes.get(step..).unwrap_or_default();
            }
            // The plain case: all of the head is here.
            if self.held == 0
                && let Some(head) = bytes.first_chunk()
            {
                bytes = self.begins(*head, bytes);
                continue;
            }
            let Some((first, rest)) = bytes.split_first() else { return };
            if let Some(place) = self.head.get_mut(self.held) {
                *place = *first;
            }
            self.held += 1;
            bytes = rest;
            let is_empty = self.held == HEADER_LENGTH && self.head.starts_with(&[0, 0, 0]);
            if is_empty || self.held == HEADER_LENGTH + 1 {
                self.held = 0;
                if is_empty {
                    self.head = [0, 0, 0, self.head[HEADER_LENGTH - 1], 0];
                }
                self.note(self.head);
            }
        }
    }

    /// A packet whose head stands at the front of `bytes`; returns what comes after the head.
    #[inline]
    fn begins<'b>(&mut self, head: [u8; HEADER_LENGTH + 1], bytes: &'b [u8]) -> &'b [u8] {
        let is_empty = head.starts_with(&[0, 0, 0]);
        self.note(head);
        bytes.get(HEADER_LENGTH + usize::from(!is_empty)..).unwrap_or_default()
    }

    #[inline]
    fn note(&mut self, head: [u8; HEADER_LENGTH + 1]) {
        let [a, b, c, sequence, first] = head;
        let length = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
        self.left = length.saturating_sub(1);
        self.before = self.last;
        self.last = Some(Packet { sequence, first: if length == 0 { 0 } else { first } });
    }
}

/// How a session ends one side of which has ended.
fn after(moved: io::Result<()>, end: End) -> End {
    match moved {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            End::Told("one side takes nothing for the time that the other gives it".to_owned())
        }
        _ => end,
    }
}

/// The packet by which a client takes its leave; no answer follows.
const COM_QUIT: &[u8] = &[1, 0, 0, 0, 1];

/// Capabilities that change what the bytes of an answer, or of a command, mean to the side that reads them.
const VISIBLE: Capabilities = Capabilities(
    Capabilities::DEPRECATE_EOF.0
        | Capabilities::SESSION_TRACK.0
        | Capabilities::QUERY_ATTRIBUTES.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::FOUND_ROWS.0
        | Capabilities::MULTI_STATEMENTS.0
        | Capabilities::MULTI_RESULTS.0
        | Capabilities::PS_MULTI_RESULTS.0
        | Capabilities::OPTIONAL_RESULTSET_METADATA.0
        | Capabilities::MARIADB_STMT_BULK_OPERATIONS.0
        | Capabilities::MARIADB_EXTENDED_METADATA.0,
);

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden(capabilities: Capabilities, may_load: bool, parts: &[&[u8]]) -> Option<Forbidden> {
        let mut commands = Commands::new(capabilities);
        parts.iter().find_map(|part| commands.follow(part, may_load, false))
    }

    fn found(parts: &[&[u8]]) -> bool {
        forbidden(Capabilities::default(), true, parts) == Some(Forbidden::ChangeUser)
    }

    /// A packet.
    fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
        [&Header { length: payload.len(), sequence }.encode()[..], payload].concat()
    }

    const LOAD: &[u8] = b"\x03LOAD DATA LOCAL INFILE 'f' INTO TABLE t";

    #[test]
    fn finds_a_change_of_the_user_wherever_it_begins() {
        assert!(found(&[b"\x05\0\0\0\x11user"]));
        assert!(found(&[b"\x01\0\0\0\x0E\x05\0\0\0\x11user"]));
        assert!(found(&[b"\x05", b"\0\0", b"\0", b"\x11", b"user"]));
        // The end of a file, and a command at once.
        let load = packet(0, LOAD);
        assert!(found(&[&load, b"\x01\0\0\xFFa\0\0\0\0\x02\0\0\0\x11a"]));
    }

    #[test]
    fn takes_nothing_else_for_one() {
        assert!(!found(&[b"\x05\0\0\0\x03\x11\0\0\0"]));
        let load = packet(0, LOAD);
        assert!(!found(&[&load, b"\x02\0\0\x02\x11a\0\0\0\x03"]));
        // The 257th packet of a file.
        assert!(!found(&[&load, b"\x01\0\0\xFFa\x02\0\0\0\x11a"]));
        let mut commands = Commands::new(Capabilities::default());
        assert_eq!(commands.follow(&load, true, false), None);
        assert_eq!(commands.follow(b"\x01\0\0\xFFa", true, false), None);
        commands.is_answered();
        assert_eq!(commands.follow(b"\x02\0\0\0\x11a", true, false), Some(Forbidden::ChangeUser));
    }

    #[test]
    fn a_file_is_for_commands_that_may_load_one() {
        let file = packet(2, b"a secret");
        let of = |command: &[u8], may_load, several: bool| {
            let capabilities = if several { Capabilities::MULTI_STATEMENTS } else { Capabilities::default() };
            let command = packet(0, command);
            forbidden(capabilities, may_load, &[&command, &file]).is_none()
        };
        let long = |text: &str| [b"\x03", text.as_bytes(), &[b' '; 5000]].concat();
        assert!(of(LOAD, true, false));
        assert!(!of(LOAD, false, false));
        assert!(of(b"\x03SELECT 1; LOAD DATA LOCAL INFILE 'f' INTO TABLE t", true, true));
        assert!(of(b"\x03CALL p()", true, false));
        assert!(!of(b"\x03SELECT 'LOAD DATA LOCAL INFILE'", true, true));
        assert!(!of(b"\x0E", true, true));
        assert!(of(&long("LOAD DATA LOCAL INFILE 'f' INTO TABLE t"), true, false));
        assert!(of(&long("SELECT 1"), true, true));
        assert!(!of(&long("SELECT 1"), true, false));
        assert!(!of(&long("LOAD DATA LOCAL INFILE 'f' INTO TABLE t"), false, false));
        // Of statements that were prepared any may be meant.
        let execute = packet(0, b"\x17\x01\0\0\0\0\x01\0\0\0");
        let prepare = |text: &str| packet(0, &[b"\x16", text.as_bytes()].concat());
        let runs = |text: &str| forbidden(Capabilities::default(), true, &[&prepare(text), &execute, &file]);
        assert_eq!(runs("LOAD DATA LOCAL INFILE 'f' INTO TABLE t"), None);
        assert_eq!(runs("SELECT 1"), Some(Forbidden::File { sequence: 2 }));
    }

    #[test]
    fn a_long_command_is_no_file() {
        let mut commands = Commands::new(Capabilities::default());
        let full = packet(0, &[b'x'; MAX_PAYLOAD]);
        for part in full.chunks(9_999) {
            assert_eq!(commands.follow(part, false, false), None);
        }
        assert_eq!(commands.follow(&packet(1, b"its end"), false, false), None);
        assert!(commands.follow(&packet(2, b"a secret"), false, false).is_some());
    }

    #[test]
    fn a_question_after_which_numbers_begin_again_is_noticed() {
        let ok = packet(254, b"\0\0\0\x08\0\0\0");
        let question = packet(255, b"\xFB/etc/passwd");
        let row = packet(254, b"\x01a");
        for (stream, asks) in [
            ([&ok[..], &question].concat(), true),
            (question.clone(), true),
            ([&row[..], &question].concat(), false),
            ([&question[..], &row].concat(), false),
            (ok.clone(), false),
            (packet(255, b""), false),
        ] {
            for size in 1..=stream.len() {
                let mut answers = Answers::default();
                stream.chunks(size).for_each(|part| answers.follow(part));
                assert_eq!(
                    answers.may_hide_a_file(),
                    asks,
                    "{}, {size} bytes at once",
                    stream.escape_ascii()
                );
                answers.client_speaks();
                assert!(!answers.may_hide_a_file());
            }
        }
        let mut commands = Commands::new(Capabilities::default());
        assert_eq!(commands.follow(&packet(0, b"\x0E"), true, false), None);
        assert_eq!(
            commands.follow(&packet(0, b"a secret"), true, true),
            Some(Forbidden::File { sequence: 0 })
        );
    }
}
