//! Transactions that are run again when their server is lost, if an account, a rule or `mysql-transaction_replay` says so.
//!
//! While a transaction is open, its statements are recorded, with a checksum of each answer. Once its connection is lost, it is
//! run again on another one, statement by statement, and each answer is compared with what the client has received. If all are
//! equal, the client continues there and notices nothing. If one differs, everything is rolled back, and the client gets an error
//! after which it can begin again.
//!
//! What makes it right is that nothing is recorded that outlives the connection in any other way than as a value: the pins of the
//! session say so. Nothing is run again once it may have been committed.
//!
//! - `mod.rs`: what is recorded, and when a transaction may be run again.
//! - `which.rs`: which statements may be part of it.
//! - `record.rs`, `answer.rs`: what is recorded, as values.
//! - `run.rs`: runs it again, and tells the client if that fails.

pub(super) mod answer;
pub(super) mod record;
mod run;
mod which;

use std::sync::Arc;

use narrows_sql::{Flags, Kind};
use narrows_wire::{Capabilities, Command, Status};

use super::Session;
use super::job::Job;
use super::lost::Fate;
use super::outcome::Outcome;
use super::prepared::with_bound_types;
use super::request::Request;
use crate::backend::Backend;
use crate::pin_reason::PinReason;
use crate::snapshot::Snapshot;
use crate::state::SharedState;

use answer::Reading;
use record::{Record, Recorded, Stopped};
use which::{may_have_ended, refusal};

/// A command that runs in a transaction, or begins one, that is recorded.
pub(super) struct Watched {
    /// The client's state before it.
    before: SharedState,
    /// What the server has received instead of the request.
    replaced: Option<Vec<u8>>,
    /// Whether a transaction was open before it.
    was_open: bool,
    /// It is a statement that is run again, and no other command.
    is_statement: bool,
}

impl Watched {
    /// What reads the answer.
    pub(super) fn reading(&self) -> Option<Box<Reading>> {
        self.is_statement.then(Box::default)
    }
}

impl Session {
    /// Before a command is sent: whether it is recorded. `reasons` are why the client keeps the connection, `replaced` is what is
    /// sent instead of the request. If the server refuses a recorded statement because its role has changed, the client does not
    /// receive that.
    pub(super) fn watch(
        &mut self,
        snapshot: &Snapshot,
        (job, request): (&mut Job, &Request),
        reasons: PinReason,
        replaced: Option<&[u8]>,
    ) -> Option<Watched> {
        match &self.binding.record {
            Some(record) if record.stopped().is_none() => {
                self.hold_back_changed_roles(snapshot, job, request)
            }
            Some(_) => {}
            None if self.begins_recorded(job, request, reasons) => {}
            None => return None,
        }
        Some(Watched {
            before: Arc::clone(&self.data.state),
            replaced: replaced.map(<[u8]>::to_vec),
            was_open: reasons.intersects(PinReason::TRANSACTION),
            is_statement: is_statement(job.command),
        })
    }

    /// Whether a command begins a transaction that is recorded, on a connection that the client keeps for these reasons.
    pub(super) fn begins_recorded(&self, job: &Job, request: &Request, reasons: PinReason) -> bool {
        let begins = matches!(job.statement.kind, Kind::Begin | Kind::SetTransaction)
            || !self.data.status.contains(Status::AUTOCOMMIT);
        job.options.replay
            && begins
            && is_statement(job.command)
            && request.whole
            && !job.apart
            // On another replica it would have to see the same writes.
            && job.sees.is_none()
            && reasons.without(PinReason::MULTIPLEXING_OFF).is_empty()
            && self.binding.aside.is_empty()
            && self.want.account.row.transaction_persistent
            && refusal(&job.statement, job.text(request)).is_none()
    }

