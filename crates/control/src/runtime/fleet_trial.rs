//! What a member of a fleet has to prove about a version that it tries: found out from the version and from the one before.

use std::collections::BTreeSet;

use narrows_proxy::rules::Activity;
use narrows_proxy::snapshot::{HostgroupId, Rows, ServerRow, ServerStatus};

use crate::fleet::NeededHostgroup;
use crate::monitor::plan::{Address, Target};

/// What the version does not have, and the one before had: clients cannot be served without it.
pub(super) fn lacks(before: &Rows, after: &Rows) -> Option<String> {
    let has_account = |rows: &Rows| rows.users.iter().any(|user| user.active);
    if has_account(before) && !has_account(after) {
        return Some("no account of mysql_users is active".to_owned());
    }
    let lead_before = leads_to(before);
    let was_so = |hostgroup: &HostgroupId| {
        lead_before.contains(hostgroup) && servers_of(before, *hostgroup).next().is_none()
    };
    let is_empty = |hostgroup: &HostgroupId| servers_of(after, *hostgroup).next().is_none();
    let empty = leads_to(after).into_iter().find(|hostgroup| is_empty(hostgroup) && !was_so(hostgroup))?;
    Some(format!("rules or accounts lead to hostgroup {empty}, and it has no server that can be used"))
}

/// The hostgroups with servers that rules and accounts lead to.
pub(super) fn needed(rows: &Rows) -> Vec<NeededHostgroup> {
    let target = |row: &ServerRow| Target::to(&row.hostname, row.port, row.use_ssl);
    let of = |hostgroup: HostgroupId| {
        let mut seen: BTreeSet<Address> = BTreeSet::new();
        let servers = servers_of(rows, hostgroup).filter(|row| seen.insert(Address::of(row))).map(target);
        NeededHostgroup { hostgroup, servers: servers.collect() }
    };
    leads_to(rows).into_iter().map(of).filter(|needed| !needed.servers.is_empty()).collect()
}

fn leads_to(rows: &Rows) -> BTreeSet<HostgroupId> {
    let accounts = rows.users.iter().filter(|user| user.active).map(|user| user.default_hostgroup);
    let rules = rows
        .rules
        .iter()
        .filter(|rule| rule.active == Activity::InForce)
        .filter_map(|rule| rule.destination_hostgroup);
    let fast = rows.fast_routing.iter().map(|row| row.destination_hostgroup);
    accounts.chain(rules).chain(fast).collect()
}

/// The servers that may be used in a hostgroup: those that are in it, and those that the monitor may move there.
fn servers_of(rows: &Rows, hostgroup: HostgroupId) -> impl Iterator<Item = &ServerRow> {
    let mut together = BTreeSet::from([hostgroup]);
    let pairs =
        rows.replication_hostgroups.iter().map(|row| vec![row.writer_hostgroup, row.reader_hostgroup]);
    let clusters = rows.clusters().map(|row| row.hostgroups().to_vec());
    pairs.chain(clusters).filter(|all| all.contains(&hostgroup)).for_each(|all| together.extend(all));
    let is_used =
        |row: &&ServerRow| !matches!(row.status, ServerStatus::OfflineSoft | ServerStatus::OfflineHard);
    rows.servers.iter().filter(is_used).filter(move |row| together.contains(&row.hostgroup))
}

#[cfg(test)]
mod tests {
    use narrows_proxy::snapshot::{ReplicationHostgroupRow, UserRow};

    use super::*;
    use crate::config::tables::{SERVERS, USERS};

    fn rows(servers: &[(i32, u16)], accounts: &[i32]) -> Rows {
        let server = |(hostgroup, port): &(i32, u16)| ServerRow {
            hostgroup: HostgroupId(*hostgroup),
            hostname: "a".to_owned(),
            port: *port,
            ..(SERVERS.blank)()
        };
        let account = |hostgroup: &i32| UserRow {
            username: format!("u{hostgroup}"),
            active: true,
            default_hostgroup: HostgroupId(*hostgroup),
            ..(USERS.blank)()
        };
        Rows {
            servers: servers.iter().map(server).collect(),
            users: accounts.iter().map(account).collect(),
            ..Rows::default()
        }
    }

    #[test]
    fn each_hostgroup_that_is_led_to_needs_a_server_unless_it_had_none_before() {
        let before = rows(&[(1, 1)], &[1]);
        assert_eq!(lacks(&before, &before), None);
        let lack = |after: &Rows| lacks(&before, after).unwrap_or_default();
        assert!(lack(&rows(&[], &[1])).contains("hostgroup 1"));
        assert!(lack(&rows(&[(1, 1)], &[1, 2])).contains("hostgroup 2"));
        assert!(lack(&rows(&[(1, 1)], &[])).contains("no account"));
        let mut offline = before.clone();
        offline.servers[0].status = ServerStatus::OfflineHard;
        assert!(lack(&offline).contains("hostgroup 1"));
        // What was so before is no reason.
        let empty = rows(&[], &[1]);
        assert_eq!(lacks(&empty, &empty), None);
        assert_eq!(lacks(&rows(&[], &[]), &rows(&[], &[])), None);
    }

    #[test]
    fn servers_of_a_pair_are_needed_by_both_of_its_hostgroups() {
        let mut all = rows(&[(1, 1), (1, 2), (7, 3)], &[2]);
        assert!(needed(&all).is_empty());
        all.replication_hostgroups = vec![ReplicationHostgroupRow {
            writer_hostgroup: HostgroupId(1),
            reader_hostgroup: HostgroupId(2),
            check_type: "read_only".to_owned(),
            comment: String::new(),
        }];
        let found = needed(&all);
        let ports: Vec<u16> = found[0].servers.iter().map(|server| server.address.port).collect();
        assert_eq!((found.len(), found[0].hostgroup, ports), (1, HostgroupId(2), vec![1, 2]));
    }
}
