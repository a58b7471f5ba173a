//! Authentication: the plugins' arithmetic, and the two exchanges that use it.
//!
//! [`client_side`] is what Narrows does with a client that logs in, [`backend_side`] what it does to log in to a
//! backend. Both take packets and return steps; neither has access to a socket, a clock or a source of randomness.

pub mod backend_side;
pub mod caching_sha2;
pub mod client_side;
pub mod ed25519;
pub mod native;
pub mod rsa;
mod sha256_crypt;

use std::sync::Arc;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Length of a nonce in bytes.
pub const NONCE_LENGTH: usize = 20;

/// A server's challenge ("scramble" in the manual).
pub type Nonce = [u8; NONCE_LENGTH];

/// Makes a nonce of random bytes. It contains no zero, no `$` and no bytes above 127: clients read it as a C string,
/// and `$` separates the fields of a stored hash.
pub fn nonce_from(random: [u8; NONCE_LENGTH]) -> Nonce {
    random.map(|byte| match byte & 0x7F {
        unusable @ (0 | b'$') => unusable + 1,
        usable => usable,
    })
}

/// An authentication plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Plugin {
    /// SHA-1 challenge and response; removed in MySQL 9.
    NativePassword,
    /// SHA-256; the default since MySQL 8.
    CachingSha2Password,
    /// The password in clear text.
    ClearPassword,
    /// The predecessor of `caching_sha2_password`.
    Sha256Password,
    /// MariaDB's signatures.
    Ed25519,
    /// MariaDB's questions and answers (PAM).
    Dialog,
    /// The method used before 4.1.
    OldPassword,
    /// Any other.
    Unknown,
}

const PLUGINS: [(Plugin, &str); 7] = [
    (Plugin::NativePassword, "mysql_native_password"),
    (Plugin::CachingSha2Password, "caching_sha2_password"),
    (Plugin::ClearPassword, "mysql_clear_password"),
    (Plugin::Sha256Password, "sha256_password"),
    (Plugin::Ed25519, "client_ed25519"),
    (Plugin::Dialog, "dialog"),
    (Plugin::OldPassword, "mysql_old_password"),
];

impl Plugin {
    /// The plugin of that name.
    pub fn from_name(name: &[u8]) -> Self {
        PLUGINS
            .iter()
            .find(|(_, known)| known.as_bytes() == name)
            .map_or(Plugin::Unknown, |(plugin, _)| *plugin)
    }

    /// The name in the protocol; empty for an unknown one.
    pub fn name(self) -> &'static str {
        PLUGINS.iter().find(|(plugin, _)| *plugin == self).map_or("", |(_, name)| name)
    }
}

/// Who can listen on a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// Plain TCP: a password must not be sent in clear text.
    Open,
    /// A Unix socket.
    Unix,
    /// TLS; to a server: it presented a certificate that was verified.
    Tls,
    /// TLS to a server whose certificate was not verified: the server may be anybody.
    UnverifiedTls,
}

impl Channel {
    /// Whether nobody else can listen.
    pub fn is_secure(self) -> bool {
        self != Channel::Open
    }

    /// Whether the other end is known to be the intended one.
    pub fn is_verified(self) -> bool {
        matches!(self, Channel::Unix | Channel::Tls)
    }
}

/// A password in clear text, wiped when the last copy is dropped. Copies share the same memory.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Arc<Zeroizing<Vec<u8>>>);

impl Password {
    /// The password of these bytes.
    pub fn new(bytes: &[u8]) -> Password {
        Password(Arc::new(Zeroizing::new(bytes.to_vec())))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it is the same as a password that a client has sent, in a time that does not depend on either.
    pub fn is(&self, sent: &[u8]) -> bool {
        Sha256::digest(self.bytes()).ct_eq(&Sha256::digest(sent)).into()
    }
}

/// Whether a text has a part of a secret in it: 16 bytes in a row, or all of a shorter one. Fewer may be in a text by chance.
pub fn repeats(text: &str, secret: &[u8]) -> bool {
    let length = secret.len().min(16);
    let is_in_text = |part: &[u8]| text.as_bytes().windows(length).any(|bytes| bytes == part);
    length > 0 && secret.windows(length).any(is_in_text)
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(..)")
    }
}

/// What proves a client's identity to a server.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The password; works for every plugin.
    Clear(Password),
    /// `SHA1(password)`; works for `mysql_native_password` only.
    NativeStage1(Zeroizing<native::Stage>),
}

impl Secret {
    /// The password of these bytes.
    pub fn clear(password: &[u8]) -> Secret {
        Secret::Clear(Password::new(password))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Secret::Clear(_) => "Clear(..)",
            Secret::NativeStage1(_) => "NativeStage1(..)",
        })
    }
}

/// The bytes of `a`, each XORed with its peer in `b`.
fn xor<const N: usize>(a: &[u8; N], b: &[u8; N]) -> [u8; N] {
    let mut out = *a;
    out.iter_mut().zip(b).for_each(|(to, mask)| *to ^= mask);
    out
}

#[cfg(test)]
mod tests {
    use super::repeats;

    #[test]
    fn sixteen_bytes_of_a_secret_in_a_text_are_a_part_of_it() {
        let secret = b"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl";
        for (text, expected) in [
            ("the token eyJzdWIiOiJhIn0. is wrong", true),
            ("UzI1NiJ9.eyJzdWI", true),
            ("UzI1NiJ9.eyJzdW", false),
            ("Token expired", false),
            ("", false),
        ] {
            assert_eq!(repeats(text, secret), expected, "{text}");
        }
        assert!(repeats("it is s3cret", b"s3cret") && !repeats("it is s3cre", b"s3cret"));
        assert!(!repeats("anything", b""));
    }
}
