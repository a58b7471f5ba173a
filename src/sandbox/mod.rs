//! `narrows sandbox`: a throw-away primary and its replicas, or a cluster, for the demo, for tests and to try things out.
//!
//! It starts whatever MariaDB or MySQL is installed, on loopback only, in its own folder, with GTID replication, Galera or
//! Group Replication, and without durability. It is not a way to run a database that matters.

mod client;
mod cluster;
mod data;
mod lifecycle;
mod program;
mod proxy_config;
mod record;
mod replication;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Starts, stops and describes a throw-away primary with replicas, or a cluster.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SandboxArgs {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    start: Start,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Starts the servers and stays until Ctrl-C; the default of `narrows sandbox`.
    Start(Start),
    /// Stops the servers of a sandbox, and removes its folder if it is a temporary one.
    Stop(SandboxFolder),
    /// Prints a narrows.toml with a read/write split for the running sandbox.
    Config(Config),
}

/// Which sandbox is meant.
#[derive(Debug, clap::Args)]
pub struct SandboxFolder {
    /// Folder of the sandbox; not needed if only one sandbox runs.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// How a sandbox is started.
#[derive(Debug, clap::Args)]
pub struct Start {
    /// Number of replicas besides the primary, or of nodes besides the first one.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(0..=16))]
    replicas: u16,
    /// Start a Galera cluster of MariaDB; its library has to be installed (Debian: galera-4 and rsync).
    #[arg(long, conflicts_with = "group_replication")]
    galera: bool,
    /// Start a Group Replication cluster of MySQL, with a single primary.
    #[arg(long)]
    group_replication: bool,
    /// Folder for the data, kept when the sandbox stops; without it, a temporary folder that is removed then.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// `mariadbd`, `mysqld`, a path to one of them, or a folder into which a server was unpacked.
    #[arg(long, value_name = "PROGRAM")]
    server: Option<PathBuf>,
    /// Port of the primary, the replicas use the following ones; without it, free ports are chosen.
    #[arg(long, value_name = "PORT")]
    base_port: Option<u16>,
    /// Return once all servers are up and leave them running; end them with `narrows sandbox stop`.
    #[arg(long, conflicts_with = "until_eof")]
    detach: bool,
    /// Print the contents of sandbox.json, on one line, instead of a table.
    #[arg(long)]
    json: bool,
    /// Stop when standard input ends: a sandbox ends together with the program that started it.
    #[arg(long)]
    until_eof: bool,
    /// One more option for every server, for instance `--option=--max-connections=20`; may be repeated.
    #[arg(long = "option", value_name = "OPTION", allow_hyphen_values = true)]
    options: Vec<String>,
}

impl Start {
    /// What the servers form.
    fn form(&self) -> record::Form {
        match (self.galera, self.group_replication) {
            (true, _) => record::Form::Galera,
            (_, true) => record::Form::GroupReplication,
            _ => record::Form::Replication,
        }
    }
}

/// How the configuration of a sandbox is printed.
#[derive(Debug, clap::Args)]
pub struct Config {
    #[command(flatten)]
    place: SandboxFolder,
    /// Address Narrows listens on, or several separated by `;`.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6033")]
    listen: String,
    /// Address Narrows listens on for administrators, or several separated by `;`.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6032")]
    admin: String,
}

/// Runs the subcommand; an attached start returns when the sandbox has ended.
pub fn run(args: SandboxArgs) -> anyhow::Result<()> {
    match args.verb.unwrap_or(Verb::Start(args.start)) {
        Verb::Start(start) => lifecycle::start(&start),
        Verb::Stop(place) => lifecycle::stop(&record::Record::find(place.dir.as_deref())?),
        Verb::Config(config) => {
            let record = record::Record::find(config.place.dir.as_deref())?;
            print!("{}", proxy_config::narrows_toml(&record, &config.listen, &config.admin));
            Ok(())
        }
    }
}
