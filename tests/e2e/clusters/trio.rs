//! Three nodes of a sandbox with Narrows in front of them.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use narrows_testkit::{Endpoint, Login, Monitor, Narrows, Process, RawClient, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::sandbox::Sandbox;

/// A cluster, and Narrows.
pub struct Trio {
    _sandbox: Sandbox,
    pub nodes: Vec<Node>,
    pub narrows: Narrows,
    admin: RawClient,
}

/// One node.
pub struct Node {
    pub port: u16,
    pid: u32,
    socket: PathBuf,
    data: PathBuf,
    command: Vec<String>,
    /// The process, if it was started again.
    again: Option<Process>,
}

impl Trio {
    /// Starts a sandbox with these options, and Narrows with its configuration, of which `change` makes another one.
    pub fn start(options: &[&str], change: impl Fn(String) -> String) -> Trio {
        let sandbox = Sandbox::start(options);
        let nodes = nodes_of(&sandbox.record());
        let binary = env!("CARGO_BIN_EXE_narrows");
        let text = |interfaces: &str, admin: &str| change(sandbox.config(interfaces, admin));
        let narrows = Narrows::start_with(binary, Monitor::On, text);
        let admin = narrows.admin();
        Trio { _sandbox: sandbox, nodes, narrows, admin }
    }

    /// The rows of an answer for administrators, the cells of each joined by blanks.
    pub fn ask(&mut self, question: &str) -> Vec<String> {
        rows_of(&mut self.admin, question)
    }

    /// The nodes in a hostgroup.
    pub fn nodes_in(&mut self, hostgroup: u32) -> Vec<usize> {
        let question = format!("SELECT port FROM runtime_mysql_servers WHERE hostgroup_id = {hostgroup}");
        let ports = self.ask(&question);
        let index = |port: String| self.nodes.iter().position(|node| node.port.to_string() == port);
        ports.into_iter().filter_map(index).collect()
    }

    /// The nodes in the writer hostgroup.
    pub fn writers(&mut self) -> Vec<usize> {
        self.nodes_in(0)
    }

    /// The only writer; `None`: there is none.
    pub fn writer(&mut self) -> Option<usize> {
        let writers = self.writers();
        assert!(writers.len() <= 1, "two writers: {writers:?}");
        writers.first().copied()
    }

    /// Waits until a node is written to, and none is offline.
    pub fn wait_until_healthy(&mut self) {
        wait_until("all nodes are in use", || self.writers().len() == 1 && self.nodes_in(3).is_empty());
    }

    /// Runs statements on a node, as root.
    pub fn on(&self, node: usize, statements: &[&str]) {
        let mut client = self.client_of(node);
        for statement in statements {
            let answer = client.query(statement);
            assert!(answer.error().is_none(), "{statement}: {:?}", answer.error());
        }
    }

    /// A session of root on a node, past Narrows.
    pub fn client_of(&self, node: usize) -> RawClient {
        RawClient::open(&Endpoint::Unix(self.nodes[node].socket.clone()), &Login::new("root", ""))
    }

    /// A session through Narrows.
    pub fn client(&self) -> RawClient {
        RawClient::open(&Endpoint::local(self.narrows.port()), &Login::new("app", "app"))
    }

    /// Waits until a node accepts logins.
    pub fn wait_for_login(&self, node: usize) {
        let endpoint = Endpoint::Unix(self.nodes[node].socket.clone());
        wait_until("it accepts logins", || {
            let mut client = RawClient::try_connect(&endpoint);
            client.as_mut().is_ok_and(|client| client.login(&Login::new("root", "")).is_ok())
        });
    }

    /// Sends a signal to a node.
    pub fn signal(&self, node: usize, signal: Signal) {
        let pid = i32::try_from(self.nodes[node].pid).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("the node runs");
    }

    /// Starts a node again that was killed. `is_empty`: without its data, which it receives from another node.
    pub fn start_again(&mut self, node: usize, is_empty: bool) {
        let folder = self.nodes[node].data.clone();
        if is_empty {
            std::fs::remove_dir_all(&folder).expect("a folder of ours");
            std::fs::create_dir(&folder).expect("a folder of ours");
            if rustix::process::geteuid().is_root() {
                // The daemon of rsync works as nobody.
                std::os::unix::fs::chown(&folder, Some(65_534), Some(65_534)).expect("root may do this");
            }
        }
        let node = &mut self.nodes[node];
        let mut command = Command::new(&node.command[0]);
        command.args(&node.command[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.process_group(0);
        let process = Process::spawn(command).expect("the server starts");
        node.pid = process.pid();
        node.again = Some(process);
    }
}

/// The rows of an answer for administrators, the cells of each joined by blanks.
pub fn rows_of(admin: &mut RawClient, question: &str) -> Vec<String> {
    let answer = admin.query(question);
    assert!(answer.error().is_none(), "{question}: {:?}", answer.error());
    let joined = |row: Vec<Option<String>>| {
        row.into_iter().map(|cell| cell.unwrap_or_else(|| "NULL".to_owned())).collect::<Vec<_>>().join(" ")
    };
    answer.text_rows().into_iter().map(joined).collect()
}

fn nodes_of(record: &Value) -> Vec<Node> {
    let node = |server: &Value| Node {
        port: server["port"].as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port"),
        pid: server["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a pid"),
        socket: server["socket"].as_str().expect("a path").into(),
        data: server["data"].as_str().expect("a folder").into(),
        command: serde_json::from_value(server["command"].clone()).expect("a command line"),
        again: None,
    };
    record["servers"].as_array().expect("a list").iter().map(node).collect()
}
