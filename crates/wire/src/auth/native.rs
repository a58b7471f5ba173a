//! `mysql_native_password`: a challenge and response over SHA-1 (manual: "Native Authentication").
//!
//! Stage 1 is `SHA1(password)`, stage 2 is `SHA1(stage 1)`. The server stores stage 2, written `*HEX`; the client
//! proves that it knows stage 1 by sending `stage 1 XOR SHA1(nonce + stage 2)`. Anyone who has stage 2 and sees one
//! successful scramble therefore learns stage 1, which is enough to log in elsewhere with the same password.

use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

use super::{Nonce, xor};

/// One of the two stages of hashing.
pub type Stage = [u8; 20];

/// `SHA1(password)`: as good as the password itself for this plugin.
pub fn stage1(password: &[u8]) -> Stage {
    Sha1::digest(password).into()
}

/// `SHA1(stage 1)`: what a server stores.
pub fn stage2(stage1: &Stage) -> Stage {
    Sha1::digest(stage1).into()
}

/// The answer to `nonce`; empty for an empty password.
pub fn scramble(password: &[u8], nonce: &Nonce) -> Vec<u8> {
    if password.is_empty() { Vec::new() } else { scramble_stage1(&stage1(password), nonce).to_vec() }
}

/// The answer to `nonce`, computed from stage 1 alone.
pub fn scramble_stage1(stage1: &Stage, nonce: &Nonce) -> Stage {
    xor(stage1, &mask(&stage2(stage1), nonce))
}

/// Whether `response` answers `nonce` for a password known in clear text.
pub fn verify(password: &[u8], nonce: &Nonce, response: &[u8]) -> bool {
    // Computed for an empty password too, so that the time taken does not reveal one.
    let expected = scramble_stage1(&stage1(password), nonce);
    if password.is_empty() { response.is_empty() } else { expected.ct_eq(response).into() }
}

/// Whether `response` answers `nonce` for a stored stage 2. Returns stage 1, which the response reveals.
pub fn verify_stored(stored: &Stage, nonce: &Nonce, response: &[u8]) -> Option<Stage> {
    let response: &Stage = response.try_into().ok()?;
    let candidate = xor(response, &mask(stored, nonce));
    bool::from(stage2(&candidate).ct_eq(stored)).then_some(candidate)
}

/// Reads the stored form: `*` and 40 hexadecimal digits of stage 2.
pub fn parse_stored(text: &[u8]) -> Option<Stage> {
    let digits = text.strip_prefix(b"*")?;
    let mut stage = Stage::default();
    if digits.len() != 2 * stage.len() {
        return None;
    }
    for (byte, pair) in stage.iter_mut().zip(digits.chunks_exact(2)) {
        for &digit in pair {
            *byte = *byte << 4 | u8::try_from(char::from(digit).to_digit(16)?).ok()?;
        }
    }
    Some(stage)
}

/// Writes the stored form of stage 2.
pub fn format_stored(stage2: &Stage) -> String {
    stage2.iter().fold(String::from("*"), |text, byte| text + &format!("{byte:02X}"))
}

/// What hides stage 1 in a response.
fn mask(stage2: &Stage, nonce: &Nonce) -> Stage {
    Sha1::new().chain_update(nonce).chain_update(stage2).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: Nonce = *b"aBcDeFgHiJkLmNoPqRsT";

    #[test]
    fn stored_form_is_what_the_password_function_of_mariadb_returns() {
        // SELECT PASSWORD('secret') on MariaDB 10.11.
        let text = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7";
        assert_eq!(format_stored(&stage2(&stage1(b"secret"))), text);
        assert_eq!(parse_stored(text.as_bytes()), Some(stage2(&stage1(b"secret"))));
        assert_eq!(parse_stored(text.to_lowercase().as_bytes()), Some(stage2(&stage1(b"secret"))));
    }

    #[test]
    fn refuses_what_is_not_a_stored_form() {
        for text in ["", "*", "*14E6", "14E65567ABDB5135D0CFD9A70B3032C179A49EE7*"] {
            assert_eq!(parse_stored(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_stored(b"*14E65567ABDB5135D0CFD9A70B3032C179A49EEg"), None);
    }

    #[test]
    fn a_scramble_verifies_against_clear_text_and_stored_form() {
        let response = scramble(b"secret", &NONCE);
        assert!(verify(b"secret", &NONCE, &response));
        assert!(!verify(b"Secret", &NONCE, &response));
        assert!(!verify(b"secret", b"another nonce of 20b", &response));
        let stored = stage2(&stage1(b"secret"));
        assert_eq!(verify_stored(&stored, &NONCE, &response), Some(stage1(b"secret")));
        assert_eq!(verify_stored(&stage2(&stored), &NONCE, &response), None);
        assert_eq!(verify_stored(&stored, &NONCE, b""), None);
    }

    #[test]
    fn stage1_learnt_from_a_scramble_logs_in_elsewhere() {
        let other = b"01234567890123456789";
        let learnt = verify_stored(&stage2(&stage1(b"secret")), &NONCE, &scramble(b"secret", &NONCE));
        assert_eq!(scramble_stage1(&learnt.unwrap(), other).to_vec(), scramble(b"secret", other));
    }

    #[test]
    fn an_empty_password_answers_with_nothing() {
        assert!(scramble(b"", &NONCE).is_empty());
        assert!(verify(b"", &NONCE, b""));
        assert!(!verify(b"", &NONCE, &[0; 20]));
        assert!(!verify(b"secret", &NONCE, b""));
    }
}
