//! What a server does with a client that logs in: verify the answer it came with, or ask for another one.
//!
//! The nonce stays the same through a switch and for every `COM_CHANGE_USER` of the connection. Drivers differ in which
//! one they answer after a switch, the greeting's or the last; with one nonce they cannot be wrong.

use super::caching_sha2::{self, FAST_OK, FULL_AUTH, StoredHash, is_empty_response};
use super::{Channel, Nonce, Plugin, Secret, native};
use crate::handshake::{AuthMoreData, AuthSwitchRequest};

/// How an account's password is kept.
#[derive(Clone, PartialEq, Eq)]
pub enum Stored {
    /// In clear; empty for an account without password.
    Clear(Vec<u8>),
    /// `*HEX`: `SHA1(SHA1(password))`.
    Native(native::Stage),
    /// `$A$005$...`. Such an account logs in over a secure channel only, by sending its password. Whoever keeps the
    /// [`Secret`] learnt from that as `Clear` spares later logins the milliseconds and the secure channel.
    CachingSha2(StoredHash),
}

/// Which [`Stored`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// [`Stored::Clear`]
    Clear,
    /// [`Stored::Native`]
    Native,
    /// [`Stored::CachingSha2`], with the rounds that its time depends on.
    CachingSha2 {
        /// [`StoredHash::rounds`]
        rounds: u32,
    },
}

/// Whom a client claims to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    stored: Stored,
    exists: bool,
}

/// What a client's first answer came with, in a login or a `COM_CHANGE_USER`.
#[derive(Debug, Clone, Copy)]
pub struct Challenge<'a> {
    /// The greeting's nonce.
    pub nonce: &'a Nonce,
    /// The greeting's plugin; a client that names none of ours is switched to it.
    pub announced: Plugin,
    /// Who could have listened.
    pub channel: Channel,
    /// Whether the client has `PLUGIN_AUTH`; one without can answer for `mysql_native_password` only.
    pub can_switch: bool,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send this payload, then feed the client's next one.
    Send(Vec<u8>),
    /// The client is who it claims to be. Send the payload, where there is one, and OK.
    Accept {
        /// An `AuthMoreData` that the client waits for before OK.
        before_ok: Option<Vec<u8>>,
        /// What the client's password is good for toward backends.
        secret: Secret,
    },
    /// The client is not let in. Send ERR 1045 (or 1251 for [`Rejection::CannotSwitch`]) and close.
    Reject(Rejection),
}

/// Why a client is not let in. For the log; the client is told the same in the first two cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The account does not exist or has another password.
    #[error("wrong user or password")]
    WrongPassword,
    /// Only a hash is stored, and the client would have to send its password over an open channel.
    #[error("the stored caching_sha2_password hash can only be verified over TLS or a Unix socket")]
    NeedsSecureChannel,
    /// The client has no plugin names, and the stored form needs another plugin than `mysql_native_password`.
    #[error("the client does not support the authentication plugin its account needs")]
    CannotSwitch,
    /// A packet more than the exchange has.
    #[error("packet after the end of the authentication")]
    OutOfOrder,
}

/// A login under way.
///
/// ```text
///   start ──the answer can be verified───────────▶ verify ──────────▶ Accept | Reject
///     │                                            ▲   │
///     └─else: Send AuthSwitchRequest─▶ Switched ───┘   └─hash of caching_sha2: Send AuthMoreData 04
///                                      its answer          │
///                                                          └▶ Password ──▶ Accept | Reject
/// ```
///
/// * `Switched`: an AuthSwitchRequest for its plugin is out; the client's next packet answers it. Entered at most once.
/// * `Password`: the client was asked for its password over a secure channel; its next packet is that.
/// * `Ended`: Accept or Reject was returned; nothing more may come.
///
/// An account that does not exist takes the same way and the same time as one that does.
#[derive(Debug)]
pub struct Exchange {
    nonce: Nonce,
    channel: Channel,
    account: Account,
    state: State,
    using_password: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Switched(Plugin),
    Password,
    Ended,
}

impl Exchange {
    /// Begins with the plugin and the answer of the client's login or `COM_CHANGE_USER`.
    pub fn start(
        challenge: &Challenge<'_>,
        account: Account,
        plugin: Option<&[u8]>,
        answer: &[u8],
    ) -> (Exchange, Step) {
        let mut exchange = Exchange {
            nonce: *challenge.nonce,
            channel: challenge.channel,
            account,
            state: State::Ended,
            using_password: !is_empty_response(answer),
        };
        let named = match (challenge.can_switch, plugin) {
            (false, _) => Plugin::NativePassword,
            (true, Some(name)) => Plugin::from_name(name),
            // Clients that leave the name out answer for the greeting's plugin.
            (true, None) => challenge.announced,
        };
        let wanted = exchange.account.stored.plugin_for(named, challenge.announced);
        // libmysqlclient and libmariadb, when their own plugin is not the greeting's, name theirs, send nothing and wait
        // for a nonce of their own.
        let answered = named == challenge.announced || !answer.is_empty() || !challenge.can_switch;
        let step = if named == wanted && answered {
            exchange.verify(wanted, answer)
        } else if challenge.can_switch {
            exchange.state = State::Switched(wanted);
            let request = AuthSwitchRequest::with_nonce(wanted.name().as_bytes(), challenge.nonce);
            Step::Send(payload(|out| request.encode(out)))
        } else {
            Step::Reject(Rejection::CannotSwitch)
        };
        (exchange, step)
    }

