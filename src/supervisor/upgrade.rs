//! A newer program replaces this one: its worker process checks itself and waits; then the old worker process releases
//! the databases, and the supervisor becomes the newer program too, as the same process.
//!
//! Until the old process has released the databases, nothing has changed: whatever the newcomer does, it can simply be
//! killed.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::channel::{Stance, ToSupervisor, ToWorker};
use super::process::{Death, Id, Process};
use super::{Standby, Supervisor};

/// An upgrade in progress.
pub struct Upgrade {
    newcomer: Option<Standby>,
    /// How often the running configuration had been written when the newcomer received it.
    freezes: u64,
    asker: Asker,
    begun: Instant,
}

impl Upgrade {
    /// The time at which the upgrade is given up.
    pub fn deadline(&self) -> Instant {
        self.begun + LIMIT
    }

    /// The newer program's worker process, while it waits.
    pub(super) fn process(&mut self) -> Option<&mut Process> {
        self.newcomer.as_mut().map(|newcomer| &mut newcomer.process)
    }
}

/// The client that requested the upgrade and receives its outcome.
#[derive(Debug)]
pub struct Asker(Option<UnixStream>);

impl Asker {
    /// An upgrade requested by a signal, whose outcome is only logged.
    pub fn nobody() -> Asker {
        Asker(None)
    }

    fn tell(&self, answer: &str) {
        if let Asker(Some(stream)) = self {
            // A client that has disconnected can read the log.
            let _ = writeln!(&mut &*stream, "{answer}");
        }
    }
}

impl Supervisor {
    /// Starts the program that is on disk now, and makes it check itself.
    pub(super) fn begin_upgrade(&mut self, asker: Asker) {
        let hindrance = match (&self.upgrade, &self.serving, &self.frozen) {
            (Some(_), ..) => Some("an upgrade is already in progress"),
            _ if self.is_stopping => Some("Narrows is stopping"),
            (None, Some(_), Some(_)) => None,
            _ => Some("nothing is served yet"),
        };
        if let Some(hindrance) = hindrance {
            return asker.tell(&format!("ERR {hindrance}"));
        }
        info!(program = %self.program.display(), "an upgrade has started");
        self.manager.tell("STATUS=a newer program checks itself");
        let freezes = self.freezes;
        let upgrade = |newcomer| Upgrade { newcomer, freezes, asker, begun: Instant::now() };
        match self.start_process(&self.program.clone(), Stance::Check) {
            Ok(process) => self.upgrade = Some(upgrade(Some(Standby { process, is_ready: false }))),
            Err(error) => {
                self.upgrade = Some(upgrade(None));
                self.give_up_upgrade(&format!(
                    "the program cannot be started: {}",
                    crate::reason::of(&error)
                ));
            }
        }
    }

    /// The newcomer has found nothing wrong, so the old process must release the databases.
    pub(super) fn newcomer_is_ready(&mut self, id: Id) {
        let newcomer = self.upgrade.as_mut().and_then(|upgrade| upgrade.newcomer.as_mut());
        let Some(newcomer) = newcomer.filter(|newcomer| newcomer.process.id == id) else { return };
        newcomer.is_ready = true;
        match &self.serving {
            Some(process) => process.tell(&ToWorker::HandOver, &[]),
            // The old process has died in the meantime, so there is nothing to wait for.
            None => self.newcomer_serves(),
        }
    }

    pub(super) fn upgrade_heard(&mut self, id: Id, message: ToSupervisor) {
        let is_serving = self.serving.as_ref().is_some_and(|process| process.id == id);
        match message {
            ToSupervisor::HandedOver if is_serving => {
                self.leaving.extend(self.serving.take());
                // If Narrows was told to end in the meantime, it only waits for clients to disconnect.
                if !self.is_stopping {
                    self.newcomer_serves();
                }
            }
            ToSupervisor::NotHandedOver(reason) if is_serving => self.give_up_upgrade(&reason),
            ToSupervisor::Unfit(reason) if self.is_newcomer(id) => self.give_up_upgrade(&reason),
            ToSupervisor::Unfit(reason) => warn!(reason, "a worker process cannot serve"),
            _ => {}
        }
    }

    fn is_newcomer(&self, id: Id) -> bool {
        let newcomer = self.upgrade.as_ref().and_then(|upgrade| upgrade.newcomer.as_ref());
        newcomer.is_some_and(|newcomer| newcomer.process.id == id)
    }

    fn newcomer_serves(&mut self) {
        let freezes = self.freezes;
        let newcomer = self.upgrade.as_mut().and_then(|upgrade| {
            let newcomer = upgrade.newcomer.take()?;
            Some((newcomer, upgrade.freezes == freezes))
        });
        match newcomer {
            Some((Standby { mut process, is_ready: true }, true)) => {
                process.since = std::time::Instant::now();
                self.have_serve(&process);
                self.serving = Some(process);
            }
            Some((newcomer, _)) => {
                newcomer.process.signal(Signal::KILL);
                self.start_another_newcomer();
            }
            // The upgrade was just given up, but the old process has released the databases anyway.
            None => {
                self.start_next();
            }
        }
    }

