//! The keys at the top of the file: what must be known before anything else starts.

use std::path::PathBuf;

use super::managed::ManagedName;

/// The top-level keys. The command line takes precedence over them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bootstrap {
    /// Folder for everything that Narrows writes; `None`: the current folder.
    pub datadir: Option<PathBuf>,
    /// Log file; `None`: standard error.
    pub errorlog: Option<PathBuf>,
    /// Whether the log is JSON, one object per line.
    pub log_is_json: bool,
    /// File that holds the process id.
    pub pidfile: Option<PathBuf>,
    /// Identity of this node.
    pub uuid: Option<String>,
    /// Heartbeats that a worker process may miss; 0: any number.
    pub restart_on_missing_heartbeats: u32,
    /// Seconds that clients have to disconnect when the process is stopped or replaced by a newer one.
    pub drain_timeout: u32,
    /// Program to run after the process has died.
    pub execute_on_exit_failure: Option<String>,
    /// Whether the nodes of a cluster share listening addresses.
    pub cluster_sync_interfaces: bool,
    /// The sections that the file owns.
    pub managed: Vec<&'static ManagedName>,
}

impl Default for Bootstrap {
    fn default() -> Bootstrap {
        Bootstrap {
            datadir: None,
            errorlog: None,
            log_is_json: false,
            pidfile: None,
            uuid: None,
            restart_on_missing_heartbeats: 10,
            drain_timeout: 30,
            execute_on_exit_failure: None,
            cluster_sync_interfaces: false,
            managed: Vec::new(),
        }
    }
}

impl Bootstrap {
    /// Resolves a relative path in the file, which is relative to `datadir`.
    pub fn resolve(&self, path: &std::path::Path) -> PathBuf {
        match &self.datadir {
            Some(datadir) => datadir.join(path),
            None => path.to_owned(),
        }
    }
}
