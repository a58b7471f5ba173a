//! Runs a transaction again whose server was lost, and compares the answers.

use std::sync::Arc;

use narrows_sql::{Flags, Kind, Statement};
use narrows_wire::{Command, Errno};

use super::super::aside::OF_TRANSACTION;
use super::super::effects::Pins;
use super::super::errors::{QUERY_TIMEOUT, killed};
use super::super::information::Information;
use super::super::job::Job;
use super::super::lease::NoLease;
use super::super::lost::{Fate, Tries};
use super::super::outcome::{Broken, STALE, changes_role};
use super::super::prepared::Ready;
use super::super::request::Request;
use super::super::sequences::note_drawn;
use super::super::{End, Interrupt, Pinned, Session};
use super::answer::{Answer, Reading};
use super::record::{Record, Recorded};
use crate::backend::{BackendError, ServerError};
use crate::figures::Doing;
use crate::hostgroup::Server;
use crate::pool::{Exit, Lease};
use crate::rt::{Instant, select};
use crate::snapshot::Snapshot;
use crate::state::SharedState;
use crate::worker::Pinning;

/// A transaction whose connection is lost, and what else the session knew about that connection.
struct Lost {
    record: Box<Record>,
    /// What only the connection knew, which the next one will know.
    information: Information,
    pins: Vec<Pinning>,
    /// The client's state now.
    state: SharedState,
    /// The server, and how it was lost.
    cause: String,
    since: Instant,
}

/// Why a transaction could not be run again.
enum Failed {
    /// A statement was answered otherwise, or could not be run there.
    Differed(String),
    /// The connection was lost, too.
    LostToo(String),
    /// The server refuses to write, or goes away.
    Refused(ServerError),
    /// There is no server, or there were too many in vain.
    NoServer(String),
    /// The client's statement was killed meanwhile.
    Killed { timed_out: bool },
    /// The session is over.
    Session(End),
}

impl Session {
    /// The connection of a recorded transaction is lost: sets aside what the session knows about it.
    fn lose(&mut self, record: Box<Record>, address: &str, text: &str) -> Lost {
        self.snapshot().raise_alarm(record.hostgroup);
        Lost {
            record,
            information: std::mem::take(&mut self.data.information),
            pins: self.handle.take_pins(),
            state: Arc::clone(&self.data.state),
            cause: format!("{address}: {text}"),
            since: Instant::now(),
        }
    }

    /// A connection was lost while it ran a statement: runs the transaction again, if that is safe, and returns whether it is
    /// where it was. Otherwise returns the connection, and adds the reason to the error.
    pub(in super::super) async fn replay_lost(
        &mut self,
        fate: Fate,
        (backend, text): (Lease, &mut String),
        request: &mut Request,
        job: &Job,
        tries: &mut Tries,
    ) -> Result<Result<bool, Lease>, End> {
        match self.may_replay(fate, job, request) {
            Ok(record) => {
                let lost = self.lose(record, &backend.login.server.address(), text);
                self.count_lost(backend, text);
                self.replay_transaction(lost, request, job, tries).await.map(Ok)
            }
            Err(why) => {
                text.push_str(&why);
                Ok(Err(backend))
            }
        }
    }

    /// The same for a statement that was not sent, because the connection was lost before.
    pub(in super::super) async fn replay_unsent(
        &mut self,
        (server, text): (Arc<Server>, String),
        request: &mut Request,
        job: &Job,
        tries: &mut Tries,
    ) -> Result<bool, End> {
        match self.may_replay(Fate::NotRun, job, request) {
            Ok(record) => {
                let lost = self.lose(record, &server.address(), &text);
                tries.leave(&server);
                self.replay_transaction(lost, request, job, tries).await
            }
            Err(why) => {
                let told = NoLease::Lost { server, text: text + &why }.into_reply();
                self.end_without_server(request, job, true, told).await.map(|()| false)
            }
        }
    }

    /// The same for a statement that its server has refused because of another role; the client has not received that.
    pub(in super::super) async fn replay_refused(
        &mut self,
        (backend, error): (Lease, ServerError),
        request: &mut Request,
        job: &Job,
        tries: &mut Tries,
    ) -> Result<bool, End> {
        let server = Arc::clone(&backend.login.server);
        drop(backend);
        match self.may_replay(Fate::NotRun, job, request) {
            Ok(record) => {
                let lost = self.lose(record, &server.address(), &error.message);
                self.leave_refusing(&self.worker.snapshot(), &server, &error, tries);
                self.replay_transaction(lost, request, job, tries).await
            }
            Err(_) => self.end_without_server(request, job, true, error.into_reply()).await.map(|()| false),
        }
    }

