//! Limits on prepared statements: `max_stmts_per_connection`, `max_stmts_cache`, and a server's own
//! `max_prepared_stmt_count`, which applies to all of its clients together; and how many bytes those of one client may take
//! in Narrows.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use narrows_wire::Errno;

use super::super::Session;
use super::super::outcome::Broken;
use super::super::statements::BYTES_OF_STATEMENT;
use crate::backend::{Backend, BackendError, ServerError};
use crate::hostgroup::ServerFigures;
use crate::prepared;
use crate::rt::sleep;
use crate::snapshot::{Snapshot, Variables};

/// Attempts to prepare a statement when the server has too many: other workers' connections, and the server itself, need
/// a moment to close some.
pub(in super::super) const TRIES: u32 = 8;

impl Session {
    /// Makes room on a connection for one more statement.
    pub(super) async fn make_room(&mut self, backend: &mut Backend) -> Result<(), Broken> {
        let snapshot = self.snapshot();
        self.watch_limit(backend).await?;
        let figures = Arc::clone(&backend.login.server.figures);
        let statements = &mut backend.login.statements;
        if prepared::living() > snapshot.variables.max_stmts_cache as u64 {
            statements.close_unused();
        }
        statements.make_room(share(&figures, &snapshot.variables));
        Ok(())
    }

    /// Asks the server for its limit, from time to time.
    async fn watch_limit(&mut self, backend: &mut Backend) -> Result<(), Broken> {
        let figures = Arc::clone(&backend.login.server.figures);
        let now = self.worker.peers.started.elapsed().as_secs() + 1;
        let at = figures.prepared_limit_at.load(Ordering::Relaxed);
        let due = at == 0 || now >= at + WATCH_SECONDS;
        let mine = || {
            figures.prepared_limit_at.compare_exchange(at, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        if !due || !mine() {
            return Ok(());
        }
        let limit = self.snapshot().variables.connect_timeout_server_max;
        // The question takes the place of the client's last statement.
        let unsent = |error: BackendError| Broken::Unsent { text: error.to_string() };
        self.take_what_is_here(backend).await.map_err(unsent)?;
        self.data.information.is_disturbed();
        match backend.prepared_limit(limit).await {
            Ok(Some(most)) => figures.prepared_limit.store(most.max(1), Ordering::Relaxed),
            Ok(None) | Err(BackendError::Server(_)) => {}
            Err(error) => return Err(Broken::Unsent { text: error.to_string() }),
        }
        Ok(())
    }

    /// The server has too many statements: closes those of this connection and of idle ones, and waits a little.
    pub(in super::super) async fn relieve(&self, backend: &mut Backend, tries: u32) -> Result<(), Broken> {
        backend.login.server.figures.prepared_limit_at.store(0, Ordering::Relaxed);
        backend.login.statements.make_room(1);
        let closings = backend.login.statements.take_closings();
        self.write_to_server(backend, &closings).await?;
        self.worker.pool.close_statements_of(&backend.login.server.figures, self.worker.peers.workers());
        sleep(FIRST_WAIT * 2_u32.pow(tries)).await;
        Ok(())
    }

    /// The error for a client that has more statements open than a server would allow.
    pub(super) fn too_many_statements(&self, backend: &Backend) -> Option<ServerError> {
        let server = backend.login.server.figures.prepared_limit.load(Ordering::Relaxed);
        let most = server.max(DEFAULT_LIMIT);
        if (self.data.statements.open.len() as u64) < most {
            return None;
        }
        let text =
            format!("Can't create more than max_prepared_stmt_count statements (current value: {most})");
        Some(ServerError::of(TOO_MANY_STATEMENTS, &text))
    }

    /// Whether a client may have one more statement, with a text of this many bytes.
    pub(super) fn check_statement_bytes(
        &self,
        snapshot: &Snapshot,
        text: usize,
    ) -> Result<(), (Errno, String)> {
        let most = snapshot.variables.max_stmts_bytes_per_client;
        if self.data.statements.bytes + BYTES_OF_STATEMENT + text <= most {
            return Ok(());
        }
        let text = format!(
            "Can't create more prepared statements than mysql-max_stmts_bytes_per_client bytes (current value: {most})"
        );
        Err((TOO_MANY_STATEMENTS, text))
    }
}

/// The error code of both limits.
const TOO_MANY_STATEMENTS: Errno = Errno { number: 1461, sqlstate: *b"42000" };

/// How many statements a connection may have: `max_stmts_per_connection`, or its share of the server's limit if that is
/// nearly reached.
fn share(figures: &ServerFigures, variables: &Variables) -> usize {
    let most = variables.max_stmts_per_connection;
    let limit = figures.prepared_limit.load(Ordering::Relaxed);
    if limit == 0 || figures.prepared.load(Ordering::Relaxed) < limit - limit / 8 {
        return most;
    }
    let connections = u64::from(figures.connections()).max(1);
    let share = (limit - limit / 8) / connections;
    usize::try_from(share).unwrap_or(most).clamp(1, most)
}

/// Interval at which a server is asked for its limit. It seldom changes, and error 1461 shows that it is reached.
const WATCH_SECONDS: u64 = 60;

/// The servers' default (manual: `max_prepared_stmt_count`).
const DEFAULT_LIMIT: u64 = 16_382;

const FIRST_WAIT: Duration = Duration::from_millis(2);
