//! Accounts whose passwords only the servers know: what servers have said about them, for all workers. Everything here is
//! in memory only. `client/ask_server.rs` asks the servers.

mod failures;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use narrows_wire::auth::Password;
use narrows_wire::auth::client_side::{Credential, Stored};

use crate::rows::{HostgroupId, Variables};
use crate::rt::{Instant, OwnedSemaphorePermit, Semaphore};
use crate::snapshot::Account;
use failures::Failures;
pub use failures::TooMany;

/// What servers have said about the passwords of accounts.
#[derive(Debug, Default)]
pub struct FoundAccounts {
    #[expect(
        clippy::disallowed_types,
        reason = "only logins of accounts whose passwords servers know take it"
    )]
    state: std::sync::Mutex<State>,
    /// How long servers take to answer, in µs.
    usual_us: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    found: HashMap<Box<str>, Entry>,
    /// One login at a time asks about a name.
    gates: HashMap<Box<str>, Arc<Semaphore>>,
    failures: Failures,
    /// How many logins ask the servers of a hostgroup.
    asking: HashMap<HostgroupId, u32>,
    /// Hostgroups that could not be asked: when, and why.
    unanswered: HashMap<HostgroupId, (Instant, Arc<str>)>,
    swept: Option<Instant>,
}

/// An account that a server has accepted.
#[derive(Debug)]
struct Entry {
    /// What its settings were made from.
    template: Arc<Account>,
    account: Arc<Account>,
    /// The latest first: MySQL may accept two passwords of an account (`RETAIN CURRENT PASSWORD`).
    known: Vec<Known>,
    found: Instant,
}

/// A password that a server has confirmed.
#[derive(Debug)]
struct Known {
    password: Password,
    confirmed: Instant,
    /// When a server has refused it since.
    refused: Option<Instant>,
}

/// What is known about a password of a name.
#[derive(Debug, Clone)]
pub enum Standing {
    /// Nothing.
    Unknown,
    /// A server has confirmed it, not long ago.
    Confirmed(Arc<Account>),
    /// A server has confirmed it, and should be asked again.
    Old(Arc<Account>),
    /// A server has refused the account since it was confirmed: it must be asked again.
    Doubtful,
    /// A server has just refused it.
    Refused,
}

/// An account that was found, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundAccount {
    /// Its name.
    pub username: String,
    /// The hostgroup whose servers are asked.
    pub hostgroup: HostgroupId,
    /// How long ago it was found,
    pub found: Duration,
    /// and confirmed by a server.
    pub confirmed: Duration,
    /// How long its password is still kept, if there is a limit.
    pub expires: Option<Duration>,
    /// Whether a server has refused its latest password.
    pub is_refused: bool,
    /// How many clients it has, and how many it may have.
    pub connections: (u32, u32),
}

/// The right to ask about a name; given back when dropped.
#[derive(Debug)]
pub struct Gate<'a> {
    found: &'a FoundAccounts,
    name: &'a str,
    gate: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

/// One of the logins that ask servers of a hostgroup; ends when dropped.
#[derive(Debug)]
pub struct Asking<'a> {
    found: &'a FoundAccounts,
    hostgroup: HostgroupId,
}

impl FoundAccounts {
    /// What a login of `name` can be verified with, without a server.
    pub fn credentials(&self, variables: &Variables, name: &str) -> Arc<[Credential]> {
        let now = Instant::now();
        self.with(|state| {
            let entry = state.found.get_mut(name);
            let known = entry.into_iter().flat_map(|entry| {
                entry.known.retain(|known| known.is_kept(variables, now));
                entry.known.iter().map(|known| Credential::learnt(known.password.clone()))
            });
            let known: Vec<Credential> = known.collect();
            match known.is_empty() {
                true => vec![Credential::new(Stored::AtServers)].into(),
                false => known.into(),
            }
        })
    }

    /// What is known about a password of `name`, whose settings are those of `template`.
    pub fn standing(
        &self,
        variables: &Variables,
        (name, template): (&str, &Arc<Account>),
        password: &Password,
    ) -> Standing {
        let now = Instant::now();
        self.with(|state| {
            let Some(entry) = state.found.get_mut(name) else { return Standing::Unknown };
            let Some(known) = entry.known.iter().find(|known| known.password.is(password.bytes())) else {
                return Standing::Unknown;
            };
            let since = |moment| now.saturating_duration_since(moment);
            match known.refused {
                Some(at) if since(at) < BETWEEN_REFUSALS => return Standing::Refused,
                Some(_) => return Standing::Doubtful,
                None => {}
            }
            let is_old = since(known.confirmed) >= variables.passthrough_auth_recheck;
            entry.follow(name, template);
            match (entry.account.is_doubtful(), is_old) {
                (true, _) => Standing::Doubtful,
                (false, true) => Standing::Old(Arc::clone(&entry.account)),
                (false, false) => Standing::Confirmed(Arc::clone(&entry.account)),
            }
        })
    }

