//! Greeting, TLS and login of an admin session.

use narrows_proxy::audit::AuditPeer;
use narrows_proxy::buffer::Buffer;
use narrows_proxy::client::{LoginError, ask, channel, hello, refuse, send};
use narrows_proxy::packets::ReadError;
use narrows_proxy::stream::{Stream, Transport};
use narrows_proxy::tls::KeyPair;
use narrows_wire::auth::client_side::{Challenge, ClientExchange, ClientStep, Rejection};
use narrows_wire::auth::{Nonce, nonce_from};
use narrows_wire::compression::{Algorithm, End};
use narrows_wire::frame::put_encoded;
use narrows_wire::handshake::Greeting;
use narrows_wire::{Capabilities, Errno, Status};
use zeroize::Zeroize;

use super::answer::put_ok;
use super::door::Door;
use super::settings::{AdminSettings, is_local_only};
use super::visitors::Place;
use crate::store::Role;

/// A logged-in user, and how the login was done.
#[derive(Debug)]
pub struct Login {
    /// The user's name.
    pub user: String,
    /// The user's role.
    pub role: Role,
    /// The negotiated capabilities.
    pub capabilities: Capabilities,
    /// The greeting's nonce; `COM_CHANGE_USER` answers it again.
    pub nonce: Nonce,
}

/// The identity that a client claims.
pub struct Claim<'a> {
    /// The user's name.
    pub user: &'a [u8],
    /// The plugin for which the client answered.
    pub plugin: Option<&'a [u8]>,
    /// The answer to the plugin's challenge.
    pub answer: &'a [u8],
    /// Whether it is that of a `COM_CHANGE_USER`.
    pub is_change: bool,
    /// The client's capabilities.
    pub capabilities: Capabilities,
    /// The client's address.
    pub host: &'a str,
}

/// The capabilities of admin sessions. Results end with EOF packets; each statement has one result, but drivers that
/// request several work too.
const OFFERED: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::FOUND_ROWS.0
        | Capabilities::LONG_FLAG.0
        | Capabilities::CONNECT_WITH_DB.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::RESERVED.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::MULTI_STATEMENTS.0
        | Capabilities::MULTI_RESULTS.0
        | Capabilities::PS_MULTI_RESULTS.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::CONNECT_ATTRS.0
        | Capabilities::PLUGIN_AUTH_LENENC_DATA.0
        | Capabilities::COMPRESS.0,
);

/// `utf8_general_ci`
const CHARSET: u8 = 33;

/// Greets a client and logs it in; OK is sent. What is known about it is stored in `who` as soon as it is known.
///
/// # Errors
/// See [`LoginError`].
pub async fn log_in(
    door: &Door,
    who: &mut AuditPeer,
    stream: Stream,
    input: &mut Buffer,
) -> Result<(Stream, Login, Place), LoginError> {
    let settings = &door.settings();
    let Greeting { nonce, capabilities: offered, .. } = greet(settings, who.thread_id, &stream).await?;
    let (mut stream, header, mut response) = hello(stream, input, settings.tls.0.clients.as_ref()).await?;
    let mut sequence = header.sequence.wrapping_add(1);
    input.wipe(header.packet_length());
    let capabilities = response.capabilities.intersection(offered);
    who.username = String::from_utf8_lossy(&response.user).into_owned();
    who.schemaname = String::from_utf8_lossy(response.schema.as_deref().unwrap_or_default()).into_owned();
    who.tls = stream.transport() == Transport::Tls;
    let host = who.client.0.clone();
    let claim = Claim {
        user: &response.user,
        plugin: response.plugin.as_deref(),
        answer: &response.auth_response,
        is_change: false,
        capabilities: response.capabilities,
        host: &host,
    };
    let role = authenticate(settings, door, &stream, input, &nonce, &mut sequence, &claim).await;
    // With some plugins this is the password.
    response.auth_response.zeroize();
    let role = role?;
    let user = who.username.clone();
    let Some(place) = door.visitors.admit(role, &user) else {
        return refuse(&stream, sequence, Errno::CON_COUNT_ERROR, "Too many connections".to_owned()).await;
    };
    send_ok(&stream, sequence, capabilities).await?;
    if let Some(algorithm) = Algorithm::negotiated(capabilities, response.zstd_level) {
        let early = std::mem::take(input);
        stream = stream.with_compression(algorithm, End::Server, early.filled()).map_err(ReadError::Io)?;
    }
    Ok((stream, Login { user, role, capabilities, nonce }, place))
}

