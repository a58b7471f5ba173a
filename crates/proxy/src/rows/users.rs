//! Rows about users.

use super::{HostgroupId, JsonColumn};

/// One row of `mysql_users`.
#[derive(Clone, PartialEq)]
pub struct UserRow {
    /// The name of the account.
    pub username: String,
    /// Clear text, `*` and 40 hex digits, or `$A$` with rounds, salt and digest; empty if there is no password.
    pub password: String,
    /// Rows that are not active are not loaded.
    pub active: bool,
    /// Whether the client must use TLS.
    pub use_ssl: bool,
    /// The hostgroup if no rule decides.
    pub default_hostgroup: HostgroupId,
    /// The schema if the client names none; empty: the default of the variables.
    pub default_schema: String,
    /// Stored; without effect, as in ProxySQL.
    pub schema_locked: bool,
    /// Whether a whole transaction stays on the hostgroup it began in.
    pub transaction_persistent: bool,
    /// Whether all traffic of the session is simply forwarded.
    pub fast_forward: bool,
    /// The maximum number of client connections of this user.
    pub max_connections: u32,
    /// JSON, or empty.
    pub attributes: JsonColumn,
    /// Free text.
    pub comment: String,
}

impl std::fmt::Debug for UserRow {
    /// Leaves out the password, and the attributes, which may contain another one.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserRow")
            .field("username", &self.username)
            .field("default_hostgroup", &self.default_hostgroup)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An account with that name and password.
    pub(crate) fn user(username: &str, password: &str) -> UserRow {
        UserRow {
            username: username.to_owned(),
            password: password.to_owned(),
            active: true,
            use_ssl: false,
            default_hostgroup: HostgroupId(0),
            default_schema: String::new(),
            schema_locked: false,
            transaction_persistent: true,
            fast_forward: false,
            max_connections: 1_000,
            attributes: JsonColumn::default(),
            comment: String::new(),
        }
    }
}
