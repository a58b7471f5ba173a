//! The process that the user starts. It keeps every listening socket open and always has a worker process that serves:
//! when one dies, the next one takes its place, and clients that connect meanwhile wait in the kernel's queue.
//!
//! It knows nothing of MySQL and reads no database. Worker processes bind sockets and hand them over to be kept
//! ([`channel::ToSupervisor::Keep`]), and what runs along with them, as bytes that nobody here looks into. From both a
//! second worker process is made that could serve and waits to be told (the *standby*): compiling ten thousand rules
//! takes longer than anybody is to wait for a connect.
//!
//! When the supervisor dies the worker process goes on, and the next supervisor takes it over ([`takeover`]).

pub mod channel;
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
use rustix::process::Signal;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::last_words;
use crate::launch::Launch;
use crate::log_file::LogFile;
use crate::signals::{self, Signals, Wanted};
use channel::{Stance, ToSupervisor, ToWorker};
use lock::Lock;
use notify::Manager;
use process::{Death, Event, Nursery, Process};
use pulse::Verdict;
use upgrade::{Asker, Upgrade};

/// The exit status of a worker process that an administrator has told to start again.
pub const AGAIN: u8 = 75;

/// Runs until it is told to end.
///
/// # Errors
/// A folder that another one uses; sockets and processes that cannot be made.
pub fn run(launch: Launch, on_death: OnDeath, log: LogFile) -> anyhow::Result<ExitCode> {
    // What runs, passwords among it, is at hand here for the next process.
    crate::serve::keep_memory_private();
    let manager = Manager::of_environment();
    let sockets = notify::sockets_of_manager();
    let _lock = Lock::take(&launch.datadir)?;
    if let Some(path) = &launch.pidfile {
        write_pidfile(path)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let (events, mailbox) = unbounded_channel();
        let mut supervisor = Supervisor {
            program: own_program().context("finding this program")?,
            nursery: Nursery::new(events),
            launch: launch.clone(),
            on_death,
            log,
            manager,
            sockets,
            frozen: None,
            frozen_at: None,
            freezes: 0,
            serving: None,
            estates: Vec::new(),
            announced: None,
            standby: None,
            leaving: Vec::new(),
            upgrade: None,
            has_served: false,
            deaths_in_a_row: 0,
            serve_again_at: None,
            standby_at: None,
            is_stopping: false,
        };
        for pid in upgrade::left_by_predecessor() {
            let process = supervisor.look_after(pid);
            supervisor.leaving.extend(process);
        }
        let signals = Signals::take().context("taking signals")?;
        supervisor.begin()?;
        supervisor.attend(mailbox, signals).await
    });
    if let Some(path) = &launch.pidfile {
        let _ = std::fs::remove_file(path);
    }
    outcome
}

/// Writes the id of this process to `path`, unless it is there already. After an upgrade clients are served by then: a file
/// that cannot be written does not end that.
fn write_pidfile(path: &Path) -> anyhow::Result<()> {
    let line = format!("{}\n", std::process::id());
    // A pipe is not read: nobody may ever write to it.
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

/// This program as it is found on disk: under its name, also where it was replaced between its start and now.
fn own_program() -> std::io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    // The kernel's word for a file that has lost its name (proc(5)).
    let name = path.to_str().and_then(|path| path.strip_suffix(" (deleted)")).map(PathBuf::from);
    Ok(name.filter(|_| !path.exists()).unwrap_or(path))
}

/// What follows when a worker process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDeath {
    /// Another one takes its place.
    Restart,
    /// The supervisor ends too.
    End,
}

struct Supervisor {
    /// This program as it is found on disk: after an upgrade another version.
    program: PathBuf,
    nursery: Nursery,
    launch: Launch,
    on_death: OnDeath,
    log: LogFile,
    manager: Manager,
    /// Listening sockets by interface.
    sockets: BTreeMap<String, OwnedFd>,
    /// What runs, as the worker process has written it down.
    frozen: Option<OwnedFd>,
    /// When that was.
    frozen_at: Option<Instant>,
    /// How often.
    freezes: u64,
    serving: Option<Process>,
    /// What processes that have died have left to the next one.
    estates: Vec<Estate>,
    /// How it has said that it ends.
    announced: Option<Death>,
    standby: Option<Standby>,
    /// Those that accept no more clients.
    leaving: Vec<Process>,
    upgrade: Option<Upgrade>,
    /// Whether any worker process has served yet: until then there is no use in trying again.
    has_served: bool,
    deaths_in_a_row: u32,
    /// When the next worker process is to be started, where that has to wait.
    serve_again_at: Option<Instant>,
    standby_at: Option<Instant>,
    is_stopping: bool,
}

