//! Writes the query log: a thread, and files `name.00000001`, `name.00000002` and so on with one JSON object per line.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use narrows_proxy::query_log::{Message, QueryLog, Record, Settings};
use serde_json::{Value, json};

/// Starts the writer; relative names are relative to `datadir`. It ends when every [`QueryLog`] is gone.
///
/// # Errors
/// If the thread cannot be started.
pub fn start(datadir: &Path) -> io::Result<QueryLog> {
    let (log, receiver) = QueryLog::new();
    let writer = Writer { datadir: datadir.to_owned(), settings: None, file: None, trouble: None };
    std::thread::Builder::new().name("query-log".to_owned()).spawn(move || writer.run(&receiver))?;
    Ok(log)
}

/// The thread's state.
struct Writer {
    datadir: PathBuf,
    settings: Option<Settings>,
    file: Option<OpenFile>,
    /// Set while the log cannot be written.
    trouble: Option<Trouble>,
}

struct OpenFile {
    file: File,
    /// Length of the complete lines in the file.
    bytes: u64,
    /// Lines that are not in the file yet.
    pending: Vec<u8>,
    records: u64,
    opened: Instant,
}

/// The log cannot be written, most likely because the disk is full.
struct Trouble {
    /// Records lost since then.
    lost: u64,
    /// The time of the next attempt.
    until: Instant,
}

impl Writer {
    fn run(mut self, receiver: &Receiver<Message>) {
        loop {
            match receiver.recv_timeout(FLUSH_INTERVAL) {
                Ok(Message::Record(record)) => self.write(&record),
                Ok(Message::Settings(settings)) => {
                    if self.settings.as_ref() != Some(&settings) {
                        self.flush();
                        self.file = None;
                        self.settings = Some(settings);
                    }
                }
                Ok(Message::Rotate) => {
                    self.flush();
                    self.file = None;
                }
                Err(RecvTimeoutError::Timeout) => self.flush(),
                Err(RecvTimeoutError::Disconnected) => return self.flush(),
            }
        }
    }

    fn write(&mut self, record: &Record) {
        if let Some(trouble) = &mut self.trouble
            && Instant::now() < trouble.until
        {
            trouble.lost += 1;
            return;
        }
        let line = line(record).to_string();
        let full = match self.file() {
            Ok(Some(file)) => {
                file.pending.extend_from_slice(line.as_bytes());
                file.pending.push(b'\n');
                file.records += 1;
                file.pending.len() >= PENDING
            }
            Ok(None) => return,
            Err(error) => return self.fail(&error, 1),
        };
        // The first record after a failure shows whether the log can be written again.
        if full || self.trouble.is_some() {
            self.flush();
        }
    }

    /// The file to write to; a new one if the last is full or old.
    fn file(&mut self) -> io::Result<Option<&mut OpenFile>> {
        let Some(settings) = self.settings.as_ref().filter(|settings| !settings.filename.is_empty()) else {
            return Ok(None);
        };
        let over = |file: &OpenFile| {
            let old = !settings.interval.is_zero() && file.opened.elapsed() >= settings.interval;
            file.bytes + file.pending.len() as u64 >= settings.filesize || old
        };
        let path = self.datadir.join(&settings.filename);
        if self.file.as_ref().is_some_and(over) {
            self.flush();
            self.file = None;
        }
        if self.file.is_none() {
            let file = create_next(&path)?;
            let (pending, opened) = (Vec::new(), Instant::now());
            self.file = Some(OpenFile { file, bytes: 0, pending, records: 0, opened });
        }
        Ok(self.file.as_mut())
    }

    /// Writes pending lines to the file. If not everything can be written, only whole lines are kept.
    fn flush(&mut self) {
        let Some(file) = self.file.as_mut().filter(|file| !file.pending.is_empty()) else { return };
        let (pending, records) = (std::mem::take(&mut file.pending), std::mem::take(&mut file.records));
        match file.file.write_all(&pending) {
            Ok(()) => {
                file.bytes += pending.len() as u64;
                if let Some(Trouble { lost, .. }) = self.trouble.take() {
                    tracing::info!(lost, "the query log is written again");
                }
            }
            Err(error) => {
                // The beginning of a line may be in the file. If it cannot be removed, the next line follows it.
                let _ = file.file.set_len(file.bytes);
                self.fail(&error, records);
            }
        }
    }

    /// Counts lost records, and logs the error once.
    fn fail(&mut self, error: &io::Error, lost: u64) {
        let before = self.trouble.as_ref().map(|trouble| trouble.lost);
        if before.is_none() {
            tracing::error!(%error, "cannot write the query log; records are lost until it can be written again");
        }
        let lost = before.unwrap_or(0) + lost;
        self.trouble = Some(Trouble { lost, until: Instant::now() + RETRY });
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

/// The object of a line; unknown fields are left out.
fn line(record: &Record) -> Value {
    let micros = |time: SystemTime| {
        u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
    };
    let ended = record.began + record.duration;
    let mut line = json!({
        "event": record.event,
        "thread_id": record.thread_id,
        "username": record.username,
        "schemaname": String::from_utf8_lossy(&record.schemaname),
        "client": record.client,
        "hostgroup_id": if record.server.is_some() { record.hostgroup.0 } else { -1 },
        "query": String::from_utf8_lossy(&record.query),
        "starttime_timestamp_us": micros(record.began),
        "starttime": date(record.began),
        "endtime_timestamp_us": micros(ended),
        "endtime": date(ended),
        "duration_us": u64::try_from(record.duration.as_micros()).unwrap_or(u64::MAX),
        "bytes_sent": record.bytes_sent,
    });
    let known = [
        ("server", record.server.clone().map(Value::from)),
        ("digest", record.digest.map(|digest| Value::from(format!("0x{digest:016X}")))),
        ("rows_affected", record.rows_affected.map(Value::from)),
        ("last_insert_id", Some(record.last_insert_id).filter(|id| *id != 0).map(Value::from)),
        ("rows_sent", record.rows_sent.map(Value::from)),
        ("error", record.error.map(Value::from)),
    ];
    for (name, value) in known {
        if let (Some(value), Some(line)) = (value, line.as_object_mut()) {
            line.insert(name.to_owned(), value);
        }
    }
    line
}

/// `YYYY-MM-DD hh:mm:ss.uuuuuu` in UTC.
fn date(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days from 0000-03-01, in eras of 400 years, so that the leap day is the last day of its year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{:06}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60,
        since.subsec_micros()
    )
}

/// How long a line may wait in memory.
const FLUSH_INTERVAL: Duration = Duration::from_millis(200);

/// The maximum number of waiting bytes.
const PENDING: usize = 64 * 1024;

/// The pause before a log that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01 00:00:00.000000");
        assert_eq!(at(951_782_399), "2000-02-28 23:59:59.000000");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00.000000");
        assert_eq!(at(1_709_251_200), "2024-03-01 00:00:00.000000");
        assert_eq!(at(4_102_444_800), "2100-01-01 00:00:00.000000");
    }
}
