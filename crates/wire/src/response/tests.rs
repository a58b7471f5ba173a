//! Conversations: each packet of a response, annotated, and what the tracker must see in it.

use super::*;
use crate::frame::put_packet;

/// Packets with sequence numbers counted from 1.
fn response(payloads: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sequence = 1;
    for payload in payloads {
        put_packet(&mut out, &mut sequence, payload);
    }
    out
}

/// Feeds `bytes` in pieces of `piece` bytes, as a relay would; returns what was shown, and the skipped bytes.
fn feed(tracker: &mut Tracker, bytes: &[u8], piece: usize) -> (Vec<Next>, Vec<u8>) {
    let mut shown = Vec::new();
    let mut passed = Vec::new();
    let mut buffer = Vec::new();
    for chunk in bytes.chunks(piece) {
        buffer.extend_from_slice(chunk);
        loop {
            let walk = tracker.walk(&mut buffer).unwrap();
            passed.extend(buffer.drain(..walk.passed));
            match walk.next {
                Next::More { .. } => break,
                Next::ColumnsEnd { length }
                | Next::Ok { length }
                | Next::Eof { length }
                | Next::Err { length }
                | Next::LocalInfile { length }
                | Next::PrepareOk { length }
                | Next::Text { length } => drop(buffer.drain(..length)),
            }
            shown.push(walk.next);
            if tracker.is_done() {
                break;
            }
        }
    }
    (shown, passed)
}

const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
const OK_MORE: &[u8] = &[0, 0, 0, 10, 0, 0, 0];
const EOF: &[u8] = &[0xFE, 0, 0, 2, 0];
const EOF_MORE: &[u8] = &[0xFE, 0, 0, 10, 0];
const END_OF_ROWS: &[u8] = &[0xFE, 0, 0, 2, 0, 0, 0];
const COLUMN: &[u8] = b"\x03def definition";

#[test]
fn a_result_set_with_eof_packets_in_pieces_of_any_size() {
    let bytes = response(&[&[2], COLUMN, COLUMN, EOF, b"\x01a\x01b", b"\xfb\xfb", EOF]);
    for piece in 1..=bytes.len() {
        let mut tracker = Tracker::new(Expect::Result, false);
        let (shown, passed) = feed(&mut tracker, &bytes, piece);
        assert_eq!(shown, [Next::ColumnsEnd { length: 9 }, Next::Eof { length: 9 }], "piece {piece}");
        assert_eq!(passed.len(), bytes.len() - 18);
        assert!(tracker.is_done());
        assert_eq!(tracker.rows(), 2);
    }
}

#[test]
fn a_result_set_without_eof_packets() {
    let bytes = response(&[&[1], COLUMN, b"\x01a", END_OF_ROWS]);
    for piece in 1..=bytes.len() {
        let mut tracker = Tracker::new(Expect::Result, true);
        let (shown, _) = feed(&mut tracker, &bytes, piece);
        assert_eq!(shown, [Next::ColumnsEnd { length: 0 }, Next::Ok { length: 11 }]);
        assert!(tracker.is_done());
    }
}

#[test]
fn several_results_end_with_the_last() {
    let bytes = response(&[OK_MORE, &[1], COLUMN, EOF, b"\x01a", EOF_MORE, OK]);
    let mut tracker = Tracker::new(Expect::Result, false);
    let (shown, _) = feed(&mut tracker, &bytes, 5);
    let lengths = [
        Next::Ok { length: 11 },
        Next::ColumnsEnd { length: 9 },
        Next::Eof { length: 9 },
        Next::Ok { length: 11 },
    ];
    assert_eq!(shown, lengths);
    assert!(tracker.is_done());
}

#[test]
fn an_error_among_rows_ends_the_response() {
    let bytes =
        response(&[&[1], COLUMN, EOF, b"\x01a", b"\xff\x25\x05#70100Query execution was interrupted"]);
    let mut tracker = Tracker::new(Expect::Result, false);
    let (shown, _) = feed(&mut tracker, &bytes, 7);
    assert!(matches!(shown.last(), Some(Next::Err { .. })));
    assert!(tracker.is_done());
}

#[test]
fn a_row_of_sixteen_mebibytes_is_one_row() {
    let mut row = vec![0xFE];
    row.extend((20_u64 << 20).to_le_bytes());
    row.resize(9 + (20 << 20), b'x');
    let bytes = response(&[&[1], COLUMN, EOF, &row, EOF]);
    let mut tracker = Tracker::new(Expect::Result, false);
    let (shown, passed) = feed(&mut tracker, &bytes, 1 << 20);
    assert_eq!(shown.len(), 2);
    assert_eq!(tracker.rows(), 1);
    assert_eq!(passed.len(), bytes.len() - 18);
}

