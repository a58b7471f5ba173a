//! The data plane's keys and certificates: built by the control plane from files, passed in, never changed. A new set
//! replaces it as a whole; existing connections keep what they were opened with.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, PrivateDecryptingKey};
use zeroize::Zeroizing;

/// All keys and certificates.
#[derive(Debug, Default)]
pub struct Tls {
    /// The TLS configuration for clients; `None`: TLS is not offered.
    pub clients: Option<Arc<rustls::ServerConfig>>,
    /// The key pair for `caching_sha2_password` without TLS; `None`: such logins need TLS or a Unix socket.
    pub key_pair: Option<KeyPair>,
    /// How servers are connected to.
    pub servers: TowardServers,
    /// All certificates in use, for operators.
    pub certificates: Vec<Certificate>,
}

/// A certificate in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Its purpose.
    pub role: &'static str,
    /// Its source.
    pub file: PathBuf,
    /// The subject of the certificate.
    pub subject: String,
    /// Its issuer.
    pub issuer: String,
    /// Its serial number in hexadecimal digits.
    pub serial: String,
    /// Seconds since 1970 from which it is valid.
    pub not_before: i64,
    /// Seconds since 1970 until which it is valid.
    pub not_after: i64,
}

/// How servers with `use_ssl` are connected to.
#[derive(Debug, Default)]
pub struct TowardServers {
    /// Of `mysql-ssl_p2s_*`.
    pub default: Option<Toward>,
    /// Of `mysql_servers_ssl_params`, by host name, port and user; an empty user means all others.
    pub rows: HashMap<(String, u16, String), Toward>,
}

/// A client configuration.
#[derive(Debug, Clone)]
pub struct TlsToward {
    /// How.
    pub config: Arc<rustls::ClientConfig>,
    /// Whether the server's certificate is verified: without an authority it is not.
    pub verifies: bool,
}

/// A client configuration, or the reason why it cannot be used.
pub type Toward = Result<TlsToward, String>;

impl TowardServers {
    /// The configuration for connecting to `host` as `user`.
    ///
    /// # Errors
    /// Why there is none, as text.
    pub fn toward(&self, host: &str, port: u16, user: &str) -> Toward {
        let row = |user: &str| self.rows.get(&(host.to_owned(), port, user.to_owned()));
        let found = row(user).or_else(|| row("")).or(self.default.as_ref());
        found.cloned().unwrap_or_else(|| Err("no TLS towards servers is configured".to_owned()))
    }
}

/// An RSA key pair: clients encrypt their password with the public key.
pub struct KeyPair {
    public_pem: Arc<[u8]>,
    private: OaepPrivateDecryptingKey,
}

impl KeyPair {
    /// The pair of `private`; `public_pem` is its public key as sent to clients.
    ///
    /// # Errors
    /// A key with which RSA-OAEP cannot be used.
    pub fn new(public_pem: &[u8], private: PrivateDecryptingKey) -> Result<KeyPair, &'static str> {
        let private =
            OaepPrivateDecryptingKey::new(private).map_err(|_| "not a key that RSA-OAEP can be used with")?;
        Ok(KeyPair { public_pem: public_pem.into(), private })
    }

    /// The public key in PEM.
    pub fn public_pem(&self) -> Arc<[u8]> {
        Arc::clone(&self.public_pem)
    }

    /// Decrypts what a client has encrypted; `None` if it was not encrypted with this key.
    pub fn decrypt(&self, cipher: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let mut plain = Zeroizing::new(vec![0; self.private.min_output_size()]);
        let length = self.private.decrypt(&OAEP_SHA1_MGF1SHA1, cipher, &mut plain, None).ok()?.len();
        plain.truncate(length);
        Some(plain)
    }
}

impl std::fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyPair(..)")
    }
}

/// The settings in force, in a configuration that is compared: two are equal if they are the same object.
#[derive(Debug, Clone)]
pub struct SharedTls(pub Arc<Tls>);

impl Default for SharedTls {
    /// None at all; the same everywhere.
    fn default() -> SharedTls {
        static NONE: OnceLock<SharedTls> = OnceLock::new();
        NONE.get_or_init(|| SharedTls(Arc::default())).clone()
    }
}

impl PartialEq for SharedTls {
    fn eq(&self, other: &SharedTls) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl std::ops::Deref for SharedTls {
    type Target = Tls;

    fn deref(&self) -> &Tls {
        &self.0
    }
}
