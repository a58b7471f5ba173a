//! The accounts of applications: those that the servers have, and what Narrows can store of their passwords.

use std::collections::BTreeMap;

use narrows_proxy::backend::{BackendError, Table};
use narrows_wire::auth::caching_sha2::StoredHash;
use narrows_wire::auth::native;

use super::facts::{self, Facts};
use super::topology::Topology;
use super::visit::{Credentials, Visit, VisitError};

/// An account that will connect to Narrows.
#[derive(Debug, Clone)]
pub struct AppAccount {
    /// Its name.
    pub username: String,
    /// What Narrows stores: the password or its hash.
    pub stored: String,
    /// The password, if it is known.
    pub password: Option<String>,
}

/// An account of the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAccount {
    /// Its name.
    pub username: String,
    /// What can be stored of its password.
    pub storable: Storable,
}

/// What can be stored of a password that is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storable {
    /// A hash that Narrows can store as it is.
    Hash(String),
    /// Nothing, for this reason.
    Nothing(String),
}

impl AppAccount {
    /// An account with a known password.
    pub fn with_password(username: &str, password: &str) -> AppAccount {
        let (username, password) = (username.to_owned(), password.to_owned());
        AppAccount { username, stored: password.clone(), password: Some(password) }
    }

    /// An account of which a hash is known.
    pub fn with_hash(username: &str, hash: &str) -> AppAccount {
        AppAccount { username: username.to_owned(), stored: hash.to_owned(), password: None }
    }
}

/// The accounts of a server, apart from those of the system and of replication.
///
/// # Errors
/// The server's: the account may not read `mysql.user`.
pub async fn of_server(facts: &Facts, account: &Credentials) -> Result<Vec<ServerAccount>, VisitError> {
    let failed = |error| VisitError::new(&facts.address, &account.username, &error);
    let visit = Visit::begin(&facts.address, account).await?;
    let table = if facts.is_mariadb { visit.ask(OF_MARIADB).await } else { visit.ask(OF_MYSQL).await };
    visit.end().await;
    Ok(accounts(&table.map_err(failed)?))
}

/// Logs in with a password on all servers: a proxy needs the same account everywhere.
///
/// # Errors
/// The first server that refuses it.
pub async fn try_everywhere(topology: &Topology, account: &Credentials) -> Result<(), VisitError> {
    for facts in topology.servers() {
        Visit::begin(&facts.address, account).await?.end().await;
    }
    Ok(())
}

/// Whether the account can read the lag of every replica.
pub async fn sees_replication(topology: &Topology, account: &Credentials) -> Result<(), VisitError> {
    for facts in topology.servers() {
        let visit = Visit::begin(&facts.address, account).await?;
        let answer = facts::sources(&visit).await;
        visit.end().await;
        let failed = |error: BackendError| VisitError::new(&facts.address, &account.username, &error);
        if let Err(reason) = answer.map_err(failed)? {
            return Err(VisitError::of_privilege(&facts.address, &account.username, &reason));
        }
    }
    Ok(())
}

/// Whether the account can see the state of every member of a group.
///
/// # Errors
/// The first server that refuses it.
pub async fn sees_group(topology: &Topology, account: &Credentials) -> Result<(), VisitError> {
    for facts in topology.servers() {
        let visit = Visit::begin(&facts.address, account).await?;
        let answers = [visit.ask(GROUP).await, visit.ask(GROUP_QUEUES).await];
        visit.end().await;
        for answer in answers {
            match answer {
                Ok(_) => {}
                Err(BackendError::Server(error)) => {
                    let reason = error.message.clone();
                    return Err(VisitError::of_privilege(&facts.address, &account.username, &reason));
                }
                Err(error) => return Err(VisitError::new(&facts.address, &account.username, &error)),
            }
        }
    }
    Ok(())
}

