//! Reads that see writes (`causal_reads`): which writes a statement that goes to replicas must see, and what is done if the
//! replica is not known to have them.
//!
//! Servers report the GTIDs of what they commit ([`Session::publish_written`]); a session remembers its own ([`Written`]), the
//! hostgroup those of all ([`crate::hostgroup::Writes`]). A statement for readers then has [`MustSee`]: the pool prefers servers
//! that are known to have it; else the one it gets is asked to wait for a short time; else the writer runs it.

mod doubts;
pub(super) mod must_see;
mod note;
mod written;

use std::sync::Arc;
use std::time::Duration;

use narrows_sql::Kind;
use narrows_wire::charset::Family;
use narrows_wire::gtid::GtidSet;
use narrows_wire::{Command, Errno};

use super::job::Job;
use super::lease::{Leased, NoLease};
use super::request::Request;
use super::{End, PinReason, Session};
use crate::backend::{Backend, BackendError, TRACK_GTIDS, is_about_login, is_report};
use crate::hostgroup::{Hostgroup, ServerFigures, Writes};
use crate::rows::{CausalReads, HostgroupId};
use crate::rt::{Instant, select};
use crate::snapshot::Snapshot;

use must_see::MustSee;
use note::writes;
use written::Token;
pub(super) use written::Written;

/// What becomes of a statement whose server may lack what it must see.
enum Found {
    /// The server has it.
    There,
    /// It does not, or not in time.
    Behind,
}

impl Session {
    /// Whether anything says that a statement must see writes.
    #[inline]
    pub(super) fn may_have_to_see(&self, job: &Job) -> bool {
        let causal = &job.options.causal;
        self.run.snapshot.as_ref().is_none_or(|snapshot| snapshot.tracks_gtids)
            || causal.level.is_some()
            || causal.names_gtids
            || self.data.state.has_user_variables()
    }

    /// Decides what a statement must see, if it goes to readers.
    pub(super) fn decide_what_it_sees(&mut self, request: &Request, job: &mut Job) {
        let snapshot = self.snapshot();
        let causal = job.options.causal;
        if !reads_data(job) || self.data.information.wanted_hostgroup(&job.statement).is_some() {
            return;
        }
        let writer = causal.writer_for(&snapshot, job.hostgroup);
        // Writers have everything that was written there.
        if writer == Some(job.hostgroup) || writer.is_none() && snapshot.readers.contains_key(&job.hostgroup)
        {
            return;
        }
        let level = {
            let (of_session, account) = (self.level_of_session(), &self.want.account);
            causal.level_for(&snapshot, account, job.hostgroup, of_session)
        };
        let token = self.token_for(job, request, writer.unwrap_or(job.hostgroup));
        // Without a writer hostgroup these are no readers: only what the client names can be required of them.
        if token.is_none() && (level == CausalReads::None || writer.is_none()) {
            return;
        }
        let mut sees = self.must_see(&snapshot, level, writer);
        let mut is_doubted = false;
        if let Some(token) = token {
            is_doubted = sees.add(token, &self.data.written.doubts, writer);
        }
        if !sees.is_unknown && sees.gtids.is_empty() {
            return;
        }
        self.worker.counters.borrow_mut().causal_reads += 1;
        if let Some(writer) = writer
            && (sees.is_unknown || is_doubted || !self.has_reader(&snapshot, job.hostgroup))
        {
            let mut counters = self.worker.counters.borrow_mut();
            match sees.is_unknown {
                true => counters.causal_unknown += 1,
                false => counters.causal_on_writer += 1,
            }
            drop(counters);
            self.redirect(job, writer);
        }
        job.options.caching = None;
        job.sees = Some(Box::new(sees));
    }

    /// Whether any server of a hostgroup can be connected to, as far as is known.
    fn has_reader(&self, snapshot: &Snapshot, hostgroup: HostgroupId) -> bool {
        let now = self.worker.pool.since_start();
        let hostgroup = snapshot.hostgroups.get(&hostgroup);
        hostgroup.is_some_and(|it| {
            it.servers.iter().any(|server| it.may_use(server) && !server.figures.shun.rests(now))
        })
    }

    /// The level that the session's own variable has.
    fn level_of_session(&self) -> Option<CausalReads> {
        let literal = self.data.state.user_variable(LEVEL_VARIABLE.as_bytes())?;
        // What is no level must not make a statement see less.
        Some(CausalReads::named(unquoted(literal)).unwrap_or(CausalReads::Global))
    }

    /// Whether the session's writes are followed, because some read may have to see them.
    #[inline]
    pub(super) fn follows_writes(&self, snapshot: &Snapshot) -> bool {
        snapshot.tracks_gtids
            || self.data.state.has_user_variables()
                && self.level_of_session().is_some_and(|level| level != CausalReads::None)
    }

