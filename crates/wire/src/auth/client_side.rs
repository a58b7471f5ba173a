//! What a server does with a client that logs in: it verifies the answer that the client sent, or asks for another one.
//!
//! The nonce stays the same through a switch and for every `COM_CHANGE_USER` of the connection. After a switch some
//! drivers answer the greeting's nonce and others the latest; with a single nonce both are right.

mod credential;

use std::sync::Arc;

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::caching_sha2::{FAST_OK, FULL_AUTH, REQUEST_PUBLIC_KEY, StoredHash, is_empty_response};
use super::{Channel, Nonce, Password, Plugin, Secret, ed25519, native};
use crate::handshake::{AuthMoreData, AuthSwitchRequest};
use credential::PasswordCheck;
pub use credential::{Credential, Form, Stored};

/// Whether a client may show a token of an issuer, which it sends as a password in clear text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenUse {
    /// It may not.
    #[default]
    No,
    /// It may, and it may show a password.
    BesidePasswords,
    /// It must: the account's passwords are for servers only.
    Only,
}

/// Who a client claims to be.
#[derive(Debug, Clone)]
pub struct Account {
    credentials: Arc<[Credential]>,
    exists: bool,
    tokens: TokenUse,
}

/// What accompanied a client's first answer, in a login or a `COM_CHANGE_USER`.
#[derive(Debug, Clone)]
pub struct Challenge<'a> {
    /// The greeting's nonce.
    pub nonce: &'a Nonce,
    /// The greeting's plugin; a client that names no plugin we support is switched to it.
    pub announced: Plugin,
    /// Who could have been listening.
    pub channel: Channel,
    /// Whether the client has `PLUGIN_AUTH`; a client without it can only answer for `mysql_native_password`.
    pub can_switch: bool,
    /// The answer is that of a `COM_CHANGE_USER`. Servers take it from clients without `PLUGIN_AUTH` only and ask all others
    /// for one, whatever they have sent. Libraries rely on that: some have no nonce to answer when they send the command,
    /// and those of MySQL answer for their default plugin, or not at all.
    pub restarts: bool,
    /// The RSA key, in PEM, with which clients on an open channel encrypt their passwords.
    pub public_key: Option<Arc<[u8]>>,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientStep {
    /// Send this payload, then feed the client's next one.
    Send(Vec<u8>),
    /// Decrypt this with the private key (RSA-OAEP with SHA-1) and hand the result to [`ClientExchange::decrypted`].
    Decrypt(Vec<u8>),
    /// Run this and hand the result to [`ClientExchange::verified`].
    Verify(Verification),
    /// Ask a server whether this is the account's password, and hand what it can be used for to
    /// [`ClientExchange::asked`].
    AskServer(Password),
    /// Verify this token, and hand the result to [`ClientExchange::token_checked`].
    CheckToken(Password),
    /// The client is who it claims to be. Send the payload, if there is one, and OK.
    Accept {
        /// An `AuthMoreData` that the client waits for before OK.
        before_ok: Option<Vec<u8>>,
        /// What the client's password can be used for when logging in to backends.
        secret: Secret,
    },
    /// The login is refused. Send ERR 1045 (or 1251 for [`Rejection::CannotSwitch`]) and close.
    Reject(Rejection),
}

/// A password that a client has sent, and the account whose stored hash it is compared with. The comparison takes
/// milliseconds, and up to a second if the hash has the maximum number of rounds, so it must not run on a thread that
/// others wait for.
#[derive(Clone)]
pub struct Verification {
    account: Account,
    password: Zeroizing<Vec<u8>>,
}

/// The result of a [`Verification`].
#[derive(Debug)]
pub struct Verified(Option<(usize, Secret)>);

/// Why a login is refused. For the log; the client gets the same error in the first two cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The account does not exist or has a different password.
    #[error("wrong user or password")]
    WrongPassword,
    /// Only a hash is stored, and the client would have to send its password over an open channel.
    #[error("the stored caching_sha2_password hash can only be verified over TLS or a Unix socket")]
    NeedsSecureChannel,
    /// The client would have to send its token over an open channel.
    #[error("a token can only be sent over TLS or a Unix socket")]
    TokenNeedsSecureChannel,
    /// The token is not good for this account.
    #[error("the token is not accepted")]
    WrongToken,
    /// The client does not support plugin names, and the stored form needs a plugin other than `mysql_native_password`.
    #[error("the client does not support the authentication plugin its account needs")]
    CannotSwitch,
    /// One packet more than the exchange has.
    #[error("packet after the end of the authentication")]
    OutOfOrder,
}

