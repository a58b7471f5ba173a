//! Keys and certificates: read from the data folder and from the files that variables name, and generated if there are
//! none. The result is passed to the data plane as a whole.
//!
//! | file of the data folder | what it is |
//! |---|---|
//! | `proxysql-cert.pem`, `proxysql-key.pem` | presented to clients |
//! | `proxysql-ca.pem` | the authorities of client certificates; of the first start, also that of the certificate |
//! | `private_key.pem`, `public_key.pem` | the RSA pair that clients without TLS encrypt their password with |

mod backend;
mod files;
mod generate;
mod keylog;
mod keys;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use narrows_proxy::snapshot::SslParamsRow;
use narrows_proxy::tls::{Certificate, KeyPair, SharedTls, Tls};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};

use crate::files::FileMark;
use crate::secrets::{Secrets, in_variables};
use crate::variables::{Value, Values};
use keys::Passphrase;

/// What was read and generated.
#[derive(Debug, Default)]
pub struct LoadedTls {
    /// The TLS configuration for the data plane.
    pub tls: SharedTls,
    /// The certificates that were read so far.
    certificates: Vec<Certificate>,
    /// Problems that do not prevent serving.
    pub remarks: Vec<String>,
    /// All files and folders that it depends on, as they were before they were read.
    pub read: Vec<KeyFile>,
}

/// A file or folder with its mark; `None`: it is not there.
pub type KeyFile = (PathBuf, Option<FileMark>);

/// Why existing files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A file contains something else.
    #[error("{}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Some of the files that belong together are missing.
    #[error("{} is there, but {} is not", there.display(), missing.display())]
    Incomplete {
        /// A file that exists.
        there: PathBuf,
        /// A file that does not exist.
        missing: PathBuf,
    },
    /// Certificate and key do not match.
    #[error("{}: {reason}", path.display())]
    Pair {
        /// The file of the certificate.
        path: PathBuf,
        /// The reason.
        reason: rustls::Error,
    },
    /// Keys cannot be generated.
    #[error("generating keys: {0}")]
    Generate(String),
}

/// Reads everything, and generates what `datadir` lacks. If the folder cannot be written to, what was generated is used
/// until the end of the process.
///
/// # Errors
/// See [`TlsError`]: files that exist and cannot be used. Errors that only concern connections to servers are reported
/// when one is opened.
pub fn load(
    datadir: &Path,
    values: &Values,
    rows: &[SslParamsRow],
    secrets: &Secrets,
) -> Result<LoadedTls, TlsError> {
    load_with(datadir, (values, secrets), rows, |error, _| Err(error))
}

/// The same for a process that continues after another one, and must serve: a file that cannot be used leaves clients
/// without TLS, with a remark, until it can.
pub fn load_usable(datadir: &Path, values: &Values, rows: &[SslParamsRow], secrets: &Secrets) -> LoadedTls {
    let tolerate = |error: TlsError, remarks: &mut Vec<String>| {
        remarks.push(format!("clients are served without TLS until its files can be used: {error}"));
        Ok(())
    };
    load_with(datadir, (values, secrets), rows, tolerate).unwrap_or_default()
}

/// `judge` says whether files that cannot be used are an error.
fn load_with(
    datadir: &Path,
    (values, secrets): (&Values, &Secrets),
    rows: &[SslParamsRow],
    judge: impl Fn(TlsError, &mut Vec<String>) -> Result<(), TlsError>,
) -> Result<LoadedTls, TlsError> {
    let read = watched::files(datadir, values, rows);
    let mut loaded = LoadedTls::default();
    let passphrase = Passphrase::of(keys::FOR_CLIENTS, values, secrets);
    let keylog = keylog::open(datadir, text(values, "admin-ssl_keylog_file"), &mut loaded.remarks);
    let clients = match values.value("mysql-have_ssl") {
        Some(Value::Flag(false)) => None,
        _ => match for_clients(datadir, passphrase, &mut loaded) {
            Ok(mut config) => {
                config.key_log = keylog.clone();
                Some(Arc::new(config))
            }
            Err(error) => judge(error, &mut loaded.remarks).map(|()| None)?,
        },
    };
    let key_pair = match key_pair(datadir, passphrase, &mut loaded.remarks) {
        Ok(pair) => Some(pair),
        Err(error) => judge(error, &mut loaded.remarks).map(|()| None)?,
    };
    let servers = backend::toward_servers((values, secrets), rows, &keylog, &mut loaded);
    // What this has made itself is no change.
    loaded.read = read
        .into_iter()
        .map(|(path, mark)| {
            let mark = mark.or_else(|| FileMark::of(&path));
            (path, mark)
        })
        .collect();
    let certificates = std::mem::take(&mut loaded.certificates);
    loaded.tls = SharedTls(Arc::new(Tls { clients, key_pair, servers, certificates }));
    Ok(loaded)
}

/// The TLS configuration of programs that only connect: encrypted, without verifying certificates.
pub fn towards_anybody() -> SharedTls {
    towards_servers(&Values::default(), &[], &Secrets::default())
}

/// The TLS configuration towards servers, and nothing else: no file is written.
pub fn towards_servers(values: &Values, rows: &[SslParamsRow], secrets: &Secrets) -> SharedTls {
    let no_log: Arc<dyn rustls::KeyLog> = Arc::new(rustls::NoKeyLog {});
    let servers = backend::toward_servers((values, secrets), rows, &no_log, &mut LoadedTls::default());
    SharedTls(Arc::new(Tls { servers, ..Tls::default() }))
}

