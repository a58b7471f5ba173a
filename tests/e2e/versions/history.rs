//! What is recorded of each version, and what is shown of it.

use narrows_testkit::{NarrowsConfig, RawClient, kill, wait_until};

use super::{all_layers, differences, newest_version};
use crate::support::start;

const BINARY: &str = env!("CARGO_BIN_EXE_narrows");

fn done(admin: &mut RawClient, statement: &str) {
    admin.query(statement).ok().expect(statement);
}

fn texts(rows: Vec<Vec<Option<String>>>) -> Vec<Vec<String>> {
    rows.into_iter().map(|row| row.into_iter().map(Option::unwrap_or_default).collect()).collect()
}

#[test]
fn a_load_makes_a_version_with_who_why_and_what() {
    let narrows = start(&NarrowsConfig::in_front_of(3306));
    let mut admin = narrows.admin();
    done(&mut admin, "UPDATE mysql_users SET default_schema = 'shop', password = 'another'");
    done(&mut admin, "SET mysql-max_connections = 77");
    done(&mut admin, "LOAD MYSQL USERS TO RUNTIME /* ticket 7 */");
    // Nothing is different, so there is no version.
    done(&mut admin, "LOAD MYSQL USERS TO RUNTIME");
    done(&mut admin, "load mysql variables to runtime");
    let shown = texts(admin.query("SHOW NARROWS CHANGES").text_rows());
    let of = |version: usize| -> Vec<&str> {
        let row = &shown[shown.len() - version];
        [0, 2, 4, 6, 7, 8].into_iter().map(|column| row[column].as_str()).collect()
    };
    assert_eq!(of(2), ["2", "admin", "load", "ticket 7", "mysql_users 1 altered", "0"]);
    assert_eq!(of(3)[..4], ["3", "admin", "load", ""]);
    assert_eq!((of(3)[4].ends_with("-> '77'"), of(3)[5]), (true, "1"));
    assert_eq!(of(1)[2], "start");
    let changes = texts(admin.query("SHOW NARROWS CHANGES OF VERSION 2").text_rows());
    let user = "username='sbtest' backend=1";
    let expected = [
        ["mysql_users", user, "altered", "password", "***", "***"],
        ["mysql_users", user, "altered", "default_schema", "", "shop"],
    ];
    assert_eq!(changes, expected);
    assert_eq!(admin.query("SHOW NARROWS CHANGES FROM 3 TO 1").text_rows().len(), 3);
    // Nobody rewrites what has happened, and users of statistics do not see it.
    for statement in
        ["DELETE FROM disk.narrows_config_history", "UPDATE disk.narrows_config_documents SET checksum = 'x'"]
    {
        assert!(admin.query(statement).error().is_some(), "{statement}");
    }
    assert!(narrows.stats().query("SHOW NARROWS CHANGES").error().is_some());
}

#[test]
fn what_is_not_loaded_and_what_is_not_saved_is_shown_as_drift() {
    let narrows = start(&NarrowsConfig::in_front_of(3306));
    let mut admin = narrows.admin();
    assert!(admin.query("SHOW NARROWS DRIFT").text_rows().is_empty());
    done(
        &mut admin,
        "INSERT INTO mysql_query_rules (rule_id, active, match_digest, apply) VALUES (5, 0, 'x', 1)",
    );
    let drift = texts(admin.query("SHOW NARROWS DRIFT").text_rows());
    assert!(
        drift.iter().all(|row| row[0] == "not loaded" && row[2] == "rule_id=5" && row[3] == "added"),
        "{drift:?}"
    );
    done(&mut admin, "LOAD MYSQL QUERY RULES TO RUNTIME");
    let drift = texts(admin.query("SHOW NARROWS DRIFT").text_rows());
    assert!(!drift.is_empty() && drift.iter().all(|row| row[0] == "not saved"), "{drift:?}");
    done(&mut admin, "SAVE MYSQL QUERY RULES TO DISK");
    assert!(admin.query("SHOW NARROWS DRIFT").text_rows().is_empty());
}

