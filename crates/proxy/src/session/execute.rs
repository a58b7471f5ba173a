//! Runs a command on a server: lease a connection, align it, send the command, relay the answer, apply its effects.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use narrows_sql::{Flags, Kind};
use narrows_wire::frame::{HEADER_LENGTH, put_packet};
use narrows_wire::{Capabilities, Command, Errno, Status};

use super::begin_again::begins;
use super::cached::Source;
use super::detach::is_tied_by;
use super::effects::Pins;
use super::errors::{PACKET_TOO_LARGE, killed};
use super::fault::{self, Moment};
use super::information::Last;
use super::job::Job;
use super::lease::{Leased, NoLease};
use super::lost::{Abandoned, Fate, LostBefore, Tries, commits_nothing};
use super::outcome::{Broken, Outcome, READ_ONLY_TRANSACTION, changes_role};
use super::prepared::{Ready, TRIES};
use super::request::Request;
use super::statements::ClientStatement;
use super::upload::Upload;
use super::{End, Interrupt, Pinned, Session};
use crate::backend::{Backend, BackendError, CLEAR_CONDITIONS, ServerError, dialect};
use crate::figures::Doing;
use crate::pool::{Exit, Lease};
use crate::rows::HostgroupId;
use crate::rt::{select, sleep};
use crate::snapshot::Snapshot;

/// Why a statement that asks about earlier ones is not sent to the server.
enum NotSent {
    /// It is answered already.
    Answered(Result<(), End>),
    /// The connection was lost before.
    Lost(String),
}

/// The outcome of one attempt to run a command.
enum Attempt {
    /// The client has its answer.
    Done,
    /// Another connection must be tried.
    Again,
}

impl Attempt {
    fn if_again(again: bool) -> Attempt {
        if again { Attempt::Again } else { Attempt::Done }
    }
}

impl Session {
    /// Runs a command on a server, unless its answer is in the cache.
    pub(super) async fn execute(&mut self, request: &mut Request, job: &mut Job) -> Result<(), End> {
        self.handle.goes_to(job.hostgroup);
        if self.data.information.has_lost() {
            Box::pin(self.refuse_forgotten(request, job)).await?;
        }
        if self.may_have_to_see(job) {
            self.decide_what_it_sees(request, job);
        }
        if let Some(caching) = job.options.caching
            && let Source::Cache = self.look_in_cache(request, job, caching).await?
        {
            return Ok(());
        }
        self.begin_record(job, request);
        self.choose_kept(job, job.text(request));
        if (!request.whole || !job.options.delay.is_zero())
            && let Some(done) = Box::pin(self.before_run(request, job)).await
        {
            return done;
        }
        job.apart = job.options.may_run_apart && self.may_run_apart(job);
        let commits_by_itself = self.data.status.contains(Status::AUTOCOMMIT);
        let told = match self.binding.aside.is_empty() {
            true => Ok(()),
            false => Box::pin(self.tell_aside(request, job)).await,
        };
        let mut result = match told {
            Ok(()) => self.run_job(request, job).await,
            Err(end) => Err(end),
        };
        if let Err(end) = &result {
            self.note_cut_off(request, job, end);
        }
        self.end_record();
        self.forget_recording(&result);
        if !self.binding.aside.is_empty() {
            if result.is_ok() && !commits_by_itself && self.data.status.contains(Status::AUTOCOMMIT) {
                result = Box::pin(self.commit_aside()).await;
            }
            self.keep_current();
        }
        result
    }

    /// Waits for the delay of a statement, and for the rest of a long one. Returns the outcome if it ends there.
    async fn before_run(&mut self, request: &mut Request, job: &Job) -> Option<Result<(), End>> {
        let mut waited = match job.options.delay.is_zero() {
            true => Ok(None),
            false => self.hold_back(request, job.options.delay).await,
        };
        if let Ok(None) = waited
            && !request.whole
        {
            waited = self.take_in(request).await;
        }
        let killed = waited.transpose()?;
        self.run.recording.take();
        let done = match killed {
            Ok((errno, text)) => {
                self.fail_record(errno.number);
                self.count_failed(request, job);
                match self.discard(request).await {
                    Ok(()) => self.reply_error_at(request.answer(), errno, &text).await,
                    Err(end) => Err(end),
                }
            }
            Err(end) => {
                self.note_cut_off(request, job, &end);
                Err(end)
            }
        };
        self.end_record();
        self.keep_current();
        Some(done)
    }

