//! A transaction of which nothing has run but `BEGIN`: if its server is lost with it, or refuses the first statement, it begins
//! again on another one.

use narrows_sql::{Flags, Kind};
use narrows_wire::Command;

use super::Session;
use super::effects::{PinReason, Pins};
use super::job::Job;
use super::lease::{Leased, NoLease};
use super::lost::{Tries, only_begins};
use super::request::Request;
use crate::backend::BackendError;
use crate::snapshot::Snapshot;

impl Session {
    /// Whether a statement has done nothing but begin a transaction, if it has run: outside of transactions, where there is none
    /// that it would commit.
    pub(super) fn begins_only(&self, job: &Job, request: &Request) -> bool {
        only_begins(job, request) || self.begins_recorded(job, request, PinReason::default())
    }

    /// Begins the client's transaction on a connection that is to run its first statement.
    pub(super) async fn begin_again(
        &self,
        snapshot: &Snapshot,
        leased: &mut Leased,
        tries: &Tries,
    ) -> Result<(), NoLease> {
        if let Some(begin) = &tries.begins_again {
            let backend = &leased.backend;
            let begun = backend.execute(begin, snapshot.variables.connect_timeout_server).await;
            begun.map_err(|error| {
                // Only after a pause is it tried again.
                if let BackendError::Server(refusal) = &error {
                    self.worker.pool.turn_away(snapshot, &backend.login.server, &refusal.message);
                }
                NoLease::lost(backend, error)
            })?;
            leased.pins = Pins::of_transaction(PinReason::TRANSACTION);
        }
        Ok(())
    }
}

/// The text of a statement that has begun a transaction, if it can begin one on another connection as well.
pub(super) fn begins(job: &Job, text: &[u8], has_failed: bool) -> Option<Box<[u8]>> {
    let is_plain = job.statement.kind == Kind::Begin
        && job.command == Command::Query
        && !job.statement.flags.intersects(Flags::MULTI)
        && text.len() <= LONGEST_BEGIN;
    (is_plain && !has_failed).then(|| text.into())
}

/// What begins a transaction is shorter; a longer text has comments, which are not worth keeping.
const LONGEST_BEGIN: usize = 256;
