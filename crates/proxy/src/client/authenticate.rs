//! Verifies a client's identity: the authentication of logins and of `COM_CHANGE_USER`.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use narrows_wire::Errno;
use narrows_wire::auth::client_side::{Challenge, ClientExchange, ClientStep, Rejection};
use narrows_wire::auth::{Nonce, Plugin, Secret};

use super::claim::{LoginClaim, Refusal, yes_or_no};
use super::identity::Identity;
use super::token::ShownToken;
use super::{LoginError, channel, hello, refuse, refuse_because, schema, send, send_ok};
use crate::backend::Want;
use crate::buffer::Buffer;
use crate::packets::ReadError;
use crate::rt::{Instant, timeout};
use crate::snapshot::{Account, PasswordSide, Snapshot};
use crate::state::{SessionState, SharedState};
use crate::stream::{Stream, Transport};
use crate::tls::KeyPair;
use crate::tokens::TokenRefusal;
use crate::worker::Worker;

/// A client connection counted towards its user's `max_connections`; released when dropped.
pub struct AccountPlace {
    /// The account.
    pub account: Arc<Account>,
    /// For how long the session may last, if its token says it.
    pub lasts: Option<Duration>,
    connections: Arc<AtomicU32>,
}

/// Completes the authentication. Returns the account, the credentials for logging in to servers, and the sequence
/// number of the OK packet that the caller sends.
///
/// # Errors
/// If the client is refused; it has been sent the error.
pub(super) async fn authenticate(
    worker: &Rc<Worker>,
    snapshot: &Snapshot,
    stream: &Stream,
    input: &mut Buffer,
    nonce: &Nonce,
    mut sequence: u8,
    claim: LoginClaim<'_>,
) -> Result<(AccountPlace, Secret, u8), LoginError> {
    let began = Instant::now();
    let identity = Identity::of(worker, snapshot, &claim).await;
    let mut identity = match identity.and_then(|identity| not_locked_out(worker, identity, &claim)) {
        Ok(identity) => identity,
        Err((errno, text)) => return refuse(stream, sequence, errno, text).await,
    };
    let claimed = identity.as_claimed(worker, snapshot, claim.user);
    let is_at_servers = claimed.is_at_servers();
    let challenge = challenge(snapshot, stream, nonce, &claim, is_at_servers);
    let mut token = ShownToken::default();
    let (mut exchange, mut step) = ClientExchange::start(&challenge, claimed, claim.plugin, claim.answer);
    loop {
        step = match step {
            ClientStep::Send(question) => ask(stream, input, &mut sequence, &question, &mut exchange).await?,
            slow @ (ClientStep::Decrypt(_) | ClientStep::Verify(_)) => {
                match work(worker, snapshot, &mut exchange, slow).await {
                    Some(step) => step,
                    None => return too_many_logins(stream, sequence).await,
                }
            }
            ClientStep::AskServer(password) => {
                exchange.asked(identity.assumed(worker, Secret::Clear(password)).await)
            }
            ClientStep::CheckToken(shown) => {
                forget(stream);
                exchange.token_checked(token.check(snapshot, &identity, &claim, &shown).await)
            }
            ClientStep::Accept { before_ok, secret } => {
                let using_password = exchange.using_password();
                let mut place =
                    match enter(worker, stream, (&identity, &secret), &claim, using_password).await {
                        Ok(place) => place,
                        Err((errno, text)) => return refuse(stream, sequence, errno, text).await,
                    };
                place.lasts = token.lasts();
                place.note(exchange.shown());
                if let Some(payload) = before_ok {
                    send(stream, &mut sequence, &payload).await?;
                }
                return Ok((place, secret, sequence));
            }
            ClientStep::Reject(Rejection::WrongToken) => {
                if token.refusal().is_some_and(TokenRefusal::is_guess) {
                    identity.settings().iter().for_each(|account| count_failure(worker, account, &claim));
                }
                return refuse_because(stream, sequence, token.error(&claim), token.why()).await;
            }
            ClientStep::Reject(rejection) => {
                let renewed = Identity::renewed(worker, snapshot, &claim, (rejection, began)).await;
                let Some(renewed) = renewed else {
                    let (errno, text) = rejected(rejection, &claim, exchange.using_password(), is_at_servers);
                    identity.settings().iter().for_each(|account| count_failure(worker, account, &claim));
                    return refuse(stream, sequence, errno, text).await;
                };
                identity = renewed;
                exchange.again(identity.as_claimed(worker, snapshot, claim.user))
            }
        }
    }
}

