//! Rows about which statements may run.

/// What the firewall does with a user's statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FirewallMode {
    /// All statements pass.
    #[default]
    Off,
    /// All statements pass; those that are not in the whitelist are counted and logged.
    Detecting,
    /// Statements that are not in the whitelist are refused.
    Protecting,
}

/// One row of `mysql_firewall_whitelist_users`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FirewallUserRow {
    /// Rows that are not active are not loaded.
    pub active: bool,
    /// The user.
    pub username: String,
    /// The client's address; empty for any.
    pub client_address: String,
    /// The firewall's mode for these clients.
    pub mode: FirewallMode,
    /// Free text.
    pub comment: String,
}

/// One row of `mysql_firewall_whitelist_rules`: a statement that may run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FirewallRuleRow {
    /// Rows that are not active are not loaded.
    pub active: bool,
    /// The user.
    pub username: String,
    /// The client's address; empty for any.
    pub client_address: String,
    /// The current schema.
    pub schemaname: String,
    /// The flag at the end of the rules.
    pub flag_in: u32,
    /// The digest as `0x...`.
    pub digest: String,
    /// Free text.
    pub comment: String,
}

/// One row of `mysql_firewall_whitelist_sqli_fingerprints`. Stored and shown, but not used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FirewallFingerprintRow {
    /// Rows that are not active are not loaded.
    pub active: bool,
    /// The fingerprint of statements that are not regarded as SQL injection.
    pub fingerprint: String,
}
