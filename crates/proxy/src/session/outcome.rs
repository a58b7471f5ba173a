//! What the answer to a command has reported, and how it failed.

use narrows_sql::{Flags, Kind, Statement};
use narrows_wire::gtid::GtidSet;
use narrows_wire::response::Expect;
use narrows_wire::{Errno, Status};

use super::End;
use super::replay::answer::Reading;
use crate::backend::{PrepareOk, ServerError, TOO_MANY_STATEMENTS};
use crate::rows::NO_CLUSTER;
use crate::rt::{Instant, oneshot};

/// What the OK, EOF and ERR packets of an answer have reported.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Status flags of the last OK or EOF packet; `None` when there was none.
    pub(super) status: Option<Status>,
    /// The last insert id in an OK packet.
    pub(super) last_insert_id: u64,
    /// Rows changed, by the last OK packet; `None` if the answer ended with rows.
    pub(super) affected_rows: Option<u64>,
    /// The first number in the info text of the last OK packet, in any language: rows matched, or records.
    pub(super) counted: Option<u64>,
    /// Total rows changed.
    pub(super) rows_changed: u64,
    /// Total rows sent.
    pub(super) rows_sent: u64,
    /// Bytes received from the server.
    pub(super) received: u64,
    /// When the first part of the answer had arrived; `None`: it arrived as a whole.
    pub(super) first_byte: Option<Instant>,
    /// Rows of the last result that had columns.
    pub(super) rows: Option<u64>,
    /// The number of its columns.
    pub(super) columns: u64,
    /// Warnings of the last result.
    pub(super) warnings: u16,
    /// Warnings of each earlier result, if there are several.
    pub(super) warnings_before: Vec<u16>,
    /// Bytes sent to the client.
    pub(super) bytes: u64,
    /// The error that ended the answer.
    pub(super) error: Option<u16>,
    /// Its SQLSTATE.
    pub(super) sqlstate: Option<[u8; 5]>,
    /// The message of that error, if the statement has a record.
    pub(super) error_text: Vec<u8>,
    /// Session variables that were reported as changed, in order.
    pub(super) variables: Vec<(String, Vec<u8>)>,
    /// Those of them that are NULL, which was asked.
    pub(super) nulls: Vec<String>,
    /// The transactions that were reported as written.
    pub(super) gtids: Option<GtidSet>,
    /// The schema that was reported last.
    pub(super) schema: Option<Vec<u8>>,
    /// Something of the session was reported as changed, whatever it is.
    pub(super) state_changed: bool,
    /// What was reported last of the open transaction, or the next one: the statements that would begin it.
    pub(super) characteristics: Option<Vec<u8>>,
    /// It may have changed something that is reported with a later answer.
    pub(super) is_untold: bool,
    /// An answer has told everything that was not reported before.
    pub(super) tells_all: bool,
    /// The server's reply to the preparation of a statement.
    pub(super) prepared: Option<PrepareOk>,
    /// An error that was not sent to the client; see [`Answering::hold_back`].
    pub(super) held_back: Option<ServerError>,
    /// Reads the answer for its checksum, if the transaction may have to be run again.
    pub(super) answer: Option<Box<Reading>>,
    /// A kill of the statement was sent; resolves when it has arrived.
    pub(super) kill: Option<oneshot::Receiver<()>>,
    /// The statement was killed, or took too long: whatever it has answered, nothing may run it again.
    pub(super) was_killed: bool,
}

/// The properties of the answer to one command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answering {
    /// Its structure.
    pub(super) expect: Expect,
    /// What is answered.
    pub(super) of: Statement,
    /// The client's id for the statement that is being prepared.
    pub(super) statement: u32,
    /// Errors that are not sent to the client if they are the whole answer, because the command can be tried again.
    pub(super) hold_back: HoldBack,
    /// It runs outside of the client's transaction, with autocommit on, while the client has it off.
    pub(super) apart: bool,
    /// The columns of a prepared statement, as its client knows them; 0: none, or it is no execution.
    pub(super) columns_told: u16,
    /// Its server may ask for a file of the client.
    pub(super) file: bool,
    /// Bytes of answers per second for the client; 0: no limit.
    pub(super) throttle: u64,
}

