//! The contents of a file's sections: rows and variables, each with its position.

use narrows_proxy::snapshot::{
    AuroraRow, ClusterRow, FastRoutingRow, FirewallFingerprintRow, FirewallRuleRow, FirewallUserRow,
    HostgroupAttributesRow, ReplicationHostgroupRow, RuleRow, ServerRow, SslParamsRow, TokenIssuerRow,
    UserRow,
};

use crate::config::bootstrap::{Bootstrap, FleetSettings};
use crate::config::diagnostic::{Problem, Problems};
use crate::config::form::text_of;
use crate::config::nearest::nearest;
use crate::config::schema::Placed;
use crate::config::tables;
use crate::config::tree::{Document, Entry, Node, NodeValue, Position};
use crate::monitor::cluster::ClusterKind;
use crate::schema as admin_tables;
use crate::variables::{VARIABLES, Values, Variable};

/// The contents of the sections, with the positions of the rows.
#[derive(Default)]
pub(super) struct Sections {
    pub bootstrap: Bootstrap,
    pub variables: Values,
    /// The positions of variables, by their full names.
    pub variables_at: Vec<(&'static str, Position)>,
    pub servers: Vec<Placed<ServerRow>>,
    pub users: Vec<Placed<UserRow>>,
    pub rules: Vec<Placed<RuleRow>>,
    pub fast_routing: Vec<Placed<FastRoutingRow>>,
    pub replication_hostgroups: Vec<Placed<ReplicationHostgroupRow>>,
    pub galera_hostgroups: Vec<Placed<ClusterRow>>,
    pub group_replication_hostgroups: Vec<Placed<ClusterRow>>,
    pub aurora_hostgroups: Vec<Placed<AuroraRow>>,
    pub hostgroup_attributes: Vec<Placed<HostgroupAttributesRow>>,
    pub firewall_users: Vec<Placed<FirewallUserRow>>,
    pub firewall_rules: Vec<Placed<FirewallRuleRow>>,
    pub firewall_fingerprints: Vec<Placed<FirewallFingerprintRow>>,
    pub ssl_params: Vec<Placed<SslParamsRow>>,
    pub token_issuers: Vec<Placed<TokenIssuerRow>>,
    pub fleet: Option<Placed<FleetSettings>>,
}

impl Sections {
    pub fn read(document: &Document, report: &mut Problems) -> Sections {
        repeated(&document.root, report);
        let mut sections = Sections::default();
        let top = tables::BOOTSTRAP.read_known(&document.root, Position::default(), report);
        owned(document, top.as_ref(), report);
        sections.bootstrap = top.map(|placed| placed.row).unwrap_or_default();
        for entry in &document.root {
            let node = &entry.node;
            if let Some(what) = rows_lack_effect(entry) {
                report.add(entry.at, Problem::NoEffect { name: entry.name.clone(), what });
            }
            match entry.name.as_str() {
                "mysql_variables" => sections.read_variables("mysql_variables", "mysql-", node, report),
                "admin_variables" => sections.read_variables("admin_variables", "admin-", node, report),
                "fleet" => sections.read_fleet(node, report),
                "mysql_servers" => sections.servers = tables::SERVERS.read(node, report),
                "mysql_users" => sections.users = tables::USERS.read(node, report),
                "mysql_query_rules" => sections.rules = tables::RULES.read(node, report),
                name if sections.read_table(name, node, report) => {}
                name if tables::BOOTSTRAP.column(name).is_some() => {}
                name if stored_section(name).is_some() => {}
                name => report.add(entry.at, unknown_section(name)),
            }
        }
        sections
    }