/// Why servers cannot be connected to with TLS: by the variables (`None`), or by the row with that index.
pub fn faults_toward_servers(values: &Values, rows: &[SslParamsRow]) -> Vec<(Option<usize>, String)> {
    let mut secrets = Secrets::default();
    let mut passphrases = in_variables(values, keys::FOR_SERVERS);
    // Programs of a file that is only checked are not run.
    passphrases.retain(|place| !place.is_program());
    // What cannot be looked up is reported with the key that needs it.
    secrets.fetch(&passphrases);
    let tls = towards_servers(values, rows, &secrets);
    let of_row = |(index, row): (usize, &SslParamsRow)| {
        let key = (row.hostname.clone(), row.port, row.username.clone());
        Some((Some(index), tls.servers.rows.get(&key)?.clone().err()?))
    };
    let of_variables = tls.servers.default.clone().and_then(Result::err).map(|reason| (None, reason));
    of_variables.into_iter().chain(rows.iter().enumerate().filter_map(of_row)).collect()
}

fn text<'a>(values: &'a Values, name: &str) -> &'a str {
    match values.value(name) {
        Some(Value::Text(text)) => text,
        _ => "",
    }
}

/// The TLS configuration for clients.
fn for_clients(
    datadir: &Path,
    passphrase: Passphrase<'_>,
    loaded: &mut LoadedTls,
) -> Result<ServerConfig, TlsError> {
    let [ca_path, cert_path, key_path] =
        ["proxysql-ca.pem", "proxysql-cert.pem", "proxysql-key.pem"].map(|name| datadir.join(name));
    if !cert_path.exists() && !key_path.exists() {
        let made = generate::certificates(!ca_path.exists())?;
        if let Some(ca) = &made.ca {
            files::write(&ca_path, ca.as_bytes(), files::Secrecy::Public, &mut loaded.remarks);
        }
        files::write(&cert_path, made.certificate.as_bytes(), files::Secrecy::Public, &mut loaded.remarks);
        files::write(&key_path, made.key.as_bytes(), files::Secrecy::Secret, &mut loaded.remarks);
        if !cert_path.exists() {
            let chain = files::certificates_in(made.certificate.as_bytes(), &cert_path)?;
            let key = keys::key_in(made.key.as_bytes(), &key_path, passphrase)?;
            return server_config(chain, key, None, &cert_path);
        }
    }
    for (there, missing) in [(&cert_path, &key_path), (&key_path, &cert_path)] {
        if there.exists() && !missing.exists() {
            return Err(TlsError::Incomplete { there: there.clone(), missing: missing.clone() });
        }
    }
    let chain = files::certificates(&cert_path)?;
    loaded.certificates.extend(files::describe("server certificate", &cert_path, &chain));
    let authorities = match ca_path.exists() {
        true => Some(files::certificates(&ca_path)?),
        false => None,
    };
    if let Some(authorities) = &authorities {
        loaded.certificates.extend(files::describe("authority of clients", &ca_path, authorities));
    }
    let key = keys::key(&key_path, passphrase)?;
    server_config(chain, key, authorities.map(|found| (found, ca_path)), &cert_path)
}

fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    authorities: Option<(Vec<CertificateDer<'static>>, PathBuf)>,
    cert_path: &Path,
) -> Result<ServerConfig, TlsError> {
    let pair = |reason| TlsError::Pair { path: cert_path.to_owned(), reason };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_protocol_versions(VERSIONS).map_err(pair)?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some((authorities, path)) => {
            let roots = Arc::new(files::roots(authorities, &path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            // A client without a certificate still needs a password; accounts that require a certificate say so.
            let verifier = verifier
                .allow_unauthenticated()
                .build()
                .map_err(|error| TlsError::Content { path, reason: error.to_string() })?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(pair)?;
    config.ticketer = aws_lc_rs::Ticketer::new().map_err(pair)?;
    // Database clients reconnect one at a time, and each ticket makes every handshake more expensive.
    config.send_tls13_tickets = 1;
    Ok(config)
}

/// The RSA pair for passwords without TLS.
fn key_pair(
    datadir: &Path,
    passphrase: Passphrase<'_>,
    remarks: &mut Vec<String>,
) -> Result<KeyPair, TlsError> {
    let (private_path, public_path) = (datadir.join("private_key.pem"), datadir.join("public_key.pem"));
    let private = if private_path.exists() {
        keys::rsa_key(&private_path, passphrase)?
    } else {
        let private = generate::rsa_key()?;
        let pem = generate::private_pem(&private)?;
        files::write(&private_path, pem.as_bytes(), files::Secrecy::Secret, remarks);
        private
    };
    let public = generate::public_pem(&private)?;
    if !public_path.exists() {
        files::write(&public_path, public.as_bytes(), files::Secrecy::Public, remarks);
    }
    KeyPair::new(public.as_bytes(), private)
        .map_err(|reason| TlsError::Content { path: private_path, reason: reason.to_owned() })
}

/// Never older versions: rustls does not support them.
const VERSIONS: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];

mod watched;

#[cfg(test)]
mod tests;
