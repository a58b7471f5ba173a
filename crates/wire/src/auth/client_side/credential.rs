//! The passwords of accounts: how they are stored, and how answers of clients are compared with them.

use std::sync::OnceLock;

use subtle::ConstantTimeEq;

use super::super::caching_sha2::{self, StoredHash};
use super::super::{Channel, Nonce, Password, Plugin, Secret, ed25519, native};

/// How an account's password is kept.
#[derive(Clone, PartialEq, Eq)]
pub enum Stored {
    /// In clear text; empty for an account without a password.
    Clear(Password),
    /// `*HEX`: `SHA1(SHA1(password))`.
    Native(native::Stage),
    /// `$A$` with rounds, salt and digest.
    CachingSha2(StoredHash),
    /// The key of MariaDB's `ed25519`. It only verifies passwords that clients send: servers want the password itself.
    Ed25519(ed25519::StoredKey),
    /// Nothing: only the servers know it.
    AtServers,
}

/// Which [`Stored`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// [`Stored::Clear`]
    Clear,
    /// [`Stored::Native`]
    Native,
    /// [`Stored::CachingSha2`], with the number of rounds, which determines the time it takes.
    CachingSha2 {
        /// [`StoredHash::rounds`]
        rounds: u32,
    },
    /// [`Stored::Ed25519`]
    Ed25519,
    /// [`Stored::AtServers`]
    AtServers,
    /// Clients must show a token, whatever is stored.
    Token,
    /// Clients may show a token, and may show a password, whatever is stored.
    PasswordOrToken,
}

/// One password of an account: how it is stored, and what logins have revealed about it, which stays in memory.
#[derive(Debug)]
pub struct Credential {
    stored: Stored,
    /// The password that belongs to a hash, once a client has sent it.
    password: OnceLock<Password>,
}

impl Stored {
    /// Reads the `password` of an account as it is configured: `*` and 40 hexadecimal digits, `$A$` and the rest of a
    /// `caching_sha2_password` hash, or otherwise the password in clear text.
    pub fn parse(text: &[u8]) -> Self {
        if let Some(stage2) = native::parse_stored(text) {
            Stored::Native(stage2)
        } else if let Some(hash) = StoredHash::parse(text) {
            Stored::CachingSha2(hash)
        } else {
            Stored::Clear(Password::new(text))
        }
    }

    /// Which form this is.
    pub fn form(&self) -> Form {
        match self {
            Stored::Clear(_) => Form::Clear,
            Stored::Native(_) => Form::Native,
            Stored::CachingSha2(hash) => Form::CachingSha2 { rounds: hash.rounds() },
            Stored::Ed25519(_) => Form::Ed25519,
            Stored::AtServers => Form::AtServers,
        }
    }
}

impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}(..)", self.form())
    }
}

/// The outcome of checking an answer against one password.
pub(super) enum PasswordCheck {
    Right(Secret),
    Wrong,
    /// Only the password itself can verify it.
    NeedsPassword,
}

impl Credential {
    /// A stored password, about which nothing else is known.
    pub fn new(stored: Stored) -> Credential {
        Credential { stored, password: OnceLock::new() }
    }

    /// A password that a server has confirmed, and that is stored nowhere else.
    pub fn learnt(password: Password) -> Credential {
        Credential { stored: Stored::AtServers, password: OnceLock::from(password) }
    }

    /// How it is stored.
    pub fn stored(&self) -> &Stored {
        &self.stored
    }

    /// What logs in to servers with it, if the password is known.
    pub fn secret(&self) -> Option<Secret> {
        self.known().cloned().map(Secret::Clear)
    }

    /// The password in clear text, if it is known.
    pub(super) fn known(&self) -> Option<&Password> {
        match &self.stored {
            Stored::Clear(password) => Some(password),
            _ => self.password.get(),
        }
    }

    /// Remembers a password that was verified.
    pub(super) fn learn(&self, password: &[u8]) -> Secret {
        Secret::Clear(match &self.stored {
            Stored::Clear(password) => password.clone(),
            _ => self.password.get_or_init(|| Password::new(password)).clone(),
        })
    }

    /// Whether answers of `plugin` can be verified. Clients that support both plugins prefer a native answer to
    /// trusting a key received over an open channel.
    pub(super) fn suits(&self, plugin: Plugin, channel: Channel) -> bool {
        match plugin {
            Plugin::NativePassword => matches!(self.stored, Stored::Clear(_) | Stored::Native(_)),
            Plugin::CachingSha2Password => {
                channel.is_secure() || self.known().is_some() || !matches!(self.stored, Stored::Native(_))
            }
            Plugin::ClearPassword => channel == Channel::Tls,
            Plugin::Ed25519 => matches!(self.stored, Stored::Clear(_)),
            _ => false,
        }
    }

    pub(super) fn verify(&self, plugin: Plugin, nonce: &Nonce, answer: &[u8]) -> PasswordCheck {
        let holds = match (plugin, &self.stored) {
            (Plugin::NativePassword, Stored::Clear(password)) => {
                native::verify(password.bytes(), nonce, answer)
            }
            (Plugin::NativePassword, Stored::Native(stage2)) => {
                return match (native::verify_stored(stage2, nonce, answer), self.password.get()) {
                    (Some(_), Some(password)) => PasswordCheck::Right(Secret::Clear(password.clone())),
                    (Some(stage1), None) => PasswordCheck::Right(Secret::NativeStage1(stage1.into())),
                    (None, _) => PasswordCheck::Wrong,
                };
            }
            (Plugin::CachingSha2Password, Stored::Clear(password)) => {
                caching_sha2::verify(password.bytes(), nonce, answer)
            }
            (Plugin::CachingSha2Password, _) => {
                // After a wrong answer the client is asked for the password, as before the first login: an attacker who
                // guesses learns nothing.
                match self.password.get() {
                    Some(password) if caching_sha2::verify(password.bytes(), nonce, answer) => true,
                    _ => return PasswordCheck::NeedsPassword,
                }
            }
            (Plugin::Ed25519, Stored::Clear(password)) => {
                ed25519::verify(password.bytes(), &ed25519::message_of(nonce), answer)
            }
            _ => false,
        };
        match self.known() {
            Some(password) if holds => PasswordCheck::Right(Secret::Clear(password.clone())),
            _ => PasswordCheck::Wrong,
        }
    }

    pub(super) fn verify_password(&self, password: &[u8]) -> bool {
        match &self.stored {
            Stored::Clear(known) => known.is(password),
            Stored::Native(stage2) => native::stage2(&native::stage1(password)).ct_eq(stage2).into(),
            Stored::CachingSha2(hash) => {
                let known = self.password.get();
                known.is_some_and(|known| known.is(password))
                    || (password.len() <= MAX_PASSWORD_LENGTH && hash.verify(password))
            }
            Stored::Ed25519(key) => ed25519::stored(password).ct_eq(key).into(),
            Stored::AtServers => false,
        }
    }
}

/// Longest password hashed: MySQL's own limit for this plugin. It prevents a megabyte from being hashed 5,000 times.
const MAX_PASSWORD_LENGTH: usize = 256;
