//! One connection to an HTTP server: HTTP/1.1, over TLS for `https`.

use std::io;
use std::net::IpAddr;

use http_body_util::Full;
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use narrows_proxy::rt::{JoinHandle, Socket, spawn_local};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use super::address::WebAddress;

/// A connection. It is closed when it is dropped, even in the middle of a request.
pub struct Connection {
    requests: SendRequest<Full<Bytes>>,
    task: JoinHandle<()>,
    local: Option<IpAddr>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// Connects; with TLS, if there is a connector.
    ///
    /// # Errors
    /// If nothing answers there, or not as it must.
    pub async fn open(address: &WebAddress, tls: Option<&TlsConnector>) -> io::Result<Connection> {
        let Socket::Tcp(stream) = Socket::connect_tcp(&address.host, address.port).await? else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let local = stream.local_addr().ok().map(|address| address.ip());
        let Some(tls) = tls else { return Connection::over(stream, local).await };
        let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
        Connection::over(tls.connect(name, stream).await?, local).await
    }

    /// The address of this machine that the connection begins at.
    pub fn local(&self) -> Option<IpAddr> {
        self.local
    }

    async fn over<S: AsyncRead + AsyncWrite + Unpin + 'static>(
        stream: S,
        local: Option<IpAddr>,
    ) -> io::Result<Connection> {
        let (requests, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // Its errors are those of the request, too.
        let task = spawn_local(async move { drop(connection.await) });
        Ok(Connection { requests, task, local })
    }

    /// Whether another request can be sent on it.
    pub async fn is_ready(&mut self) -> bool {
        self.requests.ready().await.is_ok()
    }

    /// Sends a request, and returns the head of the answer.
    ///
    /// # Errors
    /// If the connection ends before, or the answer is none.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<hyper::Response<Incoming>> {
        self.requests.send_request(request).await
    }
}

/// An error with its causes.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(below) = cause {
        text = format!("{text}: {below}");
        cause = below.source();
    }
    text
}
