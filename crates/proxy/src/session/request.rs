//! One command as it came: the packet at the front of a buffer, whole, or the beginning of a long one.

use narrows_wire::frame::{HEADER_LENGTH, put_packet};
use narrows_wire::{Errno, Header};

use super::{End, Session};
use crate::buffer::Buffer;
use crate::rt::select;
use crate::stream::Stream;

/// A command.
pub(super) struct Request {
    /// The packet stands at its front; what a client has sent too early stands behind it.
    buffer: Buffer,
    header: Header,
    /// Whether the whole command is in the buffer; else [`Request::read_more`] and `upload` go on.
    pub(super) whole: bool,
    /// Set once the packet was consumed.
    consumed: bool,
    /// Sequence number of the first packet of the answer.
    answer: u8,
    inserted: usize,
    shift: u8,
    /// Bytes of the packets that were counted.
    counted: u64,
}

/// Bytes of a command that are held and looked at; longer ones are streamed behind that.
pub(super) const INSPECTED: usize = 1 << 20;

/// Bytes of a text that is put into a command: it must fit one packet.
const LONGEST_TEXT: usize = 15 << 20;

/// Bytes that are taken of a client that sends before it was answered. Beyond, its kernel must wait.
const AHEAD: usize = 64 * 1024;

impl Request {
    /// Reads until the command is whole, or [`INSPECTED`] bytes of it are there.
    pub(super) async fn read(session: &Session, mut buffer: Buffer) -> Result<Request, End> {
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
                        consumed: false,
                        answer: 1,
                        inserted: 0,
                        shift: 0,
                        counted: 0,
                    };
                    return request.checked(session).await;
                }
                missing = wanted - filled;
            }
            buffer.make_room_for(missing);
            select! {
                biased;
                count = buffer.fill(&session.stream) => match count {
                    Ok(0) | Err(_) => return Err(End::Gone),
                    Ok(_) => {}
                },
                end = session.must_end() => return Err(end),
            }
        }
    }

    async fn checked(self, session: &Session) -> Result<Request, End> {
        if self.header.sequence != 0 {
            session.send_error(1, Errno::NET_PACKETS_OUT_OF_ORDER, "Got packets out of order").await?;
            return Err(End::Told(format!("command with sequence number {}", self.header.sequence)));
        }
        Ok(self)
    }

    /// Header of the first packet.
    pub(super) fn header(&self) -> Header {
        self.header
    }

    /// The command's byte; 0, which no client may use, for an empty packet, as servers take it.
    pub(super) fn code(&self) -> u8 {
        self.payload().first().copied().unwrap_or_default()
    }

    /// What follows the command's byte, as far as it is held.
    pub(super) fn argument(&self) -> &[u8] {
        self.payload().get(1..).unwrap_or_default()
    }

    /// The argument behind its first `skipped` bytes.
    pub(super) fn behind(&self, skipped: usize) -> &[u8] {
        self.argument().get(skipped..).unwrap_or_default()
    }

    /// The payload as far as it is held.
    pub(super) fn payload(&self) -> &[u8] {
        self.packet().get(HEADER_LENGTH..).unwrap_or_default()
    }

    /// The packet, header included, as far as it is held.
    pub(super) fn packet(&self) -> &[u8] {
        let filled = self.buffer.filled();
        filled.get(..self.header.packet_length()).unwrap_or(filled)
    }

    /// Puts a server's number of a statement in the place of the client's.
    pub(super) fn set_statement(&mut self, id: u32) {
        let place = HEADER_LENGTH + 1;
        if let Some(bytes) = self.buffer.filled_mut().get_mut(place..place + 4) {
            bytes.copy_from_slice(&id.to_le_bytes());
        }
    }

    /// Puts `head` in the place of the first `replaced` bytes of the argument of a long command. Its header stays as it
    /// is; `upload` reckons with what was put in.
    pub(super) fn replace_head(&mut self, replaced: usize, head: &[u8]) {
        let place = HEADER_LENGTH + 1;
        let filled = self.buffer.filled();
        let mut changed = Buffer::default();
        changed.append(filled.get(..place).unwrap_or_default());
        changed.append(head);
        changed.append(filled.get(place + replaced..).unwrap_or_default());
        self.inserted = head.len() - replaced;
        self.buffer = changed;
    }

    /// Bytes that were put in, and are not counted in the header.
    pub(super) fn inserted(&self) -> usize {
        self.inserted
    }

    /// What is added to sequence numbers of the answer: a command that has become longer may have a packet more than
    /// the client has sent.
    pub(super) fn shift(&self) -> u8 {
        self.shift
    }

    /// The command has become one packet longer on its way.
    pub(super) fn add_packet(&mut self) {
        self.shift = u8::MAX;
    }

    /// Whether another text can be put in the place of its own.
    pub(super) fn takes_text(&self, text: &[u8]) -> bool {
        self.whole && text.len() <= LONGEST_TEXT
    }

    /// Puts another text in the place of what stands behind the first `kept` bytes of the argument. The command must be
    /// whole.
    pub(super) fn replace_argument(&mut self, kept: usize, text: &[u8]) {
        debug_assert!(self.whole && !self.consumed, "the packet stands in front");
        let behind = self.buffer.filled().get(self.packet().len()..).unwrap_or_default();
        let payload = [self.payload().get(..=kept).unwrap_or_default(), text].concat();
        let mut bytes = Vec::with_capacity(HEADER_LENGTH + payload.len() + behind.len());
        put_packet(&mut bytes, &mut 0, &payload);
        bytes.extend_from_slice(behind);
        if let Some(header) = Header::decode(&bytes) {
            self.header = header;
        }
        let all = self.buffer.filled().len();
        self.buffer.consume(all);
        self.buffer.append(&bytes);
    }

    /// Drops the packet; the rest of a long one is to be read from the socket.
    pub(super) fn consume(&mut self) {
        if !self.consumed {
            self.consumed = true;
            let held = self.packet().len();
            self.buffer.consume(held);
        }
    }

    /// Sequence number of the first packet of an answer of our own.
    pub(super) fn answer(&self) -> u8 {
        self.answer
    }

    /// Another packet of the command was read.
    pub(super) fn count_packet(&mut self, header: Header) {
        self.answer = header.sequence.wrapping_add(1);
        self.counted += header.packet_length() as u64;
    }

    /// Bytes of all its packets, as far as they were read.
    pub(super) fn bytes(&self) -> u64 {
        self.header.packet_length() as u64 + self.bytes_behind()
    }

    /// Bytes of its packets behind the first.
    pub(super) fn bytes_behind(&self) -> u64 {
        self.counted.saturating_sub(self.header.packet_length() as u64)
    }

    /// Moves everything that is held, the packet's header first, to `held`.
    pub(super) fn hand_over(&mut self, held: &mut Buffer) {
        held.append(self.buffer.filled());
        let all = self.buffer.filled().len();
        self.buffer.consume(all);
        self.consumed = true;
    }

    /// Takes back what the client has sent behind the command.
    pub(super) fn take_rest(&mut self, rest: Buffer) {
        self.buffer = rest;
    }

    /// What the client has sent behind the command.
    pub(super) fn rest_mut(&mut self) -> &mut Buffer {
        debug_assert!(self.consumed, "the packet stands in front");
        &mut self.buffer
    }

    /// Ends the request: what the client has sent behind it.
    pub(super) fn into_rest(mut self) -> Buffer {
        self.consume();
        self.buffer
    }

    /// Bytes that the client has sent behind the command, as far as they were read.
    pub(super) fn ahead(&self) -> usize {
        self.buffer.filled().len() - if self.consumed { 0 } else { self.packet().len() }
    }

    /// Waits for the client's end. Bytes that it sends meanwhile are kept, up to a bound; behind that, and for
    /// the rest of a long command, nothing is read and its end is noticed by writing only.
    pub(super) async fn client_gone(&mut self, stream: &Stream) {
        loop {
            if self.ahead() >= AHEAD || !self.whole {
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
