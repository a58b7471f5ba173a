//! What a process says that dies of itself: where it was, in a file of the data folder.

use std::ffi::c_int;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The file that a worker process of `datadir` says its last words in.
pub fn place(datadir: &Path, pid: u32) -> PathBuf {
    datadir.join(format!("narrows.backtrace.{pid}"))
}

static PLACE: OnceLock<PathBuf> = OnceLock::new();
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// The thread that does nothing any more; 0: none.
static SUSPECT: AtomicI32 = AtomicI32::new(0);

/// Notes which thread hangs, where one does: when the supervisor has this process abort, it is where that thread was that counts.
pub fn suspect(thread: Option<i32>) {
    SUSPECT.store(thread.unwrap_or(0), Ordering::SeqCst);
}

/// Has this process write where it was when it dies of a fault.
pub fn prepare(datadir: &Path) {
    let _ = PLACE.set(place(datadir, std::process::id()));
    FAULTS.into_iter().for_each(handle);
}

fn handle(signal: c_int) {
    // SAFETY: the handler is a function of the right type for as long as the process lives. It runs on the stack of the
    // thread: one whose stack is full dies of the signal at once, as without it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = say as extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESETHAND | libc::SA_NODEFER;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// Where a process has said something.
pub fn said(datadir: &Path, pid: u32) -> Option<PathBuf> {
    Some(place(datadir, pid)).filter(|path| path.exists())
}

/// Passes an abort that another process has asked for on to the thread that hangs; whether there is one, other than this.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t) -> bool {
    // SAFETY: the kernel has put it there.
    let is_asked_for = unsafe { info.as_ref().is_some_and(|info| info.si_code == libc::SI_USER) };
    if signal != libc::SIGABRT || !is_asked_for {
        return false;
    }
    let suspect = SUSPECT.swap(0, Ordering::SeqCst);
    handle(signal);
    // SAFETY: all of these may be called by signal handlers; a thread that has ended meanwhile gets no signal.
    unsafe {
        suspect != 0
            && suspect != libc::gettid()
            && libc::syscall(libc::SYS_tgkill, libc::getpid(), suspect, signal) == 0
    }
}

extern "C" fn say(signal: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if pass_on(signal, info) {
        return;
    }
    // What follows may meet the fault again, or a lock that its thread has: the process ends in any case.
    // SAFETY: both calls are made for signal handlers.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::alarm(LIMIT_S);
    }
    let place = PLACE.get().filter(|_| !HAS_BEGUN.swap(true, Ordering::SeqCst));
    let open = |path| OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    if let Some(mut file) = place.and_then(|path| open(path).ok()) {
        // SAFETY: the kernel has put it there.
        let address = unsafe { info.as_ref().map_or(0, |info| info.si_addr() as usize) };
        // Written in parts: each one is there before the next one is tried.
        let _ = writeln!(file, "signal {signal}, address {address:#x}");
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        let _ = writeln!(file, "thread {name}");
        let _ = writeln!(file, "{}", std::backtrace::Backtrace::force_capture());
    }
    // The signal counts as what the process has died of; its handler has done its work.
    // SAFETY: raises a signal for this thread, and lets it be what it is without a handler.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal)
    };
}

/// What a process dies of by its own doing; an abort may also be asked for by the supervisor.
const FAULTS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];

/// Seconds for the names of functions to be found.
const LIMIT_S: u32 = 5;
