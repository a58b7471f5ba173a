//! A server as those of RDS are: it wants TLS, asks for the password in clear text, and takes it for a token of AWS IAM. It
//! signs what the token says itself and compares the signatures.
//!
//! Its accounts are those whose tokens are right. Every statement succeeds.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use sha2::{Digest, Sha256};

use crate::certificates::Certificate;
use crate::fake;
use crate::issuer::seconds_from_now;
use crate::protocol::{Packet, capability, command, writer};

/// A key that the server knows.
#[derive(Debug, Clone)]
pub struct AwsKey {
    /// Its name.
    pub id: String,
    /// The key.
    pub secret: String,
    /// What belongs to it.
    pub session: Option<String>,
    /// Seconds since 1970 from which it is of no use.
    pub until: Option<i64>,
}

/// A login that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenAttempt {
    /// The account.
    pub user: String,
    /// The name of the key; empty if there was no token.
    pub key: String,
    /// Why it was refused; empty if it was not.
    pub refused: String,
}

/// A running server; stops when dropped.
#[derive(Debug)]
pub struct FakeRds {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    port: u16,
    region: String,
    tls: Arc<ServerConfig>,
    keys: Mutex<Vec<AwsKey>>,
    attempts: Mutex<Vec<TokenAttempt>>,
    streams: Mutex<Vec<TcpStream>>,
    /// How far the server's clock is ahead, in seconds.
    ahead_s: AtomicI64,
    /// Whether its errors have the token in them.
    repeats: AtomicBool,
    stopped: AtomicBool,
}

