//! The narrows.toml that fits a running sandbox.

use std::fmt::Write;

use super::record::{Flavour, Form, Record};

/// A configuration with the classic read/write split: writes, locks and everything in a transaction go to the primary
/// (hostgroup 0), other reads to the replicas (hostgroup 1).
pub fn narrows_toml(record: &Record, listen: &str, admin: &str) -> String {
    let mut toml = format!("# Read/write split over the sandbox in {}\n\n", record.dir.display());
    let mut line = |text: &str| writeln!(toml, "{text}").expect("writing to a String cannot fail");
    line(&format!("[admin_variables]\nmysql_ifaces = \"{admin}\"\n"));
    line(&format!("[mysql_variables]\ninterfaces = \"{listen}\""));
    line("# Drivers choose their statements by the version in the greeting.");
    line(&format!("server_version = \"{}\"", greeting_version(record)));
    let table = match record.form {
        Form::Replication => None,
        Form::Galera => Some("mysql_galera_hostgroups"),
        Form::GroupReplication => Some("mysql_group_replication_hostgroups"),
    };
    if record.form == Form::Galera {
        line("monitor_galera_healthcheck_interval = 1000");
    } else if record.form == Form::GroupReplication {
        line("monitor_groupreplication_healthcheck_interval = 1000");
    }
    if let Some(table) = table {
        line(&format!("\n[[{table}]]\nwriter_hostgroup = 0\nreader_hostgroup = 1"));
        line("backup_writer_hostgroup = 2\noffline_hostgroup = 3");
        line("# Nodes that could be written to are read from, unless they are written to.");
        line("writer_is_also_reader = 2");
    }
    let replicas_exist = record.servers.len() > 1;
    for server in &record.servers {
        line(&format!("\n[[mysql_servers]] # {}", server.name));
        line(&format!("hostgroup = {}", u8::from(server.is_replica() && table.is_none())));
        line(&format!("address = \"127.0.0.1\"\nport = {}", server.port));
    }
    for user in record.users.iter().filter(|user| ["app", "sbtest"].contains(&user.name.as_str())) {
        line(&format!("\n[[mysql_users]]\nusername = \"{}\"\npassword = \"{}\"", user.name, user.password));
        line("default_hostgroup = 0");
    }
    if replicas_exist {
        line(
            "\n# Locks are taken on the primary. The rule matches the text, because a long digest is truncated.",
        );
        line(&format!("[[mysql_query_rules]]\nrule_id = 1\nmatch_pattern = '{LOCKING_READ}'"));
        line("destination_hostgroup = 0\napply = 1");
        line(&format!("\n[[mysql_query_rules]]\nrule_id = 2\nmatch_pattern = '{USER_LOCK}'"));
        line("destination_hostgroup = 0\napply = 1");
        line(&format!("\n[[mysql_query_rules]]\nrule_id = 3\nmatch_pattern = '{WRITING_READ}'"));
        line("destination_hostgroup = 0\napply = 1");
        line("\n[[mysql_query_rules]]\nrule_id = 4\nmatch_digest = '^SELECT'");
        line("destination_hostgroup = 1\napply = 1");
    }
    toml
}

/// `FOR UPDATE`, `FOR SHARE` and `LOCK IN SHARE MODE`, whatever follows them, even with line breaks or comments between
/// the words.
const LOCKING_READ: &str = r"FOR(\s|/\*[^*]*\*/)+(UPDATE|SHARE)|SHARE(\s|/\*[^*]*\*/)+MODE";

/// Functions that take or query user-level locks.
const USER_LOCK: &str = "(GET|RELEASE|IS_FREE|IS_USED)_LOCK|RELEASE_ALL_LOCKS";

/// A `SELECT` that writes: sequence values, which are consumed (and `LASTVAL`, which only the connection that consumed
/// one knows), and files, which are expected on one server and not on just any replica.
const WRITING_READ: &str =
    r"(NEXT|SET|LAST)VAL|(NEXT|PREVIOUS)(\s|/\*[^*]*\*/)+VALUE|INTO(\s|/\*[^*]*\*/)+(OUTFILE|DUMPFILE)";

/// The version as the servers send it in their greeting: MariaDB 10 prefixes 5.5.5, for old replicas.
fn greeting_version(record: &Record) -> String {
    match record.flavour {
        Flavour::MariaDb if record.version.starts_with("10.") => format!("5.5.5-{}-MariaDB", record.version),
        Flavour::MariaDb => format!("{}-MariaDB", record.version),
        Flavour::MySql => record.version.clone(),
    }
}
