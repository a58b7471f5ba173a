//! Settings that work in Narrows, but not as in ProxySQL: which ones a configuration has, and what is different.
//!
//! Settings without any effect are declared where they are defined (`effect`); what differs for every client, whatever
//! the configuration, is in `docs/compatibility.md`.

use rusqlite::Connection;

/// A setting that works differently.
pub(super) struct Difference {
    /// What the sentence begins with.
    pub setting: &'static str,
    /// How many rows in memory it concerns.
    pub count: &'static str,
    /// What is different.
    pub what: &'static str,
}

/// One row for each such setting.
#[rustfmt::skip]
pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        setting: "mysql_users.transaction_persistent = 0",
        count: "SELECT COUNT(*) FROM mysql_users WHERE active = 1 AND transaction_persistent = 0",
        what: "COMMIT and ROLLBACK end all open transactions of the session, on whatever servers they are, and not only the one where the statement is routed",
    },
    Difference {
        setting: "mysql_users.fast_forward = 1",
        count: "SELECT COUNT(*) FROM mysql_users WHERE active = 1 AND fast_forward = 1",
        what: "LOAD DATA LOCAL is refused, unless mysql-enable_load_data_local_infile is true",
    },
    Difference {
        setting: "mysql_users.frontend = 0",
        count: "SELECT COUNT(*) FROM mysql_users AS one WHERE active = 1 AND frontend = 0
                AND NOT EXISTS (SELECT 1 FROM mysql_users WHERE username = one.username AND frontend = 1)",
        what: "an account for servers only has no use: Narrows logs in to servers with the account of the client",
    },
    Difference {
        setting: "mysql_query_rules that send SELECT to other servers",
        count: "SELECT COUNT(*) FROM mysql_query_rules WHERE active = 1 AND destination_hostgroup IS NOT NULL
                AND COALESCE(match_digest, match_pattern, '') LIKE '%SELECT%' AND COALESCE(match_digest, match_pattern, '') NOT LIKE '%UPDATE%'",
        what: "a SELECT that takes a lock with GET_LOCK or sets a variable goes to the account's default_hostgroup all the same",
    },
    Difference {
        setting: "mysql_query_rules with digest",
        count: "SELECT COUNT(*) FROM mysql_query_rules WHERE active = 1 AND COALESCE(digest, '') <> ''",
        what: "a few statements have other digests than in ProxySQL (docs/compatibility.md, Digests): compare with stats_mysql_query_digest",
    },
    Difference {
        setting: "mysql_query_rules.multiplex",
        count: "SELECT COUNT(*) FROM mysql_query_rules WHERE active = 1 AND multiplex IS NOT NULL",
        what: "multiplex = 0 keeps the connection, but statements that are routed to another hostgroup still run there",
    },
    Difference {
        setting: "mysql-multiplexing = false",
        count: "SELECT COUNT(*) FROM global_variables WHERE variable_name = 'mysql-multiplexing' AND variable_value IN ('false', '0')",
        what: "a client keeps its connection, but statements that are routed to another hostgroup still run there",
    },
    Difference {
        setting: "mysql_hostgroup_attributes.multiplex = 0",
        count: "SELECT COUNT(*) FROM mysql_hostgroup_attributes WHERE multiplex = 0",
        what: "a client keeps its connection, but statements that are routed to another hostgroup still run there",
    },
    Difference {
        setting: "mysql_query_rules.cache_ttl where clients keep their connections",
        count: "SELECT COUNT(*) FROM mysql_query_rules WHERE active = 1 AND cache_ttl > 0
                AND (EXISTS (SELECT 1 FROM mysql_hostgroup_attributes WHERE multiplex = 0)
                     OR EXISTS (SELECT 1 FROM mysql_query_rules WHERE active = 1 AND multiplex = 0)
                     OR EXISTS (SELECT 1 FROM global_variables WHERE variable_name = 'mysql-multiplexing' AND variable_value IN ('false', '0')))",
        what: "the query cache is not used while a client keeps its connection",
    },
    Difference {
        setting: "mysql-wait_timeout",
        count: "SELECT COUNT(*) FROM global_variables WHERE variable_name = 'mysql-wait_timeout' AND variable_value <> '28800000'",
        what: "an idle client gets error 4031 before its connection is closed, and SET wait_timeout of a client counts",
    },
    Difference {
        setting: "mysql-connect_retries_on_failure",
        count: "SELECT COUNT(*) FROM global_variables WHERE variable_name = 'mysql-connect_retries_on_failure' AND variable_value <> '10'",
        what: "statements wait for mysql-connect_timeout_server_max instead, and error 9001 says why; it only limits mysql-shun_on_failures",
    },
    Difference {
        setting: "mysql-shun_on_failures",
        count: "SELECT COUNT(*) FROM global_variables WHERE variable_name = 'mysql-shun_on_failures' AND variable_value <> '5'",
        what: "the last working server of a hostgroup is never shunned, and error 1040 does not count",
    },
    Difference {
        setting: "mysql-shun_recovery_time_sec",
        count: "SELECT COUNT(*) FROM global_variables WHERE variable_name = 'mysql-shun_recovery_time_sec' AND variable_value <> '10'",
        what: "it is ignored while the hostgroup has no other server",
    },
    Difference {
        setting: "mysql-max_stmts_per_connection",
        count: "SELECT COUNT(*) FROM global_variables WHERE variable_name = 'mysql-max_stmts_per_connection' AND variable_value <> '20'",
        what: "beyond it the least recently used statement is closed, and not the connection",
    },
    Difference {
        setting: "mysql-eventslog_filename",
        count: "SELECT COUNT(*) FROM global_variables WHERE variable_name = 'mysql-eventslog_filename' AND variable_value <> ''",
        what: "the log is in JSON lines, whatever mysql-eventslog_format says",
    },
];