    /// A server that refuses a statement of a recorded transaction because it may not write any more, or goes away, has done
    /// nothing of it; a `COMMIT` that is refused because the server is read only has rolled back.
    fn hold_back_changed_roles(&self, snapshot: &Snapshot, job: &mut Job, request: &Request) {
        let Some(record) = self.binding.record.as_ref().filter(|_| request.whole) else { return };
        let is_open = self.cannot_have_committed(job, request);
        let writes = matches!(job.statement.kind, Kind::Insert | Kind::Replace | Kind::Update | Kind::Delete);
        let commits = job.statement.kind == Kind::Commit && !job.statement.flags.intersects(Flags::MULTI);
        let has_writers = snapshot.hostgroups.get(&record.hostgroup).is_some_and(|it| it.writers.is_some());
        let hold_back = &mut job.hold_back;
        hold_back.read_only |= has_writers && (is_open && writes || commits && is_statement(job.command));
        hold_back.going_away |= is_open;
        hold_back.no_cluster |= is_open;
        hold_back.offline |= is_open;
    }

    /// Whether a command of the recorded transaction leaves it open whatever becomes of the command.
    fn cannot_have_committed(&self, job: &Job, request: &Request) -> bool {
        let status = self.data.status;
        let is_certain = status.contains(Status::IN_TRANS) || !status.contains(Status::AUTOCOMMIT);
        match job.command {
            Command::StmtPrepare | Command::InitDb => true,
            // It would commit what is open.
            _ if job.statement.kind == Kind::Begin => !self.handle.is_in_transaction(),
            command if is_statement(command) => {
                is_certain && refusal(&job.statement, job.text(request)).is_none()
            }
            _ => false,
        }
    }

    /// After a command, whose effects have been applied: records it, if the client is in a transaction.
    pub(super) fn note_watched(
        &mut self,
        watched: Watched,
        (job, request): (&Job, &Request),
        outcome: &mut Outcome,
    ) {
        let before = self.binding.record.take();
        let Some(pinned) = &self.binding.pinned else { return };
        let reasons = pinned.pins.reasons();
        if !reasons.intersects(OF_TRANSACTION) {
            return;
        }
        let begins_anew = job.statement.kind == Kind::Begin && watched.was_open && outcome.error.is_none();
        let mut record = before.filter(|_| !begins_anew).unwrap_or_else(|| Record::new(pinned.hostgroup));
        record.reasons = reasons;
        match self.recorded(watched, (job, request), &pinned.backend, outcome, reasons) {
            Ok(Some(recorded)) => record.add(recorded, self.snapshot().variables.transaction_replay_max_size),
            Ok(None) => {}
            Err(why) => record.stop(why),
        }
        self.binding.record = Some(record);
    }

    /// What is recorded of a command; `None`: nothing.
    fn recorded(
        &self,
        watched: Watched,
        (job, request): (&Job, &Request),
        backend: &Backend,
        outcome: &mut Outcome,
        reasons: PinReason,
    ) -> Result<Option<Recorded>, Stopped> {
        let others = reasons.without(OF_TRANSACTION).without(PinReason::MULTIPLEXING_OFF);
        if let Some(name) = others.names().first() {
            return Err(Stopped::NotPossible(name));
        }
        if !watched.is_statement {
            return Ok(None);
        }
        if !request.whole {
            return Err(Stopped::TooLarge);
        }
        let asks = job.statement.flags.intersects(Flags::LAST_INSERT_ID);
        let why = match refusal(&job.statement, job.text(request)) {
            Some(why) => Some(why),
            None if !job.options.replay => Some("transaction_replay is off for one of its statements"),
            None if asks && job.statement.asks_about_last() => {
                Some("it asks about several earlier statements")
            }
            None if self.data.state.null_is_insert_id() => Some("sql_auto_is_null is on"),
            None if outcome.error.is_some_and(may_have_ended) => Some("an error may have ended it"),
            // `SELECT SLEEP(9)` has an answer even so.
            None if outcome.was_killed => Some(KILLED),
            None => None,
        };
        let answer = outcome.answer.take().and_then(|reading| reading.end());
        match (why, answer, self.packet_to_send_again(&watched, (job, request), backend)) {
            (None, Some(answer), Some(packet)) => Ok(Some(Recorded {
                packet: packet.into(),
                command: job.command,
                statement: job.statement,
                prepared: job.prepared.clone(),
                expect: job.expect,
                before: watched.before,
                after: Arc::clone(&self.data.state),
                answer,
            })),
            (why, ..) => Err(Stopped::NotPossible(why.unwrap_or("a statement or its answer cannot be kept"))),
        }
    }

