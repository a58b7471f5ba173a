//! One login on one server: over TLS or not, and why it failed, in a sentence that says what to do.

use std::io::ErrorKind;
use std::time::Duration;

use narrows_control::monitor::connections::MonitorConnections;
use narrows_control::monitor::plan::{Address, MonitorLogin, Target};
use narrows_control::tls;
use narrows_proxy::backend::{Backend, BackendError, ServerError, Table};
use narrows_wire::Capabilities;

use super::address;
use crate::one_line::printable;

/// A name and a password.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The name.
    pub username: String,
    /// The password.
    pub password: String,
}

/// An open connection.
#[derive(Debug)]
pub struct Visit {
    backend: Backend,
    /// Whether it uses TLS.
    pub is_encrypted: bool,
    /// Whether the server would have used TLS.
    pub offers_tls: bool,
}

/// Why there is no connection, or no answer.
#[derive(Debug, thiserror::Error)]
#[error("{sentence}")]
pub struct VisitError {
    /// One sentence with what to do.
    sentence: String,
    /// Whether another name or password may help; otherwise another address may.
    pub is_about_account: bool,
    /// The number of the server's error, if it answered with one.
    pub code: Option<u16>,
}

impl Visit {
    /// Logs in to `address`: with TLS if the server is on another machine and offers it.
    ///
    /// # Errors
    /// No server, or one that refuses the account.
    pub async fn begin(address: &Address, account: &Credentials) -> Result<Visit, VisitError> {
        let first = !address::is_local(address);
        let error = match open(address, account, first).await {
            Ok(visit) => return Ok(visit),
            Err(error) => error,
        };
        let is_worth_another = match &error {
            BackendError::NoTls | BackendError::Tls(_) | BackendError::TlsSettings(_) => true,
            // The account may require TLS, or the server may.
            BackendError::Server(error) => {
                !first && [ACCESS_DENIED, SECURE_TRANSPORT_REQUIRED].contains(&error.code)
            }
            _ => false,
        };
        if !is_worth_another {
            return Err(VisitError::new(address, &account.username, &error));
        }
        match open(address, account, !first).await {
            Ok(visit) => Ok(visit),
            // The first reason is the better one, unless it is that there is no TLS.
            Err(second) => {
                let reason = if matches!(error, BackendError::NoTls) { second } else { error };
                Err(VisitError::new(address, &account.username, &reason))
            }
        }
    }

    /// Runs a statement and returns its rows.
    ///
    /// # Errors
    /// The server's, or none in time.
    pub async fn ask(&self, statement: &str) -> Result<Table, BackendError> {
        self.backend.ask(statement, PATIENCE).await
    }

    /// The same, with another limit of time.
    ///
    /// # Errors
    /// The server's, or none in time.
    pub async fn ask_within(&self, statement: &str, limit: Duration) -> Result<Table, BackendError> {
        self.backend.ask(statement, limit).await
    }

    /// Disconnects.
    pub async fn end(self) {
        self.backend.quit().await;
    }
}

async fn open(address: &Address, account: &Credentials, use_ssl: bool) -> Result<Visit, BackendError> {
    let backend = connect(address, account, use_ssl, PATIENCE).await?;
    let offers_tls = use_ssl
        || backend.login.server.figures.capabilities().is_some_and(|it| it.contains(Capabilities::SSL));
    Ok(Visit { backend, is_encrypted: use_ssl, offers_tls })
}

/// Logs in, with TLS if `use_ssl` says so, within `limit`.
///
/// # Errors
/// No server, or one that refuses the account.
pub async fn connect(
    address: &Address,
    account: &Credentials,
    use_ssl: bool,
    limit: Duration,
) -> Result<Backend, BackendError> {
    let access = MonitorLogin {
        username: account.username.clone(),
        password: account.password.clone(),
        tokens: None,
        tls: if use_ssl { tls::towards_anybody() } else { Default::default() },
        may_ask_for_key: true,
    };
    let (check_types, lag_limits) = (Vec::new(), Vec::new());
    let clusters = Vec::new();
    let (address, pairs) = (address.clone(), Vec::new());
    let target = Target { address, use_ssl, check_types, pairs, lag_limits, clusters };
    MonitorConnections::new(&target, &access, None).open(limit).await
}

/// An account as statements name it, for all hosts.
pub fn any_host(username: &str) -> String {
    format!("{}@'%'", quoted(username))
}

/// A text as a literal of SQL.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

impl VisitError {
    /// The sentence for a failed login of `username`, or a failed statement.
    pub fn new(address: &Address, username: &str, error: &BackendError) -> VisitError {
        let (sentence, code, is_about_account) = match error {
            BackendError::Server(error) => {
                (refusal(address, username, error), Some(error.code), error.is_about_login())
            }
            BackendError::Login(failure) => {
                (format!("{address}: '{username}' cannot log in: {failure}"), None, true)
            }
            error => (unreachable(address, error), None, false),
        };
        VisitError { sentence: printable(&sentence).into_owned(), is_about_account, code }
    }

    /// The sentence for a privilege that an account lacks.
    pub fn of_privilege(address: &Address, username: &str, reason: &str) -> VisitError {
        let sentence = format!("'{username}' may not see the replication of {address} ({reason})");
        VisitError { sentence, is_about_account: true, code: None }
    }
}

/// The server has answered with an error.
fn refusal(address: &Address, username: &str, error: &ServerError) -> String {
    let what_to_do = match error.code {
        ACCESS_DENIED => {
            "check the name and the password, and that the account may connect from this machine"
        }
        HOST_NOT_ALLOWED => {
            "create the account for this machine, as 'name'@'%' or with this machine's address"
        }
        TOO_MANY_CONNECTIONS => "try again when clients have left, or raise its max_connections",
        HOST_BLOCKED => "run FLUSH HOSTS there, which ends the blocking of this machine",
        _ => "ask its administrator",
    };
    let (code, message) = (error.code, &error.message);
    format!("{address} refuses '{username}': {what_to_do} (error {code}: {message})")
}

/// Nothing that a server says has arrived.
fn unreachable(address: &Address, error: &BackendError) -> String {
    let seconds = PATIENCE.as_secs();
    match error {
        BackendError::Timeout => format!(
            "{address} does not answer within {seconds} s: check that a server listens there and that no firewall is in between"
        ),
        BackendError::Io(error) if error.kind() == ErrorKind::ConnectionRefused => format!(
            "nothing listens on {address}: check the port, that the server runs, and its bind_address and skip_networking"
        ),
        BackendError::Io(error) if error.kind() == ErrorKind::NotFound => {
            format!("there is no socket {address}: check the path, and that the server runs")
        }
        BackendError::Io(error) => {
            format!("{address} cannot be reached: check the name and the network ({error})")
        }
        BackendError::Closed | BackendError::Malformed(_) => {
            format!("{address} does not answer as a MySQL or MariaDB server does: check the port ({error})")
        }
        error => format!("{address} cannot be used: {error}"),
    }
}

/// How long a login or a statement may take.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// `ER_ACCESS_DENIED_ERROR`.
const ACCESS_DENIED: u16 = 1045;
/// `ER_CON_COUNT_ERROR`.
const TOO_MANY_CONNECTIONS: u16 = 1040;
/// `ER_HOST_IS_BLOCKED`.
const HOST_BLOCKED: u16 = 1129;
/// `ER_HOST_NOT_PRIVILEGED`.
const HOST_NOT_ALLOWED: u16 = 1130;
/// `ER_SECURE_TRANSPORT_REQUIRED`.
const SECURE_TRANSPORT_REQUIRED: u16 = 3159;
