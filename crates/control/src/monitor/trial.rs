//! One trial of everything that a configuration says about servers, before anybody depends on it: `narrows check
//! --connect`.
//!
//! The monitor's account makes the checks that the monitor would make, so that a missing privilege is found; then each
//! account whose password is known logs in to a server of its hostgroup. Nothing is changed on a server. Every server and
//! every account has the same time, and they are tried in parallel.

use std::collections::HashSet;
use std::io;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use narrows_proxy::backend::BackendError;
use narrows_proxy::rt::{self, Instant, JoinHandle, Semaphore, spawn_local, timeout};
use narrows_proxy::server_tokens::TokenLogin;
use narrows_proxy::snapshot::{
    PassThroughUsers, Rows, ServerRow, ServerStatus, UserRow, has_tokens, is_template,
};
use narrows_proxy::state::SessionState;
use narrows_wire::auth::client_side::Stored;

use super::connections::MonitorConnections;
use super::ping::PingOutcome;
use super::plan::{Address, MonitorLogin, Target, targets};
use super::settings::MonitorSettings;
use super::{CHECKS, connect};

/// A failure, or something that was not tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialResult {
    /// The row that it is about.
    pub row: TrialRow,
    /// Whether it failed, or was not tried.
    pub outcome: TrialOutcome,
    /// The name of what was tried.
    pub subject: String,
    /// Server, account, and the reason.
    pub message: String,
}

/// A row of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialRow {
    /// A row of `mysql_servers`, by its index.
    Server(usize),
    /// A row of `mysql_users`, by its index.
    User(usize),
    /// None: the variables of the monitor.
    Monitor,
}

/// What became of a trial that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialOutcome {
    /// It failed.
    Failed,
    /// It was not made.
    NotTried,
}

/// Tries servers and accounts, each within `limit`.
///
/// # Errors
/// A thread or its runtime that cannot be started.
pub fn try_all(
    rows: &Rows,
    settings: MonitorSettings,
    access: MonitorLogin,
    limit: Duration,
) -> io::Result<Vec<TrialResult>> {
    let rows = rows.clone();
    let (sender, receiver) = mpsc::channel();
    // The system's resolver cannot be interrupted: the thread may stay in it, and then ends with the process.
    std::thread::Builder::new().name("trials".to_owned()).spawn(move || {
        let also = sender.clone();
        let trials = async move {
            let places = Semaphore::new(MOST_AT_ONCE);
            let results = Rc::new(Trials { rows, settings, access, limit, places }).run().await;
            // The receiver waits for this.
            let _ = also.send(Ok(results));
        };
        if let Err(error) = rt::block_on(trials) {
            let _ = sender.send(Err(error));
        }
    })?;
    receiver.recv().unwrap_or_else(|_| Err(io::Error::other("the trials ended early")))
}

/// Connections that are tried at a time: far fewer than the descriptors that a process may have.
const MOST_AT_ONCE: usize = 256;

/// What is tried, and how.
struct Trials {
    rows: Rows,
    settings: MonitorSettings,
    access: MonitorLogin,
    limit: Duration,
    places: Semaphore,
}

/// What was found out about one server.
struct TriedServer {
    address: Address,
    /// Whether it answers, even if it refuses the monitor's account.
    answers: bool,
    results: Vec<TrialResult>,
}

