//! What is known about clusters: what their nodes have said, and which roles they have.

use std::collections::BTreeMap;
use std::time::Instant;

use narrows_proxy::snapshot::{HostgroupId, Rows, ServerRow};
use serde_json::{Value as Json, json};

use super::decide::{Change, Decision, Fitness, NodeRole, Seat, changes, decide};
use super::placing::{configured, found_rows, members, place, remains};
use super::roster::{Arrival, Found, Presence, Roster, Statements};
use super::views::{View, excluded};
use super::{Cluster, ClusterId, ClusterKind, Word, aurora_row, clusters};
use crate::monitor::plan::{Address, Target};

/// The nodes of all clusters.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Seats {
    words: BTreeMap<(ClusterId, Address), Word>,
    /// The view that each node in its cluster has.
    views: BTreeMap<(ClusterId, Address), View>,
    rosters: BTreeMap<(ClusterId, Address), Roster>,
    found: BTreeMap<ClusterId, Found>,
    decisions: BTreeMap<ClusterId, Decision>,
}

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A node has another role.
    Role(ClusterId, Change),
    /// A node was found, or is no longer named.
    Arrival(ClusterId, Address, Arrival),
    /// The nodes name more others than are taken; how many more.
    TooMany(ClusterId, usize),
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

    /// Records which nodes a node names; returns whether that is new.
    pub fn learn_roster(&mut self, cluster: ClusterId, address: &Address, roster: &Roster) -> bool {
        self.rosters.insert((cluster, address.clone()), roster.clone()).as_ref() != Some(roster)
    }

    /// Records which view a node has; returns whether that is new.
    pub fn learn_view(&mut self, cluster: ClusterId, address: &Address, view: Option<&View>) -> bool {
        let key = (cluster, address.clone());
        match view {
            Some(view) => self.views.insert(key, view.clone()).as_ref() != Some(view),
            None => self.views.remove(&key).is_some(),
        }
    }

    /// Forgets what is no longer checked.
    pub fn keep(&mut self, targets: &[Target]) {
        let is_checked = |(cluster, address): &(ClusterId, Address)| {
            let is_it = |target: &Target| {
                target.address == *address && target.clusters.iter().any(|it| it.id == *cluster)
            };
            targets.iter().any(is_it)
        };
        self.words.retain(|of, _| is_checked(of));
        self.views.retain(|of, _| is_checked(of));
        self.rosters.retain(|of, _| is_checked(of));
    }

    /// Forgets what the nodes have said, and that some are offline, because there are no more checks. Other roles stay.
    pub fn forget_health(&mut self) {
        self.words.clear();
        self.views.clear();
        self.rosters.clear();
        for decision in self.decisions.values_mut() {
            decision.seats.retain(|_, seat| seat.role.serves());
        }
    }

    /// The servers, and rows for the nodes that were found.
    pub fn with_found(&self, servers: &[ServerRow], rows: &Rows) -> Vec<ServerRow> {
        let mut all = servers.to_vec();
        for cluster in clusters(rows) {
            if let Some(found) = self.found.get(&cluster.id) {
                let found = (found, aurora_row(rows, cluster.id));
                all.extend(found_rows(servers, cluster.row, found, &rows.hostgroup_attributes));
            }
        }
        all
    }

    /// Finds nodes of the clusters of `rows`, whose configured servers are `servers`.
    pub fn find(&mut self, servers: &[ServerRow], rows: &Rows, now: Instant) -> Vec<Event> {
        let (mut events, mut all) = (Vec::new(), BTreeMap::new());
        for cluster in clusters(rows) {
            let before = self.found.remove(&cluster.id).unwrap_or_default();
            let after = before.after(&self.statements(servers, cluster), now);
            let arrivals = after.arrivals(&before);
            events.extend(arrivals.map(|(node, arrival)| Event::Arrival(cluster.id, node, arrival)));
            if before.left_out == 0 && after.left_out > 0 {
                events.push(Event::TooMany(cluster.id, after.left_out));
            }
            if after != Found::default() {
                all.insert(cluster.id, after);
            }
        }
        self.found = all;
        events
    }

    /// What the nodes of a cluster say about each other.
    fn statements(&self, servers: &[ServerRow], cluster: Cluster<'_>) -> Statements<'_> {
        let of_cluster = of_cluster(&self.rosters, cluster.id);
        if of_cluster.clone().next().is_none() {
            return Statements::default();
        }
        let configured = configured(servers, cluster.row);
        let is_believed = |address: &Address| {
            let word = self.words.get(&(cluster.id, address.clone()));
            word.is_some_and(|word| !matches!(word, Word::Out(_)))
        };
        let rosters = of_cluster.map(|(address, roster)| (address, roster, is_believed(address))).collect();
        Statements { configured, rosters }
    }

    /// How many nodes of a cluster name each of them the writer.
    fn votes(&self, id: ClusterId) -> BTreeMap<&Address, usize> {
        let own = |(address, roster): (_, &'_ Roster)| Some((roster.own.clone()?, address));
        let names: BTreeMap<Address, &Address> = of_cluster(&self.rosters, id).filter_map(own).collect();
        let mut votes = BTreeMap::new();
        for writer in of_cluster(&self.rosters, id).filter_map(|(_, roster)| roster.writer.as_ref()) {
            *votes.entry(names.get(writer).copied().unwrap_or(writer)).or_default() += 1;
        }
        votes
    }

    /// Decides about the clusters of `rows`, whose servers, also those that were found, are `servers`; returns what has
    /// changed.
    pub fn decide(&mut self, servers: &[ServerRow], rows: &Rows, now: Instant) -> Vec<Event> {
        let (missing, nobody) = (Word::Leaving(MISSING.to_owned()), Found::default());
        let out = Word::Out("the other nodes have excluded it".to_owned());
        let mut changed = Vec::new();
        let mut decisions = BTreeMap::new();
        for cluster in clusters(rows) {
            let found = self.found.get(&cluster.id).unwrap_or(&nobody);
            let excluded = excluded(&of_cluster(&self.views, cluster.id).collect());
            let word = |address: &Address| match found.presence(address) {
                _ if excluded.contains(address) => Some(&out),
                Some(Presence::Missing(_)) => Some(&missing),
                _ => self.words.get(&(cluster.id, address.clone())),
            };
            let votes = self.votes(cluster.id);
            let votes = |address: &Address| votes.get(address).copied().unwrap_or(0);
            let members = members(servers, cluster.row, found, word, votes);
            let before = self.decisions.get(&cluster.id).cloned().unwrap_or_default();
            let most = usize::try_from(cluster.row.max_writers).unwrap_or(usize::MAX);
            let after = decide(most, &members, &before, now);
            let changes = changes(&before, &after).into_iter();
            changed.extend(changes.map(|change| Event::Role(cluster.id, change)));
            decisions.insert(cluster.id, after);
        }
        self.decisions = decisions;
        changed
    }

    /// Whether time alone may have changed a decision.
    pub fn is_due(&self, now: Instant) -> bool {
        let decided = self.decisions.values().filter_map(|decision| decision.again);
        decided.chain(self.found.values().filter_map(Found::again)).any(|again| again <= now)
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
    pub fn remains(&self, servers: &[ServerRow], placed: &[ServerRow], rows: &Rows) -> Vec<ServerRow> {
        let of = |cluster: Cluster<'_>| {
            let decision = self.decisions.get(&cluster.id)?;
            Some(remains(servers, placed, cluster.row, decision))
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
            let found = self.found.get(id).into_iter().flat_map(Found::nodes);
            let found = found.map(|(it, _)| json!([it.hostname, it.port])).collect::<Json>();
            json!([id.kind.name(), id.writers.0, decision.is_settled, seats, found])
        };
        self.decisions.iter().map(cluster).collect()
    }

    /// Reads what [`Seats::to_json`] wrote; what cannot be read will be found out again.
    pub fn from_json(written: &Json, now: Instant) -> Seats {
        let clusters = written.as_array().map(Vec::as_slice).unwrap_or_default();
        let id = |row: &Json| {
            let kind = ClusterKind::ALL.into_iter().find(|kind| row[0] == kind.name())?;
            Some(ClusterId { kind, writers: HostgroupId(i32::try_from(row[1].as_i64()?).ok()?) })
        };
        let decision = |row: &Json| {
            let seats = row[3].as_array()?.iter().filter_map(|row| read_seat(row, now)).collect();
            let decision = Decision { seats, is_settled: row[2].as_bool()?, begun: None, again: None };
            Some((id(row)?, decision))
        };
        let found = |row: &Json| {
            let nodes = row[4].as_array().filter(|nodes| !nodes.is_empty())?;
            Some((id(row)?, Found::of(nodes.iter().filter_map(read_address))))
        };
        Seats {
            decisions: clusters.iter().filter_map(decision).collect(),
            found: clusters.iter().filter_map(found).collect(),
            ..Seats::default()
        }
    }
}

/// Why a node that was found leaves.
const MISSING: &str = "the other nodes no longer name it";

/// What is known of the nodes of one cluster.
fn of_cluster<T>(
    all: &BTreeMap<(ClusterId, Address), T>,
    id: ClusterId,
) -> impl Iterator<Item = (&Address, &T)> + Clone {
    let first = (id, Address { hostname: String::new(), port: 0 });
    let of_cluster = all.range(first..).take_while(move |((cluster, _), _)| *cluster == id);
    of_cluster.map(|((_, address), known)| (address, known))
}

fn read_address(row: &Json) -> Option<Address> {
    Some(Address { hostname: row[0].as_str()?.to_owned(), port: u16::try_from(row[1].as_u64()?).ok()? })
}

fn read_seat(row: &Json, now: Instant) -> Option<(Address, Seat)> {
    let role = |name: &Json| NodeRole::ALL.into_iter().find(|role| *name == role.name());
    let address = read_address(row)?;
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
