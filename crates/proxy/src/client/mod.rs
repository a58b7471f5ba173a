//! Everything before the first command: limits, greeting, login.

pub mod about;
mod ask_server;
mod authenticate;
mod claim;
mod hello;
mod identity;
mod look_up;
mod schema;
mod token;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use narrows_wire::auth::{Nonce, nonce_from};
use narrows_wire::charset::{Collation, Family};
use narrows_wire::compression::{Algorithm, End};
use narrows_wire::frame::put_encoded;
use narrows_wire::handshake::{Greeting, HandshakeResponse};
use narrows_wire::packet::{Change, Ok as OkPacket};
use narrows_wire::proxy_protocol::ProxyHeader;
use narrows_wire::{Capabilities, Errno, Status};
use zeroize::Zeroize;

use crate::audit::{AuditEvent, AuditPeer};
use crate::backend::Want;
use crate::buffer::Buffer;
use crate::capabilities::{ALWAYS_OFFERED, OFFERED_IF_COMMON};
use crate::hot_restart::{RestoredClient, RestoredSession, SentGreeting};
use crate::packets::ReadError;
use crate::rt::{Instant, timeout};
use crate::snapshot::{Account, HostgroupId, Snapshot};
use crate::state::{SQL_MODE_WITH_IGNORE_SPACE, SessionState, SharedState};
use crate::stream::{Stream, Transport};
use crate::worker::Worker;

pub use crate::rows::Networks;
pub use crate::worker::ClientHost;
pub use authenticate::AccountPlace;
use authenticate::authenticate;
pub(crate) use authenticate::change_user;
pub(crate) use claim::{LoginClaim, claimed_name};
use hello::refuse_because;
pub use hello::{LoginError, ask, channel, hello, refuse, send};

/// A client that has logged in.
pub struct LoggedIn {
    /// The client's socket.
    pub stream: Stream,
    /// Bytes that were read ahead.
    pub input: Buffer,
    /// Narrows' id of the connection, which `KILL` takes.
    pub id: u32,
    /// The account; holds a slot of the user's `max_connections`.
    pub account: AccountPlace,
    /// The requirements for its server connections: account, credentials, and connection attributes.
    pub want: Want,
    /// The negotiated capabilities.
    pub capabilities: Capabilities,
    /// The initial session state.
    pub state: SharedState,
    /// The greeting's nonce; `COM_CHANGE_USER` answers it again.
    pub nonce: Nonce,
    /// The client's address and port.
    pub peer: (String, u16),
    /// How long the login took.
    pub login_time: Duration,
    /// The session state, if another process served the client before.
    pub restored: Option<RestoredSession>,
}

/// Whether `mysql-max_connections`, as it was when the client connected, allows another client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The client may log in.
    Granted,
    /// The client exceeds the limit and receives an error.
    Full,
}

/// Logs a client in. If another process has already begun the login, it is replayed with what the client sent, and the
/// client receives the rest. The outcome is counted.
pub async fn accept(
    worker: &Rc<Worker>,
    stream: Stream,
    admission: Admission,
    restored: Box<RestoredClient>,
) -> Option<LoggedIn> {
    let snapshot = worker.snapshot();
    let variables = &snapshot.variables;
    let hosts = &worker.peers.client_hosts;
    let mut who = AuditPeer { client: stream.peer(), local: stream.local(), ..AuditPeer::default() };
    let log_in = log_in(worker, &snapshot, stream, admission, &mut who, *restored);
    let login = timeout(variables.connect_timeout_client, log_in);
    match login.await.unwrap_or(Err(LoginError::Timeout)) {
        Ok(client) => {
            if client.restored.is_none() {
                hosts.succeeded(variables, &who.client.0);
                worker.counters.borrow_mut().logins += 1;
                worker.peers.audit(|| AuditEvent::now("MySQL_Client_Connect_OK", who));
            }
            Some(client)
        }
        Err(error) => {
            count_failure(worker, &error);
            let (host, port) = &who.client;
            if matches!(error, LoginError::NothingSent) {
                // There may be one every second, and it is no attempt to log in.
                tracing::debug!(client = host, port, "disconnected without a login");
                return None;
            }
            // That no server could be asked is not the client's fault.
            let is_its_own = !matches!(error, LoginError::Refused(Errno::NO_SERVER_IN_TIME, _));
            if is_its_own && !matches!(error, LoginError::Closed(_)) {
                hosts.failed(variables, host);
            }
            worker.failed_logins.tell(|| {
                tracing::info!(client = host, port, %error, "login failed");
            });
            worker.peers.audit(|| {
                AuditEvent::now("MySQL_Client_Connect_ERR", who).with("extra_info", error.to_string())
            });
            None
        }
    }
}

