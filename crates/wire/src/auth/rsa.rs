//! RSA encryption with a public key and OAEP padding over SHA-1 (RFC 8017, 7.1.1): what a client needs for the full
//! path of `caching_sha2_password`, and nothing more. It does not handle private keys.

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use sha1::{Digest, Sha1};

/// Length of the random seed of OAEP: a SHA-1 hash.
pub const SEED_LENGTH: usize = 20;

/// Shortest and longest modulus accepted: MySQL makes keys of 2,048 bits; OpenSSL stops at 16,384.
const MODULUS_BITS: std::ops::RangeInclusive<u32> = 1024..=16384;

/// A public key that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// Not `-----BEGIN PUBLIC KEY-----` with an RSA key inside.
    #[error("the server's public key is not an RSA key in PEM")]
    NotRsa,
    /// The password does not fit the key.
    #[error("the password is too long for the server's public key")]
    PasswordTooLong,
}

/// A server's RSA public key.
#[derive(Debug, Clone)]
pub struct PublicKey {
    modulus: BoxedMontyParams,
    exponent: BoxedUint,
    /// Length of the modulus in bytes.
    length: usize,
}

impl PublicKey {
    /// Reads `-----BEGIN PUBLIC KEY-----` (SubjectPublicKeyInfo), as servers send it.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Unusable> {
        let (modulus, exponent) =
            integers(&pem_body(pem).ok_or(Unusable::NotRsa)?).ok_or(Unusable::NotRsa)?;
        let bits = bit_length(&modulus);
        if !MODULUS_BITS.contains(&bits) || !(2..=32).contains(&bit_length(&exponent)) {
            return Err(Unusable::NotRsa);
        }
        let length = modulus.len();
        let number = |bytes: &[u8], bits| BoxedUint::from_be_slice(bytes, bits).map_err(|_| Unusable::NotRsa);
        let exponent = number(&exponent, 32)?;
        let modulus: Option<Odd<BoxedUint>> = Odd::new(number(&modulus, 8 * length as u32)?).into();
        let modulus = BoxedMontyParams::new_vartime(modulus.ok_or(Unusable::NotRsa)?);
        Ok(PublicKey { modulus, exponent, length })
    }

    /// Encrypts `message`. `seed` must be random and used once.
    pub fn encrypt_oaep(&self, message: &[u8], seed: &[u8; SEED_LENGTH]) -> Result<Vec<u8>, Unusable> {
        let block_length = self.length.saturating_sub(1 + SEED_LENGTH);
        // The data block: hash of the empty label, zeros, 1, the message.
        let mut block = Sha1::digest(b"").to_vec();
        let zeroes = block_length.checked_sub(block.len() + 1 + message.len());
        block.resize(block.len() + zeroes.ok_or(Unusable::PasswordTooLong)?, 0);
        block.push(1);
        block.extend_from_slice(message);
        let mut seed = seed.to_vec();
        mask(&mut block, &seed);
        mask(&mut seed, &block);
        let padded = [&[0][..], &seed, &block].concat();

        let bits = 8 * self.length as u32;
        let padded = BoxedUint::from_be_slice(&padded, bits).map_err(|_| Unusable::PasswordTooLong)?;
        let power = BoxedMontyForm::new(padded, &self.modulus).pow(&self.exponent).retrieve();
        // Limbs are whole words: trim leading zeros to the length of the modulus.
        let bytes = power.to_be_bytes();
        let (_, cipher) = bytes.split_at(bytes.len().saturating_sub(self.length));
        Ok(cipher.to_vec())
    }
}

/// MGF1 over SHA-1: the hashes of `seed` and a counter, applied to `text`.
fn mask(text: &mut [u8], seed: &[u8]) {
    for (counter, chunk) in (0u32..).zip(text.chunks_mut(SEED_LENGTH)) {
        let hash = Sha1::new().chain_update(seed).chain_update(counter.to_be_bytes()).finalize();
        chunk.iter_mut().zip(hash).for_each(|(byte, mask)| *byte ^= mask);
    }
}

/// The bytes between the lines of a PEM file.
fn pem_body(pem: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(pem).ok()?;
    let (_, text) = text.split_once("-----BEGIN PUBLIC KEY-----")?;
    let (text, _) = text.split_once("-----END PUBLIC KEY-----")?;
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for character in text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=') {
        bits = bits << 6 | u32::from(base64_value(character)?);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

fn base64_value(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// DER of `rsaEncryption` (1.2.840.113549.1.1.1) with its NULL parameters.
const RSA_ENCRYPTION: &[u8] = &[0x06, 9, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 1, 0x05, 0];

/// Modulus and exponent from SubjectPublicKeyInfo, without leading zeros.
fn integers(der: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    const SEQUENCE: u8 = 0x30;
    const INTEGER: u8 = 0x02;
    const BIT_STRING: u8 = 0x03;
    let (info, _) = element(der, SEQUENCE)?;
    let (algorithm, rest) = element(info, SEQUENCE)?;
    if algorithm != RSA_ENCRYPTION {
        return None;
    }
    let (bits, _) = element(rest, BIT_STRING)?;
    let (key, _) = element(bits.strip_prefix(&[0])?, SEQUENCE)?;
    let (modulus, rest) = element(key, INTEGER)?;
    let (exponent, _) = element(rest, INTEGER)?;
    Some((without_leading_zeroes(modulus), without_leading_zeroes(exponent)))
}

/// Takes one DER element with the tag `tag`: its content and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = der.strip_prefix(&[tag])?.split_first()?;
    let (length, rest) = match first {
        0..=0x7F => (usize::from(first), rest),
        0x81 | 0x82 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7F))?;
            (length.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

fn without_leading_zeroes(number: &[u8]) -> Vec<u8> {
    number.iter().copied().skip_while(|&byte| byte == 0).collect()
}

fn bit_length(number: &[u8]) -> u32 {
    number.first().map_or(0, |first| 8 * number.len() as u32 - first.leading_zeros())
}

#[cfg(test)]
mod tests;
