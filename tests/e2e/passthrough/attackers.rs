//! Who guesses names and passwords: servers are asked a limited number of times, and nobody else is kept out.

use std::process::Command;

use narrows_testkit::{Endpoint, Flavour, Login, RawClient, RealServer, ServerOptions, wait_until};

use super::{asked, config, found, log_in, refusal};
use crate::support::start;

#[test]
fn servers_are_asked_a_limited_number_of_times() {
    let server = RealServer::shared(Flavour::MariaDb);
    server.execute(&["CREATE USER IF NOT EXISTS pt_victim@'%' IDENTIFIED BY 'one'"]);
    let narrows = start(&config(server.port()).variable("passthrough_auth_max_failures_per_ip", "6"));
    log_in(&narrows, "pt_victim", "one").expect("it exists");
    for number in 0..10 {
        let (code, text) = refusal(&narrows, "pt_victim", "guess");
        assert_eq!(code, 1045);
        let told = text.contains("mysql-passthrough_auth_max_failures_per_user");
        assert_eq!(told, number >= 3, "{number}: {text}");
    }
    assert_eq!(asked(&narrows, "refused"), 3);
    log_in(&narrows, "pt_victim", "one").expect("who has logged in before still can");
    for number in 0..10 {
        let (code, text) = refusal(&narrows, &format!("pt_guess{number}"), "guess");
        assert_eq!(code, 1045);
        let told = text.contains("mysql-passthrough_auth_max_failures_per_ip");
        assert_eq!(told, number >= 3, "{number}: {text}");
    }
    assert_eq!((asked(&narrows, "refused"), asked(&narrows, "limited")), (6, 14));
    assert_eq!(found(&narrows).len(), 1, "nothing is kept of what fails");
    narrows.admin().query("PROXYSQL FLUSH PASSTHROUGH_AUTH_CACHE");
    assert_eq!(found(&narrows), []);
    log_in(&narrows, "pt_victim", "one").expect("the failures are forgotten, too");
}

#[test]
fn a_server_that_knows_narrows_by_its_process_says_nothing_about_a_client() {
    let whoami = Command::new("id").arg("-un").output().expect("coreutils are installed").stdout;
    let whoami = String::from_utf8(whoami).expect("a name").trim().to_owned();
    for flavour in Flavour::both() {
        let server = ServerOptions::new(flavour).account("pt_usual", "one").start();
        // MariaDB knows the process by the name of its account only.
        let known = match flavour {
            Flavour::MySql9 => {
                server.execute(&["INSTALL PLUGIN auth_socket SONAME 'auth_socket.so'"]);
                format!("CREATE USER pt_socket@localhost IDENTIFIED WITH auth_socket AS '{whoami}'")
            }
            Flavour::MariaDb => {
                format!("GRANT USAGE ON *.* TO '{whoami}'@localhost IDENTIFIED VIA unix_socket")
            }
        };
        server.execute(&[&known]);
        let name = if flavour == Flavour::MySql9 { "pt_socket" } else { &whoami };
        let socket = server.socket().display().to_string();
        let mut direct = RawClient::connect(&Endpoint::Unix(server.socket()));
        direct.login(&Login::new(name, "")).expect("the server knows this process");
        let config = config(server.port()).server_at(8, &socket, 0, "");
        let narrows = start(&config.variable("passthrough_default_hg", "8"));
        for password in ["", "wrong"] {
            assert_eq!(refusal(&narrows, name, password).0, 1045, "{flavour:?} '{password}'");
        }
        let log = narrows.wait_for_log(0, |line| line.contains("does not ask for a password"));
        assert!(log.contains(name), "{log}");
        let mut client = log_in(&narrows, "pt_usual", "one").expect("its password is asked for");
        assert_eq!(client.query("SELECT CURRENT_USER()").cell().as_deref(), Some("pt_usual@%"));
        assert_eq!(refusal(&narrows, "pt_usual", "two").0, 1045, "{flavour:?}");
        let mut other = log_in(&narrows, "pt_usual", "one").expect("it is known");
        assert_eq!(other.change_user(&Login::new(name, "wrong")).expect_err("wrong").code, 1045);
    }
}

#[test]
fn a_name_is_the_same_one_for_narrows_and_for_servers() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let long = "\u{3042}".repeat(32);
        server.execute(&[
            "CREATE USER IF NOT EXISTS pt_named@'%' IDENTIFIED BY 'one'",
            &format!("CREATE USER IF NOT EXISTS '{long}'@'%' IDENTIFIED BY 'one'"),
        ]);
        let narrows = start(&config(server.port()).user("pt_named", "one", "max_connections=1"));
        let first = log_in(&narrows, "pt_named", "one").expect("it exists");
        assert_eq!(
            refusal(&narrows, "'pt_named'", "one").0,
            1226,
            "{flavour:?}: servers take the apostrophes off"
        );
        drop(first);
        let mut client = None;
        wait_until("the first one has left", || {
            client = log_in(&narrows, "'pt_named'", "one").ok();
            client.is_some()
        });
        let mut client = client.expect("it is pt_named");
        let user = client.query("SELECT USER()").cell().unwrap_or_default();
        assert!(user.starts_with("pt_named@"), "{user}");
        assert_eq!(client.change_user(&Login::new("''pt_named''", "one")).expect_err("nobody").code, 1045);
        for name in ["''pt_named''", "'''", &format!("{long}x"), &format!("{long}\u{3042}")] {
            assert_eq!(refusal(&narrows, name, "one").0, 1045, "{flavour:?}: {name}");
        }
        log_in(&narrows, &long, "one").expect("it exists");
        assert_eq!(found(&narrows).len(), 1, "{flavour:?}");
    }
}

#[test]
fn names_that_exist_and_names_that_do_not_look_alike() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        server.execute(&["CREATE USER IF NOT EXISTS pt_exists@'%' IDENTIFIED BY 'one'"]);
        let narrows = start(&config(server.port()).variable("passthrough_auth_max_failures_per_ip", "0"));
        let told = |user: &str| refusal(&narrows, user, "wrong").1.replace(user, "...");
        assert_eq!(told("pt_exists"), told("pt_exists_not"), "{flavour:?}");
        log_in(&narrows, "pt_exists", "one").expect("it exists");
        assert_eq!(told("pt_exists"), told("pt_exists_not"), "{flavour:?}: also when it was found");
    }
}

#[test]
fn a_flood_of_wrong_passwords_does_not_make_servers_block_narrows() {
    for flavour in Flavour::both() {
        let options =
            ServerOptions::new(flavour).option("--max-connect-errors=1").option("--max-connections=30");
        let server = options.account("pt_good", "one").start();
        let config = config(server.port())
            .variable("passthrough_auth_max_failures_per_ip", "0")
            .variable("passthrough_auth_max_failures_per_user", "0")
            .variable("passthrough_auth_max_inflight_probes", "10");
        let narrows = start(&config);
        std::thread::scope(|scope| {
            for thread in 0..20 {
                let narrows = &narrows;
                scope.spawn(move || {
                    for number in 0..20 {
                        let mut client = RawClient::connect(&Endpoint::Unix(narrows.socket()));
                        let login = Login::new(&format!("pt_flood_{thread}_{number}"), "guess");
                        let error = client.login(&login).expect_err("nobody");
                        assert!(matches!(error.code, 1045 | 9001), "{error:?}");
                    }
                });
            }
        });
        log_in(&narrows, "pt_good", "one").expect("the server still listens to Narrows");
        assert!(asked(&narrows, "refused") > 10, "{flavour:?}: the server was asked");
        assert_eq!(found(&narrows).len(), 1, "{flavour:?}");
    }
}
