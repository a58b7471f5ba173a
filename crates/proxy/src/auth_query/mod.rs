//! Accounts that a statement finds (`mysql-auth_query`): what its rows say, for all workers. Everything here is in memory
//! only. `client/look_up.rs` runs the statement.

mod hosts;
mod remarks;
mod row;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use narrows_wire::auth::client_side::Form;

use crate::rows::HostgroupId;
use crate::rt::Instant;
use crate::snapshot::Account;
use hosts::HostPattern;
pub use remarks::remarks;
use row::read;

/// What the statement has found.
#[derive(Debug, Default)]
pub struct QueriedAccounts {
    #[expect(
        clippy::disallowed_types,
        reason = "only logins of names that mysql_users does not have take it"
    )]
    found: std::sync::Mutex<HashMap<Box<str>, Entry>>,
    #[expect(clippy::disallowed_types, reason = "the same logins take it")]
    forms: std::sync::Mutex<Vec<Form>>,
}

#[derive(Debug, Clone)]
struct Entry {
    /// One for each host, the most specific one first.
    rows: Arc<[QueriedRow]>,
    connections: Arc<AtomicU32>,
    asked: Instant,
    /// When it was asked again because a password was wrong.
    again: Option<Instant>,
}

/// What a row says.
#[derive(Debug, Clone)]
struct QueriedRow {
    host: HostPattern,
    outcome: Queried,
}

impl QueriedRow {
    fn has_attributes(&self, text: &str) -> bool {
        matches!(&self.outcome, Queried::Account(account, _) if account.row.attributes.text() == text)
    }
}

/// The account of a client.
#[derive(Debug, Clone)]
pub enum Queried {
    /// It can log in, unless there is a hindrance, which the client learns of after the password was right.
    Account(Arc<Account>, Option<Hindrance>),
    /// Its plugin, of this name, cannot be verified here.
    Plugin(Box<str>),
    /// Its row cannot be read as an account, because of this.
    Unreadable(Box<str>),
    /// It may not be used from the client's address.
    Elsewhere,
    /// There is none.
    Nobody,
}

/// Why an account cannot log in with the right password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hindrance {
    /// `ACCOUNT LOCK`
    Locked,
    /// `PASSWORD EXPIRE`
    Expired,
}

/// An account that was found, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueriedAccount {
    /// Its name.
    pub username: String,
    /// Its hostgroup.
    pub hostgroup: HostgroupId,
    /// How long ago the statement was run for it.
    pub asked: Duration,
    /// How many clients it has, and how many it may have.
    pub connections: (u32, u32),
}

/// A cell of a row, by the name of its column.
pub type Cell<'a> = dyn Fn(&str) -> Option<String> + 'a;

impl QueriedAccounts {
    /// What is known of a name for a client with this address, and how long ago the statement was run.
    pub fn known(&self, name: &str, client: &str) -> Option<(Queried, Duration)> {
        self.with(|found| {
            let entry = found.get(name)?;
            let row = entry.rows.iter().find(|row| row.host.admits(client));
            let none = || if entry.rows.is_empty() { Queried::Nobody } else { Queried::Elsewhere };
            let outcome = row.map_or_else(none, |row| row.outcome.clone());
            Some((outcome, entry.asked.elapsed()))
        })
    }

    /// Whether the statement may be run for a name again, because a password was wrong that was good before `began`: once
    /// a second.
    pub fn may_ask_again(&self, name: &str, began: Instant) -> bool {
        self.with(|found| {
            let Some(entry) = found.get_mut(name) else { return false };
            let is_late = entry.again.is_none_or(|again| again.elapsed() >= BETWEEN_QUESTIONS);
            let may_ask = entry.asked < began && is_late;
            if may_ask {
                entry.again = Some(Instant::now());
            }
            may_ask
        })
    }

    /// The statement was run for a name: `rows` are its rows. What was known of passwords that are the same stays. Returns the
    /// `attributes` that the name did not have before.
    pub fn put(&self, name: &str, template: &Account, rows: &[&Cell<'_>]) -> Vec<String> {
        let mut others: Vec<String> = rows.iter().filter_map(|cell| cell("attributes")).collect();
        self.with(|found| {
            if found.len() >= MOST_FOUND && !found.contains_key(name) {
                forget_oldest(found);
            }
            let known = found.get(name).cloned();
            let connections = known.as_ref().map(|it| Arc::clone(&it.connections)).unwrap_or_default();
            let before = known.as_ref().map_or(&[][..], |it| &it.rows[..]);
            others.retain(|text| before.iter().all(|row| !row.has_attributes(text)));
            let read = |cell: &&Cell<'_>| read(name, template, cell, (before, &connections));
            let mut rows: Vec<QueriedRow> = rows.iter().map(read).collect();
            rows.sort_by_key(|row| row.host.order());
            self.note_forms(&rows);
            let again = known.as_ref().and_then(|it| it.again);
            let entry = Entry { rows: rows.into(), connections, asked: Instant::now(), again };
            found.insert(name.into(), entry);
        });
        others
    }

    /// The forms in which passwords are stored: logins of unknown names imitate them.
    pub fn forms(&self) -> Vec<Form> {
        self.forms.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_forms(&self, rows: &[QueriedRow]) {
        let mut forms = self.forms.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows {
            let Queried::Account(account, _) = &row.outcome else { continue };
            let form = account.credentials.first().map(|credential| credential.stored().form());
            if let Some(form) = form.filter(|form| !forms.contains(form) && forms.len() < MOST_FORMS) {
                forms.push(form);
                // In a fixed order, so that a name keeps its form.
                forms.sort_by_key(|form| format!("{form:?}"));
            }
        }
    }

    /// Forgets one name, or all.
    pub fn forget(&self, name: Option<&str>) {
        self.with(|found| match name {
            Some(name) => drop(found.remove(name)),
            None => found.clear(),
        });
    }

    /// All of them, by name.
    pub fn list(&self) -> Vec<QueriedAccount> {
        let line = |name: &str, entry: &Entry| {
            let account = entry.rows.iter().find_map(|row| match &row.outcome {
                Queried::Account(account, _) => Some(account),
                _ => None,
            })?;
            Some(QueriedAccount {
                username: name.to_owned(),
                hostgroup: account.row.default_hostgroup,
                asked: entry.asked.elapsed(),
                connections: (entry.connections.load(Ordering::Relaxed), account.row.max_connections),
            })
        };
        let mut list: Vec<QueriedAccount> =
            self.with(|found| found.iter().filter_map(|(name, entry)| line(name, entry)).collect());
        list.sort_by(|one, other| one.username.cmp(&other.username));
        list
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<Box<str>, Entry>) -> T) -> T {
        // Nothing panics while it is held.
        work(&mut self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn forget_oldest(found: &mut HashMap<Box<str>, Entry>) {
    let oldest = found.iter().min_by_key(|(_, entry)| entry.asked).map(|(name, _)| name.clone());
    if let Some(oldest) = oldest {
        found.remove(&oldest);
    }
}

/// See [`QueriedAccounts::may_ask_again`]: who guesses makes servers run no more statements than that.
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(1);

/// Forms that unknown names imitate: there are four, and one for each number of rounds.
const MOST_FORMS: usize = 16;

/// Accounts that are kept: some 20 MB. A further one takes the place of the one asked about the longest time ago.
const MOST_FOUND: usize = 20_000;

#[cfg(test)]
mod tests;
