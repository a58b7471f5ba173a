//! Checks that need several rows together.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use narrows_proxy::rows::convert::items;
use narrows_proxy::rules::{conditions_never_met, flags_to_choose, why_nothing_is_replaced};
use narrows_proxy::snapshot::{
    FastRoutingRow, HOSTGROUP_KEYS, HostgroupAttributesRow, JsonKey, RULE_KEYS, ReplicationHostgroupRow,
    Rows, RuleRow, ServerRow, Split, USER_KEYS, UserRow, Variables, flaws,
};

use super::sections::Sections;
use crate::config::diagnostic::{Problem, Problems};
use crate::config::form::ListenAddress;
use crate::config::schema::Placed;
use crate::config::tree::Position;
use crate::schema::Module;
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
    for placed in &sections.rules {
        if placed.row.replace_pattern.is_some() && placed.row.match_pattern.is_none() {
            report.add(placed.at("replace_pattern"), Problem::ReplaceWithoutMatch);
        }
    }
}

/// Why a row of settings cannot be used.
pub(crate) fn attributes_fault(row: &HostgroupAttributesRow) -> Option<String> {
    let lag = || row.lag_when_null().map(drop);
    let warnings = || row.handle_warnings().map(drop);
    row.balance().map(drop).and_then(|()| lag()).and_then(|()| warnings()).err()
}

/// The writer hostgroup of one row must not be the reader hostgroup of another.
pub(crate) fn pair_fault(
    pairs: &mut Vec<ReplicationHostgroupRow>,
    row: &ReplicationHostgroupRow,
) -> Option<String> {
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

/// Rows that only make sense together: those of a file, or those at runtime.
#[derive(Default)]
pub(crate) struct Together<'a> {
    servers: Vec<&'a ServerRow>,
    pairs: Vec<&'a ReplicationHostgroupRow>,
    hostgroup_attributes: Vec<&'a HostgroupAttributesRow>,
    users: Vec<&'a UserRow>,
    rules: Vec<&'a RuleRow>,
    fast_routing: Vec<&'a FastRoutingRow>,
    has_digests: bool,
    splits: bool,
    /// The functions that a read may call.
    functions: Vec<String>,
    /// Whether clients can connect over Unix sockets.
    has_sockets: bool,
    /// False if there are no servers at all: this is reported once, and not for each account and rule.
    wants_servers: bool,
}

/// Something that is probably a mistake.
pub(crate) struct LikelyMistake {
    /// The row: its table, its index, and the column.
    place: (Of, usize, &'static str),
    pub problem: Problem,
}

/// The requested findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All findings.
    All,
    /// Findings that the loaded module may have caused.
    Loaded(Module),
}

/// The findings so far. Findings that are not requested are not computed.
struct Search {
    scope: Scope,
    found: Vec<LikelyMistake>,
}

/// The modules that a finding may depend on.
const VARIABLES: &[Module] = &[Module::MysqlVariables];
const SERVERS: &[Module] = &[Module::MysqlServers];
const USERS: &[Module] = &[Module::MysqlUsers];
const USERS_ON_SERVERS: &[Module] = &[Module::MysqlUsers, Module::MysqlServers];
const USERS_ON_ALL: &[Module] = &[Module::MysqlUsers, Module::MysqlServers, Module::MysqlVariables];
const RULES: &[Module] = &[Module::MysqlQueryRules];
const RULES_ON_SERVERS: &[Module] = &[Module::MysqlQueryRules, Module::MysqlServers];
const RULES_ON_VARIABLES: &[Module] = &[Module::MysqlQueryRules, Module::MysqlVariables];
const RULES_ON_ALL: &[Module] = &[Module::MysqlQueryRules, Module::MysqlServers, Module::MysqlVariables];

impl Search {
    /// Whether findings that depend on `modules` are requested.
    fn is_for(&self, modules: &[Module]) -> bool {
        match self.scope {
            Scope::All => true,
            Scope::Loaded(module) => modules.contains(&module),
        }
    }

    /// Adds a finding that depends on `modules`, if such findings are requested.
    fn add(
        &mut self,
        modules: &[Module],
        place: (Of, usize, &'static str),
        problem: impl FnOnce() -> Problem,
    ) {
        if self.is_for(modules) {
            self.found.push(LikelyMistake { place, problem: problem() });
        }
    }
}

/// The subject of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Servers,
    HostgroupAttributes,
    Users,
    Rules,
    FastRouting,
    /// A variable; its full name takes the place of the column.
    Variables,
}

