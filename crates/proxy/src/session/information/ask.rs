//! Information functions whose value is not on the leased connection: it is fetched, and put into the statement.

use narrows_sql::{DiagnosticsItem, Flags, Kind, Shape, Statement, Substitute, shown_conditions, substitute};
use narrows_wire::Errno;
use narrows_wire::charset::Family;

use super::super::job::Job;
use super::super::{End, Session};
use super::conditions::{Condition, condition, is_error};
use super::{FoundRows, Information, Last, Left, Place, asks_about_last, may_set_an_id};
use crate::backend::{
    Backend, BackendError, Collected, FOREIGN_INSERT_ID, InsertIdBefore, Kinds, ResultSet, Uncollected,
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
        let keeps_warnings =
            !self.data.information.conditions.are_here() || self.handles_warnings(place.hostgroup);
        let uncollected = self.data.information.leave(place, keeps_warnings);
        let keeps_id = uncollected.as_ref().is_some_and(Uncollected::has_insert_id);
        if !keeps_id && backend.login.insert_id_before == InsertIdBefore::Own {
            // The session knows its value without the connection, and the next one must not take it for its own.
            backend.login.insert_id_before = InsertIdBefore::Unknown;
        }
        if uncollected.is_some() {
            backend.login.uncollected = uncollected;
        }
    }

    /// Whether warnings are available after the connection was given back to the pool.
    fn handles_warnings(&self, hostgroup: HostgroupId) -> bool {
        let snapshot = self.snapshot();
        let hostgroup = snapshot.hostgroups.get(&hostgroup);
        hostgroup.map_or(snapshot.variables.handle_warnings, |it| it.settings.handle_warnings)
    }

    /// A connection was leased: takes back what it keeps for this client.
    pub(in super::super) fn meet(&mut self, backend: &mut Backend) {
        if self.data.information.meet(|place| place.is_untouched(backend)) {
            backend.login.uncollected = None;
        }
    }

    /// Before an insert, an unknown id of another client is replaced by one that no insert generates, which later shows
    /// whether the insert has set it.
    pub(in super::super) fn foreign_insert_id(&self, statement: &Statement) -> Option<u64> {
        let here = self.data.information.insert_id.is_here();
        (!here && may_set_an_id(statement)).then_some(FOREIGN_INSERT_ID)
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
        for left in insert_id.left().iter().rev() {
            let answer = self.fetched(left).await.map(|collected| collected.insert_id);
            decided = insert_id.decided_by(left, answer);
            if decided.is_some() {
                break;
            }
        }
        Some(self.data.information.insert_id.settle(decided))
    }

    /// Before a connection that has run this client's inserts is asked for `LAST_INSERT_ID()`: checks whether they have set
    /// it. The protocol reports an id that was given explicitly like a generated one, and the connection may still have
    /// the value of its previous client.
    pub(in super::super) async fn check_insert_id(
        &mut self,
        backend: &mut Backend,
    ) -> Result<(), BackendError> {
        let InsertIdBefore::Is(before) = backend.login.insert_id_before else { return Ok(()) };
        if !self.data.information.insert_id.is_here() {
            return Ok(());
        }
        let mut kinds = Kinds { insert_id: false, ..self.data.information.known_here() };
        // MariaDB keeps conditions during a query without a table.
        kinds.diagnostics &= backend.login.family == Family::MySql;
        self.take(backend, kinds).await?;
        let limit = self.snapshot().variables.connect_timeout_server;
        let now = backend.insert_id(limit).await?;
        backend.login.insert_id_before = InsertIdBefore::Own;
        if now == Some(before) {
            self.data.information.insert_id.is_unchanged(before);
        }
        self.data.information.last = Last::Nobody;
        Ok(())
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
        if !self.data.information.leave_to_collect(backend, kinds) {
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
        let connection_id =
            Substitute { name: "CONNECTION_ID", value: self.handle.id.into(), shape: Shape::Id };
        let stale = flags.intersects(Flags::FOUND_ROWS) && information.found_rows.is_stale()
            // The connection may have those of our own assignments.
            || flags.intersects(Flags::WARNING_COUNT) && !information.conditions.are_here();
        let knows = information.last == Last::Here && !stale;
        if knows || !asks_about_last(&job.statement) || job.statement.kind == Kind::GetDiagnostics {
            return match flags.intersects(Flags::CONNECTION_ID) {
                true => substitute(text, &[connection_id]),
                false => None,
            };
        }
        if job.statement.kind == Kind::ShowWarnings {
            return None;
        }
        let family = backend.login.family;
        let function = |name, value, shape| Substitute { name, value, shape };
        let variable =
            |name, value: u16| Substitute { name, value: value.into(), shape: variable_shape(family) };
        let (warnings, errors) = match flags.intersects(Flags::WARNING_COUNT) {
            true => self.condition_counts().await,
            false => (0, 0),
        };
        let mut known = vec![
            connection_id,
            function("ROW_COUNT", information.row_count, Shape::Signed),
            variable("@@warning_count", warnings),
            variable("@@error_count", errors),
        ];
        if let Some(rows) = self.found_rows().await {
            known.push(function("FOUND_ROWS", rows.try_into().unwrap_or(i64::MAX), Shape::FoundRows));
        }
        substitute(text, &known)
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
            Some(left) if conditions.errors > 0 => self.fetched(left).await,
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

    /// `GET DIAGNOSTICS` as the equivalent assignments, if the leased connection does not have the conditions; `None` if the
    /// connection must be asked, because it has them, or nobody else has what is asked.
    pub(in super::super) async fn diagnostics(
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

/// The form in which a system variable is inserted into a statement.
fn variable_shape(family: Family) -> Shape {
    match family {
        Family::MySql => Shape::Variable,
        Family::MariaDb => Shape::MariaDbVariable,
    }
}
