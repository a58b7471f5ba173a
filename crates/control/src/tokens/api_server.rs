//! One question to the API server of Kubernetes: whether a token is valid (`TokenReview`).

use std::env;
use std::path::Path;

use narrows_proxy::tokens::{Excerpt, IssuerSettings, KeySource, ReviewAnswer};
use narrows_wire::auth::Password;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::request::{Body, exchange};
use crate::files::read_small;

/// What the API server says of a token.
pub(super) async fn review(settings: &IssuerSettings, token: &Password) -> ReviewAnswer {
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
fn claims(settings: &IssuerSettings, status: &Value) -> Result<Map<String, Value>, Excerpt> {
    if status["authenticated"] != Value::Bool(true) {
        return Err(Excerpt::of(status["error"].as_str().unwrap_or("it is not authenticated")));
    }
    // A server that knows nothing of audiences names none.
    let audience = Value::from(settings.audience.as_str());
    let is_meant = status["audiences"].as_array().is_some_and(|audiences| audiences.contains(&audience));
    if !settings.audience.is_empty() && !is_meant {
        return Err(Excerpt::of(&format!("it is not for the audience {audience}")));
    }
    let user = &status["user"];
    let Some(username) = user["username"].as_str() else { return Err(Excerpt::of("it has no user")) };
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

/// The longest token of Narrows itself, as of clients.
const LONGEST_OWN_TOKEN: usize = 16 * 1024;

/// The longest answer: the question's token comes back in it, and groups.
const LONGEST_ANSWER: usize = 256 * 1024;
