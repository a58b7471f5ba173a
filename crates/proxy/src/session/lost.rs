//! What becomes of a statement whose server goes away, or does not take it: it is run elsewhere where that is honest, and
//! else its client is told what is known of it.
//!
//! A statement that cannot have run may run elsewhere, and so may a read outside of transactions of whose answer the client
//! has seen nothing, and a `SET` of the session to given values: what that did is gone with its connection. No other is run twice,
//! and none that was killed.

use std::sync::Arc;

use narrows_sql::set::{Assignment, Scope, Value};
use narrows_sql::{Flags, Kind};
use narrows_wire::response::Expect;
use narrows_wire::{Command, Errno};

use super::job::Job;
use super::outcome::{Broken, GOING_AWAY, HoldBack};
use super::request::Request;
use super::{End, Session};
use crate::backend::{Backend, ServerError};
use crate::hostgroup::ServerFigures;
use crate::hot_restart::Run;
use crate::pool::{Exit, Lease};
use crate::rt::Instant;
use crate::snapshot::Snapshot;

/// How often a statement may still be tried.
pub(super) struct Tries {
    /// Further executions after its server was lost with it.
    retries: u32,
    /// Connections that were found closed before they had heard of it.
    found_closed: usize,
    /// Since when servers say that they are read only.
    refused_since: Option<Instant>,
    /// The server that was lost last with the statement. Its other connections may not be known to be lost yet.
    left: Option<Arc<ServerFigures>>,
}

/// What is known of a statement whose server was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The server has not had it.
    NotRun,
    /// The server has had it.
    Unknown,
    /// The client has a part of its answer.
    Answering,
}

/// Why nobody waits for a statement any more that may run.
#[derive(Debug)]
pub(super) enum Abandoned {
    /// The session is over.
    Session(End),
    /// It is longer than `max_allowed_packet`; the rest of it is still to come.
    TooLong,
    /// It was killed, and its server does not say that it has ended, or has not had all of it. `started`: the client has a
    /// part of the answer.
    Cut { started: bool, timed_out: bool },
}

impl Tries {
    pub(super) fn new(job: &Job, snapshot: &Snapshot) -> Tries {
        let retries = job.options.retries.unwrap_or(snapshot.variables.query_retries_on_failure);
        Tries { retries, found_closed: 0, refused_since: None, left: None }
    }

    /// A server was lost with the statement, or says that it goes away: any other is tried first.
    pub(super) fn leave(&mut self, backend: &Backend) {
        self.left = Some(Arc::clone(&backend.login.server.figures));
    }

    /// The server that was.
    pub(super) fn left(&self) -> Option<&ServerFigures> {
        self.left.as_deref()
    }

    /// What is known of a statement that did not come through.
    pub(super) fn fate(
        &mut self,
        broken: Broken,
        job: &Job,
        request: &Request,
    ) -> Result<(Fate, String), Abandoned> {
        match broken {
            Broken::Backend { started: true, text, .. } => Ok((Fate::Answering, text)),
            // It would be run elsewhere, where nothing would end it any more. Of others it is to be told that they may have run.
            Broken::Backend { started: false, killed: Some(timed_out), .. }
                if is_repeatable(job, request) =>
            {
                Err(Abandoned::Cut { started: false, timed_out })
            }
            Broken::Backend { started: false, text, .. } => Ok((Fate::Unknown, text)),
            Broken::Unsent { text } => Ok((Fate::NotRun, text)),
            Broken::Stalled { text } => {
                // Its client has waited long enough: no other server is tried.
                self.retries = 0;
                self.found_closed = FOUND_CLOSED;
                Ok((Fate::NotRun, text))
            }
            Broken::TooLong => Err(Abandoned::TooLong),
            Broken::Cut { started, timed_out } => Err(Abandoned::Cut { started, timed_out }),
            Broken::Session(end) => Err(Abandoned::Session(end)),
        }
    }

    /// A connection was lost that had not heard of the statement: whether another is tried.
    pub(super) fn after_closed(&mut self) -> bool {
        self.found_closed += 1;
        self.found_closed <= FOUND_CLOSED
    }