    /// Reads one of the smaller tables; false: `name` is not one of them.
    fn read_table(&mut self, name: &str, node: &Node, report: &mut Problems) -> bool {
        match name {
            "mysql_query_rules_fast_routing" => self.fast_routing = tables::FAST_ROUTING.read(node, report),
            "mysql_replication_hostgroups" => {
                self.replication_hostgroups = tables::REPLICATION_HOSTGROUPS.read(node, report);
            }
            "mysql_group_replication_hostgroups" => {
                self.group_replication_hostgroups = tables::GROUP_REPLICATION_HOSTGROUPS.read(node, report);
            }
            "mysql_galera_hostgroups" => {
                self.galera_hostgroups = tables::GALERA_HOSTGROUPS.read(node, report);
            }
            "mysql_aws_aurora_hostgroups" => {
                self.aurora_hostgroups = tables::AURORA_HOSTGROUPS.read(node, report);
            }
            "mysql_hostgroup_attributes" => {
                self.hostgroup_attributes = tables::HOSTGROUP_ATTRIBUTES.read(node, report);
            }
            "mysql_firewall_whitelist_users" => {
                self.firewall_users = tables::FIREWALL_USERS.read(node, report)
            }
            "mysql_firewall_whitelist_rules" => {
                self.firewall_rules = tables::FIREWALL_RULES.read(node, report)
            }
            "mysql_firewall_whitelist_sqli_fingerprints" => {
                self.firewall_fingerprints = tables::FIREWALL_FINGERPRINTS.read(node, report);
            }
            "narrows_token_issuers" => self.token_issuers = tables::TOKEN_ISSUERS.read(node, report),
            "mysql_servers_ssl_params" => self.ssl_params = tables::SSL_PARAMS.read(node, report),
            _ => return false,
        }
        true
    }

    fn read_fleet(&mut self, node: &Node, report: &mut Problems) {
        let mut node = node.clone();
        if let NodeValue::Group(entries) = &mut node.value {
            entries.iter_mut().for_each(|entry| join_list(&mut entry.node));
        }
        self.fleet = tables::FLEET.read_row(&node, report);
        self.bootstrap.fleet = self.fleet.as_ref().map(|placed| placed.row.clone());
    }

    /// The rows of clusters of one kind.
    pub fn clusters(&self, kind: ClusterKind) -> Vec<Placed<&ClusterRow>> {
        match kind {
            ClusterKind::Galera => self.galera_hostgroups.iter().map(|row| row.part(|row| row)).collect(),
            ClusterKind::GroupReplication => {
                self.group_replication_hostgroups.iter().map(|row| row.part(|row| row)).collect()
            }
            ClusterKind::Aurora => {
                self.aurora_hostgroups.iter().map(|row| row.part(|row| &row.cluster)).collect()
            }
        }
    }

    /// The position of the variable with that full name.
    pub fn variable_at(&self, name: &str) -> Option<Position> {
        self.variables_at.iter().find(|(set, _)| *set == name).map(|(_, at)| *at)
    }

