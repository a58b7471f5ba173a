//! One result set in wire format, stored once for clients of both forms.
//!
//! It is stored as a client with `CLIENT_DEPRECATE_EOF` receives it, without the final packet, which describes the
//! requesting session. For other clients an EOF packet is inserted after the columns, and the rows after it are
//! renumbered.

use narrows_wire::charset::Family;
use narrows_wire::frame::{HEADER_LENGTH, put_encoded};
use narrows_wire::packet::{Eof, Ok as OkPacket};
use narrows_wire::response::{Expect, Next};
use narrows_wire::{Capabilities, Status, Tracker};

/// A result set.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The count of columns, their definitions, and the rows.
    packets: Box<[u8]>,
    /// The length of the packets before the rows.
    head: usize,
    /// Sequence number of the packet after the columns, and of the one after the rows.
    behind_head: u8,
    behind_rows: u8,
    rows: u64,
    /// The server's status flags about the statement, without those about its session.
    status: Status,
    /// The server's family.
    family: Family,
}

impl Answer {
    /// The answer that was sent to a client, in the form given by `capabilities`; `None` if it is not a single result
    /// set, or has changed something.
    pub fn of_packets(mut packets: Vec<u8>, capabilities: Capabilities, family: Family) -> Option<Answer> {
        let deprecates_eof = capabilities.contains(Capabilities::DEPRECATE_EOF);
        let mut tracker = Tracker::new(Expect::Result, deprecates_eof);
        let (mut at, mut head) = (0, None);
        let (status, behind_rows) = loop {
            let walk = tracker.walk(packets.get_mut(at..)?).ok()?;
            at += walk.passed;
            match walk.next {
                Next::ColumnsEnd { length: 0 } => head = Some((at, tracker.sequence().wrapping_add(1))),
                Next::ColumnsEnd { length } => {
                    head = Some((at, tracker.sequence()));
                    packets.drain(at..at + length);
                    tracker.add_shift(u8::MAX);
                }
                Next::Ok { length } | Next::Eof { length } => {
                    let payload = packets.get(at..at + length)?.get(HEADER_LENGTH..)?;
                    let status = match deprecates_eof {
                        true => OkPacket::decode(payload, capabilities).ok()?.status,
                        false => Eof::decode(payload).ok()?.status,
                    };
                    break (status, tracker.sequence());
                }
                _ => return None,
            }
        };
        let (head, behind_head) = head?;
        let changes = [
            Status::MORE_RESULTS_EXISTS,
            Status::SESSION_STATE_CHANGED,
            Status::IN_TRANS,
            Status::CURSOR_EXISTS,
        ];
        if changes.iter().any(|flag| status.contains(*flag)) || !tracker.is_done() {
            return None;
        }
        packets.truncate(at);
        let status = status.without(status.of_session()).without(Status::METADATA_CHANGED);
        let (packets, rows) = (packets.into_boxed_slice(), tracker.rows());
        Some(Answer { packets, head, behind_head, behind_rows, rows, status, family })
    }

    /// The size of its packets in bytes.
    pub fn bytes(&self) -> usize {
        self.packets.len()
    }

    /// The number of its rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The server's family.
    pub fn family(&self) -> Family {
        self.family
    }
}

/// An answer on its way to a client, piece by piece.
#[derive(Debug)]
pub struct Replay {
    capabilities: Capabilities,
    status: Status,
    /// The number of bytes already sent.
    at: usize,
    /// Renumbers the rows for clients that receive an EOF packet before them.
    rows: Tracker,
}

impl Replay {
    /// Starts sending to a client with these capabilities, in a session with this status.
    pub fn new(answer: &Answer, capabilities: Capabilities, session: Status) -> Replay {
        let mut rows = Tracker::new(Expect::Rows, true);
        rows.add_shift(1);
        Replay { capabilities, status: answer.status.union(session.of_session()), at: 0, rows }
    }

    /// Appends the next piece; returns whether there is more.
    pub fn put(&mut self, answer: &Answer, out: &mut Vec<u8>) -> bool {
        let deprecates_eof = self.capabilities.contains(Capabilities::DEPRECATE_EOF);
        let until = answer.packets.len().min(self.at.max(answer.head) + PIECE);
        out.reserve(until - self.at + ENDS);
        if self.at == 0 {
            out.extend_from_slice(answer.packets.get(..answer.head).unwrap_or_default());
            if !deprecates_eof {
                self.put_eof(answer.behind_head, out);
            }
            self.at = answer.head;
        }
        let start = out.len();
        out.extend_from_slice(answer.packets.get(self.at..until).unwrap_or_default());
        if !deprecates_eof && let Some(rows) = out.get_mut(start..) {
            // A header that is split by the end of the piece is left for the next piece.
            let whole = self.rows.walk(rows).map_or(rows.len(), |walk| walk.passed);
            out.truncate(start + whole);
        }
        self.at += out.len() - start;
        if self.at < answer.packets.len() {
            return true;
        }
        if deprecates_eof {
            self.put_ok(answer.behind_rows, out);
        } else {
            self.put_eof(answer.behind_rows.wrapping_add(1), out);
        }
        false
    }

