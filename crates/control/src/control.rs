//! The control thread: it owns the store and the data plane, and answers one statement at a time.
//!
//! Whatever an operator asks, workers hear of it by messages only: a statement that takes long keeps other operators
//! waiting, and nobody else. SQL of users of statistics is not carried out here at all.

mod audit;
mod history;
mod plane;
mod servers;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use narrows_proxy::query_log::QueryLog;
use narrows_proxy::rt::MailboxSender;
use narrows_proxy::server::{DataPlane, Listening, Pulse};
use narrows_proxy::snapshot::{Rows, Snapshot};
use narrows_proxy::sockets::Sockets;
use narrows_proxy::stats::Observer;
use narrows_proxy::tls::SharedTls;
use rusqlite::types::Value;

use crate::admin::answer::Reply;
use crate::admin::listener::{self, Order};
use crate::admin::readers::{self, Job};
use crate::admin::settings::{Settings, Variables};
use crate::admin::stats::Taken;
use crate::admin::{Caller, Request, command};
use crate::config_file::checks::{Together, known_passwords};
use crate::files;
use crate::monitor::placement::Known;
use crate::monitor::{Monitor, Report};
use crate::schema::Module;
use crate::store::{Answer, Candidate, Store, Warning};
use crate::tls;
pub use plane::Plane;
use servers::Servers;
pub use servers::{Monitoring, as_known};

/// What the control thread is told.
#[derive(Debug)]
pub enum Message {
    /// Answer this.
    Statement(Request),
    /// Have figures go on that were reset for a statement which has not told them.
    GiveBack(Taken),
    /// Open the log files anew.
    FlushLogs,
    /// Take what checks have found.
    Monitor(Report),
    /// Let go of everything but the data plane, and hand that over.
    HandOver(HandOver),
}

impl From<Report> for Message {
    fn from(report: Report) -> Message {
        Message::Monitor(report)
    }
}

/// A request for the data plane, until one side gives it up.
#[derive(Debug)]
pub struct HandOver {
    /// Set by whoever comes first: the control thread, which then hands over, or who waits for it and does so no longer.
    is_settled: Arc<AtomicBool>,
    to: Sender<Plane>,
}

/// How the process is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At once.
    Now,
    /// When clients have left, or have had the time to.
    Orderly,
    /// And be started again.
    Again,
}

/// What the control thread begins with.
pub struct Beginning {
    /// The configuration.
    pub store: Store,
    /// The data plane, running.
    pub plane: DataPlane,
    /// What is configured; the data plane runs with that [`as_known`].
    pub rows: Rows,
    /// What is known of servers.
    pub known: Known,
    /// Where listening sockets come from.
    pub sockets: Arc<dyn Sockets>,
    /// Keeps what runs for the process that comes after this one.
    pub keep: Option<Keep>,
    /// Whether servers are checked.
    pub monitoring: Monitoring,
    /// The folder of everything that is written.
    pub datadir: PathBuf,
    /// What writes down statements.
    pub query_log: QueryLog,
    /// Opens the log of the program anew.
    pub reopen_log: Box<dyn Fn() -> io::Result<()> + Send>,
    /// Is told when the process is to end.
    pub on_end: Box<dyn Fn(End) + Send>,
    /// Is told when other workers serve than before, by what tells whether they still do anything; `None`: nobody serves.
    pub on_pulse: Box<dyn Fn(Option<Pulse>) + Send>,
}

/// Takes the bytes of [`Store::freeze`], each time something else runs.
pub type Keep = Box<dyn Fn(&[u8]) + Send>;

