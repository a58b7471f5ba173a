//! The process that the user starts. It keeps every listening socket open and always has a worker process that serves:
//! when one dies, the next one takes its place, and clients that connect in the meantime wait in the kernel's queue.
//!
//! It knows nothing about MySQL and reads no database. Worker processes bind sockets and pass them to it to be kept
//! ([`channel::ToSupervisor::Keep`]), together with the running configuration, as bytes that the supervisor does not
//! interpret. From both it starts a second worker process that is ready to serve and waits for its turn (the
//! *standby*): compiling ten thousand rules takes longer than a client should wait for a connect.
//!
//! If the supervisor dies, the worker process continues, and the next supervisor takes it over ([`takeover`]).

pub mod channel;
mod death;
pub mod lock;
mod notify;
mod process;
mod pulse;
pub mod takeover;
pub mod upgrade;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use rustix::fs::Access;
use rustix::process::Signal;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::launch::Launch;
use crate::log::Log;
use crate::signals::{self, Signals, Wanted};
use channel::{Stance, ToSupervisor, ToWorker};
use lock::Lock;
use notify::Manager;
use process::{Death, Event, Nursery, Process};
use pulse::Health;
use upgrade::{Asker, Upgrade};

/// The exit status of a worker process that an administrator told to restart.
pub const AGAIN: u8 = 75;

/// Runs until it is stopped.
///
/// # Errors
/// A folder that another Narrows uses; sockets and processes that cannot be created.
pub fn run(launch: Launch, on_death: OnDeath, log: Log) -> anyhow::Result<ExitCode> {
    // The running configuration, including passwords, is held here for the next process.
    crate::resources::keep_memory_private();
    let manager = Manager::of_environment();
    let sockets = notify::sockets_of_manager();
    let _lock = Lock::take(&launch.datadir)?;
    if let Some(path) = &launch.pidfile {
        write_pidfile(path)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let (events, mailbox) = unbounded_channel();
        let mut supervisor = Supervisor::new(&launch, on_death, log, manager, sockets, Nursery::new(events))?;
        for pid in upgrade::left_by_predecessor() {
            let process = supervisor.look_after(pid);
            supervisor.leaving.extend(process);
        }
        let signals = Signals::take().context("handling signals")?;
        supervisor.begin()?;
        supervisor.attend(mailbox, signals).await
    });
    if let Some(path) = &launch.pidfile {
        let _ = std::fs::remove_file(path);
    }
    outcome
}

/// Writes the id of this process to `path`, unless the file already has it. After an upgrade clients are already being
/// served, so a file that cannot be written does not end the process.
fn write_pidfile(path: &Path) -> anyhow::Result<()> {
    let line = format!("{}\n", std::process::id());
    // A pipe is not read: there may never be a writer.
    let is_there = std::fs::metadata(path)
        .is_ok_and(|file| file.is_file() && file.len() == line.len() as u64)
        && std::fs::read(path).is_ok_and(|content| content == line.as_bytes());
    if is_there {
        return Ok(());
    }
    match narrows_control::files::replace(path, line.as_bytes(), 0o644) {
        Err(error) if upgrade::has_predecessor() => {
            warn!(path = %path.display(), %error, "the pid file cannot be written");
            Ok(())
        }
        written => written.with_context(|| format!("writing {}", path.display())),
    }
}

/// This program as it is on disk: under its name, even if the file was replaced since the start.
fn own_program() -> std::io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    // What the kernel appends to the name of a deleted file (proc(5)).
    let name = path.to_str().and_then(|path| path.strip_suffix(" (deleted)")).map(PathBuf::from);
    Ok(name.filter(|_| !path.exists()).unwrap_or(path))
}

/// What to do when a worker process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDeath {
    /// Another one takes its place.
    Restart,
    /// The supervisor ends too.
    End,
}

struct Supervisor {
    /// This program as it is on disk: after an upgrade, another version.
    program: PathBuf,
    nursery: Nursery,
    launch: Launch,
    on_death: OnDeath,
    log: Log,
    manager: Manager,
    /// Listening sockets by interface.
    sockets: BTreeMap<String, OwnedFd>,
    /// The running configuration, as written by the worker process.
    frozen: Option<OwnedFd>,
    /// When the configuration was last written.
    frozen_at: Option<Instant>,
    /// How often it has been written.
    freezes: u64,
    serving: Option<Process>,
    /// The clients of dead processes, for the next one.
    transfers: Vec<DeadProcess>,
    /// How the serving process announced that it ends.
    announced: Option<Death>,
    standby: Option<Standby>,
    /// The processes that accept no more clients.
    leaving: Vec<Process>,
    upgrade: Option<Upgrade>,
    /// Whether any worker process has served yet: until then there is no point in retrying.
    has_served: bool,
    deaths_in_a_row: u32,
    /// When to start the next worker process, if its start is delayed.
    serve_again_at: Option<Instant>,
    standby_at: Option<Instant>,
    is_stopping: bool,
}

