//! The console: pages for people, made here as HTML. Everything in them is the answer to a statement to the control thread,
//! with the rights of the account that looks; without the script they work too.

mod chart;
mod configuration;
mod difference;
mod digests;
mod errors;
mod fields;
mod grid;
mod history;
mod html;
mod kill;
mod layout;
mod overview;
mod panels;
mod point;
mod recent;
mod response;
mod route;
mod rules;
mod sample;
mod servers;
mod sessions;
mod span;
mod spark;
mod statements;
mod timeline;
mod topology;
mod units;
mod viewer;
mod waits;

use std::rc::Rc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::AUTHORIZATION;
use hyper::{Method, Request, Response, StatusCode};
use narrows_proxy::rt::timeout;

use self::fields::Fields;
use self::history::LastHour;
use self::layout::{ConsolePage, notice};
use self::recent::RecentSamples;
use self::response::{document, not_allowed, plain, redirect, text, unauthorized};
use self::viewer::{Trouble, Viewer};
use super::login::credentials;
use super::peer::Peer;
use super::same_origin::is_from_here;
use super::server::Server;

/// What all visitors of the console share.
pub struct Console {
    /// The HTTP interface.
    pub server: Rc<Server>,
    samples: RecentSamples,
    last_hour: LastHour,
}

impl Console {
    /// The console before any visitor.
    pub fn new(server: Rc<Server>) -> Rc<Console> {
        Rc::new(Console { server, samples: RecentSamples::default(), last_hour: LastHour::default() })
    }
}

/// Whether the console answers requests for this path.
pub fn is_console(path: &str) -> bool {
    path == "/console" || path.starts_with("/console/")
}

/// The answer to a request for a page of the console.
pub async fn answer(console: &Rc<Console>, peer: &Peer, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let viewer = match timeout(ANSWER_TIME, log_in(console, peer, &request)).await {
        Ok(Ok(viewer)) => viewer,
        Ok(Err(reason)) => return unauthorized(reason),
        Err(_) => return plain(StatusCode::SERVICE_UNAVAILABLE, "there was no answer in time"),
    };
    let method = request.method();
    let reads = method == Method::GET || method == Method::HEAD;
    match request.uri().path() {
        "/console" if reads => redirect("/console/"),
        "/console/style.css" if reads => text("text/css; charset=utf-8", STYLE),
        "/console/script.js" if reads => text("text/javascript; charset=utf-8", SCRIPT),
        "/console/kill" if method == Method::POST => act(&viewer, request).await,
        _ if reads => show(&viewer, &request).await,
        "/console/kill" => not_allowed("GET, HEAD, POST"),
        _ => not_allowed("GET, HEAD"),
    }
}

async fn log_in<'a>(
    console: &'a Rc<Console>,
    peer: &'a Peer,
    request: &Request<Incoming>,
) -> Result<Viewer<'a>, &'static str> {
    let header = request.headers().get(AUTHORIZATION);
    let login = header.and_then(|header| credentials(header.as_bytes()));
    let login = login.ok_or("a name and a password of the admin interface are needed")?;
    let user = login.user.clone();
    match console.server.role(peer, login).await {
        Some(role) => Ok(Viewer { console, peer, user, role }),
        None => {
            console.server.refused(peer, WRONG);
            Err(WRONG)
        }
    }
}

/// A page, or why there is none.
async fn show(viewer: &Viewer<'_>, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let fields = Fields::read(request.uri().query().unwrap_or_default());
    let page = timeout(ANSWER_TIME, page(viewer, request.uri().path(), &fields)).await;
    match page.unwrap_or(Err(Trouble::NoAnswer)) {
        Ok(Some(page)) => document(StatusCode::OK, viewer, page),
        Ok(None) => {
            let contents = notice("There is no such page.");
            message(StatusCode::NOT_FOUND, viewer, "Not found", contents)
        }
        Err(trouble) => troubled(viewer, &trouble),
    }
}

async fn page(viewer: &Viewer<'_>, path: &str, fields: &Fields) -> Result<Option<ConsolePage>, Trouble> {
    let page = match path {
        "/console/" => overview::page(viewer).await?,
        "/console/servers" => servers::page(viewer).await?,
        "/console/history" => history::page(viewer, fields).await?,
        "/console/topology" => topology::page(viewer).await?,
        "/console/digests" => digests::page(viewer, fields).await?,
        "/console/sessions" => sessions::page(viewer, fields).await?,
        "/console/rules" => rules::page(viewer).await?,
        "/console/errors" => errors::page(viewer).await?,
        "/console/configuration" => configuration::page(viewer).await?,
        "/console/route" => route::page(viewer, fields).await?,
        "/console/kill" => kill::page(viewer, fields).await?,
        _ => return Ok(None),
    };
    Ok(Some(page))
}

/// Does what a form asks for.
async fn act(viewer: &Viewer<'_>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let refuse = |status, why: &str| message(status, viewer, "Refused", notice(why));
    if !is_from_here(&request) {
        return refuse(StatusCode::FORBIDDEN, "The request comes from a page of another site.");
    }
    if !viewer.is_admin() {
        return refuse(StatusCode::FORBIDDEN, "Only administrators may do this (admin-admin_credentials).");
    }
    let body = Limited::new(request.into_body(), LARGEST_BODY).collect();
    let body = match timeout(ANSWER_TIME, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) => return refuse(StatusCode::PAYLOAD_TOO_LARGE, "The form is too long, or not whole."),
        Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, "The form has not arrived in time."),
    };
    let fields = Fields::read(&String::from_utf8_lossy(&body));
    match timeout(ANSWER_TIME, kill::act(viewer, &fields)).await {
        Ok(Ok(place)) => redirect(&place),
        Ok(Err(Trouble::Refused(reason))) => refuse(StatusCode::BAD_REQUEST, &format!("{reason}.")),
        Ok(Err(Trouble::NoAnswer)) | Err(_) => troubled(viewer, &Trouble::NoAnswer),
    }
}

fn troubled(viewer: &Viewer<'_>, trouble: &Trouble) -> Response<Full<Bytes>> {
    let contents = notice(&format!("{trouble}."));
    message(StatusCode::SERVICE_UNAVAILABLE, viewer, "No answer", contents)
}

/// A page that only says something.
fn message(
    status: StatusCode,
    viewer: &Viewer<'_>,
    title: &'static str,
    contents: html::Html,
) -> Response<Full<Bytes>> {
    document(status, viewer, ConsolePage { title, path: "", contents, refresh_s: 0, acts: false })
}

const WRONG: &str = "wrong user or password";

const STYLE: &str = include_str!("console.css");

const SCRIPT: &str = include_str!("console.js");

/// The time for each part of an answer.
const ANSWER_TIME: Duration = Duration::from_secs(8);

/// The longest form in bytes: forms have a number or two.
const LARGEST_BODY: usize = 4 << 10;
