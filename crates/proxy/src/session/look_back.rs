//! Statements that ask about the ones before: `LAST_INSERT_ID()`, `FOUND_ROWS()`, `ROW_COUNT()`, `SHOW WARNINGS`.
//!
//! Where the connection that knows is untouched, it is asked. Else the answer is what the protocol told at the time,
//! or what the next user of that connection has left for us; see `backend/residue.rs`.

use std::sync::Arc;
use std::time::Duration;

use narrows_sql::{Flags, Kind, Shape, Statement, Substitute, substitute};
use narrows_wire::charset::Family;

use super::query::Job;
use super::relay::Outcome;
use super::{Kept, LookBack, Session, Whereabouts};
use crate::backend::{
    Backend, BackendError, FOREIGN_INSERT_ID, InsertId, InsertIdBefore, Keepsake, Kinds, Left, Residue,
};
use crate::pool::{Exit, Lease};
use crate::rt::Instant;
use crate::snapshot::HostgroupId;
use crate::worker::Message;

/// What a statement asks about the ones before.
const ASKS: Flags = Flags::FOUND_ROWS.union(Flags::ROW_COUNT).union(Flags::WARNING_COUNT);

/// Whether a statement asks about the one before it, which any other statement makes forgotten.
pub(super) fn asks_about_last(statement: &Statement) -> bool {
    matches!(statement.kind, Kind::ShowWarnings | Kind::GetDiagnostics) || statement.flags.intersects(ASKS)
}

/// Whether a statement asks for warnings and errors.
pub(super) fn asks_conditions(statement: &Statement) -> bool {
    matches!(statement.kind, Kind::ShowWarnings | Kind::GetDiagnostics)
        || statement.flags.intersects(Flags::WARNING_COUNT)
}

impl LookBack {
    /// Whether `LAST_INSERT_ID()` may be another than 0.
    pub(super) fn has_inserted(&self) -> bool {
        self.insert_id != 0
            || self.settled_insert_id != 0
            || self.insert_id_is_here
            || !self.insert_id_at.is_empty()
            || self.forgotten.insert_id
    }
}

impl Session {
    /// Keeps what the answer tells of what may be asked later.
    pub(super) fn note_results(&mut self, job: &Job, text: &[u8], family: Family, outcome: &Outcome) {
        let statement = &job.statement;
        let look_back = &mut self.data.information;
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
        look_back.insert_id_is_here |= match outcome.error {
            // The rows before the one that failed may have set it, which an ERR packet does not tell.
            Some(_) => may_set_an_id(statement),
            // `INSERT .. RETURNING` answers with rows, whose end names no id.
            None => matches!(statement.kind, Kind::Insert | Kind::Replace) && outcome.affected_rows.is_none(),
        };
        look_back.row_count = match (outcome.error, outcome.affected_rows) {
            (None, _) if statement.kind == Kind::GetDiagnostics => look_back.row_count,
            (None, Some(rows)) => i64::try_from(rows).unwrap_or(i64::MAX),
            _ => -1,
        };
        let calculated = statement.flags.intersects(Flags::SQL_CALC_FOUND_ROWS)
            || statement.kind == Kind::Select && has_offset(statement, text);
        let told = outcome.error.is_none() && !calculated;
        let is_call = statement.kind == Kind::Call;
        let found = match outcome.rows {
            Some(rows) if sets_found_rows(statement, text) => Some(rows),
            Some(_) => None,
            None => found_besides(statement, text, family, outcome),
        };
        let found = found.filter(|_| told);
        look_back.found_rows_are_fresh = found.is_some();
        if found.is_some() {
            look_back.found_rows = found;
            look_back.found_rows_are_here = false;
        } else if outcome.error.is_none() && (calculated || is_call && outcome.rows.is_some()) {
            look_back.found_rows = None;
            look_back.found_rows_are_here = true;
        }
    }

    /// Keeps what an answer tells that came from the cache. No connection knows of its statement: whoever asks about that
    /// is told by us.
    pub(super) fn note_answer_from_cache(
        &mut self,
        job: &Job,
        text: &[u8],
        family: Family,
        outcome: &Outcome,
    ) {
        self.note_conditions(job, text, family, outcome);
        self.note_results(job, text, family, outcome);
        if std::mem::take(&mut self.data.information.found_rows_are_here) {
            let skipped = literal_offset(text).unwrap_or_default();
            self.data.information.found_rows = outcome.rows.map(|rows| skipped + rows);
            self.data.information.found_rows_are_fresh = true;
        }
        self.data.warnings = 0;
        self.data.information.last = None;
        self.data.information.disturbed = true;
    }

