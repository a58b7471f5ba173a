//! Warnings and errors of the statements before: `SHOW WARNINGS`, `@@warning_count`, `GET DIAGNOSTICS`.
//!
//! They are with the connection that ran the statement, or were left by its next user, or are an error of Narrows' own.
//! How many there are is known from the protocol; what they say is asked for only when a client wants to know, or when
//! somebody else takes the connection.

use narrows_sql::{DiagnosticsItem, Escapes, Flags, Kind, Statement};
use narrows_wire::charset::Family;
use narrows_wire::codec::put_lenenc_bytes;
use narrows_wire::{Command, Errno, Reader};

use super::look_back::{asks_conditions, is_shown_as_it_is};
use super::query::Job;
use super::relay::Outcome;
use super::{End, Kept, LookBack, Session};
use crate::backend::{Backend, BackendError, Kinds, Left, ResultSet};
use crate::reply;
use crate::state::quoted;

/// How many conditions there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    warnings: u16,
    errors: u16,
}

/// One condition, as a row of `SHOW WARNINGS` tells it.
struct Condition {
    code: u16,
    message: Vec<u8>,
}

impl Session {
    /// Keeps what an answer tells of conditions.
    pub(super) fn note_conditions(&mut self, job: &Job, text: &[u8], family: Family, outcome: &Outcome) {
        let Some(counts) = left_by(job, text, family, outcome) else { return };
        let look_back = &mut self.data.information;
        let runs_others = matches!(job.statement.kind, Kind::Call | Kind::Execute);
        if runs_others && family == Family::MariaDb && look_back.conditions_are_here && counts.warnings == 0 {
            // Whether a table was among them, the connection knows; both tie the session to it.
            return;
        }
        look_back.warning_count = counts.warnings;
        look_back.error_count = counts.errors;
        look_back.conditions_are_here = counts.warnings > 0;
        look_back.conditions_at = None;
        look_back.own_error = None;
    }

    /// A statement was answered with an error that no server knows of.
    pub(super) fn note_own_error(&mut self, errno: Errno, text: &str) {
        let mut row = Vec::with_capacity(16 + text.len());
        for cell in [b"Error", errno.number.to_string().as_bytes(), text.as_bytes()] {
            put_lenenc_bytes(&mut row, cell);
        }
        if self.data.state.keeps_no_errors() {
            // It counts and is not kept.
            row.clear();
        }
        let look_back = &mut self.data.information;
        look_back.warning_count = 1;
        look_back.error_count = 1;
        look_back.conditions_are_here = false;
        look_back.conditions_at = None;
        look_back.own_error = Some(row.into());
        look_back.row_count = -1;
        look_back.last = None;
        look_back.disturbed = true;
    }

    /// Behind an error that was not kept: whether it counts, the server has told.
    pub(super) fn note_uncounted_error(&mut self, errors: u64) {
        let look_back = &mut self.data.information;
        look_back.error_count = u16::try_from(errors).unwrap_or(u16::MAX);
        look_back.warning_count = look_back.error_count;
        look_back.conditions_are_here = false;
        look_back.conditions_at = None;
    }

    /// How many conditions there are, and how many of them are errors. An ERR packet tells of one; whether there were
    /// others before it, what was left tells.
    pub(super) async fn condition_counts(&self) -> (u16, u16) {
        let LookBack { warning_count, error_count, .. } = self.data.information;
        let left = match &self.data.information.conditions_at {
            Some(kept) if error_count > 0 => self.fetched(kept).await,
            _ => None,
        };
        let rows = left.and_then(|left| left.warnings.as_ref()).map_or(&[][..], |set| &set.rows);
        let errors = rows.iter().filter(|row| is_error(row)).count();
        let least = |rows: usize| u16::try_from(rows).unwrap_or(u16::MAX);
        (warning_count.max(least(rows.len())), error_count.max(least(errors)))
    }

    /// Whether the connection at hand must be cleared before it is asked for warnings: it has somebody else's, or
    /// none but those of our own assignments.
    pub(super) fn must_clear_conditions(&self) -> bool {
        !self.data.information.conditions_are_here
    }

    /// Takes off the connection at hand what only it knows of the last statement, before something of our own makes
    /// it forget that.
    pub(super) async fn take_what_is_here(&mut self, backend: &mut Backend) -> Result<(), BackendError> {
        let kinds = Kinds { insert_id: false, ..self.known_here() };
        if kinds.is_empty() {
            return Ok(());
        }
        let kept = Kept::of(backend, kinds);
        let look_back = &mut self.data.information;
        if std::mem::take(&mut look_back.conditions_are_here) {
            look_back.conditions_at = Some(kept.clone());
        }
        if std::mem::take(&mut look_back.found_rows_are_here) {
            look_back.found_rows_at = Some(kept);
        }
        backend.settle_residue(self.snapshot().variables.connect_timeout_server).await
    }

