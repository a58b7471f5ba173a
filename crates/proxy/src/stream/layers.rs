//! The layers between a socket and a session: TLS, and the compressed protocol inside it.
//!
//! Buffers are taken from the thread when bytes arrive and returned when these have been passed on. Bytes that must be
//! kept (a partial record, or bytes that the session or the socket has not accepted yet) are in buffers of their own
//! size.

use std::cell::RefCell;
use std::io;

use narrows_wire::compression::{Algorithm, Compression, End};

use super::tls::{Tls, TlsError, TlsInfo};
use crate::rt::Socket;

/// The layers of one connection.
#[derive(Debug, Default)]
pub(super) struct Layers {
    tls: Option<Tls>,
    compression: Option<Compression>,
    /// A partial frame of the compressed protocol.
    frame: Vec<u8>,
    /// Bytes that were read and not yet taken.
    unread: Vec<u8>,
    /// How many of these bytes have been taken.
    taken: usize,
    /// Bytes that were encoded and not yet written, after the first `written` ones.
    outbox: Vec<u8>,
    written: usize,
    /// Whether the peer or the kernel has signalled the end of the stream.
    ended: bool,
}

impl Layers {
    pub(super) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub(super) fn has_compression(&self) -> bool {
        self.compression.is_some()
    }

    pub(super) fn tls_info(&self) -> Option<TlsInfo> {
        self.tls.as_ref().map(Tls::info)
    }

    pub(super) fn add_tls(&mut self, mut tls: Tls, early: &[u8]) {
        tls.keep(early);
        self.tls = Some(tls);
    }

    pub(super) fn add_compression(&mut self, algorithm: Algorithm, end: End, early: &[u8]) -> io::Result<()> {
        self.compression = Some(Compression::new(algorithm, end));
        let early = [std::mem::take(&mut self.unread), early.to_vec()].concat();
        self.unpack(&early)
    }

