//! `client_ed25519` of MariaDB (MariaDB knowledge base: "Authentication plugin - ed25519").
//!
//! The client signs 32 random bytes. Its key is an Ed25519 key except for the seed: where RFC 8032 hashes 32 random
//! bytes, this hashes the password, whatever its length.

use ed25519_dalek::hazmat::{ExpandedSecretKey, raw_sign};
use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest, Sha256, Sha512};
use zeroize::Zeroizing;

use super::Nonce;

/// What a client signs.
pub type Message = [u8; MESSAGE_LENGTH];

/// Length of what a client signs, in bytes.
pub const MESSAGE_LENGTH: usize = 32;

/// What the client of this connection has to sign: as unpredictable as the greeting's nonce, and of the required
/// length.
pub fn message_of(nonce: &Nonce) -> Message {
    Sha256::new().chain_update(b"client_ed25519").chain_update(nonce).finalize().into()
}

/// The signature made with `password`.
pub fn sign(password: &[u8], message: &Message) -> [u8; 64] {
    let key = key_of(password);
    raw_sign::<Sha512>(&key, message, &VerifyingKey::from(&key)).to_bytes()
}

/// Whether `answer` is the signature made with `password`.
pub fn verify(password: &[u8], message: &Message, answer: &[u8]) -> bool {
    let key = VerifyingKey::from(&key_of(password));
    Signature::from_slice(answer).is_ok_and(|signature| key.verify_strict(message, &signature).is_ok())
}

/// The key that verifies the signatures made with `password`, as MariaDB stores it: base 64 without its padding.
pub fn stored(password: &[u8]) -> StoredKey {
    let key = VerifyingKey::from(&key_of(password)).to_bytes();
    let mut out = [0; STORED_LENGTH];
    for (from, to) in key.chunks(3).zip(out.chunks_mut(4)) {
        let bits =
            from.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - from.len()));
        for (place, to) in to.iter_mut().enumerate() {
            let index = bits >> (18 - 6 * place) & 63;
            *to = BASE64.get(index as usize).copied().unwrap_or_default();
        }
    }
    out
}

/// A key as MariaDB stores it.
pub type StoredKey = [u8; STORED_LENGTH];

/// Its length in characters.
pub const STORED_LENGTH: usize = 43;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn key_of(password: &[u8]) -> ExpandedSecretKey {
    let hash: Zeroizing<[u8; 64]> = Zeroizing::new(Sha512::digest(password).into());
    ExpandedSecretKey::from_bytes(&hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_the_one_that_mariadb_stores() {
        // SELECT ed25519_password('secret') on MariaDB 10.11; base 64 without its padding.
        let key = VerifyingKey::from(&key_of(b"secret"));
        let stored = "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY";
        assert_eq!(super::stored(b"secret"), stored.as_bytes());
        assert_eq!(base64(key.as_bytes()), stored);
    }

    #[test]
    fn a_signature_is_that_of_its_password_and_message_only() {
        let message = message_of(b"aBcDeFgHiJkLmNoPqRsT");
        let signature = sign(b"secret", &message);
        assert!(verify(b"secret", &message, &signature));
        assert!(!verify(b"Secret", &message, &signature));
        assert!(!verify(b"secret", &message_of(b"another nonce of 20b"), &signature));
        assert!(!verify(b"secret", &message, &signature[..63]));
        assert!(!verify(b"secret", &message, b""));
    }

    fn base64(bytes: &[u8]) -> String {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let bit = |index: usize| bytes.get(index / 8).map_or(0, |byte| byte >> (7 - index % 8) & 1);
        let letter = |group: usize| (0..6).fold(0, |sum, place| sum << 1 | bit(6 * group + place));
        (0..(bytes.len() * 8).div_ceil(6))
            .map(|group| char::from(ALPHABET[usize::from(letter(group))]))
            .collect()
    }
}
