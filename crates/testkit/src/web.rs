//! A small HTTP server for tests, which answers as a function says; also over TLS, also badly.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::certificates::Certificate;

/// What an HTTP server of a test is asked.
#[derive(Debug, Clone)]
pub struct WebRequest {
    /// The method and the path.
    pub line: String,
    /// The headers, in lower case, one on each line.
    pub headers: String,
    /// The body.
    pub body: String,
}

/// What an HTTP server of a test does.
#[derive(Debug, Clone)]
pub enum WebReply {
    /// Answers with a status and a body.
    Answer(u16, String),
    /// Says nothing until the other side disconnects.
    Hang,
    /// Sends a body without an end.
    Endless,
}

/// A small HTTP server, which answers each request as a function says; its thread ends with the process.
///
/// # Panics
/// If there is no port.
pub fn serve_web(answer: impl Fn(&WebRequest) -> WebReply + Send + Sync + 'static) -> u16 {
    serve(None, Arc::new(answer))
}

/// The same over TLS.
///
/// # Panics
/// If there is no port, or the certificate is none.
pub fn serve_web_tls(
    certificate: &Certificate,
    answer: impl Fn(&WebRequest) -> WebReply + Send + Sync + 'static,
) -> u16 {
    serve(Some(certificate.server_config()), Arc::new(answer))
}

type WebAnswers = dyn Fn(&WebRequest) -> WebReply + Send + Sync;

fn serve(tls: Option<Arc<ServerConfig>>, answer: Arc<WebAnswers>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (tls, answer) = (tls.clone(), Arc::clone(&answer));
            std::thread::spawn(move || match tls {
                None => answer_one(stream, &*answer),
                Some(tls) => {
                    let connection = ServerConnection::new(tls).map_err(io::Error::other)?;
                    answer_one(StreamOwned::new(connection, stream), &*answer)
                }
            });
        }
    });
    port
}

fn answer_one(mut stream: impl Read + Write, answer: &WebAnswers) -> io::Result<()> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        read_some(&mut stream, &mut bytes)?;
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let (line, headers) = text.split_once("\r\n").unwrap_or((&text, ""));
    let headers = headers.replace("\r\n", "\n").to_lowercase();
    let length = headers.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    while bytes.len() < head + 4 + length.unwrap_or(0) {
        read_some(&mut stream, &mut bytes)?;
    }
    let body = String::from_utf8_lossy(&bytes[head + 4..]).into_owned();
    let line = line.rsplit_once(' ').map_or(line, |(line, _)| line).to_owned();
    match answer(&WebRequest { line, headers, body }) {
        WebReply::Answer(status, body) => {
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            )?;
            stream.flush()
        }
        WebReply::Hang => loop {
            read_some(&mut stream, &mut bytes)?;
        },
        WebReply::Endless => {
            write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            loop {
                stream.write_all(&[b'x'; 4096])?;
            }
        }
    }
}

fn read_some(stream: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut part = [0; 4096];
    match stream.read(&mut part)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count => {
            bytes.extend_from_slice(&part[..count]);
            Ok(())
        }
    }
}
