//! `caching_sha2_password` (manual: "Caching_sha2_password information").
//!
//! *Fast path*: the client sends `SHA256(password) XOR SHA256(SHA256(SHA256(password)) + nonce)`; a server that has the
//! password, or has its double hash in a cache, checks it and replies 0x03. *Full path*: the server replies 0x04 and
//! the client sends the password itself, followed by a zero byte: in clear text over a secure channel, otherwise `XOR
//! nonce` and encrypted with the server's RSA key, which the client requests with 0x02. The server then compares with
//! what it stores: `$A$`, the rounds, `$`, 20 bytes of salt, 43 characters of SHA-256 crypt.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::rsa::{PublicKey, SEED_LENGTH, Unusable};
use super::{Nonce, xor};

/// `AuthMoreData` of a server: the fast path succeeded, an OK packet follows.
pub const FAST_OK: u8 = 0x03;
/// `AuthMoreData` of a server: send the password itself.
pub const FULL_AUTH: u8 = 0x04;
/// Of a client: send me your public key. (`sha256_password` uses 0x01 for the same.)
pub const REQUEST_PUBLIC_KEY: u8 = 0x02;

/// A SHA-256 hash.
pub type Hash = [u8; 32];

/// The answer to `nonce` on the fast path; empty for an empty password.
pub fn scramble(password: &[u8], nonce: &Nonce) -> Vec<u8> {
    if password.is_empty() { Vec::new() } else { scramble_of(password, nonce).to_vec() }
}

/// Whether `response` answers `nonce` for a password known in clear text.
pub fn verify(password: &[u8], nonce: &Nonce, response: &[u8]) -> bool {
    // Computed for an empty password too, so that the time taken does not reveal one.
    let expected = scramble_of(password, nonce);
    if password.is_empty() { is_empty_response(response) } else { expected.ct_eq(response).into() }
}

/// Whether `response` answers `nonce` for `SHA256(SHA256(password))`, the form that servers cache.
pub fn verify_double_hash(double_hash: &Hash, nonce: &Nonce, response: &[u8]) -> bool {
    let Ok(response) = <&Hash>::try_from(response) else { return false };
    let candidate = xor(response, &mask(double_hash, nonce));
    Hash::from(Sha256::digest(candidate)).ct_eq(double_hash).into()
}

/// `SHA256(SHA256(password))`.
pub fn double_hash(password: &[u8]) -> Hash {
    Sha256::digest(Sha256::digest(password)).into()
}

/// Whether a client says that its password is empty: no bytes, or a lone terminator as libmysqlclient sends it.
pub fn is_empty_response(response: &[u8]) -> bool {
    matches!(response, [] | [0])
}

/// The password for the full path over a secure channel: in clear text, followed by a zero byte.
pub fn clear(password: &[u8]) -> Vec<u8> {
    let mut text = password.to_vec();
    text.push(0);
    text
}

/// The password for the full path over an open channel: masked with `nonce`, encrypted with the server's key.
/// `seed` must be random and used once.
pub fn encrypt(
    password: &[u8],
    nonce: &Nonce,
    key: &PublicKey,
    seed: &[u8; SEED_LENGTH],
) -> Result<Vec<u8>, Unusable> {
    let mut text = clear(password);
    text.iter_mut().zip(nonce.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    key.encrypt_oaep(&text, seed)
}

/// What a server stores of `password`, with 5,000 rounds. MySQL's salts have 20 bytes; salts of other lengths are
/// written unchanged.
pub fn format_stored(password: &[u8], salt: &[u8]) -> Vec<u8> {
    let digest = super::sha256_crypt::digest(password, salt, 5000);
    [b"$A$005$", salt, &digest[..]].concat()
}

/// The stored form of a password: `$A$`, the rounds, `$`, salt and digest (70 bytes for MySQL's 20 bytes of salt).
#[derive(Clone, PartialEq, Eq)]
pub struct StoredHash {
    rounds: u32,
    salt: [u8; SALT_LENGTH],
    digest: [u8; DIGEST_LENGTH],
}

const SALT_LENGTH: usize = 20;
const DIGEST_LENGTH: usize = 43;

impl StoredHash {
    /// Reads `authentication_string` of `mysql.user`.
    ///
    /// The three hexadecimal digits are the number of rounds in thousands, set by `caching_sha2_password_digest_rounds`
    /// (5,000 to 4,095,000). Each thousand adds about a quarter of a millisecond to a login.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (digits, rest) = text.strip_prefix(b"$A$")?.split_first_chunk::<3>()?;
        let mut thousands = 0;
        for &digit in digits {
            thousands = thousands * 16 + char::from(digit).to_digit(16)?;
        }
        let (salt, digest) = rest.strip_prefix(b"$")?.split_first_chunk::<SALT_LENGTH>()?;
        let digest = digest.try_into().ok()?;
        (thousands > 0).then_some(StoredHash { rounds: thousands * 1000, salt: *salt, digest })
    }

    /// A hash that no password has, as costly to verify as a real one with the same number of rounds.
    pub fn decoy(rounds: u32) -> Self {
        StoredHash { rounds, salt: *b"narrows knows no one", digest: [b'!'; DIGEST_LENGTH] }
    }

    /// How many times the password is hashed.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Whether it is the hash of `password`. Costly on purpose: 1 to 3 ms at the usual 5,000 and 10,000 rounds.
    pub fn verify(&self, password: &[u8]) -> bool {
        super::sha256_crypt::digest(password, &self.salt, self.rounds).ct_eq(&self.digest).into()
    }
}

