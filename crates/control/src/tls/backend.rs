//! TLS to servers: `mysql-ssl_p2s_*` and `mysql_servers_ssl_params`.
//!
//! Without an authority, a server's certificate is not verified, as with MySQL's own clients: the connection is
//! encrypted, but the server's identity is unknown. With one, the certificate must be signed by it, be valid now, and
//! match the host name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use narrows_proxy::snapshot::SslParamsRow;
use narrows_proxy::tls::{TlsToward, Toward, TowardServers};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, KeyLog, SignatureScheme, SupportedCipherSuite,
    SupportedProtocolVersion,
};

use super::files;
use super::keys::{self, Passphrase};
use super::{LoadedTls, TlsError, text};
use crate::secrets::Secrets;
use crate::variables::Values;

pub(super) fn toward_servers(
    (values, secrets): (&Values, &Secrets),
    rows: &[SslParamsRow],
    keylog: &Arc<dyn KeyLog>,
    loaded: &mut LoadedTls,
) -> TowardServers {
    let variable = |name: &str| text(values, name).to_owned();
    let default = SslParamsRow {
        ssl_ca: variable("mysql-ssl_p2s_ca"),
        ssl_cert: variable("mysql-ssl_p2s_cert"),
        ssl_key: variable("mysql-ssl_p2s_key"),
        ssl_capath: variable("mysql-ssl_p2s_capath"),
        ssl_crl: variable("mysql-ssl_p2s_crl"),
        ssl_crlpath: variable("mysql-ssl_p2s_crlpath"),
        ssl_cipher: variable("mysql-ssl_p2s_cipher"),
        ..SslParamsRow::default()
    };
    let passphrase = Passphrase::of(keys::FOR_SERVERS, values, secrets);
    let mut toward = |row: &SslParamsRow, what: String| -> Toward {
        config(row, (keylog, passphrase), loaded).map_err(|error| {
            loaded.remarks.push(format!("{what}: {error}; servers with use_ssl cannot be reached by it"));
            error.to_string()
        })
    };
    TowardServers {
        default: Some(toward(&default, "mysql-ssl_p2s_*".to_owned())),
        rows: rows
            .iter()
            .map(|row| {
                let what = format!("mysql_servers_ssl_params of {}:{}", row.hostname, row.port);
                ((row.hostname.clone(), row.port, row.username.clone()), toward(row, what))
            })
            .collect(),
    }
}

fn config(
    row: &SslParamsRow,
    (keylog, passphrase): (&Arc<dyn KeyLog>, Passphrase<'_>),
    loaded: &mut LoadedTls,
) -> Result<TlsToward, TlsError> {
    let provider =
        Arc::new(CryptoProvider { cipher_suites: suites(&row.ssl_cipher)?, ..aws_lc_rs::default_provider() });
    let failed = |reason| TlsError::Pair { path: PathBuf::from(&row.ssl_cert), reason };
    let authorities = authorities(row, loaded)?;
    let verifies = authorities.is_some();
    let verifier: Arc<dyn ServerCertVerifier> = match authorities {
        None => Arc::new(Unverified(Arc::clone(&provider))),
        Some((roots, path)) => {
            let crls = revocations(row)?;
            let mut verifier =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
            if !crls.is_empty() {
                // A list says nothing about the certificates of authorities that it does not name.
                verifier = verifier.with_crls(crls).allow_unknown_revocation_status();
            }
            verifier.build().map_err(|error| files::wrong(&path, &error.to_string()))?
        }
    };
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&versions(&row.tls_version)?).map_err(failed)?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match (row.ssl_cert.as_str(), row.ssl_key.as_str()) {
        ("", "") => builder.with_no_client_auth(),
        (cert, key) => {
            let cert_path = Path::new(cert);
            let chain = files::certificates(cert_path)?;
            loaded.certificates.extend(files::describe("certificate shown to servers", cert_path, &chain));
            builder.with_client_auth_cert(chain, keys::key(Path::new(key), passphrase)?).map_err(failed)?
        }
    };
    config.key_log = Arc::clone(keylog);
    Ok(TlsToward { config: Arc::new(config), verifies })
}

fn authorities(
    row: &SslParamsRow,
    loaded: &mut LoadedTls,
) -> Result<Option<(rustls::RootCertStore, PathBuf)>, TlsError> {
    let mut paths = Vec::new();
    if !row.ssl_ca.is_empty() {
        paths.push(PathBuf::from(&row.ssl_ca));
    }
    if !row.ssl_capath.is_empty() {
        paths.extend(files::of_folder(Path::new(&row.ssl_capath))?);
    }
    let named = if row.ssl_ca.is_empty() { &row.ssl_capath } else { &row.ssl_ca };
    if named.is_empty() {
        return Ok(None);
    }
    let mut all = Vec::new();
    for path in &paths {
        let found = files::certificates(path)?;
        loaded.certificates.extend(files::describe("authority of servers", path, &found));
        all.extend(found);
    }
    let path = PathBuf::from(named);
    if all.is_empty() {
        return Err(files::wrong(&path, "no certificate in it"));
    }
    Ok(Some((files::roots(all, &path)?, path)))
}