/// A login in progress.
///
/// ```text
///   start ──the answer can be verified(1)────────▶ verify ──────────▶ Accept | Reject
///     │                                            ▲   │
///     └─else: Send AuthSwitchRequest─▶ Switched ───┘   └─hash of caching_sha2: Send AuthMoreData 04
///                                      its answer          │
///             ┌──────02: Send the public key───────────────┤
///             ▼                                            ▼
///         KeySent ──▶ Decrypt ──▶ Decrypting ──▶ ... ◀── Password ──▶ Verifying ──▶ Accept | Reject
/// ```
///
/// * (1) That of a login, or of a client without `PLUGIN_AUTH`: see [`Challenge::restarts`].
/// * `Switched`: an AuthSwitchRequest for its plugin was sent; the client's next packet answers it. Entered at most
///   once.
/// * `Password`: the client was asked for its password, which is its next packet, encrypted if others can listen.
/// * `KeySent`: the client has the public key; its next packet is the password encrypted with it.
/// * `Decrypting`: the caller decrypts the password.
/// * `Verifying`: the caller compares the password with a stored hash. If there is no stored hash, this is done at
///   once.
/// * `Asking`: in the place of `Verifying`, if only servers know the password; the caller asks one.
/// * `CheckingToken`: in the place of `Verifying`, if the client has sent a token; the caller verifies it. Clients of accounts that
///   take tokens are asked for what they have in clear text: by `caching_sha2_password` if that is their plugin, as for a
///   password whose hash is stored, and otherwise with an AuthSwitchRequest for `mysql_clear_password`.
/// * `Ended`: Accept or Reject was returned; nothing may follow.
///
/// An account that does not exist takes the same path and the same time as one that does.
#[derive(Debug)]
pub struct ClientExchange {
    nonce: Nonce,
    channel: Channel,
    public_key: Option<Arc<[u8]>>,
    account: Account,
    state: State,
    using_password: bool,
    /// The client's last answer, and its plugin.
    last: Option<(Plugin, Password)>,
    shown: Option<usize>,
    /// Whether the client can be switched to another plugin, which is possible once.
    can_switch: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Switched(Plugin),
    Password,
    KeySent,
    Decrypting,
    Verifying,
    Asking,
    CheckingToken,
    Ended,
}

impl ClientExchange {
    /// Begins with the plugin and the answer of the client's login or `COM_CHANGE_USER`.
    pub fn start(
        challenge: &Challenge<'_>,
        account: Account,
        plugin: Option<&[u8]>,
        answer: &[u8],
    ) -> (ClientExchange, ClientStep) {
        let mut exchange = ClientExchange {
            nonce: *challenge.nonce,
            channel: challenge.channel,
            public_key: challenge.public_key.clone(),
            account,
            state: State::Ended,
            using_password: !is_empty_response(answer),
            last: None,
            shown: None,
            can_switch: challenge.can_switch,
        };
        if exchange.account.tokens == TokenUse::Only && !challenge.channel.is_secure() {
            return (exchange, ClientStep::Reject(Rejection::TokenNeedsSecureChannel));
        }
        let named = match (challenge.can_switch, plugin) {
            (false, _) => Plugin::NativePassword,
            (true, Some(name)) => Plugin::from_name(name),
            // Clients that omit the name answer for the greeting's plugin.
            (true, None) => challenge.announced,
        };
        let wanted = exchange.plugin_for(named, challenge.announced);
        // If their own plugin is not the greeting's, libmysqlclient and libmariadb name theirs, send no answer and wait
        // for a new nonce. A signature always needs a longer nonce.
        let answered = named == challenge.announced || !answer.is_empty() || !challenge.can_switch;
        let answered = answered && !(challenge.restarts && challenge.can_switch);
        let step = if named == wanted && answered && wanted != Plugin::Ed25519 {
            exchange.verify(wanted, answer)
        } else {
            exchange.switch(wanted)
        };
        (exchange, step)
    }

