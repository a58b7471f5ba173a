//! A client's session: reads a command, dispatches it and replies, until the client disconnects or is disconnected.

mod aside;
mod audit;
mod begin_again;
mod binding;
mod cached;
mod causal;
mod command;
mod connection;
mod count;
mod data;
mod detach;
mod dry_run;
mod effects;
mod errors;
mod execute;
mod fast_forward;
mod fault;
mod information;
mod internal;
mod job;
mod kill;
mod lease;
mod lost;
mod outcome;
mod patience;
mod prepared;
mod query;
mod record;
mod relay;
mod replay;
mod request;
mod sequences;
mod settle;
mod statements;
mod upload;
mod verification;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use narrows_wire::{Errno, Status};

use crate::backend::Want;
use crate::buffer::Side;
use crate::cache::Recording;
use crate::client::{AccountPlace, LoggedIn, first_status};
use crate::hot_restart::RestoredSession;
use crate::pool::Lease;
use crate::reply::put_error;
use crate::rt::{Instant, select};
use crate::state::{SessionState, SharedState};
use crate::worker::{Handle, Interrupt, LocalSnapshot, Worker};

use binding::{Binding, Pinned};
pub(crate) use cached::may_be_kept;
use causal::Written;
use connection::ClientConnection;
use data::{Apart, SessionData};
pub(crate) use effects::expected;
pub use effects::{PinReason, Pins};
use information::Information;
use job::Job;
use patience::Patience;
use statements::ClientStatements;

/// One client's session: its connection, its data, the backend connections that it keeps, and the command that runs.
pub struct Session {
    worker: Rc<Worker>,
    handle: Rc<Handle>,
    account: AccountPlace,
    /// What the pool is asked for in this client's name.
    want: Want,
    client: ClientConnection,
    data: SessionData,
    binding: Binding,
    run: Running,
}

/// The initial state of a session: that of a login, or one that another process has left.
struct Resumed {
    state: SharedState,
    status: Status,
    information: Information,
    written: Written,
}

impl Resumed {
    fn at_login(state: &SharedState, status: Status) -> Resumed {
        let (information, written) = Default::default();
        Resumed { state: Arc::clone(state), status, information, written }
    }

    fn of(restored: RestoredSession, worker: &Worker, login: &SharedState) -> Resumed {
        // It was written by this version of the program.
        let state = SessionState::read(&restored.state);
        let state = state.map_or_else(|| Arc::clone(login), |state| worker.shared_state(state));
        let information = Information::resumed(restored.inserted, restored.used);
        Resumed { state, status: Status(restored.status), information, written: Written::unknown() }
    }
}

/// Why a session is over.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("COM_QUIT")]
    Quit,
    #[error("the client has disconnected")]
    Gone,
    #[error("{0:?}")]
    Interrupted(Interrupt),
    /// The client has received this error.
    #[error("{0}")]
    ErrorSent(String),
}

/// The command that runs.
#[derive(Default)]
struct Running {
    /// The configuration of the current command, by which it is routed and its effects are applied. Each attempt to run it
    /// uses the servers of the configuration in force.
    snapshot: Option<LocalSnapshot>,
    /// When the current command ended, if it has. The clock is read once for all callers.
    ended: Option<Instant>,
    /// How long the login took, until the first command.
    login_time: Option<std::time::Duration>,
    /// The current statement's entry in the query log.
    record: Option<Box<crate::query_log::Record>>,
    /// What the query cache will store of its result.
    recording: RefCell<Option<Box<Recording>>>,
    /// The former process may have sent the command to a server already.
    may_have_run: bool,
}

