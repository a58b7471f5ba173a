//! A backend connection: one login on one server, and what is known about its session.

mod align;
mod ask;
mod base;
mod connect;
mod diagnostics;
mod gtids;
mod in_use;
#[cfg(test)]
mod of_test;
mod programs;
mod reports;
mod run;
mod statements;
mod token;
mod verify;

use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use narrows_sql::Dialect;
use narrows_wire::auth::Secret;
use narrows_wire::auth::backend_side::Failure;
use narrows_wire::charset::Family;
use narrows_wire::codec::Malformed;
use narrows_wire::handshake::ConnectAttributes;
use narrows_wire::packet::Err;
use narrows_wire::{Capabilities, Errno, Status};

use crate::buffer::Buffer;
use crate::capabilities::{CLASS, OWN_CLASS};
use crate::hostgroup::{ConnectionSlot, DefaultsRead, Outdated, Server};
use crate::packets::{ReadError, payload, read_packet};
use crate::rt::{self, Instant};
use crate::snapshot::{Account, Snapshot};
use crate::state::SharedState;
use crate::stream::{DetachedStream, Stream, TlsError};

pub use ask::Table;
use base::FirstStatements;
pub use base::{Base, DefaultsSeen};
pub use connect::{connect, kill};
pub use diagnostics::{
    CLEAR_CONDITIONS, Collected, DiagnosticsReceiver, InsertId, Kinds, ResultSet, Uncollected,
};
pub use gtids::{AppliedGtids, TRACK_GTIDS, Waited, is_report};
pub use in_use::{InUse, ServerTally};
pub use programs::Programs;
pub use reports::{ClientReports, Coverage, OwnReports, Reports, TransactionReports, WantedReports};
pub use statements::{BYTES_OF_ENTRY, BackendStatement, PrepareOk, Statements};
pub use verify::{LeaseTrace, Mismatch};

/// A backend connection.
#[derive(Debug)]
pub struct Backend {
    /// Its socket. No data is in transit on it while the connection is idle.
    pub stream: Stream,
    /// What belongs to the login and not to the socket. Boxed, because connections are moved for every statement.
    pub login: Box<Login>,
    /// Set while a client uses it.
    pub in_use: Option<InUse>,
    /// Its card, which others may hold.
    card: Held,
}

/// Identifies a backend connection to those who do not own it; they can end it.
#[derive(Debug)]
pub struct Card {
    /// The server.
    pub server: Arc<Server>,
    /// The server's id of the connection.
    pub thread_id: u32,
    /// Our address and port; empty for a Unix socket.
    pub local: (String, u16),
    descriptor: i32,
    /// Whether the descriptor still belongs to the connection.
    is_open: Cell<bool>,
    /// Why it was cut off.
    cut_off: Cell<Option<&'static str>>,
}

/// A connection's own handle of its card, which ends with it.
#[derive(Debug)]
struct Held(Rc<Card>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.is_open.set(false);
    }
}

impl Card {
    /// Ends the connection: its current user sees it as lost.
    pub fn cut_off(&self, why: &'static str) {
        if self.is_open.get() && self.cut_off.get().is_none() {
            self.cut_off.set(Some(why));
            // SAFETY: the connection clears `is_open` when it is dropped, and no other code runs on this thread between
            // that and the closing of its socket.
            unsafe { rt::shut_down(self.descriptor) };
        }
    }
}

