//! The connection for a command: the pinned one, or one from the pool, aligned with the client's state.

use std::sync::Arc;
use std::time::Duration;

use narrows_sql::set::{Assignment, Scope, Value};
use narrows_sql::{Flags, Kind, Statement};
use narrows_wire::charset::Family;
use narrows_wire::{Command, Errno, Status};

use super::effects::Pins;
use super::errors::killed;
use super::information::needs_own_values;
use super::job::Job;
use super::lost::{Fate, lost};
use super::outcome::GOING_AWAY;
use super::request::Request;
use super::{End, Interrupt, Pinned, Session};
use crate::backend::{Backend, BackendError, CLEAR_CONDITIONS, ServerError, WantedReports, dialect};
use crate::figures::Doing;
use crate::hostgroup::{LagFilter, Outdated, Server, ServerFigures};
use crate::pin_reason::PinReason;
use crate::pool::{Ask, Later, Lease, LeaseError};
use crate::rows::HostgroupId;
use crate::rt::{Instant, select, sleep};
use crate::snapshot::Snapshot;
use crate::state::{CHARSETS, SessionState, SharedState};

/// Why there is no connection for a command.
pub(super) enum NoLease {
    /// The client receives this error.
    Refused(Errno, String),
    /// There was a connection, but it was lost before the command was sent.
    Lost { server: Arc<Server>, text: String },
    /// The one that was found is of no use, and closed; there may be others.
    Unfit { server: Arc<Server>, text: String },
}

/// How a wait for a connection has ended.
enum Waited {
    /// There is one.
    Found(Lease),
    /// No server for writes can be had, and these readers can run the statement as well.
    Moves(HostgroupId),
    /// There is none.
    No(NoLease),
}

/// A connection for one command.
pub(super) struct Leased {
    pub(super) backend: Lease,
    pub(super) pins: Pins,
    /// Whether this client already had it.
    pub(super) pinned: bool,
    /// The statement may ask about earlier ones without its text showing that: the connection must have what it would find.
    pub(super) needs_own_values: bool,
}

