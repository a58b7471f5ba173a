//! Accounts that are created, changed and dropped on the servers.

use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, Login, Narrows, RawClient, RealServer};

use super::{asked, config, found, log_in, refusal};
use crate::support::start;

/// The bound that docs/pass-through.md promises.
const BOUND: Duration = Duration::from_secs(5);

#[test]
fn an_account_logs_in_right_after_it_was_created_and_its_connection_is_used() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let narrows = start(&config(server.port()));
        server.execute(&["CREATE USER pt_new@'%' IDENTIFIED BY 'one'"]);
        let mut client = log_in(&narrows, "pt_new", "one").expect("it exists");
        let answer = client.query("SELECT CONCAT(CURRENT_USER(), ' ', CONNECTION_ID() > 0)");
        assert_eq!(answer.cell().as_deref(), Some("pt_new@% 1"), "{flavour:?}");
        // The same connection served the login and the statement.
        let pool = narrows.admin().query("SELECT SUM(ConnOK) FROM stats_mysql_connection_pool");
        assert_eq!(pool.cell().as_deref(), Some("1"), "{flavour:?}");
        assert_eq!(asked(&narrows, "confirmed"), 1, "{flavour:?}");
        log_in(&narrows, "pt_new", "one").expect("it is known now");
        assert_eq!(asked(&narrows, "confirmed"), 1, "{flavour:?}: it was confirmed a moment ago");
        assert_eq!(found(&narrows), [("pt_new".to_owned(), "confirmed".to_owned())]);
        let users = narrows
            .admin()
            .query("SELECT frontend_connections FROM stats_mysql_users WHERE username = 'pt_new'");
        assert_eq!(users.cell().as_deref(), Some("1"));
        assert_eq!(refusal(&narrows, "pt_new", "two").0, 1045, "{flavour:?}");
        assert_eq!(refusal(&narrows, "pt_nobody", "one").0, 1045, "{flavour:?}");
        server.execute(&["DROP USER pt_new@'%'"]);
    }
}

#[test]
fn a_changed_password_works_at_the_first_try_and_the_old_one_no_longer() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let narrows = start(&config(server.port()));
        server.execute(&["CREATE USER pt_change@'%' IDENTIFIED BY 'one'"]);
        log_in(&narrows, "pt_change", "one").expect("it exists");
        server.execute(&["ALTER USER pt_change@'%' IDENTIFIED BY 'two'"]);
        let changed = Instant::now();
        log_in(&narrows, "pt_change", "two").expect("at the first try");
        while log_in(&narrows, "pt_change", "one").is_ok() {
            assert!(changed.elapsed() < BOUND, "{flavour:?}: the old password is good for too long");
        }
        // Those who still use the old one keep nobody out.
        for _ in 0..20 {
            assert_eq!(refusal(&narrows, "pt_change", "one").0, 1045, "{flavour:?}");
        }
        log_in(&narrows, "pt_change", "two").expect("it is good");
        server.execute(&["ALTER USER pt_change@'%' IDENTIFIED BY 'three'"]);
        log_in(&narrows, "pt_change", "three").expect("at the first try");
        server.execute(&["DROP USER pt_change@'%'"]);
        let dropped = Instant::now();
        while log_in(&narrows, "pt_change", "three").is_ok() {
            assert!(dropped.elapsed() < BOUND, "{flavour:?}: a dropped account can log in for too long");
        }
        let log = narrows.log();
        assert!(!log.contains("three"), "no password is logged:\n{log}");
    }
}

