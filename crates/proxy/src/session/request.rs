//! One command as received: a whole packet at the front of a buffer, or the beginning of a long command.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use narrows_wire::frame::{HEADER_LENGTH, MAX_PAYLOAD, put_packet};
use narrows_wire::{Errno, Header};

use super::End;
use super::connection::ClientConnection;
use super::connection::Stop;
use crate::buffer::{Buffer, LARGE};
use crate::stream::Stream;
use crate::worker::Peers;

/// A command.
pub(super) struct Request {
    /// Begins with the packet; anything that the client sent after it, before the answer, follows.
    buffer: Buffer,
    header: Header,
    /// Whether the whole command is in the buffer; otherwise `take_in` and `upload` read the rest.
    pub(super) whole: bool,
    /// Bytes of the packet at the front of the buffer, header included, that are held and examined; 0 once they are consumed.
    examined: usize,
    /// Bytes of the current packet that were not consumed, for a long command only.
    left: usize,
    /// Whether another packet follows that one.
    continues: bool,
    /// If all of a long command is in the buffer: the bytes of its packets.
    taken_in: Option<usize>,
    /// The memory for a long command, which counts towards the limit for all clients together.
    lent: Option<Lent>,
    /// Sequence number of the first packet of the answer.
    answer: u8,
    inserted: usize,
    shift: u8,
    /// Bytes of the packets that were read.
    counted: u64,
}

/// A part of the memory for long commands of all clients together.
struct Lent {
    of: Arc<Peers>,
    bytes: u64,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.of.upload_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Bytes of a command that are read and examined first. What follows in a longer one is read later, or streamed.
pub(super) const INSPECTED: usize = 1 << 20;

/// Bytes of a text that can replace that of a command: it must fit into one packet.
const LONGEST_TEXT: usize = 15 << 20;

/// Bytes that are read from a client that sends before it has its answer.
const AHEAD: usize = 64 * 1024;

impl Request {
    /// Reads until the command is whole, or [`INSPECTED`] bytes of it have arrived.
    pub(super) async fn read(client: &ClientConnection, mut buffer: Buffer) -> Result<Request, End> {
        loop {
            let filled = buffer.filled().len();
            let mut missing = HEADER_LENGTH.saturating_sub(filled);
            if let Some(header) = Header::decode(buffer.filled()) {
                let whole = header.length <= INSPECTED;
                let wanted = if whole { header.packet_length() } else { HEADER_LENGTH + INSPECTED };
                if filled >= wanted {
                    let request = Request {
                        buffer,
                        header,
                        whole,
                        examined: wanted,
                        left: 0,
                        continues: false,
                        taken_in: None,
                        lent: None,
                        answer: 1,
                        inserted: 0,
                        shift: 0,
                        counted: 0,
                    };
                    return request.checked(client).await;
                }
                missing = wanted - filled;
            }
            buffer.make_room_for(missing);
            client.read_more(&mut buffer, 1).await?;
        }
    }

    async fn checked(self, client: &ClientConnection) -> Result<Request, End> {
        if self.header.sequence != 0 {
            client.send_error(1, Errno::NET_PACKETS_OUT_OF_ORDER, "Got packets out of order").await?;
            return Err(End::ErrorSent(format!("command with sequence number {}", self.header.sequence)));
        }
        Ok(self)
    }

    /// The header of the first packet.
    pub(super) fn header(&self) -> Header {
        self.header
    }

    /// The command byte; for an empty packet 0, which clients may not use, as on servers.
    pub(super) fn code(&self) -> u8 {
        self.packet().get(HEADER_LENGTH).copied().unwrap_or_default()
    }

    /// What follows the command byte, as far as it is held.
    pub(super) fn argument(&self) -> &[u8] {
        self.packet().get(HEADER_LENGTH + 1..).unwrap_or_default()
    }

    /// The argument after its first `skipped` bytes.
    pub(super) fn argument_after(&self, skipped: usize) -> &[u8] {
        self.packet().get(HEADER_LENGTH + 1 + skipped..).unwrap_or_default()
    }

    /// The payload as far as it is held.
    pub(super) fn payload(&self) -> &[u8] {
        self.packet().get(HEADER_LENGTH..).unwrap_or_default()
    }