    /// A statement whose session ends with it has failed, unless it was counted already.
    fn note_cut_off(&mut self, request: &Request, job: &Job, end: &End) {
        if self.run.ended.is_none() && matches!(end, End::Interrupted(_) | End::Gone) {
            self.fail_record(Errno::QUERY_INTERRUPTED.number);
            self.count_failed(request, job);
        }
    }

    async fn run_job(&mut self, request: &mut Request, job: &mut Job) -> Result<(), End> {
        if self.asks_values_of_others(job) {
            return Box::pin(self.refuse_values(request, job)).await;
        }
        let snapshot = self.snapshot();
        self.handle.goes_to(self.binding.pinned.as_ref().map_or(job.hostgroup, |pinned| pinned.hostgroup));
        self.set_deadline_of(job, &snapshot);
        let mut tries = Tries::new(job, &snapshot, self.data.status);
        if std::mem::take(&mut self.run.may_have_run) {
            tries.may_have_run = Some(Box::new(LostBefore::with_process()));
        }
        loop {
            // Each attempt uses the configuration in force, because a change may be why the last attempt failed.
            let snapshot = self.worker.snapshot();
            let was_pinned = self.is_tied();
            let mut leased = self.lease(&snapshot, request, job, tries.left()).await?;
            if tries.is_in_transaction() || job.sees.is_some() || tries.may_have_run.is_some() {
                if !was_pinned
                    && leased.as_ref().is_err_and(|no_lease| self.leave_refusing_reader(job, no_lease))
                {
                    continue;
                }
                match Box::pin(self.make_ready(&snapshot, leased, request, job, &tries)).await? {
                    Some(ready) => leased = ready,
                    // It is to run on the writer.
                    None => continue,
                }
            }
            let attempt = match leased {
                Ok(leased) => {
                    let attempt = self.attempt(&snapshot, leased, request, job, &mut tries).await?;
                    if let Attempt::Again = attempt {
                        self.count_retry();
                    }
                    attempt
                }
                Err(no_lease) => {
                    Box::pin(self.without_lease((no_lease, was_pinned), request, job, &mut tries)).await?
                }
            };
            match attempt {
                Attempt::Done => return Ok(()),
                Attempt::Again => {}
            }
            if let Some(stopped) = Box::pin(self.is_stopped(request)).await {
                return Box::pin(self.end_stopped(stopped, request, job, &tries)).await;
            }
        }
    }

    /// Ends a statement that is not tried again. Whatever transaction the client has is still open, unless it has to begin again.
    async fn end_stopped(
        &mut self,
        stopped: Abandoned,
        request: &mut Request,
        job: &Job,
        tries: &Tries,
    ) -> Result<(), End> {
        match stopped {
            Abandoned::Session(end) => Err(end),
            Abandoned::Cut { timed_out, .. } => {
                self.end_without_server(request, job, tries.is_in_transaction(), killed(timed_out)).await
            }
            Abandoned::TooLong => {
                let told = (Errno::NET_PACKET_TOO_LARGE, PACKET_TOO_LARGE.to_owned());
                self.end_without_server(request, job, tries.is_in_transaction(), told).await
            }
        }
    }

    /// Has a statement run in another hostgroup than the one that was chosen first.
    pub(super) fn redirect(&self, job: &mut Job, hostgroup: HostgroupId) {
        job.hostgroup = hostgroup;
        self.handle.goes_to(hostgroup);
    }

