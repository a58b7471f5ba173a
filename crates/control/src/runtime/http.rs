//! Where the HTTP interface listens, and the settings of its logins: both follow the variables.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use narrows_proxy::rt::MailboxSender;
use narrows_proxy::sockets::{ListenFor, Sockets, when_free};
use narrows_proxy::tls::SharedTls;

use super::admin;
use crate::admin::request::Request;
use crate::config_file::http_interfaces::{PORT, http_interfaces};
use crate::http::listener::{self, HttpOrder};
use crate::http::settings::HttpSettings;
use crate::listeners::Interfaces;
use crate::secrets::Secrets;
use crate::store::Store;
use crate::variables::Values;

/// The listeners of the HTTP interface; their thread ends when this is dropped.
pub struct HttpListeners {
    orders: MailboxSender<HttpOrder>,
    sockets: Arc<dyn Sockets>,
    /// The listening addresses, as configured.
    interfaces: Vec<String>,
}

impl HttpListeners {
    /// Starts the thread that serves HTTP, whose questions go to `control`. An address that cannot be listened on is
    /// logged: clients of MySQL are served without.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn begin<M>(
        store: &Store,
        (secrets, tls): (&Secrets, SharedTls),
        sockets: Arc<dyn Sockets>,
        control: Sender<M>,
    ) -> io::Result<HttpListeners>
    where
        M: From<Request> + Send + 'static,
    {
        let orders = listener::start(settings(store, secrets, tls), control)?;
        let mut listeners = HttpListeners { orders, sockets, interfaces: Vec::new() };
        listeners.follow(store).into_iter().for_each(|remark| tracing::warn!("{remark}"));
        Ok(listeners)
    }

    /// Moves the listeners to where the variables say; returns remarks.
    pub fn follow(&mut self, store: &Store) -> Vec<String> {
        let (wanted, mut remarks) = interfaces(store.variables());
        let (mut interfaces, mut failed) = self.bind(wanted.clone(), Duration::ZERO);
        let has_gone = |current: &[String]| current.iter().any(|interface| !wanted.contains(interface));
        if !failed.is_empty() && has_gone(&self.interfaces) {
            // What has to go may have the same port.
            let before = self.interfaces.clone();
            self.listen(std::mem::take(&mut interfaces));
            (interfaces, failed) = self.bind(wanted.clone(), LEAVING);
            if !failed.is_empty() {
                // Better there than nowhere.
                let mut all = wanted;
                all.extend(before);
                (interfaces, _) = self.bind(all, Duration::ZERO);
            }
        }
        self.listen(interfaces);
        remarks.extend(failed);
        remarks
    }

    /// Binds what is not listened on yet; an address that is in use may become free for so long.
    fn bind(&self, wanted: Vec<String>, patience: Duration) -> (Interfaces, Vec<String>) {
        let deadline = Instant::now() + patience;
        Interfaces::bind(wanted, &self.interfaces, PORT, |interface| {
            when_free(deadline, || self.sockets.bind(interface, ListenFor::Http))
        })
    }

    /// Why it could not listen where these variables say.
    pub fn obstacles(&self, variables: &Values) -> Vec<String> {
        let (wanted, mut remarks) = interfaces(variables);
        remarks.extend(Interfaces::obstacles(&wanted, &self.interfaces, PORT));
        remarks
    }

    /// Listens on these, and on nothing else.
    fn listen(&mut self, interfaces: Interfaces) {
        let gone = self.interfaces.iter().filter(|interface| !interfaces.wanted.contains(interface));
        gone.for_each(|interface| self.sockets.release(interface));
        for (interface, _) in &interfaces.new {
            tracing::info!(interface, "metrics and health checks are served");
        }
        self.interfaces.clone_from(&interfaces.wanted);
        // The thread exists; if it has ended, there is nothing to listen for.
        let _ = self.orders.send(HttpOrder::Listen(interfaces));
    }

    /// Applies the current variables to connections that begin from now on.
    pub fn announce(&self, store: &Store, secrets: &Secrets, tls: SharedTls) {
        let _ = self.orders.send(HttpOrder::Settings(Box::new(settings(store, secrets, tls))));
    }
}

/// The interfaces, and remarks about why there are none.
fn interfaces(variables: &Values) -> (Vec<String>, Vec<String>) {
    match http_interfaces(variables) {
        Ok(interfaces) => (interfaces, Vec::new()),
        Err(problem) => (Vec::new(), vec![problem.to_string()]),
    }
}

/// How long another listener of this process may take to leave a port.
const LEAVING: Duration = Duration::from_millis(500);

fn settings(store: &Store, secrets: &Secrets, tls: SharedTls) -> HttpSettings {
    let admin = admin::settings(store, secrets, tls);
    HttpSettings { admin, tls: store.variables().text("admin-restapi_tls") == "true" }
}
