//! Opens a backend connection: socket, greeting, login; also the separate connection that kills a statement.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use narrows_wire::auth::backend_side::{BackendExchange, BackendStep, Failure, FirstAnswer};
use narrows_wire::auth::{Channel, Nonce};
use narrows_wire::charset::{Collation, Family};
use narrows_wire::compression::{Algorithm, End};
use narrows_wire::frame::{put_encoded, put_packet};
use narrows_wire::handshake::{ConnectAttributes, Greeting, HandshakeResponse};
use narrows_wire::packet::Err;
use narrows_wire::{Capabilities, Malformed};
use rustls::pki_types::ServerName;

use super::{
    Backend, BackendError, InsertIdBefore, Login, Reports, ServerError, Statements, Want, WantedReports,
};
use crate::buffer::Buffer;
use crate::capabilities::{ALWAYS_REQUESTED, COMPRESSION};
use crate::hostgroup::{ConnectionSlot, Server};
use crate::packets::{SMALL_PACKET, payload, read_packet};
use crate::rt::{Instant, timeout};
use crate::state::SessionState;
use crate::stream::{Stream, Transport};

/// Opens a connection to `server` under `slot` and logs in. `schema` and the character set of the first client's state
/// are requested with the login, to save a round trip later.
///
/// # Errors
/// See [`BackendError`]; no step takes longer than `limit`.
pub async fn connect(
    server: Arc<Server>,
    slot: Option<ConnectionSlot>,
    want: &Want,
    state: &SessionState,
    limit: Duration,
) -> Result<Backend, BackendError> {
    let proving = want.with_token(&server, limit).await?;
    match timeout(limit, open(server, slot, &proving, state)).await {
        Ok(result) => result.map_err(|error| proving.explained(error)),
        Result::Err(_) => Result::Err(BackendError::Timeout),
    }
}

async fn open(
    server: Arc<Server>,
    slot: Option<ConnectionSlot>,
    want: &Want,
    state: &SessionState,
) -> Result<Backend, BackendError> {
    // Before anything is taken over from the server.
    let defaults = server.figures.defaults.read();
    let stream = open_socket(&server).await?;
    let address = stream.peer_address();
    let mut buffer = Buffer::default();
    let (greeting, sequence) = read_greeting(&stream, &mut buffer).await?;
    server.figures.saw_greeting(greeting.capabilities, greeting.status);

    let capabilities = wanted(&server, &greeting, want, state);
    let family = family(&greeting);
    let collation = login_collation(state, family);
    let response = HandshakeResponse {
        capabilities,
        max_packet_size: MAX_PACKET_SIZE,
        charset: collation.id as u8,
        user: want.account.row.username.clone().into_bytes(),
        auth_response: Vec::new(),
        schema: state.schema.as_ref().map(|schema| schema.to_vec()),
        plugin: None,
        attributes: ConnectAttributes::clone(&want.about),
        zstd_level: None,
    };
    let verifies = verifies(&server, &want.account.row.username);
    let toward = (&*server, verifies);
    let mut stream = respond(stream, &mut buffer, toward, want, (&greeting, sequence), response).await?;
    if capabilities.contains(Capabilities::COMPRESS) {
        stream = stream.with_compression(Algorithm::Zlib, End::Client, buffer.filled())?;
    }

    let mut session = SessionState::after_login(collation.charset, Some(collation.name));
    session.schema = state.schema.clone();
    session.multi_statements = state.multi_statements;
    let now = Instant::now();
    let login = Login {
        statements: Statements::new(Arc::clone(&server.figures)),
        server,
        slot,
        account: Arc::clone(&want.account),
        capabilities: capabilities.without(PER_CONNECTION),
        verifies,
        family,
        thread_id: greeting.connection_id,
        greeting: (greeting.nonce, greeting.plugin),
        state: Arc::new(session),
        reports: Reports::ItsOwn,
        wants_reports: match want.own {
            Some(_) => WantedReports::Client { transactions: false },
            None => WantedReports::Narrows,
        },
        own_reports: None,
        may_report_late: false,
        has_news: Cell::new(false),
        left_by_program: Cell::new(false),
        late_is_ours: false,
        is_own: want.own.is_some(),
        wants_gtids: false,
        reports_gtids: false,
        defaults,
        spoiled_by_reset: false,
        version: version(&greeting.server_version),
        first: None,
        base: None,
        trace: None,
        uncollected: None,
        insert_id_before: InsertIdBefore::Zero,
        has_insert_id: false,
        has_conditions: false,
        has_own_warnings: Cell::default(),
        sequences_are_own: true,
        programs: super::Programs::None,
        is_in_xa: false,
        serial: NEXT_SERIAL.fetch_add(1, Ordering::Relaxed),
        leases: 0,
        created: now,
        connect_time: Duration::ZERO,
        last_used: now,
        address,
    };
    Ok(Backend::new(stream, Box::new(login)))
}

