//! What TLS costs: CPU of a point select with and without it, and of a connect compared with HAProxy's TLS termination.
//!
//! The client is blocking and runs rustls in its own process: only the proxies' CPU is measured, as accounted by the
//! kernel. HAProxy speaks TLS from the first byte, Narrows after a greeting, and Narrows' connect includes the login;
//! no sessions are resumed, no certificate is checked, and both present the same one (P-256).

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use crate::codec::{Greeting, HEADER, capability, native_scramble, payload_length, put_packet, write_login};
use crate::idle::{REST, resident_kib};
use crate::peers::{self, Account, NARROWS, Setup};
use crate::process::{self, Process, find_program, free_address};
use crate::socket::Address;

/// Flags of `narrows-bench tls`.
#[derive(Debug, clap::Args)]
pub struct TlsFlags {
    /// The Narrows to measure.
    #[arg(long, default_value = "target/release/narrows")]
    narrows: PathBuf,
    /// Rounds of each measurement.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of each round.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Nice value while measuring; needs root below zero.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    nice: i32,
}

/// Connections with a statement in progress at the same time.
const CONNECTIONS: usize = 64;

/// Idle clients whose memory is measured.
const IDLE: usize = 1_000;

const STATEMENT: &[u8] = b"SELECT c FROM sbtest1 WHERE id=5000";

/// Measures and prints.
pub fn run(flags: &TlsFlags) -> io::Result<()> {
    let _priority = if flags.nice == 0 { None } else { Some(process::Priority::set(flags.nice)?) };
    let (_mock, primary) = Process::start_own(Some(0), &["mock-server".to_owned()])?;
    let folder = tempfile::tempdir()?;
    let setup = Setup {
        primary,
        replicas: Vec::new(),
        account: Account { user: "bench".to_owned(), password: "bench".to_owned() },
        folder: folder.path(),
        core: Some(1),
        narrows: &flags.narrows,
        rules: peers::Rules::default(),
        max_stmts: None,
        baseline: None,
        other: None,
        counted: None,
        variables: &[],
    };
    let start = peers::choose(&[NARROWS.to_owned()])?[0].start;
    let narrows = start(&setup)?;
    let (Address::Tcp(address), Some(narrows)) = (narrows.address, narrows.process) else {
        return Err(io::Error::other("narrows listens on TCP"));
    };
    let (haproxy_address, haproxy) = start_haproxy(&setup)?;
    process::pin_to(0)?;
    let config = client_config();
    let window = Duration::from_secs_f64(flags.seconds);

    let mut plain = Vec::new();
    let mut secure = Vec::new();
    let mut connects = Vec::new();
    let mut haproxy_connects = Vec::new();
    for _ in 0..flags.rounds {
        plain.push(selects(&narrows, window, || Connection::open(address, None))?);
        secure.push(selects(&narrows, window, || Connection::open(address, Some(&config)))?);
        connects.push(per_turn(&narrows, window, || Connection::open(address, Some(&config)).map(drop))?);
        haproxy_connects.push(per_turn(&haproxy, window, || terminated(haproxy_address, &config))?);
    }
    let idle = idle(&narrows, || Connection::open(address, Some(&config)))?;
    let [plain, secure, connects, haproxy] =
        [plain, secure, connects, haproxy_connects].map(|mut rounds| median(&mut rounds));
    println!("CPU of the proxy, medians of {} rounds:", flags.rounds);
    println!("  point select, plain            {plain:8.2} us");
    println!("  point select, TLS 1.3          {secure:8.2} us   {:.2} x plain", secure / plain);
    println!("  connect and login, TLS 1.3     {connects:8.1} us   {:.0} a second and core", 1e6 / connects);
    println!("  haproxy, TLS 1.3 termination   {haproxy:8.1} us   {:.0} a second and core", 1e6 / haproxy);
    println!("  memory of an idle client, TLS  {idle:8.1} KiB");
    Ok(())
}

/// CPU of a statement in microseconds, with [`CONNECTIONS`] of them in progress.
fn selects(
    proxy: &Process,
    window: Duration,
    mut open: impl FnMut() -> io::Result<Connection>,
) -> io::Result<f64> {
    let mut connections = (0..CONNECTIONS).map(|_| open()).collect::<io::Result<Vec<_>>>()?;
    let turn = |connections: &mut Vec<Connection>| -> io::Result<()> {
        connections.iter_mut().try_for_each(Connection::ask)?;
        connections.iter_mut().try_for_each(Connection::take_answer)
    };
    for _ in 0..50 {
        turn(&mut connections)?;
    }
    per_turn(proxy, window, || turn(&mut connections)).map(|all| all / CONNECTIONS as f64)
}

/// Resident memory of one more client that has run a statement and is idle, in KiB.
fn idle(proxy: &Process, mut open: impl FnMut() -> io::Result<Connection>) -> io::Result<f64> {
    let mut rest = |count: usize| -> io::Result<(Vec<Connection>, u64)> {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            let mut connection = open()?;
            connection.ask()?;
            connection.take_answer()?;
            connections.push(connection);
        }
        std::thread::sleep(REST);
        Ok((connections, resident_kib(proxy)?))
    };
    // What the first clients make the proxy allocate is not the cost of one more.
    let (_few, before) = rest(50)?;
    let (_many, after) = rest(IDLE)?;
    Ok(after.saturating_sub(before) as f64 / IDLE as f64)
}