/// What is known about a backend connection.
#[derive(Debug)]
pub struct Login {
    /// The server.
    pub server: Arc<Server>,
    /// Its slot of the server's `max_connections`; a connection that only kills has none.
    slot: Option<ConnectionSlot>,
    /// The account it is logged in as.
    pub account: Arc<Account>,
    /// The negotiated capabilities.
    pub capabilities: Capabilities,
    /// Whether it uses TLS that has verified the server's certificate.
    verifies: bool,
    /// The server's family.
    pub family: Family,
    /// The server's id of this connection, which `KILL` takes.
    pub thread_id: u32,
    /// The greeting's nonce and plugin: a later `COM_CHANGE_USER` answers them.
    greeting: (narrows_wire::auth::Nonce, Vec<u8>),
    /// The state the server's session is in.
    pub state: SharedState,
    /// What the server reports.
    pub reports: Reports,
    /// What it must report of the next statement.
    pub wants_reports: WantedReports,
    /// What it reports of a session that asks for nothing; `None`: not known since the last login or reset.
    own_reports: Option<Box<OwnReports>>,
    /// A statement has ended without a report of what it has changed, which comes with a later one.
    may_report_late: bool,
    /// An answer to something of our own has shown it.
    has_news: Cell<bool>,
    /// An answer to something of our own after such a statement reports a user variable, a temporary table or a prepared
    /// statement: perhaps a program has left it.
    left_by_program: Cell<bool>,
    /// It was a statement of the client that uses the connection now.
    pub late_is_ours: bool,
    /// The connection belongs to one client, which reads its answers itself.
    is_own: bool,
    /// Whether a MySQL server is to report the GTIDs of what it writes,
    pub wants_gtids: bool,
    /// and does.
    reports_gtids: bool,
    /// What was known of changes of the server's defaults when the session began.
    defaults: DefaultsRead,
    /// Whether a session of this server must not be reset: MySQL since 9.6 lets foreign keys cascade in InnoDB then, and its binary
    /// log lacks the child rows.
    spoiled_by_reset: bool,
    /// The version in the server's greeting: the first two numbers.
    version: (u16, u16),
    /// What is run first in each of its sessions; `None`: nothing.
    first: Option<Box<FirstStatements>>,
    /// What its session has that has changed nothing, if that was read.
    pub base: Option<Arc<Base>>,
    /// Who used it last and for what, if that is recorded.
    pub trace: Option<Box<LeaseTrace>>,
    /// What it keeps for its last client.
    pub uncollected: Option<Uncollected>,
    /// What `LAST_INSERT_ID()` returns as long as its current client has not changed it.
    pub insert_id_before: InsertIdBefore,
    /// Whether `LAST_INSERT_ID()` may be another value than 0.
    pub has_insert_id: bool,
    /// Whether `SHOW WARNINGS` may show something.
    pub has_conditions: bool,
    /// Whether it may show what our own assignments have left.
    pub has_own_warnings: Cell<bool>,
    /// Whether `LASTVAL()` can only return the current client's values: nobody else has used the connection since its
    /// login or last reset, or the current client has drawn values itself (MariaDB).
    pub sequences_are_own: bool,
    /// What stored programs that may have run were resolved in: MySQL keeps them for the session as they were then.
    pub programs: Programs,
    /// Its client has an XA transaction: between XA END and its end the server may refuse to be asked anything.
    pub is_in_xa: bool,
    /// The statements prepared on it.
    pub statements: Statements,
    /// Identifies it among all connections of this process.
    serial: u64,
    /// How many times it was leased.
    leases: u64,
    /// When it was opened.
    pub created: Instant,
    /// How long it took to open the connection.
    pub connect_time: Duration,
    /// When it was last used.
    pub last_used: Instant,
    /// The server's address; `None`: a Unix socket.
    pub address: Option<IpAddr>,
}

/// `LAST_INSERT_ID()` of a connection before its current client used it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InsertIdBefore {
    /// That client's own.
    Own,
    /// 0, as after a login.
    Zero,
}

/// What a lease requires of a backend connection.
#[derive(Debug, Clone)]
pub struct Want {
    /// Logged in as this account.
    pub account: Arc<Account>,
    /// With these credentials.
    pub secret: Secret,
    /// With exactly these capabilities of `CLASS`.
    pub class: Capabilities,
    /// A new connection for one client only, with exactly these capabilities: its bytes are forwarded without being
    /// read.
    pub own: Option<Capabilities>,
    /// What the server receives about the client when this logs in.
    pub about: Arc<ConnectAttributes>,
    /// Whether a remote server may be asked for its RSA key over a connection on which others can listen.
    pub may_ask_for_key: bool,
}