    fn put_eof(&self, mut sequence: u8, out: &mut Vec<u8>) {
        let eof = Eof { warnings: 0, status: self.status };
        put_encoded(out, &mut sequence, |out| eof.encode(out));
    }

    fn put_ok(&self, mut sequence: u8, out: &mut Vec<u8>) {
        let ok = OkPacket {
            header: OkPacket::END_OF_ROWS,
            affected_rows: 0,
            last_insert_id: 0,
            status: self.status,
            warnings: 0,
            info: b"",
            session_state: b"",
        };
        put_encoded(out, &mut sequence, |out| ok.encode(out, self.capabilities));
    }
}

/// How many bytes of rows are appended at once, so that a client that does not read needs no more memory.
const PIECE: usize = 64 * 1024;

/// The size of the packets that end columns and rows.
const ENDS: usize = 32;

#[cfg(test)]
mod tests {
    use narrows_wire::frame::put_packet;

    use super::*;

    const SESSION: Status = Status::AUTOCOMMIT;
    /// The status flag of a statement that used no index.
    const NO_INDEX: Status = Status(0x0020);

    fn capabilities(deprecates_eof: bool) -> Capabilities {
        if deprecates_eof { Capabilities::DEPRECATE_EOF } else { Capabilities::default() }
    }

    /// A result set as a server sends it to a client of that form.
    fn result_set(rows: &[Vec<u8>], deprecates_eof: bool, status: Status) -> Vec<u8> {
        let mut out = Vec::new();
        let mut sequence = 1;
        put_packet(&mut out, &mut sequence, &[2]);
        put_packet(&mut out, &mut sequence, b"one definition");
        put_packet(&mut out, &mut sequence, b"and another");
        let replay = Replay {
            capabilities: capabilities(deprecates_eof),
            status,
            at: 0,
            rows: Tracker::new(Expect::Rows, true),
        };
        if !deprecates_eof {
            replay.put_eof(sequence, &mut out);
            sequence += 1;
        }
        for row in rows {
            put_packet(&mut out, &mut sequence, row);
        }
        if deprecates_eof {
            replay.put_ok(sequence, &mut out)
        } else {
            replay.put_eof(sequence, &mut out)
        }
        out
    }

    fn kept(rows: &[Vec<u8>], deprecates_eof: bool) -> Answer {
        let packets = result_set(rows, deprecates_eof, SESSION.union(NO_INDEX));
        Answer::of_packets(packets, capabilities(deprecates_eof), Family::MariaDb).expect("a result set")
    }

    fn replayed(answer: &Answer, deprecates_eof: bool, session: Status) -> Vec<u8> {
        let mut replay = Replay::new(answer, capabilities(deprecates_eof), session);
        let (mut all, mut pieces) = (Vec::new(), 1);
        loop {
            let mut piece = Vec::new();
            let more = replay.put(answer, &mut piece);
            assert!(piece.len() <= answer.head + PIECE + ENDS);
            all.append(&mut piece);
            if !more {
                return all;
            }
            pieces += 1;
            assert!(pieces < 10_000, "no end");
        }
    }

    #[test]
    fn every_form_gives_every_form() {
        let few: Vec<Vec<u8>> = vec![b"a".to_vec(), vec![0xFB], b"ccc".to_vec()];
        let many: Vec<Vec<u8>> = (0..20_000_usize).map(|number| vec![b'x'; 1 + number % 37]).collect();
        for rows in [&few, &many, &Vec::new()] {
            for from in [false, true] {
                let answer = kept(rows, from);
                assert_eq!((answer.rows(), answer.family()), (rows.len() as u64, Family::MariaDb));
                assert_eq!(answer, kept(rows, !from), "one form is kept");
                for to in [false, true] {
                    let expected = result_set(rows, to, SESSION.union(NO_INDEX));
                    assert!(
                        replayed(&answer, to, SESSION) == expected,
                        "{from} to {to}, {} rows",
                        rows.len()
                    );
                }
            }
        }
    }

    #[test]
    fn the_status_is_that_of_the_asking_session() {
        let rows = vec![b"a".to_vec()];
        let answer = kept(&rows, true);
        let session = Status::NO_BACKSLASH_ESCAPES.union(Status::AUTOCOMMIT);
        let expected = result_set(&rows, true, session.union(NO_INDEX));
        assert_eq!(replayed(&answer, true, session), expected);
    }

    #[test]
    fn what_is_no_single_result_set_is_not_kept() {
        let keep = |packets: Vec<u8>| Answer::of_packets(packets, capabilities(true), Family::MariaDb);
        let more = result_set(&[], true, Status::MORE_RESULTS_EXISTS);
        assert_eq!(keep(more), None);
        assert_eq!(keep(result_set(&[], true, Status::IN_TRANS)), None);
        let mut ok = Vec::new();
        put_packet(&mut ok, &mut 1, &[0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(keep(ok), None, "no result set");
        let mut cut = result_set(&[b"a".to_vec()], true, SESSION);
        cut.truncate(cut.len() - 3);
        assert_eq!(keep(cut), None);
        assert_eq!(keep(Vec::new()), None);
    }
}
