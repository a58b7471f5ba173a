//! The accounts of `mysql_users`, ready for logins.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use narrows_wire::auth::client_side::{Credential, Form, Stored, TokenUse};

use super::passwords::PasswordUse;
use super::template_rows::is_template;
use super::{LoginAttributes, Snapshot, Split};
use crate::rows::{CausalReads, UserRow};
use crate::server_tokens::{SharedTokens, TokenLogin};

/// A user, ready for logins.
#[derive(Debug, Clone)]
pub struct Account {
    /// The row of the user.
    pub row: UserRow,
    /// The passwords, any of which is accepted; what logins reveal about them outlives snapshots.
    pub credentials: Arc<[Credential]>,
    /// Which of the passwords are used; outlives snapshots that have the same ones.
    pub passwords: Arc<PasswordUse>,
    /// The requirements for its clients besides a password.
    pub login: LoginAttributes,
    /// How its reads are distinguished from writes.
    pub split: Split,
    /// Which writes its reads must see, if its attributes say so.
    pub causal_reads: Option<CausalReads>,
    /// Whether its transactions are run again after their server was lost; `None`: `mysql-transaction_replay` says.
    pub transaction_replay: Option<bool>,
    /// What servers get in the place of its password; `None`: its password.
    pub tokens: Option<TokenLogin>,
    /// The number of client connections, over all workers; outlives snapshots.
    pub connections: Arc<AtomicU32>,
    /// That a server has confirmed its password; `None` if that is configured.
    pub confirmation: Option<Arc<Confirmation>>,
}

/// The word of a server that an account has this password. Who has another one shares no connections with it: an account
/// that was dropped and created again has the same name, and not the same privileges.
#[derive(Debug, Default)]
pub struct Confirmation {
    /// A server has refused the account since.
    is_doubtful: AtomicBool,
}

impl Account {
    /// The account of a row. What is `known` of its passwords is kept if they are the same.
    pub(super) fn new(
        row: UserRow,
        known: Option<&Account>,
        connections: Arc<AtomicU32>,
        maker: &SharedTokens,
    ) -> Account {
        let login = LoginAttributes::of(&row.attributes);
        let credentials = credentials(&row.password, &login, known.map(|account| &account.credentials));
        let same = known.filter(|account| Arc::ptr_eq(&account.credentials, &credentials));
        Account {
            credentials,
            passwords: same.map(|account| Arc::clone(&account.passwords)).unwrap_or_default(),
            login,
            split: Split::of(&row.attributes),
            causal_reads: CausalReads::of_attributes(&row.attributes),
            transaction_replay: crate::rows::transaction_replay(&row.attributes),
            tokens: TokenLogin::of(&row, maker),
            row,
            connections,
            confirmation: None,
        }
    }

    /// The account with this name that a server lets in, with the settings of this one. Servers get the password that the
    /// client has shown: they are the ones who know whether it is right.
    #[must_use]
    pub fn found(
        &self,
        username: &str,
        connections: Arc<AtomicU32>,
        confirmation: Arc<Confirmation>,
    ) -> Account {
        let row = UserRow { username: username.to_owned(), password: String::new(), ..self.row.clone() };
        let confirmation = Some(confirmation);
        Account { row, connections, confirmation, tokens: None, passwords: Arc::default(), ..self.clone() }
    }

    /// An account whose row was found, and whose password is not in it; it logs in to servers as its template says.
    pub fn queried(row: UserRow, template: &Account, connections: Arc<AtomicU32>) -> Account {
        let account = Account::new(row, None, connections, &SharedTokens::default());
        Account { tokens: template.tokens.clone(), ..account }
    }

    /// Whether clients may show a token, or must. An empty password is none that they could show instead.
    pub fn token_use(&self) -> TokenUse {
        match &self.login.tokens {
            // Without a password, anybody would get whatever the token of Narrows is good for.
            None if self.tokens.is_some() && !self.has_password() && !self.login.ask_for_certificate() => {
                TokenUse::Only
            }
            None => TokenUse::No,
            Some(tokens) if tokens.only || !self.has_password() => TokenUse::Only,
            Some(_) => TokenUse::BesidePasswords,
        }
    }

    fn has_password(&self) -> bool {
        let first = self.credentials.first().map(Credential::stored);
        first.is_some_and(|stored| !matches!(stored, Stored::Clear(password) if password.bytes().is_empty()))
    }

    /// The form of what clients show.
    pub(super) fn form(&self) -> Option<Form> {
        match self.token_use() {
            TokenUse::Only => Some(Form::Token),
            TokenUse::BesidePasswords => Some(Form::PasswordOrToken),
            TokenUse::No => self.credentials.first().map(|credential| credential.stored().form()),
        }
    }

    /// A server refuses the account: it must be confirmed at its next login.
    pub fn refuse(&self) {
        if let Some(confirmation) = &self.confirmation {
            confirmation.is_doubtful.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a server has refused it since it was confirmed.
    pub fn is_doubtful(&self) -> bool {
        self.confirmation.as_ref().is_some_and(|it| it.is_doubtful.load(Ordering::Relaxed))
    }

    /// Whether both have the word of one server, or none needs any.
    pub fn is_confirmed_like(&self, other: &Account) -> bool {
        match (&self.confirmation, &other.confirmation) {
            (None, None) => true,
            (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs),
            _ => false,
        }
    }
}

/// The active users; those in `previous` keep what is known about their passwords, and their number of clients.
pub(super) fn compile_users(
    rows: Vec<UserRow>,
    maker: &SharedTokens,
    previous: Option<&Snapshot>,
) -> HashMap<Vec<u8>, Arc<Account>> {
    let rows = rows.into_iter().filter(|user| user.active && !is_template(user));
    let users = rows.map(|row| {
        let name = row.username.clone().into_bytes();
        let known = previous.and_then(|previous| previous.users.get(&name));
        let connections = known.map(|account| Arc::clone(&account.connections)).unwrap_or_default();
        let account = Account::new(row, known.map(|account| &**account), connections, maker);
        (name, Arc::new(account))
    });
    users.collect()
}

/// The passwords of an account; unchanged ones are kept, with what is known about them.
fn credentials(
    password: &str,
    login: &LoginAttributes,
    known: Option<&Arc<[Credential]>>,
) -> Arc<[Credential]> {
    let texts = [Some(password), login.additional_password.as_deref()];
    let stored: Vec<Stored> =
        texts.into_iter().flatten().map(|text| Stored::parse(text.as_bytes())).collect();
    match known {
        Some(known) if known.iter().map(Credential::stored).eq(&stored) => Arc::clone(known),
        _ => stored.into_iter().map(Credential::new).collect(),
    }
}