impl Session {
    /// The session of a client that has just logged in. Boxed, because a future that owns a value reserves space for it
    /// twice.
    pub fn new(worker: Rc<Worker>, client: LoggedIn) -> Box<Session> {
        let username = &client.account.account.row.username;
        let handle = Handle::new(client.id, username, client.peer, &client.state);
        worker.enter(&handle);
        let mut input = client.input;
        let login_time = client.restored.is_none().then_some(client.login_time);
        let may_have_run = client.restored.as_ref().is_some_and(|restored| !restored.pending.is_empty());
        let Resumed { state, status, information, written } = match client.restored {
            Some(restored) => {
                input.append(&restored.pending);
                Resumed::of(restored, &worker, &client.state)
            }
            None => {
                let status = first_status(&worker.snapshot(), &client.want.account);
                Resumed::at_login(&client.state, status)
            }
        };
        let connection = ClientConnection {
            worker: Rc::clone(&worker),
            handle: Rc::clone(&handle),
            transaction_since: None,
            expires: expires(&client.account, handle.logged_in()),
            local: client.stream.local(),
            stream: client.stream,
            // A client that has sent nothing after its login does not keep the buffer.
            input: Some(input).filter(|input| !input.is_empty()).unwrap_or_default(),
            patience: Patience::of(&state, client.capabilities),
            capabilities: client.capabilities,
            nonce: client.nonce,
            pace: Cell::default(),
            throttled_until: Cell::default(),
        };
        let data = SessionData {
            state,
            apart: None,
            login_state: client.state,
            schema_is_gone: false,
            state_is_refused: false,
            status,
            status_is_told: false,
            warnings: 0,
            information,
            written,
            statements: ClientStatements::default(),
            has_begun: Cell::default(),
            untold_changes: RefCell::default(),
            next_flag_in: 0,
            dry_run_flag_in: None,
        };
        Box::new(Session {
            handle,
            want: client.want,
            account: client.account,
            client: connection,
            data,
            binding: Binding::default(),
            run: Running { login_time, may_have_run, ..Running::default() },
            worker,
        })
    }

    /// Serves commands until the session is over, and cleans up.
    pub async fn run(mut self: Box<Self>) {
        let end = self.serve().await;
        self.audit_end(&end);
        match &end {
            End::Quit => {}
            End::Interrupted(Interrupt::Shutdown) => {}
            end => {
                self.worker.counters.borrow_mut().aborted_clients += 1;
                let user = &self.want.account.row.username;
                let client = &self.handle.peer.0;
                tracing::info!(id = self.handle.id, user, client, reason = %end, "session ended");
            }
        }
        if let End::Interrupted(reason) = end
            && let Some(text) = self.farewell(reason)
        {
            let mut out = Vec::with_capacity(128);
            put_error(&mut out, &mut 0, text.0, text.1);
            self.worker.counters.borrow_mut().generated_errors += 1;
            // A client that does not read is disconnected without the error.
            let _ = Box::pin(crate::rt::timeout(FAREWELL_LIMIT, self.client.stream.write_all(&out))).await;
        }
    }

    async fn serve(&mut self) -> End {
        if self.want.account.row.fast_forward {
            // It is unknown which of its bytes a server has received.
            if let Some(tracked) = self.client.stream.tracked() {
                tracked.forget();
            }
            self.begin_rest();
            self.client.set_idle_deadline(self.handle.since());
            if let Err(end) = self.next_bytes().await {
                return end;
            }
            if let Some(end) = Box::pin(self.fast_forward()).await {
                return end;
            }
        }
        self.begin_rest();
        loop {
            self.client.set_idle_deadline(self.handle.since());
            if let Err(end) = self.next_bytes().await {
                return end;
            }
            // Boxed, so that an idle client's task does not hold the memory that a command needs.
            if let Err(end) = Box::pin(self.commands()).await {
                return end;
            }
            if self.client.expires.is_some() && self.client.has_aged(Instant::now()) {
                return End::Interrupted(Interrupt::Aged);
            }
        }
    }

