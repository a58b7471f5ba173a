//! Settings of reads that must see writes (`causal_reads`, `gtid_from_hostgroup`) that no statement meets.

use std::collections::HashSet;

use narrows_proxy::snapshot::{CausalReads, HostgroupAttributesRow, RuleRow, UserRow};

use super::finding::{
    Of, Place, RULES_ON_SERVERS, SERVERS, SERVERS_ON_VARIABLES, Search, USERS, USERS_ON_SERVERS,
};
use crate::config::diagnostic::Problem;

/// What the findings are about.
pub(super) struct CausalSettings<'a> {
    /// `mysql-causal_reads`.
    pub general: CausalReads,
    pub users: &'a [&'a UserRow],
    pub rules: &'a [&'a RuleRow],
    pub hostgroup_attributes: &'a [&'a HostgroupAttributesRow],
    /// The reader hostgroups of pairs and of clusters.
    pub readers: HashSet<i32>,
    /// The hostgroups that have servers, or may get some.
    pub hostgroups: &'a HashSet<i32>,
}

/// Why no read waits.
const NO_READERS: &str = "no hostgroup is the reader_hostgroup of another one";

impl CausalSettings<'_> {
    /// Looks for them. Without any server, that is reported instead.
    pub fn examine(&self, search: &mut Search) {
        if self.hostgroups.is_empty() {
            return;
        }
        const GENERAL: &str = "mysql-causal_reads";
        if self.general.is_on() && self.readers.is_empty() {
            let place = (Of::Variables, 0, GENERAL);
            search.add_idle(SERVERS_ON_VARIABLES, place, || GENERAL.to_owned(), NO_READERS);
        }
        self.of_users(search);
        self.of_rules(search);
        self.of_hostgroups(search);
    }

    fn of_users(&self, search: &mut Search) {
        let has_level = |row: &UserRow| CausalReads::of_attributes(&row.attributes).is_some();
        let users = self.users.iter().enumerate().filter(|(_, row)| row.active && has_level(row));
        for (index, row) in users {
            let place = (Of::Users, index, "attributes");
            let name = || format!("user {:?}: attributes `causal_reads`", row.username);
            if row.fast_forward {
                let why = "the sessions of fast_forward accounts stay on one connection";
                search.add_idle(USERS, place, name, why);
            } else if self.readers.is_empty() {
                search.add_idle(USERS_ON_SERVERS, place, name, NO_READERS);
            }
        }
    }

    fn of_rules(&self, search: &mut Search) {
        let names_writer =
            self.rules.iter().any(|row| row.active.is_asked() && row.gtid_from_hostgroup.is_some());
        for (index, row) in self.rules.iter().enumerate().filter(|(_, row)| row.active.is_asked()) {
            let add = |search: &mut Search, column: &'static str, name: &str, why| {
                let name = format!("rule {}: {name}", row.rule_id);
                search.add_idle(RULES_ON_SERVERS, (Of::Rules, index, column), || name, why);
            };
            if let Some(why) = self.why_nothing_is_written(row) {
                add(search, "gtid_from_hostgroup", "gtid_from_hostgroup", why);
            }
            let level = CausalReads::of_attributes(&row.attributes);
            if level.is_some() && self.readers.is_empty() && !names_writer {
                add(search, "attributes", "attributes `causal_reads`", NO_READERS);
            }
        }
    }

    /// Why no statement of the rule must see anything that was written in its `gtid_from_hostgroup`.
    fn why_nothing_is_written(&self, row: &RuleRow) -> Option<&'static str> {
        let hostgroup = row.gtid_from_hostgroup?;
        if !self.hostgroups.contains(&hostgroup.0) {
            Some("that hostgroup has no server")
        } else if self.readers.contains(&hostgroup.0) {
            Some("that hostgroup has readers, and what is written counts for its writer_hostgroup")
        } else if row.destination_hostgroup == Some(hostgroup) {
            Some("it is the destination_hostgroup, whose servers have what is written there")
        } else {
            None
        }
    }

    fn of_hostgroups(&self, search: &mut Search) {
        for (index, row) in self.hostgroup_attributes.iter().enumerate() {
            let is_set = matches!(row.causal_reads(), Ok(Some(_)));
            // One without servers is reported as a whole.
            let is_known = self.hostgroups.contains(&row.hostgroup.0);
            if is_set && is_known && !self.readers.contains(&row.hostgroup.0) {
                let place: Place = (Of::HostgroupAttributes, index, "hostgroup_settings");
                search.add(SERVERS, place, || Problem::NotAsWritten {
                    row: format!("hostgroup {}", row.hostgroup),
                    name: "hostgroup_settings `causal_reads`".to_owned(),
                    flaw: "has no effect: the hostgroup is the reader_hostgroup of no other one".to_owned(),
                });
            }
        }
    }
}
