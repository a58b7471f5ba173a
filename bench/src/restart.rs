//! What clients notice when a worker process dies: how long a connect takes at that moment, and how many fail.

use std::fs;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use crate::process::{self, Process};

/// Options of `restart`.
#[derive(Debug, Args)]
pub struct RestartFlags {
    /// The Narrows binary.
    #[arg(long, default_value = "target/release/narrows")]
    narrows: PathBuf,
    /// How many worker processes are killed per configuration.
    #[arg(long, default_value_t = 9)]
    kills: usize,
    /// The longest gap allowed, in milliseconds.
    #[arg(long, default_value_t = 15.0)]
    most_ms: f64,
}

/// Rows of a configuration.
#[derive(Debug, Clone, Copy)]
struct Size {
    users: usize,
    servers: usize,
    rules: usize,
}

const SIZES: [Size; 2] =
    [Size { users: 1, servers: 1, rules: 0 }, Size { users: 10_000, servers: 1_000, rules: 10_000 }];

/// Narrows with its supervisor, in a folder of its own.
struct Subject {
    process: Process,
    address: SocketAddr,
    /// From its start to the first answer.
    started_in: Duration,
    _folder: tempfile::TempDir,
}

/// Runs the measurement; an error if anything could not be measured, or a client was refused.
pub fn run(flags: &RestartFlags) -> io::Result<()> {
    let (_mock, server) = Process::start_own(None, &["mock-server".to_owned()])?;
    measure_gaps(flags, &server)?;
    measure_connects(flags, &server)
}

/// How long nobody answers a connect.
fn measure_gaps(flags: &RestartFlags, server: &str) -> io::Result<()> {
    println!(
        "{:>7} {:>8} {:>7} {:>9} {:>6} {:>10} {:>10} {:>10} {:>8}",
        "users", "servers", "rules", "start ms", "kills", "least ms", "median ms", "longest ms", "refused"
    );
    for size in SIZES {
        let subject = start(&flags.narrows, size, server)?;
        let (mut gaps, refused) = gaps(&subject, flags.kills)?;
        gaps.sort_by(f64::total_cmp);
        let longest = gaps.last().copied().unwrap_or_default();
        let remark = if longest > flags.most_ms { "  !! above the limit" } else { "" };
        println!(
            "{:>7} {:>8} {:>7} {:>9.0} {:>6} {:>10.2} {:>10.2} {:>10.2} {refused:>8}{remark}",
            size.users,
            size.servers,
            size.rules,
            subject.started_in.as_secs_f64() * 1_000.0,
            gaps.len(),
            gaps.first().copied().unwrap_or_default(),
            gaps.get(gaps.len() / 2).copied().unwrap_or_default(),
            longest,
        );
        if refused > 0 {
            return Err(io::Error::other(format!("{refused} clients were refused")));
        }
    }
    Ok(())
}

/// How long connects take, and how many fail.
fn measure_connects(flags: &RestartFlags, server: &str) -> io::Result<()> {
    println!(
        "\n3,000 connects with a statement each, every 2 ms by each thread, while five worker processes are killed:"
    );
    println!("{:>8} {:>6} {:>8} {:>6} {:>12}", "threads", "OK", "refused", "lost", "longest ms");
    for threads in ["1", "8"] {
        let subject = start(&flags.narrows, SIZES[0], server)?;
        let report = connect_speed(&flags.narrows, &subject, threads)?;
        let number = |value: &Value| value.as_f64().unwrap_or_default();
        println!(
            "{threads:>8} {:>6} {:>8} {:>6} {:>12.2}",
            report["ok"],
            report["refused"],
            report["lost"],
            number(&report["connect_us"]["max"]) / 1_000.0
        );
    }
    Ok(())
}

fn start(narrows: &Path, size: Size, server: &str) -> io::Result<Subject> {
    let folder = tempfile::tempdir()?;
    let (address, admin) = (process::free_address()?, process::free_address()?);
    let file = folder.path().join("narrows.toml");
    fs::write(&file, configuration(size, address, admin, server)?)?;
    let log = folder.path().join("log");
    let arguments =
        ["-f", "-n", "-c", &file.display().to_string(), "-D", &folder.path().display().to_string()];
    let began = Instant::now();
    let mut process = Process::start("narrows", None, narrows, &arguments.map(str::to_owned), &log)?;
    process.wait_for_port(address, &log)?;
    greeting(address)?;
    Ok(Subject { process, address, started_in: began.elapsed(), _folder: folder })
}

