//! An issuer of tokens: keys that sign, and an HTTPS server with an authority of its own whose answers a test decides.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::{Authority, Validity};

/// What the server answers.
#[derive(Debug, Clone)]
pub enum HttpReply {
    /// This status and body.
    Body(u16, String),
    /// Nothing, for as long as the client waits.
    Hang,
    /// A body of a gigabyte.
    Endless,
}

type Decide = Arc<dyn Fn(&str) -> HttpReply + Send + Sync>;

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
    pub fn start(decide: impl Fn(&str) -> HttpReply + Send + Sync + 'static) -> HttpsFake {
        let authority = Authority::new("issuer of tests");
        let identity = authority.issue("localhost", &["localhost", "127.0.0.1"], Validity::Current);
        let chain =
            CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).collect::<Result<Vec<_>, _>>();
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("PEM");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("some versions")
            .with_no_client_auth()
            .with_single_cert(chain.expect("PEM"), key)
            .expect("a pair");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let decide: Decide = Arc::new(decide);
        let (requests, decide) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(decide)));
        let (count, answers, config) = (Arc::clone(&requests), Arc::clone(&decide), Arc::new(config));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (count, answers, config) =
                    (Arc::clone(&count), Arc::clone(&answers), Arc::clone(&config));
                std::thread::spawn(move || serve(stream, config, &count, &answers));
            }
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
    pub fn answer(&self, decide: impl Fn(&str) -> HttpReply + Send + Sync + 'static) {
        *self.decide.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(decide);
    }
}

fn serve(stream: TcpStream, config: Arc<ServerConfig>, requests: &AtomicUsize, decide: &Mutex<Decide>) {
    let Ok(connection) = ServerConnection::new(config) else { return };
    let mut stream = StreamOwned::new(connection, stream);
    let Some(request) = read_request(&mut stream) else { return };
    requests.fetch_add(1, Ordering::SeqCst);
    let decide = Arc::clone(&decide.lock().unwrap_or_else(PoisonError::into_inner));
    // Clients end connections as they like.
    let _ = match decide(&request) {
        HttpReply::Body(status, body) => {
            let head =
                format!("HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).and_then(|()| stream.flush())
        }
        HttpReply::Hang => stream.read(&mut [0; 1]).map(drop),
        HttpReply::Endless => {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n{\"keys\":[";
            let piece = vec![b' '; 1 << 20];
            let mut written = stream.write_all(head.as_bytes());
            for _ in 0..1000 {
                written = written.and_then(|()| stream.write_all(&piece));
            }
            written
        }
    };
}

/// The body of a request; `None` if there is none.
fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(body.to_owned());
            }
        }
        match stream.read(&mut piece).ok()? {
            0 => return None,
            count => bytes.extend(&piece[..count]),
        }
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
