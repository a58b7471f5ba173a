//! The account with which Narrows checks the servers: used if it exists, created if that is agreed to.

use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use anyhow::Context;
use narrows_control::monitor::cluster::ClusterKind;
use narrows_proxy::backend::{BackendError, ServerError};
use narrows_proxy::rt;

use super::accounts::{sees_group, sees_replication, try_everywhere};
use super::topology::{Relation, Topology};
use super::visit::{Credentials, Visit, VisitError, any_host, quoted};

/// The account, and what is known about it.
#[derive(Debug)]
pub struct MonitorAccount {
    /// Its name and password.
    pub login: Credentials,
    /// Whether it can do what it must.
    pub state: MonitorState,
}

/// Whether the account can do what it must.
#[derive(Debug, PartialEq, Eq)]
pub enum MonitorState {
    /// It exists, with its privileges, on all servers.
    Works,
    /// It was created just now.
    Created,
    /// It does not work; why, as a sentence. These statements create it.
    Missing(String, Vec<String>),
}

/// Looks whether the account exists: with the given password, or with the default one.
pub async fn look(topology: &Topology, username: &str, password: Option<&str>) -> Option<MonitorAccount> {
    let password = password.unwrap_or(DEFAULT_PASSWORD).to_owned();
    let login = Credentials { username: username.to_owned(), password };
    match works(topology, &login).await {
        Ok(()) => Some(MonitorAccount { login, state: MonitorState::Works }),
        Err(_) => None,
    }
}

/// The account as it would be created.
///
/// # Errors
/// No random numbers for its password.
pub fn planned(username: &str, password: Option<&str>) -> anyhow::Result<Credentials> {
    let password = match password {
        Some(password) => password.to_owned(),
        None => random_password()?,
    };
    Ok(Credentials { username: username.to_owned(), password })
}

/// The account that is not to be created now.
pub fn postponed(topology: &Topology, login: Credentials) -> MonitorAccount {
    let why =
        format!("There is no account '{}' with which Narrows can check the servers yet.", login.username);
    let state = MonitorState::Missing(why, statements(topology, &login));
    MonitorAccount { login, state }
}

/// Creates the account on the primary and waits until the replicas have it.
///
/// # Errors
/// A primary that can no longer be reached. If it refuses a statement, the account is returned as missing.
pub async fn create(
    topology: &Topology,
    account: &Credentials,
    login: Credentials,
) -> Result<MonitorAccount, VisitError> {
    let statements = statements(topology, &login);
    let refused = run(topology, account, &login, &statements).await?;
    let name = &login.username;
    let state = match refused {
        None => match wait(topology, &login).await {
            Ok(()) => MonitorState::Created,
            Err(error) => {
                let why = format!(
                    "The account '{name}' was created on the primary, but it does not work everywhere: {error}."
                );
                MonitorState::Missing(why, Vec::new())
            }
        },
        Some(error) if error.code == CANNOT_USER => {
            let why = format!(
                "The account '{name}' exists with another password or without a privilege: give its password with --monitor-password, \
                 or another name with --monitor-user."
            );
            MonitorState::Missing(why, statements)
        }
        Some(error) => {
            let (by, code, message) = (&account.username, error.code, error.message);
            let why =
                format!("The account '{name}' could not be created by '{by}' (error {code}: {message}).");
            MonitorState::Missing(why, statements)
        }
    };
    Ok(MonitorAccount { login, state })
}

/// Runs the statements on the primary, all or none; returns the error of the one that is refused.
async fn run(
    topology: &Topology,
    account: &Credentials,
    login: &Credentials,
    statements: &[String],
) -> Result<Option<ServerError>, VisitError> {
    let address = &topology.primary.address;
    let visit = Visit::begin(address, account).await?;
    for (index, statement) in statements.iter().enumerate() {
        match visit.ask(statement).await {
            Ok(_) => {}
            Err(BackendError::Server(error)) => {
                if index > 0 {
                    // Without its privileges it is of no use. An account that may create it may drop it.
                    let _ = visit.ask(&format!("DROP USER {}", any_host(&login.username))).await;
                }
                visit.end().await;
                return Ok(Some(error));
            }
            Err(error) => return Err(VisitError::new(address, &account.username, &error)),
        }
    }
    visit.end().await;
    Ok(None)
}

async fn works(topology: &Topology, login: &Credentials) -> Result<(), VisitError> {
    match topology.relation {
        Relation::Alone | Relation::Cluster(ClusterKind::Galera | ClusterKind::Aurora) => {
            try_everywhere(topology, login).await
        }
        Relation::Cluster(ClusterKind::GroupReplication) => sees_group(topology, login).await,
        _ => sees_replication(topology, login).await,
    }
}

/// Waits until replicas have received the account.
async fn wait(topology: &Topology, login: &Credentials) -> Result<(), VisitError> {
    let deadline = Instant::now() + REPLICATED_WITHIN;
    loop {
        match works(topology, login).await {
            Err(error) if error.is_about_account && Instant::now() < deadline => {
                rt::sleep(Duration::from_millis(200)).await;
            }
            outcome => return outcome,
        }
    }
}

/// The statements that create the account, with the privileges that docs/monitor.md asks for.
fn statements(topology: &Topology, login: &Credentials) -> Vec<String> {
    let account = any_host(&login.username);
    let mut statements = vec![format!("CREATE USER {account} IDENTIFIED BY {}", quoted(&login.password))];
    let primary = &topology.primary;
    let sees = match topology.relation {
        Relation::Alone | Relation::Cluster(ClusterKind::Galera | ClusterKind::Aurora) => None,
        Relation::Cluster(ClusterKind::GroupReplication) => Some("SELECT ON performance_schema.*"),
        _ if primary.is_mariadb && primary.version_numbers() >= vec![10, 5, 9] => {
            Some("REPLICA MONITOR ON *.*")
        }
        _ => Some("REPLICATION CLIENT ON *.*"),
    };
    statements.extend(sees.map(|sees| format!("GRANT {sees} TO {account}")));
    statements
}

/// A password that rules for passwords accept: long, with letters of both cases, digits and a sign.
///
/// # Errors
/// No random numbers.
pub fn random_password() -> anyhow::Result<String> {
    const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyzABCDEFGHJ";
    let mut random = [0_u8; 20];
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut random));
    read.context("reading random numbers from /dev/urandom")?;
    let letters: String = random.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % 32])).collect();
    // The beginning satisfies the rules; the rest has 100 random bits.
    Ok(format!("Nw7-{letters}"))
}

/// ProxySQL's default for `mysql-monitor_password`, and Narrows'.
const DEFAULT_PASSWORD: &str = "monitor";

/// `ER_CANNOT_USER`: such an account exists.
const CANNOT_USER: u16 = 1396;

/// Replicas that are later than this are left to the user.
const REPLICATED_WITHIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_passwords_differ_and_satisfy_rules() {
        let (one, two) = (random_password().expect("random"), random_password().expect("random"));
        assert!(one != two && one.len() == 24);
    }
}
