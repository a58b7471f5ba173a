//! Users with `fast_forward`: from its first command on, a client has its own backend connection, and bytes are forwarded
//! without rules, digests or multiplexing. Any client that requests a binary log is served in the same way from then on:
//! it is a replica, or reads like one, and its answer has no end.
//!
//! Only the headers and first bytes of packets are examined, to prevent two things: that a client becomes another user,
//! and that a server receives a file of the client for which no statement asked.

mod follow;

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::pin;

use narrows_wire::{Capabilities, Errno};

use super::connection::{Client, FOREVER, Stop};
use super::request::Request;
use super::{End, Interrupt, PinReason, Session};
use crate::backend::Backend;
use crate::buffer::{SMALL, Side};
use crate::capabilities::VISIBLE;
use crate::pool::{Ask, Lease, LeaseError};
use crate::rt::{Instant, select, timeout};
use crate::stream::Stream;

use follow::{Answers, Commands, Forbidden};

impl Session {
    /// Serves a client of a `fast_forward` user whose first bytes have arrived, until it disconnects. `None`: the server
    /// and the client use different forms of the protocol, so that the session must be served like any other.
    pub(super) async fn fast_forward(&mut self) -> Option<End> {
        if self.client.input.filled() == COM_QUIT {
            return Some(End::Quit);
        }
        let backend = match self.own_connection().await {
            Ok(backend) => backend,
            Err(end) => return Some(end),
        };
        let (server, client) = (backend.login.capabilities, self.client.capabilities);
        let compresses = backend.stream.is_compressed();
        if server.intersection(VISIBLE) != client.intersection(VISIBLE) || compresses != self.is_compressed()
        {
            let address = backend.login.server.address();
            tracing::warn!(
                id = self.handle.id,
                server = address,
                "no fast_forward: client and server use different forms of the protocol"
            );
            return None;
        }
        Some(self.forward_bytes(backend, "Fast forward").await)
    }

    /// `COM_BINLOG_DUMP`, `COM_BINLOG_DUMP_GTID`, `COM_REGISTER_SLAVE`: aligns the connection with the client's state, and
    /// then forwards bytes until the client disconnects.
    pub(super) async fn replicate(&mut self, request: &mut Request) -> Result<(), End> {
        if !request.whole {
            return self.unknown_command(request).await;
        }
        if let Some(tracked) = self.client.stream.tracked() {
            tracked.forget();
        }
        self.handle.keep_pins(PinReason::default());
        let backend = match self.binding.pinned.take() {
            Some(pinned) if pinned.backend.is_alive() => pinned.backend,
            Some(_) => return Err(End::ErrorSent("backend connection lost".to_owned())),
            None => self.own_connection().await?,
        };
        // A connection that was kept may be compressed, and its packets have the numbers of frames. It may also have the other
        // form of EOF packets, of which there is one at most, at the end of a log that is read without waiting: seven bytes in
        // place of five, which readers of logs take for the same.
        if backend.stream.is_compressed() && !self.is_compressed() {
            let address = backend.login.server.address();
            let text = format!(
                "{address} cannot send a binary log, because it does not support this client's form of the protocol"
            );
            self.reply_error(Errno::UNKNOWN_COM_ERROR, &text).await?;
            return Err(End::ErrorSent(text));
        }
        let user = &self.want.account.row.username;
        let server = backend.login.server.address();
        tracing::info!(id = self.handle.id, user, server, "a client reads the binary log");
        request.hand_over(&mut self.client.input);
        Err(self.forward_bytes(backend, "Binlog Dump").await)
    }

