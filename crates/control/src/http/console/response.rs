//! Answers with the headers that all of the console's have.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY, WWW_AUTHENTICATE,
};
use hyper::{Response, StatusCode};

use super::layout::ConsolePage;
use super::viewer::Viewer;
use crate::http::login::CHALLENGE;

/// A page.
pub fn document(status: StatusCode, viewer: &Viewer<'_>, page: ConsolePage) -> Response<Full<Bytes>> {
    let acts = page.acts;
    let text = page.into_html(&viewer.user, viewer.is_admin());
    let mut response = response(status, "text/html; charset=utf-8", text);
    if acts {
        // Without a referrer, browsers do not say either which site a form comes from.
        response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    }
    response
}

/// A file of the program.
pub fn text(content_type: &'static str, text: &'static str) -> Response<Full<Bytes>> {
    response(StatusCode::OK, content_type, text.to_owned())
}

/// A sentence.
pub fn plain(status: StatusCode, sentence: &str) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", format!("{sentence}\n"))
}

/// Asks for a login.
pub fn unauthorized(reason: &str) -> Response<Full<Bytes>> {
    let mut response = plain(StatusCode::UNAUTHORIZED, reason);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
    response
}

/// Refuses a method.
pub fn not_allowed(allowed: &'static str) -> Response<Full<Bytes>> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, &format!("use {allowed}"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Sends the browser to another page.
pub fn redirect(place: &str) -> Response<Full<Bytes>> {
    let mut response = plain(StatusCode::SEE_OTHER, "see the other page");
    if let Ok(place) = HeaderValue::from_str(place) {
        response.headers_mut().insert(LOCATION, place);
    }
    response
}

fn response(status: StatusCode, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.extend(protection());
    response
}

/// What browsers may do with answers: nothing but what stands in them, and files from here.
fn protection() -> [(HeaderName, HeaderValue); 6] {
    [
        ("content-security-policy", POLICY),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
    ]
    .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
}

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
