//! Examines the bytes that pass: whether a client changes its user, or sends a file that no statement named.

use narrows_sql::{Flags, Statement};
use narrows_wire::frame::{HEADER_LENGTH, MAX_PAYLOAD};
use narrows_wire::query::attributes_length;
use narrows_wire::{Capabilities, Command, Header};

use super::super::outcome::may_load_a_file;

/// What must not reach a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forbidden {
    /// `COM_CHANGE_USER`.
    ChangeUser,
    /// A file, or its first packet, though the client's command does not load one.
    File {
        /// Its sequence number.
        sequence: u8,
    },
}

/// Finds the commands in a client's bytes. A packet that neither begins a command nor continues a long one belongs to a
/// file that the server has asked for.
#[derive(Debug)]
pub(super) struct Commands {
    /// Bytes of the header that is being read.
    header: [u8; HEADER_LENGTH],
    held: usize,
    /// Bytes of its payload that are still to come.
    left: usize,
    /// The sequence number of the last packet, if it belongs to a file or a long command that the next one may continue.
    before: Option<u8>,
    /// The last packet of a command had the maximum length, so the next one continues it.
    is_long: bool,
    /// The next byte is the first one of a command.
    begins: bool,
    /// The command may load a file of the client.
    loads: bool,
    /// A prepared statement may load a file of the client.
    prepared_loads: bool,
    /// Texts have query attributes before them.
    has_attributes: bool,
    /// A text may have several statements.
    has_several: bool,
}

impl Commands {
    pub(super) fn new(capabilities: Capabilities) -> Commands {
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

    /// The server has sent something: the client's next packet continues its sequence numbers, or is a command.
    pub(super) fn is_answered(&mut self) {
        if self.left == 0 && self.held == 0 {
            self.before = None;
        }
    }

    /// Examines these bytes; returns what must not reach the server, if they have it. `may_load`: commands may load files.
    /// `may_hide`: what looks like a command may be a file.
    pub(super) fn follow(&mut self, mut bytes: &[u8], may_load: bool, may_hide: bool) -> Option<Forbidden> {
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

    /// A header is complete; returns its sequence number if it begins a file that no command loads.
    fn packet(&mut self, may_hide: bool) -> Option<u8> {
        let header = Header::decode(&self.header)?;
        // Sequence numbers wrap after 255, in a file, and in a command of 4 GiB.
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

    /// Whether a command may make the server ask for a file. Only the part of a long command that has arrived is examined.
    fn may_load_a_file(&mut self, command: &[u8], whole: bool) -> bool {
        let Some((code, argument)) = command.split_first() else { return false };
        match Command::from_code(*code) {
            Some(Command::Query) => {
                let attributes = if self.has_attributes { attributes_length(argument) } else { Ok(0) };
                // JsonColumn that are incomplete or malformed hide the text.
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
        // The rest of the text does not change what the statement is, but it may have other statements.
        let known = Statement { flags: statement.flags.without(Flags::UNTERMINATED), ..statement };
        self.has_several || looked_at.len() < LOOKED_AT || may_load_a_file(&known)
    }
}

/// Bytes of a statement that suffice to classify it.
const LOOKED_AT: usize = 1024;

/// The last packets of a server's answer, by their headers and first bytes.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The header that is being read, and the byte that follows it.
    head: [u8; HEADER_LENGTH + 1],
    held: usize,
    /// Bytes of the packet that are still to come.
    left: usize,
    /// The last packet that has begun, and the one before it; `None`: it is the client's.
    last: Option<Packet>,
    before: Option<Packet>,
}

/// What is known about a packet.
#[derive(Debug, Clone, Copy)]
struct Packet {
    sequence: u8,
    /// Its first byte; 0 if it is empty.
    first: u8,
}

impl Answers {
    /// Whether the client may take the last packet for a request for a file, and send one that looks like a command, because
    /// the sequence number after 255 is 0. Such a request is where a result begins: first, or after an OK or EOF packet.
    pub(super) fn may_hide_a_file(&self) -> bool {
        let asks = self.last.is_some_and(|last| last.sequence == u8::MAX && last.first == 0xFB);
        asks && self.before.is_none_or(|before| matches!(before.first, 0 | 0xFE))
    }

    /// The client has sent something: the next packet is the answer to that.
    pub(super) fn client_speaks(&mut self) {
        if self.left == 0 && self.held == 0 {
            (self.last, self.before) = (None, None);
        }
    }

    pub(super) fn follow(&mut self, mut bytes: &[u8]) {
        loop {
            if self.left > 0 {
                let step = self.left.min(bytes.len());
                self.left -= step;
                bytes = bytes.get(step..).unwrap_or_default();
            }
            // The usual case: all of the head has arrived.
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

    /// Notes the packet whose head is at the front of `bytes`; returns the bytes that follow the head.
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
        // The end of a file, followed by a command.
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
        // Any of the prepared statements may be the one executed.
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
