//! The modules that are loaded and saved together, and the layers between which they move.

use super::table::Database;

/// What one LOAD or SAVE moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Module {
    /// Servers, hostgroups and TLS parameters.
    MysqlServers,
    /// Accounts, and whose tokens they take.
    MysqlUsers,
    /// Query rules and fast routing.
    MysqlQueryRules,
    /// Variables `mysql-`.
    MysqlVariables,
    /// Variables `admin-`.
    AdminVariables,
    /// The whitelists.
    MysqlFirewall,
    /// Programs to run at intervals.
    Scheduler,
    /// Scripts to run for HTTP requests.
    Restapi,
    /// Nodes of a cluster.
    ProxysqlServers,
}

/// A layer that can hold a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The file `narrows.db`.
    Disk,
    /// The tables that operators edit.
    Memory,
    /// The running configuration.
    Runtime,
    /// The configuration file.
    ConfigFile,
}

/// Every module, in the order in which a start loads them to runtime: the others depend on variables.
pub const MODULES: [Module; 9] = [
    Module::AdminVariables,
    Module::MysqlVariables,
    Module::MysqlServers,
    Module::MysqlUsers,
    Module::MysqlQueryRules,
    Module::MysqlFirewall,
    Module::Scheduler,
    Module::Restapi,
    Module::ProxysqlServers,
];

impl Module {
    /// Its tables.
    pub fn tables(self) -> &'static [&'static str] {
        match self {
            Module::MysqlServers => &[
                "mysql_servers",
                "mysql_replication_hostgroups",
                "mysql_group_replication_hostgroups",
                "mysql_galera_hostgroups",
                "mysql_aws_aurora_hostgroups",
                "mysql_hostgroup_attributes",
                "mysql_servers_ssl_params",
            ],
            Module::MysqlUsers => &["mysql_users", "narrows_token_issuers"],
            Module::MysqlQueryRules => &["mysql_query_rules", "mysql_query_rules_fast_routing"],
            Module::MysqlVariables | Module::AdminVariables => &["global_variables"],
            Module::MysqlFirewall => &[
                "mysql_firewall_whitelist_users",
                "mysql_firewall_whitelist_rules",
                "mysql_firewall_whitelist_sqli_fingerprints",
            ],
            Module::Scheduler => &["scheduler"],
            Module::Restapi => &["restapi_routes"],
            Module::ProxysqlServers => &["proxysql_servers"],
        }
    }

    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Module::AdminVariables => "ADMIN VARIABLES",
            Module::MysqlVariables => "MYSQL VARIABLES",
            Module::MysqlServers => "MYSQL SERVERS",
            Module::MysqlUsers => "MYSQL USERS",
            Module::MysqlQueryRules => "MYSQL QUERY RULES",
            Module::MysqlFirewall => "MYSQL FIREWALL",
            Module::Scheduler => "SCHEDULER",
            Module::Restapi => "RESTAPI",
            Module::ProxysqlServers => "PROXYSQL SERVERS",
        }
    }

    /// The prefix of its variables' names, if it consists of variables.
    pub fn prefix(self) -> Option<&'static str> {
        match self {
            Module::MysqlVariables => Some("mysql-"),
            Module::AdminVariables => Some("admin-"),
            _ => None,
        }
    }

    /// The SQL condition for the rows of its tables that belong to it.
    pub(crate) fn condition(self) -> String {
        self.prefix().map_or("1".to_owned(), |prefix| format!("variable_name LIKE '{prefix}%'"))
    }

    /// Its rows in `runtime_checksums_values`.
    pub(crate) fn checksums(self) -> &'static [&'static str] {
        match self {
            Module::AdminVariables => &["admin_variables"],
            Module::MysqlQueryRules => &["mysql_query_rules"],
            Module::MysqlServers => &["mysql_servers", "mysql_servers_v2"],
            Module::MysqlUsers => &["mysql_users"],
            Module::MysqlVariables => &["mysql_variables"],
            Module::ProxysqlServers => &["proxysql_servers"],
            Module::MysqlFirewall | Module::Scheduler | Module::Restapi => &[],
        }
    }
}

impl Layer {
    /// The database of its tables, for the layers that are tables.
    pub(crate) fn database(self) -> Option<Database> {
        match self {
            Layer::Disk => Some(Database::Disk),
            Layer::Memory => Some(Database::Main),
            Layer::Runtime | Layer::ConfigFile => None,
        }
    }
}
