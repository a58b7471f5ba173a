//! Long commands on their way to a server: what is beyond the inspected bytes is moved on without being held.
//!
//! Where a server takes query attributes and the client has none, two bytes are put in behind the command's byte;
//! [`Recut`] cuts the packets anew.

use narrows_wire::Header;
use narrows_wire::frame::{HEADER_LENGTH, MAX_PAYLOAD, Recut};

use super::request::Request;
use super::{End, Session};
use crate::backend::Backend;
use crate::buffer::Buffer;
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
    /// Streams a long command, from its beginning in `request` to its end on the socket; `insert` goes in behind
    /// the command's byte.
    pub(super) async fn upload(
        &self,
        request: &mut Request,
        backend: &Backend,
        insert: &[u8],
    ) -> Result<Upload, End> {
        let limit = self.snapshot().variables.max_allowed_packet;
        let mut header = request.header();
        let mut held = self.worker.buffers.large();
        held.append(request.payload());
        request.consume();
        held.append(request.rest_mut().filled());
        let rest = request.rest_mut().filled().len();
        request.rest_mut().consume(rest);

        let mut front = Vec::with_capacity(8);
        if !insert.is_empty() {
            front.extend(held.filled().first());
            front.extend_from_slice(insert);
        }
        // The command's byte stands in front of what was put in.
        let moved = usize::from(!insert.is_empty());
        held.consume(moved);
        let mut recut = Recut::with(front);
        let mut total = 0;
        let mut length = header.length - moved;
        loop {
            total += header.length as u64;
            if total > limit {
                return Ok(Upload::TooLong);
            }
            let cut = recut.packet(length);
            let sent = backend.stream.write_all(&cut.head).await.is_ok();
            if !sent || !self.move_on(&mut held, backend, cut.body).await? {
                return Ok(Upload::BackendClosed);
            }
            self.hold(&mut held, cut.remainder).await?;
            recut.carry(held.filled().get(..cut.remainder).unwrap_or_default());
            held.consume(cut.remainder);
            if header.length < MAX_PAYLOAD {
                let full = cut.head.len() - HEADER_LENGTH + cut.body == MAX_PAYLOAD;
                if backend.stream.write_all(&recut.finish(full)).await.is_err() {
                    return Ok(Upload::BackendClosed);
                }
                break;
            }
            self.hold(&mut held, HEADER_LENGTH).await?;
            header = Header::decode(held.filled()).expect("four bytes are held");
            length = header.length;
            held.consume(HEADER_LENGTH);
        }
        *request.rest_mut() = held;
        Ok(Upload::Sent)
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
