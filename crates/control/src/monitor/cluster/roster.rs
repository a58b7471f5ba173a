//! Which nodes a node names, and which of them no row of `mysql_servers` names: those are found.
//!
//! What holds:
//! 1. Only nodes that work are believed. While none does, what was found stays.
//! 2. A node that is configured under another name is not found under its own.
//! 3. A node that is no longer named finishes what runs there for [`FAREWELL`], and then goes.
//! 4. There are never more than [`MOST_FOUND`], and those that are known stay before others come.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::monitor::plan::Address;

/// What a node says about all nodes of its cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roster {
    /// The nodes that it names; `None`: it was not asked, or cannot tell.
    pub members: Option<BTreeSet<Address>>,
    /// What it calls itself.
    pub own: Option<Address>,
    /// The node that it takes for the writer.
    pub writer: Option<Address>,
}

/// The nodes of one cluster that no row names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    nodes: BTreeMap<Address, Presence>,
    /// How many more there would be.
    pub left_out: usize,
}

/// Whether a node that was found is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is named.
    Named,
    /// It is no longer named since then.
    Missing(Instant),
}

/// Something that has become of a node that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is named for the first time, or again.
    Came,
    /// It is no longer named.
    Left,
}

/// What the nodes of one cluster say.
#[derive(Debug, Default)]
pub struct Statements<'a> {
    /// The nodes that rows name.
    pub configured: BTreeSet<Address>,
    /// What each says, and whether it is believed.
    pub rosters: Vec<(&'a Address, &'a Roster, bool)>,
}

/// How many nodes of one cluster are found: far more than any kind of cluster has (Aurora 16, Group Replication 9).
pub const MOST_FOUND: usize = 64;

/// How many names of one answer are looked at.
pub const MOST_READ: usize = 200;

/// How long a node that is no longer named may finish what runs there.
pub const FAREWELL: Duration = Duration::from_secs(60);

impl Found {
    /// The nodes, and whether they are still named.
    pub fn nodes(&self) -> impl Iterator<Item = (&Address, Presence)> {
        self.nodes.iter().map(|(address, presence)| (address, *presence))
    }

    /// Whether this one was found, and is still there.
    pub fn presence(&self, address: &Address) -> Option<Presence> {
        self.nodes.get(address).copied()
    }

    /// Nodes that are named, as the process before has left them.
    pub fn of(nodes: impl Iterator<Item = Address>) -> Found {
        Found { nodes: nodes.take(MOST_FOUND).map(|node| (node, Presence::Named)).collect(), left_out: 0 }
    }

    /// When time alone changes something.
    pub fn again(&self) -> Option<Instant> {
        let end = |presence: &Presence| match presence {
            Presence::Named => None,
            Presence::Missing(since) => Some(*since + FAREWELL),
        };
        self.nodes.values().filter_map(end).min()
    }

    /// What is found now.
    pub fn after(&self, said: &Statements<'_>, now: Instant) -> Found {
        let believed = said.rosters.iter().filter(|(_, _, is_believed)| *is_believed);
        let lists: Vec<_> = believed.filter_map(|(_, roster, _)| roster.members.as_ref()).collect();
        let is_row = |address: &Address| said.configured.contains(address);
        let aliases: BTreeSet<&Address> = said
            .rosters
            .iter()
            .filter(|(address, ..)| is_row(address))
            .filter_map(|(_, roster, _)| roster.own.as_ref())
            .collect();
        let is_known = |address: &Address| is_row(address) || aliases.contains(address);
        let mut nodes = self.nodes.clone();
        nodes.retain(|address, _| !is_known(address));
        if lists.is_empty() {
            return Found { nodes, left_out: self.left_out };
        }
        let named: BTreeSet<&Address> = lists.into_iter().flatten().filter(|it| !is_known(it)).collect();
        nodes.retain(|address, presence| {
            *presence = match (named.contains(address), *presence) {
                (true, _) => Presence::Named,
                (false, Presence::Named) => Presence::Missing(now),
                (false, missing) => missing,
            };
            !matches!(presence, Presence::Missing(since) if now >= *since + FAREWELL)
        });
        let mut left_out = 0;
        for address in named {
            if nodes.len() < MOST_FOUND || nodes.contains_key(address) {
                nodes.entry(address.clone()).or_insert(Presence::Named);
            } else {
                left_out += 1;
            }
        }
        Found { nodes, left_out }
    }

    /// What has become of nodes since `before`.
    pub fn arrivals<'a>(&'a self, before: &'a Found) -> impl Iterator<Item = (Address, Arrival)> + 'a {
        self.nodes.iter().filter_map(|(address, presence)| {
            let was = before.presence(address).map(|was| was == Presence::Named);
            match (was, presence) {
                (Some(false) | None, Presence::Named) => Some((address.clone(), Arrival::Came)),
                (Some(true) | None, Presence::Missing(_)) => Some((address.clone(), Arrival::Left)),
                _ => None,
            }
        })
    }
}

/// Whether a text can be the name or the address of a host. Servers decide what is written there, so nothing else is
/// taken: no blanks, quotes or control characters, and not more than DNS allows.
pub fn is_host_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    !text.is_empty() && text.len() <= 253 && text.bytes().all(is_plain) && !text.contains("..")
}

/// The address in `host:port` or `[host]:port`.
pub fn read_address(text: &str) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    address(host, port)
}

/// The address of a host with a port that a server can have.
pub fn address(host: &str, port: &str) -> Option<Address> {
    let port = port.parse().ok().filter(|port| *port != 0)?;
    is_host_name(host).then(|| Address { hostname: host.to_owned(), port })
}

#[cfg(test)]
mod tests;
