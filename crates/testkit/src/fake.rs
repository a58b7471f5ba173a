//! A scripted MySQL server in the test's own process, for what a real server cannot be made to do on demand.
//!
//! A test writes a [`Conversation`]: which statement gets which [`Move`]. Statements without a script get OK, so that
//! those with which a proxy prepares a connection need none. Everything received is recorded per connection.

use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::Endpoint;
use crate::protocol::{Packet, capability, command, writer};

/// What the server does next.
#[derive(Debug, Clone)]
pub enum Move {
    /// Sends these payloads as packets, numbered on from the client's.
    Reply(Vec<Vec<u8>>),
    /// Sends bytes unchanged.
    Bytes(Vec<u8>),
    /// Sends this payload as rows without end, until the client closes the connection.
    Endless(Vec<u8>),
    /// Closes the connection.
    Close,
    /// Closes the connection with a reset.
    Reset,
    /// Sends nothing more and keeps the connection open until the client closes it.
    Hang,
    /// Waits until the test calls [`FakeMysql::release`].
    Wait,
    /// Sleeps for this long: it makes a slow server, and is not a way to wait for anything.
    Take(Duration),
}

impl Move {
    /// An OK packet.
    pub fn ok() -> Move {
        Move::Reply(vec![writer::ok(0, 0, AUTOCOMMIT, 0)])
    }

    /// An ERR packet.
    pub fn error(code: u16, state: &str, message: &str) -> Move {
        Move::Reply(vec![writer::error(code, state, message)])
    }

    /// A result set of one text column, for a client without DEPRECATE_EOF.
    pub fn rows(column: &str, cells: &[&str]) -> Move {
        let mut payloads = head_of_rows(column);
        payloads.extend(cells.iter().map(|cell| writer::row(&[Some(cell)])));
        payloads.push(writer::eof(AUTOCOMMIT, 0));
        Move::Reply(payloads)
    }

    /// A result set of one row, its columns by name.
    pub fn row(cells: &[(&str, &str)]) -> Move {
        let mut payloads = vec![vec![cells.len() as u8]];
        payloads.extend(cells.iter().map(|(name, _)| writer::column(name)));
        payloads.push(writer::eof(AUTOCOMMIT, 0));
        payloads.push(writer::row(&cells.iter().map(|(_, cell)| Some(*cell)).collect::<Vec<_>>()));
        payloads.push(writer::eof(AUTOCOMMIT, 0));
        Move::Reply(payloads)
    }

    /// The part of such a result set before its rows.
    pub fn beginning_of_rows(column: &str) -> Move {
        Move::Reply(head_of_rows(column))
    }
}

fn head_of_rows(column: &str) -> Vec<Vec<u8>> {
    vec![vec![1], writer::column(column), writer::eof(AUTOCOMMIT, 0)]
}

const AUTOCOMMIT: u16 = 2;

/// Parts of what Narrows asks by itself about the defaults of a server, once or at intervals: it is answered with OK and not
/// recorded, so that tests need not count it.
const OF_DEFAULTS: [&str; 7] = [
    "SELECT CAST(@@GLOBAL.init_connect AS BINARY)",
    "SELECT @@GLOBAL.log_bin AND NOT",
    "SELECT @@SESSION.max_statement_time <>",
    "SELECT CAST(VARIABLE_NAME AS BINARY)",
    "SELECT CAST(SCHEMA_NAME AS BINARY)",
    "SELECT CAST(CURRENT_ROLE() AS BINARY)",
    "SELECT CAST(@@session.session_track_schema AS BINARY)",
];

/// One command as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Which connection, counted from 0 in the order in which they were opened.
    pub connection: usize,
    /// The command's code.
    pub code: u8,
    /// Its body as text.
    pub body: String,
}

/// Which answer the server gives to what.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    instead_of_greeting: Option<Vec<Move>>,
    instead_of_login: Option<Vec<Move>>,
    at_ping: Option<Vec<Move>>,
    script: Vec<(String, Vec<Move>)>,
    /// The answer to commands with these codes, whatever their contents.
    commands: Vec<(u8, Vec<Move>)>,
    /// Decides before the script.
    decides: Option<Decides>,
    /// Capabilities offered in the greeting besides the usual ones.
    capabilities: u32,
}

