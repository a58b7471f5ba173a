//! Which servers of a hostgroup are used first: the others before backups, and among equals those in the zone of this
//! process. The sets are compiled with the snapshot; whether their servers can take a statement is for the pool to say.

use std::sync::Arc;

use super::{HostgroupSettings, Server};
use crate::rows::BackupAvailability;

/// The order in which the servers of a hostgroup are used.
#[derive(Debug, Clone)]
pub struct Preference {
    /// What the servers other than backups must be to keep backups out of use.
    pub availability: BackupAvailability,
    /// How many of them must be so.
    pub min_servers: usize,
    /// Whether this process is in a zone, and servers are.
    pub has_zones: bool,
    /// Those other than backups.
    without_backups: ServerSets,
    /// All of them; `None` if there are no backups.
    with_backups: Option<ServerSets>,
    /// The backups.
    pub backups: ServerSets,
}

/// Servers that may be used.
#[derive(Debug, Clone, Default)]
pub struct ServerSets {
    /// All of them.
    pub servers: Vec<Arc<Server>>,
    /// The same in sets, each of which is used while those before it cannot take a statement. None is empty.
    pub in_order: Vec<ServerSet>,
}

/// Servers that are equal to each other.
#[derive(Debug, Clone)]
pub struct ServerSet {
    /// The servers.
    pub servers: Vec<Arc<Server>>,
    /// Whether they are in the zone of this process.
    pub is_own_zone: bool,
}

impl Preference {
    /// The order among `servers`; `None` if there is none.
    pub fn of(settings: &HostgroupSettings, servers: &[Arc<Server>]) -> Option<Preference> {
        let rules = &settings.preference;
        let chosen: Vec<&Arc<Server>> = servers.iter().filter(|server| server.row.weight > 0).collect();
        let is_backup = |server: &Server| rules.is_backup(server.row.weight);
        let without = chosen.iter().copied().filter(|server| !is_backup(server));
        let without_backups = ServerSets::of(settings, without);
        let backups = chosen.iter().copied().filter(|server| is_backup(server));
        let backups = ServerSets::of(settings, backups);
        let has_backups = !backups.servers.is_empty();
        let preference = Preference {
            availability: rules.backup_availability,
            min_servers: rules.backup_min_servers,
            has_zones: !settings.own_zone.is_empty()
                && (!rules.zones.is_empty() || chosen.iter().any(|server| server.said_zone.is_some())),
            without_backups,
            with_backups: has_backups.then(|| ServerSets::of(settings, chosen.iter().copied())),
            backups,
        };
        let has_two_kinds = has_backups && !preference.without_backups.servers.is_empty();
        // In a hostgroup with zones, choices are also counted while all of its servers are in one.
        (has_two_kinds || preference.has_zones && !preference.widest().servers.is_empty())
            .then_some(preference)
    }

    /// The servers that may be used, and whether backups are among them. `counts` says whether a server is what
    /// [`availability`](Self::availability) asks for.
    pub fn open(&self, counts: impl Fn(&Server) -> bool) -> (&ServerSets, bool) {
        let Some(with_backups) = &self.with_backups else { return (&self.without_backups, false) };
        let counted = self.without_backups.servers.iter().filter(|server| counts(server));
        if counted.take(self.min_servers).count() < self.min_servers {
            (with_backups, true)
        } else {
            (&self.without_backups, false)
        }
    }

    fn widest(&self) -> &ServerSets {
        self.with_backups.as_ref().unwrap_or(&self.without_backups)
    }

    /// Whether a server is in the zone of this process.
    pub fn is_in_own_zone(&self, server: &Server) -> bool {
        let all = self.widest();
        let set = all.set_of(server).and_then(|set| all.in_order.get(set));
        set.is_some_and(|set| set.is_own_zone)
    }

    /// The place of a server in the order, from 0 on.
    pub fn rank(&self, server: &Server) -> usize {
        let others =
            || self.widest().set_of(server).unwrap_or(usize::MAX / 2) + self.without_backups.in_order.len();
        self.without_backups.set_of(server).unwrap_or_else(others)
    }
}

impl ServerSets {
    /// First those in the zone of this process, then the others.
    fn of<'a>(settings: &HostgroupSettings, servers: impl Iterator<Item = &'a Arc<Server>>) -> ServerSets {
        let servers: Vec<Arc<Server>> = servers.map(Arc::clone).collect();
        let (own, others): (Vec<_>, Vec<_>) =
            servers.iter().map(Arc::clone).partition(|server| settings.is_in_own_zone(server));
        let mut in_order = vec![
            ServerSet { servers: own, is_own_zone: true },
            ServerSet { servers: others, is_own_zone: false },
        ];
        in_order.retain(|set| !set.servers.is_empty());
        ServerSets { servers, in_order }
    }

    /// The set of a server, if it may be used.
    pub fn set_of(&self, server: &Server) -> Option<usize> {
        let same = |other: &Arc<Server>| Arc::ptr_eq(&other.figures, &server.figures);
        self.in_order.iter().position(|set| set.servers.iter().any(same))
    }
}

