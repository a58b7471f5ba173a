//! The host of an account, as MySQL reads it: whose logins it is for, and which of several accounts with one name counts.

use std::cmp::Reverse;
use std::net::IpAddr;

use regex::Regex;

use crate::snapshot::like_expression;

/// The `host` of a row of `mysql.user`.
#[derive(Debug, Clone)]
pub(super) struct HostPattern {
    kind: Kind,
    text: String,
}

#[derive(Debug, Clone)]
enum Kind {
    /// An address, `localhost`, or a name, which no client has here.
    Exact,
    /// An address and the bits that count.
    Network(u128, u128),
    Like(Regex),
    Everybody,
}

impl HostPattern {
    pub(super) fn parse(text: &str) -> HostPattern {
        let kind = match text {
            "" | "%" => Kind::Everybody,
            _ if let Some((address, mask)) = text.split_once('/') => match network(address, mask) {
                Some((address, mask)) => Kind::Network(address, mask),
                None => Kind::Exact,
            },
            _ if text.contains(['%', '_']) => Kind::Like(like_expression(text)),
            _ => Kind::Exact,
        };
        HostPattern { kind, text: text.to_ascii_lowercase() }
    }

    /// Whether it is for a client with this address; `localhost` is a Unix socket, and addresses of this machine are
    /// `localhost` too.
    pub(super) fn admits(&self, client: &str) -> bool {
        let address = client.parse::<IpAddr>().ok();
        let is_local = client == "localhost" || address.is_some_and(|it| it.is_loopback());
        match &self.kind {
            Kind::Everybody => true,
            Kind::Exact if self.text == "localhost" => is_local,
            Kind::Exact => self.text == client || address.is_some_and(|it| self.text.parse() == Ok(it)),
            Kind::Network(network, mask) => address.is_some_and(|it| bits(it) & mask == *network),
            Kind::Like(expression) => {
                expression.is_match(client) || (is_local && expression.is_match("localhost"))
            }
        }
    }

    /// The order in which MySQL looks at accounts: the most specific host first.
    pub(super) fn order(&self) -> (u8, Reverse<usize>, Reverse<bool>) {
        let (class, specific) = match &self.kind {
            Kind::Exact => (0, 0),
            Kind::Network(_, mask) => (1, mask.count_ones() as usize),
            Kind::Like(_) => (2, self.text.find(['%', '_']).unwrap_or_default()),
            Kind::Everybody => (3, 0),
        };
        (class, Reverse(specific), Reverse(!self.text.is_empty()))
    }
}

/// The address and the mask of `198.51.100.0/24` or `198.51.100.0/255.255.255.0`.
fn network(address: &str, mask: &str) -> Option<(u128, u128)> {
    let address: IpAddr = address.parse().ok()?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let mask = match mask.parse::<u32>() {
        Ok(length) if (1..=width).contains(&length) => {
            // The leading bits of an IPv4 address, as `bits` has it, are its prefix.
            u128::MAX.checked_shl(width - length).unwrap_or(0)
        }
        Ok(_) => return None,
        Err(_) => match mask.parse::<IpAddr>().ok()? {
            IpAddr::V4(mask) => bits(IpAddr::V4(mask)),
            IpAddr::V6(_) => return None,
        },
    };
    let address = bits(address);
    // Servers compare the whole address with the bits of the client's that count.
    (address & mask == address).then_some((address, mask))
}

/// An address as a number; that of an IPv4 address begins as one mapped into IPv6 does.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
        IpAddr::V6(address) => u128::from(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_those_of_mysql() {
        for (host, client, expected) in [
            ("%", "10.1.2.3", true),
            ("", "localhost", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.4", "10.1.2.3", false),
            ("10.1.%", "10.1.2.3", true),
            ("10.1.2._", "10.1.2.3", true),
            ("10.1.2._", "10.1.2.33", false),
            ("10.1.0.0/16", "10.1.2.3", true),
            ("10.1.0.0/255.255.0.0", "10.1.2.3", true),
            ("10.1.0.0/255.255.255.0", "10.1.2.3", false),
            ("0.0.0.0/0", "10.1.2.3", false),
            ("10.1.2.3/8", "10.1.2.3", false),
            ("0.0.0.0/33", "10.1.2.3", false),
            ("2001:db8::/32", "2001:db8:1::9", true),
            ("2001:db8::/32", "2001:db9::9", false),
            ("localhost", "localhost", true),
            ("localhost", "127.0.0.1", true),
            ("localhost", "10.1.2.3", false),
            ("local%", "::1", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("app.example.com", "10.1.2.3", false),
        ] {
            assert_eq!(HostPattern::parse(host).admits(client), expected, "{host} {client}");
        }
    }

    #[test]
    fn the_most_specific_host_comes_first() {
        let mut hosts = ["", "%", "10.%", "10.1.%", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3"];
        hosts.sort_by_key(|host| HostPattern::parse(host).order());
        assert_eq!(hosts, ["10.1.2.3", "10.1.0.0/16", "10.0.0.0/8", "10.1.%", "10.%", "%", ""]);
    }
}
