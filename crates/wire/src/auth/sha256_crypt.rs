//! SHA-256 crypt (Ulrich Drepper's "Unix crypt using SHA-256"), as `caching_sha2_password` stores passwords.
//!
//! MySQL departs from the specification in one point: its salt has 20 bytes, where crypt(3) stops at 16.

use sha2::{Digest, Sha256};

const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The 43 characters that crypt writes after the last `$`.
pub(super) fn digest(password: &[u8], salt: &[u8], rounds: u32) -> [u8; 43] {
    let mut sum = initial(password, salt);
    let passwords = repeated(password, password.len());
    let [first, ..] = sum;
    let salts = repeated_to(hash_of_copies(salt, 16 + usize::from(first)), salt.len());
    for round in 0..rounds {
        let odd = round % 2 == 1;
        let mut hash = Sha256::new();
        hash.update(if odd { &passwords[..] } else { &sum[..] });
        if round % 3 != 0 {
            hash.update(&salts);
        }
        if round % 7 != 0 {
            hash.update(&passwords);
        }
        hash.update(if odd { &sum[..] } else { &passwords[..] });
        sum = hash.finalize().into();
    }
    encode(&sum)
}

/// Steps 1 to 12 of the specification: "digest A".
fn initial(password: &[u8], salt: &[u8]) -> [u8; 32] {
    let b = Sha256::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut a = Sha256::new().chain_update(password).chain_update(salt);
    a.update(repeated_to(b.into(), password.len()));
    let mut bits = password.len();
    while bits > 0 {
        if bits & 1 == 1 {
            a.update(b)
        } else {
            a.update(password)
        }
        bits >>= 1;
    }
    a.finalize().into()
}

/// `copies` copies of `text`, hashed and repeated to the length of `text`.
fn repeated(text: &[u8], copies: usize) -> Vec<u8> {
    repeated_to(hash_of_copies(text, copies), text.len())
}

fn hash_of_copies(text: &[u8], copies: usize) -> [u8; 32] {
    let mut hash = Sha256::new();
    (0..copies).for_each(|_| hash.update(text));
    hash.finalize().into()
}

fn repeated_to(hash: [u8; 32], length: usize) -> Vec<u8> {
    hash.iter().copied().cycle().take(length).collect()
}

/// Crypt's base 64: three bytes at a time, one from each third of the digest, rotating with each group; lowest bits
/// first.
fn encode(sum: &[u8; 32]) -> [u8; 43] {
    let byte = |index: usize| u32::from(sum.get(index).copied().unwrap_or(0));
    let groups = (0..10).map(|group| {
        let (a, b, c) = (group, group + 10, group + 20);
        let (high, middle, low) = match group % 3 {
            0 => (a, b, c),
            1 => (c, a, b),
            _ => (b, c, a),
        };
        (byte(high) << 16 | byte(middle) << 8 | byte(low), 4)
    });
    let last = (byte(31) << 8 | byte(30), 3);
    let mut text = [0; 43];
    let characters =
        groups.chain([last]).flat_map(|(bits, count)| (0..count).map(move |place| bits >> (6 * place) & 63));
    for (place, index) in text.iter_mut().zip(characters) {
        *place = ALPHABET.get(index as usize).copied().unwrap_or(b'.');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_specification() {
        // The first two test vectors of the specification; the specification cuts the second salt to 16 bytes.
        let one = digest(b"Hello world!", b"saltstring", 5000);
        assert_eq!(one.as_slice(), b"5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5".as_slice());
        let two = digest(b"Hello world!", b"saltstringsaltst", 10000);
        assert_eq!(two.as_slice(), b"3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA".as_slice());
    }
}
