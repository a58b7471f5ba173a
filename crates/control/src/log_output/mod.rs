//! Writes the lines of a log of records, in files or elsewhere. A log that cannot be written is an error once; what is
//! lost until it can be written again is counted.

mod files;
mod sockets;

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use narrows_proxy::log_target::{LogOutput, LogTarget};

pub use files::FLUSH_INTERVAL;
use files::Files;
use sockets::{Destination, LogSocket};

/// The end of a log.
#[derive(Debug)]
pub struct LineWriter {
    /// The name of the log, for people.
    name: &'static str,
    target: Option<LogTarget>,
    files: Files,
    socket: Option<LogSocket>,
    /// Set while the log cannot be written.
    trouble: Option<Trouble>,
    /// Lines that were lost and are not counted yet.
    lost: u64,
}

/// The log cannot be written, most likely because the disk is full.
#[derive(Debug)]
struct Trouble {
    /// Lines lost since then.
    lost: u64,
    /// The time of the next attempt.
    until: Instant,
}

impl LineWriter {
    /// The end of the log of that name, which goes nowhere yet; relative names of files are relative to `datadir`.
    pub fn new(name: &'static str, datadir: &Path) -> LineWriter {
        let files = Files::new(datadir);
        LineWriter { name, target: None, files, socket: None, trouble: None, lost: 0 }
    }

    /// Writes lines there from now on.
    pub fn follow(&mut self, target: &LogTarget) {
        if self.target.as_ref() == Some(target) {
            return;
        }
        self.close();
        // What follows may go elsewhere.
        if let Some(Trouble { lost, .. }) = self.trouble.take() {
            tracing::info!(lost, "the {} has other settings", self.name);
        }
        self.target = Some(target.clone());
    }

    /// Whether lines go anywhere.
    pub fn is_anywhere(&self) -> bool {
        self.target.as_ref().is_some_and(LogTarget::is_anywhere)
    }

    /// Writes a line. One in a file may wait for [`LineWriter::flush`].
    pub fn write(&mut self, line: &str) {
        let Some(target) = self.target.as_ref().filter(|target| target.is_anywhere()) else { return };
        if let Some(trouble) = &mut self.trouble
            && Instant::now() < trouble.until
        {
            trouble.lost += 1;
            self.lost += 1;
            return;
        }
        let written = match target.output {
            LogOutput::File => self.files.add(line, target),
            LogOutput::Stdout => {
                writeln!(io::stdout().lock(), "{line}").map(|()| true).map_err(|error| (error, 1))
            }
            LogOutput::Syslog => send(&mut self.socket, (Destination::Syslog, self.name), line),
            LogOutput::Journald => send(&mut self.socket, (Destination::Journald, self.name), line),
        };
        let is_in_file = target.output == LogOutput::File;
        match written {
            Ok(_) if !is_in_file => self.works_again(),
            // The first line after a failure shows whether the log can be written again.
            Ok(is_full) if is_full || self.trouble.is_some() => self.flush(),
            Ok(_) => {}
            Err((error, lost)) => self.fail(&error, lost),
        }
    }

    /// Writes pending lines to the file.
    pub fn flush(&mut self) {
        match self.files.flush() {
            Ok(true) => self.works_again(),
            Ok(false) => {}
            Err((error, lost)) => self.fail(&error, lost),
        }
    }

    /// Continues in a new file.
    pub fn close(&mut self) {
        self.socket = None;
        if let Err((error, lost)) = self.files.close() {
            self.fail(&error, lost);
        }
    }

    /// The number of lines that were lost since the last call.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    fn works_again(&mut self) {
        if let Some(Trouble { lost, .. }) = self.trouble.take() {
            tracing::info!(lost, "the {} is written again", self.name);
        }
    }

    /// Counts lost lines, and logs the error once.
    fn fail(&mut self, error: &io::Error, lost: u64) {
        let before = self.trouble.as_ref().map(|trouble| trouble.lost);
        if before.is_none() {
            let name = self.name;
            tracing::error!(%error, "cannot write the {name}; records are lost until it can be written again");
        }
        self.lost += lost;
        let lost = before.unwrap_or(0) + lost;
        self.trouble = Some(Trouble { lost, until: Instant::now() + RETRY });
    }
}

/// Sends a line to one of the two logs of the system; after a failure it connects again.
fn send(
    socket: &mut Option<LogSocket>,
    (destination, name): (Destination, &'static str),
    line: &str,
) -> Result<bool, (io::Error, u64)> {
    let connected = match socket.take() {
        Some(socket) if socket.leads_to(destination) => socket,
        _ => LogSocket::connect(destination, name).map_err(|error| (error, 1))?,
    };
    connected.send(line).map_err(|error| (error, 1))?;
    *socket = Some(connected);
    Ok(true)
}

/// The pause before a log that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(1);
