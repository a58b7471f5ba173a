//! The configuration of the data plane: plain rows as operators write them, and the immutable [`Snapshot`], which is
//! compiled from them once and then only read.

mod account;
mod attributes;
mod departed;
mod login;
mod passthrough;
mod passwords;
mod template_rows;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use narrows_wire::auth::client_side::Form;

use crate::hostgroup::{Alarm, Demand, Hostgroup, HostgroupSettings, Names, Server, ServerFigures};
use crate::rt::{Instant, nanoseconds};
use crate::rules::{Activity, Firewall, Purpose, RuleSet};
use crate::server_tokens::{SharedTokens, TokenLogin};
use crate::tls::SharedTls;
use crate::tokens::SharedIssuers;

pub use crate::rows::{
    AuroraRow, Bond, CausalReads, CheckType, ClusterRow, FastRoutingRow, FirewallFingerprintRow,
    FirewallMode, FirewallRuleRow, FirewallUserRow, HostgroupAttributesRow, HostgroupId, HostgroupPair,
    JsonColumn, PreferenceSettings, ReplicationHostgroupRow, ServerRow, ServerStatus, ServersDefaults,
    SslParamsRow, TokenIssuerRow, UnshunAlgorithm, UserRow, Variables, has_tokens, is_region, token_region,
};
pub use crate::rules::RuleRow;
pub use account::Account;
use account::compile_users;
pub use attributes::{HOSTGROUP_KEYS, JsonKey, RULE_KEYS, SERVERS_DEFAULTS_KEYS, Split, USER_KEYS, flaws};
pub use departed::Departed;
use departed::departed;
pub use login::{Lockout, LoginAttributes};
use passthrough::forms;
pub(crate) use passthrough::like_expression;
pub use passthrough::{
    AuthQuery, PassThroughUsers, Templates, Whose, finds_accounts, lets_unknown_users_in, may_be_name,
};
pub use passwords::{PasswordSide, PasswordUse};
pub use template_rows::is_template;

/// What the operator configured, row by row; the input of [`Snapshot`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    /// The `mysql_variables` that the data plane reads.
    pub variables: Variables,
    /// `mysql_servers`.
    pub servers: Vec<ServerRow>,
    /// `mysql_users`.
    pub users: Vec<UserRow>,
    /// Names that `mysql_users` has for no client: their rows are inactive, or for servers only.
    pub kept_out: Vec<String>,
    /// `mysql_query_rules`, in any order.
    pub rules: Vec<RuleRow>,
    /// `mysql_query_rules_fast_routing`.
    pub fast_routing: Vec<FastRoutingRow>,
    /// `mysql_replication_hostgroups`.
    pub replication_hostgroups: Vec<ReplicationHostgroupRow>,
    /// `mysql_galera_hostgroups`.
    pub galera_hostgroups: Vec<ClusterRow>,
    /// `mysql_group_replication_hostgroups`.
    pub group_replication_hostgroups: Vec<ClusterRow>,
    /// `mysql_aws_aurora_hostgroups`.
    pub aurora_hostgroups: Vec<AuroraRow>,
    /// `mysql_hostgroup_attributes`.
    pub hostgroup_attributes: Vec<HostgroupAttributesRow>,
    /// `mysql_firewall_whitelist_users`.
    pub firewall_users: Vec<FirewallUserRow>,
    /// `mysql_firewall_whitelist_rules`.
    pub firewall_rules: Vec<FirewallRuleRow>,
    /// `mysql_firewall_whitelist_sqli_fingerprints`.
    pub firewall_fingerprints: Vec<FirewallFingerprintRow>,
    /// `mysql_servers_ssl_params`; the data plane's form of them is in `tls`.
    pub ssl_params: Vec<SslParamsRow>,
    /// `narrows_token_issuers`; the data plane's form of them is in `issuers`.
    pub token_issuers: Vec<TokenIssuerRow>,
    /// Keys and certificates.
    pub tls: SharedTls,
    /// What makes the tokens of accounts that have no password on servers.
    pub tokens: SharedTokens,
    /// How `mysql-auth_query_username` gets its tokens, if `mysql-auth_query_password` is none.
    pub auth_query_tokens: Option<TokenLogin>,
    /// Whose tokens clients may log in with.
    pub issuers: SharedIssuers,
    /// The resolved host names of servers.
    pub names: Names,
    /// The zones that servers say they are in, by `host:port`.
    pub said_zones: Arc<BTreeMap<String, Arc<str>>>,
    /// The servers of replication pairs that have not said themselves that they are read-only, by host name and port.
    pub unfenced: Arc<BTreeSet<(String, u16)>>,
}

