//! Temporary folders that do not outlive the test process by much.
//!
//! They are in memory where there is plenty of it: servers call `fsync` for every table that they create, whatever their
//! options, and Narrows for everything that it saves. Otherwise, or if `TMPDIR` is set, they are in the system's temporary
//! folder.
//!
//! A folder is removed when its owner is dropped. Owners in a `static` are never dropped: their folders are removed
//! when the process exits. If a process was killed, its folders are removed when the next test process creates its
//! first one.

use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Once};

/// A folder of its own.
#[derive(Debug)]
pub struct TempFolder {
    path: PathBuf,
}

impl TempFolder {
    /// Creates a folder; `purpose` becomes part of its name.
    ///
    /// # Panics
    /// When it cannot be created.
    pub fn new(purpose: &str) -> TempFolder {
        static FIRST: Once = Once::new();
        FIRST.call_once(|| {
            sweep();
            // SAFETY: the handler only uses std's locks and the file system, and never unwinds.
            unsafe { libc::atexit(at_exit) };
        });
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = place().join(format!("{PREFIX}{}-{number}-{purpose}", std::process::id()));
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("create {}: {error}", path.display()));
        LIVE.lock().expect("no panic while held").push(path.clone());
        TempFolder { path }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        // If removing it fails, the sweep does it later.
        let _ = fs::remove_dir_all(&self.path);
        LIVE.lock().expect("no panic while held").retain(|path| *path != self.path);
    }
}

const PREFIX: &str = "narrows-test-";

static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

extern "C" fn at_exit() {
    crate::process::kill_all();
    if let Ok(live) = LIVE.lock() {
        for path in live.iter() {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Where a new folder is created.
fn place() -> PathBuf {
    let is_chosen = std::env::var_os("TMPDIR").is_some();
    if !is_chosen && has_room_in_memory() { PathBuf::from(MEMORY) } else { std::env::temp_dir() }
}

/// A folder in memory, on most Linux systems; in a container it is often small.
const MEMORY: &str = "/dev/shm";

/// Far above what all servers that run at the same time write.
const ENOUGH_BYTES: u64 = 8 << 30;

fn has_room_in_memory() -> bool {
    let path = CString::new(MEMORY).expect("no zero byte");
    // SAFETY: a structure of integers, for which zero is a value.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: both outlive the call.
    let is_there = unsafe { libc::statvfs(path.as_ptr(), &raw mut found) } == 0;
    // Tests start programs from their folders.
    let is_usable = is_there && found.f_flag & (libc::ST_NOEXEC | libc::ST_RDONLY) == 0;
    is_usable && found.f_bavail * found.f_frsize >= ENOUGH_BYTES && available_memory() >= ENOUGH_BYTES
}

/// The memory that programs may still use, in bytes (proc(5)).
fn available_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Removes the folders of test processes that are gone.
fn sweep() {
    let places = [std::env::temp_dir(), PathBuf::from(MEMORY)];
    for entry in places.iter().flat_map(fs::read_dir).flatten().flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| rest.split('-').next());
        let Some(owner) = owner.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        if !Path::new(&format!("/proc/{owner}")).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
