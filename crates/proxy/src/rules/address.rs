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