    fn read_variables(
        &mut self,
        section: &'static str,
        prefix: &'static str,
        node: &Node,
        report: &mut Problems,
    ) {
        let NodeValue::Group(entries) = &node.value else {
            report.add(
                node.at,
                Problem::Value {
                    name: section.to_owned(),
                    expected: "a group".to_owned(),
                    found: node.value.describe(),
                    nearest: None,
                },
            );
            return;
        };
        for entry in entries {
            let Some(variable) = Variable::named(&format!("{prefix}{}", entry.name)) else {
                report.add(entry.at, unknown_variable(section, prefix, &entry.name));
                continue;
            };
            self.variables_at.push((variable.name, entry.node.at));
            if let Err(problem) = self.variables.set(variable, &entry.node.value) {
                report.add(entry.node.at, problem);
            }
            let set = self.variables.value(variable.name);
            if let Some(what) = set.and_then(|value| variable.lacks_effect(value)) {
                report.add(entry.node.at, Problem::NoEffect { name: variable.name.to_owned(), what });
            }
        }
    }
}

/// Reports sections that the file owns and does not have: whether they shall be empty is not guessed. Also reports a list of
/// them that is not at the top, where it would be ignored.
fn owned(document: &Document, top: Option<&Placed<Bootstrap>>, report: &mut Problems) {
    if let Some(placed) = top {
        for managed in &placed.row.managed {
            let is_there = |entry: &Entry| {
                entry.name == managed.section
                    && matches!(entry.node.value, NodeValue::List(_) | NodeValue::Group(_))
            };
            if !document.root.iter().any(is_there) {
                let (name, section, empty) = (managed.name, managed.section, managed.written_empty());
                report.add(placed.at(MANAGED), Problem::OwnedAndAbsent { name, section, empty });
            }
        }
    }
    for entry in &document.root {
        let nodes = match &entry.node.value {
            NodeValue::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(&entry.node),
        };
        let groups = nodes.iter().filter_map(|node| match &node.value {
            NodeValue::Group(entries) => Some(entries),
            _ => None,
        });
        for below in groups.flatten().filter(|below| below.name.eq_ignore_ascii_case(MANAGED)) {
            report.add(below.at, Problem::NotAtTheTop { name: MANAGED, section: entry.name.clone() });
        }
    }
}

/// The key at the top that lists the sections that the file owns.
const MANAGED: &str = "managed";

/// A list of texts as one text, with commas between them.
fn join_list(node: &mut Node) {
    if let NodeValue::List(nodes) = &node.value
        && let Some(texts) = nodes.iter().map(|node| text_of(&node.value)).collect::<Option<Vec<_>>>()
    {
        node.value = NodeValue::Text(texts.join(","));
    }
}

/// Reports names that are given twice in one group, at any depth. Case is ignored, because none of our names differ
/// only in case.
fn repeated(entries: &[Entry], report: &mut Problems) {
    let mut lines = std::collections::HashMap::new();
    for entry in entries {
        let name = entry.name.to_ascii_lowercase();
        match lines.get(&name) {
            Some(first) => {
                report.add(entry.at, Problem::Repeated { name: entry.name.clone(), first: *first })
            }
            None => drop(lines.insert(name, entry.at.line)),
        }
        repeated_below(&entry.node, report);
    }
}

fn repeated_below(node: &Node, report: &mut Problems) {
    match &node.value {
        NodeValue::Group(entries) => repeated(entries, report),
        NodeValue::List(nodes) => nodes.iter().for_each(|node| repeated_below(node, report)),
        _ => {}
    }
}

/// The admin table of a section that is only described by that table.
fn stored_section(name: &str) -> Option<&'static str> {
    tables::SECTIONS_STORED_ONLY.iter().find(|(section, _)| *section == name).map(|(_, table)| *table)
}

/// The remark on a section whose rows have no effect.
fn rows_lack_effect(entry: &Entry) -> Option<String> {
    let NodeValue::List(rows) = &entry.node.value else { return None };
    let table = stored_section(&entry.name).unwrap_or(&entry.name);
    admin_tables::effect(table).lacking().filter(|_| !rows.is_empty())
}

fn unknown_section(name: &str) -> Problem {
    if tables::SECTIONS_NOT_READ.contains(&name) {
        return Problem::NotRead { name: name.to_owned() };
    }
    Problem::UnknownSection { name: name.to_owned(), nearest: nearest(name, top_level_names()) }
}

/// Every section and key that is read.
fn top_level_names() -> impl Iterator<Item = &'static str> {
    let sections = ["mysql_variables", "admin_variables", tables::FLEET.name];
    let tables = tables::SECTIONS.iter().map(|section| section.name());
    sections.into_iter().chain(tables).chain(tables::BOOTSTRAP.names())
}

fn unknown_variable(section: &'static str, prefix: &'static str, name: &str) -> Problem {
    if prefix == "mysql-" && FORMER_VARIABLES.contains(&name) {
        return Problem::FormerVariable { name: name.to_owned() };
    }
    let known = VARIABLES.iter().filter(|variable| variable.name.starts_with(prefix));
    let bare = name.strip_prefix(prefix).unwrap_or(name);
    let nearest = nearest(bare, known.map(Variable::short_name));
    Problem::UnknownVariable { section, name: name.to_owned(), nearest }
}

/// Variables of older releases of ProxySQL, which existing files still set.
const FORMER_VARIABLES: &[&str] = &[
    "client_found_rows",
    "client_multi_statements",
    "default_character_set_results",
    "default_isolation_level",
    "default_max_join_size",
    "default_net_write_timeout",
    "default_sql_auto_is_null",
    "default_sql_mode",
    "default_sql_safe_updates",
    "default_sql_select_limit",
    "default_time_zone",
    "default_transaction_read",
    "default_tx_isolation",
    "forward_autocommit",
    "monitor_timer_cached",
    "ping_interval_server",
];
