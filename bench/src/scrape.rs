//! What a scrape of the metrics costs: how long it takes with many clients, servers and digests, and what clients notice of it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use crate::load::{Generator, Limit, Plan, Report, Usage};
use crate::peers::{self, Account, Rules, Running, Setup};
use crate::process::{self, Process, free_address};
use crate::socket::Address;

/// Options of `scrape`.
#[derive(Debug, Args)]
pub struct ScrapeFlags {
    /// The Narrows binary.
    #[arg(long, default_value = "target/release/narrows")]
    narrows: PathBuf,
    /// Idle clients.
    #[arg(long, default_value_t = 10_000)]
    clients: usize,
    /// Servers.
    #[arg(long, default_value_t = 100)]
    servers: usize,
    /// Different statements that were run before.
    #[arg(long, default_value_t = 20_000)]
    digests: usize,
    /// Rounds, each with scrapes and without.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Length of a window in seconds; there is a scrape in every second.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
}

/// Measures, and prints the figures.
pub fn run(flags: &ScrapeFlags) -> io::Result<()> {
    let (_mock, primary) = Process::start_own(Some(LOAD_CORE), &["mock-server".to_owned()])?;
    let account = Account { user: "bench".to_owned(), password: "bench".to_owned() };
    let folder = tempfile::tempdir()?;
    let running = start(primary, &account, folder.path(), flags)?;
    let admin = running.admin.clone().ok_or_else(|| io::Error::other("no admin interface"))?;
    process::pin_to(LOAD_CORE)?;
    let http = free_address()?;
    prepare(&admin, http, flags)?;

    let plan = |connections, statement: String| Plan {
        target: running.address.clone(),
        user: account.user.clone(),
        password: account.password.clone(),
        schema: String::new(),
        connections,
        statement,
        rows: 1,
        usage: Usage::Keep,
        deprecate_eof: true,
    };
    let idle = crowd(&plan, flags)?;
    let mut busy = Generator::new(plan(BUSY, POINT.to_owned()))?;
    busy.warm_up(Duration::from_secs(1))?;
    let (without, with, scrapes) = rounds(&mut busy, http, flags)?;
    let quiet: Vec<Scrape> = (0..QUIET).map(|_| scrape(http)).collect::<io::Result<_>>()?;
    busy.finish()?;
    idle.into_iter().try_for_each(Generator::finish)?;

    print_figures(flags, (&quiet, &scrapes), (&without, &with));
    Ok(())
}

fn start(primary: String, account: &Account, folder: &Path, flags: &ScrapeFlags) -> io::Result<Running> {
    let setup = Setup {
        primary,
        replicas: Vec::new(),
        account: account.clone(),
        folder,
        core: Some(PROXY_CORE),
        narrows: &flags.narrows,
        rules: Rules::default(),
        max_stmts: None,
        baseline: None,
        other: None,
        counted: None,
        variables: &[],
    };
    peers::narrows(&setup)
}