    /// Takes the payload of the client's next packet after a [`ClientStep::Send`].
    pub fn feed(&mut self, payload: &[u8]) -> ClientStep {
        if payload != [REQUEST_PUBLIC_KEY] {
            self.using_password = !is_empty_response(payload);
        }
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Switched(plugin) => self.verify(plugin, payload),
            State::Password if self.channel.is_secure() => self.verify_password(payload),
            State::Password if payload == [REQUEST_PUBLIC_KEY] => match &self.public_key {
                Some(key) => {
                    self.state = State::KeySent;
                    ClientStep::Send(encoded(|out| AuthMoreData(key).encode(out)))
                }
                None => ClientStep::Reject(Rejection::NeedsSecureChannel),
            },
            State::Password | State::KeySent => {
                self.state = State::Decrypting;
                ClientStep::Decrypt(payload.to_vec())
            }
            State::Decrypting | State::Verifying | State::Asking | State::CheckingToken | State::Ended => {
                ClientStep::Reject(Rejection::OutOfOrder)
            }
        }
    }

    /// Takes the result of a [`ClientStep::Decrypt`]; `None` if decryption failed.
    pub fn decrypted(&mut self, masked: Option<Zeroizing<Vec<u8>>>) -> ClientStep {
        if std::mem::replace(&mut self.state, State::Ended) != State::Decrypting {
            return ClientStep::Reject(Rejection::OutOfOrder);
        }
        // A password that cannot be decrypted is verified like any wrong one, and takes as long.
        let mut password = masked.unwrap_or_default();
        password.iter_mut().zip(self.nonce.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        self.verify_password(&password)
    }

    /// Takes the result of a [`ClientStep::Verify`].
    pub fn verified(&mut self, Verified(found): Verified) -> ClientStep {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Verifying => self.settle(found, None),
            _ => ClientStep::Reject(Rejection::OutOfOrder),
        }
    }

    /// Verifies the client's last answer again, after a rejection: what is known of the account was out of date.
    pub fn again(&mut self, account: Account) -> ClientStep {
        self.account = account;
        match self.last.take() {
            Some((plugin, answer)) => self.verify(plugin, answer.bytes()),
            None => ClientStep::Reject(Rejection::WrongPassword),
        }
    }

    /// Takes the result of a [`ClientStep::AskServer`]: what the password can be used for; `None` if it is wrong.
    pub fn asked(&mut self, secret: Option<Secret>) -> ClientStep {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Asking => self.settle(secret.map(|secret| (0, secret)), None),
            _ => ClientStep::Reject(Rejection::OutOfOrder),
        }
    }

    /// Takes the result of a [`ClientStep::CheckToken`].
    pub fn token_checked(&mut self, is_good: bool) -> ClientStep {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::CheckingToken if is_good && self.account.exists => {
                let of_row = self.account.credentials.first().and_then(Credential::secret);
                let secret = of_row.unwrap_or_else(|| Secret::Clear(Password::new(b"")));
                ClientStep::Accept { before_ok: None, secret }
            }
            State::CheckingToken => ClientStep::Reject(Rejection::WrongToken),
            _ => ClientStep::Reject(Rejection::OutOfOrder),
        }
    }

    /// Which of the account's passwords an accepted client has shown, counted from 0; `None`: none of them.
    pub fn shown(&self) -> Option<usize> {
        self.shown
    }

    /// Whether the client's last answer was more than that of an empty password: `using password: YES` of error 1045.
    pub fn using_password(&self) -> bool {
        self.using_password
    }

    /// Makes the client answer with `plugin`.
    fn switch(&mut self, plugin: Plugin) -> ClientStep {
        if !std::mem::take(&mut self.can_switch) {
            return ClientStep::Reject(Rejection::CannotSwitch);
        }
        self.state = State::Switched(plugin);
        ClientStep::Send(self.switch_to(plugin))
    }

    fn switch_to(&self, plugin: Plugin) -> Vec<u8> {
        let name = plugin.name().as_bytes();
        let request = match plugin {
            Plugin::Ed25519 => {
                let data = ed25519::message_of(&self.nonce).to_vec();
                AuthSwitchRequest { plugin: name.to_vec(), data }
            }
            _ => AuthSwitchRequest::with_nonce(name, &self.nonce),
        };
        encoded(|out| request.encode(out))
    }

    /// The plugin whose answers can be verified: the client's own if possible, otherwise the announced one.
    fn plugin_for(&self, named: Plugin, announced: Plugin) -> Plugin {
        let may_send_token = self.account.tokens != TokenUse::No && self.channel.is_secure();
        match named {
            Plugin::ClearPassword if may_send_token => return named,
            Plugin::CachingSha2Password if self.account.tokens == TokenUse::Only => return named,
            _ if self.account.tokens == TokenUse::Only => return Plugin::ClearPassword,
            _ => {}
        }
        let suits = |plugin| self.account.passwords().iter().all(|one| one.suits(plugin, self.channel));
        [named, announced, Plugin::NativePassword]
            .into_iter()
            .find(|plugin| suits(*plugin))
            .unwrap_or(Plugin::CachingSha2Password)
    }

    /// Verifies an answer against every password of the account, and does not stop at the one that matches.
    fn verify(&mut self, plugin: Plugin, answer: &[u8]) -> ClientStep {
        self.last = Some((plugin, Password::new(answer)));
        let mut found = None;
        let mut needs_password = false;
        for (index, credential) in self.account.passwords().iter().enumerate() {
            match credential.verify(plugin, &self.nonce, answer) {
                PasswordCheck::Right(secret) => found = Some((index, secret)),
                PasswordCheck::Wrong => {}
                PasswordCheck::NeedsPassword => needs_password = true,
            }
        }
        match found {
            Some(found) => {
                // An empty password is verified at once; the client does not wait for another packet.
                let told = plugin == Plugin::CachingSha2Password && !is_empty_response(answer);
                self.settle(Some(found), told.then(|| more_data(FAST_OK)))
            }
            None if plugin == Plugin::ClearPassword => self.verify_password(answer),
            // A server may have given the account no password.
            None if self.account.is_at_servers() && is_empty_response(answer) => self.verify_password(b""),
            None if self.may_have_token(plugin, answer) => self.ask_for_token(plugin),
            None if !needs_password || is_empty_response(answer) => self.settle(None, None),
            None if !self.channel.is_secure() && self.public_key.is_none() => {
                ClientStep::Reject(Rejection::NeedsSecureChannel)
            }
            None => {
                self.state = State::Password;
                ClientStep::Send(more_data(FULL_AUTH))
            }
        }
    }

    /// Whether a client whose answer fits no password can be asked for a token.
    fn may_have_token(&self, plugin: Plugin, answer: &[u8]) -> bool {
        let can_ask = plugin == Plugin::CachingSha2Password || self.can_switch;
        self.account.tokens != TokenUse::No
            && self.channel.is_secure()
            && can_ask
            && !is_empty_response(answer)
    }

    fn ask_for_token(&mut self, plugin: Plugin) -> ClientStep {
        if plugin != Plugin::CachingSha2Password {
            return self.switch(Plugin::ClearPassword);
        }
        self.state = State::Password;
        ClientStep::Send(more_data(FULL_AUTH))
    }

    fn verify_password(&mut self, answer: &[u8]) -> ClientStep {
        let password = answer.strip_suffix(&[0]).unwrap_or(answer);
        self.last = Some((Plugin::ClearPassword, Password::new(password)));
        let is_token = match self.account.tokens {
            TokenUse::No => false,
            TokenUse::BesidePasswords => looks_like_token(password) && self.channel.is_secure(),
            TokenUse::Only => true,
        };
        if is_token {
            self.state = State::CheckingToken;
            return ClientStep::CheckToken(Password::new(password));
        }
        if self.account.is_at_servers() {
            self.state = State::Asking;
            return ClientStep::AskServer(Password::new(password));
        }
        if self.account.has_costly_hash() {
            self.state = State::Verifying;
            let password = Zeroizing::new(password.to_vec());
            return ClientStep::Verify(Verification { account: self.account.clone(), password });
        }
        self.settle(self.account.verify_password(password), None)
    }

    fn settle(&mut self, found: Option<(usize, Secret)>, before_ok: Option<Vec<u8>>) -> ClientStep {
        match found {
            Some((index, secret)) if self.account.exists => {
                self.shown = Some(index);
                ClientStep::Accept { before_ok, secret }
            }
            _ => ClientStep::Reject(Rejection::WrongPassword),
        }
    }
}