/// The error of a login that is rejected.
fn rejected(
    rejection: Rejection,
    claim: &LoginClaim<'_>,
    using_password: bool,
    is_at_servers: bool,
) -> Refusal {
    let denied = claim.denied(using_password);
    match rejection {
        Rejection::CannotSwitch => {
            let text = "Client does not support authentication protocol requested by server; \
                        consider upgrading MySQL client";
            (Errno::NOT_SUPPORTED_AUTH_MODE, text.to_owned())
        }
        Rejection::TokenNeedsSecureChannel => {
            let text =
                format!("{denied}. The account takes tokens, which are sent over TLS or a Unix socket only");
            (Errno::ACCESS_DENIED_ERROR, text)
        }
        Rejection::NeedsSecureChannel if is_at_servers => {
            let text = format!("{denied}. TLS is required (mysql-passthrough_auth_require_tls)");
            (Errno::ACCESS_DENIED_ERROR, text)
        }
        _ => (Errno::ACCESS_DENIED_ERROR, denied),
    }
}

fn challenge<'a>(
    snapshot: &'a Snapshot,
    stream: &Stream,
    nonce: &'a Nonce,
    claim: &LoginClaim<'_>,
    is_at_servers: bool,
) -> Challenge<'a> {
    let needs_tls = is_at_servers && snapshot.variables.passthrough_auth_require_tls;
    let key_pair = snapshot.tls.key_pair.as_ref().filter(|_| !needs_tls);
    Challenge {
        nonce,
        announced: Plugin::from_name(snapshot.variables.default_authentication_plugin.as_bytes()),
        channel: channel(stream),
        can_switch: claim.can_switch,
        restarts: claim.is_change,
        public_key: key_pair.map(KeyPair::public_pem),
    }
}

/// Sends the client an authentication packet and reads its answer.
async fn ask(
    stream: &Stream,
    input: &mut Buffer,
    sequence: &mut u8,
    question: &[u8],
    exchange: &mut ClientExchange,
) -> Result<ClientStep, ReadError> {
    // The client may answer with its clear-text password.
    if stream.transport() != Transport::Tcp {
        forget(stream);
    }
    hello::ask(stream, input, sequence, question, exchange).await
}

/// No other process may continue the login: what the client has sent would be kept for it.
fn forget(stream: &Stream) {
    if let Some(tracked) = stream.tracked() {
        tracked.forget();
    }
}

/// The step after one that takes long. `None` if no thread is free for it in time.
async fn work(
    worker: &Worker,
    snapshot: &Snapshot,
    exchange: &mut ClientExchange,
    step: ClientStep,
) -> Option<ClientStep> {
    match step {
        ClientStep::Decrypt(cipher) => {
            let tls = snapshot.tls.clone();
            let decrypt = move || tls.key_pair.as_ref().and_then(|pair| pair.decrypt(&cipher));
            costly(worker, snapshot, decrypt).await.map(|password| exchange.decrypted(password))
        }
        ClientStep::Verify(verification) => {
            let verify = move || verification.run();
            costly(worker, snapshot, verify).await.map(|verified| exchange.verified(verified))
        }
        step => Some(step),
    }
}

/// Does slow work on a separate kind of thread. `None` if no thread is free within half the time limit of a login, so
/// that the client still receives the reason.
async fn costly<T: Send + 'static>(
    worker: &Worker,
    snapshot: &Snapshot,
    job: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let limit = snapshot.variables.connect_timeout_client / 2;
    timeout(limit, worker.peers.threads.run(job)).await.ok().flatten()
}

async fn too_many_logins<T>(stream: &Stream, sequence: u8) -> Result<T, LoginError> {
    let text = "Too many logins at the same time: the password could not be verified".to_owned();
    refuse(stream, sequence, Errno::CON_COUNT_ERROR, text).await
}

/// The same identity, if its client may try; not because of earlier wrong passwords.
fn not_locked_out<'a>(
    worker: &Worker,
    identity: Identity<'a>,
    claim: &LoginClaim<'_>,
) -> Result<Identity<'a>, Refusal> {
    let refusal = identity.settings().and_then(|account| locked_out(worker, account, claim));
    refusal.map_or(Ok(identity), Err)
}

/// Why a client may not even try, because of earlier wrong passwords.
fn locked_out(worker: &Worker, account: &Account, claim: &LoginClaim<'_>) -> Option<Refusal> {
    let lockout = account.login.lockout?;
    let (user, host, attempts) = (claim.name(), claim.host, lockout.attempts);
    let left = worker.peers.lockouts.left(&user, host, Instant::now())?;
    let text = format!(
        "Access denied for user '{user}'@'{host}'. The account is blocked for this address for another {} s, after \
         {attempts} consecutive failed logins",
        left.as_secs() + 1
    );
    Some((Errno::ACCOUNT_BLOCKED_BY_PASSWORD_LOCK, text))
}

