//! One side of a TLS connection: records in, records out, without a socket.
//!
//! rustls is used without its own buffers: an idle connection holds its keys and the part of a record that has come, and
//! nothing else.

use std::io;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{CertificateError, CommonState};

/// One side of a TLS connection.
pub(super) struct Tls {
    // Boxed apart: the two differ in size.
    side: Side,
    /// Bytes of a record that is not whole yet.
    kept: Vec<u8>,
    /// Records of the handshake were put into the outbox and not yet said to be sent.
    established: bool,
}

enum Side {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

/// What a handshake came to.
#[derive(Debug, Clone)]
pub struct TlsInfo {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite.
    pub cipher: String,
    /// The peer's certificate, checked; `None` where it has shown none.
    pub certificate: Option<CertificateDer<'static>>,
}

/// Why there is no TLS connection.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The socket failed.
    #[error("TLS handshake: {0}")]
    Io(#[from] io::Error),
    /// The peer closed the connection.
    #[error("TLS handshake: connection closed by the peer")]
    Closed,
    /// The certificate of the peer is refused.
    #[error("TLS: the certificate is refused: {0}")]
    Certificate(String),
    /// Anything else, the peer's own refusal included.
    #[error("TLS: {0}")]
    Protocol(rustls::Error),
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> TlsError {
        match error {
            rustls::Error::InvalidCertificate(error) => TlsError::Certificate(reason(&error)),
            error => TlsError::Protocol(error),
        }
    }
}

/// Why a certificate is refused, in words.
fn reason(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired => "it has expired".to_owned(),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("it has expired, {} s after 1970", not_after.as_secs())
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet".to_owned()
        }
        CertificateError::Revoked => "it was revoked".to_owned(),
        CertificateError::UnknownIssuer => "its issuer is none of the CAs that are trusted".to_owned(),
        CertificateError::NotValidForName => "it is not for this host".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => format!(
            "it is for {}, not for the host {}",
            if presented.is_empty() { "no name at all".to_owned() } else { presented.join(", ") },
            expected.to_str()
        ),
        other => other.to_string(),
    }
}

/// What a step of the connection led to.
enum Progress {
    /// There may be more to do.
    Goes,
    /// Nothing can be done before more bytes have come.
    Waits { may_send: bool },
    /// The peer has ended its part.
    Ended,
}

impl Tls {
    pub(super) fn server(config: &Arc<rustls::ServerConfig>) -> Result<Tls, TlsError> {
        let connection = UnbufferedServerConnection::new(Arc::clone(config))?;
        Ok(Tls { side: Side::Server(Box::new(connection)), kept: Vec::new(), established: false })
    }

    pub(super) fn client(
        config: &Arc<rustls::ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Tls, TlsError> {
        let connection = UnbufferedClientConnection::new(Arc::clone(config), name)?;
        Ok(Tls { side: Side::Client(Box::new(connection)), kept: Vec::new(), established: false })
    }

    /// Bytes that are kept of a record.
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Keeps bytes for later.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
    }

    /// Moves what is kept to the front of `records`, which has room for it.
    pub(super) fn take_kept(&mut self, records: &mut [u8]) {
        let kept = std::mem::take(&mut self.kept);
        if let Some(place) = records.get_mut(..kept.len()) {
            place.copy_from_slice(&kept);
        }
    }

