//! Connection attributes, as servers show them in `session_connect_attrs`.

use std::collections::BTreeMap;

use narrows_testkit::capability;
use narrows_testkit::{
    Answer, Endpoint, Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions,
};

use super::PASSWORD;
use crate::support::start;

/// A server with its Performance Schema, which MariaDB has off by default, and two accounts.
fn server(flavour: Flavour) -> RealServer {
    let options = ServerOptions::new(flavour).account("told", PASSWORD).account("told_too", PASSWORD);
    options
        .option("--performance-schema=ON")
        .option("--performance-schema-session-connect-attrs-size=8192")
        .start()
}

fn narrows(server: &RealServer, more: &str) -> Narrows {
    let config = NarrowsConfig::new().server(0, server.port(), "max_connections=1");
    let config = config.user("told", PASSWORD, more).user("told_too", PASSWORD, more);
    start(&config)
}

/// What the server must know about a client, besides what Narrows sends about itself.
type Known<'k> = &'k [(&'k str, &'k str)];

type Pairs = BTreeMap<String, Option<String>>;

/// What the server knows about the connection that serves `client`.
fn known(client: &mut RawClient) -> Pairs {
    pairs(&client.query(
        "SELECT attr_name, attr_value FROM performance_schema.session_connect_attrs \
         WHERE processlist_id = (SELECT id FROM information_schema.processlist \
                                 WHERE user = SUBSTRING_INDEX(USER(), '@', 1) AND command = 'Query')",
    ))
}

fn pairs(answer: &Answer) -> Pairs {
    assert!(answer.error().is_none(), "{:?}", answer.error());
    let pair = |row: Vec<Option<String>>| match &row[..] {
        [Some(name), value] => (name.clone(), value.clone()),
        other => panic!("no pair: {other:?}"),
    };
    answer.text_rows().into_iter().map(pair).collect()
}

fn expected(pairs: &[(&str, &str)]) -> Pairs {
    let proxy = [("_proxy_name", "narrows"), ("_proxy_version", env!("CARGO_PKG_VERSION"))];
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), Some((*value).to_owned()));
    proxy.iter().chain(pairs).map(pair).collect()
}

fn login(user: &str) -> Login {
    Login::new(user, PASSWORD)
}

#[test]
fn a_server_knows_the_program_behind_narrows() {
    for flavour in Flavour::both() {
        let server = server(flavour);
        for more in ["", "fast_forward=true"] {
            let narrows = narrows(&server, more);
            let said = login("told").attribute("program_name", "shop").attribute("_pid", "17");
            let mut client = RawClient::open(&narrows.endpoint(), &said);
            let wanted = expected(&[("program_name", "shop"), ("_pid", "17")]);
            assert_eq!(known(&mut client), wanted, "{flavour:?} {more}");
        }
        for silent in [login("told"), login("told").with(capability::CONNECT_ATTRS)] {
            let narrows = narrows(&server, "");
            let mut client = RawClient::open(&narrows.endpoint(), &silent);
            assert_eq!(known(&mut client), expected(&[("program_name", "narrows")]), "{flavour:?}");
        }
    }
}

#[test]
fn a_schema_that_is_asked_for_at_login_takes_nothing_away() {
    for flavour in Flavour::both() {
        let server = server(flavour);
        let narrows = narrows(&server, "");
        let said = login("told").schema("mysql").attribute("program_name", "shop");
        let mut client = RawClient::open(&narrows.endpoint(), &said);
        assert_eq!(known(&mut client), expected(&[("program_name", "shop")]), "{flavour:?}");
    }
}

#[test]
fn a_connection_says_who_it_was_logged_in_for() {
    for flavour in Flavour::both() {
        let server = server(flavour);
        let narrows = narrows(&server, "");
        let mut first =
            RawClient::open(&narrows.endpoint(), &login("told").attribute("program_name", "first"));
        assert_eq!(known(&mut first), expected(&[("program_name", "first")]), "{flavour:?}");
        // The connection unchanged.
        let mut second =
            RawClient::open(&narrows.endpoint(), &login("told").attribute("program_name", "second"));
        assert_eq!(known(&mut second), expected(&[("program_name", "first")]), "{flavour:?}");
        // Logged in again, for another account.
        let third = login("told_too").attribute("program_name", "third");
        let mut third = RawClient::open(&narrows.endpoint(), &third);
        assert_eq!(known(&mut third), expected(&[("program_name", "third")]), "{flavour:?}");
        // And once more, for a client that has changed user, with other attributes or with those of its login.
        second.change_user(&login("told").attribute("program_name", "fourth")).expect("the same password");
        let own_attributes = second.capabilities() & capability::CONNECT_ATTRS != 0;
        assert!(own_attributes, "{flavour:?}");
        assert_eq!(known(&mut second), expected(&[("program_name", "fourth")]), "{flavour:?}");
        first.change_user(&login("told_too")).expect("the same password");
        assert_eq!(known(&mut first), expected(&[("program_name", "first")]), "{flavour:?}");
    }
}

