//! Rows that only make sense together: those of a file, or those at runtime.

use std::collections::{BTreeMap, HashSet};

use narrows_proxy::log_target::LogOutput;
use narrows_proxy::query_log;
use narrows_proxy::snapshot::{
    AuroraRow, ClusterRow, FastRoutingRow, FirewallRuleRow, FirewallUserRow, HOSTGROUP_KEYS,
    HostgroupAttributesRow, ReplicationHostgroupRow, Rows, RuleRow, SERVERS_DEFAULTS_KEYS, ServerRow, Split,
    SslParamsRow, TokenIssuerRow, USER_KEYS, UserRow, Variables, finds_accounts,
};

use super::causal::CausalSettings;
use super::finding::{
    FIREWALL, LikelyMistake, NO_LOG, Of, SERVERS, SERVERS_ON_VARIABLES, Scope, Search, USERS, USERS_ON_ALL,
    USERS_ON_SERVERS, USERS_ON_VARIABLES, VARIABLES,
};
use super::passthrough::PassThroughSettings;
use super::preference::Preferences;
use super::rules::{self, Surroundings};
use super::sections::Sections;
use super::token_logins::{TokenLogins, TokenSettings};
use super::tokens;
use crate::config::diagnostic::Problem;
use crate::config::form::ListenAddress;
use crate::config::schema::Placed;
use crate::monitor::cluster::ClusterKind;
use crate::schema::Module;
use crate::variables::Values;

/// Rows that only make sense together: those of a file, or those at runtime.
#[derive(Default)]
pub(crate) struct Together<'a> {
    servers: Vec<&'a ServerRow>,
    pairs: Vec<&'a ReplicationHostgroupRow>,
    clusters: Vec<(ClusterKind, usize, &'a ClusterRow)>,
    aurora: Vec<&'a AuroraRow>,
    hostgroup_attributes: Vec<&'a HostgroupAttributesRow>,
    ssl_params: Vec<&'a SslParamsRow>,
    users: Vec<&'a UserRow>,
    token_issuers: Vec<&'a TokenIssuerRow>,
    rules: Vec<&'a RuleRow>,
    fast_routing: Vec<&'a FastRoutingRow>,
    firewall_users: Vec<&'a FirewallUserRow>,
    firewall_rules: Vec<&'a FirewallRuleRow>,
    variables: Variables,
    /// What variables say about tokens for servers.
    tokens: TokenSettings,
    /// Whether servers are checked, as far as variables decide it.
    is_monitored: bool,
}

