//! What a connection keeps for a client's prepared statement after a command.

use narrows_wire::response::Expect;
use narrows_wire::{Command, Status};

use super::{Done, PinReason, Pins, ServerReport};

/// The prepared statement that a command is about.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct HeldStatement<'a> {
    /// The client's id for it.
    pub(in super::super) id: u32,
    /// It can be executed only on the connection that prepared it.
    pub(in super::super) tied: bool,
    /// The kind of answer that the command has.
    pub(in super::super) expect: Expect,
    /// The schema in which it was prepared.
    pub(in super::super) schema: Option<&'a [u8]>,
}

/// The state of the server's statement on its connection, after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum ServerStatement {
    /// Unchanged.
    AsItWas,
    /// It was prepared, and belongs to the client if it is tied.
    Prepared,
    /// It has a cursor, and so belongs to the client.
    HasCursor,
    /// It is unknown which types its parameters have.
    TypesUnknown,
    /// It is closed, because it may have something left that another client must not use.
    Closed,
    /// Any client may execute it again. `had_cursor`: it is the one for executions with a cursor.
    Shared { had_cursor: bool },
}

/// The effect of a command on its statement: the connection now has it, keeps something for it, or no longer does.
pub(super) fn settle(pins: &mut Pins, done: &Done<'_>, report: &ServerReport<'_>) -> ServerStatement {
    let Some(HeldStatement { id, tied, expect, .. }) = done.prepared else { return ServerStatement::AsItWas };
    let failed = report.error.is_some();
    let status = report.status.unwrap_or_default();
    match done.command {
        Command::StmtPrepare if !report.prepared => return ServerStatement::AsItWas,
        Command::StmtPrepare => {
            if tied {
                pins.hold(id, PinReason::PREPARED_STATEMENT);
            }
            return ServerStatement::Prepared;
        }
        Command::StmtExecute | Command::StmtBulkExecute => {
            if expect == Expect::Cursor && !failed && status.contains(Status::CURSOR_EXISTS) {
                pins.let_go(id, PinReason::LONG_DATA);
                pins.hold(id, PinReason::CURSOR);
                return ServerStatement::HasCursor;
            }
        }
        Command::StmtFetch if !failed && !status.contains(Status::LAST_ROW_SENT) => {
            return ServerStatement::AsItWas;
        }
        Command::StmtFetch | Command::StmtReset => {}
        _ => return ServerStatement::AsItWas,
    }
    if !pins.holds(id, PinReason::HELD_STATEMENT) {
        return if failed { ServerStatement::TypesUnknown } else { ServerStatement::AsItWas };
    }
    let had_cursor = pins.holds(id, PinReason::CURSOR) || expect == Expect::Cursor;
    pins.let_go(id, PinReason::CURSOR);
    pins.let_go(id, PinReason::LONG_DATA);
    match failed {
        _ if tied => ServerStatement::AsItWas,
        true => ServerStatement::Closed,
        false => ServerStatement::Shared { had_cursor },
    }
}
