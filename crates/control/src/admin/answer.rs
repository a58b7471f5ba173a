//! Answers on the wire: result sets whose columns are all text, OK and ERR packets.

use narrows_proxy::reply::put_error;
use narrows_wire::codec::{put_lenenc_bytes, put_lenenc_int};
use narrows_wire::frame::{put_encoded, put_packet};
use narrows_wire::packet::{Eof, Ok};
use narrows_wire::{Capabilities, Errno, Status};

use crate::store::{Answer, Refusal, ResultSet};

/// What becomes of a statement.
#[derive(Debug)]
pub enum Reply {
    /// It was done.
    Answer(Answer),
    /// It was not.
    Refused(Refusal),
    /// Nothing can be said yet; it is to be asked again after a moment.
    NotYet,
    /// The connection is closed without a word.
    HangUp,
}

impl Reply {
    /// Done, and nothing to say.
    pub fn ok() -> Reply {
        Reply::done(0, "")
    }

    /// Done.
    pub fn done(affected: u64, info: &str) -> Reply {
        Reply::Answer(Answer::Done { affected, info: info.to_owned(), warnings: Vec::new() })
    }

    /// Rows of text.
    pub fn rows<C: Into<String>>(columns: impl IntoIterator<Item = C>, rows: Vec<Vec<String>>) -> Reply {
        let row = |row: Vec<String>| row.into_iter().map(|cell| Some(cell.into_bytes())).collect();
        Reply::Answer(Answer::Rows(ResultSet {
            columns: columns.into_iter().map(Into::into).collect(),
            rows: rows.into_iter().map(row).collect(),
        }))
    }

    /// An error of a command.
    pub fn error(text: impl std::fmt::Display) -> Reply {
        Reply::refused(1045, "28000", format!("ProxySQL Admin Error: {text}"))
    }

    /// Any error.
    pub fn refused(code: u16, sqlstate: &'static str, message: String) -> Reply {
        Reply::Refused(Refusal { code, sqlstate, message })
    }
}

impl From<Result<Answer, Refusal>> for Reply {
    fn from(result: Result<Answer, Refusal>) -> Reply {
        match result {
            Result::Ok(answer) => Reply::Answer(answer),
            Err(refusal) => Reply::Refused(refusal),
        }
    }
}

/// What every answer says of the session: there are no transactions, and a backslash is an ordinary character for
/// SQLite. Drivers quote by the latter.
pub const STATUS: Status = Status::AUTOCOMMIT.union(Status::NO_BACKSLASH_ESCAPES);

/// Appends an answer; its first packet has the number `sequence`.
pub fn put_answer(out: &mut Vec<u8>, mut sequence: u8, answer: &Answer, capabilities: Capabilities) {
    match answer {
        Answer::Rows(set) => put_rows(out, &mut sequence, set),
        Answer::Done { affected, info, warnings } => {
            put_ok(out, sequence, *affected, info, warnings.len(), capabilities);
        }
    }
}

/// Appends an OK packet.
pub fn put_ok(
    out: &mut Vec<u8>,
    mut sequence: u8,
    affected_rows: u64,
    info: &str,
    warnings: usize,
    capabilities: Capabilities,
) {
    let ok = Ok {
        header: Ok::HEADER,
        affected_rows,
        last_insert_id: 0,
        status: STATUS,
        warnings: u16::try_from(warnings).unwrap_or(u16::MAX),
        info: info.as_bytes(),
        session_state: b"",
    };
    put_encoded(out, &mut sequence, |out| ok.encode(out, capabilities));
}

/// Appends an ERR packet.
pub fn put_refusal(out: &mut Vec<u8>, mut sequence: u8, refusal: &Refusal) {
    let sqlstate = refusal.sqlstate.as_bytes().first_chunk().copied().unwrap_or(*b"HY000");
    put_error(out, &mut sequence, Errno { number: refusal.code, sqlstate }, &refusal.message);
}

/// The end of columns or rows.
pub fn put_eof(out: &mut Vec<u8>, sequence: &mut u8) {
    put_encoded(out, sequence, |out| Eof { warnings: 0, status: STATUS }.encode(out));
}

fn put_rows(out: &mut Vec<u8>, sequence: &mut u8, set: &ResultSet) {
    put_encoded(out, sequence, |out| put_lenenc_int(out, set.columns.len() as u64));
    let mut payload = Vec::new();
    for name in &set.columns {
        payload.clear();
        put_column(&mut payload, name.as_bytes());
        put_packet(out, sequence, &payload);
    }
    put_eof(out, sequence);
    for row in &set.rows {
        payload.clear();
        for cell in row {
            match cell {
                Some(bytes) => put_lenenc_bytes(&mut payload, bytes),
                None => payload.push(NULL),
            }
        }
        put_packet(out, sequence, &payload);
    }
    put_eof(out, sequence);
}

/// A column of text, with the figures that ProxySQL gives to all of its own.
fn put_column(payload: &mut Vec<u8>, name: &[u8]) {
    for text in [b"def".as_slice(), b"", b"", b"", name, b""] {
        put_lenenc_bytes(payload, text);
    }
    // Fixed part (manual: "Column Definition"): utf8_general_ci, length, VAR_STRING, NOT_NULL, decimals.
    payload.push(0x0C);
    payload.extend(33_u16.to_le_bytes());
    payload.extend(15_u32.to_le_bytes());
    payload.push(253);
    payload.extend(1_u16.to_le_bytes());
    payload.extend([31, 0, 0]);
}

/// In place of a cell's length (manual: "Text Resultset Row").
const NULL: u8 = 0xFB;
