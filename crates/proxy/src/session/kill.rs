//! Killing: other clients' statements and connections on their wish, and what a vanished client left running.
//!
//! No `KILL` of a client reaches a server: numbers of sessions are Narrows' own, and a server would end whatever has the same
//! number there. What cannot be read off a text (a `CALL` of a routine that kills, the part of a text beyond what is looked
//! at) ends nobody either: sessions have numbers that a server's connections hardly ever have, see
//! `Peers::next_connection_id`.

use std::rc::Rc;
use std::sync::Arc;

use narrows_sql::{Escapes, Flags, KillId, KillKind, KillTarget, Killing, Kind, Statement};
use narrows_wire::{Errno, Status};

use super::{End, Interrupt, Session};
use crate::backend::{Backend, kill};
use crate::pool::Lease;
use crate::route::PREPARED_KILL;
use crate::rt::{Instant, oneshot, spawn_local};
use crate::worker::{Kill, KillAnswer};

/// What a text says of killing.
pub(super) enum Kills {
    /// Nothing.
    Nobody,
    /// It is a `KILL`.
    Alone(KillTarget),
    /// These come first, and then this text.
    First(Vec<KillTarget>, Vec<u8>),
    /// It cannot be done here, and must not be done by a server.
    Refused(Errno, &'static str),
}

impl Session {
    /// What `text` says of killing.
    pub(super) fn read_kills(&self, statement: &Statement, text: &[u8], whole: bool) -> Kills {
        let prepares = matches!(statement.kind, Kind::Prepare | Kind::Execute);
        let suspect = statement.flags.intersects(Flags::KILL)
            || prepares && statement.flags.intersects(Flags::USER_VARIABLE)
            || statement.flags.intersects(Flags::ESCAPED_QUOTE)
                && self.data.status.contains(Status::NO_BACKSLASH_ESCAPES);
        match suspect {
            true => self.read_suspect(statement, text, whole),
            false => Kills::Nobody,
        }
    }

    fn read_suspect(&self, read: &Statement, text: &[u8], whole: bool) -> Kills {
        let escapes = match self.data.status.contains(Status::NO_BACKSLASH_ESCAPES) {
            true => Escapes::None,
            false => Escapes::Backslash,
        };
        let statement = narrows_sql::classify_with(text, escapes);
        let kills = |literal: &str| narrows_sql::literal_kills(literal.as_bytes());
        if let Some(name) = narrows_sql::prepared_variable(text, escapes)
            && self.data.state.user_variable(name).is_some_and(kills)
        {
            return Kills::Refused(PREPARED_KILL.0, PREPARED_KILL.1);
        }
        let by_escapes = self.data.status.contains(Status::NO_BACKSLASH_ESCAPES)
            && read.flags.contains(Flags::ESCAPED_QUOTE)
            && text.is_ascii();
        if read.flags.contains(Flags::UNSURE | Flags::KILL) && !by_escapes {
            return Kills::Refused(NOT_SUPPORTED_YET, UNREADABLE_KILL);
        }
        if !statement.flags.intersects(Flags::KILL) {
            return Kills::Nobody;
        }
        let resolve = |id: KillId<'_>| match id {
            KillId::Own => Some(self.handle.id.into()),
            KillId::UserVariable(name) => self.data.state.user_variable(name)?.parse().ok(),
        };
        match narrows_sql::killing(text, escapes, &resolve) {
            Killing::Defined => Kills::Nobody,
            _ if !whole => Kills::Refused(NOT_SUPPORTED_YET, UNREADABLE_KILL),
            Killing::Alone(target) => Kills::Alone(target),
            Killing::First(..) if !self.data.state.multi_statements => {
                Kills::Refused(ONE_STATEMENT_ONLY.0, ONE_STATEMENT_ONLY.1)
            }
            Killing::First(targets, rest) => Kills::First(targets, rest),
            Killing::Unknown if statement.kind == Kind::Prepare => {
                Kills::Refused(PREPARED_KILL.0, PREPARED_KILL.1)
            }
            Killing::Unknown => Kills::Refused(NOT_SUPPORTED_YET, UNREADABLE_KILL),
        }
    }

    /// `KILL` and `COM_PROCESS_KILL`: ids are Narrows' own, on whatever worker the session is.
    pub(super) async fn kill(&mut self, target: KillTarget) -> Result<(), End> {
        if self.kill_first(&[target]).await? { self.reply_ok("").await } else { Ok(()) }
    }

