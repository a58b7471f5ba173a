//! The prepared statements of one backend connection.
//!
//! Those that any client may execute are *shared*, found by their identity. One that carries something of a single client
//! (an open cursor, parameters sent in parts) is *held* for that client, found by the client's number for it, until
//! that is over; the client then has the connection to itself.
//!
//! A connection has no more than `max_stmts_per_connection`: the shared one that was used least recently is closed for
//! the next. `COM_STMT_CLOSE` has no answer, so it goes in front of the next command that prepares.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use narrows_wire::frame::{put_encoded, put_packet};
use narrows_wire::response::{Expect, Next};
use narrows_wire::{Capabilities, Command, Tracker};

use super::{Backend, BackendError, ServerError};
use crate::buffer::Buffer;
use crate::hostgroup::ServerFigures;
use crate::packets::payload;
use crate::prepared::{ByIdentity, Identity, Prepared, ServerShare};

/// The prepared statements of one backend connection.
#[derive(Debug)]
pub struct Statements {
    figures: Arc<ServerFigures>,
    shared: ByIdentity<Entry>,
    /// By the client's number.
    held: Vec<(u32, Entry)>,
    /// Counts uses; tells which was used least recently.
    clock: u64,
    closings: Vec<u8>,
}

/// A statement that the server has prepared.
#[derive(Debug)]
pub struct Entry {
    /// The server's number.
    pub id: u32,
    /// The types of parameters that it was executed with last.
    pub types: Vec<u8>,
    /// What it is; counts this connection among those that have it.
    pub prepared: ServerShare,
    used: u64,
}

/// Bytes that a statement takes in a backend connection's table: its entry and its key.
pub const BYTES_OF_ENTRY: u64 = (size_of::<Entry>() + size_of::<Identity>()) as u64;

/// The head of the answer to `COM_STMT_PREPARE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrepareOk {
    /// The number of the statement.
    pub id: u32,
    /// Columns of its result.
    pub columns: u16,
    /// Its placeholders.
    pub params: u16,
    /// Warnings about its text.
    pub warnings: u16,
}

