//! The log as a file that can be reopened for log rotation.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The log file; copies write to the same one.
#[derive(Debug, Clone)]
pub struct LogFile(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    file: Mutex<File>,
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
        Ok(LogFile(Some(Arc::new(Shared { path: path.to_owned(), file }))))
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
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.0 {
            Some(shared) => shared.file.lock().unwrap_or_else(PoisonError::into_inner).write(bytes),
            None => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
