//! The session's own timeouts: `SET wait_timeout`, `interactive_timeout`, `net_read_timeout`, `net_write_timeout`.
//!
//! They are set on a backend connection only for statements that may read them, and reset after that: the server would
//! otherwise close a connection that is idle or that another client uses.

use std::time::Duration;

use narrows_wire::Capabilities;

use super::Session;
use crate::state::SessionState;

/// The timeouts that a client has set, which hold in addition to Narrows' own limits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Patience {
    /// For the next command.
    pub(super) idle: Option<Duration>,
    /// For the rest of a command.
    pub(super) read: Option<Duration>,
    /// For the client to read what it is sent.
    pub(super) write: Option<Duration>,
    /// One of them is so short that no connection in the pool may have it.
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
    /// Reads the timeouts from the client's state, which has changed.
    pub(super) fn note_patience(&mut self) {
        self.client.patience = Patience::of(&self.data.state, self.client.capabilities);
    }
}
