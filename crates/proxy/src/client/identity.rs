//! Whose a login is, and what it is verified with: an account of `mysql_users`, one that `mysql-auth_query` finds, one that
//! only servers know, or nobody's.

use std::rc::Rc;
use std::sync::Arc;

use narrows_wire::auth::Secret;
use narrows_wire::auth::client_side::{Account as Claim, Rejection};

use super::ask_server::AskedLogin;
use super::claim::{LoginClaim, Refusal};
use super::look_up::{hindered, look_again, look_up};
use crate::auth_query::{Hindrance, Queried};
use crate::rt::{Instant, sleep};
use crate::snapshot::{Account, Snapshot, Whose};
use crate::worker::Worker;

/// Whose a login is.
pub(super) enum Identity<'a> {
    /// That of an account whose password, or its hash, is known; something may be against it.
    Account(Arc<Account>, Option<Hindrance>),
    /// Servers are asked.
    AtServers(AskedLogin<'a>),
    /// Nobody's: it is refused after the same steps.
    Nobody,
}

impl<'a> Identity<'a> {
    /// That of a claimed name.
    pub(super) async fn of(
        worker: &'a Rc<Worker>,
        snapshot: &'a Snapshot,
        claim: &'a LoginClaim<'a>,
    ) -> Result<Identity<'a>, Refusal> {
        let queried = look_up(worker, snapshot, claim).await?;
        Ok(Identity::chosen(worker, snapshot, claim, queried))
    }

    /// That of the same name after `rejection`, if more is known now than when the login began.
    pub(super) async fn renewed(
        worker: &'a Rc<Worker>,
        snapshot: &'a Snapshot,
        claim: &'a LoginClaim<'a>,
        (rejection, began): (Rejection, Instant),
    ) -> Option<Identity<'a>> {
        if rejection != Rejection::WrongPassword {
            return None;
        }
        let queried = look_again(worker, snapshot, claim, began).await?;
        Some(Identity::chosen(worker, snapshot, claim, Some(queried)))
    }

    /// By what `mysql-auth_query` says, or by what Narrows knows.
    fn chosen(
        worker: &'a Rc<Worker>,
        snapshot: &'a Snapshot,
        claim: &'a LoginClaim<'a>,
        queried: Option<Queried>,
    ) -> Identity<'a> {
        match &queried {
            Some(Queried::Account(account, hindrance)) => {
                return Identity::Account(Arc::clone(account), *hindrance);
            }
            // What was found says no, or cannot be read: no server is to say otherwise.
            Some(Queried::Elsewhere) => return Identity::Nobody,
            Some(Queried::Unreadable(why)) => {
                tell_unusable(worker, claim, why);
                return Identity::Nobody;
            }
            Some(Queried::Plugin(_) | Queried::Nobody) | None => {}
        }
        let asked = match snapshot.whose(claim.user) {
            Whose::Configured(account) => return Identity::Account(Arc::clone(account), None),
            Whose::AtServers(template) => AskedLogin::of(worker, snapshot, claim, template),
            Whose::Nobody => None,
        };
        if let (None, Some(Queried::Plugin(plugin))) = (&asked, &queried) {
            tell_unusable(worker, claim, &format!("its plugin {plugin} cannot be verified"));
        }
        asked.map_or(Identity::Nobody, Identity::AtServers)
    }

    /// The settings that count before its password is known to be right.
    pub(super) fn settings(&self) -> Option<&Account> {
        match self {
            Identity::Account(account, _) => Some(account),
            Identity::AtServers(asked) => Some(asked.template()),
            Identity::Nobody => None,
        }
    }

    /// What the client's answer is verified with.
    pub(super) fn as_claimed(&self, worker: &Worker, snapshot: &Snapshot, user: &[u8]) -> Claim {
        match self {
            Identity::Account(account, _) => {
                Claim::known(Arc::clone(&account.credentials)).with_tokens(account.token_use())
            }
            Identity::AtServers(asked) => asked.as_claimed(),
            Identity::Nobody => {
                let queried = snapshot.auth_query.as_ref().map(|_| worker.peers.queried.forms());
                let forms = queried.filter(|forms| !forms.is_empty());
                let forms = forms.as_deref().unwrap_or(&snapshot.password_forms);
                Claim::decoy(user, forms, &worker.peers.decoy_key)
            }
        }
    }

    /// What a password can be used for that the client has sent, and that only a server can verify: that is asked when the
    /// login is [`admitted`](Identity::admitted). For nobody it takes as long.
    pub(super) async fn assumed(&self, worker: &Worker, secret: Secret) -> Option<Secret> {
        if let Identity::AtServers(_) = self {
            return Some(secret);
        }
        sleep(worker.peers.found.usual_time()).await;
        None
    }

    /// The account of a client with the right password.
    pub(super) async fn admitted(
        &self,
        secret: &Secret,
        claim: &LoginClaim<'_>,
    ) -> Result<Arc<Account>, Refusal> {
        match self {
            Identity::Account(account, None) => Ok(Arc::clone(account)),
            Identity::Account(_, Some(hindrance)) => Err(hindered(*hindrance, &claim.denied(true))),
            Identity::AtServers(asked) => asked.admit(secret).await,
            Identity::Nobody => unreachable!("a decoy is never accepted"),
        }
    }
}

/// Says why an account that was found cannot be used.
fn tell_unusable(worker: &Worker, claim: &LoginClaim<'_>, why: &str) {
    let (user, client) = (claim.name(), claim.host);
    worker.failed_logins.tell(|| {
        tracing::warn!(%user, client, why, "mysql-auth_query has found an account that cannot be used");
    });
}
