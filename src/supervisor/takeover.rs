//! Finding the worker process that a dead supervisor left, and recording how a worker process died.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::process::Pid;

use super::channel::{Channel, Received, ToSupervisor};
use crate::launch::Launch;

/// A worker process without a supervisor.
pub struct Found {
    /// The process id.
    pub pid: Pid,
    /// The channel to it.
    pub channel: Channel,
    /// The interfaces it listens on.
    pub sockets: Vec<(String, OwnedFd)>,
    /// The running configuration.
    pub frozen: Option<OwnedFd>,
}

/// The path of the socket on which the worker process of `datadir` waits for the next supervisor.
pub fn door(datadir: &Path) -> PathBuf {
    datadir.join("narrows.worker")
}

/// The worker process of `datadir`, if one lives.
///
/// # Errors
/// If it does not answer.
pub fn find(datadir: &Path) -> anyhow::Result<Option<Found>> {
    let channel = match Channel::connect(&door(datadir)) {
        Ok(channel) => channel,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        // If the path is too long for a socket, no process listens there.
        Err(error) => {
            tracing::warn!(%error, "cannot look for a worker process without a supervisor");
            return Ok(None);
        }
    };
    let pid = socket_peercred(&channel).context("connecting to a worker process")?.pid;
    set_socket_timeout(&channel, Timeout::Recv, Some(PATIENCE)).context("limiting a wait")?;
    let (interfaces, mut sockets) = match channel.receive() {
        Ok(Received::Message(ToSupervisor::Hello(interfaces), sockets)) => (interfaces, sockets),
        Ok(_) => bail!("process {pid} still serves this folder and is about to end; try again"),
        Err(error) => bail!("process {pid} serves this folder and does not answer ({error}); end it first"),
    };
    set_socket_timeout(&channel, Timeout::Recv, None).context("limiting a wait")?;
    let frozen = sockets.split_off(sockets.len().min(interfaces.len())).pop();
    Ok(Some(Found { pid, channel, sockets: interfaces.into_iter().zip(sockets).collect(), frozen }))
}

/// Appends to `narrows.crash` in the data folder how a worker process died, with the last lines of the log.
pub fn report_death(launch: &Launch, pid: Pid, death: &str) {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let version = env!("CARGO_PKG_VERSION");
    let lines = last_lines(launch.log.as_deref().unwrap_or(Path::new(STANDARD_ERROR))).unwrap_or_default();
    let report = format!("{since_epoch} process {pid} of version {version}: {death}\n{lines}\n");
    let path = launch.datadir.join("narrows.crash");
    let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    if let Err(error) = opened.and_then(|mut file| file.write_all(report.as_bytes())) {
        tracing::warn!(%error, file = %path.display(), "cannot record the crash");
    }
}

/// The end of a log that is a file.
fn last_lines(path: &Path) -> Option<String> {
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut file = std::fs::File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    Some(lines[lines.len().saturating_sub(LAST_LINES)..].join("\n"))
}

/// How long a live process may take to answer: it does nothing else on that channel.
const PATIENCE: Duration = Duration::from_secs(5);

const STANDARD_ERROR: &str = "/proc/self/fd/2";
const LAST_BYTES: u64 = 16 * 1024;
const LAST_LINES: usize = 30;
