//! Single logins, packet by packet: what is requested, what is learnt, what a refusal says.

use std::collections::BTreeSet;

use narrows_testkit::{
    Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer, ServerOptions, tls_client, wait_until,
};

use super::{NATIVE_HASH, PASSWORD, SHA2_HASH};
use crate::support::start;

fn account(server: &RealServer, user: &str, password: &str) {
    server.execute(&[
        &format!("CREATE USER IF NOT EXISTS {user}@'%' IDENTIFIED BY '{password}'"),
        &format!("GRANT ALL ON *.* TO {user}@'%'"),
    ]);
}

#[test]
fn a_password_revealed_once_serves_the_logins_after_it() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        account(server, "revealing", PASSWORD);
        let narrows =
            start(&NarrowsConfig::new().server(0, server.port(), "").user("revealing", SHA2_HASH, ""));
        let login = Login::new("revealing", PASSWORD).plugin("caching_sha2_password");
        let over_tcp = || {
            let mut client = RawClient::connect(&narrows.endpoint());
            client.login(&login).map(|_| client)
        };
        assert_eq!(over_tcp().expect_err("the password is wanted").code, 0, "this client has no RSA");
        let mut wrong = RawClient::connect(&narrows_testkit::Endpoint::Unix(narrows.socket()));
        let error = wrong.login(&Login::new("revealing", "wrong").plugin("caching_sha2_password"));
        assert_eq!(error.expect_err("wrong").code, 1045);
        RawClient::open(&narrows_testkit::Endpoint::Unix(narrows.socket()), &login);
        let mut client = over_tcp().expect("the fast path now");
        assert_eq!(client.query("SELECT CURRENT_USER()").text_rows()[0][0].as_deref(), Some("revealing@%"));
    }
}

#[test]
fn both_passwords_of_an_account_are_good() {
    let server = RealServer::shared(Flavour::MariaDb);
    account(server, "two_passwords", PASSWORD);
    let old = r#"attributes="{\"additional_password\":\"the old one\"}""#;
    for stored in [PASSWORD, NATIVE_HASH] {
        let narrows =
            start(&NarrowsConfig::new().server(0, server.port(), "").user("two_passwords", stored, old));
        for plugin in ["mysql_native_password", "caching_sha2_password"] {
            for (password, good) in [(PASSWORD, true), ("the old one", true), ("another", false)] {
                let mut client = RawClient::connect(&narrows.endpoint());
                let outcome = client.login(&Login::new("two_passwords", password).plugin(plugin));
                assert_eq!(outcome.is_ok(), good, "{stored} {plugin} {password}: {outcome:?}");
            }
        }
    }
}

/// The row of `stats_narrows_passwords`, without the times: of clients the password and the additional one, and of servers.
fn password_use(narrows: &Narrows, user: &str) -> Vec<String> {
    let columns =
        "clients_password, clients_additional_password, servers_password, servers_additional_password";
    let sql = format!("SELECT {columns} FROM stats_narrows_passwords WHERE username = '{user}'");
    narrows.admin().query(sql).text_rows().into_iter().flatten().flatten().collect()
}

/// Ends the connections of an account on a server, so that others have to be opened.
fn end_connections(server: &RealServer, user: &str) {
    let open =
        || server.rows(&format!("SELECT id FROM information_schema.processlist WHERE user = '{user}'"));
    for id in open().into_iter().flatten().flatten() {
        // One that was about to end may be gone.
        server.try_execute(&format!("KILL {id}"));
    }
    wait_until("the connections are closed", || open().is_empty());
}