impl Want {
    /// What a client with these capabilities requires.
    pub fn new(
        account: Arc<Account>,
        secret: Secret,
        client: Capabilities,
        about: Arc<ConnectAttributes>,
        snapshot: &Snapshot,
    ) -> Want {
        let class = client.intersection(CLASS);
        let may_ask_for_key = snapshot.variables.get_server_public_key;
        Want { account, secret, class, own: None, about, may_ask_for_key }
    }

    /// The same account's connection for a statement of Narrows itself, which is the same for all clients.
    pub fn for_narrows(self) -> Want {
        Want { class: OWN_CLASS, ..self }
    }

    /// What a client requires that is to have its own connection.
    pub fn own(&self, client: Capabilities) -> Want {
        Want { own: Some(client), ..self.clone() }
    }
}

/// Why an operation on a backend connection failed. The connection cannot be used any more.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The socket failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The server did not answer in time.
    #[error("no answer in time")]
    Timeout,
    /// The server answered with an error.
    #[error("error {} ({}): {}{}", .0.code, .0.sqlstate, .0.message, .0.details)]
    Server(ServerError),
    /// The server refused the statement that every new connection runs first.
    #[error("init_connect fails: error {} ({}): {}", .0.code, .0.sqlstate, .0.message)]
    InitConnect(ServerError),
    /// The server does not support TLS, but its row requires it.
    #[error("use_ssl is set, and the server does not offer TLS")]
    NoTls,
    /// TLS to this server cannot be used as configured.
    #[error("TLS towards the server: {0}")]
    TlsSettings(String),
    /// The TLS handshake failed.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The login is not possible.
    #[error("{0}")]
    Login(#[from] Failure),
    /// There is no token to log in with.
    #[error("{0}")]
    NoToken(String),
    /// There is nothing to make a token with, for a reason that clients are not told.
    #[error("{0}")]
    NoCredentials(String),
    /// The server is read-only, but is needed for writing.
    #[error("it is read-only, and the hostgroup is for servers that may be written to")]
    ReadOnly,
    /// A client has changed the session, which was not known.
    #[error("a statement of another client had changed more of the session than it reported")]
    Unknown,
    /// The server refuses everything.
    #[error("it refuses statements: it has lost its cluster, or is to refuse them")]
    NoCluster,
    /// It has to be reset, and is of no use then.
    #[error("after a reset the server would not write all changes to its binary log")]
    NoReset,
    /// It has a schema, and its next client has none.
    #[error("its schema cannot be taken away without another login")]
    SchemaStays,
    /// Its client's schema cannot be chosen any more; everything else is as the client has it.
    #[error("{}", .0.message)]
    SchemaGone(ServerError),
    /// It does not tell what it keeps for its last client, or does not clear it.
    #[error("it refuses to tell what it keeps for its last client: {}", .0.message)]
    Keeps(ServerError),
    /// The server does not speak the protocol.
    #[error("{0}")]
    Malformed(#[from] Malformed),
}

/// How many bytes of a server's message are kept: servers send no more (manual: `MYSQL_ERRMSG_SIZE`).
const LONGEST_MESSAGE: usize = 512;

/// An error returned by a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// Its number.
    pub code: u16,
    /// Its SQLSTATE.
    pub sqlstate: String,
    /// Its text.
    pub message: String,
    /// What Narrows knows about it, for logs alone; empty: nothing.
    pub details: String,
}

impl ServerError {
    /// Reads the payload of an ERR packet.
    pub fn decode(payload: &[u8]) -> Result<ServerError, Malformed> {
        let error = Err::decode(payload)?;
        // It is kept in tables and logged, and a packet may have megabytes.
        let message = error.message.get(..LONGEST_MESSAGE).unwrap_or(error.message);
        Ok(ServerError {
            code: error.code,
            sqlstate: String::from_utf8_lossy(&error.sqlstate.unwrap_or(*b"HY000")).into_owned(),
            message: String::from_utf8_lossy(message).into_owned(),
            details: String::new(),
        })
    }

