//! What drivers can do with their default settings while the primary of a pair, or its replicas, are away: connect, and read.

use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, Login, Narrows, RawClient, wait_until};

use super::servers::Servers;
use crate::support::start;

/// What drivers send before the first statement of their application (docs/start-up-chatter.md).
const DRIVERS: [(&str, &[&str]); 8] = [
    ("PyMySQL", &["SET NAMES utf8mb4", "SET AUTOCOMMIT = 0"]),
    ("mysqlclient", &["SET NAMES utf8mb4", "SET autocommit=0"]),
    (
        "Django",
        &["SET NAMES utf8mb4", "SET autocommit=0", "SET autocommit=1", "SELECT VERSION(), @@sql_mode"],
    ),
    (
        "MySQL Connector/J",
        &[
            "SELECT @@session.auto_increment_increment",
            "SET character_set_results = NULL",
            "SET autocommit=1",
        ],
    ),
    ("MariaDB Connector/J", &["set sql_mode=CONCAT(@@sql_mode,',STRICT_TRANS_TABLES'), NAMES utf8mb4"]),
    (
        "Laravel",
        &[
            "use `shop`",
            "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_unicode_ci', SESSION time_zone='+00:00', \
             SESSION sql_mode='STRICT_TRANS_TABLES,NO_ZERO_IN_DATE'",
        ],
    ),
    (
        "ActiveRecord",
        &[
            "SET @@SESSION.sql_mode = CONCAT(CONCAT(@@sql_mode, ',STRICT_ALL_TABLES'), ',NO_AUTO_VALUE_ON_ZERO'), \
           @@SESSION.sql_auto_is_null = 0, @@SESSION.wait_timeout = 2147483",
        ],
    ),
    ("go-sql-driver", &[]),
];

/// Far less than `mysql-connect_timeout_server_max`: nothing waits for a server that is away.
const BOUND: Duration = Duration::from_secs(6);

/// Pings every second, of which three must fail after a second each, and what a busy machine takes.
const BOUND_OF_PINGS: Duration = Duration::from_secs(12);

fn client(narrows: &Narrows) -> RawClient {
    let mut client = RawClient::open(&narrows.endpoint(), &Login::new("shop", "shop").schema("shop"));
    client.set_patience(Duration::from_secs(60));
    client
}

/// Connects as a driver does and reads; returns the number of the first error, and the time.
fn session(narrows: &Narrows, driver: &[&str], last: &str) -> (Option<u16>, Duration) {
    let began = Instant::now();
    let mut client = client(narrows);
    for statement in driver.iter().chain([&last]) {
        if let Some(error) = client.query(statement).error() {
            return (Some(error.code), began.elapsed());
        }
    }
    (None, began.elapsed())
}

fn all_connect(narrows: &Narrows, when: &str) {
    for (driver, statements) in DRIVERS {
        let (error, took) = session(narrows, statements, "SELECT COUNT(*) FROM shop.counter");
        println!("{when}: {driver}: {error:?} after {took:?}");
        assert_eq!(error, None, "{when}: {driver}\n{}", narrows.log());
        assert!(took < BOUND, "{when}: {driver}: {took:?}\n{}", narrows.log());
    }
}

/// A server hangs: what was sent there has its answer when pings have failed; from then on nobody waits for it.
fn all_connect_beside(narrows: &Narrows, when: &str) {
    let read = "SELECT COUNT(*) FROM shop.counter";
    let firsts: Vec<_> = std::thread::scope(|scope| {
        let first = |_| scope.spawn(|| session(narrows, DRIVERS[0].1, read));
        let firsts: Vec<_> = (0..8).map(first).collect();
        firsts.into_iter().map(|first| first.join().expect("it does not panic")).collect()
    });
    println!("{when}, at once: {firsts:?}");
    let within = |(error, took): &(Option<u16>, Duration)| error.is_none() && *took < BOUND_OF_PINGS;
    assert!(firsts.iter().all(within), "{when}: {firsts:?}\n{}", narrows.log());
    all_connect(narrows, when);
}

fn drivers_read_while_servers_are_away(flavour: Flavour) {
    let mut servers = Servers::start(flavour);
    servers.have_all(0);
    let config =
        servers.config().rule("rule_id=1 active=1 match_digest=\"^SELECT\" destination_hostgroup=1 apply=1");
    let narrows = start(&config);
    let mut admin = narrows.admin();
    servers.wait_for_roles(&mut admin);
    all_connect(&narrows, "all are there");
    servers.nodes[1].freeze();
    all_connect_beside(&narrows, "a reader hangs");
    servers.nodes[1].thaw();
    servers.nodes[1].kill();
    all_connect(&narrows, "a reader is dead");
    servers.nodes[0].freeze();
    all_connect_beside(&narrows, "the writer hangs");
    // The same once it is no writer any more.
    wait_until("the writer is left", || {
        admin.query("SELECT 1 FROM runtime_mysql_servers WHERE hostgroup_id = 0").text_rows().is_empty()
    });
    all_connect(&narrows, "there is no writer");
    servers.nodes[0].thaw();
    servers.nodes[0].kill();
    all_connect(&narrows, "the writer is dead");
    // A session that was opened meanwhile has its settings on the writer, too.
    let mut client = client(&narrows);
    assert_eq!(client.query("SET time_zone = '+03:00', NAMES latin1").error(), None);
    servers.nodes[0].restart();
    servers.wait_for_roles(&mut admin);
    let update = "UPDATE shop.counter SET n = n + IF(@@time_zone = '+03:00', 1, 'wrong')";
    assert_eq!(client.query(update).error(), None, "{}", narrows.log());
    let both = "INSERT INTO shop.ledger SELECT 1000, IF(@@time_zone = '+03:00' AND @@character_set_client = 'latin1', 1, NULL)";
    assert_eq!(client.query(both).error(), None, "{}", narrows.log());
}

#[test]
fn drivers_connect_and_read_while_servers_of_mariadb_are_away() {
    drivers_read_while_servers_are_away(Flavour::MariaDb);
}

#[test]
fn drivers_connect_and_read_while_servers_of_mysql_are_away() {
    Flavour::MySql9.if_tested(drivers_read_while_servers_are_away);
}
