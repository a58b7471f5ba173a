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
use super::finding::{Finding, Lag, Reach, ServerRole};
use super::found_readers::FoundReaders;
use super::plan::{Address, Target};

/// What the checks have found so far.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Known {
    unreachable: BTreeSet<Address>,
    roles: BTreeMap<(Address, CheckType), ServerRole>,
    lagging: BTreeSet<(HostgroupId, Address)>,
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
    /// The writer hostgroups of pairs.
    writers: BTreeSet<HostgroupId>,
}

impl Known {
    /// Adds a finding; returns whether it is new.
    pub fn learn(&mut self, finding: &Finding) -> bool {
        match finding {
            Finding::Reach(address, Reach::Reachable) => self.unreachable.remove(address),
            Finding::Reach(address, Reach::Unreachable) => self.unreachable.insert(address.clone()),
            Finding::Role(address, check_type, role) => {
                self.roles.insert((address.clone(), *check_type), *role) != Some(*role)
            }
            Finding::Lag(address, hostgroup, Lag::Fine, _) => {
                self.lagging.remove(&(*hostgroup, address.clone()))
            }
            Finding::Lag(address, hostgroup, Lag::TooMuch, _) => {
                self.lagging.insert((*hostgroup, address.clone()))
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
        self.roles.retain(|(address, check_type), _| {
            of(address).is_some_and(|target| target.check_types.contains(check_type))
        });
        self.zones.retain(|address, _| of(address).is_some_and(|target| !target.clusters.is_empty()));
        self.seats.keep(targets);
        self.readers.keep(targets);
        self.lagging.retain(|(hostgroup, address)| {
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

    /// Whether a server takes writes, as far as this check says so.
    pub fn is_writer(&self, address: &Address, check_type: CheckType) -> bool {
        self.roles.get(&(address.clone(), check_type)) == Some(&ServerRole::Writer)
    }

    /// Whether a server has said which role it has.
    fn is_heard(&self, address: &Address) -> bool {
        self.roles.keys().any(|(of, _)| of == address)
    }
}

impl Known {
    /// The findings as JSON, for [`Known::from_json`].
    pub fn to_json(&self) -> Json {
        let role = |((address, check_type), role): (&(Address, CheckType), &ServerRole)| {
            json!([address.hostname, address.port, check_type.name(), *role == ServerRole::Writer])
        };
        json!({
            "unreachable": self.unreachable.iter().map(|it| json!([it.hostname, it.port])).collect::<Json>(),
            "roles": self.roles.iter().map(role).collect::<Json>(),
            "lagging": self.lagging.iter().map(|(in_, it)| json!([it.hostname, it.port, in_.0])).collect::<Json>(),
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
        let role = |row: &Json| {
            let role = if row[3].as_bool()? { ServerRole::Writer } else { ServerRole::Reader };
            Some(((address(row)?, CheckType::named(row[2].as_str()?)), role))
        };
        let lagging = |row: &Json| Some((HostgroupId(i32::try_from(row[2].as_i64()?).ok()?), address(row)?));
        Known {
            unreachable: list("unreachable").iter().filter_map(address).collect(),
            roles: list("roles").iter().filter_map(role).collect(),
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
        writer_is_also_reader: bool,
    ) -> Placement {
        let writers = pairs.iter().map(|pair| pair.writer_hostgroup).collect();
        let mut placement = Placement { paired: configured.to_vec(), writers, ..Placement::default() };
        for ((address, check_type), role) in &known.roles {
            placement.place(pairs, (address, *check_type), *role, writer_is_also_reader);
        }
        placement.placed.clone_from(&placement.paired);
        placement.joined.clone_from(&placement.paired);
        placement
    }

    /// The same, with the readers of RDS that were found.
    pub fn with_readers(rows: &Rows, known: &Known, writer_is_also_reader: bool) -> Placement {
        let found = known.readers.rows(rows).into_iter();
        let (heard, unheard): (Vec<_>, Vec<_>) = found.partition(|row| known.is_heard(&Address::of(row)));
        let configured = [rows.servers.as_slice(), &heard].concat();
        let placement =
            Placement::new(&configured, &rows.replication_hostgroups, known, writer_is_also_reader);
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

    /// The rows as placed, with their configured states.
    pub fn rows(&self) -> &[ServerRow] {
        &self.placed
    }

    /// Places a server according to its role, in each pair that it is in.
    pub fn place(
        &mut self,
        pairs: &[ReplicationHostgroupRow],
        (address, check_type): (&Address, CheckType),
        role: ServerRole,
        writer_is_also_reader: bool,
    ) {
        for pair in pairs.iter().filter(|pair| CheckType::named(&pair.check_type) == check_type) {
            let (writers, readers) = (pair.writer_hostgroup, pair.reader_hostgroup);
            let is_writer = self.find(writers, address).is_some();
            match (role, self.find(readers, address)) {
                (ServerRole::Writer, Some(at)) if !is_writer => {
                    let row = ServerRow { hostgroup: writers, ..self.paired[at].clone() };
                    if writer_is_also_reader {
                        self.paired.push(row);
                    } else {
                        self.paired[at] = row;
                    }
                }
                (ServerRole::Reader, None) => {
                    if let Some(at) = self.find(writers, address) {
                        self.paired[at].hostgroup = readers;
                    }
                }
                (ServerRole::Reader, Some(_)) => {
                    self.paired.retain(|row| row.hostgroup != writers || Address::of(row) != *address);
                }
                (ServerRole::Writer, _) => {}
            }
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
            } else if self.writers.contains(&row.hostgroup) && known.readers.is_held(&address) {
                row.status = ServerStatus::Withheld;
            } else if known.lagging.contains(&(row.hostgroup, address)) {
                row.status = ServerStatus::ShunnedReplicationLag;
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests;
