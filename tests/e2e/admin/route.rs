//! EXPLAIN ROUTE and SHOW PINS.

use narrows_testkit::{Flavour, NarrowsConfig, RealServer};

use super::{refusal, rows, start};

#[test]
fn a_route_is_explained_step_by_step() {
    let server = RealServer::shared(Flavour::MariaDb);
    let config = NarrowsConfig::in_front_of(server.port())
        .server(1, server.port(), "weight=5")
        .server(1, 1, "status=\"OFFLINE_SOFT\"")
        .rule("rule_id=7 active=1 match_digest=\"^SELECT\" destination_hostgroup=1 apply=1");
    let narrows = start(&config);
    let mut admin = narrows.admin();
    let lines = rows(&mut admin, "EXPLAIN ROUTE 'SELECT  name FROM t WHERE id = 5'");
    let line =
        |what: &str| lines.iter().find(|line| line[1] == what).unwrap_or_else(|| panic!("{what}: {lines:?}"));
    assert_eq!(line("digest")[3], "SELECT name FROM t WHERE id = ?");
    assert_eq!(line("rule")[2], "7");
    assert!(line("rule")[3].contains("destination_hostgroup=1"), "{lines:?}");
    assert_eq!(line("hostgroup")[2], "1");
    assert!(line("server")[2].contains(&format!(":{}", server.port())), "{lines:?}");
    assert!(line("server passed over")[2].contains("127.0.0.1:1 "), "{lines:?}");
    assert!(line("server passed over")[3].contains("OFFLINE_SOFT"), "{lines:?}");
    let update = rows(&mut admin, "EXPLAIN ROUTE 'UPDATE t SET a=1' AS sbtest SCHEMA db1;");
    assert!(update.iter().any(|line| line[1] == "hostgroup" && line[2] == "0"), "{update:?}");
    assert!(!update.iter().any(|line| line[1] == "rule"), "{update:?}");
    let locks = rows(&mut admin, "EXPLAIN ROUTE 'LOCK TABLES t READ'");
    assert!(locks.iter().any(|line| line[1] == "pins"), "{locks:?}");
    assert!(refusal(&admin.query("EXPLAIN ROUTE 'SELECT 1' AS nobody")).1.contains("nobody"));
}

#[test]
fn a_route_is_explained_for_a_client_that_is_described_by_columns_of_rules() {
    let server = RealServer::shared(Flavour::MariaDb);
    let config = NarrowsConfig::in_front_of(server.port())
        .rule("rule_id=7 active=1 client_addr=\"10.0.0.0/8\" destination_hostgroup=1 apply=1")
        .rule("rule_id=8 active=1 proxy_port=7 destination_hostgroup=2 apply=1");
    let narrows = start(&config);
    let mut admin = narrows.admin();
    let mut rule = |client: &str| {
        let lines = rows(&mut admin, &format!("EXPLAIN ROUTE 'SELECT 1' {client}"));
        lines.into_iter().find(|line| line[1] == "rule").map(|line| line[2].clone())
    };
    assert_eq!(rule("AS sbtest"), None);
    assert_eq!(rule("AS sbtest client_addr 10.1.2.3").as_deref(), Some("7"));
    assert_eq!(rule("CLIENT_ADDR 10.1.2.3 AS sbtest").as_deref(), Some("7"));
    assert_eq!(rule("proxy_port 7").as_deref(), Some("8"));
}

#[test]
fn pins_are_shown_with_what_caused_them() {
    let server = RealServer::shared(Flavour::MariaDb);
    let narrows = start(&NarrowsConfig::in_front_of(server.port()));
    let (mut admin, mut client) = (narrows.admin(), narrows.client());
    assert!(client.query("SELECT GET_LOCK('narrows admin pins', 0)").error().is_none());
    let pins = rows(&mut admin, "SHOW PINS");
    assert_eq!(pins.len(), 1, "{pins:?}");
    assert_eq!((pins[0][1].as_str(), pins[0][4].as_str()), ("sbtest", "0"));
    assert_eq!(pins[0][7], "user_lock");
    assert_eq!(pins[0][10], "SELECT GET_LOCK(?,?)");
    assert!(client.query("SELECT RELEASE_LOCK('narrows admin pins')").error().is_none());
    assert_eq!(rows(&mut admin, "SHOW PINS"), Vec::<Vec<String>>::new());
}