    /// The packet, header included, as far as it is held and examined.
    pub(super) fn packet(&self) -> &[u8] {
        self.buffer.filled().get(..self.examined).unwrap_or_default()
    }

    /// Whether the packet, as far as it was examined, is consumed.
    fn is_consumed(&self) -> bool {
        self.examined == 0
    }

    /// Replaces the client's statement id by the server's.
    pub(super) fn set_statement(&mut self, id: u32) {
        let place = HEADER_LENGTH + 1;
        if let Some(bytes) = self.buffer.filled_mut().get_mut(place..place + 4) {
            bytes.copy_from_slice(&id.to_le_bytes());
        }
    }

    /// Moves everything that is held, the packet's header first, to `held`.
    pub(super) fn hand_over(&mut self, held: &mut Buffer) {
        held.append(self.buffer.filled());
        let all = self.buffer.filled().len();
        self.buffer.consume(all);
        self.examined = 0;
    }

    /// Replaces the first `replaced` bytes of the argument of a long command by `head`. The header stays unchanged; `upload`
    /// accounts for the difference.
    pub(super) fn replace_head(&mut self, replaced: usize, head: &[u8]) {
        let place = HEADER_LENGTH + 1;
        let filled = self.buffer.filled();
        let mut changed = Buffer::default();
        changed.append(filled.get(..place).unwrap_or_default());
        changed.append(head);
        changed.append(filled.get(place + replaced..).unwrap_or_default());
        self.inserted = head.len() - replaced;
        self.taken_in = self.taken_in.map(|length| length + self.inserted);
        self.buffer = changed;
    }

    /// Bytes that were inserted and are not counted in the header.
    pub(super) fn inserted(&self) -> usize {
        self.inserted
    }

    /// What must be added to the sequence numbers of the answer, because a command that has become longer may have one more
    /// packet than the client has sent.
    pub(super) fn shift(&self) -> u8 {
        self.shift
    }

    /// The command was sent with one more packet.
    pub(super) fn add_packet(&mut self) {
        self.shift = u8::MAX;
    }

    /// Whether its text can be replaced by this one.
    pub(super) fn takes_text(&self, text: &[u8]) -> bool {
        self.whole && text.len() <= LONGEST_TEXT
    }

    /// Replaces the argument after its first `kept` bytes by another text. The command must be whole.
    pub(super) fn replace_argument(&mut self, kept: usize, text: &[u8]) {
        let payload = [self.payload().get(..=kept).unwrap_or_default(), text].concat();
        let mut packet = Vec::with_capacity(HEADER_LENGTH + payload.len());
        put_packet(&mut packet, &mut 0, &payload);
        self.put_packet(&packet);
    }

    /// Puts another packet in the place of this one, for a while; both must be whole.
    pub(super) fn put_packet(&mut self, packet: &[u8]) {
        debug_assert!(self.whole && !self.is_consumed(), "the packet is at the front");
        let Some(header) = Header::decode(packet) else { return };
        let following = self.buffer.filled().get(self.packet().len()..).unwrap_or_default();
        let bytes = [packet, following].concat();
        let all = self.buffer.filled().len();
        self.buffer.consume(all);
        self.buffer.append(&bytes);
        (self.header, self.examined) = (header, header.packet_length());
    }

    /// Consumes the packet, as far as it was examined; see [`Request::left`] for the rest of a long one.
    pub(super) fn consume(&mut self) {
        if !self.is_consumed() {
            let held = self.packet().len();
            if !self.whole {
                self.count_packet(self.header);
            }
            self.examined = 0;
            self.buffer.consume(held);
            self.left = self.left.saturating_sub(held);
        }
    }

    /// Begins to forward a long command, from the header of its first packet.
    pub(super) fn begin_upload(&mut self) {
        self.examined = 0;
        self.left = 0;
        self.continues = true;
    }

    /// Bytes of the current packet that were not consumed. They are in the buffer, or not read yet.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Whether another packet of the command follows.
    pub(super) fn continues(&self) -> bool {
        self.continues
    }

    /// `count` bytes of the current packet, which are in the buffer, were processed.
    pub(super) fn step(&mut self, count: usize) {
        self.buffer.consume(count);
        self.left = self.left.saturating_sub(count);
    }

    /// The same for bytes that were inserted.
    pub(super) fn step_inserted(&mut self, count: usize) {
        self.left += count;
    }

