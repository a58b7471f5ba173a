//! Logins over HTTP: the Basic scheme of RFC 7617, with the accounts of the admin interface.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use zeroize::Zeroizing;

/// A name and a password, as sent.
pub struct Credentials {
    /// The name.
    pub user: String,
    /// The password.
    pub password: Zeroizing<Vec<u8>>,
}

/// Reads an `Authorization` header; `None` if it is not of this scheme.
pub fn credentials(header: &[u8]) -> Option<Credentials> {
    let (scheme, rest) = header.split_at_checked(SCHEME.len())?;
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return None;
    }
    let decoded = Zeroizing::new(BASE64_STANDARD.decode(rest.trim_ascii()).ok()?);
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let user = String::from_utf8(decoded.get(..colon)?.to_vec()).ok()?;
    Some(Credentials { user, password: Zeroizing::new(decoded.get(colon + 1..)?.to_vec()) })
}

const SCHEME: &[u8] = b"Basic ";

/// The `WWW-Authenticate` header that asks for a login.
pub const CHALLENGE: &str = "Basic realm=\"Narrows\", charset=\"UTF-8\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_passwords_are_read() {
        let read = |header: &str| {
            credentials(header.as_bytes())
                .map(|found| (found.user, String::from_utf8_lossy(&found.password).into_owned()))
        };
        // The example of RFC 7617.
        let aladdin = Some(("Aladdin".to_owned(), "open sesame".to_owned()));
        assert_eq!(read("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), aladdin);
        assert_eq!(read("basic  QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), aladdin);
        // a:b:c
        assert_eq!(read("Basic YTpiOmM="), Some(("a".to_owned(), "b:c".to_owned())));
        for wrong in ["", "Basic", "Basic ", "Basic !", "Basic YQ==", "Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ=="] {
            assert!(read(wrong).is_none(), "{wrong}");
        }
    }
}
