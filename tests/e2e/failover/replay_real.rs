//! Transactions that are run again on a promoted replica, with real servers: the primary is killed in the middle of them, or made
//! read-only.

use std::thread;

use narrows_testkit::{ErrorPacket, Flavour, Narrows, RawClient, command, wait_until};

use super::servers::Servers;
use super::switchover::shop;
use crate::prepared::statement::{Statement, Value};
use crate::support::start;

/// A primary with two replicas, and Narrows, which knows their roles and runs transactions again.
fn begin(flavour: Flavour) -> (Servers, Narrows) {
    let servers = Servers::start(flavour);
    servers.nodes[0].execute(&[
        "CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, item VARCHAR(20))",
        "CREATE TABLE shop.lines (of_order INT, n INT)",
        "INSERT INTO shop.counter SELECT seq, 0 FROM (SELECT 0 seq UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) s",
    ]);
    let config = servers.config().variable("transaction_replay", "true");
    // A server that was killed takes its time to come back.
    let config =
        config.variable("connect_timeout_server_max", "60000").variable("shun_recovery_time_sec", "1");
    let narrows = start(&config);
    let mut admin = narrows.admin();
    wait_until("the roles are known", || {
        let roles = "SELECT count(*) FROM runtime_mysql_servers WHERE hostgroup_id = 0";
        admin.query(roles).cell().as_deref() == Some("1")
    });
    let port = servers.nodes[0].port().to_string();
    wait_until("the writer is the primary", || {
        admin.query("SELECT port FROM runtime_mysql_servers WHERE hostgroup_id = 0").cell()
            == Some(port.clone())
    });
    (servers, narrows)
}

impl Servers {
    /// Waits until a replica has everything that was committed. It asks for nothing that open transactions have locked.
    fn catch_up(&self) {
        let tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'shop'";
        wait_until("the replica has all tables", || on_node(self, 1, tables) == "4");
        let counts =
            ["ledger", "counter", "orders", "lines"].map(|it| format!("(SELECT count(*) FROM shop.{it})"));
        let counts = format!("SELECT concat_ws(',', {})", counts.join(", "));
        wait_until("the replica has all rows", || on_node(self, 1, &counts) == on_node(self, 0, &counts));
    }
}

fn run(client: &mut RawClient, statements: &[&str]) {
    for statement in statements {
        assert_eq!(client.query(statement).error(), None, "{statement}");
    }
}

fn cell(client: &mut RawClient, statement: &str) -> Option<String> {
    let answer = client.query(statement);
    assert_eq!(answer.error(), None, "{statement}");
    answer.cell()
}

fn on_node(servers: &Servers, node: usize, query: &str) -> String {
    servers.nodes[node].rows(query)[0][0].clone().unwrap_or_default()
}

fn replays(narrows: &Narrows, outcome: &str) -> u64 {
    let rows = narrows.admin().query("SHOW NARROWS STATUS").text_rows();
    let name = format!("Narrows_transaction_replays_{outcome}");
    let row = rows.iter().find(|row| row[0].as_deref() == Some(&*name));
    row.and_then(|row| row[1].as_deref()?.parse().ok()).unwrap_or_default()
}

fn rolled_back(error: Option<ErrorPacket>, expected: &str) {
    let error = error.expect("it cannot be the same");
    assert_eq!((error.code, error.state.as_str()), (1213, "40001"), "{}", error.message);
    assert!(error.message.contains(expected), "{}", error.message);
}

