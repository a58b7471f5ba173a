//! Sessions with autocommit off, the default of Python drivers, over a read/write split by rules: a real primary, real
//! replicas that would accept writes, and the rules that everybody starts with.

mod application;
mod locks;
mod several;

use narrows_testkit::capability::DEPRECATE_EOF;
use narrows_testkit::{Answer, Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions};

use crate::prepared::Statement;
use crate::support::start;

/// A primary and replicas. Replicas are not read-only: a write sent to one by mistake succeeds there.
struct Replicated {
    flavour: Flavour,
    primary: RealServer,
    replicas: Vec<RealServer>,
}

impl Replicated {
    fn start(flavour: Flavour, replicas: u32) -> Replicated {
        let server = |id: u32| {
            let mut options = ServerOptions::new(flavour);
            for option in [&format!("--server-id={id}"), "--log-bin=binlog", "--binlog-format=ROW"] {
                options = options.option(option);
            }
            if flavour == Flavour::MySql9 {
                options = options.option("--gtid-mode=ON").option("--enforce-gtid-consistency=ON");
            }
            options.start()
        };
        let primary = server(1);
        let replicas = (2..2 + replicas).map(server).collect();
        let replicated = Replicated { flavour, primary, replicas };
        let port = replicated.primary.port();
        if flavour == Flavour::MySql9 {
            replicated.primary.execute(&["RESET BINARY LOGS AND GTIDS"]);
        }
        for replica in &replicated.replicas {
            match flavour {
                Flavour::MariaDb => replica.execute(&[
                    &format!(
                        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='sbtest', \
                         MASTER_PASSWORD='sbtest', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1"
                    ),
                    "START SLAVE",
                ]),
                Flavour::MySql9 => replica.execute(&[
                    "RESET BINARY LOGS AND GTIDS",
                    &format!(
                        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, \
                         SOURCE_USER='sbtest', SOURCE_PASSWORD='sbtest', SOURCE_AUTO_POSITION=1, \
                         GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1"
                    ),
                    "START REPLICA",
                ]),
            }
        }
        replicated.primary.execute(&[
            "CREATE DATABASE shop",
            "CREATE TABLE shop.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB",
            "INSERT INTO shop.t VALUES (1, 7)",
        ]);
        replicated.wait_for_replicas();
        replicated
    }

    /// Reads go to the replicas, everything else to the primary.
    fn config(&self) -> NarrowsConfig {
        let mut config = NarrowsConfig::in_front_of(self.primary.port())
            .rule("rule_id=1 match_digest=\"^SELECT.*FOR UPDATE\" destination_hostgroup=0 apply=1")
            .rule("rule_id=2 match_digest=\"^SELECT\" destination_hostgroup=1 apply=1")
            .variable(
                "server_version",
                if self.flavour == Flavour::MariaDb { "5.5.5-10.11.0-MariaDB" } else { "9.7.0" },
            );
        for replica in &self.replicas {
            config = config.server(1, replica.port(), "");
        }
        config
    }

    /// Waits until all replicas have everything that the primary has.
    fn wait_for_replicas(&self) {
        let (position, wait, status) = match self.flavour {
            Flavour::MariaDb => ("gtid_binlog_pos", "MASTER_GTID_WAIT", "SHOW SLAVE STATUS"),
            Flavour::MySql9 => ("gtid_executed", "WAIT_FOR_EXECUTED_GTID_SET", "SHOW REPLICA STATUS"),
        };
        let position = self.primary.rows(&format!("SELECT @@global.{position}")).remove(0).remove(0);
        let position = position.expect("a position");
        for replica in &self.replicas {
            let waited = replica.rows(&format!("SELECT {wait}('{position}', 60)"));
            assert_eq!(waited[0][0].as_deref(), Some("0"), "{:?}", replica.rows(status));
        }
    }

    /// Whether no replica has any writes of its own.
    fn replicas_have_written_nothing(&self) -> bool {
        self.wait_for_replicas();
        let executed = match self.flavour {
            // What it applies is not written to its own binary log.
            Flavour::MariaDb => "SELECT @@global.gtid_binlog_pos = ''",
            Flavour::MySql9 => {
                "SELECT @@global.gtid_executed NOT LIKE CONCAT('%', @@global.server_uuid, '%')"
            }
        };
        self.replicas.iter().all(|replica| replica.rows(executed)[0][0].as_deref() == Some("1"))
    }

    /// The values of the table on the primary.
    fn values(&self) -> Vec<String> {
        let rows = self.primary.rows("SELECT v FROM shop.t ORDER BY id");
        rows.into_iter().filter_map(|mut row| row.remove(0)).collect()
    }
}