/// The sentences about the configuration in memory.
pub(super) fn found(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut found = Vec::new();
    for Difference { setting, count, what } in DIFFERENCES {
        let rows: i64 = connection.query_row(count, [], |row| row.get(0))?;
        if rows > 0 {
            let of = if setting.starts_with("mysql-") { String::new() } else { format!(" ({rows})") };
            found.push(format!("{setting}{of}: {what}"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Fixture;
    use super::*;

    #[test]
    fn every_difference_is_found_where_it_is_and_nowhere_else() {
        let mut fixture = Fixture::new();
        assert_eq!(found(&fixture.store.all.connection).unwrap(), Vec::<String>::new(), "the defaults");
        for (name, value) in [
            ("mysql-multiplexing", "false"),
            ("mysql-wait_timeout", "60000"),
            ("mysql-connect_retries_on_failure", "3"),
            ("mysql-shun_on_failures", "9"),
            ("mysql-shun_recovery_time_sec", "60"),
            ("mysql-max_stmts_per_connection", "50"),
            ("mysql-eventslog_filename", "queries"),
        ] {
            fixture.set(name, value);
        }
        fixture.done(
            "INSERT INTO mysql_users (username, transaction_persistent, fast_forward) VALUES ('a', 0, 1)",
        );
        fixture.done("INSERT INTO mysql_users (username, frontend) VALUES ('b', 0)");
        fixture.done(
            "INSERT INTO mysql_query_rules (rule_id, active, match_digest, destination_hostgroup, multiplex, digest, cache_ttl)
             VALUES (1, 1, '^SELECT', 2, 0, '0x1', 5)",
        );
        fixture.done("INSERT INTO mysql_hostgroup_attributes (hostgroup_id, multiplex) VALUES (1, 0)");
        let sentences = found(&fixture.store.all.connection).unwrap();
        assert_eq!(sentences.len(), DIFFERENCES.len(), "{sentences:#?}");
    }
}