async fn open_socket(server: &Server) -> io::Result<Stream> {
    match server.row.port {
        0 => Stream::connect_unix(&server.row.hostname).await,
        port => match server.addresses.look_up() {
            Some(addresses) => Stream::connect_first(&addresses, port).await,
            None => Stream::connect_tcp(&server.row.hostname, port).await,
        },
    }
}

/// The server's greeting, and the sequence number of the answer to it.
async fn read_greeting(stream: &Stream, buffer: &mut Buffer) -> Result<(Greeting, u8), BackendError> {
    let header = read_packet(stream, buffer, SMALL_PACKET).await?;
    let bytes = payload(buffer, header);
    if bytes.first() == Some(&Err::HEADER) {
        return Result::Err(BackendError::Server(ServerError::decode(bytes)?));
    }
    let greeting = Greeting::decode(bytes)?;
    buffer.consume(header.packet_length());
    if !buffer.is_empty() {
        // A server waits for an answer. Anything inserted after its greeting would be read as if it had come inside
        // TLS.
        return Result::Err(Malformed("bytes after the greeting").into());
    }
    Ok((greeting, header.sequence.wrapping_add(1)))
}

/// Answers the greeting: TLS if the server's row asks for it, then `response` with the proof of the password.
async fn respond(
    mut stream: Stream,
    buffer: &mut Buffer,
    (server, verifies): (&Server, bool),
    want: &Want,
    (greeting, mut sequence): (&Greeting, u8),
    mut response: HandshakeResponse,
) -> Result<Stream, BackendError> {
    if server.wants_tls() {
        if !greeting.capabilities.contains(Capabilities::SSL) {
            return Result::Err(BackendError::NoTls);
        }
        stream = start_tls(stream, server, &response, &mut sequence).await?;
    }
    let (mut exchange, first) = exchange((&stream, verifies), &greeting.nonce, &greeting.plugin, want);
    (response.auth_response, response.plugin) = (first.auth_response, Some(first.plugin.as_bytes().to_vec()));
    let mut login = Vec::with_capacity(512);
    put_encoded(&mut login, &mut sequence, |out| response.encode(out));
    stream.write_all(&login).await?;
    log_in(&stream, buffer, &mut exchange).await?;
    Ok(stream)
}

/// The capabilities to request from a server with this greeting.
fn wanted(server: &Server, greeting: &Greeting, want: &Want, state: &SessionState) -> Capabilities {
    let mut asked = match want.own {
        Some(client) => client.union(NEEDED).without(PER_CONNECTION),
        None => ALWAYS_REQUESTED.union(want.class),
    };
    let compresses = match want.own {
        // The bytes are forwarded, and with them the numbers of packets, which only the uncompressed protocol orders.
        Some(client) => client.intersection(COMPRESSION) != Capabilities::NONE,
        None => server.row.compression,
    };
    if compresses {
        asked = asked.union(Capabilities::COMPRESS);
    }
    let mut capabilities = asked.intersection(greeting.capabilities);
    if server.wants_tls() {
        capabilities = capabilities.union(Capabilities::SSL);
    }
    if state.schema.is_some() {
        capabilities = capabilities.union(Capabilities::CONNECT_WITH_DB);
    }
    if state.multi_statements {
        capabilities = capabilities.union(Capabilities::MULTI_STATEMENTS);
    }
    capabilities
}

/// Requests TLS and does the handshake.
async fn start_tls(
    stream: Stream,
    server: &Server,
    response: &HandshakeResponse,
    sequence: &mut u8,
) -> Result<Stream, BackendError> {
    let (host, user) = (&server.row.hostname, String::from_utf8_lossy(&response.user));
    let toward =
        server.tls.servers.toward(host, server.row.port, &user).map_err(BackendError::TlsSettings)?;
    let name = ServerName::try_from(host.clone())
        .map_err(|_| BackendError::TlsSettings(format!("{host:?} is not a valid host name for TLS")))?;
    let mut request = Vec::with_capacity(64);
    put_encoded(&mut request, sequence, |out| response.ssl_request().encode(out));
    stream.write_all(&request).await?;
    Ok(stream.connect_tls(&toward.config, name).await?)
}

/// Whether a connection that an account opens to a server uses TLS, which verifies the server's certificate.
fn verifies(server: &Server, username: &str) -> bool {
    let row = &server.row;
    server.wants_tls()
        && server.tls.servers.toward(&row.hostname, row.port, username).is_ok_and(|toward| toward.verifies)
}

