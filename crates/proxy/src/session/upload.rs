//! Long commands on their way to a server: what is beyond the inspected bytes is moved on without being held.

use narrows_wire::frame::{HEADER_LENGTH, MAX_PAYLOAD};
use narrows_wire::{Capabilities, Header};

use super::request::Request;
use super::{End, Session};
use crate::backend::Backend;
use crate::buffer::{Buffer, Side};
use crate::rt::select;

/// What became of a long command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Upload {
    /// All of it was sent.
    Sent,
    /// The server stopped taking it; it may have said why.
    BackendClosed,
    /// It is longer than `max_allowed_packet`; the server has a part of it.
    TooLong,
}

impl Session {
    /// Streams a long command, from its beginning in `request` to its end on the socket.
    pub(super) async fn upload(&self, request: &mut Request, backend: &Backend) -> Result<Upload, End> {
        let limit = self.snapshot().variables.max_allowed_packet;
        let mut held = self.worker.buffers.large(Side::Client);
        request.hand_over(&mut held);
        if request.inserted() > 0 {
            return self.upload_longer(request, held, backend).await;
        }
        let mut total = 0;
        let mut sequence = 0;
        let upload = loop {
            self.hold(&mut held, HEADER_LENGTH).await?;
            let mut header = Header::decode(held.filled()).expect("four bytes are held");
            if self.is_compressed() {
                header.sequence = sequence;
                renumber(&mut held, sequence);
            }
            sequence = sequence.wrapping_add(1);
            total += header.length as u64;
            if total > limit {
                break Upload::TooLong;
            }
            request.count_packet(header);
            if !self.move_on(&mut held, backend, header.packet_length()).await? {
                break Upload::BackendClosed;
            }
            if header.length < MAX_PAYLOAD {
                break Upload::Sent;
            }
        };
        request.take_rest(held);
        Ok(upload)
    }

    /// The same for a command into which bytes were put: every packet takes over what the one before has no room for.
    async fn upload_longer(
        &self,
        request: &mut Request,
        mut held: Buffer,
        backend: &Backend,
    ) -> Result<Upload, End> {
        let limit = self.snapshot().variables.max_allowed_packet;
        let mut total = 0;
        // Bytes that belong to the packet before, in front of the next header.
        let mut owed = 0;
        let mut inserted = request.inserted();
        let upload = loop {
            self.hold(&mut held, owed + HEADER_LENGTH).await?;
            let header = held.filled().get(owed..).and_then(Header::decode).expect("four bytes are held");
            total += header.length as u64;
            if total > limit {
                break Upload::TooLong;
            }
            request.count_packet(header);
            let all = owed + header.length + std::mem::take(&mut inserted);
            let length = all.min(MAX_PAYLOAD);
            let mut out = Header { length, ..header }.encode().to_vec();
            out.extend_from_slice(held.filled().get(..owed).unwrap_or_default());
            held.consume(owed + HEADER_LENGTH);
            let begun = backend.stream.write_all(&out).await.is_ok();
            if !begun || !self.move_on(&mut held, backend, length - owed).await? {
                break Upload::BackendClosed;
            }
            owed = all - length;
            if header.length == MAX_PAYLOAD {
                continue;
            }
            if length == MAX_PAYLOAD {
                let end = Header { length: owed, sequence: header.sequence.wrapping_add(1) }.encode();
                request.add_packet();
                if backend.stream.write_all(&end).await.is_err()
                    || !self.move_on(&mut held, backend, owed).await?
                {
                    break Upload::BackendClosed;
                }
            }
            break Upload::Sent;
        };
        request.take_rest(held);
        Ok(upload)
    }

    /// Whether the client's packets come in frames of the compressed protocol. Only the numbers of frames count there:
    /// libmariadb numbers the packets inside them at random, from the second on.
    pub(super) fn is_compressed(&self) -> bool {
        self.capabilities.intersection(Capabilities::COMPRESS.union(Capabilities::ZSTD_COMPRESSION))
            != Capabilities::NONE
    }

    /// Moves `count` bytes from the client to the server; whether the server took them.
    async fn move_on(&self, held: &mut Buffer, backend: &Backend, mut count: usize) -> Result<bool, End> {
        while count > 0 {
            if held.is_empty() {
                self.hold(held, 1).await?;
            }
            let step = held.filled().len().min(count);
            let bytes = held.filled().get(..step).unwrap_or_default();
            if backend.stream.write_all(bytes).await.is_err() {
                return Ok(false);
            }
            held.consume(step);
            count -= step;
        }
        Ok(true)
    }

    /// Reads until at least `count` bytes are held.
    pub(super) async fn hold(&self, held: &mut Buffer, count: usize) -> Result<(), End> {
        while held.filled().len() < count {
            held.make_room(count - held.filled().len());
            select! {
                biased;
                read = held.fill(&self.stream) => match read {
                    Ok(0) | Err(_) => return Err(End::Gone),
                    Ok(_) => {}
                },
                end = self.must_end() => return Err(end),
            }
        }
        Ok(())
    }
}

/// Gives the packet at the front another sequence number.
pub(super) fn renumber(held: &mut Buffer, sequence: u8) {
    if let Some(place) = held.filled_mut().get_mut(HEADER_LENGTH - 1) {
        *place = sequence;
    }
}
