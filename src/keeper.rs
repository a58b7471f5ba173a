//! The processes that keep a worker process's client connections open when it is killed.
//!
//! They share the worker process's table of open files, so that every socket it opens is theirs too, without a message
//! and at no cost. They only wait for the worker process to end. Then one of them sends everything that can be
//! continued to the process to which the supervisor has passed the other end of their socket (`narrows_proxy::hot_restart`),
//! and ends; everything else is closed.
//!
//! There are two, so that one of them may be killed: the other one starts a replacement. The worker process could not:
//! by then it has threads, and much memory, which a copy of it would keep. An executed program has its own table of
//! open files, so the worker process itself starts the first keeper, before it does anything else.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use narrows_proxy::hot_restart::{SlotTable, send_clients, slot_table, use_slot_table};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{PidfdFlags, Resource, WaitId, WaitIdOptions, getpid, getrlimit, pidfd_open, waitid};
use tracing::{error, warn};

/// The keepers of this process.
#[derive(Debug)]
pub struct Keepers {
    /// The socket from which the next process receives the clients that this one leaves.
    pub transfer: OwnedFd,
    /// The descriptors that become readable when the keepers end.
    pub ends: Vec<OwnedFd>,
}

impl Keepers {
    /// Starts the keepers of this process, which must be single-threaded.
    ///
    /// # Errors
    /// Out of memory, descriptors or processes; the process then runs without keepers.
    pub fn begin() -> io::Result<Keepers> {
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let slot_table = SlotTable::new(usize::try_from(most).unwrap_or(usize::MAX))?;
        let (way, transfer) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let ward = pidfd_open(getpid(), PidfdFlags::empty())?;
        let signals = block_signals();
        let first = Watch { slot_table, ward: ward.as_raw_fd(), way: way.as_raw_fd(), role: 0 };
        let made = first.begin(0, None);
        // SAFETY: restores the signal mask that was changed above.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &signals, std::ptr::null_mut()) };
        let end = made?;
        use_slot_table(slot_table);
        // The keepers use these for as long as this process lives.
        std::mem::forget((way, ward));
        // SAFETY: the descriptor that shows the first keeper's end, which only `Ends` closes.
        let end = unsafe { BorrowedFd::borrow_raw(end) };
        Ok(Keepers { transfer, ends: vec![end.try_clone_to_owned()?] })
    }
}

/// The state of a keeper.
#[derive(Clone, Copy)]
struct Watch {
    slot_table: SlotTable,
    /// The descriptor that becomes readable when the worker process ends.
    ward: RawFd,
    /// The socket to which it sends the clients that the worker process leaves.
    way: RawFd,
    /// Which of the two keepers it is.
    role: usize,
}

