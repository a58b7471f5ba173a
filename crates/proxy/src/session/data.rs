//! The data of a session: what its client has set, what servers have reported about it, and what is open.

use std::cell::{Cell, RefCell};

use narrows_wire::Status;

use super::causal::Written;
use super::information::Information;
use super::statements::ClientStatements;
use crate::state::SharedState;

/// Everything about a session except its connections.
pub(super) struct SessionData {
    /// The client's state, as far as it is known without asking a server. Anything else is a reason for a pin.
    pub(super) state: SharedState,
    /// The state for reads that run outside of the client's transactions, once there was such a read.
    pub(super) apart: Option<Apart>,
    /// The state after the login, to which `COM_RESET_CONNECTION` returns.
    pub(super) login_state: SharedState,
    /// Its schema could not be chosen when it was last tried, and statements run without one.
    pub(super) schema_is_gone: bool,
    /// A server has refused to bring a connection into `state`.
    pub(super) state_is_refused: bool,
    /// Status flags of the last answer.
    pub(super) status: Status,
    /// Whether a server has sent `status` since the session began.
    pub(super) status_is_told: bool,
    /// The client's transaction was begun by a statement of its own, as the server has reported. Without such reports it is
    /// not known.
    pub(super) has_begun: Cell<bool>,
    /// Changes of the session that the client has asked for, and that came with an answer which it receives as an EOF packet:
    /// the next OK packet reports them.
    pub(super) untold_changes: RefCell<Vec<u8>>,
    /// Warnings of the last statement, as MySQL repeats them in the answer to `COM_PING`; MariaDB does not.
    pub(super) warnings: u16,
    /// What the information functions return about earlier statements.
    pub(super) information: Information,
    /// What it has written, for reads that must see it.
    pub(super) written: Written,
    /// The prepared statements that are open.
    pub(super) statements: ClientStatements,
    /// The `flagIN` of the next statement.
    pub(super) next_flag_in: u32,
    /// The same if the rules of a dry run were in force, and the id of those rules.
    pub(super) dry_run_flag_in: Option<(u64, u32)>,
}

/// A client's state, but with autocommit on, while the client has it off.
pub(super) struct Apart {
    pub(super) of: SharedState,
    pub(super) state: SharedState,
}