    /// Answers `SHOW WARNINGS` with what was left for this client, when the connection that knew has been taken by
    /// somebody else; `None` when the connection at hand is to be asked.
    pub(super) async fn left_warnings(
        &mut self,
        backend: &Backend,
        text: &[u8],
    ) -> Result<Option<Result<(), End>>, BackendError> {
        let words: Vec<Vec<u8>> = text
            .split(|byte| !byte.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(<[u8]>::to_ascii_uppercase)
            .collect();
        let errors_only = words.iter().any(|word| word == b"ERRORS");
        let limit = self.snapshot().variables.connect_timeout_server;
        let out = if words.iter().any(|word| word == b"COUNT") {
            let (warnings, errors) = self.condition_counts().await;
            self.data.information.found_rows = Some(1);
            self.data.information.found_rows_are_here = false;
            let (name, count): (&[u8], _) = match errors_only {
                true => (b"@@session.error_count", errors),
                false => (b"@@session.warning_count", warnings),
            };
            // Behind an error it is not known whether a transaction is open.
            let status = backend.status(limit).await?.of_session();
            reply::single_value(name, count.to_string().as_bytes(), self.client.capabilities, status)
        } else {
            let Some(left) = self.elsewhere(backend).await? else { return Ok(None) };
            let status = backend.status(limit).await?.of_session();
            let of_kind = |row: &&Vec<u8>| !errors_only || is_error(row);
            let (offset, limit) = limit_of(&words);
            let rows: Vec<&[u8]> =
                left.rows.iter().filter(of_kind).skip(offset).take(limit).map(Vec::as_slice).collect();
            let columns: Vec<&[u8]> = left.columns.iter().map(Vec::as_slice).collect();
            reply::result_set(&columns, &rows, self.client.capabilities, status)
        };
        self.data.warnings = 0;
        self.data.information.row_count = -1;
        self.data.information.last = None;
        self.data.information.disturbed = true;
        Ok(Some(self.send(&out).await))
    }

    /// The conditions that are not on the connection at hand, with the columns that this connection gives them.
    async fn elsewhere(&self, backend: &Backend) -> Result<Option<ResultSet>, BackendError> {
        let rows = match (&self.data.information.own_error, &self.data.information.conditions_at) {
            (Some(row), _) => Some(row.to_vec()).filter(|row| !row.is_empty()).into_iter().collect(),
            (None, Some(kept)) => match self.fetched(kept).await {
                Some(Left { warnings: Some(warnings), .. }) => warnings.rows.clone(),
                _ => return Ok(None),
            },
            (None, None) => return Ok(None),
        };
        let limit = self.snapshot().variables.connect_timeout_server;
        let columns = backend.warnings(limit).await?.columns;
        Ok(Some(ResultSet { columns, rows }))
    }

    /// `GET DIAGNOSTICS` as the assignments it comes to, where the connection at hand does not know; `None` where it is
    /// to be asked: it knows, or something is asked that nobody else does.
    pub(super) async fn diagnostics(
        &mut self,
        backend: &mut Backend,
        text: &[u8],
    ) -> Result<Option<Vec<u8>>, BackendError> {
        let Some(asked) = narrows_sql::diagnostics(text) else { return Ok(None) };
        self.take_what_is_here(backend).await?;
        let left = self.elsewhere(backend).await?.unwrap_or_default();
        let conditions: Option<Vec<Condition>> = left.rows.iter().map(|row| condition(row)).collect();
        let Some(conditions) = conditions else { return Ok(None) };
        let mut assignments = Vec::with_capacity(asked.items.len());
        let about = asked.condition.map(|number| conditions.get(number.checked_sub(1)?));
        for (target, item) in asked.items {
            let value = match (item, about) {
                (DiagnosticsItem::Number, None) => format!("CAST({} AS UNSIGNED)", conditions.len()),
                (DiagnosticsItem::RowCount, None) => self.data.information.row_count.to_string(),
                (DiagnosticsItem::MysqlErrno, Some(Some(condition))) => {
                    format!("CAST({} AS UNSIGNED)", condition.code)
                }
                (DiagnosticsItem::MessageText, Some(Some(condition))) => {
                    format!("_utf8mb3 {}", quoted(&condition.message))
                }
                _ => return Ok(None),
            };
            assignments.push([target, b" = ", value.as_bytes()].concat());
        }
        Ok(Some([b"SET ".as_slice(), &assignments.join(b", ".as_slice())].concat()))
    }
}

/// The conditions that a command has left; `None`: those of the statement before.
fn left_by(job: &Job, text: &[u8], family: Family, outcome: &Outcome) -> Option<Counts> {
    if !job.statement.flags.intersects(Flags::MULTI) {
        return left_by_one(job.command, &job.statement, text, family, (outcome.warnings, outcome.error));
    }
    let mut left = None;
    let mut before = outcome.warnings_before.iter();
    for (one, statement) in narrows_sql::parts(text, Escapes::Backslash) {
        let warnings = before.next();
        let told = warnings.map_or((outcome.warnings, outcome.error), |warnings| (*warnings, None));
        left = left_by_one(job.command, &statement, one, family, told).or(left);
        if warnings.is_none() {
            break;
        }
    }
    left
}

/// The same of one statement. To ask for conditions leaves them, and so does on MariaDB every statement that has
/// no table and no condition of its own.
fn left_by_one(
    command: Command,
    statement: &Statement,
    text: &[u8],
    family: Family,
    (warnings, error): (u16, Option<u16>),
) -> Option<Counts> {
    let counts = match error {
        Some(_) => Counts { warnings: 1, errors: 1 },
        None => Counts { warnings, errors: 0 },
    };
    let asks = asks_conditions(statement) && statement.kind != Kind::Select;
    if error.is_none() && (asks || command == Command::InitDb) {
        return None;
    }
    if family == Family::MySql || counts.warnings > 0 {
        return Some(counts);
    }
    (!keeps_on_mariadb(statement, text)).then_some(counts)
}

/// Whether MariaDB keeps the conditions of the statement before: only statements that have a table clear them.
fn keeps_on_mariadb(statement: &Statement, text: &[u8]) -> bool {
    let words = || text.split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let has = |word: &[u8]| words().any(|other| other.eq_ignore_ascii_case(word));
    match statement.kind {
        Kind::Select | Kind::Do | Kind::Set | Kind::SetStatement | Kind::Explain => !has(b"FROM"),
        Kind::Use | Kind::SetTransaction | Kind::UnlockTables | Kind::Flush | Kind::Kill | Kind::Grant => {
            true
        }
        Kind::Begin | Kind::Commit | Kind::Rollback | Kind::Xa | Kind::Empty => true,
        Kind::Savepoint | Kind::ReleaseSavepoint | Kind::RollbackToSavepoint => true,
        Kind::Prepare | Kind::Deallocate => true,
        Kind::Create | Kind::Drop => {
            [b"DATABASE".as_slice(), b"SCHEMA", b"USER", b"ROLE", b"PROCEDURE", b"FUNCTION"]
                .iter()
                .any(|word| words().take(4).any(|other| other.eq_ignore_ascii_case(word)))
        }
        Kind::Show => is_shown_as_it_is(text) && !has(b"TABLE") && !has(b"VIEW"),
        _ => false,
    }
}

/// Whether a row of `SHOW WARNINGS` is about an error.
fn is_error(row: &[u8]) -> bool {
    row.starts_with(b"\x05Error")
}

fn condition(row: &[u8]) -> Option<Condition> {
    let mut reader = Reader::new(row);
    let _level = reader.lenenc_bytes().ok()?;
    let code = std::str::from_utf8(reader.lenenc_bytes().ok()?).ok()?.parse().ok()?;
    Some(Condition { code, message: reader.lenenc_bytes().ok()?.to_vec() })
}

/// `LIMIT [offset,] rows` of a `SHOW WARNINGS`.
fn limit_of(words: &[Vec<u8>]) -> (usize, usize) {
    let number = |word: &Vec<u8>| std::str::from_utf8(word).ok()?.parse().ok();
    let mut behind = words.iter().skip_while(|word| *word != b"LIMIT").skip(1);
    let first = behind.next().and_then(number);
    match (first, behind.next()) {
        (Some(rows), None) => (0, rows),
        (Some(rows), Some(word)) if word == b"OFFSET" => {
            (behind.next().and_then(number).unwrap_or_default(), rows)
        }
        (Some(offset), Some(word)) => (offset, number(word).unwrap_or(usize::MAX)),
        (None, _) => (0, usize::MAX),
    }
}
