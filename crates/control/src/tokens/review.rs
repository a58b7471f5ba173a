//! Asks the API server of Kubernetes whether a token is valid (`TokenReview`), and remembers for a moment what is.
//!
//! A token itself is not kept: what is remembered is found by its hash, and is in memory only.

use std::cell::RefCell;
use std::collections::HashMap;
use std::env;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{Context, SHA256};
use narrows_proxy::rt::{Instant, Semaphore, oneshot, spawn_local};
use narrows_proxy::tokens::{Issuer, IssuerSettings, KeySet, KeySource, ReviewAnswer};
use narrows_wire::auth::Password;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::request::{Body, exchange};
use crate::files::read_small;

/// What was asked, and what is known.
pub(super) struct Reviews {
    state: RefCell<State>,
    places: Semaphore,
}

#[derive(Default)]
struct State {
    /// Tokens that are valid.
    good: HashMap<TokenHash, Good>,
    /// Logins that wait for the answer about a token. Each waits for one, so there are no more than logins.
    waiting: HashMap<TokenHash, Vec<oneshot::Sender<ReviewAnswer>>>,
}

/// The hash of a token and of its issuer.
type TokenHash = [u8; 32];

struct Good {
    until: Instant,
    claims: Map<String, Value>,
}

impl Default for Reviews {
    fn default() -> Reviews {
        Reviews { state: RefCell::default(), places: Semaphore::new(MOST_AT_ONCE) }
    }
}

impl Reviews {
    /// Answers a login, from memory or after asking the API server. The token expires at the given time in seconds since 1970.
    pub(super) fn ask(
        reviews: &Rc<Reviews>,
        (issuer, token, expires): (Arc<Issuer>, Password, u64),
        answer: oneshot::Sender<ReviewAnswer>,
    ) {
        let hash = hash(&issuer.settings.name, &token);
        let mut state = reviews.state.borrow_mut();
        if let Some(good) = state.good.get(&hash).filter(|good| good.until > Instant::now()) {
            // A login that has ended waits no more.
            let _ = answer.send(Ok(Ok(good.claims.clone())));
            return;
        }
        let waiting = state.waiting.entry(hash).or_default();
        waiting.push(answer);
        if waiting.len() == 1 {
            let reviews = Rc::clone(reviews);
            spawn_local(async move { reviews.run(&issuer, &token, (hash, expires)).await });
        }
    }

    async fn run(&self, issuer: &Issuer, token: &Password, (hash, expires): (TokenHash, u64)) {
        let answer = match self.places.acquire().await {
            // Its logins have ended meanwhile: there must not be more questions than logins.
            Ok(_place) if self.is_unwanted(&hash) => {
                self.state.borrow_mut().waiting.remove(&hash);
                return;
            }
            Ok(_place) => review(&issuer.settings, token).await,
            Err(_) => Err("nothing is asked any more".to_owned()),
        };
        note(issuer, &answer);
        let mut state = self.state.borrow_mut();
        if let Ok(Ok(claims)) = &answer {
            state.remember(hash, expires, claims);
        }
        for waiting in state.waiting.remove(&hash).unwrap_or_default() {
            let _ = waiting.send(answer.clone());
        }
    }
}

impl Reviews {
    /// Whether nobody waits any more for the answer about a token.
    fn is_unwanted(&self, hash: &TokenHash) -> bool {
        let state = self.state.borrow();
        state.waiting.get(hash).is_none_or(|waiting| waiting.iter().all(oneshot::Sender::is_closed))
    }
}

impl State {
    fn remember(&mut self, hash: TokenHash, expires: u64, claims: &Map<String, Value>) {
        let (now, clock) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        if self.good.len() >= MOST_REMEMBERED {
            self.good.retain(|_, good| good.until > now);
        }
        if self.good.len() < MOST_REMEMBERED {
            let left = Duration::from_secs(expires).saturating_sub(clock);
            self.good.insert(hash, Good { until: now + left.min(REMEMBERED_FOR), claims: claims.clone() });
        }
    }
}

/// Counts an answer, and logs that the API server cannot be asked, once.
fn note(issuer: &Issuer, answer: &ReviewAnswer) {
    let result = answer.as_ref().map(|_| KeySet::default()).map_err(Clone::clone);
    let name = &*issuer.settings.name;
    match (issuer.fetched(result), answer) {
        (true, Ok(_)) => tracing::info!(issuer = name, "the API server answers again"),
        (true, Err(error)) => {
            tracing::warn!(issuer = name, error, "the API server cannot be asked about tokens")
        }
        _ => {}
    }
}

