//! A job: a row of the table `scheduler`, as it is run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Value;
use rustix::fs::{Access, access};

/// An active row of `scheduler`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledJob {
    /// Its key.
    pub id: i64,
    /// The time from one start to the next.
    pub interval: Duration,
    /// The program, as configured.
    pub filename: String,
    /// What the program gets: `arg1` and so on, up to the first one that is NULL.
    pub arguments: Vec<String>,
}

impl ScheduledJob {
    /// The active ones of these rows of the table.
    pub fn of_rows(rows: &[Vec<Value>]) -> Vec<ScheduledJob> {
        rows.iter().filter_map(|cells| ScheduledJob::of(cells)).collect()
    }

    /// `None` for a row that is not active.
    fn of(cells: &[Value]) -> Option<ScheduledJob> {
        let [Value::Integer(id), Value::Integer(1), Value::Integer(interval_ms), filename, rest @ ..] = cells
        else {
            return None;
        };
        let arguments = rest.iter().take(ARGUMENTS).map_while(text);
        Some(ScheduledJob {
            id: *id,
            interval: Duration::from_millis(u64::try_from(*interval_ms).ok()?),
            filename: text(filename)?,
            arguments: arguments.collect(),
        })
    }

    /// The file that is run.
    pub fn program(&self, datadir: &Path) -> PathBuf {
        datadir.join(&self.filename)
    }

    /// Why it cannot run; `None` if nothing is to be seen that prevents it.
    pub fn fault(&self, datadir: &Path) -> Option<String> {
        let why = why_not_run(&self.program(datadir))?;
        Some(format!("scheduler id={}: {} cannot be run: {why}", self.id, self.filename))
    }
}

/// `arg1` to `arg5`.
const ARGUMENTS: usize = 5;

fn text(cell: &Value) -> Option<String> {
    match cell {
        Value::Null => None,
        Value::Integer(number) => Some(number.to_string()),
        Value::Real(number) => Some(number.to_string()),
        Value::Text(text) => Some(text.clone()),
        Value::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    }
}

/// Why the program at `path` cannot be run by this user; `None` if nothing is to be seen that prevents it.
pub fn why_not_run(path: &Path) -> Option<&'static str> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Some("permission denied"),
        Err(_) => Some("it is not there"),
        Ok(metadata) if !metadata.is_file() => Some("it is not a file"),
        Ok(_) => access(path, Access::EXEC_OK).is_err().then_some("it is not executable"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(active: i64, arguments: &[Option<&str>]) -> Vec<Value> {
        let mut cells = vec![Value::Integer(7), Value::Integer(active), Value::Integer(1500)];
        cells.push(Value::Text("/bin/true".to_owned()));
        let cell = |text: &Option<&str>| text.map_or(Value::Null, |text| Value::Text(text.to_owned()));
        cells.extend(arguments.iter().map(cell));
        cells.resize(9, Value::Null);
        cells.push(Value::Text("comment".to_owned()));
        cells
    }

    #[test]
    fn only_active_rows_are_jobs() {
        let jobs = ScheduledJob::of_rows(&[row(0, &[]), row(1, &[])]);
        let [job] = jobs.as_slice() else { panic!("{jobs:?}") };
        assert_eq!((job.id, job.interval, &*job.filename), (7, Duration::from_millis(1500), "/bin/true"));
        assert!(job.arguments.is_empty());
    }

    #[test]
    fn the_first_null_ends_the_arguments() {
        let of = |arguments: &[Option<&str>]| ScheduledJob::of(&row(1, arguments)).unwrap().arguments;
        assert_eq!(of(&[Some("a"), Some(""), None, Some("d")]), ["a", ""]);
        assert_eq!(
            of(&[Some("a"), Some("b c"), Some("$x"), Some("d"), Some("e")]),
            ["a", "b c", "$x", "d", "e"]
        );
    }

    #[test]
    fn says_why_a_program_cannot_be_run() {
        let folder = tempfile::tempdir().unwrap();
        let fault = |filename: &str| {
            let job =
                ScheduledJob { filename: filename.to_owned(), ..ScheduledJob::of(&row(1, &[])).unwrap() };
            job.fault(folder.path())
        };
        std::fs::write(folder.path().join("plain"), "").unwrap();
        assert_eq!(fault("/bin/true"), None);
        assert_eq!(fault("plain").unwrap(), "scheduler id=7: plain cannot be run: it is not executable");
        assert_eq!(fault("gone").unwrap(), "scheduler id=7: gone cannot be run: it is not there");
        assert_eq!(fault("/usr/bin").unwrap(), "scheduler id=7: /usr/bin cannot be run: it is not a file");
    }
}