    /// There is no connection for an attempt: asks for another attempt if that is safe, or sends the client an error.
    async fn without_lease(
        &mut self,
        (no_lease, was_pinned): (NoLease, bool),
        request: &mut Request,
        job: &Job,
        tries: &mut Tries,
    ) -> Result<Attempt, End> {
        self.doubts(&no_lease);
        match no_lease {
            NoLease::Lost { server, text } if was_pinned && self.binding.record.is_some() => {
                self.replay_unsent((server, text), request, job, tries).await.map(Attempt::if_again)
            }
            // The statement was not sent, and the client's state is known, so any other connection can be used.
            NoLease::Lost { server, text } if !was_pinned && tries.after_closed() => {
                tries.leave(&server);
                self.lost_unused(&server.address(), &text, tries);
                Ok(Attempt::Again)
            }
            no_lease => {
                let told = match (no_lease, &tries.may_have_run) {
                    (NoLease::Lost { .. }, Some(_)) => (Errno::SERVER_LOST, tries.lost_before()),
                    (no_lease, _) => no_lease.into_reply(),
                };
                // Who has waited for the end of a hold in vain keeps its connection.
                let has_lost_it = was_pinned && self.binding.pinned.is_none();
                let has_lost_it = has_lost_it || tries.is_in_transaction();
                self.end_without_server(request, job, has_lost_it, told).await?;
                Ok(Attempt::Done)
            }
        }
    }

    /// From now on a statement is killed after its time.
    #[inline]
    fn set_deadline_of(&self, job: &Job, snapshot: &Snapshot) {
        let timeout = job.options.timeout.unwrap_or(snapshot.variables.default_query_timeout);
        let began = self.handle.since() + job.options.delay;
        self.worker.set_deadline(&self.handle, began + timeout, Interrupt::QueryTime);
    }

    /// Brings a connection into the client's transaction, and makes sure that its server has what the statement must see. Nothing
    /// if another hostgroup is to run it.
    async fn make_ready(
        &mut self,
        snapshot: &Arc<Snapshot>,
        leased: Result<Leased, NoLease>,
        request: &mut Request,
        job: &mut Job,
        tries: &Tries,
    ) -> Result<Option<Result<Leased, NoLease>>, End> {
        let mut leased = match leased {
            Ok(leased) => leased,
            lost => return Ok(Some(lost)),
        };
        if let Err(no_lease) = self.begin_again(snapshot, &mut leased, tries).await {
            return Ok(Some(Err(no_lease)));
        }
        Ok(match self.catch_up(snapshot, leased, request, job).await?.transpose() {
            Some(Ok(leased)) if tries.must_only_read(job, request) => {
                Some(self.make_read_only(snapshot, leased, tries).await)
            }
            ready => ready,
        })
    }

    /// A connection is to run a read that may have run before: its session is made read only, until it is aligned for the next
    /// statement.
    async fn make_read_only(
        &mut self,
        snapshot: &Snapshot,
        mut leased: Leased,
        tries: &Tries,
    ) -> Result<Leased, NoLease> {
        self.clear_the_way(&mut leased.backend).await?;
        match leased.backend.make_read_only(snapshot.variables.connect_timeout_server).await {
            Ok(()) => Ok(leased),
            Err(BackendError::Server(_)) => Err(NoLease::Refused(Errno::SERVER_LOST, tries.lost_before())),
            Err(error) => Err(NoLease::lost(&leased.backend, error)),
        }
    }

    /// A read that may have run before may change a table, as its server says, and has not run again.
    async fn refuse_second_run(
        &mut self,
        backend: Lease,
        request: &mut Request,
        job: &Job,
        tries: &Tries,
    ) -> Result<(), End> {
        let hostgroup = backend.login.server.row.hostgroup;
        self.give_back(backend, Exit::Return);
        self.doubt_written(hostgroup, job);
        self.end_without_server(request, job, false, (Errno::SERVER_LOST, tries.lost_before())).await
    }

