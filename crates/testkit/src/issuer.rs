//! An issuer of tokens: keys that sign, and an HTTPS server with an authority of its own whose answers a test decides.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::{Authority, Validity, WebReply, serve_web_tls};

type Decide = Arc<dyn Fn(&str) -> WebReply + Send + Sync>;

/// An HTTPS server at `localhost`; it serves as long as the test runs.
pub struct HttpsFake {
    port: u16,
    authority: String,
    requests: Arc<AtomicUsize>,
    decide: Arc<Mutex<Decide>>,
}

impl HttpsFake {
    /// Starts one, which answers each request, with its body, by `decide`.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn start(decide: impl Fn(&str) -> WebReply + Send + Sync + 'static) -> HttpsFake {
        let authority = Authority::new("issuer of tests");
        let identity = authority.issue("localhost", &["localhost", "127.0.0.1"], Validity::Current);
        let decide: Decide = Arc::new(decide);
        let (requests, decide) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(decide)));
        let (count, answers) = (Arc::clone(&requests), Arc::clone(&decide));
        let port = serve_web_tls(&identity, move |request| {
            count.fetch_add(1, Ordering::SeqCst);
            let decide = Arc::clone(&answers.lock().unwrap_or_else(PoisonError::into_inner));
            decide(&request.body)
        });
        HttpsFake { port, authority: authority.pem().to_owned(), requests, decide }
    }

    /// Its address.
    pub fn address(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// The authority that has signed its certificate, in PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// How many requests have come.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// Answers so from now on.
    pub fn answer(&self, decide: impl Fn(&str) -> WebReply + Send + Sync + 'static) {
        *self.decide.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(decide);
    }
}

/// A key that signs tokens.
pub struct TokenKey {
    kid: String,
    pair: Pair,
}

enum Pair {
    P256(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl TokenKey {
    /// A key of the curve P-256 with this name.
    ///
    /// # Panics
    /// Without randomness.
    pub fn p256(kid: &str) -> TokenKey {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("randomness");
        TokenKey { kid: kid.to_owned(), pair: Pair::P256(pair) }
    }

    /// An RSA key with this name.
    ///
    /// # Panics
    /// Without randomness.
    pub fn rsa(kid: &str) -> TokenKey {
        TokenKey {
            kid: kid.to_owned(),
            pair: Pair::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).expect("randomness")),
        }
    }

    /// Its public half, as an item of a JWK set.
    pub fn public(&self) -> String {
        let kid = &self.kid;
        match &self.pair {
            Pair::P256(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                let (x, y) = (encoded(x), encoded(y));
                format!(r#"{{"kty":"EC","crv":"P-256","use":"sig","kid":"{kid}","x":"{x}","y":"{y}"}}"#)
            }
            Pair::Rsa(_) => {
                let n = encoded(self.modulus());
                format!(r#"{{"kty":"RSA","use":"sig","alg":"RS256","kid":"{kid}","n":"{n}","e":"AQAB"}}"#)
            }
        }
    }

    /// The public number of an RSA key; of another one nothing.
    pub fn modulus(&self) -> &[u8] {
        match &self.pair {
            // SEQUENCE { INTEGER n, INTEGER e } in DER.
            Pair::Rsa(pair) => &pair.public_key().as_ref()[9..9 + 256],
            Pair::P256(_) => &[],
        }
    }

    /// A token with these claims, as JSON.
    ///
    /// # Panics
    /// If it cannot be signed.
    pub fn token(&self, claims: &str) -> String {
        let algorithm = if matches!(self.pair, Pair::Rsa(_)) { "RS256" } else { "ES256" };
        let signed = self.unsigned(algorithm, claims);
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::P256(pair) => pair.sign(&random, signed.as_bytes()).expect("a signature").as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature)
                    .expect("a signature");
                signature
            }
        };
        format!("{signed}.{}", encoded(signature))
    }

    /// What is signed of a token, with any algorithm in its header.
    pub fn unsigned(&self, algorithm: &str, claims: &str) -> String {
        let header = format!(r#"{{"alg":"{algorithm}","typ":"JWT","kid":"{}"}}"#, self.kid);
        format!("{}.{}", encoded(header), encoded(claims))
    }

    /// A token that is signed with HMAC, for which the public half of this key is taken.
    pub fn confused(&self, claims: &str) -> String {
        let signed = self.unsigned("HS256", claims);
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, self.modulus());
        format!("{signed}.{}", encoded(aws_lc_rs::hmac::sign(&key, signed.as_bytes())))
    }
}

/// A JWK set.
pub fn jwk_set(keys: &[&TokenKey]) -> String {
    let keys: Vec<String> = keys.iter().map(|key| key.public()).collect();
    format!(r#"{{"keys":[{}]}}"#, keys.join(","))
}

/// Seconds since 1970, that many from now.
pub fn seconds_from_now(seconds: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    i64::try_from(now).unwrap_or(i64::MAX).saturating_add(seconds)
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
