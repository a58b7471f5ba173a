//! Prepares a statement on a connection, and rewrites the command for it: with the server's statement id instead of the
//! client's, and with the types of parameters if the server last received different ones.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use narrows_wire::charset::Family;
use narrows_wire::execute::Parameters;
use narrows_wire::frame::put_packet;
use narrows_wire::{Capabilities, Command, Errno, Malformed};

use super::super::errors::{QUERY_TIMEOUT, malformed};
use super::super::job::Job;
use super::super::outcome::{Answering, Broken, HoldBack, may_load_a_file};
use super::super::request::Request;
use super::super::statements::ClientStatement;
use super::super::statements::Derived;
use super::super::{End, Interrupt, Session};
use crate::backend::{Backend, BackendError, BackendStatement, PrepareOk, ServerError};
use crate::prepared::Identity;
use crate::rt::select;

/// A command about a prepared statement, ready for one connection.
pub(in super::super) enum Ready {
    /// The request, unchanged.
    AsIs,
    /// These packets.
    Packets(Vec<u8>),
    /// The server refuses to prepare the statement.
    Refused(ServerError),
}

impl Session {
    /// Makes a command ready for `backend`, and prepares its statement there if necessary.
    pub(in super::super) async fn bring_statement(
        &mut self,
        backend: &mut Backend,
        request: &mut Request,
        job: &Job,
    ) -> Result<Ready, Broken> {
        let Some(statement) = &job.prepared else { return Ok(Ready::AsIs) };
        match job.command {
            Command::StmtPrepare => self.forward_preparation(backend, request, statement).await,
            Command::StmtExecute | Command::StmtBulkExecute | Command::StmtSendLongData => {
                statement.take_over(&mut backend.login.statements, job.expect);
                let identity = self.derive(backend, request, job, statement);
                self.drop_others_types(backend, request, job, statement, identity);
                if let Err(error) = self.have_statement(backend, request, statement, identity).await? {
                    return Ok(Ready::Refused(error));
                }
                if job.command == Command::StmtSendLongData {
                    backend.login.statements.hold(identity, statement.id);
                }
                self.address(backend, request, job, statement, identity).await
            }
            _ => {
                if let Some(entry) = backend.login.statements.held(statement.id) {
                    request.set_statement(entry.id);
                }
                Ok(Ready::AsIs)
            }
        }
    }

    /// The properties of the answer to a command about a statement.
    pub(in super::super) fn answering(
        &self,
        backend: &mut Backend,
        request: &Request,
        job: &Job,
        statement: &ClientStatement,
        tries: u32,
    ) -> Answering {
        let hold_back = match job.command {
            _ if !request.whole => HoldBack::default(),
            Command::StmtPrepare => {
                HoldBack { too_many_statements: tries < super::budget::TRIES, ..job.hold_back }
            }
            // What the connection keeps for the client would be lost on another one, and if it were prepared again.
            _ if backend.login.statements.held(statement.id).is_some() => HoldBack::default(),
            Command::StmtExecute | Command::StmtBulkExecute => {
                HoldBack { stale: tries == 0, ..job.hold_back }
            }
            _ => HoldBack::default(),
        };
        let of = statement.prepared.statement;
        let columns_told = match job.command {
            Command::StmtExecute | Command::StmtBulkExecute => statement.columns_told.get(),
            _ => 0,
        };
        let file = may_load_a_file(&of);
        Answering { of, statement: statement.id, hold_back, columns_told, file, ..job.answering() }
    }

    /// Handles an error that the client has not received, so that the command can be tried again.
    pub(in super::super) async fn recover(
        &mut self,
        backend: &mut Backend,
        job: &Job,
        statement: &ClientStatement,
        error: &ServerError,
        tries: u32,
    ) -> Result<(), Broken> {
        if error.is_too_many_statements() {
            return self.relieve(backend, tries).await;
        }
        backend.login.statements.close_shared(statement.identity(job.expect));
        Ok(())
    }

    /// Sends the client the server's error about preparing its statement.
    pub(in super::super) async fn refuse(
        &mut self,
        request: &mut Request,
        error: ServerError,
    ) -> Result<(), End> {
        let (errno, text) = error.into_reply();
        self.discard(request).await?;
        self.reply_error_at(request.answer(), errno, &text).await
    }

