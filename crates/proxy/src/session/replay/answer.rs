//! The checksum of an answer, as clients receive it: two servers have answered a statement alike if the checksums are equal.
//!
//! What differs between two connections to the same client is left out: sequence numbers, EOF packets that a capability
//! omits, status flags that say how a statement was executed (no index, slow), and the session's changes that a server reports
//! with an OK packet: which ones depends on the state of the connection before (MariaDB reports a variable that is set to the value
//! that it has), and Narrows knows the session's state by itself. Everything else counts: columns, rows and their order, rows
//! changed, ids, warnings, messages, errors, and the state of the transaction.

use std::hash::{DefaultHasher, Hasher};

use narrows_wire::frame::{HEADER_LENGTH, Header};
use narrows_wire::packet::{Eof, Err as ErrPacket, Ok as OkPacket};
use narrows_wire::response::Next;
use narrows_wire::{Capabilities, Malformed, Status};

/// A complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Answer {
    checksum: u64,
    /// The error that ended it; 0: none.
    error: u16,
    affected_rows: u64,
    insert_id: u64,
}

/// An answer while it is read.
#[derive(Debug, Default)]
pub(in super::super) struct Reading {
    hash: DefaultHasher,
    /// Bytes of the current packet of columns or rows that were not read yet.
    left: usize,
    /// What is known of the answer apart from its checksum, once a packet has ended a result.
    ended: Option<Ended>,
    is_unreadable: bool,
}

#[derive(Debug, Default)]
struct Ended {
    error: u16,
    affected_rows: u64,
    insert_id: u64,
}

impl Reading {
    /// Reads on: `passed` are packets of columns and rows, with headers, of which the last may continue; `next` follows them
    /// with this payload. `capabilities` are those of the connection.
    pub(in super::super) fn read(
        &mut self,
        passed: &[u8],
        next: Next,
        payload: &[u8],
        capabilities: Capabilities,
    ) {
        self.is_unreadable |=
            self.packets(passed).and_then(|()| self.packet(next, payload, capabilities)).is_err();
    }

    /// The answer, if all of it was read.
    pub(in super::super) fn end(self) -> Option<Answer> {
        let Ended { error, affected_rows, insert_id } = self.ended.filter(|_| !self.is_unreadable)?;
        Some(Answer { checksum: self.hash.finish(), error, affected_rows, insert_id })
    }

    fn packets(&mut self, mut rest: &[u8]) -> Result<(), Malformed> {
        while !rest.is_empty() {
            if self.left == 0 {
                let header = Header::decode(rest).ok_or(Malformed("a packet without its header"))?;
                self.left = header.length;
                self.number(header.length as u64);
                rest = rest.get(HEADER_LENGTH..).unwrap_or_default();
            }
            let (here, after) = rest.split_at(self.left.min(rest.len()));
            self.hash.write(here);
            self.left -= here.len();
            rest = after;
        }
        Ok(())
    }

    fn packet(&mut self, next: Next, payload: &[u8], capabilities: Capabilities) -> Result<(), Malformed> {
        let (status, warnings) = match next {
            Next::More { .. } | Next::ColumnsEnd { .. } => return Ok(()),
            Next::Ok { .. } => {
                let ok = OkPacket::decode(payload, capabilities)?;
                if ok.header != OkPacket::END_OF_ROWS {
                    self.done(&ok);
                }
                (ok.status, ok.warnings)
            }
            Next::Eof { .. } => {
                let eof = Eof::decode(payload)?;
                (eof.status, eof.warnings)
            }
            Next::Err { .. } => {
                let error = ErrPacket::decode(payload)?;
                self.number(error.code.into());
                self.bytes(&error.sqlstate.unwrap_or_default());
                self.bytes(error.message);
                self.ended.get_or_insert_default().error = error.code;
                return Ok(());
            }
            Next::LocalInfile { .. } | Next::PrepareOk { .. } | Next::Text { .. } => {
                return Err(Malformed("not the answer to a statement"));
            }
        };
        let more = if status.contains(Status::MORE_RESULTS_EXISTS) { 1 } else { 0 };
        self.number(u64::from(status.of_session().0) << 1 | more);
        self.number(warnings.into());
        self.ended.get_or_insert_default();
        Ok(())
    }

