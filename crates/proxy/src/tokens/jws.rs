//! Tokens as clients send them: JWS in compact form (RFC 7515), which is three parts in base64 with dots between them.
//!
//! What is read here is not verified yet.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::refusal::TokenRefusal;

/// The longest token in bytes: the limit of HTTP servers for all headers, which tokens usually travel in, is 8 to 16 KiB.
pub const LONGEST_TOKEN: usize = 16 * 1024;

/// How a token is signed. There is no `none`, and no algorithm with a key that both sides know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// The same with SHA-384.
    Rs384,
    /// The same with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// The same with SHA-384.
    Ps384,
    /// The same with SHA-512.
    Ps512,
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// ECDSA with P-384 and SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

/// Every algorithm, by its name in RFC 7518 and RFC 8037.
pub const ALGORITHMS: [(&str, Algorithm); 9] = [
    ("RS256", Algorithm::Rs256),
    ("RS384", Algorithm::Rs384),
    ("RS512", Algorithm::Rs512),
    ("PS256", Algorithm::Ps256),
    ("PS384", Algorithm::Ps384),
    ("PS512", Algorithm::Ps512),
    ("ES256", Algorithm::Es256),
    ("ES384", Algorithm::Es384),
    ("EdDSA", Algorithm::EdDsa),
];

impl Algorithm {
    /// The algorithm of that name.
    pub fn named(name: &str) -> Option<Algorithm> {
        ALGORITHMS.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }
}

/// A token that was taken apart.
pub struct Jws<'t> {
    /// How it says that it is signed.
    pub algorithm: Algorithm,
    /// The key that it names.
    pub kid: Option<String>,
    /// What is signed.
    pub signed: &'t [u8],
    /// The signature.
    pub signature: Zeroizing<Vec<u8>>,
    /// What it claims.
    pub claims: Map<String, Value>,
}

impl<'t> Jws<'t> {
    /// Takes a token apart.
    ///
    /// # Errors
    /// If it is none, or one that is signed in a way that is never accepted.
    pub fn parse(token: &'t [u8]) -> Result<Jws<'t>, TokenRefusal> {
        if token.len() > LONGEST_TOKEN {
            return Err(TokenRefusal::NoToken("it is longer than 16384 bytes"));
        }
        let last = token.iter().rposition(|byte| *byte == b'.');
        let (signed, signature) = last.map(|at| token.split_at(at)).ok_or(NOT_THREE_PARTS)?;
        let first = signed.iter().position(|byte| *byte == b'.').ok_or(NOT_THREE_PARTS)?;
        let (header, payload) = (&signed[..first], &signed[first + 1..]);
        if payload.contains(&b'.') {
            return Err(NOT_THREE_PARTS);
        }
        let header = object(header).ok_or(TokenRefusal::NoToken("its header is no JSON object in base64"))?;
        // What must be understood, and is not (RFC 7515, 4.1.11).
        if header.contains_key("crit") {
            return Err(TokenRefusal::NoToken("its header has `crit`"));
        }
        let named = header.get("alg").and_then(Value::as_str).unwrap_or_default();
        let algorithm = Algorithm::named(named).ok_or_else(|| TokenRefusal::algorithm(named))?;
        let claims =
            object(payload).ok_or(TokenRefusal::NoToken("its claims are no JSON object in base64"))?;
        let signature =
            decoded(&signature[1..]).ok_or(TokenRefusal::NoToken("its signature is no base64"))?;
        let kid = header.get("kid").and_then(Value::as_str).map(str::to_owned);
        Ok(Jws { algorithm, kid, signed, signature, claims })
    }
}

const NOT_THREE_PARTS: TokenRefusal = TokenRefusal::NoToken("it has not three parts with dots between them");

fn object(part: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(&decoded(part)?).ok()? {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// The bytes of a text in base64, as tokens and keys have them.
pub(super) fn decoded(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    URL_SAFE_NO_PAD.decode(text).ok().map(Zeroizing::new)
}
