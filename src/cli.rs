//! The command line: the flags that operators of ProxySQL know, and Narrows' own verbs.

use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand};
use narrows_control::store::Start;

use crate::launch::Launch;

/// What was asked for.
#[derive(Debug, Parser)]
#[command(
    name = "narrows",
    about = "A MySQL-protocol proxy: routes by rules, multiplexes safely, says why.",
    after_help = AFTER_HELP,
    disable_version_flag = true,
    args_conflicts_with_subcommands = true
)]
pub struct Cli {
    /// A verb; without one the proxy is run.
    #[command(subcommand)]
    pub verb: Option<Verb>,
    /// How the proxy is run.
    #[command(flatten)]
    pub run: Run,
}

/// What else the program does.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Check a configuration file and explain everything that is wrong with it
    Check {
        /// narrows.toml or proxysql.cnf, told apart by content
        file: PathBuf,
    },
    /// Take over the configuration that ProxySQL keeps in its proxysql.db
    Import {
        /// The database of ProxySQL; it stays as it is
        file: PathBuf,
        /// Where narrows.db is made
        #[command(flatten)]
        place: Place,
    },
    /// A throw-away primary with replicas, for trying things out
    Sandbox(crate::sandbox::Args),
    /// Have the program that is on disk now take the place of the one that runs, without refusing a connection
    Upgrade(Place),
    /// Serve clients for a supervisor, which starts this itself
    #[command(hide = true)]
    Worker {
        /// Its data folder, for those who look at processes; the supervisor tells all that counts
        datadir: Option<PathBuf>,
    },
    /// Connect and disconnect at a given pace, and tell who was refused and how long connects took
    ConnectSpeed(crate::connect_speed::Args),
    /// Write the pages that are made from the tables of variables and columns
    #[command(hide = true)]
    GenerateDocs {
        /// The folder `docs` of the sources
        folder: PathBuf,
    },
}

/// Which of the Narrows that run is meant.
#[derive(Debug, clap::Args)]
pub struct Place {
    /// Its configuration file
    #[arg(short = 'c', long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Its data folder; goes before `datadir` of the file
    #[arg(short = 'D', short_alias = 'd', long, alias = "directory", value_name = "DIR")]
    datadir: Option<PathBuf>,
}

impl Place {
    /// Its data folder, found as it was found when it was started.
    ///
    /// # Errors
    /// A file that cannot be started.
    pub fn datadir(self) -> anyhow::Result<PathBuf> {
        match self.datadir {
            Some(datadir) => Ok(datadir),
            None => Ok(self.launch()?.datadir),
        }
    }

    /// The same for one that is not there yet.
    ///
    /// # Errors
    /// A file that cannot be started; a folder that is not there, or that cannot be made.
    pub fn new_datadir(self) -> anyhow::Result<PathBuf> {
        let launch = self.launch()?;
        launch.make_datadir()?;
        Ok(launch.datadir)
    }

    fn launch(self) -> anyhow::Result<Launch> {
        Launch::read(&Run { config: self.config, datadir: self.datadir, ..Run::default() })
    }
}

/// The flags of running the proxy.
#[derive(Debug, Default, clap::Args)]
pub struct Run {
    /// Log to standard error whatever `errorlog` says, and stay in the foreground
    ///
    /// This version has no background mode: without the flag it stays in the foreground too, but logs to
    /// `errorlog` when the file names one.
    #[arg(short = 'f', long)]
    pub foreground: bool,
    /// Configuration file
    #[arg(short = 'c', long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of everything Narrows writes; goes before `datadir` of the file
    ///
    /// Where neither names one it is /var/lib/narrows for a file in /etc/narrows, and else ./narrows-data, which is made.
    #[arg(short = 'D', short_alias = 'd', long, alias = "directory", value_name = "DIR")]
    pub datadir: Option<PathBuf>,
    /// Do not check servers from time to time; also -M
    ///
    /// For ProxySQL, -n is --no-start.
    #[arg(short = 'n', short_alias = 'M', long)]
    pub no_monitor: bool,
    /// End after a crash instead of starting again
    #[arg(short = 'e', long)]
    pub exit_on_error: bool,
    /// Serve in this process, without one that starts it again: for debuggers and tests
    #[arg(long)]
    pub no_supervisor: bool,
    /// Read the file; what is stored is put aside
    #[arg(long, conflicts_with = "reload")]
    pub initial: bool,
    /// Read the file over what is stored
    #[arg(long)]
    pub reload: bool,
    /// Identity of this node; goes before `uuid` of the file
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

const AFTER_HELP: &str = "\
Without -c the first of these files is read: ./narrows.toml, /etc/narrows/narrows.toml, ./proxysql.cnf,
./proxysql.cfg, /etc/proxysql.cnf, /etc/proxysql.cfg. Without any, the defaults count.
The environment variable NARROWS_LOG chooses what is logged, for example `debug` or `narrows_proxy=trace`.
No core files are written, since passwords and keys would be in them, unless NARROWS_CORE_FILES is set.";

impl Run {
    /// What goes before what.
    pub fn start(&self) -> Start {
        match (self.initial, self.reload) {
            (true, _) => Start::Initial,
            (_, true) => Start::Reload,
            _ => Start::Usual,
        }
    }

    /// The flags that were given and that do nothing in this version.
    pub fn without_effect(&self) -> Vec<&'static str> {
        let flags = [
            (self.idle_threads, "--idle-threads"),
            (self.reuseport, "--reuseport"),
            (self.no_version_check, "--no-version-check"),
        ];
        flags.into_iter().filter(|(given, _)| *given).map(|(_, name)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Cli {
        Cli::try_parse_from(line.split(' ')).expect("valid flags")
    }

    #[test]
    fn flags_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn knows_the_start_lines_of_proxysql() {
        let container = parse("narrows -f --idle-threads -D /var/lib/proxysql").run;
        assert!(container.foreground && container.idle_threads);
        assert_eq!(container.datadir, Some(PathBuf::from("/var/lib/proxysql")));
        let unit = parse("narrows --idle-threads -c /etc/proxysql.cnf --initial").run;
        assert_eq!(unit.config, Some(PathBuf::from("/etc/proxysql.cnf")));
        assert_eq!((unit.start(), unit.without_effect()), (Start::Initial, vec!["--idle-threads"]));
    }

    #[test]
    fn other_names_of_a_flag_work() {
        assert!(parse("narrows -M").run.no_monitor && parse("narrows --no-monitor").run.no_monitor);
        assert!(parse("narrows -d /x").run.datadir.is_some());
        assert!(parse("narrows --directory /x").run.datadir.is_some());
    }

    #[test]
    fn a_verb_takes_no_flags_of_the_proxy() {
        assert!(matches!(parse("narrows check x.toml").verb, Some(Verb::Check { .. })));
        assert!(Cli::try_parse_from(["narrows", "-f", "check", "x"]).is_err());
        assert!(Cli::try_parse_from(["narrows", "--initial", "--reload"]).is_err());
    }
}