#[test]
fn the_answer_to_prepare_has_two_lists_of_definitions() {
    // PREPARE_OK: statement 1, one column, two parameters.
    let head: &[u8] = &[0, 1, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0];
    let bytes = response(&[head, COLUMN, COLUMN, EOF, COLUMN, EOF]);
    let mut tracker = Tracker::new(Expect::Prepare, false);
    let (shown, _) = feed(&mut tracker, &bytes, 3);
    let end = Next::ColumnsEnd { length: 9 };
    assert_eq!(shown, [Next::PrepareOk { length: 16 }, end, end]);
    assert!(tracker.is_done());

    let neither: &[u8] = &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut tracker = Tracker::new(Expect::Prepare, true);
    feed(&mut tracker, &response(&[neither]), 64);
    assert!(tracker.is_done());

    let bytes = response(&[head, COLUMN, COLUMN, COLUMN]);
    let mut tracker = Tracker::new(Expect::Prepare, true);
    let (shown, _) = feed(&mut tracker, &bytes, 64);
    assert_eq!(shown.len(), 3);
    assert!(tracker.is_done());
}

#[test]
fn an_opened_cursor_has_no_rows() {
    let bytes = response(&[&[1], COLUMN, &[0xFE, 0, 0, 0x42, 0]]);
    let mut tracker = Tracker::new(Expect::Cursor, false);
    let (shown, _) = feed(&mut tracker, &bytes, 64);
    assert_eq!(shown, [Next::Eof { length: 9 }]);
    assert!(tracker.is_done());
}

#[test]
fn shifts_sequence_numbers_in_place() {
    let mut bytes = response(&[&[1], COLUMN, b"\x01a", END_OF_ROWS]);
    let mut tracker = Tracker::new(Expect::Result, true);
    let walk = tracker.walk(&mut bytes).unwrap();
    assert_eq!(walk.next, Next::ColumnsEnd { length: 0 });
    tracker.add_shift(1);
    let mut rest = bytes.split_off(walk.passed);
    let walk = tracker.walk(&mut rest).unwrap();
    assert_eq!(walk.next, Next::Ok { length: 11 });
    assert_eq!(rest[3], 4, "the row was packet 3");
}

#[test]
fn the_local_file_request_leads_back_to_the_start() {
    let mut tracker = Tracker::new(Expect::Result, false);
    let (shown, _) = feed(&mut tracker, &response(&[b"\xfb/tmp/x"]), 64);
    assert_eq!(shown, [Next::LocalInfile { length: 11 }]);
    assert!(!tracker.is_done());
    feed(&mut tracker, &response(&[OK]), 64);
    assert!(tracker.is_done());
}

#[test]
fn refuses_bytes_behind_the_end() {
    let mut bytes = response(&[OK, OK]);
    let mut tracker = Tracker::new(Expect::Result, false);
    let Next::Ok { length } = tracker.walk(&mut bytes).unwrap().next else { panic!("an OK packet") };
    assert!(tracker.walk(&mut bytes[length..]).is_err());
}

#[test]
fn a_result_set_without_columns_is_refused() {
    // Zero in the longer form, because a zero byte would be an OK packet.
    let mut bytes = response(&[&[0xFC, 0, 0], COLUMN]);
    assert!(Tracker::new(Expect::Result, false).walk(&mut bytes).is_err());
}

#[test]
fn a_cursor_inside_a_procedure_hides_no_rows() {
    let bytes = response(&[&[1], COLUMN, &[0xFE, 0, 0, 0x4A, 0], b"\x01a", &[0xFE, 0, 0, 0x4A, 0], OK]);
    let mut tracker = Tracker::new(Expect::Result, false);
    feed(&mut tracker, &bytes, 64);
    assert!(tracker.is_done());
    assert_eq!(tracker.rows(), 1);
}

#[test]
fn out_parameters_announce_the_next_result_in_front_only() {
    let bytes = response(&[&[1], COLUMN, &[0xFE, 0, 0, 0x0A, 0x10], b"\x00\x00\x05\0\0\0", EOF, OK]);
    let mut tracker = Tracker::new(Expect::Result, false);
    let (shown, _) = feed(&mut tracker, &bytes, 64);
    assert_eq!(shown.last(), Some(&Next::Ok { length: 11 }));
    assert!(tracker.is_done());
}

#[test]
fn packets_are_numbered_anew_whatever_numbers_they_have() {
    let payloads: &[&[u8]] = &[&[1], COLUMN, EOF, b"\x01a", b"\x01b", EOF_MORE, b"\xfb/tmp/x"];
    for piece in [1, 3, 5, 1000] {
        let mut bytes = Vec::new();
        for (number, payload) in payloads.iter().enumerate() {
            put_packet(&mut bytes, &mut (number as u8).wrapping_mul(83), payload);
        }
        let mut tracker = Tracker::new(Expect::Result, false).numbered_from(254);
        let (shown, passed) = feed(&mut tracker, &bytes, piece);
        assert_eq!(shown.len(), 3, "the ends of the columns and of the rows, and the request");
        let count_and_definition = [passed[3], passed[3 + 5]];
        assert_eq!(count_and_definition, [254, 255]);
        let rows = &passed[passed.len() - 12..];
        assert_eq!([rows[3], rows[9]], [1, 2], "the end of the columns is 0");
        assert_eq!(tracker.sequence(), 4);
        // The file has the packets 5 to 7.
        tracker.continue_after(7);
        let mut answer = OK.to_vec();
        answer.splice(0..0, [7, 0, 0, 99]);
        assert_eq!(tracker.walk(&mut answer).unwrap().next, Next::Ok { length: 11 });
        assert_eq!((tracker.sequence(), tracker.shift().wrapping_add(99)), (8, 8));
    }
}
