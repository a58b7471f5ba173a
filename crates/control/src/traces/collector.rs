//! One request to the collector, and what its answer means.

use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use narrows_proxy::rt::timeout;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use tokio_rustls::TlsConnector;

use super::endpoint::Endpoint;
use super::{environment, roots};
use crate::http_client::connection::{Connection, with_causes};

/// The collector, as it is configured.
pub struct Collector {
    /// Where it is.
    pub endpoint: Endpoint,
    headers: HeaderMap,
    tls: Option<TlsConnector>,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The collector has the spans, except for so many that it refused, for a reason.
    Taken(u64, String),
    /// It will never take this request, for a reason.
    Refused(String),
    /// It may take it later: for a reason, and after a time if it has named one.
    Later(String, Option<Duration>),
}

impl Collector {
    /// The collector at an address, with what the environment says.
    ///
    /// # Errors
    /// If it needs TLS, and there are no authorities to verify it with.
    pub fn new(endpoint: Endpoint) -> Result<Collector, String> {
        let tls = if endpoint.0.is_encrypted { Some(roots::connector()?) } else { None };
        let mut headers = environment::headers();
        let authority = HeaderValue::from_str(&endpoint.0.authority).map_err(|error| error.to_string())?;
        headers.insert(HOST, authority);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static("narrows"));
        Ok(Collector { endpoint, headers, tls })
    }

    /// Sends a request on `connection`, which is opened if there is none, and remains if it can be used again.
    pub async fn send(&self, connection: &mut Option<Connection>, body: Bytes) -> Delivery {
        let used = connection.take();
        match timeout(REQUEST_TIME, self.exchange(used, body)).await {
            Ok(Ok((delivery, reusable))) => {
                *connection = reusable;
                delivery
            }
            Ok(Err(error)) => Delivery::Later(error, None),
            Err(_) => Delivery::Later(format!("no answer in {} s", REQUEST_TIME.as_secs()), None),
        }
    }

    async fn exchange(
        &self,
        used: Option<Connection>,
        body: Bytes,
    ) -> Result<(Delivery, Option<Connection>), String> {
        let mut connection = self.connection(used).await?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.0.path.parse().map_err(|error| format!("{error}"))?;
        request.headers_mut().clone_from(&self.headers);
        let response = connection.send(request).await.map_err(|error| with_causes(&error))?;
        if !response.status().is_success() {
            // The rest of the answer is of no use.
            return Ok((failed(response.status(), response.headers()), None));
        }
        let (delivery, is_whole) = taken(response).await;
        Ok((delivery, Some(connection).filter(|_| is_whole)))
    }

    async fn connection(&self, used: Option<Connection>) -> Result<Connection, String> {
        if let Some(mut connection) = used
            && connection.is_ready().await
        {
            return Ok(connection);
        }
        Connection::open(&self.endpoint.0, self.tls.as_ref()).await.map_err(|error| with_causes(&error))
    }
}

/// What a successful answer says, and whether its end was seen.
async fn taken(response: Response<Incoming>) -> (Delivery, bool) {
    match Limited::new(response.into_body(), LONGEST_ANSWER).collect().await {
        // An answer that is no message says nothing about refused spans.
        Ok(body) => (partly(&body.to_bytes()), true),
        Err(_) => (Delivery::Taken(0, String::new()), false),
    }
}

fn partly(body: &[u8]) -> Delivery {
    let answer = ExportTraceServiceResponse::decode(body).unwrap_or_default();
    let partly = answer.partial_success.unwrap_or_default();
    let refused = u64::try_from(partly.rejected_spans).unwrap_or(0);
    Delivery::Taken(refused, partly.error_message.chars().filter(|it| !it.is_control()).take(200).collect())
}

/// What the status of an answer means; OTLP says after which ones a request may be sent again.
fn failed(status: StatusCode, headers: &HeaderMap) -> Delivery {
    match status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => {
            let named = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
            Delivery::Later(format!("HTTP status {status}"), named.map(Duration::from_secs))
        }
        _ => Delivery::Refused(format!("HTTP status {status}")),
    }
}

/// The time for a request, from connecting to the end of the answer.
const REQUEST_TIME: Duration = Duration::from_secs(5);

/// The longest answer that is read: it has one number and one message.
const LONGEST_ANSWER: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    use super::*;

    #[test]
    fn only_what_otlp_says_is_sent_again() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
        for status in [429, 502, 503, 504] {
            let status = StatusCode::from_u16(status).expect("a status");
            let Delivery::Later(_, after) = failed(status, &headers) else { panic!("{status}") };
            assert_eq!(after, Some(Duration::from_secs(7)));
        }
        for status in [301, 400, 401, 404, 413, 500, 501] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert!(matches!(failed(status, &headers), Delivery::Refused(_)), "{status}");
        }
        headers.insert(RETRY_AFTER, HeaderValue::from_static("-1"));
        assert!(matches!(failed(StatusCode::BAD_GATEWAY, &headers), Delivery::Later(_, None)));
    }

    #[test]
    fn answers_that_lie_refuse_nothing() {
        let answer = |rejected_spans| {
            let error_message = "too\nlong ".repeat(1_000);
            let partial_success = Some(ExportTracePartialSuccess { rejected_spans, error_message });
            partly(&ExportTraceServiceResponse { partial_success }.encode_to_vec())
        };
        let Delivery::Taken(3, message) = answer(3) else { panic!("three are refused") };
        assert!(message.len() <= 200 && !message.contains('\n'), "{message}");
        assert!(matches!(answer(-3), Delivery::Taken(0, _)));
        assert_eq!(partly(b"{}"), Delivery::Taken(0, String::new()));
        assert_eq!(partly(b""), Delivery::Taken(0, String::new()));
    }
}
