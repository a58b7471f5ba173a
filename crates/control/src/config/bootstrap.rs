//! The keys at the top of the file: what must be known before anything else starts.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
    /// The fleet whose configuration this Narrows has; `None`: it has one of its own.
    pub fleet: Option<FleetSettings>,
}

/// The fleet that this Narrows belongs to: where its etcd is, and how to log in to it.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FleetSettings {
    /// The etcd servers, as `http://host:port` or `https://host:port`.
    pub endpoints: Vec<String>,
    /// What all keys of the fleet begin with.
    pub prefix: String,
    /// The name of this Narrows; `None`: that of the host, and the port for administrators.
    pub node: Option<String>,
    /// Where the other members reach its port for administrators; `None`: it is found out.
    #[serde(default)]
    pub address: Option<String>,
    /// The user of etcd; empty: etcd asks for none.
    pub username: String,
    /// The password of that user.
    pub password: String,
    /// The file that has the password instead.
    pub password_file: Option<PathBuf>,
    /// The authorities that the certificates of etcd must be signed by.
    pub tls_ca: Option<PathBuf>,
    /// The certificate that etcd is shown.
    pub tls_cert: Option<PathBuf>,
    /// Its key.
    pub tls_key: Option<PathBuf>,
}

impl fmt::Debug for FleetSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The password is not shown.
        write!(f, "FleetSettings({:?} {} {:?})", self.endpoints, self.prefix, self.node)
    }
}

impl FleetSettings {
    /// The files that they name, with the names of the settings.
    pub fn files(&mut self) -> [(&'static str, &mut Option<PathBuf>); 4] {
        [
            ("password_file", &mut self.password_file),
            ("tls_ca", &mut self.tls_ca),
            ("tls_cert", &mut self.tls_cert),
            ("tls_key", &mut self.tls_key),
        ]
    }
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
            fleet: None,
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