    /// A new connection in the client's state, with the client's own capabilities.
    async fn own_connection(&mut self) -> Result<Lease, End> {
        let snapshot = self.snapshot();
        let want = self.want.own(self.client.capabilities);
        let hostgroup = self.want.account.row.default_hostgroup;
        let ask = Ask::plain(&want, &self.data.state, self.handle.since());
        let found = select! {
            biased;
            found = self.worker.pool.lease(&snapshot, hostgroup, ask) => found,
            end = self.client.must_end() => return Err(end),
        };
        let failed = match found {
            Ok(mut backend) => {
                let limit = snapshot.variables.connect_timeout_server_max;
                match backend.align(&self.data.state, true, None, limit).await {
                    Ok(()) => return Ok(backend),
                    Err(error) => (Errno::SERVER_LOST, error.to_string()),
                }
            }
            Err(LeaseError::Unavailable(text)) => (Errno::NO_SERVER_IN_TIME, text),
            Err(LeaseError::Refused(error) | LeaseError::Full(error) | LeaseError::NoInit(error)) => {
                error.into_reply()
            }
        };
        self.reply_error(failed.0, &failed.1).await?;
        Err(End::ErrorSent(failed.1))
    }

    async fn forward_bytes(&mut self, backend: Lease, doing: &'static str) -> End {
        self.handle.has_backend(backend.card());
        self.handle.begins(doing, Instant::now());
        let ahead = std::mem::take(&mut self.client.input);
        let passing = Passing::new(self.client.capabilities);
        if !self.may_go(&passing, ahead.filled()) {
            return self.keep_from_server(passing.forbidden.get()).await;
        }
        self.count_forwarded(&backend, (ahead.filled().len(), 0));
        let sent = self.write_to_server(&backend, ahead.filled()).await;
        self.worker.buffers.give_back(ahead);
        match sent {
            Ok(()) => {}
            Err(Stop::End(end)) => return end,
            Err(_) => return End::ErrorSent("the server closed the connection".to_owned()),
        }
        let end = self.forward_both_ways(&backend, &passing).await;
        if passing.awaits_answer.get() {
            self.abandon(backend);
        }
        end
    }

    /// Whether bytes of the client may go to the server.
    fn may_go(&self, passing: &Passing, bytes: &[u8]) -> bool {
        let may_load = self.snapshot().variables.enable_load_data_local_infile;
        let may_hide = passing.answers.borrow().may_hide_a_file();
        let found = passing.commands.borrow_mut().follow(bytes, may_load, may_hide);
        passing.answers.borrow_mut().client_speaks();
        passing.forbidden.set(found);
        found.is_none()
    }