#[test]
fn a_server_may_have_either_password_and_a_table_says_which_are_used() {
    for flavour in Flavour::both() {
        let server = RealServer::shared(flavour);
        account(server, "rotated", "the old one");
        let old = r#"attributes="{\"additional_password\":\"the old one\"}""#;
        let config = NarrowsConfig::new().server(0, server.port(), "").user("rotated", "the new one", old);
        let narrows = start(&config);
        let open = |password: &str| RawClient::open(&narrows.endpoint(), &Login::new("rotated", password));
        let works = |client: &mut RawClient| {
            client.query("SELECT CURRENT_USER()").cell().as_deref() == Some("rotated@%")
        };
        let (mut first, mut second) = (open("the old one"), open("the new one"));
        assert!(works(&mut first) && works(&mut second), "the server has the old one only");
        // One connection of each worker.
        assert_eq!(password_use(&narrows, "rotated"), ["1", "1", "0", "2"]);
        server.execute(&["ALTER USER rotated@'%' IDENTIFIED BY 'the new one'"]);
        end_connections(server, "rotated");
        assert!(works(&mut first) && works(&mut second), "it has the new one only");
        assert_eq!(password_use(&narrows, "rotated"), ["1", "1", "2", "2"]);
        let mut admin = narrows.admin();
        for statement in [
            "UPDATE mysql_users SET attributes = '' WHERE username = 'rotated'",
            "LOAD MYSQL USERS TO RUNTIME",
        ] {
            assert!(admin.query(statement).ok().is_some());
        }
        end_connections(server, "rotated");
        assert!(works(&mut first), "who logged in with the old one continues with the new one");
        assert_eq!(password_use(&narrows, "rotated"), ["0", "0", "1", "0"], "the passwords are others now");
        let mut late = RawClient::connect(&narrows.endpoint());
        assert!(late.login(&Login::new("rotated", "the old one")).is_err());
    }
}

#[test]
fn what_is_no_password_lets_nobody_in() {
    let server = RealServer::shared(Flavour::MariaDb);
    account(server, "one_password", PASSWORD);
    for value in ["\\\"\\\"", "null", "false", "0", "17", "[]", "{}"] {
        let attributes = format!("attributes=\"{{\\\"additional_password\\\":{value}}}\"");
        let config =
            NarrowsConfig::new().server(0, server.port(), "").user("one_password", PASSWORD, &attributes);
        let narrows = start(&config);
        for plugin in ["mysql_native_password", "caching_sha2_password"] {
            for (password, good) in
                [(PASSWORD, true), ("", false), ("0", false), ("17", false), ("null", false)]
            {
                let mut client = RawClient::connect(&narrows.endpoint());
                let outcome = client.login(&Login::new("one_password", password).plugin(plugin));
                assert_eq!(outcome.is_ok(), good, "{value} {plugin} {password:?}: {outcome:?}");
            }
        }
        let mut admin = narrows.admin();
        assert_eq!(admin.query("LOAD MYSQL USERS TO RUNTIME").ok().map(|ok| ok.warnings), Some(1), "{value}");
        let warnings = admin.query("SHOW WARNINGS").text_rows();
        let text = warnings[0][2].as_deref().unwrap_or_default();
        assert!(text.contains("additional_password") && text.contains("has no effect"), "{value}: {text}");
    }
}

#[test]
fn a_server_with_ed25519_is_logged_in_to_and_so_is_narrows() {
    let server = ServerOptions::new(Flavour::MariaDb).option("--plugin-load-add=auth_ed25519").start();
    server.execute(&[
        &format!("CREATE USER signing@'%' IDENTIFIED VIA ed25519 USING PASSWORD('{PASSWORD}')"),
        "GRANT ALL ON *.* TO signing@'%'",
    ]);
    let narrows = start(&NarrowsConfig::new().server(0, server.port(), "").user("signing", PASSWORD, ""));
    let mut client = RawClient::open(&narrows.endpoint(), &Login::new("signing", PASSWORD));
    assert_eq!(client.query("SELECT CURRENT_USER()").text_rows()[0][0].as_deref(), Some("signing@%"));
    let hashed = start(&NarrowsConfig::new().server(0, server.port(), "").user("signing", NATIVE_HASH, ""));
    let mut client = RawClient::open(&hashed.endpoint(), &Login::new("signing", PASSWORD));
    let error = client.query("DO 1").error().expect("no password for the signature");
    assert_eq!(
        (error.code, error.message.contains("client_ed25519 needs the password")),
        (1045, true),
        "{error:?}"
    );
}