    /// Waits for the beginning of the next command.
    async fn next_bytes(&mut self) -> Result<(), End> {
        loop {
            if self.worker.ends_now(&self.handle) {
                return Err(End::Interrupted(Interrupt::Shutdown));
            }
            if !self.client.input.is_empty() {
                return Ok(());
            }
            select! {
                biased;
                reason = self.handle.interrupted() => match reason {
                    // There is nothing to kill.
                    Interrupt::KillQuery | Interrupt::QueryTime | Interrupt::KillTime => {
                        self.client.go_on_after_kill();
                        continue;
                    }
                    Interrupt::Drain => continue,
                    reason => return Err(End::Interrupted(reason)),
                },
                ready = self.client.stream.readable() => ready.map_err(|_| End::Gone)?,
            }
            if self.client.input.capacity() == 0 {
                self.client.input = self.worker.buffers.small(Side::Client);
            }
            match self.client.input.try_fill(&self.client.stream) {
                Ok(0) => return Err(End::Gone),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.worker.buffers.give_back(std::mem::take(&mut self.client.input));
                }
                Err(_) => return Err(End::Gone),
            }
        }
    }

    /// The current command, if there is one, has ended.
    fn begin_rest(&mut self) {
        self.rest();
        self.run.snapshot = None;
        self.run.may_have_run &= self.handle.commands() == 0;
        self.note_rest();
    }

    /// Sends an error of our own as the whole answer to a command of one packet.
    async fn reply_error(&mut self, errno: Errno, text: &str) -> Result<(), End> {
        self.reply_error_at(1, errno, text).await
    }

    /// The same with a sequence number, for commands that may have had several packets.
    async fn reply_error_at(&mut self, sequence: u8, errno: Errno, text: &str) -> Result<(), End> {
        self.note_own_error(errno, text);
        self.client.send_error(sequence, errno, text).await
    }

    /// Sends an OK packet of our own as the whole answer to a command.
    async fn reply_ok(&self, info: &str) -> Result<(), End> {
        let ok = narrows_wire::packet::Ok {
            header: narrows_wire::packet::Ok::HEADER,
            affected_rows: 0,
            last_insert_id: 0,
            status: self.data.status,
            warnings: self.data.warnings,
            info: info.as_bytes(),
            session_state: b"",
        };
        let mut out = Vec::with_capacity(64);
        narrows_wire::frame::put_encoded(&mut out, &mut 1, |out| ok.encode(out, self.client.capabilities));
        if let Some(tracked) = self.client.stream.tracked() {
            tracked.answer_ends(out.len(), false);
        }
        self.client.send(&out).await
    }

    /// The error that a client receives before it is disconnected.
    /// The error that a client receives before it is disconnected.
    fn farewell(&self, reason: Interrupt) -> Option<(Errno, &'static str)> {
        let snapshot = self.snapshot();
        let is_own = self.client.patience.idle.is_some_and(|own| own < snapshot.variables.wait_timeout);
        match farewell(reason) {
            Some((errno, _)) if is_own && reason == Interrupt::Idle => {
                Some((errno, "The client was disconnected because of inactivity (its own wait_timeout)"))
            }
            farewell => farewell,
        }
    }

    /// The state into which a connection is aligned for a command.
    fn state_for(&mut self, job: &Job) -> SharedState {
        if !job.apart {
            return Arc::clone(&self.data.state);
        }
        if let Some(apart) = &self.data.apart
            && Arc::ptr_eq(&apart.of, &self.data.state)
        {
            return Arc::clone(&apart.state);
        }
        let mut state = (*self.data.state).clone();
        state.set_text("autocommit", b"ON");
        let state = self.worker.shared_state(state);
        self.data.apart = Some(Apart { of: Arc::clone(&self.data.state), state: Arc::clone(&state) });
        state
    }

    /// Records for the next process what it needs to continue this session.
    fn note_rest(&self) {
        let Some(tracked) = self.client.stream.tracked() else { return };
        let is_free = self.binding.pinned.is_none()
            && self.binding.aside.is_empty()
            && self.data.statements.is_empty()
            && self.client.transaction_since.is_none()
            && !self.data.status.contains(Status::IN_TRANS)
            && self.data.next_flag_in == 0
            && !self.binding.multiplexing_off;
        if is_free {
            tracked.rests(
                self.client.input.filled().len(),
                self.data.status.0,
                self.data.information.insert_id.may_be_set(),
                &self.data.state,
            );
        } else {
            tracked.is_tied();
        }
    }

    /// Records that the current command must not run again.
    fn note_tie(&self) {
        if let Some(tracked) = self.client.stream.tracked() {
            tracked.is_tied();
        }
    }

    /// Resets the session to a given state, and returns all its backend connections.
    fn start_over(&mut self, state: SharedState) {
        let mut pinned = self.binding.pinned.take();
        self.binding.record = None;
        self.data.information.start_over(pinned.as_mut().map(|pinned| &mut *pinned.backend));
        if let Some(pinned) = pinned {
            self.recycle(pinned.backend, &pinned.pins);
        }
        self.recycle_aside();
        self.handle.lets_go();
        self.data.state = state;
        self.note_patience();
        self.data.status = first_status(&self.snapshot(), &self.want.account);
        self.data.status_is_told = false;
        self.data.untold_changes.get_mut().clear();
        self.data.warnings = 0;
        self.data.statements.clear();
        self.client.transaction_since = None;
        self.data.next_flag_in = 0;
        self.data.dry_run_flag_in = None;
        self.binding.multiplexing_off = false;
    }

    /// Resets a connection and returns it to the pool, or closes it.
    fn recycle(&self, backend: Lease, pins: &Pins) {
        backend.settle(pins.exit_of_session(), &self.worker.pool, &self.want, Instant::now());
    }

    /// The configuration of the current command, or the one in force if no command runs.
    fn snapshot(&self) -> LocalSnapshot {
        self.run.snapshot.clone().unwrap_or_else(|| self.worker.snapshot())
    }
}

