//! How connections are opened: within the budgets of their server and of the second, when a statement needs one, or,
//! with `mysql-connection_warming`, before.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use narrows_wire::Errno;
use narrows_wire::auth::Secret;

use super::{Ask, Group, LeaseError, Pool, keep_idle};
use crate::backend::{Backend, BackendError, ServerError, Want, connect};
use crate::descriptors::{self, Reserve};
use crate::figures::ErrorKey;
use crate::hostgroup::{ConnectionSlot, Hostgroup, Server};
use crate::rows::{Bond, NO_CLUSTER};
use crate::rt::{Instant, nanoseconds};
use crate::snapshot::{Account, CheckType, PasswordSide, Snapshot, Whose};
use crate::state::SharedState;

/// The last account for which a connection of a hostgroup was opened: further ones are opened in advance for it.
#[derive(Clone)]
pub(super) struct LastLogin {
    want: Want,
    state: SharedState,
}

/// A connection to be opened in advance.
pub struct Warming {
    server: Arc<Server>,
    slot: ConnectionSlot,
    login: LastLogin,
}

impl Pool {
    /// The right to open a connection to `server`, if it has room and the budget of the current second is not used up.
    pub(super) fn slot(
        &self,
        hostgroup: &Hostgroup,
        server: &Server,
        now: Instant,
    ) -> Option<ConnectionSlot> {
        let slot = ConnectionSlot::take(server, &hostgroup.demand, &self.pokes)?;
        let openings = &hostgroup.demand.openings;
        openings.count(hostgroup.settings.openings_per_second, now.duration_since(self.epoch)).then_some(slot)
    }

    /// How long no connection may be opened because too many were opened in the current second.
    pub(super) fn opening_pause(&self, hostgroup: &Hostgroup, now: Instant) -> Option<Duration> {
        hostgroup
            .demand
            .openings
            .pause(hostgroup.settings.openings_per_second, now.duration_since(self.epoch))
    }

    /// Opens a connection with `slot` for a request; `None` if the server failed, and is avoided for a while.
    pub(super) async fn open(
        &self,
        group: &Group,
        (snapshot, hostgroup): (&Snapshot, &Hostgroup),
        (server, slot): (Arc<Server>, ConnectionSlot),
        ask: &Ask<'_>,
    ) -> Result<Option<Backend>, LeaseError> {
        let (known, settings) = (Arc::clone(&server), (&snapshot.variables, hostgroup));
        match self.log_in(group, (snapshot, hostgroup), (server, slot), (ask.want, ask.state)).await {
            Ok(backend) => {
                self.succeeded(group, snapshot, &known);
                if hostgroup.settings.connection_warming {
                    let login = LastLogin { want: ask.want.clone(), state: Arc::clone(ask.state) };
                    group.last_login.replace(Some(login));
                }
                Ok(Some(backend))
            }
            Err(error) => self.failed(group, settings, (&known, ask.want), error),
        }
    }

    /// The connections still to be opened for `mysql-connection_warming`, a few per server at a time: the share of
    /// `max_connections` that may be idle.
    pub(super) fn take_openings(&self, snapshot: &Snapshot) -> Vec<Warming> {
        let mut openings = Vec::new();
        let now = Instant::now();
        for group in self.groups.borrow().values() {
            let Some(login) = group.last_login.borrow().clone() else { continue };
            let Some(hostgroup) = snapshot.hostgroups.get(&group.demand.hostgroup) else { continue };
            let usable = |server: &&Arc<Server>| {
                hostgroup.may_use(server)
                    && group.pause(server, now).is_none()
                    && !server.figures.shun.is_shunned()
            };
            for server in hostgroup.servers.iter().filter(usable) {
                let open = usize::try_from(server.figures.connections()).unwrap_or(usize::MAX);
                let missing = keep_idle(server, hostgroup).saturating_sub(open).min(OPENED_AT_ONCE);
                let slots = (0..missing).map_while(|_| self.slot(hostgroup, server, now));
                openings.extend(slots.map(|slot| Warming {
                    server: Arc::clone(server),
                    slot,
                    login: login.clone(),
                }));
            }
        }
        openings
    }

    /// Opens a connection in advance, and keeps it.
    pub(super) async fn open_early(&self, snapshot: &Snapshot, opening: Warming) {
        let Warming { server, slot, login } = opening;
        let Some(hostgroup) = snapshot.hostgroups.get(&server.row.hostgroup) else { return };
        let group = self.group(&hostgroup.demand);
        let known = Arc::clone(&server);
        let login_as = (&login.want, &login.state);
        match self.log_in(&group, (snapshot, hostgroup), (server, slot), login_as).await {
            Ok(backend) => self.release(snapshot, backend, Instant::now()),
            Err(error) => {
                // The account may be gone; the next account to open a connection takes its place.
                let settings = (&snapshot.variables, &**hostgroup);
                if self.failed(&group, settings, (&known, &login.want), error).is_err() {
                    group.last_login.take();
                }
            }
        }
    }

