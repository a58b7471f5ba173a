//! Prepared statements of the binary protocol, over shared connections.
//!
//! A client has statement ids of its own ([`ClientStatements`]); each refers to a [`Prepared`], which other clients may
//! share. A statement is prepared on a connection when it is first executed there, and stays prepared for the next client
//! that executes it (`backend/statements.rs`). Anything that belongs to one client (a cursor, parameters sent in parts)
//! ties that client to the connection until it is gone.
//!
//! - `mod.rs`: the commands, and which of them are answered here.
//! - `on_backend.rs`: prepares a statement on a connection, and rewrites the command for it.
//! - `long_data.rs`: `COM_STMT_SEND_LONG_DATA`, which has no answer.
//! - `budget.rs`: limits on prepared statements.

mod budget;
mod long_data;
mod on_backend;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use narrows_sql::{Flags, Kind, Statement, substitute};
use narrows_wire::charset::Family;
use narrows_wire::execute::CURSOR_FLAGS;
use narrows_wire::response::Expect;
use narrows_wire::{Command, Errno};

use super::connection::Stop;
use super::effects::ServerStatement;
use super::errors::malformed;
use super::job::Job;
use super::job::NOWHERE;
use super::outcome::Outcome;
use super::outcome::Yield;
use super::query::changing;
use super::request::Request;
use super::statements::{ClientStatement, Remembered};
use super::{End, PinReason, Session};
use crate::backend::{Backend, dialect};
use crate::client;
use crate::prepared::{ClientShare, Prepared};
use crate::route::{Route, Ruled, Step, is_logged};
use crate::snapshot::HostgroupId;
use crate::worker::LocalSnapshot;

pub(super) use budget::TRIES;
pub(super) use on_backend::{Ready, with_bound_types};

impl Session {
    /// `COM_STMT_PREPARE`. A server answers each time, because the definition of a table may have changed.
    pub(super) async fn prepare(&mut self, request: &mut Request) -> Result<(), End> {
        self.data.statements.last_id = self.data.statements.last_id.wrapping_add(1);
        self.data.statements.last_prepared = None;
        let mut job = match self.preparation(request) {
            Ok(job) => job,
            Err((errno, text)) => {
                self.discard(request).await?;
                return self.reply_error_at(request.answer(), errno, &text).await;
            }
        };
        self.show_statement(request.argument());
        self.execute(request, &mut job).await
    }

    fn preparation(&mut self, request: &mut Request) -> Result<Job, (Errno, String)> {
        let snapshot = self.snapshot();
        let read = |request: &Request| match request.whole {
            true => self.in_doubt(request.argument(), narrows_sql::classify(request.argument())),
            false => UNREAD,
        };
        let mut statement = read(request);
        // The `next_query_flagIN` of the previous statement is for the next one that runs, and this one does not run yet.
        let mut ruled = self.ask_rules(&snapshot, &statement, request.argument(), None, 0);
        if snapshot.dry_run.is_some() {
            self.dry_run_preparation(&snapshot, (&statement, request.argument()), &ruled);
        }
        if let Some(text) = ruled.rewritten.take().filter(|text| request.takes_text(text)) {
            request.replace_argument(0, &text);
            statement = read(request);
        }
        let text = request.argument();
        let (hostgroup, options) = match self.route(&snapshot, (Step::Prepare, &statement, text), &ruled) {
            Route::Run(hostgroup, _, options) => (hostgroup, options),
            Route::Refuse(errno, why) => {
                if is_logged(&snapshot.variables, &ruled.output) {
                    self.record_answered(Command::StmtPrepare, request.argument(), Some(errno));
                }
                return Err((errno, why));
            }
            Route::Ok(text) => return Err((Errno::NOT_ALLOWED_COMMAND, text)),
        };
        let substituted = match statement.flags.intersects(Flags::CONNECTION_ID) && request.whole {
            true => {
                let dialect = dialect(self.family().unwrap_or(Family::MySql));
                substitute(text, self.own_id().as_slice(), dialect)
            }
            false => None,
        };
        let bytes = substituted.as_deref().map_or(text.len(), <[u8]>::len);
        self.check_statement_bytes(&snapshot, bytes)?;
        let username = &self.want.account.row.username;
        let registry = &self.worker.prepared;
        let keeps_values = statement.may_keep_values(text) && self.family() == Some(Family::MySql);
        let prepared = match request.whole {
            true => registry.prepared(
                username,
                &self.data.state,
                substituted.as_deref().unwrap_or(text),
                statement,
            ),
            false => registry.unshared(username, &self.data.state, text, statement),
        };
        let client_statement = ClientStatement {
            id: self.data.statements.last_id,
            prepared: ClientShare::new(prepared),
            params: Cell::new(0),
            columns_told: Cell::new(0),
            types: RefCell::default(),
            derived: RefCell::default(),
            sharing: Cell::default(),
            tied: !request.whole || keeps_values || statement.asks_about_last(),
            ruled: RefCell::default(),
            dry_run: RefCell::default(),
            has_long_data: Cell::default(),
            has_wrong_part: Cell::default(),
            failed: RefCell::default(),
        };
        let mut job = Job::new(Command::StmtPrepare, statement, request.whole);
        (job.hostgroup, job.options, job.digest) = (hostgroup, options, ruled.digest);
        (job.expect, job.prepared) = (Expect::Prepare, Some(Rc::new(client_statement)));
        Ok(job)
    }

