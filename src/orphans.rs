//! Processes whose parents have ended: in a container, they become children of its first process, which must wait for
//! them. Programs of the scheduler can leave such processes.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tracing::warn;

/// Waits for such processes from now on, if this process is the first one of its namespace.
pub fn reap() {
    if std::process::id() != 1 {
        return;
    }
    let look = || {
        let mut before: Vec<Pid> = Vec::new();
        loop {
            std::thread::sleep(INTERVAL);
            let now = zombies();
            // Who started a process itself waits for it at once: what was there before is nobody's.
            for pid in now.iter().filter(|pid| before.contains(pid)) {
                let _ = waitid(WaitId::Pid(*pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
            before = now;
        }
    };
    if let Err(error) = std::thread::Builder::new().name("orphans".to_owned()).spawn(look) {
        warn!(%error, "processes that others leave stay in the list of processes when they end");
    }
}

/// The children of this process that have ended.
fn zombies() -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_zombie = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with("Z 1 "))
    };
    pids.filter(is_zombie).filter_map(Pid::from_raw).collect()
}

/// How often they are looked for.
const INTERVAL: Duration = Duration::from_secs(2);
