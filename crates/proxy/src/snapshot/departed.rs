//! Servers whose rows have left their hostgroups, because they were removed or their roles have changed: what still runs there
//! finishes, as on a server that is OFFLINE_SOFT, unless nothing may run on the server any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Snapshot, all_servers};
use crate::hostgroup::{Hostgroup, Server};
use crate::rows::{HostgroupId, ServerStatus};
use crate::rt::Instant;

/// A server that has left its hostgroup while there were connections to it.
#[derive(Debug, Clone)]
pub struct Departed {
    server: Arc<Server>,
    /// Since when.
    pub since: Instant,
}

/// Those that had left in `previous`, and those that leave with these hostgroups, as long as there are connections to them.
pub(super) fn departed(
    previous: &Snapshot,
    hostgroups: &BTreeMap<HostgroupId, Arc<Hostgroup>>,
) -> Vec<Departed> {
    let since = Instant::now();
    let has_left = |it: &Departed| {
        let hostgroup = hostgroups.get(&it.server.row.hostgroup);
        !hostgroup.is_some_and(|of| of.servers.iter().any(|other| other.is_at_address_of(&it.server)))
    };
    let leaving = all_servers(Some(previous)).map(|server| Departed { server: Arc::clone(server), since });
    let before = previous.departed.iter().cloned();
    before.chain(leaving).filter(|it| it.server.figures.connections() > 0 && has_left(it)).collect()
}

impl Snapshot {
    /// Why statements on a server that has left its hostgroup are cut off, if they are.
    pub(super) fn cuts_off_departed(&self, server: &Server, in_transaction: bool) -> Option<&'static str> {
        let mut elsewhere = all_servers(Some(self)).filter(|other| other.is_at_address_of(server)).peekable();
        if elsewhere.peek().is_none() {
            return Some("OFFLINE_HARD: its row was removed");
        }
        let left = self.hostgroups.get(&server.row.hostgroup);
        let was_writer = left.is_some_and(|hostgroup| hostgroup.writers.is_some());
        if was_writer && self.unfenced.contains(&(server.row.hostname.clone(), server.row.port)) {
            return Some("it is not written to any more, and has not said that it is read-only");
        }
        let is_down = |status| matches!(status, ServerStatus::Unreachable | ServerStatus::Gone);
        let (mut reason, mut all_cut) = (None, true);
        for status in elsewhere.map(|other| other.row.status) {
            if is_down(status) {
                return status.reason();
            }
            reason = reason.or_else(|| status.reason());
            all_cut &= status.cuts_off(in_transaction);
        }
        if all_cut {
            return reason;
        }
        if left.is_some_and(|hostgroup| hostgroup.is_overfull) {
            return Some("more servers of its hostgroup are ONLINE than max_num_online_servers");
        }
        let is_it = |it: &&Departed| Arc::ptr_eq(&it.server.figures, &server.figures);
        let since = self.departed.iter().find(is_it).map(|it| it.since);
        self.is_overdue(since)
            .then_some("its row has left the hostgroup, and offline_soft_timeout has passed")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Rows, ServerRow};
    use super::*;
    use crate::hostgroup::ConnectionSlot;
    use crate::outbox::Outbox;
    use crate::rows::server;

    const PAIR: (i32, i32) = (1, 2);

    fn rows(servers: &[(i32, &str, ServerStatus)], unfenced: &[&str]) -> Rows {
        let row = |(hostgroup, name, status): &(i32, &str, ServerStatus)| ServerRow {
            status: *status,
            ..server(*hostgroup, name, 1)
        };
        let pair = crate::rows::ReplicationHostgroupRow {
            writer_hostgroup: HostgroupId(PAIR.0),
            reader_hostgroup: HostgroupId(PAIR.1),
            check_type: "read_only".to_owned(),
            comment: String::new(),
        };
        Rows {
            servers: servers.iter().map(row).collect(),
            replication_hostgroups: vec![pair],
            unfenced: Arc::new(unfenced.iter().map(|name| ((*name).to_owned(), 1)).collect()),
            ..Rows::default()
        }
    }

    /// Every state that a server can have where it is now, and what becomes of its work.
    #[test]
    fn what_runs_on_a_server_that_has_left_ends_with_whatever_ends_it_where_it_is_now() {
        use ServerStatus::{Gone, OfflineHard, OfflineSoft, Online, ShunnedReplicationLag, Unreachable};
        let first = Snapshot::compile(rows(&[(1, "a", Online), (3, "a", Online)], &[]), 1, None).unwrap();
        let before = Arc::clone(&first.hostgroups[&HostgroupId(1)].servers[0]);
        let demand = &first.hostgroups[&HostgroupId(1)].demand;
        let _slot = ConnectionSlot::take(&before, demand, &Outbox::new(|_, _| ())).expect("room");
        for (now, unfenced, statement, transaction) in [
            (vec![], vec![], true, true),
            (vec![(2, "b", Online)], vec![], true, true),
            (vec![(2, "a", Online)], vec![], false, false),
            (vec![(2, "a", Online)], vec!["b"], false, false),
            (vec![(2, "a", Online)], vec!["a"], true, true),
            (vec![(2, "a", OfflineSoft)], vec![], false, false),
            (vec![(2, "a", OfflineHard)], vec![], true, true),
            (vec![(2, "a", Unreachable), (3, "a", Online)], vec![], true, true),
            (vec![(2, "a", OfflineHard), (3, "a", Online)], vec![], false, false),
            (vec![(2, "a", OfflineHard), (3, "a", OfflineHard)], vec![], true, true),
            (vec![(2, "a", Gone)], vec![], true, true),
            (vec![(2, "a", ShunnedReplicationLag)], vec![], false, true),
        ] {
            let snapshot = Snapshot::compile(rows(&now, &unfenced), 1, Some(&first)).unwrap();
            let cut = |in_transaction| snapshot.cuts_off(&before, in_transaction).is_some();
            assert_eq!((cut(false), cut(true)), (statement, transaction), "{now:?} {unfenced:?}");
            assert_eq!(snapshot.departed.len(), 1, "{now:?}");
            // It comes back where it was.
            let back = Snapshot::compile(rows(&[(1, "a", Online)], &unfenced), 1, Some(&snapshot)).unwrap();
            assert_eq!((back.cuts_off(&before, true), back.departed.len()), (None, 0));
        }
    }
}
