//! Kills sessions and statements at a client's request, and the statement that a disconnected client left running.
//!
//! No `KILL` of a client reaches a server: connection ids are Narrows' own, and a server would kill its own connection with
//! the same id. A kill that cannot be seen in the text (in a routine, or in the part of a text that is not examined) hits
//! nobody either, because sessions have ids that a server's connections hardly ever have; see `Peers::next_connection_id`.

use std::rc::Rc;
use std::sync::Arc;

use narrows_sql::{KillKind, KillTarget};
use narrows_wire::Errno;

use super::{End, Interrupt, Session};
use crate::backend::{Backend, kill};
use crate::pool::Lease;
use crate::rt::{Instant, oneshot, spawn_local};
use crate::worker::{Kill, KillAnswer};

impl Session {
    /// `KILL` and `COM_PROCESS_KILL`, with an id of Narrows. The session may be on any worker. Returns the error that the client
    /// has received, if it failed.
    pub(super) async fn kill(&mut self, target: KillTarget) -> Result<Result<(), Errno>, End> {
        let killed = self.kill_all(&[target]).await?;
        if killed.is_ok() {
            self.reply_ok("").await?;
        }
        Ok(killed)
    }

    /// Carries out kills, in order, until one fails. Returns the error that the client has received for it.
    pub(super) async fn kill_all(&mut self, targets: &[KillTarget]) -> Result<Result<(), Errno>, End> {
        self.note_tie();
        for target in targets {
            if target.id == u64::from(self.handle.id) {
                return self.kill_self(target.kind).await.map(Err);
            }
            if let Err((errno, text)) = self.end_session(*target).await {
                self.reply_error(errno, &text).await?;
                return Ok(Err(errno));
            }
        }
        Ok(Ok(()))
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

    /// A client kills itself. As on a server of the version in the greeting, the statement fails with an error, for which
    /// only MariaDB has a separate code.
    async fn kill_self(&mut self, kind: KillKind) -> Result<Errno, End> {
        let version = self.snapshot().variables.server_version.to_ascii_lowercase();
        let (errno, text) = match kind {
            KillKind::Connection if version.contains("mariadb") => {
                (Errno { number: 1927, sqlstate: *b"70100" }, "Connection was killed")
            }
            _ => (Errno::QUERY_INTERRUPTED, "Query execution was interrupted"),
        };
        self.reply_error(errno, text).await?;
        match kind {
            KillKind::Query => Ok(errno),
            KillKind::Connection => Err(End::Interrupted(Interrupt::KillConnection)),
        }
    }

    /// Kills the statement that runs on `backend`, over another connection. The receiver resolves when the kill has arrived
    /// or failed; until then nobody else may use the connection. It resolves to an error if the kill may still arrive: then
    /// nobody may use the connection again.
    pub(super) fn kill_statement(&self, backend: &Backend) -> oneshot::Receiver<()> {
        self.worker.counters.borrow_mut().killed_statements += 1;
        let grace = self.snapshot().variables.kill_timeout_server;
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
                // Nobody is waiting if the session is over.
                let _ = arrived.send(());
            }
        });
        receiver
    }

    /// Counts and logs that a server has not ended a killed statement.
    pub(super) fn note_ignored_kill(&self, backend: &Backend) {
        self.worker.counters.borrow_mut().ignored_kills += 1;
        let (server, thread_id) = (backend.login.server.address(), backend.login.thread_id);
        let limit_ms = self.snapshot().variables.kill_timeout_server.as_millis();
        let text =
            "a server did not end a killed statement (mysql-kill_timeout_server); its connection is closed";
        tracing::warn!(id = self.handle.id, server, thread_id, limit_ms, "{text}");
    }

    /// Kills the statement of a client that has disconnected, and closes the connection. That no longer counts towards
    /// `max_connections` once the server has closed it too.
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
                let text = "cannot kill the statement of a client that has disconnected";
                tracing::warn!(server, thread_id, %error, tries_left, "{text}");
            }
            drop(backend);
        });
    }
}

/// Attempts to kill the statement of a disconnected client: a busy server may not accept a connection within
/// `connect_timeout_server`.
const KILL_TRIES: usize = 3;