    /// Forwards the client's own `COM_STMT_PREPARE`.
    async fn forward_preparation(
        &mut self,
        backend: &mut Backend,
        request: &Request,
        statement: &ClientStatement,
    ) -> Result<Ready, Broken> {
        if let Some(error) = self.too_many_statements(backend) {
            return Ok(Ready::Refused(error));
        }
        // The new one replaces the existing one. If the server refuses it now, it would also refuse to execute the other.
        let (statements, prepared) = (&mut backend.login.statements, &statement.prepared);
        let usual = prepared.derived.load(Ordering::Relaxed);
        statements.close_shared(prepared.identity);
        statements.close_shared(prepared.identity.with_derived(usual));
        self.make_room(backend).await?;
        let mut out = backend.login.statements.take_closings();
        let text = &*statement.prepared.text;
        if !request.whole {
            self.write_to_server(backend, &out).await?;
            return Ok(Ready::AsIs);
        }
        if out.is_empty() && text == request.argument() {
            return Ok(Ready::AsIs);
        }
        put_packet(&mut out, &mut 0, &[&[Command::StmtPrepare.code()], text].concat());
        Ok(Ready::Packets(out))
    }

    /// Some servers derive the types of parameters from earlier values: predicts those types after this execution. Returns
    /// the identity under which to find the statement: of one whose earlier executions lead to them, or of a new one.
    fn derive(
        &self,
        backend: &mut Backend,
        request: &Request,
        job: &Job,
        statement: &ClientStatement,
    ) -> Identity {
        let before = statement.identity(job.expect);
        if backend.login.family != Family::MySql || job.command != Command::StmtExecute {
            return before;
        }
        let Some(parameters) = &job.parameters else { return before };
        let mut derived = statement.derived.borrow_mut();
        let bound = statement.types.borrow();
        let argument = request.argument();
        let named = self.client.capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        let types = parameters.types(argument).unwrap_or(&bound);
        let given = parameters.given(argument, types, statement.params.get(), named);
        let after = derived.after(given.clone());
        let statements = &mut backend.login.statements;
        let held = statements.held(statement.id).is_some();
        if held || statements.has(before) {
            let Some(after) = after else { return before };
            *derived = after;
        } else {
            // A new statement has not had this client's earlier values, so from now on the client's record has not either.
            let fresh = Derived::default().after(given).unwrap_or_default();
            let wanted = after.as_ref().unwrap_or(&derived).key();
            let there = statement.identity_with(wanted, job.expect);
            if statements.has(there) {
                *derived = after.unwrap_or_else(|| derived.clone());
                return there;
            }
            *derived = fresh;
        }
        statement.prepared.derived.store(derived.key(), Ordering::Relaxed);
        let identity = statement.identity_with(derived.key(), job.expect);
        let from = if statements.has(before) { before } else { statement.identity_with(0, job.expect) };
        if !held && from != identity {
            statements.rename(from, identity);
        }
        identity
    }

    /// If a client has bound no types, those of another client must not be used: the server must find them missing.
    fn drop_others_types(
        &self,
        backend: &mut Backend,
        request: &Request,
        job: &Job,
        statement: &ClientStatement,
        identity: Identity,
    ) {
        let bound = !statement.types.borrow().is_empty();
        let statements = &mut backend.login.statements;
        if job.command == Command::StmtSendLongData {
            // MariaDB reads the parts by the types that were bound last: as numbers if those were numbers.
            if statements.shared(identity).is_some_and(|entry| *entry.types != **statement.types.borrow()) {
                statements.close_shared(identity);
            }
            return;
        }
        if bound || statement.params.get() == 0 {
            return;
        }
        let others = statements.shared(identity).is_some_and(|entry| !entry.types.is_empty());
        if others && matches!(&job.parameters, Some(it) if it.types(request.argument()).is_none()) {
            statements.close_shared(identity);
        }
    }

