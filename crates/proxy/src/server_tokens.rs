//! Passwords that are made for each login to a server, in the place of one that is stored.
//!
//! What makes them is passed in by the control plane, which knows where the keys for them come from. They are only sent to
//! a server whose certificate has been verified: [`crate::backend`] sees to that.

use std::sync::Arc;

use narrows_wire::auth::Secret;

use crate::rows::{UserRow, token_region};

/// A login that a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenFor<'a> {
    /// The host name of the server, as in its row.
    pub host: &'a str,
    /// Its port.
    pub port: u16,
    /// The account on the server.
    pub username: &'a str,
    /// The region that the configuration names; `None`: the host name or the environment says it.
    pub region: Option<&'a str>,
}

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoToken {
    /// What it is made with is being fetched for the first time: ask again in a moment.
    NotYet,
    /// For this reason.
    Because(String),
    /// There is nothing to make it with, for this reason. It is for logs: it may name keys, roles and files.
    NoCredentials(String),
}

/// Makes tokens. Workers call it for each connection that they open, so it waits for nothing.
pub trait MakesTokens: Send + Sync {
    /// The token of a login.
    ///
    /// # Errors
    /// Why there is none.
    fn token(&self, login: &TokenFor<'_>) -> Result<Secret, NoToken>;

    /// What helps to find out why a server has refused a token, without any secret. It is for logs: it names the key.
    fn if_refused(&self) -> String;
}

/// What makes tokens; the default makes none.
#[derive(Clone, Default)]
pub struct SharedTokens(pub Option<Arc<dyn MakesTokens>>);

impl PartialEq for SharedTokens {
    fn eq(&self, other: &SharedTokens) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl std::fmt::Debug for SharedTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedTokens(..)")
    }
}

/// How an account gets its tokens.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenLogin {
    /// What makes them.
    pub maker: SharedTokens,
    /// The region that the configuration names.
    pub region: Option<String>,
}

impl TokenLogin {
    /// How an account gets its tokens, from `maker`; `None`: servers get its password.
    pub fn of(user: &UserRow, maker: &SharedTokens) -> Option<TokenLogin> {
        let region = token_region(&user.attributes)?;
        Some(TokenLogin { maker: maker.clone(), region })
    }

    /// The token of `username` for a server.
    ///
    /// # Errors
    /// Why there is none.
    pub fn token(&self, (host, port): (&str, u16), username: &str) -> Result<Secret, NoToken> {
        let Some(maker) = &self.maker.0 else {
            return Err(NoToken::Because("nothing here makes tokens".to_owned()));
        };
        maker.token(&TokenFor { host, port, username, region: self.region.as_deref() })
    }

    /// See [`MakesTokens::if_refused`].
    pub fn if_refused(&self) -> String {
        self.maker.0.as_ref().map(|maker| maker.if_refused()).unwrap_or_default()
    }
}
