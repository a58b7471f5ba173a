//! SET: a variable in memory, or something that drivers set and that has no effect.

use super::sql::sql;
use super::verb::{Call, Parts, Verb, Who};
use crate::admin::reply::Reply;
use crate::admin::statement::{beyond_an_expression, literal};
use crate::config::nearest::nearest;
use crate::store::{Answer, Role, Warning};
use crate::variables::VARIABLES;

macro_rules! ignored {
    ($who:ident: $($pattern:literal),* $(,)?) => {
        &[$(Verb {
            pattern: $pattern,
            who: Who::$who,
            run: |_, _| Some(Reply::ok()),
            doc: "Accepted, without effect: there are no transactions, no character sets and no locks here.",
        },)*]
    };
}

/// Statements that are accepted from everybody.
pub const IGNORED: &[Verb] = ignored!(Everybody:
    "SET NAMES*", "SET AUTOCOMMIT*", "SET CHARACTER_SET_RESULTS*", "SET SQL_AUTO_IS_NULL*", "SET SQL_SAFE_UPDATES=1*",
    "BEGIN*", "START TRANSACTION*", "COMMIT*", "ROLLBACK*",
);

/// Statements that are accepted from full users.
pub const IGNORED_OF_ADMINS: &[Verb] = ignored!(Admin:
    "SET SQL_QUOTE_SHOW_CREATE=1", "SET SESSION CHARACTER_SET_RESULTS*", "USE <name>", "LOCK TABLES*", "UNLOCK TABLES*",
    "/*!40014 SET*", "/*!40100 SET @@SQL_MODE=''*", "/*!40101 SET*", "/*!40103 SET*", "/*!40111 SET*",
    "/*!50112 SET*", "/*!50112 PREPARE*", "/*!50112 EXECUTE*", "/*!50112 DEALLOCATE*", "/*!50503 SET*",
    "/*!50717 SET*", "/*!50717 SELECT*", "/*!50717 PREPARE*", "/*!50717 EXECUTE*", "/*!50717 DEALLOCATE*",
    "/*!80000 SET*", "/*!40000 ALTER TABLE*",
);

pub const VERBS: &[Verb] = &[Verb {
    pattern: "SET <assignment...>",
    who: Who::Everybody,
    run: variable,
    doc: "Sets a variable in memory; `LOAD MYSQL VARIABLES TO RUNTIME` puts it into effect.",
}];

/// Drivers set variables of servers, and receive an OK as from ProxySQL. A misspelt name of ours, or one written like a
/// server's (`GLOBAL mysql-max_connections`, `mysql_max_connections`), comes from an operator, who gets a warning.
fn unknown(name: &str) -> Reply {
    let info = format!("ERROR: Unknown global variable: '{name}'.");
    let Some(meant) = ours(name) else {
        return Reply::Answer(Answer::Done { affected: 0, info, warnings: Vec::new() });
    };
    let mut message = format!("Unknown variable '{name}': nothing was set");
    if let Some(nearest) = nearest(&meant, VARIABLES.iter().map(|variable| variable.name)) {
        message.push_str(&format!("; '{nearest}' may be meant"));
    }
    let warnings = vec![Warning { code: UNKNOWN_VARIABLE, message }];
    Reply::Answer(Answer::Done { affected: 0, info, warnings })
}

/// The name without a server's scope prefix, if it is meant to be one of ours.
fn ours(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let scopes = ["global ", "session ", "local ", "persist ", "@@global.", "@@session.", "@@local.", "@@"];
    let bare = scopes.iter().find_map(|scope| lower.strip_prefix(scope)).unwrap_or(&lower).trim_start();
    ["mysql", "admin"].iter().find_map(|module| {
        let rest = bare.strip_prefix(module)?;
        rest.strip_prefix(['-', '_']).map(|rest| format!("{module}-{rest}"))
    })
}

/// `ER_UNKNOWN_SYSTEM_VARIABLE`
const UNKNOWN_VARIABLE: u16 = 1193;

fn variable(parts: &mut Parts<'_>, call: &Call<'_>) -> Option<Reply> {
    let assignment = call.statement.sql.get("SET".len()..)?.trim_start();
    let (name, value) = assignment.split_once('=').unwrap_or((assignment, ""));
    let (name, value) = (name.trim(), value.trim());
    if !VARIABLES.iter().any(|variable| variable.name == name) {
        return Some(unknown(name));
    }
    if name == "mysql-init_connect" {
        return Some(Reply::error(
            "ERROR: Global variable 'mysql-init_connect' is not configurable using SET command. You must run UPDATE \
             global_variables",
        ));
    }
    let update =
        format!("UPDATE global_variables SET variable_value={value} WHERE variable_name={}", literal(name));
    // A statistics user may not set anything: the UPDATE below is refused with the reason.
    if let Some(word) = beyond_an_expression(value).filter(|_| call.caller.role == Role::Admin) {
        // EXPLAIN gets SQLite's error message without executing the statement.
        let refused = parts.store.sql(&format!("EXPLAIN {update}")).err();
        let reply = || Reply::error(format!("near \"{word}\": syntax error"));
        return Some(refused.map_or_else(reply, Reply::Refused));
    }
    Some(sql(parts, call.caller, &update))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_names_of_ours_however_they_are_written() {
        for name in [
            "mysql-max_connections",
            "GLOBAL mysql-max_connections",
            "@@mysql-max_connections",
            "@@global.mysql_max_connections",
            "MySQL_max_connections",
        ] {
            assert_eq!(ours(name).as_deref(), Some("mysql-max_connections"), "{name}");
        }
        assert_eq!(ours("admin-x").as_deref(), Some("admin-x"));
        for name in
            ["max_connections", "GLOBAL max_connections", "@@sql_mode", "mysqlx", "SESSION sql_log_bin"]
        {
            assert_eq!(ours(name), None, "{name}");
        }
    }
}