    /// `COM_STMT_EXECUTE` and `COM_STMT_BULK_EXECUTE`.
    pub(super) async fn execute_statement(
        &mut self,
        request: &mut Request,
        command: Command,
    ) -> Result<(), End> {
        let Some(statement) = self.open_statement(request) else {
            return self.unknown_statement(request, command).await;
        };
        statement.note_state(&self.data.state, self.handle.id);
        let snapshot = self.snapshot();
        let ruled = self.rule(&snapshot, &statement);
        let flag_in = std::mem::take(&mut self.data.next_flag_in);
        self.data.next_flag_in = ruled.output.next_query_flag_in.unwrap_or_default();
        if snapshot.dry_run.is_some() {
            self.dry_run_execution(&snapshot, &statement, (flag_in, &ruled));
        }
        let prepared = &statement.prepared;
        self.show_statement(&prepared.text);
        let route = self.route(&snapshot, (Step::Execute, &prepared.statement, &prepared.text), &ruled);
        if !matches!(route, Route::Run(..)) {
            self.count_statement(
                (&prepared.statement, ruled.digest.as_ref()),
                &prepared.text,
                NOWHERE,
                Yield::default(),
            );
            if is_logged(&snapshot.variables, &ruled.output) {
                let error = if let Route::Refuse(errno, _) = route { Some(errno) } else { None };
                self.record_answered(command, &prepared.text, error);
            }
        }
        let failed = match statement.has_wrong_part.get() {
            true => Some((Errno::WRONG_ARGUMENTS, self.wrong_part().to_owned())),
            false => statement.failed.take(),
        };
        let refusal = match (failed, route) {
            (Some(failed), _) => Err(failed),
            (None, Route::Refuse(errno, text)) => Err((errno, text)),
            (None, Route::Ok(text)) => {
                self.discard(request).await?;
                return self.reply_ok(&text).await;
            }
            // It would be unknown how the server reads its parameters, and later executions depend on that.
            (None, Route::Run(hostgroup, _, options)) => {
                match self.read_parameters(request, command, &statement) {
                    Ok(parameters) => Ok((hostgroup, options, parameters)),
                    Err(why) => Err((Errno::MALFORMED_PACKET, malformed(why))),
                }
            }
        };
        let (hostgroup, options, parameters) = match refusal {
            Ok(run) => run,
            Err((errno, text)) => {
                self.discard(request).await?;
                return self.reply_error_at(request.answer(), errno, &text).await;
            }
        };
        let flags = request.argument().get(4).copied().unwrap_or_default();
        // The results of a procedure are sent at once. Their status may say that there is a cursor: one of its own.
        let cursor = command == Command::StmtExecute
            && flags & CURSOR_FLAGS != 0
            && prepared.statement.kind != Kind::Call;
        self.set_multiplexing(&ruled.output);
        let mut job = Job::new(command, options.read(prepared.statement), request.whole);
        (job.hostgroup, job.options, job.digest) = (hostgroup, options, ruled.digest);
        job.expect = if cursor { Expect::Cursor } else { Expect::Result };
        (job.prepared, job.parameters) = (Some(statement), parameters);
        self.execute(request, &mut job).await
    }

