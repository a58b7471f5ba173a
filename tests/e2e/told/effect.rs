//! Settings without effect: accepted, shown, and warned about wherever they are set.

use std::process::Command;

use narrows_testkit::{NarrowsConfig, TempFolder};

use super::{run, start, warnings};

#[test]
fn each_load_warns_of_what_has_no_effect() {
    let narrows = start(&NarrowsConfig::new().server(0, 1, "").user("app", "app", ""));
    let mut admin = narrows.admin();
    for (insert, load, expected) in [
        (
            "UPDATE mysql_servers SET gtid_port = 1234",
            "LOAD MYSQL SERVERS TO RUNTIME",
            "mysql_servers.gtid_port, set in 1 row, has no effect",
        ),
        (
            "INSERT INTO restapi_routes (timeout_ms, method, uri, script) VALUES (1000, 'GET', 'x', '/bin/true')",
            "LOAD RESTAPI TO RUNTIME",
            "restapi_routes (1 row) has no effect",
        ),
        (
            "INSERT INTO mysql_query_rules (rule_id, active, cache_timeout) VALUES (1, 1, 5), (2, 1, 5), (3, 0, 5)",
            "LOAD MYSQL QUERY RULES TO RUNTIME",
            "mysql_query_rules.cache_timeout, set in 2 rows, has no effect",
        ),
        (
            "UPDATE mysql_users SET attributes = '{\"no_such_key\": 1}'",
            "LOAD MYSQL USERS TO RUNTIME",
            "mysql_users.attributes `no_such_key`, set in 1 row, has no effect: there is no such key",
        ),
        (
            "SET mysql-verbose_query_error = 'true'",
            "LOAD MYSQL VARIABLES TO RUNTIME",
            "mysql-verbose_query_error has no effect",
        ),
        (
            "SET admin-web_enabled = true",
            "LOAD ADMIN VARIABLES TO RUNTIME",
            "admin-web_enabled has no effect",
        ),
    ] {
        assert_eq!(warnings(&mut admin, load), Vec::<String>::new(), "{load}");
        let skipped = narrows.log().len();
        run(&mut admin, &[insert]);
        // The second time it is not reported again, but it still has no effect.
        for _ in 0..2 {
            let found = warnings(&mut admin, load);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{load}: {found:?}");
        }
        narrows.wait_for_log(skipped, |log| log.contains(expected));
    }
}

#[test]
fn each_load_warns_of_rows_that_do_not_go_together() {
    let narrows = start(&NarrowsConfig::new().server(0, 1, "").user("app", "app", ""));
    let mut admin = narrows.admin();
    for (change, load, expected) in [
        (
            "INSERT INTO mysql_users (username, password, default_hostgroup) VALUES ('lost', 'x', 7)",
            "LOAD MYSQL USERS TO RUNTIME",
            "user \"lost\": hostgroup 7 has no server",
        ),
        (
            "INSERT INTO mysql_query_rules (rule_id, active, destination_hostgroup) VALUES (5, 1, 8)",
            "LOAD MYSQL QUERY RULES TO RUNTIME",
            "rule 5: destination hostgroup 8 has no server",
        ),
    ] {
        run(&mut admin, &[change]);
        assert_eq!(warnings(&mut admin, load), [expected]);
        // The server may be added later, and removed again.
        assert!(warnings(&mut admin, "LOAD MYSQL SERVERS TO RUNTIME").contains(&expected.to_owned()));
    }
    run(
        &mut admin,
        &[
            "INSERT INTO mysql_servers (hostgroup_id, hostname, port) VALUES (7, '127.0.0.1', 1), (8, '127.0.0.1', 1)",
        ],
    );
    assert_eq!(warnings(&mut admin, "LOAD MYSQL SERVERS TO RUNTIME"), Vec::<String>::new());
    run(
        &mut admin,
        &["UPDATE mysql_query_rules SET match_digest = 'a'", "LOAD MYSQL QUERY RULES TO RUNTIME"],
    );
    run(&mut admin, &["SET mysql-query_digests = false"]);
    let expected = "rule 5: digest and match_digest are ignored while mysql-query_digests is false; only other conditions apply";
    assert_eq!(warnings(&mut admin, "LOAD MYSQL VARIABLES TO RUNTIME"), [expected]);
    run(&mut admin, &["SET mysql-query_digests = true", "SET mysql-auto_read_write_split = true"]);
    let found = warnings(&mut admin, "LOAD MYSQL VARIABLES TO RUNTIME");
    let is_of = |user: &str| {
        let start = format!("user \"{user}\": auto_read_write_split has no effect: ");
        found.iter().any(|warning| warning.starts_with(&start))
    };
    assert!(found.len() == 2 && is_of("app") && is_of("lost"), "{found:?}");
}

