//! The `narrows` program: flags, then the configuration, then the data plane.

mod cli;
mod connect_speed;
mod log_file;
mod sandbox;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use narrows_control::config::diagnostic::{Diagnostic, Severity};
use narrows_control::config::{self, Loaded};
use narrows_control::control::{self, Beginning, End, Handle, Monitoring};
use narrows_control::store::{Opening, Store};
use narrows_control::{docs, query_log, tls};
use narrows_proxy::server::DataPlane;
use narrows_proxy::snapshot::Rows;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::UnboundedReceiver;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

use cli::{Cli, Run, Verb};
use log_file::LogFile;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.verb {
        Some(Verb::Check { file }) => return check(&file),
        Some(Verb::Import { file, datadir }) => import(&file, &datadir),
        Some(Verb::GenerateDocs { folder }) => generate_docs(&folder),
        Some(Verb::Sandbox(args)) => sandbox::run(args),
        Some(Verb::ConnectSpeed(args)) => match connect_speed::run(&args) {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => Err(error),
        },
        None if cli.run.version => print_lines(&format!("Narrows version {}\n", env!("CARGO_PKG_VERSION"))),
        None => run(&cli.run),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("narrows: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// Tells everything that is wrong with `file`, then whether it can be started.
fn check(file: &Path) -> ExitCode {
    let (diagnostics, valid) = match config::load(file) {
        Ok(loaded) => (in_order(loaded), true),
        Err(diagnostics) => (diagnostics, false),
    };
    let errors = diagnostics.iter().filter(|one| one.severity() == Severity::Error).count();
    let warnings = diagnostics.len() - errors;
    let mut text: String = diagnostics.iter().map(|diagnostic| format!("{diagnostic}\n")).collect();
    let verdict = if valid { "can be started" } else { "cannot be started" };
    let (errors, warnings) = (counted(errors, "error"), counted(warnings, "warning"));
    text.push_str(&format!("{}: {verdict}: {errors}, {warnings}\n", file.display()));
    match print_lines(&text) {
        Ok(()) if valid => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Makes `narrows.db` in `datadir` from a database of ProxySQL and tells what was taken.
fn import(file: &Path, datadir: &Path) -> anyhow::Result<()> {
    let taken = Store::import(datadir, file)?;
    let mut text = String::new();
    for (table, rows) in &taken.rows {
        text.push_str(&format!("{table}: {}\n", counted(usize::try_from(*rows)?, "row")));
    }
    for reason in &taken.left_out {
        text.push_str(&format!("{reason}\n"));
    }
    print_lines(&text)
}

/// All remarks on a configuration in the order of its file.
fn in_order(loaded: Loaded) -> Vec<Diagnostic> {
    let mut diagnostics = [loaded.passed_over, loaded.warnings].concat();
    diagnostics.sort_by(|one, two| (&one.file, one.line, one.column).cmp(&(&two.file, two.line, two.column)));
    diagnostics
}

fn counted(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// A reader who has seen enough and closed the pipe is no failure.
fn print_lines(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e).context("writing the answer"),
        _ => Ok(()),
    }
}

fn generate_docs(folder: &Path) -> anyhow::Result<()> {
    for (name, text) in docs::pages() {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Reads the configuration, opens the log and serves until told to stop.
fn run(flags: &Run) -> anyhow::Result<()> {
    let file = flags.config.clone().or_else(config::find);
    let mut loaded = match &file {
        Some(path) => load(path)?,
        None => Loaded::default(),
    };
    if let Some(datadir) = &flags.datadir {
        loaded.bootstrap.datadir = Some(datadir.clone());
    }
    if let Some(uuid) = &flags.uuid {
        loaded.bootstrap.uuid = Some(uuid.clone());
    }
    let log = open_log(log_file(flags, &loaded).as_deref())?;
    info!(version = env!("CARGO_PKG_VERSION"), "starting");
    match &file {
        Some(path) => info!(file = %path.display(), "configuration read"),
        None => warn!(searched = ?config::SEARCHED, "no configuration file, the defaults count"),
    }
    for flag in flags.without_effect() {
        warn!(flag, "has no effect in this version");
    }
    raise_open_files_limit();
    keep_memory_private();
    let datadir = loaded.bootstrap.resolve(Path::new(""));
    let store = Store::open(Opening {
        datadir: &datadir,
        file: file.as_deref(),
        start: flags.start(),
        uuid: loaded.bootstrap.uuid.as_deref(),
    })?;
    store.remarks().iter().for_each(|remark| warn!("{remark}"));
    let mut rows = store.rows();
    let keys =
        tls::load(&datadir, store.variables(), &rows.ssl_params).context("reading keys and certificates")?;
    keys.remarks.iter().for_each(|remark| warn!("{remark}"));
    rows.tls = keys.tls;
    let monitoring = if flags.no_monitor { Monitoring::Off } else { Monitoring::On };
    serve(store, rows, datadir, log, monitoring)
}

fn load(path: &Path) -> anyhow::Result<Loaded> {
    config::load(path).map_err(|diagnostics| {
        let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("the configuration cannot be started\n{}", lines.join("\n"))
    })
}

/// The log goes to standard error unless the configuration names a file and -f was not given.
fn log_file(flags: &Run, loaded: &Loaded) -> Option<PathBuf> {
    let errorlog = loaded.bootstrap.errorlog.as_ref()?;
    (!flags.foreground).then(|| loaded.bootstrap.resolve(errorlog))
}

fn open_log(file: Option<&Path>) -> anyhow::Result<LogFile> {
    let wanted = std::env::var("NARROWS_LOG").unwrap_or_else(|_| "info".to_owned());
    let filter = EnvFilter::try_new(wanted).context("reading NARROWS_LOG")?;
    let log = tracing_subscriber::fmt().with_env_filter(filter);
    let Some(path) = file else {
        log.with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal()).init();
        return Ok(LogFile::none());
    };
    let opened = LogFile::open(path).with_context(|| format!("opening the log file {}", path.display()))?;
    let writer = opened.clone();
    log.with_writer(move || writer.clone()).with_ansi(false).init();
    Ok(opened)
}

/// Every client and every backend connection is an open file, so the process takes as many as it may have.
fn raise_open_files_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    limit.current = limit.maximum;
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => info!(open_files = ?limit.current, "limit of open files raised"),
        Err(e) => warn!(error = %e, "the limit of open files stays where it is"),
    }
}

/// Passwords and keys are in memory: no core file is written, and other processes of the same user do not look in.
fn keep_memory_private() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    if std::env::var_os("NARROWS_CORE_FILES").is_some() {
        warn!("NARROWS_CORE_FILES is set: a core file would hold passwords and keys");
        return;
    }
    if let Err(e) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        warn!(error = %e, "core files cannot be prevented");
    }
}

