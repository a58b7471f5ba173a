//! A session's use of the query cache: what is looked up there, how an answer is sent from it, and what is stored in it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use narrows_sql::{Flags, Kind, Statement, has_offset, literal_offset, names_any};
use narrows_wire::charset::Family;
use narrows_wire::response::Expect;
use narrows_wire::{Capabilities, Command, Errno, Status};

use super::effects::NOT_STATE;
use super::errors::QUERY_TIMEOUT;
use super::job::Job;
use super::job::NOWHERE;
use super::outcome::Outcome;
use super::outcome::Yield;
use super::request::Request;
use super::{End, Interrupt, Session};
use crate::backend::Backend;
use crate::cache::{Entry, Found, Key, Recording, Replay, Reply, Subject, Ticket};
use crate::capabilities::SEEN_IN_ROWS;
use crate::figures::Doing;
use crate::route::Caching;
use crate::rt::{Instant, select};

/// Where an answer comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The cache: the client has received it.
    Cache,
    /// A server must be asked.
    Server,
}

/// An answer whose first piece is ready to be sent.
struct Begun {
    piece: Vec<u8>,
    rows: u64,
    family: Family,
    /// What follows the first piece.
    rest: Option<(Arc<Entry>, Replay)>,
}

/// The reply of the answer's owner.
enum Asked {
    Entry(Arc<Entry>),
    Run(Ticket),
    Refused(Errno, &'static str),
}

impl Session {
    /// Answers from the cache, or begins to record the server's answer.
    pub(super) async fn look_in_cache(
        &mut self,
        request: &mut Request,
        job: &Job,
        caching: Caching,
    ) -> Result<Source, End> {
        if !self.may_be_cached(request, job) {
            return Ok(Source::Server);
        }
        let now = self.handle.since();
        let key = self.key(request, job);
        self.worker.counters.borrow_mut().query_cache_gets += 1;
        let begin = |entry: &Arc<Entry>| self.begin_replay(entry);
        let ticket = match self.worker.cache.find(key, now, begin) {
            Found::Hit(begun) => return self.replay(request, job, begun).await,
            Found::Run(ticket) => ticket,
            Found::Nothing => match Box::pin(self.ask_owner(request, job, key, now)).await? {
                Asked::Entry(entry) => match self.begin_replay(&entry) {
                    Some(begun) => return self.replay(request, job, begun).await,
                    None => self.worker.cache.ticket(key),
                },
                Asked::Run(ticket) => ticket,
                Asked::Refused(errno, text) => {
                    self.begin_record(job, request);
                    self.fail_record(errno.number);
                    self.end_record();
                    self.count_failed(request, job);
                    self.reply_error_at(request.answer(), errno, text).await?;
                    return Ok(Source::Cache);
                }
            },
        };
        let recording = Recording::new(ticket, caching.ttl, &self.snapshot().variables);
        self.run.recording.replace(Some(Box::new(recording)));
        Ok(Source::Server)
    }

    /// Whether a cached answer equals that of a server: the state of the session is fully known, and it has no open
    /// transaction.
    fn may_be_cached(&self, request: &Request, job: &Job) -> bool {
        let in_form = match job.command {
            Command::Query => true,
            Command::StmtExecute => job.expect == Expect::Result,
            _ => false,
        };
        in_form
            && request.whole
            && self.binding.pinned.is_none()
            && self.data.status.contains(Status::AUTOCOMMIT)
            && !self.data.status.contains(Status::IN_TRANS)
            && !self.data.state.null_is_insert_id()
            && may_be_kept(&job.statement, job.text(request))
    }