    /// Opens a connection and prepares it; counts the outcome.
    async fn log_in(
        &self,
        group: &Group,
        (snapshot, hostgroup): (&Snapshot, &Hostgroup),
        (server, slot): (Arc<Server>, ConnectionSlot),
        (want, state): (&Want, &SharedState),
    ) -> Result<Backend, BackendError> {
        let tally = group.tally(&server);
        let (known, variables) = (Arc::clone(&server), &snapshot.variables);
        let opened = async {
            let limit = variables.connect_timeout_server;
            let connected = self.connect_as((snapshot, hostgroup), (server, slot), (want, state)).await;
            let mut backend = match connected {
                // It was dropped, or is not for the account any more. Its client must be able to choose another one: the
                // alignment finds out, as on any other connection.
                Err(BackendError::Server(error)) if error.says_schema_is_lost() && state.schema.is_some() => {
                    let slot = ConnectionSlot::take(&known, &hostgroup.demand, &self.pokes);
                    let slot = slot.ok_or(BackendError::Server(error))?;
                    let state = Arc::new(state.without_schema());
                    let server = Arc::clone(&known);
                    self.connect_as((snapshot, hostgroup), (server, slot), (want, &state)).await?
                }
                connected => connected?,
            };
            if descriptors::is_for(backend.stream.descriptor(), Reserve::Rest) {
                return Err(io::Error::other("no descriptor is left for it (limit of open files)").into());
            }
            backend.stream.set_keepalive(variables.tcp_keepalive());
            if let Some(writers) = hostgroup.writers.filter(|_| known.figures.is_distrusted()) {
                check_role(&backend, writers, limit).await?;
            }
            let verifies = !variables.verify_sessions.is_none();
            backend.begin_session(&hostgroup.settings.init_connect, verifies, limit).await?;
            Ok(backend)
        };
        let began = Instant::now();
        let mut opened = opened.await;
        match &mut opened {
            Ok(backend) => {
                backend.login.connect_time = began.elapsed();
                tally.connected(backend.login.connect_time);
                known.figures.was_reached(nanoseconds(self.epoch.elapsed()));
            }
            Err(error) => {
                tally.count(|tally| tally.failed += 1);
                self.count_error(&known, (want, state), error);
            }
        }
        opened
    }

    /// Connects with the passwords that the account has now, the first one first, and then with the one that the client has
    /// shown: the server may have another one of them, or the account another one than at the client's login.
    async fn connect_as(
        &self,
        (snapshot, hostgroup): (&Snapshot, &Hostgroup),
        (server, slot): (Arc<Server>, ConnectionSlot),
        (want, state): (&Want, &SharedState),
    ) -> Result<Backend, BackendError> {
        let account = account_of(snapshot, want);
        let (mut slot, newest) = (Some(slot), newest(account, want));
        let want = newest.as_ref().unwrap_or(want);
        let mut tries = passwords(account, want).into_iter().peekable();
        while let Some((number, secret)) = tries.next() {
            let as_this = Want { secret, ..want.clone() };
            let limit = snapshot.variables.connect_timeout_server;
            match connect(Arc::clone(&server), slot.take(), &as_this, state, limit).await {
                Err(BackendError::Server(error)) if is_denied(&error) && tries.peek().is_some() => {
                    slot = ConnectionSlot::take(&server, &hostgroup.demand, &self.pokes);
                    if slot.is_none() {
                        return Err(BackendError::Server(error));
                    }
                }
                Ok(backend) => {
                    if let (Some(account), Some(number)) = (account, number) {
                        account.passwords.note(PasswordSide::Server, number);
                    }
                    return Ok(backend);
                }
                Err(error) => return Err(error),
            }
        }
        Err(BackendError::Closed)
    }

    /// Counts a failed server among the errors.
    fn count_error(&self, server: &Arc<Server>, (want, state): (&Want, &SharedState), error: &BackendError) {
        let errno = match error {
            BackendError::Server(error) | BackendError::InitConnect(error) => error.code,
            _ => CANNOT_CONNECT,
        };
        let text = match error {
            BackendError::Server(error) | BackendError::InitConnect(error) => error.message.clone(),
            error => error.to_string(),
        };
        let schemaname = state.schema.as_deref().unwrap_or_default().to_vec();
        let username = want.account.row.username.clone();
        let key = ErrorKey { username, schemaname, ..ErrorKey::of(server, errno) };
        self.errors.borrow_mut().add(key, text.as_bytes(), self.epoch.elapsed().as_secs());
    }
}

