//! Whether the account of replication can log in to the new primary: tried from here, before anything changes.

use std::rc::Rc;
use std::time::Duration;

use narrows_proxy::backend::BackendError;

use super::dialect::Dialect;
use super::facts::only;
use super::link::Link;
use crate::monitor::connections::MonitorConnections;
use crate::monitor::plan::{MonitorLogin, Target};

/// What is known about an account that the old primary is to log in with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// It can log in, and may replicate.
    Works,
    /// It cannot, or may not: with the reason.
    Fails(String),
    /// That cannot be known from here: with the reason.
    Unknown(String),
}

/// Logs in to the new primary, to which `monitor` is connected, with `login`. Nothing is changed.
pub async fn try_login(
    target: &Target,
    monitor: &Rc<Link>,
    access: &MonitorLogin,
    login: (&str, &str),
    dialect: Dialect,
) -> Trial {
    let (username, password) = (login.0.to_owned(), login.1.to_owned());
    let access = MonitorLogin { username, password, tokens: None, ..access.clone() };
    let backend = match MonitorConnections::new(target, &access, None).open(TRIAL_TIME).await {
        Ok(backend) => backend,
        Err(error) => {
            let accounts = monitor.ask(&dialect.accounts_for_us(login.0), TRIAL_TIME).await;
            return failed(
                error,
                accounts.map(|accounts| only(&accounts)).unwrap_or_default().split_once(' '),
            );
        }
    };
    let grants = backend.ask("SHOW GRANTS", TRIAL_TIME).await;
    backend.quit().await;
    let rows = grants.map(|grants| grants.rows).unwrap_or_default();
    let grants: Vec<String> = rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect();
    match dialect.missing_to_replicate(&grants) {
        Some(privilege) if !grants.is_empty() => Trial::Fails(format!("it lacks {privilege}")),
        _ => Trial::Works,
    }
}

/// What a login that has failed says about an account, of which the server has so many, and so many for us; `None`: it does not say
/// how many. MySQL asks whom it does not know for a plugin of its choice.
fn failed(error: BackendError, accounts: Option<(&str, &str)>) -> Trial {
    match (accounts, error) {
        (Some(("0", _)), _) => Trial::Fails("there is no such account".to_owned()),
        (Some((_, "0")), _) => {
            Trial::Unknown("it is an account for other hosts than that of Narrows".to_owned())
        }
        (_, BackendError::Server(error)) if DENIED.contains(&error.code) => Trial::Fails(error.message),
        (_, error) => Trial::Unknown(error.to_string()),
    }
}

/// Errors of a server that knows no such account with this password, or none for this host: `ER_ACCESS_DENIED_ERROR`,
/// `ER_ACCESS_DENIED_NO_PASSWORD_ERROR` and MariaDB's `ER_ACCOUNT_HAS_BEEN_LOCKED`; MySQL's is 3118.
const DENIED: [u16; 4] = [1045, 1698, 4151, 3118];

/// How long a server may take for the login, and for each answer.
const TRIAL_TIME: Duration = Duration::from_secs(3);
