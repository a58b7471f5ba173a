//! The initial schema of a client: only a server knows whether it exists, and whether this user may use it.
//!
//! A server is asked before the login is answered, so that a client receives the error when it would without a proxy. A
//! schema that once existed is not checked again: if it has been dropped since, the first statement is refused instead.

use std::rc::Rc;

use narrows_wire::Errno;

use crate::backend::{BackendError, ServerError, Want};
use crate::pool::{Ask, Exit, LeaseError};
use crate::rt::{Instant, timeout};
use crate::snapshot::{HostgroupId, Snapshot};
use crate::state::SharedState;
use crate::worker::Worker;

/// Why a server refuses this user the schema of `state`. Also `None` if no server could be asked within the time of one
/// attempt to connect: the first statement will fail then.
pub(crate) async fn refusal(
    worker: &Rc<Worker>,
    snapshot: &Snapshot,
    want: &Want,
    state: &SharedState,
) -> Option<(Errno, String)> {
    let schema = state.schema.as_deref()?;
    let user = &want.account.row.username;
    if worker.known_schemas.contains(user, schema) {
        return None;
    }
    let entered = enter(worker, snapshot, want, state);
    match timeout(snapshot.variables.connect_timeout_server, entered).await {
        Ok(Ok(())) => worker.known_schemas.insert(user, schema),
        Ok(Err(Some(error))) if error.is_about_lost_schema() => return Some(error.into_reply()),
        Ok(Err(_)) | Err(_) => {}
    }
    None
}

/// Brings a connection into `state`; on failure, returns the server's error, if there is one.
async fn enter(
    worker: &Rc<Worker>,
    snapshot: &Snapshot,
    want: &Want,
    state: &SharedState,
) -> Result<(), Option<ServerError>> {
    let limit = snapshot.variables.connect_timeout_server;
    let own = want.account.row.default_hostgroup;
    let has_server = |id: &HostgroupId| snapshot.hostgroups.get(id).is_some_and(|it| it.has_server());
    // While there is no server for writes, one of its readers knows as well.
    let hostgroup =
        snapshot.readers.get(&own).copied().filter(|readers| !has_server(&own) && has_server(readers));
    let hostgroup = hostgroup.unwrap_or(own);
    // A connection of the pool may turn out to be of no use, and is closed then; a new one is not.
    for new in [false, true] {
        let ask = Ask { new, ..Ask::plain(want, state, Instant::now()) };
        let leased = worker.pool.lease(snapshot, hostgroup, ask).await;
        let mut backend = leased.map_err(|error| match error {
            LeaseError::Refused(error) | LeaseError::NoInit(error) => Some(error),
            LeaseError::Unavailable(_) | LeaseError::Full(_) => None,
        })?;
        match backend.align(state, false, None, limit).await {
            Ok(()) => {
                backend.settle(Exit::Return, &worker.pool, want, Instant::now());
                return Ok(());
            }
            Err(BackendError::Server(error) | BackendError::SchemaGone(error)) => return Err(Some(error)),
            Err(_) => {}
        }
    }
    Err(None)
}
