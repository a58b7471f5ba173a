//! The flags of running the proxy.

use std::path::PathBuf;

use clap::ArgAction;
use narrows_control::store::Start;

/// The flags of running the proxy.
#[derive(Debug, Default, clap::Args)]
pub struct Run {
    /// Log to standard error even if `errorlog` is set, and stay in the foreground
    ///
    /// This version has no background mode: without the flag it also stays in the foreground, but logs to `errorlog` if
    /// the file sets it.
    #[arg(short = 'f', long)]
    pub foreground: bool,
    /// Configuration file
    #[arg(short = 'c', long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder for everything that Narrows writes; overrides `datadir` in the file
    ///
    /// If neither is given, it is /var/lib/narrows for a file in /etc/narrows, and otherwise ./narrows-data, which is
    /// created.
    #[arg(short = 'D', short_alias = 'd', long, alias = "directory", value_name = "DIR")]
    pub datadir: Option<PathBuf>,
    /// Do not monitor servers; also -M
    ///
    /// In ProxySQL, -n is --no-start.
    #[arg(short = 'n', short_alias = 'M', long)]
    pub no_monitor: bool,
    /// End after a crash instead of restarting
    #[arg(short = 'e', long)]
    pub exit_on_error: bool,
    /// Serve in this process, without a supervisor that restarts it: for debuggers and tests
    #[arg(long)]
    pub no_supervisor: bool,
    /// Read the file, and set the stored configuration aside
    #[arg(long, conflicts_with = "reload")]
    pub initial: bool,
    /// Read the file, and merge it over the stored configuration
    #[arg(long)]
    pub reload: bool,
    /// Identity of this node; overrides `uuid` in the file
    #[arg(short = 'U', long, value_name = "UUID")]
    pub uuid: Option<String>,
    /// Print the version
    #[arg(short = 'V', long, action = ArgAction::SetTrue)]
    pub version: bool,
    /// For start scripts written for ProxySQL; no effect
    #[arg(long, hide = true)]
    pub idle_threads: bool,
    /// For start scripts written for ProxySQL; no effect
    #[arg(short = 'r', long, hide = true)]
    pub reuseport: bool,
    /// For start scripts written for ProxySQL; no effect
    #[arg(long, hide = true)]
    pub no_version_check: bool,
}

impl Run {
    /// How to start: `--initial` takes precedence over `--reload`.
    pub fn start(&self) -> Start {
        match (self.initial, self.reload) {
            (true, _) => Start::Initial,
            (_, true) => Start::Reload,
            _ => Start::Usual,
        }
    }

    /// The given flags that have no effect in this version.
    pub fn without_effect(&self) -> Vec<&'static str> {
        let flags = [
            (self.idle_threads, "--idle-threads"),
            (self.reuseport, "--reuseport"),
            (self.no_version_check, "--no-version-check"),
        ];
        flags.into_iter().filter(|(given, _)| *given).map(|(_, name)| name).collect()
    }
}
