//! Passwords that are kept elsewhere: where a configuration has `env:NAME`, `file:/path` or `exec:/program arguments`,
//! what runs has the value that is found there.
//!
//! The store, its files and everything that it shows have the reference. Values are looked up when a configuration is put
//! into force ([`Secrets::fetch`]), and again when their files change ([`watch`]). They are in memory only.

mod places;
mod read;
mod reference;
mod watch;

use std::collections::HashMap;

use narrows_proxy::snapshot::{JsonColumn, Rows, has_tokens};
use zeroize::Zeroizing;

pub use places::{SecretPlace, in_force, in_users, in_variables, references, tokens};
pub use read::{MOST_BYTES, TIME_LIMIT, read};
pub use reference::{is_reference, literal};
pub use watch::{Followed, Renewal, SecretWatch};

use crate::aws_iam;
use crate::variables::Values;

/// The values of references.
#[derive(Default)]
pub struct Secrets {
    known: HashMap<String, Zeroizing<String>>,
}

impl Secrets {
    /// Looks up all passwords of a configuration, and puts them into its rows. What cannot be looked up is logged and prevents
    /// nothing else: others can log in.
    pub fn at_a_start(rows: &mut Rows, values: &Values) -> Secrets {
        const MOST_LOGGED: usize = 50;
        let mut secrets = Secrets::default();
        let faults = secrets.fetch(&in_force(&rows.users, values));
        for fault in faults.iter().take(MOST_LOGGED) {
            tracing::error!("{fault}: no login with it succeeds until it can be looked up");
        }
        if let Some(more @ 1..) = faults.len().checked_sub(MOST_LOGGED) {
            tracing::error!(more, "there are more passwords that cannot be looked up");
        }
        secrets.resolve(rows);
        secrets
    }

    /// Looks up the references among these texts. Returns a sentence for each one that cannot be: it names the place and
    /// the reason, and no value. A value that was known before stays known.
    pub fn fetch(&mut self, places: &[SecretPlace]) -> Vec<String> {
        let wanted = references(places);
        let mut faults: HashMap<&str, String> = HashMap::new();
        for (text, found) in wanted.iter().zip(read::all(&wanted)) {
            match found {
                Ok(value) => drop(self.known.insert((*text).to_owned(), value)),
                Err(reason) => drop(faults.insert(text, reason)),
            }
        }
        let of_place = |place: &SecretPlace| {
            if place.tokens().is_some() {
                return None;
            }
            let reason = faults.get(place.text.as_str())?;
            Some(format!("{}: {reason}", place.name))
        };
        places.iter().filter_map(of_place).collect()
    }

    /// Takes a value over; returns whether it is another one than before.
    pub fn put(&mut self, reference: &str, value: Zeroizing<String>) -> bool {
        let is_other = self.known.get(reference) != Some(&value);
        self.known.insert(reference.to_owned(), value);
        is_other
    }

    /// The value of a text: of a reference, what was found, and of any other text, itself. `None` for a reference whose
    /// value is not known.
    pub fn value<'a>(&'a self, text: &'a str) -> Option<&'a str> {
        match literal(text) {
            Some(literal) => Some(literal),
            None => self.known.get(text).map(|value| value.as_str()),
        }
    }

    /// The values that are part of `text`.
    pub fn values_in(&self, text: &str) -> Vec<String> {
        let found = self.known.values().filter(|value| text.contains(value.as_str()));
        found.map(|value| value.as_str().to_owned()).collect()
    }

    /// Puts the values into the rows of the data plane. An account whose password is not known is not active: nobody can log
    /// in to it. A password of a variable that is not known is empty. Accounts with tokens get what makes them.
    pub fn resolve(&self, rows: &mut Rows) {
        for user in &mut rows.users {
            match self.value(&user.password).map(str::to_owned) {
                Some(password) => user.password = password,
                None => {
                    user.password = String::new();
                    user.active = false;
                }
            }
            if let Some(attributes) = self.resolved_attributes(&user.attributes) {
                user.attributes = attributes;
            }
        }
        rows.tokens = aws_iam::of_process();
        if rows.users.iter().any(|user| user.active && has_tokens(user)) {
            aws_iam::begin();
        }
        rows.auth_query_tokens = tokens(&rows.variables.auth_query_password);
        let password = self.value(&rows.variables.auth_query_password).unwrap_or_default().to_owned();
        rows.variables.auth_query_password = password;
    }

    /// The attributes of an account with the value of its second password, without it if that is not known; `None` if
    /// they stay as they are.
    fn resolved_attributes(&self, attributes: &JsonColumn) -> Option<JsonColumn> {
        let text = attributes.get(ADDITIONAL_PASSWORD)?.as_str()?;
        let value = self.value(text);
        (value != Some(text)).then(|| attributes.with(ADDITIONAL_PASSWORD, value.map(Into::into)))
    }

    /// Forgets the values of all references but these.
    pub fn keep(&mut self, places: &[SecretPlace]) {
        self.known.retain(|reference, _| places.iter().any(|place| place.text == *reference));
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets(..)")
    }
}

/// Why a password cannot be looked up, as far as that is known without running a program; `None`: no reason is known.
pub fn obstacle(place: &SecretPlace) -> Option<String> {
    if place.tokens().is_some() { None } else { read::obstacle(&place.text) }
}

/// The key of `mysql_users.attributes` with the second password.
const ADDITIONAL_PASSWORD: &str = "additional_password";

#[cfg(test)]
mod tests;