impl Rows {
    /// The clusters whose rows are active.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterRow> {
        let aurora = self.aurora_hostgroups.iter().map(|row| &row.cluster);
        let all = self.galera_hostgroups.iter().chain(&self.group_replication_hostgroups).chain(aurora);
        all.filter(|row| row.active)
    }

    /// Hostgroups for writers with those for their readers: pairs of replication, and of clusters.
    pub fn pairs(&self) -> impl Iterator<Item = HostgroupPair> {
        let of_replication = self.replication_hostgroups.iter().map(|row| HostgroupPair {
            writers: row.writer_hostgroup,
            readers: row.reader_hostgroup,
            check_type: CheckType::named(&row.check_type),
            bond: Bond::Replication,
        });
        let of_cluster = |row: &ClusterRow, check_type| HostgroupPair {
            writers: row.writer_hostgroup,
            readers: row.reader_hostgroup,
            check_type,
            bond: Bond::Cluster,
        };
        let plain = self.galera_hostgroups.iter().chain(&self.group_replication_hostgroups);
        let plain = plain.filter(|row| row.active).map(move |row| of_cluster(row, CheckType::ReadOnly));
        // A reader of Aurora has innodb_read_only.
        let aurora = self.aurora_hostgroups.iter().map(|row| &row.cluster).filter(|row| row.active);
        let aurora = aurora.map(move |row| of_cluster(row, CheckType::Either));
        of_replication.chain(plain).chain(aurora)
    }
}

/// What workers read: compiled once from [`Rows`], then shared and never changed.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The variables.
    pub variables: Variables,
    /// Active users, by name.
    pub users: HashMap<Vec<u8>, Arc<Account>>,
    /// For whom servers are asked, if that is on.
    pub passthrough: Option<Arc<PassThroughUsers>>,
    /// Names that are looked for nowhere, because an administrator has switched them off.
    pub kept_out: HashSet<Vec<u8>>,
    /// The settings of accounts that are found.
    templates: Arc<Templates>,
    /// What finds accounts, if there is anything.
    pub auth_query: Option<Arc<AuthQuery>>,
    /// Hostgroups that have servers, had some, or will have some.
    pub hostgroups: BTreeMap<HostgroupId, Arc<Hostgroup>>,
    /// The servers that have left their hostgroups, and are still connected to.
    pub departed: Vec<Departed>,
    /// The servers of replication pairs that have not said themselves that they are read-only, by host name and port.
    pub unfenced: Arc<BTreeSet<(String, u16)>>,
    /// The query rules.
    pub rules: Arc<RuleSet>,
    /// The same with the rules of the dry run, if there are any.
    pub dry_run: Option<Arc<RuleSet>>,
    /// The statements that accounts may send, if the firewall is on.
    pub firewall: Arc<Firewall>,
    /// The reader hostgroup of each writer hostgroup.
    pub readers: HashMap<HostgroupId, HostgroupId>,
    /// The writer hostgroup of each reader hostgroup.
    pub writers: HashMap<HostgroupId, HostgroupId>,
    /// Whether servers report the GTIDs of writes, because reads may have to see them.
    pub tracks_gtids: bool,
    /// Keys and certificates.
    pub tls: SharedTls,
    /// Whose tokens clients may log in with.
    pub issuers: SharedIssuers,
    /// Where it goes that the writers of a cluster are doubtful; outlives snapshots.
    pub alarm: Alarm,
    /// The stored forms of passwords in use: logins of unknown users imitate them.
    pub password_forms: Vec<Form>,
}

