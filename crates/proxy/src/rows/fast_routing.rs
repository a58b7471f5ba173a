//! Rows about the destination of statements that no rule with `apply` matched.

use super::HostgroupId;

/// One row of `mysql_query_rules_fast_routing`: the destination of statements that no rule with `apply` matched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FastRoutingRow {
    /// The user; empty for any.
    pub username: String,
    /// The current schema.
    pub schemaname: String,
    /// The flag at the end of the rules.
    pub flag_in: u32,
    /// The hostgroup that runs the statement.
    pub destination_hostgroup: HostgroupId,
    /// Free text.
    pub comment: String,
}
