//! One side of a TLS connection: records in, records out, without a socket.
//!
//! rustls is used without its own buffers: an idle connection only holds its keys and the part of a record that has
//! arrived.

use std::io;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{CertificateError, CommonState};

/// One side of a TLS connection.
pub(super) struct Tls {
    // Boxed separately: the two differ in size.
    side: Side,
    /// The bytes of an incomplete record.
    kept: Vec<u8>,
    /// Whether records of the handshake were put into the outbox and not yet reported as sent.
    established: bool,
}

enum Side {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

/// The outcome of a handshake.
#[derive(Debug, Clone)]
pub struct TlsInfo {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite.
    pub cipher: String,
    /// The peer's certificate, verified; `None` if it has sent none.
    pub certificate: Option<CertificateDer<'static>>,
}

/// Why TLS failed.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The socket failed.
    #[error("TLS handshake: {0}")]
    Io(#[from] io::Error),
    /// The peer closed the connection.
    #[error("TLS handshake: connection closed by the peer")]
    Closed,
    /// The peer's certificate was rejected.
    #[error("TLS: the certificate is refused: {0}")]
    Certificate(String),
    /// Any other error, including an alert from the peer.
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

/// Why a certificate is rejected, as text.
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

/// The result of a step of the connection.
enum Progress {
    /// There may be more to do.
    Goes,
    /// Nothing can be done before more bytes arrive.
    Waits { may_send: bool },
    /// The peer has closed its side.
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

    /// The number of bytes of a record that are stored.
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Stores bytes for later.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
    }

    /// Moves the stored bytes to the front of `records`, which has room for them.
    pub(super) fn take_kept(&mut self, records: &mut [u8]) {
        let kept = std::mem::take(&mut self.kept);
        if let Some(place) = records.get_mut(..kept.len()) {
            place.copy_from_slice(&kept);
        }
    }

    /// The outcome of the handshake.
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

    /// Continues the handshake with the stored records; returns whether it is complete.
    pub(super) fn handshake(
        &mut self,
        sink: &mut dyn FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<bool, TlsError> {
        let mut records = std::mem::take(&mut self.kept);
        let ended = self.decrypt(&mut records, sink, out)?;
        if ended { Err(TlsError::Closed) } else { Ok(self.established) }
    }

    /// Decrypts `records`: passes their content to `sink`, stores a partial record, and puts TLS's own replies into
    /// `out`. Returns whether the peer has closed its side.
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
                    self.put_alert(records.get_mut(at..).unwrap_or_default(), out);
                    return Err(error);
                }
            }
        }
        self.kept.extend_from_slice(records.get(at..).unwrap_or_default());
        Ok(ended)
    }

    /// Puts the alert with the reason for the failure into `out`, for the peer. rustls remembers how far it has read
    /// `records`, and must see them again.
    fn put_alert(&mut self, records: &mut [u8], out: &mut Vec<u8>) {
        let (_, alert) = match &mut self.side {
            Side::Server(connection) => step(connection.process_tls_records(records), &mut |_| {}, out),
            Side::Client(connection) => step(connection.process_tls_records(records), &mut |_| {}, out),
        };
        drop(alert);
    }

    /// Puts records with the content `plain` into `out`.
    pub(super) fn encrypt(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), rustls::Error> {
        while !self.put_records(Some(plain), out)? {}
        Ok(())
    }

    /// Puts close_notify into `out`.
    pub(super) fn close(&mut self, out: &mut Vec<u8>) {
        if self.established {
            // A failed connection needs no close_notify.
            let _ = self.put_records(None, out);
        }
    }

    /// One step of [`encrypt`]. A partial handshake message is in `kept`: rustls remembers how far it has read that.
    fn put_records(&mut self, plain: Option<&[u8]>, out: &mut Vec<u8>) -> Result<bool, rustls::Error> {
        let (discard, put) = match &mut self.side {
            Side::Server(side) => encrypt(side.process_tls_records(&mut self.kept), plain, out),
            Side::Client(side) => encrypt(side.process_tls_records(&mut self.kept), plain, out),
        };
        if discard > 0 {
            self.kept.drain(..discard.min(self.kept.len()));
        }
        put
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("established", &self.established).finish_non_exhaustive()
    }
}

/// Performs the action that the state of the connection requires. Returns the number of input bytes that have been
/// processed.
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
        Ok(ConnectionState::EncodeTlsData(data)) => {
            encode(data, out);
            Ok(Progress::Goes)
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            // The outbox is written before anything else.
            data.done();
            Ok(Progress::Goes)
        }
        Ok(ConnectionState::BlockedHandshake) => Ok(Progress::Waits { may_send: false }),
        Ok(ConnectionState::WriteTraffic(_)) => Ok(Progress::Waits { may_send: true }),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Ok(Progress::Ended),
        // Early data is never offered.
        Ok(_) => Err(rustls::Error::General("early data".to_owned())),
        Err(error) => Err(error),
    };
    (discard, progress)
}