impl<'a> Together<'a> {
    fn of_file(sections: &'a Sections) -> Together<'a> {
        fn all<R>(rows: &[Placed<R>]) -> Vec<&R> {
            rows.iter().map(|placed| &placed.row).collect()
        }
        Together {
            servers: all(&sections.servers),
            pairs: all(&sections.replication_hostgroups),
            hostgroup_attributes: all(&sections.hostgroup_attributes),
            users: all(&sections.users),
            rules: all(&sections.rules),
            fast_routing: all(&sections.fast_routing),
            wants_servers: true,
            ..Together::of_variables(&sections.variables.for_data_plane())
        }
    }

    /// The rows at runtime.
    pub fn of_rows(rows: &'a Rows) -> Together<'a> {
        Together {
            servers: rows.servers.iter().collect(),
            pairs: rows.replication_hostgroups.iter().collect(),
            hostgroup_attributes: rows.hostgroup_attributes.iter().collect(),
            users: rows.users.iter().collect(),
            rules: rows.rules.iter().collect(),
            fast_routing: rows.fast_routing.iter().collect(),
            wants_servers: !rows.servers.is_empty(),
            ..Together::of_variables(&rows.variables)
        }
    }

    fn of_variables(variables: &Variables) -> Together<'a> {
        Together {
            has_digests: variables.query_digests,
            splits: variables.auto_read_write_split,
            functions: variables.auto_read_write_split_functions.clone(),
            has_sockets: variables.interfaces.iter().any(|interface| interface.starts_with('/')),
            ..Together::default()
        }
    }

    /// What is probably a mistake, within `scope`.
    pub fn findings(&self, scope: Scope) -> Vec<LikelyMistake> {
        let mut search = Search { scope, found: Vec::new() };
        self.functions(&mut search);
        self.weights(&mut search);
        self.hostgroup_attributes(&mut search);
        if search.is_for(USERS_ON_ALL) || search.is_for(RULES_ON_ALL) {
            let hostgroups = self.hostgroups();
            self.accounts(&hostgroups, &mut search);
            self.rules(&hostgroups, &mut search);
            self.fast_routing(&hostgroups, &mut search);
        }
        search.found
    }

    fn functions(&self, search: &mut Search) {
        const NAME: &str = "mysql-auto_read_write_split_functions";
        for written in self.functions.iter().filter(|name| !is_function_name(name)) {
            search.add(VARIABLES, (Of::Variables, 0, NAME), || Problem::NoFunction {
                written: written.clone(),
            });
        }
    }

    fn weights(&self, search: &mut Search) {
        if !search.is_for(SERVERS) {
            return;
        }
        let mut weights: BTreeMap<i32, (u64, usize)> = BTreeMap::new();
        for (index, row) in self.servers.iter().enumerate() {
            weights.entry(row.hostgroup.0).or_insert((0, index)).0 += u64::from(row.weight);
        }
        for (hostgroup, (_, index)) in weights.into_iter().filter(|(_, (weight, _))| *weight == 0) {
            search.add(SERVERS, (Of::Servers, index, "weight"), || Problem::NoWeight { hostgroup });
        }
    }

    fn hostgroup_attributes(&self, search: &mut Search) {
        for (index, row) in self.hostgroup_attributes.iter().enumerate() {
            let place = (Of::HostgroupAttributes, index, "hostgroup_settings");
            let name = || format!("hostgroup {}", row.hostgroup);
            keys_not_read(SERVERS, place, name, (HOSTGROUP_KEYS, &row.hostgroup_settings), search);
        }
    }

    /// Hostgroups that have servers, or may get them when servers change roles.
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

    fn accounts(&self, hostgroups: &HashSet<i32>, search: &mut Search) {
        if !search.is_for(USERS_ON_ALL) {
            return;
        }
        for (index, row) in self.users.iter().enumerate().filter(|(_, row)| row.active) {
            let (username, hostgroup) = (|| row.username.clone(), row.default_hostgroup.0);
            let place = |column| (Of::Users, index, column);
            let name = || format!("user {:?}", row.username);
            keys_not_read(USERS, place("attributes"), name, (USER_KEYS, &row.attributes), search);
            if !hostgroups.contains(&hostgroup) {
                if self.wants_servers {
                    search.add(USERS_ON_SERVERS, place("default_hostgroup"), || Problem::UserWithoutServer {
                        username: username(),
                        hostgroup,
                    });
                }
                continue;
            }
            let split = Split::parse(&row.attributes);
            if let Some(reader) = split.reader.filter(|reader| !hostgroups.contains(&reader.0)) {
                search.add(USERS_ON_SERVERS, place("attributes"), || Problem::ReaderWithoutServer {
                    username: username(),
                    hostgroup: reader.0,
                });
                continue;
            }
            let has_readers = split.reader.is_some()
                || self.pairs.iter().any(|pair| pair.writer_hostgroup == row.default_hostgroup);
            if split.on.unwrap_or(self.splits) && !has_readers {
                search.add(USERS_ON_ALL, place("attributes"), || Problem::SplitWithoutReaders {
                    username: username(),
                    hostgroup,
                });
            }
        }
    }

    fn rules(&self, hostgroups: &HashSet<i32>, search: &mut Search) {
        if !search.is_for(RULES_ON_ALL) {
            return;
        }
        let active = || self.rules.iter().enumerate().filter(|(_, row)| row.active);
        let chains: HashSet<u32> = active().map(|(_, row)| row.flag_in).collect();
        for (index, row) in active() {
            let rule_id = row.rule_id;
            let place = |column| (Of::Rules, index, column);
            let name = || format!("rule {rule_id}");
            keys_not_read(RULES, place("attributes"), name, (RULE_KEYS, &row.attributes), search);
            if self.wants_servers {
                rule_without_server(index, row, hostgroups, search);
            }
            rule_without_chain(index, row, &chains, search);
            rule_never_met(index, row, self.has_sockets, search);
            if !self.has_digests && (row.match_digest.is_some() || row.digest.is_some()) {
                let column = if row.match_digest.is_some() { "match_digest" } else { "digest" };
                search.add(RULES_ON_VARIABLES, place(column), || Problem::NoDigests { rule_id });
            }
            if search.is_for(RULES)
                && let Some(why) = why_nothing_is_replaced(row)
            {
                search.add(RULES, place("replace_pattern"), || Problem::ReplacesNothing { rule_id, why });
            }
        }
    }

    /// Reports each hostgroup once, because there may be as many rows as there are accounts and schemas.
    fn fast_routing(&self, hostgroups: &HashSet<i32>, search: &mut Search) {
        if !search.is_for(RULES_ON_SERVERS) {
            return;
        }
        let mut without: BTreeMap<i32, (usize, usize)> = BTreeMap::new();
        for (index, row) in self.fast_routing.iter().enumerate().filter(|_| self.wants_servers) {
            if !hostgroups.contains(&row.destination_hostgroup.0) {
                without.entry(row.destination_hostgroup.0).or_insert((index, 0)).1 += 1;
            }
        }
        for (hostgroup, (index, rows)) in without {
            let Some(row) = self.fast_routing.get(index) else { continue };
            let (username, schemaname) = (row.username.clone(), row.schemaname.clone());
            search.add(RULES_ON_SERVERS, (Of::FastRouting, index, "destination_hostgroup"), || {
                Problem::FastRoutingWithoutServer { username, schemaname, rows, hostgroup }
            });
        }
    }
}

/// Flags that a rule sets but that no rule has as `flagIN`; `chains` are the `flagIN` of active rules.
fn rule_without_chain(index: usize, row: &RuleRow, chains: &HashSet<u32>, search: &mut Search) {
    if !search.is_for(RULES) {
        return;
    }
    let rule_id = row.rule_id;
    let chosen = flags_to_choose(&row.attributes);
    let column = if chosen.is_empty() { "flagOUT" } else { "attributes" };
    let flags = if chosen.is_empty() { row.flag_out.into_iter().collect() } else { chosen };
    for flag in flags.into_iter().filter(|flag| !chains.contains(flag)) {
        let name = if column == "flagOUT" { "flagOUT" } else { "one of flagOUTs" };
        search.add(RULES, (Of::Rules, index, column), || Problem::NoSuchChain { rule_id, name, flag });
    }
}

/// Conditions that no client can meet.
fn rule_never_met(index: usize, row: &RuleRow, has_sockets: bool, search: &mut Search) {
    if !search.is_for(RULES_ON_VARIABLES) {
        return;
    }
    let rule_id = row.rule_id;
    for (column, text, why) in conditions_never_met(row, has_sockets) {
        let text = text.to_owned();
        search.add(RULES_ON_VARIABLES, (Of::Rules, index, column), || Problem::NeverMet {
            rule_id,
            column,
            text,
            why,
        });
    }
}

/// Hostgroups that a rule names and that have no server.
fn rule_without_server(index: usize, row: &RuleRow, hostgroups: &HashSet<i32>, search: &mut Search) {
    let rule_id = row.rule_id;
    for (column, what, hostgroup) in [
        ("destination_hostgroup", "destination", row.destination_hostgroup),
        ("mirror_hostgroup", "mirror", row.mirror_hostgroup),
    ] {
        if let Some(hostgroup) = hostgroup.map(|hostgroup| hostgroup.0)
            && !hostgroups.contains(&hostgroup)
        {
            search.add(RULES_ON_SERVERS, (Of::Rules, index, column), || Problem::RuleWithoutServer {
                rule_id,
                what,
                hostgroup,
            });
        }
    }
}

/// Reports what is not read in a JSON column.
fn keys_not_read(
    modules: &[Module],
    place: (Of, usize, &'static str),
    row: impl Fn() -> String,
    (keys, text): (&[JsonKey], &str),
    search: &mut Search,
) {
    if !search.is_for(modules) {
        return;
    }
    for (key, flaw) in flaws(keys, text) {
        let key = key.map(|key| format!(" `{key}`")).unwrap_or_default();
        let name = format!("{}{key}", place.2);
        search.add(modules, place, || Problem::NotAsWritten { row: row(), name, flaw });
    }
}

/// Whether it is `name` or `schema.name`.
fn is_function_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii();
    let is_name = |name: &str| !name.is_empty() && name.chars().all(is_letter);
    match text.split_once('.') {
        Some((schema, name)) => is_name(schema) && is_name(name),
        None => is_name(text),
    }
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
            Of::HostgroupAttributes => at(&self.hostgroup_attributes, index, column),
            Of::Users => at(&self.users, index, column),
            Of::Rules => at(&self.rules, index, column),
            Of::FastRouting => at(&self.fast_routing, index, column),
            Of::Variables => self.variable_at(column),
        };
        at.unwrap_or_default()
    }
}
