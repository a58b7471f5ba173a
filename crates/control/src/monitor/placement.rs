//! The consequences of what is known about servers: which hostgroups they are in, and which of them get statements.
//!
//! Rows go in and rows come out. The operator's configuration is never changed: each [`Placement`] starts from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use narrows_proxy::snapshot::{
    CheckType, HostgroupId, ReplicationHostgroupRow, Rows, ServerRow, ServerStatus,
};
use serde_json::{Value as Json, json};

use super::cluster::seats::{Event, Seats};
use super::finding::{Behind, Finding, Lag, MeasuredLag, Reach};
use super::found_readers::FoundReaders;
use super::plan::{Address, Target};
use super::roles::{Heard, Roles};
use super::settings::PairSettings;

/// What the checks have found so far.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Known {
    unreachable: BTreeSet<Address>,
    /// The roles of servers of pairs.
    pub roles: Roles,
    /// The servers that are too far behind, and how far.
    lagging: BTreeMap<(HostgroupId, Address), Behind>,
    /// The zones that servers say they are in.
    zones: BTreeMap<Address, String>,
    /// The nodes of clusters.
    pub seats: Seats,
    /// What is known of RDS.
    pub readers: FoundReaders,
}

/// The current servers, which replace the configured ones.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    /// The configured rows, with those of pairs where their roles are known.
    paired: Vec<ServerRow>,
    /// The same, and rows for nodes that were found.
    joined: Vec<ServerRow>,
    /// The same, with the nodes of clusters in the hostgroups of their roles.
    placed: Vec<ServerRow>,
    /// Rows for nodes that are offline, in the hostgroups that they were in.
    remains: Vec<ServerRow>,
    /// Rows for servers that were found and have not been heard.
    unheard: Vec<ServerRow>,
    /// The writer hostgroups of pairs, with the servers that are written to.
    writers: BTreeMap<HostgroupId, Vec<Address>>,
    /// The writer hostgroups of reader hostgroups of pairs.
    writers_of: BTreeMap<HostgroupId, HostgroupId>,
}

impl Known {
    /// Adds a finding; returns whether it is new.
    pub fn learn(&mut self, finding: &Finding) -> bool {
        match finding {
            Finding::Reach(address, Reach::Reachable) => self.unreachable.remove(address),
            Finding::Reach(address, Reach::Unreachable) => self.unreachable.insert(address.clone()),
            Finding::Role(address, check_type, report) => {
                self.roles.hear(address, *check_type, report) != Heard::Nothing
            }
            Finding::Lag(address, hostgroup, Lag::Fine, _) => {
                self.lagging.remove(&(*hostgroup, address.clone())).is_some()
            }
            Finding::Lag(address, hostgroup, Lag::TooMuch, MeasuredLag { behind, .. }) => {
                self.lagging.insert((*hostgroup, address.clone()), *behind) != Some(*behind)
            }
            Finding::Node(address, cluster, word) => self.seats.learn(*cluster, address, word),
            Finding::Topology(address, topology) => self.readers.learn(address, topology),
            Finding::Roster(address, cluster, roster) => self.seats.learn_roster(*cluster, address, roster),
            Finding::View(address, cluster, view) => self.seats.learn_view(*cluster, address, view.as_ref()),
            // Workers get it; no server is elsewhere because of it.
            Finding::Defaults(..) => false,
            Finding::Zone(address, zone) => {
                self.zones.insert(address.clone(), zone.clone()).as_ref() != Some(zone)
            }
        }
    }

    /// Forgets what is no longer checked, because nothing would report its end.
    pub fn keep(&mut self, targets: &[Target]) {
        let of = |address: &Address| targets.iter().find(|target| target.address == *address);
        self.unreachable.retain(|address| of(address).is_some());
        self.roles.keep(targets);
        self.zones.retain(|address, _| of(address).is_some_and(|target| !target.clusters.is_empty()));
        self.seats.keep(targets);
        self.readers.keep(targets);
        self.lagging.retain(|(hostgroup, address), _| {
            of(address)
                .is_some_and(|target| target.lag_limits.iter().any(|limit| limit.hostgroup == *hostgroup))
        });
    }

    /// Forgets unreachable and lagging servers, because there are no more checks. Roles stay.
    pub fn forget_health(&mut self) {
        self.unreachable.clear();
        self.lagging.clear();
        self.seats.forget_health();
        self.readers.forget();
    }

