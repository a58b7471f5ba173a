//! The statements of a switchover, as each kind of server spells them. Pure.

use std::time::Duration;

use narrows_wire::charset::Family;

/// How a server spells what is about replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// MySQL since 8.0.23.
    MySql,
    /// MySQL before.
    OldMySql,
    /// MariaDB.
    MariaDb,
}

/// Where a replica is to replicate from, and how it logs in there. What is not given stays as it is on the replica.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewSource {
    /// The name of its host, as replicas know it.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The account, with its password.
    pub login: Option<(String, String)>,
    /// Whether the connection uses TLS; `None`: as before.
    pub tls: Option<bool>,
    /// Whether the source is asked for its RSA key; `None`: as before. MySQL only.
    pub asks_for_key: Option<bool>,
}

impl Dialect {
    /// That of a server with this version, as `SELECT VERSION()` has it.
    pub fn of(version: &str) -> Dialect {
        if version.contains("MariaDB") {
            return Dialect::MariaDb;
        }
        let number = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>().parse();
        let mut parts = version.split('.').map(|part| number(part).unwrap_or(0u32));
        let mut next = || parts.next().unwrap_or(0);
        if (next(), next(), next()) >= (8, 0, 23) { Dialect::MySql } else { Dialect::OldMySql }
    }

    /// Which family of servers it is.
    pub fn family(self) -> Family {
        match self {
            Dialect::MySql | Dialect::OldMySql => Family::MySql,
            Dialect::MariaDb => Family::MariaDb,
        }
    }

    /// What a server says about itself: names and values of [`super::facts::Facts`], one column each.
    pub fn facts(self) -> String {
        let log_updates = match self {
            Dialect::MySql => "log_replica_updates",
            Dialect::OldMySql | Dialect::MariaDb => "log_slave_updates",
        };
        let [uuid, super_read_only, gtid_mode] = match self {
            Dialect::MySql | Dialect::OldMySql => {
                ["@@GLOBAL.server_uuid", "@@GLOBAL.super_read_only", "@@GLOBAL.gtid_mode"]
            }
            Dialect::MariaDb => ["''", "'0'", "'ON'"],
        };
        format!(
            "SELECT @@GLOBAL.server_id AS server_id, {uuid} AS server_uuid, @@GLOBAL.read_only AS read_only, \
             {super_read_only} AS super_read_only, @@GLOBAL.log_bin AS log_bin, \
             @@GLOBAL.{log_updates} AS log_updates, {gtid_mode} AS gtid_mode, \
             @@GLOBAL.report_host AS report_host, @@GLOBAL.report_port AS report_port"
        )
    }

