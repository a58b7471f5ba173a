//! A worker process as the supervisor sees it: the channel to it, and its end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use tokio::sync::mpsc::UnboundedSender;

use super::channel::{Channel, Received, ToSupervisor, ToWorker};
use super::pulse::Pulse;

/// Identifies a process; pids may be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id(u64);

/// An event of a process.
#[derive(Debug)]
pub enum Event {
    /// A process has sent a message.
    Heard(Id, ToSupervisor, Vec<OwnedFd>),
    /// A process has ended; all its messages have been received.
    Ended(Id, Death),
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// It exited with this status.
    Exited(i32),
    /// It was killed by this signal.
    Killed(i32),
    /// It was not a child of this process.
    Unknown,
}

impl Death {
    /// Whether the process was ended from outside, rather than by something it did.
    pub fn was_asked_for(self) -> bool {
        let asking = [Signal::KILL, Signal::TERM, Signal::INT, Signal::QUIT];
        asking.iter().any(|signal| self == Death::Killed(signal.as_raw()))
    }
}

impl std::fmt::Display for Death {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Death::Exited(status) => write!(f, "exit status {status}"),
            Death::Killed(number) => match Signal::from_named_raw(*number) {
                Some(signal) => write!(f, "signal {number} ({signal:?})"),
                None => write!(f, "signal {number}"),
            },
            Death::Unknown => f.write_str("its exit status is unknown"),
        }
    }
}

/// A process that lives, or whose end has not been handled yet.
#[derive(Debug)]
pub struct Process {
    /// The identity of this process.
    pub id: Id,
    /// The process id.
    pub pid: Pid,
    /// When it was started, or taken over.
    pub since: Instant,
    /// The socket on which its keeper sends the clients of the process.
    pub transfer: Option<OwnedFd>,
    /// Whether the process still makes progress.
    pub pulse: Pulse,
    descriptor: Arc<OwnedFd>,
    channel: Arc<Channel>,
}

/// Starts and watches processes.
#[derive(Debug)]
pub struct Nursery {
    last: u64,
    events: UnboundedSender<Event>,
}

impl Nursery {
    /// A nursery that sends its events to `events`.
    pub fn new(events: UnboundedSender<Event>) -> Nursery {
        Nursery { last: 0, events }
    }

    /// Starts a worker process of `program`.
    ///
    /// # Errors
    /// If there is no such program, or no process can be started.
    pub fn start(&mut self, program: &Path, datadir: &Path) -> io::Result<Process> {
        let (channel, theirs) = Channel::pair()?;
        let child = Command::new(program)
            .arg0("narrows")
            .arg("worker")
            .arg(datadir)
            .stdin(Stdio::from(theirs.into_socket()))
            // Signals from the terminal go to the supervisor, which passes them on.
            .process_group(0)
            .spawn()?;
        let pid = Pid::from_child(&child);
        self.watch(pid, channel)
    }

    /// Watches a process that already exists.
    ///
    /// # Errors
    /// If it is gone.
    pub fn watch(&mut self, pid: Pid, channel: Channel) -> io::Result<Process> {
        self.last += 1;
        let id = Id(self.last);
        let descriptor = Arc::new(pidfd_open(pid, PidfdFlags::empty())?);
        let channel = Arc::new(channel);
        let process = Process {
            id,
            pid,
            since: Instant::now(),
            transfer: None,
            pulse: Pulse::default(),
            descriptor: Arc::clone(&descriptor),
            channel: Arc::clone(&channel),
        };
        let watch = Watch { id, end: descriptor, channel, events: self.events.clone() };
        std::thread::Builder::new().name("watch".to_owned()).spawn(move || watch.run())?;
        Ok(process)
    }
}

impl Process {
    /// Sends the process a message. A process that no longer listens has ended, which is noticed elsewhere.
    pub fn tell(&self, message: &ToWorker, sockets: &[BorrowedFd<'_>]) {
        if let Err(error) = self.channel.send(message, sockets) {
            tracing::warn!(pid = %self.pid, %error, "cannot send a message to a worker process");
        }
    }

    /// Sends a signal, unless the process has ended.
    pub fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.descriptor, signal);
    }
}

/// Reaps a keeper, if this process has to because it is the first one in its namespace.
pub fn bury(keeper: OwnedFd) {
    if std::process::id() != 1 {
        return;
    }
    let wait = move || {
        // The parent ends before the keeper does, or reaps it itself.
        let _ = poll(&mut [PollFd::new(&keeper, PollFlags::IN)], None);
        let _ = waitid(WaitId::PidFd(keeper.as_fd()), WaitIdOptions::EXITED);
    };
    // If the thread cannot be started, the keeper stays in the list of processes, and does no other harm.
    let _ = std::thread::Builder::new().name("bury".to_owned()).spawn(wait);
}

/// Reads the messages of one process, and waits for its end, on a separate thread.
struct Watch {
    id: Id,
    end: Arc<OwnedFd>,
    channel: Arc<Channel>,
    events: UnboundedSender<Event>,
}

impl Watch {
    fn run(self) {
        let mut is_open = true;
        loop {
            let end = PollFd::new(&self.end, PollFlags::IN);
            let word = PollFd::new(&self.channel, PollFlags::IN);
            let mut awaited = if is_open { vec![end, word] } else { vec![end] };
            // An interrupted wait is repeated.
            let _ = poll(&mut awaited, None);
            let has_ended = awaited.first().is_some_and(|end| !end.revents().is_empty());
            is_open = is_open && self.hear();
            if has_ended {
                break;
            }
        }
        let death = match waitid(WaitId::PidFd(self.end.as_fd()), WaitIdOptions::EXITED) {
            Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Death::Exited(code),
                (_, Some(signal)) => Death::Killed(signal),
                _ => Death::Unknown,
            },
            _ => Death::Unknown,
        };
        // A supervisor that is ending no longer listens.
        let _ = self.events.send(Event::Ended(self.id, death));
    }

    /// Passes on all messages that have arrived; false if no more will come.
    fn hear(&self) -> bool {
        loop {
            match self.channel.try_receive() {
                Ok(Received::Message(message, sockets)) => {
                    let _ = self.events.send(Event::Heard(self.id, message, sockets));
                }
                Ok(Received::Unknown) => {}
                Ok(Received::End) => return false,
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }
}
