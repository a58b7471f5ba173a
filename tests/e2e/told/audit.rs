//! What administrators change is logged: who, from where, and what changed; passwords are not.

use narrows_testkit::NarrowsConfig;

use super::{run, start};

#[test]
fn the_log_tells_who_has_changed_what() {
    let narrows = start(&NarrowsConfig::new().server(0, 1, "").user("app", "secret-of-app", ""));
    let mut admin = narrows.admin();
    run(
        &mut admin,
        &[
            "INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, 'new'), (2, 'new')",
            "UPDATE mysql_servers SET weight = 5 WHERE hostgroup_id = 0",
            "INSERT INTO mysql_users (username, password) VALUES ('second', 'secret-of-second')",
            "LOAD MYSQL SERVERS TO RUNTIME",
            "LOAD MYSQL SERVERS TO RUNTIME",
            "DELETE FROM mysql_servers WHERE hostgroup_id = 2",
            "SAVE MYSQL SERVERS TO DISK",
            "SET mysql-max_connections = 123",
            "UPDATE global_variables SET variable_value = 'secret-of-monitor' WHERE variable_name = 'mysql-monitor_password'",
            "LOAD MYSQL VARIABLES TO RUNTIME",
            "PROXYSQL FLUSH QUERY CACHE",
            "SELECT * FROM mysql_users",
        ],
    );
    let refused = admin.query("LOAD MYSQL SERVERS FROM NOWHERE");
    assert!(refused.error().is_some());
    narrows.wait_for_log(0, |log| log.contains("FLUSH QUERY CACHE"));
    let log = narrows.log();
    for expected in [
        "an administrator has logged in user=\"admin\" role=Admin client=\"127.0.0.1\"",
        "mysql_servers 2 added",
        "mysql_servers 1 altered",
        "mysql_users 1 added by=\"admin@127.0.0.1:",
        "administrator: LOAD MYSQL SERVERS TO RUNTIME: mysql_servers 2 added (hostgroup_id=1 hostname='new' port=3306, \
         hostgroup_id=2 hostname='new' port=3306), 1 altered (hostgroup_id=0 hostname='127.0.0.1' port=1)",
        "administrator: LOAD MYSQL SERVERS TO RUNTIME: nothing has changed",
        "administrator: 1 statement: mysql_servers 1 removed",
        "administrator: SAVE MYSQL SERVERS TO DISK: mysql_servers 1 added (hostgroup_id=1 hostname='new' port=3306), 1 altered",
        "administrator: in memory: variables 1 altered (mysql-max_connections: '10000' -> '123')",
        "administrator: in memory: variables 1 altered (mysql-monitor_password: '***' -> '***')",
        "administrator: LOAD MYSQL VARIABLES TO RUNTIME: variables 2 altered (mysql-max_connections: '10000' -> '123', \
         mysql-monitor_password: '***' -> '***')",
        "administrator: PROXYSQL FLUSH QUERY CACHE",
    ] {
        assert!(log.contains(expected), "{expected}\n{log}");
    }
    assert!(!log.contains("secret-of"), "{log}");
}

#[test]
fn a_script_of_thousands_of_statements_leaves_few_lines() {
    let narrows = start(&NarrowsConfig::new());
    let mut admin = narrows.admin();
    for rule in 0..2_000 {
        run(&mut admin, &[&format!("INSERT INTO mysql_query_rules (rule_id, active) VALUES ({rule}, 0)")]);
    }
    for value in 0..300 {
        run(&mut admin, &[&format!("SET mysql-max_connections = {}", 1_000 + value)]);
    }
    narrows.wait_for_log(0, |log| log.contains("mysql_query_rules"));
    let lines = narrows.log().matches("administrator: ").count();
    // Two windows of 200 lines each, if the machine is slow.
    assert!(lines <= 650, "{lines} lines");
    let added = narrows.log();
    let added =
        added.lines().filter_map(|line| line.split_once("mysql_query_rules ")?.1.split_once(" added"));
    let added: u32 = added.map(|(rows, _)| rows.parse::<u32>().expect("a number")).sum();
    assert_eq!(added, 2_000);
}