/// Reads the rows of one account per host, and combines the hosts of each name.
fn accounts(table: &Table) -> Vec<ServerAccount> {
    let mut found: BTreeMap<String, Storable> = BTreeMap::new();
    for row in &table.rows {
        let cell = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
        let username = cell(0);
        let only_replicates = cell(3) == "Y" && cell(4) != "Y";
        if username.is_empty() || SYSTEM.contains(&username.as_str()) || only_replicates {
            continue;
        }
        let storable = storable(&cell(1), &cell(2));
        match found.get_mut(&username) {
            None => drop(found.insert(username, storable)),
            Some(other) if *other == storable => {}
            Some(other) => {
                *other = Storable::Nothing("its password differs from host to host".to_owned());
            }
        }
    }
    found.into_iter().map(|(username, storable)| ServerAccount { username, storable }).collect()
}

/// What Narrows can store of what a server stores.
fn storable(plugin: &str, stored: &str) -> Storable {
    match plugin {
        "mysql_native_password" | "" if native::parse_stored(stored.as_bytes()).is_some() => {
            Storable::Hash(stored.to_owned())
        }
        "caching_sha2_password" if StoredHash::parse(stored.as_bytes()).is_some() => {
            Storable::Hash(stored.to_owned())
        }
        "mysql_native_password" | "caching_sha2_password" | "" if stored.is_empty() => {
            Storable::Nothing("it has no password".to_owned())
        }
        plugin => Storable::Nothing(format!("it logs in with {plugin}")),
    }
}

/// Accounts that servers, distributions and providers create for themselves.
const SYSTEM: &[&str] = &[
    "PUBLIC",
    "azure_superuser",
    "cloudsqladmin",
    "debian-sys-maint",
    "mariadb.sys",
    "mysql",
    "mysql.infoschema",
    "mysql.session",
    "mysql.sys",
    "mysqlxsys",
    "rdsadmin",
    "rdsrepladmin",
    "root",
];

/// What the monitor reads of a group.
const GROUP: &str = "SELECT COUNT(*) FROM performance_schema.replication_group_members";
const GROUP_QUEUES: &str = "SELECT COUNT(*) FROM performance_schema.replication_group_member_stats";

const OF_MARIADB: &str = "SELECT User, plugin, authentication_string, Repl_slave_priv, Select_priv FROM mysql.user \
    WHERE is_role = 'N' ORDER BY User";

const OF_MYSQL: &str = "SELECT User, plugin, authentication_string, Repl_slave_priv, Select_priv FROM mysql.user \
    WHERE account_locked = 'N' ORDER BY User";

#[cfg(test)]
mod tests {
    use super::*;

    const NATIVE: &str = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7";

    fn read(rows: &[[&str; 5]]) -> Vec<ServerAccount> {
        let row = |row: &[&str; 5]| row.iter().map(|cell| Some((*cell).to_owned())).collect();
        accounts(&Table { columns: Vec::new(), rows: rows.iter().map(row).collect() })
    }

    #[test]
    fn hashes_that_narrows_can_store_are_taken_over() {
        let sha2 = format!("$A$00A${}", "x".repeat(63));
        let found = read(&[
            ["app", "mysql_native_password", NATIVE, "N", "N"],
            ["new", "caching_sha2_password", &sha2, "N", "N"],
            ["key", "ed25519", "abc", "N", "N"],
        ]);
        let expected = [
            ("app", Storable::Hash(NATIVE.to_owned())),
            ("key", Storable::Nothing("it logs in with ed25519".to_owned())),
            ("new", Storable::Hash(sha2.clone())),
        ];
        let expected = expected.map(|(name, storable)| ServerAccount { username: name.to_owned(), storable });
        assert_eq!(found, expected);
    }

    #[test]
    fn accounts_of_system_and_of_replication_are_not_offered() {
        let found = read(&[
            ["root", "mysql_native_password", NATIVE, "Y", "Y"],
            ["mysql.sys", "caching_sha2_password", "", "N", "N"],
            ["", "", "", "N", "N"],
            ["repl", "mysql_native_password", NATIVE, "Y", "N"],
        ]);
        assert_eq!(found, []);
    }

    #[test]
    fn an_account_with_two_passwords_has_none_that_can_be_stored() {
        let other = NATIVE.replace('1', "2");
        let found = read(&[
            ["app", "mysql_native_password", NATIVE, "N", "N"],
            ["app", "mysql_native_password", &other, "N", "N"],
        ]);
        assert!(matches!(found.as_slice(), [ServerAccount { storable: Storable::Nothing(_), .. }]));
    }
}
