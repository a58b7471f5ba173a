//! Servers that refuse an account, or the statement that every new connection runs first: the client learns at once
//! which server refused, and the log is not flooded.

use std::time::{Duration, Instant};

use narrows_testkit::{Flavour, Login, NarrowsConfig, RawClient, RealServer};

use crate::support::start;

#[test]
fn an_account_that_a_server_refuses_is_named_with_the_server_and_logged_once_a_minute() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let config = NarrowsConfig::new()
            .server(0, server.port(), "")
            .user("sbtest", "not the servers", "")
            .user("nobody", "nobody", "");
        let narrows = start(&config);
        for (user, password) in [("sbtest", "not the servers"), ("nobody", "nobody")] {
            for _ in 0..5 {
                let mut client = RawClient::open(&narrows.endpoint(), &Login::new(user, password));
                let error = client.query("SELECT 1").error().expect("the server's error");
                assert_eq!((error.code, error.state.as_str()), (1045, "28000"), "{flavour:?}: {error:?}");
                // MySQL asks unknown users for any plugin, even for one that nobody has.
                let address = format!("127.0.0.1:{}", server.port());
                let refused = error.message.starts_with(&format!("{address} refuses the account '{user}': "));
                let impossible =
                    error.message.starts_with(&format!("Narrows cannot log in to {address} for you"));
                assert!(refused || user == "nobody" && impossible, "{error:?}");
            }
        }
        let log = narrows.log();
        for user in ["sbtest", "nobody"] {
            let of_user = |line: &&str| line.contains("refuses an account") && line.contains(user);
            assert_eq!(log.lines().filter(of_user).count(), 1, "{log}");
        }
    }
}

#[test]
fn an_init_connect_that_fails_is_the_servers_error_at_once() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        let config =
            NarrowsConfig::in_front_of(server.port()).variable("init_connect", "SET no_such_variable = 1");
        let narrows = start(&config);
        let mut client = narrows.client();
        let begun = Instant::now();
        for _ in 0..3 {
            let error = client.query("SELECT 1").error().expect("the server's error");
            assert_eq!(error.code, 1193, "{flavour:?}: {error:?}");
            let start = format!("127.0.0.1:{} refuses init_connect: ", server.port());
            assert!(error.message.starts_with(&start), "{error:?}");
        }
        // Narrows waits ten seconds for a server that is not available.
        assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
        assert_eq!(narrows.log().matches("refuses an account").count(), 0);
        assert_eq!(narrows.log().matches("init_connect fails").count(), 1, "{}", narrows.log());
    }
}
