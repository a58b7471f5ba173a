//! What is probably a mistake, which row it is about, and which modules it depends on.

use narrows_proxy::snapshot::{JsonColumn, JsonKey, flaws};

use crate::config::diagnostic::Problem;
use crate::monitor::cluster::ClusterKind;
use crate::schema::Module;

/// Something that is probably a mistake.
pub(crate) struct LikelyMistake {
    /// The row: its table, its index, and the column.
    pub(super) place: Place,
    pub problem: Problem,
}

/// A table, the index of a row in it, and a column.
pub(super) type Place = (Of, usize, &'static str);

/// The subject of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Servers,
    Pairs,
    Clusters(ClusterKind),
    HostgroupAttributes,
    SslParams,
    Users,
    Rules,
    FastRouting,
    FirewallUsers,
    FirewallRules,
    /// A variable; its full name takes the place of the column.
    Variables,
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
pub(super) struct Search {
    scope: Scope,
    pub found: Vec<LikelyMistake>,
}

/// The modules that a finding may depend on.
pub(super) const VARIABLES: &[Module] = &[Module::MysqlVariables];
pub(super) const SERVERS: &[Module] = &[Module::MysqlServers];
pub(super) const SERVERS_ON_VARIABLES: &[Module] = &[Module::MysqlServers, Module::MysqlVariables];
pub(super) const USERS: &[Module] = &[Module::MysqlUsers];
pub(super) const USERS_ON_SERVERS: &[Module] = &[Module::MysqlUsers, Module::MysqlServers];
pub(super) const USERS_ON_VARIABLES: &[Module] = &[Module::MysqlUsers, Module::MysqlVariables];
pub(super) const USERS_ON_ALL: &[Module] =
    &[Module::MysqlUsers, Module::MysqlServers, Module::MysqlVariables];
pub(super) const RULES: &[Module] = &[Module::MysqlQueryRules];
pub(super) const RULES_ON_USERS: &[Module] = &[Module::MysqlQueryRules, Module::MysqlUsers];
pub(super) const RULES_ON_SERVERS: &[Module] = &[Module::MysqlQueryRules, Module::MysqlServers];
pub(super) const RULES_ON_VARIABLES: &[Module] = &[Module::MysqlQueryRules, Module::MysqlVariables];

/// Why nothing is logged.
pub(super) const NO_LOG: &str =
    "the query log has no file (mysql-eventslog_filename), no other output, and no buffer";
pub(super) const RULES_ON_ALL: &[Module] =
    &[Module::MysqlQueryRules, Module::MysqlUsers, Module::MysqlServers, Module::MysqlVariables];
pub(super) const FIREWALL: &[Module] = &[Module::MysqlFirewall, Module::MysqlVariables];

impl Search {
    /// A search for the requested findings.
    pub fn new(scope: Scope) -> Search {
        Search { scope, found: Vec::new() }
    }

    /// Whether findings that depend on `modules` are requested.
    pub fn is_for(&self, modules: &[Module]) -> bool {
        match self.scope {
            Scope::All => true,
            Scope::Loaded(module) => modules.contains(&module),
        }
    }

    /// Adds a finding that depends on `modules`, if such findings are requested.
    pub fn add(&mut self, modules: &[Module], place: Place, problem: impl FnOnce() -> Problem) {
        if self.is_for(modules) {
            self.found.push(LikelyMistake { place, problem: problem() });
        }
    }

    /// Adds that `row` has no effect, as [`Search::add`] does.
    pub fn add_idle(
        &mut self,
        modules: &[Module],
        place: Place,
        row: impl FnOnce() -> String,
        why: &'static str,
    ) {
        self.add(modules, place, || Problem::RowNoEffect { row: row(), why });
    }

    /// Adds what is not read in a JSON column.
    pub fn add_keys_not_read(
        &mut self,
        modules: &[Module],
        place: Place,
        row: impl Fn() -> String,
        (keys, column): (&[JsonKey], &JsonColumn),
    ) {
        if !self.is_for(modules) {
            return;
        }
        for (key, flaw) in flaws(keys, column) {
            let key = key.map(|key| format!(" `{key}`")).unwrap_or_default();
            let name = format!("{}{key}", place.2);
            self.add(modules, place, || Problem::NotAsWritten { row: row(), name, flaw });
        }
    }
}