    /// The key of a statement.
    fn key(&self, request: &Request, job: &Job) -> Key {
        // A function that a view calls may read them, too.
        let user_variables = job.statement.flags.intersects(Flags::USER_VARIABLE)
            || self.data.state.has_user_variables() && job.statement.may_run_programs();
        let states = &self.worker.cache.states;
        let key = |class: Capabilities, parts: &[&[u8]]| {
            Key::of(&Subject {
                username: &self.want.account.row.username,
                hostgroup: job.hostgroup,
                class: self.want.class.intersection(class).0,
                state: states.of(&self.data.state, user_variables),
                command: job.command.code(),
                parts,
            })
        };
        match &job.prepared {
            None => {
                let (attributes, text) =
                    request.argument().split_at_checked(job.attributes).unwrap_or_default();
                // An empty list of attributes is the same as no list.
                let attributes = if attributes == NO_ATTRIBUTES { b"" } else { attributes };
                key(SEEN_IN_ROWS, &[text, attributes])
            }
            Some(statement) => {
                let home = states.of(&statement.prepared.state, false).to_le_bytes();
                let parameters = request.argument().get(STATEMENT_ID..).unwrap_or_default();
                let sent = job.parameters.as_ref().is_some_and(|it| it.types(request.argument()).is_some());
                statement.with_bound(|bound, derived| {
                    let bound = if sent { b"" } else { bound };
                    let parts = [&*statement.prepared.text, &home, parameters, bound, &derived.to_le_bytes()];
                    // It says how parameters are read.
                    key(SEEN_IN_ROWS.union(Capabilities::QUERY_ATTRIBUTES), &parts)
                })
            }
        }
    }

    /// Waits for the reply of the key's owner, which comes at once, or when the session that runs the statement has its
    /// answer.
    async fn ask_owner(
        &self,
        request: &mut Request,
        job: &Job,
        key: Key,
        now: Instant,
    ) -> Result<Asked, End> {
        let timeout = job.options.timeout.unwrap_or(self.snapshot().variables.default_query_timeout);
        self.worker.set_deadline(&self.handle, now + timeout, Interrupt::QueryTime);
        let doing = self.handle.doing();
        self.handle.does(Doing::Command("Cache"));
        let mut reply = pin!(self.worker.cache.ask(key, now));
        let asked = select! {
            biased;
            reply = &mut reply => Ok(match reply {
                Ok(Reply::Entry(entry)) => {
                    self.worker.cache.keep_replica(&entry);
                    Asked::Entry(entry)
                }
                Ok(Reply::Lead(ticket) | Reply::Alone(ticket)) => Asked::Run(ticket),
                // The owner has stopped, because everything is stopping.
                Err(_) => Asked::Run(self.worker.cache.ticket(key)),
            }),
            reason = self.client.interrupted() => match reason {
                Interrupt::KillQuery | Interrupt::KillTime => {
                    Ok(Asked::Refused(Errno::QUERY_INTERRUPTED, "Query execution was interrupted"))
                }
                Interrupt::QueryTime => Ok(Asked::Refused(QUERY_TIMEOUT.0, QUERY_TIMEOUT.1)),
                reason => Err(End::Interrupted(reason)),
            },
            () = request.client_gone(&self.client.stream) => Err(End::Gone),
        };
        self.handle.does(doing);
        asked
    }

    /// The first piece of an answer, in this client's form.
    fn begin_replay(&self, entry: &Arc<Entry>) -> Option<Begun> {
        let answer = entry.answer()?;
        let mut replay = Replay::new(answer, self.client.capabilities, self.data.status);
        let mut piece = Vec::new();
        let more = replay.put(answer, &mut piece);
        let rest = more.then(|| (Arc::clone(entry), replay));
        Some(Begun { piece, rows: answer.rows(), family: answer.family(), rest })
    }

    /// Sends a cached answer to the client, piece by piece, and counts it like any other.
    async fn replay(&mut self, request: &Request, job: &Job, begun: Begun) -> Result<Source, End> {
        self.begin_record(job, request);
        let Begun { mut piece, rows, family, rest } = begun;
        let mut outcome = Outcome { rows: Some(rows), rows_sent: rows, ..Outcome::default() };
        outcome.bytes = piece.len() as u64;
        self.client.send(&piece).await?;
        if let Some((entry, mut replay)) = rest
            && let Some(answer) = entry.answer()
        {
            let mut more = true;
            while more {
                piece.clear();
                more = replay.put(answer, &mut piece);
                outcome.bytes += piece.len() as u64;
                self.client.send(&piece).await?;
            }
        }
        if let Some(statement) = &job.prepared {
            self.note_execution(request, job, statement, family);
        }
        let text = job.text(request);
        {
            let mut counters = self.worker.counters.borrow_mut();
            counters.query_cache_hits += 1;
            counters.query_cache_bytes_out += outcome.bytes;
        }
        let given = Yield { rows_affected: 0, rows_sent: rows };
        self.count_statement((&job.statement, job.digest.as_ref()), text, NOWHERE, given);
        self.data.information.note_answer_from_cache(job, text, family, &outcome);
        self.data.warnings = 0;
        self.end_record_from_cache(&outcome);
        Ok(Source::Cache)
    }

