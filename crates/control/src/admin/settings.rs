//! The settings of logins and listeners: a value that the control thread replaces when variables change.

use std::collections::HashMap;
use std::sync::Arc;

use narrows_proxy::tls::SharedTls;
use narrows_wire::auth::Plugin;
use narrows_wire::auth::client_side::{Account, Credential, Form, Stored};

use crate::secrets::Secrets;
use crate::store::Role;

/// The settings in force.
#[derive(Debug, Clone)]
pub struct AdminSettings {
    accounts: HashMap<Vec<u8>, (Role, Arc<[Credential]>)>,
    forms: Vec<Form>,
    /// The version in the greeting.
    pub server_version: String,
    /// Keys and certificates, if clients may use TLS.
    pub tls: SharedTls,
    /// The plugin of the greeting.
    pub plugin: Plugin,
    /// The maximum length of a statement in bytes.
    pub longest_statement: usize,
}

/// The variables from which [`AdminSettings`] are derived.
#[derive(Debug)]
pub struct Variables<'a> {
    /// `admin-admin_credentials`
    pub admin_credentials: &'a str,
    /// `admin-stats_credentials`
    pub stats_credentials: &'a str,
    /// `mysql-monitor_username` and `mysql-monitor_password`
    pub monitor: (&'a str, &'a str),
    /// `mysql-server_version`
    pub server_version: &'a str,
    /// `mysql-default_authentication_plugin`
    pub plugin: &'a str,
    /// `mysql-max_allowed_packet`
    pub longest_statement: usize,
}

impl AdminSettings {
    /// Derives the settings from the variables, and from what their references lead to.
    pub fn new(variables: &Variables<'_>, secrets: &Secrets, tls: SharedTls) -> AdminSettings {
        let mut accounts = HashMap::new();
        let mut put = |name: &str, text: &str, role| {
            // Nobody can log in to an account whose password is not known.
            secrets.value(text).into_iter().for_each(|password| add(&mut accounts, name, password, role));
        };
        let (name, password) = variables.monitor;
        put(name, password, Role::Stats);
        // In this order, so that a name with both roles has the stronger one.
        for (list, role) in
            [(variables.stats_credentials, Role::Stats), (variables.admin_credentials, Role::Admin)]
        {
            for entry in list.split(';') {
                if let Some((name, password)) = entry.split_once(':') {
                    put(name, password, role);
                }
            }
        }
        let stored = |(_, credentials): &(Role, Arc<[Credential]>)| {
            credentials.first().map_or(Form::Clear, |credential| credential.stored().form())
        };
        AdminSettings {
            forms: accounts.values().map(stored).collect(),
            accounts,
            server_version: variables.server_version.to_owned(),
            tls,
            plugin: Plugin::from_name(variables.plugin.as_bytes()),
            longest_statement: variables.longest_statement,
        }
    }

    /// The account with this name: what to verify, and its role. Unknown names get a decoy.
    pub fn account(&self, name: &[u8], decoy_key: &[u8; 32]) -> (Account, Option<Role>) {
        match self.accounts.get(name) {
            Some((role, credentials)) => (Account::known(Arc::clone(credentials)), Some(*role)),
            None => (Account::decoy(name, &self.forms, decoy_key), None),
        }
    }
}

fn add(accounts: &mut HashMap<Vec<u8>, (Role, Arc<[Credential]>)>, name: &str, password: &str, role: Role) {
    // An account without a password cannot log in, not even the monitor's.
    if !name.is_empty() && !password.is_empty() {
        let credential = Credential::new(Stored::parse(password.as_bytes()));
        accounts.insert(name.as_bytes().to_vec(), (role, Arc::new([credential])));
    }
}

/// Whether a name is one of the defaults of every installation: its password is generally known, so it is only valid
/// for clients on the same machine.
pub fn is_local_only(name: &[u8]) -> bool {
    [b"admin".as_slice(), b"stats", b"monitor"].contains(&name)
}
