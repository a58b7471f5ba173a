//! Writes the query log: a thread, and files `name.00000001`, `name.00000002` and so on with a JSON object a line.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use narrows_proxy::query_log::{Message, QueryLog, Record, Settings};
use serde_json::{Value, json};

/// Starts the writer; relative names count from `datadir`. It ends when every [`QueryLog`] is gone.
///
/// # Errors
/// When the thread cannot be started.
pub fn start(datadir: &Path) -> io::Result<QueryLog> {
    let (log, receiver) = QueryLog::new();
    let writer = Writer { datadir: datadir.to_owned(), settings: None, file: None, told: false };
    std::thread::Builder::new().name("query-log".to_owned()).spawn(move || writer.run(&receiver))?;
    Ok(log)
}

/// The thread's own.
struct Writer {
    datadir: PathBuf,
    settings: Option<Settings>,
    file: Option<OpenFile>,
    /// A failure has been told since the last success.
    told: bool,
}

struct OpenFile {
    out: BufWriter<File>,
    bytes: u64,
    opened: Instant,
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
        let mut line = line(record).to_string();
        line.push('\n');
        let written = self.file().and_then(|file| match file {
            Some(file) => {
                file.bytes += line.len() as u64;
                file.out.write_all(line.as_bytes())
            }
            None => Ok(()),
        });
        self.tell(written);
    }

    /// The file to write to; a new one where the last is full or old.
    fn file(&mut self) -> io::Result<Option<&mut OpenFile>> {
        let Some(settings) = self.settings.as_ref().filter(|settings| !settings.filename.is_empty()) else {
            return Ok(None);
        };
        let over = |file: &mut OpenFile| {
            let old = !settings.interval.is_zero() && file.opened.elapsed() >= settings.interval;
            file.bytes >= settings.filesize || old
        };
        if let Some(mut full) = self.file.take_if(over) {
            full.out.flush()?;
        }
        if self.file.is_none() {
            let file = create_next(&self.datadir.join(&settings.filename))?;
            self.file = Some(OpenFile { out: BufWriter::new(file), bytes: 0, opened: Instant::now() });
        }
        Ok(self.file.as_mut())
    }

    fn flush(&mut self) {
        if let Some(file) = &mut self.file {
            let flushed = file.out.flush();
            self.tell(flushed);
        }
    }

    /// Says once what goes wrong; the next record is tried with a new file.
    fn tell(&mut self, result: io::Result<()>) {
        match result {
            Ok(()) => self.told = false,
            Err(error) => {
                self.file = None;
                if !std::mem::replace(&mut self.told, true) {
                    tracing::error!(%error, "cannot write the query log");
                }
            }
        }
    }
}

/// Creates the file with the next number behind those that are there.
fn create_next(base: &Path) -> io::Result<File> {
    let name = base.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = base.parent().unwrap_or(Path::new("."));
    let number = |entry: io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?.file_name().into_string().ok()?;
        entry.strip_prefix(&name)?.strip_prefix('.')?.parse::<u64>().ok()
    };
    let last = std::fs::read_dir(folder)?.filter_map(number).max().unwrap_or_default();
    let path = folder.join(format!("{name}.{:08}", last + 1));
    OpenOptions::new().create_new(true).append(true).open(path)
}

/// The object of a line; what is not known is left out.
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
    // Days from 0000-03-01, in eras of 400 years: the leap day is the last of its year then.
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
