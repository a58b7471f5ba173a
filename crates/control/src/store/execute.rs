//! Executes one statement of an operator in SQLite, within limits.

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::ffi::ErrorCode;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Batch, Connection, Statement};

use super::answer::{Answer, Refusal, ResultSet, cell, reason};
use super::guard::{Abandoned, Guard, Late, Limits, Origin, URGENT_LIMIT};
use super::owned::Ownership;
use super::row_watch::RowWatch;
use crate::urgency::Urgency;

/// The maximum size of an answer as sent to a client: twice the largest statistics table, and twice the largest packet
/// that a client may send.
const ANSWER_LIMIT: usize = 128 << 20;

/// A connection with its hooks, and the row count that answers without a count repeat.
#[derive(Debug)]
pub struct GuardedConnection {
    /// The connection.
    pub connection: Connection,
    guard: Guard,
    writable: bool,
    /// Rows changed by the last statement that changed any: statements that change none return this number again.
    affected: u64,
    /// The rows that the last statement of an operator has changed,
    pub(super) watch: RowWatch,
    /// if they are collected.
    watches: bool,
}

/// Whether statements may change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Statements may change anything.
    ReadWrite,
    /// Changes are refused.
    ReadOnly,
}

impl GuardedConnection {
    /// Sets limits on `connection`.
    pub fn new(
        mut connection: Connection,
        limits: Limits,
        urgency: Urgency,
        abandoned: Abandoned,
    ) -> rusqlite::Result<GuardedConnection> {
        super::functions::add(&connection)?;
        let guard = Guard::install(&mut connection, limits, urgency, abandoned)?;
        super::bounded::replace(&connection, &guard)?;
        let asked = guard.clone();
        let is_operator = move |_: &Context<'_>| Ok(asked.is_operator());
        connection.create_scalar_function(
            "narrows_is_operator",
            0,
            FunctionFlags::SQLITE_UTF8,
            is_operator,
        )?;
        let watch = RowWatch::default();
        watch.add_functions(&connection)?;
        Ok(GuardedConnection { connection, guard, writable: true, affected: 0, watches: false, watch })
    }

    /// Executes the first statement in `text`; what follows it is ignored.
    pub fn run(&mut self, text: &str, access: Access) -> Result<Answer, Refusal> {
        if text.contains('\0') {
            return Err(Refusal::admin("unrecognized token: a byte of value 0"));
        }
        self.set_access(access)?;
        let words: Vec<&str> = text.trim_end_matches([';', ' ']).split_ascii_whitespace().take(3).collect();
        let is = |word: &str| words.first().is_some_and(|first| first.eq_ignore_ascii_case(word));
        if is("VACUUM") && access == Access::ReadOnly {
            return Err(Refusal::admin("attempt to write a readonly database"));
        }
        // VACUUM creates tables, which no operator may; `VACUUM INTO` could write any file.
        let packs = is("VACUUM") && words.len() <= 2 && words.iter().all(|word| is_name(word));
        self.run_as(if packs { Origin::Store } else { Origin::Operator }, text)
    }

    /// Whether the first statement in `text` could be executed, without executing it.
    pub fn check(&mut self, text: &str, access: Access) -> Result<(), Refusal> {
        self.set_access(access)?;
        let entered = self.guard.enter(Origin::Operator);
        let checked = Batch::new(&self.connection, text).next();
        drop(entered);
        match checked.map_err(|error| self.refusal(error))? {
            Some(statement) if access == Access::ReadOnly && !statement.readonly() => {
                Err(Refusal::admin("attempt to write a readonly database"))
            }
            _ => Ok(()),
        }
    }

    fn run_as(&mut self, origin: Origin, text: &str) -> Result<Answer, Refusal> {
        let before = self.connection.total_changes();
        self.watch.forget();
        let outcome = self.prepare_and_run(origin, text);
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        let changed = self.connection.total_changes() - before;
        if changed == 0 {
            // A statement that failed may have changed rows before (INSERT OR FAIL), or may have been taken back.
            self.watch.forget();
        }
        if changed > 0 {
            self.affected = self.connection.changes();
        } else if outcome.is_ok() && changes_rows(text) {
            self.affected = 0;
        }
        match outcome? {
            Some(rows) => Ok(Answer::Rows(rows)),
            None => Ok(Answer::done(self.affected)),
        }
    }