/// Counts a failed login.
fn count_failure(worker: &Worker, error: &LoginError) {
    let mut counters = worker.counters.borrow_mut();
    counters.login_failures += 1;
    counters.aborted_clients += 1;
    if let LoginError::Refused(errno, _) = error {
        counters.generated_errors += 1;
        match *errno {
            Errno::ACCESS_DENIED_ERROR => counters.wrong_passwords += 1,
            Errno::CON_COUNT_ERROR => counters.too_many_clients += 1,
            Errno::USER_LIMIT_REACHED => counters.too_many_of_user += 1,
            _ => {}
        }
    }
}

/// Logs a client in; what is known about it is stored in `who` as soon as it is known.
async fn log_in(
    worker: &Rc<Worker>,
    snapshot: &Snapshot,
    stream: Stream,
    admission: Admission,
    who: &mut AuditPeer,
    restored: RestoredClient,
) -> Result<LoggedIn, LoginError> {
    let began = Instant::now();
    stream.set_keepalive(snapshot.variables.tcp_keepalive());
    let SentGreeting { id, nonce, offered } = match restored.sent_greeting {
        Some(sent) => sent,
        None => greet(worker, snapshot, &stream, admission, &who.client.0).await?,
    };
    who.thread_id = id;
    let mut input = Buffer::default();
    input.append(&restored.login);
    if snapshot.variables.proxy_protocol_networks.contain(&who.client.0)
        && let Some(client) = proxied(&stream, &mut input).await?
    {
        who.client = client;
        check_failures(worker, snapshot, &who.client.0)?;
    }
    let tls = snapshot.tls.clients.as_ref().filter(|_| offered.contains(Capabilities::SSL));
    let (mut stream, header, mut response) = hello(stream, &mut input, tls).await?;
    let user = claimed_name(&response.user);
    who.username = String::from_utf8_lossy(user).into_owned();
    who.schemaname = String::from_utf8_lossy(response.schema.as_deref().unwrap_or_default()).into_owned();
    who.tls = stream.transport() == Transport::Tls;
    let sequence = header.sequence.wrapping_add(1);
    input.wipe(header.packet_length());
    if let Some((errno, text)) = refusal_of_collation(response.charset.into()) {
        response.auth_response.zeroize();
        return refuse(&stream, sequence, errno, text).await;
    }
    let claim = LoginClaim {
        user,
        plugin: response.plugin.as_deref(),
        answer: &response.auth_response,
        can_switch: response.capabilities.contains(Capabilities::PLUGIN_AUTH),
        is_change: false,
        host: &who.client.0,
        capabilities: response.capabilities.intersection(offered),
        about: about::about(&response.attributes),
    };
    let (capabilities, about) = (claim.capabilities, Arc::clone(&claim.about));
    let authenticated = authenticate(worker, snapshot, &stream, &mut input, &nonce, sequence, claim).await;
    // With some plugins this is the password.
    response.auth_response.zeroize();
    let (account, secret, sequence) = authenticated?;
    let state = worker.shared_state(first_state(snapshot, &account.account, &response, capabilities));
    let want = Want::new(Arc::clone(&account.account), secret, capabilities, about, snapshot);
    let is_new = restored.session.is_none();
    if is_new && let Some((errno, text)) = schema::refusal(worker, snapshot, &want, &state).await {
        return refuse(&stream, sequence, errno, text).await;
    }
    send_ok(&stream, sequence, capabilities, None).await?;
    if stream.tracked().is_some_and(|tracked| !tracked.has_logged_in()) {
        return Err(LoginError::Closed("the former process answered the login differently"));
    }
    if let Some(algorithm) = Algorithm::negotiated(capabilities, response.zstd_level) {
        let early = std::mem::take(&mut input);
        stream = stream.with_compression(algorithm, End::Server, early.filled()).map_err(ReadError::Io)?;
    }
    let (peer, restored) = (who.client.clone(), restored.session);
    let login_time = began.elapsed();
    Ok(LoggedIn { stream, input, id, account, want, capabilities, state, nonce, peer, login_time, restored })
}

/// Refuses an address that has failed to log in too often.
fn check_failures(worker: &Worker, snapshot: &Snapshot, address: &str) -> Result<(), LoginError> {
    match worker.peers.client_hosts.refuse(&snapshot.variables, address) {
        true => Err(TOO_MANY_FAILURES),
        false => Ok(()),
    }
}