impl HostgroupSettings {
    /// The zone of a server, if it has one: that of the configuration, or else the one that it says it is in.
    pub fn zone_of<'s>(&'s self, server: &'s Server) -> Option<&'s str> {
        let configured = self.preference.zone(&server.row.hostname, server.row.port);
        configured.or(server.said_zone.as_deref())
    }

    /// What a server is in the order of its hostgroup, such as `own zone east, backup`; empty if that has none.
    pub fn place_of(&self, server: &Server) -> String {
        let zone = self.zone_of(server).map(|zone| {
            let own = if self.is_in_own_zone(server) { "own " } else { "" };
            format!("{own}zone {zone}")
        });
        let backup = self.preference.is_backup(server.row.weight).then(|| "backup".to_owned());
        zone.into_iter().chain(backup).collect::<Vec<_>>().join(", ")
    }

    /// Whether a server is in the zone of this process.
    pub fn is_in_own_zone(&self, server: &Server) -> bool {
        !self.own_zone.is_empty() && self.zone_of(server) == Some(&*self.own_zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{ServerRow, Variables, hostgroup_attributes, server};
    use crate::tls::SharedTls;

    fn settings(json: &str, zone: &str) -> HostgroupSettings {
        let variables = Variables { zone: zone.to_owned(), ..Variables::default() };
        let row = hostgroup_attributes(0, json);
        HostgroupSettings::of(&variables, Some(&row))
    }

    fn servers(weights: &[(&str, u32)]) -> Vec<Arc<Server>> {
        let server = |(name, weight): &(&str, u32)| {
            let row = ServerRow { weight: *weight, ..server(0, name, 3306) };
            Arc::new(Server::new(row, SharedTls::default()))
        };
        weights.iter().map(server).collect()
    }

    /// The sets as text: servers of a set are joined, sets are separated by `>`.
    fn shown((sets, _): (&ServerSets, bool)) -> String {
        let names =
            |set: &ServerSet| set.servers.iter().map(|it| it.row.hostname.clone()).collect::<String>();
        sets.in_order.iter().map(names).collect::<Vec<_>>().join(">")
    }

    #[test]
    fn sets_follow_zones_and_backups() {
        const ZONES: &str = r#""zones":{"a":"east","b":"west","c":"east"}"#;
        const THRESHOLD: &str = r#""backup_weight_threshold":10"#;
        let both = format!("{{{ZONES},{THRESHOLD}}}");
        let (zones, threshold) = (format!("{{{ZONES}}}"), format!("{{{THRESHOLD}}}"));
        // Weights of a, b, c, d; the sets while enough others can serve, and while not.
        type Case<'a> = (&'a str, &'a str, [u32; 4], Option<(&'a str, &'a str)>);
        let cases: [Case<'_>; 13] = [
            ("{}", "east", [1, 1, 1, 1], None),
            (&zones, "", [1, 1, 1, 1], None),
            (&zones, "north", [1, 1, 1, 1], Some(("abcd", "abcd"))),
            (&zones, "east", [0, 0, 0, 0], None),
            (&zones, "east", [1, 1, 1, 1], Some(("ac>bd", "ac>bd"))),
            (&zones, "west", [1, 1, 1, 0], Some(("b>ac", "b>ac"))),
            (&zones, "west", [1, 0, 1, 1], Some(("acd", "acd"))),
            (&zones, "east", [1, 0, 1, 0], Some(("ac", "ac"))),
            (&threshold, "east", [1, 9, 10, 11], Some(("cd", "abcd"))),
            (&threshold, "east", [10, 11, 12, 0], None),
            (&threshold, "east", [1, 1, 1, 1], None),
            (&both, "east", [10, 10, 1, 1], Some(("a>b", "ac>bd"))),
            (&both, "east", [1, 1, 1, 1], Some(("ac>bd", "ac>bd"))),
        ];
        for (json, zone, weights, expected) in cases {
            let names = ["a", "b", "c", "d"];
            let servers = servers(&std::array::from_fn::<_, 4, _>(|i| (names[i], weights[i])));
            let preference = Preference::of(&settings(json, zone), &servers);
            let found = preference.map(|it| (shown(it.open(|_| true)), shown(it.open(|_| false))));
            let found = found.as_ref().map(|(enough, few)| (enough.as_str(), few.as_str()));
            assert_eq!(found, expected, "{json} {zone} {weights:?}");
        }
    }

    #[test]
    fn backups_are_used_while_fewer_others_count_than_there_must_be() {
        for min_servers in 1..5 {
            let json = format!("{{\"backup_weight_threshold\":10,\"backup_min_servers\":{min_servers}}}");
            let servers = servers(&[("a", 10), ("b", 10), ("c", 10), ("d", 1)]);
            let preference = Preference::of(&settings(&json, ""), &servers).unwrap();
            for counted in 0u32..8 {
                let counts = |server: &Server| counted >> (server.row.hostname.as_bytes()[0] - b'a') & 1 == 1;
                let (sets, backups) = preference.open(counts);
                assert_eq!(backups, counted.count_ones() < min_servers, "{min_servers} {counted:b}");
                assert_eq!(sets.servers.len(), if backups { 4 } else { 3 });
            }
        }
    }
}