#[test]
fn a_clear_password_is_taken_over_tls_only() {
    let server = RealServer::shared(Flavour::MariaDb);
    account(server, "clear", PASSWORD);
    let narrows = start(&NarrowsConfig::new().server(0, server.port(), "").user("clear", NATIVE_HASH, ""));
    let login = Login::new("clear", PASSWORD).plugin("mysql_clear_password");
    let ca = std::fs::read_to_string(narrows.folder().join("proxysql-ca.pem")).expect("made");
    RawClient::open_tls(&narrows.endpoint(), &tls_client(&ca, None), &login);
    // Elsewhere another answer is requested; this client has one.
    let mut switched = RawClient::connect(&narrows.endpoint());
    let packets = switched.login(&login);
    assert!(packets.is_ok(), "{packets:?}");
}

#[test]
fn a_refusal_does_not_tell_whether_the_user_exists() {
    let server = RealServer::shared(Flavour::MariaDb);
    for (stored, plugins) in [
        (PASSWORD, &["mysql_native_password", "caching_sha2_password", "client_ed25519"][..]),
        (NATIVE_HASH, &["mysql_native_password", "caching_sha2_password"]),
        (SHA2_HASH, &["mysql_native_password", "caching_sha2_password"]),
    ] {
        let narrows = start(&NarrowsConfig::new().server(0, server.port(), "").user("known", stored, ""));
        for plugin in plugins {
            let seen: BTreeSet<Vec<Vec<u8>>> =
                ["known", "owner"].map(|user| conversation(&narrows, user, plugin)).into();
            assert_eq!(seen.len(), 1, "{stored} {plugin}: {seen:?}");
        }
    }
}

/// What Narrows sends to a client with a wrong password over the Unix socket, except for nonces and the user name.
fn conversation(narrows: &Narrows, user: &str, plugin: &str) -> Vec<Vec<u8>> {
    let mut client = RawClient::connect(&narrows_testkit::Endpoint::Unix(narrows.socket()));
    let greeting = client.greeting().expect("a greeting").clone();
    let response = Login::new(user, "wrong").response(&greeting.seed, plugin);
    client.send(&response).expect("it reads");
    let mut packets = Vec::new();
    loop {
        let packet = client.read().expect("an answer").payload;
        let first = packet[0];
        packets.push(match first {
            0xFF => String::from_utf8_lossy(&packet).replace(user, "somebody").into_bytes(),
            0xFE => packet.split(|byte| *byte == 0).next().expect("a name").to_vec(),
            _ => packet,
        });
        if first == 0xFF {
            return packets;
        }
        client.send(b"wrong\0").expect("it reads");
    }
}

#[test]
fn a_server_elsewhere_is_not_asked_for_its_key() {
    // Every address of this host is local to the server; to Narrows only loopback is.
    let Some(address) = own_address() else {
        eprintln!("this host has only loopback addresses: nothing to test");
        return;
    };
    if !Flavour::MySql9.is_tested() {
        return;
    }
    let server = ServerOptions::new(Flavour::MySql9).option("--bind-address=0.0.0.0").start();
    for (asked, code) in [("false", Some(1045)), ("true", None)] {
        account(&server, &format!("far_{asked}"), PASSWORD);
        let user = format!("far_{asked}");
        let config = NarrowsConfig::new()
            .server_at(0, &address, server.port(), "")
            .user(&user, PASSWORD, "")
            .variable("get_server_public_key", asked);
        let narrows = start(&config);
        let mut client = RawClient::open(&narrows.endpoint(), &Login::new(&user, PASSWORD));
        let error = client.query("DO 1").error();
        assert_eq!(error.as_ref().map(|error| error.code), code, "{error:?}");
        assert!(error.is_none_or(|error| error.message.contains("mysql-get_server_public_key")));
    }
}

/// A non-loopback address of this host. Finding it sends nothing.
fn own_address() -> Option<String> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then(|| address.to_string())
}