    /// A server was lost with the statement: whether that is run elsewhere.
    pub(super) fn after_loss(&mut self, fate: Fate, job: &Job, request: &Request) -> bool {
        match fate {
            Fate::NotRun => self.after_closed(),
            Fate::Unknown if request.whole && self.retries > 0 && is_repeatable(job, request) => {
                self.retries -= 1;
                true
            }
            _ => false,
        }
    }

    /// The errors of the next server after which the statement is run elsewhere.
    pub(super) fn hold_back(
        &self,
        snapshot: &Snapshot,
        job: &Job,
        request: &Request,
        pinned: bool,
    ) -> HoldBack {
        let may_wait = |since: Instant| since.elapsed() < snapshot.variables.connect_timeout_server_max;
        let is_free = request.whole && !pinned;
        let waits = is_free && waits_for_writer(snapshot, job) && self.refused_since.is_none_or(may_wait);
        HoldBack {
            read_only: job.options.writer.is_some() || waits,
            going_away: is_free && self.retries > 0 && is_repeatable(job, request),
            ..HoldBack::default()
        }
    }
}

impl Session {
    /// Notes for another process that a command is about to be sent to a server.
    pub(super) fn note_run(&self, job: &Job, request: &Request) {
        let Some(tracked) = self.client.stream.tracked() else { return };
        let may_again = Tries::new(job, &self.snapshot()).retries > 0 && only_reads(job);
        tracked.runs(
            request.ahead(),
            match job.command {
                Command::Query if !request.whole => Run::Tied,
                Command::Query if may_again => Run::Again,
                Command::Query if leaves_nothing_tied(job) => Run::Once,
                _ => Run::Tied,
            },
        );
    }

    /// What a statement asks that the process knew which served the session before: its client is told so, and the session
    /// ends, since it would be another one.
    pub(super) async fn refuse_forgotten(&mut self, request: &mut Request, job: &Job) -> Result<(), End> {
        if !self.data.information.asks_for_lost(&job.statement) {
            return Ok(());
        }
        let text = "Lost connection to MySQL server during query (the statement asks about one before it, and the \
                    process of Narrows that knew has died). It has not run.";
        self.count_failed(request, job);
        self.discard(request).await?;
        self.reply_error_at(request.answer(), Errno::SERVER_LOST, text).await?;
        Err(End::ErrorSent(text.to_owned()))
    }

    /// A connection was lost before it had heard of the statement: what only it knew is gone, and any other will do.
    pub(super) fn lost_unused(&mut self, server: &str, error: &str) {
        tracing::debug!(id = self.handle.id, server, error, "a connection was found closed");
        self.handle.has_backend(None);
        self.data.information.forget_here();
    }

    /// A server has refused the statement in a way after which it is run elsewhere; the client has heard nothing of it.
    pub(super) fn turn_elsewhere(
        &mut self,
        snapshot: &Snapshot,
        backend: Lease,
        job: &mut Job,
        (error, tries): (&ServerError, &mut Tries),
    ) {
        if GOING_AWAY.contains(&error.code) {
            tries.retries = tries.retries.saturating_sub(1);
            tries.leave(&backend);
            self.count_lost(backend, &error.message);
        } else if let Some(writer) = job.options.writer.take() {
            // What was taken for a read is none to its server.
            self.give_back(backend, Exit::Return);
            self.worker.counters.borrow_mut().reads_run_on_writers += 1;
            job.hostgroup = writer;
        } else {
            tries.refused_since.get_or_insert_with(Instant::now);
            self.handle.has_backend(None);
            self.data.information.forget_here();
            let server = Arc::clone(&backend.login.server);
            drop(backend);
            self.worker.pool.turn_away(snapshot, &server, &error.message);
        }
    }

