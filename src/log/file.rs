//! The log as a file that can be reopened for log rotation.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The log file; copies write to the same one.
#[derive(Debug, Clone)]
pub struct LogFile(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    file: Mutex<File>,
    /// Lines that could not be written since the last one that could.
    lost: AtomicU64,
}

impl LogFile {
    /// A log without a file: it goes to standard error.
    pub fn none() -> LogFile {
        LogFile(None)
    }

    /// Opens `path` for appending.
    ///
    /// # Errors
    /// The error of `open(2)`.
    pub fn open(path: &Path) -> io::Result<LogFile> {
        let file = Mutex::new(append_to(path)?);
        Ok(LogFile(Some(Arc::new(Shared { path: path.to_owned(), file, lost: AtomicU64::new(0) }))))
    }

    /// Continues in the file that now has the name.
    ///
    /// # Errors
    /// The error of `open(2)`; the log then continues in the old file.
    pub fn reopen(&self) -> io::Result<()> {
        if let Some(shared) = &self.0 {
            let opened = append_to(&shared.path)?;
            *shared.file.lock().unwrap_or_else(PoisonError::into_inner) = opened;
        }
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    // The log contains names of users and texts from servers, so only the owner and the group may read it.
    OpenOptions::new().create(true).append(true).mode(0o640).open(path)
}

impl Write for LogFile {
    /// Writes whole lines, or nothing. Lines that are lost are counted, and the next one says how many they were.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(shared) = &self.0 else { return io::stderr().write(bytes) };
        let mut file = shared.file.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = shared.lost.load(Ordering::Relaxed);
        let written = match lost {
            0 => write_whole(&mut file, bytes),
            lost => {
                let told = match bytes.first() {
                    Some(b'{') => format!(
                        "{{\"level\":\"WARN\",\"message\":\"lines of the log were lost\",\"lost\":{lost}}}\n"
                    ),
                    _ => format!("WARN lines of the log were lost lost={lost}\n"),
                };
                write_whole(&mut file, &[told.as_bytes(), bytes].concat())
            }
        };
        match written {
            Ok(()) => shared.lost.store(0, Ordering::Relaxed),
            Err(_) => drop(shared.lost.fetch_add(1, Ordering::Relaxed)),
        }
        // There is nowhere to say that it failed.
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Appends all bytes; if that fails, none of them stays.
fn write_whole(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match file.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => written += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                if written > 0 {
                    let length = file.metadata()?.len();
                    file.set_len(length.saturating_sub(written as u64))?;
                }
                return Err(error);
            }
        }
    }
    Ok(())
}
