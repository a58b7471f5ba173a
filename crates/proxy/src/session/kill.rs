//! Killing: other clients' statements and connections on their wish, and what a vanished client left running.

use std::rc::Rc;
use std::sync::Arc;

use narrows_sql::{KillKind, KillTarget};
use narrows_wire::Errno;

use super::{End, Interrupt, Session};
use crate::backend::{Backend, kill};
use crate::rt::{Instant, oneshot, spawn_local};
use crate::worker::{KillAnswer, Message};

impl Session {
    /// `KILL` and `COM_PROCESS_KILL`: ids are Narrows' own, on whatever worker the session is.
    pub(super) async fn kill(&mut self, target: KillTarget) -> Result<(), End> {
        if let Ok(id) = u32::try_from(target.id) {
            if id == self.handle.id {
                return self.kill_self(target.kind).await;
            }
            for worker in 0..self.worker.peers.workers() {
                let (answer, reply) = oneshot::channel();
                let username = self.want.account.row.username.clone();
                self.worker.peers.send(worker, Message::Kill { id, kind: target.kind, username, answer });
                match reply.await {
                    Ok(KillAnswer::Done) => return self.reply_ok("").await,
                    Ok(KillAnswer::NotOwner) => {
                        let text = format!("You are not owner of thread {id}");
                        return self.reply_error(Errno::KILL_DENIED_ERROR, &text).await;
                    }
                    Ok(KillAnswer::Unknown) | Err(_) => {}
                }
            }
        }
        let text = format!("Unknown thread id: {}", target.id);
        self.reply_error(Errno::NO_SUCH_THREAD, &text).await
    }

    /// As a server does: the statement that kills its own connection is answered with an error.
    async fn kill_self(&mut self, kind: KillKind) -> Result<(), End> {
        let errno = Errno { number: 1927, sqlstate: *b"70100" };
        match kind {
            KillKind::Query => {
                self.reply_error(Errno::QUERY_INTERRUPTED, "Query execution was interrupted").await
            }
            KillKind::Connection => {
                self.reply_error(errno, "Connection was killed").await?;
                Err(End::Interrupted(Interrupt::KillConnection))
            }
        }
    }

    /// Kills the statement that runs on `backend`, over another connection. The receiver resolves when that is done, or has
    /// failed: until then the connection must not serve anybody else. It yields an error where the kill may still
    /// arrive: the connection must not serve anybody any more then.
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
        let limit_ms = self.snapshot().variables.kill_timeout_server.as_millis();
        let text =
            "a server does not end a killed statement (mysql-kill_timeout_server); its connection is closed";
        tracing::warn!(id = self.handle.id, server, thread_id, limit_ms, "{text}");
    }

    /// The client is gone and its statement runs: kills it, so that the server does not work for nobody. The
    /// connection is closed; its place under `max_connections` is free when the server has let go.
    pub(super) fn abandon(&self, backend: Backend) {
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