fn hash(issuer: &str, token: &Password) -> TokenHash {
    let mut context = Context::new(&SHA256);
    context.update(issuer.as_bytes());
    context.update(&[0]);
    context.update(token.bytes());
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// Asks the API server.
async fn review(settings: &IssuerSettings, token: &Password) -> ReviewAnswer {
    let address = format!("{}/apis/authentication.k8s.io/v1/tokenreviews", api_server(settings)?);
    let in_pod = |name: &str| Path::new(IN_POD).join(name);
    let token_file = settings.token_file.clone().unwrap_or_else(|| in_pod("token"));
    let own = read_small(&token_file, LONGEST_OWN_TOKEN)
        .map_err(|what| format!("it {what}"))
        .map(Zeroizing::new)
        .and_then(|bytes| String::from_utf8(bytes.to_vec()).map_err(|_| "it is no text".to_owned()))
        .map_err(|why| format!("{}: {why}", token_file.display()))?;
    let own = Zeroizing::new(own);
    let own = Zeroizing::new(own.trim_end().to_owned());
    let ca = settings.ca.clone().unwrap_or_else(|| in_pod("ca.crt"));
    let answer =
        exchange(&address, Some(&ca), Body::Json(question(settings, token), own), LONGEST_ANSWER).await?;
    if !answer.status.is_success() {
        let status = answer.status.as_u16();
        let hint = match status {
            401 | 403 => ": the service account of Narrows needs the cluster role system:auth-delegator",
            _ => "",
        };
        return Err(format!("{address}: HTTP status {status}{hint}"));
    }
    let said =
        serde_json::from_slice::<Said>(&answer.body).map_err(|_| format!("{address} has sent no JSON"))?;
    Ok(claims(settings, &said.status))
}

/// What is read of an answer, in which the token comes back too.
#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    status: Value,
}

/// The question. The token is one that was taken apart: it has nothing that JSON would have to escape.
fn question(settings: &IssuerSettings, token: &Password) -> Zeroizing<Vec<u8>> {
    let audiences = match settings.audience.is_empty() {
        true => json!([]),
        false => json!([settings.audience]),
    };
    let head = format!(
        r#"{{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{{"audiences":{audiences},"token":""#
    );
    let mut body = Zeroizing::new(Vec::with_capacity(head.len() + token.bytes().len() + 3));
    body.extend_from_slice(head.as_bytes());
    body.extend_from_slice(token.bytes());
    body.extend_from_slice(br#""}}"#);
    body
}

/// What the API server says of the token, as claims.
fn claims(settings: &IssuerSettings, status: &Value) -> Result<Map<String, Value>, String> {
    if status["authenticated"] != Value::Bool(true) {
        return Err(status["error"].as_str().unwrap_or("it is not authenticated").to_owned());
    }
    // A server that knows nothing of audiences names none.
    let audience = Value::from(settings.audience.as_str());
    let is_meant = status["audiences"].as_array().is_some_and(|audiences| audiences.contains(&audience));
    if !settings.audience.is_empty() && !is_meant {
        return Err(format!("it is not for the audience {audience}"));
    }
    let user = &status["user"];
    let Some(username) = user["username"].as_str() else { return Err("it has no user".to_owned()) };
    let mut claims = Map::new();
    claims.insert("sub".to_owned(), username.into());
    claims.insert("username".to_owned(), username.into());
    claims.insert("uid".to_owned(), user["uid"].clone());
    claims.insert("groups".to_owned(), user["groups"].clone());
    Ok(claims)
}

/// The address of the API server: as configured, or as each pod has it in its environment.
fn api_server(settings: &IssuerSettings) -> Result<String, String> {
    if let KeySource::TokenReview(Some(address)) = &settings.source {
        return Ok(address.trim_end_matches('/').to_owned());
    }
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let host = variable("KUBERNETES_SERVICE_HOST")
        .ok_or("this is no pod: KUBERNETES_SERVICE_HOST is not set; `api_server` can name the address")?;
    let port = variable("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".to_owned());
    Ok(if host.contains(':') { format!("https://[{host}]:{port}") } else { format!("https://{host}:{port}") })
}

/// Where a pod has its token and the authorities of the API server.
const IN_POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Questions to API servers at a time: a small part of what one answers at once.
const MOST_AT_ONCE: usize = 16;

/// How long a valid token is remembered: as long may the token of a pod be good that was deleted.
const REMEMBERED_FOR: Duration = Duration::from_secs(30);

/// Tokens that are remembered: one for each pod of a large cluster.
const MOST_REMEMBERED: usize = 10_000;

/// The longest token of Narrows itself, as of clients.
const LONGEST_OWN_TOKEN: usize = 16 * 1024;

/// The longest answer: the question's token comes back in it, and groups.
const LONGEST_ANSWER: usize = 256 * 1024;
