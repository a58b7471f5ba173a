//! Which passwords of accounts are used.

/// A row of `stats_narrows_passwords`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordLine {
    /// The account.
    pub username: String,
    /// Logins of clients with the password of the row, and with the additional one: how many, and when last, in seconds since
    /// 1970 (0: never).
    pub clients: [(u64, u64); 2],
    /// The same for logins to servers.
    pub servers: [(u64, u64); 2],
}
