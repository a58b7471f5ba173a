//! One worker process as the supervisor has it: the line to it, and its end.

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

/// Tells processes apart; their numbers may come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id(u64);

/// What happens to processes.
#[derive(Debug)]
pub enum Event {
    /// One has told something.
    Heard(Id, ToSupervisor, Vec<OwnedFd>),
    /// One has ended; everything that it has told was heard.
    Ended(Id, Death),
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It was no child of this process.
    Unknown,
}

impl Death {
    /// Somebody has ended the process from outside: it was nothing that it did.
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
            Death::Unknown => f.write_str("its end was not seen"),
        }
    }
}

/// A process that lives, or has ended and was not yet taken note of.
#[derive(Debug)]
pub struct Process {
    /// Which one.
    pub id: Id,
    /// What the kernel calls it.
    pub pid: Pid,
    /// When it began, or was taken over.
    pub since: Instant,
    /// The way by which its keeper sends what it leaves.
    pub estate: Option<OwnedFd>,
    /// Whether it still does anything.
    pub pulse: Pulse,
    descriptor: Arc<OwnedFd>,
    channel: Arc<Channel>,
}

/// Starts processes, and watches over them.
#[derive(Debug)]
pub struct Nursery {
    last: u64,
    events: UnboundedSender<Event>,
}

impl Nursery {
    /// Has `events` told.
    pub fn new(events: UnboundedSender<Event>) -> Nursery {
        Nursery { last: 0, events }
    }

    /// Starts a worker process of `program`.
    ///
    /// # Errors
    /// When there is no such program, or no process can be made.
    pub fn start(&mut self, program: &Path, datadir: &Path) -> io::Result<Process> {
        let (channel, theirs) = Channel::pair()?;
        let child = Command::new(program)
            .arg0("narrows")
            .arg("worker")
            .arg(datadir)
            .stdin(Stdio::from(theirs.into_socket()))
            // Keys that are pressed in a terminal are the supervisor's to pass on.
            .process_group(0)
            .spawn()?;
        let pid = Pid::from_child(&child);
        self.watch(pid, channel)
    }

    /// Watches over a process that is there already.
    ///
    /// # Errors
    /// When it is gone.
    pub fn watch(&mut self, pid: Pid, channel: Channel) -> io::Result<Process> {
        self.last += 1;
        let id = Id(self.last);
        let descriptor = Arc::new(pidfd_open(pid, PidfdFlags::empty())?);
        let channel = Arc::new(channel);
        let process = Process {
            id,
            pid,
            since: Instant::now(),
            estate: None,
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
    /// Tells it something. One that does not listen any more has ended, which is heard of.
    pub fn tell(&self, message: &ToWorker, sockets: &[BorrowedFd<'_>]) {
        if let Err(error) = self.channel.send(message, sockets) {
            tracing::warn!(pid = %self.pid, %error, "a worker process cannot be told something");
        }
    }

    /// Sends a signal; one that has ended gets none.
    pub fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.descriptor, signal);
    }
}

/// Takes note of the end of a keeper, where that falls to this process because it is the first one of its namespace.
pub fn bury(keeper: OwnedFd) {
    if std::process::id() != 1 {
        return;
    }
    let wait = move || {
        // Its parent has ended before it does, or else takes note itself.
        let _ = poll(&mut [PollFd::new(&keeper, PollFlags::IN)], None);
        let _ = waitid(WaitId::PidFd(keeper.as_fd()), WaitIdOptions::EXITED);
    };
    // Without one it stays in the list of processes, and does no other harm.
    let _ = std::thread::Builder::new().name("bury".to_owned()).spawn(wait);
}

/// Reads what one process tells, and waits for its end, on a thread of its own.
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
            // An interrupted wait is begun again.
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
        // A supervisor that ends does not listen any more.
        let _ = self.events.send(Event::Ended(self.id, death));
    }

    /// Passes on all that is there; false when nothing more will come.
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
