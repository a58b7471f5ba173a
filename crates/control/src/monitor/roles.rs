//! Which servers of replication pairs take writes, as checks of `read_only` have found, and which of them are written to.
//!
//! A report has all that is known when it is made, and says so again with each check. So what a switchover, a lost report or a restart
//! has put here is right again after the next check.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use narrows_proxy::rt::Instant;
use narrows_proxy::snapshot::{CheckType, HostgroupId, ReplicationHostgroupRow, ServerRow, ServerStatus};
use serde_json::{Value as Json, json};

use super::plan::{Address, Target};
use super::role::{RoleReport, ServerRole};
use super::settings::PairSettings;

/// What a report has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Nothing.
    Nothing,
    /// Not the role, but perhaps which server is written to.
    Standing,
    /// The role.
    Role(ServerRole),
}

/// The roles of all servers, and which are written to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roles {
    standings: BTreeMap<(Address, CheckType), Standing>,
    /// The servers that are written to, by writer hostgroup: they keep their places.
    holders: BTreeMap<HostgroupId, Vec<Address>>,
}

/// What is known of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Standing {
    report: RoleReport,
    /// Since when it has its role.
    since: Option<Instant>,
    /// Whether it has never been seen with another one.
    is_first: bool,
}

impl Roles {
    /// Takes over a report, unless a newer one is here.
    pub fn hear(&mut self, address: &Address, check_type: CheckType, report: &RoleReport) -> Heard {
        let standing = self.standings.entry((address.clone(), check_type)).or_default();
        let before = standing.report;
        if report.asked < before.asked {
            return Heard::Nothing;
        }
        // What another one has decided since is kept until a check that began later.
        let is_newer = match (before.role, report.role) {
            (Some((_, before)), Some((_, now))) => now > before,
            (None, _) => true,
            (Some(_), None) => false,
        };
        standing.report = RoleReport { role: if is_newer { report.role } else { before.role }, ..*report };
        match (before.role, standing.report.role) {
            (old, Some((role, since))) if old.map(|(role, _)| role) != Some(role) => {
                standing.since = Some(since);
                standing.is_first = old.is_none();
                Heard::Role(role)
            }
            _ if (before.unanswered > 0, before.is_away) == (report.unanswered > 0, report.is_away) => {
                Heard::Nothing
            }
            _ => Heard::Standing,
        }
    }

    /// Whether anything is known of a server.
    pub fn is_heard(&self, address: &Address) -> bool {
        self.standings.iter().any(|((of, _), standing)| of == address && standing.report.role.is_some())
    }

    /// Whether a server takes writes, as far as this check says so.
    pub fn is_writer(&self, address: &Address, check_type: CheckType) -> bool {
        self.role(address, check_type) == Some(ServerRole::Writer)
    }

    /// The role of a server, if it is known.
    pub fn role(&self, address: &Address, check_type: CheckType) -> Option<ServerRole> {
        Some(self.standing(address, check_type)?.report.role?.0)
    }

    /// Whether the last check of a server's role had no answer.
    pub fn is_failing(&self, address: &Address) -> bool {
        self.standings.iter().any(|((of, _), standing)| of == address && standing.report.unanswered > 0)
    }

    /// The servers that have not said themselves that they are read-only: what runs on one that is no longer written to could still
    /// change its data.
    pub fn unfenced(&self) -> BTreeSet<Address> {
        let is_fenced = |it: &Standing| {
            it.report.unanswered == 0 && it.report.role.is_some_and(|(role, _)| role == ServerRole::Reader)
        };
        let unfenced = self.standings.iter().filter(|(_, standing)| !is_fenced(standing));
        unfenced.map(|((address, _), _)| address.clone()).collect()
    }