    /// Whether a read can return something without reading from the socket.
    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty() || self.ended
    }

    /// Like [`super::Stream::try_read`].
    pub(super) fn try_read(&mut self, socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let unread = self.unread.get(self.taken..).unwrap_or_default();
            if !unread.is_empty() {
                let count = unread.len().min(buffer.len());
                buffer.iter_mut().zip(unread).for_each(|(to, from)| *to = *from);
                self.taken += count;
                if self.taken == self.unread.len() {
                    self.unread = Vec::new();
                    self.taken = 0;
                }
                return Ok(count);
            }
            if self.ended {
                return Ok(0);
            }
            let count = SCRATCH.with_borrow_mut(|scratch| self.read_once(socket, scratch, buffer))?;
            if count > 0 {
                return Ok(count);
            }
        }
    }

    /// Reads from the socket once. The decoded bytes go to `buffer`, as far as there is room, and to `unread`.
    fn read_once(&mut self, socket: &Socket, scratch: &mut Vec<u8>, buffer: &mut [u8]) -> io::Result<usize> {
        let kept = self.tls.as_ref().map_or(0, Tls::kept);
        if scratch.len() < kept + READ_AT_ONCE {
            scratch.resize(kept + READ_AT_ONCE, 0);
        }
        let count = socket.try_read(scratch.get_mut(kept..).unwrap_or_default())?;
        self.ended |= count == 0;
        let Some(tls) = &mut self.tls else {
            let frames = scratch.get(..count).unwrap_or_default();
            return self.unpack(frames).map(|()| 0);
        };
        tls.take_kept(scratch);
        let records = scratch.get_mut(..kept + count).unwrap_or_default();
        let mut sink = Sink { buffer, count: 0, rest: Vec::new() };
        if self.compression.is_some() {
            sink.buffer = &mut [];
        }
        let decrypted = tls.decrypt(records, &mut |plain| sink.put(plain), &mut self.outbox);
        let Sink { count, rest, .. } = sink;
        self.ended |= decrypted.map_err(io::Error::other)?;
        self.unpack(&rest)?;
        if !self.outbox.is_empty() {
            // The peer has requested something, for instance new keys; if the socket is full, the next write sends the
            // reply.
            self.try_flush(socket)?;
        }
        Ok(count)
    }

    /// Decodes frames, as far as they are complete.
    fn unpack(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(compression) = &mut self.compression else {
            self.unread.extend_from_slice(bytes);
            return Ok(());
        };
        let joined;
        let mut rest = bytes;
        if !self.frame.is_empty() {
            self.frame.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.frame);
            rest = &joined;
        }
        loop {
            let taken = compression.decode(rest, &mut self.unread);
            match taken.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
                0 => break,
                taken => rest = rest.get(taken..).unwrap_or_default(),
            }
        }
        self.frame = rest.to_vec();
        Ok(())
    }

    /// Compresses and encrypts `bytes` into the outbox.
    pub(super) fn encode(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.outbox.capacity() == 0 {
            self.outbox = OUTBOX.take();
        }
        let (outbox, tls) = (&mut self.outbox, &mut self.tls);
        match (&mut self.compression, tls) {
            (None, None) => outbox.extend_from_slice(bytes),
            (Some(compression), None) => compression.encode(bytes, outbox),
            (None, Some(tls)) => tls.encrypt(bytes, outbox).map_err(io::Error::other)?,
            (Some(compression), Some(tls)) => SCRATCH.with_borrow_mut(|scratch| {
                scratch.clear();
                compression.encode(bytes, scratch);
                tls.encrypt(scratch, outbox).map_err(io::Error::other)
            })?,
        }
        Ok(())
    }

    /// The number of bytes that wait for the socket.
    pub(super) fn backlog(&self) -> usize {
        self.outbox.len() - self.written
    }

    /// Writes as much of the outbox as the socket accepts; returns whether that was everything.
    pub(super) fn try_flush(&mut self, socket: &Socket) -> io::Result<bool> {
        while self.written < self.outbox.len() {
            match socket.try_write(self.outbox.get(self.written..).unwrap_or_default()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        if self.outbox.capacity() > 0 {
            let mut spare = std::mem::take(&mut self.outbox);
            spare.clear();
            OUTBOX.set(spare);
        }
        self.written = 0;
        Ok(true)
    }

    /// Continues the handshake; returns whether it is complete.
    pub(super) fn shake_hands(&mut self, socket: &Socket) -> Result<bool, TlsError> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        loop {
            let sink = &mut |plain: &[u8]| self.unread.extend_from_slice(plain);
            if tls.handshake(sink, &mut self.outbox)? {
                return Ok(true);
            }
            let read: io::Result<usize> = SCRATCH.with_borrow_mut(|scratch| {
                if scratch.len() < READ_AT_ONCE {
                    scratch.resize(READ_AT_ONCE, 0);
                }
                let count = socket.try_read(scratch)?;
                tls.keep(scratch.get(..count).unwrap_or_default());
                Ok(count)
            });
            match read {
                Ok(0) => return Err(TlsError::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(TlsError::Io(error)),
            }
        }
    }

    /// Sends TLS's close_notify, if the socket accepts it.
    pub(super) fn say_goodbye(&mut self, socket: &Socket) {
        if let Some(tls) = &mut self.tls {
            tls.close(&mut self.outbox);
            // The connection ends in any case.
            let _ = self.try_flush(socket);
        }
    }
}

/// Receives decrypted bytes: first in the reader's buffer, the excess in a separate one.
struct Sink<'a> {
    buffer: &'a mut [u8],
    count: usize,
    rest: Vec<u8>,
}

impl Sink<'_> {
    fn put(&mut self, plain: &[u8]) {
        let room = self.buffer.get_mut(self.count..).unwrap_or_default();
        let (now, later) = plain.split_at(plain.len().min(room.len()));
        if let Some(place) = room.get_mut(..now.len()) {
            place.copy_from_slice(now);
        }
        self.count += now.len();
        self.rest.extend_from_slice(later);
    }
}

thread_local! {
    /// The buffer into which records are read; empty between calls.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// The last outbox that was written completely.
    static OUTBOX: std::cell::Cell<Vec<u8>> = const { std::cell::Cell::new(Vec::new()) };
}

/// The number of bytes read at once: slightly more than two TLS records.
const READ_AT_ONCE: usize = 34 * 1024;