    /// Makes one attempt to run a command, on a leased connection.
    async fn attempt(
        &mut self,
        snapshot: &Arc<Snapshot>,
        Leased { mut backend, pins, pinned, needs_own_values }: Leased,
        request: &mut Request,
        job: &mut Job,
        tries: &mut Tries,
    ) -> Result<Attempt, End> {
        fault::inject(Moment::Before, request.argument());
        job.statement = job.statement.on(dialect(backend.login.family));
        let begun = self.binding.begun.take().filter(|_| pinned);
        // Nothing of our own may run between this and the statement.
        if needs_own_values
            && let Err(error) = Box::pin(self.set_own_values(&mut backend, job, job.text(request))).await
        {
            let leased = Leased { backend, pins, pinned, needs_own_values };
            let not_sent = NotSent::Lost(error.to_string());
            return Box::pin(self.after_not_sent(not_sent, leased, request, job, tries)).await;
        }
        let mut packet = None;
        if asks(request, job) {
            match Box::pin(self.answer(&mut backend, request, job)).await {
                Ok(replaced) => packet = replaced,
                Err(not_sent) => {
                    let leased = Leased { backend, pins, pinned, needs_own_values };
                    return Box::pin(self.after_not_sent(not_sent, leased, request, job, tries)).await;
                }
            }
        }
        self.record_server(&backend);
        let is_tied = pinned && is_tied_by(&pins);
        job.hold_back = tries.hold_back(snapshot, job, request, (is_tied, begun.is_some()));
        let watched = match self.binding.record.is_some() || job.options.replay {
            true => self.watch(snapshot, (job, request), pins.reasons(), packet.as_deref()),
            false => None,
        };
        self.note_run(job, request);
        let mut outcome = Outcome::default();
        if let Some(watched) = &watched {
            outcome.answer = watched.reading();
        }
        let done = match &job.prepared {
            Some(statement) => self.run_prepared(&mut backend, request, (job, statement), &mut outcome).await,
            None if prepares(request, job) => {
                Box::pin(self.prepare_text(&mut backend, request, (job, packet), &mut outcome)).await
            }
            None => match self.send_job(&backend, request, job, packet).await {
                Ok(()) => self.relay(&backend, request, job.answering(), &mut outcome).await,
                Err(broken) => Err(broken),
            },
        };
        if let Err(broken) = done {
            let is_tied = is_tied || tries.is_in_transaction();
            return self.after_broken((backend, is_tied), broken, request, job, tries).await;
        }
        match outcome.held_back.take() {
            Some(error) if error.code == READ_ONLY_TRANSACTION => {
                Box::pin(self.refuse_second_run(backend, request, job, tries)).await?;
                Ok(Attempt::Done)
            }
            Some(error) if self.is_recorded() => {
                let replayed = Box::pin(self.replay_refused((backend, error), request, job, tries)).await;
                replayed.map(Attempt::if_again)
            }
            Some(error) => {
                self.turn_elsewhere(snapshot, backend, job, (&error, tries, begun));
                Ok(Attempt::Again)
            }
            None => {
                self.finish((backend, pins), job, request, &mut outcome).await?;
                if let Some(watched) = watched {
                    self.note_watched(watched, (job, request), &mut outcome);
                }
                if !pinned {
                    self.binding.begun = begins(job, job.text(request), outcome.error.is_some());
                }
                Ok(Attempt::Done)
            }
        }
    }

