//! Reads and dispatches a command; and the commands other than `COM_QUERY`: which of them Narrows answers itself, and where
//! the others go.

use std::sync::Arc;

use narrows_sql::{Flags, KillKind, KillTarget, Kind, Statement};
use narrows_wire::charset::Family;
use narrows_wire::frame::{HEADER_LENGTH, put_encoded, put_packet};
use narrows_wire::handshake::ChangeUser;
use narrows_wire::packet::Eof;
use narrows_wire::response::Expect;
use narrows_wire::{Capabilities, Command, Errno, Header};

use super::errors::PACKET_TOO_LARGE;
use super::job::Job;
use super::request::Request;
use super::{End, Interrupt, Session};
use crate::client::about::about;
use crate::client::{self, LoginClaim};
use crate::hot_restart::Run;
use crate::rt::Instant;
use crate::snapshot::{Account, Snapshot};
use crate::state::{SCHEMA_COLLATION, SessionState};

impl Session {
    /// Serves a command and, if the session may keep a command buffer, those that follow, until none comes for a while.
    pub(super) async fn commands(&mut self) -> Result<(), End> {
        let permit = self.worker.buffer_permit();
        loop {
            self.command().await?;
            self.begin_rest();
            if permit.is_none() {
                return Ok(());
            }
            self.client.set_rest_deadline();
            match self.next_bytes().await {
                Err(End::Interrupted(Interrupt::LongRest)) => return Ok(()),
                next => next?,
            }
        }
    }

    /// Reads a command whose first bytes have arrived, and serves it.
    async fn command(&mut self) -> Result<(), End> {
        let input = std::mem::take(&mut self.client.input);
        let mut request = Request::read(&self.client, input).await?;
        self.run.snapshot = Some(self.worker.snapshot());
        self.count_command(request.code(), request.header().packet_length() as u64);
        let mut result = self.dispatch(&mut request).await;
        if !request.whole && result.is_ok() {
            // It may have been answered before all of it was read.
            result = Box::pin(self.skip(&mut request)).await;
        }
        self.count_rest(&request);
        self.client.input = request.into_rest();
        if self.client.input.is_empty() {
            self.worker.buffers.give_back(std::mem::take(&mut self.client.input));
        }
        result
    }

    /// Serves one command.
    async fn dispatch(&mut self, request: &mut Request) -> Result<(), End> {
        let limit = self.snapshot().variables.max_allowed_packet;
        if request.header().length as u64 > limit {
            self.skip(request).await?;
            let errno = Errno::NET_PACKET_TOO_LARGE;
            return self.reply_error_at(request.answer(), errno, PACKET_TOO_LARGE).await;
        }
        let Some(command) = Command::from_code(request.code()) else {
            return self.unknown_command(request).await;
        };
        self.note_command(command, request);
        match command {
            Command::Query => self.query(request).await,
            Command::Quit => Err(End::Quit),
            Command::Ping => self.reply_ok("").await,
            Command::Statistics => self.statistics().await,
            Command::SetOption => self.set_option(request).await,
            Command::ProcessKill => self.process_kill(request).await,
            Command::ChangeUser => Box::pin(self.change_user(request)).await,
            Command::ResetConnection => self.reset_connection().await,
            Command::InitDb => self.forward(request, command, Expect::Result).await,
            Command::Debug
            | Command::ProcessInfo
            | Command::FieldList
            | Command::BinlogDump
            | Command::BinlogDumpGtid
            | Command::RegisterSlave
                if !self.may_send_unlisted(&self.snapshot()) =>
            {
                self.skip(request).await?;
                let text = self.snapshot().variables.firewall_whitelist_errormsg.clone();
                self.reply_error_at(request.answer(), Errno::NOT_ALLOWED_COMMAND, &text).await
            }
            Command::Debug | Command::ProcessInfo => self.forward(request, command, Expect::Result).await,
            Command::FieldList => self.forward(request, command, Expect::Fields).await,
            Command::StmtPrepare => self.prepare(request).await,
            Command::StmtExecute | Command::StmtBulkExecute => self.execute_statement(request, command).await,
            Command::StmtReset => self.reset_statement(request).await,
            Command::StmtFetch => self.fetch(request).await,
            Command::StmtClose => self.close_statement(request).await,
            Command::StmtSendLongData => self.long_data(request).await,
            Command::BinlogDump | Command::BinlogDumpGtid | Command::RegisterSlave => {
                Box::pin(self.replicate(request)).await
            }
        }
    }

