//! Reading a complete answer: where it ends, and what is in it.

use std::io;

use super::RawClient;
use crate::protocol::{Column, ErrorPacket, OkPacket, Packet, capability, command, reader};

/// Everything a server sent for one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The packets, in order.
    pub packets: Vec<Packet>,
    /// Why the answer is incomplete: the peer closed the connection, or sent nothing for too long.
    pub lost: Option<io::ErrorKind>,
    deprecate_eof: bool,
}

const MORE_RESULTS: u16 = 8;
const CURSOR_EXISTS: u16 = 64;
const PS_OUT_PARAMS: u16 = 4096;

impl Answer {
    pub(super) fn lost(packets: Vec<Packet>, error: &io::Error) -> Answer {
        Answer { packets, lost: Some(error.kind()), deprecate_eof: false }
    }

    /// The error it ends with, if it does.
    pub fn error(&self) -> Option<ErrorPacket> {
        if let Some(kind) = self.lost {
            return Some(super::lost(&io::Error::from(kind)));
        }
        self.packets.last().and_then(|packet| ErrorPacket::decode(&packet.payload))
    }

    /// The OK packet, if that is the whole answer or its end.
    pub fn ok(&self) -> Option<OkPacket> {
        if self.lost.is_some() {
            return None;
        }
        self.packets.last().and_then(|packet| OkPacket::decode(&packet.payload))
    }

    /// The column definitions of its first result set.
    pub fn columns(&self) -> Vec<Column> {
        let Some(first) = self.packets.first() else { return Vec::new() };
        let count = reader::Bytes::new(&first.payload).lenenc().unwrap_or(0) as usize;
        self.packets.iter().skip(1).take(count).filter_map(|packet| Column::decode(&packet.payload)).collect()
    }

    /// The rows of its first result set, cells as text; empty if it has none.
    pub fn text_rows(&self) -> Vec<Vec<Option<String>>> {
        let columns = self.columns().len();
        if columns == 0 {
            return Vec::new();
        }
        let skipped = 1 + columns + usize::from(!self.deprecate_eof);
        let rows = self.packets.iter().skip(skipped);
        rows.map_while(|packet| if is_end(packet) { None } else { row(&packet.payload, columns) }).collect()
    }

    /// The only cell of its only row.
    ///
    /// # Panics
    /// If there is no such cell.
    pub fn cell(&self) -> Option<String> {
        let mut rows = self.text_rows();
        assert!(rows.len() == 1, "not exactly one row: {self:?}");
        rows.remove(0).remove(0)
    }
}

fn row(payload: &[u8], columns: usize) -> Option<Vec<Option<String>>> {
    let mut bytes = reader::Bytes::new(payload);
    let cell = |_| {
        if bytes.rest().first() == Some(&0xFB) {
            bytes.take(1)?;
            return Some(None);
        }
        Some(Some(String::from_utf8_lossy(bytes.lenenc_bytes()?).into_owned()))
    };
    (0..columns).map(cell).collect()
}

/// What is read next.
enum Part {
    /// OK, ERR, a request for a local file, or the start of a result set.
    Head,
    /// This many definitions, then their EOF if there is one.
    Columns(u64),
    /// Rows up to the end packet.
    Rows,
}

pub(super) fn read_answer(client: &mut RawClient, code: u8) -> Answer {
    let deprecate_eof = client.capabilities & capability::DEPRECATE_EOF != 0;
    let mut packets = Vec::new();
    let result = match code {
        command::QUIT | command::STMT_CLOSE | command::STMT_SEND_LONG_DATA => Ok(()),
        command::STMT_PREPARE => read_prepared(client, &mut packets, deprecate_eof),
        command::FIELD_LIST => read_rows(client, &mut packets).map(|_status| ()),
        command::STMT_FETCH => read_rows(client, &mut packets).map(|_status| ()),
        command::QUERY | command::STMT_EXECUTE | command::STMT_BULK_EXECUTE => {
            read_results(client, &mut packets, code, deprecate_eof)
        }
        _ => client.read().map(|packet| packets.push(packet)),
    };
    Answer { packets, lost: result.err().map(|error| error.kind()), deprecate_eof }
}

