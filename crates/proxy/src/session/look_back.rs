//! Statements that ask about the ones before: `LAST_INSERT_ID()`, `FOUND_ROWS()`, `ROW_COUNT()`, `SHOW WARNINGS`.
//!
//! Where the connection that knows is untouched, it is asked. Else the answer is what the protocol told at the time,
//! or what the next user of that connection has left for us; see `backend/residue.rs`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use narrows_sql::{Flags, Kind, Shape, Statement, Substitute, substitute};
use narrows_wire::Command;
use narrows_wire::charset::Family;

use super::query::Job;
use super::relay::Outcome;
use super::{End, Kept, Session, Whereabouts};
use crate::backend::{Backend, BackendError, InsertId, Keepsake, Kinds, Residue};
use crate::reply;
use crate::rt::Instant;
use crate::snapshot::HostgroupId;

/// What a statement asks about the ones before.
const ASKS: Flags = Flags::FOUND_ROWS.union(Flags::ROW_COUNT).union(Flags::WARNING_COUNT);

/// Whether a statement asks about the one before it, which any other statement makes forgotten.
pub(super) fn asks_about_last(statement: &Statement) -> bool {
    matches!(statement.kind, Kind::ShowWarnings | Kind::GetDiagnostics) || statement.flags.intersects(ASKS)
}

/// Whether a statement asks for warnings and errors.
fn asks_conditions(statement: &Statement) -> bool {
    matches!(statement.kind, Kind::ShowWarnings | Kind::GetDiagnostics)
        || statement.flags.intersects(Flags::WARNING_COUNT)
}

/// Whether a statement leaves the warnings of the one before: asking for them does, and on MariaDB every statement
/// that has no table and no warning of its own.
fn keeps_conditions(job: &Job, text: &[u8], family: Family, outcome: &Outcome) -> bool {
    if job.statement.flags.intersects(Flags::MULTI) {
        return false;
    }
    if asks_conditions(&job.statement) && job.statement.kind != Kind::Select {
        return true;
    }
    if family == Family::MySql || outcome.error.is_some() || outcome.warnings > 0 {
        return false;
    }
    let has_table = || text.windows(4).any(|word| word.eq_ignore_ascii_case(b"from"));
    match (job.command, job.statement.kind) {
        (Command::Query, Kind::Set | Kind::SetTransaction | Kind::Use) => true,
        (Command::Query, Kind::Begin | Kind::Commit | Kind::Rollback) => true,
        (Command::Query, Kind::Prepare | Kind::Deallocate) => true,
        (Command::Query, Kind::Select | Kind::Do) => !has_table(),
        (Command::InitDb, _) => true,
        _ => false,
    }
}

impl Session {
    /// Whether the connection at hand must be cleared before it is asked for warnings: it has somebody else's, or
    /// none but those of our own assignments.
    pub(super) fn must_clear_conditions(&self) -> bool {
        !self.look_back.conditions_are_here
    }

