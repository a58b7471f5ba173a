//! `transaction_persistent=0`: each statement goes where it is routed, and a session may have several transactions.

use narrows_testkit::{
    Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions, wait_until,
};

use super::{ask, start, tell};
use crate::prepared::Statement;

/// Two servers, each with a table: statements that name `rights` go to the second.
struct Two {
    servers: [RealServer; 2],
    narrows: Narrows,
}

impl Two {
    fn start(flavour: Flavour) -> Two {
        let servers = [0, 1].map(|number| {
            let server = ServerOptions::new(flavour).option(&format!("--server-id={}", number + 1)).start();
            let table = ["lefts", "rights"][number];
            server.execute(&[
                "CREATE DATABASE shop",
                &format!(
                    "CREATE TABLE shop.{table} (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB"
                ),
                &format!("ALTER TABLE shop.{table} AUTO_INCREMENT = {}", 10 + 10 * number),
            ]);
            server
        });
        let config = NarrowsConfig::new()
            .server(0, servers[0].port(), "")
            .server(1, servers[1].port(), "")
            .user("sbtest", "sbtest", "transaction_persistent=0")
            .rule("rule_id=1 match_pattern=\"rights\" destination_hostgroup=1 apply=1");
        let narrows = start(&config);
        Two { servers, narrows }
    }

    fn client(&self) -> RawClient {
        RawClient::open(&self.narrows.endpoint(), &Login::new("sbtest", "sbtest").schema("shop"))
    }

    /// The committed rows on both.
    fn rows(&self) -> [usize; 2] {
        [("lefts", 0), ("rights", 1)]
            .map(|(table, number)| self.servers[number].rows(&format!("SELECT * FROM shop.{table}")).len())
    }

    /// Waits until no transaction is open on either.
    fn wait_for_end(&self) {
        for server in &self.servers {
            wait_until("no transaction is open", || server.open_transactions() == 0);
        }
    }
}

fn on_each(test: impl Fn(&Two)) {
    for flavour in Flavour::both() {
        test(&Two::start(flavour));
    }
}

#[test]
fn commit_and_rollback_follow_the_open_transactions() {
    on_each(|two| {
        let insert = |table: &str| format!("INSERT INTO {table} (v) VALUES (1)");
        let mut wanted = [0, 0];
        for begin in ["BEGIN /* rights */", "SET autocommit = 0"] {
            for tables in [
                vec!["rights"],
                vec!["lefts"],
                vec!["lefts", "rights"],
                vec!["rights", "lefts"],
                vec!["rights", "lefts", "rights", "lefts"],
            ] {
                for end in ["COMMIT", "ROLLBACK"] {
                    for prepared in [false, true] {
                        let mut client = two.client();
                        tell(&mut client, begin);
                        if begin.starts_with("BEGIN") {
                            tell(&mut client, "BEGIN /* lefts */");
                        }
                        for table in &tables {
                            tell(&mut client, &insert(table));
                        }
                        if prepared {
                            let end = Statement::prepare(&mut client, end);
                            assert_eq!(end.execute(&mut client, &[]).error(), None);
                        } else {
                            tell(&mut client, end);
                        }
                        if end == "COMMIT" {
                            wanted[0] += tables.iter().filter(|table| **table == "lefts").count();
                            wanted[1] += tables.iter().filter(|table| **table == "rights").count();
                        }
                        assert_eq!(two.rows(), wanted, "{begin}, {tables:?}, {end}, prepared {prepared}");
                        // The session continues, with nothing open.
                        tell(&mut client, "SELECT 1");
                        two.wait_for_end();
                    }
                }
            }
        }
    });
}

