//! What only shows when rows are seen together.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use narrows_proxy::rules::why_nothing_is_replaced;
use narrows_proxy::snapshot::{ReplicationHostgroupRow, Rows, RuleRow, ServerRow, Split, UserRow, Variables};

use super::Sections;
use super::diagnostic::{Problem, Report};
use super::form::{Address, items};
use super::schema::Placed;
use super::tree::Position;
use crate::store::Module;
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
    for finding in Together::of_file(sections).findings() {
        report.add(sections.place_of(&finding), finding.problem);
    }
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
    for placed in &sections.rules {
        if placed.row.replace_pattern.is_some() && placed.row.match_pattern.is_none() {
            report.add(placed.at("replace_pattern"), Problem::ReplaceWithoutMatch);
        }
    }
}

/// Rows that make sense only together: those of a file, or those that run.
pub(crate) struct Together<'a> {
    servers: Vec<&'a ServerRow>,
    pairs: Vec<&'a ReplicationHostgroupRow>,
    users: Vec<&'a UserRow>,
    rules: Vec<&'a RuleRow>,
    has_digests: bool,
    splits: bool,
    /// Where there is no server at all, that is said once, and not of each account and rule.
    wants_servers: bool,
}

/// Something that is probably not meant like that.
pub(crate) struct Finding {
    /// The row: its table, its place there, and the column.
    place: (Module, usize, &'static str),
    /// Other modules that it depends on.
    also: &'static [Module],
    pub problem: Problem,
}

impl Finding {
    fn new(place: (Module, usize, &'static str), also: &'static [Module], problem: Problem) -> Finding {
        Finding { place, also, problem }
    }

    /// Whether it may come of what was loaded.
    pub fn is_of(&self, module: Module) -> bool {
        self.place.0 == module || self.also.contains(&module)
    }
}

impl<'a> Together<'a> {
    fn of_file(sections: &'a Sections) -> Together<'a> {
        fn all<R>(rows: &[Placed<R>]) -> Vec<&R> {
            rows.iter().map(|placed| &placed.row).collect()
        }
        Together {
            servers: all(&sections.servers),
            pairs: all(&sections.replication_hostgroups),
            users: all(&sections.users),
            rules: all(&sections.rules),
            ..Together::of_variables(&sections.variables.for_data_plane())
        }
    }

    /// Those that run.
    pub fn of_rows(rows: &'a Rows) -> Together<'a> {
        Together {
            servers: rows.servers.iter().collect(),
            pairs: rows.replication_hostgroups.iter().collect(),
            users: rows.users.iter().collect(),
            rules: rows.rules.iter().collect(),
            wants_servers: !rows.servers.is_empty(),
            ..Together::of_variables(&rows.variables)
        }
    }

    fn of_variables(variables: &Variables) -> Together<'a> {
        let (has_digests, splits) = (variables.query_digests, variables.auto_read_write_split);
        let (servers, pairs, users, rules) = Default::default();
        Together { servers, pairs, users, rules, has_digests, splits, wants_servers: true }
    }

    /// What is probably not meant like that.
    pub fn findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        self.weights(&mut found);
        let hostgroups = self.hostgroups();
        self.accounts(&hostgroups, &mut found);
        self.rules(&hostgroups, &mut found);
        found
    }

    fn weights(&self, found: &mut Vec<Finding>) {
        let mut weights: BTreeMap<i32, (u64, usize)> = BTreeMap::new();
        for (index, row) in self.servers.iter().enumerate() {
            weights.entry(row.hostgroup.0).or_insert((0, index)).0 += u64::from(row.weight);
        }
        for (hostgroup, (_, index)) in weights.into_iter().filter(|(_, (weight, _))| *weight == 0) {
            let place = (Module::MysqlServers, index, "weight");
            found.push(Finding::new(place, &[], Problem::NoWeight { hostgroup }));
        }
    }

    /// Hostgroups that have servers, or get them as servers change roles.
    fn hostgroups(&self) -> HashSet<i32> {
        let mut hostgroups: HashSet<i32> = self.servers.iter().map(|row| row.hostgroup.0).collect();
        for pair in &self.pairs {
            let both = [pair.writer_hostgroup.0, pair.reader_hostgroup.0];
            if both.iter().any(|hostgroup| hostgroups.contains(hostgroup)) {
                hostgroups.extend(both);
            }
        }
        hostgroups
    }

    fn accounts(&self, hostgroups: &HashSet<i32>, found: &mut Vec<Finding>) {
        for (index, row) in self.users.iter().enumerate().filter(|(_, row)| row.active) {
            let (username, hostgroup) = (row.username.clone(), row.default_hostgroup.0);
            let place = |column| (Module::MysqlUsers, index, column);
            if !hostgroups.contains(&hostgroup) {
                let problem = Problem::UserWithoutServer { username, hostgroup };
                if self.wants_servers {
                    found.push(Finding::new(place("default_hostgroup"), &[Module::MysqlServers], problem));
                }
                continue;
            }
            let split = Split::parse(&row.attributes);
            let has_readers = split.reader.is_some()
                || self.pairs.iter().any(|pair| pair.writer_hostgroup == row.default_hostgroup);
            if split.on.unwrap_or(self.splits) && !has_readers {
                let problem = Problem::SplitWithoutReaders { username, hostgroup };
                let also = &[Module::MysqlServers, Module::MysqlVariables];
                found.push(Finding::new(place("attributes"), also, problem));
            }
        }
    }

    fn rules(&self, hostgroups: &HashSet<i32>, found: &mut Vec<Finding>) {
        let active = || self.rules.iter().enumerate().filter(|(_, row)| row.active);
        let chains: HashSet<u32> = active().map(|(_, row)| row.flag_in).collect();
        for (index, row) in active() {
            let rule_id = row.rule_id;
            let mut add = |column, also: &'static [Module], problem| {
                found.push(Finding::new((Module::MysqlQueryRules, index, column), also, problem));
            };
            if let Some(hostgroup) = row.destination_hostgroup.map(|hostgroup| hostgroup.0)
                && self.wants_servers
                && !hostgroups.contains(&hostgroup)
            {
                let problem = Problem::RuleWithoutServer { rule_id, hostgroup };
                add("destination_hostgroup", &[Module::MysqlServers], problem);
            }
            if let Some(flag) = row.flag_out.filter(|flag| !chains.contains(flag)) {
                add("flagOUT", &[], Problem::NoSuchChain { rule_id, flag });
            }
            if !self.has_digests && (row.match_digest.is_some() || row.digest.is_some()) {
                let column = if row.match_digest.is_some() { "match_digest" } else { "digest" };
                add(column, &[Module::MysqlVariables], Problem::NoDigests { rule_id });
            }
            if let Some(why) = why_nothing_is_replaced(row) {
                add("replace_pattern", &[], Problem::ReplacesNothing { rule_id, why });
            }
        }
    }
}

impl Sections {
    /// Where a row stands that something was found of.
    fn place_of(&self, finding: &Finding) -> Position {
        let (module, index, column) = finding.place;
        let at = match module {
            Module::MysqlServers => self.servers.get(index).map(|placed| placed.at(column)),
            Module::MysqlUsers => self.users.get(index).map(|placed| placed.at(column)),
            _ => self.rules.get(index).map(|placed| placed.at(column)),
        };
        at.unwrap_or_default()
    }
}