impl Verification {
    /// Compares.
    pub fn run(self) -> Verified {
        Verified(self.account.verify_password(&self.password))
    }
}

impl PartialEq for Verification {
    /// The passwords of the same client.
    fn eq(&self, other: &Verification) -> bool {
        self.password == other.password && Arc::ptr_eq(&self.account.credentials, &other.account.credentials)
    }
}

impl Eq for Verification {}

impl std::fmt::Debug for Verification {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verification(..)")
    }
}

impl Account {
    /// Whether comparing a password with it means hashing the password thousands of times.
    fn has_costly_hash(&self) -> bool {
        self.credentials.iter().any(|credential| matches!(credential.stored(), Stored::CachingSha2(_)))
    }

    /// Whether only servers can say what its password is.
    pub fn is_at_servers(&self) -> bool {
        self.passwords().iter().any(|credential| *credential.stored() == Stored::AtServers)
    }

    /// Which of the account's passwords `password` is, and what it can be used for.
    fn verify_password(&self, password: &[u8]) -> Option<(usize, Secret)> {
        let mut found = None;
        for (index, credential) in self.credentials.iter().enumerate() {
            // All are tried, so that the time taken does not reveal which one it was.
            if credential.verify_password(password) {
                found = Some((index, credential));
            }
        }
        found.filter(|_| self.exists).map(|(index, credential)| (index, credential.learn(password)))
    }

