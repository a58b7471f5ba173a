//! The authorities that a server's certificate must be signed by.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use tokio_rustls::TlsConnector;

/// What connects with TLS to servers whose certificates an authority in the file `path` has signed; the caller says which
/// certificate of its own it shows.
///
/// # Errors
/// If there are no authorities in the file, as a text.
pub fn trusting(path: &Path) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, String> {
    let roots = roots(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    Ok(config)
}

/// What connects with TLS to servers whose certificates an authority in the file `named` has signed, or one that the system trusts.
///
/// # Errors
/// If there are no authorities, as a text that says that `setting` can name them.
pub fn connector(named: Option<&Path>, setting: &str) -> Result<TlsConnector, String> {
    let of_system = || SYSTEM.iter().map(Path::new).find(|path| path.exists());
    let path = named.or_else(of_system);
    let missing = || format!("there is no file of the system's authorities; {setting} can name one");
    let config = trusting(path.ok_or_else(missing)?)?.with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Where systems have their authorities: Debian and Alpine, Red Hat, SUSE.
const SYSTEM: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

fn roots(path: &Path) -> Result<RootCertStore, String> {
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    // A file of the system has certificates that are not understood.
    let (added, _) = roots.add_parsable_certificates(certificates.flatten());
    if added == 0 {
        return Err("no certificate in it".to_owned());
    }
    Ok(roots)
}
