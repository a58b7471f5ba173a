//! Pass-through: a login whose password only the servers know. A server of the account's hostgroup is asked by logging in to
//! it; the connection goes to the pool.
//!
//! What servers have said is in `passthrough/`. A password that one has confirmed is good for
//! `mysql-passthrough_auth_recheck_ms`, and for longer while none can be asked.

use std::rc::Rc;
use std::sync::Arc;

use narrows_wire::Errno;
use narrows_wire::auth::client_side::Account as Claim;
use narrows_wire::auth::{Password, Secret};
use narrows_wire::charset::Family;

use super::claim::{LoginClaim, Refusal};
use crate::backend::{ServerError, USER_LIMIT_REACHED, Want};
use crate::passthrough::{FoundAccounts, Standing};
use crate::pool::{Ask, Exit, LeaseError};
use crate::rows::Variables;
use crate::rt::{Instant, timeout};
use crate::snapshot::{Account, Snapshot};
use crate::state::SessionState;
use crate::worker::Worker;

/// A login of a name whose password only the servers know.
pub(super) struct AskedLogin<'a> {
    worker: &'a Rc<Worker>,
    snapshot: &'a Snapshot,
    claim: &'a LoginClaim<'a>,
    /// The settings of the account.
    template: &'a Arc<Account>,
    /// Its name.
    name: &'a str,
}

/// The answer of a server.
enum Word {
    Yes,
    /// Its error, if that says more than that access is denied.
    No(Option<ServerError>),
    /// There was none, because of this.
    None(Arc<str>),
    /// As many logins as allowed ask already.
    Limited,
}

