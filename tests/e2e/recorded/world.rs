//! The servers, users and rules of the recording, and Narrows in front of them. During the recording, settings were
//! changed with admin statements; here Narrows is restarted whenever a record needs settings different from the last
//! one's.

use narrows_testkit::{FakeMysql, Flavour, Narrows, NarrowsConfig, RealServer, ServerOptions, scramble};

use crate::support::start;

/// The accounts of both sides: name, password, further columns of `mysql_users`.
const USERS: &[(&str, &str, &str)] = &[
    ("sbtest", "sbtest", ""),
    ("u_db", "p_db", "default_schema=\"db1\""),
    ("u_max1", "p_max1", "max_connections=1"),
    ("u_off", "p_off", "active=0"),
    ("u_nohg", "p_nohg", "default_hostgroup=99"),
    ("u_down", "p_down", "default_hostgroup=5"),
    ("u_ssl", "p_ssl", "use_ssl=1"),
    ("u_ntp", "p_ntp", "transaction_persistent=0"),
    ("u_hg1", "p_hg1", "default_hostgroup=1"),
    ("u_baddb", "p_baddb", "default_schema=\"nodb\""),
    ("u_nopw", "", ""),
    // Narrows only knows its hash.
    ("u_hash", "p_hash", ""),
    ("u_be", "mine", ""),
    ("u_nobe", "p_nobe", ""),
];

/// The data of the recording's servers.
const OBJECTS: &[&str] = &[
    "CREATE DATABASE db1",
    "CREATE DATABASE db2",
    "CREATE TABLE db1.t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(20))",
    "INSERT INTO db1.t VALUES (1,1,'x'),(2,2,'y'),(3,NULL,'z')",
    "CREATE TABLE db1.u (id INT UNIQUE)",
    "INSERT INTO db1.u VALUES (1)",
];

/// The recording's environment.
pub struct World {
    server: RealServer,
    narrows: Option<(Vec<(String, String)>, Narrows)>,
    down: u16,
}

impl World {
    pub fn new() -> World {
        let mut options = ServerOptions::new(Flavour::MariaDb).option("--max-allowed-packet=64M");
        for (user, password, _) in USERS {
            let password = match *user {
                "u_be" => "theirs",
                "u_nobe" => continue,
                _ => *password,
            };
            options
                .statements
                .push(format!("CREATE OR REPLACE USER '{user}'@'127.0.0.1' IDENTIFIED BY '{password}'"));
            options
                .statements
                .push(format!("GRANT ALL PRIVILEGES ON *.* TO '{user}'@'127.0.0.1' WITH GRANT OPTION"));
        }
        let server = options.start();
        server.execute(OBJECTS);
        World { server, narrows: None, down: FakeMysql::nobody() }
    }

    /// The server behind Narrows.
    pub fn server(&self) -> &RealServer {
        &self.server
    }

    /// Narrows with the settings of this record.
    pub fn narrows_for(&mut self, id: u64) -> &Narrows {
        let settings = settings(id);
        if self.narrows.as_ref().is_none_or(|(current, _)| *current != settings) {
            // The old one is stopped first: its rows in the server's tables are reused.
            self.narrows = None;
            let narrows = start(&self.config(&settings));
            self.narrows = Some((settings, narrows));
        }
        &self.narrows.as_ref().expect("just started").1
    }

    fn config(&self, settings: &[(String, String)]) -> NarrowsConfig {
        let port = self.server.port();
        let mut config = NarrowsConfig::new()
            .variable("connect_timeout_server_max", "2000")
            .server(0, port, "")
            .server(1, port, "")
            .server(5, self.down, "");
        for (user, password, more) in USERS {
            let password =
                if *user == "u_hash" { scramble::native_hash(password) } else { (*password).to_owned() };
            config = config.user(user, &password, more);
        }
        for (name, value) in settings {
            config = if name == "rules" { with_rules(config) } else { config.variable(name, value) };
        }
        config
    }
}

/// The settings of a record in addition to the common ones.
fn settings(id: u64) -> Vec<(String, String)> {
    let settings: &[(&str, &str)] = match id {
        5 => &[("enable_client_deprecate_eof", "false")],
        6..=12 => &[("default_authentication_plugin", "caching_sha2_password")],
        13 => &[("server_version", "5.7.44-log")],
        14 => &[("default_charset", "latin1"), ("default_collation_connection", "latin1_swedish_ci")],
        // No server can be had, and each waits for one.
        345..=349 => &[("rules", ""), ("connect_timeout_server_max", "200")],
        383..=385 => &[("rules", ""), ("max_allowed_packet", "8192")],
        463 => &[("rules", ""), ("enable_load_data_local_infile", "true")],
        474 => &[("rules", ""), ("connect_timeout_client", "1000")],
        321..=484 => &[("rules", "")],
        _ => &[],
    };
    settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The rules that the recording created before record 322, as far as they route or cache.
fn with_rules(config: NarrowsConfig) -> NarrowsConfig {
    config
        .rule("rule_id=1 active=1 match_pattern=\"HG1\" destination_hostgroup=1 apply=1")
        .rule("rule_id=5 active=1 match_pattern=\"NOHG\" destination_hostgroup=99 apply=1")
        .rule("rule_id=6 active=1 match_pattern=\"DOWNHG\" destination_hostgroup=5 apply=1")
        .rule("rule_id=9 active=1 match_pattern=\"CACHEME\" cache_ttl=60000 apply=1")
}