    /// Runs a transaction again on another connection, which the client keeps from then on; returns whether that was possible.
    /// Otherwise the transaction is rolled back, and the client has an error as the answer to its current statement.
    async fn replay_transaction(
        &mut self,
        lost: Lost,
        request: &mut Request,
        job: &Job,
        tries: &mut Tries,
    ) -> Result<bool, End> {
        let doing = self.handle.doing();
        self.handle.does(Doing::Command("Replay"));
        self.handle.goes_to(lost.record.hostgroup);
        let ran = self.replay_somewhere(&lost, request, tries).await;
        self.handle.does(doing);
        self.data.state = Arc::clone(&lost.state);
        match ran {
            Ok(backend) => {
                self.go_on_with(backend, lost);
                Ok(true)
            }
            Err(Failed::Session(end)) => Err(end),
            Err(failed) => self.tell_rolled_back(lost, failed, request, job).await.map(|()| false),
        }
    }

    /// Tries one connection after the other.
    async fn replay_somewhere(
        &mut self,
        lost: &Lost,
        request: &mut Request,
        tries: &mut Tries,
    ) -> Result<Lease, Failed> {
        let hostgroup = lost.record.hostgroup;
        let statement = Statement { kind: Kind::Begin, flags: Flags::NONE };
        let mut job = Job { hostgroup, ..Job::new(Command::Query, statement, true) };
        let mut last = "no connection is tried any more".to_owned();
        loop {
            let snapshot = self.worker.snapshot();
            let longest = snapshot.hostgroups.get(&hostgroup).map(|it| it.settings.longest_wait);
            let longest = longest.unwrap_or(snapshot.variables.connect_timeout_server_max);
            if !tries.after_closed() || lost.since.elapsed() > longest {
                return Err(Failed::NoServer(last));
            }
            let first = lost.record.statements().first().map_or(&lost.state, |first| &first.before);
            self.data.state = Arc::clone(first);
            let leased =
                self.lease(&snapshot, request, &mut job, tries.left()).await.map_err(Failed::Session)?;
            let (server, failed) = match leased {
                Ok(leased) => {
                    let server = Arc::clone(&leased.backend.login.server);
                    match self.replay_on(leased.backend, &lost.record, request).await {
                        Ok(backend) => return Ok(backend),
                        Err(failed) => (server, failed),
                    }
                }
                Err(NoLease::Lost { server, text } | NoLease::Unfit { server, text }) => {
                    (server, Failed::LostToo(text))
                }
                Err(NoLease::Refused(errno, text)) => return Err(Failed::of_refusal(errno, text)),
            };
            last = self.leave_in_vain(&snapshot, &server, failed, tries)?;
        }
    }

    /// Another server has failed too: returns why, if another one may be tried.
    fn leave_in_vain(
        &self,
        snapshot: &Snapshot,
        server: &Arc<Server>,
        failed: Failed,
        tries: &mut Tries,
    ) -> Result<String, Failed> {
        let text = match failed {
            Failed::LostToo(text) => {
                server.figures.distrust();
                tries.leave(server);
                text
            }
            Failed::Refused(error) => {
                self.leave_refusing(snapshot, server, &error, tries);
                error.message
            }
            failed => return Err(failed),
        };
        Ok(format!("{}: {text}", server.address()))
    }

    /// A server has refused a statement because it may not write any more, or because it goes away.
    fn leave_refusing(
        &self,
        snapshot: &Snapshot,
        server: &Arc<Server>,
        error: &ServerError,
        tries: &mut Tries,
    ) {
        if error.code == Errno::SERVER_SHUTDOWN.number {
            server.figures.distrust();
            tries.leave(server);
        } else {
            self.worker.pool.turn_away(snapshot, server, &error.message);
        }
    }

    /// Runs the whole transaction on one connection. If that fails, nothing of it is left there.
    async fn replay_on(
        &mut self,
        mut backend: Lease,
        record: &Record,
        request: &mut Request,
    ) -> Result<Lease, Failed> {
        let own = request.packet().to_vec();
        let ran = self.run_all(&mut backend, record, request).await;
        request.put_packet(&own);
        match ran {
            Ok(()) => Ok(backend),
            Err(failed @ (Failed::Killed { .. } | Failed::Session(_))) => {
                self.abandon(backend);
                Err(failed)
            }
            Err(Failed::Differed(text)) => {
                let limit = self.snapshot().variables.connect_timeout_server;
                if backend.execute("ROLLBACK", limit).await.is_ok() {
                    self.give_back(backend, Exit::Reset);
                }
                Err(Failed::Differed(text))
            }
            Err(failed) => Err(failed),
        }
    }

