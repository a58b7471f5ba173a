//! A network of namespaces at one switch: what runs there can be parted from each other, from this side, and from all.

use std::net::Ipv4Addr;

use crate::namespace::{Namespace, ip, unique};

/// Namespaces that reach each other and this side; removed when dropped, after whatever runs in them.
#[derive(Debug)]
pub struct Network {
    nodes: Vec<Namespace>,
    switch: Switch,
    /// What is lost now: from which node, to which address.
    lost: Vec<(usize, Ipv4Addr)>,
}

/// A bridge of this side.
#[derive(Debug)]
struct Switch(String);

impl Network {
    /// Makes one of at most 13 nodes.
    ///
    /// # Errors
    /// Why none can be created here.
    pub fn new(nodes: u32) -> Result<Network, String> {
        let (name, number) = unique();
        let address = |host| Ipv4Addr::from_bits(BENCH_NETWORK + number % NETWORKS * 16 + host);
        ip(&["link", "add", &name, "type", "bridge"])?;
        let switch = Switch(name);
        let near = address(1);
        ip(&["address", "add", &format!("{near}/28"), "dev", &switch.0])?;
        ip(&["link", "set", &switch.0, "up"])?;
        let mut network = Network { nodes: Vec::new(), switch, lost: Vec::new() };
        for node in 0..nodes {
            let namespace = Namespace::wired(unique().0, near, address(2 + node), 28)?;
            ip(&["link", "set", namespace.name(), "master", &network.switch.0])?;
            network.nodes.push(namespace);
        }
        Ok(network)
    }

    /// Its namespaces.
    pub fn nodes(&self) -> &[Namespace] {
        &self.nodes
    }

    /// Parts a node from all other nodes: this side still reaches all.
    ///
    /// # Panics
    /// When it cannot be.
    pub fn part(&mut self, node: usize) {
        let (other, mine) = (|index: &usize| *index != node, self.nodes[node].far());
        for index in (0..self.nodes.len()).filter(other) {
            self.lose(node, self.nodes[index].far());
            self.lose(index, mine);
        }
    }

    /// Parts a node from this side: the other nodes still reach it.
    ///
    /// # Panics
    /// When it cannot be.
    pub fn hide(&mut self, node: usize) {
        self.lose(node, self.nodes[node].near());
    }

    /// Parts a node from everything.
    ///
    /// # Panics
    /// When it cannot be.
    pub fn cut(&self, node: usize) {
        self.nodes[node].cut();
    }

    /// Makes everything reach everything again.
    ///
    /// # Panics
    /// When it cannot be.
    pub fn mend(&mut self) {
        for (node, address) in self.lost.drain(..) {
            self.nodes[node].lose("del", address).expect("it was set before");
        }
        self.nodes.iter().for_each(Namespace::mend);
    }

    fn lose(&mut self, node: usize, address: Ipv4Addr) {
        self.nodes[node].lose("add", address).expect("namespaces can be changed here");
        self.lost.push((node, address));
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Err(error) = ip(&["link", "delete", &self.0]) {
            eprintln!("cannot remove a bridge: {error}");
        }
    }
}

/// 198.19.0.0/16: the other half of what is reserved for benchmarks; see [`Namespace`].
const BENCH_NETWORK: u32 = 198 << 24 | 19 << 16;

/// How many networks of sixteen addresses it has.
const NETWORKS: u32 = 1 << 12;