impl Watch {
    /// Starts a keeper process with `flags` for clone(2), and records in the slot table which descriptor shows its end.
    /// `partner` is the descriptor that shows the end of the other keeper. Must be called in a single-threaded process.
    fn begin(self, flags: libc::c_int, partner: Option<RawFd>) -> io::Result<RawFd> {
        let mut end: RawFd = -1;
        // SAFETY: as with fork(2), the new process continues here with a copy of all memory, and there is no other
        // thread that could have been interrupted halfway. It never returns from `keep`. It shares the descriptors of
        // this process rather than having copies of them.
        let pid = unsafe {
            let flags = libc::CLONE_FILES | libc::CLONE_PIDFD | libc::SIGCHLD | flags;
            libc::syscall(libc::SYS_clone, flags as libc::c_long, 0, &raw mut end, 0, 0)
        };
        match pid {
            0 => self.keep(partner),
            1.. => {
                self.slot_table.note_keeper(self.role, end);
                Ok(end)
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// What a keeper does: nothing until the worker process has ended, except that it starts a new partner if it has
    /// none.
    fn keep(self, mut partner: Option<RawFd>) -> ! {
        // Its name distinguishes it from the worker process in lists of threads.
        let _ = rustix::thread::set_name(c"keeper");
        let own = pidfd_open(getpid(), PidfdFlags::empty()).ok();
        loop {
            if let (None, Some(own)) = (partner, &own) {
                let other = Watch { role: 1 - self.role, ..self };
                // The parent of the new keeper is the worker process, too.
                partner = other.begin(libc::CLONE_PARENT, Some(own.as_raw_fd())).ok();
            }
            let (ward_ended, partner_ended) = wait(self.ward, partner);
            if ward_ended {
                break;
            }
            if partner_ended {
                partner = None;
            }
        }
        if !self.slot_table.is_closed() && self.slot_table.claim_transfer() {
            limit_time();
            // No process receives it: the connections are closed.
            let _ = send_clients(self.slot_table, self.way);
        }
        // SAFETY: ends the process, and runs no exit handlers registered in the process it was copied from.
        unsafe { libc::_exit(0) }
    }
}

/// Waits for the end of either process; without a partner it only waits for a while, and then tries to start another
/// one.
fn wait(ward: RawFd, partner: Option<RawFd>) -> (bool, bool) {
    // SAFETY: both descriptors stay open until the end of the process they belong to has been handled.
    let borrow = |descriptor| unsafe { BorrowedFd::borrow_raw(descriptor) };
    let (ward, partner) = (borrow(ward), partner.map(borrow));
    let mut ends =
        [PollFd::from_borrowed_fd(ward, PollFlags::IN), PollFd::from_borrowed_fd(ward, PollFlags::IN)];
    if let Some(partner) = partner {
        ends[1] = PollFd::from_borrowed_fd(partner, PollFlags::IN);
    }
    let retry = Timespec { tv_sec: 1, tv_nsec: 0 };
    let _ = poll(&mut ends, if partner.is_some() { None } else { Some(&retry) });
    (!ends[0].revents().is_empty(), !ends[1].revents().is_empty())
}

/// Logs when a keeper has ended, for as long as this process lives, and reports its successor to the supervisor.
pub fn look_after(tell: impl Fn(Vec<OwnedFd>) + Send + 'static) {
    let Some(slot_table) = slot_table() else { return };
    let look = move || {
        let mut ends = Ends { slot_table, known: [None, None] };
        ends.find();
        loop {
            tell(ends.copies());
            let ended = ends.wait();
            if ended.iter().all(|has_ended| *has_ended) {
                error!("the keepers of this process were killed: clients will not outlive it");
                return;
            }
            for role in (0..ended.len()).filter(|role| ended[*role]) {
                ends.bury(role);
            }
            ends.find();
        }
    };
    if let Err(error) = std::thread::Builder::new().name("keepers".to_owned()).spawn(look) {
        warn!(%error, "cannot watch the keepers of this process");
    }
}

/// The descriptors with which this process sees the keepers' ends.
struct Ends {
    slot_table: SlotTable,
    known: [Option<OwnedFd>; 2],
}

impl Ends {
    /// Waits until both exist.
    fn find(&mut self) {
        let Ends { slot_table, known } = self;
        for (role, known) in known.iter_mut().enumerate().filter(|(_, known)| known.is_none()) {
            let mut is_late = 0_u32;
            *known = loop {
                // SAFETY: the descriptor was opened for this thread when the keeper was started, and only this thread
                // closes it.
                if let Some(end) = slot_table.take_keeper(role) {
                    break Some(unsafe { OwnedFd::from_raw_fd(end) });
                }
                is_late += 1;
                if is_late == LATE {
                    warn!("the second keeper of this process cannot be started yet");
                }
                std::thread::sleep(LOOK);
            };
        }
    }

    fn wait(&self) -> Vec<bool> {
        let known = self.known.iter().flatten();
        let mut ends: Vec<_> = known.map(|end| PollFd::new(end, PollFlags::IN)).collect();
        // An interrupted wait is repeated.
        let _ = poll(&mut ends, None);
        // If both are killed at the same time, this thread sees both ends at the same time.
        std::thread::sleep(LOOK);
        let _ = poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        ends.iter().map(|end| !end.revents().is_empty()).collect()
    }

    /// Handles the end of one keeper.
    fn bury(&mut self, role: usize) {
        let Some(end) = self.known[role].take() else { return };
        let status = waitid(WaitId::PidFd(end.as_fd()), WaitIdOptions::EXITED).ok().flatten();
        let signal = status.and_then(|status| status.terminating_signal());
        warn!(signal, "a keeper of this process has ended, and the other one starts a replacement");
    }

    /// Copies of both descriptors, for others that wait for them.
    fn copies(&self) -> Vec<OwnedFd> {
        self.known.iter().flatten().filter_map(|end| end.try_clone().ok()).collect()
    }
}

/// Interval of the checks whether a keeper exists: starting one takes about as long as starting a process.
const LOOK: Duration = Duration::from_millis(10);

/// Number of checks after which a warning is logged.
const LATE: u32 = 500;

/// Blocks all signals, which are not meant for the keeper; returns the previous mask.
fn block_signals() -> libc::sigset_t {
    // SAFETY: both sets are filled in by the calls before they are read.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, &mut before);
        before
    }
}

/// Makes the kernel end this process after a while, whatever it is waiting for.
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

/// Seconds for which clients wait for another process: as long as a process with ten thousand rules to compile may take
/// to start on a slow machine.
const PATIENCE_S: u32 = 30;