impl std::fmt::Debug for StoredHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredHash").field("rounds", &self.rounds).finish_non_exhaustive()
    }
}

fn scramble_of(password: &[u8], nonce: &Nonce) -> Hash {
    let single = Sha256::digest(password);
    xor(single.as_ref(), &mask(&Sha256::digest(single).into(), nonce))
}

/// What hides the single hash in a response.
fn mask(double_hash: &Hash, nonce: &Nonce) -> Hash {
    Sha256::new().chain_update(double_hash).chain_update(nonce).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: Nonce = *b"aBcDeFgHiJkLmNoPqRsT";

    #[test]
    fn a_scramble_verifies_against_clear_text_and_double_hash() {
        let response = scramble(b"secret", &NONCE);
        assert!(verify(b"secret", &NONCE, &response));
        assert!(verify_double_hash(&double_hash(b"secret"), &NONCE, &response));
        for (password, nonce) in [(&b"Secret"[..], &NONCE), (b"secret", b"another nonce of 20b")] {
            assert!(!verify(password, nonce, &response));
            assert!(!verify_double_hash(&double_hash(password), nonce, &response));
        }
        assert!(!verify_double_hash(&double_hash(b"secret"), &NONCE, b""));
    }

    #[test]
    fn an_empty_password_answers_with_nothing_or_a_terminator() {
        assert!(scramble(b"", &NONCE).is_empty());
        assert!(verify(b"", &NONCE, b"") && verify(b"", &NONCE, b"\0"));
        assert!(!verify(b"", &NONCE, &[0; 32]));
        assert!(!verify(b"secret", &NONCE, b"") && !verify(b"secret", &NONCE, b"\0"));
    }

    #[test]
    fn stored_hash_is_what_mysql_stores() {
        // CREATE USER ... IDENTIFIED BY 'secret' on MySQL 9.7, whose default is 0x00A thousand rounds.
        let text = b"$A$00A$;\x1F\x1B95HNf,/M\x06^D%\x05ux;\x03nRjViQH1eG.X9pBLX3DzBe.X97yrhM457uIsGqK08n5";
        let hash = StoredHash::parse(text).unwrap();
        assert_eq!(hash.rounds, 10_000);
        assert!(hash.verify(b"secret"));
        assert!(!hash.verify(b"Secret"));
        assert!(!StoredHash::decoy(5000).verify(b"secret"));
    }

    #[test]
    fn refuses_what_is_not_a_stored_hash() {
        let text = b"$A$005$abcdefghijklmnopqrstABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop1";
        assert!(StoredHash::parse(text).is_some());
        assert!(StoredHash::parse(&text[1..]).is_none());
        assert!(StoredHash::parse(&text[..text.len() - 1]).is_none());
        assert!(StoredHash::parse(&[&text[..], b"x"].concat()).is_none());
        assert!(StoredHash::parse(&[b"$A$000", &text[6..]].concat()).is_none());
        assert!(StoredHash::parse(&[b"$A$0x5", &text[6..]].concat()).is_none());
    }
}