/// The configuration as held by one worker: cloning it only increments a plain counter, without atomics.
pub type LocalSnapshot = Rc<Arc<Snapshot>>;

/// The configuration that is in force on one worker.
#[derive(Debug)]
pub struct InForce(RefCell<LocalSnapshot>);

impl InForce {
    /// Puts this configuration into force.
    pub fn new(snapshot: Arc<Snapshot>) -> InForce {
        InForce(RefCell::new(Rc::new(snapshot)))
    }

    /// The configuration. Cheap, because no atomics are used.
    pub fn get(&self) -> LocalSnapshot {
        Rc::clone(&self.0.borrow())
    }

    /// Replaces the configuration.
    pub fn replace(&self, snapshot: Arc<Snapshot>) {
        self.0.replace(Rc::new(snapshot));
    }
}

/// Why rows cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// A row of the whitelist cannot be used.
    #[error("firewall rule of user {username:?}: {source}")]
    Firewall {
        /// The account of the row.
        username: String,
        /// What is wrong with it.
        source: crate::rules::RuleError,
    },
    /// A rule cannot be used.
    #[error("query rule {rule_id}: {source}")]
    Rule {
        /// The id of the rule.
        rule_id: i64,
        /// What is wrong with it.
        source: crate::rules::RuleError,
    },
}

impl Snapshot {
    /// The same snapshot with other keys and certificates.
    pub fn with_tls(&self, tls: SharedTls) -> Snapshot {
        let server = |server: &Arc<Server>| {
            let (row, figures) = (server.row.clone(), Arc::clone(&server.figures));
            let addresses = server.addresses.clone();
            let (back_since, drains_since) = (server.back_since, server.drains_since);
            let said_zone = server.said_zone.clone();
            Arc::new(Server {
                row,
                figures,
                tls: tls.clone(),
                addresses,
                back_since,
                drains_since,
                said_zone,
            })
        };
        let hostgroups = self.hostgroups.iter().map(|(id, hostgroup)| {
            let servers = hostgroup.servers.iter().map(server).collect();
            (*id, Arc::new(Hostgroup { servers, ..Hostgroup::clone(hostgroup) }.complete()))
        });
        Snapshot { hostgroups: hostgroups.collect(), tls: tls.clone(), ..self.clone() }
    }

    /// The same snapshot with other rules, for a forecast.
    pub(crate) fn with_rules(&self, rules: RuleSet) -> Snapshot {
        Snapshot { rules: Arc::new(rules), ..self.clone() }
    }

    /// Something happened to a statement that makes the writers in `hostgroup` doubtful, if it is for writers.
    pub fn raise_alarm(&self, hostgroup: HostgroupId) {
        if let Some(hostgroup) = self.hostgroups.get(&hostgroup) {
            hostgroup.raise_alarm();
        }
    }

    /// Whether connections of a hostgroup return to the pool after each statement.
    pub fn multiplexes(&self, hostgroup: HostgroupId) -> bool {
        let here = || self.hostgroups.get(&hostgroup).is_none_or(|hostgroup| hostgroup.settings.multiplex);
        self.variables.multiplexing && here()
    }

