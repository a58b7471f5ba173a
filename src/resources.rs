//! Resources of the process: open files and memory.

use std::time::Duration;

use narrows_proxy::stats::Trimmer;
use tracing::{info, warn};

/// Raises the limit of open files as far as allowed: every client and every backend connection is an open file.
pub fn raise_open_files_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    limit.current = limit.maximum;
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => info!(open_files = ?limit.current, "limit of open files raised"),
        Err(e) => warn!(error = %e, "cannot raise the limit of open files"),
    }
}

/// Warns if the limit allows fewer clients than are configured.
pub fn warn_of_few_files(max_connections: u32) {
    use rustix::process::{Resource, getrlimit};
    let Some(open_files) = getrlimit(Resource::Nofile).current else { return };
    if open_files < u64::from(max_connections) + OWN_FILES {
        warn!(
            open_files,
            max_connections,
            "the limit of open files (ulimit -n, LimitNOFILE) is too low for mysql-max_connections: clients above it are refused"
        );
    }
}

/// Protects passwords and keys in memory: no core file is written, and other processes of the same user cannot read the
/// memory of this process.
pub fn keep_memory_private() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    if std::env::var_os("NARROWS_CORE_FILES").is_some() {
        warn!("NARROWS_CORE_FILES is set: a core file would hold passwords and keys");
        return;
    }
    if let Err(e) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        warn!(error = %e, "cannot disable core files");
    }
}

/// Starts to return memory that was only needed for peaks to the system, for as long as the process lives.
pub fn give_back_memory() {
    let watch = || {
        let mut trimmer = Trimmer::default();
        loop {
            std::thread::sleep(MEMORY_WATCH);
            trimmer.look();
        }
    };
    if let Err(error) = std::thread::Builder::new().name("memory".to_owned()).spawn(watch) {
        warn!(%error, "memory from peaks is not returned to the system");
    }
}

/// Open files that do not belong to clients: databases, listeners, logs, administrators, and backend connections in
/// small numbers.
const OWN_FILES: u64 = 128;

/// How often free memory is checked.
const MEMORY_WATCH: Duration = Duration::from_secs(5);
