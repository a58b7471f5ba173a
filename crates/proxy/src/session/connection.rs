//! The client's side of a session: its connection, what it has sent that is not read yet, and how it keeps up.

use std::cell::Cell;
use std::rc::Rc;

use narrows_wire::Capabilities;
use narrows_wire::auth::Nonce;

use super::Handle;
use super::patience::Patience;
use super::transfer::Pace;
use crate::buffer::Buffer;
use crate::rt::Instant;
use crate::stream::Stream;
use crate::worker::Worker;

/// The connection of a client.
pub(super) struct ClientConnection {
    pub(super) worker: Rc<Worker>,
    /// How others interrupt the session.
    pub(super) handle: Rc<Handle>,
    pub(super) stream: Stream,
    /// Bytes that were received and not parsed yet; holds memory only while there are any.
    pub(super) input: Buffer,
    /// The address and port that the client connected to.
    pub(super) local: (String, u16),
    pub(super) capabilities: Capabilities,
    /// The nonce of the greeting, which `COM_CHANGE_USER` needs again.
    pub(super) nonce: Nonce,
    /// How long the client has asked to be waited for.
    pub(super) patience: Patience,
    /// When the open transaction was first seen: it limits how long the client may be idle.
    pub(super) transaction_since: Option<Instant>,
    /// How the client keeps up with the current command.
    pub(super) pace: Cell<Pace>,
    /// When the client may receive more, if that is limited.
    pub(super) throttled_until: Cell<Option<Instant>>,
}
