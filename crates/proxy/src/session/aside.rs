//! More than one backend connection for a client: those that the current statement does not run on are set aside.
//!
//! All statements of a transaction go to its connection, unless the account has `transaction_persistent=0`: then each
//! statement goes where it is routed and may open another transaction there, and a statement that ends transactions ends
//! all of them. Later statements also need not go to a connection that the client keeps only because multiplexing is off,
//! nor to one of a hostgroup other than its account's, if it is kept for what a read may have left there: the effects of
//! a stored function, a cursor.

use std::rc::Rc;

use narrows_sql::{Escapes, Flags, Kind, Statement, parts};
use narrows_wire::{Command, Errno, Status};

use super::binding::Aside;
use super::effects::PinReason;
use super::job::Job;
use super::request::Request;
use super::{End, Pinned, Session};
use crate::backend::{Backend, BackendError};
use crate::rt::{Instant, select};

/// What the current statement does to all open transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Common {
    Commit,
    Rollback,
    Savepoint,
    ReleaseSavepoint,
    RollbackToSavepoint,
}

impl Session {
    /// The connections that the session keeps.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Pinned> {
        self.binding.pinned.iter().chain(self.binding.aside.iter().map(|aside| &aside.pinned))
    }

    /// Selects the connection for a statement among those that the session keeps, or none of them if the statement
    /// belongs on another one. Most sessions keep at most one, to which all statements go.
    pub(super) fn choose_kept(&mut self, job: &Job, text: &[u8]) {
        if self.binding.pinned.is_none() && self.binding.aside.is_empty() {
            return;
        }
        if let Some(statement) = &job.prepared
            && self.choose_holder(
                statement.id,
                matches!(job.command, Command::StmtExecute | Command::StmtBulkExecute),
            )
        {
            return;
        }
        if self.binding.pinned.as_ref().is_some_and(|pinned| !self.may_be_left(pinned)) {
            return;
        }
        let open = |pinned: &Pinned| pinned.pins.reasons().intersects(PinReason::TRANSACTION);
        let open_here = self.binding.pinned.as_ref().is_some_and(open);
        let place = if (open_here || self.binding.aside.iter().any(Aside::has_transaction))
            && common(job, text).is_some()
        {
            // The oldest transaction has all savepoints.
            let others = self.binding.aside.iter().enumerate().filter(|(_, aside)| aside.has_transaction());
            let oldest = others.min_by_key(|(_, aside)| aside.since);
            if open_here && oldest.is_none_or(|(_, aside)| self.client.transaction_since <= aside.since) {
                return;
            }
            oldest.map(|(place, _)| place)
        } else {
            if self.binding.pinned.as_ref().is_some_and(|pinned| pinned.hostgroup == job.hostgroup) {
                return;
            }
            self.binding.aside.iter().rposition(|aside| aside.pinned.hostgroup == job.hostgroup)
        };
        let other = place.map(|place| self.binding.aside.remove(place));
        self.set_aside();
        if let Some(other) = other {
            self.take_up(other);
        }
        self.show_aside();
    }

    /// After a statement: selects the connection to which later statements go, if there is one.
    pub(super) fn keep_current(&mut self) {
        if self.binding.aside.is_empty() {
            return;
        }
        if self.binding.pinned.as_ref().is_some_and(|pinned| !self.may_be_left(pinned)) {
            return;
        }
        let open = |pinned: &Pinned| pinned.pins.reasons().intersects(PinReason::TRANSACTION);
        let attracts = self.binding.aside.iter().rposition(|aside| !self.may_be_left(&aside.pinned));
        // One with a transaction is preferred to one that is merely kept, and any connection to none.
        let transaction = match self.binding.pinned.as_ref().is_some_and(open) {
            true => None,
            false => self.binding.aside.iter().rposition(Aside::has_transaction),
        };
        let last = self.binding.pinned.is_none().then(|| self.binding.aside.len() - 1);
        let Some(place) = attracts.or(transaction).or(last) else { return };
        let aside = self.binding.aside.remove(place);
        self.set_aside();
        self.take_up(aside);
        self.show_aside();
    }

    /// Whether this connection is set aside for statements that are routed elsewhere. What a read has left on a replica
    /// must not make the session write there.
    fn may_be_left(&self, pinned: &Pinned) -> bool {
        let row = &self.want.account.row;
        let mut reasons = PinReason::MULTIPLEXING_OFF;
        if !row.transaction_persistent {
            reasons.add(PinReason::TRANSACTION);
        }
        if pinned.hostgroup != row.default_hostgroup {
            for left in [PinReason::ROUTINE, PinReason::UNREAD, PinReason::CURSOR, PinReason::LONG_DATA] {
                reasons.add(left);
            }
        }
        pinned.pins.are_only(reasons)
    }

    /// Whether a statement may run elsewhere than on the connection that the client keeps.
    pub(super) fn may_leave_kept(&self, job: &Job) -> bool {
        self.binding.pinned.as_ref().is_some_and(|pinned| {
            let is_held = job
                .prepared
                .as_ref()
                .is_some_and(|statement| pinned.pins.holds(statement.id, PinReason::HELD_STATEMENT));
            !is_held && self.may_be_left(pinned)
        })
    }

    /// A statement that was to run on the connection that the client keeps is to run in another hostgroup instead.
    pub(super) fn leave_kept_for(&mut self, job: &mut Job, request: &Request) {
        self.choose_kept(job, job.text(request));
        // It must not end a transaction that is open there.
        job.apart = job.options.may_run_apart && self.may_run_apart(job);
    }

    /// Whether a read that is routed to another hostgroup than writes may run outside of the session's transaction: none is
    /// open on the current connection, if there is one.
    pub(super) fn may_run_apart(&self, job: &Job) -> bool {
        self.binding.pinned.as_ref().is_none_or(|pinned| {
            pinned.hostgroup == job.hostgroup
                && !pinned.pins.reasons().intersects(PinReason::TRANSACTION)
                && self.may_be_left(pinned)
        })
    }

    /// Selects the connection that keeps something for a prepared statement of the client; returns whether there is one.
    pub(super) fn choose_holder(&mut self, id: u32, executes: bool) -> bool {
        let holds = |pinned: &Pinned| pinned.pins.holds(id, PinReason::HELD_STATEMENT);
        if self.binding.pinned.as_ref().is_some_and(holds) {
            return true;
        }
        let Some(place) = self.binding.aside.iter().position(|aside| holds(&aside.pinned)) else {
            return false;
        };
        let mut aside = self.binding.aside.remove(place);
        let pins = &mut aside.pinned.pins;
        let is_tied = self.binding.pinned.as_ref().is_some_and(|pinned| !self.may_be_left(pinned));
        if executes && is_tied && !pins.holds(id, PinReason::LONG_DATA) {
            // The statement belongs on the transaction's connection. Its cursor is closed, as by any new execution.
            pins.let_go(id, PinReason::HELD_STATEMENT);
            aside.pinned.backend.login.statements.close_held(id);
            self.binding.aside.push(aside);
            return false;
        }
        self.set_aside();
        self.take_up(aside);
        self.show_aside();
        true
    }

    fn set_aside(&mut self) {
        let Some(mut pinned) = self.binding.pinned.take() else { return };
        self.binding.record = None;
        self.leave(&mut pinned.backend);
        let (status, since) = (self.data.status, self.client.transaction_since.take());
        self.binding.aside.push(Aside { pinned, status, since, pins: self.handle.take_pins() });
        self.data.status = status.without(OF_TRANSACTION);
        self.handle.lets_go();
    }

    fn take_up(&mut self, mut aside: Aside) {
        if !aside.pinned.backend.is_alive() && aside.pinned.pins.are_only(PinReason::MULTIPLEXING_OFF) {
            return;
        }
        aside.pinned.backend.login.count_lease();
        self.meet(&mut aside.pinned.backend);
        self.handle.put_pins(aside.pins);
        self.handle.has_backend(aside.pinned.backend.card());
        let of_transaction = Status(aside.status.0 & OF_TRANSACTION.0);
        self.data.status = self.data.status.without(OF_TRANSACTION).union(of_transaction);
        self.client.transaction_since = aside.since;
        self.binding.pinned = Some(aside.pinned);
    }

    /// Registers the connections that are set aside, so that they can be cut off.
    fn show_aside(&self) {
        let card = |aside: &Aside| (Rc::clone(aside.pinned.backend.card()), aside.has_transaction());
        self.handle.has_aside(self.binding.aside.iter().map(card).collect());
    }

    /// Resets all connections that are set aside, and returns them.
    pub(super) fn recycle_aside(&mut self) {
        if self.binding.aside.is_empty() {
            return;
        }
        for aside in std::mem::take(&mut self.binding.aside) {
            self.recycle(aside.pinned.backend, &aside.pinned.pins);
        }
        self.show_aside();
    }

    /// Before a statement that affects all transactions runs on the current connection, the transactions on connections
    /// that are set aside do the same. If the statement asks for diagnostics, they are collected from those connections.
    pub(super) async fn tell_aside(&mut self, request: &mut Request, job: &Job) -> Result<(), End> {
        let asks = job.statement.asks_about_last() || job.statement.flags.intersects(Flags::LAST_INSERT_ID);
        if asks {
            let limit = self.snapshot().variables.connect_timeout_server;
            for aside in &mut self.binding.aside {
                // Diagnostics that cannot be fetched are lost with the connection; its next use fails.
                let _ = aside.pinned.backend.collect_diagnostics(limit).await;
            }
        }
        let Some(common) = common(job, job.text(request)) else { return Ok(()) };
        let own = job.text(request).to_vec();
        let done = match self.first_dead() {
            Some(address) => Err((address, "the server closed the connection".to_owned())),
            None => self.all_aside(common, &own).await,
        };
        let Err((address, error)) = done else { return Ok(()) };
        let text = format!(
            "One of several open transactions could not be ended ({address}: {error}). Those still open are rolled back."
        );
        self.count_failed(request, job);
        self.discard(request).await?;
        self.reply_error_at(request.answer(), Errno::SERVER_LOST, &text).await?;
        Err(End::ErrorSent(text))
    }

    /// A server that has closed a connection with an open transaction, in which case no transaction is committed.
    fn first_dead(&self) -> Option<String> {
        let aside =
            self.binding.aside.iter().filter(|aside| aside.has_transaction()).map(|aside| &aside.pinned);
        let dead = self.binding.pinned.iter().chain(aside).find(|pinned| !pinned.backend.is_alive())?;
        Some(dead.backend.login.server.address())
    }

    /// `SET autocommit=1` has committed the transaction on its connection; this commits the others.
    pub(super) async fn commit_aside(&mut self) -> Result<(), End> {
        match self.all_aside(Common::Commit, b"").await {
            Ok(()) => Ok(()),
            Err((address, error)) => {
                Err(End::ErrorSent(format!("a transaction was not committed ({address}: {error})")))
            }
        }
    }

    async fn all_aside(&mut self, common: Common, own: &[u8]) -> Result<(), (String, String)> {
        for aside in std::mem::take(&mut self.binding.aside) {
            let mut aside = aside;
            if !aside.has_transaction() {
                self.binding.aside.push(aside);
                continue;
            }
            let backend = &aside.pinned.backend;
            match self.one_aside(common, own, backend).await {
                Ok(true) => {}
                Ok(false) => {
                    self.binding.aside.push(aside);
                    continue;
                }
                Err(error) => return Err((backend.login.server.address(), error.to_string())),
            }
            aside.pins.retain(|pin| pin.reason != PinReason::TRANSACTION);
            (aside.since, aside.status) = (None, aside.status.without(OF_TRANSACTION));
            match aside.pinned.pins.end_transaction() {
                None => self.binding.aside.push(aside),
                Some(exit) => {
                    let backend = aside.pinned.backend;
                    let exit = self.exit_of(&backend, exit);
                    backend.settle(exit, &self.worker.pool, &self.want, Instant::now());
                }
            }
        }
        self.show_aside();
        Ok(())
    }

    /// Does to one transaction what is done to all of them; returns whether it has ended.
    async fn one_aside(&self, common: Common, own: &[u8], backend: &Backend) -> Result<bool, BackendError> {
        let run = async |statement: &[u8]| {
            let limit = self.snapshot().variables.default_query_timeout;
            select! {
                biased;
                end = self.client.must_end() => Err(BackendError::Io(std::io::Error::other(end.to_string()))),
                done = backend.execute(statement, limit) => done,
            }
        };
        // The transaction began after the savepoint.
        let is_unknown =
            |error: &BackendError| matches!(error, BackendError::Server(error) if error.code == 1305);
        match common {
            Common::Commit => run(b"COMMIT AND NO CHAIN NO RELEASE").await.map(|()| true),
            Common::Rollback => run(b"ROLLBACK AND NO CHAIN NO RELEASE").await.map(|()| true),
            Common::Savepoint => run(own).await.map(|()| false),
            Common::ReleaseSavepoint => match run(own).await {
                Err(error) if is_unknown(&error) => Ok(false),
                done => done.map(|()| false),
            },
            Common::RollbackToSavepoint => match run(own).await {
                Err(error) if is_unknown(&error) => {
                    run(b"ROLLBACK AND NO CHAIN NO RELEASE").await.map(|()| true)
                }
                done => done.map(|()| false),
            },
        }
    }
}

/// What a statement does to all open transactions. Among several statements in one text, the last one that ends a
/// transaction counts.
fn common(job: &Job, text: &[u8]) -> Option<Common> {
    let runs = matches!(job.command, Command::Query | Command::StmtExecute);
    let of = |statement: &Statement| match statement.kind {
        Kind::Commit => Some(Common::Commit),
        Kind::Rollback => Some(Common::Rollback),
        Kind::Savepoint => Some(Common::Savepoint),
        Kind::ReleaseSavepoint => Some(Common::ReleaseSavepoint),
        Kind::RollbackToSavepoint => Some(Common::RollbackToSavepoint),
        _ => None,
    };
    if !runs {
        return None;
    }
    if job.statement.flags.intersects(Flags::MULTI) {
        let ends = |statement| of(&statement).filter(|it| matches!(it, Common::Commit | Common::Rollback));
        return parts(text, Escapes::Backslash).filter_map(|(_, statement)| ends(statement)).last();
    }
    of(&job.statement)
}

/// The status flags of an open transaction.
pub(super) const OF_TRANSACTION: Status = Status::IN_TRANS.union(Status::IN_TRANS_READONLY);
