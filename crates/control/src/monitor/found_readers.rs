//! The readers of Multi-AZ clusters of RDS that no row names, by the pair that they are found for, and the switchovers of
//! Blue/Green deployments.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use narrows_proxy::snapshot::{HostgroupId, ReplicationHostgroupRow, Rows, ServerRow, ServerStatus};

use super::cluster::placing::found_row;
use super::cluster::roster::{Found, Presence, Roster, Statements};
use super::plan::{Address, Target};
use super::rds_topology::{BlueGreen, Topology};

/// What servers have said about their place in RDS, and what follows.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct FoundReaders {
    topologies: BTreeMap<Address, Topology>,
    /// By the writer hostgroup of the pair.
    found: BTreeMap<HostgroupId, Found>,
}

impl FoundReaders {
    /// Records what a server says; returns whether that is new.
    pub fn learn(&mut self, address: &Address, topology: &Topology) -> bool {
        self.topologies.insert(address.clone(), topology.clone()).unwrap_or_default() != *topology
    }

    /// Forgets what is no longer checked.
    pub fn keep(&mut self, targets: &[Target]) {
        self.topologies.retain(|address, _| targets.iter().any(|target| target.address == *address));
    }

    /// Forgets everything that servers have said, because there are no more checks.
    pub fn forget(&mut self) {
        self.topologies.clear();
    }

    /// Whether nothing may be written to a server, because a switchover runs.
    pub fn is_held(&self, address: &Address) -> bool {
        self.topologies.get(address).is_some_and(|topology| topology.switchover == BlueGreen::Runs)
    }

    /// Finds readers for the pairs of `rows`, unless those who name them are `unreachable`.
    pub fn find(&mut self, rows: &Rows, unreachable: &BTreeSet<Address>, now: Instant) {
        let mut all = BTreeMap::new();
        for pair in &rows.replication_hostgroups {
            let before = self.found.remove(&pair.writer_hostgroup).unwrap_or_default();
            let configured: BTreeSet<Address> = all_of_pair(rows, pair).map(Address::of).collect();
            let speaks = |(address, _): &(&Address, &Topology)| {
                configured.contains(*address) || before.presence(address).is_some()
            };
            let rosters: Vec<(&Address, Roster)> = self
                .topologies
                .iter()
                .filter(speaks)
                .map(|(address, topology)| {
                    let members = topology.members.clone();
                    (address, Roster { members, ..Roster::default() })
                })
                .collect();
            let rosters = rosters.iter().map(|(from, roster)| (*from, roster, !unreachable.contains(*from)));
            let after = before.after(&Statements { configured, rosters: rosters.collect() }, now);
            for (server, arrival) in after.arrivals(&before) {
                tracing::info!(%server, ?arrival, "a reader of RDS was found, or is no longer named");
            }
            if after != Found::default() {
                all.insert(pair.writer_hostgroup, after);
            }
        }
        self.found = all;
    }

    /// Whether none was found.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether time alone changes something.
    pub fn is_due(&self, now: Instant) -> bool {
        self.found.values().filter_map(Found::again).any(|again| again <= now)
    }

    /// Rows for the readers that were found, with the columns of a server that is configured. One that is no longer named
    /// gets nothing new.
    pub fn rows(&self, rows: &Rows) -> Vec<ServerRow> {
        let mut all = Vec::new();
        for pair in &rows.replication_hostgroups {
            let Some(found) = self.found.get(&pair.writer_hostgroup) else { continue };
            let nearest = |row: &&ServerRow| row.hostgroup != pair.reader_hostgroup;
            let Some(template) = of_pair(rows, pair).min_by_key(nearest) else { continue };
            let attributes =
                rows.hostgroup_attributes.iter().find(|it| it.hostgroup == pair.reader_hostgroup);
            let defaults = attributes.and_then(|row| row.servers_defaults().ok()).unwrap_or_default();
            all.extend(found.nodes().map(|(address, presence)| ServerRow {
                status: match presence {
                    Presence::Named => ServerStatus::Online,
                    Presence::Missing(_) => ServerStatus::Withheld,
                },
                ..found_row(address, pair.reader_hostgroup, template, defaults)
            }));
        }
        all
    }
}

/// The servers of a pair that are in use.
fn of_pair<'a>(rows: &'a Rows, pair: &ReplicationHostgroupRow) -> impl Iterator<Item = &'a ServerRow> {
    all_of_pair(rows, pair).filter(|row| row.status == ServerStatus::Online)
}

/// The servers of a pair, also those that the operator has taken out of use: they are not to be found.
fn all_of_pair<'a>(rows: &'a Rows, pair: &ReplicationHostgroupRow) -> impl Iterator<Item = &'a ServerRow> {
    let both = [pair.writer_hostgroup, pair.reader_hostgroup];
    rows.servers.iter().filter(move |row| both.contains(&row.hostgroup))
}
