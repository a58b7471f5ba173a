//! Brings the session of a backend connection into a client's state, and resets it.

use std::sync::Arc;
use std::time::Duration;

use narrows_wire::charset::{Collation, Family};
use narrows_wire::frame::put_encoded;
use narrows_wire::handshake::{ChangeUser, ConnectAttributes};
use narrows_wire::{Capabilities, Command, Status};

use super::reports::ReportQuestions;
use super::{Answer, Backend, BackendError, Base, InsertIdBefore, ServerError, Uncollected, Want};
use crate::buffer::Buffer;
use crate::rt::timeout;
use crate::state::{Difference, SessionState, SharedState};

impl Backend {
    /// Whether the session is already in `state`; in most cases this only compares a pointer. User variables only count
    /// if the next statement reads them.
    pub fn is_aligned(&self, state: &SharedState, user_variables: bool) -> bool {
        if self.login.uncollected.is_some() || !self.login.has_reports(state) {
            return false;
        }
        if self.login.wants_gtids && !self.login.tells_gtids() {
            return false;
        }
        let found = &self.login.state;
        Arc::ptr_eq(found, state) || state.difference(found, user_variables).is_empty()
    }

    /// Brings the session into `state` in one round trip; user variables only if the next statement reads them, and the
    /// value of `LAST_INSERT_ID()` if it uses it. In the same round trip, the server is asked for the reports that the statement
    /// needs, and what the connection keeps for another client is fetched and cleared.
    ///
    /// # Errors
    /// [`BackendError::SchemaGone`] if all is done but the schema, which is the one from before. The server's if it refuses an
    /// assignment (servers of a hostgroup may have different versions), or [`BackendError::Unknown`] if another client has changed
    /// more than was known; then the session is in an unknown state, and the connection must be closed.
    pub async fn align(
        &mut self,
        state: &SharedState,
        user_variables: bool,
        last_insert_id: Option<u64>,
        limit: Duration,
    ) -> Result<(), BackendError> {
        let aligned = self.align_once(state, user_variables, last_insert_id, limit).await;
        // After any other error there may be answers that were not read.
        let are_all_read = matches!(aligned, Ok(()) | Err(BackendError::SchemaGone(_)));
        if !are_all_read || self.login.late_is_ours || !self.login.left_by_program.get() {
            return aligned;
        }
        // Only now is it known that a failed statement of another client has left something.
        self.reset(limit).await?;
        self.align_once(state, user_variables, last_insert_id, limit).await
    }

    async fn align_once(
        &mut self,
        state: &SharedState,
        user_variables: bool,
        last_insert_id: Option<u64>,
        limit: Duration,
    ) -> Result<(), BackendError> {
        let mut difference = self.difference_to(state, user_variables);
        // What is run first in each session is run again.
        let begins_again = self.login.base.is_some() || self.login.first.is_some();
        if difference.reset && (begins_again || self.login.spoiled_by_reset) {
            self.collect_diagnostics(limit).await?;
            self.reset(limit).await?;
            difference = self.difference_to(state, user_variables);
        }
        if difference.reset {
            self.login.forget_reports();
            self.login.statements.forget_all();
        }
        let questions = self.ask_for_reports(state, &mut difference);
        self.ask_for_gtids(state, &mut difference);
        if let Some(id) = last_insert_id {
            let value =
                if state.null_is_insert_id() { format!("LAST_INSERT_ID({id})") } else { id.to_string() };
            difference.assign(&format!("last_insert_id={value}"));
        }
        difference.make_literals_readable(&self.login.state, state);
        let uncollected = self.login.uncollected.take();
        let mut gone = None;
        if uncollected.is_some() || questions.are_any() || !difference.is_empty() {
            // The pool logs such a connection in again before it is aligned. A statement must never run in a schema that its
            // client has not chosen.
            if difference.schema_must_go {
                return Err(BackendError::SchemaStays);
            }
            match timeout(limit, self.send_difference(&difference, uncollected, questions)).await {
                Ok(sent) => gone = sent?,
                Err(_) => return Err(BackendError::Timeout),
            }
        }
        if difference.reset {
            // Not before the last client's values were collected.
            self.login.forget_values();
        }
        if let Some(id) = last_insert_id {
            self.login.insert_id_before = if id == 0 { InsertIdBefore::Zero } else { InsertIdBefore::Own };
            self.login.has_insert_id = id != 0;
        }
        let schema_before = gone.is_some().then(|| self.login.state.schema.clone());
        self.login.state = if user_variables || state.same_user_variables(&self.login.state) {
            Arc::clone(state)
        } else {
            Arc::new(state.with_user_variables_of(&self.login.state))
        };
        if let Some(schema) = schema_before {
            Arc::make_mut(&mut self.login.state).schema = schema;
        }
        gone.map_or(Ok(()), |error| Err(BackendError::SchemaGone(error)))
    }