    /// Whether this is one of the account's passwords. It may take as long as a [`Verification`].
    pub fn accepts(&self, password: &[u8]) -> bool {
        self.verify_password(password).is_some()
    }

    /// An account that exists and has these passwords, any of which is accepted.
    pub fn known(credentials: Arc<[Credential]>) -> Self {
        Account { credentials, exists: true, tokens: TokenUse::No }
    }

    /// The same account, which may or must show tokens.
    #[must_use]
    pub fn with_tokens(self, tokens: TokenUse) -> Self {
        Account { tokens, ..self }
    }

    /// The passwords that clients may show.
    fn passwords(&self) -> &[Credential] {
        if self.tokens == TokenUse::Only { &[] } else { &self.credentials }
    }

    /// Stands in for an account that does not exist: its login is always refused.
    ///
    /// The exchange's steps depend on the stored form, so an unknown name is given one of the `forms` that are in use,
    /// always the same one for the same name. `key` is random and kept for the life of the process: without it an
    /// attacker cannot compute which form an unknown name would be given, and infer from a different one that the
    /// account exists.
    pub fn decoy(user: &[u8], forms: &[Form], key: &[u8; 32]) -> Self {
        let hash = Sha256::new().chain_update(key).chain_update(user).chain_update(key).finalize();
        let choice = hash.first().map_or(0, |byte| usize::from(*byte)) % forms.len().max(1);
        let form = forms.get(choice).copied().unwrap_or(Form::Clear);
        let tokens = match form {
            Form::Token => TokenUse::Only,
            Form::PasswordOrToken => TokenUse::BesidePasswords,
            _ => TokenUse::No,
        };
        let stored = match form {
            Form::Clear | Form::Token | Form::PasswordOrToken => Stored::Clear(Password::new(&hash)),
            Form::Native => Stored::Native(native::stage1(&hash)),
            Form::CachingSha2 { rounds } => Stored::CachingSha2(StoredHash::decoy(rounds)),
            Form::Ed25519 => Stored::Ed25519([b'!'; ed25519::STORED_LENGTH]),
            Form::AtServers => Stored::AtServers,
        };
        Account { credentials: Arc::new([Credential::new(stored)]), exists: false, tokens }
    }
}

/// Whether a text is rather a token than a password: three parts with dots between them, of which the first is an object of JSON in
/// base64 (`{"` is `eyJ`).
fn looks_like_token(text: &[u8]) -> bool {
    text.starts_with(b"eyJ") && text.iter().filter(|byte| **byte == b'.').count() == 2
}

fn more_data(byte: u8) -> Vec<u8> {
    encoded(|out| AuthMoreData(&[byte]).encode(out))
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

#[cfg(test)]
mod tests;