impl Session {
    /// The connection for a command: the pinned one, or one from the pool, aligned with the client's state, and if possible
    /// to another server than `instead_of`. The inner error is for the client.
    pub(super) async fn lease(
        &mut self,
        snapshot: &Arc<Snapshot>,
        request: &mut Request,
        job: &mut Job,
        instead_of: Option<&ServerFigures>,
    ) -> Result<Result<Leased, NoLease>, End> {
        if let Some(pinned) = &self.binding.pinned
            && self.worker.pool.held_until(pinned.hostgroup).is_some()
            && !pinned.pins.reasons().intersects(PinReason::OPEN_WORK)
            && let Err(no_lease) = Box::pin(self.wait_while_held(snapshot, pinned.hostgroup, request)).await?
        {
            return Ok(Err(no_lease));
        }
        if self.binding.pinned.is_some() {
            self.leave_former_server();
        }
        if let Some(pinned) = self.binding.pinned.take() {
            if pinned.backend.is_alive() {
                let Pinned { mut backend, pins, .. } = pinned;
                if let Some(trace) = &mut backend.login.trace {
                    self.trace(trace, request, job);
                }
                self.mark_lease(&backend, false);
                let mut leased = Leased { backend, pins, pinned: true, needs_own_values: false };
                let ready = self.bring_into_state(&mut leased, request, job, snapshot).await?;
                return Ok(ready.map(|()| leased));
            }
            let lost = NoLease::lost(&pinned.backend, "the server closed the connection");
            return Ok(Err(lost));
        }
        let (mut closed, mut waits_since) = (0, None);
        if self.data.state_is_refused {
            self.leave_what_it_sets(job, job.text(request));
        }
        loop {
            let wanted = self.data.information.wanted(&job.statement, job.text(request));
            let mut state = self.state_for(job);
            if self.data.schema_is_gone {
                // The connection must not be in that of another client.
                state = Arc::new(state.without_schema());
            }
            let ask = Ask {
                want: &self.want,
                state: &state,
                untouched: wanted.map(|place| place.last_use).filter(|_| !job.options.new_connection),
                statement: job.prepared.as_ref().map(|statement| statement.identity(job.expect)),
                instead_of,
                prefers: job.sees.as_ref().map(|sees| &sees.gtids),
                lag: job.options.lag.map(LagFilter::from),
                // Others may be of no use, either: a new one is nobody's, and up to date.
                new: job.options.new_connection || closed > 0,
                bytes: request.bytes(),
                began: waits_since,
                now: self.handle.since(),
            };
            let (mut backend, has_waited) =
                match self.worker.pool.lease_at_once(snapshot, job.hostgroup, &ask) {
                    Ok(backend) => (backend, false),
                    Err(later) => {
                        waits_since.get_or_insert_with(Instant::now);
                        let waiting = self.wait_for_lease(snapshot, request, job, (ask, later));
                        match Box::pin(waiting).await? {
                            Waited::Found(backend) => (backend, true),
                            Waited::Moves(readers) => {
                                self.redirect(job, readers);
                                continue;
                            }
                            Waited::No(no_lease) => return Ok(Err(no_lease)),
                        }
                    }
                };
            self.handle.has_backend(backend.card());
            self.mark_lease(&backend, has_waited);
            self.note_first_status(&backend);
            let is_outdated = backend.login.outdated() != Outdated::No;
            if is_outdated
                || self.must_forget_values(&backend, job)
                || backend.login.programs.differ_for(&self.data.state)
            {
                let renewed = select! {
                    biased;
                    renewed = Box::pin(self.renew(&mut backend)) => renewed,
                    reason = self.client.interrupted() => return self.no_lease(reason).map(Err),
                    () = request.client_gone(&self.client.stream) => return Err(End::Gone),
                };
                match renewed {
                    Ok(()) => {}
                    Err(NoLease::Unfit { .. }) if closed < MOST_CLOSED => {
                        closed += 1;
                        continue;
                    }
                    Err(no_lease) => return Ok(Err(no_lease)),
                }
            }
            self.meet(&mut backend);
            let mut leased =
                Leased { backend, pins: Pins::default(), pinned: false, needs_own_values: false };
            let mut ready = self.bring_into_state(&mut leased, request, job, snapshot).await?;
            if !snapshot.variables.verify_sessions.is_none() && ready.is_ok() {
                ready = Box::pin(self.verified(snapshot, &mut leased, request, job)).await?;
            }
            match ready {
                Ok(()) => return Ok(Ok(leased)),
                Err(NoLease::Unfit { .. }) if closed < MOST_CLOSED => closed += 1,
                Err(no_lease) => return Ok(Err(no_lease)),
            }
        }
    }

    /// Resets a connection of the pool that has something which it must not have: values or types of others, or what its server
    /// would not give to a new one any more.
    async fn renew(&self, backend: &mut Backend) -> Result<(), NoLease> {
        let limit = self.snapshot().variables.connect_timeout_server;
        let needs_login = match backend.login.outdated() {
            Outdated::No | Outdated::Session => backend.login.is_spoiled_by_reset(),
            Outdated::Login => true,
        };
        if needs_login {
            return Err(match backend.collect_diagnostics(limit).await {
                Ok(()) => NoLease::unfit(backend, "only a new session has what the client's would have"),
                Err(error) => NoLease::lost(backend, error),
            });
        }
        self.forget_values(backend).await.map_err(|error| NoLease::lost(backend, error))
    }