    /// The transactions that a hint of the statement, or the session's variable, names for the servers of `writer`.
    fn token_for(&self, job: &Job, request: &Request, writer: HostgroupId) -> Option<Token> {
        let parse = |text: &str| {
            // What cannot be read must not make a statement see less.
            Token::parse(text, writer).unwrap_or(Token::Unknown)
        };
        if job.options.causal.names_gtids {
            let mut hints = narrows_sql::annotations(job.text(request));
            let value = hints.find(|(key, _)| crate::rules::is_of_gtids(key)).map(|(_, value)| value);
            return value.map(|value| std::str::from_utf8(value).map_or(Token::Unknown, parse));
        }
        let literal = self.data.state.user_variable(TOKEN_VARIABLE.as_bytes())?;
        Some(parse(unquoted(literal)))
    }

    /// What a statement of this level must see.
    fn must_see(&self, snapshot: &Snapshot, level: CausalReads, writer: Option<HostgroupId>) -> MustSee {
        let written = writer.map(|writer| self.data.written.to(writer)).unwrap_or_default();
        let is_unknown = writer.is_some_and(|writer| self.data.written.is_unknown(writer));
        let mut sees = MustSee { gtids: written, is_unknown, level, writer, token: None };
        let username = match level {
            _ if writer.is_none() => return sees,
            CausalReads::None | CausalReads::Session => return sees,
            CausalReads::User => Some(self.want.account.row.username.as_str()),
            CausalReads::Global => None,
        };
        match writer.and_then(|writer| writes(snapshot, writer)).and_then(|writes| writes.of(username)) {
            // Writes of others are only known while all sessions have their servers report them.
            Some(of_all) if snapshot.tracks_gtids => sees.gtids.add(&of_all),
            _ => sees.is_unknown = true,
        }
        sees
    }

    /// Makes sure that the server of a leased connection has what the statement must see. Returns nothing if the statement
    /// is to run on the writer instead.
    pub(super) async fn catch_up(
        &mut self,
        snapshot: &Snapshot,
        leased: Leased,
        request: &mut Request,
        job: &mut Job,
    ) -> Result<Result<Option<Leased>, NoLease>, End> {
        let Some(sees) = job.sees.take() else { return Ok(Ok(Some(leased))) };
        let caught_up = self.catch_up_with(snapshot, leased, request, (job, &sees)).await;
        // If the server is lost, another one must have it, too.
        job.sees = Some(sees);
        caught_up
    }

    async fn catch_up_with(
        &mut self,
        snapshot: &Snapshot,
        mut leased: Leased,
        request: &mut Request,
        (job, sees): (&mut Job, &MustSee),
    ) -> Result<Result<Option<Leased>, NoLease>, End> {
        let backend = &mut leased.backend;
        if sees.writer == Some(backend.login.server.row.hostgroup) {
            let known = self.ask_writer(snapshot, backend, request, sees).await?;
            return Ok(known.map(|()| Some(leased)));
        }
        // A transaction sees the data as of its beginning.
        if leased.pinned && leased.pins.reasons().intersects(PinReason::TRANSACTION) {
            return Ok(Ok(Some(leased)));
        }
        match self.wait_on(snapshot, backend, request, sees).await? {
            Ok(Found::There) => {
                note_sync(backend);
                return Ok(Ok(Some(leased)));
            }
            Ok(Found::Behind) => {}
            Err(no_lease) => return Ok(Err(no_lease)),
        }
        let behind = backend.login.server.address();
        let Leased { backend, pins, pinned, .. } = leased;
        self.keep_unasked((backend, pins, pinned));
        let may_leave = !pinned || self.may_leave_kept(job);
        let Some(writer) = sees.writer.filter(|_| may_leave) else {
            let waited = snapshot.variables.causal_reads_timeout.as_millis();
            let text = format!(
                "{behind} has not applied what the statement must see within {waited} ms (causal_reads). It has not run."
            );
            return Ok(Err(NoLease::Refused(Errno::NO_SERVER_IN_TIME, text)));
        };
        self.worker.counters.borrow_mut().causal_on_writer += 1;
        self.redirect(job, writer);
        if pinned {
            self.leave_kept_for(job, request);
        }
        Ok(Ok(None))
    }

    /// If a reader refuses the client, its account or its schema, has the writer run the statement that must see what was
    /// written before: the reader may lack just that, and it could not be asked to wait for it. Returns whether it does.
    pub(super) fn leave_refusing_reader(&self, job: &mut Job, no_lease: &NoLease) -> bool {
        let NoLease::Refused(errno, _) = no_lease else { return false };
        let writer = job.sees.as_ref().and_then(|sees| sees.writer);
        let Some(writer) = writer.filter(|writer| *writer != job.hostgroup && is_about_login(errno.number))
        else {
            return false;
        };
        self.worker.counters.borrow_mut().causal_on_writer += 1;
        self.redirect(job, writer);
        true
    }