/// Transactions of every form are open when the primary is killed, and all of them end on the replica.
fn all_forms(flavour: Flavour) {
    let (mut servers, narrows) = begin(flavour);
    let mut plain = shop(&narrows);
    run(&mut plain, &["BEGIN", "INSERT INTO shop.ledger VALUES (1, 1)", "SAVEPOINT a"]);
    run(&mut plain, &["UPDATE shop.counter SET n = 9 WHERE client = 0", "ROLLBACK TO SAVEPOINT a"]);
    let duplicate = plain.query("INSERT INTO shop.counter VALUES (1, 0)").error();
    assert_eq!(duplicate.map(|error| error.code), Some(1062));
    run(&mut plain, &["UPDATE shop.counter SET n = n + 1 WHERE client = 1"]);
    assert_eq!(
        cell(&mut plain, "SELECT n FROM shop.counter WHERE client = 1 FOR UPDATE").as_deref(),
        Some("1")
    );

    let mut ids = shop(&narrows);
    run(&mut ids, &["SET autocommit = 0", "INSERT INTO shop.orders (item) VALUES ('a')", "SHOW WARNINGS"]);
    run(
        &mut ids,
        &["INSERT INTO shop.lines VALUES (LAST_INSERT_ID(), 1)", "SET @n = 7, time_zone = '+03:00'"],
    );

    let mut prepared = shop(&narrows);
    run(
        &mut prepared,
        &["USE shop", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION"],
    );
    let insert = Statement::prepare(&mut prepared, "INSERT INTO ledger VALUES (?, ?)");
    let select = Statement::prepare(&mut prepared, "SELECT turn FROM ledger WHERE client = ? AND turn >= ?");
    assert_eq!(insert.execute(&mut prepared, &[Value::Integer(3), Value::Integer(30)]).error(), None);
    // With the types of the execution before.
    assert_eq!(insert.execute_again(&mut prepared, &[Value::Integer(3), Value::Integer(31)]).error(), None);
    assert_eq!(select.execute(&mut prepared, &[Value::Integer(3), Value::Integer(31)]).error(), None);

    // One statement is in flight.
    let mut root = servers.nodes[0].root();
    run(&mut root, &["BEGIN", "UPDATE shop.counter SET n = n WHERE client = 2"]);
    let mut waiting = shop(&narrows);
    run(&mut waiting, &["BEGIN", "INSERT INTO shop.ledger VALUES (2, 1)"]);
    let update = "UPDATE shop.counter SET n = n + 1 WHERE client = 2";
    waiting.send_command(command::QUERY, update.as_bytes()).expect("it is sent");
    let mut admin = narrows.admin();
    wait_until("it is in flight", || {
        let list = "SELECT count(*) FROM stats_mysql_processlist WHERE srv_host IS NOT NULL AND info LIKE 'UPDATE%n + 1%'";
        admin.query(list).cell().as_deref() == Some("1")
    });

    servers.catch_up();
    servers.nodes[0].kill();
    servers.promote_only(1);

    assert_eq!(waiting.answer(command::QUERY).error(), None, "{}", narrows.log());
    run(&mut waiting, &["COMMIT"]);
    run(&mut plain, &["INSERT INTO shop.ledger VALUES (1, 3)", "COMMIT"]);
    assert_eq!(cell(&mut ids, "SELECT @n").as_deref(), Some("7"));
    assert_eq!(cell(&mut ids, "SELECT @@time_zone").as_deref(), Some("+03:00"));
    run(&mut ids, &["INSERT INTO shop.lines VALUES (LAST_INSERT_ID(), 2)", "COMMIT"]);
    assert_eq!(insert.execute_again(&mut prepared, &[Value::Integer(3), Value::Integer(32)]).error(), None);
    let rows = select.execute(&mut prepared, &[Value::Integer(3), Value::Integer(31)]);
    assert_eq!(rows.error(), None);
    assert_eq!(cell(&mut prepared, "SELECT count(*) FROM ledger WHERE client = 3").as_deref(), Some("3"));
    run(&mut prepared, &["COMMIT"]);

    let ledger = "SELECT group_concat(concat(client, '.', turn) ORDER BY client, turn) FROM shop.ledger";
    assert_eq!(on_node(&servers, 1, ledger), "1.1,1.3,2.1,3.30,3.31,3.32");
    assert_eq!(on_node(&servers, 1, "SELECT group_concat(n ORDER BY client) FROM shop.counter"), "0,1,1,0");
    let lines = "SELECT group_concat(concat(l.n, o.item) ORDER BY n) FROM shop.lines l JOIN shop.orders o ON o.id = of_order";
    assert_eq!(on_node(&servers, 1, lines), "1a,2a");
    assert_eq!(replays(&narrows, "replayed"), 4, "{}", narrows.log());
}

#[test]
fn transactions_of_mariadb_go_on_at_the_replica_that_replaces_their_primary() {
    Flavour::MariaDb.if_tested(all_forms);
}

#[test]
fn transactions_of_mysql9_go_on_at_the_replica_that_replaces_their_primary() {
    Flavour::MySql9.if_tested(all_forms);
}

/// What a server reports about the session depends on the connection: it is no difference.
fn reported_changes(flavour: Flavour) {
    let (mut servers, narrows) = begin(flavour);
    let mut client = shop(&narrows);
    run(&mut client, &["BEGIN", "INSERT INTO shop.ledger VALUES (5, 1)"]);
    // It commits the first one, and begins another.
    run(&mut client, &["BEGIN", "SET NAMES latin1", "INSERT INTO shop.ledger VALUES (5, 2)"]);
    run(&mut client, &["SET NAMES utf8mb4", "USE shop", "INSERT INTO ledger VALUES (5, 3)"]);
    servers.catch_up();
    servers.nodes[0].kill();
    servers.promote_only(1);
    run(&mut client, &["INSERT INTO ledger VALUES (5, 4)", "COMMIT"]);
    let ledger = "SELECT group_concat(turn ORDER BY turn) FROM shop.ledger WHERE client = 5";
    assert_eq!(on_node(&servers, 1, ledger), "1,2,3,4");
    assert_eq!(replays(&narrows, "replayed"), 1, "{}", narrows.log());
}

#[test]
fn changes_of_the_session_that_mariadb_reports_are_no_difference() {
    Flavour::MariaDb.if_tested(reported_changes);
}

#[test]
fn changes_of_the_session_that_mysql9_reports_are_no_difference() {
    Flavour::MySql9.if_tested(reported_changes);
}

/// What the clients have seen is not so any more when their transactions are run again.
fn differences(flavour: Flavour) {
    let (mut servers, narrows) = begin(flavour);
    let (mut reads, mut ids, mut clock, mut commits) =
        (shop(&narrows), shop(&narrows), shop(&narrows), shop(&narrows));
    run(&mut reads, &["BEGIN"]);
    assert_eq!(cell(&mut reads, "SELECT n FROM shop.counter WHERE client = 1").as_deref(), Some("0"));
    run(&mut ids, &["BEGIN", "INSERT INTO shop.orders (item) VALUES ('mine')"]);
    run(
        &mut clock,
        &["BEGIN", "INSERT INTO shop.orders (id, item) VALUES (99, UUID_SHORT() % 1000)", "SELECT NOW(6)"],
    );
    run(&mut commits, &["BEGIN", "INSERT INTO shop.ledger VALUES (4, 1)", "SELECT 5"]);
    servers.catch_up();
    servers.nodes[0].kill();
    servers.promote_only(1);
    servers.nodes[1].execute(&[
        "UPDATE shop.counter SET n = 5 WHERE client = 1",
        "INSERT INTO shop.orders (item) VALUES ('yours')",
    ]);
    rolled_back(
        reads.query("UPDATE shop.counter SET n = 1 WHERE client = 1").error(),
        "its answer has other contents",
    );
    rolled_back(
        ids.query("INSERT INTO shop.lines VALUES (1, 1)").error(),
        "statement 2 of 2 (INSERT INTO shop.orders",
    );
    rolled_back(clock.query("INSERT INTO shop.lines VALUES (1, 1)").error(), "(SELECT NOW(6))");
    run(&mut commits, &["COMMIT"]);
    // The sessions continue, outside of a transaction.
    for client in [&mut reads, &mut ids, &mut clock] {
        run(client, &["INSERT INTO shop.lines VALUES (7, 7)"]);
    }
    assert_eq!(on_node(&servers, 1, "SELECT count(*) FROM shop.lines"), "3", "nothing else was written");
    assert_eq!(on_node(&servers, 1, "SELECT group_concat(item) FROM shop.orders"), "yours");
    assert_eq!(on_node(&servers, 1, "SELECT n FROM shop.counter WHERE client = 1"), "5");
    assert_eq!(on_node(&servers, 1, "SELECT count(*) FROM shop.ledger WHERE client = 4"), "1");
    assert_eq!((replays(&narrows, "differed"), replays(&narrows, "replayed")), (3, 1), "{}", narrows.log());
}

#[test]
fn a_transaction_of_mariadb_whose_answers_have_changed_is_rolled_back() {
    Flavour::MariaDb.if_tested(differences);
}

#[test]
fn a_transaction_of_mysql9_whose_answers_have_changed_is_rolled_back() {
    Flavour::MySql9.if_tested(differences);
}

/// The primary becomes read-only in the middle of a transaction, and before a COMMIT.
fn role_change(flavour: Flavour) {
    let (servers, narrows) = begin(flavour);
    let (mut writes, mut commits) = (shop(&narrows), shop(&narrows));
    run(&mut writes, &["BEGIN", "INSERT INTO shop.ledger VALUES (1, 1)"]);
    run(&mut commits, &["BEGIN", "INSERT INTO shop.ledger VALUES (2, 1)"]);
    servers.catch_up();
    servers.nodes[0].execute(&["SET GLOBAL read_only = 1"]);
    servers.promote_only(1);
    run(&mut writes, &["INSERT INTO shop.ledger VALUES (1, 2)", "COMMIT"]);
    run(&mut commits, &["COMMIT"]);
    let ledger = "SELECT group_concat(concat(client, '.', turn) ORDER BY client, turn) FROM shop.ledger";
    assert_eq!(on_node(&servers, 1, ledger), "1.1,1.2,2.1");
    assert_eq!(on_node(&servers, 0, ledger), "");
    assert_eq!(replays(&narrows, "replayed"), 2, "{}", narrows.log());
}

#[test]
fn a_primary_of_mariadb_that_becomes_read_only_is_left_with_the_transaction() {
    Flavour::MariaDb.if_tested(role_change);
}

#[test]
fn a_primary_of_mysql9_that_becomes_read_only_is_left_with_the_transaction() {
    Flavour::MySql9.if_tested(role_change);
}

/// The clients that write.
const CLIENTS: std::ops::Range<u32> = 10..18;

/// Clients that write all the time while their server is killed and comes back: each keeps its own ledger.
fn under_kills(flavour: Flavour) {
    let (mut servers, narrows) = begin(flavour);
    // The other tests need no server that keeps what it has acknowledged.
    let durable = "SET GLOBAL innodb_flush_log_at_trx_commit = 1, GLOBAL sync_binlog = 1";
    servers.nodes[0].execute(&[durable]);
    for client in CLIENTS {
        servers.nodes[0].execute(&[&format!("INSERT INTO shop.counter VALUES ({client}, 0)")]);
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    let told = thread::scope(|scope| {
        let writers: Vec<_> = CLIENTS
            .map(|client| {
                scope.spawn({
                    let (narrows, stop) = (&narrows, &stop);
                    move || write(narrows, client, stop)
                })
            })
            .collect();
        for _ in 0..3 {
            let before = on_node(&servers, 0, "SELECT count(*) FROM shop.ledger");
            wait_until("clients write", || {
                on_node(&servers, 0, "SELECT count(*) FROM shop.ledger") != before
            });
            servers.nodes[0].kill();
            servers.nodes[0].restart();
            servers.nodes[0].execute(&[durable]);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<Told>>()
    });
    let (mut sure, mut unsure) = (0, 0);
    for Told { client, acknowledged, unknown } in &told {
        let count = format!("SELECT count(*) FROM shop.ledger WHERE client = {client}");
        let (has, least) = (on_node(&servers, 0, &count).parse::<u64>().unwrap(), *acknowledged);
        assert!(
            has >= least && has <= least + unknown,
            "{client}: {has} of {least} and at most {unknown} more"
        );
        let counted = format!("SELECT n FROM shop.counter WHERE client = {client}");
        assert_eq!(on_node(&servers, 0, &counted), has.to_string(), "none is done twice, none by half");
        (sure, unsure) = (sure + least, unsure + unknown);
    }
    println!(
        "{flavour:?}: 3 kills under {} clients: {sure} transactions acknowledged, {unsure} whose COMMIT was in flight, {} run again, {} differed",
        told.len(),
        replays(&narrows, "replayed"),
        replays(&narrows, "differed")
    );
    assert_eq!(replays(&narrows, "differed"), 0, "{}", narrows.log());
    assert!(replays(&narrows, "replayed") > 0, "{}", narrows.log());
}

/// What a client has received.
struct Told {
    client: u32,
    acknowledged: u64,
    /// Transactions whose COMMIT may have run.
    unknown: u64,
}

/// Writes in transactions. A client that is disconnected comes again; nothing but a COMMIT may fail.
fn write(narrows: &Narrows, client: u32, stop: &std::sync::atomic::AtomicBool) -> Told {
    let mut told = Told { client, acknowledged: 0, unknown: 0 };
    let mut session = shop(narrows);
    for turn in 1.. {
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
        let insert = format!("INSERT INTO shop.ledger VALUES ({client}, {turn})");
        let count = format!("UPDATE shop.counter SET n = n + 1 WHERE client = {client}");
        let read = format!("SELECT n FROM shop.counter WHERE client = {client}");
        run(&mut session, &["BEGIN", &insert, &count, &read]);
        match session.query("COMMIT").error() {
            None => told.acknowledged += 1,
            Some(error) => {
                assert!(
                    error.code == 2013 && error.message.ends_with("It may have run."),
                    "{}",
                    error.message
                );
                told.unknown += 1;
                session = shop(narrows);
            }
        }
    }
    told
}

#[test]
fn clients_of_mariadb_notice_nothing_of_a_crash_but_a_commit_in_flight() {
    Flavour::MariaDb.if_tested(under_kills);
}

#[test]
fn clients_of_mysql9_notice_nothing_of_a_crash_but_a_commit_in_flight() {
    Flavour::MySql9.if_tested(under_kills);
}
