//! The process beside a worker process that keeps its clients' connections open when it is killed.
//!
//! It shares the worker process's table of open files, so that a socket that the one opens the other has, without a message
//! and at no cost. It does nothing but wait for the worker process's end. Then it sends what can be gone on with to whoever
//! the supervisor has given the other end of its way to (`narrows_proxy::keep`), and ends, and all the rest is closed.
//!
//! A program that is executed has a table of its own, so the keeper is made by the worker process itself, as its first act.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use narrows_proxy::keep::{Ledger, bequeath, use_ledger};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{PidfdFlags, Resource, getpid, getrlimit, pidfd_open};

/// The keeper of this process.
#[derive(Debug)]
pub struct Keeper {
    /// Where what this process leaves comes out.
    pub estate: OwnedFd,
    /// By which the keeper's end is seen.
    pub end: OwnedFd,
}

impl Keeper {
    /// Makes the keeper of this process, which must have one thread only.
    ///
    /// # Errors
    /// Out of memory, descriptors or processes; the process then does without.
    pub fn begin() -> io::Result<Keeper> {
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let ledger = Ledger::new(usize::try_from(most).unwrap_or(usize::MAX))?;
        let (way, estate) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let ward = pidfd_open(getpid(), PidfdFlags::empty())?;
        let mut end: RawFd = -1;
        let signals = block_signals();
        // SAFETY: as fork(2): the new process goes on here with a copy of all memory, and no other thread was in the midst of
        // anything. It never returns from `watch`. It has the same descriptors as this process, not copies of them.
        let pid = unsafe {
            let flags = libc::CLONE_FILES | libc::CLONE_PIDFD | libc::SIGCHLD;
            libc::syscall(libc::SYS_clone, flags as libc::c_long, 0, &raw mut end, 0, 0)
        };
        if pid == 0 {
            watch(ledger, &ward, way.as_raw_fd());
        }
        let error = io::Error::last_os_error();
        // SAFETY: puts back the signals that were blocked above.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &signals, std::ptr::null_mut()) };
        if pid < 0 {
            return Err(error);
        }
        use_ledger(ledger);
        // They are the keeper's, for as long as this process lives.
        std::mem::forget((way, ward));
        // SAFETY: the kernel has put a new descriptor there.
        Ok(Keeper { estate, end: unsafe { OwnedFd::from_raw_fd(end) } })
    }
}

/// What the keeper does: nothing, until `ward` has ended.
fn watch(ledger: Ledger, ward: &OwnedFd, way: RawFd) -> ! {
    // It is told from the process that it keeps for in lists of threads.
    let _ = rustix::thread::set_name(c"keeper");
    let mut end = [PollFd::new(ward, PollFlags::IN)];
    while poll(&mut end, None).is_err() {}
    if !ledger.is_closed() {
        limit_time();
        // Nobody takes it: the connections are closed.
        let _ = bequeath(ledger, way);
    }
    // SAFETY: ends the process, and runs nothing that was registered in the one it was copied from.
    unsafe { libc::_exit(0) }
}

/// Blocks all signals, which are not for the keeper; what was blocked before.
fn block_signals() -> libc::sigset_t {
    // SAFETY: both sets are filled in by the calls before they are read.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, &mut before);
        before
    }
}

/// Has the kernel end this process after a while, whatever it waits for then.
fn limit_time() {
    // SAFETY: the set is filled in before it is read; SIGALRM has no handler, and ends the process.
    unsafe {
        let mut alarm = std::mem::zeroed();
        libc::sigemptyset(&mut alarm);
        libc::sigaddset(&mut alarm, libc::SIGALRM);
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_UNBLOCK, &alarm, std::ptr::null_mut());
        libc::alarm(PATIENCE_S);
    }
}

/// Seconds for which clients wait for another process: as long as one that has ten thousand rules to compile may take
/// to start on a slow machine.
const PATIENCE_S: u32 = 30;