    /// Records for the next process that a command runs; a query is recorded later, because it may have to wait.
    fn note_command(&self, command: Command, request: &Request) {
        let Some(tracked) = self.client.stream.tracked() else { return };
        match command {
            Command::Query | Command::Quit => {}
            Command::Ping => tracked.runs(request.ahead(), Run::Again),
            // The recorded login is that of another user.
            Command::ChangeUser => tracked.forget(),
            _ => tracked.is_tied(),
        }
    }

    /// A command that is unknown, or not available through a proxy.
    pub(super) async fn unknown_command(&mut self, request: &mut Request) -> Result<(), End> {
        self.skip(request).await?;
        if client::family(&self.snapshot(), &self.want.account) == Some(Family::MySql) {
            // MySQL counts the error until the next statement.
            self.data.warnings = 1;
        }
        self.reply_error_at(request.answer(), Errno::UNKNOWN_COM_ERROR, "Unknown command").await
    }

    /// A command that goes to the account's default hostgroup.
    async fn forward(&mut self, request: &mut Request, command: Command, expect: Expect) -> Result<(), End> {
        let statement = Statement { kind: Kind::Other, flags: Flags::NONE };
        let mut job = Job::new(command, statement, request.whole);
        (job.hostgroup, job.expect) = (self.want.account.row.default_hostgroup, expect);
        self.execute(request, &mut job).await
    }

    /// A line about Narrows, in the format of a server's.
    async fn statistics(&mut self) -> Result<(), End> {
        let peers = &self.worker.peers;
        let text = format!(
            "Uptime: {} Threads: {}  Questions: {}  Slow queries: 0",
            peers.started.elapsed().as_secs(),
            peers.clients(),
            self.worker.counters.borrow().questions,
        );
        let mut out = Vec::with_capacity(128);
        put_packet(&mut out, &mut 1, text.as_bytes());
        self.client.send(&out).await
    }

    /// Part of the session's state: the next connection receives it.
    async fn set_option(&mut self, request: &mut Request) -> Result<(), End> {
        let on = match request.argument() {
            [0, 0] => true,
            [1, 0] => false,
            _ => return self.unknown_command(request).await,
        };
        Arc::make_mut(&mut self.data.state).multi_statements = on;
        self.data.information.note_option();
        let mut out = Vec::with_capacity(16);
        if self.client.capabilities.contains(Capabilities::DEPRECATE_EOF) {
            let ok = narrows_wire::packet::Ok {
                header: narrows_wire::packet::Ok::END_OF_ROWS,
                affected_rows: 0,
                last_insert_id: 0,
                status: self.data.status,
                warnings: self.data.warnings,
                info: b"",
                session_state: b"",
            };
            put_encoded(&mut out, &mut 1, |out| ok.encode(out, self.client.capabilities));
        } else {
            let eof = Eof { warnings: self.data.warnings, status: self.data.status };
            put_encoded(&mut out, &mut 1, |out| eof.encode(out));
        }
        self.client.send(&out).await
    }

    async fn process_kill(&mut self, request: &Request) -> Result<(), End> {
        match request.argument().first_chunk::<4>() {
            Some(id) => {
                let id = u32::from_le_bytes(*id).into();
                self.kill(KillTarget { kind: KillKind::Connection, id }).await.map(drop)
            }
            None => self.reply_error(Errno::MALFORMED_PACKET, "Malformed communication packet").await,
        }
    }