    /// Keeps what the answer tells of what may be asked later.
    pub(super) fn note_results(&mut self, job: &Job, text: &[u8], family: Family, outcome: &Outcome) {
        let statement = &job.statement;
        let look_back = &mut self.look_back;
        if outcome.last_insert_id != 0 {
            look_back.insert_id = outcome.last_insert_id;
            look_back.insert_id_is_here = true;
            if look_back.told.len() == REMEMBERED {
                look_back.told.remove(0);
            }
            look_back.told.push(outcome.last_insert_id);
        }
        // Asked and not told: it may have been set by the asking, `LAST_INSERT_ID(5)`.
        look_back.insert_id_is_here |= statement.flags.intersects(Flags::LAST_INSERT_ID);
        // `INSERT .. RETURNING` answers with rows, whose end names no id.
        let inserts = matches!(statement.kind, Kind::Insert | Kind::Replace);
        look_back.insert_id_is_here |= inserts && outcome.affected_rows.is_none() && outcome.error.is_none();
        if !keeps_conditions(job, text, family, outcome) {
            look_back.warning_count = if outcome.error.is_some() { 1 } else { outcome.warnings };
            look_back.error_count = u16::from(outcome.error.is_some());
            look_back.conditions_are_here = look_back.warning_count > 0;
            look_back.conditions_at = None;
        }
        look_back.row_count = match (outcome.error, outcome.affected_rows) {
            (None, Some(rows)) => i64::try_from(rows).unwrap_or(i64::MAX),
            _ => -1,
        };
        let calculated = statement.flags.intersects(Flags::SQL_CALC_FOUND_ROWS);
        let told = outcome.error.is_none() && outcome.rows.is_some() && !calculated;
        look_back.found_rows_are_fresh = told;
        if told {
            look_back.found_rows = outcome.rows;
            look_back.found_rows_are_here = false;
        } else if outcome.error.is_some() && family == Family::MySql {
            look_back.found_rows = Some(0);
            look_back.found_rows_are_here = false;
        } else if calculated {
            look_back.found_rows = None;
            look_back.found_rows_are_here = true;
        }
    }

    /// Gives a connection back to the pool, and remembers which it was and what it keeps.
    pub(super) fn give_back(&mut self, mut backend: Backend) {
        let place =
            Whereabouts { last_use: backend.login.last_use(), hostgroup: backend.login.server.row.hostgroup };
        let look_back = &mut self.look_back;
        let told = std::mem::take(&mut look_back.told);
        let kinds = Kinds {
            insert_id: look_back.insert_id_is_here,
            diagnostics: look_back.conditions_are_here,
            found_rows: look_back.found_rows_are_here,
        };
        if !kinds.is_empty() {
            let keepsake = Arc::new(Keepsake::default());
            backend.login.residue = Some(Residue::new(&keepsake, kinds));
            let kept = Kept { place, keepsake, told };
            if std::mem::take(&mut look_back.insert_id_is_here) {
                if look_back.insert_id_at.len() == REMEMBERED {
                    look_back.insert_id_at.remove(0);
                }
                look_back.insert_id_at.push(kept.clone());
            }
            if std::mem::take(&mut look_back.found_rows_are_here) {
                look_back.found_rows_at = Some(kept.clone());
            }
            if std::mem::take(&mut look_back.conditions_are_here) {
                look_back.conditions_at = Some(kept);
            }
        }
        look_back.last = Some(place).filter(|_| !look_back.disturbed);
        self.handle.has_backend(None);
        let now = self.ended.unwrap_or_else(Instant::now);
        let worker = Rc::clone(&self.worker);
        worker.pool.release(&worker.snapshot(), backend, now);
    }

    /// The connection that a statement would rather have than any other, because it knows what is asked.
    pub(super) fn wanted_connection(&self, statement: &Statement) -> Option<Whereabouts> {
        let look_back = &self.look_back;
        let place = |kept: &Kept| kept.place;
        if asks_conditions(statement) {
            return look_back.conditions_at.as_ref().map(place).or(look_back.last);
        }
        if statement.flags.intersects(Flags::FOUND_ROWS) && look_back.found_rows.is_none() {
            return look_back.found_rows_at.as_ref().map(place).or(look_back.last);
        }
        if asks_about_last(statement) {
            return look_back.last;
        }
        let asks_id = statement.flags.intersects(Flags::LAST_INSERT_ID);
        look_back.insert_id_at.last().map(place).filter(|_| asks_id)
    }

    /// Where a statement must go to find the connection that knows.
    pub(super) fn wanted_hostgroup(&self, statement: &Statement) -> Option<HostgroupId> {
        self.wanted_connection(statement).map(|place| place.hostgroup)
    }

