//! Pass-through: accounts that only the servers know log in through Narrows.

mod accounts;
mod attackers;
mod changes;
mod down;
mod matrix;
mod query;
mod warnings;

use narrows_testkit::{Endpoint, ErrorPacket, Login, Narrows, NarrowsConfig, RawClient};

/// Pass-through for all names, in front of a server.
fn config(port: u16) -> NarrowsConfig {
    let config = NarrowsConfig::new()
        .server(0, port, "")
        .variable("passthrough_auth_enabled", "true")
        .variable("passthrough_auth_unknown_users", "true")
        .variable("default_authentication_plugin", "caching_sha2_password");
    patient(config)
}

/// With time: many tests run at once, on however many cores there are.
fn patient(config: NarrowsConfig) -> NarrowsConfig {
    let limits = ["connect_timeout_client", "connect_timeout_server", "connect_timeout_server_max"];
    limits.into_iter().fold(config, |config, name| config.variable(name, "60000"))
}

/// Logs in over the Unix socket.
fn log_in(narrows: &Narrows, user: &str, password: &str) -> Result<RawClient, ErrorPacket> {
    log_in_with(narrows, &Login::new(user, password))
}

fn log_in_with(narrows: &Narrows, login: &Login) -> Result<RawClient, ErrorPacket> {
    let mut client = RawClient::connect(&Endpoint::Unix(narrows.socket()));
    client.login(login).map(|_| client)
}

/// The error of a login that fails.
fn refusal(narrows: &Narrows, user: &str, password: &str) -> (u16, String) {
    let error = log_in(narrows, user, password).err().unwrap_or_else(|| panic!("{user} has logged in"));
    (error.code, error.message)
}

/// A row of `SHOW NARROWS STATUS` about logins that were to be asked about.
fn asked(narrows: &Narrows, outcome: &str) -> u64 {
    let name = format!("Narrows_passthrough_auth_{outcome}");
    let rows = narrows.admin().query("SHOW NARROWS STATUS").text_rows();
    let row = rows.into_iter().find(|row| row[0].as_deref() == Some(&name));
    row.and_then(|row| row[1].as_deref()?.parse().ok()).unwrap_or_default()
}

/// The accounts that were found, with the state of each.
fn found(narrows: &Narrows) -> Vec<(String, String)> {
    let rows = narrows
        .admin()
        .query("SELECT username, status FROM stats_mysql_passthrough_auth_cache ORDER BY username")
        .text_rows();
    rows.into_iter()
        .map(|row| (row[0].clone().unwrap_or_default(), row[1].clone().unwrap_or_default()))
        .collect()
}
