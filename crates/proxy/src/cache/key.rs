//! What makes two statements the same for the cache: the account, the statement, the hostgroup, and every part of the
//! session that may change the answer.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::hash;
use crate::rows::HostgroupId;
use crate::state::SharedState;

/// A hash of everything that identifies an answer; see [`hash::wide`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key(u128);

/// What a key is computed from.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The account, because privileges differ.
    pub username: &'a str,
    /// The hostgroup that answers.
    pub hostgroup: HostgroupId,
    /// The client's capabilities that affect answers.
    pub class: u64,
    /// The hash of the session state; see [`StateHashes`].
    pub state: u128,
    /// The command: text and prepared statements have answers in different formats.
    pub command: u8,
    /// The statement, with everything sent along with it: attributes and parameters.
    pub parts: &'a [&'a [u8]],
}

impl Key {
    /// The key of a subject.
    pub fn of(subject: &Subject<'_>) -> Key {
        Key(hash::wide(|hasher| {
            subject.username.hash(hasher);
            subject.hostgroup.hash(hasher);
            subject.class.hash(hasher);
            subject.state.hash(hasher);
            subject.command.hash(hasher);
            subject.parts.hash(hasher);
        }))
    }

    /// The worker that owns the answer.
    pub fn owner(self, workers: usize) -> usize {
        // The tables of keys use the other half.
        ((self.0 >> 64) as usize) % workers.max(1)
    }

    #[cfg(test)]
    pub(super) fn of_number(number: u64) -> Key {
        Key(hash::wide(|hasher| number.hash(hasher)))
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0 as u64);
    }
}

/// The hashes of the latest session states on one worker: applications have few, and share their values.
#[derive(Debug, Default)]
pub struct StateHashes {
    recent: RefCell<VecDeque<(SharedState, u128)>>,
}

impl StateHashes {
    /// The hash of a state; includes user variables only if the statement may read them.
    pub fn of(&self, state: &SharedState, user_variables: bool) -> u128 {
        if user_variables && state.has_user_variables() {
            return hash::wide(|hasher| state.hash_for_answer(hasher, true));
        }
        let mut recent = self.recent.borrow_mut();
        if let Some((_, known)) = recent.iter().find(|(known, _)| Arc::ptr_eq(known, state)) {
            return *known;
        }
        let hash = hash::wide(|hasher| state.hash_for_answer(hasher, false));
        if recent.len() == RECENT {
            recent.pop_back();
        }
        recent.push_front((Arc::clone(state), hash));
        hash
    }
}

/// How many states' hashes are remembered; they are searched linearly.
const RECENT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::SessionState;

    fn state(charset: &str) -> SessionState {
        SessionState::after_login(charset, None)
    }

    #[test]
    fn states_that_may_change_an_answer_differ_in_their_hashes() {
        let hashes = StateHashes::default();
        let plain = hashes.of(&Arc::new(state("utf8mb4")), false);
        assert_eq!(plain, hashes.of(&Arc::new(state("utf8mb4")), false));
        assert_ne!(plain, hashes.of(&Arc::new(state("latin1")), false));
        for (name, value) in [("time_zone", "+02:00"), ("sql_mode", "ANSI"), ("lc_time_names", "de_DE")] {
            let mut other = state("utf8mb4");
            other.set_text(name, value.as_bytes());
            assert_ne!(plain, hashes.of(&Arc::new(other), false), "{name}");
        }
        let mut elsewhere = state("utf8mb4");
        elsewhere.schema = Some(b"shop".as_slice().into());
        assert_ne!(plain, hashes.of(&Arc::new(elsewhere), false));
    }

    #[test]
    fn user_variables_count_where_they_are_read() {
        let hashes = StateHashes::default();
        let (one, mut other) = (Arc::new(state("utf8mb4")), state("utf8mb4"));
        other.set_user_variable("a", "1");
        let other = Arc::new(other);
        assert_eq!(hashes.of(&one, false), hashes.of(&other, false));
        assert_ne!(hashes.of(&one, true), hashes.of(&other, true));
    }

    #[test]
    fn no_more_states_are_held_than_are_searched() {
        let hashes = StateHashes::default();
        for _ in 0..100 {
            hashes.of(&Arc::new(state("utf8mb4")), false);
        }
        assert_eq!(hashes.recent.borrow().len(), RECENT);
    }

    #[test]
    fn whatever_a_subject_says_makes_another_key() {
        let subject = |username, hostgroup, command, parts: &'static [&'static [u8]]| Subject {
            username,
            hostgroup: HostgroupId(hostgroup),
            class: 0,
            state: 0,
            command,
            parts,
        };
        let keys = [
            subject("app", 0, 3, &[b"SELECT 1"]),
            subject("other", 0, 3, &[b"SELECT 1"]),
            subject("app", 1, 3, &[b"SELECT 1"]),
            subject("app", 0, 23, &[b"SELECT 1"]),
            subject("app", 0, 3, &[b"SELECT 2"]),
            subject("app", 0, 3, &[b"SELECT ", b"1"]),
        ];
        for (index, one) in keys.iter().enumerate() {
            for other in &keys[..index] {
                assert_ne!(Key::of(one), Key::of(other), "{one:?} {other:?}");
            }
        }
    }
}