    /// Whether the pinned connection can be asked: what is asked may have been left elsewhere before it was pinned.
    pub(super) fn pinned_knows(&self, statement: &Statement) -> bool {
        let look_back = &self.look_back;
        if look_back.disturbed {
            return false;
        }
        let elsewhere = |here: bool, at: &Option<Kept>| !here && at.is_some();
        let conditions = elsewhere(look_back.conditions_are_here, &look_back.conditions_at);
        let found_rows = look_back.found_rows.is_some()
            || elsewhere(look_back.found_rows_are_here, &look_back.found_rows_at);
        !(asks_conditions(statement) && conditions
            || statement.flags.intersects(Flags::FOUND_ROWS) && found_rows)
    }

    /// Whether `FOUND_ROWS()` must be put in even where the connection ran the last statement: that did not set it.
    fn found_rows_are_stale(&self) -> bool {
        !self.look_back.found_rows_are_fresh && !self.look_back.found_rows_are_here
    }

    /// A connection was leased: takes back what it keeps for this client. Returns whether it ran this client's last
    /// statement, and nobody's since.
    pub(super) fn meet(&mut self, backend: &mut Backend) -> bool {
        let untouched = |place: Whereabouts| place.last_use.is_followed_by(&backend.login);
        let mine = |kept: Option<&Kept>| kept.is_some_and(|kept| untouched(kept.place));
        self.look_back.insert_id_is_here = mine(self.look_back.insert_id_at.last());
        self.look_back.told.clear();
        if self.look_back.insert_id_is_here
            && let Some(kept) = self.look_back.insert_id_at.pop()
        {
            self.look_back.told = kept.told;
        }
        self.look_back.conditions_are_here = mine(self.look_back.conditions_at.as_ref());
        self.look_back.found_rows_are_here =
            self.look_back.found_rows.is_none() && mine(self.look_back.found_rows_at.as_ref());
        let knows = self.look_back.last.is_some_and(untouched);
        let look_back = &self.look_back;
        let keeps =
            look_back.insert_id_is_here || look_back.conditions_are_here || look_back.found_rows_are_here;
        if knows || keeps {
            backend.login.residue = None;
        }
        knows
    }

    /// `LAST_INSERT_ID()` for a connection that does not know it; `None` where it does.
    pub(super) async fn insert_id_elsewhere(&mut self) -> Option<u64> {
        if self.look_back.insert_id_is_here {
            return None;
        }
        for kept in self.look_back.insert_id_at.iter().rev() {
            match kept.keepsake.left(PATIENCE).await.map(|left| left.insert_id) {
                Some(InsertId::Is(id)) => {
                    self.look_back.settled_insert_id = id;
                    break;
                }
                // Another client's id may happen to be the same.
                Some(InsertId::Unchanged(id)) if kept.told.contains(&id) => {
                    self.look_back.settled_insert_id = id;
                    break;
                }
                Some(InsertId::Unchanged(_)) => {}
                Some(InsertId::Lost) | None => {
                    self.look_back.settled_insert_id = self.look_back.insert_id;
                    break;
                }
            }
        }
        self.look_back.insert_id_at.clear();
        self.look_back.insert_id = self.look_back.settled_insert_id;
        Some(self.look_back.settled_insert_id)
    }

    /// Before a connection that has run this client's inserts is asked for `LAST_INSERT_ID()`: whether they have set
    /// it. An id that was given explicitly is told like a generated one, and the connection may still have
    /// the value of whoever used it before.
    pub(super) async fn check_insert_id(&mut self, backend: &mut Backend) -> Result<(), BackendError> {
        let Some(before) = backend.login.insert_id_before.filter(|_| self.look_back.insert_id_is_here) else {
            return Ok(());
        };
        let limit = self.snapshot().variables.connect_timeout_server;
        let now = backend.insert_id(limit).await?;
        backend.login.insert_id_before = None;
        if now == Some(before) && !self.look_back.told.contains(&before) {
            self.look_back.insert_id_is_here = false;
        }
        Ok(())
    }

