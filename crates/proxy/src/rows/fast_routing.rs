//! Rows about the destination of statements that no rule with `apply` matched.

use super::HostgroupId;

/// One row of `mysql_query_rules_fast_routing`: the destination of statements that no rule with `apply` matched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FastRoutingRow {
    /// The user; empty: any.
    pub username: String,
    /// The current schema.
    pub schemaname: String,
    /// The flag after the rules.
    pub flag_in: u32,
    /// Where to run the statement.
    pub destination_hostgroup: HostgroupId,
    /// Free text.
    pub comment: String,
}
