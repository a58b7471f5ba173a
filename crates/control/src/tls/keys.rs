//! Private keys in PEM: PKCS #8, with a passphrase or without, PKCS #1 and SEC 1.

use std::path::Path;

use ::aws_lc_rs::rsa::PrivateDecryptingKey;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pkcs8::der::Encode;
use pkcs8::der::asn1::{AnyRef, ObjectIdentifier};
use pkcs8::spki::AlgorithmIdentifierRef;
use pkcs8::{EncryptedPrivateKeyInfo, PrivateKeyInfo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

use super::TlsError;
use super::files::{read, wrong};
use crate::secrets::Secrets;
use crate::variables::Values;

/// A passphrase for keys, and the variable that has it.
#[derive(Clone, Copy)]
pub(super) struct Passphrase<'a> {
    /// The name of the variable.
    pub variable: &'static str,
    /// Its value; empty: none; `None`: it cannot be looked up.
    pub text: Option<&'a str>,
}

/// The variable with the passphrase of the keys that clients are shown.
pub(super) const FOR_CLIENTS: &str = "mysql-ssl_key_passphrase";

/// That of the keys that servers are shown.
pub(super) const FOR_SERVERS: &str = "mysql-ssl_p2s_key_passphrase";

impl<'a> Passphrase<'a> {
    /// The passphrase in the variable with that full name.
    pub fn of(variable: &'static str, values: &'a Values, secrets: &'a Secrets) -> Passphrase<'a> {
        Passphrase { variable, text: secrets.value(super::text(values, variable)) }
    }
}

/// The private key of a file.
pub(super) fn key(path: &Path, passphrase: Passphrase<'_>) -> Result<PrivateKeyDer<'static>, TlsError> {
    key_in(&Zeroizing::new(read(path)?), path, passphrase)
}

/// The private key in the content of a file.
pub(super) fn key_in(
    pem: &[u8],
    path: &Path,
    passphrase: Passphrase<'_>,
) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = String::from_utf8_lossy(pem);
    if let Some(encrypted) = encrypted_in(&text) {
        return decrypted(encrypted, passphrase).map_err(|reason| wrong(path, &reason));
    }
    if text.contains("Proc-Type: 4,ENCRYPTED") {
        let file = path.display();
        let reason = format!(
            "the key is encrypted in the old way of OpenSSL, which is not supported: `openssl pkcs8 -topk8 -in {file} -out NEW` \
             converts it"
        );
        return Err(wrong(path, &reason));
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| wrong(path, &format!("no private key: {error}")))
}

/// The RSA key of a file.
pub(super) fn rsa_key(path: &Path, passphrase: Passphrase<'_>) -> Result<PrivateDecryptingKey, TlsError> {
    let no_key = |error: &dyn std::fmt::Display| wrong(path, &format!("no RSA key: {error}"));
    let in_pkcs8 = match key(path, passphrase)? {
        PrivateKeyDer::Pkcs8(key) => key,
        PrivateKeyDer::Pkcs1(key) => {
            let algorithm = AlgorithmIdentifierRef { oid: RSA, parameters: Some(AnyRef::NULL) };
            let whole = PrivateKeyInfo::new(algorithm, key.secret_pkcs1_der());
            PrivatePkcs8KeyDer::from(whole.to_der().map_err(|error| no_key(&error))?)
        }
        _ => return Err(no_key(&"it is one of another kind")),
    };
    PrivateDecryptingKey::from_pkcs8(in_pkcs8.secret_pkcs8_der()).map_err(|error| no_key(&error))
}

/// `rsaEncryption`
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// The base 64 of an encrypted key, if there is one.
fn encrypted_in(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("-----BEGIN ENCRYPTED PRIVATE KEY-----")?;
    rest.split_once("-----END ENCRYPTED PRIVATE KEY-----").map(|(inside, _)| inside)
}

/// The key of an encrypted one.
fn decrypted(base64: &str, passphrase: Passphrase<'_>) -> Result<PrivateKeyDer<'static>, String> {
    let variable = passphrase.variable;
    let text = match passphrase.text {
        None => {
            return Err(format!("the key is encrypted, and the passphrase of {variable} is not known"));
        }
        Some("") => return Err(format!("the key is encrypted, and {variable} has no passphrase")),
        Some(text) => text,
    };
    let packed: String = base64.split_ascii_whitespace().collect();
    let bytes = STANDARD.decode(packed).map_err(|error| format!("no private key: {error}"))?;
    let key = EncryptedPrivateKeyInfo::try_from(bytes.as_slice());
    let key = key.map_err(|error| {
        format!("the encrypted key cannot be read, or its cipher is not supported: {error}")
    })?;
    let key = key.decrypt(text).map_err(|error| {
        format!("the key cannot be decrypted: the passphrase of {variable} is wrong, or its cipher is not supported ({error})")
    })?;
    let inner = PrivateKeyDer::try_from(key.as_bytes().to_vec());
    inner.map_err(|error| format!("no private key: {error}"))
}