    async fn run_all(
        &mut self,
        backend: &mut Lease,
        record: &Record,
        request: &mut Request,
    ) -> Result<(), Failed> {
        let limit = self.snapshot().variables.connect_timeout_server_max;
        let lost = |error: BackendError| Failed::LostToo(error.to_string());
        let all = record.statements().len();
        for (recorded, number) in record.statements().iter().zip(1..) {
            self.data.state = Arc::clone(&recorded.before);
            // No insert generates 0, so it shows whether a statement asks for an id of before the transaction.
            let insert_id = (number == 1).then_some(0);
            if insert_id.is_some() || !backend.is_aligned(&recorded.before, true) {
                backend.align(&recorded.before, true, insert_id, limit).await.map_err(lost)?;
            }
            let differs = match self.asks_for_foreign_id(backend, recorded).await.map_err(lost)? {
                true => Some("it asks for LAST_INSERT_ID() of before the transaction".to_owned()),
                false => {
                    let answer = self.run_again(backend, recorded, request).await?;
                    answer.differs_from(&recorded.answer)
                }
            };
            if let Some(why) = differs {
                let server = backend.login.server.address();
                let text = recorded.shown();
                return Err(Failed::Differed(format!(
                    "statement {number} of {all} ({text}) on {server}: {why}"
                )));
            }
            backend.login.state = Arc::clone(&recorded.after);
            note_drawn(backend, &recorded.statement);
        }
        Ok(())
    }

    /// Whether a statement asks for `LAST_INSERT_ID()`, and no statement of the transaction has set it.
    async fn asks_for_foreign_id(&self, backend: &Lease, recorded: &Recorded) -> Result<bool, BackendError> {
        if !recorded.statement.flags.intersects(Flags::LAST_INSERT_ID) {
            return Ok(false);
        }
        let limit = self.snapshot().variables.connect_timeout_server;
        Ok(backend.insert_id(limit).await? == Some(0))
    }

    /// Runs one statement again, and once more if the server had its prepared statement no longer.
    async fn run_again(
        &mut self,
        backend: &mut Lease,
        recorded: &Recorded,
        request: &mut Request,
    ) -> Result<Answer, Failed> {
        let mut answer = self.run_once(backend, recorded, request).await?;
        if let Some(statement) = &recorded.prepared
            && STALE.contains(&answer.error())
            && answer.error() != recorded.answer.error()
        {
            backend.login.statements.close_shared(statement.identity(recorded.expect));
            answer = self.run_once(backend, recorded, request).await?;
        }
        Ok(answer)
    }

    async fn run_once(
        &mut self,
        backend: &mut Lease,
        recorded: &Recorded,
        request: &mut Request,
    ) -> Result<Answer, Failed> {
        request.put_packet(&recorded.packet);
        let unreadable = || Failed::Differed("a statement cannot be sent there".to_owned());
        if !self.reads_attributes(backend) {
            return Err(unreadable());
        }
        let mut job = Job::new(recorded.command, recorded.statement, true);
        (job.prepared, job.expect) = (recorded.prepared.clone(), recorded.expect);
        if let Some(statement) = &recorded.prepared {
            let parameters = self.read_parameters(request, recorded.command, statement);
            job.parameters = parameters.map_err(|_| unreadable())?;
        }
        let packets = match self.bring_statement(backend, request, &job).await? {
            Ready::AsIs => request.packet().to_vec(),
            Ready::Packets(packets) => packets,
            Ready::Refused(error) => return Err(Failed::of_answer(error)),
        };
        let (mut reading, mut refusal) = (Reading::default(), None);
        let capabilities = backend.login.capabilities;
        let read = |passed: &[u8], next, payload: &[u8]| {
            reading.read(passed, next, payload, capabilities);
            refusal = ServerError::decode(payload).ok().or(refusal.take());
        };
        select! {
            biased;
            ran = backend.run(&packets, recorded.expect, read) => ran?,
            reason = self.client.interrupted() => return Err(Failed::of_interrupt(reason)),
            () = request.client_gone(&self.client.stream) => return Err(Failed::Session(End::Gone)),
        }
        let answer = reading.end().ok_or_else(unreadable)?;
        match refusal {
            Some(error) if error.code != recorded.answer.error() && changes_role(error.code) => {
                Err(Failed::Refused(error))
            }
            _ => Ok(answer),
        }
    }

