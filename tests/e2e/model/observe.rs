//! What a client can see of an answer, as readable lines of text that can be compared.

use narrows_testkit::{Answer, Column, ErrorPacket, OkPacket, Packet, capability, reader};

/// The server used no good index, or none, or the statement was slow: this is about its plans, not about the session.
const ABOUT_PLANS: u16 = 16 | 32 | 2048;

/// An EOF packet has the flag, and cannot say what has changed.
const SESSION_STATE_CHANGED: u16 = 1 << 14;

/// The lines of an answer to `COM_QUERY`.
pub fn results(answer: &Answer, capabilities: u32) -> Vec<String> {
    lines_of(answer, capabilities, row)
}

/// The lines of an answer to `COM_STMT_EXECUTE`.
pub fn binary_results(answer: &Answer, capabilities: u32) -> Vec<String> {
    lines_of(answer, capabilities, |packet, _| format!("ROW {}", packet.payload.escape_ascii()))
}

/// The lines of an answer to `COM_STMT_PREPARE`.
pub fn prepared(answer: &Answer, capabilities: u32) -> Vec<String> {
    let Some(head) = answer.packets.first().filter(|_| answer.lost.is_none()) else {
        return vec!["LOST".to_owned()];
    };
    if let Some(error) = ErrorPacket::decode(&head.payload) {
        return vec![self::error(&error)];
    }
    let mut bytes = reader::Bytes::new(head.payload.get(5..).unwrap_or_default());
    let (columns, parameters) = (bytes.u16().unwrap_or(0), bytes.u16().unwrap_or(0));
    bytes.u8();
    let mut lines =
        vec![format!("PREPARED {columns} columns, {parameters} parameters, warnings={:?}", bytes.u16())];
    let ends = capabilities & capability::DEPRECATE_EOF == 0;
    let definitions = answer.packets.iter().skip(1);
    lines.extend(definitions.filter(|packet| !ends || packet.payload.len() > 5).map(column));
    lines
}

/// The id of a prepared statement.
pub fn statement_id(answer: &Answer) -> Option<u32> {
    let head = answer.packets.first().filter(|head| head.first() == 0)?;
    reader::Bytes::new(head.payload.get(1..)?).u32()
}

fn lines_of(answer: &Answer, capabilities: u32, row: impl Fn(&Packet, usize) -> String) -> Vec<String> {
    let deprecate_eof = capabilities & capability::DEPRECATE_EOF != 0;
    let mut lines = Vec::new();
    let mut packets = answer.packets.iter();
    while let Some(head) = packets.next() {
        if matches!(head.first(), 0 | 0xFF) {
            lines.push(single(head));
            continue;
        }
        let count = reader::Bytes::new(&head.payload).lenenc().unwrap_or(0) as usize;
        lines.extend(packets.by_ref().take(count).map(column));
        if !deprecate_eof {
            // Its flags are not known yet when Narrows creates it; see the differential test.
            packets.next();
        }
        for packet in packets.by_ref() {
            let end = packet.first() == 0xFE && packet.payload.len() < Packet::MAX;
            lines.push(match packet.first() {
                0xFF => single(packet),
                0xFE if end => row_end(packet, deprecate_eof),
                _ => row(packet, count),
            });
            if end || packet.first() == 0xFF {
                break;
            }
        }
    }
    if answer.lost.is_some() {
        lines.push("LOST".to_owned());
    }
    lines
}

/// The lines of a one-packet answer.
pub fn reply(answer: &Answer) -> Vec<String> {
    let mut lines: Vec<String> = answer.packets.iter().map(single).collect();
    if answer.lost.is_some() {
        lines.push("LOST".to_owned());
    }
    lines
}

/// The line for an error.
pub fn error(error: &ErrorPacket) -> String {
    match error.code {
        2013 => "LOST".to_owned(),
        // The text names the address that the server sees.
        1045 => "ERR 1045".to_owned(),
        _ => format!("ERR {} {} {}", error.code, error.state, error.message),
    }
}

/// The status flags at the end of the answer, if there are any.
pub fn last_status(lines: &[String]) -> Option<u16> {
    let line = lines.last()?;
    let (_, after) = line.split_once("status=")?;
    after.split(' ').next()?.parse().ok()
}

fn single(packet: &Packet) -> String {
    if let Some(error) = ErrorPacket::decode(&packet.payload) {
        return self::error(&error);
    }
    match OkPacket::decode(&packet.payload) {
        Some(ok) => format!(
            "OK affected={} id={} status={} warnings={} {}",
            ok.affected_rows,
            ok.last_insert_id,
            ok.status & !ABOUT_PLANS,
            ok.warnings,
            information(&ok)
        ),
        None => format!("{packet:?}"),
    }
}

/// The text of an OK packet and what it says about the session, sorted: servers report in the order of their hash table.
fn information(ok: &OkPacket) -> String {
    if ok.status & SESSION_STATE_CHANGED == 0 {
        // With or without its length in front, depending on the client's CLIENT_SESSION_TRACK.
        let text = match ok.rest.split_first() {
            Some((length, text)) if usize::from(*length) == text.len() => text,
            _ => &ok.rest,
        };
        return text.escape_ascii().to_string();
    }
    let mut bytes = reader::Bytes::new(&ok.rest);
    let text = bytes.lenenc_bytes().unwrap_or_default().escape_ascii().to_string();
    let mut reports = Vec::new();
    let mut entries = reader::Bytes::new(bytes.lenenc_bytes().unwrap_or_default());
    while let (Some(kind), Some(data)) = (entries.u8(), entries.lenenc_bytes()) {
        // It counts the statements of the whole server.
        let data = if data.starts_with(b"\x0cstatement_id") { &data[..13] } else { data };
        reports.push(format!("{kind}:{}", data.escape_ascii()));
    }
    reports.sort();
    format!("{text} {reports:?}")
}

fn column(packet: &Packet) -> String {
    match Column::decode(&packet.payload) {
        Some(column) => format!(
            "COLUMN {} collation={} length={} type={} flags={} decimals={}",
            column.name, column.collation, column.length, column.kind, column.flags, column.decimals
        ),
        None => format!("{packet:?}"),
    }
}

fn row_end(packet: &Packet, deprecate_eof: bool) -> String {
    if deprecate_eof {
        return match OkPacket::decode(&packet.payload) {
            Some(ok) => format!("END status={} warnings={}", ok.status & !ABOUT_PLANS, ok.warnings),
            None => format!("{packet:?}"),
        };
    }
    let mut bytes = reader::Bytes::new(&packet.payload[1..]);
    let (warnings, status) = (bytes.u16().unwrap_or_default(), bytes.u16().unwrap_or_default());
    format!("END status={} warnings={warnings}", status & !ABOUT_PLANS & !SESSION_STATE_CHANGED)
}

fn row(packet: &Packet, columns: usize) -> String {
    let mut bytes = reader::Bytes::new(&packet.payload);
    let mut line = "ROW".to_owned();
    for _ in 0..columns {
        line.push_str(" | ");
        if bytes.rest().first() == Some(&0xFB) {
            bytes.take(1);
            line.push_str("NULL");
        } else {
            line.push_str(&bytes.lenenc_bytes().unwrap_or(b"<cut>").escape_ascii().to_string());
        }
    }
    line
}