#[test]
fn a_session_sees_what_it_has_done_on_each_server() {
    on_each(|two| {
        let mut client = two.client();
        tell(&mut client, "SET autocommit = 0");
        tell(&mut client, "INSERT INTO lefts (v) VALUES (3)");
        tell(&mut client, "INSERT INTO rights (v) VALUES (4)");
        assert_eq!(ask(&mut client, "SELECT LAST_INSERT_ID()"), "20");
        assert_eq!(ask(&mut client, "SELECT v FROM lefts"), "3");
        // Another session used it in between.
        tell(&mut two.client(), "INSERT INTO lefts (v) VALUES (9)");
        assert_eq!(ask(&mut client, "SELECT LAST_INSERT_ID()"), "20");
        tell(&mut client, "INSERT INTO lefts (v) VALUES (5)");
        assert_eq!(ask(&mut client, "SELECT MAX(v) FROM lefts WHERE v < 9"), "5");
        tell(&mut client, "ROLLBACK");
        assert_eq!(two.rows(), [1, 0]);
    });
}

#[test]
fn savepoints_are_those_of_all_open_transactions() {
    on_each(|two| {
        let mut client = two.client();
        tell(&mut client, "SET autocommit = 0");
        tell(&mut client, "INSERT INTO rights (v) VALUES (1)");
        tell(&mut client, "SAVEPOINT a");
        tell(&mut client, "INSERT INTO rights (v) VALUES (2)");
        // This one begins after the savepoint: all of it is undone.
        tell(&mut client, "INSERT INTO lefts (v) VALUES (2)");
        tell(&mut client, "ROLLBACK TO a");
        tell(&mut client, "COMMIT");
        assert_eq!(two.rows(), [0, 1]);

        tell(&mut client, "INSERT INTO rights (v) VALUES (1)");
        tell(&mut client, "INSERT INTO lefts (v) VALUES (1)");
        tell(&mut client, "SAVEPOINT b");
        tell(&mut client, "INSERT INTO rights (v) VALUES (2)");
        tell(&mut client, "INSERT INTO lefts (v) VALUES (2)");
        tell(&mut client, "ROLLBACK TO b");
        tell(&mut client, "RELEASE SAVEPOINT b");
        tell(&mut client, "COMMIT");
        assert_eq!(two.rows(), [1, 2]);
    });
}

#[test]
fn switching_autocommit_on_commits_all_transactions() {
    on_each(|two| {
        let mut client = two.client();
        tell(&mut client, "SET autocommit = 0");
        tell(&mut client, "INSERT INTO rights (v) VALUES (1)");
        tell(&mut client, "INSERT INTO lefts (v) VALUES (1)");
        tell(&mut client, "SET autocommit = 1");
        // The answer arrives before the others have ended.
        tell(&mut client, "SELECT 1");
        assert_eq!(two.rows(), [1, 1]);
        two.wait_for_end();
    });
}

#[test]
fn nothing_is_open_behind_a_session_that_leaves_or_starts_over() {
    on_each(|two| {
        for leaves in [true, false] {
            let mut client = two.client();
            tell(&mut client, "SET autocommit = 0");
            tell(&mut client, "INSERT INTO rights (v) VALUES (1)");
            tell(&mut client, "INSERT INTO lefts (v) VALUES (1)");
            if leaves {
                drop(client);
            } else {
                assert_eq!(client.command(narrows_testkit::command::RESET_CONNECTION, b"").error(), None);
            }
            two.wait_for_end();
            assert_eq!(two.rows(), [0, 0]);
        }
    });
}

#[test]
fn a_commit_that_one_server_has_lost_is_an_error_and_the_others_are_rolled_back() {
    on_each(|two| {
        let mut client = two.client();
        tell(&mut client, "SET autocommit = 0");
        tell(&mut client, "INSERT INTO rights (v) VALUES (1)");
        tell(&mut client, "INSERT INTO lefts (v) VALUES (1)");
        let users = "SELECT id FROM information_schema.processlist WHERE user = 'sbtest'";
        for row in two.servers[1].rows(users) {
            let _ = two.servers[1].root().query(format!("KILL {}", row[0].as_deref().expect("an id")));
        }
        wait_until("the connection is gone", || two.servers[1].rows(users).is_empty());
        assert_eq!(client.query("COMMIT").error().expect("refused").code, 2013);
        two.wait_for_end();
        assert_eq!(two.rows(), [0, 0]);
    });
}