/// Whether a statement may make the server ask for a file of the client. Otherwise the server does not receive one.
pub(super) fn may_load_a_file(statement: &Statement) -> bool {
    let unread = Flags::MULTI | Flags::UNSURE | Flags::UNTERMINATED;
    let kinds = [Kind::LoadDataLocal, Kind::SetStatement, Kind::Execute, Kind::Call];
    kinds.contains(&statement.kind) || statement.flags.intersects(unread)
}

impl Outcome {
    /// The answer was held back, and the command is sent once more.
    pub(super) fn begins_again(&mut self) {
        let answer = self.answer.take().map(|_| Box::default());
        *self = Outcome { answer, ..Outcome::default() };
    }
}

/// Errors after which the command can be tried again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HoldBack {
    /// The server is read only: the statement runs on a writable one.
    pub(super) read_only: bool,
    /// The server is shutting down: the statement runs on another one.
    pub(super) going_away: bool,
    /// The server has lost its cluster, or gives its role to another one, and has done nothing: that one is waited for.
    pub(super) no_cluster: bool,
    /// The server lets only administrators in.
    pub(super) offline: bool,
    /// The server's prepared statement does not exist, or must be prepared again.
    pub(super) stale: bool,
    /// The server has too many prepared statements: some are closed.
    pub(super) too_many_statements: bool,
    /// The statement is sent again, and is not to change a table: it does not run.
    pub(super) changes_tables: bool,
}

impl HoldBack {
    pub(super) fn has(self, code: u16) -> bool {
        self.read_only && READ_ONLY.contains(&code)
            || self.going_away && GOING_AWAY.contains(&code)
            || self.no_cluster && [NO_CLUSTER, BLOCKED].contains(&code)
            || self.offline && code == OFFLINE
            || self.stale && STALE.contains(&code)
            || self.too_many_statements && code == TOO_MANY_STATEMENTS
            || self.changes_tables && code == READ_ONLY_TRANSACTION
    }
}

/// Why an answer is not complete.
#[derive(Debug)]
pub(super) enum Broken {
    /// The server was lost before it had received all of the command.
    Unsent { text: String },
    /// The server does not read the command.
    Stalled { text: String },
    /// The command is longer than `max_allowed_packet`; the server has received part of it.
    TooLong,
    /// The server was lost. `started`: the client has received part of the answer; `killed`: the statement was killed, and
    /// whether because it took too long.
    Backend { started: bool, killed: Option<bool>, text: String },
    /// The statement was killed while its command was being sent, or the server does not end it.
    Cut { started: bool, timed_out: bool },
    /// The session is over; the statement may still be running.
    Session(End),
}

impl Broken {
    /// The same for a client that does not read, and so cannot receive an error.
    pub(super) fn unread(self) -> Broken {
        match self {
            Broken::Cut { .. } => {
                Broken::Session(End::ErrorSent("killed while the client did not read".to_owned()))
            }
            broken => broken,
        }
    }
}

/// Errors of a server that is read only, by `--read-only` or a similar option, or as a whole.
pub(super) const READ_ONLY: &[u16] = &[1290, 1836];

/// The error of a statement that may change a table, in a transaction that is read only.
pub(super) const READ_ONLY_TRANSACTION: u16 = 1792;

/// Errors of a server that is shutting down, or has left its Galera cluster.
pub(super) const GOING_AWAY: &[u16] = &[1053, NO_CLUSTER];

/// The error of the primary of a group for every statement while another member becomes the primary.
pub(super) const BLOCKED: u16 = 4094;

/// The error of a server that lets only administrators in.
pub(super) const OFFLINE: u16 = 3032;

/// Whether an error means that the server has another role now, or goes away.
pub(super) fn changes_role(code: u16) -> bool {
    READ_ONLY.contains(&code) || GOING_AWAY.contains(&code) || [BLOCKED, OFFLINE].contains(&code)
}

/// Errors after which a server may have another role: the above, of a server that lets only administrators in, and of
/// a member of a group that may not write or could not commit.
pub(super) const DOUBTFUL: &[u16] = &[1290, 1836, 1053, NO_CLUSTER, OFFLINE, 3098, 3100, BLOCKED];

/// Errors about a prepared statement that does not exist any more, or whose tables have changed too much.
pub(super) const STALE: &[u16] = &[Errno::UNKNOWN_STMT_HANDLER.number, 1615];

/// The result of a statement that has ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Yield {
    pub(super) rows_affected: u64,
    pub(super) rows_sent: u64,
}