    /// What brings the session into `state`. What neither has is in both as the session began.
    fn difference_to(&self, state: &SessionState, user_variables: bool) -> Difference {
        let found = &self.login.state;
        match self.login.base.as_deref().map(Base::own).filter(|own| own.has_variables()) {
            Some(own) => state.over(own).difference(&found.over(own), user_variables),
            None => state.difference(found, user_variables),
        }
    }

    /// Drops what the connection keeps if its owner has disconnected, and nothing needs to be cleared: nobody will read it.
    pub fn drop_unwanted_diagnostics(&mut self) {
        self.login.uncollected.take_if(|uncollected| !uncollected.is_wanted() && uncollected.is_clean());
    }

    /// Sends all commands at once and reads their answers. Returns the error if the schema cannot be chosen.
    async fn send_difference(
        &mut self,
        difference: &Difference,
        uncollected: Option<Uncollected>,
        questions: ReportQuestions,
    ) -> Result<Option<ServerError>, BackendError> {
        let mut out = Vec::with_capacity(256);
        let (mut answers, mut answers_before) = (0, 0);
        let departure = uncollected.as_ref().map(|uncollected| self.put_departure(&mut out, uncollected));
        if questions.late {
            self.put_question_for_late_reports(&mut out);
        }
        if difference.reset {
            put_command(&mut out, Command::ResetConnection, &[]);
            answers_before += 1;
        }
        if questions.own_values {
            self.put_question_for_own_reports(&mut out);
        }
        if let Some(in_use) = &self.in_use {
            in_use.count(|tally| {
                tally.init_dbs += u64::from(difference.schema.is_some());
                tally.sets += u64::from(difference.set.is_some());
            });
        }
        let mut schema_at = None;
        if let Some(set) = &difference.set_first {
            self.put_query(&mut out, set);
            answers += 1;
        }
        if let Some(schema) = &difference.schema {
            put_command(&mut out, Command::InitDb, schema);
            schema_at = Some(answers);
            answers += 1;
        }
        if let Some(on) = difference.multi_statements {
            put_command(&mut out, Command::SetOption, &[u8::from(!on), 0]);
            answers += 1;
        }
        if let Some(set) = &difference.set {
            self.put_query(&mut out, set);
            answers += 1;
        }
        self.stream.write_all(&out).await?;
        let mut buffer = Buffer::default();
        if let (Some(departure), Some(uncollected)) = (departure, uncollected) {
            let delivered = self.deliver_answers(&mut buffer, departure, uncollected).await;
            delivered.map_err(|error| match error {
                BackendError::Server(error) => BackendError::Keeps(error),
                error => error,
            })?;
        }
        if questions.late {
            self.read_late_reports(&mut buffer).await?;
        }
        for _ in 0..answers_before {
            self.answer(&mut buffer).await?;
        }
        if questions.own_values {
            self.read_own_reports(&mut buffer).await?;
        }
        let mut gone = None;
        for number in 0..answers {
            match self.answer(&mut buffer).await {
                // As for a client whose schema is dropped by another one: it stays what it is.
                Err(BackendError::Server(error))
                    if error.is_about_lost_schema() && schema_at == Some(number) =>
                {
                    gone = Some(error).filter(|_| !difference.schema_again);
                }
                answer => {
                    answer?;
                }
            }
        }
        Ok(gone)
    }

