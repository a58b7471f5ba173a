//! Which switchovers can be made, and with which statements.

use super::*;

fn address(name: &str) -> Address {
    Address { hostname: name.to_owned(), port: 3306 }
}

fn facts(version: &str, id: u32, source: Option<u32>) -> Facts {
    let is_mysql = !version.contains("MariaDB");
    let uuid = |id: u32| if is_mysql { format!("u{id}") } else { String::new() };
    let channel = |id: u32| Channel {
        source_id: id.to_string(),
        source_uuid: uuid(id),
        source_host: format!("db{id}"),
        source_port: 3306,
        user: "repl".to_owned(),
        io_runs: true,
        sql_runs: true,
        behind_s: Some(0),
        uses_gtids: true,
        ..Channel::default()
    };
    Facts {
        dialect: Dialect::of(version),
        version: version.to_owned(),
        server_id: id.to_string(),
        server_uuid: uuid(id),
        read_only: source.is_some(),
        super_read_only: source.is_some() && is_mysql,
        log_bin: true,
        log_updates: true,
        has_gtids: true,
        report_host: String::new(),
        report_port: 0,
        channels: source.map(channel).into_iter().collect(),
        grants: vec!["GRANT ALL PRIVILEGES ON *.* TO `monitor`@`%`".to_owned()],
    }
}

fn members(version: &str) -> Members {
    let member =
        |name: &str, id, source| PairMember { address: address(name), facts: Ok(facts(version, id, source)) };
    Members {
        old: member("db1", 1, None),
        new: member("db2", 2, Some(1)),
        others: vec![member("db3", 3, Some(1)), member("db4", 4, Some(3))],
        found_login: None,
        trial: Trial::Works,
    }
}

fn wish() -> Wish {
    Wish {
        hostgroup: HostgroupId(10),
        within: Duration::from_secs(5),
        longest_wait: Duration::from_secs(10),
        login: Some(("repl".to_owned(), "s'ecret".to_owned())),
    }
}

fn statements(plan: &SwitchoverPlan) -> Vec<String> {
    plan.lines().iter().map(|line| format!("{}: {}", line.server, line.statement)).collect()
}

#[test]
fn every_statement_of_mysql_is_shown_in_order_and_no_password() {
    let plan = SwitchoverPlan::new(wish(), &members("9.7.0")).unwrap();
    assert_eq!(
        statements(&plan),
        [
            "db1:3306: SELECT @@GLOBAL.gtid_executed",
            "db2:3306: SELECT WAIT_FOR_EXECUTED_GTID_SET('<position_of_db1:3306>', 5.0)",
            "narrows: HOLD HOSTGROUP 10, until nothing runs there, for up to 3000 ms",
            "db1:3306: SET GLOBAL super_read_only = 1",
            "db1:3306: SELECT @@GLOBAL.gtid_executed",
            "db2:3306: SELECT WAIT_FOR_EXECUTED_GTID_SET('<position_of_db1:3306>', 2.0)",
            "db2:3306: SET GLOBAL read_only = 0",
            "narrows: db2:3306 is the writer of hostgroup 10, db1:3306 a reader",
            "narrows: RELEASE HOSTGROUP 10",
            "db2:3306: STOP REPLICA",
            "db2:3306: RESET REPLICA ALL",
            "db2:3306: RESET PERSIST IF EXISTS super_read_only",
            "db2:3306: RESET PERSIST IF EXISTS read_only",
            "db1:3306: SET PERSIST super_read_only = 1",
            "db1:3306: CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'db2', SOURCE_PORT = 3306, SOURCE_USER = 'repl', \
             SOURCE_PASSWORD = '***', SOURCE_SSL = 0, GET_SOURCE_PUBLIC_KEY = 0, SOURCE_AUTO_POSITION = 1",
            "db1:3306: START REPLICA",
            "db3:3306: STOP REPLICA",
            "db3:3306: CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'db2', SOURCE_PORT = 3306, SOURCE_AUTO_POSITION = 1",
            "db3:3306: START REPLICA",
        ]
    );
    assert_eq!(
        (plan.old.restore, plan.new.restore),
        ("SET GLOBAL read_only = 0", "SET GLOBAL super_read_only = 1")
    );
}

#[test]
fn mariadb_has_its_own_statements() {
    let plan = SwitchoverPlan::new(wish(), &members("11.8.2-MariaDB")).unwrap();
    let lines = statements(&plan);
    for expected in [
        "db1:3306: SET GLOBAL read_only = 1",
        "db2:3306: SELECT MASTER_GTID_WAIT('<position_of_db1:3306>', 2.000)",
        "db1:3306: SET GLOBAL gtid_slave_pos = '<position_of_db1:3306>'",
        "db3:3306: CHANGE MASTER TO MASTER_HOST = 'db2', MASTER_PORT = 3306, MASTER_USE_GTID = slave_pos",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected}: {lines:#?}");
    }
    assert_eq!(plan.new.restore, "SET GLOBAL read_only = 1");
}

type Edit = fn(&mut Facts, &mut Facts);

/// Each edit of the facts of the two servers makes a switchover impossible, for this reason.
fn are_refused(cases: &[(Edit, &str)]) {
    for (change, reason) in cases {
        let mut members = members("9.7.0");
        let Members { old, new, .. } = &mut members;
        change(old.facts.as_mut().unwrap(), new.facts.as_mut().unwrap());
        assert_eq!(SwitchoverPlan::new(wish(), &members).unwrap_err(), *reason);
    }
    let mut members = members("9.7.0");
    members.new.facts = Err("refused".to_owned());
    assert_eq!(SwitchoverPlan::new(wish(), &members).unwrap_err(), "db2:3306 cannot be asked: refused");
}

