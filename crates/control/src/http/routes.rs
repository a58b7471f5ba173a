//! What is answered at which path.

use std::rc::Rc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE,
};
use hyper::{Method, Request, Response, StatusCode};
use narrows_proxy::rt::timeout;

use super::console::{self, Console};
use super::login::{CHALLENGE, credentials};
use super::openmetrics;
use super::peer::Peer;
use super::same_origin::is_from_here;
use super::server::Server;
use crate::store::Role;

/// What is sent: a status, a text, and at most one header.
struct Page {
    status: StatusCode,
    content_type: &'static str,
    text: String,
    header: Option<(HeaderName, &'static str)>,
}

impl Page {
    fn new(status: StatusCode, text: impl Into<String>) -> Page {
        Page { status, content_type: "text/plain; charset=utf-8", text: text.into() + "\n", header: None }
    }

    fn with(mut self, name: HeaderName, value: &'static str) -> Page {
        self.header = Some((name, value));
        self
    }
}

/// The answer to a request. Its body, if it has one, is only read by the console.
pub async fn answer(console: &Rc<Console>, peer: &Peer, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if console::is_console(request.uri().path()) {
        return console::answer(console, peer, request).await;
    }
    let page = timeout(ANSWER_TIME, page(&console.server, peer, &request)).await;
    let page =
        page.unwrap_or_else(|_| Page::new(StatusCode::SERVICE_UNAVAILABLE, "there was no answer in time"));
    let mut response = Response::new(Full::new(Bytes::from(page.text)));
    *response.status_mut() = page.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(page.content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    if let Some((name, value)) = page.header {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn page(server: &Rc<Server>, peer: &Peer, request: &Request<Incoming>) -> Page {
    let method = request.method();
    let reads = method == Method::GET || method == Method::HEAD;
    match request.uri().path() {
        "/" if reads => Page::new(StatusCode::OK, INDEX),
        "/metrics" if reads => metrics(server, peer, request).await,
        "/livez" if reads => Page::new(StatusCode::OK, "ok"),
        "/readyz" if reads => match server.readiness(peer).await {
            Ok(()) => Page::new(StatusCode::OK, "ok"),
            Err(reason) => Page::new(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}")),
        },
        "/drain" if method == Method::POST => drain(server, peer, request, true).await,
        "/drain" if method == Method::DELETE => drain(server, peer, request, false).await,
        "/" | "/metrics" | "/livez" | "/readyz" => not_allowed("GET, HEAD"),
        "/drain" => not_allowed("POST, DELETE"),
        _ => Page::new(StatusCode::NOT_FOUND, "there is no such page; / lists them"),
    }
}

fn not_allowed(allowed: &'static str) -> Page {
    Page::new(StatusCode::METHOD_NOT_ALLOWED, format!("use {allowed}")).with(ALLOW, allowed)
}

async fn metrics(server: &Rc<Server>, peer: &Peer, request: &Request<Incoming>) -> Page {
    match server.rows(peer, "SHOW PROMETHEUS METRICS").await {
        Ok(rows) => {
            let [text] = rows.into_iter().next().unwrap_or_default();
            let accepted = request.headers().get(ACCEPT).map(HeaderValue::as_bytes);
            let (text, content_type) = match accepted.is_some_and(openmetrics::is_accepted) {
                true => (openmetrics::from_text(&text), openmetrics::CONTENT_TYPE),
                false => (text, TEXT_TYPE),
            };
            Page { status: StatusCode::OK, content_type, text, header: None }
        }
        Err(error) => Page::new(StatusCode::SERVICE_UNAVAILABLE, error),
    }
}

async fn drain(server: &Rc<Server>, peer: &Peer, request: &Request<Incoming>, drains: bool) -> Page {
    // A browser sends the password along with forms of any site.
    if !is_from_here(request) {
        return Page::new(StatusCode::FORBIDDEN, "the request comes from a page of another site");
    }
    let header = request.headers().get(AUTHORIZATION);
    let Some(login) = header.and_then(|header| credentials(header.as_bytes())) else {
        return Page::new(StatusCode::UNAUTHORIZED, "an administrator's name and password are needed")
            .with(WWW_AUTHENTICATE, CHALLENGE);
    };
    let user = login.user.clone();
    match server.role(peer, login).await {
        Some(Role::Admin) => {
            server.drain(peer, &user, drains);
            Page::new(StatusCode::OK, if drains { DRAINS } else { "/readyz is as before" })
        }
        Some(Role::Stats) => {
            Page::new(StatusCode::FORBIDDEN, "statistics users may not do this (admin-admin_credentials)")
        }
        None => {
            server.refused(peer, "wrong user or password");
            Page::new(StatusCode::UNAUTHORIZED, "wrong user or password").with(WWW_AUTHENTICATE, CHALLENGE)
        }
    }
}

const INDEX: &str = "Narrows
GET    /console/ pages for people: servers, statements, sessions; needs a login
GET    /metrics  figures in the format of Prometheus
GET    /livez    200 as long as the process answers
GET    /readyz   200 if clients can be served, otherwise 503 with the reason
POST   /drain    from now on /readyz answers 503; needs an administrator's login
DELETE /drain    ends this";

const DRAINS: &str = "draining: /readyz answers 503; clients are still served";

/// The text format of Prometheus.
const TEXT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The time for an answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);