impl Trials {
    async fn run(self: Rc<Trials>) -> Vec<TrialResult> {
        let mut results = self.left_out();
        let try_server = |target| spawn_local(Rc::clone(&self).server(target));
        let servers = all(targets(&self.rows.servers, &self.rows).into_iter().map(try_server)).await;
        let answering: HashSet<Address> =
            servers.iter().filter(|tried| tried.answers).map(|tried| tried.address.clone()).collect();
        results.extend(servers.into_iter().flat_map(|tried| tried.results));
        let mut logins = Vec::new();
        let passthrough = PassThroughUsers::of(&self.rows.variables);
        for (index, user) in self.rows.users.iter().enumerate() {
            if is_template(user) || passthrough.as_ref().is_some_and(|it| it.knows_no_password_of(user)) {
                let why = "only the servers know its password (mysql-passthrough_auth_enabled)";
                results.push(not_tried(TrialRow::User(index), account(user), why));
                continue;
            }
            match self.server_for(user, &answering) {
                Ok(server) => {
                    let login = Rc::clone(&self).login(index, user.clone(), server.clone());
                    logins.push(spawn_local(login));
                }
                Err(why) => results.push(not_tried(TrialRow::User(index), account(user), &why)),
            }
        }
        results.extend(all(logins.into_iter()).await.into_iter().flatten());
        results
    }

    /// The servers that are out of use, and the monitor if it is off.
    fn left_out(&self) -> Vec<TrialResult> {
        let offline = self.rows.servers.iter().enumerate().filter(|(_, row)| is_offline(row));
        let server = |(index, row): (usize, &ServerRow)| {
            let why = format!("it is {}", row.status.name());
            not_tried(TrialRow::Server(index), format!("server {}", Address::of(row)), &why)
        };
        let mut results: Vec<TrialResult> = offline.map(server).collect();
        if !self.settings.enabled {
            let subject = format!("account {:?} of the monitor", self.access.username);
            results.push(not_tried(TrialRow::Monitor, subject, "mysql-monitor_enabled is false"));
        }
        results
    }

    /// Connects as the monitor, and makes its checks.
    async fn server(self: Rc<Trials>, target: Target) -> TriedServer {
        let _place = self.places.acquire().await;
        let deadline = Instant::now() + self.limit;
        let connections = MonitorConnections::new(&target, &self.access, None);
        let connected = connections.open(self.limit).await;
        let answers = PingOutcome::of(&connected) != PingOutcome::Silence;
        let mut results = Vec::new();
        match connected {
            // That the server answers is all that is of interest while there is no monitor.
            Err(_) if answers && !self.settings.enabled => {}
            Err(error) => results.push(self.failed_check(&target, "", &error)),
            Ok(backend) => {
                connections.give_back(backend);
                if self.settings.enabled {
                    results = self.checks(&target, &connections, deadline).await;
                }
                connections.quit().await;
            }
        }
        TriedServer { address: target.address, answers, results }
    }

    /// Makes the checks that the monitor would make, apart from the connection, which there is; returns those that fail.
    async fn checks(
        &self,
        target: &Target,
        connections: &MonitorConnections,
        deadline: Instant,
    ) -> Vec<TrialResult> {
        let mut results = Vec::new();
        for kind in CHECKS.into_iter().filter(|kind| *kind != &connect::CHECK) {
            for subject in (kind.subjects)(target) {
                let limit = deadline.saturating_duration_since(Instant::now());
                let mut task = (kind.begin)(subject);
                task.prepare(target);
                let asked = timeout(limit, task.ask(connections, &self.settings, limit)).await;
                if let Err(error) = asked.unwrap_or(Err(BackendError::Timeout)) {
                    results.push(self.failed_check(target, kind.name, &error));
                }
            }
        }
        results
    }

    /// That the monitor's account cannot make a check of a server, or (without a name) cannot connect.
    fn failed_check(&self, target: &Target, check: &str, error: &BackendError) -> TrialResult {
        let is_of = |row: &ServerRow| !is_offline(row) && Address::of(row) == target.address;
        let row = self.rows.servers.iter().position(is_of).map_or(TrialRow::Monitor, TrialRow::Server);
        let what = if check.is_empty() { String::new() } else { format!("the check {check} fails: ") };
        let subject = format!("server {}", target.address);
        let (user, reason) = (&self.access.username, self.reason(error));
        let message = format!("{subject}: account {user:?} of the monitor: {what}{reason}");
        TrialResult { row, outcome: TrialOutcome::Failed, subject, message }
    }