#[test]
fn a_rollback_restores_every_layer_and_outlives_the_program() {
    let mut narrows = start(&NarrowsConfig::in_front_of(3306));
    let mut admin = narrows.admin();
    let before = all_layers(&mut admin);
    for statement in [
        "DELETE FROM mysql_servers",
        "INSERT INTO mysql_query_rules (rule_id, active, match_digest, apply) VALUES (1, 1, '^SELECT', 1), (2, 0, 'x', 1)",
        "LOAD MYSQL SERVERS TO RUNTIME",
        "LOAD MYSQL QUERY RULES TO RUNTIME",
        "SAVE MYSQL SERVERS TO DISK",
        "SAVE MYSQL QUERY RULES TO DISK",
        "UPDATE mysql_users SET comment = 'a loose edit'",
    ] {
        done(&mut admin, statement);
    }
    done(&mut admin, "NARROWS ROLLBACK TO 1 COMMENT 'it was better before'");
    assert_eq!(differences(&before, &all_layers(&mut admin)), Vec::<String>::new());
    let newest = texts(admin.query("SHOW NARROWS CHANGES").text_rows()).remove(0);
    assert_eq!([&newest[4], &newest[6]], ["rollback", "it was better before"]);
    assert!(admin.query("NARROWS ROLLBACK TO 99").error().is_some());
    assert!(admin.query("NARROWS ROLLBACK TO x").error().is_some());
    done(&mut admin, "SET admin-read_only = 'true'");
    done(&mut admin, "LOAD ADMIN VARIABLES TO RUNTIME");
    let refused = admin.query("NARROWS ROLLBACK TO 1").error().expect("nothing may be changed");
    assert!(refused.message.contains("admin-read_only"), "{refused:?}");
    narrows.process().kill();
    narrows.start_again(BINARY);
    let mut admin = narrows.admin();
    assert_eq!(differences(&before, &all_layers(&mut admin)), Vec::<String>::new());
    // The variable had been loaded and not saved: the program has started with another configuration than ran before.
    let newest = texts(admin.query("SHOW NARROWS CHANGES").text_rows()).remove(0);
    assert_eq!([&newest[4], &newest[7]], ["start", "admin-read_only 'true' -> 'false'"]);
}

#[test]
fn the_number_of_versions_is_bounded() {
    let narrows = start(&NarrowsConfig::in_front_of(3306));
    let mut admin = narrows.admin();
    done(&mut admin, "SET admin-config_history_versions = 3");
    done(&mut admin, "LOAD ADMIN VARIABLES TO RUNTIME");
    for comment in 0..6 {
        done(&mut admin, &format!("UPDATE mysql_users SET comment = '{comment}'"));
        done(&mut admin, "LOAD MYSQL USERS TO RUNTIME");
    }
    let count =
        |admin: &mut RawClient, table: &str| admin.query(format!("SELECT count(*) FROM disk.{table}")).cell();
    assert_eq!(count(&mut admin, "narrows_config_history").as_deref(), Some("3"));
    assert_eq!(count(&mut admin, "narrows_config_documents").as_deref(), Some("3"));
    let oldest = newest_version(&mut admin) - 2;
    done(&mut admin, &format!("NARROWS ROLLBACK TO {oldest}"));
    assert!(admin.query(format!("NARROWS ROLLBACK TO {}", oldest - 1)).error().is_some());
}

#[test]
fn versions_continue_with_the_next_worker_process() {
    let narrows = start(&NarrowsConfig::in_front_of(3306).supervised());
    let mut admin = narrows.admin();
    done(&mut admin, "UPDATE mysql_users SET comment = 'loaded'");
    done(&mut admin, "LOAD MYSQL USERS TO RUNTIME");
    let version = newest_version(&mut admin);
    let worker = narrows.worker();
    kill(worker);
    wait_until("another worker process serves", || narrows.worker() != worker);
    wait_until("administrators are served", || RawClient::try_connect(&narrows.admin_endpoint()).is_ok());
    let mut admin = narrows.admin();
    assert_eq!(newest_version(&mut admin), version);
    let drift = texts(admin.query("SHOW NARROWS DRIFT").text_rows());
    // What runs was not saved, and memory is what was saved.
    assert!(drift.iter().any(|row| row[0] == "not saved" && row[4] == "comment"), "{drift:?}");
    done(&mut admin, &format!("NARROWS ROLLBACK TO {}", version - 1));
    assert!(admin.query("SHOW NARROWS DRIFT").text_rows().is_empty());
}