fn read_results(
    client: &mut RawClient,
    packets: &mut Vec<Packet>,
    code: u8,
    deprecate_eof: bool,
) -> io::Result<()> {
    let mut part = Part::Head;
    let mut head_status = 0;
    loop {
        let status = match part {
            Part::Head => {
                let packet = client.read()?;
                packets.push(packet.clone());
                match packet.first() {
                    0xFF => return Ok(()),
                    0xFB => {
                        send_local_file(client)?;
                        continue;
                    }
                    0 => OkPacket::decode(&packet.payload).map_or(0, |ok| ok.status),
                    _ => {
                        part = Part::Columns(reader::Bytes::new(&packet.payload).lenenc().unwrap_or(0));
                        continue;
                    }
                }
            }
            Part::Columns(count) => {
                let Some(status) = read_definitions(client, packets, count, deprecate_eof)? else {
                    return Ok(());
                };
                // With a cursor, an EOF follows the definitions in both formats, and the rows come later.
                if code == command::STMT_EXECUTE && status & CURSOR_EXISTS != 0 {
                    return Ok(());
                }
                (part, head_status) = (Part::Rows, status);
                continue;
            }
            Part::Rows => match read_rows(client, packets)? {
                // MySQL announces that more results follow those of OUT parameters only at their beginning.
                Some(status) if head_status & PS_OUT_PARAMS != 0 => status | head_status & MORE_RESULTS,
                Some(status) => status,
                None => return Ok(()),
            },
        };
        if status & MORE_RESULTS == 0 {
            return Ok(());
        }
        head_status = 0;
        part = Part::Head;
    }
}

/// Reads definitions and their EOF if there is one; returns its status, or `None` if an error is in its place.
fn read_definitions(
    client: &mut RawClient,
    packets: &mut Vec<Packet>,
    count: u64,
    deprecate_eof: bool,
) -> io::Result<Option<u16>> {
    for _ in 0..count {
        packets.push(client.read()?);
    }
    if deprecate_eof {
        return Ok(Some(0));
    }
    let packet = client.read()?;
    packets.push(packet.clone());
    Ok((packet.first() != 0xFF).then(|| end_status(&packet, false)))
}

/// Reads rows and their end packet; returns its status, or `None` if it is an error.
fn read_rows(client: &mut RawClient, packets: &mut Vec<Packet>) -> io::Result<Option<u16>> {
    let deprecate_eof = client.capabilities & capability::DEPRECATE_EOF != 0;
    loop {
        let packet = client.read()?;
        let (error, end, whole) =
            (packet.first() == 0xFF, is_end(&packet), packet.payload.len() < Packet::MAX);
        let status = if end { end_status(&packet, deprecate_eof) } else { 0 };
        packets.push(packet);
        if error && whole {
            return Ok(None);
        }
        if end {
            return Ok(Some(status));
        }
        // The continuation of a large row may begin with any byte.
        let mut more = !whole;
        while more {
            let packet = client.read()?;
            more = packet.payload.len() == Packet::MAX;
            packets.push(packet);
        }
    }
}

fn read_prepared(client: &mut RawClient, packets: &mut Vec<Packet>, deprecate_eof: bool) -> io::Result<()> {
    let head = client.read()?;
    packets.push(head.clone());
    let mut bytes = reader::Bytes::new(&head.payload);
    if bytes.u8() != Some(0) {
        return Ok(());
    }
    bytes.u32();
    let (columns, parameters) = (bytes.u16().unwrap_or(0), bytes.u16().unwrap_or(0));
    for count in [parameters, columns] {
        if count > 0 {
            for _ in 0..u32::from(count) + u32::from(!deprecate_eof) {
                packets.push(client.read()?);
            }
        }
    }
    Ok(())
}

fn send_local_file(client: &mut RawClient) -> io::Result<()> {
    let content = std::mem::take(&mut client.local_file);
    // The size of libmysqlclient's packets.
    for chunk in content.chunks(16 << 10) {
        client.send(chunk)?;
    }
    client.send(&[])?;
    client.local_file = content;
    Ok(())
}

/// Whether this packet, in the place of a row, ends the rows without an error. A row that begins with this byte has a
/// first cell of 16 MiB, so its first packet is a full one.
fn is_end(packet: &Packet) -> bool {
    packet.first() == 0xFE && packet.payload.len() < Packet::MAX
}

fn end_status(packet: &Packet, deprecate_eof: bool) -> u16 {
    if deprecate_eof {
        return OkPacket::decode(&packet.payload).map_or(0, |ok| ok.status);
    }
    packet.payload.get(3..5).map_or(0, |status| u16::from_le_bytes([status[0], status[1]]))
}