    /// Why statements on a server are cut off, if they are.
    pub fn cuts_off(&self, server: &Server, in_transaction: bool) -> Option<&'static str> {
        let Some((hostgroup, server)) = self.place_of(server) else {
            return self.cuts_off_departed(server, in_transaction);
        };
        let status = server.row.status;
        if status.cuts_off(in_transaction) {
            return Some(status.reason().unwrap_or_else(|| status.name()));
        }
        if self.is_overdue(server.drains_since) {
            return Some("OFFLINE_SOFT: offline_soft_timeout has passed");
        }
        let is_overfull = hostgroup.is_overfull && status == ServerStatus::Online;
        is_overfull.then_some("more servers of its hostgroup are ONLINE than max_num_online_servers")
    }

    /// Whether the time of a draining server is over, so that its statements must be cut off.
    pub fn has_overdue(&self) -> bool {
        let servers = self.hostgroups.values().flat_map(|it| &it.servers);
        let drain_since = servers.map(|server| server.drains_since);
        let left = self.departed.iter().map(|departed| Some(departed.since));
        !self.variables.offline_soft_timeout.is_zero()
            && drain_since.chain(left).any(|it| self.is_overdue(it))
    }

    /// Whether what runs on a server that has drained since then has had its time.
    fn is_overdue(&self, drains_since: Option<Instant>) -> bool {
        let limit = self.variables.offline_soft_timeout;
        !limit.is_zero() && drains_since.is_some_and(|since| since.elapsed() >= limit)
    }

    /// The row of a server of another configuration in this one, with its hostgroup.
    fn place_of(&self, server: &Server) -> Option<(&Hostgroup, &Server)> {
        let hostgroup = self.hostgroups.get(&server.row.hostgroup)?;
        Some((hostgroup, hostgroup.servers.iter().find(|other| other.is_at_address_of(server))?))
    }

    /// Whether a server chosen with another configuration may still get statements.
    pub fn may_use(&self, server: &Server) -> bool {
        self.as_known_here(server).is_some_and(|(hostgroup, server)| hostgroup.may_use(server))
    }

    /// The server in this configuration that corresponds to one of another configuration, with its hostgroup.
    fn as_known_here(&self, server: &Server) -> Option<(&Hostgroup, &Server)> {
        let hostgroup = self.hostgroups.get(&server.row.hostgroup)?;
        let same = |other: &&Arc<Server>| Arc::ptr_eq(&other.figures, &server.figures);
        Some((hostgroup, hostgroup.servers.iter().find(same)?))
    }

    /// Records that a server was reached at `now`: ends its shun and, depending on `mysql-unshun_algorithm`, also that
    /// of the same host and port in other hostgroups. Returns the servers that are back.
    pub fn end_shuns<'a>(&'a self, server: &'a Server, now: Duration) -> Vec<&'a Server> {
        if !server.figures.shun.end(now) {
            return Vec::new();
        }
        let everywhere = self.variables.unshun_algorithm == UnshunAlgorithm::AllAtOnce;
        let servers = self.hostgroups.values().filter(|_| everywhere).flat_map(|it| &it.servers);
        let same = |other: &&Server| other.is_at_address_of(server) && other.figures.shun.end(now);
        let others = servers.map(|other| &**other).filter(same);
        std::iter::once(server)
            .chain(others)
            .inspect(|back| back.figures.was_reached(nanoseconds(now)))
            .collect()
    }

    /// Compiles rows for `workers` worker threads. Figures of servers and users that are also in `previous` are kept.
    ///
    /// # Errors
    /// A rule whose expression does not compile; then nothing is applied.
    pub fn compile(
        rows: Rows,
        workers: usize,
        previous: Option<&Snapshot>,
    ) -> Result<Snapshot, CompileError> {
        let rules = compile_rules(Purpose::InForce, &rows, previous.map(|it| &it.rules))?;
        let has_dry_run = rows.rules.iter().any(|row| row.active == Activity::DryRun);
        let known = previous.and_then(|previous| previous.dry_run.as_ref());
        let dry_run = has_dry_run.then(|| compile_rules(Purpose::DryRun, &rows, known)).transpose()?;
        let firewall = Firewall::compile(&rows.firewall_users, &rows.firewall_rules)
            .map_err(|(username, source)| CompileError::Firewall { username, source })?;
        let readers = rows.pairs().map(|pair| (pair.writers, pair.readers)).collect();
        let writers = rows.pairs().map(|pair| (pair.readers, pair.writers)).collect();
        let alarm = previous.map_or_else(Alarm::default, |previous| previous.alarm.clone());
        let hostgroups = compile_hostgroups(&rows, workers, &alarm, previous);
        let departed = previous.map(|previous| departed(previous, &hostgroups)).unwrap_or_default();
        let passthrough = PassThroughUsers::of(&rows.variables).map(Arc::new);
        let templates = Arc::new(Templates::compile(&rows.variables, &rows.users, &rows.tokens));
        let auth_query = AuthQuery::of(&rows.variables, rows.auth_query_tokens).map(Arc::new);
        let kept_out = rows.kept_out.into_iter().map(String::into_bytes).collect();
        let users = compile_users(rows.users, &rows.tokens, previous);
        Ok(Snapshot {
            tracks_gtids: templates.any_sees_writes()
                || tracks_gtids(&rows.variables, &users, &hostgroups, &rules),
            variables: rows.variables,
            password_forms: forms(&users, passthrough.as_deref()),
            users,
            kept_out,
            passthrough,
            templates,
            auth_query,
            hostgroups,
            departed,
            unfenced: rows.unfenced,
            rules,
            dry_run,
            firewall: Arc::new(firewall),
            readers,
            writers,
            tls: rows.tls,
            issuers: rows.issuers,
            alarm,
        })
    }
}