fn revocations(
    row: &SslParamsRow,
) -> Result<Vec<rustls::pki_types::CertificateRevocationListDer<'static>>, TlsError> {
    let mut all = Vec::new();
    if !row.ssl_crl.is_empty() {
        all.extend(files::revocations(Path::new(&row.ssl_crl))?);
    }
    if !row.ssl_crlpath.is_empty() {
        for path in files::of_folder(Path::new(&row.ssl_crlpath))? {
            all.extend(files::revocations(&path)?);
        }
    }
    Ok(all)
}

/// The cipher suites of a list, and all of TLS 1.3, to which OpenSSL's list does not apply. Names that rustls does not
/// support are skipped as long as one is left.
fn suites(list: &str) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let all = aws_lc_rs::ALL_CIPHER_SUITES.to_vec();
    let names: Vec<&str> = list.split([':', ',', ' ']).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return Ok(all);
    }
    let named = |suite: &SupportedCipherSuite| {
        let name = openssl_name(&format!("{:?}", suite.suite()));
        names.iter().any(|listed| listed.eq_ignore_ascii_case(&name))
    };
    let is_new = |suite: &SupportedCipherSuite| suite.tls13().is_some();
    let asks_for_new = all.iter().any(|suite| is_new(suite) && named(suite));
    let chosen: Vec<SupportedCipherSuite> =
        all.into_iter().filter(|suite| named(suite) || (is_new(suite) && !asks_for_new)).collect();
    if chosen.iter().any(named) {
        Ok(chosen)
    } else {
        Err(files::wrong(Path::new("ssl_cipher"), &format!("none of {list} is supported")))
    }
}

/// The OpenSSL name of `TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`; the suites of TLS 1.3 have the same name everywhere.
fn openssl_name(name: &str) -> String {
    if let Some(new) = name.strip_prefix("TLS13_") {
        return format!("TLS_{new}");
    }
    let name = name.trim_start_matches("TLS_").replace("_WITH_AES_", "-AES").replace("_WITH_", "-");
    name.replace("POLY1305_SHA256", "POLY1305").replace('_', "-")
}

/// The versions of a list such as `TLSv1.2,TLSv1.3`.
fn versions(list: &str) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let names: Vec<&str> = list.split([',', ':', ' ']).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return Ok(super::VERSIONS.to_vec());
    }
    let has = |name: &str| names.iter().any(|listed| listed.eq_ignore_ascii_case(name));
    let chosen: Vec<_> = [("TLSv1.3", &rustls::version::TLS13), ("TLSv1.2", &rustls::version::TLS12)]
        .into_iter()
        .filter(|(name, _)| has(name))
        .map(|(_, version)| version)
        .collect();
    match chosen.is_empty() {
        false => Ok(chosen),
        true => Err(files::wrong(Path::new("tls_version"), &format!("none of {list} is supported"))),
    }
}

/// Accepts any server certificate.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        // The certificate is not verified, so its signature proves nothing.
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ciphers_are_known_by_the_names_of_openssl() {
        let names: Vec<String> = aws_lc_rs::ALL_CIPHER_SUITES
            .iter()
            .map(|suite| openssl_name(&format!("{:?}", suite.suite())))
            .collect();
        for name in [
            "TLS_AES_256_GCM_SHA384",
            "ECDHE-RSA-AES256-GCM-SHA384",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
            "ECDHE-RSA-CHACHA20-POLY1305",
        ] {
            assert!(names.iter().any(|known| known == name), "{name} is none of {names:?}");
        }
    }

    #[test]
    fn a_list_chooses_ciphers_and_versions() {
        assert_eq!(suites("").unwrap().len(), aws_lc_rs::ALL_CIPHER_SUITES.len());
        let chosen = suites("ECDHE-RSA-AES256-GCM-SHA384:AES256-SHA").unwrap();
        assert_eq!(chosen.iter().filter(|suite| suite.tls13().is_none()).count(), 1);
        assert_eq!(suites("TLS_AES_128_GCM_SHA256").unwrap().len(), 1);
        assert!(suites("RC4-MD5").is_err());
        assert_eq!(versions("TLSv1.2").unwrap(), [&rustls::version::TLS12]);
        assert_eq!(versions("TLSv1.1,TLSv1.3").unwrap(), [&rustls::version::TLS13]);
        assert!(versions("TLSv1.1").is_err());
    }
}
