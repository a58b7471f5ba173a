//! Pass-through: whose passwords only the servers know, and which settings those accounts have.
//!
//! An account is either the row of `mysql_users` with an empty password, or made from a template: the row whose attribute
//! `usernames_like` matches its name, or else the variables.

use std::collections::HashMap;
use std::sync::Arc;

use narrows_wire::auth::Password;
use narrows_wire::auth::client_side::Form;
use regex::Regex;

use super::template_rows::usernames_like;
use super::{Account, LoginAttributes, Snapshot};
use crate::rows::{CausalReads, JsonColumn, UserRow, Variables};
use crate::server_tokens::{SharedTokens, TokenLogin};

/// For whom servers are asked.
#[derive(Debug)]
pub struct PassThroughUsers {
    /// Whether it is for accounts with an empty password.
    empty_password: bool,
    /// Whether it is for names without an account.
    unknown_users: bool,
    /// What names must be like; `None`: anything.
    pattern: Option<Regex>,
}

/// The settings of accounts that `mysql_users` does not have.
#[derive(Debug)]
pub struct Templates {
    /// By the pattern that names match; the most specific one first.
    by_name: Vec<(Regex, Arc<Account>)>,
    /// Those of all others.
    others: Arc<Account>,
}

impl Templates {
    /// Those of the variables and of the templates among the rows.
    pub(super) fn compile(variables: &Variables, rows: &[UserRow], maker: &SharedTokens) -> Templates {
        let active = rows.iter().filter(|row| row.active);
        let templates = active.filter_map(|row| Some((usernames_like(&row.attributes)?, row)));
        let mut templates: Vec<(&str, &UserRow)> = templates.collect();
        templates.sort_by(|(one, a), (two, b)| {
            let order = literal_prefix(two).cmp(&literal_prefix(one));
            order.then_with(|| a.username.cmp(&b.username))
        });
        let account = |row: &UserRow| Arc::new(Account::new(row.clone(), None, Arc::default(), maker));
        Templates {
            by_name: templates.into_iter().map(|(like, row)| (like_expression(like), account(row))).collect(),
            others: account(&row_of(variables)),
        }
    }

    /// Whether reads of any of these accounts wait for writes.
    pub(super) fn any_sees_writes(&self) -> bool {
        let mut levels = self.by_name.iter().filter_map(|(_, account)| account.causal_reads);
        levels.any(CausalReads::is_on)
    }

    fn of(&self, name: &str) -> &Arc<Account> {
        let found = self.by_name.iter().find(|(like, _)| like.is_match(name));
        found.map_or(&self.others, |(_, account)| account)
    }
}

/// Whose a name is.
#[derive(Debug)]
pub enum Whose<'s> {
    /// That of an account with a password.
    Configured(&'s Arc<Account>),
    /// Servers are asked; an account that they accept has these settings.
    AtServers(&'s Arc<Account>),
    /// Nobody's.
    Nobody,
}

impl Snapshot {
    /// Whose a name is.
    pub fn whose(&self, name: &[u8]) -> Whose<'_> {
        let passthrough = self.passthrough.as_deref();
        match self.users.get(name) {
            Some(account) if passthrough.is_some_and(|it| it.is_for(account)) => Whose::AtServers(account),
            Some(account) => Whose::Configured(account),
            None if self.kept_out.contains(name) => Whose::Nobody,
            None => {
                let name = std::str::from_utf8(name).ok();
                let name = name.filter(|name| passthrough.is_some_and(|it| it.is_for_unknown(name)));
                name.map_or(Whose::Nobody, |name| Whose::AtServers(self.template_of(name)))
            }
        }
    }

    /// The settings of an account that `mysql_users` does not have.
    pub fn template_of(&self, name: &str) -> &Arc<Account> {
        self.templates.of(name)
    }

    /// The account of a name, or the settings that it would have if a server lets it in.
    pub fn account_or_template(&self, name: &[u8]) -> Option<&Arc<Account>> {
        match self.whose(name) {
            Whose::Configured(account) | Whose::AtServers(account) => Some(account),
            Whose::Nobody => None,
        }
    }
}

impl PassThroughUsers {
    /// What the variables say; `None` if it is off.
    pub fn of(variables: &Variables) -> Option<PassThroughUsers> {
        if !variables.passthrough_auth_enabled {
            return None;
        }
        let pattern = &variables.passthrough_auth_username_pattern;
        // The control plane has checked the expression. One that is too large all the same lets nobody in.
        let whole = || Regex::new(&format!("^(?:{pattern})$")).unwrap_or_else(|_| nothing());
        Some(PassThroughUsers {
            empty_password: variables.passthrough_auth_empty_password,
            unknown_users: variables.passthrough_auth_unknown_users,
            pattern: (!pattern.is_empty()).then(whole),
        })
    }