    /// Prepares and runs a statement; returns `None` if it has no columns.
    fn prepare_and_run(&self, origin: Origin, text: &str) -> Result<Option<ResultSet>, Refusal> {
        let entered = self.guard.enter(origin);
        let refusal = |error| self.refusal(error);
        let mut batch = Batch::new(&self.connection, text);
        let first = batch.next().map_err(refusal)?;
        // SQLite accepts an empty text or a comment as a statement, and has nothing to do then.
        let mut statement = first.ok_or_else(|| Refusal::admin("not an error"))?;
        if entered.is_transaction() {
            return Ok(None);
        }
        if statement.column_count() == 0 {
            while statement.raw_query().next().map_err(refusal)?.is_some() {}
            return Ok(None);
        }
        fetch(&mut statement, refusal).map(Some)
    }

    fn refusal(&self, error: rusqlite::Error) -> Refusal {
        if let Some(reason) = self.guard.owner_refusal() {
            return Refusal::admin(reason);
        }
        refusal(error, self.guard.late(), &self.guard.limits)
    }

    /// Collects the rows that operators change from now on, or no more.
    pub fn watch_rows(&mut self, on: bool) -> rusqlite::Result<()> {
        if self.watches != on {
            self.set_access(Access::ReadWrite)?;
            RowWatch::set(&self.connection, on)?;
            self.watches = on;
        }
        Ok(())
    }

    /// What the configuration file owns.
    pub fn ownership(&self) -> &Ownership {
        self.guard.ownership()
    }

    /// From now on, operators do not change what is owned.
    pub fn own(&self, ownership: Ownership) {
        self.guard.own(ownership);
    }

    fn set_access(&mut self, access: Access) -> rusqlite::Result<()> {
        let writable = access == Access::ReadWrite;
        if self.writable != writable {
            self.connection.pragma_update(None, "query_only", !writable)?;
            self.writable = writable;
        }
        Ok(())
    }

    /// Sets a shorter time limit for statements.
    #[cfg(test)]
    pub fn limit_time(&mut self, limit: std::time::Duration) {
        self.guard.limits.time = limit;
    }

    /// The store's own work on the connection, independent of operators' access.
    pub fn open(&mut self) -> Result<&mut Connection, Refusal> {
        self.set_access(Access::ReadWrite)?;
        Ok(&mut self.connection)
    }
}

/// Whether a statement changes rows, and so returns their number.
fn changes_rows(text: &str) -> bool {
    let first = text.split_ascii_whitespace().next().unwrap_or_default();
    ["INSERT", "REPLACE", "UPDATE", "DELETE", "WITH"].iter().any(|word| word.eq_ignore_ascii_case(first))
}

fn fetch(
    statement: &mut Statement<'_>,
    refusal: impl Fn(rusqlite::Error) -> Refusal,
) -> Result<ResultSet, Refusal> {
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut answer = ResultSet { columns, ..ResultSet::default() };
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(&refusal)? {
        let cells = (0..answer.columns.len()).map(|column| Ok(cell(row.get_ref(column)?)));
        let cells = cells.collect::<rusqlite::Result<Vec<_>>>()?;
        answer.rows.push(cells.iter().map(Option::as_deref));
        if answer.rows.bytes() > ANSWER_LIMIT {
            let limit = ANSWER_LIMIT >> 20;
            return Err(Refusal::admin(format!("the answer exceeds {limit} MiB; ask for fewer rows")));
        }
    }
    Ok(answer)
}

fn refusal(error: rusqlite::Error, late: Late, limits: &Limits) -> Refusal {
    match error.sqlite_error_code() {
        // SQLite accepts an empty text or a comment as a statement, and has nothing to do then.
        Some(ErrorCode::ApiMisuse) => Refusal::admin("not an error"),
        Some(ErrorCode::AuthorizationForStatementDenied) => Refusal::admin("Command not allowed"),
        Some(ErrorCode::OperationInterrupted) => Refusal::admin(match late {
            Late::TooLong => {
                let limit = limits.time.as_secs();
                format!("the statement was ended: it took longer than {limit} seconds")
            }
            Late::Urgent => {
                let limit = URGENT_LIMIT.as_millis();
                format!(
                    "the statement was ended: a server has changed its state, which waits for no statement of more than \
                     {limit} ms; ask again"
                )
            }
            Late::TooLarge => TOO_LARGE.to_owned(),
        }),
        Some(ErrorCode::OutOfMemory) => Refusal::admin(TOO_LARGE),
        _ if reason(&error).contains("not authorized") => Refusal::admin("Command not allowed"),
        _ => Refusal::from(error),
    }
}

const TOO_LARGE: &str = "the statement exceeds its memory limit";

fn is_name(word: &str) -> bool {
    !word.eq_ignore_ascii_case("INTO")
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
