//! Where the admin interface listens, and the settings of its logins: both follow the variables.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use narrows_proxy::audit::AuditLog;
use narrows_proxy::rt::MailboxSender;
use narrows_proxy::sockets::{ListenFor, Sockets};
use narrows_proxy::tls::SharedTls;

use crate::admin::listener::{self, Order};
use crate::admin::request::Request;
use crate::admin::settings::{AdminSettings, Variables};
use crate::listeners::Interfaces;
use crate::secrets::Secrets;
use crate::store::Store;
use crate::variables::Values;

/// The listeners of the admin interface; their thread ends when this is dropped.
pub struct AdminListeners {
    orders: MailboxSender<Order>,
    sockets: Arc<dyn Sockets>,
    /// The listening addresses, as configured.
    interfaces: Vec<String>,
    /// The same addresses, as reported by the kernel.
    addresses: Vec<String>,
}

/// Why the admin interface cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// None of the addresses can be listened on; this is why the first cannot.
    #[error("{0}")]
    Listen(String),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

impl AdminListeners {
    /// Starts the thread that serves administrators; their statements go to `control`, and their logins to `audit_log`. An
    /// address that cannot be listened on is logged: clients need not wait until it can.
    ///
    /// # Errors
    /// See [`BeginError`].
    pub fn begin<M>(
        store: &Store,
        (secrets, tls): (&Secrets, SharedTls),
        sockets: Arc<dyn Sockets>,
        audit_log: AuditLog,
        control: Sender<M>,
    ) -> Result<AdminListeners, BeginError>
    where
        M: From<Request> + Send + 'static,
    {
        let (bound, failed) = Interfaces::bind(interfaces(store.variables()), &[], VARIABLE, |interface| {
            sockets.bind(interface, ListenFor::Administrators)
        });
        for reason in failed {
            if bound.wanted.is_empty() {
                return Err(BeginError::Listen(reason));
            }
            tracing::error!("{reason}");
        }
        let interfaces = bound.wanted.clone();
        let addresses = bound.new.iter().map(|(_, listener)| listener.address()).collect();
        let orders = listener::start(settings(store, secrets, tls), audit_log, control)?;
        // The thread of the sessions exists; if it has ended, there is nothing to listen for.
        let _ = orders.send(Order::Listen(bound));
        Ok(AdminListeners { orders, sockets, interfaces, addresses })
    }

    /// The listening addresses, as configured.
    pub fn interfaces(&self) -> &[String] {
        &self.interfaces
    }

    /// The listening addresses, as reported by the kernel.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Moves the listeners to the current `admin-mysql_ifaces`; returns remarks.
    pub fn follow(&mut self, store: &Store) -> Vec<String> {
        let (interfaces, mut remarks) =
            Interfaces::bind(interfaces(store.variables()), &self.interfaces, VARIABLE, |interface| {
                self.sockets.bind(interface, ListenFor::Administrators)
            });
        if interfaces.wanted.is_empty() {
            remarks.push("the admin interface continues on its current addresses".to_owned());
            return remarks;
        }
        let gone = self.interfaces.iter().filter(|interface| !interfaces.wanted.contains(interface));
        gone.for_each(|interface| self.sockets.release(interface));
        let of_kernel = |interface: &String| {
            let new = interfaces.new.iter().find(|(it, _)| it == interface);
            let at = self.interfaces.iter().position(|it| it == interface);
            let kept = || at.and_then(|at| self.addresses.get(at).cloned()).unwrap_or_default();
            new.map_or_else(kept, |(_, listener)| listener.address())
        };
        self.addresses = interfaces.wanted.iter().map(of_kernel).collect();
        self.interfaces.clone_from(&interfaces.wanted);
        let _ = self.orders.send(Order::Listen(interfaces));
        remarks
    }

    /// Why it could not listen where these variables say.
    pub fn obstacles(&self, variables: &Values) -> Vec<String> {
        Interfaces::obstacles(&interfaces(variables), &self.interfaces, VARIABLE)
    }

    /// Applies the current variables to logins that begin from now on.
    pub fn announce(&self, store: &Store, secrets: &Secrets, tls: SharedTls) {
        let _ = self.orders.send(Order::Settings(Box::new(settings(store, secrets, tls))));
    }
}

/// The interfaces of the admin interface.
fn interfaces(variables: &Values) -> Vec<String> {
    let configured = variables.text(VARIABLE);
    let mut interfaces: Vec<String> = Vec::new();
    for interface in configured.split([';', ',']).map(str::trim).filter(|one| !one.is_empty()) {
        if !interfaces.iter().any(|known| known == interface) {
            interfaces.push(interface.to_owned());
        }
    }
    interfaces
}

/// Where the admin interface listens.
const VARIABLE: &str = "admin-mysql_ifaces";

pub(super) fn settings(store: &Store, secrets: &Secrets, tls: SharedTls) -> AdminSettings {
    let value = |name: &str| store.variable(name).unwrap_or_default();
    let number = |name: &str| value(name).parse::<u64>().unwrap_or(0);
    let (admin, stats) = (value("admin-admin_credentials"), value("admin-stats_credentials"));
    let (monitor, password) = (value("mysql-monitor_username"), value("mysql-monitor_password"));
    let (version, plugin) = (value("mysql-server_version"), value("mysql-default_authentication_plugin"));
    let variables = Variables {
        admin_credentials: &admin,
        stats_credentials: &stats,
        monitor: (&monitor, &password),
        server_version: &version,
        plugin: &plugin,
        longest_statement: usize::try_from(number("mysql-max_allowed_packet")).unwrap_or(usize::MAX),
    };
    AdminSettings::new(&variables, secrets, tls)
}
