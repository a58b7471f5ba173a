//! The issuers in force, what is known of each, and how a login asks for more.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use narrows_wire::auth::Password;
use serde_json::{Map, Value};

use super::keys::KeySet;
use super::refusal::Excerpt;
use super::settings::IssuerSettings;
use crate::rt::{MailboxSender, oneshot, timeout};

/// An issuer in force.
#[derive(Debug)]
pub struct Issuer {
    /// How it is configured.
    pub settings: IssuerSettings,
    #[expect(
        clippy::disallowed_types,
        reason = "only logins with tokens read it, and only a fetch of keys writes it"
    )]
    known: std::sync::RwLock<Known>,
    accepted: AtomicU64,
    refused: AtomicU64,
    questions: MailboxSender<IssuerQuestion>,
}

/// What is known of an issuer.
#[derive(Debug, Default)]
struct Known {
    /// `None`: they were never fetched with success.
    keys: Option<Arc<KeySet>>,
    last_fetch: u64,
    last_success: u64,
    fetches: u64,
    error: Option<Arc<str>>,
}

/// What a login asks. A login asks one question and waits for its answer, so there are no more than logins.
pub enum IssuerQuestion {
    /// Fetch the keys again, unless that was done a moment ago.
    Keys(Arc<Issuer>, KeysQuestion),
    /// Ask the API server whether a token is valid.
    Review(Arc<Issuer>, ReviewQuestion),
}

/// A login whose token has a key that is not among those it found.
pub struct KeysQuestion {
    /// It found none at all, since none were fetched yet: the first ones are an answer, even if they came before the question.
    pub found_none: bool,
    /// Takes the answer: look again.
    pub answer: oneshot::Sender<()>,
}

/// A login whose token an API server verifies.
pub struct ReviewQuestion {
    /// The token.
    pub token: Password,
    /// When it expires, in seconds since 1970, as it says itself.
    pub expires: u64,
    /// The address of the client; `None`: it is on this machine.
    pub from: Option<IpAddr>,
    /// Takes the answer.
    pub answer: oneshot::Sender<ReviewAnswer>,
}

/// What an API server says of a token: its claims, or why it is not valid.
///
/// The error is why the server cannot be asked.
pub type ReviewAnswer = Result<Result<Map<String, Value>, Excerpt>, String>;

/// What operators see of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerFigures {
    /// The name of its row.
    pub name: String,
    /// The keys that can verify tokens.
    pub keys: usize,
    /// Keys that cannot.
    pub left_out: usize,
    /// How often keys were fetched, or an API server was asked.
    pub fetches: u64,
    /// When last, in seconds since 1970 (0: never).
    pub last_fetch: u64,
    /// When last with success.
    pub last_success: u64,
    /// Why the last one failed; empty: it has not.
    pub error: String,
    /// Tokens that were accepted.
    pub accepted: u64,
    /// Tokens that were refused.
    pub refused: u64,
}

impl Issuer {
    /// One about which nothing is known yet; `questions` leads to who fetches its keys.
    pub fn new(settings: IssuerSettings, questions: MailboxSender<IssuerQuestion>) -> Issuer {
        let (accepted, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        #[expect(clippy::disallowed_types, reason = "as above")]
        let known = std::sync::RwLock::new(Known::default());
        Issuer { settings, known, accepted, refused, questions }
    }

    /// Its keys; `None`: they were never fetched with success.
    pub fn keys(&self) -> Option<Arc<KeySet>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).keys.clone()
    }

    /// Why the last fetch failed, if it has.
    pub fn error(&self) -> Option<Arc<str>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).error.clone()
    }

    /// Takes the result of a fetch over. Keys that are there stay if it has failed. Returns whether something else is wrong than
    /// before, or nothing any more.
    pub fn fetched(&self, result: Result<KeySet, String>) -> bool {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.fetches += 1;
        known.last_fetch = seconds_now();
        let before = known.error.take();
        match result {
            Ok(keys) => {
                known.keys = Some(Arc::new(keys));
                known.last_success = known.last_fetch;
                before.is_some()
            }
            Err(error) => {
                let is_news = before.as_deref() != Some(error.as_str());
                known.error = Some(error.into());
                is_news
            }
        }
    }

    /// Makes the keys be fetched, and waits for that. `found_none`: there were none yet.
    pub(super) async fn have_newer_keys(
        self: &Arc<Self>,
        found_none: bool,
        limit: Duration,
    ) -> Result<(), String> {
        let (answer, answered) = oneshot::channel();
        let question = KeysQuestion { found_none, answer };
        let asked = self.questions.send(IssuerQuestion::Keys(Arc::clone(self), question));
        asked.map_err(|_| "nothing fetches keys any more".to_owned())?;
        match timeout(limit, answered).await {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("no keys within {} ms", limit.as_millis())),
        }
    }

    /// Asks the API server about a token.
    pub(super) async fn review(
        self: &Arc<Self>,
        (token, from): (&Password, Option<IpAddr>),
        expires: u64,
        limit: Duration,
    ) -> ReviewAnswer {
        let (answer, answered) = oneshot::channel();
        let question = ReviewQuestion { token: token.clone(), expires, from, answer };
        let asked = self.questions.send(IssuerQuestion::Review(Arc::clone(self), question));
        asked.map_err(|_| "nothing asks API servers any more".to_owned())?;
        let answered = timeout(limit, answered).await;
        answered
            .map_err(|_| format!("no answer within {} ms", limit.as_millis()))?
            .unwrap_or_else(|_| Err("the question was dropped".to_owned()))
    }

    pub(super) fn count(&self, is_accepted: bool) {
        let counter = if is_accepted { &self.accepted } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// What operators see.
    pub fn figures(&self) -> IssuerFigures {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        IssuerFigures {
            name: self.settings.name.to_string(),
            keys: known.keys.as_ref().map_or(0, |keys| keys.len()),
            left_out: known.keys.as_ref().map_or(0, |keys| keys.left_out),
            fetches: known.fetches,
            last_fetch: known.last_fetch,
            last_success: known.last_success,
            error: known.error.as_deref().unwrap_or_default().to_owned(),
            accepted: self.accepted.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

/// The issuers in force, by name.
pub type Issuers = HashMap<String, Arc<Issuer>>;

/// The issuers in a configuration that is compared: two are equal if they are the same object.
#[derive(Debug, Clone)]
pub struct SharedIssuers(pub Arc<Issuers>);

impl Default for SharedIssuers {
    /// None at all; the same everywhere.
    fn default() -> SharedIssuers {
        static NONE: OnceLock<SharedIssuers> = OnceLock::new();
        NONE.get_or_init(|| SharedIssuers(Arc::default())).clone()
    }
}

impl PartialEq for SharedIssuers {
    fn eq(&self, other: &SharedIssuers) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl std::ops::Deref for SharedIssuers {
    type Target = Issuers;

    fn deref(&self) -> &Issuers {
        &self.0
    }
}

/// Seconds since 1970.
pub(super) fn seconds_now() -> u64 {
    crate::clock::now().as_secs()
}