    /// What a server is asked as: the account that was confirmed before, if `standing` says so, or one that shares nothing
    /// with the one that had the name until now.
    pub fn to_ask(&self, (name, template): (&str, &Arc<Account>), standing: &Standing) -> Arc<Account> {
        if let Standing::Old(account) = standing {
            return Arc::clone(account);
        }
        let known = self.with(|state| state.found.get(name).map(|it| Arc::clone(&it.account.connections)));
        let connections = known.unwrap_or_else(|| connections_of(template));
        Arc::new(template.found(name, connections, Arc::default()))
    }

    /// A server has let `asked` in with this password. Returns its account, and whether that is news.
    pub fn confirmed(
        &self,
        variables: &Variables,
        (asked, template): (&Arc<Account>, &Arc<Account>),
        password: &Password,
    ) -> (Arc<Account>, bool) {
        let (name, now) = (asked.row.username.as_str(), Instant::now());
        self.with(|state| {
            state.sweep(variables, now);
            if state.found.len() >= MOST_FOUND && !state.found.contains_key(name) {
                state.forget_oldest();
            }
            let entry = state.found.entry(name.into()).or_insert_with(|| Entry::new(asked, template, now));
            let at = entry.known.iter().position(|known| known.password.is(password.bytes()));
            let was_refused = at.is_none_or(|at| entry.known[at].refused.is_some());
            if was_refused || entry.account.is_doubtful() {
                entry.account = Arc::clone(asked);
            }
            entry.follow(name, template);
            if let Some(at) = at {
                entry.known.remove(at);
            }
            entry.known.insert(0, Known { password: password.clone(), confirmed: now, refused: None });
            entry.known.truncate(MOST_PASSWORDS);
            (Arc::clone(&entry.account), at.is_none())
        })
    }

    /// A server has refused `name` with this password. Counted as a failure unless it was confirmed before: those who still
    /// use an old password must not keep others from using the new one.
    pub fn refused(&self, variables: &Variables, name: &str, address: &str, password: &Password) {
        let now = Instant::now();
        self.with(|state| {
            let known = state.found.get_mut(name).into_iter().flat_map(|entry| &mut entry.known);
            match known.into_iter().find(|known| known.password.is(password.bytes())) {
                Some(known) => known.refused = Some(now),
                None => state.failures.count(variables, name, address, now),
            }
            state.sweep(variables, now);
        });
    }

    /// The limit of failures that `name` from this address, or the address alone, has reached.
    pub fn limit(&self, variables: &Variables, name: &str, address: &str) -> Option<TooMany> {
        self.with(|state| state.failures.limit(variables, name, address, Instant::now()))
    }

    /// Waits until no other login asks about `name`.
    pub async fn gate<'a>(&'a self, name: &'a str) -> Gate<'a> {
        let fresh = || Arc::new(Semaphore::new(1));
        let gate = self.with(|state| Arc::clone(state.gates.entry(name.into()).or_insert_with(fresh)));
        // It is given back even if the login gives up while it waits.
        let mut gate = Gate { found: self, name, gate, permit: None };
        gate.permit = Arc::clone(&gate.gate).acquire_owned().await.ok();
        gate
    }

