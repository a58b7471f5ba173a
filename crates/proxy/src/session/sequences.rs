//! `LASTVAL()` and similar functions, which MariaDB answers per connection: a client must not see values that another one
//! has drawn. Servers do not report that the `DEFAULT` of a column has drawn a value, so any write may have.

use narrows_sql::{Flags, Statement};
use narrows_wire::charset::Family;
use narrows_wire::{Command, Errno};

use super::job::Job;
use super::request::Request;
use super::{End, Session};
use crate::backend::{Backend, BackendError};
use crate::pool::Lease;

impl Session {
    /// Whether the connection must be reset before it runs a command, which is possible because it is not pinned.
    pub(super) fn must_forget_values(&self, backend: &Backend, job: &Job) -> bool {
        job.statement.flags.intersects(Flags::LAST_VALUE) && asks_values_of_others(backend, job)
    }

    /// Resets the connection. Diagnostics that it keeps for its last client, perhaps this one, are collected first.
    pub(super) async fn forget_values(&self, backend: &mut Backend) -> Result<(), BackendError> {
        let limit = self.snapshot().variables.connect_timeout_server;
        backend.collect_diagnostics(limit).await?;
        backend.reset(limit).await?;
        // The diagnostics of its last client are gone, so it must not look untouched.
        backend.login.count_lease();
        Ok(())
    }

    /// Whether a command asks the connection that the client keeps for values that may be another client's.
    pub(super) fn asks_values_of_others(&self, job: &Job) -> bool {
        job.statement.flags.intersects(Flags::LAST_VALUE)
            && self.binding.pinned.as_ref().is_some_and(|pinned| asks_values_of_others(&pinned.backend, job))
    }

    /// Refuses such a command, because a reset would lose what the client has on the connection.
    pub(super) async fn refuse_values(&mut self, request: &mut Request, job: &Job) -> Result<(), End> {
        self.fail_record(NOT_KNOWN.0.number);
        self.count_failed(request, job);
        self.discard(request).await?;
        self.reply_error_at(request.answer(), NOT_KNOWN.0, NOT_KNOWN.1).await
    }
}

/// After a statement that may have drawn a value: later questions are about the client's own values.
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
    let writes = statement.tells_changed_rows() || statement.runs_others();
    writes || statement.flags.intersects(Flags::FUNCTION_CALL_UNKNOWN | Flags::MULTI)
}

/// The error for a question about the last value if only other clients may have drawn one.
const NOT_KNOWN: (Errno, &str) = (
    Errno { number: 1235, sqlstate: *b"42000" },
    "LASTVAL() is not supported here: this session has drawn no value on the server connection that it keeps, and other sessions \
     may have; draw a value first, or call LASTVAL() before the transaction begins",
);
