//! The host of an account, as MySQL reads it: whose logins it is for, and which of several accounts with one name counts.

use std::cmp::Reverse;
use std::net::IpAddr;

use regex::Regex;

use crate::rows::Network;
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
    Network(Network),
    Like(Regex),
    Everybody,
}

impl HostPattern {
    pub(super) fn parse(text: &str) -> HostPattern {
        let kind = match text {
            "" | "%" => Kind::Everybody,
            _ if let Some((address, mask)) = text.split_once('/') => {
                network(address, mask).map_or(Kind::Exact, Kind::Network)
            }
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
            Kind::Network(network) => address.is_some_and(|it| network.contains(it)),
            Kind::Like(expression) => {
                expression.is_match(client) || (is_local && expression.is_match("localhost"))
            }
        }
    }

    /// The order in which MySQL looks at accounts: the most specific host first.
    pub(super) fn order(&self) -> (u8, Reverse<usize>, Reverse<bool>) {
        let (class, specific) = match &self.kind {
            Kind::Exact => (0, 0),
            Kind::Network(network) => (1, network.precision() as usize),
            Kind::Like(_) => (2, self.text.find(['%', '_']).unwrap_or_default()),
            Kind::Everybody => (3, 0),
        };
        (class, Reverse(specific), Reverse(!self.text.is_empty()))
    }
}

/// The network of `198.51.100.0/24` or `198.51.100.0/255.255.255.0`. Servers compare the whole address with the bits of the
/// client's that count, and take `/0` for none.
fn network(address: &str, mask: &str) -> Option<Network> {
    let of_bits = Network::parse(address, mask).filter(|_| mask.parse() != Ok(0));
    let of_mask = || Some(Network::with_mask(address.parse().ok()?, mask.parse().ok()?));
    of_bits.or_else(of_mask).filter(|network| network.is_exact())
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
            ("10.1.0.0/255.255.0.0", "64:ff9b::ffff:10.1.2.3", false),
            ("10.0.2.0/255.0.255.0", "10.9.2.7", true),
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
        let mut hosts =
            ["", "%", "10.%", "10.1.%", "10.0.0.0/8", "10.1.2.0/255.255.255.0", "10.1.0.0/16", "10.1.2.3"];
        hosts.sort_by_key(|host| HostPattern::parse(host).order());
        let expected =
            ["10.1.2.3", "10.1.2.0/255.255.255.0", "10.1.0.0/16", "10.0.0.0/8", "10.1.%", "10.%", "%", ""];
        assert_eq!(hosts, expected);
    }
}
