//! What runs, written and read back.

use narrows_proxy::rt;
use narrows_proxy::snapshot::{CheckType, HostgroupId};

use super::tests::Fixture;
use super::*;
use crate::holds::Holds;
use crate::monitor::finding::{Behind, Finding, Lag, MeasuredLag, Reach};
use crate::monitor::placement::Known;
use crate::monitor::plan::Address;
use crate::monitor::role::{RoleReport, ServerRole};
use crate::schema::{Layer, MODULES, Module};

fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    for statement in [
        "INSERT INTO mysql_servers (hostgroup_id, hostname, port, weight) VALUES (1, 'a', 3307, 7), (2, '/x', 0, 1)",
        "INSERT INTO mysql_replication_hostgroups VALUES (1, 2, 'innodb_read_only', 'c')",
        "INSERT INTO mysql_users (username, password, default_hostgroup) VALUES ('app', 'x', 1), ('\u{e9}', NULL, 2)",
        "INSERT INTO mysql_query_rules (rule_id, active, match_digest, apply) VALUES (5, 1, '^SELECT', 1), (6, 0, 'x', 1)",
        "INSERT INTO mysql_firewall_whitelist_users VALUES (1, 'app', '', 'DETECTING', '')",
        "UPDATE global_variables SET variable_value = '77' WHERE variable_name = 'mysql-max_connections'",
        "UPDATE global_variables SET variable_value = 'false' WHERE variable_name = 'mysql-multiplexing'",
    ] {
        fixture.done(statement);
    }
    for module in MODULES {
        assert!(fixture.load(module).is_empty());
    }
    fixture
}

#[test]
fn what_ran_runs_again() {
    let mut fixture = fixture();
    let frozen = Frozen::read(&fixture.store.freeze(&Known::default(), &Holds::default())).unwrap();
    assert_eq!(*frozen.rows(), fixture.store.rows());
    assert_eq!(frozen.variables(), fixture.store.variables());
    assert_eq!(frozen.running.tables, fixture.store.running.tables);
    assert_eq!(frozen.rows().users.len(), 2);
    assert_eq!(frozen.rows().variables.max_connections, 77);
}

#[test]
fn a_store_beside_what_runs_has_the_layers_of_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let opening = Opening { datadir: folder.path(), file: None, start: Start::Usual, uuid: None };
    let frozen = {
        let mut store = Store::open(opening).unwrap();
        let insert = "INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, 'saved')";
        store.sql(insert).unwrap();
        store.copy(Module::MysqlServers, Layer::Memory, Layer::Disk).unwrap();
        let insert = "INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, 'loaded')";
        store.sql(insert).unwrap();
        let candidate = store.candidate(&[Module::MysqlServers]).unwrap();
        store.accept(candidate).unwrap();
        let insert = "INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, 'edited')";
        store.sql(insert).unwrap();
        store.sql("DELETE FROM mysql_servers WHERE hostname = 'saved'").unwrap();
        store.sql("INSERT INTO mysql_users (username, active) VALUES ('unused', 0)").unwrap();
        store.sql("UPDATE global_variables SET variable_value = '77' WHERE variable_name = 'mysql-max_connections'").unwrap();
        Frozen::read(&store.freeze(&Known::default(), &Holds::default())).unwrap()
    };
    let mut store = Store::open_beside(opening, &frozen).unwrap();
    let names = |store: &mut Store, table: &str| {
        let query = format!("SELECT hostname FROM {table} ORDER BY hostname");
        store.refresh_runtime(&query).unwrap();
        super::tests::rows(store.sql(&query).unwrap()).concat()
    };
    assert_eq!(names(&mut store, "mysql_servers"), ["edited", "loaded"]);
    assert_eq!(names(&mut store, "disk.mysql_servers"), ["saved"]);
    assert_eq!(names(&mut store, "runtime_mysql_servers"), ["loaded", "saved"]);
    let in_memory = "SELECT username, active FROM mysql_users
                     UNION ALL SELECT variable_name, variable_value FROM global_variables WHERE variable_name = 'mysql-max_connections'";
    let rows = super::tests::rows(store.sql(in_memory).unwrap()).concat();
    assert_eq!(rows, ["unused", "0", "mysql-max_connections", "77"]);
    assert!(store.remarks.is_empty(), "{:?}", store.remarks);
}

#[test]
fn a_store_beside_a_process_that_kept_no_memory_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let opening = Opening { datadir: folder.path(), file: None, start: Start::Usual, uuid: None };
    let frozen = {
        let mut store = Store::open(opening).unwrap();
        let written = store.freeze(&Known::default(), &Holds::default());
        let mut written: serde_json::Value = serde_json::from_slice(&written).unwrap();
        written.as_object_mut().unwrap().remove("memory");
        Frozen::read(written.to_string().as_bytes()).unwrap()
    };
    let store = Store::open_beside(opening, &frozen).unwrap();
    assert!(store.remarks.iter().any(|remark| remark.contains("edits are lost")), "{:?}", store.remarks);
}

#[test]
fn what_is_known_of_servers_is_kept() {
    let address = |name: &str| Address { hostname: name.to_owned(), port: 3306 };
    let found = |role| RoleReport::found(role, rt::Instant::now());
    let mut known = Known::default();
    for finding in [
        Finding::Reach(address("down"), Reach::Unreachable),
        Finding::Role(address("primary"), CheckType::Either, found(ServerRole::Writer)),
        Finding::Role(address("replica"), CheckType::ReadOnly, found(ServerRole::Reader)),
        Finding::Lag(
            address("late"),
            HostgroupId(3),
            Lag::TooMuch,
            MeasuredLag { behind: Behind::Unknown, limit_s: 1 },
        ),
    ] {
        assert!(known.learn(&finding));
    }
    let frozen = Frozen::read(&fixture().store.freeze(&known, &Holds::default())).unwrap();
    assert_eq!(frozen.known().to_json(), known.to_json());
    let roles = &frozen.known().roles;
    assert!(roles.is_writer(&address("primary"), CheckType::Either));
    assert_eq!(roles.role(&address("replica"), CheckType::ReadOnly), Some(ServerRole::Reader));
}

#[test]
fn other_bytes_are_refused_with_a_reason() {
    assert!(matches!(Frozen::read(b"{"), Err(FrozenError::Syntax(_))));
    assert!(matches!(Frozen::read(br#"{"form":99}"#), Err(FrozenError::Form { found: 99 })));
    assert!(matches!(Frozen::read(br#"{"form":1}"#), Err(FrozenError::Lacks("variables"))));
}
