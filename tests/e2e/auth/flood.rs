//! Many logins at once whose passwords are costly to verify: existing sessions and cheap logins continue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use narrows_testkit::{Endpoint, Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer};

/// A hash as MySQL stores it, of a password that nobody has; three hexadecimal digits give its rounds in thousands.
fn hash(thousands: &str) -> String {
    format!("$A${thousands}$narrowsnarrowsnarrow{}", "a".repeat(43))
}

/// One worker, in front of a server, with an account whose password is in clear text, and one whose password is costly.
fn start(server: &RealServer, thousands: &str, connect_timeout: &str) -> Narrows {
    let config = NarrowsConfig::new()
        .server(0, server.port(), "")
        .user("sbtest", "sbtest", "")
        .user("costly", &hash(thousands), "")
        .variable("threads", "1")
        .variable("connect_timeout_client", connect_timeout);
    crate::support::start(&config)
}

/// Starts this many logins with a wrong password, each on a separate connection; returns the errors they end with, and
/// how many have ended.
fn flood(narrows: &Narrows, count: usize) -> (Vec<std::thread::JoinHandle<(u16, String)>>, Arc<AtomicUsize>) {
    let ended = Arc::new(AtomicUsize::new(0));
    let log_in = |_| {
        let (socket, ended) = (narrows.socket(), Arc::clone(&ended));
        std::thread::spawn(move || {
            let login = Login::new("costly", "wrong").plugin("caching_sha2_password");
            let refused = RawClient::connect(&Endpoint::Unix(socket)).login(&login);
            ended.fetch_add(1, Ordering::Relaxed);
            let error = refused.expect_err("the password is wrong");
            (error.code, error.message)
        })
    };
    ((0..count).map(log_in).collect(), ended)
}

#[test]
fn statements_and_other_logins_go_on_beside_a_flood_of_logins() {
    const LOGINS: usize = 40;
    for flavour in Flavour::both() {
        let narrows = start(RealServer::shared(flavour), "200", "60000");
        let login = Login::new("sbtest", "sbtest");
        let mut client = RawClient::open(&narrows.endpoint(), &login);
        assert!(client.query("DO 1").ok().is_some(), "{flavour:?}");
        let (logins, ended) = flood(&narrows, LOGINS);
        let mut statements = 0;
        while ended.load(Ordering::Relaxed) < LOGINS {
            assert!(client.query("DO 1").ok().is_some(), "{flavour:?}");
            statements += 1;
            if statements % 20 == 0 {
                RawClient::open(&narrows.endpoint(), &login);
            }
        }
        for login in logins {
            assert_eq!(login.join().expect("no panic").0, 1045, "{flavour:?}: all of them have their turn");
        }
        // A worker that hashes by itself would serve a session once or twice between two logins.
        assert!(statements > 5 * LOGINS, "{flavour:?}: {statements} statements beside {LOGINS} logins");
    }
}

#[test]
fn a_login_that_finds_no_room_in_time_is_told_so() {
    let narrows = start(RealServer::shared(Flavour::MariaDb), "FFF", "4000");
    let login = Login::new("sbtest", "sbtest");
    let mut client = RawClient::open(&narrows.endpoint(), &login);
    // More than are accepted at a time.
    let (logins, ended) = flood(&narrows, 100);
    while ended.load(Ordering::Relaxed) < 100 {
        assert!(client.query("DO 1").ok().is_some());
    }
    let errors: Vec<_> = logins.into_iter().map(|login| login.join().expect("no panic")).collect();
    let told = "Too many logins at the same time: the password could not be verified";
    let without_room = errors.iter().filter(|(code, text)| *code == 1040 && text == told).count();
    let wrong = errors.iter().filter(|(code, _)| *code == 1045).count();
    assert!(without_room > 0 && without_room + wrong == 100, "{errors:?}");
    RawClient::open(&narrows.endpoint(), &login);
}