/// Why there is no admin interface.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// An address cannot be listened on.
    #[error("cannot listen on {interface} (admin-mysql_ifaces): {source}")]
    Listen {
        /// The address.
        interface: String,
        /// Why.
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// The way to the control thread.
#[derive(Debug, Clone)]
pub struct Handle {
    messages: Sender<Message>,
    addresses: Vec<String>,
}

impl Handle {
    /// Where administrators are listened for.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Has the log files opened again.
    pub fn flush_logs(&self) {
        // A control thread that has ended has no logs.
        let _ = self.messages.send(Message::FlushLogs);
    }

    /// Ends the admin interface, the monitor and the store, and gives what is left: the data plane, where it runs.
    ///
    /// # Errors
    /// When a statement of an administrator runs for longer than `limit`; everything goes on then.
    pub fn hand_over(&self, limit: Duration) -> Result<Option<DataPlane>, StillBusy> {
        let (to, handed) = channel();
        let is_settled = Arc::new(AtomicBool::new(false));
        let _ = self.messages.send(Message::HandOver(HandOver { is_settled: Arc::clone(&is_settled), to }));
        let plane = match handed.recv_timeout(limit) {
            Err(RecvTimeoutError::Timeout) if !is_settled.swap(true, Ordering::AcqRel) => {
                return Err(StillBusy);
            }
            // It is on its way; a control thread that has ended has nothing to hand over.
            Err(RecvTimeoutError::Timeout) => handed.recv().ok(),
            handed => handed.ok(),
        };
        Ok(match plane {
            Some(Plane::Running(plane)) => Some(plane),
            Some(Plane::Stopped) | None => None,
        })
    }
}

/// The control thread could not be reached in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a statement of an administrator is still running")]
pub struct StillBusy;

/// Starts the control thread and the thread that serves administrators.
///
/// # Errors
/// See [`BeginError`].
pub fn begin(beginning: Beginning) -> Result<Handle, BeginError> {
    let interfaces = interfaces(&beginning.store);
    let bind = |interface: &String| match beginning.sockets.bind(interface) {
        Ok(listener) => Ok((interface.clone(), listener)),
        Err(source) => Err(BeginError::Listen { interface: interface.clone(), source }),
    };
    let bound = interfaces.iter().map(bind).collect::<Result<Vec<_>, _>>()?;
    let addresses = bound.iter().map(|(_, listener)| listener.address()).collect();
    let (messages, mailbox) = channel();
    let settings = settings(&beginning.store, beginning.rows.tls.clone());
    let orders = listener::start(settings, messages.clone())?;
    let readers = readers::start(messages.clone())?;
    let listen = Order::Listen { wanted: interfaces.clone(), new: bound };
    let monitor = match beginning.monitoring {
        Monitoring::On => Some(Monitor::start(messages.clone(), beginning.store.urgency())?),
        Monitoring::Off => None,
    };
    let control = Control {
        servers: Servers::new(monitor, &beginning.rows, beginning.store.variables(), beginning.known),
        read_only: beginning.store.variable("admin-read_only").as_deref() == Some("true"),
        store: beginning.store,
        plane: Plane::Running(beginning.plane),
        rows: beginning.rows,
        datadir: beginning.datadir,
        query_log: beginning.query_log,
        reopen_log: beginning.reopen_log,
        on_end: beginning.on_end,
        on_pulse: beginning.on_pulse,
        orders,
        readers,
        sockets: beginning.sockets,
        keep: beginning.keep,
        interfaces,
        servers_version: 1,
        nodes: Vec::new(),
        taken: history::Taken::default(),
        audit: audit::Audit::default(),
    };
    // The thread of the sessions is there; where it is not any more there is nobody to listen for.
    let _ = control.orders.send(listen);
    control.announce_plan();
    control.keep_what_runs();
    std::thread::Builder::new().name("control".to_owned()).spawn(move || control.run(&mailbox))?;
    Ok(Handle { messages, addresses })
}

/// Owns what is configured and what runs.
pub struct Control {
    /// The configuration.
    pub store: Store,
    plane: Plane,
    /// What is configured and loaded.
    rows: Rows,
    /// Servers as they are: not always where they are configured.
    servers: Servers,
    datadir: PathBuf,
    query_log: QueryLog,
    reopen_log: Box<dyn Fn() -> io::Result<()> + Send>,
    on_end: Box<dyn Fn(End) + Send>,
    on_pulse: Box<dyn Fn(Option<Pulse>) + Send>,
    orders: MailboxSender<Order>,
    readers: Sender<Job>,
    sockets: Arc<dyn Sockets>,
    keep: Option<Keep>,
    /// Where administrators are listened for, as configured.
    interfaces: Vec<String>,
    read_only: bool,
    servers_version: u64,
    nodes: Vec<Node>,
    taken: history::Taken,
    audit: audit::Audit,
}

/// Another node of a cluster that has named itself.
struct Node {
    uuid: String,
    host: String,
    port: u16,
    interface: String,
    last_seen: SystemTime,
}

impl Control {
    fn run(mut self, mailbox: &Receiver<Message>) {
        loop {
            self.sample();
            self.audit.tick();
            let message = match mailbox.recv_timeout(history::TICK) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            match message {
                Message::Statement(request) => self.answer(request),
                Message::GiveBack(taken) => taken.give_back(&self),
                Message::FlushLogs => drop(self.flush_logs()),
                Message::Monitor(report) => self.learn(report),
                Message::HandOver(request) => {
                    if !request.is_settled.swap(true, Ordering::AcqRel) {
                        let plane = self.let_go();
                        let _ = request.to.send(plane);
                        return;
                    }
                }
            }
        }
    }

    fn answer(&mut self, mut request: Request) {
        let reply = command::answer(self, &mut request.caller, &request.text, request.since);
        request.caller.is_checked = false;
        // A session that has ended needs no answer, and a thread that has ended gives none.
        match reply {
            Reply::OnFigures(question) => drop(self.readers.send(Job { question: *question, request })),
            reply => drop(request.reply.send((request.caller, reply))),
        }
    }

    /// Ends everything but the data plane: databases are closed when this returns.
    fn let_go(mut self) -> Plane {
        self.audit.flush();
        std::mem::replace(&mut self.plane, Plane::Stopped)
    }

    /// Takes memory into force: all of it or nothing.
    pub fn load(&mut self, module: Module) -> Reply {
        match self.store.candidate(module) {
            Ok(candidate) => self.adopt(module, candidate),
            Err(refusal) => Reply::Refused(refusal),
        }
    }

    /// Puts a candidate into force, and has the store know.
    fn adopt(&mut self, module: Module, candidate: Candidate) -> Reply {
        let mut warnings = Vec::new();
        let mut rows = candidate.rows.clone();
        rows.tls = self.tls_for(&candidate, &mut warnings);
        let (running, placement) = self.placed(module, &rows, &candidate.variables);
        let servers = running.servers.clone();
        if let Err(error) = self.plane.publish(running) {
            return Reply::error(error);
        }
        self.rows = rows;
        let answer = match self.store.accept(candidate) {
            Ok(answer) => answer,
            Err(refusal) => return Reply::Refused(refusal),
        };
        self.follow(servers, placement);
        let findings = Together::of_rows(&self.rows).findings().into_iter();
        warnings.extend(findings.filter(|it| it.is_of(module)).map(|it| remark(it.problem.to_string())));
        match module {
            Module::MysqlServers => self.servers_version += 1,
            Module::AdminVariables => {
                self.set_read_only(self.store.variable("admin-read_only").as_deref() == Some("true"));
                self.listen(&mut warnings);
                let known = known_passwords(self.store.variables());
                warnings.extend(known.into_iter().map(|problem| remark(problem.to_string())));
                self.announce_settings();
            }
            Module::MysqlVariables => self.announce_settings(),
            _ => {}
        }
        self.keep_what_runs();
        let answer = with_warnings(answer, warnings);
        log_warnings(&answer);
        Reply::Answer(answer)
    }

    /// Keys and certificates for a candidate: those there are, unless what they are made of has changed.
    fn tls_for(&self, candidate: &Candidate, warnings: &mut Vec<Warning>) -> SharedTls {
        let old = self.rows.tls.clone();
        let (now, then) = (self.store.variables(), &candidate.variables);
        let changed = VARIABLES_OF_TLS.iter().any(|name| now.value(name) != then.value(name))
            || candidate.rows.ssl_params != self.rows.ssl_params;
        if !changed {
            return old;
        }
        match tls::load(&self.datadir, then, &candidate.rows.ssl_params) {
            Ok(loaded) => {
                warnings.extend(loaded.remarks.into_iter().map(remark));
                loaded.tls
            }
            Err(error) => {
                warnings.push(remark(format!("keys and certificates stay as they were: {error}")));
                old
            }
        }
    }

    /// Listens where `admin-mysql_ifaces` says now.
    fn listen(&mut self, warnings: &mut Vec<Warning>) {
        let wanted = interfaces(&self.store);
        let mut new = Vec::new();
        for interface in wanted.iter().filter(|interface| !self.interfaces.contains(interface)) {
            match self.sockets.bind(interface) {
                Ok(listener) => new.push((interface.clone(), listener)),
                Err(error) => {
                    warnings
                        .push(remark(format!("cannot listen on {interface} (admin-mysql_ifaces): {error}")));
                }
            }
        }
        let bound = |interface: &&String| {
            self.interfaces.contains(interface) || new.iter().any(|(bound, _)| bound == *interface)
        };
        let kept: Vec<String> = wanted.iter().filter(bound).cloned().collect();
        if kept.is_empty() {
            warnings.push(remark("the admin interface goes on where it is listening".to_owned()));
            return;
        }
        let gone = self.interfaces.iter().filter(|interface| !kept.contains(interface));
        gone.for_each(|interface| self.sockets.release(interface));
        self.interfaces.clone_from(&kept);
        let _ = self.orders.send(Order::Listen { wanted: kept, new });
    }

    fn announce_settings(&self) {
        let settings = settings(&self.store, self.rows.tls.clone());
        let _ = self.orders.send(Order::Settings(Box::new(settings)));
    }

    /// `PROXYSQL RELOAD TLS`
    pub fn reload_tls(&mut self) -> Reply {
        match tls::load(&self.datadir, self.store.variables(), &self.rows.ssl_params) {
            Ok(loaded) => {
                self.rows.tls = loaded.tls;
                self.plane.replace_tls(self.rows.tls.clone());
                self.announce_settings();
                self.announce_plan();
                let warnings = loaded.remarks.into_iter().map(remark).collect();
                Reply::Answer(with_warnings(Answer::done(0), warnings))
            }
            Err(error) => Reply::error(error),
        }
    }

    /// What asks the workers; `None` while there are none.
    pub fn observer(&self) -> Option<Observer> {
        self.plane.running().map(DataPlane::observer)
    }

    /// What runs; `None` while nothing does.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.plane.running().map(|plane| plane.snapshot().as_ref())
    }

    /// Whether clients are accepted; `None` while nothing runs.
    pub fn listening(&self) -> Option<Listening> {
        self.plane.running().map(DataPlane::listening)
    }

    /// Where clients connect to first.
    pub fn first_listener(&self) -> (String, u16) {
        let address = self.plane.running().and_then(|plane| plane.addresses().first().cloned());
        let address = address.unwrap_or_default();
        match address.rsplit_once(':') {
            Some((host, port)) => (host.to_owned(), port.parse().unwrap_or(0)),
            None => (String::new(), 0),
        }
    }

    /// The only active user, where there is no other.
    pub fn only_user(&self) -> Option<String> {
        let mut active = self.rows.users.iter().filter(|user| user.active);
        let first = active.next()?;
        active.next().is_none().then(|| first.username.clone())
    }

    /// Where clients, and administrators, are listened for.
    pub fn listeners(&self) -> (Vec<String>, &[String]) {
        let clients = self.plane.running().map(|plane| plane.addresses().to_vec());
        (clients.unwrap_or_default(), &self.interfaces)
    }

    /// The folder of everything that is written.
    pub fn datadir(&self) -> &Path {
        &self.datadir
    }

    /// How often servers were loaded.
    pub fn servers_version(&self) -> u64 {
        self.servers_version
    }

    /// Whether changes are refused.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether changes are refused from now on.
    pub fn set_read_only(&mut self, read_only: bool) {
        self.read_only = read_only;
        self.store.set_read_only(read_only);
    }

    /// `PROXYSQL STOP`
    pub fn stop(&mut self) -> Reply {
        self.plane.stop();
        (self.on_pulse)(None);
        Reply::ok()
    }

    /// `PROXYSQL START`
    pub fn start(&mut self) -> Reply {
        if self.plane.running().is_some() {
            return Reply::error("ProxySQL already started");
        }
        match DataPlane::start_with(self.running_rows(), Arc::clone(&self.sockets), Listening::On) {
            Ok(mut plane) => {
                plane.log_queries_to(self.query_log.clone());
                (self.on_pulse)(Some(plane.pulse()));
                self.plane = Plane::Running(plane);
                Reply::ok()
            }
            Err(error) => Reply::error(error),
        }
    }

    /// `PROXYSQL PAUSE`
    pub fn pause(&mut self) -> Reply {
        match self.plane.running_mut() {
            None => Reply::error("ProxySQL MySQL module not running, impossible to pause"),
            Some(plane) if plane.listening() == Listening::Paused => {
                Reply::error("ProxySQL MySQL module is already paused, impossible to pause")
            }
            Some(plane) => {
                plane.pause();
                Reply::ok()
            }
        }
    }

    /// `PROXYSQL RESUME`
    pub fn resume(&mut self) -> Reply {
        match self.plane.running_mut() {
            None => Reply::error("ProxySQL MySQL module not running, impossible to resume"),
            Some(plane) if plane.listening() == Listening::On => {
                Reply::error("ProxySQL MySQL module is not paused, impossible to resume")
            }
            Some(plane) => match plane.resume() {
                Ok(()) => Reply::ok(),
                Err(error) => Reply::error(error),
            },
        }
    }

    /// Ends the process; nothing is answered.
    pub fn end(&mut self, end: End) -> Reply {
        self.audit.flush();
        (self.on_end)(end);
        Reply::HangUp
    }

    /// `PROXYSQL FLUSH LOGS`
    pub fn flush_logs(&self) -> Reply {
        self.query_log.rotate();
        match (self.reopen_log)() {
            Ok(()) => Reply::ok(),
            Err(error) => Reply::error(format!("the log cannot be opened again: {error}")),
        }
    }

    /// `PROXYSQL FLUSH MYSQL CLIENT HOSTS`
    pub fn forget_client_hosts(&self) {
        if let Some(observer) = self.observer() {
            observer.client_hosts(narrows_proxy::stats::Take::Reset);
        }
    }

    /// `SAVE MYSQL DIGEST TO DISK`
    pub fn save_digests(&mut self) -> Reply {
        let insert = "INSERT INTO stats_history.history_mysql_query_digest SELECT CAST(strftime('%s','now') AS INT), * \
                      FROM stats.stats_mysql_query_digest_reset";
        let digests = self.observer().map_or(0, |observer| {
            narrows_proxy::stats::wait(observer.digests(narrows_proxy::stats::Take::Copy)).len()
        });
        if digests == 0 {
            return Reply::ok();
        }
        command::sql_of_full_users(self, insert)
    }

    /// Writes memory as a configuration file; how many bytes that is.
    ///
    /// # Errors
    /// The answer that says why not.
    pub fn write_config(&mut self, path: &str) -> Result<usize, Reply> {
        let text = self.store.config_text().map_err(Reply::Refused)?;
        // There are passwords in it: a new file is its owner's alone.
        match files::replace(Path::new(path), text.as_bytes(), 0o600) {
            Ok(()) => Ok(text.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Reply::error(format!("Cannot open file {path}")))
            }
            Err(error) => {
                tracing::error!(path, %error, "the configuration file cannot be written");
                Err(Reply::error(format!(
                    "Cannot open file {path}: {error}; what was there is left as it was"
                )))
            }
        }
    }

    /// Takes one user of memory into force.
    pub fn load_user(&mut self, name: &str) -> Reply {
        match self.store.candidate_user(name) {
            Ok(candidate) => self.adopt(Module::MysqlUsers, candidate),
            Err(refusal) => Reply::Refused(refusal),
        }
    }

    /// Notes that another node has named itself.
    pub fn note_node(&mut self, uuid: &str, caller: &Caller, interface: &str) -> Reply {
        self.nodes.retain(|node| node.uuid != uuid);
        if self.nodes.len() >= MOST_NODES {
            return Reply::error("too many nodes have named themselves");
        }
        self.nodes.push(Node {
            uuid: uuid.to_owned(),
            host: caller.host.clone(),
            port: caller.port,
            interface: interface.to_owned(),
            last_seen: SystemTime::now(),
        });
        Reply::ok()
    }

    /// The rows of `stats_proxysql_servers_clients_status`.
    pub fn nodes(&self) -> Vec<Vec<Value>> {
        let row = |node: &Node| {
            let seen = node.last_seen.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            vec![
                Value::Text(node.uuid.clone()),
                Value::Text(node.host.clone()),
                Value::Integer(node.port.into()),
                Value::Text(node.interface.clone()),
                Value::Integer(i64::try_from(seen).unwrap_or(i64::MAX)),
            ]
        };
        self.nodes.iter().map(row).collect()
    }
}