    /// After a failed attempt: asks for another one if that is safe, or sends the client an error.
    async fn after_broken(
        &mut self,
        (backend, pinned): (Lease, bool),
        broken: Broken,
        request: &mut Request,
        job: &Job,
        tries: &mut Tries,
    ) -> Result<Attempt, End> {
        let broken = Box::pin(self.if_not_stopped(broken, request)).await;
        let was_killed = matches!(broken, Broken::Backend { killed: Some(_), .. });
        let (fate, text) = match tries.fate(broken, job, request) {
            Ok(known) => known,
            Err(end) => {
                Box::pin(self.end_abandoned((backend, pinned), request, job, end)).await?;
                return Ok(Attempt::Done);
            }
        };
        let mut text = backend.broken_by(text);
        tries.leave(&backend.login.server);
        let is_uncommitted = pinned && self.handle.is_in_transaction() && commits_nothing(job);
        let backend = match self.binding.record.is_some() {
            true if was_killed => {
                text.push_str(&self.no_replay_after_kill());
                backend
            }
            true => {
                match Box::pin(self.replay_lost(fate, (backend, &mut text), request, job, tries)).await? {
                    Ok(again) => return Ok(Attempt::if_again(again)),
                    Err(backend) => backend,
                }
            }
            false => backend,
        };
        let begins = !pinned && fate == Fate::Unknown && !was_killed && self.begins_only(job, request);
        let hostgroup = backend.login.server.row.hostgroup;
        let address = self.count_lost(backend, &text);
        if !pinned && !was_killed && tries.after_loss(fate, job, request) || begins && tries.after_closed() {
            if fate == Fate::Unknown {
                tries.may_have_run = Some(Box::new(LostBefore { address, text }));
            }
            return Ok(Attempt::Again);
        }
        self.count_failed(request, job);
        if is_uncommitted {
            text.push_str("; its transaction was not committed");
        } else {
            self.doubt_written(hostgroup, job);
        }
        self.report_lost(request.answer(), &address, (fate, pinned), &text).await?;
        Ok(Attempt::Done)
    }

    /// Ends a statement that its server has not received completely, or does not end. The connection is closed.
    async fn end_abandoned(
        &mut self,
        (backend, pinned): (Lease, bool),
        request: &mut Request,
        job: &Job,
        end: Abandoned,
    ) -> Result<(), End> {
        let (started, timed_out) = match end {
            Abandoned::TooLong => {
                // Closed before the rest of the command is read, which may take long.
                drop(backend);
                let told = (Errno::NET_PACKET_TOO_LARGE, PACKET_TOO_LARGE.to_owned());
                return self.end_without_server(request, job, pinned, told).await;
            }
            Abandoned::Session(end) => {
                self.abandon(backend);
                return Err(end);
            }
            Abandoned::Cut { started, timed_out } => {
                self.abandon(backend);
                (started, timed_out)
            }
        };
        let (errno, text) = killed(timed_out);
        if started {
            self.fail_record(errno.number);
            self.count_failed(request, job);
            return Err(End::ErrorSent(text));
        }
        self.end_without_server(request, job, pinned, (errno, text)).await
    }

    /// Sends the client an error, because its statement has no server, or has lost it.
    pub(super) async fn end_without_server(
        &mut self,
        request: &mut Request,
        job: &Job,
        was_pinned: bool,
        (errno, text): (Errno, String),
    ) -> Result<(), End> {
        self.fail_record(errno.number);
        self.count_failed(request, job);
        if self.binding.pinned.is_none() {
            self.handle.lets_go();
        }
        self.discard(request).await?;
        self.reply_error_at(request.answer(), errno, &text).await?;
        // The session's state on the connection is lost with it, so the session ends.
        if was_pinned { Err(End::ErrorSent(text)) } else { Ok(()) }
    }

    /// Waits for the delay of a statement; returns the error for the client if the wait is interrupted.
    async fn hold_back(
        &self,
        request: &mut Request,
        delay: Duration,
    ) -> Result<Option<(Errno, String)>, End> {
        let doing = self.handle.doing();
        self.handle.does(Doing::Command("Delay"));
        let held = select! {
            biased;
            reason = self.client.interrupted() => match reason {
                Interrupt::KillQuery | Interrupt::QueryTime | Interrupt::KillTime => {
                    Ok(Some((Errno::QUERY_INTERRUPTED, "Query execution was interrupted".to_owned())))
                }
                reason => Err(End::Interrupted(reason)),
            },
            () = request.client_gone(&self.client.stream) => Err(End::Gone),
            () = sleep(delay) => Ok(None),
        };
        self.handle.does(doing);
        held
    }

    /// Keeps a connection to which nothing was sent, or gives it back.
    pub(super) fn keep_unasked(&mut self, (backend, pins, pinned): (Lease, Pins, bool)) {
        if pinned {
            let hostgroup = backend.login.server.row.hostgroup;
            self.binding.pinned = Some(Pinned { backend, hostgroup, pins });
            return;
        }
        // No statement of the client has run there.
        self.give_back(backend, Exit::Return);
    }

