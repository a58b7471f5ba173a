//! A throw-away etcd of three nodes, on loopback or in a network that can be parted. It can lose its data, and be put back.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
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
    /// The most bytes of its data; `None`: as many as etcd takes usually.
    quota: Option<u64>,
}

#[derive(Debug)]
struct EtcdNode {
    host: String,
    client_port: u16,
    peer_port: u16,
    process: Option<Process>,
    /// Whether it is a cluster of its own, and not one with the others.
    is_alone: bool,
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
        EtcdCluster::start_with(None)
    }

    /// Starts one that takes no more than so many bytes of data.
    ///
    /// # Panics
    /// If it does not serve.
    pub fn start_small(bytes: u64) -> EtcdCluster {
        EtcdCluster::start_with(Some(bytes))
    }

    fn start_with(quota: Option<u64>) -> EtcdCluster {
        let network = Network::new(3).ok();
        let host = |number: usize| match &network {
            Some(network) => network.nodes()[number].far().to_string(),
            None => "127.0.0.1".to_owned(),
        };
        let node = |number: usize| {
            let (client_port, peer_port) = (free_port(), free_port());
            EtcdNode { host: host(number), client_port, peer_port, process: None, is_alone: false }
        };
        let nodes = (0..NODES).map(node).collect();
        let mut cluster = EtcdCluster { nodes, network, folder: TempFolder::new("etcd"), quota };
        (0..NODES).for_each(|number| cluster.run(number));
        cluster.wait_until_it_serves();
        cluster
    }

    /// The addresses of its nodes for clients.
    pub fn endpoints(&self) -> Vec<String> {
        self.nodes.iter().map(EtcdNode::client_url).collect()
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
        let node = &self.nodes[number];
        let (client, peer) = (node.client_url(), node.peer_url());
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.file(&named(number)));
        let log = log.expect("a log");
        let mut command = match &self.network {
            Some(network) => Namespace::command(network.nodes()[number].name(), "etcd".as_ref()),
            None => Command::new("etcd"),
        };
        command.args(["--name", &named(number), "--data-dir"]).arg(self.data(number));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args([
            "--initial-cluster",
            &self.members(number),
            "--logger",
            "zap",
            "--log-outputs",
            "stderr",
        ]);
        let token = if node.is_alone { "another" } else { "etcd-cluster" };
        command.args(["--initial-cluster-token", token]);
        if let Some(bytes) = self.quota {
            command.args(["--quota-backend-bytes", &bytes.to_string()]);
        }
        // Elections that take half a second, as between machines in one room.
        command.args(["--heartbeat-interval", "50", "--election-timeout", "500", "--unsafe-no-fsync"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let process = Process::spawn(command).expect("etcd can be started");
        self.nodes[number].process = Some(process);
    }

    /// The nodes that a node is one cluster with, as etcd has them.
    fn members(&self, number: usize) -> String {
        let is_one_of_them = |at: &usize| *at == number || !self.nodes[number].is_alone;
        let members = (0..NODES).filter(is_one_of_them);
        let members: Vec<String> =
            members.map(|at| format!("{}={}", named(at), self.nodes[at].peer_url())).collect();
        members.join(",")
    }

    /// The folder with the data of a node.
    fn data(&self, number: usize) -> PathBuf {
        let what = if self.nodes[number].is_alone { "alone" } else { "etcd" };
        self.folder.file(&format!("{number}.{what}"))
    }

    /// Freezes a node: it has its connections, and says nothing.
    ///
    /// # Panics
    /// If it does not run.
    pub fn freeze(&mut self, number: usize) {
        self.nodes[number].process.as_mut().expect("it runs").freeze();
    }

    /// Lets all nodes that are frozen continue.
    pub fn thaw(&mut self) {
        let running = self.nodes.iter_mut().filter_map(|node| node.process.as_mut());
        running.for_each(|process| process.signal(libc::SIGCONT));
    }

    /// Kills all nodes, and starts them without data: as the same cluster, in which nothing was ever written.
    ///
    /// # Panics
    /// If it does not serve then.
    pub fn lose_data(&mut self) {
        self.replace_data(|_, _| ());
    }

    /// Copies the data to a file of that name; returns whether a node did so.
    pub fn save(&self, name: &str) -> bool {
        let file = self.folder.file(name);
        let running = self.nodes.iter().filter(|node| node.process.is_some() && !node.is_alone);
        let mut saved = running.map(|node| {
            let mut command = etcdctl();
            command.args(["--endpoints", &node.client_url(), "--command-timeout=2s", "snapshot", "save"]);
            command.arg(&file).output().is_ok_and(|output| output.status.success())
        });
        saved.any(|is_saved| is_saved)
    }

    /// Kills all nodes, and starts them with the data that were saved under that name.
    ///
    /// # Panics
    /// If that fails.
    pub fn restore(&mut self, name: &str) {
        let file = self.folder.file(name);
        self.replace_data(|cluster, number| {
            let mut command = etcdctl();
            command.args(["snapshot", "restore"]).arg(&file).args(["--name", &named(number)]);
            command.args(["--initial-cluster", &cluster.members(number), "--initial-advertise-peer-urls"]);
            command.arg(cluster.nodes[number].peer_url()).arg("--data-dir").arg(cluster.data(number));
            let output = command.output().expect("etcdctl");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        });
    }

    fn replace_data(&mut self, fill: impl Fn(&EtcdCluster, usize)) {
        for number in 0..NODES {
            self.kill(number);
            self.nodes[number].is_alone = false;
            // It may not be there.
            let _ = fs::remove_dir_all(self.data(number));
            fill(self, number);
        }
        (0..NODES).for_each(|number| self.run(number));
        self.wait_until_it_serves();
    }

    /// Makes a node a cluster of its own, without data, at the same address; the others stay one.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn separate(&mut self, number: usize) {
        self.kill(number);
        self.nodes[number].is_alone = true;
        // It may not be there.
        let _ = fs::remove_dir_all(self.data(number));
        self.run(number);
        wait_until("it serves", || self.nodes[number].ask("/v3/kv/range", r#"{"key":"YQ=="}"#).is_ok());
    }

    /// Makes a node that is a cluster of its own one with the others again, with the data that it had then.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn unite(&mut self, number: usize) {
        if std::mem::take(&mut self.nodes[number].is_alone) {
            self.kill(number);
            self.run(number);
        }
    }

    /// Frees what was deleted, and ends the alarm of an etcd that was full.
    ///
    /// # Panics
    /// If that fails.
    pub fn free_space(&self) {
        let revision = self.ask("/v3/kv/range", r#"{"key":"YQ=="}"#).expect("etcd answers");
        let revision = revision.split("\"revision\":\"").nth(1).and_then(|text| text.split('"').next());
        let revision = revision.expect("a revision").to_owned();
        let endpoints = self.endpoints().join(",");
        for arguments in [&["compact", &revision][..], &["defrag"], &["alarm", "disarm"]] {
            let output = etcdctl().args(["--endpoints", &endpoints]).args(arguments).output();
            let output = output.expect("etcdctl");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
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
        assert!(self.try_to_put(key, value, 0), "etcd takes a value");
    }

    /// Writes a value that ends after so many seconds.
    ///
    /// # Panics
    /// If no majority answers.
    pub fn put_for(&self, seconds: u64, key: &str, value: &[u8]) {
        let granted = self.ask("/v3/lease/grant", &format!(r#"{{"TTL":"{seconds}"}}"#)).expect("a lease");
        let lease = granted.split("\"ID\":\"").nth(1).and_then(|text| text.split('"').next());
        let lease = lease.and_then(|text| text.parse().ok()).expect("the id of a lease");
        assert!(self.try_to_put(key, value, lease), "etcd takes a value");
    }

    /// Writes a value, with a lease unless that is 0; returns whether etcd has taken it.
    pub fn try_to_put(&self, key: &str, value: &[u8], lease: i64) -> bool {
        let (key, value) = (base64(key.as_bytes()), base64(value));
        let body = format!(r#"{{"key":"{key}","value":"{value}","lease":"{lease}"}}"#);
        self.ask("/v3/kv/put", &body).is_some()
    }

    /// Deletes all keys that begin with that.
    ///
    /// # Panics
    /// If no majority answers.
    pub fn delete_all(&self, start: &str) {
        let output =
            etcdctl().args(["--endpoints", &self.endpoints().join(","), "del", "--prefix", start]).output();
        assert!(output.expect("etcdctl").status.success(), "etcd deletes");
    }

    /// The value of a key, as a text; `None`: there is none.
    ///
    /// # Panics
    /// If no majority answers.
    pub fn get(&self, key: &str) -> Option<String> {
        let endpoints = self.endpoints().join(",");
        let output = etcdctl().args(["--endpoints", &endpoints, "get", "--print-value-only", key]).output();
        let output = output.expect("etcdctl");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// Sends a request to one node after the other, until one answers it.
    fn ask(&self, path: &str, body: &str) -> Option<String> {
        let running = self.nodes.iter().filter(|node| node.process.is_some() && !node.is_alone);
        running.filter_map(|node| node.ask(path, body).ok()).find(|answer| answer.starts_with("HTTP/1.1 200"))
    }
}

impl EtcdNode {
    fn client_url(&self) -> String {
        format!("http://{}:{}", self.host, self.client_port)
    }

    fn peer_url(&self) -> String {
        format!("http://{}:{}", self.host, self.peer_port)
    }

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

/// The name of a node.
fn named(number: usize) -> String {
    format!("node{number}")
}

fn etcdctl() -> Command {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").stdin(Stdio::null());
    command
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