    /// An error of our own in a server's place.
    pub fn of(errno: Errno, text: &str) -> ServerError {
        let sqlstate = String::from_utf8_lossy(&errno.sqlstate).into_owned();
        ServerError { code: errno.number, sqlstate, message: text.to_owned(), details: String::new() }
    }

    /// Whether the server has reached its limit of prepared statements.
    pub fn is_too_many_statements(&self) -> bool {
        self.code == TOO_MANY_STATEMENTS
    }

    /// A login that we cannot do for a client: what it has revealed is not enough for this server.
    pub fn of_login(server: &Server, failure: &dyn std::fmt::Display) -> ServerError {
        let text = format!("Narrows cannot log in to {} for you: {failure}", server.address());
        ServerError::of(Errno::ACCESS_DENIED_ERROR, &text)
    }

    /// The same error, for cases where a client must know which server it comes from: it is about an account, which
    /// Narrows has too, or about something that Narrows itself sent.
    #[must_use]
    pub fn at(mut self, server: &Server, what: &str) -> ServerError {
        self.message = format!("{} {what}: {}", server.address(), self.message);
        self
    }

    /// The same error for a client.
    pub fn into_reply(self) -> (Errno, String) {
        let sqlstate = self.sqlstate.as_bytes().try_into().unwrap_or(*b"HY000");
        (Errno { number: self.code, sqlstate }, self.message)
    }

    /// Whether the error is about the account or the schema of the login, and not about the server's health.
    pub fn is_about_login(&self) -> bool {
        is_about_login(self.code)
    }

    /// Whether it is about the account alone: its password, or that it is locked, expired or gone.
    pub fn is_about_account(&self) -> bool {
        self.is_about_login() && !self.is_about_schema() && !matches!(self.code, 1044 | USER_LIMIT_REACHED)
    }

    /// Whether the account has as many connections to the server as it, or any account, may have: one more may come when
    /// another is closed. Error 1226 is also that of the limits for an hour; its text names the limit in all languages.
    pub fn is_too_many_connections_of_account(&self) -> bool {
        match self.code {
            TOO_MANY_CONNECTIONS_OF_ACCOUNT => true,
            USER_LIMIT_REACHED => self.message.contains("max_user_connections"),
            _ => false,
        }
    }

    /// Whether it is about the schema, which only the client named.
    pub fn is_about_schema(&self) -> bool {
        // Also: a name that is too long (ER_TOO_LONG_IDENT), a wrong one (ER_WRONG_DB_NAME), and bytes that are no text
        // (ER_INVALID_CHARACTER_STRING).
        matches!(self.code, UNKNOWN_DATABASE | 1059 | 1102 | 1300)
    }

    /// Whether it is about the schema, or the account's right to it: one that could be chosen before was dropped, or is not for
    /// the account any more.
    pub fn is_about_lost_schema(&self) -> bool {
        self.is_about_schema() || self.says_schema_is_lost()
    }

    /// Whether it says that there is no such schema, or that it is not for the account.
    pub fn says_schema_is_lost(&self) -> bool {
        // `ER_DBACCESS_DENIED_ERROR`.
        matches!(self.code, UNKNOWN_DATABASE | 1044)
    }

    /// The error for the client of an account whose login a server refused.
    #[must_use]
    pub fn of_refusal(&self, server: &Server, username: &str) -> ServerError {
        match self.is_about_schema() {
            true => self.clone(),
            false => self.clone().at(server, &format!("refuses the account '{username}'")),
        }
    }
}

/// Whether the error of this number is about the account or the schema of a login.
pub fn is_about_login(code: u16) -> bool {
    ABOUT_LOGIN.contains(&code)
}

