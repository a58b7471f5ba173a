//! Signals as messages. They are blocked in every thread from the start and read from a descriptor, so that none
//! reaches a process that has no handler yet. A signal that arrives while another program replaces this one waits for
//! that program: blocked and pending signals survive execve(2).

use std::ffi::c_int;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use tokio::io::unix::AsyncFd;

/// Makes the kernel hold all signals that are messages, for this thread and those that it starts, until they are read.
/// Must be called before there is a second thread.
pub fn block() {
    // SAFETY: the set is filled in before it is read; nothing else is accessed.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set(MESSAGES), std::ptr::null_mut()) };
}

/// The descriptor from which signals are read.
#[derive(Debug)]
pub struct Signals(AsyncFd<OwnedFd>);

/// A signal that has arrived.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedSignal {
    number: c_int,
    /// The process that sent it; 0 for the kernel, and for a process outside this process's namespace.
    pub sender: u32,
}

/// What a signal requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// End the process.
    Stop,
    /// Reopen the log files: they have been moved.
    Logs,
    /// Upgrade to the program on disk.
    Upgrade,
}

impl Signals {
    /// Starts to read signals; [`block`] must have been called. Needs a runtime.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn take() -> io::Result<Signals> {
        // SAFETY: creates a descriptor, which nothing else owns.
        let descriptor = unsafe {
            let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
            match libc::signalfd(-1, &set(MESSAGES), flags) {
                -1 => return Err(io::Error::last_os_error()),
                descriptor => OwnedFd::from_raw_fd(descriptor),
            }
        };
        // SAFETY: the descriptor stays open for as long as it is registered: both end together.
        let registered = unsafe { AsyncFd::register(descriptor) };
        Ok(Signals(registered?))
    }

    /// The next signal. None is lost if this is dropped before it resolves.
    pub async fn next(&self) -> ReceivedSignal {
        loop {
            let Ok(mut ready) = self.0.readable().await else { return std::future::pending().await };
            if let Ok(Ok(received)) = ready.try_io(|descriptor| read(descriptor.get_ref())) {
                return received;
            }
        }
    }

    /// The next signal that requests the end of the process.
    pub async fn next_stop(&self) -> ReceivedSignal {
        loop {
            let received = self.next().await;
            if received.wants() == Wanted::Stop {
                return received;
            }
        }
    }
}

fn read(descriptor: &OwnedFd) -> io::Result<ReceivedSignal> {
    let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
    let length = size_of::<libc::signalfd_siginfo>();
    // SAFETY: the kernel writes one entry at most, which has this length.
    let count = unsafe { libc::read(descriptor.as_raw_fd(), info.as_mut_ptr().cast(), length) };
    if usize::try_from(count) != Ok(length) {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled it in; it consists of integers.
    let info = unsafe { info.assume_init() };
    Ok(ReceivedSignal { number: info.ssi_signo as c_int, sender: info.ssi_pid })
}

impl ReceivedSignal {
    /// What the signal requests.
    pub fn wants(self) -> Wanted {
        match self.number {
            libc::SIGHUP | libc::SIGUSR1 => Wanted::Logs,
            libc::SIGUSR2 => Wanted::Upgrade,
            _ => Wanted::Stop,
        }
    }

    /// The name of the signal in signal(7).
    pub fn name(self) -> &'static str {
        match self.number {
            libc::SIGTERM => "SIGTERM",
            libc::SIGINT => "SIGINT",
            libc::SIGQUIT => "SIGQUIT",
            libc::SIGHUP => "SIGHUP",
            libc::SIGUSR1 => "SIGUSR1",
            _ => "SIGUSR2",
        }
    }

    /// Ends this process with the signal, as if it had never been blocked.
    pub fn die(self) -> ! {
        // SAFETY: the set is filled in before it is read. The signal ends the process, without a core file.
        unsafe {
            libc::signal(self.number, libc::SIG_DFL);
            libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 });
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &set(&[self.number]), std::ptr::null_mut());
            libc::raise(self.number);
            libc::_exit(1)
        }
    }
}

/// Lets all signals through, for a program that this process becomes: it would inherit those that are blocked here.
pub fn unblock_all() {
    // SAFETY: the set is filled in before it is read.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &set(&[]), std::ptr::null_mut()) };
}

fn set(signals: &[c_int]) -> libc::sigset_t {
    // SAFETY: the set is emptied before anything is added to it.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        signals.iter().for_each(|signal| {
            libc::sigaddset(&mut set, *signal);
        });
        set
    }
}

/// The signals that are messages.
const MESSAGES: &[c_int] =
    &[libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];