    /// Makes the session read only: from its next transaction on, which may be a single statement, the server refuses whatever
    /// may change a table, before it does anything. The next alignment undoes it.
    ///
    /// # Errors
    /// The server's, which may not know the variable.
    pub async fn make_read_only(&mut self, limit: Duration) -> Result<(), BackendError> {
        let name = match self.login.family {
            Family::MariaDb => "tx_read_only",
            Family::MySql => "transaction_read_only",
        };
        self.execute(&format!("SET SESSION {name} = 1"), limit).await?;
        Arc::make_mut(&mut self.login.state).set_text(name, b"ON");
        Ok(())
    }

    /// `COM_PING`.
    ///
    /// # Errors
    /// If there is no OK within `limit`.
    pub async fn ping(&self, limit: Duration) -> Result<(), BackendError> {
        self.command(Command::Ping, &[], limit).await.map(|_| ())
    }

    /// `COM_RESET_CONNECTION`: rolls back, releases locks, temporary tables, prepared statements and variables. The
    /// schema stays.
    ///
    /// # Errors
    /// The server's; then the connection must be closed.
    pub async fn reset(&mut self, limit: Duration) -> Result<(), BackendError> {
        if self.login.spoiled_by_reset {
            return Err(BackendError::NoReset);
        }
        // Before anything is taken over from the server.
        let read = self.login.server.figures.defaults.read();
        self.command(Command::ResetConnection, &[], limit).await?;
        self.login.defaults.session_began(read);
        // Whether the character sets are those of the login or the server's defaults depends on the server. Neither is
        // assumed: a state without them differs from every client's.
        self.login.state = Arc::new(self.login.state.after_reset());
        self.login.uncollected = None;
        self.login.reset();
        self.forget_traces(limit).await?;
        self.begin_session_again(limit).await
    }