/// The account as it is configured now. Of one whose password only servers know, the one in its row is none.
fn account_of<'s>(snapshot: &'s Snapshot, want: &Want) -> Option<&'s Arc<Account>> {
    match snapshot.whose(want.account.row.username.as_bytes()) {
        Whose::Configured(account) => Some(account),
        Whose::AtServers(_) | Whose::Nobody => None,
    }
}

/// Logs a connection in again as another account, with the first of its passwords. If there is another password, which the server may
/// take instead, or if a token must not be sent on this connection, it is [`Relogin::Not`]: a new one tries everything.
pub(super) async fn log_in_again(
    snapshot: &Snapshot,
    mut backend: Backend,
    want: &Want,
) -> Result<Relogin, BackendError> {
    let account = account_of(snapshot, want);
    let newest = newest(account, want);
    let want = newest.as_ref().unwrap_or(want);
    if !backend.may_change_user(want) {
        return Ok(Relogin::Not(backend));
    }
    let passwords = passwords(account, want);
    let has_more = passwords.len() > 1;
    let Some((number, secret)) = passwords.into_iter().next() else { return Err(BackendError::Closed) };
    let as_this = Want { secret, ..want.clone() };
    match backend.change_user(&as_this, snapshot.variables.connect_timeout_server).await {
        Ok(()) => {
            if let (Some(account), Some(number)) = (account, number) {
                account.passwords.note(PasswordSide::Server, number);
            }
            Ok(Relogin::Done(backend))
        }
        Err(BackendError::Server(error)) if is_denied(&error) && has_more => Ok(Relogin::Not(backend)),
        Err(error) => Err(error),
    }
}

/// What has become of a connection that was logged in again.
pub(super) enum Relogin {
    /// It is the account's.
    Done(Backend),
    /// It is of no use: another one has to be opened in its place.
    Not(Backend),
}

/// What is wanted with the account as it is now, if it has got tokens since the client's login.
fn newest(account: Option<&Arc<Account>>, want: &Want) -> Option<Want> {
    let has_others =
        |account: &&Arc<Account>| account.tokens.is_some() && account.tokens != want.account.tokens;
    account.filter(has_others).map(|account| Want { account: Arc::clone(account), ..want.clone() })
}

/// What to log in with, in this order, with the number of the account's password. A token is made in its place later.
fn passwords(account: Option<&Arc<Account>>, want: &Want) -> Vec<(Option<usize>, Secret)> {
    if want.account.tokens.is_some() {
        return vec![(None, want.secret.clone())];
    }
    let of_account = account.into_iter().flat_map(|account| account.credentials.iter().enumerate());
    let mut all: Vec<_> = of_account.filter_map(|(number, it)| Some((Some(number), it.secret()?))).collect();
    if !all.iter().any(|(_, secret)| *secret == want.secret) {
        all.push((None, want.secret.clone()));
    }
    all
}

fn is_denied(error: &ServerError) -> bool {
    error.code == Errno::ACCESS_DENIED_ERROR.number
}

/// Asks a server that was lost, or that refused a write, whether it is writable. It may have come back in a different
/// role, and the monitor may not have checked it yet.
async fn check_role(
    backend: &Backend,
    (writers, bond): (CheckType, Bond),
    limit: Duration,
) -> Result<(), BackendError> {
    if bond == Bond::Cluster {
        match backend.execute(HARMLESS, limit).await {
            Err(BackendError::Server(error)) if error.code == NO_CLUSTER => {
                return Err(BackendError::NoCluster);
            }
            Ok(()) | Err(BackendError::Server(_)) => {}
            Err(error) => return Err(error),
        }
    }
    match backend.ask(writers.question(), limit).await {
        Ok(answer) if answer.says_no() => backend.login.server.figures.trust(),
        Ok(_) => return Err(BackendError::ReadOnly),
        // A server that cannot be asked is assumed to be unchanged.
        Err(BackendError::Server(_)) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// A statement that does nothing, and that a Galera node refuses if it has lost its cluster or is to refuse statements.
const HARMLESS: &str = "DO 0";

/// How many connections are opened in advance to one server at a time, so that a server that has just come up is not
/// overloaded.
const OPENED_AT_ONCE: usize = 8;

/// The error of client libraries for a server that cannot be reached (manual: `CR_CONN_HOST_ERROR`).
const CANNOT_CONNECT: u16 = 2003;
