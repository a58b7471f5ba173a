//! Checks of a file that need several rows together.

use std::collections::HashMap;
use std::hash::Hash;

use narrows_proxy::rows::convert::items;
use narrows_proxy::snapshot::{AuroraRow, HostgroupAttributesRow, ReplicationHostgroupRow, finds_accounts};

use super::finding::{LikelyMistake, Of, Scope};
use super::hostgroups::Managed;
use super::http_interfaces::{PORT, http_interfaces};
use super::sections::Sections;
use super::together::Together;
use crate::config::diagnostic::{Problem, Problems};
use crate::config::form::ListenAddress;
use crate::config::schema::Placed;
use crate::config::tree::Position;
use crate::monitor::cluster::ClusterKind;
use crate::monitor::cluster::roster::is_host_name;
use crate::tokens;
use crate::variables::Values;

/// Reports everything that is wrong in combinations of rows.
pub(super) fn check(sections: &Sections, report: &mut Problems) {
    duplicates(sections, report);
    addresses(sections, report);
    for problem in known_passwords(&sections.variables) {
        // It listens on loopback by default, so an open address was configured.
        let at = sections.variable_at("admin-mysql_ifaces");
        report.add(at.unwrap_or_default(), problem);
    }
    servers(sections, report);
    for finding in Together::of_file(sections).findings(Scope::All) {
        report.add(sections.place_of(&finding), finding.problem);
    }
}

fn duplicates(sections: &Sections, report: &mut Problems) {
    report_duplicates("mysql_servers", &sections.servers, "hostname", report, |row| {
        format!("server {}:{} in hostgroup {}", row.hostname, row.port, row.hostgroup)
    });
    report_duplicates("mysql_users", &sections.users, "username", report, |row| {
        format!("user {:?}", row.username)
    });
    report_duplicates("mysql_query_rules", &sections.rules, "rule_id", report, |row| {
        format!("rule {}", row.rule_id)
    });
    let name = "mysql_query_rules_fast_routing";
    report_duplicates(name, &sections.fast_routing, "schemaname", report, |row| {
        format!("user {:?}, schema {:?}, flagIN {}", row.username, row.schemaname, row.flag_in)
    });
    let name = "mysql_replication_hostgroups";
    report_duplicates(name, &sections.replication_hostgroups, "writer_hostgroup", report, |row| {
        format!("writer hostgroup {}", row.writer_hostgroup)
    });
    for kind in ClusterKind::ALL {
        report_duplicates(kind.table(), &sections.clusters(kind), "writer_hostgroup", report, |row| {
            format!("writer hostgroup {}", row.writer_hostgroup)
        });
    }
    let name = "mysql_hostgroup_attributes";
    report_duplicates(name, &sections.hostgroup_attributes, "hostgroup_id", report, |row| {
        format!("hostgroup {}", row.hostgroup)
    });
    let name = "mysql_firewall_whitelist_users";
    report_duplicates(name, &sections.firewall_users, "username", report, |row| {
        format!("user {:?} at {:?}", row.username, row.client_address)
    });
    report_duplicates("narrows_token_issuers", &sections.token_issuers, "name", report, |row| {
        format!("issuer {:?}", row.name)
    });
    report_duplicates("mysql_servers_ssl_params", &sections.ssl_params, "hostname", report, |row| {
        format!("server {}:{} and user {:?}", row.hostname, row.port, row.username)
    });
}

/// A file without which no client could be served. At a start and by LOAD ... TO RUNTIME, its module reports it.
pub(super) fn nothing_to_serve(sections: &Sections, report: &mut Problems) {
    let file = Position::default();
    if sections.servers.is_empty() {
        report.add(file, Problem::NoServers);
    }
    let variables = sections.variables.for_data_plane();
    if !(sections.users.iter().any(|placed| placed.row.active) || finds_accounts(&variables)) {
        report.add(file, Problem::NoUsers);
    }
}

fn report_duplicates<R, K: Hash + Eq + ToString>(
    section: &'static str,
    rows: &[Placed<R>],
    column: &str,
    report: &mut Problems,
    key: impl Fn(&R) -> K,
) {
    let mut seen: HashMap<K, u32> = HashMap::new();
    for placed in rows {
        let at = placed.at(column);
        let key = key(&placed.row);
        match seen.get(&key) {
            Some(first) => {
                report.add(at, Problem::DuplicateRow { section, key: key.to_string(), first: *first });
            }
            None => drop(seen.insert(key, at.line)),
        }
    }
}