    /// A statement is not sent, because it is answered already, or its connection was lost.
    async fn after_not_sent(
        &mut self,
        not_sent: NotSent,
        Leased { backend, pins, pinned, .. }: Leased,
        request: &mut Request,
        job: &Job,
        tries: &mut Tries,
    ) -> Result<Attempt, End> {
        match not_sent {
            NotSent::Lost(text) if !pinned && tries.after_closed() => {
                backend.login.server.figures.distrust();
                self.lost_unused(&backend.login.server.address(), &text, tries);
                Ok(Attempt::Again)
            }
            NotSent::Lost(text) if self.binding.record.is_some() => {
                let lost = (Arc::clone(&backend.login.server), text);
                drop(backend);
                Box::pin(self.replay_unsent(lost, request, job, tries)).await.map(Attempt::if_again)
            }
            NotSent::Lost(text) => {
                let address = self.count_lost(backend, &text);
                self.count_failed(request, job);
                self.report_lost(request.answer(), &address, (Fate::NotRun, pinned), &text).await?;
                Ok(Attempt::Done)
            }
            NotSent::Answered(sent) => {
                self.count_failed(request, job);
                self.keep_unasked((backend, pins, pinned));
                sent.map(|()| Attempt::Done)
            }
        }
    }

    /// Provides what a statement asks and its connection does not know; see `information/`. Returns the packet that the server
    /// receives instead of the request, if any.
    async fn answer(
        &mut self,
        backend: &mut Backend,
        request: &Request,
        job: &Job,
    ) -> Result<Option<Vec<u8>>, NotSent> {
        let (attributes, text) = request.argument().split_at_checked(job.attributes).unwrap_or_default();
        let answered = match job.statement.kind {
            // The first of several statements finds its client's own conditions.
            Kind::ShowWarnings | Kind::GetDiagnostics if job.statement.flags.intersects(Flags::MULTI) => {
                Ok(self.with_answers(backend, job, text).await)
            }
            Kind::ShowWarnings if !self.data.information.conditions.are_here() => {
                match self.clear_or_answer(backend, text).await {
                    Ok(None) => return Ok(None),
                    Ok(Some(sent)) => return Err(NotSent::Answered(sent)),
                    Err(error) => Err(error),
                }
            }
            Kind::GetDiagnostics if !self.data.information.knows_conditions() => {
                self.diagnostics(backend, text).await
            }
            _ => Ok(self.with_answers(backend, job, text).await),
        };
        let replaced = answered.map_err(|error| NotSent::Lost(error.to_string()))?;
        Ok(replaced.map(|text| framed_query(&[attributes, &text])))
    }

    /// `SHOW WARNINGS` on a connection that does not have the client's: answers it if the answer is known, or clears what our
    /// own assignments may have left.
    async fn clear_or_answer(
        &mut self,
        backend: &Backend,
        text: &[u8],
    ) -> Result<Option<Result<(), End>>, BackendError> {
        if let Some(sent) = self.left_warnings(backend, text).await? {
            return Ok(Some(sent));
        }
        // Where its last statement has left nothing, there is nothing, and `FOUND_ROWS()` stays; MariaDB's statements without
        // tables keep what was there before.
        if self.data.information.last != Last::Here || backend.login.has_own_warnings.get() {
            let limit = self.snapshot().variables.connect_timeout_server;
            self.data.information.is_disturbed();
            backend.execute(CLEAR_CONDITIONS, limit).await?;
            backend.login.has_own_warnings.set(false);
        }
        Ok(None)
    }