/// Runs the data plane on `rows`, and the admin interface on `store`, until the process is told to stop.
fn serve(
    store: Store,
    rows: Rows,
    datadir: PathBuf,
    log: LogFile,
    monitoring: Monitoring,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _entered = runtime.enter();
    // Taken before anything is served, so that no signal falls between.
    let mut signals = Signals::take()?;
    let mut plane = DataPlane::start(rows.clone())?;
    let query_log = query_log::start(&datadir).context("starting the query log")?;
    plane.log_queries_to(query_log.clone());
    let (interfaces, workers) = (plane.addresses().join(", "), plane.workers());
    let (ends, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let control = control::begin(Beginning {
        store,
        plane,
        rows,
        monitoring,
        datadir,
        query_log,
        reopen_log: Box::new(move || log.reopen()),
        on_end: Box::new(move |end| {
            // Nobody waits for it any more only when the process ends already.
            let _ = ends.send(end);
        }),
    })?;
    info!(interfaces = control.addresses().join(", "), "administrators are served");
    info!(interfaces, workers, "serving");
    let end = runtime.block_on(signals.told_to_end(&control, &mut ended));
    control.stop(TIME_TO_STOP);
    match end {
        End::Now => Ok(()),
        End::Again => start_again(),
    }
}

/// The same program with the same arguments, in place of this one.
fn start_again() -> anyhow::Result<()> {
    use std::os::unix::process::CommandExt;
    let mut arguments = std::env::args_os();
    let program = std::env::current_exe().context("finding the program to start again")?;
    let error = std::process::Command::new(program).args(arguments.by_ref().skip(1)).exec();
    Err(error).context("starting again")
}

/// What the process is told from outside.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// Of log rotation.
    user: Signal,
}

impl Signals {
    fn take() -> anyhow::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate()).context("taking SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("taking SIGINT")?,
            user: signal(SignalKind::user_defined1()).context("taking SIGUSR1")?,
        })
    }

    /// Waits until the process is to end.
    async fn told_to_end(&mut self, control: &Handle, ended: &mut UnboundedReceiver<End>) -> End {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => {
                    info!(signal = "SIGTERM", "stopping");
                    return End::Now;
                }
                _ = self.interrupt.recv() => {
                    info!(signal = "SIGINT", "stopping");
                    return End::Now;
                }
                _ = self.user.recv() => control.flush_logs(),
                Some(end) = ended.recv() => {
                    info!(by = "an administrator", "stopping");
                    return end;
                }
            }
        }
    }
}

/// The end of client sessions takes milliseconds; only a statement of an administrator can be in its way, and that is no
/// reason to stay.
const TIME_TO_STOP: Duration = Duration::from_secs(3);
