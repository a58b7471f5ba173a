//! Why a token lets nobody in.

use std::fmt;
use std::sync::Arc;

/// Why a token is refused, for logs: clients get only what [`TokenRefusal::for_client`] says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// It is none.
    #[error("it is no token: {0}")]
    NoToken(&'static str),
    /// It is signed with an algorithm that is not accepted.
    #[error("it is signed with {0}, which is not accepted")]
    Algorithm(Excerpt),
    /// It names a key that the issuer does not have.
    #[error("unknown key: the issuer '{issuer}' has no key with kid {kid}")]
    UnknownKey {
        /// The row of the issuer.
        issuer: Arc<str>,
        /// The name of the key.
        kid: Excerpt,
    },
    /// It is not signed with a key of the issuer.
    #[error("the signature is not that of a key of the issuer '{0}'")]
    Signature(Arc<str>),
    /// It is from an issuer that the account does not accept.
    #[error("wrong issuer: {0}")]
    Issuer(Excerpt),
    /// It is meant for another service.
    #[error("wrong audience: {0}")]
    Audience(Excerpt),
    /// Its time is over.
    #[error("it has expired {seconds} s ago, by the clock of Narrows")]
    Expired {
        /// For how long.
        seconds: u64,
    },
    /// Its time has not come.
    #[error("it is not yet valid, for another {seconds} s by the clock of Narrows")]
    NotYetValid {
        /// For how long.
        seconds: u64,
    },
    /// It has no time at which it ends, or a time that is no number.
    #[error("its claim `{0}` is missing, or no number")]
    NoTime(&'static str),
    /// It is for somebody else.
    #[error("a claim does not match: {0}")]
    Claim(Excerpt),
    /// The API server says that it is not valid.
    #[error("the API server of '{issuer}' does not accept it: {why}")]
    Review {
        /// The row of the issuer.
        issuer: Arc<str>,
        /// What it says.
        why: Excerpt,
    },
    /// The issuer cannot be asked.
    #[error("the issuer '{issuer}' cannot be reached: {why}")]
    Unreachable {
        /// The row of the issuer.
        issuer: Arc<str>,
        /// Why.
        why: String,
    },
}

impl TokenRefusal {
    pub(super) fn algorithm(name: &str) -> TokenRefusal {
        TokenRefusal::Algorithm(Excerpt::of(name))
    }

    /// What the client may know: that the time of its token is not now. Anyone who has such a token knows its times.
    pub fn for_client(&self) -> Option<&'static str> {
        match self {
            TokenRefusal::Expired { .. } => Some("The token has expired"),
            TokenRefusal::NotYetValid { .. } => Some("The token is not yet valid"),
            _ => None,
        }
    }

    /// Whether it counts as a wrong password. A real token at the wrong time is no guess, and neither is one that cannot be
    /// verified now.
    pub fn is_guess(&self) -> bool {
        self.for_client().is_none() && !self.is_unavailable()
    }

    /// Whether it might be good: nobody could say.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, TokenRefusal::Unreachable { .. })
    }
}

/// The beginning of a text from a token, as it can stand in a log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt(String);

impl Excerpt {
    /// That of `text`.
    pub fn of(text: &str) -> Excerpt {
        let short: String = text.chars().take(LONGEST).collect();
        let more = if short.len() < text.len() { "..." } else { "" };
        Excerpt(format!("{short:?}{more}"))
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Characters of a text from a token in a log line: enough for the names of keys, issuers and users.
const LONGEST: usize = 100;