/// Addresses given twice, in one variable or in two.
fn addresses(sections: &Sections, report: &mut Problems) {
    let mut taken: Vec<(ListenAddress, &str, &str)> = Vec::new();
    let names = ["mysql-interfaces", "admin-mysql_ifaces"];
    let texts = names.map(|name| sections.variables.value(name).map(ToString::to_string).unwrap_or_default());
    for (name, text) in names.into_iter().zip(&texts) {
        for written in items(text, ';') {
            let Some(address) = ListenAddress::parse(written) else { continue };
            let collision = taken.iter().find(|(other, ..)| address.collides(other));
            if let Some((_, other_name, other)) = collision {
                // A default has no position; then the other variable was set.
                let at = sections.variable_at(name).or_else(|| sections.variable_at(other_name));
                let problem = Problem::DuplicateAddress {
                    name: short(name).to_owned(),
                    address: written.to_owned(),
                    other: format!("{} ({other})", short(other_name)),
                };
                report.add(at.unwrap_or_default(), problem);
            }
            taken.push((address, name, written));
        }
    }
    if let Err(problem) = http_interfaces(&sections.variables) {
        // The port has a default, and so do the addresses of the others.
        let at = [PORT, "mysql-interfaces", "admin-mysql_ifaces"].into_iter();
        let at = at.filter_map(|name| sections.variable_at(name)).next();
        report.add(at.unwrap_or_default(), problem);
    }
}

/// Admin accounts with default passwords, if the interface listens on more than loopback addresses and Unix sockets.
pub fn known_passwords(variables: &Values) -> Vec<Problem> {
    let value = |name: &str| variables.value(name).map(ToString::to_string).unwrap_or_default();
    let interfaces = value("admin-mysql_ifaces");
    let is_open = |written: &&str| matches!(ListenAddress::parse(written), Some(ListenAddress::Tcp(address)) if !address.ip().is_loopback());
    let Some(address) = items(&interfaces, ';').find(is_open) else { return Vec::new() };
    let mut problems = Vec::new();
    for name in ["admin_credentials", "stats_credentials"] {
        let accounts = value(&format!("admin-{name}"));
        for account in ["admin", "radmin", "stats"] {
            let known = |item: &str| item.split_once(':') == Some((account, account));
            if items(&accounts, ';').any(known) {
                problems.push(Problem::KnownPassword { name, account, address: address.to_owned() });
            }
        }
    }
    problems
}

fn short(name: &str) -> &str {
    name.split_once('-').map_or(name, |(_, short)| short)
}

fn servers(sections: &Sections, report: &mut Problems) {
    for placed in &sections.servers {
        let row = &placed.row;
        if row.port == 0 && !row.hostname.starts_with('/') {
            let hostname = row.hostname.clone();
            report.add(placed.at("hostname"), Problem::SocketWithoutPath { hostname });
        }
        if row.gtid_port != 0 && row.gtid_port == row.port {
            report.add(placed.at("gtid_port"), Problem::SameGtidPort { port: row.port });
        }
    }
    for placed in &sections.hostgroup_attributes {
        if let Some(reason) = attributes_fault(&placed.row) {
            let key = format!("hostgroup_id={}", placed.row.hostgroup);
            let problem = Problem::LeftOut { section: "mysql_hostgroup_attributes", key, reason };
            report.add(placed.at("hostgroup_settings"), problem);
        }
    }
    let mut pairs = Vec::new();
    for placed in &sections.replication_hostgroups {
        if let Some(reason) = pair_fault(&mut pairs, &placed.row) {
            let key = format!("writer_hostgroup={}", placed.row.writer_hostgroup);
            let problem = Problem::LeftOut { section: "mysql_replication_hostgroups", key, reason };
            report.add(placed.at("reader_hostgroup"), problem);
        }
    }
    replaced_pairs(&sections.replication_hostgroups, report);
    let mut managed = Managed::by_pairs(pairs.iter());
    for kind in ClusterKind::ALL {
        for placed in sections.clusters(kind) {
            if let Some(reason) = managed.add_cluster(kind, placed.row) {
                let key = format!("writer_hostgroup={}", placed.row.writer_hostgroup);
                let problem = Problem::Contradicts { section: kind.table(), key, reason };
                report.add(placed.at("writer_hostgroup"), problem);
            }
        }
    }
    for placed in &sections.token_issuers {
        if let Some(reason) = tokens::fault(&placed.row) {
            let key = format!("name={:?}", placed.row.name);
            report.add(
                placed.at("jwks"),
                Problem::Contradicts { section: "narrows_token_issuers", key, reason },
            );
        }
    }
    for placed in &sections.aurora_hostgroups {
        if let Some(reason) = aurora_fault(&placed.row) {
            let key = format!("writer_hostgroup={}", placed.row.cluster.writer_hostgroup);
            let problem = Problem::Contradicts { section: ClusterKind::Aurora.table(), key, reason };
            report.add(placed.at("domain_name"), problem);
        }
    }
    for placed in &sections.rules {
        if placed.row.replace_pattern.is_some() && placed.row.match_pattern.is_none() {
            report.add(placed.at("replace_pattern"), Problem::ReplaceWithoutMatch);
        }
    }
}

