//! Addresses as they are typed.

use std::net::{IpAddr, SocketAddr};

use narrows_control::monitor::plan::Address;

/// The port of a server if none is given.
const USUAL_PORT: u16 = 3306;

/// Reads `host`, `host:port`, `[::1]:port`, or the path of a Unix socket.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<Address, String> {
    parse_with(text, USUAL_PORT)
}

/// The same, with `usual` as the port if none is given.
///
/// # Errors
/// What is wrong with it.
pub fn parse_with(text: &str, usual: u16) -> Result<Address, String> {
    let text = text.trim();
    if text.starts_with('/') {
        return Ok(Address { hostname: text.to_owned(), port: 0 });
    }
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        // More than one colon without brackets is an IPv6 address alone.
        None if text.matches(':').count() > 1 => (text, None),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        None => usual,
        Some(port) => match port.parse() {
            Ok(0) | Err(_) => return Err(format!("{port:?} is not a port: a number from 1 to 65535")),
            Ok(port) => port,
        },
    };
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '@' | '"' | '\'');
    if host.is_empty() || host.contains(is_odd) {
        return Err("expected a server as HOST:PORT, for example db1.example:3306".to_owned());
    }
    Ok(Address { hostname: host.to_owned(), port })
}

/// Whether a name that others have given can be one of a host. It is shown in commands to copy, and must mean nothing else to
/// a shell.
pub fn is_host(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_name = !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain);
    is_name || name.parse::<IpAddr>().is_ok()
}

/// Checks an address to listen on.
///
/// # Errors
/// What is wrong with it.
pub fn listener(text: &str) -> Result<String, String> {
    match text.trim().parse::<SocketAddr>() {
        Ok(address) if address.port() != 0 => Ok(address.to_string()),
        _ => Err("expected an address and a port of this machine, for example 127.0.0.1:6033".to_owned()),
    }
}

/// Whether it is on this machine.
pub fn is_local(address: &Address) -> bool {
    let is_loopback = |host: &str| host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    address.port == 0 || address.hostname.eq_ignore_ascii_case("localhost") || is_loopback(&address.hostname)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_type() {
        for (text, hostname, port) in [
            ("db1", "db1", 3306),
            (" db1.example:3307 ", "db1.example", 3307),
            ("10.0.0.1:1", "10.0.0.1", 1),
            ("[::1]:3307", "::1", 3307),
            ("[::1]", "::1", 3306),
            ("fe80::1", "fe80::1", 3306),
            ("/run/mysqld/mysqld.sock", "/run/mysqld/mysqld.sock", 0),
        ] {
            assert_eq!(parse(text), Ok(Address { hostname: hostname.to_owned(), port }), "{text}");
        }
        for text in ["", ":3306", "db1:", "db1:0", "db1:70000", "db1:port", "user@db1", "mysql://db1", "a b"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn listens_on_addresses_and_not_on_names() {
        assert_eq!(listener("0.0.0.0:6033"), Ok("0.0.0.0:6033".to_owned()));
        assert!(
            ["6033", "localhost:6033", "127.0.0.1", "127.0.0.1:0"].iter().all(|it| listener(it).is_err())
        );
    }

    #[test]
    fn an_address_that_is_shown_can_be_typed() {
        for text in ["db1:3307", "[2001:db8::2]:3306", "10.0.0.1:1", "/run/mysqld.sock"] {
            let address = parse(text).expect("an address");
            assert_eq!((address.to_string(), parse(&address.to_string())), (text.to_owned(), Ok(address)));
        }
    }

    #[test]
    fn hosts_are_names_and_addresses_and_nothing_else() {
        assert!(
            ["db1", "db_1.example.", "10.0.0.1", "2001:db8::2", "xn--bcher-kva.example"]
                .iter()
                .all(|it| is_host(it))
        );
        for odd in
            ["", "/tmp/s.sock", "a b", "x$(id)", "-oProxy", "a;b", "a\u{1b}[2J", "a:b", "'", "b\u{fc}cher"]
        {
            assert!(!is_host(odd), "{odd:?}");
        }
    }

    #[test]
    fn this_machine_is_recognised() {
        let local = |text| is_local(&parse(text).expect("an address"));
        assert!(local("localhost") && local("127.0.0.1:1") && local("[::1]:1") && local("/s"));
        assert!(!local("10.0.0.1") && !local("db1"));
    }
}