/// A function of a test: what a command gets; `None`: what the script says.
#[derive(Clone)]
struct Decides(Arc<Decide>);

type Decide = dyn Fn(&Received) -> Option<Vec<Move>> + Send + Sync;

impl std::fmt::Debug for Decides {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decides")
    }
}

impl Conversation {
    /// A conversation in which every login succeeds and every command gets OK.
    pub fn new() -> Conversation {
        Conversation::default()
    }

    /// What a new connection gets instead of the greeting.
    #[must_use]
    pub fn at_connect(mut self, moves: &[Move]) -> Conversation {
        self.instead_of_greeting = Some(moves.to_vec());
        self
    }

    /// The reply to the handshake response, instead of OK.
    #[must_use]
    pub fn at_login(mut self, moves: &[Move]) -> Conversation {
        self.instead_of_login = Some(moves.to_vec());
        self
    }

    /// The reply to a `COM_PING`, instead of OK.
    #[must_use]
    pub fn on_ping(mut self, moves: &[Move]) -> Conversation {
        self.at_ping = Some(moves.to_vec());
        self
    }

    /// The reply to this statement, every time.
    #[must_use]
    pub fn on(mut self, statement: &str, moves: &[Move]) -> Conversation {
        self.script.push((statement.to_owned(), moves.to_vec()));
        self
    }

    /// The reply to every command with this code, instead of OK.
    #[must_use]
    pub fn on_command(mut self, code: u8, moves: &[Move]) -> Conversation {
        self.commands.push((code, moves.to_vec()));
        self
    }

    /// Lets a function decide before the script: for a server that remembers. `None` leaves a command to the script.
    #[must_use]
    pub fn deciding(
        mut self,
        decides: impl Fn(&Received) -> Option<Vec<Move>> + Send + Sync + 'static,
    ) -> Conversation {
        self.decides = Some(Decides(Arc::new(decides)));
        self
    }

    /// Offers more capabilities in the greeting.
    #[must_use]
    pub fn offering(mut self, capabilities: u32) -> Conversation {
        self.capabilities |= capabilities;
        self
    }

    fn moves_for(&self, received: &Received) -> Vec<Move> {
        if let Some(moves) = self.decides.as_ref().and_then(|decides| (decides.0)(received)) {
            return moves;
        }
        if let Some((_, moves)) = self.commands.iter().find(|(code, _)| *code == received.code) {
            return moves.clone();
        }
        let scripted = |(statement, _): &&(String, Vec<Move>)| {
            received.code == command::QUERY && received.body == *statement
        };
        match (self.script.iter().find(scripted), &self.at_ping) {
            (Some((_, moves)), _) => moves.clone(),
            (None, Some(moves)) if received.code == command::PING => moves.clone(),
            (None, _) => vec![Move::ok()],
        }
    }
}

/// A running fake server; stops when dropped.
#[derive(Debug)]
pub struct FakeMysql {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    conversation: Mutex<Conversation>,
    stopped: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    received: Vec<Received>,
    logins: Vec<u32>,
    streams: Vec<TcpStream>,
    open: usize,
    releases: usize,
}

impl FakeMysql {
    /// Starts it on a port of its own.
    pub fn start(conversation: Conversation) -> FakeMysql {
        FakeMysql::start_on(0, conversation)
    }

    /// A port of 127.0.0.1 on which nobody listens: for a server that is down. It is below those that the kernel
    /// chooses by itself (`net.ipv4.ip_local_port_range`, from 32768), so that no other test server gets it.
    ///
    /// # Panics
    /// If there is none.
    pub fn nobody() -> u16 {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let ports = 10_000..30_000;
        let first = std::process::id().wrapping_mul(131);
        let next = |_| {
            let number = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
            ports.start + (number % ports.len() as u32) as u16
        };
        let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
        (0..ports.len()).map(next).find(is_free).expect("a free port")
    }

