//! The monitor's connections to one server: opened as any backend connection is, shared by the checks of the server.
//!
//! They do not count towards `max_connections`: a server with all connections in use must still be found healthy.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use narrows_proxy::backend::{Backend, BackendError, Want, connect};
use narrows_proxy::client::about;
use narrows_proxy::hostgroup::{Addresses, Server};
use narrows_proxy::snapshot::{Account, Rows, Snapshot, UserRow};
use narrows_proxy::state::SessionState;
use narrows_wire::Capabilities;
use narrows_wire::auth::Secret;

use super::plan::{MonitorLogin, Target};
use crate::config::tables::USERS;

/// The connections to one server.
#[derive(Debug)]
pub struct MonitorConnections {
    server: Arc<Server>,
    /// The addresses of the server's name; `None`: it is not a name, or was not resolved.
    pub addresses: Option<Arc<[IpAddr]>>,
    want: Want,
    idle: RefCell<Vec<Backend>>,
    /// The server's term for a replica, if known.
    pub spelling: Cell<Spelling>,
}

/// The servers' terms for a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spelling {
    /// MySQL since 8.0.22, MariaDB since 10.5.
    #[default]
    Replica,
    /// Older servers.
    Slave,
}

impl MonitorConnections {
    /// The connections to `target` with `access`, whose name resolves to `addresses`.
    pub fn new(
        target: &Target,
        access: &MonitorLogin,
        addresses: Option<Arc<[IpAddr]>>,
    ) -> MonitorConnections {
        let mut server = Server::new(target.row(), access.tls.clone());
        server.addresses = Addresses::uncounted(addresses.clone());
        let want = Want {
            account: account(access),
            secret: Secret::clear(access.password.as_bytes()),
            class: Capabilities::NONE,
            own: None,
            about: about::nobody(),
            may_ask_for_key: access.may_ask_for_key,
        };
        MonitorConnections {
            server: Arc::new(server),
            addresses,
            want,
            idle: RefCell::default(),
            spelling: Cell::new(Spelling::default()),
        }
    }

    /// An idle connection, or otherwise a new one.
    pub async fn lease(&self, limit: Duration) -> Result<Backend, BackendError> {
        while let Some(backend) = self.take_idle() {
            if backend.is_alive() {
                return Ok(backend);
            }
        }
        self.open(limit).await
    }

    fn take_idle(&self) -> Option<Backend> {
        self.idle.borrow_mut().pop()
    }

    /// A new connection.
    pub async fn open(&self, limit: Duration) -> Result<Backend, BackendError> {
        self.open_in(&SessionState::default(), limit).await
    }

    /// A new connection that begins in `state`, of which only the schema and the character set are used.
    pub async fn open_in(&self, state: &SessionState, limit: Duration) -> Result<Backend, BackendError> {
        connect(Arc::clone(&self.server), None, &self.want, state, limit).await
    }

    /// Closes the idle connections, so that the server does not count them as aborted.
    pub async fn quit(&self) {
        while let Some(backend) = self.take_idle() {
            backend.quit().await;
        }
    }

    /// Takes back a connection that has no outstanding answers.
    pub fn give_back(&self, backend: Backend) {
        self.idle.borrow_mut().push(backend);
    }
}

/// The monitor's account in the form that connections use. It is not a client account.
fn account(access: &MonitorLogin) -> Arc<Account> {
    let username = &access.username;
    let row = UserRow { username: username.clone(), active: true, ..(USERS.blank)() };
    let rows = Rows { users: vec![row], ..Rows::default() };
    let mut users: HashMap<_, _> = Snapshot::compile(rows, 1, None).expect("there are no rules in it").users;
    let account = users.remove(username.as_bytes()).expect("the only account, and it is active");
    Arc::new(Account { tokens: access.tokens.clone(), ..Arc::unwrap_or_clone(account) })
}
