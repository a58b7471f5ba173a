//! The client's address, as given by a trusted load balancer, and by nobody else.

use narrows_testkit::{Flavour, Login, Narrows, NarrowsConfig, RawClient, RealServer};

use crate::support::start;

const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn narrows(networks: &str) -> Narrows {
    let config = NarrowsConfig::in_front_of(RealServer::shared(Flavour::MariaDb).port())
        .variable("proxy_protocol_networks", networks);
    start(&config)
}

/// The address in the error of a refused login, which is the client's as Narrows knows it.
fn address_behind(narrows: &Narrows, header: &[u8]) -> Option<String> {
    let mut client = RawClient::connect(&narrows.endpoint());
    client.send_bytes(header).expect("it reads");
    let error = client.login(&Login::new("sbtest", "wrong")).expect_err("a wrong password");
    let address = error.message.split("'@'").nth(1)?.split('\'').next()?;
    assert_eq!(error.code, 1045, "{error:?}");
    Some(address.to_owned())
}

fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).expect("short").to_be_bytes();
    [V2, &[command, family], &length, body].concat()
}

#[test]
fn a_trusted_balancer_says_whose_connection_it_is() {
    let narrows = narrows("127.0.0.0/8");
    let body = [203, 0, 113, 7, 127, 0, 0, 1, 0x9D, 0x1A, 0x17, 0x91];
    for (header, address) in [
        (b"PROXY TCP4 203.0.113.7 127.0.0.1 40218 6033\r\n".to_vec(), "203.0.113.7"),
        (b"PROXY TCP6 2001:db8::7 ::1 40218 6033\r\n".to_vec(), "2001:db8::7"),
        (v2(0x21, 0x11, &body), "203.0.113.7"),
        (v2(0x21, 0x11, &[&body[..], b"\x03\0\x04abcd"].concat()), "203.0.113.7"),
        // The header names no client, so the connection is the balancer's own.
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (v2(0x20, 0x00, &[]), "127.0.0.1"),
        (v2(0x20, 0x11, &body), "127.0.0.1"),
        (Vec::new(), "127.0.0.1"),
    ] {
        assert_eq!(address_behind(&narrows, &header).as_deref(), Some(address), "{header:?}");
    }
    let mut client = RawClient::connect(&narrows.endpoint());
    client.send_bytes(b"PROXY TCP4 203.0.113.7 127.0.0.1 40218 6033\r\n").expect("it reads");
    client.login(&Login::new("sbtest", "sbtest")).expect("logged in");
    assert_eq!(client.query("SELECT 1").text_rows()[0][0].as_deref(), Some("1"));
}

#[test]
fn a_header_that_makes_no_sense_ends_the_connection() {
    let narrows = narrows("*");
    for header in [
        b"PROXY TCP4 203.0.113.7 127.0.0.1 40218\r\n".to_vec(),
        b"PROXY TCP4 203.0.113.777 127.0.0.1 1 2\r\n".to_vec(),
        b"PROXY TCP4 ::1 ::1 1 2\r\n".to_vec(),
        [b"PROXY ", &[b'x'; 200][..]].concat(),
        v2(0x31, 0x11, &[0; 12]),
        v2(0x21, 0x11, &[0; 4]),
        v2(0x21, 0x11, &[0; 40_000]),
    ] {
        let mut client = RawClient::connect(&narrows.endpoint());
        client.send_bytes(&header).expect("it reads");
        let refused = client.login(&Login::new("sbtest", "sbtest"));
        assert!(refused.is_err(), "{header:?}");
    }
    assert_eq!(narrows.client().query("DO 1").error(), None);
}

#[test]
fn nobody_else_can_say_whose_connection_it_is() {
    for networks in ["", "10.0.0.0/8,::1"] {
        let narrows = narrows(networks);
        let header = &b"PROXY TCP4 203.0.113.7 127.0.0.1 40218 6033\r\n"[..];
        for header in [header, &v2(0x21, 0x11, &[203, 0, 113, 7, 127, 0, 0, 1, 1, 1, 1, 1])] {
            let mut client = RawClient::connect(&narrows.endpoint());
            client.send_bytes(header).expect("it reads");
            assert!(client.login(&Login::new("sbtest", "sbtest")).is_err(), "taken for a login");
        }
        assert!(!narrows.log().contains("203.0.113.7"), "{}", narrows.log());
    }
}

#[test]
fn failures_are_counted_by_the_address_that_the_balancer_names() {
    let config = NarrowsConfig::in_front_of(RealServer::shared(Flavour::MariaDb).port())
        .variable("proxy_protocol_networks", "127.0.0.1")
        .variable("client_host_cache_size", "10")
        .variable("client_host_error_counts", "2");
    let narrows = start(&config);
    let header = |address: &str| format!("PROXY TCP4 {address} 127.0.0.1 40218 6033\r\n").into_bytes();
    let login = |address: &str, password: &str| {
        let mut client = RawClient::connect(&narrows.endpoint());
        client.send_bytes(&header(address)).expect("it reads");
        client.login(&Login::new("sbtest", password)).map(|_| ()).map_err(|error| error.code)
    };
    assert_eq!(login("203.0.113.7", "wrong"), Err(1045));
    assert_eq!(login("203.0.113.7", "sbtest"), Ok(()), "a success forgives");
    assert_eq!([login("203.0.113.7", "wrong"), login("203.0.113.7", "wrong")], [Err(1045), Err(1045)]);
    assert_eq!(login("203.0.113.7", "sbtest"), Err(2013), "closed without an error");
    assert_eq!(login("203.0.113.8", "sbtest"), Ok(()), "the header of another address is not trusted");
}