/// A worker process that is to replace another one.
struct Standby {
    process: Process,
    is_ready: bool,
}

/// The clients of a process that died.
struct DeadProcess {
    /// The socket on which its keeper sends the clients.
    way: OwnedFd,
    was_killed: bool,
    /// Whether another process began to receive them, and died.
    was_told_of: bool,
}

/// The outcome of an event.
enum Next {
    Go,
    End(ExitCode),
}

impl Supervisor {
    fn new(
        launch: &Launch,
        on_death: OnDeath,
        log: Log,
        manager: Manager,
        sockets: BTreeMap<String, OwnedFd>,
        nursery: Nursery,
    ) -> anyhow::Result<Supervisor> {
        Ok(Supervisor {
            program: own_program().context("finding this program")?,
            nursery,
            launch: launch.clone(),
            on_death,
            log,
            manager,
            sockets,
            frozen: None,
            frozen_at: None,
            freezes: 0,
            serving: None,
            transfers: Vec::new(),
            announced: None,
            standby: None,
            leaving: Vec::new(),
            upgrade: None,
            has_served: false,
            deaths_in_a_row: 0,
            serve_again_at: None,
            standby_at: None,
            is_stopping: false,
        })
    }

    /// Finds the worker process that serves, or starts one.
    fn begin(&mut self) -> anyhow::Result<()> {
        match takeover::find(&self.launch.datadir)? {
            Some(found) => {
                let process = self.nursery.watch(found.pid, found.channel).context("watching a process")?;
                info!(pid = %process.pid, "the worker process of a former supervisor was taken over");
                self.sockets.extend(found.sockets);
                self.frozen = found.frozen;
                self.launch = self.launch.again();
                self.serving = Some(process);
                self.serves();
            }
            None => {
                may_write(&self.launch.datadir)?;
                self.start_cold()?;
            }
        }
        Ok(())
    }

