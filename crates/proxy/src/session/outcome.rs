//! What the answer to a command has told, and how it went wrong.

use narrows_sql::{Flags, Kind, Statement};
use narrows_wire::response::Expect;
use narrows_wire::{Errno, Status};

use super::End;
use crate::backend::{PrepareOk, ServerError, TOO_MANY_STATEMENTS};
use crate::rt::oneshot;

/// What an answer told, by its OK, EOF and ERR packets.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Status flags of the last OK or EOF packet; `None` when there was none.
    pub(super) status: Option<Status>,
    /// The last insert id that an OK packet named.
    pub(super) last_insert_id: u64,
    /// Rows changed, as the last OK packet told; `None` when rows came last.
    pub(super) affected_rows: Option<u64>,
    /// The first number in the text of the last OK packet, in whatever language: rows matched, or records.
    pub(super) counted: Option<u64>,
    /// Rows changed in all.
    pub(super) rows_changed: u64,
    /// Rows sent in all.
    pub(super) rows_sent: u64,
    /// Bytes read of the server.
    pub(super) received: u64,
    /// Rows of the last result that had any columns.
    pub(super) rows: Option<u64>,
    /// Its columns.
    pub(super) columns: u64,
    /// Warnings of the last result.
    pub(super) warnings: u16,
    /// Warnings of each result before it, where there are several.
    pub(super) warnings_before: Vec<u16>,
    /// Bytes sent to the client.
    pub(super) bytes: u64,
    /// The error that ended the answer.
    pub(super) error: Option<u16>,
    /// Session variables that were reported as changed, in order.
    pub(super) variables: Vec<(String, Vec<u8>)>,
    /// The schema that was reported last.
    pub(super) schema: Option<Vec<u8>>,
    /// The statement that was prepared, in the server's words.
    pub(super) prepared: Option<PrepareOk>,
    /// An error that the client was not told; see [`Answering::hold_back`].
    pub(super) held_back: Option<ServerError>,
    /// A kill of the statement was sent; resolves when it has arrived.
    pub(super) kill: Option<oneshot::Receiver<()>>,
}

/// What is particular about the answer to one command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answering {
    /// Its form.
    pub(super) expect: Expect,
    /// The client's number for the statement that is being prepared.
    pub(super) statement: u32,
    /// Errors that the client is not told when they are the whole answer: something can be done about them.
    pub(super) hold_back: HoldBack,
    /// It runs outside of the client's transaction, with autocommit on, which the client has off.
    pub(super) apart: bool,
    /// Its server may ask for a file of the client.
    pub(super) file: bool,
    /// Bytes of answers that the client is sent in a second; 0: no limit.
    pub(super) throttle: u64,
}

/// Whether a server that asks for a file of the client has been told to: else it wants what nobody gives it.
pub(super) fn may_load_a_file(statement: &Statement) -> bool {
    let unread = Flags::MULTI | Flags::UNSURE | Flags::UNTERMINATED;
    let kinds = [Kind::LoadDataLocal, Kind::SetStatement, Kind::Execute, Kind::Call];
    kinds.contains(&statement.kind) || statement.flags.intersects(unread)
}

/// Errors about which something can be done.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HoldBack {
    /// The server is read only: the statement is run where it may write.
    pub(super) read_only: bool,
    /// The server goes away: the statement is run elsewhere.
    pub(super) going_away: bool,
    /// The server's statement is not what was prepared, or is forgotten: it is prepared again.
    pub(super) stale: bool,
    /// The server has too many statements: some are closed.
    pub(super) too_many_statements: bool,
}

impl HoldBack {
    pub(super) fn has(self, code: u16) -> bool {
        self.read_only && READ_ONLY.contains(&code)
            || self.going_away && GOING_AWAY.contains(&code)
            || self.stale && STALE.contains(&code)
            || self.too_many_statements && code == TOO_MANY_STATEMENTS
    }
}

/// Why an answer did not come through.
#[derive(Debug)]
pub(super) enum Broken {
    /// The server went away before it had all of the command.
    Unsent { text: String },
    /// The server takes nothing of the command.
    Stalled { text: String },
    /// The command is longer than `max_allowed_packet`; the server has a part of it.
    TooLong,
    /// The server went away. `started`: the client has a part of the answer; `killed`: the statement was, and whether because it
    /// took too long.
    Backend { started: bool, killed: Option<bool>, text: String },
    /// The statement was killed in the middle of its command, or the server does not end it.
    Cut { started: bool, timed_out: bool },
    /// The session is over; the statement may still run.
    Session(End),
}

impl Broken {
    /// The same where the client does not read: it cannot be told.
    pub(super) fn unread(self) -> Broken {
        match self {
            Broken::Cut { .. } => {
                Broken::Session(End::ErrorSent("killed while the client did not read".to_owned()))
            }
            broken => broken,
        }
    }
}

/// What a server says that is read only: `--read-only` in some form, or read only as a whole.
pub(super) const READ_ONLY: &[u16] = &[1290, 1836];

/// What a server says that shuts down, or has left its Galera cluster.
pub(super) const GOING_AWAY: &[u16] = &[1053, 1047];

/// What a server says of a statement that is not what was prepared: it was forgotten, or tables have changed too much.
const STALE: &[u16] = &[Errno::UNKNOWN_STMT_HANDLER.number, 1615];

/// What a statement that is over gave.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Yield {
    pub(super) rows_affected: u64,
    pub(super) rows_sent: u64,
}
