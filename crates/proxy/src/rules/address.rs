//! The condition `client_addr`: an address, the beginning of one, or a network.

use std::net::IpAddr;

use crate::rows::Network;

/// A condition on the client's address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ClientAddress {
    /// The client with this address.
    Exactly(Box<str>),
    /// Clients whose address begins with this: `10.1.%`.
    BeginsWith(Box<str>),
    /// Clients in this network: `10.0.0.0/8`.
    Network(Network),
}

impl ClientAddress {
    /// Parses the text of a rule. Text that is not a network and does not end in `%` is an address.
    pub(super) fn parse(text: &str) -> ClientAddress {
        if let Some((prefix, _)) = text.split_once('%') {
            return ClientAddress::BeginsWith(prefix.into());
        }
        let network = text.split_once('/').and_then(|(address, bits)| Network::parse(address, bits));
        network.map_or_else(|| ClientAddress::Exactly(text.into()), ClientAddress::Network)
    }

    /// The condition in the column of a rule; `None` if there is none.
    pub(super) fn of_cell(cell: &Option<String>) -> Option<ClientAddress> {
        cell.as_deref().filter(|text| !text.is_empty()).map(ClientAddress::parse)
    }

    /// Whether the condition holds for a client with that address.
    pub(super) fn holds(&self, client: &str) -> bool {
        match self {
            ClientAddress::Exactly(address) => client == &**address,
            ClientAddress::BeginsWith(prefix) => client.starts_with(&**prefix),
            ClientAddress::Network(network) => client.parse().is_ok_and(|address| network.contains(address)),
        }
    }
}

/// The clients for which a condition can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meant {
    /// Clients that connect from some address.
    Addresses,
    /// Clients of Unix sockets, whose address is `localhost`.
    Sockets,
    /// No client.
    Nobody,
}

impl ClientAddress {
    /// The clients for which the condition can hold.
    pub(super) fn meant(&self) -> Meant {
        match self {
            ClientAddress::Exactly(text) if is_address(text) => Meant::Addresses,
            ClientAddress::Exactly(text) if &**text == SOCKET => Meant::Sockets,
            ClientAddress::Exactly(_) => Meant::Nobody,
            ClientAddress::BeginsWith(prefix) if begins_address(prefix) => Meant::Addresses,
            ClientAddress::BeginsWith(prefix) if SOCKET.starts_with(&**prefix) => Meant::Sockets,
            ClientAddress::BeginsWith(_) => Meant::Nobody,
            ClientAddress::Network(_) => Meant::Addresses,
        }
    }
}

/// The address of clients of Unix sockets.
const SOCKET: &str = "localhost";

/// Whether addresses of clients, and Narrows' own, are written like that: they are compared as text.
pub(super) fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().to_string() == text)
}

/// Whether some address begins like that.
fn begins_address(prefix: &str) -> bool {
    let (whole, last) = prefix.rsplit_once('.').unwrap_or(("", prefix));
    let whole: Vec<&str> = if last.len() < prefix.len() { whole.split('.').collect() } else { Vec::new() };
    let is_v4 = whole.len() < 4 && whole.into_iter().all(is_part) && (last.is_empty() || is_part(last));
    // Of the other addresses none contains a dot, as `::ffff:10.0.0.1` is written 10.0.0.1, and letters are lower case.
    let is_v6 = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b':');
    is_v4 || prefix.bytes().all(is_v6)
}

/// Whether `text` is a number of an IPv4 address, or the beginning of one.
fn is_part(text: &str) -> bool {
    text.parse::<u8>().is_ok_and(|number| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_mean_nobody() {
        for (text, meant) in [
            ("10.1.2.3", Meant::Addresses),
            ("::1", Meant::Addresses),
            ("%", Meant::Addresses),
            ("10.%", Meant::Addresses),
            ("10.1.2.3%", Meant::Addresses),
            ("fe80:%", Meant::Addresses),
            ("10.%.3", Meant::Addresses),
            ("10.0.0.0/8", Meant::Addresses),
            ("localhost", Meant::Sockets),
            ("local%", Meant::Sockets),
            ("10.0.0.0/99", Meant::Nobody),
            ("10.0.0/8", Meant::Nobody),
            ("app.example", Meant::Nobody),
            ("app%", Meant::Nobody),
            ("300.%", Meant::Nobody),
            ("10.1.2.3.%", Meant::Nobody),
            ("10.01.%", Meant::Nobody),
            ("FE80::1", Meant::Nobody),
            ("0:0:0:0:0:0:0:1", Meant::Nobody),
            ("::ffff:10.0.0.1", Meant::Nobody),
            ("10.0.0.0/8%", Meant::Nobody),
            ("LOCALHOST", Meant::Nobody),
        ] {
            assert_eq!(ClientAddress::parse(text).meant(), meant, "{text}");
        }
    }

    #[test]
    fn addresses_prefixes_and_networks() {
        for (wanted, client, holds) in [
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.30", false),
            ("10.1.%", "10.1.2.3", true),
            ("10.1.%", "10.10.2.3", false),
            ("%", "anything", true),
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.2.128/25", "10.1.2.127", false),
            ("10.1.2.128/25", "10.1.2.200", true),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "fe80::1", true),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("10.0.0.0/8", "localhost", false),
            ("10.0.0.0/33", "10.0.0.1", false),
        ] {
            assert_eq!(ClientAddress::parse(wanted).holds(client), holds, "{wanted} {client}");
        }
    }
}
