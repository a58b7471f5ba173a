//! What is known about clusters: what their nodes have said, and which roles they have.

use std::collections::BTreeMap;
use std::time::Instant;

use narrows_proxy::snapshot::{HostgroupId, Rows, ServerRow};
use serde_json::{Value as Json, json};

use super::decide::{Change, Decision, Fitness, NodeRole, Seat, changes, decide};
use super::placing::{members, place, remains};
use super::{ClusterId, ClusterKind, Word, clusters};
use crate::monitor::plan::{Address, Target};

/// The nodes of all clusters.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Seats {
    words: BTreeMap<(ClusterId, Address), Word>,
    decisions: BTreeMap<ClusterId, Decision>,
}

impl Seats {
    /// Whether nothing has been decided.
    pub fn is_empty(&self) -> bool {
        self.decisions.is_empty()
    }

    /// Records what a node has said; returns whether that is new.
    pub fn learn(&mut self, cluster: ClusterId, address: &Address, word: &Word) -> bool {
        self.words.insert((cluster, address.clone()), word.clone()).as_ref() != Some(word)
    }

    /// Forgets what is no longer checked.
    pub fn keep(&mut self, targets: &[Target]) {
        self.words.retain(|(cluster, address), _| {
            let is_checked = |target: &Target| {
                target.address == *address && target.clusters.iter().any(|it| it.id == *cluster)
            };
            targets.iter().any(is_checked)
        });
    }

    /// Forgets what the nodes have said, and that some are offline, because there are no more checks. Other roles stay.
    pub fn forget_health(&mut self) {
        self.words.clear();
        for decision in self.decisions.values_mut() {
            decision.seats.retain(|_, seat| seat.role.serves());
        }
    }

    /// Decides about the clusters of `rows`, whose servers are `servers`; returns what has changed.
    pub fn decide(&mut self, servers: &[ServerRow], rows: &Rows, now: Instant) -> Vec<(ClusterId, Change)> {
        let mut changed = Vec::new();
        let mut decisions = BTreeMap::new();
        for cluster in clusters(rows) {
            let word = |address: &Address| self.words.get(&(cluster.id, address.clone()));
            let members = members(servers, cluster.row, word);
            let before = self.decisions.remove(&cluster.id).unwrap_or_default();
            let most = usize::try_from(cluster.row.max_writers).unwrap_or(usize::MAX);
            let after = decide(most, &members, &before, now);
            changed.extend(changes(&before, &after).into_iter().map(|change| (cluster.id, change)));
            decisions.insert(cluster.id, after);
        }
        self.decisions = decisions;
        changed
    }

    /// Whether time alone may have changed a decision.
    pub fn is_due(&self, now: Instant) -> bool {
        self.decisions.values().filter_map(|decision| decision.again).any(|again| again <= now)
    }

    /// The decisions in force.
    pub fn decisions(&self) -> impl Iterator<Item = (ClusterId, &Decision)> {
        self.decisions.iter().map(|(id, decision)| (*id, decision))
    }

    /// The seats of one server.
    pub fn of<'a>(&'a self, hostname: &'a str, port: u16) -> impl Iterator<Item = (ClusterId, &'a Seat)> {
        let seats = self.decisions().flat_map(|(id, decision)| decision.seats.iter().map(move |it| (id, it)));
        seats.filter_map(move |(id, (address, seat))| {
            (address.hostname == hostname && address.port == port).then_some((id, seat))
        })
    }

    /// The servers, with the nodes of clusters in the hostgroups of their roles.
    pub fn place(&self, servers: &[ServerRow], rows: &Rows) -> Vec<ServerRow> {
        let mut placed = servers.to_vec();
        for cluster in clusters(rows) {
            if let Some(decision) = self.decisions.get(&cluster.id) {
                placed = place(placed, servers, cluster.row, decision);
            }
        }
        placed
    }

    /// Rows for nodes that are offline, in the hostgroups that they were in.
    pub fn remains(&self, placed: &[ServerRow], rows: &Rows) -> Vec<ServerRow> {
        let of = |cluster: super::Cluster<'_>| {
            let decision = self.decisions.get(&cluster.id)?;
            Some(remains(placed, cluster.row, decision))
        };
        clusters(rows).filter_map(of).flatten().collect()
    }

    /// The roles as JSON, for [`Seats::from_json`].
    pub fn to_json(&self) -> Json {
        let seat = |(address, seat): (&Address, &Seat)| {
            let (role, was) = (seat.role.name(), seat.was.name());
            json!([address.hostname, address.port, role, was, seat.weight, seat.why])
        };
        let cluster = |(id, decision): (&ClusterId, &Decision)| {
            let seats = decision.seats.iter().map(seat).collect::<Json>();
            json!([id.kind.name(), id.writers.0, decision.is_settled, seats])
        };
        self.decisions.iter().map(cluster).collect()
    }

    /// Reads what [`Seats::to_json`] wrote; what cannot be read will be found out again.
    pub fn from_json(written: &Json, now: Instant) -> Seats {
        let clusters = written.as_array().map(Vec::as_slice).unwrap_or_default();
        let cluster = |row: &Json| {
            let kind = ClusterKind::ALL.into_iter().find(|kind| row[0] == kind.name())?;
            let writers = HostgroupId(i32::try_from(row[1].as_i64()?).ok()?);
            let seats = row[3].as_array()?.iter().filter_map(|row| read_seat(row, now)).collect();
            let decision = Decision { seats, is_settled: row[2].as_bool()?, begun: None, again: None };
            Some((ClusterId { kind, writers }, decision))
        };
        Seats { words: BTreeMap::new(), decisions: clusters.iter().filter_map(cluster).collect() }
    }
}

fn read_seat(row: &Json, now: Instant) -> Option<(Address, Seat)> {
    let role = |name: &Json| NodeRole::ALL.into_iter().find(|role| *name == role.name());
    let address =
        Address { hostname: row[0].as_str()?.to_owned(), port: u16::try_from(row[1].as_u64()?).ok()? };
    let seat = Seat {
        role: role(&row[2])?,
        was: role(&row[3])?,
        weight: u32::try_from(row[4].as_u64()?).ok()?,
        why: row[5].as_str()?.to_owned(),
        since: now,
        fitness: Fitness::Unheard,
    };
    Some((address, seat))
}

#[cfg(test)]
mod tests;