/// Greets a client if its address may try to log in.
async fn greet(
    worker: &Worker,
    snapshot: &Snapshot,
    stream: &Stream,
    admission: Admission,
    address: &str,
) -> Result<SentGreeting, LoginError> {
    check_failures(worker, snapshot, address)?;
    if admission == Admission::Full {
        let text = "Too many connections".to_owned();
        return refuse(stream, 0, Errno::CON_COUNT_ERROR, text).await;
    }
    let (nonce, offered) = (nonce_from(rand::random()), offered(snapshot));
    let greeting = greeting(worker, snapshot, nonce, offered);
    let sent = SentGreeting { id: greeting.connection_id, nonce, offered };
    let mut out = Vec::with_capacity(128);
    put_encoded(&mut out, &mut 0, |out| greeting.encode(out));
    if let Some(tracked) = stream.tracked() {
        tracked.greets(&sent, out.len());
    }
    stream.write_all(&out).await.map_err(ReadError::Io)?;
    Ok(sent)
}

/// Reads the PROXY header if the client's first bytes are one; returns the address in it.
async fn proxied(stream: &Stream, input: &mut Buffer) -> Result<Option<(String, u16)>, LoginError> {
    loop {
        match ProxyHeader::decode(input.filled()).map_err(ReadError::Malformed)? {
            ProxyHeader::Absent => return Ok(None),
            ProxyHeader::Unknown { length } => {
                input.consume(length);
                return Ok(None);
            }
            ProxyHeader::Known { length, source, .. } => {
                input.consume(length);
                return Ok(Some((source.ip().to_canonical().to_string(), source.port())));
            }
            ProxyHeader::Incomplete(need) => {
                input.make_room_for(need.saturating_sub(input.filled().len()).max(1));
                if input.fill(stream).await.map_err(ReadError::Io)? == 0 {
                    return Err(ReadError::Closed.into());
                }
            }
        }
    }
}

const TOO_MANY_FAILURES: LoginError =
    LoginError::Closed("the address has failed to log in too often (mysql-client_host_error_counts)");

fn greeting(worker: &Worker, snapshot: &Snapshot, nonce: Nonce, offered: Capabilities) -> Greeting {
    let variables = &snapshot.variables;
    let collation = Collation::by_name(&variables.default_collation_connection, Family::MySql);
    Greeting {
        server_version: variables.server_version.clone().into_bytes(),
        connection_id: worker.peers.next_connection_id(),
        nonce,
        capabilities: offered,
        charset: collation.and_then(|collation| u8::try_from(collation.id).ok()).unwrap_or(33),
        status: Status::AUTOCOMMIT,
        plugin: variables.default_authentication_plugin.clone().into_bytes(),
    }
}

async fn send_ok(
    stream: &Stream,
    mut sequence: u8,
    capabilities: Capabilities,
    schema: Option<&[u8]>,
) -> Result<(), ReadError> {
    let mut session_state = Vec::new();
    if let Some(schema) = schema {
        Change::Schema(schema).encode(&mut session_state);
    }
    let status = Status::AUTOCOMMIT;
    let ok = OkPacket {
        header: OkPacket::HEADER,
        affected_rows: 0,
        last_insert_id: 0,
        status,
        warnings: 0,
        info: b"",
        session_state: &session_state,
    };
    let mut out = Vec::with_capacity(16);
    put_encoded(&mut out, &mut sequence, |out| ok.encode(out, capabilities));
    Ok(stream.write_all(&out).await?)
}

/// The state that the login requests.
fn first_state(
    snapshot: &Snapshot,
    account: &Account,
    response: &HandshakeResponse,
    capabilities: Capabilities,
) -> SessionState {
    let mut state = state_of_collation(snapshot, account, response.charset.into());
    state.schema = first_schema(snapshot, account, response.schema.as_deref());
    state.multi_statements = capabilities.contains(Capabilities::MULTI_STATEMENTS);
    set_login_mode(&mut state, capabilities);
    state
}

/// How servers apply the capability `IGNORE_SPACE` at login. MySQL applies it again whenever the session is reset,
/// MariaDB does not.
pub(crate) fn set_login_mode(state: &mut SessionState, capabilities: Capabilities) {
    if capabilities.contains(Capabilities::IGNORE_SPACE) {
        state.set_literal("sql_mode", SQL_MODE_WITH_IGNORE_SPACE);
    }
}

/// The client's schema, or otherwise the user's, the variable's, or none.
pub(crate) fn first_schema(
    snapshot: &Snapshot,
    account: &Account,
    asked: Option<&[u8]>,
) -> Option<Box<[u8]>> {
    let asked = asked.unwrap_or_default();
    let choices =
        [asked, account.row.default_schema.as_bytes(), snapshot.variables.default_schema.as_bytes()];
    choices.into_iter().find(|schema| !schema.is_empty()).map(Into::into)
}

