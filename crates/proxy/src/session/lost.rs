//! What happens to a statement whose server is lost, or refuses it: it runs on another connection if that is safe, and
//! otherwise the client receives an error that says whether it may have run.
//!
//! A statement that cannot have run may run again. So may a read outside of transactions, if the client has received nothing
//! of its answer, a `SET` of the session to given values, whose effect is lost with the connection, and a statement that begins a
//! transaction and ends none. No other statement is run twice, and none that was killed, or whose client has gone.
//!
//! What a view does cannot be seen in a statement: a function that it calls may write. So a read that may have run is sent again
//! only to a session that is read only. There a server refuses whatever may change a table, before it does anything, and the
//! client learns that its server was lost.

use std::sync::Arc;

use narrows_sql::set::{Assignment, Scope, Value};
use narrows_sql::{Flags, Kind, Statement};
use narrows_wire::response::Expect;
use narrows_wire::{Command, Errno, Status};

use super::connection::{Stop, stop};
use super::job::Job;
use super::outcome::{Broken, GOING_AWAY, HoldBack};
use super::request::Request;
use super::{End, Session};
use crate::backend::ServerError;
use crate::hostgroup::{Server, ServerFigures};
use crate::hot_restart::Run;
use crate::pool::{Exit, Lease};
use crate::rows::{Bond, NO_CLUSTER};
use crate::rt::{Instant, select};
use crate::snapshot::Snapshot;

/// How many more attempts a statement has.
pub(super) struct Tries {
    /// Further executions after its server was lost.
    retries: u32,
    /// Connections that turned out to be closed before it was sent.
    found_closed: usize,
    /// When a server first refused it as read only.
    refused_since: Option<Instant>,
    /// The text that begins the client's transaction on another connection, after a server has refused its first statement.
    pub(super) begins_again: Option<Box<[u8]>>,
    /// The server that was lost last. Its other connections may be lost too, although that is not known yet.
    left: Option<Arc<ServerFigures>>,
    /// Whether a transaction ends with the statement.
    commits_by_itself: bool,
    /// How the statement was lost after a server may have run it.
    pub(super) may_have_run: Option<Box<LostBefore>>,
}

/// A server that may have run a statement, and how it was lost.
#[derive(Debug, Clone)]
pub(super) struct LostBefore {
    pub(super) address: String,
    pub(super) text: String,
}

/// What is known about a statement whose server was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The server has not received it.
    NotRun,
    /// The server may have run it.
    Unknown,
    /// The client has received part of its answer.
    Answering,
}

/// Why the session does not wait any longer for a statement that may be running.
#[derive(Debug)]
pub(super) enum Abandoned {
    /// The session is over.
    Session(End),
    /// It is longer than `max_allowed_packet`, and the rest of it was not read yet.
    TooLong,
    /// It was killed, and its server has not ended it, or has not received all of it. `started`: the client has received
    /// part of the answer.
    Cut { started: bool, timed_out: bool },
}

impl LostBefore {
    /// With the process that served the session before.
    pub(super) fn with_process() -> LostBefore {
        LostBefore { address: "Narrows".to_owned(), text: "its worker process has died".to_owned() }
    }
}

impl Tries {
    /// Those of a statement of a session with this status.
    pub(super) fn new(job: &Job, snapshot: &Snapshot, status: Status) -> Tries {
        Tries {
            retries: job.options.retries.unwrap_or(snapshot.variables.query_retries_on_failure),
            found_closed: 0,
            refused_since: None,
            begins_again: None,
            left: None,
            commits_by_itself: job.apart || status.contains(Status::AUTOCOMMIT),
            may_have_run: None,
        }
    }

    /// A server was lost, or is shutting down: any other is tried first.
    pub(super) fn leave(&mut self, server: &Server) {
        self.left = Some(Arc::clone(&server.figures));
    }

    /// That server.
    pub(super) fn left(&self) -> Option<&ServerFigures> {
        self.left.as_deref()
    }

