//! Writes the query log and passes traces on: a thread that empties the workers' queues.

pub mod events;
mod files;
pub mod kept;
mod line;
mod sockets;

use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use narrows_proxy::query_log::{Intake, LogOutput, Message, QueryLog, Record, Settings};

use files::Files;
use kept::Kept;
use sockets::{Destination, LogSocket};

use crate::traces::Traces;

/// Starts the writer; relative names are relative to `datadir`. It ends when every [`QueryLog`] is gone.
///
/// # Errors
/// If the thread cannot be started.
pub fn start(datadir: &Path) -> io::Result<QueryLog> {
    let (log, intake) = QueryLog::new();
    let writer = Writer {
        settings: None,
        files: Files::new(datadir),
        socket: None,
        kept: Kept::default(),
        trouble: None,
        lost: 0,
        traces: Traces::new(intake.traces()),
    };
    std::thread::Builder::new().name("query-log".to_owned()).spawn(move || writer.run(intake))?;
    Ok(log)
}

/// The thread's state.
struct Writer {
    settings: Option<Box<Settings>>,
    files: Files,
    socket: Option<LogSocket>,
    /// What `DUMP EVENTSLOG` will take.
    kept: Kept,
    /// Set while the log cannot be written.
    trouble: Option<Trouble>,
    /// Records that were lost and are not counted yet.
    lost: u64,
    /// Sends records that are traced.
    traces: Traces,
}

/// The log cannot be written, most likely because the disk is full.
struct Trouble {
    /// Records lost since then.
    lost: u64,
    /// The time of the next attempt.
    until: Instant,
}

impl Writer {
    fn run(mut self, mut intake: Intake) {
        loop {
            match intake.messages().recv_timeout(FLUSH_INTERVAL) {
                Ok(Message::Queue(queue)) => intake.add(queue),
                Ok(Message::Records) => {
                    // More will come: they are taken together.
                    std::thread::sleep(GATHER);
                    self.take(&intake);
                }
                Ok(Message::Settings(settings)) => {
                    if self.settings.as_ref() != Some(&settings) {
                        self.take(&intake);
                        self.close();
                        // What follows may go elsewhere.
                        if let Some(Trouble { lost, .. }) = self.trouble.take() {
                            tracing::info!(lost, "the query log has other settings");
                        }
                        self.traces.configure(&settings.collector);
                        self.kept.shrink(settings.kept);
                        self.settings = Some(settings);
                    }
                }
                Ok(Message::Rotate) => {
                    self.take(&intake);
                    self.close();
                }
                Ok(Message::Finish(done)) => {
                    self.take(&intake);
                    self.flush();
                    // Nobody waits any more if it took too long.
                    let _ = done.send(());
                }
                Ok(Message::Take(taker)) => {
                    self.take(&intake);
                    // Nobody waits any more.
                    if let Err(untaken) = taker.send(self.kept.take()) {
                        untaken.0.into_iter().for_each(|record| self.keep(record));
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.flush(),
                Err(RecvTimeoutError::Disconnected) => {
                    self.take(&intake);
                    return self.flush();
                }
            }
        }
    }

    fn take(&mut self, intake: &Intake) {
        for record in intake.take() {
            if !record.is_logged {
                // All others have a place in a trace.
                self.traces.offer(record);
                continue;
            }
            if record.trace.is_some() {
                self.traces.offer(record.clone());
            }
            self.write(&record);
            self.keep(record);
        }
        intake.count_dropped(std::mem::take(&mut self.lost));
    }

    /// Keeps a record for `DUMP EVENTSLOG`, with the beginning of a long text.
    fn keep(&mut self, mut record: Box<Record>) {
        let Some(settings) = self.settings.as_ref().filter(|settings| settings.kept > 0) else { return };
        record.query.truncate(settings.kept_text);
        record.query.shrink_to_fit();
        record.values.take_if(|values| values.argument.len() > settings.kept_text);
        self.kept.add(record, settings.kept);
    }

    fn write(&mut self, record: &Record) {
        let Some(settings) = &self.settings else { return };
        if settings.output == LogOutput::File && settings.filename.is_empty() {
            return;
        }
        if let Some(trouble) = &mut self.trouble
            && Instant::now() < trouble.until
        {
            trouble.lost += 1;
            self.lost += 1;
            return;
        }
        let line = line::line(record, settings.is_text);
        let written = match settings.output {
            LogOutput::File => self.files.add(&line, settings),
            LogOutput::Stdout => {
                writeln!(io::stdout().lock(), "{line}").map(|()| true).map_err(|error| (error, 1))
            }
            LogOutput::Syslog => send(&mut self.socket, Destination::Syslog, &line),
            LogOutput::Journald => send(&mut self.socket, Destination::Journald, &line),
        };
        let is_in_file = settings.output == LogOutput::File;
        match written {
            Ok(_) if !is_in_file => self.works_again(),
            // The first record after a failure shows whether the log can be written again.
            Ok(is_full) if is_full || self.trouble.is_some() => self.flush(),
            Ok(_) => {}
            Err((error, lost)) => self.fail(&error, lost),
        }
    }

    /// Writes pending lines to the file.
    fn flush(&mut self) {
        match self.files.flush() {
            Ok(true) => self.works_again(),
            Ok(false) => {}
            Err((error, lost)) => self.fail(&error, lost),
        }
    }

    fn works_again(&mut self) {
        if let Some(Trouble { lost, .. }) = self.trouble.take() {
            tracing::info!(lost, "the query log is written again");
        }
    }

    /// Continues in a new file.
    fn close(&mut self) {
        self.socket = None;
        if let Err((error, lost)) = self.files.close() {
            self.fail(&error, lost);
        }
    }

    /// Counts lost records, and logs the error once.
    fn fail(&mut self, error: &io::Error, lost: u64) {
        let before = self.trouble.as_ref().map(|trouble| trouble.lost);
        if before.is_none() {
            tracing::error!(%error, "cannot write the query log; records are lost until it can be written again");
        }
        self.lost += lost;
        let lost = before.unwrap_or(0) + lost;
        self.trouble = Some(Trouble { lost, until: Instant::now() + RETRY });
    }
}

/// Sends a line to one of the two logs of the system; after a failure it connects again.
fn send(
    socket: &mut Option<LogSocket>,
    destination: Destination,
    line: &str,
) -> Result<bool, (io::Error, u64)> {
    let connected = match socket.take() {
        Some(socket) if socket.leads_to(destination) => socket,
        _ => LogSocket::connect(destination).map_err(|error| (error, 1))?,
    };
    connected.send(line).map_err(|error| (error, 1))?;
    *socket = Some(connected);
    Ok(true)
}

/// How long a line may wait in memory.
const FLUSH_INTERVAL: Duration = Duration::from_millis(200);

/// How long the writer waits for more records before it takes them.
const GATHER: Duration = Duration::from_millis(20);

/// The pause before a log that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(1);