    /// The statement with what it asks about the one before put in, for a connection that does not know; `None`
    /// where nothing need be put in.
    pub(super) async fn with_answers(&self, job: &Job, text: &[u8], knows: bool) -> Option<Vec<u8>> {
        let flags = job.statement.flags;
        let connection_id =
            Substitute { name: "CONNECTION_ID", value: self.handle.id.into(), shape: Shape::Id };
        let stale = flags.intersects(Flags::FOUND_ROWS) && self.found_rows_are_stale();
        if knows && !stale || !asks_about_last(&job.statement) {
            return match flags.intersects(Flags::CONNECTION_ID) {
                true => substitute(text, &[connection_id]),
                false => None,
            };
        }
        if job.statement.kind == Kind::ShowWarnings {
            return None;
        }
        let found_rows = match (self.look_back.found_rows, &self.look_back.found_rows_at) {
            (Some(told), _) => told,
            (None, Some(kept)) => {
                kept.keepsake.left(PATIENCE).await.and_then(|left| left.found_rows).unwrap_or(0)
            }
            (None, None) => 0,
        };
        let signed = |name, value| Substitute { name, value, shape: Shape::Signed };
        let variable = |name, value: u16| Substitute { name, value: value.into(), shape: Shape::Variable };
        substitute(
            text,
            &[
                connection_id,
                signed("FOUND_ROWS", found_rows.try_into().unwrap_or(i64::MAX)),
                signed("ROW_COUNT", self.look_back.row_count),
                variable("@@warning_count", self.look_back.warning_count),
                variable("@@error_count", self.look_back.error_count),
            ],
        )
    }

    /// Answers `SHOW WARNINGS` with what was left for this client, when the connection that knew has been taken by
    /// somebody else; `None` when it is to be asked.
    pub(super) async fn left_warnings(&mut self, text: &[u8]) -> Option<Result<(), End>> {
        let kept = self.look_back.conditions_at.as_ref()?;
        let warnings = kept.keepsake.left(PATIENCE).await?.warnings.as_ref()?;
        let words: Vec<Vec<u8>> = text
            .split(|byte| !byte.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(<[u8]>::to_ascii_uppercase)
            .collect();
        let errors_only = words.iter().any(|word| word == b"ERRORS");
        let of_kind = |row: &&Vec<u8>| !errors_only || row.starts_with(b"\x05Error");
        let (offset, limit) = limit_of(&words);
        let rows = warnings.rows.iter().filter(of_kind).skip(offset).take(limit);
        let rows: Vec<&[u8]> = rows.map(Vec::as_slice).collect();
        let out = if words.iter().any(|word| word == b"COUNT") {
            let name: &[u8] = if errors_only { b"@@session.error_count" } else { b"@@session.warning_count" };
            reply::single_value(name, rows.len().to_string().as_bytes(), self.capabilities, self.status)
        } else {
            let columns: Vec<&[u8]> = warnings.columns.iter().map(Vec::as_slice).collect();
            reply::result_set(&columns, &rows, self.capabilities, self.status)
        };
        self.look_back.row_count = -1;
        Some(self.send(&out).await)
    }
}

/// `LIMIT [offset,] rows` of a `SHOW WARNINGS`.
fn limit_of(words: &[Vec<u8>]) -> (usize, usize) {
    let number = |word: &Vec<u8>| std::str::from_utf8(word).ok()?.parse().ok();
    let behind = words.iter().skip_while(|word| *word != b"LIMIT").skip(1);
    match behind.filter_map(number).collect::<Vec<usize>>()[..] {
        [rows] => (0, rows),
        [offset, rows] => (offset, rows),
        _ => (0, usize::MAX),
    }
}

/// Connections that are remembered for `LAST_INSERT_ID()`: a client that inserts and never asks must not grow.
const REMEMBERED: usize = 8;

/// How long to wait for the answer that another session fetches just now.
const PATIENCE: Duration = Duration::from_millis(500);
