//! The command line: the flags known from ProxySQL, and Narrows' own subcommands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::flags::Run;
use crate::instance::Instance;

/// The parsed command line.
#[derive(Debug, Parser)]
#[command(
    name = "narrows",
    about = "A MySQL-protocol proxy: routes by rules, multiplexes safely, says why.",
    after_help = AFTER_HELP,
    version = env!("CARGO_PKG_VERSION"),
    disable_version_flag = true,
    args_conflicts_with_subcommands = true
)]
pub struct Cli {
    /// A subcommand; without one the proxy is run.
    #[command(subcommand)]
    pub verb: Option<Verb>,
    /// How the proxy is run.
    #[command(flatten)]
    pub run: Run,
}

/// The other things the program can do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Check configuration files and explain everything that is wrong in them
    Check(crate::check::CheckArgs),
    /// Import ProxySQL's configuration: from its admin port, its proxysql.db or its proxysql.cnf
    Import(Box<crate::import::ImportArgs>),
    /// Find out what servers there are, and write a narrows.toml for them that works
    Init(Box<crate::init::InitArgs>),
    /// Run a throw-away primary with replicas, to try things out
    Sandbox(crate::sandbox::SandboxArgs),
    /// Replace the running program with the one now on disk, without refusing a connection
    Upgrade(Instance),
    /// Serve clients for a supervisor; only the supervisor starts this
    #[command(hide = true)]
    Worker {
        /// Its data folder, shown in process lists; the supervisor sends everything that matters
        datadir: Option<PathBuf>,
    },
    /// Become a program of the scheduler; only the scheduler starts this
    #[command(hide = true)]
    RunJob {
        /// The process with the scheduler; its end is the program's end
        scheduler: u32,
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<OsString>,
    },
    /// Remove a temporary folder of init when its process has ended; only init starts this
    #[command(hide = true)]
    RemoveAtEnd {
        /// The folder
        folder: PathBuf,
    },
    /// Connect and disconnect at a given rate, and report refused connections and how long connects took
    ConnectSpeed(crate::connect_speed::ConnectSpeedArgs),
    /// Find out whether a Narrows answers: for health checks
    Ping(crate::ping::PingArgs),
    /// Show what happens in a running Narrows, live in a terminal
    Top(crate::top::TopArgs),
    /// Show what a configuration file would change in a running Narrows, and which statements it would send elsewhere
    Plan(Box<crate::plan::PlanArgs>),
    /// Apply a plan, or a configuration file, to a running Narrows: all of it or nothing
    Apply(Box<crate::plan::ApplyArgs>),
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: crate::manual::Shell,
    },
    /// Write the manual pages of all subcommands
    #[command(hide = true)]
    GenerateManual {
        /// The folder to write them to
        folder: PathBuf,
    },
    /// Write the documentation pages that are generated from the tables of variables and columns
    #[command(hide = true)]
    GenerateDocs {
        /// The source tree's `docs` folder
        folder: PathBuf,
    },
}

const AFTER_HELP: &str = "\
Without -c the first of these files is read: ./narrows.toml, /etc/narrows/narrows.toml, ./proxysql.cnf,
./proxysql.cfg, /etc/proxysql.cnf, /etc/proxysql.cfg. If none exists, the defaults apply.
The environment variable NARROWS_LOG chooses what is logged, for example `debug` or `narrows_proxy=trace`.
No core files are written, since passwords and keys would be in them, unless NARROWS_CORE_FILES is set.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use narrows_control::store::Start;

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
        assert!(matches!(parse("narrows check x.toml").verb, Some(Verb::Check(_))));
        assert!(Cli::try_parse_from(["narrows", "check"]).is_err());
        assert!(Cli::try_parse_from(["narrows", "-f", "check", "x"]).is_err());
        assert!(Cli::try_parse_from(["narrows", "--initial", "--reload"]).is_err());
    }
}
