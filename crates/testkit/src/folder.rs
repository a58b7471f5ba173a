//! Temporary folders that do not outlive the test process by much.
//!
//! A folder is removed when its owner is dropped. Owners in a `static` are never dropped: their folders are removed
//! when the process exits. If a process was killed, its folders are removed when the next test process creates its
//! first one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Once};

/// A folder of its own below the system's temporary folder.
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
        let path = std::env::temp_dir().join(format!("{PREFIX}{}-{number}-{purpose}", std::process::id()));
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

/// Removes the folders of test processes that are gone.
fn sweep() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| rest.split('-').next());
        let Some(owner) = owner.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        if !Path::new(&format!("/proc/{owner}")).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
