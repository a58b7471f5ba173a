//! Load generators and side-by-side comparisons; README.md in the folder above says what is measured.

mod client;
mod clusters;
mod codec;
mod compare;
mod dump;
mod forward;
mod idle;
mod instructions;
mod load;
mod mock_server;
mod peers;
mod pipelining;
mod process;
mod publish;
mod restart;
mod rules;
mod scrape;
mod server;
mod slap;
mod socket;
mod stand;
mod sysbench;
mod tls;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::load::{Generator, Limit, Plan, Usage};
use crate::socket::Address;

#[derive(Debug, Parser)]
#[command(name = "narrows-bench", about = "Load generators and side-by-side comparisons.")]
struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A MySQL server that answers from memory.
    MockServer {
        /// Where to listen: IP:PORT or /path.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: Address,
    },
    /// A proxy that finds the ends of packets and does nothing else.
    Forward {
        /// Where to listen: IP:PORT or /path.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: Address,
        /// The server: IP:PORT or /path.
        #[arg(long)]
        backend: Address,
    },
    /// A closed-loop load generator; prints its figures as JSON.
    Load(LoadFlags),
    /// Every proxy in every case, side by side.
    Compare(compare::CompareFlags),
    /// What a query costs with more and more query rules.
    Rules(rules::RulesFlags),
    /// How long clients are not served when a worker process dies.
    Restart(restart::RestartFlags),
    /// sysbench on a real server, directly and through each proxy.
    Sysbench(sysbench::SysbenchFlags),
    /// mysqldump of a large table, through each proxy.
    Dump(dump::DumpFlags),
    /// mysqlslap on a real server, directly and from the query cache.
    Slap(slap::SlapFlags),
    /// The comparison, rules and memory, as a page with plots.
    Publish(publish::PublishFlags),
    /// What a statement costs in instructions, counted by valgrind.
    Instructions(instructions::InstructionsFlags),
    /// What it would bring to send statements on a connection before the answers to earlier ones.
    Pipelining(pipelining::PipeliningFlags),
    /// What a scrape of the metrics costs, and what clients notice of it.
    Scrape(scrape::ScrapeFlags),
    /// What the checks of many clusters cost.
    Clusters(clusters::ClustersFlags),
    /// What TLS costs: a point select with and without it, and a connect compared with HAProxy's
    Tls(tls::TlsFlags),
}

#[derive(Debug, Args)]
struct LoadFlags {
    /// The proxy or server: IP:PORT or /path.
    #[arg(long)]
    target: Address,
    /// Account.
    #[arg(long, default_value = "bench")]
    user: String,
    /// Its password.
    #[arg(long, default_value = "bench")]
    password: String,
    /// Default schema; empty for none.
    #[arg(long, default_value = "")]
    schema: String,
    /// Connections, each with one query outstanding.
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// The statement.
    #[arg(long, default_value = "SELECT c FROM sbtest1 WHERE id=5000")]
    statement: String,
    /// Rows that each answer must have.
    #[arg(long, default_value_t = 1)]
    rows: u64,
    /// Whether connections are kept, or used for one query each.
    #[arg(long, value_enum, default_value = "keep")]
    usage: Usage,
    /// Request results in the older format, with EOF packets.
    #[arg(long)]
    classic_eof: bool,
    /// Warm-up in seconds, before counting begins.
    #[arg(long, default_value_t = 0.3)]
    warm_up: f64,
    /// Length of the measurement in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Stop after this many answers instead.
    #[arg(long)]
    queries: Option<u64>,
    /// Run on this core.
    #[arg(long)]
    core: Option<usize>,
}

fn main() -> ExitCode {
    let outcome = match Flags::parse().command {
        Command::MockServer { listen } => mock_server::run(&listen),
        Command::Forward { listen, backend } => forward::run(&listen, &backend),
        Command::Load(flags) => load(flags),
        Command::Compare(flags) => compare::run(&flags),
        Command::Restart(flags) => restart::run(&flags),
        Command::Rules(flags) => rules::run(&flags),
        Command::Sysbench(flags) => sysbench::run(&flags),
        Command::Dump(flags) => dump::run(&flags),
        Command::Slap(flags) => slap::run(&flags),
        Command::Instructions(flags) => instructions::run(&flags),
        Command::Publish(flags) => publish::run(&flags),
        Command::Pipelining(flags) => pipelining::run(&flags),
        Command::Scrape(flags) => scrape::run(&flags),
        Command::Clusters(flags) => clusters::run(&flags),
        Command::Tls(flags) => tls::run(&flags),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("narrows-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn load(flags: LoadFlags) -> io::Result<()> {
    if let Some(core) = flags.core {
        process::pin_to(core)?;
    }
    let limit =
        flags.queries.map_or_else(|| Limit::Time(Duration::from_secs_f64(flags.seconds)), Limit::Queries);
    let mut generator = Generator::new(Plan {
        target: flags.target,
        user: flags.user,
        password: flags.password,
        schema: flags.schema,
        connections: flags.connections,
        statement: flags.statement,
        rows: flags.rows,
        usage: flags.usage,
        deprecate_eof: !flags.classic_eof,
    })?;
    generator.warm_up(Duration::from_secs_f64(flags.warm_up))?;
    let report = generator.measure(limit)?;
    generator.finish()?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