    /// Waits for a connection that cannot be had at once.
    async fn wait_for_lease(
        &self,
        snapshot: &Snapshot,
        request: &mut Request,
        job: &Job,
        (ask, later): (Ask<'_>, Later),
    ) -> Result<Waited, End> {
        let readers = readers_for(snapshot, job, request);
        if let Some(readers) = readers
            && later.has_no_server()
        {
            return Ok(Waited::Moves(readers));
        }
        let doing = self.handle.doing();
        self.handle.does(Doing::Connect);
        let began = Instant::now();
        let moves = async {
            let Some(readers) = readers else { return std::future::pending().await };
            sleep(WRITER_PATIENCE).await;
            readers
        };
        let found = select! {
            biased;
            found = self.worker.pool.lease_later(snapshot, job.hostgroup, ask, later) => {
                found.map_or_else(|error| Waited::No(NoLease::of(error)), Waited::Found)
            }
            readers = moves => Waited::Moves(readers),
            reason = self.client.interrupted() => return self.no_lease(reason).map(Waited::No),
            () = request.client_gone(&self.client.stream) => return Err(End::Gone),
        };
        self.worker.figures.hostgroups.add_wait(job.hostgroup, began.elapsed());
        self.handle.does(doing);
        Ok(found)
    }

    /// Waits while the hostgroup of the connection that the client keeps is held.
    async fn wait_while_held(
        &self,
        snapshot: &Snapshot,
        hostgroup: HostgroupId,
        request: &mut Request,
    ) -> Result<Result<(), NoLease>, End> {
        let doing = self.handle.doing();
        self.handle.does(Doing::Connect);
        let began = Instant::now();
        let bytes = request.bytes();
        let waited = select! {
            biased;
            waited = self.worker.pool.wait_while_held(snapshot, hostgroup, bytes) => waited,
            reason = self.client.interrupted() => return self.no_lease(reason).map(Err),
            () = request.client_gone(&self.client.stream) => return Err(End::Gone),
        };
        self.worker.figures.hostgroups.add_wait(hostgroup, began.elapsed());
        self.handle.does(doing);
        Ok(waited.map_err(NoLease::of))
    }

    /// Until a server has answered the session, the server's greeting says whether backslashes in texts escape.
    fn note_first_status(&mut self, backend: &Backend) {
        if !self.data.status_is_told && self.data.state.literal("sql_mode").is_none() {
            let are_letters =
                backend.login.server.figures.first_status().contains(Status::NO_BACKSLASH_ESCAPES);
            self.data.status = self.data.status.without(Status::NO_BACKSLASH_ESCAPES);
            if are_letters {
                self.data.status = self.data.status.union(Status::NO_BACKSLASH_ESCAPES);
            }
        }
    }

    /// Aligns a connection with the client's state. The error is for the client.
    async fn bring_into_state(
        &mut self,
        leased: &mut Leased,
        request: &mut Request,
        job: &Job,
        snapshot: &Arc<Snapshot>,
    ) -> Result<Result<(), NoLease>, End> {
        // MySQL does not let that be changed within a transaction.
        if !leased.pinned {
            leased.backend.login.wants_gtids = self.follows_writes(snapshot);
        }
        leased.backend.login.wants_reports = wanted_reports(&job.statement, &leased.pins);
        // Once anything ties the client to the connection, user variables of other clients can no longer be removed.
        let reads_variables = job.statement.flags.intersects(Flags::USER_VARIABLE)
            || !job.whole
            || (self.data.state.has_user_variables() || self.client.patience.is_short)
                && may_use_variables(job, leased.backend.login.family)
            || !leased.pinned && leased.backend.login.state.has_user_variables()
            || self.client.patience.is_short && reads_timeouts(job);
        leased.backend.drop_unwanted_diagnostics();
        leased.needs_own_values = needs_own_values(job, job.text(request), leased.backend.login.family);
        let insert_id = match leased.needs_own_values || self.uses_insert_id(leased, job) {
            false => None,
            true => match Box::pin(self.insert_id_for(leased, snapshot)).await {
                Ok(insert_id) => insert_id,
                Err(error) => return Ok(Err(NoLease::lost(&leased.backend, error))),
            },
        };
        let state = self.state_for(job);
        if insert_id.is_none() && leased.backend.is_aligned(&state, reads_variables) {
            self.share_state(&leased.backend, &state);
        } else {
            self.mark(|phases| &mut phases.align_began);
            let align = self.align(leased, request, job, (snapshot, &state, reads_variables, insert_id));
            let aligned = Box::pin(align).await?;
            self.mark(|phases| &mut phases.aligned);
            if let Err(no_lease) = aligned {
                return Ok(Err(no_lease));
            }
        }
        Ok(Ok(()))
    }

    async fn align(
        &mut self,
        leased: &mut Leased,
        request: &mut Request,
        job: &Job,
        (snapshot, state, reads_variables, insert_id): (&Snapshot, &SharedState, bool, Option<u64>),
    ) -> Result<Result<(), NoLease>, End> {
        let backend = &mut leased.backend;
        let limit = snapshot.variables.connect_timeout_server_max;
        if let Err(no_lease) = self.clear_the_way(backend).await {
            return Ok(Err(no_lease));
        }
        let clears = job.command == Command::InitDb && backend.login.family == Family::MySql;
        // Other servers than the account's own may only lag.
        let may_lack_schema =
            self.data.schema_is_gone || job.hostgroup == self.want.account.row.default_hostgroup;
        let mut gone = false;
        let align = async {
            match backend.align(state, reads_variables, insert_id, limit).await {
                Err(BackendError::SchemaGone(_))
                    if may_lack_schema && backend.login.state.schema.is_none() =>
                {
                    gone = true;
                }
                aligned => aligned?,
            }
            // The command adds to the existing conditions, which must not be those of what was just sent.
            if clears || gone { backend.execute(CLEAR_CONDITIONS, limit).await } else { Ok(()) }
        };
        let aligned = select! {
            biased;
            aligned = align => aligned,
            reason = self.client.interrupted() => return self.no_lease(reason).map(Err),
            () = request.client_gone(&self.client.stream) => return Err(End::Gone),
        };
        if aligned.is_ok() {
            self.data.schema_is_gone = gone;
            self.data.state_is_refused = false;
        }
        Ok(match aligned {
            Ok(()) => {
                self.share_state(backend, state);
                Ok(())
            }
            // The connection is in the schema of another client.
            Err(error @ BackendError::SchemaGone(_)) if may_lack_schema && !leased.pinned => {
                self.data.schema_is_gone = true;
                Err(NoLease::unfit(&leased.backend, error))
            }
            Err(BackendError::SchemaGone(error)) => Err(NoLease::refused(error)),
            // It is shutting down, or has lost its cluster: another one can do it.
            Err(BackendError::Server(error)) if !GOING_AWAY.contains(&error.code) => {
                self.data.state_is_refused = true;
                Err(NoLease::refused(error))
            }
            Err(error @ BackendError::NoReset) => Err(NoLease::unfit(&leased.backend, error)),
            Err(error) => Err(NoLease::lost(&leased.backend, error)),
        })
    }

    /// A client whose state a server refuses can still put it right: what its `SET` assigns need not be set before that.
    #[cold]
    fn leave_what_it_sets(&mut self, job: &Job, text: &[u8]) {
        if job.command != Command::Query || job.statement.kind != Kind::Set {
            return;
        }
        let mut state = SessionState::clone(&self.data.state);
        for assignment in narrows_sql::set::parse_with(text, self.escapes()).unwrap_or_default() {
            match assignment {
                Assignment::System { scope: Scope::Session, name, .. } => state.set_default(&name),
                Assignment::Names { .. } | Assignment::CharacterSet(_) => {
                    CHARSETS.iter().for_each(|slot| state.set_default(slot));
                }
                _ => {}
            }
        }
        self.data.state = Arc::new(state);
    }

    /// Before something of our own is sent on the client's connection: that clears its diagnostics about the previous statement.
    pub(super) async fn clear_the_way(&mut self, backend: &mut Backend) -> Result<(), NoLease> {
        self.data.information.is_disturbed();
        if self.data.information.known_here().is_empty() {
            return Ok(());
        }
        let taken = Box::pin(self.take_what_is_here(backend)).await;
        taken.map_err(|error| NoLease::lost(backend, error))
    }

    /// Whether `LAST_INSERT_ID()` may have to be set on the connection before the command.
    fn uses_insert_id(&self, leased: &Leased, job: &Job) -> bool {
        job.statement.flags.intersects(Flags::LAST_INSERT_ID)
            || leased.pinned && self.data.state.null_is_insert_id()
    }

    /// The value to which `LAST_INSERT_ID()` must be set on the connection before the command; `None`: it is set already, or
    /// the command does not use it.
    async fn insert_id_for(
        &mut self,
        leased: &mut Leased,
        snapshot: &Snapshot,
    ) -> Result<Option<u64>, BackendError> {
        let asks_by_null = leased.pinned && self.data.state.null_is_insert_id();
        self.check_insert_id(&mut leased.backend).await?;
        // The session that has the value may itself be waiting for diagnostics of this connection.
        if self.data.information.insert_id.is_awaited() {
            let limit = snapshot.variables.connect_timeout_server;
            leased.backend.collect_diagnostics(limit).await?;
        }
        // A connection that does not have it has 0.
        let insert_id = self.insert_id_elsewhere().await.filter(|id| *id != 0 || asks_by_null);
        if asks_by_null || insert_id.is_some() {
            self.data.information.insert_id.may_be_here();
        }
        Ok(insert_id)
    }

    /// Why the wait for a connection was interrupted.
    pub(super) fn no_lease(&self, reason: Interrupt) -> Result<NoLease, End> {
        let timed_out = match reason {
            Interrupt::KillQuery | Interrupt::KillTime => false,
            Interrupt::QueryTime => true,
            reason => return Err(End::Interrupted(reason)),
        };
        let (errno, text) = killed(timed_out);
        Ok(NoLease::Refused(errno, text))
    }

    /// If the states of client and connection are equal, makes them share one value, so that later comparisons compare only
    /// pointers.
    fn share_state(&mut self, backend: &Backend, wanted: &SharedState) {
        let found = &backend.login.state;
        if Arc::ptr_eq(found, wanted) || **found != **wanted {
            return;
        }
        match &mut self.data.apart {
            Some(apart) if Arc::ptr_eq(&apart.state, wanted) => apart.state = Arc::clone(found),
            _ => self.data.state = Arc::clone(found),
        }
    }
}

impl NoLease {
    fn of(error: LeaseError) -> NoLease {
        match error {
            LeaseError::Unavailable(text) => NoLease::Refused(Errno::NO_SERVER_IN_TIME, text),
            LeaseError::Refused(error) | LeaseError::Full(error) | LeaseError::NoInit(error) => {
                NoLease::refused(error)
            }
        }
    }

