//! Where a log of records is written: the query log, and the audit log.

use std::time::Duration;

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTarget {
    /// Where to.
    pub output: LogOutput,
    /// The prefix of the files' names; empty: nothing is written to files.
    pub filename: String,
    /// Bytes after which the log continues in a new file.
    pub filesize: u64,
    /// The time after which the log continues in a new file; zero: never.
    pub interval: Duration,
}

/// Which kind of log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogOutput {
    /// To files.
    File,
    /// To standard output.
    Stdout,
    /// To the socket of the system's log.
    Syslog,
    /// To the socket of systemd's journal.
    Journald,
}

impl LogTarget {
    /// Whether lines go anywhere.
    pub fn is_anywhere(&self) -> bool {
        self.output != LogOutput::File || !self.filename.is_empty()
    }
}

impl LogOutput {
    /// The outputs by their names in `mysql-eventslog_output` and `mysql-auditlog_output`.
    pub const NAMES: &[&str] = &["file", "stdout", "syslog", "journald"];

    /// The output of a valid name.
    pub fn of(name: &str) -> LogOutput {
        match name {
            "stdout" => LogOutput::Stdout,
            "syslog" => LogOutput::Syslog,
            "journald" => LogOutput::Journald,
            _ => LogOutput::File,
        }
    }
}
