//! A small disk for a data folder, in memory, so that it can be full: in a mount namespace of the program that writes
//! to it, which needs root and leaves nothing to clean up.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The disk; it exists for as long as a process uses it.
#[derive(Debug)]
pub(crate) struct SmallDisk {
    place: PathBuf,
    options: CString,
}

impl SmallDisk {
    /// A disk of this many bytes at `place`, which is created; `None` if none can be mounted.
    pub(crate) fn new(place: PathBuf, bytes: u64) -> Option<SmallDisk> {
        std::fs::create_dir(&place).expect("a folder of ours");
        let options = CString::new(format!("size={bytes},mode=0700")).expect("no zero byte");
        let disk = SmallDisk { place, options };
        let mut trial = Command::new("true");
        trial.stdin(Stdio::null());
        disk.mount_in(&mut trial);
        match trial.status() {
            Ok(_) => Some(disk),
            Err(error) => {
                eprintln!("SKIPPED: no disk can be mounted here: {error}");
                std::fs::remove_dir(&disk.place).expect("an empty folder of ours");
                None
            }
        }
    }

    /// Its path for the processes that have it mounted.
    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    /// Its path for all other processes, while the process that has it mounted lives.
    pub(crate) fn seen_by_others(&self, pid: u32) -> PathBuf {
        let place = self.place.strip_prefix("/").expect("an absolute path");
        PathBuf::from(format!("/proc/{pid}/root")).join(place)
    }

    /// Makes a program start with a new one.
    pub(crate) fn mount_in(&self, command: &mut Command) {
        let place = CString::new(self.place.as_os_str().as_bytes()).expect("no zero byte");
        let options = self.options.clone();
        let mount = move || {
            // SAFETY: system calls, with texts that outlive them.
            unsafe {
                done(libc::unshare(libc::CLONE_NEWNS))?;
                let flags = libc::MS_REC | libc::MS_PRIVATE;
                done(libc::mount(
                    std::ptr::null(),
                    c"/".as_ptr(),
                    std::ptr::null(),
                    flags,
                    std::ptr::null(),
                ))?;
                let kind = c"tmpfs".as_ptr();
                done(libc::mount(kind, place.as_ptr(), kind, 0, options.as_ptr().cast()))
            }
        };
        // SAFETY: the closure makes system calls and allocates nothing.
        unsafe { command.pre_exec(mount) };
    }
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