    /// The payload of its greeting, for a server that a test implements itself.
    pub fn greeting(connection_id: u32) -> Vec<u8> {
        greeting(connection_id, 0)
    }

    /// Starts it on a given port: for a server that comes back.
    pub fn start_on(port: u16, conversation: Conversation) -> FakeMysql {
        FakeMysql::start_at("127.0.0.1", port, conversation)
    }

    /// Starts it on a given address of this machine, such as 127.0.0.2: for a host name whose address changes.
    pub fn start_at(address: &str, port: u16, conversation: Conversation) -> FakeMysql {
        let listener = TcpListener::bind((address, port)).expect("bind a port for the fake server");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared {
            conversation: Mutex::new(conversation),
            stopped: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let acceptor = shared.clone();
        std::thread::spawn(move || accept(&listener, &acceptor));
        FakeMysql { address, shared }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Its endpoint.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::local(self.port())
    }

    /// Changes the conversation from now on, on every connection.
    pub fn say(&self, conversation: Conversation) {
        *self.shared.conversation.lock().expect("no panic while held") = conversation;
    }

    /// Every command received so far.
    pub fn received(&self) -> Vec<Received> {
        self.shared.lock().received.clone()
    }

    /// The capability flags of every login so far.
    pub fn logins(&self) -> Vec<u32> {
        self.shared.lock().logins.clone()
    }

    /// How many connections have been opened so far.
    pub fn connections(&self) -> usize {
        self.shared.lock().streams.len()
    }

    /// How many connections are open.
    pub fn open_connections(&self) -> usize {
        self.shared.lock().open
    }

    /// Waits until a COM_QUERY with this text has been received; returns the first connection that sent it.
    ///
    /// # Panics
    /// If it has not been received after 30 seconds.
    pub fn wait_for(&self, statement: &str) -> usize {
        self.shared.wait_until(&format!("no {statement}"), |state| {
            let wanted = |received: &&Received| received.code == command::QUERY && received.body == statement;
            state.received.iter().find(wanted).map(|received| received.connection)
        })
    }

    /// Waits until a COM_QUERY with this text has been received this many times.
    ///
    /// # Panics
    /// If it has not been after 30 seconds.
    pub fn wait_for_times(&self, statement: &str, times: usize) {
        self.shared.wait_until(&format!("not {times} of {statement}"), |state| {
            let wanted = |received: &&Received| received.code == command::QUERY && received.body == statement;
            (state.received.iter().filter(wanted).count() >= times).then_some(())
        });
    }

    /// Waits until this many connections are open.
    ///
    /// # Panics
    /// If there are not after 30 seconds.
    pub fn wait_for_open(&self, count: usize) {
        self.shared
            .wait_until(&format!("not {count} connections"), |state| (state.open == count).then_some(()));
    }

    /// Lets one [`Move::Wait`] continue.
    pub fn release(&self) {
        self.shared.lock().releases += 1;
        self.shared.changed.notify_all();
    }

    /// Closes all current connections.
    pub fn hang_up(&self) {
        for stream in &self.shared.lock().streams {
            // It does not matter if one is already closed.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for FakeMysql {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.hang_up();
        self.shared.changed.notify_all();
        // Wakes the accept, which then sees the flag; if this fails, the thread ends with the process.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no panic while held")
    }

    fn wait_until<T>(&self, complaint: &str, condition: impl Fn(&State) -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut state = self.lock();
        loop {
            if let Some(value) = condition(&state) {
                return value;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{complaint} after 30 s; received: {:?}", state.received);
            state = self.changed.wait_timeout(state, left).expect("no panic while held").0;
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming().flatten() {
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        let connection = {
            let mut state = shared.lock();
            state.streams.push(stream.try_clone().expect("a file descriptor"));
            state.open += 1;
            state.streams.len() - 1
        };
        shared.changed.notify_all();
        let shared = shared.clone();
        std::thread::spawn(move || {
            // A peer that disconnects is an expected event.
            let _ = converse(&stream, connection, &shared);
            let _ = stream.shutdown(Shutdown::Both);
            shared.lock().open -= 1;
            shared.changed.notify_all();
        });
    }
}

/// One connection from its greeting to its end.
fn converse(mut stream: &TcpStream, connection: usize, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let conversation = || shared.conversation.lock().expect("no panic while held").clone();
    if let Some(moves) = conversation().instead_of_greeting {
        perform(stream, &moves, 0, shared)?;
        return Ok(());
    }
    Packet::write(&mut stream, &greeting(connection as u32 + 1, conversation().capabilities), 0)?;
    let response = Packet::read(&mut stream)?;
    if let Some(flags) = response.payload.first_chunk::<4>() {
        shared.lock().logins.push(u32::from_le_bytes(*flags));
    }
    let moves = conversation().instead_of_login.unwrap_or_else(|| vec![Move::ok()]);
    if !perform(stream, &moves, response.sequence.wrapping_add(1), shared)? {
        return Ok(());
    }
    loop {
        let packet = Packet::read(&mut stream)?;
        let Some((code, body)) = packet.payload.split_first() else { return Ok(()) };
        let body = String::from_utf8_lossy(body).into_owned();
        if *code == command::QUERY && OF_DEFAULTS.iter().any(|question| body.contains(question)) {
            perform(stream, &[Move::ok()], packet.sequence.wrapping_add(1), shared)?;
            continue;
        }
        let received = Received { connection, code: *code, body };
        shared.lock().received.push(received.clone());
        shared.changed.notify_all();
        if *code == command::QUIT {
            return Ok(());
        }
        let moves = conversation().moves_for(&received);
        if !perform(stream, &moves, packet.sequence.wrapping_add(1), shared)? {
            return Ok(());
        }
    }
}

/// Makes the moves; returns whether the connection stays open.
fn perform(
    mut stream: &TcpStream,
    moves: &[Move],
    mut sequence: u8,
    shared: &Shared,
) -> std::io::Result<bool> {
    use std::io::Write;
    for one in moves {
        match one {
            Move::Reply(payloads) => {
                for payload in payloads {
                    sequence = Packet::write(&mut stream, payload, sequence)?;
                }
            }
            Move::Bytes(bytes) => stream.write_all(bytes)?,
            Move::Endless(payload) => loop {
                sequence = Packet::write(&mut stream, payload, sequence)?;
            },
            Move::Close => return Ok(false),
            Move::Reset => {
                linger_zero(stream);
                return Ok(false);
            }
            Move::Hang => {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer)? > 0 {}
                return Ok(false);
            }
            Move::Take(time) => std::thread::sleep(*time),
            Move::Wait => {
                let mut state = shared.lock();
                while state.releases == 0 && !shared.stopped.load(Ordering::SeqCst) {
                    state = shared.changed.wait(state).expect("no panic while held");
                }
                state.releases = state.releases.saturating_sub(1);
            }
        }
    }
    Ok(true)
}

/// Makes the close of this connection a reset.
pub(crate) fn linger_zero(stream: &TcpStream) {
    use std::os::fd::AsRawFd;
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the descriptor is open and the option's value has the size given.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        );
    }
}

/// A greeting like MySQL 8's, with a plugin for which any password is accepted: the answer is not checked.
pub(crate) fn greeting(connection_id: u32, more: u32) -> Vec<u8> {
    let capabilities = more
        | capability::USUAL
        | capability::FOUND_ROWS
        | capability::CONNECT_WITH_DB
        | capability::MULTI_STATEMENTS
        | capability::CONNECT_ATTRS;
    let mut payload = vec![10];
    payload.extend(b"8.0.40-fake\0");
    payload.extend(connection_id.to_le_bytes());
    payload.extend(b"12345678\0");
    payload.extend(&capabilities.to_le_bytes()[..2]);
    payload.push(33);
    payload.extend(AUTOCOMMIT.to_le_bytes());
    payload.extend(&capabilities.to_le_bytes()[2..]);
    payload.push(21);
    payload.extend([0; 10]);
    payload.extend(b"901234567890\0mysql_native_password\0");
    payload
}