    /// An OK packet that is the answer to a statement without rows.
    fn done(&mut self, ok: &OkPacket<'_>) {
        self.number(ok.affected_rows);
        self.number(ok.last_insert_id);
        self.bytes(ok.info);
        let ended = self.ended.get_or_insert_default();
        ended.affected_rows += ok.affected_rows;
        ended.insert_id = ok.last_insert_id;
    }

    fn number(&mut self, number: u64) {
        self.hash.write(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.hash.write(bytes);
    }
}

impl Answer {
    /// The error that ended it; 0: none.
    pub(in super::super) fn error(&self) -> u16 {
        self.error
    }

    /// How this answer, to the same statement, differs from that which the client has received; `None`: they are equal.
    pub(super) fn differs_from(&self, received: &Answer) -> Option<String> {
        if self == received {
            return None;
        }
        Some(match (self.error, received.error) {
            (0, before) if before != 0 => format!("it does not fail with error {before} again"),
            (now, before) if now != before => format!("it fails with error {now}"),
            _ if self.insert_id != received.insert_id => {
                format!("its id is {}, and was {}", self.insert_id, received.insert_id)
            }
            _ if self.affected_rows != received.affected_rows => {
                format!("it changes {} rows, and did change {}", self.affected_rows, received.affected_rows)
            }
            _ => "its answer has other contents".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use narrows_wire::Tracker;
    use narrows_wire::frame::put_packet;
    use narrows_wire::response::Expect;

    use super::*;

    const MODERN: Capabilities = Capabilities(Capabilities::PROTOCOL_41.0 | Capabilities::DEPRECATE_EOF.0);

    /// Reads packets as they arrive, in pieces of this many bytes.
    fn read(packets: &[&[u8]], sequence: u8, (capabilities, piece): (Capabilities, usize)) -> Option<Answer> {
        let mut bytes = Vec::new();
        let mut sequence = sequence;
        packets.iter().for_each(|payload| put_packet(&mut bytes, &mut sequence, payload));
        let mut tracker = Tracker::new(Expect::Result, capabilities.contains(Capabilities::DEPRECATE_EOF));
        let (mut reading, mut held, mut arrived) = (Reading::default(), Vec::new(), bytes.chunks(piece));
        while !tracker.is_done() {
            let walk = tracker.walk(&mut held).unwrap();
            let length = walk.next.length();
            let (passed, rest) = held.split_at(walk.passed);
            reading.read(
                passed,
                walk.next,
                rest.get(HEADER_LENGTH..length).unwrap_or_default(),
                capabilities,
            );
            held.drain(..walk.passed + length);
            if let Next::More { .. } = walk.next {
                held.extend_from_slice(arrived.next()?);
            }
        }
        reading.end()
    }

    fn ok(affected: u8, id: u8, status: u8, warnings: u8) -> [u8; 7] {
        [0, affected, id, status, 0, warnings, 0]
    }

    fn rows(values: &[&[u8]], end: &[u8], columns_end: Option<&[u8]>) -> Vec<Vec<u8>> {
        let row = |value: &&[u8]| [&[value.len() as u8], *value].concat();
        let head = [vec![1], b"\x03def the column".to_vec()];
        let head = head.into_iter().chain(columns_end.map(<[u8]>::to_vec));
        head.chain(values.iter().map(row)).chain([end.to_vec()]).collect()
    }

    fn of(packets: &[Vec<u8>], sequence: u8, how: (Capabilities, usize)) -> Answer {
        let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        read(&packets, sequence, how).unwrap()
    }

    #[test]
    fn pieces_sequence_numbers_and_the_form_of_the_connection_make_no_difference() {
        let whole = rows(&[b"a", b"bb"], &[0xFE, 0, 0, 3, 0, 0, 0], None);
        let expected = of(&whole, 1, (MODERN, 4096));
        for piece in 1..40 {
            assert_eq!(of(&whole, 7, (MODERN, piece)), expected, "{piece}");
        }
        let eof = &[0xFE, 0, 0, 3, 0];
        let old = rows(&[b"a", b"bb"], eof, Some(eof));
        assert_eq!(of(&old, 1, (Capabilities::PROTOCOL_41, 5)), expected);
    }

    #[test]
    fn how_a_statement_was_executed_makes_no_difference() {
        let slow = rows(&[b"a"], &[0xFE, 0, 0, 3 | 0x20, 0x08, 0, 0], None);
        let fast = rows(&[b"a"], &[0xFE, 0, 0, 3, 0, 0, 0], None);
        assert_eq!(of(&slow, 1, (MODERN, 99)), of(&fast, 1, (MODERN, 99)));
    }

    #[test]
    fn reported_changes_of_the_session_make_no_difference() {
        // autocommit ON, a schema, and nothing; with the flag that something has changed, and without.
        let (changed, unchanged) = (0x40_u8, 0_u8);
        let variable: &[u8] = b"\x0F\x00\x0D\x0aautocommit\x02ON";
        let schema: &[u8] = b"\x06\x01\x04\x03db1";
        let with = |flag: u8, changes: &[u8]| {
            let head = [0, 0, 0, 3, flag, 0, 0, 0];
            let length = if flag == changed { vec![changes.len() as u8] } else { Vec::new() };
            vec![[&head[..], &length, changes].concat()]
        };
        let how = (Capabilities(MODERN.0 | Capabilities::SESSION_TRACK.0), 99);
        let plain = of(&with(unchanged, b""), 1, how);
        for changes in [variable, schema] {
            assert_eq!(of(&with(changed, changes), 1, how), plain);
        }
    }

    #[test]
    fn everything_that_a_client_sees_makes_a_difference() {
        let end: &[u8] = &[0xFE, 0, 0, 3, 0, 0, 0];
        let answers = [
            rows(&[b"a", b"b"], end, None),
            rows(&[b"b", b"a"], end, None),
            rows(&[b"ab"], end, None),
            rows(&[b"a", b"b"], &[0xFE, 0, 0, 2, 0, 0, 0], None),
            rows(&[b"a", b"b"], &[0xFE, 0, 0, 3, 0, 1, 0], None),
            vec![ok(1, 0, 3, 0).to_vec()],
            vec![ok(2, 0, 3, 0).to_vec()],
            vec![ok(1, 5, 3, 0).to_vec()],
            vec![ok(1, 0, 2, 0).to_vec()],
            vec![ok(1, 0, 3, 1).to_vec()],
            vec![b"\xFF\x26\x04#23000Duplicate entry '1'".to_vec()],
            vec![b"\xFF\x26\x04#23000Duplicate entry '2'".to_vec()],
            vec![b"\xFF\xBD\x04#40001Deadlock".to_vec()],
        ];
        let read: Vec<Answer> = answers.iter().map(|packets| of(packets, 1, (MODERN, 3))).collect();
        for (at, one) in read.iter().enumerate() {
            for (other_at, other) in read.iter().enumerate() {
                assert_eq!(one.differs_from(other).is_none(), at == other_at, "{at} {other_at}");
            }
        }
        assert_eq!(read[12].differs_from(&read[5]).as_deref(), Some("it fails with error 1213"));
        assert_eq!(
            read[5].differs_from(&read[10]).as_deref(),
            Some("it does not fail with error 1062 again")
        );
        assert_eq!(read[7].differs_from(&read[5]).as_deref(), Some("its id is 5, and was 0"));
        assert_eq!(read[6].differs_from(&read[5]).as_deref(), Some("it changes 2 rows, and did change 1"));
    }

    #[test]
    fn an_answer_that_was_cut_off_or_cannot_be_read_has_no_checksum() {
        assert_eq!(read(&[&[1], b"\x03def the column", b"\x01a"], 1, (MODERN, 5)), None);
        let mut reading = Reading::default();
        reading.read(&[], Next::Ok { length: 5 }, &[0], MODERN);
        assert_eq!(reading.end(), None);
        let mut reading = Reading::default();
        reading.read(&[], Next::LocalInfile { length: 5 }, &[0xFB, b'f'], MODERN);
        assert_eq!(reading.end(), None);
        assert_eq!(Reading::default().end(), None);
    }
}
