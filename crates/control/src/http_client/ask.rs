//! One request on a connection of its own, with a limit on the time and on the answer.

use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use narrows_proxy::rt::timeout;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use super::address::WebAddress;
use super::connection::{Connection, with_causes};

/// A request. Its address and its errors may be shown; its headers and its body may hold secrets.
#[derive(Debug)]
pub struct WebQuestion<'a> {
    /// Such as `GET`.
    pub method: Method,
    /// The server; its path is not used.
    pub address: &'a WebAddress,
    /// The path, with a query if there is one.
    pub path: &'a str,
    /// Further headers.
    pub headers: &'a [(&'static str, &'a str)],
    /// The body.
    pub body: Bytes,
}

/// What was answered.
#[derive(Debug)]
pub struct WebAnswer {
    /// The status.
    pub status: StatusCode,
    /// The body, wiped when it is dropped.
    pub body: Zeroizing<Vec<u8>>,
}

impl WebQuestion<'_> {
    /// Asks within `limit`, and takes an answer of at most `most_bytes`. `tls` is for an address with `https`.
    ///
    /// # Errors
    /// In words, without the address.
    pub async fn ask(
        self,
        tls: Option<&TlsConnector>,
        limit: Duration,
        most_bytes: usize,
    ) -> Result<WebAnswer, String> {
        match timeout(limit, self.exchange(tls, most_bytes)).await {
            Ok(answered) => answered,
            Err(_) => Err(format!("no answer within {} s", limit.as_secs_f32())),
        }
    }

    async fn exchange(self, tls: Option<&TlsConnector>, most_bytes: usize) -> Result<WebAnswer, String> {
        let WebQuestion { method, address, path, headers, body } = self;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| "its path is none".to_owned())?;
        let value = |text: &str| {
            HeaderValue::from_str(text).map_err(|_| "a header has characters that none may have".to_owned())
        };
        request.headers_mut().insert(HOST, value(&address.authority)?);
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("narrows"));
        for (name, text) in headers {
            let mut value = value(text)?;
            value.set_sensitive(true);
            request.headers_mut().insert(*name, value);
        }
        let opened = Connection::open(address, tls).await;
        let mut connection = opened.map_err(|error| with_causes(&error))?;
        let response = connection.send(request).await.map_err(|error| with_causes(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), most_bytes).collect().await;
        let too_long = |_| format!("its answer has more than {most_bytes} bytes, or ends too early");
        let body = body.map_err(too_long)?.to_bytes();
        Ok(WebAnswer { status, body: Zeroizing::new(body.to_vec()) })
    }
}