/// CPU of the proxy for one `work`, in microseconds.
fn per_turn(proxy: &Process, window: Duration, mut work: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let before = proxy.cpu()?;
    let until = Instant::now() + window;
    let mut turns = 0_u32;
    while Instant::now() < until {
        work()?;
        turns += 1;
    }
    Ok(proxy.cpu()?.since(before).used.as_secs_f64() * 1e6 / f64::from(turns.max(1)))
}

fn median(rounds: &mut [f64]) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

/// A HAProxy that terminates TLS with the certificate that Narrows generated.
fn start_haproxy(setup: &Setup) -> io::Result<(SocketAddr, Process)> {
    let program =
        find_program("haproxy").ok_or_else(|| io::Error::other("not installed: apt-get install haproxy"))?;
    let data = setup.folder.join(format!("{NARROWS}-data"));
    let read = |name: &str| fs::read_to_string(data.join(name));
    let pem = setup.folder.join("haproxy.pem");
    fs::write(&pem, read("proxysql-cert.pem")? + &read("proxysql-key.pem")?)?;
    let listen = free_address()?;
    let file = setup.folder.join("haproxy-tls.cfg");
    let (crt, primary) = (pem.display(), &setup.primary);
    let text = format!(
        "global\n    nbthread 1\n    maxconn 8000\ndefaults\n    mode tcp\n    timeout connect 5s\n    \
         timeout client 1h\n    timeout server 1h\nlisten mysql\n    bind {listen} ssl crt {crt}\n    \
         server primary {primary}\n"
    );
    fs::write(&file, text)?;
    let log = setup.folder.join("haproxy-tls.log");
    let arguments = ["-db".to_owned(), "-f".to_owned(), file.display().to_string()];
    let mut process = Process::start("haproxy", setup.core, &program, &arguments, &log)?;
    process.wait_for_port(listen, Path::new(&log))?;
    Ok((listen, process))
}

/// A connection through HAProxy, up to the server's greeting.
fn terminated(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<()> {
    let mut stream = handshake(TcpStream::connect(address)?, config)?;
    read_packet(&mut stream).map(drop)
}

type Secure = StreamOwned<ClientConnection, TcpStream>;

fn handshake(socket: TcpStream, config: &Arc<ClientConfig>) -> io::Result<Secure> {
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, socket);
    stream.conn.complete_io(&mut stream.sock)?;
    Ok(stream)
}

/// A session with Narrows.
enum Connection {
    Plain(TcpStream),
    Secure(Box<Secure>),
}

impl Connection {
    fn open(address: SocketAddr, config: Option<&Arc<ClientConfig>>) -> io::Result<Connection> {
        let mut socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let greeting = read_packet(&mut socket)?;
        let greeting = Greeting::read(&greeting).ok_or_else(|| io::Error::other("no greeting"))?;
        let flags = capability::LONG_PASSWORD
            | capability::PROTOCOL_41
            | capability::SECURE_CONNECTION
            | capability::PLUGIN_AUTH
            | capability::PLUGIN_AUTH_LENENC
            | capability::TRANSACTIONS
            | capability::DEPRECATE_EOF;
        let mut login = Vec::new();
        let mut sequence = 1;
        let mut connection = match config {
            None => Connection::Plain(socket),
            Some(config) => {
                let mut request = Vec::new();
                put_packet(&mut request, sequence, |out| {
                    out.extend((flags | SSL).to_le_bytes());
                    out.extend([0, 0, 0, 1, 45]);
                    out.extend([0; 23]);
                });
                sequence += 1;
                socket.write_all(&request)?;
                Connection::Secure(Box::new(handshake(socket, config)?))
            }
        };
        let answer = native_scramble("bench", &greeting.salt);
        put_packet(&mut login, sequence, |out| write_login(out, flags, "bench", &answer, ""));
        connection.write(&login)?;
        match connection.read_packet()?.first() {
            Some(0) => Ok(connection),
            _ => Err(io::Error::other("login refused")),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Connection::Plain(socket) => socket.write_all(bytes),
            Connection::Secure(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }

    fn read_packet(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Connection::Plain(socket) => read_packet(socket),
            Connection::Secure(stream) => read_packet(stream),
        }
    }

    fn ask(&mut self) -> io::Result<()> {
        let mut query = Vec::with_capacity(64);
        put_packet(&mut query, 0, |out| {
            out.push(3);
            out.extend_from_slice(STATEMENT);
        });
        self.write(&query)
    }

    /// One column, one row, and the end.
    fn take_answer(&mut self) -> io::Result<()> {
        for _ in 0..4 {
            if self.read_packet()?.first() == Some(&0xFF) {
                return Err(io::Error::other("an error instead of rows"));
            }
        }
        Ok(())
    }
}

/// `CLIENT_SSL`.
const SSL: u32 = 1 << 11;

fn read_packet(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut header = [0; HEADER];
    stream.read_exact(&mut header)?;
    let mut payload = vec![0; payload_length(&header)];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}

fn client_config() -> Arc<ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has cipher suites of both versions");
    let unverified = Arc::new(Unverified(provider));
    let mut config = builder.dangerous().with_custom_certificate_verifier(unverified).with_no_client_auth();
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// Accepts any certificate: the client's cost of checking it is not measured.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