    /// Gives a connection back to the pool, and remembers which it was and what it keeps. What it may carry needs this `exit`.
    pub(super) fn give_back(&mut self, mut backend: Lease, exit: Exit) {
        debug_assert!(!backend.login.statements.holds_any(), "a statement is held that no pin tells of");
        self.leave(&mut backend);
        self.handle.has_backend(None);
        let exit = self.exit_of(&backend, exit);
        if exit != Exit::Return {
            self.data.information.last = None;
        }
        let now = self.run.ended.unwrap_or_else(Instant::now);
        backend.settle(exit, &self.worker, &self.want, now);
    }

    /// What is to be done to a connection that nothing ties to this session any more, where its reasons need this `exit`.
    pub(super) fn exit_of(&self, backend: &Backend, exit: Exit) -> Exit {
        match exit {
            Exit::Return if self.client.patience.is_short && backend.login.state.has_short_timeouts() => {
                Exit::UndoTimeouts
            }
            exit => exit,
        }
    }

    /// Remembers which connection it was that is left, and what it keeps.
    pub(super) fn leave(&mut self, backend: &mut Backend) {
        let place =
            Whereabouts { last_use: backend.login.last_use(), hostgroup: backend.login.server.row.hostgroup };
        if self.data.information.conditions_are_here && !self.handles_warnings(place.hostgroup) {
            self.data.information.conditions_are_here = false;
        }
        let kinds = self.known_here();
        let look_back = &mut self.data.information;
        let told = std::mem::take(&mut look_back.told);
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
    }

    /// Whether warnings outlast the return of a connection to the pool.
    fn handles_warnings(&self, hostgroup: HostgroupId) -> bool {
        let snapshot = self.snapshot();
        let hostgroup = snapshot.hostgroups.get(&hostgroup);
        hostgroup.map_or(snapshot.variables.handle_warnings, |it| it.settings.handle_warnings)
    }

