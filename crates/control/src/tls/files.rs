//! PEM files and the certificates in them; private keys are in `keys.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use narrows_proxy::tls::Certificate;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::TlsError;
use crate::files;

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrecy {
    /// Everybody.
    Public,
    /// Only its owner.
    Secret,
}

/// Writes a new file as a whole. An error becomes a remark.
pub(super) fn write(path: &Path, content: &[u8], secrecy: Secrecy, remarks: &mut Vec<String>) {
    let mode = match secrecy {
        Secrecy::Public => 0o644,
        Secrecy::Secret => 0o600,
    };
    if let Err(error) = files::replace(path, content, mode) {
        remarks.push(format!("{}: {error}; the generated file is not kept", path.display()));
    }
}

/// The certificates in a file; there must be at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    certificates_in(&read(path)?, path)
}

pub(super) fn certificates_in(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(wrong(path, "no certificate in it")),
        Err(error) => Err(wrong(path, &error.to_string())),
    }
}

/// The revoked certificates of a file.
pub(super) fn revocations(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&read(path)?).collect();
    found.map_err(|error| wrong(path, &error.to_string()))
}

/// The files in a folder that begin like PEM, ordered by name.
pub(super) fn of_folder(folder: &Path) -> Result<Vec<PathBuf>, TlsError> {
    let entries =
        fs::read_dir(folder).map_err(|source| TlsError::File { path: folder.to_owned(), source })?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.retain(|path| {
        fs::read(path).is_ok_and(|bytes| bytes.windows(11).any(|part| part == b"-----BEGIN "))
    });
    Ok(paths)
}

/// A root store of certificates.
pub(super) fn roots(
    authorities: Vec<CertificateDer<'static>>,
    path: &Path,
) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(|error| wrong(path, &error.to_string()))?;
    }
    Ok(roots)
}

/// The description of certificates for operators.
pub(super) fn describe<'a>(
    role: &'static str,
    path: &'a Path,
    certificates: &'a [CertificateDer<'static>],
) -> impl Iterator<Item = Certificate> + 'a {
    certificates.iter().filter_map(move |certificate| {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        Some(Certificate {
            role,
            file: path.to_owned(),
            subject: parsed.subject().to_string(),
            issuer: parsed.issuer().to_string(),
            serial: parsed.raw_serial().iter().map(|byte| format!("{byte:02X}")).collect(),
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
        })
    })
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::File { path: path.to_owned(), source })
}

pub(super) fn wrong(path: &Path, reason: &str) -> TlsError {
    TlsError::Content { path: path.to_owned(), reason: reason.to_owned() }
}
