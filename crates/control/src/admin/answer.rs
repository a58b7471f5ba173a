//! Answers on the wire: result sets whose columns are all text, OK and ERR packets.

use std::time::Duration;

use narrows_proxy::packets::ReadError;
use narrows_proxy::reply::put_error;
use narrows_proxy::rt::timeout;
use narrows_proxy::stream::Stream;
use narrows_wire::codec::{put_lenenc_bytes, put_lenenc_int};
use narrows_wire::frame::{MAX_PAYLOAD, put_encoded, put_packet};
use narrows_wire::packet::{Eof, Ok};
use narrows_wire::{Capabilities, Errno, Header, Status};

use crate::store::{Refusal, ResultSet, rows_of};

/// The status flags of every answer: there are no transactions, and a backslash is an ordinary character in SQLite,
/// which determines how drivers quote.
pub const STATUS: Status = Status::AUTOCOMMIT.union(Status::NO_BACKSLASH_ESCAPES);

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
pub fn put_eof(out: &mut Vec<u8>, sequence: &mut u8, warnings: usize) {
    let warnings = u16::try_from(warnings).unwrap_or(u16::MAX);
    put_encoded(out, sequence, |out| Eof { warnings, status: STATUS }.encode(out));
}

/// Sends rows, and frees their memory as the client reads them. Gives up on a client that reads nothing for a while.
///
/// # Errors
/// The socket's error, or a timeout if the client reads nothing.
pub async fn send_rows(stream: &Stream, mut set: ResultSet) -> Result<(), ReadError> {
    let (mut out, mut sequence) = (Vec::new(), 1);
    put_columns(&mut out, &mut sequence, &set.columns);
    while let Some(piece) = set.rows.take_piece() {
        for row in rows_of(&piece) {
            if row.len() < WRITTEN_AT_ONCE {
                put_packet(&mut out, &mut sequence, row);
            } else {
                send_long_row(stream, &mut out, &mut sequence, row).await?;
            }
            if out.len() >= WRITTEN_AT_ONCE {
                send(stream, &mut out).await?;
            }
        }
    }
    put_eof(&mut out, &mut sequence, set.warnings.len());
    send(stream, &mut out).await
}

/// Sends a row without copying all of it.
async fn send_long_row(
    stream: &Stream,
    out: &mut Vec<u8>,
    sequence: &mut u8,
    row: &[u8],
) -> Result<(), ReadError> {
    // A full packet is followed by another one, which may be empty.
    for start in (0..=row.len()).step_by(MAX_PAYLOAD) {
        let rest = row.get(start..).unwrap_or_default();
        let packet = rest.get(..MAX_PAYLOAD).unwrap_or(rest);
        out.extend(Header { length: packet.len(), sequence: *sequence }.encode());
        *sequence = sequence.wrapping_add(1);
        for part in packet.chunks(WRITTEN_AT_ONCE) {
            out.extend_from_slice(part);
            send(stream, out).await?;
        }
    }
    Ok(())
}

/// Writes everything in `out` to the socket.
async fn send(stream: &Stream, out: &mut Vec<u8>) -> Result<(), ReadError> {
    match timeout(PROGRESS_TIME, stream.write_all(out)).await {
        Ok(written) => written?,
        Err(_) => return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
    }
    out.clear();
    Ok(())
}

fn put_columns(out: &mut Vec<u8>, sequence: &mut u8, columns: &[String]) {
    put_encoded(out, sequence, |out| put_lenenc_int(out, columns.len() as u64));
    let mut payload = Vec::new();
    for name in columns {
        payload.clear();
        put_column(&mut payload, name.as_bytes());
        put_packet(out, sequence, &payload);
    }
    put_eof(out, sequence, 0);
}

/// A text column, with the values that ProxySQL uses for all its columns.
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

/// The number of bytes written at once.
const WRITTEN_AT_ONCE: usize = 256 * 1024;

/// How long a client may take to read that many bytes, like a server's `net_write_timeout`.
const PROGRESS_TIME: Duration = Duration::from_secs(60);
