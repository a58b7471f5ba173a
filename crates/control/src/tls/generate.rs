//! The keys and certificates of a first start.
//!
//! Certificates have keys on the curve P-256: signing with an RSA key of the same strength takes ten times as long, and
//! signing is most of a handshake. The key pair for passwords must be RSA: the plugin supports nothing else.

use ::aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use ::aws_lc_rs::rsa::{KeySize, PrivateDecryptingKey};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use zeroize::Zeroizing;

use super::TlsError;

/// What was generated, in PEM.
pub(super) struct Made {
    /// The authority. `None` if one already exists: its key is not available here, so the certificate is self-signed.
    pub(super) ca: Option<String>,
    pub(super) certificate: String,
    pub(super) key: Zeroizing<String>,
}

/// A certificate for this host, and, if wanted, an authority that signs it. The authority's key is not kept.
pub(super) fn certificates(with_authority: bool) -> Result<Made, TlsError> {
    let failed = |error: rcgen::Error| TlsError::Generate(error.to_string());
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = CertificateParams::new(names()).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, "Narrows server certificate");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    last_long(&mut params);
    let secret = Zeroizing::new(key.serialize_pem());
    if !with_authority {
        let certificate = params.self_signed(&key).map_err(failed)?.pem();
        return Ok(Made { ca: None, certificate, key: secret });
    }
    let authority_key = KeyPair::generate().map_err(failed)?;
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.distinguished_name = rcgen::DistinguishedName::new();
    authority.distinguished_name.push(DnType::CommonName, "Narrows authority of the first start");
    last_long(&mut authority);
    let ca = authority.self_signed(&authority_key).map_err(failed)?.pem();
    let certificate = params.signed_by(&key, &Issuer::new(authority, authority_key)).map_err(failed)?.pem();
    Ok(Made { ca: Some(ca), certificate, key: secret })
}

/// The RSA pair.
pub(super) fn rsa_key() -> Result<PrivateDecryptingKey, TlsError> {
    PrivateDecryptingKey::generate(KeySize::Rsa2048).map_err(|error| TlsError::Generate(error.to_string()))
}

/// The private key in PKCS #8.
pub(super) fn private_pem(key: &PrivateDecryptingKey) -> Result<Zeroizing<String>, TlsError> {
    let der: Pkcs8V1Der<'_> = key.as_der().map_err(|error| TlsError::Generate(error.to_string()))?;
    Ok(Zeroizing::new(pem("PRIVATE KEY", der.as_ref())))
}

/// The public key, as sent to clients.
pub(super) fn public_pem(key: &PrivateDecryptingKey) -> Result<String, TlsError> {
    let der: PublicKeyX509Der<'_> =
        key.public_key().as_der().map_err(|error| TlsError::Generate(error.to_string()))?;
    Ok(pem("PUBLIC KEY", der.as_ref()))
}

/// The names that clients on this host and elsewhere may use for this host.
fn names() -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    if !host.is_empty() && host != "localhost" && host.chars().all(is_name) {
        names.push(host.to_owned());
    }
    names
}

/// Nobody would renew a generated certificate, so it must not expire before it is replaced by a real one.
fn last_long(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2060, 1, 1);
}

fn pem(label: &str, der: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(48) {
        for three in line.chunks(3) {
            let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for place in 0..4 {
                let letter = ALPHABET.get((bits >> (18 - 6 * place) & 63) as usize);
                text.push(letter.filter(|_| place <= three.len()).map_or('=', |letter| char::from(*letter)));
            }
        }
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}