impl Drop for Session {
    /// However a session ends, its backend connections are reset before they are used again. After a panic they are
    /// closed, because their state is unknown.
    fn drop(&mut self) {
        self.worker.leave(&self.handle);
        if std::thread::panicking() {
            return;
        }
        self.recycle_aside();
        if let Some(pinned) = self.binding.pinned.take() {
            self.recycle(pinned.backend, &pinned.pins);
        }
    }
}

/// When a client has to log in again that has logged in then.
fn expires(account: &AccountPlace, logged_in: Instant) -> Option<Instant> {
    let ages = [account.account.login.max_age, account.lasts];
    ages.into_iter().flatten().min().map(|age| logged_in + age)
}

fn farewell(reason: Interrupt) -> Option<(Errno, &'static str)> {
    let inactivity = Errno { number: 4031, sqlstate: *b"HY000" };
    match reason {
        Interrupt::Idle => {
            Some((inactivity, "The client was disconnected because of inactivity (mysql-wait_timeout)"))
        }
        Interrupt::TransactionIdle => Some((
            inactivity,
            "The client was disconnected because its transaction was idle (mysql-max_transaction_idle_time); it was rolled back",
        )),
        Interrupt::TransactionTime => Some((
            inactivity,
            "The client was disconnected because its transaction took too long (mysql-max_transaction_time); it was rolled back",
        )),
        Interrupt::Aged => Some((
            inactivity,
            "The client was disconnected because its login is too old (max_connection_age_s of the account, or the end of its token)",
        )),
        Interrupt::Shutdown => Some((Errno::SERVER_SHUTDOWN, "Narrows is shutting down")),
        Interrupt::KillConnection
        | Interrupt::KillQuery
        | Interrupt::QueryTime
        | Interrupt::KillTime
        | Interrupt::Drain
        | Interrupt::LongRest => None,
    }
}

/// How long a client that is disconnected has to read the reason.
const FAREWELL_LIMIT: std::time::Duration = std::time::Duration::from_secs(1);
