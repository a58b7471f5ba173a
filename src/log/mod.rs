//! The log: where it goes, in which form, and which lines are written.

mod file;
mod limit;

use std::fmt::{self, Debug, Formatter};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use crate::one_line::OneLine;
use file::LogFile;
use limit::Limit;

/// The open log; copies are the same one.
#[derive(Clone)]
pub struct Log {
    file: LogFile,
    set_levels: Arc<SetLevels>,
}

type SetLevels = dyn Fn(&str) -> Result<(), String> + Send + Sync;

impl Debug for Log {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl Log {
    /// Opens the log: from now on lines go to `path`, or else to standard error, as text or as objects of JSON. It is opened
    /// once in a process.
    ///
    /// # Errors
    /// A file that cannot be written; an invalid filter in `NARROWS_LOG`.
    pub fn open(path: Option<&Path>, is_json: bool) -> anyhow::Result<Log> {
        let filter = levels("").map_err(anyhow::Error::msg).context("reading NARROWS_LOG")?;
        let (filter, handle) = reload::Layer::new(filter);
        let file = match path {
            None => LogFile::none(),
            Some(path) => open_file(path)?,
        };
        let is_coloured = path.is_none() && !is_json && io::stderr().is_terminal();
        let writer = file.clone();
        // A line that cannot be written, for example to a full disk, is not reported: the report would go to standard
        // error, which may be the same file, and a failure there would end the thread.
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(is_coloured)
            .with_writer(move || OneLine::new(writer.clone(), is_coloured))
            .log_internal_errors(false);
        let lines: Box<dyn Layer<Registry> + Send + Sync> = match is_json {
            true => lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed(),
            false => lines.boxed(),
        };
        tracing_subscriber::registry().with(lines).with(Limit::default()).with(filter).init();
        let set_levels =
            move |wanted: &str| handle.reload(levels(wanted)?).map_err(|error| error.to_string());
        Ok(Log { file, set_levels: Arc::new(set_levels) })
    }

    /// Continues in the file that now has the name, for log rotation.
    ///
    /// # Errors
    /// The error of `open(2)`; the log then continues in the old file.
    pub fn reopen(&self) -> io::Result<()> {
        self.file.reopen()
    }

    /// From now on lines of these levels are written: `info`, or `warn,narrows_proxy::pins=debug` for levels by module. Empty:
    /// those of `NARROWS_LOG`.
    ///
    /// # Errors
    /// Why these are not levels, as text; the former ones stay.
    pub fn set_levels(&self, wanted: &str) -> Result<(), String> {
        (self.set_levels)(wanted)
    }
}

fn open_file(path: &Path) -> anyhow::Result<LogFile> {
    LogFile::open(path).with_context(|| format!("opening the log file {}", path.display()))
}

/// Whether a directive is for all modules.
fn is_level(directive: &str) -> bool {
    !directive.contains(['=', '[']) && directive.trim().parse::<LevelFilter>().is_ok()
}

/// The filter of levels.
fn levels(wanted: &str) -> Result<EnvFilter, String> {
    let wanted = match wanted {
        "" => std::env::var("NARROWS_LOG").unwrap_or_else(|_| "info".to_owned()),
        // Levels of modules alone would silence everything else.
        wanted if wanted.split(',').any(is_level) => wanted.to_owned(),
        wanted => format!("info,{wanted}"),
    };
    EnvFilter::try_new(wanted).map_err(|error| error.to_string())
}
