//! Clusters of a sandbox: Galera of MariaDB, and Group Replication of MySQL.
//!
//! The first node begins the cluster, the others join it one after the other. A node that a test has ended joins again
//! with the command line in sandbox.json.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{iter, thread};

use anyhow::{Context, bail, ensure};

use super::client::Client;
use super::data;
use super::program::Program;
use super::record::{Form, Server};

/// The addresses of a cluster's nodes among themselves.
pub struct Wiring {
    form: Form,
    /// The ports of each node: of the group, of increments of data, and of copies of all data.
    ports: Vec<[u16; 3]>,
    /// The library of Galera.
    library: PathBuf,
}

impl Wiring {
    /// Chooses the ports of `nodes` nodes; `None`: the servers are no cluster.
    pub fn of(form: Form, nodes: u16) -> anyhow::Result<Option<Wiring>> {
        let library = match form {
            Form::Replication => return Ok(None),
            Form::Galera => galera_library()?,
            Form::GroupReplication => PathBuf::new(),
        };
        let ports = data::free_ports(None, nodes * 3)?;
        let ports = ports.chunks_exact(3).map(|ports| [ports[0], ports[1], ports[2]]).collect();
        Ok(Some(Wiring { form, ports, library }))
    }

    /// The options that make a server a node, which listens on `port`.
    pub fn options(&self, node: usize, port: u16) -> Vec<String> {
        let [group, increments, copies] = self.ports[node];
        let all: Vec<String> = self.ports.iter().map(|[group, ..]| format!("127.0.0.1:{group}")).collect();
        let all = all.join(",");
        match self.form {
            Form::Replication => Vec::new(),
            Form::Galera => vec![
                "--skip-log-bin".to_owned(),
                "--gtid-strict-mode=0".to_owned(),
                "--innodb-autoinc-lock-mode=2".to_owned(),
                "--wsrep-on=1".to_owned(),
                format!("--wsrep-provider={}", self.library.display()),
                "--wsrep-cluster-name=sandbox".to_owned(),
                format!("--wsrep-cluster-address=gcomm://{all}"),
                format!("--wsrep-node-name=node{}", node + 1),
                "--wsrep-node-address=127.0.0.1".to_owned(),
                // Otherwise the nodes are named AUTO.
                format!("--wsrep-node-incoming-address=127.0.0.1:{port}"),
                format!(
                    "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{group};\
                     ist.recv_addr=127.0.0.1:{increments};gcache.size=16M"
                ),
                "--wsrep-sst-method=rsync".to_owned(),
                format!("--wsrep-sst-receive-address=127.0.0.1:{copies}"),
            ],
            Form::GroupReplication => vec![
                "--plugin-load-add=group_replication.so".to_owned(),
                "--loose-group-replication-group-name=5a4d62c1-6f5e-4a53-9d13-73616e64626f".to_owned(),
                "--loose-group-replication-start-on-boot=OFF".to_owned(),
                format!("--loose-group-replication-local-address=127.0.0.1:{group}"),
                format!("--loose-group-replication-group-seeds={all}"),
                "--loose-group-replication-recovery-get-public-key=ON".to_owned(),
                // The others choose another primary as soon as they suspect that one is dead.
                "--loose-group-replication-member-expel-timeout=0".to_owned(),
            ],
        }
    }
}

/// Options of the first node at its first start only.
pub fn beginning(form: Form) -> Vec<String> {
    if form == Form::Galera { vec!["--wsrep-new-cluster".to_owned()] } else { Vec::new() }
}

/// Makes a node forget its former cluster: the first node begins a new one with its data, and the others join it.
pub fn forget_former(form: Form, server: &Server) -> anyhow::Result<()> {
    let files = if form == Form::Galera { &["grastate.dat", "gvwstate.dat"][..] } else { &[] };
    for file in files.iter().map(|file| server.data.join(file)) {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", file.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Puts a data folder in place: a fresh one, or one that another node will fill.
pub fn create_data_folder(program: &Program, form: Form, data: &Path, is_first: bool) -> anyhow::Result<()> {
    if is_first || form != Form::Galera {
        return data::create_data_folder(program, data);
    }
    let context = || format!("cannot create {}", data.display());
    fs::create_dir_all(data).with_context(context)?;
    // The daemon of rsync that receives the data works as nobody if root runs it.
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(data, Some(NOBODY), Some(NOBODY)).with_context(context)?;
    }
    Ok(())
}

/// Makes a node that runs a member of the cluster, and waits until it is one.
pub fn join(form: Form, node: &mut Client, is_first: bool) -> anyhow::Result<()> {
    if form == Form::GroupReplication {
        node.query(
            "CHANGE REPLICATION SOURCE TO SOURCE_USER='repl', SOURCE_PASSWORD='repl' \
             FOR CHANNEL 'group_replication_recovery'",
        )?;
        let begins = "SET GLOBAL group_replication_bootstrap_group = ON";
        for statement in iter::once(begins).filter(|_| is_first).chain(["START GROUP_REPLICATION"]) {
            node.query(statement)?;
        }
        if is_first {
            node.query("SET GLOBAL group_replication_bootstrap_group = OFF")?;
        }
    }
    let question = match form {
        Form::Replication => return Ok(()),
        Form::Galera => "SHOW STATUS WHERE Variable_name = 'wsrep_local_state_comment' AND Value = 'Synced'",
        Form::GroupReplication => {
            "SELECT 1 FROM performance_schema.replication_group_members \
             WHERE MEMBER_ID = @@server_uuid AND MEMBER_STATE = 'ONLINE'"
        }
    };
    let deadline = Instant::now() + JOINS_WITHIN;
    while node.query(question)?.is_empty() {
        ensure!(Instant::now() < deadline, "a node does not become a member of the cluster");
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Where packages have the library.
fn galera_library() -> anyhow::Result<PathBuf> {
    let places = ["/usr/lib/galera", "/usr/lib64/galera-4", "/usr/lib/galera-4", "/usr/lib/libgalera"];
    let mut files = places.iter().map(|folder| Path::new(folder).join("libgalera_smm.so"));
    let Some(library) = files.find(|file| file.is_file()) else {
        bail!("libgalera_smm.so is not installed; on Debian: apt-get install galera-4 rsync")
    };
    Ok(library)
}

/// The user and the group that own nothing.
const NOBODY: u32 = 65_534;

/// A node receives a copy of all data within this time.
const JOINS_WITHIN: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
