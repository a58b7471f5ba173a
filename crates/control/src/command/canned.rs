//! What drivers and tools query when they connect, answered as ProxySQL does: they are written for servers, and accept
//! these answers.

use super::sql::sql;
use super::verb::{Call, Parts, Verb, Who};
use crate::admin::reply::Reply;
use crate::admin::statement::{literal, quoted_name, unquoted};
use crate::store::Role;
use crate::variables::VERSION;

pub const VERBS: &[Verb] = &[
    probe("SELECT @@VERSION_COMMENT LIMIT 1", Who::Everybody, |_, _| {
        one("'(ProxySQL Admin Module)'", "(ProxySQL Admin Module)")
    }),
    probe("SELECT @@VERSION*", Who::Everybody, |_, _| one("@@version", VERSION)),
    probe("SELECT VERSION()*", Who::Everybody, |_, _| one("version()", VERSION)),
    probe("SELECT CONCAT(@@VERSION, ' ', @@VERSION_COMMENT)*", Who::Everybody, |_, _| {
        let text = format!("{VERSION} Admin Module");
        one(&format!("'{text}'"), &text)
    }),
    probe("SELECT DATABASE()", Who::Everybody, |_, call| one("DATABASE()", database(call))),
    probe("SELECT DATABASE() AS <name>", Who::Everybody, |_, call| {
        one(&unquoted(call.word(0)), database(call))
    }),
    probe("SELECT DATABASE(), USER() LIMIT 1", Who::Everybody, |_, call| {
        let row = vec!["admin".to_owned(), call.caller.user.clone()];
        Some(Reply::rows(["DATABASE()", "USER()"], vec![row]))
    }),
    probe("SELECT USER()", Who::Everybody, |_, call| one("user()", &account(call))),
    probe("SELECT CURRENT_USER()", Who::Everybody, |_, call| one("current_user()", &account(call))),
    probe("SELECT CONNECTION_ID()", Who::Everybody, |_, _| one("CONNECTION_ID()", "0")),
    probe("SELECT @@SQL_MODE", Who::Everybody, |_, _| one("@@sql_mode", "")),
    probe("SELECT @@MAX_ALLOWED_PACKET", Who::Everybody, |parts, call| {
        let value = match call.caller.role {
            Role::Admin => parts.store.variable("mysql-max_allowed_packet").unwrap_or_default(),
            Role::Stats => "4194304".to_owned(),
        };
        one("@@max_allowed_packet", &value)
    }),
    probe("SELECT @@GLOBAL.READ_ONLY", Who::Everybody, |parts, _| {
        one("@@global.read_only", if parts.store.is_read_only() { "1" } else { "0" })
    }),
    probe("SHOW GLOBAL VARIABLES LIKE 'READ_ONLY'", Who::Everybody, |parts, _| {
        variable("read_only", if parts.store.is_read_only() { "ON" } else { "OFF" })
    }),
    probe("SHOW GLOBAL VARIABLES LIKE 'VERSION'", Who::Everybody, |_, _| variable("version", VERSION)),
    probe("SELECT @@COLLATION_DATABASE", Who::Everybody, |_, _| {
        one("@@collation_database", "utf8_general_ci")
    }),
    probe(
        "SELECT @@MAX_ALLOWED_PACKET, @@CHARACTER_SET_CLIENT, @@CHARACTER_SET_CONNECTION, @@LICENSE, @@SQL_MODE, \
         @@LOWER_CASE_TABLE_NAMES",
        Who::Everybody,
        |_, _| {
            let names = [
                "max_allowed_packet",
                "character_set_client",
                "character_set_connection",
                "license",
                "sql_mode",
                "lower_case_table_names",
            ];
            let values = ["67108864", "utf8", "utf8", "", "", ""];
            Some(Reply::rows(names.map(|name| format!("@@{name}")), vec![values.map(str::to_owned).to_vec()]))
        },
    ),
    probe(
        "SELECT @@CHARACTER_SET_CLIENT, @@CHARACTER_SET_CONNECTION, @@CHARACTER_SET_SERVER, \
         @@CHARACTER_SET_DATABASE LIMIT 1",
        Who::Everybody,
        |_, _| {
            let names = ["client", "connection", "server", "database"];
            let columns = names.map(|name| format!("@@character_set_{name}"));
            Some(Reply::rows(columns, vec![vec!["utf8".to_owned(); 4]]))
        },
    ),
    probe("SELECT TIMEDIFF(NOW(), UTC_TIMESTAMP())", Who::Everybody, |_, _| {
        // Times of the admin interface are in UTC. The name is truncated as in ProxySQL.
        one("TIMEDIFF(NOW(), UTC_TIMESTAMP()", "00:00:00")
    }),
    probe(
        "SHOW VARIABLES WHERE VARIABLE_NAME IN ('MAX_ALLOWED_PACKET','SYSTEM_TIME_ZONE','TIME_ZONE','SQL_MODE')",
        Who::Everybody,
        |_, _| connector(("sql_mode", "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION")),
    ),
    probe(
        "SHOW VARIABLES WHERE VARIABLE_NAME IN \
         ('MAX_ALLOWED_PACKET','SYSTEM_TIME_ZONE','TIME_ZONE','AUTO_INCREMENT_INCREMENT')",
        Who::Everybody,
        |_, _| connector(("auto_increment_increment", "1")),
    ),
    probe("SHOW STATUS LIKE 'BINLOG_SNAPSHOT_GTID_EXECUTED'", Who::Admin, |_, _| {
        Some(Reply::rows(["Variable_name", "Value"], Vec::new()))
    }),
    probe(
        "SELECT COLUMN_NAME, JSON_EXTRACT(HISTOGRAM, '$.\"NUMBER-OF-BUCKETS-SPECIFIED\"')*",
        Who::Admin,
        |_, _| {
            let columns = ["COLUMN_NAME", "JSON_EXTRACT(HISTOGRAM, '$.\"number-of-buckets-specified\"')"];
            Some(Reply::rows(columns, Vec::new()))
        },
    ),
    probe("SELECT $$", Who::Everybody, |parts, _| {
        // Clients of 8.1 and later query whether `$$` begins a routine's body.
        let version = parts.store.variable("mysql-server_version").unwrap_or_default();
        let (code, text) = match version.starts_with("8.1") {
            true => (1064, "You have an error in your SQL syntax"),
            false => (1054, "Unknown column '$$' in 'field list'"),
        };
        Some(Reply::refused(code, "28000", format!("ProxySQL Admin Error: {text}")))
    }),
    probe("SELECT <name>", Who::Everybody, any_variable),
];

