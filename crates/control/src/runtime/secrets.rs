//! Passwords that are kept elsewhere: looked up when a configuration is put into force, and followed when they change.

use std::time::Duration;

use narrows_proxy::snapshot::Rows;

use super::Runtime;
use crate::secrets::{self, Followed, Renewal, SecretPlace, SecretWatch, Secrets};
use crate::store::{Candidate, Refusal, Store};
use crate::variables::Value;

impl Runtime {
    /// Follows what the configuration refers to from now on, by the reports of `watch`.
    pub fn follow_secrets(&mut self, store: &Store, watch: SecretWatch) {
        self.watch = Some(watch);
        self.announce_secrets(store);
    }

    /// Looks up the passwords of the modules that a candidate loads.
    ///
    /// # Errors
    /// The rows whose passwords cannot be looked up, and why.
    pub(super) fn fetch_secrets(&mut self, candidate: &Candidate) -> Result<(), Refusal> {
        let faults = self.secrets.fetch(&candidate.secrets());
        let Some(first) = faults.first() else { return Ok(()) };
        let more = match faults.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more that cannot be looked up)"),
        };
        Err(Refusal::admin(format!("{first}{more}")))
    }

    /// The value of a text that may be a reference; `None` if it is not known.
    pub fn secret<'a>(&'a self, text: &'a str) -> Option<&'a str> {
        self.secrets.value(text)
    }

    /// What references lead to.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Tells the thread that watches files what is in force.
    pub(super) fn announce_secrets(&mut self, store: &Store) {
        let places = all_places(store);
        self.secrets.keep(&places);
        let Some(watch) = &self.watch else { return };
        let references = secrets::references(&places).into_iter().map(str::to_owned).collect();
        let interval = match store.variables().value("admin-exec_secrets_interval") {
            Some(Value::Integer(seconds @ 1..)) => u64::try_from(*seconds).ok().map(Duration::from_secs),
            _ => None,
        };
        watch.follow(Followed { references, interval, keys: self.key_files.clone() });
    }

    /// Puts into force what has changed where it is kept.
    pub fn renew(&mut self, store: &Store, renewal: Renewal) {
        let mut changed = Vec::new();
        for (reference, found) in renewal.secrets {
            match found {
                Ok(value) => {
                    if self.secrets.put(&reference, value) {
                        changed.push(reference);
                    }
                }
                Err(reason) => tracing::warn!("{reason}: the password that was read before stays in force"),
            }
        }
        let mut has_other_keys = renewal.has_other_keys;
        if !changed.is_empty() {
            let names = self.put_secrets_into_force(store, &changed);
            has_other_keys |= names.iter().any(|name| name.ends_with("passphrase"));
        }
        if has_other_keys {
            self.renew_keys(store);
        }
        // A thread that has ended renews no more.
        let _ = renewal.taken.send(());
    }

    /// Returns the names of the places that have another password.
    fn put_secrets_into_force(&mut self, store: &Store, changed: &[String]) -> Vec<String> {
        let Rows { users, variables, .. } = store.rows();
        let mut rows = Rows { users, variables, ..self.rows.clone() };
        self.secrets.resolve(&mut rows);
        if let Err(error) = self.plane.publish(self.servers.over(&rows)) {
            // Only passwords have changed, and they are never a reason to refuse a configuration.
            tracing::error!(%error, "cannot apply passwords that have changed");
            return Vec::new();
        }
        self.rows = rows;
        self.announce_plan(store);
        self.announce_to_listeners(store);
        let places = all_places(store).into_iter().filter(|place| changed.contains(&place.text));
        let names: Vec<String> = places.map(|place| place.name).collect();
        let (first, more) = (names.first().map_or("", String::as_str), names.len().saturating_sub(1));
        tracing::info!(more, "another password is in force, as where it is kept: {first}");
        names
    }
}

/// The passwords of a candidate that could not be looked up, as far as that is known without running programs.
pub(super) fn obstacles(candidate: &Candidate) -> Vec<String> {
    let sentence = |place: SecretPlace| Some(format!("{}: {}", place.name, secrets::obstacle(&place)?));
    candidate.secrets().into_iter().filter_map(sentence).collect()
}

/// All passwords of what runs, as configured.
fn all_places(store: &Store) -> Vec<SecretPlace> {
    secrets::in_force(&store.rows().users, store.variables())
}
