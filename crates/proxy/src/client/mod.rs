//! Everything before the first command: limits, greeting, login.

mod schema;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use narrows_wire::auth::client_side::{Account as Claim, Challenge, Exchange, Form, Rejection, Step};
use narrows_wire::auth::{Channel, Nonce, Plugin, Secret, nonce_from};
use narrows_wire::charset::{Collation, Family};
use narrows_wire::frame::{put_encoded, put_packet};
use narrows_wire::handshake::{Greeting, HandshakeResponse, Hello};
use narrows_wire::packet::{Change, Ok as OkPacket};
use narrows_wire::{Capabilities, Errno, Status};

use crate::buffer::Buffer;
use crate::packets::{ReadError, SMALL_PACKET, payload, read_packet};
use crate::reply::put_error;
use crate::rt::{Instant, Stream, timeout};
use crate::session::Session;
use crate::snapshot::{Account, Snapshot};
use crate::state::{SessionState, SharedState};
use crate::worker::{Admission, Worker};

pub use schema::KnownSchemas;

/// A client that has logged in.
pub struct Client {
    /// Its socket.
    pub stream: Stream,
    /// Bytes read ahead.
    pub input: Buffer,
    /// What Narrows calls the connection; `KILL` takes it.
    pub id: u32,
    /// Its account; holds a place under the user's `max_connections`.
    pub account: AccountPlace,
    /// What logs in to servers in its name.
    pub secret: Secret,
    /// What was negotiated.
    pub capabilities: Capabilities,
    /// The state it begins in.
    pub state: SharedState,
    /// The greeting's nonce; `COM_CHANGE_USER` answers it again.
    pub nonce: Nonce,
    /// Its address and port.
    pub peer: (String, u16),
}

/// A client connection counted under its user's `max_connections`; given back when dropped.
pub struct AccountPlace {
    /// The account.
    pub account: Arc<Account>,
    connections: Arc<AtomicU32>,
}

/// Why a login came to nothing.
#[derive(Debug, thiserror::Error)]
enum LoginError {
    #[error("no login within the time limit (connect_timeout_client)")]
    Timeout,
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{0}: {1}")]
    Refused(Errno, String),
}

/// Serves one client from its first byte to its last.
pub async fn serve(worker: Rc<Worker>, stream: Stream, admission: Admission) {
    // Boxed, so that an idle client's task does not keep the room that its login needed.
    if let Some(session) = Box::pin(begin(worker, stream, admission)).await {
        session.run().await;
    }
}

/// The login; the session that it leads to.
async fn begin(worker: Rc<Worker>, stream: Stream, admission: Admission) -> Option<Box<Session>> {
    let snapshot = worker.snapshot();
    let peer = stream.peer();
    let limit = snapshot.variables.connect_timeout_client;
    let login = timeout(limit, log_in(&worker, &snapshot, stream, admission)).await;
    match login.unwrap_or(Err(LoginError::Timeout)) {
        Ok(client) => {
            worker.counters.borrow_mut().logins += 1;
            if snapshot.variables.client_host_cache_size > 0 {
                worker.figures.hosts.borrow_mut().succeeded(&client.peer.0);
            }
            Some(Session::new(worker, client))
        }
        Err(error) => {
            count_failure(&worker, &snapshot, &peer.0, &error);
            tracing::info!(client = peer.0, port = peer.1, %error, "login failed");
            None
        }
    }
}

/// Adds a login that came to nothing to the figures.
fn count_failure(worker: &Worker, snapshot: &Snapshot, address: &str, error: &LoginError) {
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
    let most = snapshot.variables.client_host_cache_size;
    if most > 0 {
        let at_s = worker.figures.seconds(Instant::now());
        worker.figures.hosts.borrow_mut().failed(address, most, at_s);
    }
}

