//! The condition `client_addr`: an address, the beginning of one, or a network.

use std::net::IpAddr;

/// Which clients are meant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ClientAddress {
    /// This one.
    Exactly(Box<str>),
    /// All that begin so: `10.1.%`.
    BeginsWith(Box<str>),
    /// All of a network: `10.0.0.0/8`.
    Network(IpAddr, u8),
}

impl ClientAddress {
    /// Reads the text of a rule. What is neither a network nor ends in `%` is an address.
    pub(super) fn parse(text: &str) -> ClientAddress {
        if let Some((prefix, _)) = text.split_once('%') {
            return ClientAddress::BeginsWith(prefix.into());
        }
        let network = text.split_once('/').and_then(|(address, bits)| {
            let address: IpAddr = address.parse().ok()?;
            let bits: u8 = bits.parse().ok()?;
            (bits <= width(address)).then_some(ClientAddress::Network(address, bits))
        });
        network.unwrap_or_else(|| ClientAddress::Exactly(text.into()))
    }

    /// What a rule has in the column; `None`: no condition.
    pub(super) fn of_cell(cell: &Option<String>) -> Option<ClientAddress> {
        cell.as_deref().filter(|text| !text.is_empty()).map(ClientAddress::parse)
    }

    /// Whether a client with that address is meant.
    pub(super) fn holds(&self, client: &str) -> bool {
        match self {
            ClientAddress::Exactly(address) => client == &**address,
            ClientAddress::BeginsWith(prefix) => client.starts_with(&**prefix),
            ClientAddress::Network(network, length) => {
                let address = client.parse::<IpAddr>().ok().filter(|one| one.is_ipv4() == network.is_ipv4());
                let unequal = address.map(|address| bits(address) ^ bits(*network));
                unequal.is_some_and(|unequal| {
                    unequal.checked_shr(u32::from(width(*network) - length)).unwrap_or_default() == 0
                })
            }
        }
    }
}

/// Which clients there can be that a condition holds for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meant {
    /// Clients of some address.
    Addresses,
    /// Clients of Unix sockets, which are called `localhost`.
    Sockets,
    /// None.
    Nobody,
}

impl ClientAddress {
    /// Which clients it may hold for.
    pub(super) fn meant(&self) -> Meant {
        match self {
            ClientAddress::Exactly(text) if is_address(text) => Meant::Addresses,
            ClientAddress::Exactly(text) if &**text == SOCKET => Meant::Sockets,
            ClientAddress::Exactly(_) => Meant::Nobody,
            ClientAddress::BeginsWith(prefix) if begins_address(prefix) => Meant::Addresses,
            ClientAddress::BeginsWith(prefix) if SOCKET.starts_with(&**prefix) => Meant::Sockets,
            ClientAddress::BeginsWith(_) => Meant::Nobody,
            ClientAddress::Network(..) => Meant::Addresses,
        }
    }
}

/// What clients of Unix sockets have for an address.
const SOCKET: &str = "localhost";

/// Whether addresses of clients, and ours, are written like that: they are compared as texts.
pub(super) fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().to_string() == text)
}

/// Whether some address begins like that.
fn begins_address(prefix: &str) -> bool {
    let (whole, last) = prefix.rsplit_once('.').unwrap_or(("", prefix));
    let whole: Vec<&str> = if last.len() < prefix.len() { whole.split('.').collect() } else { Vec::new() };
    let is_v4 = whole.len() < 4 && whole.into_iter().all(is_part) && (last.is_empty() || is_part(last));
    // Of the others none has a point in it, as `::ffff:10.0.0.1` is written 10.0.0.1, and letters are small.
    let is_v6 = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b':');
    is_v4 || prefix.bytes().all(is_v6)
}

/// Whether it is a number of an IPv4 address; the beginning of one is one too.
fn is_part(text: &str) -> bool {
    text.parse::<u8>().is_ok_and(|number| number.to_string() == text)
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
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