impl<'a> Together<'a> {
    pub(super) fn of_file(sections: &'a Sections) -> Together<'a> {
        fn all<R>(rows: &[Placed<R>]) -> Vec<&R> {
            rows.iter().map(|placed| &placed.row).collect()
        }
        Together {
            servers: all(&sections.servers),
            pairs: all(&sections.replication_hostgroups),
            clusters: active(|kind| sections.clusters(kind).into_iter().map(|placed| placed.row).collect()),
            aurora: all(&sections.aurora_hostgroups),
            hostgroup_attributes: all(&sections.hostgroup_attributes),
            ssl_params: all(&sections.ssl_params),
            users: all(&sections.users),
            token_issuers: all(&sections.token_issuers),
            rules: all(&sections.rules),
            fast_routing: all(&sections.fast_routing),
            firewall_users: all(&sections.firewall_users),
            firewall_rules: all(&sections.firewall_rules),
            ..Together::of_variables(sections.variables.for_data_plane(), &sections.variables)
        }
    }

    /// The rows at runtime, with the variables at runtime.
    pub fn of_rows(rows: &'a Rows, values: &Values) -> Together<'a> {
        Together {
            servers: rows.servers.iter().collect(),
            pairs: rows.replication_hostgroups.iter().collect(),
            clusters: active(|kind| kind.rows(rows).collect()),
            aurora: rows.aurora_hostgroups.iter().collect(),
            hostgroup_attributes: rows.hostgroup_attributes.iter().collect(),
            ssl_params: rows.ssl_params.iter().collect(),
            users: rows.users.iter().collect(),
            token_issuers: rows.token_issuers.iter().collect(),
            rules: rows.rules.iter().collect(),
            fast_routing: rows.fast_routing.iter().collect(),
            firewall_users: rows.firewall_users.iter().collect(),
            firewall_rules: rows.firewall_rules.iter().collect(),
            ..Together::of_variables(rows.variables.clone(), values)
        }
    }

    fn of_variables(variables: Variables, values: &Values) -> Together<'a> {
        let (tokens, is_monitored) = (TokenSettings::of(values), values.for_monitor().enabled);
        Together { variables, tokens, is_monitored, ..Together::default() }
    }

    /// What is probably a mistake, within `scope`.
    pub fn findings(&self, scope: Scope) -> Vec<LikelyMistake> {
        let mut search = Search::new(scope);
        let hostgroups = self.hostgroups();
        self.variables(&mut search);
        self.weights(&mut search);
        self.without_monitor(&mut search);
        self.about_hostgroups(&hostgroups, &mut search);
        self.about_clusters(&hostgroups, &mut search);
        self.about_nodes(&mut search);
        self.about_preferences(&mut search);
        self.about_causal_reads(&hostgroups, &mut search);
        self.about_aurora(&mut search);
        self.ssl_params(&mut search);
        self.accounts(&hostgroups, &mut search);
        tokens::examine(&self.users, &self.token_issuers, &mut search);
        let passthrough =
            PassThroughSettings { variables: &self.variables, users: &self.users, hostgroups: &hostgroups };
        passthrough.examine(&mut search);
        self.about_tokens(&mut search);
        // Without any server, this is reported once, and not for each account and rule.
        let hostgroups = Some(&hostgroups).filter(|_| !self.servers.is_empty());
        rules::examine(&self.rules, &self.surroundings(hostgroups, &self.ports()), &mut search);
        rules::examine_fast_routing(&self.fast_routing, &self.rules, hostgroups, &mut search);
        self.firewall(&mut search);
        search.found
    }

    /// What is probably a mistake in modules that are loaded, each sentence once.
    pub fn said_of(&self, modules: &[Module]) -> Vec<String> {
        let mut said = Vec::new();
        for module in modules {
            for finding in self.findings(Scope::Loaded(*module)) {
                let sentence = finding.problem.to_string();
                if !said.contains(&sentence) {
                    said.push(sentence);
                }
            }
        }
        said
    }

    fn surroundings<'b>(
        &'b self,
        hostgroups: Option<&'b HashSet<i32>>,
        ports: &'b HashSet<u16>,
    ) -> Surroundings<'b> {
        let accounts: HashSet<&str> = self.active_users().map(|(_, row)| row.username.as_str()).collect();
        Surroundings {
            hostgroups,
            accounts: Some(accounts)
                .filter(|accounts| !accounts.is_empty() && !finds_accounts(&self.variables)),
            has_digests: self.variables.query_digests,
            has_sockets: self.variables.interfaces.iter().any(|interface| interface.starts_with('/')),
            ports,
            has_log: query_log::is_wanted(&self.variables),
        }
    }

    /// The ports that clients connect to.
    fn ports(&self) -> HashSet<u16> {
        let port = |interface: &String| match ListenAddress::parse(interface)? {
            ListenAddress::Tcp(address) => Some(address.port()),
            ListenAddress::Unix(_) => None,
        };
        self.variables.interfaces.iter().filter_map(port).collect()
    }

    fn variables(&self, search: &mut Search) {
        const FUNCTIONS: &str = "mysql-auto_read_write_split_functions";
        const LOG: &str = "mysql-eventslog_default_log";
        let functions = &self.variables.auto_read_write_split_functions;
        for written in functions.iter().filter(|name| !is_function_name(name)) {
            search.add(VARIABLES, (Of::Variables, 0, FUNCTIONS), || Problem::NoFunction {
                written: written.clone(),
            });
        }
        if self.variables.eventslog_default_log && !query_log::is_wanted(&self.variables) {
            search.add_idle(VARIABLES, (Of::Variables, 0, LOG), || LOG.to_owned(), NO_LOG);
        }
        self.log_outputs(search);
    }

    /// Settings of one output of the query log while it goes to another, or everywhere.
    fn log_outputs(&self, search: &mut Search) {
        let variables = &self.variables;
        let to_files = LogOutput::of(&variables.eventslog_output) == LogOutput::File;
        let idle = [
            (
                !to_files && !variables.eventslog_filename.is_empty(),
                "mysql-eventslog_filename",
                "mysql-eventslog_output is not file",
            ),
            (
                !variables.eventslog_slow_time.is_zero() && variables.eventslog_rate_limit == 1,
                "mysql-eventslog_slow_time",
                "mysql-eventslog_rate_limit is 1, so every statement is logged",
            ),
            (
                variables.eventslog_stmt_parameters
                    && variables.eventslog_line_format == "text"
                    && variables.eventslog_buffer_history_size == 0,
                "mysql-eventslog_stmt_parameters",
                "lines of text have no parameters (mysql-eventslog_line_format)",
            ),
            (
                variables.otlp_rate_limit > 0 && variables.otlp_endpoint.is_empty(),
                "mysql-otlp_rate_limit",
                "mysql-otlp_endpoint is empty",
            ),
        ];
        for (_, name, why) in idle.into_iter().filter(|(is_idle, ..)| *is_idle) {
            search.add_idle(VARIABLES, (Of::Variables, 0, name), || name.to_owned(), why);
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

    /// Limits and pairs that only the monitor's checks enforce, while there are none.
    fn without_monitor(&self, search: &mut Search) {
        if self.is_monitored {
            return;
        }
        let why = "mysql-monitor_enabled is false";
        for (index, row) in self.servers.iter().enumerate() {
            let limits =
                [("max_replication_lag", row.max_replication_lag), ("max_latency_ms", row.max_latency_ms)];
            for (column, _) in limits.into_iter().filter(|(_, limit)| *limit > 0) {
                let name = || format!("server {}:{}: {column}", row.hostname, row.port);
                search.add_idle(SERVERS_ON_VARIABLES, (Of::Servers, index, column), name, why);
            }
        }
        if !self.pairs.is_empty() {
            let name = || "following changes of read_only with mysql_replication_hostgroups".to_owned();
            search.add_idle(SERVERS_ON_VARIABLES, (Of::Pairs, 0, "writer_hostgroup"), name, why);
        }
    }

    /// Clusters without servers, and clusters that nobody checks.
    fn about_clusters(&self, hostgroups: &HashSet<i32>, search: &mut Search) {
        for (kind, index, row) in &self.clusters {
            let name = || format!("{} writer_hostgroup={}", kind.table(), row.writer_hostgroup);
            let place = (Of::Clusters(*kind), *index, "writer_hostgroup");
            if !self.servers.is_empty() && !hostgroups.contains(&row.writer_hostgroup.0) {
                search.add_idle(SERVERS, place, name, "none of its hostgroups has a server");
            } else if !self.is_monitored {
                search.add_idle(SERVERS_ON_VARIABLES, place, name, "mysql-monitor_enabled is false");
            }
        }
    }

    /// Clusters that nobody may write to, and servers that several clusters move.
    fn about_nodes(&self, search: &mut Search) {
        let mut clusters: BTreeMap<(&str, u16), Vec<usize>> = BTreeMap::new();
        for (at, (kind, index, row)) in self.clusters.iter().enumerate() {
            let name = || format!("{} writer_hostgroup={}", kind.table(), row.writer_hostgroup);
            if row.max_writers == 0 {
                let flaw = "is 0: no node of the cluster is ever written to".to_owned();
                search.add(SERVERS, (Of::Clusters(*kind), *index, "max_writers"), || Problem::NotAsWritten {
                    row: name(),
                    name: "max_writers".to_owned(),
                    flaw,
                });
            }
            for server in self.servers.iter().filter(|it| row.hostgroups().contains(&it.hostgroup)) {
                let of = clusters.entry((&server.hostname, server.port)).or_default();
                if of.last() != Some(&at) {
                    of.push(at);
                }
            }
        }
        for ((hostname, port), of) in clusters {
            let &[first, second, ..] = &of[..] else { continue };
            let (Some((kind, _, row)), Some((other, index, second_row))) =
                (self.clusters.get(first), self.clusters.get(second))
            else {
                continue;
            };
            search.add(SERVERS, (Of::Clusters(*other), *index, "writer_hostgroup"), || Problem::NotAsWritten {
                row: format!("server {hostname}:{port}"),
                name: format!("is a node of {} writer_hostgroup={}", kind.table(), row.writer_hostgroup),
                flaw: format!(
                    "and of {} writer_hostgroup={}: each row decides its role by itself, and they may choose different writers",
                    other.table(),
                    second_row.writer_hostgroup
                ),
            });
        }
    }

    /// Times and lags of Aurora that do not go together.
    fn about_aurora(&self, search: &mut Search) {
        for (index, row) in self.aurora.iter().enumerate().filter(|(_, row)| row.cluster.active) {
            let name = || {
                format!("{} writer_hostgroup={}", ClusterKind::Aurora.table(), row.cluster.writer_hostgroup)
            };
            let mut add = |column: &'static str, flaw: String| {
                let place = (Of::Clusters(ClusterKind::Aurora), index, column);
                let name_of = column.to_owned();
                search.add(SERVERS, place, || Problem::NotAsWritten { row: name(), name: name_of, flaw });
            };
            let least_ms = row.add_lag_ms.max(row.min_lag_ms);
            if row.max_lag_ms < least_ms {
                add(
                    "max_lag_ms",
                    format!(
                        "is {}, and no estimate is below {least_ms}: no node is read from",
                        row.max_lag_ms
                    ),
                );
            } else if row.max_lag_ms < row.check_interval_ms {
                add(
                    "max_lag_ms",
                    format!(
                        "is {}, and a lag is only noticed every {} ms",
                        row.max_lag_ms, row.check_interval_ms
                    ),
                );
            }
            if row.check_timeout_ms > row.check_interval_ms {
                add(
                    "check_timeout_ms",
                    format!(
                        "is above check_interval_ms ({}): a check that takes longer delays the next one",
                        row.check_interval_ms
                    ),
                );
            }
        }
    }

    /// Settings of hostgroups, and pairs of them.
    fn about_hostgroups(&self, hostgroups: &HashSet<i32>, search: &mut Search) {
        let is_empty = |hostgroup: i32| !self.servers.is_empty() && !hostgroups.contains(&hostgroup);
        for (index, row) in self.hostgroup_attributes.iter().enumerate() {
            let name = || format!("hostgroup {}", row.hostgroup);
            let place = |column| (Of::HostgroupAttributes, index, column);
            let keys = (HOSTGROUP_KEYS, &row.hostgroup_settings);
            search.add_keys_not_read(SERVERS, place("hostgroup_settings"), name, keys);
            let keys = (SERVERS_DEFAULTS_KEYS, &row.servers_defaults);
            search.add_keys_not_read(SERVERS, place("servers_defaults"), name, keys);
            if is_empty(row.hostgroup.0) {
                let name = || format!("mysql_hostgroup_attributes hostgroup_id={}", row.hostgroup);
                search.add_idle(SERVERS, place("hostgroup_id"), name, "the hostgroup has no server");
            }
        }
        for (index, row) in self.pairs.iter().enumerate() {
            if is_empty(row.writer_hostgroup.0) {
                let name =
                    || format!("mysql_replication_hostgroups writer_hostgroup={}", row.writer_hostgroup);
                let place = (Of::Pairs, index, "writer_hostgroup");
                search.add_idle(SERVERS, place, name, "neither of its hostgroups has a server");
            }
        }
    }

    /// Backups and zones.
    fn about_preferences(&self, search: &mut Search) {
        let linked = self.linked();
        let (rows, servers) = (&self.hostgroup_attributes, &self.servers);
        let has_segments = self.clusters.iter().any(|(kind, ..)| *kind == ClusterKind::Galera);
        let own_zone = &self.variables.zone;
        Preferences { rows, servers, linked: &linked, own_zone, has_segments }.examine(search);
    }

    /// Accounts with tokens that get no connection.
    fn about_tokens(&self, search: &mut Search) {
        TokenLogins {
            servers: &self.servers,
            ssl_params: &self.ssl_params,
            users: &self.users,
            linked: &self.linked(),
            variables: &self.variables,
            settings: &self.tokens,
        }
        .examine(search);
    }

    /// Hostgroups between which servers move.
    fn linked(&self) -> Vec<Vec<i32>> {
        let pairs = self.pairs.iter().map(|pair| vec![pair.writer_hostgroup.0, pair.reader_hostgroup.0]);
        let clusters = self.clusters.iter().map(|(_, _, row)| row.hostgroups().map(|it| it.0).to_vec());
        pairs.chain(clusters).collect()
    }

    /// Reads that must see writes.
    fn about_causal_reads(&self, hostgroups: &HashSet<i32>, search: &mut Search) {
        let of_pairs = self.pairs.iter().map(|pair| pair.reader_hostgroup.0);
        let of_clusters = self.clusters.iter().map(|(_, _, row)| row.reader_hostgroup.0);
        CausalSettings {
            general: self.variables.causal_reads,
            users: &self.users,
            rules: &self.rules,
            hostgroup_attributes: &self.hostgroup_attributes,
            readers: of_pairs.chain(of_clusters).collect(),
            hostgroups,
        }
        .examine(search);
    }

    /// TLS settings of servers that there are not, or that are connected to without TLS.
    fn ssl_params(&self, search: &mut Search) {
        for (index, row) in self.ssl_params.iter().enumerate() {
            let mut servers =
                self.servers.iter().filter(|it| it.hostname == row.hostname && it.port == row.port);
            let why = match servers.clone().next() {
                None => "mysql_servers has no such server",
                Some(_) if !servers.any(|server| server.use_ssl) => "use_ssl of the server is 0",
                Some(_) => continue,
            };
            let name = || format!("mysql_servers_ssl_params {}:{}", row.hostname, row.port);
            search.add_idle(SERVERS, (Of::SslParams, index, "hostname"), name, why);
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
        for (_, _, row) in &self.clusters {
            let all = row.hostgroups().map(|hostgroup| hostgroup.0);
            if all.iter().any(|hostgroup| hostgroups.contains(hostgroup)) {
                hostgroups.extend(all);
            }
        }
        hostgroups
    }

    fn active_users(&self) -> impl Iterator<Item = (usize, &'a UserRow)> {
        self.users.iter().copied().enumerate().filter(|(_, row)| row.active)
    }

    fn accounts(&self, hostgroups: &HashSet<i32>, search: &mut Search) {
        if !search.is_for(USERS_ON_ALL) {
            return;
        }
        for (index, row) in self.active_users() {
            let (username, hostgroup) = (|| row.username.clone(), row.default_hostgroup.0);
            let place = |column| (Of::Users, index, column);
            let name = || format!("user {:?}", row.username);
            search.add_keys_not_read(USERS, place("attributes"), name, (USER_KEYS, &row.attributes));
            if row.use_ssl && !self.variables.have_ssl {
                search
                    .add(USERS_ON_VARIABLES, place("use_ssl"), || Problem::NoLogin { username: username() });
            }
            if !hostgroups.contains(&hostgroup) {
                if !self.servers.is_empty() {
                    search.add(USERS_ON_SERVERS, place("default_hostgroup"), || Problem::UserWithoutServer {
                        username: username(),
                        hostgroup,
                    });
                }
                continue;
            }
            self.split(index, row, hostgroups, search);
        }
    }

    /// Whether the reads of an account can be separated from its writes, if they are to be.
    fn split(&self, index: usize, row: &UserRow, hostgroups: &HashSet<i32>, search: &mut Search) {
        let place = (Of::Users, index, "attributes");
        let username = || row.username.clone();
        let split = Split::of(&row.attributes);
        if let Some(reader) = split.reader.filter(|reader| !hostgroups.contains(&reader.0)) {
            search.add(USERS_ON_SERVERS, place, || Problem::ReaderWithoutServer {
                username: username(),
                hostgroup: reader.0,
            });
            return;
        }
        let has_readers = split.reader.is_some()
            || self.pairs.iter().any(|pair| pair.writer_hostgroup == row.default_hostgroup)
            || self.clusters.iter().any(|(_, _, it)| it.writer_hostgroup == row.default_hostgroup);
        if split.on.unwrap_or(self.variables.auto_read_write_split) && !has_readers {
            search.add(USERS_ON_ALL, place, || Problem::SplitWithoutReaders {
                username: username(),
                hostgroup: row.default_hostgroup.0,
            });
        }
    }

    /// Rows of the firewall while it is off.
    fn firewall(&self, search: &mut Search) {
        if self.variables.firewall_whitelist_enabled {
            return;
        }
        let users = self.firewall_users.iter().position(|row| row.active);
        let rules = self.firewall_rules.iter().position(|row| row.active);
        let found = [
            (users, Of::FirewallUsers, "mysql_firewall_whitelist_users"),
            (rules, Of::FirewallRules, "mysql_firewall_whitelist_rules"),
        ];
        for (index, of, table) in found {
            if let Some(index) = index {
                let why = "mysql-firewall_whitelist_enabled is false";
                search.add_idle(FIREWALL, (of, index, "username"), || table.to_owned(), why);
            }
        }
    }
}

/// The active rows of clusters, with their indexes in their tables.
fn active<'a>(
    rows: impl Fn(ClusterKind) -> Vec<&'a ClusterRow>,
) -> Vec<(ClusterKind, usize, &'a ClusterRow)> {
    let of_kind = |kind| rows(kind).into_iter().enumerate().map(move |(index, row)| (kind, index, row));
    ClusterKind::ALL.into_iter().flat_map(of_kind).filter(|(_, _, row)| row.active).collect()
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
