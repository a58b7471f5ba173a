//! Networks: of the peers that are trusted to send a client's address (`mysql-proxy_protocol_networks`), of those that may
//! log in to an account (`attributes.networks`, the hosts of `mysql.user`), and of the clients of a rule.

use std::net::{IpAddr, Ipv4Addr};

/// Networks; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks {
    everybody: bool,
    /// Unix sockets are among them.
    local: bool,
    networks: Vec<Network>,
}

/// A network: an address, and which of its bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    /// The bits above an IPv4 address are set too.
    mask: u128,
}

impl Network {
    /// The network of an address and a number of bits, as written; `None` if they are none.
    pub fn parse(address: &str, bits: &str) -> Option<Network> {
        let (address, bits): (IpAddr, u32) = (address.parse().ok()?, bits.parse().ok()?);
        let width: u32 = if address.is_ipv4() { 32 } else { 128 };
        let others = width.checked_sub(bits)?;
        Some(Network { address, mask: u128::MAX.checked_shl(others).unwrap_or(0) })
    }

    /// The network of an address with or without `/bits`, as written; `None` if it is none.
    pub fn of(item: &str) -> Option<Network> {
        match item.split_once('/') {
            Some((address, bits)) => Network::parse(address.trim(), bits.trim()),
            None => item.parse().ok().map(|address| Network { address, mask: u128::MAX }),
        }
    }

    /// The network of an address and a mask, as in `198.51.100.0/255.255.255.0`.
    pub(crate) fn with_mask(address: Ipv4Addr, mask: Ipv4Addr) -> Network {
        Network { address: address.into(), mask: u128::MAX << 32 | u128::from(u32::from(mask)) }
    }

    /// Whether an address is in it. Those of IPv4 are in no network of IPv6.
    pub fn contains(self, address: IpAddr) -> bool {
        let unequal = number(address) ^ number(self.address);
        unequal & self.mask == 0 && address.is_ipv4() == self.address.is_ipv4()
    }

    /// Whether its address has no bits but those that count.
    pub(crate) fn is_exact(self) -> bool {
        number(self.address) & !self.mask == 0
    }

    /// The more bits count, the larger; any network of IPv4 counts as more than most of IPv6.
    pub(crate) fn precision(self) -> u32 {
        self.mask.count_ones()
    }
}

/// An address as a number.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

impl Networks {
    /// Parses `*`, or addresses with or without `/bits` and `localhost`, separated by commas. Invalid parts are skipped.
    pub fn parse(text: &str) -> Networks {
        if text.trim() == "*" {
            return Networks { everybody: true, ..Networks::default() };
        }
        let mut networks = Networks::default();
        for item in text.split(',') {
            networks.add(item);
        }
        networks
    }

    /// Adds an address with or without `/bits`, or `localhost` for Unix sockets; returns whether it is one of them.
    pub fn add(&mut self, item: &str) -> bool {
        let item = item.trim();
        let network = Network::of(item);
        self.local |= item == LOCAL;
        self.networks.extend(network);
        network.is_some() || item == LOCAL
    }

    /// Whether a peer with this address is in one of the networks; `localhost` is a Unix socket.
    pub fn contain(&self, peer: &str) -> bool {
        if self.everybody || (self.local && peer == LOCAL) {
            return true;
        }
        if self.networks.is_empty() {
            return false;
        }
        let Ok(peer) = peer.parse::<IpAddr>() else { return false };
        self.networks.iter().any(|network| network.contains(peer))
    }
}

/// What stands for the address of a client on a Unix socket.
const LOCAL: &str = "localhost";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_in_a_network_by_its_first_bits() {
        let networks = Networks::parse("10.1.0.0/16, 192.168.7.7, 2001:db8::/32,0.0.0.0/33");
        for inside in ["10.1.2.3", "192.168.7.7", "2001:db8:1::9"] {
            assert!(networks.contain(inside), "{inside}");
        }
        for outside in ["10.2.0.1", "192.168.7.8", "2001:db9::1", "::1", "localhost", ""] {
            assert!(!networks.contain(outside), "{outside}");
        }
    }

    #[test]
    fn everybody_and_nobody() {
        assert!(Networks::parse("*").contain("localhost") && Networks::parse(" * ").contain("::1"));
        assert!(!Networks::parse("").contain("127.0.0.1"));
        let local = Networks::parse("localhost");
        assert!(local.contain("localhost") && !local.contain("127.0.0.1"));
        assert!(Networks::parse("0.0.0.0/0").contain("1.2.3.4") && Networks::parse("::/0").contain("::1"));
    }
}
