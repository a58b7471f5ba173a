//! Metadata locks: what a statement of a session without autocommit locks stays locked until its transaction ends, and
//! no longer, whatever the table's engine and whatever the server reports about a transaction.

use narrows_testkit::{Answer, Flavour, Narrows, NarrowsConfig, RawClient, RealServer, wait_until};

use super::{Replicated, execute, start, tell, without_autocommit};

fn engines(flavour: Flavour) -> &'static [&'static str] {
    match flavour {
        Flavour::MariaDb => &["InnoDB", "MyISAM", "Aria", "MEMORY"],
        Flavour::MySql9 => &["InnoDB", "MyISAM", "MEMORY"],
    }
}

/// Whether the table is unlocked.
fn is_free(server: &RealServer, table: &str) -> bool {
    let mut root = server.root();
    tell(&mut root, "SET lock_wait_timeout = 1");
    let error = root.query(format!("ALTER TABLE shop.{table} FORCE")).error();
    assert!(error.as_ref().is_none_or(|error| error.code == 1205), "{error:?}");
    error.is_none()
}

fn make_tables(server: &RealServer, flavour: Flavour) {
    for engine in engines(flavour) {
        server.execute(&[
            &format!("CREATE TABLE shop.{engine} (id INT PRIMARY KEY, v INT) ENGINE={engine}"),
            &format!("INSERT INTO shop.{engine} VALUES (1, 1)"),
        ]);
    }
}

/// Each way to run a statement.
const WAYS: [fn(&mut RawClient, &str) -> Answer; 2] = [tell, execute];

#[test]
fn what_is_locked_is_free_after_the_transaction_and_after_the_client() {
    for flavour in Flavour::both() {
        let servers = Replicated::start(flavour, 0);
        make_tables(&servers.primary, flavour);
        let narrows = start(&NarrowsConfig::in_front_of(servers.primary.port()));
        // They take free connections, and keep the pool moving.
        let mut other = without_autocommit(&narrows);
        for engine in engines(flavour) {
            for statement in [format!("SELECT * FROM {engine}"), format!("SELECT nothing FROM {engine}")] {
                for (number, run) in [run_any as Run, run_executed].into_iter().enumerate() {
                    for end in ["COMMIT", "ROLLBACK", "SET autocommit = 1", "leave"] {
                        let what = format!("{flavour:?}: {statement} ({number}), {end}");
                        let mut client = without_autocommit(&narrows);
                        run(&mut client, &statement);
                        tell(&mut other, "UPDATE t SET v = v WHERE id = 0");
                        match end {
                            "leave" => drop(client),
                            end => {
                                tell(&mut client, end);
                                assert!(is_free(&servers.primary, engine), "{what}");
                            }
                        }
                        tell(&mut other, "COMMIT");
                        if end == "leave" {
                            wait_until(&what, || is_free(&servers.primary, engine));
                        }
                    }
                }
            }
        }
        assert_nothing_is_pinned(&narrows);
    }
}

type Run = fn(&mut RawClient, &str);

fn run_any(client: &mut RawClient, statement: &str) {
    let _ = client.query(statement);
}

fn run_executed(client: &mut RawClient, statement: &str) {
    // A refused statement has locked nothing.
    if let Ok(prepared) = crate::prepared::Statement::try_prepare(client, statement) {
        assert_eq!(prepared.execute(client, &[]).error(), None);
    }
}

fn assert_nothing_is_pinned(narrows: &Narrows) {
    let mut admin = narrows.admin();
    wait_until("nothing is pinned", || tell(&mut admin, "SHOW PINS").text_rows().is_empty());
}

#[test]
fn a_read_from_a_replica_does_not_hold_up_its_replication() {
    for flavour in Flavour::both() {
        let servers = Replicated::start(flavour, 1);
        make_tables(&servers.primary, flavour);
        servers.wait_for_replicas();
        for enforced in ["false", "true"] {
            let narrows = start(&servers.config().variable("enforce_autocommit_on_reads", enforced));
            for engine in engines(flavour) {
                for run in WAYS {
                    let mut client = without_autocommit(&narrows);
                    let mut leaver = without_autocommit(&narrows);
                    run(&mut client, &format!("SELECT * FROM {engine}"));
                    run(&mut leaver, &format!("SELECT * FROM {engine}"));
                    drop(leaver);
                    tell(&mut client, "COMMIT");
                    let what = format!("{flavour:?}: {engine} on the primary, enforced {enforced}");
                    wait_until(&what, || is_free(&servers.primary, engine));
                    // Waits a minute for the replica to alter the table too.
                    servers.wait_for_replicas();
                    drop(client);
                }
            }
        }
    }
}
