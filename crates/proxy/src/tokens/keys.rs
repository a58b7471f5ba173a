//! The public keys of an issuer: a JWK set (RFC 7517), and what they verify.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::Value;

use super::jws::{Algorithm, Jws, decoded};

/// The longest JWK set in bytes: several times what the largest providers publish, with certificates.
pub const LONGEST_KEY_SET: usize = 256 * 1024;

/// The most keys of a set. Providers have two to ten.
pub const MOST_KEYS: usize = 100;

/// How many keys are tried for a token that names none: each try takes a signature's time.
const MOST_TRIED: usize = 8;

/// The keys of an issuer that can verify tokens.
#[derive(Debug, Clone, Default)]
pub struct KeySet {
    keys: Vec<PublicKey>,
    /// Keys of the set that cannot verify tokens: for encryption, of other kinds, too short.
    pub left_out: usize,
}

/// What a token's signature comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureCheck {
    /// It is that of a key of the set.
    Right,
    /// It is not.
    Wrong,
    /// The set has not the key that it names, or none that fits.
    UnknownKey,
}

#[derive(Debug, Clone)]
struct PublicKey {
    kid: Option<String>,
    /// The only algorithm that it is for, if it says so.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Debug, Clone)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl KeySet {
    /// Reads a JWK set.
    ///
    /// # Errors
    /// If it is none, has too many keys, or none that can verify tokens.
    pub fn parse(document: &[u8]) -> Result<KeySet, String> {
        if document.len() > LONGEST_KEY_SET {
            return Err(format!("it has more than {LONGEST_KEY_SET} bytes"));
        }
        let value: Value = serde_json::from_slice(document).map_err(|_| "it is no JSON".to_owned())?;
        let items = value.get("keys").and_then(Value::as_array).ok_or("it has no list `keys`")?;
        if items.len() > MOST_KEYS {
            return Err(format!("it has more than {MOST_KEYS} keys"));
        }
        let keys: Vec<PublicKey> = items.iter().filter_map(PublicKey::parse).collect();
        match keys.is_empty() {
            true => Err("it has no key that can verify tokens".to_owned()),
            false => Ok(KeySet { left_out: items.len() - keys.len(), keys }),
        }
    }

    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether it has no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whose signature a token has. Only keys that are made for its algorithm are tried.
    pub fn check(&self, token: &Jws<'_>) -> SignatureCheck {
        // The name is a help to find the key, and no more.
        let named = |key: &&PublicKey| token.kid.is_none() || key.kid.is_none() || key.kid == token.kid;
        let mut tried = 0;
        for key in self.keys.iter().filter(named) {
            let Some(verifies) = key.verifies(token) else { continue };
            if verifies {
                return SignatureCheck::Right;
            }
            tried += 1;
            if tried == MOST_TRIED {
                break;
            }
        }
        let is_known = token.kid.is_some() && self.keys.iter().any(|key| key.kid == token.kid);
        if is_known { SignatureCheck::Wrong } else { SignatureCheck::UnknownKey }
    }
}

impl PublicKey {
    /// `None` if it cannot verify tokens.
    fn parse(value: &Value) -> Option<PublicKey> {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let bytes = |name: &str| text(name).and_then(|text| decoded(text.as_bytes())).map(|it| it.to_vec());
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        if let Some(operations) = value.get("key_ops").and_then(Value::as_array)
            && !operations.iter().any(|operation| operation == "verify")
        {
            return None;
        }
        let algorithm = match text("alg") {
            Some(name) => Some(Algorithm::named(name)?),
            None => None,
        };
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => rsa(bytes("n")?, bytes("e")?)?,
            ("EC", Some("P-256")) => Material::P256(point(32, &bytes("x")?, &bytes("y")?)?),
            ("EC", Some("P-384")) => Material::P384(point(48, &bytes("x")?, &bytes("y")?)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes("x").filter(|key| key.len() == 32)?),
            _ => return None,
        };
        let kid = text("kid").map(str::to_owned);
        Some(PublicKey { kid, algorithm, material })
    }

    /// Whether a token has its signature; `None` if the key is not made for the token's algorithm.
    fn verifies(&self, token: &Jws<'_>) -> Option<bool> {
        if self.algorithm.is_some_and(|only| only != token.algorithm) {
            return None;
        }
        let by_curve = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(token.signed, &token.signature).is_ok()
        };
        Some(match (&self.material, token.algorithm) {
            (Material::Rsa { n, e }, algorithm) => {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(rsa_parameters(algorithm)?, token.signed, &token.signature).is_ok()
            }
            (Material::P256(key), Algorithm::Es256) => by_curve(&ECDSA_P256_SHA256_FIXED, key),
            (Material::P384(key), Algorithm::Es384) => by_curve(&ECDSA_P384_SHA384_FIXED, key),
            (Material::Ed25519(key), Algorithm::EdDsa) => by_curve(&ED25519, key),
            _ => return None,
        })
    }
}

fn rsa_parameters(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
        Algorithm::Ps384 => &RSA_PSS_2048_8192_SHA384,
        Algorithm::Ps512 => &RSA_PSS_2048_8192_SHA512,
        Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => return None,
    })
}

/// An RSA key of 2048 to 8192 bits, with an exponent of the usual size: larger ones take long.
fn rsa(n: Vec<u8>, e: Vec<u8>) -> Option<Material> {
    let without_zeros = |bytes: Vec<u8>| bytes.into_iter().skip_while(|byte| *byte == 0).collect::<Vec<_>>();
    let (n, e) = (without_zeros(n), without_zeros(e));
    let fits = (256..=1024).contains(&n.len()) && (1..=4).contains(&e.len());
    fits.then_some(Material::Rsa { n, e })
}

/// A point of a curve, uncompressed.
fn point(length: usize, x: &[u8], y: &[u8]) -> Option<Vec<u8>> {
    (x.len() == length && y.len() == length).then(|| [&[4], x, y].concat())
}