    /// Whether the server of a connection has what a statement must see; waits for it, unless that was in vain a moment ago.
    async fn wait_on(
        &mut self,
        snapshot: &Snapshot,
        backend: &mut Backend,
        request: &mut Request,
        sees: &MustSee,
    ) -> Result<Result<Found, NoLease>, End> {
        // Only the writer knows.
        if sees.is_unknown {
            return Ok(Ok(Found::Behind));
        }
        let figures = Arc::clone(&backend.login.server.figures);
        if figures.position.has(&sees.gtids) {
            self.worker.counters.borrow_mut().causal_known += 1;
            return Ok(Ok(Found::There));
        }
        let now = self.worker.pool.since_start();
        // Half of the connections stay for statements that need not wait.
        let most = backend.login.server.row.max_connections.div_ceil(2);
        let Some(_right) = figures.position.may_wait(now, most) else {
            return Ok(Ok(Found::Behind));
        };
        if let Err(no_lease) = self.clear_the_way(backend).await {
            return Ok(Err(no_lease));
        }
        let variables = &snapshot.variables;
        let wait = (variables.causal_reads_timeout, variables.connect_timeout_server);
        // MariaDB does not say here what it has written itself.
        let says_all = backend.login.family == Family::MySql;
        let before = if says_all { figures.position.known() } else { GtidSet::default() };
        let asked = Box::pin(backend.wait_for_gtids(&sees.gtids, wait));
        // A server without GTIDs has no such function.
        let waited = match self.unless_interrupted(asked, backend, request).await? {
            Ok(waited) => waited.unwrap_or_default(),
            Err(no_lease) => {
                self.leave_alone(&figures, PAUSE);
                return Ok(Err(no_lease));
            }
        };
        if let Some(applied) = &waited.applied {
            learn(backend, applied, &before);
        }
        if waited.is_there {
            figures.position.learn(&sees.gtids);
            figures.position.caught_up();
            self.worker.counters.borrow_mut().causal_waited += 1;
            return Ok(Ok(Found::There));
        }
        if may_be_true(snapshot, sees) {
            self.leave_alone(&figures, variables.causal_reads_timeout);
        }
        Ok(Ok(Found::Behind))
    }

    /// A server that was asked in vain for `wait` is not asked again for a while.
    fn leave_alone(&self, figures: &ServerFigures, wait: Duration) {
        figures.position.fell_behind(self.worker.pool.since_start(), wait);
    }

    /// Asks the writer what it has written, if that is not known, or if it lacks what the session takes for written.
    async fn ask_writer(
        &mut self,
        snapshot: &Snapshot,
        backend: &mut Backend,
        request: &mut Request,
        sees: &MustSee,
    ) -> Result<Result<(), NoLease>, End> {
        let figures = Arc::clone(&backend.login.server.figures);
        let Some(hostgroup) = sees.writer else { return Ok(Ok(())) };
        if !sees.is_unknown && figures.position.has(&sees.gtids) {
            self.data.written.doubts.end(hostgroup, sees.token.as_ref());
            return Ok(Ok(()));
        }
        // It has no GTIDs, as it said a moment ago.
        if figures.position.is_left_alone(self.worker.pool.since_start()) {
            return Ok(Ok(()));
        }
        let losses = writes(snapshot, hostgroup).map_or(0, Writes::losses);
        if let Err(no_lease) = self.clear_the_way(backend).await {
            return Ok(Err(no_lease));
        }
        let before = figures.position.known();
        let asked = Box::pin(backend.executed_gtids(snapshot.variables.connect_timeout_server));
        let executed = match self.unless_interrupted(asked, backend, request).await? {
            Ok(executed) => executed.flatten(),
            Err(no_lease) => return Ok(Err(no_lease)),
        };
        // Without GTIDs every read goes to the writer.
        let Some(executed) = executed else {
            self.leave_alone(&figures, PAUSE);
            return Ok(Ok(()));
        };
        learn(backend, &executed, &before);
        let is_behind = sees.token.is_none() && !executed.contains(&sees.gtids);
        if is_behind && !sees.is_unknown && has_in(snapshot, hostgroup, sees) {
            // This one of several writers is behind.
            return Ok(self.wait_on(snapshot, backend, request, sees).await?.map(drop));
        }
        self.compare_with_writer(snapshot, hostgroup, sees, &executed);
        if sees.is_unknown {
            self.data.written.begin_with(hostgroup, &executed);
            if let Some(writes) = writes(snapshot, hostgroup).filter(|_| sees.level != CausalReads::Session) {
                writes.begin_with(executed, losses);
            }
        }
        Ok(Ok(()))
    }

