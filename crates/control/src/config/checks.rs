//! What only shows when rows are seen together.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use super::Sections;
use super::diagnostic::{Problem, Report};
use super::form::{Address, items};
use super::schema::Placed;
use super::tree::Position;
use crate::variables::Values;

/// Reports everything that is wrong between rows.
pub(super) fn check(sections: &Sections, report: &mut Report) {
    duplicates(sections, report);
    addresses(sections, report);
    for problem in known_passwords(&sections.variables) {
        // By default it listens on loopback: what has it open is written.
        let at = sections.variable_at("admin-mysql_ifaces");
        report.add(at.unwrap_or_default(), problem);
    }
    servers(sections, report);
    routes(sections, report);
    rules(sections, report);
}

fn duplicates(sections: &Sections, report: &mut Report) {
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
    let name = "mysql_hostgroup_attributes";
    report_duplicates(name, &sections.hostgroup_attributes, "hostgroup_id", report, |row| {
        format!("hostgroup {}", row.hostgroup)
    });
    let name = "mysql_firewall_whitelist_users";
    report_duplicates(name, &sections.firewall_users, "username", report, |row| {
        format!("user {:?} at {:?}", row.username, row.client_address)
    });
}

fn report_duplicates<R, K: Hash + Eq + ToString>(
    section: &'static str,
    rows: &[Placed<R>],
    column: &str,
    report: &mut Report,
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

/// Addresses that are listened on twice, by one variable or by two.
fn addresses(sections: &Sections, report: &mut Report) {
    let mut taken: Vec<(Address, &str, &str)> = Vec::new();
    let names = ["mysql-interfaces", "admin-mysql_ifaces"];
    let texts = names.map(|name| sections.variables.value(name).map(ToString::to_string).unwrap_or_default());
    for (name, text) in names.into_iter().zip(&texts) {
        for written in items(text, ';') {
            let Some(address) = Address::parse(written) else { continue };
            let collision = taken.iter().find(|(other, ..)| address.collides(other));
            if let Some((_, other_name, other)) = collision {
                // The default of a variable stands nowhere: then the other one is the one that was written.
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
}

/// Accounts of the admin interface with the passwords that every installation begins with, where it listens on more than
/// loopback addresses and Unix sockets.
pub fn known_passwords(variables: &Values) -> Vec<Problem> {
    let value = |name: &str| variables.value(name).map(ToString::to_string).unwrap_or_default();
    let interfaces = value("admin-mysql_ifaces");
    let is_open = |written: &&str| matches!(Address::parse(written), Some(Address::Tcp(address)) if !address.ip().is_loopback());
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

fn servers(sections: &Sections, report: &mut Report) {
    let mut weights: HashMap<i32, (u64, Position)> = HashMap::new();
    for placed in &sections.servers {
        let row = &placed.row;
        if row.port == 0 && !row.hostname.starts_with('/') {
            let hostname = row.hostname.clone();
            report.add(placed.at("hostname"), Problem::SocketWithoutPath { hostname });
        }
        if row.gtid_port != 0 && row.gtid_port == row.port {
            report.add(placed.at("gtid_port"), Problem::SameGtidPort { port: row.port });
        }
        let sum = weights.entry(row.hostgroup.0).or_insert((0, placed.at("weight")));
        sum.0 += u64::from(row.weight);
    }
    for (hostgroup, (_, at)) in weights.into_iter().filter(|(_, (weight, _))| *weight == 0) {
        report.add(at, Problem::NoWeight { hostgroup });
    }
}

/// Users and rules that lead to hostgroups without servers.
fn routes(sections: &Sections, report: &mut Report) {
    let hostgroups: HashSet<i32> = sections.servers.iter().map(|placed| placed.row.hostgroup.0).collect();
    for placed in sections.users.iter().filter(|placed| placed.row.active) {
        let hostgroup = placed.row.default_hostgroup.0;
        if !hostgroups.contains(&hostgroup) {
            let username = placed.row.username.clone();
            report.add(placed.at("default_hostgroup"), Problem::UserWithoutServer { username, hostgroup });
        }
    }
    for placed in sections.rules.iter().filter(|placed| placed.row.active) {
        let Some(hostgroup) = placed.row.destination_hostgroup else { continue };
        if !hostgroups.contains(&hostgroup.0) {
            let (rule_id, hostgroup) = (placed.row.rule_id, hostgroup.0);
            let at = placed.at("destination_hostgroup");
            report.add(at, Problem::RuleWithoutServer { rule_id, hostgroup });
        }
    }
}

fn rules(sections: &Sections, report: &mut Report) {
    let active = || sections.rules.iter().filter(|placed| placed.row.active);
    let chains: HashSet<u32> = active().map(|placed| placed.row.flag_in).collect();
    for placed in &sections.rules {
        if placed.row.replace_pattern.is_some() && placed.row.match_pattern.is_none() {
            report.add(placed.at("replace_pattern"), Problem::ReplaceWithoutMatch);
        }
    }
    for placed in active() {
        let Some(flag) = placed.row.flag_out else { continue };
        if !chains.contains(&flag) {
            let rule_id = placed.row.rule_id;
            report.add(placed.at("flagOUT"), Problem::NoSuchChain { rule_id, flag });
        }
    }
}