    async fn change_user(&mut self, request: &mut Request) -> Result<(), End> {
        let change = match ChangeUser::decode(request.payload(), self.client.capabilities) {
            Ok(change) => change,
            Err(_) => {
                self.reply_error(Errno::UNKNOWN_COM_ERROR, "Unknown command").await?;
                return Err(End::ErrorSent("malformed COM_CHANGE_USER".to_owned()));
            }
        };
        request.consume();
        if let Some((errno, text)) = change.charset.and_then(client::refusal_of_collation) {
            self.reply_error(errno, &text).await?;
            return Err(End::ErrorSent(
                "COM_CHANGE_USER with a character set that clients may not use".to_owned(),
            ));
        }
        let snapshot = self.snapshot();
        let asked = change.schema.as_deref();
        let multi_statements = self.data.state.multi_statements;
        // The session's state is gone even if the change fails.
        self.start_over(Arc::clone(&self.data.login_state));
        // A driver that sends no attributes is still the same program.
        let about = match change.attributes.is_empty() {
            true => Arc::clone(&self.want.about),
            false => about(&change.attributes),
        };
        let user = client::claimed_name(&change.user);
        let claim = LoginClaim {
            user,
            plugin: change.plugin.as_deref(),
            answer: &change.auth_response,
            can_switch: self.client.capabilities.contains(Capabilities::PLUGIN_AUTH),
            is_change: true,
            host: &self.handle.peer.0,
            capabilities: self.client.capabilities,
            about,
        };
        let begin = |account: &Account| {
            let mut state = self.state_after_change(&snapshot, account, change.charset, asked);
            state.multi_statements = multi_statements;
            state
        };
        let changed = client::change_user(
            &self.worker,
            &snapshot,
            (&self.client.stream, request.rest_mut()),
            &self.client.nonce,
            claim,
            asked.filter(|schema| !schema.is_empty()),
            begin,
        );
        let changed = changed.await;
        self.audit_change(user, changed.as_ref().err().map(String::as_str));
        let (place, want, state) = changed.map_err(End::ErrorSent)?;
        *self.handle.username.borrow_mut() = want.account.row.username.clone();
        (self.want, self.account) = (want, place);
        self.client.expires = super::expires(&self.account, Instant::now());
        // The first status flags are those of the new account's servers.
        self.data.login_state = Arc::clone(&state);
        self.start_over(state);
        Ok(())
    }

    /// The initial state of the session after `COM_CHANGE_USER`.
    fn state_after_change(
        &self,
        snapshot: &Snapshot,
        account: &Account,
        collation: Option<u16>,
        schema: Option<&[u8]>,
    ) -> SessionState {
        let mut state = match collation {
            Some(collation) => client::state_of_collation(snapshot, account, collation),
            None => SessionState::clone(&self.data.login_state),
        };
        state.schema = client::first_schema(snapshot, account, schema);
        state.set_default("sql_mode");
        if client::family(snapshot, account) == Some(Family::MySql) {
            client::set_login_mode(&mut state, self.client.capabilities);
        }
        state
    }

    /// As on a server: everything except the schema is as after the login.
    async fn reset_connection(&mut self) -> Result<(), End> {
        // MySQL resets the character sets to those of the server, MariaDB to those of the login.
        let family = client::family(&self.snapshot(), &self.want.account);
        let mut state = match family {
            Some(Family::MySql) => SessionState::default(),
            Some(Family::MariaDb) | None => SessionState::clone(&self.data.login_state),
        };
        state.set_default("sql_mode");
        if family == Some(Family::MySql) {
            client::set_login_mode(&mut state, self.client.capabilities);
        }
        state.schema = self.data.state.schema.clone();
        if state.schema.is_some() {
            // Servers keep the schema, but not its character set.
            state.set_literal(SCHEMA_COLLATION, "@@global.collation_database");
        }
        state.multi_statements = self.data.state.multi_statements;
        self.start_over(self.worker.shared_state(state));
        self.reply_ok("").await
    }

    /// Reads and discards the rest of a command, packet by packet.
    pub(super) async fn skip(&self, request: &mut Request) -> Result<(), End> {
        request.consume();
        loop {
            let answer = request.answer();
            while request.left() > 0 {
                let left = request.left();
                let held = request.rest_mut();
                if held.is_empty() {
                    self.client.read_more(held, answer).await?;
                }
                let step = held.filled().len().min(left);
                request.step(step);
            }
            if !request.continues() {
                return Ok(());
            }
            let held = request.rest_mut();
            self.client.hold(held, HEADER_LENGTH, answer).await?;
            let header = Header::decode(held.filled()).expect("four bytes are held");
            request.count_packet(header);
        }
    }
}
