//! Writes the audit log: a thread that takes events as they come, and writes each as one line of JSON.

mod line;

use std::io;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;

use narrows_proxy::audit::{AuditIntake, AuditLog, AuditMessage};

use crate::log_output::{FLUSH_INTERVAL, LineWriter};

/// Starts the writer; relative names are relative to `datadir`. It ends when every [`AuditLog`] is gone.
///
/// # Errors
/// If the thread cannot be started.
pub fn start(datadir: &Path) -> io::Result<AuditLog> {
    let (log, intake) = AuditLog::new();
    let lines = LineWriter::new("audit log", datadir);
    std::thread::Builder::new().name("audit-log".to_owned()).spawn(move || write_all(&intake, lines))?;
    Ok(log)
}

fn write_all(intake: &AuditIntake, mut lines: LineWriter) {
    loop {
        match intake.next(FLUSH_INTERVAL) {
            Ok(AuditMessage::Event(event)) => lines.write(&line::line(&event)),
            Ok(AuditMessage::Target(target)) => lines.follow(&target),
            Ok(AuditMessage::Rotate) => lines.close(),
            Ok(AuditMessage::Finish(done)) => {
                lines.flush();
                // Nobody waits any more if it took too long.
                let _ = done.send(());
            }
            Err(RecvTimeoutError::Timeout) => lines.flush(),
            Err(RecvTimeoutError::Disconnected) => return lines.flush(),
        }
        intake.count_dropped(lines.take_lost());
    }
}
