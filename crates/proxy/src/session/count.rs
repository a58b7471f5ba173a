//! What a session adds to the statistics: one function for each event, each of which reads the clock once.

use std::sync::Arc;

use narrows_sql::{Flags, Kind, Statement, digest_hash, digest_text};
use narrows_wire::{Command, Errno, Status};

use super::job::Job;
use super::outcome::{Outcome, Yield};
use super::request::Request;
use super::{PinReason, Session};
use crate::backend::Backend;
use crate::figures::{CommandClass, DigestKey, ErrorKey, Execution, SHOWN_TEXT};
use crate::pool::Lease;
use crate::route::{Digest, digest_options};
use crate::rt::Instant;
use crate::snapshot::{HostgroupId, Variables};
use crate::worker::Pinning;

impl Session {
    /// A command was received.
    pub(super) fn count_command(&self, code: u8, bytes: u64) {
        let command = Command::from_code(code);
        self.handle.begins(word(command), Instant::now());
        let mut counters = self.worker.counters.borrow_mut();
        counters.client_bytes_received += bytes;
        match command {
            Some(Command::Query) => counters.questions += 1,
            Some(Command::StmtExecute) => {
                counters.questions += 1;
                counters.client_executes += 1;
            }
            Some(Command::StmtPrepare) => {
                counters.questions += 1;
                counters.client_prepares += 1;
            }
            Some(Command::StmtClose) => counters.client_closes += 1,
            Some(Command::InitDb) => counters.client_init_dbs += 1,
            _ => {}
        }
    }

    /// Shows the current statement in process lists.
    pub(super) fn show_statement(&self, text: &[u8]) {
        let mut shown = self.worker.figures.spare_text();
        shown.extend_from_slice(text.get(..SHOWN_TEXT).unwrap_or(text));
        self.worker.figures.give_back_text(self.handle.show(shown));
    }

    /// The session has become idle: the command has ended, or the session has begun. Returns the time.
    pub(super) fn rest(&mut self) -> Instant {
        let now = self.run.ended.take().unwrap_or_else(Instant::now);
        if self.handle.rests(&self.data.state, now)
            && let Some(tracked) = self.client.stream.tracked()
        {
            tracked.has_new_state();
        }
        self.worker.figures.give_back_text(self.handle.show(Vec::new()));
        now
    }

    /// Counts the bytes of a long command after its first packet.
    pub(super) fn count_rest(&self, request: &Request) {
        if !request.whole {
            self.worker.counters.borrow_mut().client_bytes_received += request.bytes_after_first();
        }
    }

    /// A command was answered by a server.
    pub(super) fn count_answer(
        &mut self,
        backend: &Backend,
        job: &Job,
        text: &[u8],
        bytes: u64,
        outcome: &Outcome,
    ) {
        if let Some(in_use) = &backend.in_use {
            in_use.count(|tally| {
                tally.queries += 1;
                tally.bytes_sent += bytes;
                tally.bytes_received += outcome.received;
            });
        }
        match job.command {
            Command::Query | Command::StmtExecute | Command::StmtBulkExecute => {
                let given = Yield { rows_affected: outcome.rows_changed, rows_sent: outcome.rows_sent };
                let hostgroup = backend.login.server.row.hostgroup;
                self.count_statement((&job.statement, job.digest.as_ref()), text, hostgroup, given);
            }
            _ => self.run.ended = Some(Instant::now()),
        }
        if let (Some(in_use), Some(now)) = (&backend.in_use, self.run.ended) {
            let came = self.handle.since() + job.options.delay;
            in_use.answered(came, outcome.first_byte, now, outcome.received >= LONG_ANSWER);
        }
        if job.command == Command::StmtExecute {
            self.worker.counters.borrow_mut().backend_executes += 1;
        }
    }

