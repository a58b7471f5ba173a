//! The consequences of what is known about servers: which hostgroups they are in, and which of them get statements.
//!
//! Rows go in and rows come out. The operator's configuration is never changed: each [`Placement`] starts from it.

use std::collections::{BTreeMap, BTreeSet};

use narrows_proxy::snapshot::{CheckType, HostgroupId, ReplicationHostgroupRow, ServerRow, ServerStatus};
use serde_json::{Value as Json, json};

use super::finding::{Finding, Lag, Reach, ServerRole};
use super::plan::{Address, Target};

/// What the checks have found so far.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Known {
    unreachable: BTreeSet<Address>,
    roles: BTreeMap<(Address, CheckType), ServerRole>,
    lagging: BTreeSet<(HostgroupId, Address)>,
}

/// The current servers, which replace the configured ones.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    rows: Vec<ServerRow>,
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
        }
    }

    /// Forgets what is no longer checked, because nothing would report its end.
    pub fn keep(&mut self, targets: &[Target]) {
        let of = |address: &Address| targets.iter().find(|target| target.address == *address);
        self.unreachable.retain(|address| of(address).is_some());
        self.roles.retain(|(address, check_type), _| {
            of(address).is_some_and(|target| target.check_types.contains(check_type))
        });
        self.lagging.retain(|(hostgroup, address)| {
            of(address)
                .is_some_and(|target| target.lag_limits.iter().any(|limit| limit.hostgroup == *hostgroup))
        });
    }

    /// Forgets unreachable and lagging servers, because there are no more checks. Roles stay.
    pub fn forget_health(&mut self) {
        self.unreachable.clear();
        self.lagging.clear();
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
        let mut placement = Placement { rows: configured.to_vec() };
        for ((address, check_type), role) in &known.roles {
            placement.place(pairs, (address, *check_type), *role, writer_is_also_reader);
        }
        placement
    }

    /// The rows as placed, with their configured states.
    pub fn rows(&self) -> &[ServerRow] {
        &self.rows
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
                    let row = ServerRow { hostgroup: writers, ..self.rows[at].clone() };
                    if writer_is_also_reader {
                        self.rows.push(row);
                    } else {
                        self.rows[at] = row;
                    }
                }
                (ServerRole::Reader, None) => {
                    if let Some(at) = self.find(writers, address) {
                        self.rows[at].hostgroup = readers;
                    }
                }
                (ServerRole::Reader, Some(_)) => {
                    self.rows.retain(|row| row.hostgroup != writers || Address::of(row) != *address);
                }
                (ServerRole::Writer, _) => {}
            }
        }
    }

    fn find(&self, hostgroup: HostgroupId, address: &Address) -> Option<usize> {
        let same = |row: &ServerRow| row.hostgroup == hostgroup && Address::of(row) == *address;
        self.rows.iter().position(same)
    }

    /// The rows with the states that follow from what is known, for the runtime.
    pub fn with_states(&self, known: &Known) -> Vec<ServerRow> {
        let mut rows = self.rows.clone();
        for row in rows.iter_mut().filter(|row| row.status == ServerStatus::Online) {
            let address = Address::of(row);
            if known.unreachable.contains(&address) {
                row.status = ServerStatus::Unreachable;
            } else if known.lagging.contains(&(row.hostgroup, address)) {
                row.status = ServerStatus::ShunnedReplicationLag;
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests;