    /// Runs a text `PREPARE`, or this packet in its place.
    async fn prepare_text(
        &mut self,
        backend: &mut Backend,
        request: &mut Request,
        (job, packet): (&Job, Option<Vec<u8>>),
        outcome: &mut Outcome,
    ) -> Result<(), Broken> {
        // It counts towards the server's `max_prepared_stmt_count`, which those that are kept for clients may have used up.
        for tries in 0.. {
            self.send_job(backend, request, job, packet.clone()).await?;
            let mut answering = job.answering();
            answering.hold_back.too_many_statements = tries < TRIES;
            self.relay(backend, request, answering, outcome).await?;
            let refused = |error: &ServerError| error.is_too_many_statements();
            if !outcome.held_back.as_ref().is_some_and(refused) {
                break;
            }
            self.relieve(backend, tries).await?;
            outcome.begins_again();
        }
        Ok(())
    }

    /// Runs a command about a prepared statement, which is prepared on the connection first if necessary.
    async fn run_prepared(
        &mut self,
        backend: &mut Backend,
        request: &mut Request,
        (job, statement): (&Job, &Rc<ClientStatement>),
        outcome: &mut Outcome,
    ) -> Result<(), Broken> {
        let mut tries = 0;
        loop {
            let packets = match self.bring_statement(backend, request, job).await? {
                Ready::AsIs => None,
                Ready::Packets(packets) => Some(packets),
                // MariaDB asks for the right to write when it prepares.
                Ready::Refused(error)
                    if job.hold_back.has(error.code) && error.code == READ_ONLY_TRANSACTION =>
                {
                    outcome.held_back = Some(error);
                    return Ok(());
                }
                Ready::Refused(error) => {
                    outcome.error = Some(error.code);
                    return self.refuse(request, error).await.map_err(Broken::Session);
                }
            };
            self.send_job(backend, request, job, packets).await?;
            let answering = self.answering(backend, request, job, statement, tries);
            self.relay(backend, request, answering, outcome).await?;
            let Some(error) = &outcome.held_back else { return Ok(()) };
            if changes_role(error.code) || error.code == READ_ONLY_TRANSACTION {
                return Ok(());
            }
            self.recover(backend, job, statement, error, tries).await?;
            outcome.begins_again();
            tries += 1;
        }
    }

    /// Sends a command: the request, or these packets instead.
    async fn send_job(
        &mut self,
        backend: &Backend,
        request: &mut Request,
        job: &Job,
        replaced: Option<Vec<u8>>,
    ) -> Result<(), Broken> {
        if request.whole {
            // If this fails, the command has not run: no server runs a command that it has received in part.
            let replaced = replaced
                .or_else(|| self.without_attributes(backend, request, job))
                .or_else(|| self.traced_query(backend, request, job));
            self.write_command(backend, request, replaced.as_deref()).await?;
        } else {
            match Box::pin(self.upload(request, backend)).await? {
                Upload::Sent | Upload::BackendClosed => {}
                Upload::TooLong => return Err(Broken::TooLong),
            }
        }
        Ok(())
    }

    /// The command without its query attributes, for a server that does not support them. Clients may send them because all
    /// servers that were known at the login support them.
    fn without_attributes(&self, backend: &Backend, request: &Request, job: &Job) -> Option<Vec<u8>> {
        if job.attributes == 0 || backend.login.capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
            return None;
        }
        let text = request.argument().get(job.attributes..)?;
        Some(framed_query(&[text]))
    }
}

/// A `COM_QUERY` with these parts.
pub(super) fn framed_query(parts: &[&[u8]]) -> Vec<u8> {
    let payload = [&[Command::Query.code()], &*parts.concat()].concat();
    let mut packet = Vec::with_capacity(HEADER_LENGTH + payload.len());
    put_packet(&mut packet, &mut 0, &payload);
    packet
}

/// Whether a text prepares a statement, and nothing else.
fn prepares(request: &Request, job: &Job) -> bool {
    job.statement.kind == Kind::Prepare && request.whole && !job.statement.flags.intersects(Flags::MULTI)
}

/// Whether a statement asks about earlier ones, or about its connection.
fn asks(request: &Request, job: &Job) -> bool {
    let asks = job.statement.asks_about_last() || job.statement.flags.intersects(Flags::CONNECTION_ID);
    asks && job.command == Command::Query && request.whole
}