    /// The server was lost. Where the client had something there, the session cannot go on: it would be another one.
    pub(super) async fn report_lost(
        &mut self,
        sequence: u8,
        address: &str,
        (fate, pinned): (Fate, bool),
        text: &str,
    ) -> Result<(), End> {
        let message = lost(address, Some(self.handle.since()), text, fate);
        self.fail_record(Errno::SERVER_LOST.number);
        if fate == Fate::Answering {
            return Err(End::ErrorSent(message));
        }
        Box::pin(self.reply_error_at(sequence, Errno::SERVER_LOST, &message)).await?;
        if pinned {
            return Err(End::ErrorSent(message));
        }
        tracing::warn!(id = self.handle.id, server = address, error = text, "backend connection lost in use");
        Ok(())
    }
}

/// What a client is told whose server was lost: which, after what time, why, and whether its statement has run.
pub(super) fn lost(address: &str, since: Option<Instant>, text: &str, fate: Fate) -> String {
    let after = since.map_or(String::new(), |since| format!(" after {} ms", since.elapsed().as_millis()));
    let fate = match fate {
        Fate::NotRun => "It has not run.",
        Fate::Unknown => "It may have run.",
        Fate::Answering => "The answer is not whole.",
    };
    format!("Lost connection to MySQL server during query ({address}{after}: {text}). {fate}")
}

/// Whether running a statement twice, on two connections, does no more than running it once.
fn is_repeatable(job: &Job, request: &Request) -> bool {
    only_reads(job) || job.command == Command::Query && sets_only_the_session(job, job.text(request))
}

/// Whether it is a `SET` that changes nothing but its session, and asks nobody for the values.
fn sets_only_the_session(job: &Job, text: &[u8]) -> bool {
    let is_own = |assignment: &Assignment| match assignment {
        Assignment::System { scope: Scope::Session, value, .. } | Assignment::User { value, .. } => {
            !matches!(value, Value::Expression(_))
        }
        Assignment::Names { .. } | Assignment::CharacterSet(_) => true,
        _ => false,
    };
    job.statement.kind == Kind::Set
        && !job.statement.flags.intersects(Flags::MULTI)
        && narrows_sql::set::parse(text).is_ok_and(|assignments| assignments.iter().all(is_own))
}

/// Whether a statement changes nothing.
fn only_reads(job: &Job) -> bool {
    match job.command {
        Command::StmtPrepare => return true,
        // What a cursor leaves behind, and what was sent in parts, is gone with the connection.
        Command::Query | Command::StmtExecute if job.expect == Expect::Result => {}
        _ => return false,
    }
    let reads = matches!(job.statement.kind, Kind::Select | Kind::Show | Kind::Do);
    reads && !job.statement.flags.intersects(Flags::EFFECTS.union(Flags::FOR_UPDATE))
}

/// Whether a statement that has run outside of transactions leaves nothing behind but what it has changed in tables, and an
/// insert id.
fn leaves_nothing_tied(job: &Job) -> bool {
    let kinds = [Kind::Select, Kind::Show, Kind::Do, Kind::Insert, Kind::Replace, Kind::Update, Kind::Delete];
    kinds.contains(&job.statement.kind) && !job.statement.flags.intersects(Flags::EFFECTS)
}

/// Whether a statement waits for another server where the one at hand turns out to be read only: it goes to servers that may
/// be written to, and one that refuses it has done nothing of it.
fn waits_for_writer(snapshot: &Snapshot, job: &Job) -> bool {
    let writes = matches!(
        job.statement.kind,
        Kind::Insert
            | Kind::Replace
            | Kind::Update
            | Kind::Delete
            | Kind::Create
            | Kind::Alter
            | Kind::Drop
            | Kind::DropTable
            | Kind::Truncate
            | Kind::Rename
            | Kind::Begin
    );
    let is_one = matches!(job.command, Command::Query | Command::StmtExecute)
        && !job.statement.flags.intersects(Flags::MULTI);
    let is_for_writers = || snapshot.hostgroups.get(&job.hostgroup).is_some_and(|it| it.writers.is_some());
    writes && is_one && is_for_writers()
}

/// How many connections a statement may find closed by their server before its client is told so. They were idle, so the
/// server has closed them for a reason of its own; more than a few in a row mean that it goes away.
const FOUND_CLOSED: usize = 8;