    /// What the handshake came to.
    pub(super) fn info(&self) -> TlsInfo {
        let state: &CommonState = match &self.side {
            Side::Server(connection) => connection,
            Side::Client(connection) => connection,
        };
        let suite = state.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite()));
        let first = state.peer_certificates().and_then(|chain| chain.first());
        TlsInfo {
            version: match state.protocol_version() {
                Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "TLSv1.3",
            },
            cipher: suite.unwrap_or_default(),
            certificate: first.map(|certificate| certificate.clone().into_owned()),
        }
    }

    /// Goes on with the handshake with the records that are kept; whether it is done.
    pub(super) fn handshake(
        &mut self,
        sink: &mut dyn FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<bool, TlsError> {
        let mut records = std::mem::take(&mut self.kept);
        let ended = self.decrypt(&mut records, sink, out)?;
        if ended { Err(TlsError::Closed) } else { Ok(self.established) }
    }

    /// Takes `records` in: hands what they carry to `sink`, keeps a part of one, and puts answers of TLS's own into `out`.
    /// Returns whether the peer has ended its part.
    pub(super) fn decrypt(
        &mut self,
        records: &mut [u8],
        sink: &mut dyn FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<bool, rustls::Error> {
        let mut ended = false;
        let mut at = 0;
        loop {
            let rest = records.get_mut(at..).unwrap_or_default();
            let (discard, progress) = match &mut self.side {
                Side::Server(connection) => step(connection.process_tls_records(rest), sink, out),
                Side::Client(connection) => step(connection.process_tls_records(rest), sink, out),
            };
            at += discard;
            match progress {
                Ok(Progress::Goes) => {}
                Ok(Progress::Ended) => {
                    ended = true;
                    break;
                }
                Ok(Progress::Waits { may_send }) => {
                    self.established = may_send;
                    break;
                }
                Err(error) => {
                    self.put_alert(out);
                    return Err(error);
                }
            }
        }
        self.kept.extend_from_slice(records.get(at..).unwrap_or_default());
        Ok(ended)
    }

    /// Puts the alert that says why the connection fails into `out`, so that the peer knows.
    fn put_alert(&mut self, out: &mut Vec<u8>) {
        let (_, alert) = match &mut self.side {
            Side::Server(connection) => step(connection.process_tls_records(&mut []), &mut |_| {}, out),
            Side::Client(connection) => step(connection.process_tls_records(&mut []), &mut |_| {}, out),
        };
        drop(alert);
    }

    /// Puts records that carry `plain` into `out`.
    pub(super) fn encrypt(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), rustls::Error> {
        loop {
            let done = match &mut self.side {
                Side::Server(side) => encrypt(side.process_tls_records(&mut []), Some(plain), out)?,
                Side::Client(side) => encrypt(side.process_tls_records(&mut []), Some(plain), out)?,
            };
            if done {
                return Ok(());
            }
        }
    }

    /// Puts TLS's word for the end into `out`.
    pub(super) fn close(&mut self, out: &mut Vec<u8>) {
        if !self.established {
            return;
        }
        // A connection that has failed needs no goodbye.
        let _ = match &mut self.side {
            Side::Server(connection) => encrypt(connection.process_tls_records(&mut []), None, out),
            Side::Client(connection) => encrypt(connection.process_tls_records(&mut []), None, out),
        };
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("established", &self.established).finish_non_exhaustive()
    }
}

/// Does what one state of the connection asks for. Returns the bytes of the input that are done with.
fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    sink: &mut dyn FnMut(&[u8]),
    out: &mut Vec<u8>,
) -> (usize, Result<Progress, rustls::Error>) {
    let UnbufferedStatus { mut discard, state } = status;
    let progress = match state {
        Ok(ConnectionState::ReadTraffic(mut traffic)) => {
            let mut read = Ok(Progress::Goes);
            while let Some(record) = traffic.next_record() {
                match record {
                    Ok(record) => {
                        discard += record.discard;
                        sink(record.payload);
                    }
                    Err(error) => {
                        read = Err(error);
                        break;
                    }
                }
            }
            read
        }
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let start = out.len();
            let mut room = USUAL_RECORD;
            loop {
                out.resize(start + room, 0);
                match data.encode(out.get_mut(start..).unwrap_or_default()) {
                    Ok(written) => {
                        out.truncate(start + written);
                        break Ok(Progress::Goes);
                    }
                    Err(EncodeError::InsufficientSize(needed)) => room = needed.required_size,
                    Err(EncodeError::AlreadyEncoded) => {
                        out.truncate(start);
                        break Ok(Progress::Goes);
                    }
                }
            }
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            // The outbox is written before anything else is.
            data.done();
            Ok(Progress::Goes)
        }
        Ok(ConnectionState::BlockedHandshake) => Ok(Progress::Waits { may_send: false }),
        Ok(ConnectionState::WriteTraffic(_)) => Ok(Progress::Waits { may_send: true }),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Ok(Progress::Ended),
        // Nobody is offered to send data before the handshake.
        Ok(_) => Err(rustls::Error::General("early data".to_owned())),
        Err(error) => Err(error),
    };
    (discard, progress)
}

/// Puts records that carry `plain`, or the word for the end, into `out`; false when something of TLS's own went first.
fn encrypt<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plain: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> Result<bool, rustls::Error> {
    let mut traffic = match status.state? {
        ConnectionState::WriteTraffic(traffic) => traffic,
        ConnectionState::BlockedHandshake | ConnectionState::Closed => {
            return Err(rustls::Error::HandshakeNotComplete);
        }
        state => {
            let status = UnbufferedStatus { discard: 0, state: Ok(state) };
            return step(status, &mut |_| {}, out).1.map(|_| false);
        }
    };
    let start = out.len();
    let length = plain.map_or(0, <[u8]>::len);
    let mut room = length + (length / RECORD_CONTENT + 1) * RECORD_OVERHEAD;
    loop {
        out.resize(start + room, 0);
        let place = out.get_mut(start..).unwrap_or_default();
        let written = match plain {
            Some(plain) => traffic.encrypt(plain, place),
            None => traffic.queue_close_notify(place),
        };
        match written {
            Ok(written) => {
                out.truncate(start + written);
                return Ok(true);
            }
            Err(EncryptError::InsufficientSize(needed)) => room = needed.required_size,
            Err(EncryptError::EncryptExhausted) => {
                out.truncate(start);
                return Err(rustls::Error::EncryptError);
            }
        }
    }
}

/// Bytes that one record carries at most.
const RECORD_CONTENT: usize = 16 * 1024;

/// Bytes that encryption adds to a record at most: header, nonce, type and tag.
const RECORD_OVERHEAD: usize = 64;

/// A record of a handshake, mostly.
const USUAL_RECORD: usize = 2048;