    /// The client keeps the connection on which its transaction was run again.
    fn go_on_with(&mut self, backend: Lease, lost: Lost) {
        let Lost { record, information, pins, cause, since, .. } = lost;
        self.count_replay("replayed");
        let to = backend.login.server.address();
        let took_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (id, statements) = (self.handle.id, record.statements().len());
        let user = &self.want.account.row.username;
        self.worker.replays.tell(|| {
            tracing::info!(id, user, lost = cause, to, statements, took_ms, "a transaction was run again");
        });
        self.data.information = information;
        self.handle.put_pins(pins);
        let pins = Pins::of_transaction(record.reasons);
        self.binding.pinned = Some(Pinned { backend, hostgroup: record.hostgroup, pins });
        self.binding.record = Some(record);
    }

    /// Tells the client that its transaction was rolled back. The session continues without one.
    async fn tell_rolled_back(
        &mut self,
        lost: Lost,
        failed: Failed,
        request: &mut Request,
        job: &Job,
    ) -> Result<(), End> {
        let (outcome, (errno, why)) = failed.told();
        self.count_replay(outcome);
        let text = format!(
            "The transaction was rolled back: its server was lost ({}), and it could not be run again: {why}; \
             try restarting transaction",
            lost.cause
        );
        let (id, user) = (self.handle.id, &self.want.account.row.username);
        self.worker.replays.tell(|| {
            tracing::warn!(id, user, lost = lost.cause, why, "a transaction could not be run again");
        });
        self.data.information = lost.information;
        self.data.information.forget_here();
        self.data.status = self.data.status.without(OF_TRANSACTION);
        self.client.transaction_since = None;
        self.handle.lets_go();
        self.fail_record(errno.number);
        self.count_failed(request, job);
        self.reply_error_at(request.answer(), errno, &text).await
    }
}

impl Failed {
    /// The server refuses to prepare a statement.
    fn of_answer(error: ServerError) -> Failed {
        match changes_role(error.code) {
            true => Failed::Refused(error),
            false => Failed::Differed(format!("error {}: {}", error.code, error.message)),
        }
    }

    /// There is no connection, or the wait for one was interrupted.
    fn of_refusal(errno: Errno, text: String) -> Failed {
        match errno {
            Errno::QUERY_INTERRUPTED => Failed::Killed { timed_out: false },
            errno if errno == QUERY_TIMEOUT.0 => Failed::Killed { timed_out: true },
            _ => Failed::NoServer(text),
        }
    }

    fn of_interrupt(reason: Interrupt) -> Failed {
        match reason {
            Interrupt::KillQuery | Interrupt::KillTime => Failed::Killed { timed_out: false },
            Interrupt::QueryTime => Failed::Killed { timed_out: true },
            reason => Failed::Session(End::Interrupted(reason)),
        }
    }

    /// How it is counted, and the error for the client.
    fn told(self) -> (&'static str, (Errno, String)) {
        let rolled_back = |why| (Errno::LOCK_DEADLOCK, why);
        match self {
            Failed::Differed(text) => ("differed", rolled_back(text)),
            Failed::LostToo(text) | Failed::NoServer(text) => ("failed", rolled_back(text)),
            Failed::Refused(error) => ("failed", rolled_back(error.message)),
            Failed::Killed { timed_out } => ("failed", killed(timed_out)),
            Failed::Session(end) => ("failed", rolled_back(end.to_string())),
        }
    }
}

impl From<Broken> for Failed {
    fn from(broken: Broken) -> Failed {
        match broken {
            Broken::Unsent { text } | Broken::Stalled { text } | Broken::Backend { text, .. } => {
                Failed::LostToo(text)
            }
            Broken::Cut { timed_out, .. } => Failed::Killed { timed_out },
            Broken::Session(end) => Failed::Session(end),
            Broken::TooLong => Failed::Differed("it is longer than max_allowed_packet".to_owned()),
        }
    }
}

impl From<BackendError> for Failed {
    fn from(error: BackendError) -> Failed {
        Failed::LostToo(error.to_string())
    }
}

impl Recorded {
    /// The beginning of its text, for messages.
    fn shown(&self) -> String {
        let own = || self.packet.get(5..).unwrap_or_default();
        let text = self.prepared.as_ref().map_or_else(own, |statement| &statement.prepared.text);
        text.get(..SHOWN).unwrap_or(text).escape_ascii().to_string()
    }
}

/// Bytes of a statement in messages.
const SHOWN: usize = 80;