fn configuration(size: Size, address: SocketAddr, admin: SocketAddr, server: &str) -> io::Result<String> {
    let no_address = || io::Error::other(format!("the mock server listens at {server}"));
    let (host, port) = server.rsplit_once(':').ok_or_else(no_address)?;
    let mut text = format!(
        "drain_timeout = 0\n[admin_variables]\nmysql_ifaces = \"{admin}\"\n[mysql_variables]\ninterfaces = \"{address}\"\nthreads = 2\n"
    );
    for index in 0..size.servers {
        let port = if index == 0 { port } else { "1" };
        text.push_str(&format!(
            "[[mysql_servers]]\nhostgroup_id = {index}\nhostname = \"{host}\"\nport = {port}\n"
        ));
    }
    for index in 0..size.users {
        let name = if index == 0 { "bench".to_owned() } else { format!("user_{index}") };
        text.push_str(&format!("[[mysql_users]]\nusername = \"{name}\"\npassword = \"bench\"\n"));
    }
    for index in 1..=size.rules {
        text.push_str(&format!(
            "[[mysql_query_rules]]\nrule_id = {index}\nactive = 1\nmatch_digest = \"^SELECT .* FROM nothing_{index:06} WHERE .*$\"\ndestination_hostgroup = 0\napply = 1\n"
        ));
    }
    Ok(text)
}

/// Kills one worker process after another; returns the time from each death to the end of the first connect that began
/// after it, in ms, and how many connects were refused in the meantime.
fn gaps(subject: &Subject, kills: usize) -> io::Result<(Vec<f64>, usize)> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let connects = scope.spawn(|| connect_until(&done, subject.address));
        let mut deaths = Vec::new();
        let outcome = (0..kills).try_for_each(|_| {
            let worker = subject.process.worker_process()?;
            std::thread::sleep(WORK);
            deaths.push(Instant::now());
            process::kill(worker);
            subject.process.wait_for_another(worker)
        });
        std::thread::sleep(Duration::from_millis(100));
        done.store(true, Ordering::Relaxed);
        let connects = connects.join().expect("a thread that only connects");
        outcome?;
        let gap = |death: &Instant| {
            let mut after = connects.iter().filter(|connect| connect.begun >= *death && connect.is_good);
            let first = after.next().ok_or_else(|| io::Error::other("no more clients were served"))?;
            Ok((first.ended - *death).as_secs_f64() * 1_000.0)
        };
        let gaps = deaths.iter().map(gap).collect::<io::Result<Vec<f64>>>()?;
        Ok((gaps, connects.iter().filter(|connect| connect.is_refused).count()))
    })
}

/// One connect up to the first byte of the greeting.
struct Connect {
    begun: Instant,
    ended: Instant,
    is_good: bool,
    is_refused: bool,
}

fn connect_until(done: &AtomicBool, address: SocketAddr) -> Vec<Connect> {
    let mut connects = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let outcome = greeting(address);
        let is_refused =
            outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        connects.push(Connect { begun, ended: Instant::now(), is_good: outcome.is_ok(), is_refused });
        std::thread::sleep(PACE);
    }
    connects
}

fn greeting(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.read_exact(&mut [0])
}

fn connect_speed(narrows: &Path, subject: &Subject, threads: &str) -> io::Result<Value> {
    let child = Command::new(narrows)
        .args(["connect-speed", "-i", "2000", "-c", "3000", "-q", "1", "-t", threads, "--json"])
        .args(["-u", "bench", "-p", "bench", "-P", &subject.address.port().to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    for _ in 0..5 {
        let worker = subject.process.worker_process()?;
        std::thread::sleep(Duration::from_millis(100));
        process::kill(worker);
        subject.process.wait_for_another(worker)?;
    }
    let output = child.wait_with_output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// How long a worker process serves before it is killed. If this were much shorter, the supervisor would conclude from
/// several deaths in a row that worker processes cannot start, and would delay the next one.
const WORK: Duration = Duration::from_millis(400);

/// Pause between two connects.
const PACE: Duration = Duration::from_micros(500);

/// Much longer than any gap.
const PATIENCE: Duration = Duration::from_secs(10);
