//! Certificates exchanged under a running data plane.

use std::sync::Arc;

use narrows_testkit::{
    Authority, Certificate, Conversation, Endpoint, FakeMysql, Login, RawClient, Validity, tls_client,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::tests::user;
use super::*;
use crate::snapshot::{UserRow, Variables};
use crate::tls::Tls;

fn serving(certificate: &Certificate) -> SharedTls {
    let chain = CertificateDer::from_pem_slice(certificate.certificate.as_bytes()).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).expect("PEM");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("some versions")
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .expect("a pair");
    SharedTls(Arc::new(Tls { clients: Some(Arc::new(config)), ..Tls::default() }))
}

#[test]
fn other_certificates_are_for_connections_to_come_and_drop_none() {
    let server = FakeMysql::start(Conversation::new());
    let authority = Authority::new("of both");
    let [first, second] =
        ["first", "second"].map(|name| authority.issue(name, &["localhost"], Validity::Current));
    let rows = Rows {
        variables: Variables {
            interfaces: vec!["127.0.0.1:0".to_owned()],
            threads: 2,
            ..Variables::default()
        },
        servers: vec![crate::rows::server(0, "127.0.0.1", server.port())],
        users: vec![UserRow { max_connections: 10, ..user() }],
        tls: serving(&first),
        ..Rows::default()
    };
    let mut plane = DataPlane::start(rows).expect("a free port");
    let endpoint = Endpoint::Tcp(plane.addresses()[0].parse().expect("an address of TCP"));
    let login = Login::new("sbtest", "sbtest");
    let open = || RawClient::open_tls(&endpoint, &tls_client(authority.pem(), None), &login);
    let mut before = open();
    assert_eq!(before.query("DO 1").error(), None);
    plane.replace_tls(serving(&second));
    // Each worker takes it with its next message; sooner or later no connection is shown the first any more.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let shown = |client: &RawClient| client.server_certificate().expect("TLS");
    let mut after = open();
    while shown(&after) == shown(&before) {
        assert!(std::time::Instant::now() < deadline, "the first certificate is still shown");
        after = open();
    }
    for client in [&mut before, &mut after] {
        assert_eq!(client.query("DO 2").error(), None);
    }
    assert_ne!(shown(&before), shown(&after));
    drop((before, after));
    plane.stop();
}
