//! Information functions whose value is not on the leased connection: it is fetched, and put into the statement.

use narrows_sql::{DiagnosticsItem, Flags, Kind, Shape, Statement, Substitute, shown_conditions, substitute};
use narrows_wire::Errno;
use narrows_wire::charset::Family;

use super::super::job::Job;
use super::super::{End, Session};
use super::conditions::{Condition, condition, is_error};
use super::{FoundRows, Information, Last, Left, Place};
use crate::backend::{
    Backend, BackendError, CLEAR_CONDITIONS, Collected, InsertIdBefore, Kinds, ResultSet, dialect,
};
use crate::reply;
use crate::snapshot::HostgroupId;
use crate::state::quoted;

impl Information {
    /// Marks what only the leased connection knows about the last statement as uncollected, before something of our own
    /// clears it there. Returns whether there is anything to collect.
    fn leave_to_collect(&mut self, backend: &mut Backend, kinds: Kinds) -> bool {
        if kinds.is_empty() {
            return false;
        }
        let left = Left::on(backend, kinds);
        if kinds.diagnostics {
            self.conditions.leave(&left);
        }
        self.found_rows.leave(&left);
        true
    }
}

impl Session {
    /// A statement was answered with an error of Narrows' own.
    pub(in super::super) fn note_own_error(&mut self, errno: Errno, text: &str) {
        let kept = !self.data.state.keeps_no_errors();
        self.data.information.note_own_error(errno, text, kept);
        self.note_record_error(text);
    }

    /// Remembers which connection the session gives back or sets aside, and what that keeps.
    pub(in super::super) fn leave(&mut self, backend: &mut Backend) {
        let place = Place::of(backend);
        if self.data.information.known_here().is_empty() && backend.login.uncollected.is_none() {
            return self.data.information.leave_nothing(place);
        }
        let keeps_warnings =
            !self.data.information.conditions.are_here() || self.handles_warnings(place.hostgroup);
        let mut uncollected = self.data.information.leave(place, keeps_warnings);
        let earlier = backend.login.uncollected.take();
        if let (Some(uncollected), Some(earlier)) = (&mut uncollected, &earlier) {
            uncollected.includes(earlier);
        }
        backend.login.uncollected = uncollected.or(earlier);
    }

    /// Whether warnings are available after the connection was given back to the pool.
    fn handles_warnings(&self, hostgroup: HostgroupId) -> bool {
        let snapshot = self.snapshot();
        let hostgroup = snapshot.hostgroups.get(&hostgroup);
        hostgroup.map_or(snapshot.variables.handle_warnings, |it| it.settings.handle_warnings)
    }

    /// A connection was leased: takes back what it keeps for this client.
    pub(in super::super) fn meet(&mut self, backend: &mut Backend) {
        if self.data.information.meet(|place| place.is_untouched(backend))
            && let Some(uncollected) = backend.login.uncollected.take()
        {
            let known = self.data.information.known_here();
            // Conditions that it does not keep are its own all the same.
            let ran_here = self.data.information.last == Last::Here;
            let taken = Kinds { diagnostics: known.diagnostics || ran_here, ..known };
            backend.login.uncollected = uncollected.without(taken);
        }
        backend.login.late_is_ours = self.data.information.last == Last::Here;
    }

