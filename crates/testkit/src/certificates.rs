//! Certificates for tests: an authority that signs the certificates that a test requests.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, SanType,
    date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// An authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

/// When a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// Now.
    Current,
    /// It was.
    Expired,
}

impl Certificate {
    /// What a server shows it with.
    pub(crate) fn server_config(&self) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let chain = vec![CertificateDer::from_pem_slice(self.certificate.as_bytes()).expect("PEM")];
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("PEM");
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions of its own")
            .with_no_client_auth()
            .with_single_cert(chain, key);
        Arc::new(config.expect("a pair"))
    }
}

impl Authority {
    /// A new one.
    ///
    /// # Panics
    /// If no key can be generated.
    pub fn new(name: &str) -> Authority {
        let key = KeyPair::generate().expect("randomness");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key).expect("plain parameters").pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Its own certificate in PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Signs a certificate with this common name, for these names: host names, addresses, or URIs.
    ///
    /// # Panics
    /// If a name is invalid.
    pub fn issue(&self, common_name: &str, names: &[&str], validity: Validity) -> Certificate {
        let key = KeyPair::generate().expect("randomness");
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.subject_alt_names = names.iter().map(|name| alternative(name)).collect();
        if validity == Validity::Expired {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        let certificate = params.signed_by(&key, &self.issuer).expect("plain parameters").pem();
        Certificate { certificate, key: key.serialize_pem() }
    }
}

fn alternative(name: &str) -> SanType {
    if name.contains("://") {
        SanType::URI(name.try_into().expect("a URI in ASCII"))
    } else if let Ok(address) = name.parse() {
        SanType::IpAddress(address)
    } else {
        SanType::DnsName(name.try_into().expect("a host name in ASCII"))
    }
}