async fn log_in(
    worker: &Worker,
    snapshot: &Snapshot,
    stream: Stream,
    admission: Admission,
) -> Result<Client, LoginError> {
    let peer = stream.peer();
    stream.set_keepalive(snapshot.variables.tcp_keepalive);
    if admission == Admission::Full {
        return refuse(&stream, 0, Errno::CON_COUNT_ERROR, "Too many connections".to_owned()).await;
    }
    let nonce = nonce_from(rand::random());
    let offered = offered(snapshot);
    let greeting = greeting(worker, snapshot, nonce, offered);
    let mut out = Vec::with_capacity(128);
    put_encoded(&mut out, &mut 0, |out| greeting.encode(out));
    stream.write_all(&out).await.map_err(ReadError::Io)?;

    let mut input = Buffer::default();
    let header = read_packet(&stream, &mut input, SMALL_PACKET).await?;
    let sequence = header.sequence.wrapping_add(1);
    if header.sequence != 1 {
        let text = "Got packets out of order".to_owned();
        return refuse(&stream, sequence, Errno::NET_PACKETS_OUT_OF_ORDER, text).await;
    }
    let response = match Hello::decode(payload(&input, header)) {
        Ok(Hello::Response(response)) => response,
        Ok(Hello::SslRequest(_)) => {
            return refuse(&stream, sequence, Errno::HANDSHAKE_ERROR, "TLS was not offered".to_owned()).await;
        }
        Err(error) => {
            return refuse(&stream, sequence, Errno::HANDSHAKE_ERROR, format!("Bad handshake: {error}"))
                .await;
        }
    };
    input.consume(header.packet_length());
    let claim = LoginClaim {
        user: &response.user,
        plugin: response.plugin.as_deref(),
        answer: &response.auth_response,
        can_switch: response.capabilities.contains(Capabilities::PLUGIN_AUTH),
        host: &peer.0,
    };
    let (account, secret, sequence) =
        authenticate(worker, snapshot, &stream, &mut input, &nonce, sequence, claim).await?;
    let capabilities = response.capabilities.intersection(offered);
    let state = worker.shared_state(first_state(snapshot, &account.account, &response, capabilities));
    let login = (&account, &secret);
    if let Some((errno, text)) = schema::refusal(worker, snapshot, login, capabilities, &state).await {
        return refuse(&stream, sequence, errno, text).await;
    }
    send_ok(&stream, sequence, capabilities, None).await?;
    let id = greeting.connection_id;
    Ok(Client { stream, input, id, account, secret, capabilities, state, nonce, peer })
}

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

/// Who a client says it is, and its proof.
pub(crate) struct LoginClaim<'a> {
    pub(crate) user: &'a [u8],
    pub(crate) plugin: Option<&'a [u8]>,
    pub(crate) answer: &'a [u8],
    pub(crate) can_switch: bool,
    pub(crate) host: &'a str,
}

