//! TLS before a login.

use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{RawClient, Stream};
use crate::protocol::capability;
use crate::{Certificate, ErrorPacket};

/// How a test's client does TLS.
pub type TlsClient = ClientConfig;

/// A TLS client that trusts the authorities in `ca` (PEM), and presents `identity` if the server asks for a
/// certificate.
///
/// # Panics
/// If the PEM is invalid.
pub fn tls_client(ca: &str, identity: Option<&Certificate>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        roots.add(certificate.expect("PEM")).expect("an authority");
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder =
        builder.with_safe_default_protocol_versions().expect("some versions").with_root_certificates(roots);
    Arc::new(match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let chain: Result<Vec<_>, _> =
                CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).collect();
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("PEM");
            builder.with_client_auth_cert(chain.expect("PEM"), key).expect("a pair")
        }
    })
}

impl RawClient {
    /// Reads the greeting, requests TLS and does the handshake; a login may follow.
    ///
    /// # Errors
    /// A refusal before TLS; error 2026 if the handshake fails.
    pub fn start_tls(&mut self, config: &Arc<ClientConfig>) -> Result<(), ErrorPacket> {
        let greeting = self.greeting()?.clone();
        let failed = |message: String| ErrorPacket { code: 2026, state: "HY000".to_owned(), message };
        if greeting.capabilities & capability::SSL == 0 {
            return Err(failed("the server does not offer TLS".to_owned()));
        }
        let mut request = (capability::USUAL | capability::SSL).to_le_bytes().to_vec();
        request.extend(0x0100_0000_u32.to_le_bytes());
        request.push(33);
        request.extend([0; 23]);
        self.send(&request).map_err(|error| super::lost(&error))?;
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(Arc::clone(config), name).expect("a configuration");
        // Nothing must have arrived before the handshake.
        assert_eq!(self.stream.buffer().len(), 0, "bytes between the greeting and TLS");
        let empty = BufReader::new(Stream::Gone);
        let plain = std::mem::replace(&mut self.stream, empty).into_inner();
        let mut secure = StreamOwned::new(connection, Box::new(plain));
        let handshake = secure.conn.complete_io(&mut secure.sock);
        self.is_secure = true;
        self.stream = BufReader::with_capacity(64 * 1024, Stream::Tls(Box::new(secure)));
        handshake.map(|_| ()).map_err(|error| failed(error.to_string()))
    }

    /// Whether the last handshake resumed an earlier session; `None` without TLS.
    pub fn is_resumed(&self) -> Option<bool> {
        match self.stream.get_ref() {
            Stream::Tls(secure) => Some(secure.conn.handshake_kind() == Some(rustls::HandshakeKind::Resumed)),
            _ => None,
        }
    }

    /// The serial number in the certificate that the server presented.
    pub fn server_certificate(&self) -> Option<Vec<u8>> {
        match self.stream.get_ref() {
            Stream::Tls(secure) => Some(secure.conn.peer_certificates()?.first()?.to_vec()),
            _ => None,
        }
    }

    /// Logs in as [`RawClient::login`] does, over TLS.
    ///
    /// # Panics
    /// If the login is refused.
    pub fn open_tls(
        endpoint: &crate::Endpoint,
        config: &Arc<ClientConfig>,
        login: &crate::Login,
    ) -> RawClient {
        let mut client = RawClient::connect(endpoint);
        client.start_tls(config).unwrap_or_else(|error| panic!("TLS to {endpoint:?}: {error:?}"));
        client.login(login).unwrap_or_else(|error| panic!("log in to {endpoint:?}: {error:?}"));
        client
    }
}

impl Stream {
    /// The socket below TLS, or the socket itself.
    pub(super) fn socket(&self) -> &Stream {
        match self {
            Stream::Tls(secure) => secure.sock.socket(),
            Stream::Compressed(compressed) => compressed.plain.socket(),
            plain => plain,
        }
    }
}

pub(super) type Secure = StreamOwned<ClientConnection, Box<Stream>>;

pub(super) fn read(secure: &mut Secure, buffer: &mut [u8]) -> io::Result<usize> {
    match secure.read(buffer) {
        // A peer that closes without TLS's close_notify has closed all the same.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        result => result,
    }
}

pub(super) fn write(secure: &mut Secure, buffer: &[u8]) -> io::Result<usize> {
    let count = secure.write(buffer)?;
    secure.flush()?;
    Ok(count)
}
