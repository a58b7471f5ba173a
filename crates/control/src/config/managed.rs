//! The sections that a file may own, by the names that its key `managed` has for them.

/// A section that can be owned: all that one LOAD moves.
#[derive(Debug, PartialEq, Eq)]
pub struct ManagedName {
    /// Its short name.
    pub name: &'static str,
    /// Its own section of the file, which must be there if it is owned. It can be written instead of the short name.
    pub section: &'static str,
}

/// Every section that can be owned.
pub const MANAGED_NAMES: &[ManagedName] = &[
    ManagedName { name: "servers", section: "mysql_servers" },
    ManagedName { name: "users", section: "mysql_users" },
    ManagedName { name: "rules", section: "mysql_query_rules" },
    ManagedName { name: "variables", section: "mysql_variables" },
    ManagedName { name: "admin_variables", section: "admin_variables" },
    ManagedName { name: "firewall", section: "mysql_firewall_whitelist_users" },
    ManagedName { name: "scheduler", section: "scheduler" },
    ManagedName { name: "restapi", section: "restapi" },
    ManagedName { name: "proxysql_servers", section: "proxysql_servers" },
];

impl ManagedName {
    /// The one that is written so, in any case.
    pub fn find(written: &str) -> Option<&'static ManagedName> {
        let is = |name: &str| name.eq_ignore_ascii_case(written.trim());
        MANAGED_NAMES.iter().find(|managed| is(managed.name) || is(managed.section))
    }

    /// What is written in the file if the section shall be empty.
    pub fn written_empty(&self) -> String {
        match self.section.ends_with("_variables") {
            true => format!("[{}]", self.section),
            false => format!("{} = []", self.section),
        }
    }
}