/// A session in the schema `shop` that has switched autocommit off.
fn without_autocommit(narrows: &Narrows) -> RawClient {
    let mut client = RawClient::open(&narrows.endpoint(), &Login::new("sbtest", "sbtest").schema("shop"));
    tell(&mut client, "SET AUTOCOMMIT = 0");
    client
}

fn tell(client: &mut RawClient, statement: &str) -> Answer {
    let answer = client.query(statement);
    assert_eq!(answer.error(), None, "{statement}");
    answer
}

fn ask(client: &mut RawClient, statement: &str) -> String {
    tell(client, statement).cell().unwrap_or_else(|| panic!("{statement}: no row"))
}

/// Runs a statement as `COM_STMT_PREPARE` and `COM_STMT_EXECUTE`.
fn execute(client: &mut RawClient, statement: &str) -> Answer {
    let answer = Statement::prepare(client, statement).execute(client, &[]);
    assert_eq!(answer.error(), None, "{statement}");
    answer
}

/// The server that answers reads of a session now.
fn server_id(client: &mut RawClient) -> u32 {
    ask(client, "SELECT @@server_id").parse().expect("a number")
}

const PRIMARY: u32 = 1;

#[test]
fn what_follows_a_read_is_written_to_the_primary() {
    for flavour in Flavour::both() {
        let servers = Replicated::start(flavour, 2);
        let narrows = start(&servers.config());
        let run: [fn(&mut RawClient, &str) -> Answer; 2] = [tell, execute];
        for (number, run) in run.into_iter().cycle().take(20).enumerate() {
            let mut client = without_autocommit(&narrows);
            run(&mut client, "SELECT v FROM t WHERE id = 1");
            run(&mut client, &format!("INSERT INTO t (v) VALUES ({number})"));
            run(&mut client, "COMMIT");
        }
        assert_eq!(servers.values().len(), 21, "{flavour:?}");
        assert!(servers.replicas_have_written_nothing(), "{flavour:?}");
    }
}

#[test]
fn reads_run_outside_of_a_transaction_until_something_opens_one() {
    for flavour in Flavour::both() {
        let servers = Replicated::start(flavour, 1);
        let narrows = start(&servers.config());
        let mut client = without_autocommit(&narrows);
        assert_ne!(server_id(&mut client), PRIMARY);
        let openers = [
            "UPDATE t SET v = v + 1 WHERE id = 1",
            "SELECT v FROM t WHERE id = 1 FOR UPDATE",
            "SAVEPOINT a",
            "BEGIN",
            "INSERT INTO t (id, v) VALUES (1, 2)",
        ];
        for opener in openers {
            for end in ["COMMIT", "ROLLBACK"] {
                tell(&mut client, "SELECT v FROM t");
                assert_ne!(server_id(&mut client), PRIMARY, "{flavour:?}: before {opener}");
                // The last one fails, but its transaction is open nevertheless.
                let _ = client.query(opener);
                assert_eq!(server_id(&mut client), PRIMARY, "{flavour:?}: after {opener}");
                tell(&mut client, "SELECT v FROM t");
                assert_eq!(server_id(&mut client), PRIMARY, "{flavour:?}: after {opener} and a read");
                tell(&mut client, end);
                assert_ne!(server_id(&mut client), PRIMARY, "{flavour:?}: after {opener} and {end}");
            }
        }
        assert!(servers.replicas_have_written_nothing());
    }
}

#[test]
fn a_savepoint_is_there_though_nothing_was_written_before() {
    for flavour in Flavour::both() {
        let servers = Replicated::start(flavour, 1);
        let narrows = start(&servers.config());
        let mut client = without_autocommit(&narrows);
        let mut others = [without_autocommit(&narrows), without_autocommit(&narrows)];
        for _ in 0..10 {
            tell(&mut client, "SAVEPOINT a");
            // They would take its connection.
            others.iter_mut().for_each(|other| drop(tell(other, "SELECT 1")));
            others.iter_mut().for_each(|other| drop(tell(other, "UPDATE t SET v = v WHERE id = 0")));
            tell(&mut client, "INSERT INTO t (v) VALUES (5)");
            tell(&mut client, "ROLLBACK TO a");
            tell(&mut client, "COMMIT");
            others.iter_mut().for_each(|other| drop(tell(other, "COMMIT")));
        }
        assert_eq!(servers.values(), ["7"], "{flavour:?}");
    }
}