/// Puts records with the content `plain`, or close_notify, into `out`; false if a message of TLS itself came first.
/// Also returns the number of input bytes that have been processed.
fn encrypt<Data>(
    UnbufferedStatus { discard, state }: UnbufferedStatus<'_, '_, Data>,
    plain: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> (usize, Result<bool, rustls::Error>) {
    match state {
        Ok(ConnectionState::WriteTraffic(traffic)) => (discard, write(traffic, plain, out).map(|()| true)),
        Ok(ConnectionState::BlockedHandshake | ConnectionState::Closed) => {
            (discard, Err(rustls::Error::HandshakeNotComplete))
        }
        state => {
            let (discard, done) = step(UnbufferedStatus { discard, state }, &mut |_| {}, out);
            (discard, done.map(|_| false))
        }
    }
}

/// Puts a handshake message into `out`.
fn encode<Data>(mut data: EncodeTlsData<'_, Data>, out: &mut Vec<u8>) {
    let start = out.len();
    let mut room = USUAL_RECORD;
    loop {
        out.resize(start + room, 0);
        match data.encode(out.get_mut(start..).unwrap_or_default()) {
            Ok(written) => return out.truncate(start + written),
            Err(EncodeError::InsufficientSize(needed)) => room = needed.required_size,
            Err(EncodeError::AlreadyEncoded) => return out.truncate(start),
        }
    }
}

fn write<Data>(
    mut traffic: WriteTraffic<'_, Data>,
    plain: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> Result<(), rustls::Error> {
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
                return Ok(());
            }
            Err(EncryptError::InsufficientSize(needed)) => room = needed.required_size,
            Err(EncryptError::EncryptExhausted) => {
                out.truncate(start);
                return Err(rustls::Error::EncryptError);
            }
        }
    }
}

/// The maximum content of one record in bytes.
const RECORD_CONTENT: usize = 16 * 1024;

/// The maximum number of bytes that encryption adds to a record: header, nonce, type and tag.
const RECORD_OVERHEAD: usize = 64;

/// The usual size of a handshake record in bytes.
const USUAL_RECORD: usize = 2048;

#[cfg(test)]
mod tests {
    use narrows_testkit::{Authority, Validity};
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    /// Both sides of a connection, whose server sends its messages in records of 64 bytes.
    fn sides() -> (Tls, Tls) {
        let authority = Authority::new("of the test");
        let issued = authority.issue("db", &["db.example"], Validity::Current);
        let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate(authority.pem())).expect("a root");
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).expect("a key");
        let provider = || Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut server = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate(&issued.certificate)], key)
            .expect("a key that fits");
        server.max_fragment_size = Some(64);
        let client = rustls::ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("db.example").expect("a name");
        let client = Tls::client(&Arc::new(client), name).expect("a client");
        (client, Tls::server(&Arc::new(server)).expect("a server"))
    }

    fn hand(to: &mut Tls, records: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        to.keep(records);
        to.handshake(&mut |_| {}, &mut out).expect("a handshake");
        out
    }

    #[test]
    fn a_message_that_has_come_in_part_is_read_on_after_an_answer() {
        let (mut client, mut server) = sides();
        let hello = hand(&mut client, &[]);
        let flight = hand(&mut server, &hello);
        let finished = hand(&mut client, &flight);
        // Session tickets, each in several records.
        let tickets = hand(&mut server, &finished);
        for cut in 1..tickets.len() {
            let (mut client, mut server) = sides();
            let hello = hand(&mut client, &[]);
            let flight = hand(&mut server, &hello);
            let finished = hand(&mut client, &flight);
            let tickets = hand(&mut server, &finished);
            let Some((begun, rest)) = tickets.split_at_checked(cut) else { continue };
            hand(&mut client, begun);
            let mut query = Vec::new();
            client.encrypt(b"SELECT 1", &mut query).expect("it is established");
            hand(&mut client, rest);
            let mut seen = Vec::new();
            let mut sink = |bytes: &[u8]| seen.extend_from_slice(bytes);
            server.decrypt(&mut query, &mut sink, &mut Vec::new()).expect("it was encrypted for it");
            assert_eq!(seen, b"SELECT 1", "after {cut} bytes of {}", tickets.len());
        }
    }

    #[test]
    fn what_is_no_handshake_is_an_error_however_it_is_cut() {
        for records in 1..40 {
            let (_, mut server) = sides();
            let mut bytes = [22, 3, 1, 0, 1, 1].repeat(records);
            // A message of another kind than a hello, whose length is only complete with the fourth byte.
            let ended = server.decrypt(&mut bytes, &mut |_| {}, &mut Vec::new());
            assert_eq!(ended.is_err(), records >= 4, "{records} records: {ended:?}");
        }
    }
}
