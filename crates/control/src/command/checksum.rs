//! CHECKSUM: whether two tables, layers or nodes have the same rows.

use super::verb::{Call, Parts, Verb, Who};
use crate::admin::reply::Reply;
use crate::schema::{Layer, Module};

pub const VERBS: &[Verb] = &[
    Verb {
        pattern: "CHECKSUM <tables...>",
        who: Who::Everybody,
        run: checksum,
        doc: "`CHECKSUM [DISK|MEMORY|MEM] MYSQL SERVERS|USERS|QUERY RULES|VARIABLES|...`: equal when the rows are.",
    },
    Verb {
        pattern: "SELECT GLOBAL_CHECKSUM()",
        who: Who::Admin,
        run: |parts, _| {
            Some(Reply::rows(["CHECKSUM"], vec![vec![parts.store.global_checksum().to_string()]]))
        },
        doc: "One number for everything that nodes share.",
    },
];

/// What can be requested: its name, its module, its table, and whether it is also on disk.
const SUBJECTS: &[(&str, Module, &str, Disk)] = &[
    ("MYSQL SERVERS", Module::MysqlServers, "mysql_servers", Disk::Too),
    ("MYSQL USERS", Module::MysqlUsers, "mysql_users", Disk::Too),
    ("MYSQL QUERY RULES", Module::MysqlQueryRules, "mysql_query_rules", Disk::Too),
    ("MYSQL VARIABLES", Module::MysqlVariables, "global_variables", Disk::Too),
    ("MYSQL REPLICATION HOSTGROUPS", Module::MysqlServers, "mysql_replication_hostgroups", Disk::Too),
    (
        "MYSQL GROUP REPLICATION HOSTGROUPS",
        Module::MysqlServers,
        "mysql_group_replication_hostgroups",
        Disk::Never,
    ),
    ("MYSQL GALERA HOSTGROUPS", Module::MysqlServers, "mysql_galera_hostgroups", Disk::Never),
    ("MYSQL AURORA HOSTGROUPS", Module::MysqlServers, "mysql_aws_aurora_hostgroups", Disk::Never),
    ("MYSQL HOSTGROUP ATTRIBUTES", Module::MysqlServers, "mysql_hostgroup_attributes", Disk::Never),
    ("MYSQL SERVERS SSL PARAMS", Module::MysqlServers, "mysql_servers_ssl_params", Disk::Never),
];

/// Whether a table can be requested on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disk {
    Too,
    Never,
}

fn checksum(parts: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    let asked = call.word(0).to_ascii_uppercase();
    let (layer, name) = match asked.split_once(' ')? {
        ("DISK", name) => (Layer::Disk, name),
        ("MEMORY" | "MEM", name) => (Layer::Memory, name),
        _ => (Layer::Memory, asked.as_str()),
    };
    let (name, module, table, disk) = SUBJECTS.iter().find(|(subject, ..)| *subject == name)?;
    if layer == Layer::Disk && *disk == Disk::Never {
        return None;
    }
    Some(match parts.store.checksum(*module, table, layer) {
        Ok(checksum) => {
            Reply::rows(["table", "checksum"], vec![vec![(*name).to_owned(), checksum.to_string()]])
        }
        Err(refusal) => Reply::Refused(refusal),
    })
}
