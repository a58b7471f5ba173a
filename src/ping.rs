//! `narrows ping`: whether a Narrows answers, in one line and an exit status, for health checks of containers and scripts.
//!
//! Without an account it reads the greeting, which a worker thread sends: a process that hangs does not pass. With an
//! account it logs in and sends `COM_PING`.

use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use narrows_control::monitor::plan::Address;
use narrows_proxy::backend::{BackendError, ServerError};
use narrows_proxy::rt;
use narrows_wire::frame::{HEADER_LENGTH, Header};
use narrows_wire::handshake::Greeting;

use crate::init::address;
use crate::init::visit::{Credentials, connect};
use crate::instance::Instance;
use crate::one_line::printable;
use crate::password::Password;

/// What to connect to, and how.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct PingArgs {
    /// A name or an address with a port (6033), or the path of a Unix socket
    #[arg(value_name = "HOST:PORT", value_parser = to_clients, conflicts_with_all = ["config", "datadir", "admin"])]
    address: Option<Address>,
    #[command(flatten)]
    place: Instance,
    /// Try the admin interface instead of the one for clients
    #[arg(long)]
    admin: bool,
    /// Account to log in to
    #[arg(short = 'u', long, value_name = "NAME")]
    user: Option<String>,
    #[command(flatten)]
    password: Password,
    /// Log in with TLS, accepting any certificate
    #[arg(short = 's', long, requires = "user")]
    ssl: bool,
    /// Give up after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

/// Runs with these `args`, and returns the line to print.
///
/// # Errors
/// Why there is no answer.
pub fn run(args: PingArgs) -> anyhow::Result<String> {
    let limit = Duration::from_secs(args.timeout);
    let password = args.password.read()?;
    ensure!(password.is_none() || args.user.is_some(), "a password is given without an account: add --user");
    let password = password.unwrap_or_default();
    let account = args.user.map(|username| Credentials { username, password });
    let address = match args.address {
        Some(address) => address,
        None => configured(args.place, args.admin)?,
    };
    let (answers, answer) = mpsc::channel();
    let (place, seconds) = (printable(&address.to_string()).into_owned(), args.timeout);
    // On a thread, because nothing limits how long the resolution of a name takes.
    let probe = move || {
        let outcome = match &account {
            None => greeting(&address, limit),
            Some(account) => login(&address, account, args.ssl, limit),
        };
        // After the time limit nobody receives this.
        let _ = answers.send(outcome);
    };
    std::thread::Builder::new().spawn(probe).context("starting a thread")?;
    match answer.recv_timeout(limit) {
        Ok(Ok(what)) => Ok(format!("{place} answers: {}\n", printable(&what))),
        Ok(Err(ProbeError::Io(error))) => bail!(explained(&place, &error, seconds)),
        Ok(Err(ProbeError::Refused(reason))) => bail!("{place} {reason}"),
        Err(_) => bail!("{place} does not answer within {seconds} s"),
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum ProbeError {
    /// There is no connection, or it ended.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The answer is not the expected one; a sentence without its subject.
    #[error("{0}")]
    Refused(String),
}

/// The first address that the Narrows of `place` listens on.
pub fn configured(place: Instance, is_admin: bool) -> anyhow::Result<Address> {
    let listening = place.listening()?;
    let interfaces = if is_admin { listening.administrators } else { listening.clients };
    let Some(first) = interfaces.into_iter().next() else {
        bail!("the configuration has no address to listen on: give the address to try");
    };
    if first.starts_with('/') {
        return Ok(Address { hostname: first, port: 0 });
    }
    let mut listener: SocketAddr = first
        .parse()
        .map_err(|_| anyhow!("the configuration listens on {first:?}, which is not an address"))?;
    match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => listener.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => listener.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    ensure!(listener.port() != 0, "the configuration listens on any port: give the address to try");
    Ok(Address { hostname: listener.ip().to_string(), port: listener.port() })
}

fn to_clients(text: &str) -> Result<Address, String> {
    address::parse_with(text, 6033)
}

/// The version in the greeting.
fn greeting(address: &Address, limit: Duration) -> Result<String, ProbeError> {
    if address.port == 0 {
        let stream = UnixStream::connect(&address.hostname)?;
        stream.set_read_timeout(Some(limit))?;
        return version(&stream);
    }
    let stream = connect_tcp(address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    let version = version(&stream)?;
    let _ = stream.shutdown(Shutdown::Both);
    Ok(version)
}

/// A connection to one of the addresses that a name has.
fn connect_tcp(address: &Address, limit: Duration) -> io::Result<TcpStream> {
    let deadline = Instant::now() + limit;
    let mut failure = io::Error::other("the name has no address");
    for target in (address.hostname.as_str(), address.port).to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&target, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn version(mut stream: impl Read) -> Result<String, ProbeError> {
    let mut header = [0; HEADER_LENGTH];
    stream.read_exact(&mut header)?;
    let strange =
        || ProbeError::Refused("does not greet as Narrows does: another program listens there".to_owned());
    let length = Header::decode(&header).map_or(0, |header| header.length);
    if !(1..=LONGEST_GREETING).contains(&length) {
        return Err(strange());
    }
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload)?;
    match Greeting::decode(&payload) {
        Ok(greeting) => Ok(format!("version {}", String::from_utf8_lossy(&greeting.server_version))),
        Err(_) => match ServerError::decode(&payload) {
            Ok(error) => Err(ProbeError::Refused(refusal("refuses clients", &error))),
            Err(_) => Err(strange()),
        },
    }
}

/// Logs in and pings; returns what to report.
fn login(
    address: &Address,
    account: &Credentials,
    use_ssl: bool,
    limit: Duration,
) -> Result<String, ProbeError> {
    let username = &account.username;
    let outcome = rt::block_on(async {
        let backend = connect(address, account, use_ssl, limit).await?;
        backend.ping(limit).await?;
        backend.quit().await;
        Ok(())
    })?;
    let refused = |reason| Err(ProbeError::Refused(reason));
    match outcome {
        Ok(()) => Ok(format!("'{username}' can log in")),
        Err(BackendError::Io(error)) => Err(ProbeError::Io(error)),
        Err(BackendError::Timeout) => Err(ProbeError::Io(ErrorKind::TimedOut.into())),
        Err(BackendError::Closed) => Err(ProbeError::Io(ErrorKind::UnexpectedEof.into())),
        Err(BackendError::Server(error)) => refused(refusal(&format!("refuses '{username}'"), &error)),
        Err(BackendError::NoTls) => refused("does not offer TLS".to_owned()),
        Err(error) => refused(format!("cannot be used by '{username}': {error}")),
    }
}

fn refusal(what: &str, error: &ServerError) -> String {
    format!("{what}: error {}: {}", error.code, printable(&error.message))
}

/// What a failed connection means, in one sentence.
fn explained(place: &str, error: &io::Error, seconds: u64) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => format!("nothing listens on {place}"),
        ErrorKind::NotFound => format!("there is no socket {place}"),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => format!("{place} does not answer within {seconds} s"),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
            format!("{place} closes the connection without a greeting")
        }
        _ => format!("{place} cannot be reached: {error}"),
    }
}

/// A greeting has about a hundred bytes, and an error in its place has at most 600.
const LONGEST_GREETING: usize = 4096;

const AFTER_HELP: &str = "\
Without an address it tries the first one that the Narrows of the data folder listens on: `mysql-interfaces` as it was saved, or as
in the file. Without an account it reads the greeting. The exit status is 0 if there is an answer, and otherwise 1, with the reason.";
