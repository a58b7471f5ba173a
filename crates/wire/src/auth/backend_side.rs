//! What a client does to log in to a server: it sends a first answer, then answers whatever the server asks.
//!
//! The same exchange serves `COM_CHANGE_USER`, to which servers reply with a switch or with the result.

use super::caching_sha2::{self, FAST_OK, FULL_AUTH, REQUEST_PUBLIC_KEY};
use super::rsa::{PublicKey, SEED_LENGTH, Unusable};
use super::{Channel, Nonce, Plugin, Secret, ed25519, native};
use crate::codec::Malformed;
use crate::handshake::{AuthMoreData, AuthSwitchRequest};

/// Switches accepted: MariaDB asks for one plugin after another if an account may use several.
const MAX_SWITCHES: u8 = 8;

/// The name of the plugin of a login without an answer. No account asks clients for it.
const NO_PLUGIN: &str = "auth_socket";

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendStep {
    /// Send this payload, then feed the server's next one.
    Send(Vec<u8>),
    /// Send nothing; feed the server's next payload.
    Wait,
    /// Logged in; the payload just fed is the OK packet.
    Ok,
    /// Not logged in. The connection cannot be used any more.
    Failed(Failure),
}

/// Why a server refused the login.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The payload just fed is the server's ERR packet.
    #[error("the server refused the login")]
    Server,
    /// The server asks for a plugin that is not supported.
    #[error("the server asks for the authentication plugin {0:?}, which is not supported")]
    UnsupportedPlugin(String),
    /// The server asks for the password in clear text over a channel on which others can listen.
    #[error("the server asks for the password in clear text over an open channel")]
    NeedsSecureChannel,
    /// The server asks for the password in clear text, and its identity has not been verified.
    #[error(
        "the server asks for the password in clear text, and its certificate is not verified: set mysql-ssl_p2s_ca, or ssl_ca in \
         mysql_servers_ssl_params"
    )]
    NeedsVerifiedServer,
    /// Only a hash of the password is known, and the plugin needs the password.
    #[error("the plugin {0} needs the password, and only its mysql_native_password hash is known")]
    NeedsPassword(&'static str),
    /// The server wants the password encrypted with its key, and a key from an unverified peer is not accepted.
    #[error(
        "the server wants the password encrypted with its RSA key, which Narrows does not request over an open channel: use TLS, \
         or set mysql-get_server_public_key"
    )]
    NeedsPublicKey,
    /// The server's RSA key cannot be used.
    #[error(transparent)]
    PublicKey(#[from] Unusable),
    /// The server lets the account in without asking for its password.
    #[error(
        "the server does not ask for a password: it knows the account by something else, such as the user of Narrows' process"
    )]
    PasswordNotAsked,
    /// The server sent something that the protocol does not allow here.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// A login in progress.
///
/// ```text
///                    ┌──FE: Send the other plugin's answer──┐
///                    ▼                                      │
///   new ──▶ Answered(plugin), or Unanswered ────────────────┘
///             │ caching_sha2 only:
///             ├─01 03: Wait─────────────────────────▶ Proven ──00──▶ Ok
///             ├─01 04, secure: Send password────────▶ Proven
///             └─01 04, open: Send 02─▶ KeyRequested
///                                        └─01 key: Send encrypted password─▶ Proven
///
///   in every state: 00 ──▶ Ok, but Failed(PasswordNotAsked) in Unanswered;
///                   FF ──▶ Failed(Server), anything else ──▶ Failed(Malformed)
/// ```
///
/// * `Unanswered`: the server has been sent nothing to verify, and must ask.
/// * `Answered`: the server has been sent `plugin`'s answer to `nonce`.
/// * `KeyRequested`: the server was asked for its RSA key, which is its next packet.
/// * `Proven`: we have sent everything we have; only OK or ERR may follow.
/// * `Ended`: `Ok` or `Failed` was returned.
#[derive(Debug)]
pub struct BackendExchange {
    secret: Secret,
    channel: Channel,
    may_ask_for_key: bool,
    seed: [u8; SEED_LENGTH],
    nonce: Nonce,
    switches: u8,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unanswered,
    Answered(Plugin),
    KeyRequested,
    Proven,
    Ended,
}

/// The answer to put into the login or `COM_CHANGE_USER`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstAnswer {
    /// Name of the plugin.
    pub plugin: &'static str,
    /// Its answer.
    pub auth_response: Vec<u8>,
}

impl BackendExchange {
    /// Begins with the greeting's nonce and plugin. `may_ask_for_key` says whether a server may be asked for its RSA
    /// key over an open channel: a man in the middle can send a key of his own and read the password. `seed` must be
    /// random: it hides the password in the RSA encryption, of which there is at most one.
    ///
    /// For a plugin that we cannot or will not answer at once, the answer is `mysql_native_password`'s; the server then
    /// asks for the plugin it wants.
    pub fn new(
        nonce: &Nonce,
        announced: &[u8],
        secret: Secret,
        channel: Channel,
        may_ask_for_key: bool,
        seed: [u8; SEED_LENGTH],
    ) -> (Self, FirstAnswer) {
        let (plugin, auth_response) = match (&secret, Plugin::from_name(announced)) {
            (Secret::Clear(password), plugin @ Plugin::CachingSha2Password) => {
                (plugin, caching_sha2::scramble(password.bytes(), nonce))
            }
            (Secret::Clear(password), _) => {
                (Plugin::NativePassword, native::scramble(password.bytes(), nonce))
            }
            (Secret::NativeStage1(stage1), _) => {
                (Plugin::NativePassword, native::scramble_stage1(stage1, nonce).to_vec())
            }
        };
        let state = State::Answered(plugin);
        let exchange =
            BackendExchange { secret, channel, may_ask_for_key, seed, nonce: *nonce, switches: 0, state };
        (exchange, FirstAnswer { plugin: plugin.name(), auth_response })
    }

