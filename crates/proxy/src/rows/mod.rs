//! The configuration as operators write it, row by row: [`crate::snapshot`] compiles it.

mod causal;
mod clusters;
pub mod convert;
mod fast_routing;
mod firewall;
mod json_column;
mod json_keys;
mod networks;
mod preference;
mod servers;
mod share;
mod token_issuers;
mod tokens;
mod users;
mod variable_rows;
mod variables;

pub use causal::CausalReads;
pub use clusters::{AuroraRow, Bond, ClusterRow, HostgroupPair, NO_CLUSTER};
pub use fast_routing::FastRoutingRow;
pub use firewall::{FirewallFingerprintRow, FirewallMode, FirewallRuleRow, FirewallUserRow};
pub use json_column::JsonColumn;
pub(crate) use json_column::{flag, transaction_replay};
pub use networks::{Network, Networks};
pub use preference::{BackupAvailability, PreferenceSettings};
#[cfg(test)]
pub(crate) use servers::tests::{hostgroup_attributes, server};
pub use servers::{
    Balance, CheckType, HostgroupAttributesRow, ReplicationHostgroupRow, ServerRow, ServerStatus,
    ServersDefaults, SslParamsRow, UnshunAlgorithm, Waiting,
};
pub use share::Share;
pub use token_issuers::TokenIssuerRow;
pub(crate) use tokens::flaws_of_tokens;
pub use tokens::{has_tokens, is_region, token_region};
pub use users::UserRow;
#[cfg(test)]
pub(crate) use users::tests::user;
pub use variables::Variables;

/// The id of a hostgroup: a set of servers that are equivalent for routing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct HostgroupId(pub i32);

impl std::fmt::Display for HostgroupId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A JSON value as shown in messages.
pub(crate) fn shown(value: &serde_json::Value) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain("...".chars()).collect()
}