/// Logs in with these bytes for attributes; returns the error code, or 0 if the connection is closed without an error.
fn raw(client: &mut RawClient, attributes: &[u8]) -> Result<(), u16> {
    let greeting = client.greeting().expect("a greeting").clone();
    let said = login("told").with(capability::CONNECT_ATTRS);
    let mut response = said.response(&greeting.seed, &greeting.plugin);
    // Without attributes it ends with their length, zero.
    assert_eq!(response.pop(), Some(0));
    response.extend(narrows_testkit::writer::lenenc_bytes(attributes));
    // If it is refused for its length, the connection may be closed before all of it was sent.
    let _ = client.send(&response);
    loop {
        let Ok(packet) = client.read() else { return Err(0) };
        match packet.first() {
            0 => return Ok(()),
            // caching_sha2_password: the fast path succeeded.
            1 => {}
            _ => {
                let error = narrows_testkit::ErrorPacket::decode(&packet.payload);
                return Err(error.map_or(0, |error| error.code));
            }
        }
    }
}

#[test]
fn what_cannot_be_read_goes_no_further() {
    let long = [&b"\x01l\xFC\xA0\x0F"[..], &[b'x'; 4000]].concat();
    let too_long = [&b"\x01m\xFC\x88\x13"[..], &[b'x'; 5000]].concat();
    let parts: [(&[u8], Known<'_>); 7] = [
        // A value that is longer than what is left; a pair without its value.
        (b"\x01a\x01b\x01c\xFFd", &[("a", "b"), ("program_name", "narrows")]),
        (b"\x01a\x01b\x01c", &[("a", "b"), ("program_name", "narrows")]),
        (b"\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFa", &[("program_name", "narrows")]),
        // No name; no text.
        (b"\0\x01b\x01a\x01b", &[("a", "b"), ("program_name", "narrows")]),
        (b"\x01a\x01\xFF\x01\xFF\x01b\x01c\x01d", &[("c", "d"), ("program_name", "narrows")]),
        // What Narrows sends about itself.
        (b"\x0B_proxy_name\x01b", &[("program_name", "narrows")]),
        // Above the limit, and what comes after it.
        (&[&too_long[..], b"\x01a\x01b"].concat(), &[("a", "b"), ("program_name", "narrows")]),
    ];
    for flavour in Flavour::both() {
        let server = server(flavour);
        for (attributes, wanted) in parts {
            let narrows = narrows(&server, "");
            let mut client = RawClient::connect(&narrows.endpoint());
            assert_eq!(raw(&mut client, attributes), Ok(()), "{flavour:?} {attributes:?}");
            assert_eq!(known(&mut client), expected(wanted), "{flavour:?} {attributes:?}");
        }
        let narrows = narrows(&server, "");
        let mut client = RawClient::connect(&narrows.endpoint());
        assert_eq!(raw(&mut client, &long), Ok(()), "{flavour:?}");
        let found = known(&mut client);
        assert!(found.contains_key("l"), "{flavour:?} {found:?}");
        let mut client = RawClient::connect(&narrows.endpoint());
        assert!(raw(&mut client, &[0; 65_536]).is_err(), "{flavour:?}: more than servers accept");
    }
}

#[test]
fn monitor_connections_are_those_of_narrows() {
    let server = server(Flavour::MySql9);
    let config = NarrowsConfig::in_front_of(server.port()).monitor();
    let config = config.variable("monitor_username", "told").variable("monitor_password", PASSWORD);
    let _narrows = start(&config);
    let query = "SELECT attr_name, attr_value FROM performance_schema.session_connect_attrs \
                 JOIN performance_schema.processlist ON id = processlist_id WHERE user = 'told'";
    let mut root = RawClient::open(&Endpoint::Unix(server.socket()), &Login::new("root", ""));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let found = pairs(&root.query(query));
        if found == expected(&[("program_name", "narrows")]) {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{found:?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
