//! What the logins of clients and of administrators have in common: the login packet, with TLS before it, questions, and
//! refusals.

use std::sync::Arc;

use narrows_wire::auth::Channel;
use narrows_wire::auth::client_side::{ClientExchange, ClientStep};
use narrows_wire::frame::put_packet;
use narrows_wire::handshake::{HandshakeResponse, Hello};
use narrows_wire::{Errno, Header};

use crate::buffer::Buffer;
use crate::packets::{LOGIN_PACKET, ReadError, payload, read_packet};
use crate::reply::put_error;
use crate::stream::{Stream, TlsError, Transport};

/// Why a login failed; the client has been sent an error, if possible.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// It took too long.
    #[error("no login within the time limit (connect_timeout_client)")]
    Timeout,
    /// No packet was received.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The TLS handshake failed.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Closed without an error.
    #[error("{0}")]
    Closed(&'static str),
    /// The client disconnected after the greeting, as health checks do.
    #[error("the client has sent nothing")]
    NothingSent,
    /// Refused with this error.
    #[error("{0}: {1}")]
    Refused(Errno, String),
}

/// Reads the client's login, after starting TLS with `tls` if the client requests it. The login packet is then at the front
/// of `input`.
///
/// # Errors
/// See [`LoginError`]; also if TLS was not offered.
pub async fn hello(
    mut stream: Stream,
    input: &mut Buffer,
    tls: Option<&Arc<rustls::ServerConfig>>,
) -> Result<(Stream, Header, HandshakeResponse), LoginError> {
    let mut expected = 1;
    loop {
        let header = match read_packet(&stream, input, LOGIN_PACKET).await {
            Err(error) if expected == 1 && input.filled().is_empty() && error.is_disconnect() => {
                return Err(LoginError::NothingSent);
            }
            read => read?,
        };
        let sequence = header.sequence.wrapping_add(1);
        if header.sequence != expected {
            let text = "Got packets out of order".to_owned();
            return refuse(&stream, sequence, Errno::NET_PACKETS_OUT_OF_ORDER, text).await;
        }
        match Hello::decode(payload(input, header)) {
            Ok(Hello::Response(response)) => return Ok((stream, header, response)),
            Ok(Hello::SslRequest(_)) => {
                let Some(config) = tls.filter(|_| stream.transport() != Transport::Tls) else {
                    let text = "TLS was not offered".to_owned();
                    return refuse(&stream, sequence, Errno::HANDSHAKE_ERROR, text).await;
                };
                input.consume(header.packet_length());
                // Clients start TLS immediately. What they have sent belongs to it, and nothing sent before must be
                // read as if it had arrived inside TLS.
                let early = std::mem::take(input);
                stream = stream.accept_tls(config, early.filled()).await?;
                expected = sequence;
            }
            Err(error) => {
                let text = format!("Bad handshake: {error}");
                return refuse(&stream, sequence, Errno::HANDSHAKE_ERROR, text).await;
            }
        }
    }
}

/// Sends the client an authentication packet and reads its answer.
///
/// # Errors
/// No answer.
pub async fn ask(
    stream: &Stream,
    input: &mut Buffer,
    sequence: &mut u8,
    question: &[u8],
    exchange: &mut ClientExchange,
) -> Result<ClientStep, ReadError> {
    send(stream, sequence, question).await?;
    let header = read_packet(stream, input, LOGIN_PACKET).await?;
    *sequence = header.sequence.wrapping_add(1);
    let step = exchange.feed(payload(input, header));
    // It may contain the password.
    input.wipe(header.packet_length());
    Ok(step)
}

/// Sends one packet of a login.
///
/// # Errors
/// The socket's error.
pub async fn send(stream: &Stream, sequence: &mut u8, payload: &[u8]) -> Result<(), ReadError> {
    let mut out = Vec::with_capacity(64);
    put_packet(&mut out, sequence, payload);
    Ok(stream.write_all(&out).await?)
}

/// Who can read what a client sends.
pub fn channel(stream: &Stream) -> Channel {
    match stream.transport() {
        Transport::Tcp => Channel::Open,
        Transport::Tls => Channel::Tls,
        Transport::Unix => Channel::Unix,
    }
}

/// Sends a client the reason for the refusal.
///
/// # Errors
/// Always returns the refusal.
pub async fn refuse<T>(stream: &Stream, sequence: u8, errno: Errno, text: String) -> Result<T, LoginError> {
    refuse_because(stream, sequence, (errno, text), None).await
}

/// The same, with a reason that only logs have.
pub(super) async fn refuse_because<T>(
    stream: &Stream,
    mut sequence: u8,
    (errno, text): (Errno, String),
    reason: Option<String>,
) -> Result<T, LoginError> {
    let mut out = Vec::with_capacity(128);
    put_error(&mut out, &mut sequence, errno, &text);
    // The reason for the refusal is reported, whether or not the client receives it.
    let _ = stream.write_all(&out).await;
    let text = reason.map(|reason| format!("{text}. {reason}")).unwrap_or(text);
    Err(LoginError::Refused(errno, text))
}