    /// Removes the texts of statements that a server keeps for the session over a reset and over a change of the user: profiles
    /// on MariaDB, optimizer traces on MySQL. Whether there are any nobody can see: a routine may have switched them on.
    async fn forget_traces(&self, limit: Duration) -> Result<(), BackendError> {
        let statements: &[&str] = match self.login.family {
            // Setting it, to whatever, removes the traces.
            Family::MySql => &["SET optimizer_trace_limit = DEFAULT"],
            // The history is cut to its size at the end of a statement that is profiled.
            Family::MariaDb => &[
                "SET profiling = 1, profiling_history_size = 0",
                // The first that is profiled from its beginning, if profiling was off.
                "DO 0",
                "SET profiling = 0, profiling_history_size = DEFAULT",
            ],
        };
        for statement in statements {
            match self.execute(statement, limit).await {
                // A server without them.
                Ok(()) | Err(BackendError::Server(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// `COM_CHANGE_USER`: a new login on the same socket; the session is as after a first login, without a schema.
    ///
    /// # Errors
    /// The server's, such as 1045; then the server closes the connection.
    pub async fn change_user(&mut self, want: &Want, limit: Duration) -> Result<(), BackendError> {
        self.collect_diagnostics(limit).await?;
        if self.login.spoiled_by_reset {
            return Err(BackendError::NoReset);
        }
        let read = self.login.server.figures.defaults.read();
        let proving = self.proving(want, limit).await?;
        let collation = Collation::by_id(super::connect::FALLBACK_COLLATION, self.login.family)
            .expect("the table has the fallback");
        let (nonce, plugin) = &self.login.greeting;
        let (mut exchange, first) =
            super::connect::exchange((&self.stream, self.login.verifies), nonce, plugin, &proving);
        let request = ChangeUser {
            user: want.account.row.username.clone().into_bytes(),
            auth_response: first.auth_response,
            schema: None,
            charset: Some(collation.id),
            plugin: Some(first.plugin.as_bytes().to_vec()),
            attributes: ConnectAttributes::clone(&want.about),
        };
        let mut out = Vec::with_capacity(256);
        put_encoded(&mut out, &mut 0, |out| request.encode(self.login.capabilities, out));
        let mut buffer = Buffer::default();
        let log_in = async {
            self.stream.write_all(&out).await?;
            super::connect::log_in(&self.stream, &mut buffer, &mut exchange).await
        };
        let changed = timeout(limit, log_in).await.unwrap_or(Err(BackendError::Timeout));
        changed.map_err(|error| proving.explained(error))?;
        self.login.greeting.0 = *exchange.nonce();
        self.login.defaults = read;
        self.login.account = Arc::clone(&want.account);
        let mut state = SessionState::after_login(collation.charset, Some(collation.name));
        state.multi_statements = self.login.state.multi_statements;
        self.login.state = Arc::new(state);
        self.login.reset();
        self.forget_traces(limit).await?;
        self.begin_session_again(limit).await
    }

    /// Fetches what the connection keeps for another client, before that is lost.
    ///
    /// # Errors
    /// As [`Backend::align`]; the connection is closed.
    pub async fn collect_diagnostics(&mut self, limit: Duration) -> Result<(), BackendError> {
        self.drop_unwanted_diagnostics();
        match self.login.uncollected.take() {
            Some(uncollected) => {
                let nothing = Difference::default();
                let asked = self.send_difference(&nothing, Some(uncollected), ReportQuestions::default());
                let collected = timeout(limit, asked).await.unwrap_or(Err(BackendError::Timeout));
                if collected.is_err() {
                    // Further answers may follow, which nobody must take for those to his own questions.
                    self.card().cut_off("what it kept for its last client could not be read");
                }
                collected.map(drop)
            }
            None => Ok(()),
        }
    }

    /// The session's status flags, read with a `COM_PING`.
    ///
    /// # Errors
    /// As [`Backend::ping`].
    pub async fn status(&self, limit: Duration) -> Result<Status, BackendError> {
        match self.command(Command::Ping, &[], limit).await? {
            Answer::Ok(status) => Ok(status),
            Answer::Eof => Err(narrows_wire::Malformed("EOF for a ping").into()),
        }
    }

    pub(super) async fn command(
        &self,
        command: Command,
        argument: &[u8],
        limit: Duration,
    ) -> Result<Answer, BackendError> {
        let run = async {
            let mut out = Vec::with_capacity(argument.len() + 5);
            put_command(&mut out, command, argument);
            self.stream.write_all(&out).await?;
            self.answer(&mut Buffer::default()).await
        };
        timeout(limit, run).await.unwrap_or(Err(BackendError::Timeout))
    }

    /// Appends a `COM_QUERY` in the form this connection has negotiated.
    pub(super) fn put_query(&self, out: &mut Vec<u8>, statement: impl AsRef<[u8]>) {
        put_encoded(out, &mut 0, |out| {
            out.push(Command::Query.code());
            if self.login.capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
                out.extend(narrows_wire::query::NO_ATTRIBUTES);
            }
            out.extend_from_slice(statement.as_ref());
        });
    }
}

/// Appends a `COM_PING`.
pub(super) fn put_ping(out: &mut Vec<u8>) {
    put_command(out, Command::Ping, &[]);
}

fn put_command(out: &mut Vec<u8>, command: Command, argument: &[u8]) {
    put_encoded(out, &mut 0, |out| {
        out.push(command.code());
        out.extend_from_slice(argument);
    });
}
