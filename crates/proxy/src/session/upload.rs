//! Sends long commands to a server. Up to a certain size, all of a command is read before a backend connection is leased;
//! a longer one is streamed.

use narrows_wire::frame::{HEADER_LENGTH, MAX_PAYLOAD};
use narrows_wire::{Capabilities, Errno, Header};

use super::connection::Stop;
use super::errors::killed;
use super::request::Request;
use super::{End, Session};
use crate::backend::Backend;
use crate::buffer::Buffer;
use crate::capabilities::COMPRESSION;

/// The outcome of sending a long command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Upload {
    /// All of it was sent.
    Sent,
    /// The server stopped reading it; it may have sent an error.
    BackendClosed,
    /// It is longer than `max_allowed_packet`; the server has received part of it.
    TooLong,
}

impl Session {
    /// Reads a long command before a backend connection is leased for it, so that a slow client holds none. Returns the
    /// error for the client if that is interrupted.
    pub(super) async fn take_in(&self, request: &mut Request) -> Result<Option<(Errno, String)>, End> {
        if request.whole || self.binding.pinned.is_some() {
            return Ok(None);
        }
        let snapshot = self.snapshot();
        let variables = &snapshot.variables;
        let most = variables.upload_buffer_size.min(variables.max_allowed_packet);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        match request.take_in(&self.client, most, variables.upload_buffers_total).await {
            Ok(true) => Ok(None),
            Ok(false) => {
                self.worker.counters.borrow_mut().streamed_commands += 1;
                Ok(None)
            }
            Err(Stop::End(end)) => Err(end),
            Err(stop) => Ok(Some(killed(matches!(stop, Stop::Killed { timed_out: true })))),
        }
    }

    /// Sends a long command, from its beginning in `request` to its end there or on the socket.
    pub(super) async fn upload(&self, request: &mut Request, backend: &Backend) -> Result<Upload, Stop> {
        request.begin_upload();
        let upload = match request.inserted() {
            0 => self.upload_as_it_is(request, backend).await?,
            inserted => self.upload_longer(request, backend, inserted).await?,
        };
        request.shrink();
        Ok(upload)
    }

    async fn upload_as_it_is(&self, request: &mut Request, backend: &Backend) -> Result<Upload, Stop> {
        let limit = self.snapshot().variables.max_allowed_packet;
        let mut total = 0;
        let mut sequence = 0;
        while request.continues() {
            let answer = request.answer();
            let held = request.rest_mut();
            self.client.hold_or_stop(held, HEADER_LENGTH, answer).await?;
            let mut header = Header::decode(held.filled()).expect("four bytes are held");
            if self.is_compressed() {
                header.sequence = sequence;
                renumber(held, sequence);
            }
            sequence = sequence.wrapping_add(1);
            total += header.length as u64;
            request.count_packet(header);
            if total > limit {
                return Ok(Upload::TooLong);
            }
            if !self.move_on(request, backend, header.packet_length()).await? {
                return Ok(Upload::BackendClosed);
            }
        }
        Ok(Upload::Sent)
    }

    /// The same for a command into which bytes were inserted: each packet begins with what did not fit into the previous
    /// one.
    async fn upload_longer(
        &self,
        request: &mut Request,
        backend: &Backend,
        mut inserted: usize,
    ) -> Result<Upload, Stop> {
        let limit = self.snapshot().variables.max_allowed_packet;
        let mut total = 0;
        let mut sequence = 0;
        // Bytes that did not fit into the previous packet.
        let mut owed = Vec::new();
        while request.continues() {
            let answer = request.answer();
            self.client.hold_or_stop(request.rest_mut(), HEADER_LENGTH, answer).await?;
            let mut header = Header::decode(request.rest_mut().filled()).expect("four bytes are held");
            if self.is_compressed() {
                header.sequence = sequence;
            }
            sequence = sequence.wrapping_add(1);
            total += header.length as u64;
            request.count_packet(header);
            if total > limit {
                return Ok(Upload::TooLong);
            }
            request.step(HEADER_LENGTH);
            request.step_inserted(inserted);
            let all = owed.len() + header.length + std::mem::take(&mut inserted);
            let length = all.min(MAX_PAYLOAD);
            let begun = [&Header { length, ..header }.encode()[..], &owed].concat();
            if !self.begin_packet(backend, &begun).await?
                || !self.move_on(request, backend, length - owed.len()).await?
            {
                return Ok(Upload::BackendClosed);
            }
            let (left, answer) = (request.left(), request.answer());
            self.client.hold_or_stop(request.rest_mut(), left, answer).await?;
            owed = request.rest_mut().filled().get(..left).unwrap_or_default().to_vec();
            request.step(left);
            if header.length < MAX_PAYLOAD && length == MAX_PAYLOAD {
                let end = Header { length: owed.len(), sequence: header.sequence.wrapping_add(1) };
                request.add_packet();
                if !self.begin_packet(backend, &[&end.encode()[..], &owed].concat()).await? {
                    return Ok(Upload::BackendClosed);
                }
            }
        }
        Ok(Upload::Sent)
    }

    /// Whether the client's packets are in frames of the compressed protocol.
    pub(super) fn is_compressed(&self) -> bool {
        self.client.capabilities.intersection(COMPRESSION) != Capabilities::NONE
    }

    /// Writes the beginning of a packet; returns whether the server has read it.
    async fn begin_packet(&self, backend: &Backend, bytes: &[u8]) -> Result<bool, Stop> {
        match self.write_to_server(backend, bytes).await {
            Ok(()) => Ok(true),
            Err(Stop::Closed { .. }) => Ok(false),
            Err(stop) => Err(stop),
        }
    }

    /// Forwards `count` bytes from the client to the server; returns whether the server has read them.
    async fn move_on(
        &self,
        request: &mut Request,
        backend: &Backend,
        mut count: usize,
    ) -> Result<bool, Stop> {
        loop {
            let answer = request.answer();
            let held = request.rest_mut();
            if count > 0 && held.is_empty() {
                self.client.read_or_stop(held, answer).await?;
            }
            let step = held.filled().len().min(count);
            let mut rest = held.filled().get(..step).unwrap_or_default();
            let Ok(done) = backend.stream.try_write_all(&mut rest) else { return Ok(false) };
            let written = step - rest.len();
            request.step(written);
            count -= written;
            if done && count == 0 {
                return Ok(true);
            }
            if !done {
                match Box::pin(self.server_takes(backend, Some(request))).await {
                    Ok(()) => {}
                    Err(Stop::Closed { .. }) => return Ok(false),
                    Err(stop) => return Err(stop),
                }
            }
        }
    }
}

/// Changes the sequence number of the packet at the front.
pub(super) fn renumber(held: &mut Buffer, sequence: u8) {
    if let Some(place) = held.filled_mut().get_mut(HEADER_LENGTH - 1) {
        *place = sequence;
    }
}
