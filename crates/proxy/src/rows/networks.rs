//! Networks: of the peers that are trusted to send a client's address (`mysql-proxy_protocol_networks`), and of those that
//! may log in to an account (`attributes.networks`).

use std::net::IpAddr;

/// Networks; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks {
    everybody: bool,
    /// Unix sockets are among them.
    local: bool,
    networks: Vec<(IpAddr, u8)>,
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
        let network = network(item);
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
        self.networks.iter().any(|(network, bits)| match (network, peer) {
            (IpAddr::V4(network), IpAddr::V4(peer)) => {
                same_bits((u32::from(*network) as u128) << 96, (u32::from(peer) as u128) << 96, *bits)
            }
            (IpAddr::V6(network), IpAddr::V6(peer)) => {
                same_bits(u128::from(*network), u128::from(peer), *bits)
            }
            _ => false,
        })
    }
}

/// What stands for the address of a client on a Unix socket.
const LOCAL: &str = "localhost";

/// An address with or without `/bits`.
fn network(item: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = item.split_once('/').unwrap_or((item, ""));
    let address: IpAddr = address.trim().parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = if bits.is_empty() { most } else { bits.trim().parse().ok()? };
    (bits <= most).then_some((address, bits))
}

fn same_bits(one: u128, other: u128, bits: u8) -> bool {
    (one ^ other).checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
}

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