#[test]
fn each_load_warns_of_values_that_are_accepted_and_do_nothing() {
    let narrows = start(&NarrowsConfig::new().server(0, 1, "").user("app", "app", ""));
    let mut admin = narrows.admin();
    for (change, load, expected, back) in [
        (
            "UPDATE mysql_users SET attributes = '{\"auto_read_write_split\":\"yes\"}'",
            "LOAD MYSQL USERS TO RUNTIME",
            "user \"app\": attributes `auto_read_write_split` is \"yes\": expected true or false",
            "UPDATE mysql_users SET attributes = ''",
        ),
        (
            "INSERT INTO mysql_users (username, password, frontend, backend) VALUES ('idle', 'x', 0, 0)",
            "LOAD MYSQL USERS TO RUNTIME",
            "mysql_users username='idle' backend=0: has no effect",
            "DELETE FROM mysql_users WHERE username = 'idle'",
        ),
        (
            "INSERT INTO mysql_query_rules (rule_id, active, client_addr) VALUES (1, 1, '10.0.0.0/99')",
            "LOAD MYSQL QUERY RULES TO RUNTIME",
            "rule 1: client_addr is \"10.0.0.0/99\", which no client meets",
            "DELETE FROM mysql_query_rules",
        ),
        (
            "INSERT INTO mysql_query_rules (rule_id, active, mirror_hostgroup) VALUES (2, 1, 7)",
            "LOAD MYSQL QUERY RULES TO RUNTIME",
            "rule 2: mirror hostgroup 7 has no server",
            "DELETE FROM mysql_query_rules",
        ),
        (
            "INSERT INTO mysql_query_rules (rule_id, active, gtid_from_hostgroup) VALUES (3, 1, 7)",
            "LOAD MYSQL QUERY RULES TO RUNTIME",
            "rule 3: gtid_from_hostgroup has no effect: that hostgroup has no server",
            "DELETE FROM mysql_query_rules",
        ),
        (
            "SET mysql-causal_reads = 'session'",
            "LOAD MYSQL VARIABLES TO RUNTIME",
            "mysql-causal_reads has no effect: no hostgroup is the reader_hostgroup of another one",
            "SET mysql-causal_reads = 'none'",
        ),
        (
            "INSERT INTO mysql_query_rules_fast_routing VALUES ('app', 's', 0, 8, '')",
            "LOAD MYSQL QUERY RULES TO RUNTIME",
            "mysql_query_rules_fast_routing: hostgroup 8 has no server",
            "DELETE FROM mysql_query_rules_fast_routing",
        ),
        (
            "SET mysql-auto_read_write_split_functions = 'f;g'",
            "LOAD MYSQL VARIABLES TO RUNTIME",
            "auto_read_write_split_functions: ignored: \"f;g\" is not a function name",
            "SET mysql-auto_read_write_split_functions = ''",
        ),
        (
            "INSERT INTO global_variables VALUES ('bogus', '1')",
            "LOAD ADMIN VARIABLES TO RUNTIME",
            "global_variables: \"bogus\": there is no such variable",
            "DELETE FROM global_variables WHERE variable_name = 'bogus'",
        ),
    ] {
        let skipped = narrows.log().len();
        run(&mut admin, &[change]);
        let found = warnings(&mut admin, load);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{load}: {found:?}");
        narrows.wait_for_log(skipped, |log| log.contains(expected));
        run(&mut admin, &[back]);
        assert_eq!(warnings(&mut admin, load), Vec::<String>::new(), "{back}");
    }
}

#[test]
fn nobody_who_could_log_in_and_no_server_are_warned_of() {
    let narrows = start(&NarrowsConfig::new().server(0, 1, "").user("app", "app", ""));
    let mut admin = narrows.admin();
    run(&mut admin, &["DELETE FROM mysql_users", "DELETE FROM mysql_servers"]);
    let found = warnings(&mut admin, "LOAD MYSQL USERS TO RUNTIME");
    assert_eq!(found, ["mysql_users has no active rows: no client can log in"]);
    let found = warnings(&mut admin, "LOAD MYSQL SERVERS TO RUNTIME");
    assert_eq!(found, ["mysql_servers has no rows: statements have nowhere to go"]);
}

#[test]
fn a_check_of_a_file_and_a_start_with_it_tell_what_has_no_effect() {
    let folder = TempFolder::new("told");
    let file = folder.file("narrows.cnf");
    let sections = "cluster_sync_interfaces = true\n\
                    admin_variables = { web_enabled = true }\n\
                    mysql_variables = { automatic_detect_sqli = true, poll_timeout = 500, multiplexing = false }\n\
                    mysql_servers = ( { address = \"a\", hostgroup = 0, gtid_port = 3310 } )\n\
                    mysql_users = ( { username = \"app\" } )\n\
                    proxysql_servers = ( { hostname = \"a\" } )\n\
                    scheduler = ( )\n";
    std::fs::write(&file, sections).expect("write the file");
    let output =
        Command::new(env!("CARGO_BIN_EXE_narrows")).arg("check").arg(&file).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    for (line, name) in [
        (1, "cluster_sync_interfaces"),
        (2, "admin-web_enabled"),
        (3, "mysql-automatic_detect_sqli"),
        (3, "mysql-poll_timeout"),
        (4, "gtid_port"),
        (6, "proxysql_servers"),
    ] {
        let begins = format!(":{line}:");
        let is_told =
            |told: &str| told.contains(&begins) && told.contains(&format!("warning: `{name}` has no effect"));
        assert!(said.lines().any(is_told), "{name}: {said}");
    }
    assert!(said.ends_with(" 0 errors, 6 warnings\n"), "{said}");

    let config = NarrowsConfig::new()
        .variable("automatic_detect_sqli", "true")
        .row("proxysql_servers", "hostname = \"a\"");
    let narrows = start(&config);
    for expected in [
        "mysql-automatic_detect_sqli has no effect",
        "proxysql_servers (1 row) has no effect",
        "mysql_users has no active rows",
    ] {
        let log = narrows.log();
        assert_eq!(log.matches(expected).count(), 1, "{expected}: {log}");
    }
}
