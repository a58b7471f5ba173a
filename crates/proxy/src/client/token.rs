//! The token that a client shows in the place of a password.

use std::time::Duration;

use narrows_wire::Errno;
use narrows_wire::auth::Password;

use super::claim::{LoginClaim, Refusal};
use super::identity::Identity;
use crate::snapshot::Snapshot;
use crate::tokens::{GoodToken, TokenDemand, TokenDemands, TokenRefusal, verify};

/// What has become of the token of a login, if there was one.
#[derive(Default)]
pub(super) struct ShownToken {
    outcome: Option<Result<GoodToken, TokenRefusal>>,
}

impl ShownToken {
    /// Verifies it. It waits for the issuer no longer than half the time limit of a login, so that the client still receives the
    /// reason.
    pub(super) async fn check(
        &mut self,
        snapshot: &Snapshot,
        identity: &Identity<'_>,
        claim: &LoginClaim<'_>,
        token: &Password,
    ) -> bool {
        let limit = snapshot.variables.connect_timeout_client / 2;
        let name = claim.name();
        let login = (&*name, token, claim.host.parse().ok());
        let of_account = match identity {
            Identity::Account(account, _) => account.login.tokens.as_ref(),
            Identity::AtServers(_) | Identity::Nobody => None,
        };
        let anybody =
            || TokenDemands { any: snapshot.issuers.keys().map(|name| any_of(name)).collect(), only: true };
        let outcome = match of_account {
            Some(demands) => verify(&snapshot.issuers, demands, login, limit).await,
            // It takes as long, and always fails.
            None => {
                let verified = verify(&snapshot.issuers, &anybody(), login, limit).await;
                verified.and(Err(TokenRefusal::NoToken("there is no such account")))
            }
        };
        self.outcome.insert(outcome).is_ok()
    }

    /// For how long the session may last, if the token says it.
    pub(super) fn lasts(&self) -> Option<Duration> {
        self.outcome.as_ref()?.as_ref().ok()?.lasts
    }

    /// Why it was refused.
    pub(super) fn refusal(&self) -> Option<&TokenRefusal> {
        self.outcome.as_ref()?.as_ref().err()
    }

    /// The same, for logs.
    pub(super) fn why(&self) -> Option<String> {
        self.refusal().map(|why| format!("The token is refused: {why}"))
    }

    /// The error for the client.
    pub(super) fn error(&self, claim: &LoginClaim<'_>) -> Refusal {
        let denied = claim.denied(true);
        match self.refusal() {
            Some(refusal) if refusal.is_unavailable() => {
                let text = format!(
                    "The token of '{}' cannot be verified: its issuer cannot be reached",
                    claim.name()
                );
                (Errno::NO_SERVER_IN_TIME, text)
            }
            Some(refusal) => match refusal.for_client() {
                Some(why) => (Errno::ACCESS_DENIED_ERROR, format!("{denied}. {why}")),
                None => (Errno::ACCESS_DENIED_ERROR, denied),
            },
            None => (Errno::ACCESS_DENIED_ERROR, denied),
        }
    }
}

fn any_of(issuer: &str) -> TokenDemand {
    TokenDemand { issuer: issuer.to_owned(), claims: Vec::new(), until_expiry: false }
}
