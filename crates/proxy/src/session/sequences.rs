//! `LASTVAL()` and its like, which MariaDB answers of the connection: values that another client has drawn there must not be
//! shown. That a column's `DEFAULT` has drawn, no server tells, so any write may have.

use narrows_sql::{Flags, Kind, Statement};
use narrows_wire::charset::Family;
use narrows_wire::{Command, Errno};

use super::job::Job;
use super::request::Request;
use super::{End, Session};
use crate::backend::{Backend, BackendError};
use crate::pool::Lease;

impl Session {
    /// Whether the connection must be reset before it runs a command: nothing ties it to this client yet.
    pub(super) fn must_forget_values(&self, backend: &Backend, job: &Job) -> bool {
        job.statement.flags.intersects(Flags::LAST_VALUE) && asks_values_of_others(backend, job)
    }

    /// Resets it. What it keeps for the client that it served last, this one perhaps, is left with that client.
    pub(super) async fn forget_values(&self, backend: &mut Backend) -> Result<(), BackendError> {
        let limit = self.snapshot().variables.connect_timeout_server;
        backend.collect_diagnostics(limit).await?;
        backend.reset(limit).await?;
        // It knows less than its last client left there.
        backend.login.count_lease();
        Ok(())
    }

    /// Whether a command asks the connection that the client keeps for values that may be another client's.
    pub(super) fn asks_values_of_others(&self, job: &Job) -> bool {
        job.statement.flags.intersects(Flags::LAST_VALUE)
            && self.binding.pinned.as_ref().is_some_and(|pinned| asks_values_of_others(&pinned.backend, job))
    }

    /// Refuses such a command: the connection carries what a reset would end.
    pub(super) async fn refuse_values(&mut self, request: &mut Request, job: &Job) -> Result<(), End> {
        self.fail_record(NOT_KNOWN.0.number);
        self.count_failed(request, job);
        self.discard(request).await?;
        self.reply_error_at(request.answer(), NOT_KNOWN.0, NOT_KNOWN.1).await
    }
}

/// After a statement of the client that has the connection: what it asks from now on is about what it has drawn.
pub(super) fn note_drawn(backend: &mut Lease, statement: &Statement) {
    if may_draw(statement) {
        backend.login.sequences_are_own = true;
    }
}

fn asks_values_of_others(backend: &Backend, job: &Job) -> bool {
    let runs = matches!(job.command, Command::Query | Command::StmtExecute | Command::StmtBulkExecute);
    runs && backend.login.family == Family::MariaDb && !backend.login.sequences_are_own
}

/// Whether a statement may draw from a sequence, by name or not.
fn may_draw(statement: &Statement) -> bool {
    let writes = matches!(
        statement.kind,
        Kind::Insert
            | Kind::Replace
            | Kind::Update
            | Kind::Delete
            | Kind::LoadData
            | Kind::LoadDataLocal
            | Kind::Call
            | Kind::Execute
            | Kind::SetStatement
            | Kind::Other
    );
    writes || statement.flags.intersects(Flags::FUNCTION_CALL_UNKNOWN | Flags::MULTI)
}

/// Of a question for the last value where only others have drawn, as far as is known.
const NOT_KNOWN: (Errno, &str) = (
    Errno { number: 1235, sqlstate: *b"42000" },
    "LASTVAL() is not supported here: this session has drawn no value on the server connection that it keeps, and others may \
     have; draw one first, or ask before the transaction begins",
);
