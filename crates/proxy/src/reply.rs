//! Answers that Narrows itself gives.

use narrows_wire::codec::{put_lenenc_bytes, put_lenenc_int};
use narrows_wire::frame::{put_encoded, put_packet};
use narrows_wire::packet::{Eof, Err, Ok};
use narrows_wire::{Capabilities, Errno, Status};

/// Appends an ERR packet.
pub fn put_error(out: &mut Vec<u8>, sequence: &mut u8, errno: Errno, text: &str) {
    // A client's buffer for messages has 512 bytes (manual: MYSQL_ERRMSG_SIZE); longer ones are truncated there.
    let error = Err { code: errno.number, sqlstate: Some(errno.sqlstate), message: text.as_bytes() };
    put_encoded(out, sequence, |out| error.encode(out));
}

/// A result set of one column and one row: an unsigned number as text.
pub fn single_value(name: &[u8], value: &[u8], capabilities: Capabilities, status: Status) -> Vec<u8> {
    let mut column = Vec::with_capacity(64);
    for text in [b"def".as_slice(), b"", b"", b"", name, b""] {
        put_lenenc_bytes(&mut column, text);
    }
    if capabilities.contains(Capabilities::MARIADB_EXTENDED_METADATA) {
        column.push(0);
    }
    // Fixed part (manual: "Column Definition"): charset binary, length, LONGLONG, UNSIGNED | BINARY.
    column.push(0x0C);
    column.extend(63_u16.to_le_bytes());
    column.extend(21_u32.to_le_bytes());
    column.push(0x08);
    column.extend(0x00A0_u16.to_le_bytes());
    column.extend([0, 0, 0]);
    let mut row = Vec::with_capacity(value.len() + 1);
    put_lenenc_bytes(&mut row, value);
    result_set(&[&column], &[&row], capabilities, status)
}

/// A result set of these column definitions and rows.
pub fn result_set(columns: &[&[u8]], rows: &[&[u8]], capabilities: Capabilities, status: Status) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let mut sequence = 1;
    let eof = Eof { warnings: 0, status };
    let deprecate_eof = capabilities.contains(Capabilities::DEPRECATE_EOF);
    put_encoded(&mut out, &mut sequence, |out| put_lenenc_int(out, columns.len() as u64));
    for column in columns {
        put_packet(&mut out, &mut sequence, column);
    }
    if !deprecate_eof {
        put_encoded(&mut out, &mut sequence, |out| eof.encode(out));
    }
    for row in rows {
        put_packet(&mut out, &mut sequence, row);
    }
    if deprecate_eof {
        let ok = Ok {
            header: Ok::END_OF_ROWS,
            affected_rows: 0,
            last_insert_id: 0,
            status,
            warnings: 0,
            info: b"",
            session_state: b"",
        };
        put_encoded(&mut out, &mut sequence, |out| ok.encode(out, capabilities));
    } else {
        put_encoded(&mut out, &mut sequence, |out| eof.encode(out));
    }
    out
}