    /// Applies the rules and the firewall to a statement, unless their output for this configuration and schema is
    /// remembered. The output for a `next_query_flagIN` of the previous statement is not remembered.
    fn rule(&self, snapshot: &LocalSnapshot, statement: &ClientStatement) -> Ruled {
        let flag_in = self.data.next_flag_in;
        let mut remembered = statement.ruled.borrow_mut();
        let holds = |remembered: &&Remembered| {
            flag_in == 0 && remembered.holds(snapshot, changing(&self.rule_client()))
        };
        if let Some(remembered) = remembered.as_ref().filter(holds) {
            self.worker.rules.borrow_mut().count_again(&snapshot.rules, &remembered.matched);
            return remembered.ruled.clone();
        }
        let prepared = &statement.prepared;
        let mut ruled = self.ask_rules(snapshot, &prepared.statement, &prepared.text, None, flag_in);
        // Its text was already rewritten when it was prepared.
        ruled.rewritten = None;
        if flag_in == 0 {
            let matched = match snapshot.rules.is_empty() {
                true => Vec::new(),
                false => self.worker.rules.borrow().last_matched_places().to_vec(),
            };
            let (snapshot, client) = (Rc::downgrade(snapshot), changing(&self.rule_client()).into());
            *remembered = Some(Remembered { snapshot, client, matched, ruled: ruled.clone() });
        }
        ruled
    }

    /// `COM_STMT_FETCH`: rows of an open cursor.
    pub(super) async fn fetch(&mut self, request: &mut Request) -> Result<(), End> {
        let command = Command::StmtFetch;
        let Some(statement) = self.open_statement(request) else {
            return self.unknown_statement(request, command).await;
        };
        let Some(hostgroup) = self.held_at(&statement, PinReason::CURSOR) else {
            self.skip(request).await?;
            let end = if self.family() == Some(Family::MySql) { "." } else { "" };
            let text = format!("The statement ({}) has no open cursor{end}", statement.id);
            let errno = Errno { number: 1421, sqlstate: *b"HY000" };
            return self.reply_error_at(request.answer(), errno, &text).await;
        };
        let mut job = self.held_job(request, command, hostgroup, Expect::Rows, statement);
        self.execute(request, &mut job).await
    }

    /// `COM_STMT_RESET`: goes to a server only if a connection keeps something for the statement.
    pub(super) async fn reset_statement(&mut self, request: &mut Request) -> Result<(), End> {
        let command = Command::StmtReset;
        let Some(statement) = self.open_statement(request) else {
            return self.unknown_statement(request, command).await;
        };
        statement.failed.take();
        statement.has_wrong_part.set(false);
        let Some(hostgroup) = self.held_at(&statement, PinReason::HELD_STATEMENT) else {
            self.skip(request).await?;
            self.data.warnings = 0;
            return self.reply_ok("").await;
        };
        let mut job = self.held_job(request, command, hostgroup, Expect::Result, statement);
        self.execute(request, &mut job).await
    }

    /// `COM_STMT_CLOSE`, which has no answer. The statement stays prepared on servers for other clients, and is closed when
    /// a connection has too many.
    pub(super) async fn close_statement(&mut self, request: &mut Request) -> Result<(), End> {
        let statement = self.open_statement(request);
        self.skip(request).await?;
        let Some(statement) = statement else { return Ok(()) };
        let id = statement.id;
        self.data.statements.close(id);
        if !self.choose_holder(id, false) {
            return Ok(());
        }
        let done = self.close_held(id).await;
        self.keep_current();
        done
    }

    /// Closes a statement that the current connection keeps something for.
    async fn close_held(&mut self, id: u32) -> Result<(), End> {
        let Some(mut pinned) = self.binding.pinned.take() else { return Ok(()) };
        pinned.backend.login.statements.close_held(id);
        pinned.pins.let_go(id, PinReason::HELD_STATEMENT);
        // At once: a cursor may hold locks.
        let closings = pinned.backend.login.statements.take_closings();
        match self.write_to_server(&pinned.backend, &closings).await {
            Ok(()) => {}
            Err(Stop::End(end)) => return Err(end),
            Err(_) => return Err(End::ErrorSent("backend connection lost".to_owned())),
        }
        match pinned.pins.exit_if_free() {
            Some(exit) => self.give_back(pinned.backend, exit),
            None => {
                self.handle.keep_pins(pinned.pins.reasons());
                self.binding.pinned = Some(pinned);
            }
        }
        Ok(())
    }