    /// Kills what comes before other statements, in order. False: one could not be killed, and the client was told why.
    pub(super) async fn kill_first(&mut self, targets: &[KillTarget]) -> Result<bool, End> {
        for target in targets {
            if target.id == u64::from(self.handle.id) {
                self.kill_self(target.kind).await?;
                return Ok(false);
            }
            if let Err((errno, text)) = self.end_session(*target).await {
                self.reply_error(errno, &text).await?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends another session, or its statement; the error is for the client.
    async fn end_session(&self, target: KillTarget) -> Result<(), (Errno, String)> {
        if let Ok(id) = u32::try_from(target.id) {
            for worker in 0..self.worker.peers.workers() {
                let (answer, reply) = oneshot::channel();
                let username = self.want.account.row.username.clone();
                self.worker.peers.kills.send(worker, Kill { id, kind: target.kind, username, answer });
                match reply.await {
                    Ok(KillAnswer::Done) => return Ok(()),
                    Ok(KillAnswer::NotOwner) => {
                        return Err((Errno::KILL_DENIED_ERROR, format!("You are not owner of thread {id}")));
                    }
                    Ok(KillAnswer::Unknown) | Err(_) => {}
                }
            }
        }
        Err((Errno::NO_SUCH_THREAD, format!("Unknown thread id: {}", target.id)))
    }

    /// As a server does of the version that clients are told: the statement that kills its own connection is answered with an
    /// error, and only MariaDB has one of its own for that.
    async fn kill_self(&mut self, kind: KillKind) -> Result<(), End> {
        let version = self.snapshot().variables.server_version.to_ascii_lowercase();
        let (errno, text) = match kind {
            KillKind::Connection if version.contains("mariadb") => {
                (Errno { number: 1927, sqlstate: *b"70100" }, "Connection was killed")
            }
            _ => (Errno::QUERY_INTERRUPTED, "Query execution was interrupted"),
        };
        self.reply_error(errno, text).await?;
        match kind {
            KillKind::Query => Ok(()),
            KillKind::Connection => Err(End::Interrupted(Interrupt::KillConnection)),
        }
    }

    /// Kills the statement that runs on `backend`, over another connection. The receiver resolves when that is done, or has
    /// failed: until then the connection must not serve anybody else. It yields an error where the kill may still
    /// arrive: the connection must not serve anybody any more then.
    pub(super) fn kill_statement(&self, backend: &Backend) -> oneshot::Receiver<()> {
        self.worker.counters.borrow_mut().killed_statements += 1;
        let grace = self.snapshot().variables.transfer.kill_timeout_server;
        if !grace.is_zero() {
            self.worker.set_deadline(&self.handle, Instant::now() + grace, Interrupt::KillTime);
        }
        let (arrived, receiver) = oneshot::channel();
        let server = Arc::clone(&backend.login.server);
        let thread_id = backend.login.thread_id;
        let limit = self.snapshot().variables.connect_timeout_server;
        let want = self.want.clone();
        spawn_local(async move {
            let address = server.address();
            let killed = kill(server, &want, thread_id, false, limit).await;
            if let Err(error) = &killed {
                tracing::warn!(server = address, thread_id, %error, "cannot kill a statement");
            }
            if !killed.is_err_and(|error| error.may_arrive) {
                // Nobody waits where the session is over.
                let _ = arrived.send(());
            }
        });
        receiver
    }

    /// A server does not end a statement that was killed on it.
    pub(super) fn note_ignored_kill(&self, backend: &Backend) {
        self.worker.counters.borrow_mut().ignored_kills += 1;
        let (server, thread_id) = (backend.login.server.address(), backend.login.thread_id);
        let limit_ms = self.snapshot().variables.transfer.kill_timeout_server.as_millis();
        let text =
            "a server does not end a killed statement (mysql-kill_timeout_server); its connection is closed";
        tracing::warn!(id = self.handle.id, server, thread_id, limit_ms, "{text}");
    }

    /// The client is gone and its statement runs: kills it, so that the server does not work for nobody. The
    /// connection is closed; its place under `max_connections` is free when the server has let go.
    pub(super) fn abandon(&self, backend: Lease) {
        if !self.snapshot().variables.kill_backend_connection_when_disconnect {
            return;
        }
        let worker = Rc::clone(&self.worker);
        worker.counters.borrow_mut().killed_backends += 1;
        let limit = worker.snapshot().variables.connect_timeout_server;
        let want = self.want.clone();
        spawn_local(async move {
            let server = Arc::clone(&backend.login.server);
            let thread_id = backend.login.thread_id;
            for tries_left in (0..KILL_TRIES).rev() {
                let Err(error) = kill(Arc::clone(&server), &want, thread_id, true, limit).await else {
                    break;
                };
                let server = server.address();
                let text = "cannot kill the statement of a client that is gone";
                tracing::warn!(server, thread_id, %error, tries_left, "{text}");
            }
            drop(backend);
        });
    }
}

/// How often it is tried to kill what a vanished client has left running: a server that works for nobody is busy, and may
/// not take a connection within `connect_timeout_server`.
const KILL_TRIES: usize = 3;

/// Of a `KILL` that cannot be read.
const UNREADABLE_KILL: &str = "Narrows ends sessions by its own numbers: send KILL [CONNECTION | QUERY] with a number, alone or before \
     all other statements; KILL USER, KILL QUERY ID and expressions are not supported";

const NOT_SUPPORTED_YET: Errno = Errno { number: 1235, sqlstate: *b"42000" };

/// Of a `KILL` before other statements, for a client that may send only one at a time.
const ONE_STATEMENT_ONLY: (Errno, &str) = (
    Errno { number: 1064, sqlstate: *b"42000" },
    "You have an error in your SQL syntax; several statements in one text are not switched on",
);
