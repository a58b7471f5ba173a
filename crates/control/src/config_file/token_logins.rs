//! Accounts that log in to servers with tokens of AWS IAM, and get no connection: there is no token for a server whose certificate
//! is not verified, or without a region.

use std::collections::HashSet;

use narrows_proxy::snapshot::{
    LoginAttributes, PassThroughUsers, ServerRow, SslParamsRow, UserRow, Variables, is_template, token_region,
};

use super::finding::{Of, Search, USERS_ON_ALL, USERS_ON_VARIABLES};
use crate::aws_iam::region;
use crate::config::diagnostic::Problem;
use crate::secrets;
use crate::variables::{Value, Values};

/// What the findings are about.
pub(super) struct TokenLogins<'a> {
    pub servers: &'a [&'a ServerRow],
    pub ssl_params: &'a [&'a SslParamsRow],
    pub users: &'a [&'a UserRow],
    /// Hostgroups between which servers move.
    pub linked: &'a [Vec<i32>],
    pub variables: &'a Variables,
    pub settings: &'a TokenSettings,
}

/// What variables say about tokens.
#[derive(Default)]
pub(super) struct TokenSettings {
    /// Whether certificates are verified with `mysql-ssl_p2s_ca` or `mysql-ssl_p2s_capath`.
    verifies: bool,
    /// The name of the monitor's account.
    monitor: String,
    /// `mysql-monitor_password`,
    monitor_password: String,
    /// and `mysql-auth_query_password`, as configured.
    query_password: String,
}

impl TokenSettings {
    pub fn of(values: &Values) -> TokenSettings {
        let text = |name: &str| match values.value(name) {
            Some(Value::Text(text)) => text.clone(),
            _ => String::new(),
        };
        TokenSettings {
            verifies: ["mysql-ssl_p2s_ca", "mysql-ssl_p2s_capath"].iter().any(|name| !text(name).is_empty()),
            monitor: text("mysql-monitor_username"),
            monitor_password: text("mysql-monitor_password"),
            query_password: text("mysql-auth_query_password"),
        }
    }
}

impl TokenLogins<'_> {
    pub fn examine(&self, search: &mut Search) {
        if !search.is_for(USERS_ON_ALL) {
            return;
        }
        let passthrough = PassThroughUsers::of(self.variables);
        for (index, row) in self.users.iter().enumerate().filter(|(_, row)| row.active) {
            let Some(named) = token_region(&row.attributes) else { continue };
            let place = (Of::Users, index, "attributes");
            let name = || format!("user {:?}", row.username);
            let at_servers = match is_template(row) {
                true => self.variables.auth_query.is_empty(),
                false => passthrough.as_ref().is_some_and(|it| it.knows_no_password_of(row)),
            };
            if at_servers {
                let why = "only servers know the passwords of its clients, so they get these";
                search.add_idle(USERS_ON_VARIABLES, place, || format!("{}: `aws_iam`", name()), why);
                continue;
            }
            let servers = self.servers_of(row.default_hostgroup.0);
            if lets_nobody_in(row) {
                search.add(USERS_ON_ALL, place, || Problem::NotAsWritten {
                    row: name(),
                    name: KEY.to_owned(),
                    flaw: "is for servers, and the password is empty: nobody can log in without a password, `token`, `spiffe_id` \
                           or `subject`"
                        .to_owned(),
                });
            } else if let Some(flaw) = self.flaw(servers, &row.username, named.as_deref()) {
                search.add(USERS_ON_ALL, place, || Problem::NotAsWritten {
                    row: name(),
                    name: KEY.to_owned(),
                    flaw,
                });
            }
        }
        self.variables(search);
    }

    fn variables(&self, search: &mut Search) {
        let (settings, variables) = (self.settings, self.variables);
        let hostgroup = variables.auth_query_hostgroup.0;
        let of_query = self.servers_of(hostgroup);
        let all = [
            ("mysql-monitor_password", &settings.monitor_password, &settings.monitor, self.servers.to_vec()),
            ("mysql-auth_query_password", &settings.query_password, &variables.auth_query_username, of_query),
        ];
        for (name, text, username, servers) in all {
            let Some(tokens) = secrets::tokens(text) else { continue };
            if let Some(flaw) = self.flaw(servers, username, tokens.region.as_deref()) {
                let place = (Of::Variables, 0, name);
                search.add(USERS_ON_ALL, place, || Problem::NotAsWritten {
                    row: name.to_owned(),
                    name: text.clone(),
                    flaw,
                });
            }
        }
    }

    /// The servers that are in a hostgroup, or may move there.
    fn servers_of(&self, hostgroup: i32) -> Vec<&ServerRow> {
        let linked = self.linked.iter().filter(|all| all.contains(&hostgroup)).flatten().copied();
        let hostgroups: HashSet<i32> = linked.chain([hostgroup]).collect();
        self.servers.iter().copied().filter(|row| hostgroups.contains(&row.hostgroup.0)).collect()
    }

    /// Why an account gets no connection to the first of these servers of which that is known.
    fn flaw(&self, servers: Vec<&ServerRow>, username: &str, named: Option<&str>) -> Option<String> {
        servers.into_iter().find_map(|server| {
            let why = match self.unverified(server, username) {
                Some(why) => why.to_owned(),
                None => region(&server.hostname, named).err()?,
            };
            Some(format!("gets no connection to {}:{}: {why}", server.hostname, server.port))
        })
    }

    fn unverified(&self, server: &ServerRow, username: &str) -> Option<&'static str> {
        let of = |user: &str| {
            self.ssl_params.iter().find(move |row| {
                row.hostname == server.hostname && row.port == server.port && row.username == user
            })
        };
        let verifies = match of(username).or_else(|| of("")) {
            Some(row) => !row.ssl_ca.is_empty() || !row.ssl_capath.is_empty(),
            None => self.settings.verifies,
        };
        match (server.port, server.use_ssl, verifies) {
            (0, ..) => Some("tokens are for a host name and a port"),
            (_, false, _) => Some("tokens are sent over TLS only, and use_ssl of the server is 0"),
            (.., false) => Some(
                "tokens are sent to verified servers only: set mysql-ssl_p2s_ca, or ssl_ca in mysql_servers_ssl_params",
            ),
            _ => None,
        }
    }
}

/// Whether clients have nothing to show for an account that has tokens for servers.
fn lets_nobody_in(row: &UserRow) -> bool {
    let login = LoginAttributes::of(&row.attributes);
    row.password.is_empty() && login.tokens.is_none() && !login.ask_for_certificate() && !is_template(row)
}

/// The key of `mysql_users.attributes`.
const KEY: &str = "attributes `aws_iam`";