    /// Reads until all of a long command is in the buffer; returns whether it fits into `most` bytes, and together with all
    /// other clients' commands into `most_in_all`.
    pub(super) async fn take_in(
        &mut self,
        client: &ClientConnection,
        most: usize,
        most_in_all: u64,
    ) -> Result<bool, Stop> {
        // The position of the next header.
        let mut end = 0;
        loop {
            while let Some(header) = self.buffer.filled().get(end..).and_then(Header::decode) {
                if end + header.packet_length() > most {
                    return Ok(false);
                }
                if self.buffer.filled().len() < end + header.packet_length() {
                    break;
                }
                end += header.packet_length();
                if header.length < MAX_PAYLOAD {
                    self.taken_in = Some(end);
                    return Ok(true);
                }
            }
            if self.buffer.room() == 0 && !self.grow(client, most_in_all) {
                return Ok(false);
            }
            client.read_or_stop(&mut self.buffer, self.answer).await?;
        }
    }

    /// Doubles the buffer, if the limit for all clients together allows it.
    fn grow(&mut self, client: &ClientConnection, most_in_all: u64) -> bool {
        let more = self.buffer.capacity();
        let peers = &client.worker.peers;
        let before = peers.upload_bytes.fetch_add(more as u64, Ordering::Relaxed);
        let mut lent = Lent { of: Arc::clone(peers), bytes: more as u64 };
        if before + lent.bytes > most_in_all {
            return false;
        }
        match &mut self.lent {
            Some(all) => all.bytes += std::mem::take(&mut lent.bytes),
            none => *none = Some(lent),
        }
        self.buffer.make_room(more);
        true
    }

    /// Sequence number of the first packet of an answer of our own.
    pub(super) fn answer(&self) -> u8 {
        self.answer
    }

    /// Another packet of the command was read.
    pub(super) fn count_packet(&mut self, header: Header) {
        self.left = header.packet_length();
        self.continues = header.length == MAX_PAYLOAD;
        self.answer = header.sequence.wrapping_add(1);
        self.counted += header.packet_length() as u64;
    }

    /// Bytes of its packets, as far as they were read.
    pub(super) fn bytes(&self) -> u64 {
        self.header.packet_length() as u64 + self.bytes_after_first()
    }

    /// Bytes of its packets after the first.
    pub(super) fn bytes_after_first(&self) -> u64 {
        self.counted.saturating_sub(self.header.packet_length() as u64)
    }

    /// What the client has sent after the command.
    pub(super) fn rest_mut(&mut self) -> &mut Buffer {
        debug_assert!(self.is_consumed(), "the packet is at the front");
        &mut self.buffer
    }

    /// Releases the memory of a long command; what the client has sent after it stays.
    pub(super) fn shrink(&mut self) {
        self.lent = None;
        if self.buffer.capacity() > LARGE {
            let mut rest = Buffer::default();
            if !self.buffer.is_empty() {
                rest.append(self.buffer.filled());
            }
            self.buffer = rest;
        }
    }

    /// Ends the request; returns what the client has sent after it.
    pub(super) fn into_rest(mut self) -> Buffer {
        self.consume();
        if !self.whole {
            self.shrink();
        }
        self.buffer
    }

    /// Bytes that the client has sent after the command, as far as they were read.
    pub(super) fn ahead(&self) -> usize {
        let filled = self.buffer.filled().len();
        match self.taken_in {
            _ if self.is_consumed() => filled,
            Some(length) => filled - length,
            None => filled - self.packet().len(),
        }
    }

    /// Waits until the client disconnects. Bytes that it sends meanwhile are read up to a limit. After that, and while a long
    /// command is being streamed, nothing is read, and only a failed write shows that the client has disconnected.
    pub(super) async fn client_gone(&mut self, stream: &Stream) {
        loop {
            let sent_on = self.is_consumed() && self.left == 0 && !self.continues;
            let may_read = match self.whole || self.taken_in.is_some() || sent_on {
                true => self.ahead() < AHEAD,
                false => self.is_consumed() && self.buffer.room() > 0,
            };
            if !may_read {
                return std::future::pending().await;
            }
            if stream.readable().await.is_err() {
                return;
            }
            self.buffer.make_room(1);
            match self.buffer.try_fill(stream) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }
}
