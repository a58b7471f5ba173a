//! `narrows init`: from one server and an account to a narrows.toml that works.
//!
//! It examines the servers ([`topology`]), decides with the user ([`choices`]), proposes ([`proposal`], [`file_text`]),
//! proves that it works ([`trial`]), and only then writes the file ([`destination`]).

mod accounts;
pub mod address;
mod args;
mod choices;
pub mod destination;
pub mod dialogue;
mod facts;
mod file_text;
mod monitor_account;
mod proposal;
pub mod remains;
mod replicas;
mod report;
pub mod screen;
mod survey;
mod topology;
mod trial;
mod trust;
pub mod visit;

use std::path::Path;

pub use args::InitArgs;

use choices::Chooser;
use dialogue::Dialogue;
use proposal::Proposal;
use screen::Screen;

use crate::flags::Run;
use crate::launch::Launch;

/// Runs with these `args`.
///
/// # Errors
/// What prevents a working configuration; then no file is written.
pub fn run(args: &InitArgs) -> anyhow::Result<()> {
    remains::removed_on_signals()?;
    let screen = Screen::new();
    let dialogue = if args.yes { None } else { Some(Dialogue::on_terminal(screen)?) };
    let chooser = Chooser { args, dialogue, screen };
    let destination = chooser.destination()?;
    let (examiner, topology) = chooser.servers()?;
    let decisions = chooser.decide(&topology, &examiner)?;
    let proposal = Proposal::new(&topology, decisions, monitor_account::random_password()?);
    report::proposal(screen, &proposal);
    report::monitor(screen, &proposal.monitor);
    let proof = trial::prove(&proposal, &examiner)?;
    destination.write(&file_text::text(&proposal, &proposal.listeners, &proposal.accounts))?;
    report::proof(screen, &proposal, &proof, &destination);
    report::next(screen, &proposal, &destination.path, has_configuration(&destination.path)?);
    Ok(())
}

/// Whether the data folder that goes with the file already has a configuration, which takes precedence.
fn has_configuration(file: &Path) -> anyhow::Result<bool> {
    let launch = Launch::read(&Run { config: Some(file.to_owned()), ..Run::default() })?;
    Ok(launch.datadir.join("narrows.db").exists())
}