impl<'a> AskedLogin<'a> {
    /// The login of a claimed name, whose account has the settings of `template`.
    pub(super) fn of(
        worker: &'a Rc<Worker>,
        snapshot: &'a Snapshot,
        claim: &'a LoginClaim<'a>,
        template: &'a Arc<Account>,
    ) -> Option<AskedLogin<'a>> {
        let name = std::str::from_utf8(claim.user).ok()?;
        Some(AskedLogin { worker, snapshot, claim, template, name })
    }

    /// The settings of the account.
    pub(super) fn template(&self) -> &Account {
        self.template
    }

    /// What the client's answer is verified with, as far as that is possible without a server.
    pub(super) fn as_claimed(&self) -> Claim {
        Claim::known(self.found().credentials(self.variables(), self.name))
    }

    /// The account, if a server lets it in with this password, or one has not long ago.
    pub(super) async fn admit(&self, secret: &Secret) -> Result<Arc<Account>, Refusal> {
        let Secret::Clear(password) = secret else { return Err(self.denied(None)) };
        if !self.template.login.may_come_from(self.claim.host) {
            // No server is asked for it, so nothing may be said of the account.
            return Err(self.denied(None));
        }
        let began = Instant::now();
        match self.standing(password) {
            Standing::Confirmed(account) => return Ok(account),
            Standing::Refused => return Err(self.denied(None)),
            Standing::Unknown => self.within_limits()?,
            Standing::Old(_) | Standing::Doubtful => {}
        }
        let _gate = self.found().gate(self.name).await;
        // Another login may have asked meanwhile.
        let standing = self.standing(password);
        let (rests, why) = self.rests(began);
        match standing {
            Standing::Confirmed(account) => return Ok(account),
            Standing::Refused => return Err(self.denied(None)),
            Standing::Old(account) if rests => return Ok(account),
            Standing::Unknown => self.within_limits()?,
            Standing::Old(_) | Standing::Doubtful => {}
        }
        let asked = self.found().to_ask((self.name, self.template), &standing);
        let word = match why {
            Some(why) => Word::None(why),
            None => self.ask(&asked, password).await,
        };
        self.settle(word, (standing, &asked), password)
    }

    /// What follows from the word of a server.
    fn settle(
        &self,
        word: Word,
        (standing, asked): (Standing, &Arc<Account>),
        password: &Password,
    ) -> Result<Arc<Account>, Refusal> {
        let outcome = match word {
            Word::Yes => "confirmed",
            Word::No(_) => "refused",
            Word::None(_) => "unavailable",
            Word::Limited => "limited",
        };
        *self.worker.counters.borrow_mut().passthrough.entry(outcome).or_default() += 1;
        match (word, standing) {
            (Word::Yes, _) => {
                let (account, is_news) =
                    self.found().confirmed(self.variables(), (asked, self.template), password);
                if is_news {
                    self.tell(&account);
                }
                Ok(account)
            }
            (Word::No(error), _) => {
                self.found().refused(self.variables(), self.name, self.claim.host, password);
                Err(self.denied(error))
            }
            // No server has said anything against it.
            (Word::None(_) | Word::Limited, Standing::Old(account)) => Ok(account),
            (Word::None(why), _) => Err(self.unavailable(&why)),
            (Word::Limited, _) => Err(self.unavailable(
                "too many logins ask at the same time \
                (mysql-passthrough_auth_max_inflight_probes)",
            )),
        }
    }

    /// Asks a server.
    async fn ask(&self, account: &Arc<Account>, password: &Password) -> Word {
        let hostgroup = self.template.row.default_hostgroup;
        let Some(_place) = self.found().ask(self.variables(), hostgroup) else { return Word::Limited };
        let began = Instant::now();
        let word = match self.snapshot.hostgroups.get(&hostgroup) {
            Some(known) if !known.servers.is_empty() => self.log_in(account, password).await,
            _ => Word::None("it has no servers".into()),
        };
        let answered = match &word {
            Word::None(why) => Err(Arc::clone(why)),
            _ => Ok(began.elapsed()),
        };
        self.found().note_answer(hostgroup, answered);
        word
    }

    /// Logs in to a server; the connection is of use to the pool.
    async fn log_in(&self, account: &Arc<Account>, password: &Password) -> Word {
        let (worker, hostgroup) = (self.worker, self.template.row.default_hostgroup);
        let (capabilities, about) = (self.claim.capabilities, Arc::clone(&self.claim.about));
        let want = Want::new(
            Arc::clone(account),
            Secret::Clear(password.clone()),
            capabilities,
            about,
            self.snapshot,
        );
        let state = worker.shared_state(SessionState::default());
        let ask = Ask { new: true, ..Ask::plain(&want, &state, Instant::now()) };
        let limit = self.variables().connect_timeout_server;
        match timeout(limit, worker.pool.lease(self.snapshot, hostgroup, ask)).await {
            // MySQL takes the beginning of a name that is longer than its own for the name.
            Ok(Ok(lease))
                if lease.login.family == Family::MySql && self.name.chars().count() > LONGEST_OF_MYSQL =>
            {
                Word::No(None)
            }
            Ok(Ok(lease)) => {
                lease.settle(Exit::Return, &worker.pool, &want, Instant::now());
                Word::Yes
            }
            // The password was right: a server counts the connections of an account afterwards, and those of the pool are among them.
            Ok(Err(LeaseError::Full(_))) => Word::Yes,
            Ok(Err(LeaseError::Refused(error))) if error.code == USER_LIMIT_REACHED => Word::Yes,
            // MySQL asks a name that it does not have for any plugin, also for one that Narrows cannot use.
            Ok(Err(LeaseError::Refused(error))) => Word::No(Some(error).filter(says_more)),
            Ok(Err(LeaseError::NoInit(_))) => Word::None("init_connect fails there (see the log)".into()),
            Ok(Err(LeaseError::Unavailable(_))) | Err(_) => {
                let cause = worker.pool.cause_of(self.snapshot, hostgroup);
                Word::None(format!("no server answers within {} ms ({cause})", limit.as_millis()).into())
            }
        }
    }

    /// Whether the hostgroup has not answered a moment ago, so that those who may log in without it do; and why, if that was
    /// after `began`, so that nobody else has to find it out.
    fn rests(&self, began: Instant) -> (bool, Option<Arc<str>>) {
        let Some((at, why)) = self.found().unanswered(self.template.row.default_hostgroup) else {
            return (false, None);
        };
        (at.elapsed() < crate::passthrough::REST, Some(why).filter(|_| at >= began))
    }

    /// Fails if too many passwords of this name, or from this address, were wrong.
    fn within_limits(&self) -> Result<(), Refusal> {
        let Some(limit) = self.found().limit(self.variables(), self.name, self.claim.host) else {
            return Ok(());
        };
        *self.worker.counters.borrow_mut().passthrough.entry("limited").or_default() += 1;
        let (errno, text) = self.denied(None);
        let seconds = limit.left.as_secs() + 1;
        Err((errno, format!("{text}. No server is asked for another {seconds} s ({})", limit.variable)))
    }

    fn standing(&self, password: &Password) -> Standing {
        self.found().standing(self.variables(), (self.name, self.template), password)
    }

    /// The error of a client that a server refuses: what it would get without a proxy.
    fn denied(&self, error: Option<ServerError>) -> Refusal {
        let denied = || (Errno::ACCESS_DENIED_ERROR, self.claim.denied(true));
        error.map_or_else(denied, ServerError::into_reply)
    }

    fn unavailable(&self, why: &str) -> Refusal {
        let (user, hostgroup) = (self.name, self.template.row.default_hostgroup);
        let text = format!("The password of '{user}' cannot be checked by hostgroup {hostgroup}: {why}");
        (Errno::NO_SERVER_IN_TIME, text)
    }

    fn tell(&self, account: &Account) {
        let (user, client) = (self.name, self.claim.host);
        self.worker.found_accounts.tell(|| {
            let hostgroup = account.row.default_hostgroup.0;
            tracing::info!(user, client, hostgroup, "a server has let an account in");
        });
    }

    fn found(&self) -> &FoundAccounts {
        &self.worker.peers.found
    }

    fn variables(&self) -> &Variables {
        &self.snapshot.variables
    }
}

/// Whether an error is one that servers send only after the password was right. Others may not tell strangers anything, and
/// name the client that servers see.
fn says_more(error: &ServerError) -> bool {
    AFTER_THE_PASSWORD.contains(&error.code)
}

/// `ER_MUST_CHANGE_PASSWORD_LOGIN`, and `ER_ACCOUNT_HAS_BEEN_LOCKED` of MySQL and of MariaDB.
const AFTER_THE_PASSWORD: [u16; 3] = [1862, 3118, 4151];

/// Characters of the longest name that MySQL has (manual: "User Name"); it cuts off the rest of a longer one.
const LONGEST_OF_MYSQL: usize = 32;
