//! The settings of an issuer, from its row of `narrows_token_issuers`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::jws::{ALGORITHMS, Algorithm};
use crate::rows::{TokenIssuerRow, shown};

/// The settings of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerSettings {
    /// The name of its row.
    pub name: Arc<str>,
    /// What `iss` must be; empty: anything, as the API server verifies it.
    pub iss: String,
    /// What `aud` must be or contain; empty: as the API server has it.
    pub audience: String,
    /// The claim that is the name of the account.
    pub username_claim: String,
    /// Where keys are, or who is asked.
    pub source: KeySource,
    /// By how much clocks may differ.
    pub leeway: Duration,
    /// How its tokens may be signed.
    pub algorithms: Vec<Algorithm>,
    /// The file of authorities that the certificate of `source` must be signed by; `None`: those of the system, or of the pod.
    pub ca: Option<PathBuf>,
    /// The time between two fetches of its keys.
    pub refresh: Duration,
    /// The file of the token that `kubernetes:` is asked with; `None`: that of the pod.
    pub token_file: Option<PathBuf>,
}

/// Where the keys of an issuer are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// At this address.
    Url(String),
    /// In this file.
    File(PathBuf),
    /// Nowhere: the API server at this address verifies its tokens; `None`: that of the pod.
    TokenReview(Option<String>),
}

/// The keys of `narrows_token_issuers.attributes`.
pub const ISSUER_KEYS: [&str; 6] = ["algorithms", "api_server", "ca", "leeway_s", "refresh_s", "token_file"];

/// `leeway_s`, if it is not set: machines whose clocks are kept differ by less.
const LEEWAY: u64 = 60;

/// The largest `leeway_s`. What needs more is a clock that is wrong.
const LONGEST_LEEWAY: u64 = 600;

/// `refresh_s`, if it is not set, and its limits: providers publish a key a day or more before they use it, and an unknown
/// key leads to a fetch of its own.
const REFRESH: u64 = 300;
const SHORTEST_REFRESH: u64 = 10;
const LONGEST_REFRESH: u64 = 86_400;

impl IssuerSettings {
    /// Those of a row.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence without its beginning.
    pub fn of(row: &TokenIssuerRow) -> Result<IssuerSettings, String> {
        let attributes = attributes(&row.attributes)?;
        let path = |key: &str| text_of(&attributes, key).map(|it| it.map(PathBuf::from));
        let source = source(&row.jwks, text_of(&attributes, "api_server")?)?;
        let is_review = matches!(source, KeySource::TokenReview(_));
        if row.issuer.is_empty() && !is_review {
            return Err("issuer is empty: the claim `iss` of its tokens must be known".to_owned());
        }
        if row.audience.is_empty() && !is_review {
            return Err("audience is empty: a token for another service would be accepted".to_owned());
        }
        for key in ["api_server", "token_file"] {
            if attributes.get(key).is_some() && !is_review {
                return Err(format!("attributes: {key} is for kubernetes: only"));
            }
        }
        Ok(IssuerSettings {
            name: row.name.as_str().into(),
            iss: row.issuer.clone(),
            audience: row.audience.clone(),
            username_claim: row.username_claim.clone(),
            source,
            leeway: seconds(&attributes, "leeway_s", LEEWAY, 0..=LONGEST_LEEWAY)?,
            algorithms: algorithms(attributes.get("algorithms"))?,
            ca: path("ca")?,
            refresh: seconds(&attributes, "refresh_s", REFRESH, SHORTEST_REFRESH..=LONGEST_REFRESH)?,
            token_file: path("token_file")?,
        })
    }
}

fn attributes(text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| format!("attributes: {error}"))?;
    let object = value.as_object().ok_or("attributes: expected a JSON object")?;
    match object.keys().find(|key| !ISSUER_KEYS.contains(&key.as_str())) {
        Some(unknown) => {
            Err(format!("attributes: there is no {unknown:?}; there are {}", ISSUER_KEYS.join(", ")))
        }
        None => Ok(value),
    }
}

fn source(jwks: &str, api_server: Option<String>) -> Result<KeySource, String> {
    if jwks.starts_with("https://") || jwks.starts_with("http://") {
        return Ok(KeySource::Url(jwks.to_owned()));
    }
    match jwks.split_once(':') {
        Some(("file", path)) if path.starts_with('/') => Ok(KeySource::File(path.into())),
        Some(("kubernetes", "")) => Ok(KeySource::TokenReview(api_server)),
        _ => Err(format!("jwks is {jwks:?}: expected https://..., file:/path or kubernetes:")),
    }
}

fn text_of(attributes: &Value, key: &str) -> Result<Option<String>, String> {
    let Some(value) = attributes.get(key) else { return Ok(None) };
    let text = value.as_str().filter(|text| !text.is_empty());
    text.map(|text| Some(text.to_owned()))
        .ok_or_else(|| format!("attributes: {key} is {}: expected a text", shown(value)))
}

fn seconds(
    attributes: &Value,
    key: &str,
    default: u64,
    limits: std::ops::RangeInclusive<u64>,
) -> Result<Duration, String> {
    let Some(value) = attributes.get(key) else { return Ok(Duration::from_secs(default)) };
    let seconds = value.as_u64().filter(|seconds| limits.contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| {
        let (found, least, most) = (shown(value), limits.start(), limits.end());
        format!("attributes: {key} is {found}: expected a number of seconds from {least} to {most}")
    })
}

fn algorithms(value: Option<&Value>) -> Result<Vec<Algorithm>, String> {
    let Some(value) = value else { return Ok(ALGORITHMS.iter().map(|(_, algorithm)| *algorithm).collect()) };
    let named = |item: &Value| item.as_str().and_then(Algorithm::named);
    let items = value.as_array().filter(|items| !items.is_empty());
    items.and_then(|items| items.iter().map(named).collect()).ok_or_else(|| {
        let names = ALGORITHMS.map(|(name, _)| name).join(", ");
        format!("attributes: algorithms is {}: expected a list of {names}", shown(value))
    })
}