    /// What a server replicates.
    pub fn replica_status(self) -> &'static str {
        match self {
            Dialect::MySql => "SHOW REPLICA STATUS",
            Dialect::OldMySql => "SHOW SLAVE STATUS",
            Dialect::MariaDb => "SHOW ALL SLAVES STATUS",
        }
    }

    /// Everything that a primary has written to its binary log.
    pub fn position(self) -> &'static str {
        match self {
            Dialect::MySql | Dialect::OldMySql => "SELECT @@GLOBAL.gtid_executed",
            Dialect::MariaDb => "SELECT @@GLOBAL.gtid_binlog_pos",
        }
    }

    /// Waits until a replica has all of `position`: 0 if it has.
    pub fn wait_for(self, position: &str, limit: Duration) -> String {
        let position: String = position.split_whitespace().collect();
        let seconds = limit.as_secs_f64();
        match self {
            Dialect::MySql | Dialect::OldMySql => {
                format!("SELECT WAIT_FOR_EXECUTED_GTID_SET({}, {seconds:.1})", quoted(&position))
            }
            Dialect::MariaDb => format!("SELECT MASTER_GTID_WAIT({}, {seconds:.3})", quoted(&position)),
        }
    }

    /// Makes a server refuse writes.
    pub fn forbid_writes(self) -> &'static str {
        match self {
            Dialect::MySql | Dialect::OldMySql => "SET GLOBAL super_read_only = 1",
            Dialect::MariaDb => "SET GLOBAL read_only = 1",
        }
    }

    /// Whether a server refuses writes of ordinary accounts.
    pub fn is_read_only(self) -> &'static str {
        "SELECT @@GLOBAL.read_only"
    }

    /// Makes a server take writes. On MySQL this ends `super_read_only` too.
    pub fn allow_writes(self) -> &'static str {
        "SET GLOBAL read_only = 0"
    }

    /// What makes a server refuse writes after a restart as well; MariaDB has no such statement.
    pub fn forbid_writes_for_good(self) -> &'static [&'static str] {
        match self {
            Dialect::MySql => &["SET PERSIST super_read_only = 1"],
            Dialect::OldMySql | Dialect::MariaDb => &[],
        }
    }

    /// What undoes that, so that the option file decides after a restart.
    pub fn forget_what_is_for_good(self) -> &'static [&'static str] {
        match self {
            Dialect::MySql => {
                &["RESET PERSIST IF EXISTS super_read_only", "RESET PERSIST IF EXISTS read_only"]
            }
            Dialect::OldMySql | Dialect::MariaDb => &[],
        }
    }

    /// Limits how long [`Dialect::forbid_writes`] waits for locks.
    pub fn limit_locks(self, limit: Duration) -> String {
        format!("SET SESSION lock_wait_timeout = {}", limit.as_secs().max(1))
    }

    /// The option of a replica that applies everything later.
    pub fn delay(self) -> &'static str {
        match self {
            Dialect::MySql => "SOURCE_DELAY",
            Dialect::OldMySql | Dialect::MariaDb => "MASTER_DELAY",
        }
    }

    /// Ends replication.
    pub fn stop(self) -> &'static str {
        match self {
            Dialect::MySql => "STOP REPLICA",
            Dialect::OldMySql | Dialect::MariaDb => "STOP SLAVE",
        }
    }

    /// Begins replication.
    pub fn start(self) -> &'static str {
        match self {
            Dialect::MySql => "START REPLICA",
            Dialect::OldMySql | Dialect::MariaDb => "START SLAVE",
        }
    }

    /// Forgets where a server has replicated from, so that it does not do so again after a restart.
    pub fn reset(self) -> &'static str {
        match self {
            Dialect::MySql => "RESET REPLICA ALL",
            Dialect::OldMySql | Dialect::MariaDb => "RESET SLAVE ALL",
        }
    }

    /// Tells a former primary which transactions it has; MySQL knows.
    pub fn begin_at(self, position: &str) -> Option<String> {
        let position: String = position.split_whitespace().collect();
        (self == Dialect::MariaDb).then(|| format!("SET GLOBAL gtid_slave_pos = {}", quoted(&position)))
    }

    /// Makes a server replicate from another one.
    pub fn change_source(self, source: &NewSource) -> String {
        let (statement, prefix) = match self {
            Dialect::MySql => ("CHANGE REPLICATION SOURCE TO", "SOURCE"),
            Dialect::OldMySql | Dialect::MariaDb => ("CHANGE MASTER TO", "MASTER"),
        };
        let mut parts = vec![
            format!("{prefix}_HOST = {}", quoted(&source.host)),
            format!("{prefix}_PORT = {}", source.port),
        ];
        if let Some((user, password)) = &source.login {
            parts.push(format!("{prefix}_USER = {}", quoted(user)));
            parts.push(format!("{prefix}_PASSWORD = {}", quoted(password)));
        }
        if let Some(tls) = source.tls {
            parts.push(format!("{prefix}_SSL = {}", u8::from(tls)));
        }
        if let (Some(asks), true) = (source.asks_for_key, self == Dialect::MySql) {
            parts.push(format!("GET_SOURCE_PUBLIC_KEY = {}", u8::from(asks)));
        }
        parts.push(match self {
            Dialect::MySql => "SOURCE_AUTO_POSITION = 1".to_owned(),
            Dialect::OldMySql => "MASTER_AUTO_POSITION = 1".to_owned(),
            Dialect::MariaDb => "MASTER_USE_GTID = slave_pos".to_owned(),
        });
        format!("{statement} {}", parts.join(", "))
    }

    /// The privileges that the account of the monitor needs for a switchover and does not have, as far as `SHOW GRANTS`
    /// says so: what a role has is not looked at.
    pub fn missing_privileges(self, grants: &[String]) -> Vec<&'static str> {
        let needed: &[(&'static str, &[&str])] = match self {
            Dialect::MySql | Dialect::OldMySql => &[
                ("SYSTEM_VARIABLES_ADMIN", &["SUPER"]),
                ("REPLICATION_SLAVE_ADMIN", &["SUPER"]),
                ("REPLICATION CLIENT", &["SUPER"]),
                ("RELOAD", &[]),
            ],
            Dialect::MariaDb => &[
                ("READ_ONLY ADMIN", &["SUPER", "READ ONLY ADMIN"]),
                ("REPLICATION SLAVE ADMIN", &["SUPER", "REPLICATION REPLICA ADMIN"]),
                ("SLAVE MONITOR", &["SUPER", "REPLICA MONITOR"]),
                ("RELOAD", &[]),
            ],
        };
        missing(grants, needed)
    }

    /// The privilege that the account of replication needs and does not have, as far as `SHOW GRANTS` says so.
    pub fn missing_to_replicate(self, grants: &[String]) -> Option<&'static str> {
        missing(grants, &[("REPLICATION SLAVE", &["REPLICATION REPLICA"])]).first().copied()
    }

    /// How many accounts of this name there are, and how many of them are for clients from here, with a space between. One that names
    /// a network counts always.
    pub fn accounts_for_us(self, user: &str) -> String {
        format!(
            "SELECT CONCAT(COUNT(*), ' ', \
             COALESCE(SUM(SUBSTRING_INDEX(USER(), '@', -1) LIKE Host OR Host LIKE '%/%'), 0)) \
             FROM mysql.user WHERE User = {}",
            quoted(user)
        )
    }
}