    /// Whether it is for this account of `mysql_users`. One that needs a certificate, takes tokens or has a second
    /// password, is asked for that and no more.
    pub(super) fn is_for(&self, account: &Account) -> bool {
        self.is_for_row(&account.row, &account.login)
    }

    /// Whether only servers can say what the password of this row is: it cannot be tried.
    pub fn knows_no_password_of(&self, row: &UserRow) -> bool {
        row.password.is_empty() && self.is_for_row(row, &LoginAttributes::of(&row.attributes))
    }

    fn is_for_row(&self, row: &UserRow, login: &LoginAttributes) -> bool {
        self.empty_password
            && row.password.is_empty()
            && login.additional_password.is_none()
            && login.tokens.is_none()
            && !login.ask_for_certificate()
            && self.admits(&row.username)
    }

    /// Whether it is for a name that `mysql_users` does not have.
    fn is_for_unknown(&self, name: &str) -> bool {
        self.unknown_users && may_be_name(name) && self.admits(name)
    }

    fn admits(&self, name: &str) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(name))
    }
}

/// Whether servers are asked for names that `mysql_users` does not have.
pub fn lets_unknown_users_in(variables: &Variables) -> bool {
    variables.passthrough_auth_enabled && variables.passthrough_auth_unknown_users
}

/// Whether names that `mysql_users` does not have may log in, in one way or another.
pub fn finds_accounts(variables: &Variables) -> bool {
    lets_unknown_users_in(variables) || !variables.auth_query.is_empty()
}

/// `mysql-auth_query`, and with what it is run.
#[derive(Debug)]
pub struct AuthQuery {
    /// The statement.
    pub statement: String,
    /// The account that runs it.
    pub service: Arc<Account>,
    /// Its password.
    pub password: Password,
}

impl AuthQuery {
    /// `None` if there is no statement. Servers get `tokens`, if there are any, and the password otherwise.
    pub(super) fn of(variables: &Variables, tokens: Option<TokenLogin>) -> Option<AuthQuery> {
        if variables.auth_query.is_empty() {
            return None;
        }
        let row = UserRow {
            username: variables.auth_query_username.clone(),
            default_hostgroup: variables.auth_query_hostgroup,
            ..row_of(variables)
        };
        let service = Account::new(row, None, Arc::default(), &SharedTokens::default());
        Some(AuthQuery {
            statement: variables.auth_query.clone(),
            service: Arc::new(Account { tokens, ..service }),
            password: Password::new(variables.auth_query_password.as_bytes()),
        })
    }
}