    /// The connection that a statement would rather have than any other, because it knows what is asked.
    pub(super) fn wanted_connection(&self, statement: &Statement) -> Option<Whereabouts> {
        let look_back = &self.data.information;
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

    /// The connection at hand is lost, and with it what only it knew.
    pub(super) fn forget_what_is_here(&mut self) {
        let look_back = &mut self.data.information;
        if std::mem::take(&mut look_back.insert_id_is_here) {
            look_back.settled_insert_id = look_back.insert_id;
            look_back.insert_id_at.clear();
        }
        if std::mem::take(&mut look_back.conditions_are_here) {
            look_back.conditions_at = None;
        }
        if std::mem::take(&mut look_back.found_rows_are_here) {
            look_back.found_rows_at = None;
        }
    }

    /// What the connection at hand knows of this client's statements, and nobody else.
    pub(super) fn known_here(&self) -> Kinds {
        Kinds {
            insert_id: self.data.information.insert_id_is_here,
            diagnostics: self.data.information.conditions_are_here,
            found_rows: self.data.information.found_rows_are_here,
        }
    }

    /// Where a statement goes to find the connection that knows. One that may change something goes where it is sent, and what
    /// it asks is brought there: what knows may be a server that is only read.
    pub(super) fn wanted_hostgroup(&self, statement: &Statement) -> Option<HostgroupId> {
        let asks = matches!(
            statement.kind,
            Kind::Select | Kind::Show | Kind::Do | Kind::ShowWarnings | Kind::GetDiagnostics
        );
        let changes = statement.flags.intersects(Flags::EFFECTS.union(Flags::FOR_UPDATE));
        self.wanted_connection(statement).filter(|_| asks && !changes).map(|place| place.hostgroup)
    }

    /// Whether the pinned connection can be asked: what is asked may have been left elsewhere before it was pinned.
    pub(super) fn pinned_knows(&self, statement: &Statement) -> bool {
        let look_back = &self.data.information;
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
        !self.data.information.found_rows_are_fresh && !self.data.information.found_rows_are_here
    }

    /// A connection was leased: takes back what it keeps for this client. Returns whether it ran this client's last
    /// statement, and nobody's since.
    pub(super) fn meet(&mut self, backend: &mut Backend) -> bool {
        let untouched = |place: Whereabouts| place.last_use.is_followed_by(&backend.login);
        // What was fetched is no longer there.
        let is_there = |kept: &Kept| untouched(kept.place) && !kept.keepsake.is_settled();
        let mine = |kept: Option<&Kept>| kept.is_some_and(is_there);
        self.data.information.insert_id_is_here = mine(self.data.information.insert_id_at.last());
        self.data.information.told.clear();
        if self.data.information.insert_id_is_here
            && let Some(kept) = self.data.information.insert_id_at.pop()
        {
            self.data.information.told = kept.told;
        }
        self.data.information.conditions_are_here = mine(self.data.information.conditions_at.as_ref());
        self.data.information.found_rows_are_here =
            self.data.information.found_rows.is_none() && mine(self.data.information.found_rows_at.as_ref());
        let knows = self.data.information.last.is_some_and(untouched);
        let look_back = &self.data.information;
        let keeps =
            look_back.insert_id_is_here || look_back.conditions_are_here || look_back.found_rows_are_here;
        if knows || keeps {
            backend.login.residue = None;
        }
        knows
    }

    /// Before an insert, an unknown id of somebody else gives way to one that is like no other, so that it can be told
    /// whether the insert has set it.
    pub(super) fn foreign_insert_id(&self, statement: &Statement) -> Option<u64> {
        (!self.data.information.insert_id_is_here && may_set_an_id(statement)).then_some(FOREIGN_INSERT_ID)
    }

    /// Whether `LAST_INSERT_ID()` has to be waited for: another session fetches it, or will.
    pub(super) fn awaits_insert_id(&self) -> bool {
        let look_back = &self.data.information;
        !look_back.insert_id_is_here && look_back.insert_id_at.iter().any(|kept| !kept.keepsake.is_settled())
    }

    /// What a connection has kept for this client. Whoever has it now begins by fetching that; where it is idle, it is
    /// asked. `None` when neither has come to an end in the time that the other session has for it.
    pub(super) async fn fetched<'k>(&self, kept: &'k Kept) -> Option<&'k Left> {
        let deadline = Instant::now() + self.snapshot().variables.connect_timeout_server_max;
        while !kept.keepsake.is_settled() && Instant::now() < deadline {
            let Whereabouts { hostgroup, last_use } = kept.place;
            self.worker.peers.send_all(|| Message::Fetch { hostgroup, last_use });
            kept.keepsake.left(ASK_AGAIN).await;
        }
        kept.keepsake.left(Duration::ZERO).await
    }

    /// `LAST_INSERT_ID()` for a connection that does not know it; `None` where it does.
    pub(super) async fn insert_id_elsewhere(&mut self) -> Option<u64> {
        if self.data.information.insert_id_is_here {
            return None;
        }
        for kept in self.data.information.insert_id_at.iter().rev() {
            match self.fetched(kept).await.map(|left| left.insert_id) {
                Some(InsertId::Is(id)) => {
                    self.data.information.settled_insert_id = id;
                    break;
                }
                // Another client's id may happen to be the same.
                Some(InsertId::Unchanged(id)) if kept.told.contains(&id) => {
                    self.data.information.settled_insert_id = id;
                    break;
                }
                Some(InsertId::Unchanged(_)) => {}
                Some(InsertId::Lost) | None => {
                    self.data.information.settled_insert_id = self.data.information.insert_id;
                    break;
                }
            }
        }
        self.data.information.insert_id_at.clear();
        self.data.information.insert_id = self.data.information.settled_insert_id;
        Some(self.data.information.settled_insert_id)
    }

    /// Before a connection that has run this client's inserts is asked for `LAST_INSERT_ID()`: whether they have set
    /// it. An id that was given explicitly is told like a generated one, and the connection may still have
    /// the value of whoever used it before. Returns whether the connection was asked.
    pub(super) async fn check_insert_id(&mut self, backend: &mut Backend) -> Result<bool, BackendError> {
        let InsertIdBefore::Is(before) = backend.login.insert_id_before else { return Ok(false) };
        if !self.data.information.insert_id_is_here {
            return Ok(false);
        }
        self.take_what_is_here(backend).await?;
        let limit = self.snapshot().variables.connect_timeout_server;
        let now = backend.insert_id(limit).await?;
        backend.login.insert_id_before = InsertIdBefore::Own;
        if now == Some(before) && !self.data.information.told.contains(&before) {
            self.data.information.insert_id_is_here = false;
        }
        Ok(true)
    }

    /// The statement with what it asks about the one before put in, for a connection that does not know; `None`
    /// where nothing need be put in.
    pub(super) async fn with_answers(
        &self,
        backend: &Backend,
        job: &Job,
        text: &[u8],
        knows: bool,
    ) -> Option<Vec<u8>> {
        let flags = job.statement.flags;
        let connection_id =
            Substitute { name: "CONNECTION_ID", value: self.handle.id.into(), shape: Shape::Id };
        let stale = flags.intersects(Flags::FOUND_ROWS) && self.found_rows_are_stale()
            // It may have those of our own assignments.
            || flags.intersects(Flags::WARNING_COUNT) && self.must_clear_conditions();
        if knows && !stale || !asks_about_last(&job.statement) || job.statement.kind == Kind::GetDiagnostics {
            return match flags.intersects(Flags::CONNECTION_ID) {
                true => substitute(text, &[connection_id]),
                false => None,
            };
        }
        if job.statement.kind == Kind::ShowWarnings {
            return None;
        }
        let found_rows = match (self.data.information.found_rows, &self.data.information.found_rows_at) {
            (Some(told), _) => told,
            (None, Some(kept)) => self.fetched(kept).await.and_then(|left| left.found_rows).unwrap_or(0),
            (None, None) => 0,
        };
        let family = backend.login.family;
        let found_rows = found_rows.try_into().unwrap_or(i64::MAX);
        let function = |name, value, shape| Substitute { name, value, shape };
        let variable =
            |name, value: u16| Substitute { name, value: value.into(), shape: variable_shape(family) };
        let (warnings, errors) = match flags.intersects(Flags::WARNING_COUNT) {
            true => self.condition_counts().await,
            false => (0, 0),
        };
        let mut known = vec![
            connection_id,
            function("ROW_COUNT", self.data.information.row_count, Shape::Signed),
            variable("@@warning_count", warnings),
            variable("@@error_count", errors),
        ];
        if !self.data.information.found_rows_are_here {
            known.push(function("FOUND_ROWS", found_rows, Shape::FoundRows));
        }
        substitute(text, &known)
    }
}