    /// The right to ask servers of a hostgroup; `None` if too many logins do.
    pub fn ask(&self, variables: &Variables, hostgroup: HostgroupId) -> Option<Asking<'_>> {
        self.with(|state| {
            let asking = state.asking.entry(hostgroup).or_default();
            (*asking < variables.passthrough_auth_max_inflight_probes).then(|| {
                *asking += 1;
                Asking { found: self, hostgroup }
            })
        })
    }

    /// Since when a hostgroup could not be asked, and why.
    pub fn unanswered(&self, hostgroup: HostgroupId) -> Option<(Instant, Arc<str>)> {
        self.with(|state| state.unanswered.get(&hostgroup).cloned())
    }

    /// A hostgroup could not be asked, or it could.
    pub fn note_answer(&self, hostgroup: HostgroupId, answered: Result<Duration, Arc<str>>) {
        match answered {
            Ok(took) => {
                self.usual_us.store(took.as_micros().try_into().unwrap_or_default(), Ordering::Relaxed);
                self.with(|state| state.unanswered.remove(&hostgroup));
            }
            Err(why) => drop(self.with(|state| state.unanswered.insert(hostgroup, (Instant::now(), why)))),
        }
    }

    /// How long a server took to answer the last time.
    pub fn usual_time(&self) -> Duration {
        Duration::from_micros(self.usual_us.load(Ordering::Relaxed))
    }

    /// Forgets the passwords and failures of one name, or of all.
    pub fn forget(&self, name: Option<&str>) {
        self.with(|state| {
            match name {
                Some(name) => drop(state.found.remove(name)),
                None => state.found.clear(),
            }
            state.failures.clear(name);
        });
    }

    /// The accounts that were found, by name.
    pub fn list(&self, variables: &Variables) -> Vec<FoundAccount> {
        let now = Instant::now();
        let mut list: Vec<FoundAccount> = self.with(|state| {
            state.found.iter().filter_map(|(name, entry)| entry.line(name, variables, now)).collect()
        });
        list.sort_by(|one, two| one.username.cmp(&two.username));
        list
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        // Nothing panics while it is held.
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Entry {
    fn new(account: &Arc<Account>, template: &Arc<Account>, now: Instant) -> Entry {
        Entry { template: Arc::clone(template), account: Arc::clone(account), known: Vec::new(), found: now }
    }

    /// Takes the settings of another template, if it is another one.
    fn follow(&mut self, name: &str, template: &Arc<Account>) {
        if Arc::ptr_eq(&self.template, template) {
            return;
        }
        let connections = Arc::clone(&self.account.connections);
        let confirmation = self.account.confirmation.clone().unwrap_or_default();
        self.account = Arc::new(template.found(name, connections, confirmation));
        self.template = Arc::clone(template);
    }

    fn line(&self, name: &str, variables: &Variables, now: Instant) -> Option<FoundAccount> {
        let known = self.known.first()?;
        let age = now.saturating_duration_since(known.confirmed);
        let ttl = variables.passthrough_auth_cache_ttl;
        Some(FoundAccount {
            username: name.to_owned(),
            hostgroup: self.account.row.default_hostgroup,
            found: now.saturating_duration_since(self.found),
            confirmed: age,
            expires: (!ttl.is_zero()).then(|| ttl.saturating_sub(age)),
            is_refused: known.refused.is_some(),
            connections: (self.account.connections.load(Ordering::Relaxed), self.account.row.max_connections),
        })
    }
}

/// The count of clients of an account: that of its row, or one of its own.
fn connections_of(template: &Account) -> Arc<AtomicU32> {
    match template.row.username.is_empty() || crate::snapshot::is_template(&template.row) {
        true => Arc::default(),
        false => Arc::clone(&template.connections),
    }
}

impl Known {
    fn is_kept(&self, variables: &Variables, now: Instant) -> bool {
        let ttl = variables.passthrough_auth_cache_ttl;
        let is_young = ttl.is_zero() || now.saturating_duration_since(self.confirmed) < ttl;
        is_young && self.refused.is_none_or(|at| now.saturating_duration_since(at) < REFUSED_KEPT)
    }
}

impl State {
    /// Forgets passwords that are too old, and accounts without passwords and clients.
    fn sweep(&mut self, variables: &Variables, now: Instant) {
        if self.swept.is_some_and(|at| now.saturating_duration_since(at) < BETWEEN_SWEEPS) {
            return;
        }
        self.swept = Some(now);
        self.found.retain(|_, entry| {
            entry.known.retain(|known| known.is_kept(variables, now));
            !entry.known.is_empty() || entry.account.connections.load(Ordering::Relaxed) > 0
        });
    }

    /// Forgets the account that was confirmed the longest time ago.
    fn forget_oldest(&mut self) {
        let age = |entry: &Entry| entry.known.first().map(|known| known.confirmed);
        let oldest = self.found.iter().min_by_key(|(_, entry)| age(entry)).map(|(name, _)| name.clone());
        if let Some(oldest) = oldest {
            self.found.remove(&oldest);
        }
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.permit = None;
        self.found.with(|state| {
            // This one's and that of the table.
            if Arc::strong_count(&self.gate) == 2 {
                state.gates.remove(self.name);
            }
        });
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.found.with(|state| {
            if let Some(asking) = state.asking.get_mut(&self.hostgroup) {
                *asking = asking.saturating_sub(1);
            }
        });
    }
}

/// Accounts that are kept: some 20 MB. A further one takes the place of the one that was confirmed the longest time ago.
const MOST_FOUND: usize = 20_000;

/// Passwords of an account that are kept: MySQL accepts two at a time.
const MOST_PASSWORDS: usize = 2;

/// How long the word of a server counts that a password is not good any more. Short, because the account may be created again;
/// but programs that still use the password must not make servers answer nothing else.
const BETWEEN_REFUSALS: Duration = Duration::from_millis(200);

/// For so long after a hostgroup has not answered, those who may log in without an answer do.
pub const REST: Duration = Duration::from_secs(1);

/// How long such a password is kept, so that those who still use it are distinguished from those who guess.
const REFUSED_KEPT: Duration = Duration::from_secs(60);

/// How often all accounts are looked at for those that can be forgotten.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