/// Goes through the authentication to its end. Returns the account, what logs in to servers in its name, and the
/// sequence number of the OK packet that the caller sends.
///
/// # Errors
/// When the client is refused; it has been told.
async fn authenticate(
    worker: &Worker,
    snapshot: &Snapshot,
    stream: &Stream,
    input: &mut Buffer,
    nonce: &Nonce,
    mut sequence: u8,
    claim: LoginClaim<'_>,
) -> Result<(AccountPlace, Secret, u8), LoginError> {
    let user = String::from_utf8_lossy(claim.user).into_owned();
    let account = snapshot.users.get(claim.user);
    let challenge = Challenge {
        nonce,
        announced: Plugin::from_name(snapshot.variables.default_authentication_plugin.as_bytes()),
        channel: if stream.is_unix() { Channel::Secure } else { Channel::Open },
        can_switch: claim.can_switch,
    };
    let claimed = match account {
        Some(account) => Claim::known(account.stored.clone()),
        None => Claim::decoy(claim.user, &[Form::Clear], &worker.peers.decoy_key),
    };
    let (mut exchange, mut step) = Exchange::start(&challenge, claimed, claim.plugin, claim.answer);
    loop {
        match step {
            Step::Send(question) => {
                let mut out = Vec::with_capacity(64);
                put_packet(&mut out, &mut sequence, &question);
                stream.write_all(&out).await.map_err(ReadError::Io)?;
                let header = read_packet(stream, input, SMALL_PACKET).await?;
                sequence = header.sequence.wrapping_add(1);
                step = exchange.feed(payload(input, header));
                input.consume(header.packet_length());
            }
            Step::Accept { before_ok, secret } => {
                let account = account.expect("a decoy is never accepted");
                if account.row.use_ssl {
                    let password = if exchange.using_password() { "YES" } else { "NO" };
                    let text = format!(
                        "Access denied for user '{user}' (using password: {password}). SSL is required"
                    );
                    return refuse(stream, sequence, Errno::ACCESS_DENIED_ERROR, text).await;
                }
                let Some(place) = AccountPlace::take(account) else {
                    let current = account.connections.load(Ordering::Relaxed);
                    let text = format!(
                        "User '{user}' has exceeded the 'max_user_connections' resource (current value: {current})"
                    );
                    return refuse(stream, sequence, Errno::USER_LIMIT_REACHED, text).await;
                };
                if let Some(payload) = before_ok {
                    let mut out = Vec::with_capacity(8);
                    put_packet(&mut out, &mut sequence, &payload);
                    stream.write_all(&out).await.map_err(ReadError::Io)?;
                }
                return Ok((place, secret, sequence));
            }
            Step::Reject(Rejection::CannotSwitch) => {
                let text = "Client does not support authentication protocol requested by server; \
                            consider upgrading MySQL client";
                return refuse(stream, sequence, Errno::NOT_SUPPORTED_AUTH_MODE, text.to_owned()).await;
            }
            Step::Reject(_) => {
                let password = if exchange.using_password() { "YES" } else { "NO" };
                let text =
                    format!("Access denied for user '{user}'@'{}' (using password: {password})", claim.host);
                return refuse(stream, sequence, Errno::ACCESS_DENIED_ERROR, text).await;
            }
        }
    }
}

