//! Finding the worker process that a dead supervisor left, and recording how a worker process died.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::process::{Pid, test_kill_process};

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

/// The worker process of `datadir`, if one lives. One that is about to end is waited for: its keepers, which share its
/// sockets, end a moment after it, and so after the supervisor that a user has stopped.
///
/// # Errors
/// If it does not answer, or does not end in time.
pub fn find(datadir: &Path) -> anyhow::Result<Option<Found>> {
    let deadline = Instant::now() + TIME_TO_END;
    let mut is_noted = false;
    loop {
        let pid = match knock(&door(datadir), PATIENCE)? {
            Answer::Nobody => return Ok(None),
            Answer::Serves(found) => return Ok(Some(*found)),
            Answer::Ends(pid) => pid,
        };
        if Instant::now() >= deadline {
            bail!("process {pid} still serves this folder and is about to end; try again");
        }
        if !std::mem::replace(&mut is_noted, true) {
            tracing::info!(%pid, "waiting for the end of the process that served this folder");
        }
        std::thread::sleep(PAUSE);
    }
}

/// Who is at a door.
enum Answer {
    Nobody,
    Serves(Box<Found>),
    /// A process that is about to end, or whose keepers are.
    Ends(Pid),
}

fn knock(door: &Path, patience: Duration) -> anyhow::Result<Answer> {
    let channel = match Channel::connect(door, patience) {
        Ok(channel) => channel,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(Answer::Nobody);
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            bail!("a process serves this folder and accepts no supervisor; end it first");
        }
        // If the path is too long for a socket, no process listens there.
        Err(error) => {
            tracing::warn!(%error, "cannot look for a worker process without a supervisor");
            return Ok(Answer::Nobody);
        }
    };
    let pid = socket_peercred(&channel).context("connecting to a worker process")?.pid;
    set_socket_timeout(&channel, Timeout::Recv, Some(patience)).context("limiting a wait")?;
    let (interfaces, mut sockets) = match channel.receive() {
        Ok(Received::Message(ToSupervisor::Hello(interfaces), sockets)) => (interfaces, sockets),
        Ok(_) => return Ok(Answer::Ends(pid)),
        Err(_) if test_kill_process(pid) == Err(Errno::SRCH) => return Ok(Answer::Ends(pid)),
        Err(error) => bail!("process {pid} serves this folder and does not answer ({error}); end it first"),
    };
    set_socket_timeout(&channel, Timeout::Recv, None).context("limiting a wait")?;
    let frozen = sockets.split_off(sockets.len().min(interfaces.len())).pop();
    let sockets = interfaces.into_iter().zip(sockets).collect();
    Ok(Answer::Serves(Box::new(Found { pid, channel, sockets, frozen })))
}

/// Appends to `narrows.crash` in the data folder how a worker process died, with the last lines of the log.
pub fn report_death(launch: &Launch, pid: Pid, death: &str) {
    let since_epoch = narrows_proxy::clock::now().as_secs();
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

/// How long a process that is about to end may take: its keepers take milliseconds. Signals wait in the meantime.
const TIME_TO_END: Duration = Duration::from_secs(10);

/// The time between two looks at a process that is about to end.
const PAUSE: Duration = Duration::from_millis(20);

const STANDARD_ERROR: &str = "/proc/self/fd/2";
const LAST_BYTES: u64 = 16 * 1024;
const LAST_LINES: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::channel::Door;

    const SOON: Duration = Duration::from_millis(50);

    #[test]
    fn a_process_that_hangs_is_named_however_often_it_is_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let door_file = door(folder.path());
        assert!(matches!(knock(&door_file, SOON), Ok(Answer::Nobody)));
        let silent = Door::open(&door_file).unwrap();
        for _ in 0..5 {
            let refusal = knock(&door_file, SOON).err().expect("nobody accepts").to_string();
            assert!(refusal.contains("serves this folder") && refusal.ends_with("end it first"), "{refusal}");
        }
        drop(silent);
        assert!(find(folder.path()).unwrap().is_none());
    }

    #[test]
    fn the_end_of_a_process_and_of_its_keepers_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let own = Door::open(&door(folder.path())).unwrap();
        let ending = std::thread::spawn(move || {
            // A process that leaves accepts, and says nothing.
            for _ in 0..3 {
                drop(own.accept().unwrap());
            }
            // After its end its keepers have the socket for a moment.
            std::thread::sleep(SOON);
            drop(own);
        });
        assert!(find(folder.path()).unwrap().is_none());
        ending.join().unwrap();
    }
}
