//! How long a session waits for its client where the client has said so: `SET wait_timeout`, `interactive_timeout`,
//! `net_read_timeout`, `net_write_timeout`.
//!
//! A server is told only for statements that may read them back, and for no longer: it would end a connection by them that
//! another client has, or none.

use std::time::Duration;

use narrows_wire::Capabilities;

use super::Session;
use crate::state::SessionState;

/// What a client has set, in force beside Narrows' own limits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Patience {
    /// For the next command.
    pub(super) idle: Option<Duration>,
    /// For the rest of a command.
    pub(super) read: Option<Duration>,
    /// For the client to take what it is sent.
    pub(super) write: Option<Duration>,
    /// Some of it is so short that no connection of the pool may have it.
    pub(super) is_short: bool,
}

impl Patience {
    pub(super) fn of(state: &SessionState, capabilities: Capabilities) -> Patience {
        let interactive = capabilities.contains(Capabilities::INTERACTIVE);
        let idle =
            [state.timeout("wait_timeout"), state.timeout("interactive_timeout").filter(|_| interactive)];
        Patience {
            idle: idle.into_iter().flatten().min(),
            read: state.timeout("net_read_timeout"),
            write: state.timeout("net_write_timeout"),
            is_short: state.has_short_timeouts(),
        }
    }
}

impl Session {
    /// The client's state is another one.
    pub(super) fn note_patience(&mut self) {
        self.client.patience = Patience::of(&self.data.state, self.client.capabilities);
    }
}