async fn refuse<T>(stream: &Stream, mut sequence: u8, errno: Errno, text: String) -> Result<T, LoginError> {
    let mut out = Vec::with_capacity(128);
    put_error(&mut out, &mut sequence, errno, &text);
    // The reason for the refusal is what is reported, whether the client hears it or not.
    let _ = stream.write_all(&out).await;
    Err(LoginError::Refused(errno, text))
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

/// A `COM_CHANGE_USER`: the same authentication on a connection that stands. OK is sent. `state_of` says in which
/// state the account begins.
///
/// # Errors
/// A text for the log when the client is refused; it has been told, and its connection is to be closed.
pub(crate) async fn change_user(
    worker: &Worker,
    snapshot: &Snapshot,
    (stream, input): (&Stream, &mut Buffer),
    (nonce, capabilities): (&Nonce, Capabilities),
    claim: LoginClaim<'_>,
    asked: Option<&[u8]>,
    state_of: impl FnOnce(&Account) -> SessionState,
) -> Result<(AccountPlace, Secret, SharedState), String> {
    let limit = snapshot.variables.connect_timeout_client;
    let exchange = authenticate(worker, snapshot, stream, input, nonce, 1, claim);
    let result = timeout(limit, exchange).await.unwrap_or(Err(LoginError::Timeout));
    let (place, secret, sequence) = result.map_err(|error| error.to_string())?;
    let state = worker.shared_state(state_of(&place.account));
    if let Some((errno, text)) =
        schema::refusal(worker, snapshot, (&place, &secret), capabilities, &state).await
    {
        let refused: Result<(), LoginError> = refuse(stream, sequence, errno, text).await;
        refused.map_err(|error| error.to_string())?;
    }
    send_ok(stream, sequence, capabilities, asked).await.map_err(|error| error.to_string())?;
    Ok((place, secret, state))
}

impl AccountPlace {
    /// Counts one more client of `account`; `None` when it has as many as it may.
    fn take(account: &Arc<Account>) -> Option<AccountPlace> {
        let most = account.row.max_connections;
        let more = |now: u32| (now < most).then_some(now + 1);
        account.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        let connections = Arc::clone(&account.connections);
        Some(AccountPlace { account: Arc::clone(account), connections })
    }
}

impl Drop for AccountPlace {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The state that the login asks for.
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

/// What servers make of the capability `IGNORE_SPACE` at login. MySQL does so again whenever the session is reset,
/// MariaDB does not.
pub(crate) fn set_login_mode(state: &mut SessionState, capabilities: Capabilities) {
    if capabilities.contains(Capabilities::IGNORE_SPACE) {
        state.set_literal("sql_mode", "CONCAT(@@global.sql_mode, ',IGNORE_SPACE')");
    }
}

/// The client's schema, or else the user's, or else that of the variables, or none.
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

/// The character sets of a login with that collation.
///
/// A number that only the other family of servers knows still says which character set is meant; one that nobody
/// knows leaves the server's defaults, as a server itself would.
pub(crate) fn state_of_collation(snapshot: &Snapshot, account: &Account, id: u16) -> SessionState {
    let here = family(snapshot, account);
    let (mysql, mariadb) = (Collation::by_id(id, Family::MySql), Collation::by_id(id, Family::MariaDb));
    let known = match here {
        Some(Family::MySql) => mysql,
        Some(Family::MariaDb) => mariadb,
        None => mysql.filter(|collation| mariadb == Some(*collation)),
    };
    match (known, mysql.or(mariadb)) {
        (Some(collation), _) => SessionState::after_login(collation.charset, Some(collation.name)),
        (None, Some(collation)) => SessionState::after_login(collation.charset, None),
        (None, None) => SessionState::default(),
    }
}

/// Whose servers the user's default hostgroup has, as far as they were seen.
pub(crate) fn family(snapshot: &Snapshot, account: &Account) -> Option<Family> {
    let hostgroup = snapshot.hostgroups.get(&account.row.default_hostgroup)?;
    let seen = hostgroup.servers.iter().find_map(|server| server.figures.capabilities())?;
    // MySQL always sets this flag, MariaDB never.
    Some(if seen.contains(Capabilities::LONG_PASSWORD) { Family::MySql } else { Family::MariaDb })
}

/// What is offered to clients: what Narrows can do whatever the server, and what every server seen so far can.
fn offered(snapshot: &Snapshot) -> Capabilities {
    let servers = snapshot.hostgroups.values().flat_map(|hostgroup| &hostgroup.servers);
    let seen = servers.filter_map(|server| server.figures.capabilities());
    let common = seen.reduce(Capabilities::intersection).unwrap_or(Capabilities::NONE);
    let mut offered = ALWAYS.union(DEPENDING.intersection(common));
    if !snapshot.variables.enable_client_deprecate_eof {
        offered = offered.without(Capabilities::DEPRECATE_EOF);
    }
    // MariaDB's extended flags are read only where this one is unset.
    if offered.extended() == 0 { offered.union(Capabilities::LONG_PASSWORD) } else { offered }
}

/// Offered whatever the servers can: Narrows translates, or every server of the last decade has it.
const ALWAYS: Capabilities = Capabilities(
    Capabilities::FOUND_ROWS.0
        | Capabilities::LONG_FLAG.0
        | Capabilities::CONNECT_WITH_DB.0
        | Capabilities::LOCAL_FILES.0
        | Capabilities::IGNORE_SPACE.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::INTERACTIVE.0
        | Capabilities::IGNORE_SIGPIPE.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::RESERVED.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::MULTI_STATEMENTS.0
        | Capabilities::MULTI_RESULTS.0
        | Capabilities::PS_MULTI_RESULTS.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::CONNECT_ATTRS.0
        | Capabilities::PLUGIN_AUTH_LENENC_DATA.0
        | Capabilities::SESSION_TRACK.0
        | Capabilities::DEPRECATE_EOF.0,
);

/// Offered when every server that was seen has it.
const DEPENDING: Capabilities = Capabilities(
    Capabilities::QUERY_ATTRIBUTES.0
        | Capabilities::MARIADB_STMT_BULK_OPERATIONS.0
        | Capabilities::MARIADB_EXTENDED_METADATA.0,
);
