//! One request to an issuer or to an API server, with limits on its time and on its answer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use narrows_proxy::rt::timeout;
use tokio_rustls::TlsConnector;
use zeroize::{Zeroize, Zeroizing};

use crate::http_client::address::WebAddress;
use crate::http_client::authorities;
use crate::http_client::connection::{Connection, with_causes};

/// How long a request may take with everything: shorter than a login waits, so that it learns the reason.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(4);

/// What is sent.
pub(super) enum Body {
    /// Nothing: `GET`.
    None,
    /// JSON, with a bearer token: `POST`.
    Json(Zeroizing<Vec<u8>>, Zeroizing<String>),
}

/// What has come back.
pub(super) struct HttpAnswer {
    pub status: u16,
    pub body: Bytes,
}

impl HttpAnswer {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Wipes the body.
    pub fn wipe(self) {
        if let Ok(mut body) = self.body.try_into_mut() {
            body.as_mut().zeroize();
        }
    }
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
) -> Result<HttpAnswer, String> {
    let parsed = WebAddress::parse(address).ok_or_else(|| format!("{address} is no address"))?;
    let wrong = |why: String| format!("{address}: {why}");
    let limited = timeout(TIME_LIMIT, ask(&parsed, ca, body, most)).await;
    limited.unwrap_or_else(|_| Err(format!("no answer within {} s", TIME_LIMIT.as_secs()))).map_err(wrong)
}

async fn ask(address: &WebAddress, ca: Option<&Path>, body: Body, most: usize) -> Result<HttpAnswer, String> {
    let tls = address.is_encrypted.then(|| connector(ca)).transpose()?;
    let mut connection =
        Connection::open(address, tls.as_ref()).await.map_err(|error| with_causes(&error))?;
    let path = if address.path.is_empty() { "/" } else { &address.path };
    let answer = connection.send(request(path, &address.authority, body)?).await;
    let (head, body) = answer.map_err(|error| with_causes(&error))?.into_parts();
    let body = Limited::new(body, most).collect().await;
    let too_long = |_| format!("its answer has more than {most} bytes, or ends too early");
    Ok(HttpAnswer { status: head.status.as_u16(), body: body.map_err(too_long)?.to_bytes() })
}

fn request(path: &str, authority: &str, body: Body) -> Result<Request<Full<Bytes>>, String> {
    let builder = Request::builder().uri(path).header(HOST, authority).header(ACCEPT, "application/json");
    let request = match body {
        Body::None => builder.body(Full::new(Bytes::new())),
        Body::Json(json, bearer) => {
            let bearer = Zeroizing::new(format!("Bearer {}", bearer.as_str()));
            let mut bearer =
                HeaderValue::from_str(&bearer).map_err(|_| "the own token is no text".to_owned())?;
            bearer.set_sensitive(true);
            builder
                .method("POST")
                .header(CONTENT_TYPE, "application/json")
                .header(AUTHORIZATION, bearer)
                .body(Full::new(Bytes::from_owner(json)))
        }
    };
    request.map_err(|error| error.to_string())
}

fn connector(ca: Option<&Path>) -> Result<TlsConnector, String> {
    let system = authorities::of_system();
    let path = ca.or(system).ok_or("there is no file of the system's authorities; `ca` can name one")?;
    let config = authorities::trusting(path)?.with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
