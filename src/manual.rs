//! What describes the command line to other programs: manual pages and the completions of shells. Both leave out hidden
//! subcommands.

use std::path::Path;

use anyhow::Context;
use clap::{Command, ValueEnum};

/// The shells that have completions.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Shell {
    /// Bash
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
}

/// The script that a shell reads to complete `command`.
pub fn completions(command: &Command, shell: Shell) -> String {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(command), "narrows", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Writes `narrows.1`, and a page for each subcommand.
///
/// # Errors
/// A folder that cannot be written to.
pub fn write(command: &Command, folder: &Path) -> anyhow::Result<()> {
    clap_mangen::generate_to(visible(command), folder)
        .with_context(|| format!("writing to {}", folder.display()))
}

/// The command without its hidden subcommands, which completions would offer.
fn visible(command: &Command) -> Command {
    let mut shown = Command::new(command.get_name().to_owned())
        .disable_version_flag(true)
        .disable_help_flag(command.is_disable_help_flag_set())
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()))
        .subcommands(command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(visible));
    if let Some(version) = command.get_version() {
        shown = shown.version(version.to_owned());
    }
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if let Some(about) = command.get_long_about() {
        shown = shown.long_about(about.clone());
    }
    if let Some(help) = command.get_after_help() {
        shown = shown.after_help(help.clone());
    }
    shown
}