/// Whether a statement may set what `LAST_INSERT_ID()` answers, and its answer tell nothing of it, or another id: one that
/// was given explicitly.
fn may_set_an_id(statement: &Statement) -> bool {
    let inserts = matches!(
        statement.kind,
        Kind::Insert
            | Kind::Replace
            | Kind::LoadData
            | Kind::LoadDataLocal
            | Kind::Call
            | Kind::Execute
            | Kind::Other
    );
    (inserts || statement.flags.intersects(Flags::MULTI))
        && !statement.flags.intersects(Flags::LAST_INSERT_ID)
}

/// Whether the rows of an answer are what `FOUND_ROWS()` is from then on: servers count those of a `SELECT`, and of a
/// `SHOW` that they make one of. What other statements do to it is not defined.
fn sets_found_rows(statement: &Statement, text: &[u8]) -> bool {
    match statement.kind {
        Kind::Select | Kind::Execute => true,
        Kind::ShowWarnings => text.contains(&b'('),
        Kind::Show => !is_shown_as_it_is(text),
        _ => false,
    }
}

/// What statements without rows make of `FOUND_ROWS()`. The manual calls it undefined; this is what servers do, seen on
/// MySQL 9.7 and MariaDB 10.11.
fn found_besides(statement: &Statement, text: &[u8], family: Family, outcome: &Outcome) -> Option<u64> {
    // Behind `VALUES` the word may stand in a literal.
    let selects = || {
        let word = |text: &[u8]| match text {
            _ if text.eq_ignore_ascii_case(b"SELECT") => Some(true),
            [start @ .., _] if start.eq_ignore_ascii_case(b"VALUE") => Some(false),
            _ => None,
        };
        text.windows(6).find_map(word).unwrap_or(false)
    };
    match (statement.kind, family) {
        (Kind::Do, Family::MySql) => Some(1),
        (Kind::Update, Family::MySql) => outcome.counted,
        (Kind::Insert | Kind::Replace, _) if selects() => outcome.counted,
        (Kind::Create | Kind::CreateTemporaryTable, Family::MariaDb) if selects() => outcome.counted,
        _ => None,
    }
}

