//! The log as a file that can be reopened for log rotation.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::one_line::OneLine;

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

/// Sends log lines to standard error, or to a file.
///
/// # Errors
/// A file that cannot be written; an invalid filter.
pub fn open_log(file: Option<&Path>) -> anyhow::Result<LogFile> {
    let wanted = std::env::var("NARROWS_LOG").unwrap_or_else(|_| "info".to_owned());
    let filter = EnvFilter::try_new(wanted).context("reading NARROWS_LOG")?;
    // A line that cannot be written, for example to a full disk, is not reported: the report would go to standard
    // error, which may be the same file, and a failure there would end the thread.
    let log = tracing_subscriber::fmt().with_env_filter(filter).log_internal_errors(false);
    let Some(path) = file else {
        let is_coloured = std::io::stderr().is_terminal();
        log.with_writer(move || OneLine::new(std::io::stderr(), is_coloured)).with_ansi(is_coloured).init();
        return Ok(LogFile::none());
    };
    let opened = LogFile::open(path).with_context(|| format!("opening the log file {}", path.display()))?;
    let writer = opened.clone();
    log.with_writer(move || OneLine::new(writer.clone(), false)).with_ansi(false).init();
    Ok(opened)
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
