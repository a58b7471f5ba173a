//! Logins to RDS and Aurora with tokens of AWS IAM, in the place of stored passwords.
//!
//! A token is signed for each connection that is opened ([`token`]), with keys that are in memory only. They come from the first of
//! the usual places of AWS that is there ([`source`]), and a thread renews them before they end ([`renewal`]). Neither a token nor a
//! key is logged or shown; the access key ID, which names a key, is.
//!
//! Small providers of our own instead of `aws-config`: it would bring 52 crates more, of which the versions that build with our Rust
//! are no longer the current ones, and an HTTP client of its own or as much code to use ours.

mod container;
mod credentials;
mod instance;
mod profile;
mod renewal;
mod sign;
mod source;
mod surroundings;
mod token;
mod web_identity;

use std::sync::{Arc, LazyLock};

use narrows_proxy::server_tokens::{MakesTokens, NoToken, SharedTokens, TokenFor};
use narrows_wire::auth::Secret;

use crate::calendar::date_and_time;
pub use renewal::CredentialState;
use renewal::Renewed;
use surroundings::{Environment, now};
pub use token::{TOKEN_LIFETIME_S, region};

/// What makes the tokens of this process, whose environment says where the keys come from. It begins to fetch them when it is first
/// needed.
pub fn of_process() -> SharedTokens {
    let tokens: Arc<dyn MakesTokens> = OF_PROCESS.clone();
    SharedTokens(Some(tokens))
}

/// Fetches the keys from now on: an account in force needs them.
pub fn begin() {
    OF_PROCESS.renewed.begin();
}

/// What is known about the keys; `None`: they were not needed so far.
pub fn state() -> Option<CredentialState> {
    OF_PROCESS.renewed.state()
}

static OF_PROCESS: LazyLock<Arc<AwsIam>> =
    LazyLock::new(|| Arc::new(AwsIam::new(Box::new(|name| std::env::var(name).ok()))));

/// Makes tokens with keys that are renewed.
struct AwsIam {
    renewed: Arc<Renewed>,
}

impl AwsIam {
    fn new(environment: Environment) -> AwsIam {
        AwsIam { renewed: Arc::new(Renewed::new(environment)) }
    }
}

impl MakesTokens for AwsIam {
    fn token(&self, login: &TokenFor<'_>) -> Result<Secret, NoToken> {
        let region = region(login.host, login.region).map_err(NoToken::Because)?;
        let now = now();
        let credentials = self.renewed.credentials(now)?;
        let token = token::token((login.host, login.port), login.username, &region, &credentials, now);
        Ok(Secret::clear(token.as_bytes()))
    }

    fn if_refused(&self) -> String {
        let now = date_and_time(now());
        let Some(state) = self.renewed.state() else { return String::new() };
        let until = match state.expires {
            Some(expires) => format!("valid until {} UTC", date_and_time(expires)),
            None => "without an end".to_owned(),
        };
        let CredentialState { source, access_key_id, .. } = state;
        format!(
            "with an IAM token of {now} UTC, signed with {access_key_id} of {source}, {until}; the server's time must be within 15 \
             minutes of it, and the role needs rds-db:connect for this account"
        )
    }
}

#[cfg(test)]
mod of_test {
    use zeroize::Zeroizing;

    use super::credentials::AwsCredentials;
    use super::surroundings::Environment;

    /// Keys without an end.
    pub fn credentials(id: &str, secret: &str, session: Option<&str>) -> AwsCredentials {
        AwsCredentials {
            access_key_id: id.to_owned(),
            secret_access_key: Zeroizing::new(secret.to_owned()),
            session_token: session.map(|token| Zeroizing::new(token.to_owned())),
            expires: None,
        }
    }

    /// An environment with these variables alone.
    pub fn environment(variables: &[(&str, &str)]) -> Environment {
        let all: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Box::new(move |name| all.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()))
    }
}