/// Whether any setting in force makes reads wait for writes.
fn tracks_gtids(
    variables: &Variables,
    users: &HashMap<Vec<u8>, Arc<Account>>,
    hostgroups: &BTreeMap<HostgroupId, Arc<Hostgroup>>,
    rules: &RuleSet,
) -> bool {
    variables.causal_reads.is_on()
        || variables.default_session_track_gtids == "OWN_GTID"
        || users.values().any(|account| account.causal_reads.is_some_and(CausalReads::is_on))
        || hostgroups.values().any(|hostgroup| hostgroup.settings.causal_reads.is_on())
        || rules.makes_see_writes()
}

/// The hostgroups with their servers, which keep what is known about them from `previous`.
fn compile_hostgroups(
    rows: &Rows,
    workers: usize,
    alarm: &Alarm,
    previous: Option<&Snapshot>,
) -> BTreeMap<HostgroupId, Arc<Hostgroup>> {
    let known = |id: HostgroupId| previous.and_then(|previous| previous.hostgroups.get(&id));
    let writers = |id: HostgroupId| rows.pairs().find(|pair| pair.writers == id);
    let attributes = |id: HostgroupId| rows.hostgroup_attributes.iter().find(|row| row.hostgroup == id);
    let empty = |id: HostgroupId| Hostgroup {
        id,
        servers: Vec::new(),
        writers: writers(id).map(|pair| (pair.check_type, pair.bond)),
        demand: known(id)
            .map(|known| Arc::clone(&known.demand))
            .unwrap_or_else(|| Arc::new(Demand::new(id, workers))),
        settings: HostgroupSettings::of(&rows.variables, attributes(id)),
        is_overfull: false,
        preference: None,
        alarm: alarm.clone(),
    };
    // Clients that wait for servers of a hostgroup are queued in it: it stays when its last server is removed, and
    // a hostgroup that servers move to exists before them.
    let paired = rows.pairs().flat_map(|pair| [pair.writers, pair.readers]);
    let clustered = rows.clusters().flat_map(ClusterRow::hostgroups);
    let before = previous.into_iter().flat_map(|previous| previous.hostgroups.keys().copied());
    let mut hostgroups: BTreeMap<HostgroupId, Hostgroup> = BTreeMap::new();
    for id in paired.chain(clustered).chain(before) {
        hostgroups.entry(id).or_insert_with(|| empty(id));
    }
    let mut compiled: Vec<Arc<Server>> = Vec::with_capacity(rows.servers.len());
    for row in &rows.servers {
        let hostgroup = hostgroups.entry(row.hostgroup).or_insert_with(|| empty(row.hostgroup));
        let same = |server: &&Arc<Server>| server.row.hostname == row.hostname && server.row.port == row.port;
        let before = known(row.hostgroup).and_then(|known| known.servers.iter().find(same));
        let known_as = before.or_else(|| all_servers(previous).chain(&compiled).find(same));
        let server = Arc::new(compile_server(row, rows, known_as.map(|server| &**server)));
        compiled.push(Arc::clone(&server));
        hostgroup.servers.push(server);
    }
    hostgroups.into_iter().map(|(id, hostgroup)| (id, Arc::new(hostgroup.complete()))).collect()
}

