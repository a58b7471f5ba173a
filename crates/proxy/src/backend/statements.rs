//! The prepared statements of one backend connection.
//!
//! Those that any client may execute are *shared*, and found by their identity. One that has state of a single client
//! (an open cursor, parameters sent in parts) is *held* for that client, and found by the client's id for it, until
//! that state is gone; meanwhile the client has the connection to itself.
//!
//! A connection has no more than `max_stmts_per_connection`: the least recently used shared one is closed to make room.
//! `COM_STMT_CLOSE` has no answer, so it is sent before the next command that prepares.

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
    shared: ByIdentity<BackendStatement>,
    /// By the client's id.
    held: Vec<(u32, BackendStatement)>,
    /// Counts uses, to find the least recently used.
    clock: u64,
    closings: Vec<u8>,
}

/// A statement that the server has prepared.
#[derive(Debug)]
pub struct BackendStatement {
    /// The server's id.
    pub id: u32,
    /// The types of parameters of its last execution.
    pub types: Vec<u8>,
    /// Its identity; counts this connection among those that have it.
    pub prepared: ServerShare,
    used: u64,
}

/// The size of a statement in a backend connection's table: its entry and its key.
pub const BYTES_OF_ENTRY: u64 = (size_of::<BackendStatement>() + size_of::<Identity>()) as u64;

/// The first packet of the answer to `COM_STMT_PREPARE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrepareOk {
    /// The id of the statement.
    pub id: u32,
    /// Columns of its result.
    pub columns: u16,
    /// Its placeholders.
    pub params: u16,
    /// Warnings about its text.
    pub warnings: u16,
}

impl PrepareOk {
    /// Reads the packet's payload; `None` if it is too short.
    pub fn decode(payload: &[u8]) -> Option<PrepareOk> {
        let number = |at| payload.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
        let id = payload.get(1..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
        // The packet may end before them.
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

    /// Whether this statement is shared here.
    pub fn has(&self, identity: Identity) -> bool {
        self.shared.contains_key(&identity)
    }

    /// The one that is held for a client's id.
    pub fn held(&mut self, client_id: u32) -> Option<&mut BackendStatement> {
        self.held.iter_mut().find(|(id, _)| *id == client_id).map(|(_, entry)| entry)
    }

    /// The shared one with this identity, which counts as used now.
    pub fn shared(&mut self, identity: Identity) -> Option<&mut BackendStatement> {
        self.clock += 1;
        let entry = self.shared.get_mut(&identity)?;
        entry.used = self.clock;
        Some(entry)
    }

    /// The server has prepared one. If there is another with this identity, that one is closed.
    pub fn add(&mut self, identity: Identity, id: u32, prepared: Arc<Prepared>) {
        self.close_shared(identity);
        self.clock += 1;
        self.figures.prepared.fetch_add(1, Ordering::Relaxed);
        self.figures.prepared_in_all.fetch_add(1, Ordering::Relaxed);
        let prepared = ServerShare::new(prepared);
        self.shared.insert(identity, BackendStatement { id, types: Vec::new(), prepared, used: self.clock });
    }

    /// The shared one with the first identity is found by the second one from now on; closes the one that had it.
    pub fn rename(&mut self, from: Identity, to: Identity) {
        let Some(entry) = self.shared.remove(&from) else { return };
        self.close_shared(to);
        self.shared.insert(to, entry);
    }

    /// Holds the shared one with this identity for a client's id, unless one is already held for it: ids are reused by
    /// the next client, and a statement left under one would be executed in place of its own.
    pub fn hold(&mut self, identity: Identity, client_id: u32) {
        if self.held(client_id).is_none()
            && let Some(entry) = self.shared.remove(&identity)
        {
            self.held.push((client_id, entry));
        }
    }

    /// Shares the one held for a client's id again, with this identity; closes it if that is taken.
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

    /// Closes the one held for a client's id.
    pub fn close_held(&mut self, client_id: u32) {
        if let Some(entry) = self.take_held(client_id) {
            self.close(entry);
        }
    }

    /// Closes the shared one with this identity.
    pub fn close_shared(&mut self, identity: Identity) {
        if let Some(entry) = self.shared.remove(&identity) {
            self.close(entry);
        }
    }

    /// Closes shared ones, the least recently used first, until there are fewer than `limit`.
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

    /// The server has dropped all of them, after a new login or a reset.
    pub fn forget_all(&mut self) {
        self.figures.prepared.fetch_sub(self.len() as u64, Ordering::Relaxed);
        self.shared.clear();
        self.held.clear();
        self.closings.clear();
    }

    fn take_held(&mut self, client_id: u32) -> Option<BackendStatement> {
        let place = self.held.iter().position(|(id, _)| *id == client_id)?;
        Some(self.held.swap_remove(place).1)
    }

    /// Commands that close statements, to be sent before the next one that prepares.
    pub fn take_closings(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.closings)
    }

    fn close(&mut self, entry: BackendStatement) {
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
    /// The server's if it refuses the statement; then the connection is unchanged.
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