    /// Starts another newcomer, because something was loaded while the first one checked itself, so its configuration
    /// is outdated. The old process loads nothing any more: the other process of the same program receives the running
    /// configuration, and serves as soon as it can.
    fn start_another_newcomer(&mut self) {
        self.dismiss_standby();
        match self.start_process(&self.program.clone(), Stance::Ready) {
            Ok(process) => self.standby = Some(Standby { process, is_ready: false }),
            Err(error) => {
                error!(%error, "the newer program cannot be restarted");
                self.start_next();
            }
        }
    }

    pub(super) fn newcomer_ended(&mut self, id: Id, death: Death) {
        if self.is_newcomer(id) {
            self.give_up_upgrade(&format!("it ended before it could serve: {death}"));
        }
    }

    pub(super) fn upgrade_takes_too_long(&mut self) {
        self.give_up_upgrade(&format!("it was not ready after {} seconds", LIMIT.as_secs()));
    }

    /// Gives up the upgrade: the old program continues unchanged.
    pub(super) fn give_up_upgrade(&mut self, reason: &str) {
        let Some(upgrade) = self.upgrade.take() else { return };
        if let Some(newcomer) = upgrade.newcomer {
            newcomer.process.signal(Signal::KILL);
        }
        error!(reason, "the upgrade has failed; the old program continues");
        self.manager.tell("STATUS=an upgrade has failed; the old program continues");
        upgrade.asker.tell(&format!("ERR {reason}"));
    }

    /// Completes the upgrade, because the newer worker process serves: this process becomes the newer program too.
    pub(super) fn finish_upgrade(&mut self) {
        // If a newcomer is still waiting, the serving process is the one that replaced a crashed predecessor.
        let Some(upgrade) = self.upgrade.take_if(|upgrade| upgrade.newcomer.is_none()) else { return };
        let Some(pid) = self.serving.as_ref().map(|serving| serving.pid) else { return };
        let leaving: Vec<String> = self.leaving.iter().map(|process| process.pid.to_string()).collect();
        info!(%pid, leaving = leaving.join(" "), "the newer program serves");
        self.dismiss_standby();
        upgrade.asker.tell(&format!("OK process {pid} serves"));
        let error = Command::new(&self.program)
            .args(std::env::args_os().skip(1))
            .env(LEAVING, leaving.join(" "))
            // The sockets of the service manager are already kept.
            .env_remove("LISTEN_FDS")
            .exec();
        error!(%error, "the supervisor continues with the old version");
        self.standby_at = Some(Instant::now());
    }
}

/// Whether this process was another program before an upgrade.
pub fn has_predecessor() -> bool {
    std::env::var_os(LEAVING).is_some()
}

/// The processes that this process's former program was waiting for.
pub fn left_by_predecessor() -> Vec<Pid> {
    let pids = std::env::var(LEAVING).unwrap_or_default();
    pids.split(' ').filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

fn door(datadir: &Path) -> PathBuf {
    datadir.join("narrows.control")
}

/// Listens for [`ask`] on a separate thread.
pub fn listen(datadir: &Path, askers: UnboundedSender<Asker>) {
    let path = door(datadir);
    let _ = std::fs::remove_file(&path);
    let opened = UnixListener::bind(&path).and_then(|listener| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                if askers.send(Asker(Some(stream))).is_err() {
                    return;
                }
            }
        })
    });
    if let Err(error) = opened {
        warn!(%error, "`narrows upgrade` cannot be used; SIGUSR2 does the same");
    }
}

/// Accepts no more requests.
pub fn forget(datadir: &Path) {
    let _ = std::fs::remove_file(door(datadir));
}

/// `narrows upgrade`: asks the supervisor of `datadir`, and reports the outcome.
///
/// # Errors
/// If there is no supervisor to ask; the reason why nothing was changed.
pub fn ask(datadir: &Path) -> anyhow::Result<String> {
    let path = door(datadir);
    let deadline = std::time::Instant::now() + BETWEEN_PROGRAMS;
    let stream = loop {
        match UnixStream::connect(&path) {
            // A supervisor that has just become another program may not listen yet.
            Err(error)
                if error.kind() == ErrorKind::ConnectionRefused && std::time::Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            connected => break connected,
        }
    };
    let stream = stream.with_context(|| format!("{}: no running Narrows to upgrade", path.display()))?;
    stream.set_read_timeout(Some(LIMIT * 2)).context("setting a timeout")?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).context("waiting for the answer")?;
    match answer.trim_end().split_once(' ') {
        Some(("OK", what)) => Ok(format!("upgraded: {what}\n")),
        Some((_, reason)) => bail!("nothing was changed: {reason}"),
        None => bail!("the supervisor has ended without an answer"),
    }
}

/// How long a newer program may take to check itself, and the old one to release the databases: both take well under a
/// second.
const LIMIT: Duration = Duration::from_secs(10);

/// How long a supervisor may take from one program to the next: it reads the top of a file.
const BETWEEN_PROGRAMS: Duration = Duration::from_secs(3);

/// Passes the processes that a supervisor waits for to the program that replaces it.
const LEAVING: &str = "NARROWS_LEAVING";