/// The servers of all hostgroups.
fn all_servers(snapshot: Option<&Snapshot>) -> impl Iterator<Item = &Arc<Server>> {
    snapshot
        .into_iter()
        .flat_map(|snapshot| snapshot.hostgroups.values())
        .flat_map(|hostgroup| &hostgroup.servers)
}

/// The server of a row; `known` is the same server in the previous configuration, or, if it was not in this hostgroup, in
/// another one.
fn compile_server(row: &ServerRow, rows: &Rows, known: Option<&Server>) -> Server {
    let before = known.filter(|known| known.row.hostgroup == row.hostgroup);
    let mut server = Server::new(row.clone(), rows.tls.clone());
    server.addresses = rows.names.of(&server.row.hostname, server.row.port);
    server.said_zone = rows.said_zones.get(&server.address()).cloned();
    if server.row.status.drains() {
        let since = before.and_then(|before| before.drains_since);
        server.drains_since = since.or_else(|| Some(Instant::now()));
    }
    if let Some(before) = before {
        let status = (before.row.status, server.row.status);
        let was_down = matches!(status.0, ServerStatus::Unreachable | ServerStatus::Gone);
        let is_back = was_down && status.1 == ServerStatus::Online;
        server.back_since = if is_back { Some(Instant::now()) } else { before.back_since };
        server.figures = Arc::clone(&before.figures);
    } else if let Some(twin) = known {
        server.figures = Arc::new(ServerFigures::of_twin(twin));
    }
    server
}