    fn refused(error: ServerError) -> NoLease {
        let (errno, text) = error.into_reply();
        NoLease::Refused(errno, text)
    }

    pub(super) fn lost(backend: &Backend, error: impl std::fmt::Display) -> NoLease {
        let server = Arc::clone(&backend.login.server);
        server.figures.distrust();
        NoLease::Lost { server, text: backend.broken_by(error) }
    }

    pub(super) fn unfit(backend: &Backend, why: impl std::fmt::Display) -> NoLease {
        NoLease::Unfit { server: Arc::clone(&backend.login.server), text: why.to_string() }
    }

    /// The error for the client.
    pub(super) fn into_reply(self) -> (Errno, String) {
        match self {
            NoLease::Refused(errno, text) => (errno, text),
            NoLease::Lost { server, text } | NoLease::Unfit { server, text } => {
                (Errno::SERVER_LOST, lost(&server.address(), None, &text, Fate::NotRun))
            }
        }
    }
}

/// Connections in a row that a statement may find in a state other than the one known; all but the first are new.
const MOST_CLOSED: usize = 8;

/// What the server must report of a statement.
fn wanted_reports(statement: &Statement, pins: &Pins) -> WantedReports {
    const RARE: Flags = Flags::REPORT_VARIABLE.union(Flags::NEXT_TRANSACTION);
    let is_awaited = pins.reasons().intersects(PinReason::NEXT_TRANSACTION);
    if !statement.flags.intersects(RARE) && !is_awaited {
        return WantedReports::Narrows;
    }
    let names_reports = statement.flags.intersects(Flags::REPORT_VARIABLE);
    let is_one = !statement.flags.intersects(Flags::MULTI);
    let sets = matches!(statement.kind, Kind::Set | Kind::SetTransaction) || !is_one;
    let shows = matches!(statement.kind, Kind::Select | Kind::Show) && names_reports && is_one;
    // A statement that shows these variables shows the client's. If it uses up what was set for the next transaction, the end
    // of the one after that tells.
    let transactions = is_awaited && !shows || sets && statement.flags.intersects(Flags::NEXT_TRANSACTION);
    match names_reports {
        true => WantedReports::Client { transactions },
        false if transactions => WantedReports::Transactions,
        false => WantedReports::Narrows,
    }
}

/// Whether a statement may show the timeouts of its session.
fn reads_timeouts(job: &Job) -> bool {
    job.statement.flags.intersects(Flags::SYSTEM_VARIABLE)
        || matches!(job.statement.kind, Kind::Show | Kind::Set | Kind::SetStatement)
}

/// Whether a command may use user variables that its text does not name: a routine, a prepared statement, a trigger, or a
/// function that a view calls.
fn may_use_variables(job: &Job, family: Family) -> bool {
    matches!(job.command, Command::Query | Command::StmtExecute | Command::StmtBulkExecute)
        && job.statement.on(dialect(family)).may_run_programs()
}

/// The readers that can run a statement for which no server for writes can be had: it changes its session alone, as drivers do when
/// they connect, and the state of a session is not bound to a server.
#[cold]
fn readers_for(snapshot: &Snapshot, job: &Job, request: &Request) -> Option<HostgroupId> {
    let is_for_session = || match job.command {
        Command::InitDb => true,
        Command::Query => match job.statement.kind {
            Kind::Use => true,
            Kind::Set => changes_only_the_session(&job.statement, job.text(request)),
            _ => false,
        },
        _ => false,
    };
    let readers = *snapshot.readers.get(&job.hostgroup)?;
    let is_alone = request.whole && !job.statement.flags.intersects(Flags::MULTI);
    (is_alone && is_for_session() && snapshot.hostgroups.get(&readers)?.has_server()).then_some(readers)
}

/// Whether a `SET` assigns nothing but variables of its session, and calls no stored function.
fn changes_only_the_session(statement: &Statement, text: &[u8]) -> bool {
    let is_own = |assignment: &Assignment| match assignment {
        Assignment::System { scope: Scope::Session, .. }
        | Assignment::Names { .. }
        | Assignment::CharacterSet(_) => true,
        Assignment::User { value, .. } => !matches!(value, Value::Expression(_)),
        _ => false,
    };
    let reads: [&[u8]; 3] = [b"select", b"table", b"values"];
    let reads_tables =
        || narrows_sql::bare_words(text).any(|word| reads.iter().any(|read| read.eq_ignore_ascii_case(word)));
    statement.is_certain(text)
        && !reads_tables()
        && narrows_sql::set::parse(text).is_ok_and(|assignments| assignments.iter().all(is_own))
}

/// How long a statement that changes its session alone waits for a server for writes before a reader runs it.
const WRITER_PATIENCE: Duration = Duration::from_millis(200);
