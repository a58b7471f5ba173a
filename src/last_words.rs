//! What a process writes to a file in the data folder when it dies of a fault: where it was.

use std::ffi::c_int;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The file to which a worker process of `datadir` writes where it was.
pub fn place(datadir: &Path, pid: u32) -> PathBuf {
    datadir.join(format!("narrows.backtrace.{pid}"))
}

static PLACE: OnceLock<PathBuf> = OnceLock::new();
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// The thread that hangs; 0 if none.
static SUSPECT: AtomicI32 = AtomicI32::new(0);

/// Records which thread hangs, if one does: when the supervisor aborts this process, the position of that thread is
/// what matters.
pub fn suspect(thread: Option<i32>) {
    SUSPECT.store(thread.unwrap_or(0), Ordering::SeqCst);
}

/// Makes this process write where it was if it dies of a fault.
pub fn prepare(datadir: &Path) {
    let _ = PLACE.set(place(datadir, std::process::id()));
    FAULTS.into_iter().for_each(handle);
}

fn handle(signal: c_int) {
    // SAFETY: the handler is a function of the right type for as long as the process lives. It runs on the stack of the
    // thread: a thread with a full stack dies of the signal at once, as it would without the handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = say as extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESETHAND | libc::SA_NODEFER;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// The file, if something has been written.
pub fn said(datadir: &Path, pid: u32) -> Option<PathBuf> {
    Some(place(datadir, pid)).filter(|path| path.exists())
}

/// Passes an abort requested by another process on to the thread that hangs; returns whether there is one other than
/// this thread.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t) -> bool {
    // SAFETY: the kernel passed this pointer.
    let is_asked_for = unsafe { info.as_ref().is_some_and(|info| info.si_code == libc::SI_USER) };
    if signal != libc::SIGABRT || !is_asked_for {
        return false;
    }
    let suspect = SUSPECT.swap(0, Ordering::SeqCst);
    handle(signal);
    // SAFETY: all of these may be called in signal handlers; a thread that has ended in the meantime receives no
    // signal.
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
    // The following may fault again, or need a lock that its thread holds: the process ends in any case. SAFETY: both
    // calls are safe in signal handlers.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::alarm(LIMIT_S);
    }
    let place = PLACE.get().filter(|_| !HAS_BEGUN.swap(true, Ordering::SeqCst));
    let open = |path| OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    if let Some(mut file) = place.and_then(|path| open(path).ok()) {
        // SAFETY: the kernel passed this pointer.
        let address = unsafe { info.as_ref().map_or(0, |info| info.si_addr() as usize) };
        // Each part is written before the next one is attempted.
        let _ = writeln!(file, "signal {signal}, address {address:#x}");
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        let _ = writeln!(file, "thread {name}");
        let _ = writeln!(file, "{}", std::backtrace::Backtrace::force_capture());
    }
    // The process is to die of this signal; its handler has done its work. SAFETY: raises a signal for this thread
    // after restoring its default action.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal)
    };
}

/// Signals that a process causes itself; the supervisor may also send SIGABRT.
const FAULTS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];

/// Seconds allowed for looking up the names of functions.
const LIMIT_S: u32 = 5;