/// Errors about the account or the schema of a login.
const ABOUT_LOGIN: [u16; 17] =
    [1044, 1045, 1049, 1059, 1102, 1130, 1131, 1132, 1203, 1226, 1251, 1300, 1524, 1698, 1862, 3118, 4151];

/// `ER_TOO_MANY_USER_CONNECTIONS`: the server's own `max_user_connections`.
const TOO_MANY_CONNECTIONS_OF_ACCOUNT: u16 = 1203;

/// `ER_USER_LIMIT_REACHED`: a limit of the account, such as `MAX_USER_CONNECTIONS`.
pub const USER_LIMIT_REACHED: u16 = 1226;

/// `ER_BAD_DB_ERROR`.
const UNKNOWN_DATABASE: u16 = 1049;

impl From<ReadError> for BackendError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => BackendError::Io(error),
            ReadError::Closed => BackendError::Closed,
            ReadError::Malformed(error) => BackendError::Malformed(error),
        }
    }
}

/// How servers of a family read texts.
pub fn dialect(family: Family) -> Dialect {
    match family {
        Family::MySql => Dialect::MySql,
        Family::MariaDb => Dialect::MariaDb,
    }
}

impl Backend {
    fn new(stream: Stream, login: Box<Login>) -> Backend {
        let card = Card {
            server: Arc::clone(&login.server),
            thread_id: login.thread_id,
            local: stream.local(),
            descriptor: stream.descriptor(),
            is_open: Cell::new(true),
            cut_off: Cell::default(),
        };
        Backend { stream, login, in_use: None, card: Held(Rc::new(card)) }
    }

    /// Its card, which identifies it to others.
    pub fn card(&self) -> &Rc<Card> {
        &self.card.0
    }

    /// Why it was lost: because it was cut off, or otherwise `error`.
    pub fn broken_by(&self, error: impl std::fmt::Display) -> String {
        self.card.0.cut_off.get().map_or_else(|| error.to_string(), str::to_owned)
    }

    /// Whether the connection is still open and the server has sent nothing unsolicited (with which servers announce
    /// that they close it). A connection that was cut off a moment ago may still look open.
    pub fn is_alive(&self) -> bool {
        let mut byte = [0];
        self.card.0.cut_off.get().is_none()
            && matches!(self.stream.try_read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether it keeps something that its last client may read.
    pub fn keeps_something(&self) -> bool {
        self.login.uncollected.as_ref().is_some_and(Uncollected::is_wanted)
    }

    /// Whether its last client waits for what it keeps.
    pub fn is_asked_for_something(&self) -> bool {
        self.login.uncollected.as_ref().is_some_and(Uncollected::is_asked_for)
    }

    /// Whether it is logged in as the account in `want`.
    pub fn fits_account(&self, want: &Want) -> bool {
        let (mine, theirs) = (&self.login.account, &want.account);
        Arc::ptr_eq(mine, theirs)
            || mine.row.username == theirs.row.username && mine.is_confirmed_like(theirs)
    }

    /// Whether it has the capabilities in `want`, as far as its server supports them.
    pub fn fits_class(&self, want: &Want) -> bool {
        want.own.is_none()
            && self.login.capabilities.intersection(CLASS)
                == want.class.intersection(self.login.offered_class())
    }

    /// Removes the connection from this worker's runtime.
    pub fn detach(self) -> io::Result<DetachedBackend> {
        Ok(DetachedBackend { stream: self.stream.detach()?, login: self.login })
    }

    /// Closes the connection and keeps its slot of the server's `max_connections`.
    pub fn into_slot(self) -> (Arc<Server>, Option<ConnectionSlot>) {
        (self.login.server, self.login.slot)
    }

    /// Waits for one packet of a short answer.
    async fn answer(&self, buffer: &mut Buffer) -> Result<Answer, BackendError> {
        let header = read_packet(&self.stream, buffer, crate::packets::SMALL_PACKET).await?;
        let bytes = payload(buffer, header);
        let answer = match bytes.first() {
            Some(&Err::HEADER) => {
                let error = ServerError::decode(bytes)?;
                // Answers to other statements may follow.
                buffer.consume(header.packet_length());
                return Result::Err(BackendError::Server(error));
            }
            Some(0x00) => {
                self.login.note_news(bytes)?;
                let ok = narrows_wire::packet::Ok::decode(bytes, self.login.capabilities)?;
                if ok.warnings > 0 {
                    self.login.has_own_warnings.set(true);
                }
                Answer::Ok(ok.status)
            }
            Some(0xFE) => Answer::Eof,
            _ => return Result::Err(Malformed("neither OK nor ERR").into()),
        };
        buffer.consume(header.packet_length());
        Ok(answer)
    }
}

/// `max_prepared_stmt_count` is reached.
pub const TOO_MANY_STATEMENTS: u16 = 1461;

/// One lease of one backend connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    serial: u64,
    lease: u64,
}

impl Use {
    /// A unique one, for tests.
    #[cfg(test)]
    pub(crate) fn of_test(serial: u64) -> Use {
        Use { serial, lease: 1 }
    }