/// The error of a login, or of a `COM_CHANGE_USER`, with the id of a collation whose character set servers do not
/// accept for statements.
///
/// An id that only one server family knows is not refused: the other treats it as an unknown id.
pub(crate) fn refusal_of_collation(id: u16) -> Option<(Errno, String)> {
    let unfit = |family| Collation::by_id(id, family).filter(|collation| !collation.is_for_clients());
    let (collation, _) = unfit(Family::MySql).zip(unfit(Family::MariaDb))?;
    let charset = collation.charset;
    let text = format!("Variable 'character_set_client' can't be set to the value of '{charset}'");
    Some((Errno::WRONG_VALUE_FOR_VAR, text))
}

/// The character sets of a login with that collation.
///
/// An id that only the other server family knows still determines the character set. An unknown id, or one of a
/// character set that is not for clients or that these servers do not have, leaves the server's defaults, as on a
/// server itself.
pub(crate) fn state_of_collation(snapshot: &Snapshot, account: &Account, id: u16) -> SessionState {
    let here = family(snapshot, account);
    let of = |family| Collation::by_id(id, family).filter(|collation| collation.is_for_clients());
    let (mysql, mariadb) = (of(Family::MySql), of(Family::MariaDb));
    let known = match here {
        Some(Family::MySql) => mysql,
        Some(Family::MariaDb) => mariadb,
        None => mysql.filter(|collation| mariadb == Some(*collation)),
    };
    let is_there = |collation: &&Collation| {
        here.is_none_or(|family| Collation::default_of(collation.charset, family).is_some())
    };
    match (known, mysql.or(mariadb).filter(is_there)) {
        (Some(collation), _) => SessionState::after_login(collation.charset, Some(collation.name)),
        (None, Some(collation)) => SessionState::after_login(collation.charset, None),
        (None, None) => SessionState::default(),
    }
}

/// The family of the servers in the user's default hostgroup, as far as known.
pub(crate) fn family(snapshot: &Snapshot, account: &Account) -> Option<Family> {
    family_of(snapshot, account.row.default_hostgroup)
}

/// The family of a hostgroup's servers, once one of them has been seen.
pub(crate) fn family_of(snapshot: &Snapshot, hostgroup: HostgroupId) -> Option<Family> {
    let hostgroup = snapshot.hostgroups.get(&hostgroup)?;
    let seen = hostgroup.servers.iter().find_map(|server| server.figures.capabilities())?;
    // MySQL always sets this flag, MariaDB never.
    Some(if seen.contains(Capabilities::LONG_PASSWORD) { Family::MySql } else { Family::MariaDb })
}

/// The initial status flags of this account's sessions: servers announce in their greetings whether backslashes escape.
pub(crate) fn first_status(snapshot: &Snapshot, account: &Account) -> Status {
    let hostgroup = snapshot.hostgroups.get(&account.row.default_hostgroup);
    let servers = hostgroup.iter().flat_map(|hostgroup| &hostgroup.servers);
    let said = servers.fold(Status::default(), |said, server| said.union(server.figures.first_status()));
    match said.contains(Status::NO_BACKSLASH_ESCAPES) {
        true => Status::AUTOCOMMIT.union(Status::NO_BACKSLASH_ESCAPES),
        false => Status::AUTOCOMMIT,
    }
}

/// The capabilities offered to clients: those that Narrows provides regardless of the server, and those that every
/// known server has.
fn offered(snapshot: &Snapshot) -> Capabilities {
    let servers = snapshot.hostgroups.values().flat_map(|hostgroup| &hostgroup.servers);
    let seen = servers.filter_map(|server| server.figures.capabilities());
    let common = seen.reduce(Capabilities::intersection).unwrap_or(Capabilities::NONE);
    let mut offered = ALWAYS_OFFERED.union(OFFERED_IF_COMMON.intersection(common));
    if snapshot.variables.have_ssl && snapshot.tls.clients.is_some() {
        offered = offered.union(Capabilities::SSL);
    }
    if snapshot.variables.have_compress {
        offered = offered.union(Capabilities::COMPRESS).union(Capabilities::ZSTD_COMPRESSION);
    }
    if !snapshot.variables.enable_client_deprecate_eof {
        offered = offered.without(Capabilities::DEPRECATE_EOF);
    }
    // MariaDB's extended flags are only read if this one is unset.
    if offered.extended() == 0 { offered.union(Capabilities::LONG_PASSWORD) } else { offered }
}