    /// Finds the readers of RDS.
    pub fn find_readers(&mut self, rows: &Rows, now: Instant) {
        self.readers.find(rows, &self.unreachable, now);
    }

    /// The zones that servers say they are in, by `host:port`.
    pub fn said_zones(&self) -> BTreeMap<String, Arc<str>> {
        let named =
            |(of, zone): (&Address, &String)| (format!("{}:{}", of.hostname, of.port), zone.as_str().into());
        self.zones.iter().map(named).collect()
    }
}

impl Known {
    /// The findings as JSON, for [`Known::from_json`].
    pub fn to_json(&self) -> Json {
        let lagging = |((hostgroup, it), behind): (&(HostgroupId, Address), &Behind)| {
            json!([it.hostname, it.port, hostgroup.0, *behind == Behind::Unknown])
        };
        json!({
            "unreachable": self.unreachable.iter().map(|it| json!([it.hostname, it.port])).collect::<Json>(),
            "roles": self.roles.to_json(),
            "writers": self.roles.holders_to_json(),
            "lagging": self.lagging.iter().map(lagging).collect::<Json>(),
            "clusters": self.seats.to_json(),
        })
    }

    /// Reads what [`Known::to_json`] wrote; what cannot be read will be found out again.
    pub fn from_json(written: &Json) -> Known {
        let list = |name: &str| written[name].as_array().map(Vec::as_slice).unwrap_or_default();
        let address = |row: &Json| {
            let port = u16::try_from(row[1].as_u64()?).ok()?;
            Some(Address { hostname: row[0].as_str()?.to_owned(), port })
        };
        let lagging = |row: &Json| {
            let behind = if row[3] == true { Behind::Unknown } else { Behind::Seconds(0) };
            Some(((HostgroupId(i32::try_from(row[2].as_i64()?).ok()?), address(row)?), behind))
        };
        Known {
            unreachable: list("unreachable").iter().filter_map(address).collect(),
            roles: Roles::from_json(&written["roles"], &written["writers"]),
            lagging: list("lagging").iter().filter_map(lagging).collect(),
            zones: BTreeMap::new(),
            seats: Seats::from_json(&written["clusters"], Instant::now()),
            readers: FoundReaders::default(),
        }
    }
}

impl Placement {
    /// Places the configured servers according to their known roles.
    pub fn new(
        configured: &[ServerRow],
        pairs: &[ReplicationHostgroupRow],
        known: &Known,
        settings: &PairSettings,
    ) -> Placement {
        let mut placement = Placement { paired: configured.to_vec(), ..Placement::default() };
        for pair in pairs {
            placement.place(pair, known, settings);
        }
        placement.placed.clone_from(&placement.paired);
        placement.joined.clone_from(&placement.paired);
        placement
    }

    /// The same, with the readers of RDS that were found.
    pub fn with_readers(rows: &Rows, known: &Known, settings: &PairSettings) -> Placement {
        let found = known.readers.rows(rows).into_iter();
        let (heard, unheard): (Vec<_>, Vec<_>) =
            found.partition(|row| known.roles.is_heard(&Address::of(row)));
        let configured = [rows.servers.as_slice(), &heard].concat();
        let placement = Placement::new(&configured, &rows.replication_hostgroups, known, settings);
        Placement { unheard, ..placement }
    }

    /// Gives the nodes of the clusters of `rows` the roles that follow from what is known; returns what has changed.
    pub fn seat(&mut self, known: &mut Known, rows: &Rows, now: Instant) -> Vec<Event> {
        let mut events = known.seats.find(&self.paired, rows, now);
        self.joined = known.seats.with_found(&self.paired, rows);
        events.extend(known.seats.decide(&self.joined, rows, now));
        self.placed = known.seats.place(&self.joined, rows);
        self.remains = known.seats.remains(&self.joined, &self.placed, rows);
        events
    }

    /// The servers to be checked: those that are placed, and nodes whose only place is taken by a row of the operator.
    pub fn to_check(&self) -> Vec<ServerRow> {
        let is_placed = |row: &&ServerRow| !self.placed.iter().any(|it| Address::of(it) == Address::of(row));
        let others = self.joined.iter().filter(is_placed);
        self.placed.iter().chain(others).chain(&self.unheard).cloned().collect()
    }

