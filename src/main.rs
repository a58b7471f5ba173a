//! The `narrows` program: parses the command line and calls the subcommand.

mod check;
mod cli;
mod client_transfer;
mod connect_speed;
mod flags;
mod heart;
mod import;
mod init;
mod instance;
mod keeper;
mod last_words;
mod launch;
mod line;
mod log;
mod manual;
mod one_line;
mod orphans;
mod password;
mod ping;
mod plan;
mod reason;
mod resources;
mod run_job;
mod sandbox;
mod serve;
mod signals;
mod supervisor;
mod top;
mod version;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, Parser};
use narrows_control::config_file;
use narrows_control::docs;
use tracing::{info, warn};

use cli::{Cli, Verb};
use flags::Run;
use launch::Launch;
use supervisor::OnDeath;
use supervisor::lock::Lock;

fn main() -> ExitCode {
    survive_full_files();
    act(Cli::parse()).unwrap_or_else(|error| {
        eprintln!("narrows: {}", reason::of(&error));
        ExitCode::FAILURE
    })
}

/// Makes a full file (`ulimit -f`) an error for its writer, and not the end of the program.
fn survive_full_files() {
    // SAFETY: the signal is ignored, so no code runs when it arrives.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

fn act(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.verb {
        Some(Verb::Check(args)) => return check::run(&args),
        Some(Verb::Plan(args)) => return plan::plan(*args),
        Some(Verb::Apply(args)) => return plan::apply(*args),
        Some(Verb::ConnectSpeed(args)) => return connect_speed::run(&args),
        Some(Verb::Worker { .. }) => return serve::as_worker(),
        Some(Verb::RunJob { scheduler, program }) => return run_job::run(scheduler, &program),
        None if !cli.run.version => return run(&cli.run),
        Some(Verb::Import(args)) => import::run(*args)?,
        Some(Verb::GenerateDocs { folder }) => generate_docs(&folder)?,
        Some(Verb::GenerateManual { folder }) => manual::write(&Cli::command(), &folder)?,
        Some(Verb::Completions { shell }) => print_lines(&manual::completions(&Cli::command(), shell))?,
        Some(Verb::Init(args)) => init::run(&args)?,
        Some(Verb::RemoveAtEnd { folder }) => init::remains::remove_at_end(&folder)?,
        Some(Verb::Sandbox(args)) => sandbox::run(args)?,
        Some(Verb::Top(args)) => top::run(args)?,
        Some(Verb::Ping(args)) => print_lines(&ping::run(args)?)?,
        Some(Verb::Upgrade(place)) => print_lines(&supervisor::upgrade::ask(&place.datadir()?)?)?,
        None => print_lines(&version::line())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn counted(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// Prints `text`. It is not a failure if the reader closes the pipe early.
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
    let path = folder.join(docs::COMPATIBILITY);
    // The page does not exist if the pages are written to another folder.
    if let Ok(page) = std::fs::read_to_string(&path) {
        let page = docs::with_section(&page)
            .with_context(|| format!("{}: no place for the section", path.display()))?;
        std::fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Reads the top of the configuration, opens the log and serves until it is stopped.
fn run(flags: &Run) -> anyhow::Result<ExitCode> {
    signals::block();
    let launch = Launch::read(flags)?;
    launch.make_datadir()?;
    let log = launch.open_log()?;
    info!(version = env!("CARGO_PKG_VERSION"), commit = version::COMMIT, "starting");
    match &launch.file {
        Some(path) => info!(file = %path.display(), "configuration read"),
        None => warn!(searched = ?config_file::SEARCHED, "no configuration file: the defaults apply"),
    }
    launch.remarks.iter().for_each(|remark| warn!("{remark}"));
    for flag in flags.without_effect() {
        warn!(flag, "has no effect in this version");
    }
    orphans::reap();
    if flags.no_supervisor {
        let _lock = Lock::take(&launch.datadir)?;
        return serve::alone(&launch, log);
    }
    let on_death = if flags.exit_on_error { OnDeath::End } else { OnDeath::Restart };
    supervisor::run(launch, on_death, log)
}
