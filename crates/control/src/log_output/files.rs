//! A log in files `name.00000001`, `name.00000002` and so on.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use narrows_proxy::log_target::LogTarget;

/// The current file, and the lines that are not in it yet.
#[derive(Debug, Default)]
pub struct Files {
    datadir: PathBuf,
    file: Option<OpenFile>,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    /// Length of the complete lines in the file.
    bytes: u64,
    /// Lines that are not in the file yet.
    pending: Vec<u8>,
    /// Since when they wait.
    since: Instant,
    records: u64,
    opened: Instant,
}

impl Files {
    /// No file yet; relative names are relative to `datadir`.
    pub fn new(datadir: &Path) -> Files {
        Files { datadir: datadir.to_owned(), file: None }
    }

    /// Adds a line; returns whether it should be flushed now.
    ///
    /// # Errors
    /// If there can be no file, or a full one cannot be written to; and how many lines were lost.
    pub fn add(&mut self, line: &str, target: &LogTarget) -> Result<bool, (io::Error, u64)> {
        let over = |file: &OpenFile| {
            let old = !target.interval.is_zero() && file.opened.elapsed() >= target.interval;
            file.bytes + file.pending.len() as u64 >= target.filesize || old
        };
        if self.file.as_ref().is_some_and(over) {
            self.close().map_err(|(error, lost)| (error, lost + 1))?;
        }
        if self.file.is_none() {
            let path = self.datadir.join(&target.filename);
            let file = create_next(&path).map_err(|error| (error, 1))?;
            let (pending, now) = (Vec::new(), Instant::now());
            self.file = Some(OpenFile { file, bytes: 0, pending, since: now, records: 0, opened: now });
        }
        let Some(file) = &mut self.file else { return Ok(false) };
        if file.pending.is_empty() {
            file.since = Instant::now();
        }
        file.pending.extend_from_slice(line.as_bytes());
        file.pending.push(b'\n');
        file.records += 1;
        Ok(file.pending.len() >= PENDING || file.since.elapsed() >= FLUSH_INTERVAL)
    }

    /// Writes what is pending; returns whether that was something. If not everything can be written, only whole lines are kept.
    ///
    /// # Errors
    /// If not everything can be written; and how many lines were lost.
    pub fn flush(&mut self) -> Result<bool, (io::Error, u64)> {
        let Some(file) = self.file.as_mut().filter(|file| !file.pending.is_empty()) else { return Ok(false) };
        let (pending, records) = (std::mem::take(&mut file.pending), std::mem::take(&mut file.records));
        if let Err(error) = file.file.write_all(&pending) {
            // The beginning of a line may be in the file. If it cannot be removed, the next line follows it.
            let _ = file.file.set_len(file.bytes);
            return Err((error, records));
        }
        file.bytes += pending.len() as u64;
        Ok(true)
    }

    /// Continues in a new file.
    ///
    /// # Errors
    /// As for [`Files::flush`].
    pub fn close(&mut self) -> Result<bool, (io::Error, u64)> {
        let flushed = self.flush();
        self.file = None;
        flushed
    }
}

/// Creates the file with the next free number.
fn create_next(base: &Path) -> io::Result<File> {
    let name = base.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = base.parent().unwrap_or(Path::new("."));
    let number = |entry: io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?.file_name().into_string().ok()?;
        entry.strip_prefix(&name)?.strip_prefix('.')?.parse::<u64>().ok()
    };
    let last = std::fs::read_dir(folder)?.filter_map(number).max().unwrap_or_default();
    let path = folder.join(format!("{name}.{:08}", last + 1));
    // Statements contain secrets of applications, so only the owner and the group may read the file.
    OpenOptions::new().create_new(true).append(true).mode(0o640).open(path)
}

/// How long a line may wait in memory while others follow.
pub const FLUSH_INTERVAL: Duration = Duration::from_millis(200);

/// The maximum number of waiting bytes.
const PENDING: usize = 64 * 1024;
