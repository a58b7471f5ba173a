//! Backups and zones of servers that cannot be what they are meant for: thresholds that divide nothing, and names that
//! fit no server.

use std::collections::{BTreeMap, HashSet};

use narrows_proxy::snapshot::{HostgroupAttributesRow, PreferenceSettings, ServerRow};

use super::finding::{Of, SERVERS, SERVERS_ON_VARIABLES, Search, VARIABLES};
use crate::config::diagnostic::Problem;

/// What the findings are about.
pub(super) struct Preferences<'a> {
    /// `mysql_hostgroup_attributes`.
    pub rows: &'a [&'a HostgroupAttributesRow],
    pub servers: &'a [&'a ServerRow],
    /// Hostgroups between which servers move.
    pub linked: &'a [Vec<i32>],
    /// `mysql-zone`.
    pub own_zone: &'a str,
    /// Whether servers may say themselves in which zone they are.
    pub has_segments: bool,
}

impl Preferences<'_> {
    pub fn examine(&self, search: &mut Search) {
        let mut has_zones = false;
        for (index, row) in self.rows.iter().enumerate() {
            let Ok(settings) = row.preference() else { continue };
            has_zones |= !settings.zones.is_empty();
            let servers = self.servers_of(row.hostgroup.0);
            if servers.is_empty() {
                continue;
            }
            for (name, flaw) in backups(&settings, &servers) {
                search.add(SERVERS, place(index), || not_as_written(row, name, flaw));
            }
            for flaw in unknown_servers(&settings, &servers) {
                search.add(SERVERS, place(index), || not_as_written(row, "zones", flaw));
            }
            if let Some(flaw) = self.own_zone(&settings, &servers) {
                search.add(SERVERS_ON_VARIABLES, place(index), || not_as_written(row, "zones", flaw));
            }
        }
        if !self.own_zone.is_empty() && !has_zones && !self.has_segments && !self.servers.is_empty() {
            const ZONE: &str = "mysql-zone";
            let why = "no hostgroup_settings name the zones of servers";
            search.add_idle(VARIABLES, (Of::Variables, 0, ZONE), || ZONE.to_owned(), why);
        }
    }

    /// The servers that are in a hostgroup, or may move there, each with the row that it has there.
    fn servers_of(&self, hostgroup: i32) -> Vec<&ServerRow> {
        let linked = self.linked.iter().filter(|all| all.contains(&hostgroup)).flatten().copied();
        let hostgroups: HashSet<i32> = linked.chain([hostgroup]).collect();
        let mut servers: BTreeMap<(&str, u16), &ServerRow> = BTreeMap::new();
        for row in self.servers.iter().filter(|row| hostgroups.contains(&row.hostgroup.0)) {
            let known = servers.entry((&row.hostname, row.port)).or_insert(row);
            if row.hostgroup.0 == hostgroup {
                *known = row;
            }
        }
        servers.into_values().collect()
    }

    /// What is wrong with the zone of this process in a hostgroup.
    fn own_zone(&self, settings: &PreferenceSettings, servers: &[&ServerRow]) -> Option<String> {
        let is_own =
            |row: &&ServerRow| settings.zone(&row.hostname, row.port).is_some_and(|it| it == self.own_zone);
        if settings.zones.is_empty() {
            None
        } else if self.own_zone.is_empty() {
            Some("has no effect: mysql-zone is empty".to_owned())
        } else if servers.iter().any(is_own) {
            None
        } else {
            Some(format!("has no server in {:?}, which is mysql-zone: none is preferred", self.own_zone))
        }
    }
}

fn place(index: usize) -> (Of, usize, &'static str) {
    (Of::HostgroupAttributes, index, "hostgroup_settings")
}

fn not_as_written(row: &HostgroupAttributesRow, name: &str, flaw: String) -> Problem {
    let row = format!("hostgroup {}", row.hostgroup);
    Problem::NotAsWritten { row, name: format!("hostgroup_settings `{name}`"), flaw }
}

/// What is wrong with the backups among these servers: the key, and the text.
fn backups(settings: &PreferenceSettings, servers: &[&ServerRow]) -> Vec<(&'static str, String)> {
    let threshold = settings.backup_weight_threshold;
    let standard = PreferenceSettings::default();
    if threshold == 0 {
        let set = [
            ("backup_availability", settings.backup_availability != standard.backup_availability),
            ("backup_min_servers", settings.backup_min_servers != standard.backup_min_servers),
        ];
        let idle = set.into_iter().filter(|(_, is_set)| *is_set);
        return idle
            .map(|(name, _)| (name, "has no effect without backup_weight_threshold".to_owned()))
            .collect();
    }
    let backups = servers.iter().filter(|row| settings.is_backup(row.weight)).count();
    let others = servers.iter().filter(|row| row.weight >= threshold).count();
    let of_threshold = |why: String| vec![("backup_weight_threshold", format!("is {threshold}: {why}"))];
    if backups == 0 {
        let why = "no server has a smaller weight, other than 0, so there are no backups";
        return of_threshold(why.to_owned());
    }
    if others == 0 {
        return of_threshold("no server has as much weight, so all of them are backups".to_owned());
    }
    if settings.backup_min_servers > others {
        let most = settings.backup_min_servers;
        let flaw =
            format!("is {most}, but only {others} of the servers are no backups: backups are always used");
        return vec![("backup_min_servers", flaw)];
    }
    Vec::new()
}

/// Names in `zones` that are no server of the hostgroup.
fn unknown_servers(settings: &PreferenceSettings, servers: &[&ServerRow]) -> Vec<String> {
    let is_known = |name: &str| {
        servers.iter().any(|row| name == row.hostname || name == format!("{}:{}", row.hostname, row.port))
    };
    let unknown = settings.zones.keys().filter(|name| !is_known(name));
    unknown.map(|name| format!("names {name:?}, which is no server of the hostgroup")).collect()
}