    /// Bytes were forwarded without parsing: to the server, and to the client.
    pub(super) fn count_forwarded(&self, backend: &Backend, (sent, received): (usize, usize)) {
        let (sent, received) = (sent as u64, received as u64);
        let mut counters = self.worker.counters.borrow_mut();
        counters.client_bytes_received += sent;
        counters.client_bytes_sent += received;
        if let Some(in_use) = &backend.in_use {
            in_use.count(|tally| {
                tally.bytes_sent += sent;
                tally.bytes_received += received;
            });
        }
    }

    /// A statement has ended, whether a server or Narrows answered it.
    pub(super) fn count_statement(
        &mut self,
        (statement, digest): (&Statement, Option<&Digest>),
        text: &[u8],
        hostgroup: HostgroupId,
        given: Yield,
    ) {
        let now = Instant::now();
        self.run.ended = Some(now);
        let taken = now.saturating_duration_since(self.handle.since());
        let time_us = taken.as_secs() * 1_000_000 + u64::from(taken.subsec_micros());
        let snapshot = self.snapshot();
        let variables = &snapshot.variables;
        let figures = &self.worker.figures;
        if variables.commands_stats {
            let class = CommandClass::of(statement, text);
            figures.commands.add(class, time_us);
        }
        if taken >= variables.long_query_time {
            self.worker.counters.borrow_mut().slow_queries += 1;
        }
        figures.hostgroups.add_statement(hostgroup, time_us);
        self.count_kind(statement, text);
        let Some(digest) = digest else { return };
        let schemaname = self.data.state.schema.as_deref().unwrap_or_default();
        let client_address =
            if variables.query_digests_track_hostname { self.handle.peer.0.as_str() } else { "" };
        let username = &self.want.account.row.username;
        let key = DigestKey { hostgroup, schemaname, username, client_address, digest: digest.hash };
        let Yield { rows_affected, rows_sent } = given;
        let run = Execution { at_s: figures.seconds(now), time_us, rows_affected, rows_sent };
        let mut digests = figures.digests.borrow_mut();
        if !digests.add(&key, &run) {
            let mut scratch = self.worker.scratch.borrow_mut();
            let text = match &digest.text {
                Some(text) => text,
                None => digest_text(text, &digest_options(variables), &mut scratch),
            };
            digests.insert(&key, text, &run);
        }
    }

    /// A statement has ended without a server's answer: it failed before, or Narrows answered it.
    pub(super) fn count_failed(&mut self, request: &Request, job: &Job) {
        let text = match (job.command, &job.prepared) {
            (Command::Query, _) => request.argument().get(job.attributes..).unwrap_or_default(),
            (Command::StmtExecute | Command::StmtBulkExecute, Some(statement)) => &statement.prepared.text,
            _ => return,
        };
        let counted = (&job.statement, job.digest.as_ref());
        let hostgroup = self.handle.hostgroup().unwrap_or(job.hostgroup);
        self.count_statement(counted, text, hostgroup, Yield::default());
    }

    /// A connection was lost during a statement, and with it the state that only it had. Closes it; returns the server's
    /// address.
    pub(super) fn count_lost(&mut self, backend: Lease, text: &str) -> String {
        self.count_error(&backend, Errno::SERVER_LOST.number, text.as_bytes());
        backend.login.server.figures.distrust();
        self.snapshot().raise_alarm(backend.login.server.row.hostgroup);
        self.handle.lets_go();
        self.data.information.forget_here();
        backend.login.server.address()
    }

    /// What is counted for certain kinds of statements only.
    fn count_kind(&self, statement: &Statement, text: &[u8]) {
        match statement.kind {
            Kind::Commit => self.worker.counters.borrow_mut().commits += 1,
            Kind::Rollback => self.worker.counters.borrow_mut().rollbacks += 1,
            Kind::Use => self.worker.counters.borrow_mut().client_uses += 1,
            Kind::Set => {
                let counted = narrows_sql::set::counted(text);
                let mut counters = self.worker.counters.borrow_mut();
                counters.autocommits += u64::from(counted.autocommit);
                counters.client_set_names += u64::from(counted.names);
            }
            Kind::Select
                if statement.flags.intersects(Flags::FOR_UPDATE)
                    && !self.data.status.contains(Status::AUTOCOMMIT) =>
            {
                self.worker.counters.borrow_mut().locking_selects += 1;
            }
            _ => {}
        }
    }