async fn greet(settings: &AdminSettings, connection_id: u32, stream: &Stream) -> Result<Greeting, ReadError> {
    let tls = settings.tls.0.clients.is_some();
    let greeting = Greeting {
        server_version: settings.server_version.clone().into_bytes(),
        connection_id,
        nonce: nonce_from(rand::random()),
        capabilities: if tls { OFFERED | Capabilities::SSL } else { OFFERED },
        charset: CHARSET,
        status: Status::AUTOCOMMIT,
        plugin: settings.plugin.name().as_bytes().to_vec(),
    };
    let mut out = Vec::with_capacity(128);
    put_encoded(&mut out, &mut 0, |out| greeting.encode(out));
    stream.write_all(&out).await?;
    Ok(greeting)
}

/// Sends the OK packet that ends a login.
///
/// # Errors
/// The socket's error.
pub async fn send_ok(stream: &Stream, sequence: u8, capabilities: Capabilities) -> Result<(), ReadError> {
    let mut out = Vec::with_capacity(16);
    put_ok(&mut out, sequence, 0, "", 0, capabilities);
    Ok(stream.write_all(&out).await?)
}

/// Completes the authentication; `sequence` is then the number of the OK packet.
///
/// # Errors
/// If the client is refused; it has been sent the error.
pub async fn authenticate(
    settings: &AdminSettings,
    door: &Door,
    stream: &Stream,
    input: &mut Buffer,
    nonce: &Nonce,
    sequence: &mut u8,
    claim: &Claim<'_>,
) -> Result<Role, LoginError> {
    let challenge = Challenge {
        nonce,
        announced: settings.plugin,
        channel: channel(stream),
        can_switch: claim.capabilities.contains(Capabilities::PLUGIN_AUTH),
        restarts: claim.is_change,
        public_key: settings.tls.0.key_pair.as_ref().map(KeyPair::public_pem),
    };
    let (account, role) = settings.account(claim.user, &door.decoy_key);
    let (mut exchange, mut step) = ClientExchange::start(&challenge, account, claim.plugin, claim.answer);
    loop {
        step = match step {
            ClientStep::Send(question) => ask(stream, input, sequence, &question, &mut exchange).await?,
            ClientStep::Decrypt(cipher) => {
                let tls = settings.tls.clone();
                let decrypt = move || tls.key_pair.as_ref().and_then(|pair| pair.decrypt(&cipher));
                match door.threads.run(decrypt).await {
                    Some(password) => exchange.decrypted(password),
                    None => ClientStep::Reject(Rejection::WrongPassword),
                }
            }
            ClientStep::Verify(verification) => match door.threads.run(move || verification.run()).await {
                Some(verified) => exchange.verified(verified),
                None => ClientStep::Reject(Rejection::WrongPassword),
            },
            // No account of administrators is one of servers.
            ClientStep::AskServer(_) => exchange.asked(None),
            // Nor does one take tokens.
            ClientStep::CheckToken(_) => exchange.token_checked(false),
            ClientStep::Accept { before_ok, secret: _ } => {
                let role = role.expect("a decoy is never accepted");
                if is_local_only(claim.user) && !stream.is_local() {
                    let text = format!("User '{}' can only connect locally", claim.name());
                    let errno = Errno { sqlstate: *b"42000", ..Errno::CON_COUNT_ERROR };
                    return refuse(stream, *sequence, errno, text).await;
                }
                if let Some(payload) = before_ok {
                    send(stream, sequence, &payload).await?;
                }
                return Ok(role);
            }
            ClientStep::Reject(rejection) => {
                let (errno, text) = refusal(&rejection, exchange.using_password(), claim);
                return refuse(stream, *sequence, errno, text).await;
            }
        }
    }
}

/// The error for a client whose login is refused.
fn refusal(rejection: &Rejection, using_password: bool, claim: &Claim<'_>) -> (Errno, String) {
    if let Rejection::CannotSwitch = rejection {
        let text = "Client does not support authentication protocol requested by server; \
                    consider upgrading MySQL client";
        return (Errno::NOT_SUPPORTED_AUTH_MODE, text.to_owned());
    }
    let password = if using_password { "YES" } else { "NO" };
    let (name, host) = (claim.name(), claim.host);
    let text = format!("Access denied for user '{name}'@'{host}' (using password: {password})");
    (Errno::ACCESS_DENIED_ERROR, text)
}

impl Claim<'_> {
    fn name(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.user)
    }
}