/// The authentication of a login, or of a `COM_CHANGE_USER`, over `stream`; `verifies` says whether its TLS, if it has any, has
/// verified the server.
pub(super) fn exchange(
    (stream, verifies): (&Stream, bool),
    nonce: &Nonce,
    plugin: &[u8],
    want: &Want,
) -> (BackendExchange, FirstAnswer) {
    let channel = match stream.transport() {
        Transport::Tcp => Channel::Open,
        Transport::Tls if verifies => Channel::Tls,
        Transport::Tls => Channel::UnverifiedTls,
        Transport::Unix => Channel::Unix,
    };
    let may_ask_for_key = stream.is_local() || want.may_ask_for_key;
    let (exchange, first) =
        BackendExchange::new(nonce, plugin, want.secret.clone(), channel, may_ask_for_key, rand::random());
    // The password of an account that only servers know is right if a server says so, and only over a Unix socket could it say
    // yes without looking.
    match want.account.confirmation {
        Some(_) if channel == Channel::Unix => exchange.unanswered(),
        _ => (exchange, first),
    }
}

/// Answers the server's requests until the login is accepted.
pub(super) async fn log_in(
    stream: &Stream,
    buffer: &mut Buffer,
    exchange: &mut BackendExchange,
) -> Result<(), BackendError> {
    loop {
        let header = read_packet(stream, buffer, SMALL_PACKET).await?;
        let bytes = payload(buffer, header);
        match exchange.feed(bytes) {
            BackendStep::Send(answer) => {
                let mut out = Vec::with_capacity(answer.len() + 4);
                put_packet(&mut out, &mut header.sequence.wrapping_add(1), &answer);
                stream.write_all(&out).await?;
            }
            BackendStep::Wait => {}
            BackendStep::Ok => {
                buffer.consume(header.packet_length());
                return Ok(());
            }
            BackendStep::Failed(Failure::Server) => {
                return Result::Err(BackendError::Server(ServerError::decode(bytes)?));
            }
            BackendStep::Failed(failure) => return Result::Err(failure.into()),
        }
        buffer.consume(header.packet_length());
    }
}

/// Kills what runs on `thread_id` of `server`, over a separate connection. That connection does not count towards
/// `max_connections`: it lives for one statement, and must be possible when all are in use.
///
/// # Errors
/// As for any connection, and whether the kill may still take effect.
pub async fn kill(
    server: Arc<Server>,
    want: &Want,
    thread_id: u32,
    connection: bool,
    limit: Duration,
) -> Result<(), KillError> {
    let unsent = |error| KillError { error, may_arrive: false };
    let backend = connect(server, None, want, &SessionState::default(), limit).await.map_err(unsent)?;
    let word = if connection { "KILL CONNECTION" } else { "KILL QUERY" };
    let killed = backend.execute(&format!("{word} {thread_id}"), limit).await;
    killed.map_err(|error| KillError { may_arrive: !matches!(error, BackendError::Server(_)), error })
}

/// Why a kill failed.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct KillError {
    error: BackendError,
    /// It was sent and not answered: the server may execute it at any later time.
    pub may_arrive: bool,
}

/// The collation to log in with: the client's, if a single id describes all its character set variables.
fn login_collation(state: &SessionState, family: Family) -> &'static Collation {
    let unquoted = |name: &str| state.literal(name).map(|literal| literal.trim_matches('\''));
    let wanted = unquoted("collation_connection").and_then(|name| Collation::by_name(name, family));
    let same = |collation: &&Collation| {
        let charset = Some(collation.charset);
        let fits = u8::try_from(collation.id).is_ok();
        fits && unquoted("character_set_client") == charset && unquoted("character_set_results") == charset
    };
    wanted
        .filter(same)
        .or_else(|| Collation::by_id(FALLBACK_COLLATION, family))
        .expect("the table has the fallback")
}

/// The first two numbers of a version; zeros where there are none.
fn version(text: &[u8]) -> (u16, u16) {
    let mut numbers = text.split(|byte| !byte.is_ascii_digit()).map(|digits| {
        std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or_default()
    });
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default())
}

fn family(greeting: &Greeting) -> Family {
    let version = &greeting.server_version;
    let maria = version.windows(7).any(|word| word.eq_ignore_ascii_case(b"mariadb"));
    if maria { Family::MariaDb } else { Family::MySql }
}

/// The capabilities of a login regardless of the client.
const NEEDED: Capabilities = Capabilities(
    Capabilities::PROTOCOL_41.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::PLUGIN_AUTH_LENENC_DATA.0
        | Capabilities::CONNECT_ATTRS.0,
);

/// What is negotiated separately at the login of each connection, and has no effect on later commands.
const PER_CONNECTION: Capabilities = Capabilities(
    Capabilities::CONNECT_WITH_DB.0
        | Capabilities::SSL.0
        | Capabilities::COMPRESS.0
        | Capabilities::ZSTD_COMPRESSION.0,
);

/// The longest packet that Narrows accepts from a server: the servers' own limit, because no packet is held as a whole.
const MAX_PACKET_SIZE: u32 = 1 << 30;

/// `utf8mb4_general_ci`, which every server supports.
pub(super) const FALLBACK_COLLATION: u16 = 45;

pub(super) static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);