/// Whether a `SELECT` may end in a `LIMIT` with an offset: servers count the rows that it skips among those found, as
/// many as there are.
pub(super) fn has_offset(statement: &Statement, text: &[u8]) -> bool {
    // Where a string ends is not sure in the last two cases.
    if !statement.flags.intersects(Flags::LIMIT | Flags::ESCAPED_QUOTE | Flags::UNTERMINATED) {
        return false;
    }
    let tail = text.get(text.len().saturating_sub(LIMIT_LENGTH)..).unwrap_or_default();
    let limit = |start: usize| tail.get(start..).unwrap_or_default();
    (0..tail.len()).any(|start| {
        let rest = limit(start);
        let says = |word: &[u8]| rest.get(..word.len()).is_some_and(|it| it.eq_ignore_ascii_case(word));
        says(b"OFFSET") || says(b"LIMIT") && rest.contains(&b',')
    })
}

/// The offset in the `LIMIT` that ends a `SELECT`, where it is a plain number, and no other result can be meant.
pub(super) fn literal_offset(text: &[u8]) -> Option<u64> {
    let tail = std::str::from_utf8(text.get(text.len().saturating_sub(LIMIT_LENGTH)..)?).ok()?;
    let tail = tail.trim_end_matches(|end: char| end.is_ascii_whitespace() || end == ';').replace(',', " , ");
    let unites = text.windows(5).any(|word| word.eq_ignore_ascii_case(b"union"));
    let mut words = tail.split_ascii_whitespace().rev();
    let (last, between, first, limit) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let (last, first): (u64, u64) = (last.parse().ok()?, first.parse().ok()?);
    match between {
        _ if unites || !limit.eq_ignore_ascii_case("limit") => None,
        "," => Some(first),
        word => word.eq_ignore_ascii_case("offset").then_some(last),
    }
}

/// In so many bytes at the end of a statement `LIMIT` is looked for, with what may stand behind it.
const LIMIT_LENGTH: usize = 80;

/// Whether a `SHOW` has no `SELECT` behind it.
pub(super) fn is_shown_as_it_is(text: &[u8]) -> bool {
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let second = words.nth(1).unwrap_or_default().to_ascii_uppercase();
    SHOWN_AS_THEY_ARE.contains(&second.as_slice())
}

/// What `SHOW` shows without a `SELECT` behind it.
const SHOWN_AS_THEY_ARE: &[&[u8]] = &[
    b"BINARY",
    b"BINLOG",
    b"CREATE",
    b"ENGINE",
    b"FULL",
    b"GRANTS",
    b"MASTER",
    b"PRIVILEGES",
    b"PROCESSLIST",
    b"PROFILES",
    b"RELAYLOG",
    b"REPLICA",
    b"REPLICAS",
    b"SLAVE",
];

/// Connections that are remembered for `LAST_INSERT_ID()`: a client that inserts and never asks must not grow.
const REMEMBERED: usize = 8;

/// After how long it is asked again for a connection that was on its way between two workers.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// The shape in which a system variable is put into a statement.
fn variable_shape(family: Family) -> Shape {
    match family {
        Family::MySql => Shape::Variable,
        Family::MariaDb => Shape::MariaDbVariable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_where_they_are_numbers_at_the_end() {
        let offset = |text: &str| literal_offset(text.as_bytes());
        assert_eq!(offset("SELECT n FROM t LIMIT 20, 10"), Some(20));
        assert_eq!(offset("SELECT n FROM t LIMIT 20,10 ;"), Some(20));
        assert_eq!(offset("SELECT n FROM t limit 10 offset 20"), Some(20));
        for text in [
            "SELECT n FROM t LIMIT 10",
            "SELECT n FROM t LIMIT ?, ?",
            "SELECT * FROM (SELECT n FROM t LIMIT 1, 2) x",
            "SELECT n FROM t UNION SELECT n FROM u LIMIT 1, 2",
            "SELECT offset FROM t",
            "",
        ] {
            assert_eq!(offset(text), None, "{text}");
        }
    }
}