#[test]
fn a_client_sees_its_own_autocommit_whatever_runs_its_reads() {
    const IN_TRANSACTION: u16 = 1;
    const AUTOCOMMIT: u16 = 2;
    let status = |answer: &Answer| {
        let last = &answer.packets.last().expect("an answer").payload;
        // An EOF packet, or an OK packet without affected rows.
        u16::from_le_bytes([last[3], last[4]]) & (IN_TRANSACTION | AUTOCOMMIT)
    };
    for flavour in Flavour::both() {
        let servers = Replicated::start(flavour, 1);
        let narrows = start(&servers.config());
        for deprecate_eof in [false, true] {
            let login = Login::new("sbtest", "sbtest").schema("shop");
            let login = if deprecate_eof { login.with(DEPRECATE_EOF) } else { login.without(DEPRECATE_EOF) };
            let mut client = RawClient::open(&narrows.endpoint(), &login);
            tell(&mut client, "SET autocommit = 0");
            assert_ne!(server_id(&mut client), PRIMARY);
            for read in ["SELECT v FROM t", "SELECT 1", "SELECT v FROM t WHERE id = 0"] {
                assert_eq!(status(&tell(&mut client, read)), 0, "{flavour:?}: {read}");
                assert_eq!(status(&execute(&mut client, read)), 0, "{flavour:?}: {read} executed");
            }
            assert_eq!(ask(&mut client, "SELECT @@autocommit"), "0");
            assert_eq!(ask(&mut client, "SELECT @@session.AUTOCOMMIT"), "0");
            let shown = tell(&mut client, "SHOW VARIABLES LIKE 'autocommit'").text_rows();
            assert_eq!(shown[0][1].as_deref(), Some("OFF"));
            tell(&mut client, "SET autocommit = 1");
            assert_eq!(status(&tell(&mut client, "SELECT v FROM t")), AUTOCOMMIT);
            assert_eq!(ask(&mut client, "SELECT @@autocommit"), "1");
        }
    }
}

#[test]
fn with_enforce_autocommit_on_reads_a_read_opens_the_transaction_where_it_is_routed() {
    for flavour in Flavour::both() {
        let servers = Replicated::start(flavour, 1);
        let narrows = start(&servers.config().variable("enforce_autocommit_on_reads", "true"));
        let mut client = without_autocommit(&narrows);
        tell(&mut client, "SELECT v FROM t");
        tell(&mut client, "UPDATE t SET v = v WHERE id = 0");
        assert_ne!(server_id(&mut client), PRIMARY, "{flavour:?}: everything follows the read");
        tell(&mut client, "COMMIT");
        tell(&mut client, "UPDATE t SET v = v WHERE id = 0");
        assert_eq!(server_id(&mut client), PRIMARY, "{flavour:?}");
    }
}

#[test]
fn a_read_ties_no_session_to_a_replica() {
    for flavour in Flavour::both() {
        let servers = Replicated::start(flavour, 1);
        servers
            .primary
            .execute(&["CREATE FUNCTION shop.plus(a INT) RETURNS INT DETERMINISTIC NO SQL RETURN a + 1"]);
        servers.wait_for_replicas();
        for multiplexing in ["true", "false"] {
            let narrows = start(&servers.config().variable("multiplexing", multiplexing));
            for autocommit in [0, 1] {
                let login = Login::new("sbtest", "sbtest").schema("shop");
                let mut client = RawClient::open(&narrows.endpoint(), &login);
                tell(&mut client, &format!("SET autocommit = {autocommit}"));
                tell(&mut client, "SELECT v FROM t");
                assert_ne!(server_id(&mut client), PRIMARY);
                assert_eq!(ask(&mut client, "SELECT plus(1)"), "2");
                let cursor = Statement::prepare(&mut client, "SELECT CAST(v AS CHAR) FROM t");
                assert_eq!(cursor.open_cursor(&mut client, &[]).error(), None);
                let before = servers.values().len();
                tell(&mut client, "INSERT INTO t (v) VALUES (1)");
                tell(&mut client, "COMMIT");
                assert_eq!(servers.values().len(), before + 1, "{flavour:?}, multiplexing {multiplexing}");
                assert_eq!(cursor.fetch(&mut client, 1), Ok(vec!["7".to_owned()]));
            }
        }
        assert!(servers.replicas_have_written_nothing());
    }
}

#[test]
fn a_transaction_outlasts_a_preparation() {
    for flavour in Flavour::both() {
        let servers = Replicated::start(flavour, 0);
        let config = NarrowsConfig::new()
            .server(0, servers.primary.port(), "max_connections=2")
            .user("sbtest", "sbtest", "")
            .variable("threads", "1");
        let narrows = start(&config);
        let mut one = without_autocommit(&narrows);
        let mut other = without_autocommit(&narrows);
        tell(&mut one, "INSERT INTO t (v) VALUES (8)");
        Statement::prepare(&mut one, "INSERT INTO t (v) VALUES (9)");
        tell(&mut other, "SET autocommit = 1");
        tell(&mut other, "UPDATE t SET v = v WHERE id = 1");
        tell(&mut one, "ROLLBACK");
        assert_eq!(servers.values(), ["7"], "{flavour:?}");
    }
}
