//! Looks a name up that `mysql_users` does not have: runs `mysql-auth_query` on a server.

use std::rc::Rc;
use std::sync::Arc;

use narrows_sql::with_parameter;
use narrows_wire::Errno;
use narrows_wire::auth::Secret;

use super::claim::{LoginClaim, Refusal};
use crate::auth_query::{Cell, Hindrance, Queried, remarks};
use crate::backend::{Table, Want};
use crate::pool::{Ask, Exit, LeaseError};
use crate::rt::{Instant, timeout};
use crate::snapshot::{AuthQuery, Snapshot, may_be_name};
use crate::state::SessionState;
use crate::worker::Worker;

/// What `mysql-auth_query` says about the name of a login; `None` if it does not concern it.
pub(super) async fn look_up(
    worker: &Rc<Worker>,
    snapshot: &Snapshot,
    claim: &LoginClaim<'_>,
) -> Result<Option<Queried>, Refusal> {
    let Some(query) = &snapshot.auth_query else { return Ok(None) };
    let Some(name) = name_of(snapshot, claim.user) else { return Ok(None) };
    let ttl = snapshot.variables.auth_query_cache_ttl;
    let queried = &worker.peers.queried;
    let fresh = || queried.known(name, claim.host).filter(|(_, age)| *age < ttl);
    if let Some((found, _)) = fresh() {
        return Ok(Some(found));
    }
    let _gate = worker.peers.found.gate(name).await;
    // Another login may have run it meanwhile.
    if let Some((found, _)) = fresh() {
        return Ok(Some(found));
    }
    ask(worker, snapshot, query, (name, claim)).await.map(Some)
}

/// What it says now, after a wrong password: that may have changed. `None` if it must not be run again.
pub(super) async fn look_again(
    worker: &Rc<Worker>,
    snapshot: &Snapshot,
    claim: &LoginClaim<'_>,
    began: Instant,
) -> Option<Queried> {
    let query = snapshot.auth_query.as_ref()?;
    let name = name_of(snapshot, claim.user)?;
    if !worker.peers.queried.may_ask_again(name, began) {
        return None;
    }
    ask(worker, snapshot, query, (name, claim)).await.ok()
}

/// Runs the statement for a name.
async fn ask(
    worker: &Rc<Worker>,
    snapshot: &Snapshot,
    query: &AuthQuery,
    (name, claim): (&str, &LoginClaim<'_>),
) -> Result<Queried, Refusal> {
    let queried = &worker.peers.queried;
    match run(worker, snapshot, query, (name, claim)).await {
        Ok(table) => {
            let row = |index: usize| {
                let table = &table;
                move |column: &str| table.column(column)?.nth(index)?.map(str::to_owned)
            };
            let rows: Vec<_> = (0..table.rows.len().min(MOST_ROWS)).map(row).collect();
            let rows: Vec<&Cell<'_>> = rows.iter().map(|row| row as &Cell<'_>).collect();
            for attributes in queried.put(name, snapshot.template_of(name), &rows) {
                tell_remarks(worker, name, &remarks(&attributes.into(), snapshot.tracks_gtids));
            }
            *worker.counters.borrow_mut().auth_queries.entry("answered").or_default() += 1;
            let found = queried.known(name, claim.host);
            Ok(found.map_or(Queried::Nobody, |(found, _)| found))
        }
        Err(why) => {
            *worker.counters.borrow_mut().auth_queries.entry("failed").or_default() += 1;
            let (hostgroup, host) = (query.service.row.default_hostgroup, claim.host);
            worker.failed_logins.tell(|| {
                tracing::warn!(
                    user = name,
                    client = host,
                    hostgroup = hostgroup.0,
                    error = why,
                    "mysql-auth_query fails"
                );
            });
            // What was known stays good while nobody says otherwise.
            if let Some((found, _)) = queried.known(name, claim.host) {
                return Ok(found);
            }
            let text = format!(
                "The account '{name}' cannot be looked up in hostgroup {hostgroup} (mysql-auth_query)"
            );
            Err((Errno::NO_SERVER_IN_TIME, text))
        }
    }
}

/// Says what of an account's attributes is not in force.
fn tell_remarks(worker: &Worker, name: &str, remarks: &[String]) {
    for remark in remarks {
        worker.failed_logins.tell(|| {
            tracing::warn!(user = name, "of the attributes that mysql-auth_query returns: {remark}");
        });
    }
}

/// The name, if it may be looked up.
fn name_of<'a>(snapshot: &Snapshot, user: &'a [u8]) -> Option<&'a str> {
    let name = std::str::from_utf8(user).ok()?;
    let is_configured = snapshot.users.contains_key(user) || snapshot.kept_out.contains(user);
    (may_be_name(name) && !is_configured).then_some(name)
}

/// The answer of a server, or why there is none, for the log.
async fn run(
    worker: &Rc<Worker>,
    snapshot: &Snapshot,
    query: &AuthQuery,
    (name, claim): (&str, &LoginClaim<'_>),
) -> Result<Table, String> {
    let (variables, hostgroup) = (&snapshot.variables, query.service.row.default_hostgroup);
    let statement = with_parameter(&query.statement, name).ok_or("it has not exactly one `?`")?;
    let Some(_place) = worker.peers.found.ask(variables, hostgroup) else {
        return Err(
            "too many logins look accounts up (mysql-passthrough_auth_max_inflight_probes)".to_owned()
        );
    };
    let about = Arc::clone(&claim.about);
    let secret = Secret::Clear(query.password.clone());
    let want =
        Want::new(Arc::clone(&query.service), secret, claim.capabilities, about, snapshot).for_narrows();
    let state = worker.shared_state(SessionState::default());
    let limit = variables.connect_timeout_server;
    let asked = async {
        let ask = Ask::plain(&want, &state, Instant::now());
        let leased = worker.pool.lease(snapshot, hostgroup, ask).await;
        let mut backend = leased.map_err(|error| match error {
            LeaseError::Refused(error) | LeaseError::Full(error) | LeaseError::NoInit(error) => error.message,
            LeaseError::Unavailable(text) => text,
        })?;
        backend.align(&state, false, None, limit).await.map_err(|error| error.to_string())?;
        let table = backend.ask_briefly(&statement, limit).await.map_err(|error| error.to_string())?;
        backend.settle(Exit::Return, &worker.pool, &want, Instant::now());
        Ok(table)
    };
    timeout(limit, asked).await.unwrap_or_else(|_| Err(format!("no answer within {} ms", limit.as_millis())))
}

/// The error of a client that has the right password, and may not log in all the same.
pub(super) fn hindered(hindrance: Hindrance, denied: &str) -> Refusal {
    match hindrance {
        Hindrance::Locked => (ACCOUNT_HAS_BEEN_LOCKED, format!("{denied}. Account is locked.")),
        Hindrance::Expired => (
            MUST_CHANGE_PASSWORD_LOGIN,
            "Your password has expired. To log in you must change it using a client that supports expired passwords."
                .to_owned(),
        ),
    }
}

/// As servers send it (manual: `ER_ACCOUNT_HAS_BEEN_LOCKED`),
const ACCOUNT_HAS_BEEN_LOCKED: Errno = Errno { number: 3118, sqlstate: *b"HY000" };
/// and this (`ER_MUST_CHANGE_PASSWORD_LOGIN`).
const MUST_CHANGE_PASSWORD_LOGIN: Errno = Errno { number: 1862, sqlstate: *b"HY000" };

/// Rows of an answer that are read: hosts of one name.
const MOST_ROWS: usize = 100;