    /// The servers of pairs that are written to, by writer hostgroup.
    pub fn writers(&self) -> &BTreeMap<HostgroupId, Vec<Address>> {
        &self.writers
    }

    /// The rows as placed, with their configured states.
    pub fn rows(&self) -> &[ServerRow] {
        &self.placed
    }

    /// Places the servers of a pair according to their roles.
    fn place(&mut self, pair: &ReplicationHostgroupRow, known: &Known, settings: &PairSettings) {
        let check_type = CheckType::named(&pair.check_type);
        let is_out = |address: &Address| known.unreachable.contains(address);
        let chosen = known.roles.writers(pair, &self.paired, settings, is_out);
        let of_pair: BTreeSet<Address> = self
            .paired
            .iter()
            .filter(|row| [pair.writer_hostgroup, pair.reader_hostgroup].contains(&row.hostgroup))
            .map(Address::of)
            .collect();
        let is_heard = |address: &Address| known.roles.role(address, check_type).is_some();
        let has_writer = chosen.iter().any(is_heard);
        for address in of_pair {
            let role = known.roles.role(&address, check_type);
            match chosen.contains(&address) {
                // Where nobody has said anything, as without a monitor, all stay where they are configured.
                _ if role.is_none() && !has_writer => {}
                true if role.is_none() => {}
                true => self.place_writer(pair, &address, settings.writer_is_also_reader),
                false => self.place_reader(pair, &address),
            }
        }
        self.writers.insert(pair.writer_hostgroup, chosen);
        self.writers_of.insert(pair.reader_hostgroup, pair.writer_hostgroup);
    }

    fn place_writer(&mut self, pair: &ReplicationHostgroupRow, address: &Address, is_also_reader: bool) {
        if self.find(pair.writer_hostgroup, address).is_some() {
            return;
        }
        if let Some(at) = self.find(pair.reader_hostgroup, address) {
            let row = ServerRow { hostgroup: pair.writer_hostgroup, ..self.paired[at].clone() };
            if is_also_reader {
                self.paired.push(row);
            } else {
                self.paired[at] = row;
            }
        }
    }

    fn place_reader(&mut self, pair: &ReplicationHostgroupRow, address: &Address) {
        let Some(at) = self.find(pair.writer_hostgroup, address) else { return };
        if self.find(pair.reader_hostgroup, address).is_none() {
            self.paired[at].hostgroup = pair.reader_hostgroup;
        } else {
            self.paired.remove(at);
        }
    }

    fn find(&self, hostgroup: HostgroupId, address: &Address) -> Option<usize> {
        let same = |row: &ServerRow| row.hostgroup == hostgroup && Address::of(row) == *address;
        self.paired.iter().position(same)
    }

    /// The rows with the states that follow from what is known, for the runtime.
    pub fn with_states(&self, known: &Known) -> Vec<ServerRow> {
        let mut rows = self.placed.clone();
        rows.extend_from_slice(&self.remains);
        for row in rows.iter_mut().filter(|row| row.status == ServerStatus::Online) {
            let address = Address::of(row);
            if known.unreachable.contains(&address) {
                row.status = ServerStatus::Unreachable;
            } else if self.writers.contains_key(&row.hostgroup) && known.readers.is_held(&address) {
                row.status = ServerStatus::Withheld;
            }
        }
        let writers: BTreeSet<(HostgroupId, Address)> = rows
            .iter()
            .filter(|row| row.status == ServerStatus::Online && self.writers.contains_key(&row.hostgroup))
            .map(|row| (row.hostgroup, Address::of(row)))
            .collect();
        for row in rows.iter_mut().filter(|row| row.status == ServerStatus::Online) {
            let address = Address::of(row);
            let Some(behind) = known.lagging.get(&(row.hostgroup, address.clone())) else { continue };
            // A writer waits for nobody, wherever it is read from.
            let is_writer = writers.iter().any(|(_, writer)| *writer == address);
            // Nobody knows how far a replica is behind a primary that is gone, and there is nothing newer to read.
            let has_source = |of: &HostgroupId| {
                writers.iter().any(|(it, writer)| it == of && !known.roles.is_failing(writer))
            };
            let is_orphan = *behind == Behind::Unknown
                && self.writers_of.get(&row.hostgroup).is_some_and(|of| !has_source(of));
            if !is_writer && !is_orphan {
                row.status = ServerStatus::ShunnedReplicationLag;
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests;