    /// The answer of a server to a question of our own, unless the client ends the wait for it; nothing if the server refuses it.
    async fn unless_interrupted<T>(
        &self,
        asked: impl Future<Output = Result<T, BackendError>>,
        backend: &Backend,
        request: &mut Request,
    ) -> Result<Result<Option<T>, NoLease>, End> {
        let answer = select! {
            biased;
            answer = asked => answer,
            reason = self.client.interrupted() => return self.no_lease(reason).map(Err),
            () = request.client_gone(&self.client.stream) => return Err(End::Gone),
        };
        Ok(match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(BackendError::Server(_)) => Ok(None),
            Err(error) => Err(NoLease::lost(backend, error)),
        })
    }

    /// The writer has said what it has: what a statement must see and the writer lacks, no replica will ever have.
    fn compare_with_writer(
        &mut self,
        snapshot: &Snapshot,
        hostgroup: HostgroupId,
        sees: &MustSee,
        executed: &GtidSet,
    ) {
        let is_lost = match &sees.token {
            None => !executed.contains(&sees.gtids),
            Some(token) => {
                self.data.written.doubts.compare(hostgroup, token, executed, Instant::now());
                !executed.contains(&self.data.written.to(hostgroup))
            }
        };
        if is_lost {
            self.forget_what_is_lost(snapshot, hostgroup, executed);
        }
    }

    /// The writer lacks what clients have written to another one before.
    fn forget_what_is_lost(&mut self, snapshot: &Snapshot, hostgroup: HostgroupId, executed: &GtidSet) {
        self.data.written.keep_common(hostgroup, executed);
        if let Some(writes) = writes(snapshot, hostgroup) {
            writes.forget();
        }
        tracing::debug!(
            id = self.handle.id,
            hostgroup = hostgroup.0,
            "the writer lacks what was written before"
        );
    }

    /// Whether the client has asked for the GTIDs of its transactions.
    pub(super) fn asks_for_gtids(&self) -> bool {
        self.snapshot().variables.client_session_track_gtid
            && self.data.state.literal(TRACK_GTIDS).is_some_and(is_report)
    }
}

/// Takes over everything that a server has applied, as it has said; `before`: what was known when it was asked.
fn learn(backend: &Backend, applied: &GtidSet, before: &GtidSet) {
    let server = &backend.login.server;
    if server.figures.position.told(applied, before) {
        tracing::warn!(server = server.address(), "a server lacks transactions that it had before");
    }
}

/// Counts a statement that runs on a server that has applied what it must see.
fn note_sync(backend: &Backend) {
    if let Some(in_use) = &backend.in_use {
        in_use.count(|tally| tally.gtid_syncs += 1);
    }
}

/// Whether what a statement must see exists, as far as is known: others need not suffer from what a client has made up.
fn may_be_true(snapshot: &Snapshot, sees: &MustSee) -> bool {
    sees.token.is_none() || sees.writer.is_some_and(|writer| has_in(snapshot, writer, sees))
}

/// Whether a server of a hostgroup is known to have what a statement must see. Nothing is known of one that was lost.
fn has_in(snapshot: &Snapshot, hostgroup: HostgroupId, sees: &MustSee) -> bool {
    let has = |it: &Arc<Hostgroup>| it.servers.iter().any(|server| server.figures.position.has(&sees.gtids));
    snapshot.hostgroups.get(&hostgroup).is_some_and(has)
}

/// Whether a statement shows data, or begins a transaction that does.
fn reads_data(job: &Job) -> bool {
    let is_run = matches!(
        job.command,
        // A preparation needs the tables as they are.
        Command::Query | Command::StmtPrepare | Command::StmtExecute | Command::StmtBulkExecute
    );
    let says_nothing = [Kind::Set, Kind::SetTransaction, Kind::Use, Kind::Commit, Kind::Rollback, Kind::Kill];
    is_run && !says_nothing.contains(&job.statement.kind)
}

/// The text of a literal such as `_utf8mb4 'text' COLLATE utf8mb4_bin`.
fn unquoted(literal: &str) -> &str {
    let text = literal.split_once('\'').map_or(literal, |(_, text)| text);
    text.rsplit_once('\'').map_or(text, |(text, _)| text)
}

/// The session's own level, as a user variable: servers take it, too, so that a program works without a proxy.
const LEVEL_VARIABLE: &str = "narrows_causal_reads";

/// The token of another session.
const TOKEN_VARIABLE: &str = "narrows_causal_token";

/// For how long a server is left alone that does not answer, or that has no GTIDs.
const PAUSE: Duration = Duration::from_secs(1);