    /// The digest of a statement, if digests are counted.
    pub(super) fn digest(&self, text: &[u8], variables: &Variables) -> Option<u64> {
        variables.query_digests.then(|| {
            let mut scratch = self.worker.scratch.borrow_mut();
            digest_hash(digest_text(text, &digest_options(variables), &mut scratch))
        })
    }

    /// A server has answered with an error, or was lost.
    pub(super) fn count_error(&self, backend: &Backend, errno: u16, text: &[u8]) {
        self.worker.counters.borrow_mut().server_errors += 1;
        let figures = &self.worker.figures;
        let address = match self.snapshot().variables.query_digests_track_hostname {
            true => self.handle.peer.0.clone(),
            false => String::new(),
        };
        let key = ErrorKey {
            username: self.want.account.row.username.clone(),
            client_address: address,
            schemaname: self.data.state.schema.as_deref().unwrap_or_default().to_vec(),
            ..ErrorKey::of(&backend.login.server, errno)
        };
        figures.errors.borrow_mut().add(key, text, figures.seconds(Instant::now()));
    }

    /// `fresh` are new reasons for which the client keeps its connection.
    pub(super) fn count_pins(&self, fresh: PinReason, job: &Job, text: &[u8]) {
        let snapshot = self.snapshot();
        let digest = job.digest.as_ref().map(|digest| digest.hash).unwrap_or_else(|| {
            let mut scratch = self.worker.scratch.borrow_mut();
            digest_hash(digest_text(text, &digest_options(&snapshot.variables), &mut scratch))
        });
        let since = self.run.ended.unwrap_or_else(Instant::now);
        let mut counters = self.worker.counters.borrow_mut();
        for (reason, name) in PinReason::ALL.iter().filter(|(reason, _)| fresh.intersects(*reason)) {
            *counters.pins.entry(name).or_default() += 1;
            tracing::debug!(
                target: "narrows_proxy::pins",
                id = self.handle.id,
                user = self.want.account.row.username,
                reason = name,
                statement = %text.get(..100).unwrap_or(text).escape_ascii(),
                "pinned"
            );
            // There are too many transactions to list the first statement of each; those are in the table of digests.
            let text = (*reason != PinReason::TRANSACTION || job.digest.is_none()).then(|| {
                let mut scratch = self.worker.scratch.borrow_mut();
                Arc::from(digest_text(text, &digest_options(&snapshot.variables), &mut scratch))
            });
            self.handle.add_pin(Pinning { reason: *reason, since, digest, text });
        }
    }
}

/// The name of a command in process lists.
fn word(command: Option<Command>) -> &'static str {
    match command {
        Some(Command::Query) => "Query",
        Some(Command::StmtExecute | Command::StmtBulkExecute) => "Execute",
        Some(Command::StmtPrepare) => "Prepare",
        Some(Command::StmtFetch) => "Fetch",
        Some(Command::StmtClose) => "Close stmt",
        Some(Command::StmtReset) => "Reset stmt",
        Some(Command::StmtSendLongData) => "Long Data",
        Some(Command::InitDb) => "InitDB",
        Some(Command::FieldList) => "Field List",
        Some(Command::Ping) => "Ping",
        Some(Command::Quit) => "Quit",
        Some(Command::ChangeUser) => "Change user client",
        Some(Command::ResetConnection) => "Resetting connection",
        Some(Command::ProcessKill) => "Kill",
        Some(Command::Statistics) => "Statistics",
        Some(Command::SetOption) => "Set option",
        _ => "None",
    }
}

/// An answer of this many bytes is long.
const LONG_ANSWER: u64 = 65_536;