/// Counts a wrong password.
fn count_failure(worker: &Worker, account: &Account, claim: &LoginClaim<'_>) {
    let Some(lockout) = account.login.lockout else { return };
    let (user, host) = (claim.name(), claim.host);
    if let Some(time) = worker.peers.lockouts.failed(lockout, &user, host, Instant::now()) {
        tracing::warn!(
            user = &*user,
            client = host,
            seconds = time.as_secs(),
            "an address is locked out: too many wrong passwords"
        );
    }
}

/// The place of a client that has shown what it must.
async fn enter(
    worker: &Worker,
    stream: &Stream,
    (identity, secret): (&Identity<'_>, &Secret),
    claim: &LoginClaim<'_>,
    using_password: bool,
) -> Result<AccountPlace, Refusal> {
    let account = identity.admitted(secret, claim).await;
    let place = account.and_then(|account| admit(worker, &account, stream, claim, using_password));
    place.inspect_err(|(errno, _)| {
        // A server has refused the password.
        if matches!(identity, Identity::AtServers(_)) && *errno == Errno::ACCESS_DENIED_ERROR {
            identity.settings().iter().for_each(|account| count_failure(worker, account, claim));
        }
    })
}

/// Checks what an account requires of a client with the right password: its address, TLS, a certificate, and that there
/// are not too many clients.
fn admit(
    worker: &Worker,
    account: &Arc<Account>,
    stream: &Stream,
    claim: &LoginClaim<'_>,
    using_password: bool,
) -> Result<AccountPlace, (Errno, String)> {
    let denied = Errno::ACCESS_DENIED_ERROR;
    if account.login.lockout.is_some() {
        worker.peers.lockouts.succeeded(&account.row.username, claim.host);
    }
    if !account.login.may_come_from(claim.host) {
        return Err(claim.denied_from_elsewhere(using_password));
    }
    if account.row.use_ssl && stream.transport() != Transport::Tls {
        let (user, password) = (&account.row.username, yes_or_no(using_password));
        let text = format!("Access denied for user '{user}' (using password: {password}). SSL is required");
        return Err((denied, text));
    }
    if account.login.ask_for_certificate() {
        let shown = stream.tls().and_then(|tls| tls.certificate);
        if !account.login.fit(shown.as_deref()) {
            let text = format!("{}. A client certificate is required", claim.denied(using_password));
            return Err((denied, text));
        }
    }
    AccountPlace::take(account).ok_or_else(|| {
        let (user, current) = (&account.row.username, account.connections.load(Ordering::Relaxed));
        let text = format!(
            "User '{user}' has exceeded the 'max_user_connections' resource (current value: {current})"
        );
        (Errno::USER_LIMIT_REACHED, text)
    })
}

/// A `COM_CHANGE_USER`: the same authentication on an established connection. Sends OK. `state_of` returns the
/// account's initial state.
///
/// # Errors
/// A text for the log if the client is refused; it has been sent the error, and its connection must be closed.
pub(crate) async fn change_user(
    worker: &Rc<Worker>,
    snapshot: &Snapshot,
    (stream, input): (&Stream, &mut Buffer),
    nonce: &Nonce,
    claim: LoginClaim<'_>,
    asked: Option<&[u8]>,
    state_of: impl FnOnce(&Account) -> SessionState,
) -> Result<(AccountPlace, Want, SharedState), String> {
    let limit = snapshot.variables.connect_timeout_client;
    let (capabilities, about) = (claim.capabilities, Arc::clone(&claim.about));
    let exchange = authenticate(worker, snapshot, stream, input, nonce, 1, claim);
    let result = timeout(limit, exchange).await.unwrap_or(Err(LoginError::Timeout));
    let (place, secret, sequence) = result.map_err(|error| error.to_string())?;
    let state = worker.shared_state(state_of(&place.account));
    let want = Want::new(Arc::clone(&place.account), secret, capabilities, about, snapshot);
    if let Some((errno, text)) = schema::refusal(worker, snapshot, &want, &state).await {
        let refused: Result<(), LoginError> = refuse(stream, sequence, errno, text).await;
        refused.map_err(|error| error.to_string())?;
    }
    send_ok(stream, sequence, capabilities, asked).await.map_err(|error| error.to_string())?;
    Ok((place, want, state))
}

impl AccountPlace {
    /// Counts the password of that number as used.
    fn note(&self, password: Option<usize>) {
        if let Some(number) = password {
            self.account.passwords.note(PasswordSide::Client, number);
        }
    }

    /// Counts one more client of `account`; `None` if it already has as many as allowed.
    fn take(account: &Arc<Account>) -> Option<AccountPlace> {
        let most = account.row.max_connections;
        let more = |now: u32| (now < most).then_some(now + 1);
        account.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        let connections = Arc::clone(&account.connections);
        Some(AccountPlace { account: Arc::clone(account), lasts: None, connections })
    }
}

impl Drop for AccountPlace {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