    /// What a connection has kept for this client. If another session leases it, that one collects the diagnostics first;
    /// if it is idle, its worker does. `None` if neither is done within the time limit.
    async fn fetched<'k>(&self, left: &'k Left) -> Option<&'k Collected> {
        let Place { hostgroup, last_use } = left.place;
        self.worker.pool.ask_for(&left.receiver, hostgroup, last_use);
        left.receiver.collected(self.snapshot().variables.connect_timeout_server_max).await
    }

    /// `LAST_INSERT_ID()` for a connection that does not have it; `None` if it does.
    pub(in super::super) async fn insert_id_elsewhere(&mut self) -> Option<u64> {
        let insert_id = &self.data.information.insert_id;
        if insert_id.is_here() {
            return None;
        }
        let mut decided = None;
        for connection in insert_id.left().iter().rev() {
            let answer = self.fetched(&connection.left).await.map(|collected| collected.insert_id);
            decided = connection.decided_by(answer);
            if decided.is_some() {
                break;
            }
        }
        Some(self.data.information.insert_id.settle(decided))
    }

    /// Before a connection that has run this client's inserts is asked for `LAST_INSERT_ID()`: checks whether they have set
    /// it. The protocol reports an id that was given explicitly like a generated one.
    pub(in super::super) async fn check_insert_id(
        &mut self,
        backend: &mut Backend,
    ) -> Result<(), BackendError> {
        let insert_id = &self.data.information.insert_id;
        let is_own = backend.login.insert_id_before == InsertIdBefore::Own;
        if is_own || !insert_id.is_here() || !insert_id.may_be_elsewhere() {
            return Ok(());
        }
        let mut kinds = Kinds { insert_id: false, ..self.data.information.known_here() };
        // MariaDB keeps conditions during a query without a table.
        kinds.diagnostics &= backend.login.family == Family::MySql;
        self.take(backend, kinds).await?;
        let limit = self.snapshot().variables.connect_timeout_server;
        let now = backend.insert_id(limit).await?;
        match now {
            Some(0) => {
                self.data.information.insert_id.is_not_here();
                backend.login.has_insert_id = false;
            }
            _ => backend.login.insert_id_before = InsertIdBefore::Own,
        }
        self.data.information.is_disturbed();
        Ok(())
    }

    /// Before a statement that may ask for anything: sets on its connection what that does not have. `LAST_INSERT_ID()` was
    /// set when it was aligned. What cannot be set: `ROW_COUNT()` of rows that were changed, `FOUND_ROWS()` of very many rows,
    /// and several conditions.
    pub(in super::super) async fn set_own_values(
        &mut self,
        backend: &mut Backend,
        job: &Job,
        text: &[u8],
    ) -> Result<(), BackendError> {
        let information = &self.data.information;
        let row_count = information.row_count;
        let ran_here = information.last == Last::Here;
        // Changed rows would be lost for rows that were counted elsewhere.
        let keeps_row_count = row_count > 0 && may_ask_row_count(&job.statement, text);
        if ran_here && (information.found_rows_are_here || keeps_row_count) {
            return Ok(());
        }
        let family = backend.login.family;
        // MariaDB keeps conditions over what is sent here; MySQL begins such a statement without any.
        let conditions_stay = family == Family::MariaDb && information.conditions.are_here();
        let known = information.known_here();
        let diagnostics = known.diagnostics && !conditions_stay;
        self.take(backend, Kinds { insert_id: false, diagnostics, ..known }).await?;
        let found = self.found_rows().await.unwrap_or_default();
        let mut statements = Vec::with_capacity(4);
        let mut raised = true;
        if family == Family::MariaDb && !conditions_stay {
            // There may be those of our own assignments.
            statements.push(CLEAR_CONDITIONS.to_owned());
        }
        statements.push(counting(found));
        if family == Family::MariaDb && !conditions_stay {
            let rows = self.kept_elsewhere().await;
            let raising = self.raising(&rows, backend.login.family);
            raised = rows.is_empty() || raising.is_some();
            if let Some(raising) = raising {
                statements.push(raising);
                self.data.information.conditions.are_copied_here();
                backend.login.has_conditions = true;
            }
        }
        if row_count == 0 {
            // Leaves `FOUND_ROWS()`, and on MariaDB conditions, as they are.
            statements.push("SET last_insert_id = LAST_INSERT_ID()".to_owned());
        }
        let limit = self.snapshot().variables.connect_timeout_server;
        backend.prepare_values(&statements, limit).await?;
        let information = &mut self.data.information;
        information.last = Last::Nobody;
        if found <= MOST_COUNTED {
            information.found_rows = FoundRows::Known { rows: found, by_last: true };
            information.found_rows_are_here = true;
            if row_count <= 0 && raised {
                information.last = Last::Here;
            }
        }
        Ok(())
    }

    /// Raises the client's own conditions again on a connection that does not have them, but may have those of our own
    /// assignments. Only one can be raised.
    async fn raise_again(&mut self, backend: &mut Backend) -> Result<(), BackendError> {
        if self.data.information.conditions.are_here() {
            return Ok(());
        }
        let rows = self.kept_elsewhere().await;
        let raising = self.raising(&rows, backend.login.family);
        let is_raised = raising.is_some();
        let statement = raising.unwrap_or_else(|| CLEAR_CONDITIONS.to_owned());
        let limit = self.snapshot().variables.connect_timeout_server;
        backend.prepare_values(&[statement], limit).await?;
        if is_raised {
            backend.login.has_conditions = true;
            self.data.information.conditions.are_copied_here();
        }
        self.data.information.is_disturbed();
        Ok(())
    }

    /// The statement that raises a condition again, if there is only one of these rows of `SHOW WARNINGS`.
    fn raising(&self, rows: &[Vec<u8>], family: Family) -> Option<String> {
        let [row] = rows else { return None };
        let Condition { code, message } = condition(row)?;
        let sqlstate = self.data.information.conditions.sqlstate(is_error(row));
        let sqlstate = std::str::from_utf8(sqlstate)
            .ok()
            .filter(|it| it.bytes().all(|byte| byte.is_ascii_alphanumeric()))?;
        let most = if family == Family::MySql { 128 } else { 512 };
        let message: String = String::from_utf8_lossy(&message).chars().take(most).collect();
        let (charset, message) = (charset_of_messages(family), quoted(message.as_bytes()));
        Some(format!(
            "SIGNAL SQLSTATE '{sqlstate}' SET MYSQL_ERRNO = {code}, MESSAGE_TEXT = {charset} {message}"
        ))
    }

    /// Collects what only the leased connection knows about the last statement, before something of our own clears it.
    pub(in super::super) async fn take_what_is_here(
        &mut self,
        backend: &mut Backend,
    ) -> Result<(), BackendError> {
        let kinds = Kinds { insert_id: false, ..self.data.information.known_here() };
        self.take(backend, kinds).await
    }

    async fn take(&mut self, backend: &mut Backend, kinds: Kinds) -> Result<(), BackendError> {
        if backend.login.is_in_xa || !self.data.information.leave_to_collect(backend, kinds) {
            return Ok(());
        }
        backend.collect_diagnostics(self.snapshot().variables.connect_timeout_server).await
    }

    /// The statement with the values that it asks about earlier statements inserted, for a connection that does not have
    /// them; `None` if nothing needs to be inserted.
    pub(in super::super) async fn with_answers(
        &self,
        backend: &Backend,
        job: &Job,
        text: &[u8],
    ) -> Option<Vec<u8>> {
        let flags = job.statement.flags;
        let information = &self.data.information;
        let dialect = dialect(backend.login.family);
        let connection_id = self.own_id();
        let stale = flags.intersects(Flags::FOUND_ROWS) && information.found_rows.is_stale()
            // The connection may have those of our own assignments.
            || flags.intersects(Flags::WARNING_COUNT) && !information.conditions.are_here();
        let knows = information.last == Last::Here && !stale;
        if knows || !job.statement.asks_about_last() || job.statement.kind == Kind::GetDiagnostics {
            return match flags.intersects(Flags::CONNECTION_ID) {
                true => substitute(text, connection_id.as_slice(), dialect),
                false => None,
            };
        }
        if job.statement.kind == Kind::ShowWarnings {
            return None;
        }
        let function = |name, value, shape| Substitute { name, value, shape };
        let variable = |name, value: u16| Substitute { name, value: value.into(), shape: Shape::Variable };
        let (warnings, errors) = match flags.intersects(Flags::WARNING_COUNT) {
            true => self.condition_counts().await,
            false => (0, 0),
        };
        let mut known = vec![
            function("ROW_COUNT", information.row_count, Shape::RowCount),
            variable("@@warning_count", warnings),
            variable("@@error_count", errors),
        ];
        if let Some(rows) = self.found_rows().await {
            known.push(function("FOUND_ROWS", rows.try_into().unwrap_or(i64::MAX), Shape::FoundRows));
        }
        known.extend(connection_id);
        substitute(text, &known, dialect)
    }

    /// What replaces `CONNECTION_ID()`: the id that the client knows from its greeting. Nothing while the current schema is one
    /// of a server's own, whose tables have the server's ids.
    pub(in super::super) fn own_id(&self) -> Option<Substitute<'static>> {
        let schema = self.data.state.schema.as_deref();
        let is_ours = !schema.is_some_and(narrows_sql::is_of_server);
        is_ours.then(|| Substitute { name: "CONNECTION_ID", value: self.handle.id.into(), shape: Shape::Id })
    }

    /// `FOUND_ROWS()` for a connection that does not have it; `None` if it does.
    async fn found_rows(&self) -> Option<u64> {
        match &self.data.information.found_rows {
            FoundRows::Here => None,
            FoundRows::Unknown => Some(0),
            FoundRows::Known { rows, .. } => Some(*rows),
            FoundRows::Left(left) => {
                Some(self.fetched(left).await.and_then(|collected| collected.found_rows).unwrap_or(0))
            }
        }
    }

    /// How many conditions there are, and how many of them are errors. An ERR packet reports one; if there were others
    /// before it, they are among the collected ones.
    async fn condition_counts(&self) -> (u16, u16) {
        let conditions = &self.data.information.conditions;
        let collected = match conditions.left() {
            // Without a number, only the connection knew.
            Some(left) if conditions.errors > 0 || conditions.warnings == 0 => self.fetched(left).await,
            _ => None,
        };
        let rows = collected.and_then(|collected| collected.warnings.as_ref());
        let rows = rows.map_or(&[][..], |set| &set.rows);
        let errors = rows.iter().filter(|row| is_error(row)).count();
        let least = |rows: usize| u16::try_from(rows).unwrap_or(u16::MAX);
        (conditions.warnings.max(least(rows.len())), conditions.errors.max(least(errors)))
    }

    /// The answer to `SHOW WARNINGS` from what was collected for this client, if another session has leased the connection
    /// that had it; `None` if the leased connection must be asked.
    pub(in super::super) async fn left_warnings(
        &mut self,
        backend: &Backend,
        text: &[u8],
    ) -> Result<Option<Result<(), End>>, BackendError> {
        let shown = shown_conditions(text);
        let limit = self.snapshot().variables.connect_timeout_server;
        let capabilities = self.client.capabilities;
        let out = if shown.counts {
            let (warnings, errors) = self.condition_counts().await;
            self.data.information.found_rows = FoundRows::Known { rows: 1, by_last: false };
            self.data.information.found_rows_are_here = false;
            let (name, count): (&[u8], _) = match shown.errors_only {
                true => (b"@@session.error_count", errors),
                false => (b"@@session.warning_count", warnings),
            };
            // After an error it is unknown whether a transaction is open.
            let status = backend.status(limit).await?.of_session();
            reply::single_value(name, count.to_string().as_bytes(), capabilities, status)
        } else {
            let Some(left) = self.elsewhere(backend).await? else { return Ok(None) };
            let status = backend.status(limit).await?.of_session();
            let of_kind = |row: &&Vec<u8>| !shown.errors_only || is_error(row);
            let rows: Vec<&[u8]> = left
                .rows
                .iter()
                .filter(of_kind)
                .skip(shown.offset)
                .take(shown.limit)
                .map(Vec::as_slice)
                .collect();
            let columns: Vec<&[u8]> = left.columns.iter().map(Vec::as_slice).collect();
            reply::result_set(&columns, &rows, capabilities, status)
        };
        self.data.warnings = 0;
        self.data.information.row_count = -1;
        self.data.information.last = Last::Nobody;
        Ok(Some(self.client.send(&out).await))
    }

    /// The conditions that are not on the leased connection, with that connection's column definitions.
    async fn elsewhere(&self, backend: &Backend) -> Result<Option<ResultSet>, BackendError> {
        let conditions = &self.data.information.conditions;
        let rows = match (conditions.own(), conditions.left()) {
            (Some(row), _) => Some(row.to_vec()).filter(|row| !row.is_empty()).into_iter().collect(),
            (None, Some(left)) => match self.fetched(left).await {
                Some(Collected { warnings: Some(warnings), .. }) => warnings.rows.clone(),
                _ => return Ok(None),
            },
            (None, None) => return Ok(None),
        };
        let limit = self.snapshot().variables.connect_timeout_server;
        let columns = backend.warnings(limit).await?.columns;
        Ok(Some(ResultSet { columns, rows }))
    }

    /// The rows of the conditions that are not on the leased connection.
    async fn kept_elsewhere(&self) -> Vec<Vec<u8>> {
        let conditions = &self.data.information.conditions;
        match (conditions.own(), conditions.left()) {
            (Some(row), _) if !row.is_empty() => vec![row.to_vec()],
            (None, Some(left)) => {
                let collected = self.fetched(left).await.and_then(|collected| collected.warnings.as_ref());
                collected.map(|set| set.rows.clone()).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// `GET DIAGNOSTICS` as the equivalent assignments, if the leased connection does not have the conditions; `None` if the
    /// connection must be asked, because it has them, or nobody else has what is asked.
    pub(in super::super) async fn diagnostics(
        &mut self,
        backend: &mut Backend,
        text: &[u8],
    ) -> Result<Option<Vec<u8>>, BackendError> {
        let Some(asked) = narrows_sql::diagnostics(text) else {
            self.raise_again(backend).await?;
            return Ok(None);
        };
        if asked.condition.is_some() && self.data.information.conditions.are_here() {
            return Ok(None);
        }
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
                    format!("{} {}", charset_of_messages(backend.login.family), quoted(&condition.message))
                }
                _ => {
                    self.raise_again(backend).await?;
                    return Ok(None);
                }
            };
            assignments.push([target, b" = ", value.as_bytes()].concat());
        }
        Ok(Some([b"SET ".as_slice(), &assignments.join(b", ".as_slice())].concat()))
    }
}

/// The introducer of a text that takes the place of a server's message. MySQL warns of the one that its own message has.
fn charset_of_messages(family: Family) -> &'static str {
    match family {
        Family::MySql => "_utf8mb4",
        Family::MariaDb => "_utf8mb3",
    }
}

/// Whether a statement may ask for `ROW_COUNT()`.
fn may_ask_row_count(statement: &Statement, text: &[u8]) -> bool {
    statement.flags.intersects(Flags::ROW_COUNT)
        || statement.kind == Kind::GetDiagnostics
        || !statement.is_certain(text)
}

/// A query that leaves this value of `FOUND_ROWS()`, up to a limit. It has no table, because that would clear the conditions on
/// MariaDB.
fn counting(rows: u64) -> String {
    let rows = rows.min(MOST_COUNTED);
    // The limit of the statement is in force, not that of the session.
    format!("SELECT 1{} LIMIT {rows}", " UNION ALL SELECT 1".repeat(rows.saturating_sub(1) as usize))
}

/// The largest value of `FOUND_ROWS()` that is set on a connection: as many rows are read for it.
const MOST_COUNTED: u64 = 1000;