    /// The position of the parameters in an execution; `None` if there are none.
    pub(in super::super) fn read_parameters(
        &self,
        request: &Request,
        command: Command,
        statement: &ClientStatement,
    ) -> Result<Option<Parameters>, Malformed> {
        let attributes = self.client.capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        let (argument, params) = (request.argument(), statement.params.get());
        match command {
            Command::StmtExecute => Parameters::of_execute(argument, params, attributes),
            Command::StmtBulkExecute => Parameters::of_bulk(argument, params),
            _ => Ok(None),
        }
    }

    /// Records an execution that is not sent to a server: the types that it binds, and the types that a server of `family`
    /// would have derived from its parameters.
    pub(in super::super) fn note_execution(
        &self,
        request: &Request,
        job: &Job,
        statement: &ClientStatement,
        family: Family,
    ) {
        let Some(parameters) = &job.parameters else { return };
        let (argument, mut bound) = (request.argument(), statement.types.borrow_mut());
        if let Some(types) = parameters.types(argument) {
            remember(&mut bound, types);
        }
        if family == Family::MySql {
            let named = self.client.capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
            let given = parameters.given(argument, &bound, statement.params.get(), named);
            let mut derived = statement.derived.borrow_mut();
            if let Some(after) = derived.after(given) {
                *derived = after;
            }
        }
    }

    /// Prepares a statement on `backend`, unless it is prepared there. The inner error is the server's.
    async fn have_statement(
        &mut self,
        backend: &mut Backend,
        request: &mut Request,
        statement: &ClientStatement,
        identity: Identity,
    ) -> Result<Result<(), ServerError>, Broken> {
        let statements = &mut backend.login.statements;
        if statements.held(statement.id).is_some() || statements.shared(identity).is_some() {
            return Ok(Ok(()));
        }
        let prepared = Arc::clone(&statement.prepared);
        let limit = self.snapshot().variables.connect_timeout_server_max;
        let unsent = |error: BackendError| Broken::Unsent { text: error.to_string() };
        // What it is in now, which may be read only.
        let before = Arc::clone(&backend.login.state);
        let elsewhere = !prepared.state.prepares_like(&before);
        if elsewhere {
            let mut home = Arc::clone(&prepared.state);
            // A schema cannot be taken away. What was prepared without one names the schema of every table and routine, so that
            // only DATABASE() has another value in one.
            if home.schema.is_none() && backend.login.state.schema.is_some() {
                Arc::make_mut(&mut home).schema.clone_from(&backend.login.state.schema);
            }
            match backend.align(&home, false, None, limit).await {
                // It is gone, and no other one is in its place.
                Err(BackendError::SchemaGone(_)) if backend.login.state.schema.is_none() => {}
                Err(BackendError::SchemaGone(error)) => {
                    backend.align(&before, false, None, limit).await.map_err(unsent)?;
                    return Ok(Err(error));
                }
                aligned => aligned.map_err(unsent)?,
            }
        }
        let mut tries = 0;
        let answer = loop {
            self.make_room(backend).await?;
            match self.prepare_here(backend, request, &prepared.text).await? {
                Err(error) if error.is_too_many_statements() && tries < super::budget::TRIES => {
                    self.relieve(backend, tries).await?;
                    tries += 1;
                }
                answer => break answer,
            }
        };
        if elsewhere {
            backend.align(&before, false, None, limit).await.map_err(unsent)?;
        }
        Ok(answer.map(|ok| backend.login.statements.add(identity, ok.id, prepared)))
    }

