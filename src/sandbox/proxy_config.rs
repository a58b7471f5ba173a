//! The narrows.toml that fits a running sandbox.

use std::fmt::Write;

use super::program::Flavour;
use super::record::Record;

/// A configuration with the classic split: writes and everything in a transaction on the primary (hostgroup 0),
/// other reads on the replicas (hostgroup 1).
pub fn narrows_toml(record: &Record, listen: &str, admin: &str) -> String {
    let mut toml = format!("# Read/write split over the sandbox in {}\n\n", record.dir.display());
    let mut line = |text: &str| writeln!(toml, "{text}").expect("writing to a String cannot fail");
    line(&format!("[admin_variables]\nmysql_ifaces = \"{admin}\"\n"));
    line(&format!("[mysql_variables]\ninterfaces = \"{listen}\""));
    line("# Drivers choose their statements by the version they are told.");
    line(&format!("server_version = \"{}\"", greeting_version(record)));
    let replicas_exist = record.servers.len() > 1;
    for server in &record.servers {
        line(&format!("\n[[mysql_servers]] # {}", server.name));
        line(&format!("hostgroup = {}", u8::from(server.is_replica())));
        line(&format!("address = \"127.0.0.1\"\nport = {}", server.port));
    }
    for user in record.users.iter().filter(|user| ["app", "sbtest"].contains(&user.name.as_str())) {
        line(&format!("\n[[mysql_users]]\nusername = \"{}\"\npassword = \"{}\"", user.name, user.password));
        line("default_hostgroup = 0");
    }
    if replicas_exist {
        line("\n[[mysql_query_rules]]\nrule_id = 1\nmatch_digest = \"^SELECT .*FOR UPDATE$\"");
        line("destination_hostgroup = 0\napply = 1");
        line("\n[[mysql_query_rules]]\nrule_id = 2\nmatch_digest = \"^SELECT\"");
        line("destination_hostgroup = 1\napply = 1");
    }
    toml
}

/// The version as the servers tell it in their greeting: MariaDB 10 puts a 5.5.5 in front, for replicas of old.
fn greeting_version(record: &Record) -> String {
    match record.flavour {
        Flavour::MariaDb if record.version.starts_with("10.") => format!("5.5.5-{}-MariaDB", record.version),
        Flavour::MariaDb => format!("{}-MariaDB", record.version),
        Flavour::MySql => record.version.clone(),
    }
}