    /// Whether the connection was leased exactly once since.
    pub fn is_followed_by(&self, login: &Login) -> bool {
        self.serial == login.serial && self.lease + 1 == login.leases
    }
}

impl Login {
    /// Whether the name of `server`, this connection's server, now resolves to another machine.
    pub fn is_elsewhere(&self, server: &Server) -> bool {
        self.address.is_some_and(|address| server.addresses.have_left(address))
    }
}

impl Login {
    /// The server's session is as after a login: all its state is gone.
    fn reset(&mut self) {
        self.statements.forget_all();
        self.forget_reports();
        self.reports_gtids = false;
        self.forget_values();
    }

    /// The server has reset the session: it has no values of earlier statements any more.
    fn forget_values(&mut self) {
        self.insert_id_before = InsertIdBefore::Zero;
        self.has_insert_id = false;
        self.has_conditions = false;
        self.has_own_warnings.set(false);
        self.sequences_are_own = true;
        self.programs = Programs::None;
    }

    /// Whether its session must not be reset.
    pub fn is_spoiled_by_reset(&self) -> bool {
        self.spoiled_by_reset
    }

    /// What its session has that the server would not give to a new one.
    #[inline]
    pub fn outdated(&self) -> Outdated {
        self.server.figures.defaults.outdated(self.defaults)
    }

    /// Counts one more lease.
    pub fn count_lease(&mut self) {
        self.leases += 1;
    }

    /// The number of the connection: no other one of this process has it.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// How many times it was leased.
    pub fn leases(&self) -> u64 {
        self.leases
    }

    /// The lease it is in, or was in last.
    pub fn last_use(&self) -> Use {
        Use { serial: self.serial, lease: self.leases }
    }

    /// The capabilities of `CLASS` that this server supports.
    fn offered_class(&self) -> Capabilities {
        let offered = self.server.figures.capabilities().unwrap_or(Capabilities::NONE);
        CLASS.intersection(offered.union(Capabilities::FOUND_ROWS))
    }
}

/// A short answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Ok(Status),
    Eof,
}

/// A backend connection on its way to another worker.
#[derive(Debug)]
pub struct DetachedBackend {
    stream: DetachedStream,
    login: Box<Login>,
}

impl DetachedBackend {
    /// Registers the connection with the calling worker's runtime.
    ///
    /// # Errors
    /// If the runtime cannot register it.
    pub fn attach(self) -> io::Result<Backend> {
        Ok(Backend::new(self.stream.attach()?, self.login))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_message_of_a_server_the_beginning_is_kept() {
        let payload = [b"\xFF\x15\x04#28000".as_slice(), &[b'x'; 60_000]].concat();
        let error = ServerError::decode(&payload).unwrap();
        assert_eq!((error.code, error.sqlstate.as_str()), (1045, "28000"));
        assert_eq!(error.message, "x".repeat(LONGEST_MESSAGE));
    }
}