    /// Takes the payload of the client's next packet after a [`Step::Send`].
    pub fn feed(&mut self, payload: &[u8]) -> Step {
        self.using_password = !is_empty_response(payload);
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Switched(plugin) => self.verify(plugin, payload),
            State::Password => self.verify_password(payload),
            State::Ended => Step::Reject(Rejection::OutOfOrder),
        }
    }

    /// Whether the client's last answer was more than that of an empty password: `using password: YES` of error 1045.
    pub fn using_password(&self) -> bool {
        self.using_password
    }

    fn verify(&mut self, plugin: Plugin, answer: &[u8]) -> Step {
        match (&self.account.stored, plugin) {
            (Stored::Clear(password), Plugin::NativePassword) => {
                let matches = native::verify(password, &self.nonce, answer);
                self.settle(matches, None, Secret::Clear(password.clone()))
            }
            (Stored::Clear(password), Plugin::CachingSha2Password) => {
                let matches = caching_sha2::verify(password, &self.nonce, answer);
                // An empty password is done at once; the client does not wait for more.
                let fast_ok = (!password.is_empty()).then(|| more_data(FAST_OK));
                self.settle(matches, fast_ok, Secret::Clear(password.clone()))
            }
            (Stored::Native(stage2), Plugin::NativePassword) => {
                match native::verify_stored(stage2, &self.nonce, answer) {
                    Some(stage1) => self.settle(true, None, Secret::NativeStage1(stage1)),
                    None => Step::Reject(Rejection::WrongPassword),
                }
            }
            (Stored::CachingSha2(_), Plugin::CachingSha2Password) => {
                if is_empty_response(answer) {
                    Step::Reject(Rejection::WrongPassword)
                } else if self.channel == Channel::Secure {
                    self.state = State::Password;
                    Step::Send(more_data(FULL_AUTH))
                } else {
                    Step::Reject(Rejection::NeedsSecureChannel)
                }
            }
            // `Stored::plugin_for` chooses none of these.
            _ => Step::Reject(Rejection::CannotSwitch),
        }
    }

    fn verify_password(&self, answer: &[u8]) -> Step {
        let password = answer.strip_suffix(&[0]).unwrap_or(answer);
        let Stored::CachingSha2(hash) = &self.account.stored else {
            return Step::Reject(Rejection::OutOfOrder);
        };
        let matches = password.len() <= MAX_PASSWORD_LENGTH && hash.verify(password);
        self.settle(matches, None, Secret::Clear(password.to_vec()))
    }

    fn settle(&self, matches: bool, before_ok: Option<Vec<u8>>, secret: Secret) -> Step {
        if matches && self.account.exists {
            Step::Accept { before_ok, secret }
        } else {
            Step::Reject(Rejection::WrongPassword)
        }
    }
}

/// Longest password hashed: MySQL's own limit for this plugin; keeps a megabyte from being hashed 5,000 times.
const MAX_PASSWORD_LENGTH: usize = 256;

impl Account {
    /// An account that exists.
    pub fn known(stored: Stored) -> Self {
        Account { stored, exists: true }
    }

    /// In place of an account that does not exist: never let in.
    ///
    /// The exchange's steps depend on the stored form, so a name nobody has gets one of the `forms` that are in use,
    /// always the same one for the same name. `key` is random and kept while the process lives: without it nobody
    /// can compute which form a name would get, and conclude from another one that the account exists.
    pub fn decoy(user: &[u8], forms: &[Form], key: &[u8; 32]) -> Self {
        use sha2::{Digest, Sha256};
        let hash = Sha256::new().chain_update(key).chain_update(user).chain_update(key).finalize();
        let choice = hash.first().map_or(0, |byte| usize::from(*byte)) % forms.len().max(1);
        let stored = match forms.get(choice).copied().unwrap_or(Form::Clear) {
            Form::Clear => Stored::Clear(hash.to_vec()),
            Form::Native => Stored::Native(native::stage1(&hash)),
            Form::CachingSha2 { rounds } => Stored::CachingSha2(StoredHash::decoy(rounds)),
        };
        Account { stored, exists: false }
    }
}

impl Stored {
    /// Reads the `password` of an account as it is configured: `*` and 40 hexadecimal digits, `$A$` and the rest of a
    /// `caching_sha2_password` hash, or else the password in clear.
    pub fn parse(text: &[u8]) -> Self {
        if let Some(stage2) = native::parse_stored(text) {
            Stored::Native(stage2)
        } else if let Some(hash) = StoredHash::parse(text) {
            Stored::CachingSha2(hash)
        } else {
            Stored::Clear(text.to_vec())
        }
    }

    /// Which form this is.
    pub fn form(&self) -> Form {
        match self {
            Stored::Clear(_) => Form::Clear,
            Stored::Native(_) => Form::Native,
            Stored::CachingSha2(hash) => Form::CachingSha2 { rounds: hash.rounds() },
        }
    }

    /// The plugin whose answers can be verified: the client's own where that will do.
    fn plugin_for(&self, named: Plugin, announced: Plugin) -> Plugin {
        let verifiable = |plugin| matches!(plugin, Plugin::NativePassword | Plugin::CachingSha2Password);
        match self {
            Stored::Native(_) => Plugin::NativePassword,
            Stored::CachingSha2(_) => Plugin::CachingSha2Password,
            Stored::Clear(_) if verifiable(named) => named,
            Stored::Clear(_) if verifiable(announced) => announced,
            Stored::Clear(_) => Plugin::NativePassword,
        }
    }
}

impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}(..)", self.form())
    }
}

fn more_data(byte: u8) -> Vec<u8> {
    payload(|out| AuthMoreData(&[byte]).encode(out))
}

fn payload(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

#[cfg(test)]
mod tests;
