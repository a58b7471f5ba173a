//! The `narrows` program: flags, then the configuration, then the data plane.

mod cli;
mod sandbox;

use std::fs::OpenOptions;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use narrows_control::config::diagnostic::{Diagnostic, Severity};
use narrows_control::config::{self, Loaded};
use narrows_control::store::Store;
use narrows_control::{docs, query_log, tls};
use narrows_proxy::server::DataPlane;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

use cli::{Cli, Run, Verb};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.verb {
        Some(Verb::Check { file }) => return check(&file),
        Some(Verb::Import { file, datadir }) => import(&file, &datadir),
        Some(Verb::GenerateDocs { folder }) => generate_docs(&folder),
        Some(Verb::Sandbox(args)) => sandbox::run(args),
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
    if flags.no_monitor {
        loaded.variables.switch_off("mysql-monitor_enabled");
    }
    open_log(log_file(flags, &loaded).as_deref())?;
    info!(version = env!("CARGO_PKG_VERSION"), "starting");
    match &file {
        Some(path) => info!(file = %path.display(), "configuration read"),
        None => warn!(searched = ?config::SEARCHED, "no configuration file, the defaults count"),
    }
    loaded.passed_over.iter().chain(&loaded.warnings).for_each(|diagnostic| warn!("{diagnostic}"));
    for flag in flags.without_effect() {
        warn!(flag, "has no effect in this version");
    }
    raise_open_files_limit();
    keep_memory_private();
    let keys =
        tls::load(&loaded.bootstrap.resolve(Path::new("")), &loaded.variables, &loaded.rows.ssl_params)
            .context("reading keys and certificates")?;
    keys.remarks.iter().for_each(|remark| warn!("{remark}"));
    loaded.rows.tls = keys.tls;
    serve(loaded)
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

fn open_log(file: Option<&Path>) -> anyhow::Result<()> {
    let wanted = std::env::var("NARROWS_LOG").unwrap_or_else(|_| "info".to_owned());
    let filter = EnvFilter::try_new(wanted).context("reading NARROWS_LOG")?;
    let log = tracing_subscriber::fmt().with_env_filter(filter);
    let Some(path) = file else {
        log.with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal()).init();
        return Ok(());
    };
    let opened = OpenOptions::new().create(true).append(true).open(path);
    let file = opened.with_context(|| format!("opening the log file {}", path.display()))?;
    log.with_writer(file).with_ansi(false).init();
    Ok(())
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

/// Runs the data plane on `loaded` until the process is told to stop.
fn serve(loaded: Loaded) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _entered = runtime.enter();
    // Taken before anything is served, so that no signal falls between.
    let terminate = signal(SignalKind::terminate()).context("taking SIGTERM")?;
    let interrupt = signal(SignalKind::interrupt()).context("taking SIGINT")?;
    let datadir = loaded.bootstrap.datadir.clone().unwrap_or_else(|| PathBuf::from("."));
    let mut plane = DataPlane::start(loaded.rows)?;
    plane.log_queries_to(query_log::start(&datadir).context("starting the query log")?);
    info!(interfaces = plane.addresses().join(", "), workers = plane.workers(), "serving");
    runtime.block_on(told_to_stop(terminate, interrupt));
    plane.stop();
    Ok(())
}

async fn told_to_stop(mut terminate: Signal, mut interrupt: Signal) {
    let name = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    };
    info!(signal = name, "stopping");
}