    /// The servers of a pair that are written to: of those that take writes, as many as may. Those that are written to keep their
    /// places; then come those that the configuration has as writers, and then those that have been writable for the longest time.
    ///
    /// One that does not answer, or gets no statements (`is_out`), leaves its place to one that does. So does one whose last check
    /// failed, if another server was promoted after its last answer.
    pub fn writers(
        &self,
        pair: &ReplicationHostgroupRow,
        rows: &[ServerRow],
        settings: &PairSettings,
        is_out: impl Fn(&Address) -> bool,
    ) -> Vec<Address> {
        let check_type = CheckType::named(&pair.check_type);
        let standing = |address: &Address| self.standing(address, check_type).unwrap_or_default();
        let role = |address: &Address| standing(address).report.role.map(|(role, _)| role);
        // The row of each server by which it is judged: that of the writer hostgroup, if it has one.
        let mut of_pair: BTreeMap<Address, (bool, ServerStatus)> = BTreeMap::new();
        for row in rows {
            let is_configured = row.hostgroup == pair.writer_hostgroup;
            if is_configured {
                of_pair.insert(Address::of(row), (is_configured, row.status));
            } else if row.hostgroup == pair.reader_hostgroup {
                of_pair.entry(Address::of(row)).or_insert((is_configured, row.status));
            }
        }
        let is_configured = |address: &Address| of_pair.get(address).is_some_and(|row| row.0);
        let is_online =
            |address: &Address| of_pair.get(address).is_some_and(|row| row.1 == ServerStatus::Online);
        let mut candidates: Vec<&Address> = of_pair
            .keys()
            .filter(|address| match role(address) {
                Some(role) => role == ServerRole::Writer,
                // It takes writes until it says otherwise.
                None => is_configured(address),
            })
            .collect();
        let is_gone =
            |address: &Address| is_out(address) || standing(address).report.is_away || !is_online(address);
        let is_replaced = |address: &Address| {
            let report = standing(address).report;
            let promoted_since = |other: &&Address| {
                let it = standing(other);
                let is_promoted = role(other).is_some() && !it.is_first && it.since > report.answered;
                is_promoted && it.report.unanswered == 0 && !is_gone(other)
            };
            report.unanswered > 0 && candidates.iter().any(promoted_since)
        };
        let holders = self.holders.get(&pair.writer_hostgroup).map(Vec::as_slice).unwrap_or_default();
        let rank = |address: &Address| {
            let is_away = is_gone(address) || is_replaced(address);
            let order = (holders.contains(address), is_configured(address), role(address).is_some());
            (is_away, Reverse(order), standing(address).since)
        };
        let ranks: BTreeMap<&Address, _> = candidates.iter().map(|it| (*it, rank(it))).collect();
        candidates.sort_by_key(|address| ranks[address]);
        let most = if settings.max_writers == 0 { candidates.len() } else { settings.max_writers };
        candidates.into_iter().take(most).cloned().collect()
    }

    /// These are written to now, by writer hostgroup.
    pub fn hold(&mut self, holders: BTreeMap<HostgroupId, Vec<Address>>) {
        self.holders = holders;
    }

    /// Forgets what is no longer checked.
    pub fn keep(&mut self, targets: &[Target]) {
        self.standings.retain(|(address, check_type), _| {
            let target = targets.iter().find(|target| target.address == *address);
            target.is_some_and(|target| target.check_types.contains(check_type))
        });
    }

    /// The roles as JSON, for [`Roles::from_json`].
    pub fn to_json(&self) -> Json {
        let known = self.standings.iter().filter_map(|(key, standing)| Some((key, standing.report.role?.0)));
        known
            .map(|((address, check_type), role)| {
                json!([address.hostname, address.port, check_type.name(), role == ServerRole::Writer])
            })
            .collect()
    }

    /// Who is written to, as JSON, for [`Roles::from_json`].
    pub fn holders_to_json(&self) -> Json {
        let holders = self.holders.iter().flat_map(|(of, servers)| servers.iter().map(move |it| (of, it)));
        holders.map(|(of, server)| json!([server.hostname, server.port, of.0])).collect()
    }

    /// Reads what [`Roles::to_json`] and [`Roles::holders_to_json`] wrote.
    pub fn from_json(roles: &Json, holders: &Json) -> Roles {
        let address = |row: &Json| {
            let port = u16::try_from(row[1].as_u64()?).ok()?;
            Some(Address { hostname: row[0].as_str()?.to_owned(), port })
        };
        let standing = |row: &Json| {
            let role = if row[3].as_bool()? { ServerRole::Writer } else { ServerRole::Reader };
            // Whatever a check finds is newer.
            let report = RoleReport { role: Some((role, Instant::now())), ..RoleReport::default() };
            let standing = Standing { report, since: None, is_first: true };
            Some(((address(row)?, CheckType::named(row[2].as_str()?)), standing))
        };
        let list = |written: &Json| written.as_array().cloned().unwrap_or_default();
        let mut known =
            Roles { standings: list(roles).iter().filter_map(standing).collect(), holders: BTreeMap::new() };
        for row in list(holders) {
            let of = row[2].as_i64().and_then(|id| i32::try_from(id).ok()).map(HostgroupId);
            if let (Some(of), Some(server)) = (of, address(&row)) {
                known.holders.entry(of).or_default().push(server);
            }
        }
        known
    }

    fn standing(&self, address: &Address, check_type: CheckType) -> Option<Standing> {
        self.standings.get(&(address.clone(), check_type)).copied()
    }
}

#[cfg(test)]
mod tests;
