//! `narrows connect-speed`: connects, runs statements and disconnects, again and again, and reports how long that took
//! and how often it failed.
//!
//! It shows whether clients are refused, and how long a connect takes, while something happens to the server or proxy
//! it connects to. It measures one thing at a time and is not a load generator.

mod report;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ArgAction;
use narrows_control::monitor::connections::MonitorConnections;
use narrows_control::monitor::plan::{Address, MonitorLogin, Target};
use narrows_control::tls;
use narrows_proxy::backend::{Backend, BackendError};
use narrows_proxy::rt;
use narrows_proxy::state::SessionState;

use report::Report;

/// What to connect to, and how.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct ConnectSpeedArgs {
    /// Pause of a thread between two connections, in us
    #[arg(short = 'i', long, value_name = "US", default_value_t = 0)]
    interval: u64,
    /// Total number of connections
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1_000)]
    count: u64,
    /// Threads, each with one connection at a time
    #[arg(short = 't', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Account
    #[arg(short = 'u', long, value_name = "NAME", default_value = "root")]
    user: String,
    /// Its password
    #[arg(short = 'p', long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    password: String,
    /// Host name or address, or the path of a Unix socket
    #[arg(short = 'h', long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// Schema
    #[arg(short = 'D', long, value_name = "NAME")]
    database: Option<String>,
    /// TCP port; has no effect with a Unix socket
    #[arg(short = 'P', long, value_name = "PORT", default_value_t = 6033)]
    port: u16,
    /// Statements that each connection runs: `DO 1`
    #[arg(short = 'q', long, value_name = "N", default_value_t = 0)]
    queries: u32,
    /// Print the latencies of connects as a histogram
    #[arg(short = 'H', long)]
    histogram: bool,
    /// Connect with TLS, accepting any certificate
    #[arg(short = 's', long)]
    ssl: bool,
    /// Give up on a connect or a statement after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    timeout: u64,
    /// Print everything as one JSON object
    #[arg(long)]
    json: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

/// Runs with these `args`; returns a failure if any connection failed.
///
/// # Errors
/// Threads that cannot be started.
pub fn run(args: &ConnectSpeedArgs) -> anyhow::Result<ExitCode> {
    let port = if args.host.starts_with('/') { 0 } else { args.port };
    let access = MonitorLogin {
        username: args.user.clone(),
        password: args.password.clone(),
        tokens: None,
        tls: if args.ssl { tls::towards_anybody() } else { Default::default() },
        may_ask_for_key: true,
    };
    let target = Target {
        address: Address { hostname: args.host.clone(), port },
        use_ssl: args.ssl,
        check_types: Vec::new(),
        pairs: Vec::new(),
        lag_limits: Vec::new(),
        clusters: Vec::new(),
    };
    let (begun, report) = (AtomicU64::new(0), Mutex::new(Report::default()));
    let since = Instant::now();
    std::thread::scope(|scope| {
        let connect = || {
            let outcome = connect_in_turns(args, &MonitorConnections::new(&target, &access, None), &begun);
            let mut report = report.lock().expect("no thread panics while it holds the report");
            outcome.map(|part| report.add(part)).context("starting a thread's runtime")
        };
        let threads: Vec<_> = (0..args.threads).map(|_| scope.spawn(connect)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a thread that only connects"))
    })?;
    let report = report.into_inner().expect("no thread panics while it holds the report");
    let took = since.elapsed();
    crate::print_lines(&if args.json { report.json(took) } else { report.text(took, args.histogram) })?;
    Ok(if report.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One thread's connections, one after another, until `args.count` is reached.
fn connect_in_turns(
    args: &ConnectSpeedArgs,
    connections: &MonitorConnections,
    begun: &AtomicU64,
) -> std::io::Result<Report> {
    let limit = Duration::from_secs(args.timeout);
    let mut state = SessionState::default();
    state.schema = args.database.as_ref().map(|name| name.as_bytes().into());
    rt::block_on(async {
        let mut report = Report::default();
        while begun.fetch_add(1, Ordering::Relaxed) < args.count {
            let since = Instant::now();
            let connected = connections.open_in(&state, limit).await;
            let took = since.elapsed();
            match connected {
                Err(error) => report.refused(&error),
                Ok(backend) => match ask(&backend, args.queries, limit).await {
                    Err(error) => report.lost(took, &error),
                    Ok(()) => {
                        backend.quit().await;
                        report.served(took);
                    }
                },
            }
            // The thread has nothing else to do, and the runtime's own timer has a resolution of milliseconds.
            std::thread::sleep(Duration::from_micros(args.interval));
        }
        report
    })
}

async fn ask(backend: &Backend, times: u32, limit: Duration) -> Result<(), BackendError> {
    for _ in 0..times {
        backend.ask("DO 1", limit).await?;
    }
    Ok(())
}
