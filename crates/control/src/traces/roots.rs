//! The authorities that a collector's certificate must be signed by: those of a file that the environment names, or of the
//! system.

use std::path::Path;

use tokio_rustls::TlsConnector;

use super::environment;
use crate::http_client::authorities;

/// What connects with TLS.
///
/// # Errors
/// If there are no authorities, as a text.
pub fn connector() -> Result<TlsConnector, String> {
    let named = environment::first(&["OTEL_EXPORTER_OTLP_CERTIFICATE", "SSL_CERT_FILE"]);
    let named = (!named.is_empty()).then_some(Path::new(&named));
    authorities::connector(named, "OTEL_EXPORTER_OTLP_CERTIFICATE")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::Full;
    use hyper::Request;
    use hyper::body::Bytes;
    use narrows_proxy::rt;
    use rustls::ServerConfig;
    use rustls::crypto::aws_lc_rs;
    use rustls::pki_types::PrivateKeyDer;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::super::endpoint::Endpoint;
    use super::*;
    use crate::http_client::connection::Connection;

    /// A server with a certificate for `localhost`, which answers one request; and its certificate in PEM.
    async fn server() -> (u16, String) {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate");
        let secret = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], secret)
            .expect("a configuration");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        rt::spawn_local(async move {
            let acceptor = TlsAcceptor::from(Arc::new(config));
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let _ = stream.read(&mut [0; 1_000]).await;
                let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
            }
        });
        (port, certificate.pem())
    }

    async fn status(host: &str, port: u16, authorities: &str) -> Result<u16, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("authorities.pem");
        std::fs::write(&path, authorities).expect("written");
        let tls = authorities::connector(Some(&path), "")?;
        let endpoint = Endpoint::parse(&format!("https://{host}:{port}")).expect("an address");
        let mut connection =
            Connection::open(&endpoint.0, Some(&tls)).await.map_err(|error| error.to_string())?;
        let answer = connection.send(Request::new(Full::new(Bytes::new()))).await.expect("an answer");
        Ok(answer.status().as_u16())
    }

    #[test]
    fn only_a_collector_whose_authority_is_known_is_trusted() {
        let test = async {
            let (port, known) = server().await;
            assert_eq!(status("localhost", port, &known).await, Ok(204));
            let other = status("127.0.0.1", port, &known).await.expect_err("another name");
            assert!(other.contains("not valid for name"), "{other}");
            let (_, unknown) = server().await;
            assert!(status("localhost", port, &unknown).await.is_err());
            let none = status("localhost", port, "no certificate").await.expect_err("no authorities");
            assert!(none.contains("no certificate in it"), "{none}");
        };
        rt::block_on(test).expect("a runtime");
    }
}