#[test]
fn what_cannot_be_made_is_refused_with_the_reason() {
    let cases: &[(Edit, &str)] = &[
        (|old, _| old.read_only = true, "db1:3306 is in the writer hostgroup, and is read-only"),
        (
            |_, new| new.channels[0].sql_runs = false,
            "the replication of db2:3306 does not run: it was stopped",
        ),
        (
            |_, new| new.channels[0].behind_s = Some(31),
            "the lag of db2:3306 is 31 s: a switchover waits for 30 s",
        ),
        (|_, new| new.channels[0].behind_s = None, "db2:3306 does not know its lag"),
        (
            |_, new| new.channels[0].uses_gtids = false,
            "db2:3306 does not replicate by GTID; use NARROWS HOLD and a tool",
        ),
        (
            |_, new| new.channels.push(Channel::default()),
            "db2:3306 replicates from 2 sources: use NARROWS HOLD and a tool",
        ),
        (
            |_, new| new.log_updates = false,
            "db2:3306 has no binary log with all that it replicates (log_bin, log_replica_updates)",
        ),
        (|old, _| old.has_gtids = false, "db1:3306 has no GTIDs (gtid_mode); use NARROWS HOLD and a tool"),
        (
            |old, _| old.grants = vec!["GRANT USAGE ON *.* TO `m`@`%`".to_owned()],
            "the account of the monitor lacks SYSTEM_VARIABLES_ADMIN, REPLICATION_SLAVE_ADMIN, REPLICATION CLIENT, RELOAD on db1:3306",
        ),
        (|_, new| new.dialect = Dialect::MariaDb, "db1:3306 has version 9.7.0 and db2:3306 9.7.0"),
        (
            |old, _| {
                old.channels.push(Channel {
                    io_runs: true,
                    source_host: "up".to_owned(),
                    ..Channel::default()
                })
            },
            "db1:3306 replicates from up:0: it is no primary",
        ),
    ];
    are_refused(cases);
}

#[test]
fn a_server_that_does_not_follow_the_primary_is_refused_with_the_reason() {
    let cases: &[(Edit, &str)] = &[
        (|_, new| new.channels.clear(), "db2:3306 is no replica of db1:3306: it replicates nothing"),
        (
            |_, new| new.channels[0].source_uuid = "u9".to_owned(),
            "db2:3306 is no replica of db1:3306: it replicates from db1:3306 with server_uuid u9, and server_uuid of db1:3306 is u1",
        ),
        (
            |_, new| {
                let failing =
                    Channel { io_runs: true, error: "Access denied".to_owned(), ..new.channels[0].clone() };
                new.channels =
                    vec![Channel { source_id: "0".to_owned(), source_uuid: String::new(), ..failing }];
            },
            "db2:3306 is to replicate from db1:3306, and has not connected there: Access denied",
        ),
        (
            |_, new| {
                let never =
                    Channel { source_host: "db1".to_owned(), source_port: 3306, ..Channel::default() };
                new.channels = vec![never];
            },
            "db2:3306 is to replicate from db1:3306, and has not connected there: its replication is stopped",
        ),
        (
            |_, new| new.channels[0].delay_s = 3600,
            "db2:3306 applies everything 3600 s late, because its replication is so configured (SOURCE_DELAY): set that to 0 first",
        ),
    ];
    are_refused(cases);
}

#[test]
fn the_account_of_replication_is_found_or_asked_for() {
    let nobody = Wish { login: None, ..wish() };
    let reason = SwitchoverPlan::new(nobody.clone(), &members("9.7.0")).unwrap_err();
    assert!(reason.starts_with("nothing says how db1:3306 is to log in to db2:3306"), "{reason}");
    let found = Members { found_login: Some(("found".to_owned(), "x".to_owned())), ..members("9.7.0") };
    assert_eq!(SwitchoverPlan::new(nobody.clone(), &found).unwrap().source.login, found.found_login);
    assert_eq!(SwitchoverPlan::new(wish(), &found).unwrap().source.login, wish().login);
    let denied = Members { trial: Trial::Fails("Access denied".to_owned()), ..members("9.7.0") };
    let reason = SwitchoverPlan::new(wish(), &denied).unwrap_err();
    let expected =
        "db1:3306 could not replicate from db2:3306 with the account repl, which was tried: Access denied. ";
    assert!(reason.starts_with(expected), "{reason}");
    let unknown = Members { trial: Trial::Unknown("it hides".to_owned()), ..members("9.7.0") };
    let note = "whether db1:3306 can log in to db2:3306 as a replica is not known: it hides";
    assert_eq!(SwitchoverPlan::new(wish(), &unknown).unwrap().notes, [note]);
    let mut left = members("9.7.0");
    let stopped = Channel { user: "repl".to_owned(), ..Channel::default() };
    left.old.facts.as_mut().unwrap().channels = vec![stopped];
    assert_eq!(SwitchoverPlan::new(nobody, &left).unwrap().source.login, None);
}

#[test]
fn servers_that_cannot_follow_are_told_of() {
    let mut members = members("9.7.0");
    members.others[0].facts = Err("timed out".to_owned());
    members.new.facts.as_mut().unwrap().report_host = "two.example.org".to_owned();
    let plan =
        SwitchoverPlan::new(Wish { longest_wait: Duration::from_secs(1), ..wish() }, &members).unwrap();
    assert!(plan.followers.is_empty());
    assert_eq!(
        plan.notes,
        [
            "db3:3306 cannot be asked, and continues replicating as it does: timed out",
            "clients wait for 1000 ms at most, and the switchover may take 5000 ms: some may get error 9001",
        ]
    );
    assert_eq!(plan.source.host, "two.example.org");
}