    /// What is known about a statement that failed.
    pub(super) fn fate(
        &mut self,
        broken: Broken,
        job: &Job,
        request: &Request,
    ) -> Result<(Fate, String), Abandoned> {
        match broken {
            Broken::Backend { started: true, text, .. } => Ok((Fate::Answering, text)),
            // A killed statement must not run elsewhere, where the kill would not end it.
            Broken::Backend { started: false, killed: Some(timed_out), .. }
                if is_repeatable(job, request) =>
            {
                Err(Abandoned::Cut { started: false, timed_out })
            }
            Broken::Backend { started: false, text, .. } => Ok((Fate::Unknown, text)),
            Broken::Unsent { text } => Ok((Fate::NotRun, text)),
            Broken::Stalled { text } => {
                // The client has waited long enough, so no other server is tried.
                self.retries = 0;
                self.found_closed = FOUND_CLOSED;
                Ok((Fate::NotRun, text))
            }
            Broken::TooLong => Err(Abandoned::TooLong),
            Broken::Cut { started, timed_out } => Err(Abandoned::Cut { started, timed_out }),
            Broken::Session(end) => Err(Abandoned::Session(end)),
        }
    }

    /// Whether the statement must not change a table: it may have run before, and only reads as far as can be seen. Where it
    /// begins the client's transaction, which is run again as a whole, that cannot be read only.
    pub(super) fn must_only_read(&self, job: &Job, request: &Request) -> bool {
        self.may_have_run.is_some() && self.commits_by_itself && may_call_views(job, job.text(request))
    }

    /// The error for the client if it does not run again.
    pub(super) fn lost_before(&self) -> String {
        let before = self.may_have_run.as_ref();
        let (address, text) = before.map_or(("", ""), |before| (&before.address, &before.text));
        lost(address, None, text, Fate::Unknown)
    }

    /// Whether the client is in a transaction that its first statement has to begin on another connection.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.begins_again.is_some()
    }

    /// Whatever connection runs the statement first begins the client's transaction, with this text.
    pub(super) fn begin_with(&mut self, begun: Option<Box<[u8]>>) {
        self.begins_again = self.begins_again.take().or(begun);
    }

    /// A connection was lost before the statement was sent: whether another one is tried.
    pub(super) fn after_closed(&mut self) -> bool {
        self.found_closed += 1;
        self.found_closed <= FOUND_CLOSED
    }

    /// A server was lost during the statement: whether another one is tried.
    pub(super) fn after_loss(&mut self, fate: Fate, job: &Job, request: &Request) -> bool {
        match fate {
            Fate::NotRun => self.after_closed(),
            Fate::Unknown if self.may_be_sent_again(job, request) => {
                self.retries -= 1;
                true
            }
            _ => false,
        }
    }

    /// Whether a statement that a server may have received may be sent to another one.
    fn may_be_sent_again(&self, job: &Job, request: &Request) -> bool {
        if !request.whole || self.retries == 0 || !is_repeatable(job, request) {
            return false;
        }
        let text = job.text(request);
        // The session would be read only for all of the client's transaction, or show that it is.
        self.commits_by_itself && !shows_access_mode(&job.statement, text) || !may_call_views(job, text)
    }

    /// The errors after which the statement runs on another server.
    pub(super) fn hold_back(
        &self,
        snapshot: &Snapshot,
        job: &Job,
        request: &Request,
        (pinned, is_first): (bool, bool),
    ) -> HoldBack {
        let may_wait = |since: Instant| {
            let hostgroup = snapshot.hostgroups.get(&job.hostgroup);
            let longest = snapshot.variables.connect_timeout_server_max;
            since.elapsed() < hostgroup.map_or(longest, |it| it.settings.longest_wait)
        };
        let is_free = request.whole && !pinned;
        // The first statement of a transaction has nothing before it that would be lost.
        let may_move = is_free || request.whole && is_first;
        let waits = may_move && waits_for_writer(snapshot, job) && self.refused_since.is_none_or(may_wait);
        // Where all nodes have lost their cluster, a read waits until one has found it again.
        let reads_later = is_free
            && !self.is_in_transaction()
            && only_reads(job)
            && self.refused_since.is_none_or(may_wait);
        HoldBack {
            changes_tables: self.must_only_read(job, request),
            read_only: job.options.writer.is_some() && !pinned || waits,
            going_away: is_free
                && !self.is_in_transaction()
                && (self.may_be_sent_again(job, request) || self.retries > 0 && only_begins(job, request)),
            no_cluster: waits && is_of_cluster(snapshot, job) || reads_later,
            ..HoldBack::default()
        }
    }
}