    /// Records part of an answer, if it is being recorded.
    pub(super) fn record(&self, bytes: &[u8]) {
        if let Some(recording) = &mut *self.run.recording.borrow_mut() {
            recording.add(bytes);
        }
    }

    /// Whether the current answer is being recorded.
    pub(super) fn is_recording(&self) -> bool {
        self.run.recording.borrow().as_ref().is_some()
    }

    /// The client does not read its answer, so others stop waiting for it.
    pub(super) fn stop_recording(&self) {
        if let Some(recording) = &mut *self.run.recording.borrow_mut() {
            recording.leave();
        }
    }

    /// An answer is complete: stores it, if it may be stored.
    pub(super) fn end_recording(&self, backend: &Backend, job: &Job, text: &[u8], outcome: &Outcome) {
        let Some(recording) = self.run.recording.take() else { return };
        let variables = &self.snapshot().variables;
        // A killed `SELECT SLEEP(9)` has an answer all the same.
        if outcome.error.is_some() || outcome.was_killed {
            return recording.fail();
        }
        let rows_are_missing = match outcome.rows {
            // If all rows were skipped, it is unknown how many there are; see `literal_offset`.
            Some(0) if has_offset(text, &job.statement) => true,
            Some(0) => !job.options.caching.is_some_and(|caching| caching.without_rows),
            rows => rows.is_none(),
        };
        let warned = outcome.warnings > 0 && !variables.query_cache_handle_warnings;
        let changed =
            !outcome.variables.is_empty() || outcome.schema.is_some() || outcome.last_insert_id != 0;
        if rows_are_missing || warned || changed || names_any(text, OF_ONE_SESSION) {
            return recording.refuse();
        }
        recording.keep(self.client.capabilities, backend.login.family);
    }

    /// After a statement whose answer was not complete: its client has received an error, or has disconnected.
    pub(super) fn forget_recording(&self, result: &Result<(), End>) {
        if let Some(recording) = self.run.recording.take()
            && result.is_ok()
        {
            recording.fail();
        }
    }
}

/// Whether an answer may be given to other clients: the statement only reads, and asks for nothing that belongs to one
/// session.
pub(crate) fn may_be_kept(statement: &Statement, text: &[u8]) -> bool {
    const NOT_KEPT: Flags = Flags::EFFECTS
        .union(Flags::LAST_INSERT_ID)
        .union(Flags::FOUND_ROWS)
        .union(Flags::ROW_COUNT)
        .union(Flags::WARNING_COUNT)
        .union(Flags::SQL_CALC_FOUND_ROWS)
        .union(Flags::CONNECTION_ID)
        .union(Flags::LAST_VALUE)
        .union(Flags::FOR_UPDATE)
        .union(Flags::UNTERMINATED);
    matches!(statement.kind, Kind::Select | Kind::Show)
        && !statement.flags.intersects(NOT_KEPT)
        && (!has_offset(text, statement) || literal_offset(text).is_some())
        && !(statement.flags.contains(Flags::SYSTEM_VARIABLE) && names_any(text, NOT_STATE))
}

/// What a client with `CLIENT_QUERY_ATTRIBUTES` sends before a text without attributes: no parameters, in one set.
const NO_ATTRIBUTES: &[u8] = &[0, 1];

/// Tables of a server's own schemas that have different rows for each session.
const OF_ONE_SESSION: &[&str] =
    &["optimizer_trace", "profiling", "session_status", "session_variables", "user_variables"];

/// Bytes of the statement id at the front of an execution's argument.
const STATEMENT_ID: usize = 4;

/// How long a client may leave an answer unread before others no longer wait for it.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);