    fn held_job(
        &self,
        request: &Request,
        command: Command,
        hostgroup: HostgroupId,
        expect: Expect,
        statement: Rc<ClientStatement>,
    ) -> Job {
        let mut job = Job::new(command, statement.prepared.statement, request.whole);
        (job.hostgroup, job.expect, job.prepared) = (hostgroup, expect, Some(statement));
        job
    }

    /// The hostgroup of the connection that keeps something for a statement, for this reason.
    fn held_at(&self, statement: &ClientStatement, reason: PinReason) -> Option<HostgroupId> {
        let holder = self.kept().find(|pinned| pinned.pins.holds(statement.id, reason))?;
        Some(holder.hostgroup)
    }

    /// The statement that a command names.
    fn open_statement(&self, request: &Request) -> Option<Rc<ClientStatement>> {
        let id = u32::from_le_bytes(*request.argument().first_chunk()?);
        let last = || self.data.statements.last_prepared.filter(|_| self.family() == Some(Family::MariaDb));
        let id = if id == LAST_PREPARED { last()? } else { id };
        self.data.statements.open.get(&id).map(Rc::clone)
    }

    async fn unknown_statement(&mut self, request: &mut Request, command: Command) -> Result<(), End> {
        let id = request.argument().first_chunk().map_or(0, |id| u32::from_le_bytes(*id));
        self.skip(request).await?;
        let given_to = match self.family() {
            Some(Family::MySql) => "mysql_stmt_precheck".to_owned(),
            _ => command.name().replace("COM_", "mysqld_").to_lowercase(),
        };
        let text = format!("Unknown prepared statement handler ({id}) given to {given_to}");
        self.reply_error_at(request.answer(), Errno::UNKNOWN_STMT_HANDLER, &text).await
    }

    /// The error of a statement that was sent a part of a parameter that it does not have, as servers name it.
    fn wrong_part(&self) -> &'static str {
        match self.family() {
            Some(Family::MySql) => "Incorrect arguments to mysql_stmt_precheck",
            _ => "Incorrect arguments to mysqld_stmt_send_long_data",
        }
    }

    fn family(&self) -> Option<Family> {
        client::family(&self.snapshot(), &self.want.account)
    }

    /// Applies the effect of a command to the statement of its connection.
    pub(super) fn settle_statement(
        &mut self,
        backend: &mut Backend,
        job: &Job,
        becomes: ServerStatement,
        outcome: &Outcome,
    ) {
        let Some(statement) = &job.prepared else { return };
        let id = statement.id;
        if matches!(job.command, Command::StmtExecute | Command::StmtBulkExecute) {
            statement.prepared.note_columns(outcome.columns);
            if statement.columns_told.get() != 0 && outcome.columns != 0 {
                statement.columns_told.set(u16::try_from(outcome.columns).unwrap_or(u16::MAX));
            }
        }
        let statements = &mut backend.login.statements;
        match becomes {
            ServerStatement::AsItWas => {}
            ServerStatement::Prepared => {
                let Some(ok) = outcome.prepared else { return };
                let prepared: &Arc<Prepared> = &statement.prepared;
                prepared.columns.store(ok.columns, Ordering::Relaxed);
                prepared.params.store(ok.params, Ordering::Relaxed);
                statements.add(prepared.identity, ok.id, Arc::clone(prepared));
                if statement.tied {
                    statements.hold(prepared.identity, id);
                }
                statement.params.set(ok.params);
                statement.columns_told.set(ok.columns);
                self.data.statements.add(Rc::clone(statement));
            }
            ServerStatement::HasCursor => statements.hold(statement.identity(Expect::Cursor), id),
            ServerStatement::TypesUnknown => {
                if let Some(entry) = statements.shared(statement.identity(job.expect)) {
                    entry.types.clear();
                }
            }
            ServerStatement::Closed => statements.close_held(id),
            ServerStatement::Shared { had_cursor: true } => {
                statements.share(id, statement.identity(Expect::Cursor));
            }
            ServerStatement::Shared { had_cursor: false } => {
                statements.share(id, statement.identity(Expect::Result));
            }
        }
    }
}

/// A statement of which only the beginning was read, and which may do anything.
const UNREAD: Statement = Statement { kind: Kind::Call, flags: Flags::UNSURE };

/// MariaDB: the statement that was prepared last.
const LAST_PREPARED: u32 = u32::MAX;