/// Pairs with the reader hostgroup of an earlier one, which they replace: in the table it is unique.
fn replaced_pairs(pairs: &[Placed<ReplicationHostgroupRow>], report: &mut Problems) {
    let mut seen: HashMap<i32, u32> = HashMap::new();
    for placed in pairs {
        let (at, hostgroup) = (placed.at("reader_hostgroup"), placed.row.reader_hostgroup.0);
        if let Some(line) = seen.insert(hostgroup, at.line) {
            report.add(at, Problem::ReplacedPair { hostgroup, line });
        }
    }
}

/// Why a row of settings cannot be used.
pub(crate) fn attributes_fault(row: &HostgroupAttributesRow) -> Option<String> {
    let faults = [
        row.balance().err(),
        row.lag_when_null().err(),
        row.handle_warnings().err(),
        row.preference().err(),
        row.waiting().err(),
        row.causal_reads().err(),
        row.servers_defaults().err(),
    ];
    faults.into_iter().flatten().next()
}

/// Why a row of Aurora cannot be used.
pub(crate) fn aurora_fault(row: &AuroraRow) -> Option<String> {
    let domain = row.domain_name.strip_prefix('.').filter(|domain| is_host_name(domain));
    domain.is_none().then(|| "domain_name must be a dot and the name of a domain".to_owned())
}

/// The writer hostgroup of a row must not be the reader hostgroup of a row.
pub(crate) fn pair_fault(
    pairs: &mut Vec<ReplicationHostgroupRow>,
    row: &ReplicationHostgroupRow,
) -> Option<String> {
    if row.writer_hostgroup == row.reader_hostgroup {
        return Some("reader_hostgroup must differ from writer_hostgroup".to_owned());
    }
    let contradicts = |pair: &ReplicationHostgroupRow| {
        pair.writer_hostgroup == row.reader_hostgroup || pair.reader_hostgroup == row.writer_hostgroup
    };
    if let Some(pair) = pairs.iter().find(|pair| contradicts(pair)) {
        let (writer, reader) = (pair.writer_hostgroup, pair.reader_hostgroup);
        return Some(format!("writer_hostgroup {writer} with reader_hostgroup {reader} contradicts it"));
    }
    pairs.push(row.clone());
    None
}

impl Sections {
    /// The position of the row of a finding.
    fn place_of(&self, finding: &LikelyMistake) -> Position {
        fn at<R>(rows: &[Placed<R>], index: usize, column: &str) -> Option<Position> {
            rows.get(index).map(|placed| placed.at(column))
        }
        let (of, index, column) = finding.place;
        let at = match of {
            Of::Servers => at(&self.servers, index, column),
            Of::Pairs => at(&self.replication_hostgroups, index, column),
            Of::Clusters(kind) => at(&self.clusters(kind), index, column),
            Of::SslParams => at(&self.ssl_params, index, column),
            Of::FirewallUsers => at(&self.firewall_users, index, column),
            Of::FirewallRules => at(&self.firewall_rules, index, column),
            Of::HostgroupAttributes => at(&self.hostgroup_attributes, index, column),
            Of::Users => at(&self.users, index, column),
            Of::Rules => at(&self.rules, index, column),
            Of::FastRouting => at(&self.fast_routing, index, column),
            Of::Variables => self.variable_at(column),
        };
        at.unwrap_or_default()
    }
}