const fn probe(pattern: &'static str, who: Who, run: fn(&mut Parts<'_>, &Call<'_>) -> Option<Reply>) -> Verb {
    Verb { pattern, who, run, doc: "A question that drivers ask." }
}

fn one(column: &str, value: &str) -> Option<Reply> {
    Some(Reply::rows([column], vec![vec![value.to_owned()]]))
}

fn variable(name: &str, value: &str) -> Option<Reply> {
    Some(Reply::rows(["Variable_name", "Value"], vec![vec![name.to_owned(), value.to_owned()]]))
}

/// What MariaDB Connector/J queries; the second one depends on its version.
fn connector(second: (&str, &str)) -> Option<Reply> {
    let rows =
        [("max_allowed_packet", "4194304"), second, ("system_time_zone", "UTC"), ("time_zone", "SYSTEM")];
    let row = |(name, value): (&str, &str)| vec![name.to_owned(), value.to_owned()];
    Some(Reply::rows(["Variable_name", "Value"], rows.map(row).to_vec()))
}

fn database(call: &Call<'_>) -> &'static str {
    match call.caller.role {
        Role::Admin => "admin",
        Role::Stats => "stats",
    }
}

fn account(call: &Call<'_>) -> String {
    format!("{}@{}", call.caller.user, call.caller.host)
}

/// `SELECT @@name`: a variable, or otherwise a figure of `stats_mysql_global`; no row if it is neither.
fn any_variable(parts: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    let name = call.word(0).strip_prefix("@@")?;
    if let Some((_scope, _name)) = name.split_once('.') {
        // There are no scopes here; this tells drivers so.
        return Some(Reply::error("near \".\": syntax error"));
    }
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')) {
        return None;
    }
    let (column, value) = (quoted_name(&format!("@@{name}")), literal(name));
    let query = format!(
        "SELECT variable_value AS {column} FROM global_variables WHERE variable_name={value} COLLATE NOCASE UNION \
         SELECT Variable_Value FROM stats_mysql_global WHERE Variable_Name={value} COLLATE NOCASE LIMIT 1"
    );
    Some(sql(parts, call.caller, &query))
}
