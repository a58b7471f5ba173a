//! One HTTP connection, and its limits in time and memory.

use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use narrows_proxy::rt::{Socket, select, sleep, timeout};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use super::console::Console;
use super::peer::Peer;
use super::places::HttpPlace;
use super::routes;

/// Serves a connection to its end.
pub async fn serve(console: Rc<Console>, socket: Socket, place: HttpPlace) {
    let (host, port) = socket.peer();
    let peer = Peer { host, port, is_local: socket.is_local() };
    let conversation = async {
        match socket {
            Socket::Tcp(stream) => begin(&console, &peer, &place, stream).await,
            Socket::Unix(stream) => begin(&console, &peer, &place, stream).await,
        }
    };
    select! {
        () = conversation => {}
        () = place.lost() => console.server.refused(&peer, "it asked nothing, and another client needs its place"),
    }
}

async fn begin<S: AsyncRead + AsyncWrite + Unpin>(
    console: &Rc<Console>,
    peer: &Peer,
    place: &HttpPlace,
    stream: S,
) {
    let Some(config) = console.server.tls() else { return converse(console, peer, place, stream).await };
    match timeout(HEAD_TIME, TlsAcceptor::from(config).accept(stream)).await {
        Ok(Ok(stream)) => converse(console, peer, place, stream).await,
        Ok(Err(error)) => console.server.refused(peer, &error.to_string()),
        Err(_) => console.server.refused(peer, "no TLS handshake in time"),
    }
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    console: &Rc<Console>,
    peer: &Peer,
    place: &HttpPlace,
    stream: S,
) {
    let service = service_fn(|request| async {
        place.answering();
        let answer = routes::answer(console, peer, request).await;
        place.answered();
        Ok::<_, Infallible>(answer)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    select! {
        // A client that breaks the protocol or the connection harms nobody else.
        _ = connection.as_mut() => return,
        () = sleep(CONNECTION_TIME) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(LAST_TIME, connection).await;
}

/// The time for the head of a request, which begins with the end of the one before.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// A connection accepts no more requests after this time: clients that only scrape connect again.
const CONNECTION_TIME: Duration = Duration::from_secs(300);

/// The time for the last answer.
const LAST_TIME: Duration = Duration::from_secs(10);

/// The longest head of a request in bytes; hyper wants no less than 8 KiB.
const LARGEST_HEAD: usize = 16 << 10;
