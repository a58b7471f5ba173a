//! Which servers of a replication pair say that they take writes: more than one is a warning, because their data drift apart.
//!
//! A server counts once a check has found it writable that began after the last change of roles in its pair. So neither a primary
//! that has died nor one whose role has just changed is taken for a second one.

use std::collections::{BTreeMap, BTreeSet};

use narrows_proxy::clock;
use narrows_proxy::snapshot::{CheckType, HostgroupId, Rows, ServerStatus};

use crate::monitor::check::{LogCell, Subject};
use crate::monitor::log::Record;
use crate::monitor::placement::{Known, Placement};
use crate::monitor::plan::Address;
use crate::monitor::read_only;

/// The writers of all pairs, by writer hostgroup.
#[derive(Debug, Default)]
pub struct PairWriters(BTreeMap<HostgroupId, Writers>);

/// Those of one pair.
#[derive(Debug)]
struct Writers {
    check_type: CheckType,
    /// The servers of the writer hostgroup whose role it is.
    servers: BTreeSet<Address>,
    /// Since when, in us since 1970.
    since_us: i64,
    /// Those that have said so since.
    confirmed: BTreeSet<Address>,
    /// Whether the log says that there are several.
    is_told: bool,
}

impl PairWriters {
    /// Takes over which servers are in the writer hostgroups of `rows`.
    pub fn follow(&mut self, rows: &Rows, placement: &Placement, known: &Known) {
        let mut before = std::mem::take(&mut self.0);
        for pair in &rows.replication_hostgroups {
            let (hostgroup, check_type) = (pair.writer_hostgroup, CheckType::named(&pair.check_type));
            let of_pair = [hostgroup, pair.reader_hostgroup];
            let in_use = placement
                .rows()
                .iter()
                .filter(|row| of_pair.contains(&row.hostgroup) && row.status == ServerStatus::Online);
            let servers: BTreeSet<Address> = in_use
                .map(Address::of)
                .filter(|address| known.roles.is_writer(address, check_type))
                .collect();
            let writers = before.remove(&hostgroup);
            let is_told = writers.as_ref().is_some_and(|it| it.is_told);
            let same = writers.filter(|it| it.servers == servers && it.check_type == check_type);
            let mut writers = same.unwrap_or_else(|| Writers {
                check_type,
                servers,
                since_us: clock::now_us(),
                confirmed: BTreeSet::new(),
                is_told,
            });
            writers.tell(hostgroup);
            self.0.insert(hostgroup, writers);
        }
    }

    /// Notes what a check has found.
    pub fn note(&mut self, record: &Record) {
        let Subject::Role(check_type) = record.subject else { return };
        if record.kind != &read_only::CHECK {
            return;
        }
        for (hostgroup, writers) in &mut self.0 {
            if writers.check_type != check_type || !writers.servers.contains(&record.address) {
                continue;
            }
            if record.outcome.is_err() || record.values != [LogCell::Integer(0)] {
                writers.confirmed.remove(&record.address);
            } else if record.start_us >= writers.since_us {
                writers.confirmed.insert(record.address.clone());
            }
            writers.tell(*hostgroup);
        }
    }

    /// There are no more checks.
    pub fn forget(&mut self) {
        self.0.values_mut().for_each(|writers| writers.confirmed.clear());
    }

    /// How many servers take writes, by writer hostgroup.
    pub fn counts(&self) -> impl Iterator<Item = (HostgroupId, usize)> {
        self.0.iter().map(|(hostgroup, writers)| (*hostgroup, writers.confirmed.len()))
    }
}

impl Writers {
    /// Logs that there are several, or that there are no longer.
    fn tell(&mut self, hostgroup: HostgroupId) {
        let names = |servers: &BTreeSet<Address>| {
            servers.iter().map(Address::to_string).collect::<Vec<_>>().join(", ")
        };
        if self.confirmed.len() > 1 && !self.is_told {
            self.is_told = true;
            let servers = names(&self.confirmed);
            tracing::warn!(
                %hostgroup,
                servers,
                "the pair of a writer hostgroup has more than one server that takes writes: make all but one read-only"
            );
        } else if self.servers.len() <= 1 && self.is_told {
            self.is_told = false;
            let server = names(&self.servers);
            tracing::info!(%hostgroup, server, "a writer hostgroup has one writer again, or none");
        }
    }
}