impl PrepareOk {
    /// Reads the head's payload; `None` when that is too short.
    pub fn decode(payload: &[u8]) -> Option<PrepareOk> {
        let number = |at| payload.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
        let id = payload.get(1..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
        // A head may end before them.
        let warnings = number(10).unwrap_or_default();
        Some(PrepareOk { id, columns: number(5)?, params: number(7)?, warnings })
    }
}

impl Statements {
    /// None yet.
    pub fn new(figures: Arc<ServerFigures>) -> Statements {
        Statements {
            figures,
            shared: ByIdentity::default(),
            held: Vec::new(),
            clock: 0,
            closings: Vec::new(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.shared.len() + self.held.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether any client finds this one here.
    pub fn has(&self, identity: Identity) -> bool {
        self.shared.contains_key(&identity)
    }

    /// The one that is held for a client's number.
    pub fn held(&mut self, client_id: u32) -> Option<&mut Entry> {
        self.held.iter_mut().find(|(id, _)| *id == client_id).map(|(_, entry)| entry)
    }

    /// The shared one of this identity, which is used now.
    pub fn shared(&mut self, identity: Identity) -> Option<&mut Entry> {
        self.clock += 1;
        let entry = self.shared.get_mut(&identity)?;
        entry.used = self.clock;
        Some(entry)
    }

    /// The server has prepared one. Where another of this identity is here, that is closed.
    pub fn add(&mut self, identity: Identity, id: u32, prepared: Arc<Prepared>) {
        self.close_shared(identity);
        self.clock += 1;
        self.figures.prepared.fetch_add(1, Ordering::Relaxed);
        self.figures.prepared_in_all.fetch_add(1, Ordering::Relaxed);
        let prepared = ServerShare::new(prepared);
        self.shared.insert(identity, Entry { id, types: Vec::new(), prepared, used: self.clock });
    }

    /// The shared one of the first identity is found by the second from now on; closes the one that was.
    pub fn rename(&mut self, from: Identity, to: Identity) {
        let Some(entry) = self.shared.remove(&from) else { return };
        self.close_shared(to);
        self.shared.insert(to, entry);
    }

    /// Holds the shared one of this identity for a client's number; none, where one is held for that already: numbers are
    /// found again by the next client, and what is left behind under one would be executed in place of its own.
    pub fn hold(&mut self, identity: Identity, client_id: u32) {
        if self.held(client_id).is_none()
            && let Some(entry) = self.shared.remove(&identity)
        {
            self.held.push((client_id, entry));
        }
    }

    /// Shares the one held for a client's number again, under this identity; closes it where that is taken.
    pub fn share(&mut self, client_id: u32, identity: Identity) {
        let Some(entry) = self.take_held(client_id) else { return };
        if self.has(identity) {
            self.close(entry);
        } else {
            self.shared.insert(identity, entry);
        }
    }

    /// Whether any is held for a client.
    pub fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Closes the one held for a client's number.
    pub fn close_held(&mut self, client_id: u32) {
        if let Some(entry) = self.take_held(client_id) {
            self.close(entry);
        }
    }

    /// Closes the shared one of this identity.
    pub fn close_shared(&mut self, identity: Identity) {
        if let Some(entry) = self.shared.remove(&identity) {
            self.close(entry);
        }
    }

    /// Closes shared ones, those first that were used least recently, until there are fewer than `limit`.
    pub fn make_room(&mut self, limit: usize) {
        while self.len() >= limit {
            let oldest = self.shared.iter().min_by_key(|(_, entry)| entry.used);
            let Some(identity) = oldest.map(|(identity, _)| *identity) else { return };
            self.close_shared(identity);
        }
    }

    /// Closes the shared ones that no client has open.
    pub fn close_unused(&mut self) {
        let unused = self.shared.extract_if(|_, entry| entry.prepared.clients() == 0);
        for (_, entry) in unused.collect::<Vec<_>>() {
            self.close(entry);
        }
    }

    /// The server has forgotten all of them: a new login, a reset.
    pub fn forget_all(&mut self) {
        self.figures.prepared.fetch_sub(self.len() as u64, Ordering::Relaxed);
        self.shared.clear();
        self.held.clear();
        self.closings.clear();
    }

    fn take_held(&mut self, client_id: u32) -> Option<Entry> {
        let place = self.held.iter().position(|(id, _)| *id == client_id)?;
        Some(self.held.swap_remove(place).1)
    }

    /// Commands that close statements, to be sent in front of the next that prepares one.
    pub fn take_closings(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.closings)
    }

    fn close(&mut self, entry: Entry) {
        self.figures.prepared_closed.fetch_add(1, Ordering::Relaxed);
        self.figures.prepared.fetch_sub(1, Ordering::Relaxed);
        put_encoded(&mut self.closings, &mut 0, |out| {
            out.push(Command::StmtClose.code());
            out.extend(entry.id.to_le_bytes());
        });
    }
}

impl Drop for Statements {
    fn drop(&mut self) {
        self.forget_all();
    }
}

impl Backend {
    /// Sends what is in `out`, then `COM_STMT_PREPARE`, and reads the whole answer.
    ///
    /// # Errors
    /// The server's own when it refuses the statement; the connection is as it was then.
    pub async fn prepare(&self, mut out: Vec<u8>, text: &[u8]) -> Result<PrepareOk, BackendError> {
        put_packet(&mut out, &mut 0, &[&[Command::StmtPrepare.code()], text].concat());
        self.stream.write_all(&out).await?;
        let deprecate_eof = self.login.capabilities.contains(Capabilities::DEPRECATE_EOF);
        let mut tracker = Tracker::new(Expect::Prepare, deprecate_eof);
        let mut buffer = Buffer::default();
        let mut answer = None;
        while !tracker.is_done() {
            let walk = tracker.walk(buffer.filled_mut())?;
            buffer.consume(walk.passed);
            match walk.next {
                Next::More { need } => {
                    buffer.make_room(need);
                    if buffer.fill(&self.stream).await? == 0 {
                        return Err(BackendError::Closed);
                    }
                }
                Next::PrepareOk { length } => {
                    answer = PrepareOk::decode(packet_payload(&buffer, length));
                    buffer.consume(length);
                }
                Next::Err { length } => {
                    let error = ServerError::decode(packet_payload(&buffer, length))?;
                    return Err(BackendError::Server(error));
                }
                Next::ColumnsEnd { length }
                | Next::Ok { length }
                | Next::Eof { length }
                | Next::Text { length } => buffer.consume(length),
                Next::LocalInfile { .. } => {
                    return Err(narrows_wire::Malformed("unasked request for a file").into());
                }
            }
        }
        answer.ok_or_else(|| narrows_wire::Malformed("no answer to COM_STMT_PREPARE").into())
    }
}

fn packet_payload(buffer: &Buffer, length: usize) -> &[u8] {
    match narrows_wire::Header::decode(buffer.filled()) {
        Some(header) if header.packet_length() == length => payload(buffer, header),
        _ => &[],
    }
}