    /// The server that an account is tried on.
    ///
    /// # Errors
    /// Why it is not tried.
    fn server_for(&self, user: &UserRow, answering: &HashSet<Address>) -> Result<&ServerRow, String> {
        if !user.active {
            return Err("it is not active".to_owned());
        }
        let is_clear = || matches!(Stored::parse(user.password.as_bytes()), Stored::Clear(_));
        if !has_tokens(user) && !is_clear() {
            return Err("its password is stored as a hash".to_owned());
        }
        let hostgroup = user.default_hostgroup;
        let of =
            |wanted| self.rows.servers.iter().filter(move |row| row.hostgroup == wanted && !is_offline(row));
        let mut servers: Vec<&ServerRow> = of(hostgroup).collect();
        if servers.is_empty() {
            // Servers of the other hostgroups of a pair or a cluster may be put in this one.
            let pairs = self.rows.pairs().map(|pair| vec![pair.writers, pair.readers]);
            let groups = pairs.chain(self.rows.clusters().map(|row| row.hostgroups().to_vec()));
            servers = groups.filter(|group| group.contains(&hostgroup)).flatten().flat_map(of).collect();
        }
        if servers.is_empty() {
            return Err(format!("hostgroup {hostgroup} has no server in use"));
        }
        let answers = servers.into_iter().find(|row| answering.contains(&Address::of(row)));
        answers.ok_or_else(|| format!("no server of hostgroup {hostgroup} answers"))
    }

    /// Logs in as a client's account would be; returns why that fails.
    async fn login(self: Rc<Trials>, index: usize, user: UserRow, server: ServerRow) -> Option<TrialResult> {
        let _place = self.places.acquire().await;
        let target = Target {
            address: Address::of(&server),
            use_ssl: server.use_ssl,
            check_types: Vec::new(),
            pairs: Vec::new(),
            lag_limits: Vec::new(),
            clusters: Vec::new(),
        };
        let access = MonitorLogin {
            username: user.username.clone(),
            password: user.password.clone(),
            tokens: TokenLogin::of(&user, &self.rows.tokens),
            ..self.access.clone()
        };
        let schemas = [&user.default_schema, &self.rows.variables.default_schema];
        let mut state = SessionState::default();
        let schema = schemas.into_iter().find(|schema| !schema.is_empty());
        state.schema = schema.map(|schema| schema.as_bytes().into());
        match MonitorConnections::new(&target, &access, None).open_in(&state, self.limit).await {
            Ok(backend) => {
                backend.quit().await;
                None
            }
            Err(error) => {
                let (subject, reason) = (account(&user), self.reason(&error));
                let message = format!("server {}: {subject}: {reason}", target.address);
                Some(TrialResult {
                    row: TrialRow::User(index),
                    outcome: TrialOutcome::Failed,
                    subject,
                    message,
                })
            }
        }
    }

    fn reason(&self, error: &BackendError) -> String {
        match error {
            BackendError::Timeout => format!("no answer within {:?}", self.limit),
            error => error.to_string(),
        }
    }
}

/// Waits for all of them. A panic of one has already been reported.
async fn all<T>(tasks: impl Iterator<Item = JoinHandle<T>>) -> Vec<T> {
    // All of them must be running before one is waited for.
    let tasks: Vec<_> = tasks.collect();
    let mut results = Vec::with_capacity(tasks.len());
    for task in tasks {
        results.extend(task.await);
    }
    results
}

fn account(user: &UserRow) -> String {
    format!("account {:?}", user.username)
}

fn not_tried(row: TrialRow, subject: String, why: &str) -> TrialResult {
    let message = format!("{subject}: not tried: {why}");
    TrialResult { row, outcome: TrialOutcome::NotTried, subject, message }
}

fn is_offline(row: &ServerRow) -> bool {
    matches!(row.status, ServerStatus::OfflineSoft | ServerStatus::OfflineHard)
}