    /// Begins without an answer, for a login that has to show that the server verifies the password. Over a Unix socket it may
    /// know the account by the user of the process instead (`auth_socket` of MySQL, `unix_socket` of MariaDB). Plugins that
    /// verify something ask a client that names another one; those two take any, and say yes at once.
    #[must_use]
    pub fn unanswered(mut self) -> (Self, FirstAnswer) {
        self.state = State::Unanswered;
        (self, FirstAnswer { plugin: NO_PLUGIN, auth_response: Vec::new() })
    }

    /// Takes the payload of the server's next packet.
    pub fn feed(&mut self, payload: &[u8]) -> BackendStep {
        match self.step(payload) {
            Ok((step, state)) => {
                self.state = state;
                step
            }
            Err(failure) => {
                self.state = State::Ended;
                BackendStep::Failed(failure)
            }
        }
    }

    /// The nonce that a later `COM_CHANGE_USER` on this connection answers: that of the last switch, or the greeting's
    /// if there was none.
    pub fn nonce(&self) -> &Nonce {
        &self.nonce
    }

    fn step(&mut self, payload: &[u8]) -> Result<(BackendStep, State), Failure> {
        match (payload.first(), self.state) {
            (_, State::Ended) => Err(Malformed("packet after the end of the authentication").into()),
            (Some(0x00), State::Unanswered) => Err(Failure::PasswordNotAsked),
            (Some(0x00), _) => Ok((BackendStep::Ok, State::Ended)),
            (Some(0xFF), _) => Err(Failure::Server),
            (Some(&AuthSwitchRequest::HEADER), State::Answered(_) | State::Unanswered) => {
                self.switch(payload)
            }
            (Some(&AuthMoreData::HEADER), State::Answered(Plugin::CachingSha2Password)) => {
                self.continue_sha2(AuthMoreData::decode(payload)?.0)
            }
            (Some(&AuthMoreData::HEADER), State::KeyRequested) => {
                let key = PublicKey::from_pem(AuthMoreData::decode(payload)?.0)?;
                let encrypted = caching_sha2::encrypt(self.password()?, &self.nonce, &key, &self.seed)?;
                Ok((BackendStep::Send(encrypted), State::Proven))
            }
            _ => Err(Malformed("unexpected packet during authentication").into()),
        }
    }

    fn switch(&mut self, payload: &[u8]) -> Result<(BackendStep, State), Failure> {
        let request = AuthSwitchRequest::decode(payload)?;
        self.switches += 1;
        if self.switches > MAX_SWITCHES {
            return Err(Malformed("too many authentication switches").into());
        }
        let plugin = Plugin::from_name(&request.plugin);
        let nonce = request.nonce().ok_or(Malformed("AuthSwitchRequest without a nonce"));
        let answer = match plugin {
            Plugin::NativePassword => {
                self.nonce = nonce?;
                match &self.secret {
                    Secret::Clear(password) => native::scramble(password.bytes(), &self.nonce),
                    Secret::NativeStage1(stage1) => native::scramble_stage1(stage1, &self.nonce).to_vec(),
                }
            }
            Plugin::CachingSha2Password => {
                self.nonce = nonce?;
                caching_sha2::scramble(self.password()?, &self.nonce)
            }
            Plugin::Ed25519 => {
                let message = request.data.as_slice().try_into();
                let message = message.map_err(|_| Malformed("client_ed25519 without its 32 bytes"))?;
                ed25519::sign(self.password_for(plugin)?, message).to_vec()
            }
            Plugin::ClearPassword if !self.channel.is_secure() => {
                return Err(Failure::NeedsSecureChannel);
            }
            Plugin::ClearPassword if !self.channel.is_verified() => {
                return Err(Failure::NeedsVerifiedServer);
            }
            Plugin::ClearPassword => caching_sha2::clear(self.password_for(plugin)?),
            _ => {
                let name = String::from_utf8_lossy(&request.plugin).into_owned();
                return Err(Failure::UnsupportedPlugin(name));
            }
        };
        Ok((BackendStep::Send(answer), State::Answered(plugin)))
    }

    fn continue_sha2(&self, data: &[u8]) -> Result<(BackendStep, State), Failure> {
        match (data, self.channel) {
            ([FAST_OK], _) => Ok((BackendStep::Wait, State::Proven)),
            ([FULL_AUTH], channel) if channel.is_secure() => {
                Ok((BackendStep::Send(caching_sha2::clear(self.password()?)), State::Proven))
            }
            ([FULL_AUTH], _) if !self.may_ask_for_key => Err(Failure::NeedsPublicKey),
            ([FULL_AUTH], _) => {
                self.password()?;
                Ok((BackendStep::Send(vec![REQUEST_PUBLIC_KEY]), State::KeyRequested))
            }
            _ => Err(Malformed("unknown data of caching_sha2_password").into()),
        }
    }

    fn password(&self) -> Result<&[u8], Failure> {
        self.password_for(Plugin::CachingSha2Password)
    }

    fn password_for(&self, plugin: Plugin) -> Result<&[u8], Failure> {
        match &self.secret {
            Secret::Clear(password) => Ok(password.bytes()),
            Secret::NativeStage1(_) => Err(Failure::NeedsPassword(plugin.name())),
        }
    }
}

#[cfg(test)]
mod tests;
