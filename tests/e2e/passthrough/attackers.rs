//! Who guesses names and passwords: servers are asked a limited number of times, and nobody else is kept out.

use narrows_testkit::{Endpoint, Flavour, Login, RawClient, RealServer, ServerOptions};

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