/// Which of these privileges, each with others that include it, `SHOW GRANTS` does not list.
fn missing(grants: &[String], needed: &[(&'static str, &[&str])]) -> Vec<&'static str> {
    let global: Vec<String> = grants.iter().map(|grant| grant.to_ascii_uppercase()).collect();
    if global.iter().any(|grant| !grant.contains(" ON ")) {
        return Vec::new();
    }
    let global: Vec<&str> = global
        .iter()
        .filter_map(|grant| grant.strip_prefix("GRANT ")?.split_once(" ON *.*"))
        .map(|it| it.0)
        .collect();
    let has = |wanted: &str| {
        let mut all = global.iter().flat_map(|grant| grant.split(',')).map(str::trim);
        all.any(|privilege| privilege == wanted || privilege == "ALL PRIVILEGES")
    };
    let lacks =
        |(name, others): &&(&'static str, &[&str])| !has(name) && !others.iter().any(|other| has(other));
    needed.iter().filter(lacks).map(|(name, _)| *name).collect()
}

/// A text as a literal.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart() {
        for (version, dialect) in [
            ("8.0.22", Dialect::OldMySql),
            ("8.0.23-log", Dialect::MySql),
            ("9.7.0", Dialect::MySql),
            ("5.7.44", Dialect::OldMySql),
            ("10.11.6-MariaDB-log", Dialect::MariaDb),
            ("11.8.2-MariaDB", Dialect::MariaDb),
        ] {
            assert_eq!(Dialect::of(version), dialect, "{version}");
        }
    }

    #[test]
    fn a_source_is_written_as_each_server_spells_it() {
        let source = NewSource { host: "db'2".to_owned(), port: 3307, ..NewSource::default() };
        let full = NewSource {
            login: Some(("repl".to_owned(), "it's\\".to_owned())),
            tls: Some(true),
            asks_for_key: Some(true),
            ..source.clone()
        };
        for (dialect, source, expected) in [
            (
                Dialect::MySql,
                &full,
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'db''2', SOURCE_PORT = 3307, SOURCE_USER = 'repl', \
                 SOURCE_PASSWORD = 'it''s\\\\', SOURCE_SSL = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_AUTO_POSITION = 1",
            ),
            (
                Dialect::OldMySql,
                &source,
                "CHANGE MASTER TO MASTER_HOST = 'db''2', MASTER_PORT = 3307, MASTER_AUTO_POSITION = 1",
            ),
            (
                Dialect::MariaDb,
                &source,
                "CHANGE MASTER TO MASTER_HOST = 'db''2', MASTER_PORT = 3307, MASTER_USE_GTID = slave_pos",
            ),
        ] {
            assert_eq!(dialect.change_source(source), expected);
        }
    }

    #[test]
    fn a_wait_has_the_whole_position_in_one_line() {
        let wait = |dialect: Dialect| dialect.wait_for("a:1-3,\nb:7", Duration::from_millis(1_500));
        assert_eq!(wait(Dialect::MySql), "SELECT WAIT_FOR_EXECUTED_GTID_SET('a:1-3,b:7', 1.5)");
        assert_eq!(wait(Dialect::MariaDb), "SELECT MASTER_GTID_WAIT('a:1-3,b:7', 1.500)");
    }

    #[test]
    fn an_account_of_replication_needs_one_privilege() {
        let missing = |grant: &str| Dialect::MySql.missing_to_replicate(&[grant.to_owned()]);
        assert_eq!(missing("GRANT USAGE ON *.* TO `repl`@`%`"), Some("REPLICATION SLAVE"));
        assert_eq!(missing("GRANT REPLICATION SLAVE ADMIN ON *.* TO `repl`@`%`"), Some("REPLICATION SLAVE"));
        assert_eq!(missing("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `repl`@`%`"), None);
        assert_eq!(missing("GRANT ALL PRIVILEGES ON *.* TO `repl`@`%`"), None);
    }

    #[test]
    fn missing_privileges_are_named() {
        let missing = |dialect: Dialect, grants: &[&str]| {
            dialect.missing_privileges(&grants.iter().map(|grant| (*grant).to_owned()).collect::<Vec<_>>())
        };
        let usage = "GRANT USAGE ON *.* TO `monitor`@`%`";
        let mysql = ["SYSTEM_VARIABLES_ADMIN", "REPLICATION_SLAVE_ADMIN", "REPLICATION CLIENT", "RELOAD"];
        assert_eq!(missing(Dialect::MySql, &[usage]), mysql);
        let some = "GRANT REPLICATION CLIENT ON *.* TO `monitor`@`%`";
        let more = "GRANT SYSTEM_VARIABLES_ADMIN,REPLICATION_SLAVE_ADMIN ON *.* TO `monitor`@`%`";
        let reload = "GRANT RELOAD ON *.* TO `monitor`@`%`";
        assert_eq!(missing(Dialect::MySql, &[some, reload]), &mysql[..2]);
        assert_eq!(missing(Dialect::MySql, &[some, more]), ["RELOAD"]);
        assert!(missing(Dialect::MySql, &[some, more, reload]).is_empty());
        assert!(missing(Dialect::MySql, &[usage, "GRANT `role`@`%` TO `monitor`@`%`"]).is_empty());
        assert!(
            missing(Dialect::MariaDb, &["GRANT ALL PRIVILEGES ON *.* TO `m`@`%` WITH GRANT OPTION"])
                .is_empty()
        );
        assert_eq!(
            missing(
                Dialect::MariaDb,
                &["GRANT SLAVE MONITOR ON *.* TO `m`@`%`", "GRANT ALL PRIVILEGES ON `a`.* TO `m`@`%`"]
            ),
            ["READ_ONLY ADMIN", "REPLICATION SLAVE ADMIN", "RELOAD"]
        );
    }
}