/// A worker process that is to take the place of another.
struct Standby {
    process: Process,
    is_ready: bool,
}

/// What a process that has died has left: its clients.
struct Estate {
    /// By which its keeper sends them.
    way: OwnedFd,
    was_killed: bool,
    /// Another process has begun to take it, and has died of something.
    was_told_of: bool,
}

/// What came of an event.
enum Next {
    Go,
    End(ExitCode),
}

impl Supervisor {
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
            None => self.start_cold()?,
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
        // After a pause of this process itself nobody has missed anything.
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

    fn signalled(&mut self, received: signals::Received) -> Next {
        match received.wants() {
            Wanted::Stop => return self.stop(received.name()),
            Wanted::Logs => self.flush_logs(),
            Wanted::Upgrade => self.begin_upgrade(Asker::nobody()),
        }
        Next::Go
    }

    fn act_on(&mut self, event: Event) -> Next {
        match event {
            Event::Ended(id, death) => {
                if self.serving.as_ref().is_some_and(|process| process.id == id) {
                    let process = self.serving.take().expect("looked at just now");
                    return self.serving_ended(process, death);
                }
                if self.standby.as_ref().is_some_and(|standby| standby.process.id == id) {
                    warn!(%death, "the standby process ended");
                    self.standby = None;
                    self.standby_at = Some(Instant::now() + STANDBY_RETRY);
                    if self.serving.is_some() {
                        return Next::Go;
                    }
                    // It was to serve at once, and what it was given may be why it did not.
                    self.frozen = None;
                    return self.start_next();
                }
                self.newcomer_ended(id, death);
                self.leaving.retain(|process| process.id != id);
                if self.is_stopping && self.serving.is_none() && self.leaving.is_empty() {
                    return Next::End(ExitCode::SUCCESS);
                }
            }
            Event::Heard(id, message, sockets) => match message {
                ToSupervisor::Keep(interface) => {
                    self.sockets.extend(sockets.into_iter().next().map(|socket| (interface, socket)));
                }
                ToSupervisor::Release(interface) => drop(self.sockets.remove(&interface)),
                ToSupervisor::Frozen => {
                    self.frozen = sockets.into_iter().next();
                    self.freezes += 1;
                    // The standby has what ran before. Operators often load several times in a row: the first time is
                    // acted on at once.
                    self.dismiss_standby();
                    let now = Instant::now();
                    let is_first = self.frozen_at.replace(now).is_none_or(|last| now - last > BURST);
                    self.standby_at = Some(if is_first { now } else { now + QUIET });
                }
                ToSupervisor::Serving if self.serving.as_ref().is_some_and(|it| it.id == id) => {
                    self.serves();
                    self.finish_upgrade();
                }
                ToSupervisor::Ready => self.is_ready(id),
                ToSupervisor::Alive => {
                    if let Some(process) = self.process(id) {
                        process.pulse.beats();
                    }
                }
                ToSupervisor::LogReopened if self.serving.as_ref().is_some_and(|it| it.id == id) => {
                    self.reopen_logs();
                }
                ToSupervisor::Keeper => {
                    let mut sockets = sockets.into_iter();
                    if let (Some(way), Some(process)) = (sockets.next(), self.process(id)) {
                        process.estate = Some(way);
                    }
                    sockets.for_each(process::bury);
                }
                ToSupervisor::Adopted if self.serving.as_ref().is_some_and(|it| it.id == id) => {
                    self.estates.clear();
                }
                ToSupervisor::Ends(status) if self.serving.as_ref().is_some_and(|it| it.id == id) => {
                    self.announced = Some(Death::Exited(status));
                }
                other => self.upgrade_heard(id, other),
            },
        }
        Next::Go
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

    /// The worker process serves.
    fn serves(&mut self) {
        let Some(process) = &self.serving else { return };
        self.has_served = true;
        self.manager.tell(&format!("READY=1\nSTATUS=process {} serves", process.pid));
        self.launch = self.launch.again();
        if self.standby.is_none() && self.frozen.is_some() {
            self.standby_at = Some(Instant::now());
        }
    }

    fn serving_ended(&mut self, process: Process, death: Death) -> Next {
        // The end of a process that was taken over is not seen, but it was told.
        let announced = self.announced.take();
        let death = if death == Death::Unknown { announced.unwrap_or(death) } else { death };
        let served = process.since.elapsed();
        if self.is_stopping {
            return if self.leaving.is_empty() { Next::End(ExitCode::SUCCESS) } else { Next::Go };
        }
        match death {
            Death::Exited(0) => {
                info!("the worker process was told to end");
                self.dismiss_all();
                return Next::End(ExitCode::SUCCESS);
            }
            Death::Exited(status) if status == i32::from(AGAIN) => {
                info!("the worker process was told to start again");
                self.frozen = None;
                self.dismiss_standby();
                return self.start_next();
            }
            // It has said why.
            Death::Exited(_) if !self.has_served => return Next::End(ExitCode::FAILURE),
            _ => {}
        }
        let pid = process.pid.as_raw_nonzero().get().unsigned_abs();
        let said = last_words::said(&self.launch.datadir, pid);
        let backtrace = said.map_or(String::new(), |path| path.display().to_string());
        let served_s = served.as_secs_f64();
        error!(pid, %death, served_s, backtrace, "the worker process has died");
        takeover::report_death(&self.launch, process.pid, &death.to_string());
        if self.on_death == OnDeath::End {
            self.dismiss_all();
            return Next::End(ExitCode::FAILURE);
        }
        self.deaths_in_a_row = if served < IMMEDIATE { self.deaths_in_a_row + 1 } else { 0 };
        let excess = self.deaths_in_a_row.saturating_sub(FREE_DEATHS);
        if excess == 0 {
            let was_killed = death.was_asked_for();
            self.estates.extend(process.estate.map(|way| Estate { way, was_killed, was_told_of: false }));
            return self.start_next();
        }
        self.estates.clear();
        // What it runs with may be what kills it: the databases say it anew.
        self.frozen = None;
        self.dismiss_standby();
        let delay = (FIRST_DELAY * 2_u32.saturating_pow(excess - 1)).min(LONGEST_DELAY);
        warn!(deaths = self.deaths_in_a_row, delay_ms = delay.as_millis(), "the next one waits");
        self.serve_again_at = Some(Instant::now() + delay);
        Next::Go
    }

    /// Has the next worker process serve, by the quickest way there is.
    fn start_next(&mut self) -> Next {
        if self.is_stopping {
            return if self.leaving.is_empty() { Next::End(ExitCode::SUCCESS) } else { Next::Go };
        }
        match &self.standby {
            Some(standby) if standby.is_ready => self.promote_standby(),
            // It serves as soon as it can.
            Some(_) => {}
            None if self.frozen.is_some() => {
                self.start_standby();
                if self.standby.is_none() {
                    return self.retry_later();
                }
            }
            None => {
                if let Err(error) = self.start_cold() {
                    error!(%error, "no worker process can be started");
                    return self.retry_later();
                }
            }
        }
        Next::Go
    }

    fn retry_later(&mut self) -> Next {
        self.serve_again_at = Some(Instant::now() + LONGEST_DELAY);
        Next::Go
    }

    fn start_cold(&mut self) -> anyhow::Result<()> {
        // It takes too long for anybody to wait for.
        self.estates.clear();
        let process = self.start_process(Path::new(THIS_PROGRAM), Stance::Cold)?;
        self.serving = Some(process);
        Ok(())
    }

    /// Starts the process that could serve at once.
    fn start_standby(&mut self) {
        if self.standby.is_some() || self.frozen.is_none() || self.is_stopping {
            return;
        }
        match self.start_process(Path::new(THIS_PROGRAM), Stance::Ready) {
            Ok(process) => self.standby = Some(Standby { process, is_ready: false }),
            Err(error) => {
                warn!(%error, "no standby process can be started");
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
            // It is told when to listen, and on what.
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
        for Estate { way, was_killed, was_told_of } in &mut self.estates {
            let message = ToWorker::Adopt { was_killed: *was_killed, is_begun: *was_told_of };
            process.tell(&message, &[way.as_fd()]);
            *was_told_of = true;
        }
        let (interfaces, sockets) = self.listening();
        process.tell(&ToWorker::Serve(interfaces), &sockets);
        process.tell(&ToWorker::OpenStore, &[]);
        info!(pid = %process.pid, "the next worker process serves");
    }

    /// The interfaces that are listened on, and their sockets.
    fn listening(&self) -> (Vec<String>, Vec<BorrowedFd<'_>>) {
        self.sockets.iter().map(|(interface, socket)| (interface.clone(), socket.as_fd())).unzip()
    }

    fn dismiss_standby(&mut self) {
        if let Some(standby) = self.standby.take() {
            standby.process.signal(Signal::KILL);
        }
    }

    /// Ends what serves nobody.
    fn dismiss_all(&mut self) {
        self.dismiss_standby();
        self.give_up_upgrade("Narrows ends");
        upgrade::forget(&self.launch.datadir);
        self.leaving.iter().for_each(|process| process.signal(Signal::TERM));
    }

    /// Has everything end: in time first, and at once when it is told again.
    fn stop(&mut self, signal: &str) -> Next {
        info!(signal, "stopping");
        self.manager.tell("STOPPING=1");
        self.is_stopping = true;
        self.serve_again_at = None;
        // Nobody is to wait in a queue that nobody takes from.
        self.sockets.clear();
        self.estates.clear();
        self.dismiss_all();
        match &self.serving {
            Some(process) => {
                process.tell(&ToWorker::EverythingEnds, &[]);
                process.signal(Signal::TERM);
            }
            None if self.leaving.is_empty() => return Next::End(ExitCode::SUCCESS),
            None => {}
        }
        Next::Go
    }

    /// Has everybody open the log anew; the process that serves says so when it has.
    fn flush_logs(&self) {
        match &self.serving {
            Some(process) => process.signal(Signal::USR1),
            None => self.reopen_logs(),
        }
    }

    /// Opens the log anew, here and in the processes that do not serve.
    fn reopen_logs(&self) {
        if let Err(error) = self.log.reopen() {
            warn!(%error, "the log cannot be opened again");
        }
        let standby = self.standby.iter().map(|standby| &standby.process);
        standby.chain(&self.leaving).for_each(|process| process.signal(Signal::USR1));
    }

    /// Counts the heartbeats that the process which serves has missed, and ends one that hangs.
    fn look_at_pulse(&mut self) {
        let most = self.launch.missing_heartbeats;
        let Some(process) = self.serving.as_mut().filter(|_| most > 0 && !self.is_stopping) else { return };
        let verdict = process.pulse.look(most, process.pid);
        match verdict {
            Verdict::Fine => {}
            Verdict::Hangs => {
                error!(pid = %process.pid, missed = most, "the worker process does nothing any more, and is aborted");
                process.signal(Signal::ABORT);
            }
            // It has not even come to its last words.
            Verdict::StillHangs => process.signal(Signal::KILL),
        }
    }

    /// Watches over a process that it only waits for.
    fn look_after(&mut self, process: rustix::process::Pid) -> Option<Process> {
        let (channel, _) = channel::Channel::pair().ok()?;
        self.nursery.watch(process, channel).ok()
    }
}

/// Resolves at `due`; never where there is none.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// This very program, even when its file was replaced meanwhile: what comes after a crash is of the same version.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// A process that has lived no longer than this has died of its start.
const IMMEDIATE: Duration = Duration::from_millis(200);

/// Such deaths in a row after which the next process waits: longer each time, from the first delay to the longest.
const FREE_DEATHS: u32 = 5;
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// In a burst of loads a standby is made when nothing was loaded for so long.
const QUIET: Duration = Duration::from_millis(200);

/// Loads that follow each other within this time are a burst.
const BURST: Duration = Duration::from_secs(2);

/// When the standby dies by itself, the next one is made after so long.
const STANDBY_RETRY: Duration = Duration::from_secs(5);
