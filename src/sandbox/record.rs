//! sandbox.json: what runs where, for `stop`, for `config` and for tests.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// A sandbox, as written to sandbox.json in its folder.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    /// The folder that holds everything.
    pub dir: PathBuf,
    /// Whether the folder is removed when the sandbox stops.
    pub temporary: bool,
    /// False until all replicas follow the primary, or all nodes are members of the cluster.
    pub ready: bool,
    /// Which family the servers belong to.
    pub flavour: Flavour,
    /// What the servers form.
    #[serde(default)]
    pub form: Form,
    /// Version of the servers.
    pub version: String,
    /// The primary or the first node first, then the others.
    pub servers: Vec<Server>,
    /// The accounts that exist on every server.
    pub users: Vec<User>,
}

/// The two families, which differ in options, in replication statements and in how data is initialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavour {
    /// MariaDB.
    MariaDb,
    /// MySQL, version 8.0.23 or later.
    MySql,
}

/// What the servers of a sandbox form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A primary and its replicas.
    #[default]
    Replication,
    /// A Galera cluster.
    Galera,
    /// A Group Replication cluster.
    GroupReplication,
}

/// One server of a sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub struct Server {
    /// `primary`, `replica1`, `replica2`, ..., or `node1`, `node2`, ...
    pub name: String,
    /// Process id.
    pub pid: u32,
    /// TCP port on 127.0.0.1.
    pub port: u16,
    /// Unix socket; `root` logs in there without a password.
    pub socket: PathBuf,
    /// Data folder.
    pub data: PathBuf,
    /// Error log.
    pub log: PathBuf,
    /// Replication id: 1 for the primary.
    pub server_id: u32,
    /// The command line, so that a test can restart a server that it ended.
    pub command: Vec<String>,
}

/// An account of the sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub struct User {
    /// Name, from any host.
    pub name: String,
    /// Password in clear text.
    pub password: String,
    /// What it is for.
    pub purpose: String,
}

impl Record {
    /// The sandbox in `dir`, or the only one that runs.
    pub fn find(dir: Option<&Path>) -> anyhow::Result<Record> {
        if let Some(dir) = dir {
            return Record::read(dir);
        }
        let mut running: Vec<Record> = temporary_folders()
            .filter_map(|dir| Record::read(&dir).ok())
            .filter(Record::is_running)
            .collect();
        match (running.pop(), running.len()) {
            (None, _) => bail!("no sandbox is running; start one with `narrows sandbox`"),
            (Some(record), 0) => Ok(record),
            (Some(record), _) => {
                running.push(record);
                let folders: Vec<_> = running.iter().map(|record| record.dir.display().to_string()).collect();
                bail!("several sandboxes are running, choose one with --dir: {}", folders.join(", "))
            }
        }
    }

    /// Reads sandbox.json of a folder.
    pub fn read(dir: &Path) -> anyhow::Result<Record> {
        let path = dir.join(FILE);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("no sandbox in {}: cannot read {}", dir.display(), path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not a sandbox.json", path.display()))
    }

    /// Writes sandbox.json; readers see either the old or the new one, never a part.
    pub fn write(&self) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        narrows_control::files::replace(&self.path(), text.as_bytes(), 0o644)
            .with_context(|| format!("cannot write {}", self.path().display()))
    }

    /// Where sandbox.json is.
    pub fn path(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    /// Whether any of the servers is alive.
    pub fn is_running(&self) -> bool {
        self.servers.iter().any(Server::is_running)
    }
}

impl Server {
    /// Whether the server is not the first one.
    pub fn is_replica(&self) -> bool {
        self.server_id != 1
    }

    /// Whether the recorded process is alive and is this very server: a pid may have been reused.
    pub fn is_running(&self) -> bool {
        let Ok(command) = std::fs::read(format!("/proc/{}/cmdline", self.pid)) else { return false };
        let data = format!("--datadir={}", self.data.display());
        command.split(|&byte| byte == 0).any(|argument| argument == data.as_bytes())
    }

    /// Sends a signal, unless the process is gone.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        match pid {
            Some(pid) if self.is_running() => kill_process(pid, signal)
                .with_context(|| format!("cannot end {} (pid {})", self.name, self.pid)),
            _ => Ok(()),
        }
    }
}

/// Folder of the temporary sandboxes of this user.
pub fn temporary_root() -> PathBuf {
    std::env::temp_dir().join(format!("narrows-sandbox-{}", rustix::process::geteuid().as_raw()))
}

/// Folders of the temporary sandboxes of this user, running or left over.
pub fn temporary_folders() -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(temporary_root()).into_iter().flatten().flatten().map(|entry| entry.path())
}

const FILE: &str = "sandbox.json";
