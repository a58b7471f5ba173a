//! Switchovers of real servers that are refused before anything changes, and what is left on servers after one that is made.

use narrows_testkit::{Flavour, Narrows, RawClient, wait_until};

use super::servers::Servers;
use super::switchover::{roles, switch_over};
use crate::support::start;

fn begin(servers: &Servers, password: &str) -> (Narrows, RawClient) {
    let narrows = start(&servers.config().variable("switchover_replication_password", password));
    let mut admin = narrows.admin();
    wait_until("the roles are known", || roles(&mut admin).len() >= servers.nodes.len());
    (narrows, admin)
}

#[test]
fn a_switchover_is_refused_if_the_old_primary_could_not_log_in_to_the_new_one() {
    for flavour in Flavour::both() {
        let servers = Servers::some(flavour, 2);
        let (_narrows, mut admin) = begin(&servers, "not-the-password");
        let before = roles(&mut admin);
        for how in ["", " DRY RUN"] {
            let error = switch_over(&mut admin, &servers.nodes[1], how).unwrap_err();
            assert!(error.contains("with the account sbtest, which was tried: Access denied"), "{error}");
            assert!(error.contains("mysql-switchover_replication_password"), "{error}");
        }
        assert_eq!(roles(&mut admin), before);
        // An account for other hosts cannot be tried.
        servers.nodes[0].execute(&[
            "CREATE USER elsewhere@'192.0.2.1' IDENTIFIED BY 'x'",
            "GRANT REPLICATION SLAVE ON *.* TO elsewhere@'192.0.2.1'",
            "CREATE USER reader@'%' IDENTIFIED BY 'reader'",
        ]);
        servers.have_all(0);
        let mut as_account = |user: &str| {
            for (name, value) in [("username", user), ("password", user)] {
                let set = format!("SET mysql-switchover_replication_{name} = '{value}'");
                admin.query(&set).ok().expect("it is set");
            }
            admin.query("LOAD MYSQL VARIABLES TO RUNTIME").ok().expect("it is loaded");
            switch_over(&mut admin, &servers.nodes[1], " DRY RUN")
        };
        let shown = as_account("elsewhere").expect("nothing is known against it");
        let note = "it is an account for other hosts than that of Narrows";
        assert!(shown.iter().any(|step| step[1] == "note" && step[2].ends_with(note)), "{shown:#?}");
        let error = as_account("nobody").unwrap_err();
        assert!(error.contains("there is no such account"), "{error}");
        let error = as_account("reader").unwrap_err();
        assert!(error.contains("it lacks REPLICATION SLAVE"), "{error}");
    }
}

#[test]
fn a_switchover_is_refused_at_once_if_the_new_primary_is_to_be_late_or_has_not_connected() {
    for flavour in Flavour::both() {
        let servers = Servers::some(flavour, 2);
        let (_narrows, mut admin) = begin(&servers, "sbtest");
        servers.delay(1, 3600);
        let error = switch_over(&mut admin, &servers.nodes[1], "").unwrap_err();
        let name = if flavour == Flavour::MySql9 { "SOURCE_DELAY" } else { "MASTER_DELAY" };
        assert!(error.contains("applies everything 3600 s late") && error.contains(name), "{error}");
        servers.delay(1, 0);
        servers.change_source(1, "PASSWORD = 'not-the-password'");
        // The source of a replica that has connected once stays known.
        let mut error = String::new();
        wait_until("its replication has failed", || {
            error = switch_over(&mut admin, &servers.nodes[1], "").unwrap_err();
            error.contains("Access denied")
        });
        assert!(!error.contains("is no replica of"), "{error}");
    }
}

/// What a server of MySQL reads at its next start after its option file.
fn persisted(servers: &Servers, node: usize) -> Option<String> {
    let set =
        "SELECT group_concat(variable_name, '=', variable_value) FROM performance_schema.persisted_variables";
    servers.nodes[node].rows(set)[0][0].clone()
}

#[test]
fn the_old_primary_of_mysql_will_be_read_only_after_a_restart_and_the_new_one_forgets_that_it_was() {
    Flavour::MySql9.if_tested(|flavour| {
        let servers = Servers::some(flavour, 2);
        let (_narrows, mut admin) = begin(&servers, "sbtest");
        for (old, new) in [(0, 1), (1, 0)] {
            let steps = switch_over(&mut admin, &servers.nodes[new], "").expect("it is made");
            assert!(steps.iter().all(|step| step[3] == "done"), "{steps:#?}");
            assert_eq!(persisted(&servers, old).as_deref(), Some("super_read_only=ON"));
            assert_eq!(persisted(&servers, new), None);
        }
    });
}