    /// Forwards bytes until a side ends, or something ends the session.
    async fn forward_both_ways(&self, backend: &Backend, passing: &Passing) -> End {
        let mut to_server = pin!(self.pump(&self.client.stream, (&backend.stream, Side::Backend), |bytes| {
            if !self.may_go(passing, bytes) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            passing.awaits_answer.set(bytes != COM_QUIT);
            self.count_forwarded(backend, (bytes.len(), 0));
            Ok(())
        }));
        let mut to_client = pin!(self.pump(&backend.stream, (&self.client.stream, Side::Client), |bytes| {
            passing.awaits_answer.set(false);
            passing.commands.borrow_mut().is_answered();
            passing.answers.borrow_mut().follow(bytes);
            self.count_forwarded(backend, (0, bytes.len()));
            Ok(())
        }));
        loop {
            select! {
                biased;
                moved = &mut to_server => match moved {
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                        return self.keep_from_server(passing.forbidden.get()).await;
                    }
                    moved => return after(moved, End::Gone),
                },
                // The server has closed the connection, after COM_QUIT or not: so does Narrows.
                moved = &mut to_client => return after(moved, End::Quit),
                reason = self.handle.interrupted() => {
                    if let Some(end) = self.end_of_forwarding(backend, reason, passing.awaits_answer.get()) {
                        return end;
                    }
                }
            }
        }
    }

    /// Handles an interrupt while bytes are forwarded; returns why the session ends, if it does.
    fn end_of_forwarding(&self, backend: &Backend, reason: Interrupt, awaits_answer: bool) -> Option<End> {
        match reason {
            Interrupt::KillQuery => drop(self.kill_statement(backend)),
            // The killed statement has ended, or is sending its answer.
            Interrupt::KillTime if !awaits_answer => self.client.go_on_after_kill(),
            Interrupt::KillTime => {
                self.note_ignored_kill(backend);
                return Some(End::ErrorSent("killed, and the server did not end the statement".to_owned()));
            }
            Interrupt::Drain if awaits_answer || !self.worker.ends_now(&self.handle) => {}
            Interrupt::Drain => return Some(End::Quit),
            Interrupt::LongRest => {}
            // An error packet might appear in the middle of an answer.
            Interrupt::Shutdown => return Some(End::Quit),
            reason => return Some(End::Interrupted(reason)),
        }
        None
    }

    /// Sends the client an error instead of forwarding what its server must not receive.
    async fn keep_from_server(&self, forbidden: Option<Forbidden>) -> End {
        let (sequence, errno, text) = match forbidden {
            // The file began with the sequence number after that of the server's request.
            Some(Forbidden::File { sequence }) => (
                sequence.wrapping_add(1),
                Errno { number: 1047, sqlstate: *b"HY000" },
                "Unsupported 'LOAD DATA LOCAL INFILE' command",
            ),
            // The server would check its own accounts, and not those of mysql_users.
            _ => (
                1,
                Errno::NOT_ALLOWED_COMMAND,
                "COM_CHANGE_USER is not supported for users with fast_forward: connect again",
            ),
        };
        let told = self.client.send_error(sequence, errno, text).await;
        told.err().unwrap_or_else(|| match forbidden {
            Some(Forbidden::File { .. }) => {
                tracing::warn!(
                    id = self.handle.id,
                    "a server asked for a file of a client with fast_forward, and did not receive it"
                );
                End::ErrorSent("the server asked for a file of the client that no statement named".to_owned())
            }
            _ => End::ErrorSent("COM_CHANGE_USER from a client with fast_forward".to_owned()),
        })
    }

    /// Writes to one side, which must read some bytes within a time limit.
    async fn push(&self, to: &Stream, mut bytes: &[u8], side: Side) -> io::Result<()> {
        while !to.try_write_all(&mut bytes)? {
            let limit = match side {
                Side::Client => self.client.limit(Client::Takes, true),
                Side::Backend => self.snapshot().variables.stall_timeout_server,
            };
            let limit = if limit.is_zero() { FOREVER } else { limit };
            if let Ok(ready) = timeout(limit, to.writable()).await {
                ready?;
                continue;
            }
            let mut counters = self.worker.counters.borrow_mut();
            match side {
                Side::Client => counters.stalled_clients += 1,
                Side::Backend => counters.stalled_backends += 1,
            }
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Forwards bytes in one direction until one side ends. Allocates memory only while there are any.
    async fn pump(
        &self,
        from: &Stream,
        (to, side): (&Stream, Side),
        moves: impl Fn(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let buffers = &self.worker.buffers;
        let mut streaming = false;
        loop {
            from.readable().await?;
            let mut buffer =
                if streaming { buffers.large(Side::Backend) } else { buffers.small(Side::Client) };
            let read = match buffer.try_fill(from) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    buffers.give_back(buffer);
                    continue;
                }
                read => read?,
            };
            if read == 0 {
                return Ok(());
            }
            // If a read has filled its buffer, more will follow: larger reads cost less per row.
            streaming = buffer.room() == 0 || streaming && read > SMALL;
            self.client.set_idle_deadline(Instant::now());
            moves(buffer.filled())?;
            self.push(to, buffer.filled(), side).await?;
            buffers.give_back(buffer);
        }
    }
}

/// What is known about the forwarded bytes.
struct Passing {
    commands: RefCell<Commands>,
    answers: RefCell<Answers>,
    /// What the client has sent that its server must not receive.
    forbidden: Cell<Option<Forbidden>>,
    awaits_answer: Cell<bool>,
}

impl Passing {
    fn new(capabilities: Capabilities) -> Passing {
        Passing {
            commands: RefCell::new(Commands::new(capabilities)),
            answers: RefCell::default(),
            forbidden: Cell::default(),
            awaits_answer: Cell::new(true),
        }
    }
}

/// How a session ends after one side has ended.
fn after(moved: io::Result<()>, end: End) -> End {
    match moved {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            End::ErrorSent("one side did not read within the time limit".to_owned())
        }
        _ => end,
    }
}

/// The packet with which a client disconnects; it has no answer.
const COM_QUIT: &[u8] = &[1, 0, 0, 0, 1];
