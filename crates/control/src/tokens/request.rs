//! One request to an issuer or to an API server, with limits on its time and on its answer.

use std::path::Path;
use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use zeroize::Zeroizing;

use crate::http_client::address::WebAddress;
use crate::http_client::ask::{WebAnswer, WebQuestion};
use crate::http_client::authorities;

/// How long a request may take with everything: shorter than a login waits, so that it learns the reason.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(4);

/// What is sent.
pub(super) enum Body {
    /// Nothing: `GET`.
    None,
    /// JSON, with a bearer token: `POST`.
    Json(Zeroizing<Vec<u8>>, Zeroizing<String>),
}

/// Sends a request to `address`, over TLS with the authorities in the file `ca`, or those of the system. The answer has no more than
/// `most` bytes.
///
/// # Errors
/// Why there is no answer, as a text.
pub(super) async fn exchange(
    address: &str,
    ca: Option<&Path>,
    body: Body,
    most: usize,
) -> Result<WebAnswer, String> {
    let parsed = WebAddress::parse(address).ok_or_else(|| format!("{address} is no address"))?;
    ask(&parsed, ca, body, most).await.map_err(|why| format!("{address}: {why}"))
}

async fn ask(address: &WebAddress, ca: Option<&Path>, body: Body, most: usize) -> Result<WebAnswer, String> {
    let tls = address.is_encrypted.then(|| authorities::connector(ca, "`ca`")).transpose()?;
    let path = if address.path.is_empty() { "/" } else { &address.path };
    let (method, body, bearer) = match body {
        Body::None => (Method::GET, Bytes::new(), None),
        Body::Json(json, bearer) => {
            let bearer = Zeroizing::new(format!("Bearer {}", bearer.as_str()));
            (Method::POST, Bytes::from_owner(json), Some(bearer))
        }
    };
    let mut headers = vec![("accept", "application/json")];
    if let Some(bearer) = &bearer {
        headers.extend([("content-type", "application/json"), ("authorization", bearer.as_str())]);
    }
    WebQuestion { method, address, path, headers: &headers, body }.ask(tls.as_ref(), TIME_LIMIT, most).await
}