    /// Prepares a text, and handles interrupts and the end of the client while it waits.
    async fn prepare_here(
        &self,
        backend: &mut Backend,
        request: &mut Request,
        text: &[u8],
    ) -> Result<Result<PrepareOk, ServerError>, Broken> {
        let closings = backend.login.statements.take_closings();
        let backend = &*backend;
        let mut answer = pin!(backend.prepare(closings, text));
        let mut kill = None;
        let mut timed_out = false;
        let answer = loop {
            select! {
                biased;
                answer = &mut answer => break answer,
                reason = self.client.interrupted() => match reason {
                    Interrupt::KillTime if kill.is_some() => {
                        self.note_ignored_kill(backend);
                        return Err(Broken::Cut { started: false, timed_out });
                    }
                    // For an earlier statement.
                    Interrupt::KillTime => {}
                    // The server already has a time limit for ending the statement.
                    Interrupt::KillQuery | Interrupt::QueryTime if kill.is_some() && self.limits_kills() => {}
                    Interrupt::KillQuery | Interrupt::QueryTime => {
                        timed_out |= reason == Interrupt::QueryTime;
                        kill = Some(self.kill_statement(backend));
                    }
                    reason => return Err(Broken::Session(End::Interrupted(reason))),
                },
                () = request.client_gone(&self.client.stream) => return Err(Broken::Session(End::Gone)),
            }
        };
        // A kill that has not arrived yet must not hit the next client's statement, and a killed statement is not prepared on
        // another connection.
        if let Some(kill) = kill
            && (kill.await.is_err() || !matches!(answer, Ok(_) | Err(BackendError::Server(_))))
        {
            return Err(Broken::Cut { started: false, timed_out });
        }
        match answer {
            Ok(ok) => Ok(Ok(ok)),
            Err(BackendError::Server(error))
                if timed_out && error.code == Errno::QUERY_INTERRUPTED.number =>
            {
                Ok(Err(ServerError::of(QUERY_TIMEOUT.0, QUERY_TIMEOUT.1)))
            }
            Err(BackendError::Server(error)) => Ok(Err(error)),
            Err(error) => Err(Broken::Unsent { text: error.to_string() }),
        }
    }

    /// Puts the server's statement id into the command, and the types of parameters if the server last received different
    /// ones.
    async fn address(
        &mut self,
        backend: &mut Backend,
        request: &mut Request,
        job: &Job,
        statement: &ClientStatement,
        identity: Identity,
    ) -> Result<Ready, Broken> {
        let client_names = self.client.capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        let server_names = backend.login.capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        let statements = &mut backend.login.statements;
        let entry = match statements.held(statement.id).is_some() {
            true => statements.held(statement.id),
            false => statements.shared(identity),
        };
        let entry = entry.expect("it was just prepared");
        request.set_statement(entry.id);
        let Some(parameters) = &job.parameters else {
            return Ok(Ready::AsIs);
        };
        let argument = request.argument();
        let mut bound = statement.types.borrow_mut();
        let sent = parameters.types(argument);
        if let Some(types) = sent {
            remember(&mut bound, types);
        }
        if client_names && !server_names && job.command == Command::StmtExecute {
            return Ok(match parameters.without_attributes(argument, statement.params.get(), &bound) {
                Ok(payload) => Ready::Packets(framed(job.command, &payload)),
                Err(why) => Ready::Refused(ServerError::of(Errno::MALFORMED_PACKET, &malformed(why))),
            });
        }
        if sent.is_some() || *entry.types == **bound {
            remember(&mut entry.types, &bound);
            return Ok(Ready::AsIs);
        }
        put_types(entry, request, job.command, parameters, &bound)
    }
}

/// The command with the types that the client bound before.
fn put_types(
    entry: &mut BackendStatement,
    request: &mut Request,
    command: Command,
    parameters: &Parameters,
    bound: &[u8],
) -> Result<Ready, Broken> {
    remember(&mut entry.types, bound);
    if !request.whole {
        let (head, replaced) = parameters.with_types(request.argument(), bound);
        request.replace_head(replaced, &head);
        return Ok(Ready::AsIs);
    }
    Ok(Ready::Packets(with_bound_types(request, command, parameters, bound)))
}

/// The packet of an execution with the types that the client bound before.
pub(in super::super) fn with_bound_types(
    request: &Request,
    command: Command,
    parameters: &Parameters,
    bound: &[u8],
) -> Vec<u8> {
    let argument = request.argument();
    let (mut payload, replaced) = parameters.with_types(argument, bound);
    payload.extend_from_slice(argument.get(replaced..).unwrap_or_default());
    framed(command, &payload)
}

fn framed(command: Command, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() + 5);
    put_packet(&mut out, &mut 0, &[&[command.code()], payload].concat());
    out
}

/// Replaces the remembered types, in the same allocation.
fn remember(kept: &mut Vec<u8>, types: &[u8]) {
    if kept != types {
        kept.clear();
        kept.extend_from_slice(types);
    }
}