#[test]
fn an_account_that_was_created_again_does_not_get_the_connections_of_the_one_before() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let narrows = start(&config(server.port()));
        for second in ["two", "one"] {
            server.execute(&[
                "CREATE USER pt_again@'%' IDENTIFIED BY 'one'",
                "GRANT ALL ON *.* TO pt_again@'%'",
            ]);
            let log_in_as_one = |_| log_in(&narrows, "pt_again", "one").expect("it exists");
            let mut clients: Vec<_> = (0..4).map(log_in_as_one).collect();
            // Each keeps a connection of its own.
            for client in &mut clients {
                assert!(client.query("BEGIN").error().is_none());
            }
            drop(clients);
            server.execute(&["DROP USER pt_again@'%'"]);
            let dropped = Instant::now();
            while log_in(&narrows, "pt_again", "one").is_ok() {
                assert!(dropped.elapsed() < BOUND, "{flavour:?}: a dropped account can log in for too long");
            }
            server.execute(&[&format!("CREATE USER pt_again@'%' IDENTIFIED BY '{second}'")]);
            let mut client = log_in_within_bound(&narrows, "pt_again", second);
            for _ in 0..4 {
                let granted = format!("{:?}", client.query("SHOW GRANTS").text_rows());
                assert!(!granted.contains("ALL PRIVILEGES"), "{flavour:?} {second}: {granted}");
                client = log_in(&narrows, "pt_again", second).expect("it exists");
                assert!(client.query("BEGIN").error().is_none());
            }
            server.execute(&["DROP USER pt_again@'%'"]);
            drop(client);
            narrows.admin().query("PROXYSQL FLUSH PASSTHROUGH_AUTH_CACHE");
        }
    }
}

/// A password that was refused a moment ago is not asked about at once.
fn log_in_within_bound(narrows: &Narrows, user: &str, password: &str) -> RawClient {
    let began = Instant::now();
    loop {
        match log_in(narrows, user, password) {
            Ok(client) => return client,
            Err(error) => assert!(began.elapsed() < BOUND, "{error:?}"),
        }
    }
}

#[test]
fn idle_connections_of_an_account_do_not_use_up_what_its_server_allows() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let narrows = start(&config(server.port()).variable("passthrough_auth_recheck_ms", "0"));
        server.execute(&["CREATE USER pt_limited@'%' IDENTIFIED BY 'one' WITH MAX_USER_CONNECTIONS 1"]);
        for number in 0..5 {
            let mut client = log_in(&narrows, "pt_limited", "one").expect("nobody else uses the account");
            assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"), "{flavour:?} {number}");
        }
        assert_eq!(refusal(&narrows, "pt_limited", "two").0, 1045, "{flavour:?}");
        server.execute(&["DROP USER pt_limited@'%'"]);
    }
}

#[test]
fn grants_and_roles_are_those_of_the_server() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let narrows = start(&config(server.port()));
        server.execute(&[
            "CREATE DATABASE IF NOT EXISTS pt_grants",
            "CREATE TABLE IF NOT EXISTS pt_grants.t (a INT)",
            "CREATE USER pt_grants@'%' IDENTIFIED BY 'one'",
            "CREATE ROLE pt_role",
            "GRANT SELECT ON pt_grants.* TO pt_role",
            "GRANT pt_role TO pt_grants@'%'",
        ]);
        let mut client = log_in(&narrows, "pt_grants", "one").expect("it exists");
        assert_eq!(client.query("SELECT * FROM pt_grants.t").error().expect("no right").code, 1142);
        client.query("SET ROLE pt_role");
        assert!(client.query("SELECT * FROM pt_grants.t").error().is_none(), "{flavour:?}");
        let refused = super::log_in_with(&narrows, &Login::new("pt_grants", "one").schema("mysql"));
        assert_eq!(refused.expect_err("no right to that schema").code, 1044, "{flavour:?}");
        server.execute(&["DROP USER pt_grants@'%'", "DROP ROLE pt_role"]);
    }
}

#[test]
fn two_passwords_of_an_account_are_good_while_the_server_says_so() {
    Flavour::MySql9.if_tested(|flavour| {
        let server = RealServer::shared(flavour);
        let narrows = start(&config(server.port()).variable("passthrough_auth_recheck_ms", "0"));
        server.execute(&[
            "CREATE USER pt_two@'%' IDENTIFIED BY 'one'",
            "ALTER USER pt_two@'%' IDENTIFIED BY 'two' RETAIN CURRENT PASSWORD",
        ]);
        for password in ["one", "two", "one", "two"] {
            log_in(&narrows, "pt_two", password).expect(password);
        }
        assert_eq!(asked(&narrows, "confirmed"), 4);
        server.execute(&["ALTER USER pt_two@'%' DISCARD OLD PASSWORD"]);
        assert_eq!(refusal(&narrows, "pt_two", "one").0, 1045);
        log_in(&narrows, "pt_two", "two").expect("it is good");
        server.execute(&["DROP USER pt_two@'%'"]);
    });
}
