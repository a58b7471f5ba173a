//! Settings of pass-through that let nobody in.

use std::collections::HashSet;

use narrows_proxy::snapshot::{
    PassThroughUsers, UserRow, Variables, finds_accounts, is_template, lets_unknown_users_in,
};

use narrows_sql::with_parameter;

use super::finding::{Of, SERVERS_ON_VARIABLES, Search, USERS, USERS_ON_VARIABLES, VARIABLES};

/// What the findings are about.
pub(super) struct PassThroughSettings<'a> {
    pub variables: &'a Variables,
    pub users: &'a [&'a UserRow],
    /// The hostgroups that have servers, or may get some.
    pub hostgroups: &'a HashSet<i32>,
}

const ENABLED: &str = "mysql-passthrough_auth_enabled";
const UNKNOWN_USERS: &str = "mysql-passthrough_auth_unknown_users";
const DEFAULT_HOSTGROUP: &str = "mysql-passthrough_default_hg";

/// Why nothing of it has an effect.
const OFF: &str = "mysql-passthrough_auth_enabled is false";
const NO_UNKNOWN_USERS: &str = "mysql-passthrough_auth_unknown_users is false";

impl PassThroughSettings<'_> {
    /// Looks for them.
    pub fn examine(&self, search: &mut Search) {
        self.of_variables(search);
        self.without_servers(search);
        self.of_query(search);
        self.of_templates(search);
    }

    fn of_variables(&self, search: &mut Search) {
        let (variables, default) = (self.variables, Variables::default());
        let is_on = variables.passthrough_auth_enabled;
        let is_open = lets_unknown_users_in(variables);
        let finds = finds_accounts(variables);
        let has_socket = variables.interfaces.iter().any(|interface| interface.starts_with('/'));
        let needs_tls = variables.passthrough_auth_require_tls && !variables.have_ssl && !has_socket;
        let idle = [
            (!is_on && variables.passthrough_auth_unknown_users, UNKNOWN_USERS, OFF),
            (
                !is_on && !variables.passthrough_auth_username_pattern.is_empty(),
                "mysql-passthrough_auth_username_pattern",
                OFF,
            ),
            (
                !finds && variables.passthrough_default_hg != default.passthrough_default_hg,
                DEFAULT_HOSTGROUP,
                if is_on { NO_UNKNOWN_USERS } else { OFF },
            ),
            (
                !finds && !variables.passthrough_default_schema.is_empty(),
                "mysql-passthrough_default_schema",
                if is_on { NO_UNKNOWN_USERS } else { OFF },
            ),
            (
                is_on && needs_tls,
                ENABLED,
                "clients may send passwords over TLS only (mysql-passthrough_auth_require_tls), and mysql-have_ssl is false",
            ),
        ];
        for (_, name, why) in idle.into_iter().filter(|(is_idle, ..)| *is_idle) {
            search.add_idle(VARIABLES, (Of::Variables, 0, name), || name.to_owned(), why);
        }
        let asked = |passthrough: PassThroughUsers| {
            let mut accounts = self.users.iter().filter(|row| row.active && !is_template(row));
            accounts.any(|row| passthrough.knows_no_password_of(row))
        };
        let is_for_nobody = || !PassThroughUsers::of(variables).is_some_and(asked);
        if is_on && !is_open && is_for_nobody() {
            let why = "no account of mysql_users has an empty password, and mysql-passthrough_auth_unknown_users is false";
            search.add_idle(USERS_ON_VARIABLES, (Of::Variables, 0, ENABLED), || ENABLED.to_owned(), why);
        }
    }

    /// A statement that cannot be run.
    fn of_query(&self, search: &mut Search) {
        const QUERY: &str = "mysql-auth_query";
        let variables = self.variables;
        let has_statement = !variables.auth_query.is_empty();
        let servers =
            || !self.hostgroups.is_empty() && !self.hostgroups.contains(&variables.auth_query_hostgroup.0);
        let idle = [
            (
                has_statement && with_parameter(&variables.auth_query, "").is_none(),
                QUERY,
                "it has not exactly one `?`, for the name of the account",
            ),
            (
                has_statement && variables.auth_query_username.is_empty(),
                QUERY,
                "mysql-auth_query_username is empty: no account runs it",
            ),
            (has_statement && servers(), QUERY, "the hostgroup mysql-auth_query_hostgroup has no servers"),
            (
                !has_statement && !variables.auth_query_username.is_empty(),
                "mysql-auth_query_username",
                "mysql-auth_query is empty",
            ),
        ];
        for (_, name, why) in idle.into_iter().filter(|(is_idle, ..)| *is_idle) {
            search.add_idle(SERVERS_ON_VARIABLES, (Of::Variables, 0, name), || name.to_owned(), why);
        }
    }

    /// Without any server, that is reported instead.
    fn without_servers(&self, search: &mut Search) {
        let hostgroup = self.variables.passthrough_default_hg.0;
        if lets_unknown_users_in(self.variables)
            && !self.hostgroups.is_empty()
            && !self.hostgroups.contains(&hostgroup)
        {
            let why = "its hostgroup has no servers, which could be asked for passwords";
            let place = (Of::Variables, 0, DEFAULT_HOSTGROUP);
            search.add_idle(SERVERS_ON_VARIABLES, place, || DEFAULT_HOSTGROUP.to_owned(), why);
        }
    }

    fn of_templates(&self, search: &mut Search) {
        let rows = self.users.iter().enumerate().filter(|(_, row)| row.active && is_template(row));
        for (index, row) in rows {
            let name = |what: &str| format!("user {:?}: {what}", row.username);
            if !finds_accounts(self.variables) {
                let why = if self.variables.passthrough_auth_enabled { NO_UNKNOWN_USERS } else { OFF };
                let place = (Of::Users, index, "attributes");
                search.add_idle(USERS_ON_VARIABLES, place, || name("attributes `usernames_like`"), why);
            }
            if !row.password.is_empty() {
                let why = "the row is the template of other accounts, whose passwords servers know";
                search.add_idle(USERS, (Of::Users, index, "password"), || name("password"), why);
            }
        }
    }
}