impl FakeRds {
    /// Starts it on a port of its own of 127.0.0.1, in a region.
    ///
    /// # Panics
    /// If there is no port, or the certificate is none.
    pub fn start(certificate: &Certificate, region: &str) -> FakeRds {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let shared = Arc::new(Shared {
            port,
            region: region.to_owned(),
            tls: certificate.server_config(),
            keys: Mutex::default(),
            attempts: Mutex::default(),
            streams: Mutex::default(),
            ahead_s: AtomicI64::new(0),
            repeats: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        });
        let acceptor = Arc::clone(&shared);
        std::thread::spawn(move || acceptor.accept(&listener));
        FakeRds { port, shared }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Knows a key from now on, in the place of the one with that name.
    pub fn know(&self, key: AwsKey) {
        let mut keys = self.shared.keys.lock().expect("no panic while held");
        keys.retain(|known| known.id != key.id);
        keys.push(key);
    }

    /// Sets its clock ahead.
    pub fn set_ahead(&self, seconds: i64) {
        self.shared.ahead_s.store(seconds, Ordering::SeqCst);
    }

    /// From now on, its errors have the token in them that they are about.
    pub fn repeat_tokens(&self) {
        self.shared.repeats.store(true, Ordering::SeqCst);
    }

    /// All logins so far.
    pub fn attempts(&self) -> Vec<TokenAttempt> {
        self.shared.attempts.lock().expect("no panic while held").clone()
    }

    /// How many connections were opened.
    pub fn connections(&self) -> usize {
        self.shared.streams.lock().expect("no panic while held").len()
    }

    /// Closes all current connections.
    pub fn hang_up(&self) {
        for stream in self.shared.streams.lock().expect("no panic while held").iter() {
            // It does not matter if one is already closed.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for FakeRds {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.hang_up();
        // Wakes the accept, which then sees the flag.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

type Secure = StreamOwned<ServerConnection, TcpStream>;

impl Shared {
    fn accept(self: &Arc<Shared>, listener: &TcpListener) {
        for stream in listener.incoming().flatten() {
            if self.stopped.load(Ordering::SeqCst) {
                return;
            }
            let copy = stream.try_clone().expect("a file descriptor");
            self.streams.lock().expect("no panic while held").push(copy);
            let shared = Arc::clone(self);
            // A peer that disconnects is an expected event.
            std::thread::spawn(move || drop(shared.converse(stream)));
        }
    }

    fn converse(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        Packet::write(&mut stream, &fake::greeting(1, capability::SSL), 0)?;
        let request = Packet::read(&mut stream)?;
        let flags = request.payload.first_chunk::<4>().map_or(0, |flags| u32::from_le_bytes(*flags));
        if flags & capability::SSL == 0 {
            self.note("", "", "the login was not encrypted");
            let error = writer::error(3159, "HY000", "Connections using insecure transport are prohibited");
            return Packet::write(&mut stream, &error, request.sequence + 1).map(drop);
        }
        let tls = ServerConnection::new(Arc::clone(&self.tls)).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(tls, stream);
        let login = Packet::read(&mut stream)?;
        let user = login.payload.get(32..).unwrap_or_default();
        if !self.log_in(&mut stream, user, login.sequence)? {
            return Ok(());
        }
        loop {
            let packet = Packet::read(&mut stream)?;
            match packet.first() {
                command::QUIT => return Ok(()),
                command::CHANGE_USER => {
                    if !self.log_in(&mut stream, &packet.payload[1..], packet.sequence)? {
                        return Ok(());
                    }
                }
                _ => drop(Packet::write(&mut stream, &writer::ok(0, 0, 2, 0), packet.sequence + 1)?),
            }
            stream.flush()?;
        }
    }

    /// Asks for the token of the account whose name `user` begins with; returns whether it is right.
    fn log_in(&self, stream: &mut Secure, user: &[u8], sequence: u8) -> io::Result<bool> {
        let user =
            String::from_utf8_lossy(user.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
        Packet::write(stream, b"\xFEmysql_clear_password\0", sequence + 1)?;
        stream.flush()?;
        let answer = Packet::read(stream)?;
        let token =
            String::from_utf8_lossy(answer.payload.strip_suffix(b"\0").unwrap_or_default()).into_owned();
        let outcome = self.verify(&token, &user);
        let payload = match &outcome {
            Ok(_) => writer::ok(0, 0, 2, 0),
            Err(_) => {
                let mut message =
                    format!("Access denied for user '{user}'@'127.0.0.1' (using password: YES)");
                if self.repeats.load(Ordering::SeqCst) {
                    message = format!("{message}: {token}");
                }
                writer::error(1045, "28000", &message)
            }
        };
        match &outcome {
            Ok(key) => self.note(&user, key, ""),
            Err((key, why)) => self.note(&user, key, why),
        }
        Packet::write(stream, &payload, answer.sequence + 1)?;
        stream.flush()?;
        Ok(outcome.is_ok())
    }

    fn note(&self, user: &str, key: &str, refused: &str) {
        let attempt =
            TokenAttempt { user: user.to_owned(), key: key.to_owned(), refused: refused.to_owned() };
        self.attempts.lock().expect("no panic while held").push(attempt);
    }

    /// The name of the key of a right token; of another one, why it is not.
    fn verify(&self, token: &str, user: &str) -> Result<String, (String, String)> {
        let (host, query) = token.split_once("/?").unwrap_or_default();
        let (signed, signature) = query.split_once("&X-Amz-Signature=").unwrap_or_default();
        let parameters: HashMap<&str, String> = signed
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, it)| (name, decoded(it)))
            .collect();
        let value = |name: &str| parameters.get(name).map(String::as_str).unwrap_or_default();
        let credential: Vec<&str> = value("X-Amz-Credential").split('/').collect();
        let [id, day, region, "rds-db", "aws4_request"] = credential[..] else {
            return Err((String::new(), format!("no token: {} bytes", token.len())));
        };
        let wrong = |what: &str| Err((id.to_owned(), what.to_owned()));
        let now = seconds_from_now(0) + self.ahead_s.load(Ordering::SeqCst);
        let keys = self.keys.lock().expect("no panic while held").clone();
        let Some(key) = keys.iter().find(|key| key.id == id) else { return wrong("an unknown key") };
        if key.until.is_some_and(|until| until <= now) {
            return wrong("an expired key");
        }
        if host != format!("127.0.0.1:{}", self.port) || region != self.region {
            return wrong("another server");
        }
        if value("Action") != "connect" || value("DBUser") != user {
            return wrong("another account");
        }
        if value("X-Amz-Security-Token") != key.session.as_deref().unwrap_or_default() {
            return wrong("another session token");
        }
        let moment = value("X-Amz-Date");
        let age = now - seconds(moment).unwrap_or(0);
        if value("X-Amz-Expires") != "900" || !(-300..900).contains(&age) || !moment.starts_with(day) {
            return wrong("not now");
        }
        let scope = format!("{day}/{region}/rds-db/aws4_request");
        match signed_by(&key.secret, (host, signed), moment, &scope) == signature {
            true => Ok(id.to_owned()),
            false => wrong("a wrong signature"),
        }
    }
}

/// The signature of a request to a host with that query.
fn signed_by(secret: &str, (host, query): (&str, &str), moment: &str, scope: &str) -> String {
    let empty = hex(&Sha256::digest(b""));
    let canonical = format!("GET\n/\n{query}\nhost:{host}\n\nhost\n{empty}");
    let text = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let first = format!("AWS4{secret}").into_bytes();
    let key = scope.split('/').fold(first, |key, part| hmac(&key, part.as_bytes()));
    hex(&hmac(&key, text.as_bytes()))
}

/// HMAC (RFC 2104) with SHA-256, for keys of at most one block.
fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let padded = |mask: u8| {
        let mut block = [mask; 64];
        block.iter_mut().zip(key).for_each(|(to, byte)| *to ^= byte);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5C)).chain_update(inner).finalize().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16)).unwrap_or(0) as u8;
        out.push(if byte == b'%' { digit() * 16 + digit() } else { byte });
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The seconds since 1970 of `20150830T123600Z`.
fn seconds(moment: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| moment.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(4..6)?, number(6..8)?);
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let of_years: i64 = (1970..year).map(|year| 365 + i64::from(is_leap(year))).sum();
    let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let of_months: i64 = lengths.iter().take(usize::try_from(month).ok()? - 1).sum();
    let of_day = number(9..11)? * 3_600 + number(11..13)? * 60 + number(13..15)?;
    Some((of_years + of_months + day - 1) * 86_400 + of_day)
}