impl Session {
    /// Records for the next process that a command is about to be sent to a server.
    pub(super) fn note_run(&self, job: &Job, request: &Request) {
        let Some(tracked) = self.client.stream.tracked() else { return };
        let tries = Tries::new(job, &self.snapshot(), self.data.status);
        let may_again = only_reads(job) && tries.may_be_sent_again(job, request);
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

    /// Whether a statement that is about to run again must not, because it was killed meanwhile, its time is over, or its client
    /// has gone: each of these may have come when nobody waited for it.
    pub(super) async fn is_stopped(&self, request: &mut Request) -> Option<Abandoned> {
        select! {
            biased;
            reason = self.client.interrupted() => Some(match stop(reason) {
                Stop::Killed { timed_out } => Abandoned::Cut { started: false, timed_out },
                Stop::End(end) => Abandoned::Session(end),
                Stop::Stalled { .. } | Stop::Closed { .. } => return None,
            }),
            () = request.client_gone(&self.client.stream) => Some(Abandoned::Session(End::Gone)),
            () = std::future::ready(()) => None,
        }
    }

    /// A server was lost: the same, and whether the statement was killed or its client has gone before that was noticed.
    pub(super) async fn if_not_stopped(&self, broken: Broken, request: &mut Request) -> Broken {
        let was_sent = match &broken {
            Broken::Backend { started: false, killed: None, .. } => true,
            Broken::Unsent { .. } | Broken::Stalled { .. } => false,
            _ => return broken,
        };
        match (self.is_stopped(request).await, broken) {
            (Some(Abandoned::Session(end)), _) => Broken::Session(end),
            (Some(Abandoned::Cut { timed_out, .. }), Broken::Backend { started, text, .. }) if was_sent => {
                Broken::Backend { started, killed: Some(timed_out), text }
            }
            (Some(Abandoned::Cut { started, timed_out }), _) => Broken::Cut { started, timed_out },
            (_, broken) => broken,
        }
    }

    /// Refuses a statement that asks for what was lost with the former process, and ends the session: the client must not
    /// take it for the same one.
    pub(super) async fn refuse_forgotten(&mut self, request: &mut Request, job: &Job) -> Result<(), End> {
        if !self.data.information.asks_for_lost(&job.statement) {
            return Ok(());
        }
        let text = "Lost connection to MySQL server during query (the statement asks about an earlier one, \
                    and the worker process that ran that one has died). It has not run.";
        self.count_failed(request, job);
        self.discard(request).await?;
        self.reply_error_at(request.answer(), Errno::SERVER_LOST, text).await?;
        Err(End::ErrorSent(text.to_owned()))
    }

    /// A connection was lost before the statement was sent: what only it knew is lost, and any other one can be used.
    pub(super) fn lost_unused(&mut self, server: &str, error: &str, tries: &Tries) {
        tracing::debug!(id = self.handle.id, server, error, "a connection was found closed");
        self.leave_behind(tries);
    }

    /// The current connection is no longer the session's; a transaction that begins again elsewhere still is.
    fn leave_behind(&mut self, tries: &Tries) {
        let pins = self.handle.take_pins();
        self.handle.lets_go();
        if tries.is_in_transaction() {
            self.handle.put_pins(pins);
        }
        self.data.information.forget_here();
    }

    /// A server has refused the statement with an error after which it runs elsewhere; the client has received nothing.
    pub(super) fn turn_elsewhere(
        &mut self,
        snapshot: &Snapshot,
        backend: Lease,
        job: &mut Job,
        (error, tries, begun): (&ServerError, &mut Tries, Option<Box<[u8]>>),
    ) {
        let waits_for_writer = waits_for_writer(snapshot, job) && is_of_cluster(snapshot, job);
        let waits = error.code == NO_CLUSTER && (waits_for_writer || tries.retries == 0);
        if GOING_AWAY.contains(&error.code) && !waits {
            tries.retries = tries.retries.saturating_sub(1);
            tries.leave(&backend.login.server);
            // It may have been interrupted halfway.
            let text = error.message.clone();
            let address = self.count_lost(backend, &text);
            tries.may_have_run = Some(Box::new(LostBefore { address, text }));
        } else if let Some(writer) = job.options.writer.take() {
            // The server does not consider it a read.
            self.give_back(backend, Exit::Return);
            self.lose_track_of(writer);
            self.worker.counters.borrow_mut().reads_run_on_writers += 1;
            self.redirect(job, writer);
        } else {
            tries.refused_since.get_or_insert_with(Instant::now);
            tries.begin_with(begun);
            self.binding.record = None;
            self.leave_behind(tries);
            let server = Arc::clone(&backend.login.server);
            drop(backend);
            self.worker.pool.turn_away(snapshot, &server, &error.message);
        }
    }

    /// The server was lost. If the client had kept the connection, the session ends, because its state is lost too.
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

/// The error after a server was lost: which server, after what time, why, and whether the statement has run.
pub(super) fn lost(address: &str, since: Option<Instant>, text: &str, fate: Fate) -> String {
    let after = since.map_or(String::new(), |since| format!(" after {} ms", since.elapsed().as_millis()));
    let fate = match fate {
        Fate::NotRun => "It has not run.",
        Fate::Unknown => "It may have run.",
        Fate::Answering => "The answer is incomplete.",
    };
    format!("Lost connection to MySQL server during query ({address}{after}: {text}). {fate}")
}

/// Whether a read may name a view, which may call a function that writes.
fn may_call_views(job: &Job, text: &[u8]) -> bool {
    let runs = matches!(job.command, Command::Query | Command::StmtExecute);
    let selects = || job.statement.kind != Kind::Show || narrows_sql::names_any(text, &["select", "table"]);
    runs && only_reads(job) && selects()
}

/// Whether a statement may show that its session is read only.
fn shows_access_mode(statement: &Statement, text: &[u8]) -> bool {
    let shows = statement.kind == Kind::Show || statement.flags.intersects(Flags::SYSTEM_VARIABLE);
    shows && narrows_sql::names_any(text, &["transaction_read_only", "tx_read_only"])
}

/// Whether running a statement twice, on two connections, has the same effect as running it once.
fn is_repeatable(job: &Job, request: &Request) -> bool {
    only_reads(job)
        || job.command == Command::Query && sets_only_the_session(&job.statement, job.text(request))
}

/// Whether a statement begins a transaction and does nothing else, if none is open that it would commit.
pub(super) fn only_begins(job: &Job, request: &Request) -> bool {
    let is_one = matches!(job.command, Command::Query | Command::StmtExecute)
        && !job.statement.flags.intersects(Flags::MULTI);
    job.statement.kind == Kind::Begin && is_one && request.whole
}

/// Whether it is a `SET` that changes only its session, to values that do not depend on the server.
pub(super) fn sets_only_the_session(statement: &Statement, text: &[u8]) -> bool {
    let is_own = |assignment: &Assignment| match assignment {
        Assignment::System { scope: Scope::Session, value, .. }
        | Assignment::NextTransaction { value, .. }
        | Assignment::User { value, .. } => !matches!(value, Value::Expression(_)),
        Assignment::Names { .. } | Assignment::CharacterSet(_) => true,
        _ => false,
    };
    statement.kind == Kind::Set
        && !statement.flags.intersects(Flags::MULTI)
        && narrows_sql::set::parse(text).is_ok_and(|assignments| assignments.iter().all(is_own))
}

/// Whether a statement changes nothing.
fn only_reads(job: &Job) -> bool {
    match job.command {
        Command::StmtPrepare => return true,
        // A cursor, and parameters that were sent in parts, are lost with the connection.
        Command::Query | Command::StmtExecute if job.expect == Expect::Result => {}
        _ => return false,
    }
    job.statement.changes_nothing()
}

/// Whether a statement outside of transactions has no effect but on tables and on `LAST_INSERT_ID()`.
fn leaves_nothing_tied(job: &Job) -> bool {
    job.statement.keeps_transaction() && !job.statement.flags.intersects(Flags::EFFECTS)
}

/// Whether a statement in a transaction leaves it open, whatever becomes of the statement: the server has not committed the
/// transaction when the connection is lost.
pub(super) fn commits_nothing(job: &Job) -> bool {
    matches!(job.command, Command::Query | Command::StmtExecute) && job.statement.keeps_transaction()
}

/// Whether a statement waits for another server if the current one turns out to be read only: it is routed to servers for
/// writes, and a server that refuses it has done nothing.
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

/// Whether a statement is routed to the writers of a cluster.
fn is_of_cluster(snapshot: &Snapshot, job: &Job) -> bool {
    let writers = snapshot.hostgroups.get(&job.hostgroup).and_then(|it| it.writers);
    writers.is_some_and(|(_, bond)| bond == Bond::Cluster)
}

/// How many connections may turn out to be closed by their server before the client receives an error. They were idle, so
/// the server may have closed them for a reason of its own; more than a few in a row mean that it is shutting down.
const FOUND_CLOSED: usize = 8;