/// What clients have in windows without scrapes, and with them; and the scrapes.
fn rounds(
    busy: &mut Generator,
    http: SocketAddr,
    flags: &ScrapeFlags,
) -> io::Result<(Vec<Report>, Vec<Report>, Vec<Scrape>)> {
    let window = Limit::Time(Duration::from_secs_f64(flags.seconds));
    let (mut without, mut with, mut scrapes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..flags.rounds {
        without.push(busy.measure(window)?);
        let is_over = AtomicBool::new(false);
        with.push(std::thread::scope(|scope| {
            let scraping = scope.spawn(|| scrape_until(http, &is_over));
            let report = busy.measure(window);
            is_over.store(true, Ordering::Relaxed);
            scrapes.extend(scraping.join().map_err(|_| io::Error::other("the scraper has panicked"))??);
            report
        })?);
    }
    Ok((without, with, scrapes))
}

/// Runs the statements that become digests, and connects the idle clients.
fn crowd(plan: &impl Fn(usize, String) -> Plan, flags: &ScrapeFlags) -> io::Result<Vec<Generator>> {
    for number in 0..flags.digests {
        let mut one = Generator::new(plan(1, format!("SELECT column_{number} FROM t")))?;
        one.measure(Limit::Queries(1))?;
        one.finish()?;
    }
    let mut idle = Vec::new();
    while idle.len() * AT_ONCE < flags.clients {
        let mut some = Generator::new(plan(AT_ONCE, POINT.to_owned()))?;
        some.measure(Limit::Queries(AT_ONCE as u64))?;
        some.rest()?;
        idle.push(some);
    }
    Ok(idle)
}

/// Prints the scrapes without load and with it, and what clients had without scrapes and with them.
fn print_figures(
    flags: &ScrapeFlags,
    (quiet, loaded): (&[Scrape], &[Scrape]),
    (without, with): (&[Report], &[Report]),
) {
    println!(
        "{} idle clients, {} servers, {} digests; {BUSY} busy clients; medians of {} rounds of {} s",
        flags.clients, flags.servers, flags.digests, flags.rounds, flags.seconds
    );
    for (name, scrapes) in [("without load", quiet), ("with load", loaded)] {
        let times = sorted(scrapes.iter().map(|scrape| scrape.time.as_secs_f64() * 1e3));
        let (median, most) = (middle(&times), times.last().copied().unwrap_or_default());
        let bytes = scrapes.first().map_or(0, |scrape| scrape.bytes);
        println!("a scrape {name}: median {median:.1} ms, at most {most:.1} ms, {bytes} bytes");
    }
    let median = |reports: &[Report], figure: fn(&Report) -> f64| middle(&sorted(reports.iter().map(figure)));
    let [p99, p99_with] = [without, with].map(|reports| median(reports, |report| report.p99_us));
    let [rate, rate_with] =
        [without, with].map(|reports| median(reports, |report| report.queries_per_second));
    println!("clients: p99 {p99:.0} us without scrapes, {p99_with:.0} us with ({:.3})", p99_with / p99);
    println!(
        "clients: {rate:.0} statements/s without scrapes, {rate_with:.0} with ({:.3})",
        rate_with / rate
    );
}

/// Configures servers that are never used, room for the clients, and the HTTP interface.
fn prepare(admin: &Address, http: SocketAddr, flags: &ScrapeFlags) -> io::Result<()> {
    let server = |number: usize| format!("(9,'127.0.1.{}',{})", number % 250 + 1, 10_000 + number);
    let servers: Vec<String> = (1..flags.servers).map(server).collect();
    let statements = [
        format!("INSERT INTO mysql_servers (hostgroup_id,hostname,port) VALUES {}", servers.join(",")),
        "LOAD MYSQL SERVERS TO RUNTIME".to_owned(),
        format!("UPDATE mysql_users SET max_connections={}", flags.clients + 1_000),
        "LOAD MYSQL USERS TO RUNTIME".to_owned(),
        format!("SET mysql-max_connections={}", flags.clients + 1_000),
        "LOAD MYSQL VARIABLES TO RUNTIME".to_owned(),
        format!("SET admin-restapi_port={}", http.port()),
        "SET admin-restapi_enabled='true'".to_owned(),
        "LOAD ADMIN VARIABLES TO RUNTIME".to_owned(),
    ];
    for statement in statements {
        let mut administrator = Generator::new(Plan {
            target: admin.clone(),
            user: "admin".to_owned(),
            password: "admin".to_owned(),
            schema: String::new(),
            connections: 1,
            statement,
            rows: 0,
            usage: Usage::Keep,
            deprecate_eof: true,
        })?;
        let report = administrator.measure(Limit::Queries(1))?;
        if let Some(error) = report.first_error {
            return Err(io::Error::other(error));
        }
    }
    Ok(())
}

/// One scrape.
struct Scrape {
    time: Duration,
    bytes: usize,
}

fn scrape(http: SocketAddr) -> io::Result<Scrape> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(http)?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: narrows\r\n\r\n")?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page)?;
    match page.starts_with(b"HTTP/1.0 200") {
        true => Ok(Scrape { time: begun.elapsed(), bytes: page.len() }),
        false => Err(io::Error::other(String::from_utf8_lossy(&page).into_owned())),
    }
}

/// Scrapes once in a second.
fn scrape_until(http: SocketAddr, is_over: &AtomicBool) -> io::Result<Vec<Scrape>> {
    let mut scrapes = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        scrapes.push(scrape(http)?);
        let next = Instant::now() + Duration::from_secs(1);
        while Instant::now() < next && !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(scrapes)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn middle(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

const POINT: &str = "SELECT c FROM sbtest1 WHERE id=5000";

const LOAD_CORE: usize = 0;
const PROXY_CORE: usize = 1;

/// Clients that run a statement all the time.
const BUSY: usize = 16;

/// Idle clients that log in at the same time.
const AT_ONCE: usize = 50;

/// Scrapes without load.
const QUIET: usize = 20;
