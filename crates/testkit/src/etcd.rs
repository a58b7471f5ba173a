//! A throw-away etcd of three nodes, on loopback or in a network that can be parted.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, io};

use crate::namespace::Namespace;
use crate::{Network, Process, TempFolder, free_port, wait_until};

/// The number of its nodes.
const NODES: usize = 3;

/// An etcd; stopped when dropped.
#[derive(Debug)]
pub struct EtcdCluster {
    nodes: Vec<EtcdNode>,
    network: Option<Network>,
    folder: TempFolder,
}

#[derive(Debug)]
struct EtcdNode {
    host: String,
    client_port: u16,
    peer_port: u16,
    process: Option<Process>,
}

impl EtcdCluster {
    /// Whether etcd is installed here.
    pub fn is_there() -> bool {
        Command::new("etcd").arg("--version").output().is_ok_and(|output| output.status.success())
    }

    /// Starts one whose nodes find each other; in a network, if one can be made here.
    ///
    /// # Panics
    /// If it does not serve.
    pub fn start() -> EtcdCluster {
        let network = Network::new(3).ok();
        let host = |number: usize| match &network {
            Some(network) => network.nodes()[number].far().to_string(),
            None => "127.0.0.1".to_owned(),
        };
        let node = |number: usize| {
            let (client_port, peer_port) = (free_port(), free_port());
            EtcdNode { host: host(number), client_port, peer_port, process: None }
        };
        let nodes = (0..NODES).map(node).collect();
        let mut cluster = EtcdCluster { nodes, network, folder: TempFolder::new("etcd") };
        (0..NODES).for_each(|number| cluster.run(number));
        cluster.wait_until_it_serves();
        cluster
    }

    /// The addresses of its nodes for clients.
    pub fn endpoints(&self) -> Vec<String> {
        self.nodes.iter().map(|node| format!("http://{}:{}", node.host, node.client_port)).collect()
    }

    /// Whether its nodes can be parted.
    pub fn can_be_parted(&self) -> bool {
        self.network.is_some()
    }

    /// Parts a node from the others: clients still reach it.
    pub fn part(&mut self, number: usize) {
        self.network.iter_mut().for_each(|network| network.part(number));
    }

    /// Parts a node from clients: the others still reach it.
    pub fn hide(&mut self, number: usize) {
        self.network.iter_mut().for_each(|network| network.hide(number));
    }

    /// Makes everything reach everything again.
    pub fn mend(&mut self) {
        self.network.iter_mut().for_each(Network::mend);
    }

    /// Kills a node.
    pub fn kill(&mut self, number: usize) {
        if let Some(mut process) = self.nodes[number].process.take() {
            process.kill();
        }
    }

    /// Whether a node runs.
    pub fn runs(&self, number: usize) -> bool {
        self.nodes[number].process.is_some()
    }

    /// Starts a node that was killed, with its data.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn run(&mut self, number: usize) {
        let name = |number: usize| format!("node{number}");
        let peer = |node: &EtcdNode| format!("http://{}:{}", node.host, node.peer_port);
        let members: Vec<String> =
            self.nodes.iter().enumerate().map(|(at, node)| format!("{}={}", name(at), peer(node))).collect();
        let node = &self.nodes[number];
        let client = format!("http://{}:{}", node.host, node.client_port);
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.file(&name(number)));
        let log = log.expect("a log");
        let mut command = match &self.network {
            Some(network) => Namespace::command(network.nodes()[number].name(), "etcd".as_ref()),
            None => Command::new("etcd"),
        };
        command
            .args(["--name", &name(number), "--data-dir"])
            .arg(self.folder.file(&format!("{number}.etcd")));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer(node), "--initial-advertise-peer-urls", &peer(node)]);
        command.args(["--initial-cluster", &members.join(","), "--logger", "zap", "--log-outputs", "stderr"]);
        // Elections that take half a second, as between machines in one room.
        command.args(["--heartbeat-interval", "50", "--election-timeout", "500", "--unsafe-no-fsync"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let process = Process::spawn(command).expect("etcd can be started");
        self.nodes[number].process = Some(process);
    }

    /// Waits until a majority answers.
    ///
    /// # Panics
    /// If none does.
    pub fn wait_until_it_serves(&self) {
        wait_until("etcd serves", || self.ask("/v3/kv/range", r#"{"key":"YQ=="}"#).is_some());
    }

    /// Writes a value.
    ///
    /// # Panics
    /// If no majority answers.
    pub fn put(&self, key: &str, value: &[u8]) {
        let body = format!(r#"{{"key":"{}","value":"{}"}}"#, base64(key.as_bytes()), base64(value));
        self.ask("/v3/kv/put", &body).expect("etcd takes a value");
    }

    /// Sends a request to one node after the other, until one answers it.
    fn ask(&self, path: &str, body: &str) -> Option<String> {
        let running = self.nodes.iter().filter(|node| node.process.is_some());
        running.filter_map(|node| node.ask(path, body).ok()).find(|answer| answer.starts_with("HTTP/1.1 200"))
    }
}

impl EtcdNode {
    fn ask(&self, path: &str, body: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect((self.host.as_str(), self.client_port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        let (host, length) = (&self.host, body.len());
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let digit = move |index: usize| match index <= three.len() {
            true => char::from(DIGITS[(bits >> (18 - 6 * index) & 63) as usize]),
            false => '=',
        };
        (0..4).map(digit).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (text, expected) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }
}