/// The forms of passwords in use.
pub(super) fn forms(
    users: &HashMap<Vec<u8>, Arc<Account>>,
    passthrough: Option<&PassThroughUsers>,
) -> Vec<Form> {
    let mut forms = Vec::new();
    let form = |account: &Arc<Account>| match passthrough.is_some_and(|it| it.is_for(account)) {
        true => Some(Form::AtServers),
        false => account.form(),
    };
    for form in users.values().filter_map(form) {
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    // In a fixed order, because otherwise the form that a name gets would change with the users.
    forms.sort_by_key(|form| format!("{form:?}"));
    forms
}

/// The settings of accounts without a row.
fn row_of(variables: &Variables) -> UserRow {
    UserRow {
        username: String::new(),
        password: String::new(),
        active: true,
        use_ssl: false,
        default_hostgroup: variables.passthrough_default_hg,
        default_schema: variables.passthrough_default_schema.clone(),
        schema_locked: false,
        transaction_persistent: true,
        fast_forward: false,
        max_connections: DEFAULT_MAX_CONNECTIONS,
        attributes: JsonColumn::default(),
        comment: String::new(),
    }
}

/// How many characters a pattern has before its first wildcard.
fn literal_prefix(like: &str) -> usize {
    like.find(['%', '_']).unwrap_or(usize::MAX)
}

/// An expression that matches the names that `LIKE` would: `%` stands for any characters, `_` for one, and a backslash
/// before either for itself.
pub(crate) fn like_expression(like: &str) -> Regex {
    let mut expression = String::from("(?s)^");
    let mut characters = like.chars();
    while let Some(character) = characters.next() {
        match character {
            '%' => expression.push_str(".*"),
            '_' => expression.push('.'),
            '\\' => expression.push_str(&regex::escape(&characters.next().unwrap_or('\\').to_string())),
            literal => expression.push_str(&regex::escape(&literal.to_string())),
        }
    }
    expression.push('$');
    Regex::new(&expression).unwrap_or_else(|_| nothing())
}

/// What matches nothing: in the place of an expression that is too large to be compiled.
fn nothing() -> Regex {
    Regex::new("[^\\s\\S]").expect("it is valid")
}

/// Whether a server may have an account with that name, and takes it for no other one: apostrophes around a name are not part
/// of it for servers.
pub fn may_be_name(name: &str) -> bool {
    let is_quoted = name.len() > 1 && name.starts_with('\'') && name.ends_with('\'');
    !name.is_empty() && name.len() <= LONGEST_NAME && !is_quoted
}

/// Bytes of the longest name that a server has: 128 characters of three bytes (MariaDB; MySQL: 32 characters).
const LONGEST_NAME: usize = 384;

/// `mysql_users.max_connections` where a row does not say.
const DEFAULT_MAX_CONNECTIONS: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{HostgroupId, user};
    use crate::snapshot::Rows;

    fn snapshot(set: impl Fn(&mut Variables), users: Vec<UserRow>) -> Snapshot {
        let mut variables = Variables { passthrough_auth_enabled: true, ..Variables::default() };
        set(&mut variables);
        Snapshot::compile(Rows { variables, users, ..Rows::default() }, 1, None).unwrap()
    }

    fn template(name: &str, like: &str, hostgroup: i32) -> UserRow {
        let attributes = format!("{{\"usernames_like\":\"{like}\"}}").into();
        UserRow { attributes, default_hostgroup: HostgroupId(hostgroup), ..user(name, "") }
    }

    fn hostgroup(snapshot: &Snapshot, name: &str) -> Option<i32> {
        match snapshot.whose(name.as_bytes()) {
            Whose::AtServers(account) => Some(account.row.default_hostgroup.0),
            Whose::Configured(_) | Whose::Nobody => None,
        }
    }

    #[test]
    fn names_are_as_like_reads_them() {
        for (name, like, expected) in [
            ("app", "app", true),
            ("app", "a%", true),
            ("app", "%", true),
            ("app", "a_p", true),
            ("app", "a_", false),
            ("a%p", "a\\\\%p", true),
            ("abp", "a\\\\%p", false),
            ("jörg", "j_rg", true),
            ("ann@tenant_7", "%@tenant\\\\_%", true),
            ("ann@tenants", "%@tenant\\\\_%", false),
        ] {
            let like = like.replace("\\\\", "\\");
            assert_eq!(like_expression(&like).is_match(name), expected, "{name} {like}");
        }
    }

    #[test]
    fn the_most_specific_template_counts_and_is_no_account() {
        let rows = vec![template("a", "%", 1), template("b", "app%", 2), template("c", "app_x", 3)];
        let snapshot = snapshot(|it| it.passthrough_auth_unknown_users = true, rows);
        assert_eq!(hostgroup(&snapshot, "other"), Some(1));
        assert_eq!(hostgroup(&snapshot, "apple"), Some(2));
        assert!(snapshot.users.is_empty());
    }

    #[test]
    fn who_is_asked_for_follows_the_variables() {
        let users = || vec![user("empty", ""), user("full", "secret")];
        let off = snapshot(|it| it.passthrough_auth_enabled = false, users());
        assert_eq!([hostgroup(&off, "empty"), hostgroup(&off, "nobody")], [None, None]);
        let default = snapshot(|_| {}, users());
        assert_eq!(["empty", "full", "nobody"].map(|it| hostgroup(&default, it)), [Some(0), None, None]);
        let unknown = snapshot(
            |it| {
                it.passthrough_auth_unknown_users = true;
                it.passthrough_auth_empty_password = false;
                it.passthrough_auth_username_pattern = "no.*|x".to_owned();
                it.passthrough_default_hg = HostgroupId(7);
            },
            users(),
        );
        let seen = ["empty", "full", "nobody", "anybody", ""].map(|it| hostgroup(&unknown, it));
        assert_eq!(seen, [None, None, Some(7), None, None]);
        let any = snapshot(|it| it.passthrough_auth_unknown_users = true, users());
        assert_eq!(["'full'", "'", "it's"].map(|it| hostgroup(&any, it)), [None, Some(0), Some(0)]);
    }
}