    async fn attend(
        &mut self,
        mut mailbox: UnboundedReceiver<Event>,
        signals: Signals,
    ) -> anyhow::Result<ExitCode> {
        let (asking, mut asked): (UnboundedSender<Asker>, _) = unbounded_channel();
        upgrade::listen(&self.launch.datadir, asking);
        let watchdog = self.manager.watchdog();
        let mut alive_at = watchdog.map(|_| Instant::now());
        let mut pulse = tokio::time::interval(pulse::INTERVAL);
        // If this process itself was paused, no heartbeat has been missed.
        pulse.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let next = tokio::select! {
                Some(event) = mailbox.recv() => self.act_on(event),
                received = signals.next() => self.signalled(received),
                Some(asker) = asked.recv() => { self.begin_upgrade(asker); Next::Go }
                () = until(self.upgrade.as_ref().map(Upgrade::deadline)) => { self.upgrade_takes_too_long(); Next::Go }
                () = until(self.serve_again_at) => { self.serve_again_at = None; self.start_next() }
                () = until(self.standby_at) => { self.standby_at = None; self.start_standby(); Next::Go }
                _ = pulse.tick() => { self.look_at_pulse(); Next::Go }
                () = until(alive_at) => {
                    self.manager.tell("WATCHDOG=1");
                    alive_at = watchdog.map(|interval| Instant::now() + interval);
                    Next::Go
                }
            };
            if let Next::End(code) = next {
                return Ok(code);
            }
        }
    }

    fn signalled(&mut self, received: signals::ReceivedSignal) -> Next {
        match received.wants() {
            Wanted::Stop => return self.stop(received.name()),
            Wanted::Logs => self.flush_logs(),
            Wanted::Upgrade => self.begin_upgrade(Asker::nobody()),
        }
        Next::Go
    }

    fn act_on(&mut self, event: Event) -> Next {
        match event {
            Event::Ended(id, death) => return self.ended(id, death),
            Event::Heard(id, message, sockets) => self.heard(id, message, sockets),
        }
        Next::Go
    }

    fn heard(&mut self, id: process::Id, message: ToSupervisor, sockets: Vec<OwnedFd>) {
        let is_serving = self.serving.as_ref().is_some_and(|serving| serving.id == id);
        match message {
            ToSupervisor::Keep(interface) => {
                self.sockets.extend(sockets.into_iter().next().map(|socket| (interface, socket)));
            }
            ToSupervisor::Release(interface) => drop(self.sockets.remove(&interface)),
            ToSupervisor::Frozen => self.note_frozen(sockets.into_iter().next()),
            ToSupervisor::Serving if is_serving => {
                self.serves();
                self.finish_upgrade();
            }
            ToSupervisor::Ready => self.is_ready(id),
            ToSupervisor::Alive => {
                if let Some(process) = self.process(id) {
                    process.pulse.beats();
                }
            }
            ToSupervisor::LogReopened if is_serving => {
                self.reopen_logs();
            }
            ToSupervisor::Keeper => {
                let mut sockets = sockets.into_iter();
                if let (Some(way), Some(process)) = (sockets.next(), self.process(id)) {
                    process.transfer = Some(way);
                }
                sockets.for_each(process::bury);
            }
            ToSupervisor::Adopted if is_serving => {
                self.transfers.clear();
            }
            ToSupervisor::Ends(status) if is_serving => {
                self.announced = Some(Death::Exited(status));
            }
            other => self.upgrade_heard(id, other),
        }
    }

    /// Keeps the running configuration that the worker process has written.
    fn note_frozen(&mut self, frozen: Option<OwnedFd>) {
        self.frozen = frozen;
        self.freezes += 1;
        // The standby has an older configuration. Operators often load several times in a row: the first load is acted
        // on at once.
        self.dismiss_standby();
        let now = Instant::now();
        let is_first = self.frozen_at.replace(now).is_none_or(|last| now - last > BURST);
        self.standby_at = Some(if is_first { now } else { now + QUIET });
    }

    fn process(&mut self, id: process::Id) -> Option<&mut Process> {
        let standby = self.standby.as_mut().map(|standby| &mut standby.process);
        let newcomer = self.upgrade.as_mut().and_then(Upgrade::process);
        let mut all = self.serving.as_mut().into_iter().chain(standby).chain(newcomer);
        all.find(|process| process.id == id)
    }

    fn is_ready(&mut self, id: process::Id) {
        match &mut self.standby {
            Some(standby) if standby.process.id == id => {
                standby.is_ready = true;
                if self.serving.is_none() {
                    self.promote_standby();
                }
            }
            _ => self.newcomer_is_ready(id),
        }
    }

    /// Handles that a worker process now serves.
    fn serves(&mut self) {
        let Some(process) = &self.serving else { return };
        self.has_served = true;
        self.manager.tell(&format!("READY=1\nSTATUS=process {} serves", process.pid));
        self.launch = self.launch.again();
        if self.standby.is_none() && self.frozen.is_some() {
            self.standby_at = Some(Instant::now());
        }
    }

    /// Makes the next worker process serve, as quickly as possible.
    fn start_next(&mut self) -> Next {
        if self.is_stopping {
            return if self.leaving.is_empty() { Next::End(ExitCode::SUCCESS) } else { Next::Go };
        }
        match &self.standby {
            Some(standby) if standby.is_ready => self.promote_standby(),
            // A standby that is not ready yet serves as soon as it is.
            Some(_) => {}
            None if self.frozen.is_some() => {
                self.start_standby();
                if self.standby.is_none() {
                    return self.retry_later();
                }
            }
            None => {
                if let Err(error) = self.start_cold() {
                    error!(%error, "cannot start a worker process");
                    return self.retry_later();
                }
            }
        }
        Next::Go
    }

    fn retry_later(&mut self) -> Next {
        self.serve_again_at = Some(Instant::now() + death::LONGEST_DELAY);
        Next::Go
    }

    fn start_cold(&mut self) -> anyhow::Result<()> {
        // Reading the databases takes longer than clients can wait.
        self.transfers.clear();
        let process = self.start_process(Path::new(THIS_PROGRAM), Stance::Cold)?;
        self.serving = Some(process);
        Ok(())
    }

    /// Starts the process that will be ready to serve immediately.
    fn start_standby(&mut self) {
        if self.standby.is_some() || self.frozen.is_none() || self.is_stopping {
            return;
        }
        match self.start_process(Path::new(THIS_PROGRAM), Stance::Ready) {
            Ok(process) => self.standby = Some(Standby { process, is_ready: false }),
            Err(error) => {
                warn!(%error, "cannot start a standby process");
                self.standby_at = Some(Instant::now() + STANDBY_RETRY);
            }
        }
    }

    fn start_process(&mut self, program: &Path, stance: Stance) -> anyhow::Result<Process> {
        let process = self.nursery.start(program, &self.launch.datadir);
        let process = process.with_context(|| format!("starting {}", program.display()))?;
        let launch = Box::new(self.launch.clone());
        let (interfaces, along): (_, Vec<_>) = match stance {
            Stance::Cold => self.listening(),
            // A standby process receives a message when to listen, and on which sockets.
            Stance::Ready | Stance::Check => (Vec::new(), self.frozen.iter().map(AsFd::as_fd).collect()),
        };
        process.tell(&ToWorker::Begin(launch, stance, interfaces), &along);
        Ok(process)
    }

    fn promote_standby(&mut self) {
        if let Some(Standby { mut process, .. }) = self.standby.take() {
            process.since = std::time::Instant::now();
            self.have_serve(&process);
            self.serving = Some(process);
        }
    }

    fn have_serve(&mut self, process: &Process) {
        for DeadProcess { way, was_killed, was_told_of } in &mut self.transfers {
            let message = ToWorker::Adopt { was_killed: *was_killed, is_begun: *was_told_of };
            process.tell(&message, &[way.as_fd()]);
            *was_told_of = true;
        }
        let (interfaces, sockets) = self.listening();
        process.tell(&ToWorker::Serve(interfaces), &sockets);
        process.tell(&ToWorker::OpenStore, &[]);
        info!(pid = %process.pid, "the next worker process serves");
    }

    /// The interfaces on which Narrows listens, and their sockets.
    fn listening(&self) -> (Vec<String>, Vec<BorrowedFd<'_>>) {
        self.sockets.iter().map(|(interface, socket)| (interface.clone(), socket.as_fd())).unzip()
    }

    fn dismiss_standby(&mut self) {
        if let Some(standby) = self.standby.take() {
            standby.process.signal(Signal::KILL);
        }
    }

    /// Ends the processes that serve no clients.
    fn dismiss_all(&mut self, signal: Signal) {
        self.dismiss_standby();
        self.give_up_upgrade("Narrows ends");
        upgrade::forget(&self.launch.datadir);
        self.leaving.iter().for_each(|process| process.signal(signal));
    }

    /// Ends everything: gracefully the first time, immediately the second time.
    fn stop(&mut self, signal: &str) -> Next {
        info!(signal, "stopping");
        self.manager.tell("STOPPING=1");
        // A process that is late would see two signals of one kind as one: signal(7).
        let passed_on = if self.is_stopping { Signal::QUIT } else { Signal::TERM };
        self.is_stopping = true;
        self.serve_again_at = None;
        // Clients must not wait in a queue from which nobody accepts.
        self.sockets.clear();
        self.transfers.clear();
        self.dismiss_all(passed_on);
        match &self.serving {
            Some(process) => {
                process.tell(&ToWorker::EverythingEnds, &[]);
                process.signal(passed_on);
            }
            None if self.leaving.is_empty() => return Next::End(ExitCode::SUCCESS),
            None => {}
        }
        Next::Go
    }

    /// Makes all processes reopen the log; the serving process reports when it has done so.
    fn flush_logs(&self) {
        match &self.serving {
            Some(process) => process.signal(Signal::USR1),
            None => self.reopen_logs(),
        }
    }

    /// Reopens the log, here and in the processes that do not serve.
    fn reopen_logs(&self) {
        if let Err(error) = self.log.reopen() {
            warn!(%error, "cannot reopen the log");
        }
        let standby = self.standby.iter().map(|standby| &standby.process);
        standby.chain(&self.leaving).for_each(|process| process.signal(Signal::USR1));
    }

    /// Counts the heartbeats that the serving process has missed, and ends it if it hangs.
    fn look_at_pulse(&mut self) {
        let most = self.launch.missing_heartbeats;
        let Some(process) = self.serving.as_mut().filter(|_| most > 0 && !self.is_stopping) else { return };
        let health = process.pulse.look(most, process.pid);
        match health {
            Health::Fine => {}
            Health::Hangs => {
                error!(pid = %process.pid, missed = most, "the worker process is not responding and is aborted");
                process.signal(Signal::ABORT);
            }
            // It did not even write its last words.
            Health::StillHangs => process.signal(Signal::KILL),
        }
    }

    /// Watches a process of which only the end is of interest.
    fn look_after(&mut self, process: rustix::process::Pid) -> Option<Process> {
        let (channel, _) = channel::Channel::pair().ok()?;
        self.nursery.watch(process, channel).ok()
    }
}

/// An error that names the user, if the data folder is that of another one, or read-only: SQLite does not say why.
fn may_write(datadir: &Path) -> anyhow::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    rustix::fs::access(datadir, Access::WRITE_OK | Access::EXEC_OK)
        .with_context(|| format!("the data folder {} cannot be written by user {user}", datadir.display()))
}

/// Resolves at `due`, or never if that is `None`.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// This very program, even if its file has been replaced: the process that follows a crash is of the same version.
pub const THIS_PROGRAM: &str = "/proc/self/exe";

/// During a burst of loads, a standby is started once nothing has been loaded for this long.
const QUIET: Duration = Duration::from_millis(200);

/// Loads that follow each other within this time are a burst.
const BURST: Duration = Duration::from_secs(2);

/// If the standby dies by itself, the next one is started after this time.
const STANDBY_RETRY: Duration = Duration::from_secs(5);