/// The interfaces of the admin interface.
fn interfaces(store: &Store) -> Vec<String> {
    let configured = store.variable("admin-mysql_ifaces").unwrap_or_default();
    let mut interfaces: Vec<String> = Vec::new();
    for interface in configured.split([';', ',']).map(str::trim).filter(|one| !one.is_empty()) {
        if !interfaces.iter().any(|known| known == interface) {
            interfaces.push(interface.to_owned());
        }
    }
    interfaces
}

fn settings(store: &Store, tls: SharedTls) -> Settings {
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
    Settings::new(&variables, tls)
}

fn with_warnings(answer: Answer, more: Vec<Warning>) -> Answer {
    match answer {
        Answer::Done { affected, info, mut warnings } => {
            warnings.extend(more);
            Answer::Done { affected, info, warnings }
        }
        rows => rows,
    }
}

/// Writes what a LOAD has left out, and what of it has no effect, into the log too.
fn log_warnings(answer: &Answer) {
    let Answer::Done { warnings, .. } = answer else { return };
    for warning in warnings.iter().take(MOST_LOGGED) {
        tracing::warn!("{}", warning.message);
    }
    if warnings.len() > MOST_LOGGED {
        tracing::warn!(more = warnings.len() - MOST_LOGGED, "SHOW WARNINGS has the others");
    }
}

/// Warnings of one LOAD that are logged: a rule set that is wrong as a whole has thousands.
const MOST_LOGGED: usize = 50;

fn remark(message: String) -> Warning {
    Warning { code: 1105, message }
}

/// The variables that keys and certificates are made of.
const VARIABLES_OF_TLS: &[&str] = &[
    "mysql-have_ssl",
    "mysql-ssl_p2s_ca",
    "mysql-ssl_p2s_capath",
    "mysql-ssl_p2s_cert",
    "mysql-ssl_p2s_key",
    "mysql-ssl_p2s_cipher",
    "mysql-ssl_p2s_crl",
    "mysql-ssl_p2s_crlpath",
    "admin-ssl_keylog_file",
];

/// Nodes that are remembered: far more than a cluster has.
const MOST_NODES: usize = 1_000;
