//! Where the answer to a statement ends, and how many rows it had.

use crate::codec::PacketEnd;

/// Follows one answer, packet by packet.
///
/// ```text
/// First --OK--> end        First --count--> Columns --n packets--> ColumnsEnd --EOF--> Rows --EOF/OK--> end
/// First --ERR-> refused                                  (with DEPRECATE_EOF straight to Rows)
/// ```
#[derive(Debug)]
pub struct Response {
    deprecate_eof: bool,
    stage: Stage,
    next_sequence: u8,
    rows: u64,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    First,
    Columns {
        left: u8,
    },
    ColumnsEnd,
    Rows,
    /// Nothing should follow.
    Over,
}

/// What a packet was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The answer continues.
    More,
    /// The answer continues; this was a row.
    Row,
    /// The last packet of an answer with that many rows.
    End(u64),
    /// The last packet of an answer: an error.
    Refused,
    /// Not what the protocol allows here.
    Broken,
}

impl Response {
    /// Expects the answer to a command.
    pub fn new(deprecate_eof: bool) -> Response {
        Response { deprecate_eof, stage: Stage::First, next_sequence: 1, rows: 0 }
    }

    /// Takes the next packet.
    pub fn packet(&mut self, packet: PacketEnd) -> Step {
        if packet.sequence != self.next_sequence {
            return Step::Broken;
        }
        self.next_sequence = self.next_sequence.wrapping_add(1);
        let is_end = packet.first == 0xFE && packet.length < 9;
        match (self.stage, packet.first) {
            (Stage::Rows, _) if is_end => self.end(Step::End(self.rows)),
            (Stage::Rows | Stage::First, 0xFF) => self.end(Step::Refused),
            (Stage::Rows, _) => {
                self.rows += 1;
                Step::Row
            }
            (Stage::First, 0) => self.end(Step::End(0)),
            (Stage::First, columns @ 1..=250) if packet.length == 1 => {
                self.stage = Stage::Columns { left: columns };
                Step::More
            }
            (Stage::Columns { left: 1 }, _) => {
                self.stage = if self.deprecate_eof { Stage::Rows } else { Stage::ColumnsEnd };
                Step::More
            }
            (Stage::Columns { left }, _) => {
                self.stage = Stage::Columns { left: left - 1 };
                Step::More
            }
            (Stage::ColumnsEnd, _) if is_end => {
                self.stage = Stage::Rows;
                Step::More
            }
            (Stage::First | Stage::ColumnsEnd | Stage::Over, _) => Step::Broken,
        }
    }

    fn end(&mut self, step: Step) -> Step {
        self.stage = Stage::Over;
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(deprecate_eof: bool, packets: &[(usize, u8)]) -> Vec<Step> {
        let mut response = Response::new(deprecate_eof);
        let packets = packets.iter().zip(1u8..);
        packets
            .map(|(&(length, first), sequence)| response.packet(PacketEnd { length, sequence, first }))
            .collect()
    }

    #[test]
    fn counts_rows_in_both_forms() {
        use Step::{End, More, Row};
        let classic = [(1, 2), (30, 3), (30, 3), (5, 0xFE), (9, 8), (9, 0xFE), (5, 0xFE)];
        assert_eq!(steps(false, &classic), [More, More, More, More, Row, Row, End(2)]);
        let deprecated = [(1, 2), (30, 3), (30, 3), (9, 8), (7, 0xFE)];
        assert_eq!(steps(true, &deprecated), [More, More, More, Row, End(1)]);
    }

    #[test]
    fn ends_at_ok_and_at_errors() {
        assert_eq!(steps(false, &[(7, 0)]), [Step::End(0)]);
        assert_eq!(steps(false, &[(20, 0xFF)]), [Step::Refused]);
        assert_eq!(steps(true, &[(1, 1), (30, 3), (20, 0xFF)]), [Step::More, Step::More, Step::Refused]);
    }

    #[test]
    fn rejects_what_does_not_belong_there() {
        assert_eq!(steps(false, &[(1, 1), (30, 3), (9, 8)]), [Step::More, Step::More, Step::Broken]);
        assert_eq!(steps(true, &[(7, 0), (7, 0)]), [Step::End(0), Step::Broken]);
        let mut response = Response::new(true);
        assert_eq!(response.packet(PacketEnd { length: 7, sequence: 2, first: 0 }), Step::Broken);
    }
}
