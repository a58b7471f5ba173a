//! `mysql-verify_sessions`: a connection that has got another client is compared with what is known of it. If it is not as it is
//! known to be, it is closed, and the client gets another one.

use std::sync::Arc;

use narrows_sql::digest_text;

use super::job::Job;
use super::lease::{Leased, NoLease};
use super::request::Request;
use super::{End, Session};
use crate::backend::{Backend, BackendError, LeaseTrace, Mismatch};
use crate::route::digest_options;
use crate::rt::{Instant, select};
use crate::snapshot::Snapshot;

impl Session {
    /// Verifies a connection from the pool that is aligned with the client's state, if chance says so.
    pub(super) async fn verified(
        &mut self,
        snapshot: &Arc<Snapshot>,
        leased: &mut Leased,
        request: &mut Request,
        job: &Job,
    ) -> Result<Result<(), NoLease>, End> {
        let lease = leased.backend.login.leases();
        let mut trace = leased.backend.login.trace.take().unwrap_or_default();
        let changes_client = trace.changes_client(self.handle.id, lease);
        let is_chosen = changes_client && snapshot.variables.verify_sessions.chooses();
        if is_chosen {
            if let Err(no_lease) = self.clear_the_way(&mut leased.backend).await {
                return Ok(Err(no_lease));
            }
            let limit = snapshot.variables.connect_timeout_server_max;
            let verified = select! {
                biased;
                verified = leased.backend.verify(limit) => verified,
                reason = self.client.interrupted() => return self.no_lease(reason).map(Err),
                () = request.client_gone(&self.client.stream) => return Err(End::Gone),
            };
            match verified {
                Ok(differences) => {
                    self.worker.counters.borrow_mut().sessions_verified += u64::from(differences.is_some());
                    if let Some(differences) = differences.filter(|differences| !differences.is_empty()) {
                        self.tell_mismatches(&leased.backend, &trace, &differences);
                        let what = "its session was not as it was known to be";
                        return Ok(Err(NoLease::unfit(&leased.backend, what)));
                    }
                }
                Err(error @ BackendError::Server(_)) => {
                    return Ok(Err(NoLease::unfit(&leased.backend, error)));
                }
                Err(error) => return Ok(Err(NoLease::lost(&leased.backend, error))),
            }
        }
        self.trace(&mut trace, request, job);
        leased.backend.login.trace = Some(trace);
        Ok(Ok(()))
    }

    /// Remembers what runs on a connection.
    pub(super) fn trace(&self, trace: &mut LeaseTrace, request: &Request, job: &Job) {
        let options = digest_options(&self.snapshot().variables);
        let mut scratch = self.worker.scratch.borrow_mut();
        trace.note(digest_text(job.text(request), &options, &mut scratch));
    }

    /// Counts and logs what differs: a line a minute for each variable.
    fn tell_mismatches(&self, backend: &Backend, trace: &LeaseTrace, differences: &[Mismatch]) {
        let login = &backend.login;
        let mut counters = self.worker.counters.borrow_mut();
        counters.sessions_mismatched += 1;
        let mut told = self.worker.mismatches.borrow_mut();
        for Mismatch { variable, believed, found } in differences {
            let is_known = counters.mismatches.contains_key(variable);
            let name = if is_known || counters.mismatches.len() < MOST_NAMES { variable } else { OTHERS };
            *counters.mismatches.entry(name.to_owned()).or_default() += 1;
            if let Some(suppressed) = told.entry(name.to_owned()).or_default().due(Instant::now()) {
                let (server, thread_id) = (login.server.address(), login.thread_id);
                let statements = trace.texts();
                tracing::error!(
                    server,
                    thread_id,
                    variable,
                    believed,
                    found,
                    statements,
                    suppressed,
                    "a session is not as it was known to be; its connection is closed"
                );
            }
        }
    }
}

/// Variables that are counted by name: more than servers have that could differ.
const MOST_NAMES: usize = 512;

/// The name for all others.
const OTHERS: &str = "others";