/// The rules for a purpose, which are those of before if nothing has changed: workers' caches about them, and their hits,
/// are kept.
fn compile_rules(
    purpose: Purpose,
    rows: &Rows,
    before: Option<&Arc<RuleSet>>,
) -> Result<Arc<RuleSet>, CompileError> {
    let iterations = rows.variables.query_processor_iterations;
    let same = |before: &&Arc<RuleSet>| before.is_of(purpose, &rows.rules, &rows.fast_routing, iterations);
    if let Some(before) = before.filter(same) {
        return Ok(Arc::clone(before));
    }
    let compiled = RuleSet::compile_as(purpose, &rows.rules, &rows.fast_routing, iterations);
    compiled.map(Arc::new).map_err(|(rule_id, source)| CompileError::Rule { rule_id, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{hostgroup_attributes, server, user};

    #[test]
    fn a_hostgroup_outlives_its_last_server() {
        let rows = |servers| Rows { servers, ..Rows::default() };
        let first = Snapshot::compile(rows(vec![server(0, "a", 1)]), 2, None).unwrap();
        let second = Snapshot::compile(rows(Vec::new()), 2, Some(&first)).unwrap();
        let third = Snapshot::compile(rows(vec![server(0, "b", 1)]), 2, Some(&second)).unwrap();
        let group = HostgroupId(0);
        assert!(second.hostgroups[&group].servers.is_empty());
        assert!(Arc::ptr_eq(&first.hostgroups[&group].demand, &third.hostgroups[&group].demand));
    }

    #[test]
    fn a_server_that_is_reached_is_back_in_its_hostgroup_or_in_all_of_them() {
        use crate::hostgroup::ShunLimits;

        let now = Duration::from_secs(1);
        let back = |unshun_algorithm| {
            let variables = Variables { unshun_algorithm, ..Variables::default() };
            let servers = vec![server(0, "a", 1), server(1, "a", 1), server(2, "a", 2), server(2, "b", 1)];
            let rows = Rows { variables, servers, ..Rows::default() };
            let snapshot = Snapshot::compile(rows, 1, None).unwrap();
            for server in snapshot.hostgroups.values().flat_map(|hostgroup| &hostgroup.servers) {
                assert!(server.figures.shun.failed(ShunLimits { failures: 1, rest: None }, now));
            }
            let reached = &snapshot.hostgroups[&HostgroupId(1)].servers[0];
            let back = snapshot.end_shuns(reached, now);
            assert!(snapshot.end_shuns(reached, now).is_empty(), "that is no news");
            back.iter().map(|server| (server.row.hostgroup.0, server.address())).collect::<Vec<_>>()
        };
        let a = |hostgroup| (hostgroup, "a:1".to_owned());
        assert_eq!(back(UnshunAlgorithm::OneByOne), [a(1)]);
        assert_eq!(back(UnshunAlgorithm::AllAtOnce), [a(1), a(0)]);
    }

    #[test]
    fn a_server_that_answers_again_is_back_since_then() {
        let rows = |status| Rows {
            servers: vec![ServerRow { status, ..server(0, "a", 1) }, server(0, "b", 2)],
            ..Rows::default()
        };
        let first = Snapshot::compile(rows(ServerStatus::Unreachable), 1, None).unwrap();
        let second = Snapshot::compile(rows(ServerStatus::Online), 1, Some(&first)).unwrap();
        let third = Snapshot::compile(rows(ServerStatus::Online), 1, Some(&second)).unwrap();
        let back = |snapshot: &Snapshot| -> Vec<Option<Instant>> {
            snapshot.hostgroups[&HostgroupId(0)].servers.iter().map(|server| server.back_since).collect()
        };
        assert_eq!(back(&first), [None, None]);
        assert!(back(&second)[0].is_some());
        assert_eq!(back(&second), back(&third));
    }

    #[test]
    fn only_settings_in_force_make_servers_report_gtids() {
        let tracks = |rows: Rows| Snapshot::compile(rows, 1, None).unwrap().tracks_gtids;
        let session = r#"{"causal_reads":"session"}"#.to_owned();
        let variables = |causal_reads| Variables { causal_reads, ..Variables::default() };
        assert!(!tracks(Rows::default()));
        assert!(tracks(Rows { variables: variables(CausalReads::User), ..Rows::default() }));
        for active in [false, true] {
            let user = UserRow { active, attributes: session.clone().into(), ..user("app", "app") };
            assert_eq!(tracks(Rows { users: vec![user], ..Rows::default() }), active);
            let activity = if active { Activity::InForce } else { Activity::DryRun };
            let rule = RuleRow { active: activity, attributes: session.clone().into(), ..RuleRow::default() };
            assert_eq!(tracks(Rows { rules: vec![rule], ..Rows::default() }), active);
            let gtid_from_hostgroup = Some(HostgroupId(0));
            let rule = RuleRow { active: activity, gtid_from_hostgroup, ..RuleRow::default() };
            assert_eq!(tracks(Rows { rules: vec![rule], ..Rows::default() }), active);
            let row = hostgroup_attributes(if active { 0 } else { 1 }, &session);
            let (servers, hostgroup_attributes) = (vec![server(0, "a", 1)], vec![row]);
            assert_eq!(tracks(Rows { servers, hostgroup_attributes, ..Rows::default() }), active);
        }
    }

    #[test]
    fn figures_of_a_server_go_on_in_the_next_snapshot() {
        let rows = || Rows { servers: vec![server(0, "a", 1), server(0, "b", 2)], ..Rows::default() };
        let first = Snapshot::compile(rows(), 2, None).unwrap();
        let second = Snapshot::compile(rows(), 2, Some(&first)).unwrap();
        let group = HostgroupId(0);
        let (before, after) = (&first.hostgroups[&group], &second.hostgroups[&group]);
        assert!(Arc::ptr_eq(&before.demand, &after.demand));
        assert!(Arc::ptr_eq(&before.servers[1].figures, &after.servers[1].figures));
    }
}