    /// The packet of a statement with everything that its connection knew; `None` if another one could not read it.
    fn packet_to_send_again(
        &self,
        watched: &Watched,
        (job, request): (&Job, &Request),
        backend: &Backend,
    ) -> Option<Vec<u8>> {
        if !self.reads_attributes(backend) {
            return None;
        }
        match (&job.prepared, &job.parameters) {
            (Some(statement), Some(parameters)) if parameters.types(request.argument()).is_none() => {
                let bound = statement.types.borrow();
                (!bound.is_empty()).then(|| with_bound_types(request, job.command, parameters, &bound))
            }
            _ => Some(watched.replaced.clone().unwrap_or_else(|| request.packet().to_vec())),
        }
    }

    /// Whether a server reads commands in the form in which the client sends them.
    fn reads_attributes(&self, backend: &Backend) -> bool {
        let named = self.client.capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        !named || backend.login.capabilities.contains(Capabilities::QUERY_ATTRIBUTES)
    }

    /// The connection of a recorded transaction is lost: takes the record, if the transaction may be run again. The error is
    /// what the client reads besides that.
    pub(super) fn may_replay(
        &mut self,
        fate: Fate,
        job: &Job,
        request: &Request,
    ) -> Result<Box<Record>, String> {
        let Some(record) = self.binding.record.take() else { return Err(String::new()) };
        let why = match (record.stopped(), fate) {
            (Some(why), _) => why,
            (None, Fate::Answering) => Stopped::NotPossible("the client has received a part of the answer"),
            (None, Fate::Unknown) if !self.cannot_have_committed(job, request) => {
                self.count_replay("not_possible");
                return Err(String::new());
            }
            (None, _) if !request.whole => Stopped::TooLarge,
            (None, _) => return Ok(record),
        };
        let (outcome, why) = match why {
            Stopped::TooLarge => ("too_large", "it is larger than mysql-transaction_replay_max_size"),
            Stopped::NotPossible(why) => ("not_possible", why),
        };
        self.count_replay(outcome);
        Err(format!("; its transaction is not run again: {why}"))
    }

    /// A statement was killed whose server is lost: its transaction is not run again. Returns what the client reads about that.
    pub(super) fn no_replay_after_kill(&mut self) -> String {
        match self.binding.record.take() {
            Some(_) => {
                self.count_replay("not_possible");
                format!("; its transaction is not run again: {KILLED}")
            }
            None => String::new(),
        }
    }

    /// Whether the client is in a transaction that can be run again.
    pub(super) fn is_recorded(&self) -> bool {
        self.binding.record.as_ref().is_some_and(|record| record.stopped().is_none())
    }

    fn count_replay(&self, outcome: &'static str) {
        *self.worker.counters.borrow_mut().replays.entry(outcome).or_default() += 1;
    }
}

/// Why a transaction is not run again one of whose statements was killed, or is now.
pub(super) const KILLED: &str = "one of its statements was killed";

/// Whether a command is a statement.
fn is_statement(command: Command) -> bool {
    matches!(command, Command::Query | Command::StmtExecute | Command::StmtBulkExecute)
}

/// The pins of a transaction: an open one, and what was set for the next one.
const OF_TRANSACTION: PinReason = PinReason::TRANSACTION.with(PinReason::NEXT_TRANSACTION);
