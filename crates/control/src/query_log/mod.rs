//! Writes the query log and passes traces on: a thread that empties the workers' queues.

pub mod events;
pub mod kept;
mod line;

use std::io;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use narrows_proxy::query_log::{Intake, Message, QueryLog, Record, Settings};

use kept::Kept;

use crate::log_output::{FLUSH_INTERVAL, LineWriter};
use crate::traces::Traces;

/// Starts the writer; relative names are relative to `datadir`. It ends when every [`QueryLog`] is gone.
///
/// # Errors
/// If the thread cannot be started.
pub fn start(datadir: &Path) -> io::Result<QueryLog> {
    let (log, intake) = QueryLog::new();
    let writer = Writer {
        settings: None,
        lines: LineWriter::new("query log", datadir),
        kept: Kept::default(),
        traces: Traces::new(intake.traces()),
    };
    std::thread::Builder::new().name("query-log".to_owned()).spawn(move || writer.run(intake))?;
    Ok(log)
}

/// The thread's state.
struct Writer {
    settings: Option<Box<Settings>>,
    lines: LineWriter,
    /// What `DUMP EVENTSLOG` will take.
    kept: Kept,
    /// Sends records that are traced.
    traces: Traces,
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
                        self.lines.follow(&settings.target);
                        self.traces.configure(&settings.collector);
                        self.kept.shrink(settings.kept);
                        self.settings = Some(settings);
                    }
                }
                Ok(Message::Rotate) => {
                    self.take(&intake);
                    self.lines.close();
                }
                Ok(Message::Finish(done)) => {
                    self.take(&intake);
                    self.lines.flush();
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
                Err(RecvTimeoutError::Timeout) => self.lines.flush(),
                Err(RecvTimeoutError::Disconnected) => {
                    self.take(&intake);
                    return self.lines.flush();
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
            if self.lines.is_anywhere() {
                let is_text = self.settings.as_ref().is_some_and(|settings| settings.is_text);
                self.lines.write(&line::line(&record, is_text));
            }
            self.keep(record);
        }
        intake.count_dropped(self.lines.take_lost());
    }

    /// Keeps a record for `DUMP EVENTSLOG`, with the beginning of a long text.
    fn keep(&mut self, mut record: Box<Record>) {
        let Some(settings) = self.settings.as_ref().filter(|settings| settings.kept > 0) else { return };
        record.query.truncate(settings.kept_text);
        record.query.shrink_to_fit();
        record.values.take_if(|values| values.argument.len() > settings.kept_text);
        self.kept.add(record, settings.kept);
    }
}

/// How long the writer waits for more records before it takes them.
const GATHER: Duration = Duration::from_millis(20);
