//! How many connections are allowed at once: those that are logging in, and logged-in sessions.
//!
//! Anybody who can reach the port can connect, so connections that have not logged in are limited, and are closed to
//! make room for others: first those of the address with the most of them, the oldest first. An administrator who logs
//! in without delay always succeeds. Among logged-in sessions, statistics users leave room for administrators and for
//! each other.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use narrows_proxy::rt::JoinHandle;

use crate::store::Role;

/// Who is connected.
#[derive(Debug, Default)]
pub struct Visitors {
    logging_in: RefCell<VecDeque<LoggingIn>>,
    sessions: RefCell<HashMap<(Role, String), usize>>,
}

#[derive(Debug)]
struct LoggingIn {
    id: u32,
    host: String,
    task: JoinHandle<()>,
}

/// The place of a session; released when dropped.
#[derive(Debug)]
pub struct Place {
    visitors: Rc<Visitors>,
    account: (Role, String),
}

impl Visitors {
    /// A login begins in the given task. Returns the address of a connection that was closed to make room.
    pub fn begin(&self, id: u32, host: String, task: JoinHandle<()>) -> Option<String> {
        let mut logging_in = self.logging_in.borrow_mut();
        logging_in.push_back(LoggingIn { id, host, task });
        if logging_in.len() <= MOST_LOGGING_IN {
            return None;
        }
        let mut counts: HashMap<&str, usize> = HashMap::new();
        logging_in.iter().for_each(|one| *counts.entry(&one.host).or_default() += 1);
        let most = counts.values().copied().max().unwrap_or(0);
        let place = logging_in.iter().position(|one| counts.get(one.host.as_str()) == Some(&most))?;
        let gone = logging_in.remove(place)?;
        gone.task.abort();
        Some(gone.host)
    }

    /// A login has ended, successfully or not.
    pub fn end(&self, id: u32) {
        self.logging_in.borrow_mut().retain(|one| one.id != id);
    }

    /// A place for a session of an account; `None` if there is none left for it.
    pub fn admit(self: &Rc<Visitors>, role: Role, user: &str) -> Option<Place> {
        let mut sessions = self.sessions.borrow_mut();
        let account = (role, user.to_owned());
        let all: usize = sessions.values().sum();
        let of_account = sessions.get(&account).copied().unwrap_or(0);
        let fits = match role {
            Role::Admin => all < MOST_SESSIONS,
            Role::Stats => {
                all < MOST_SESSIONS - FOR_ADMINISTRATORS && of_account < MOST_OF_STATISTICS_ACCOUNT
            }
        };
        fits.then(|| {
            *sessions.entry(account.clone()).or_default() += 1;
            Place { visitors: Rc::clone(self), account }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut sessions = self.visitors.sessions.borrow_mut();
        if let Some(count) = sessions.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
                sessions.remove(&self.account);
            }
        }
    }
}

/// Connections that have not logged in: many more than normally occur at once, and few compared with the descriptors
/// reserved for them.
const MOST_LOGGING_IN: usize = 50;

/// Sessions: far more than tools open, and far fewer than would take descriptors from clients.
const MOST_SESSIONS: usize = 1_000;

/// How many of these are reserved for administrators.
const FOR_ADMINISTRATORS: usize = 100;

/// Sessions of one statistics account: several such accounts must not take each other's places.
const MOST_OF_STATISTICS_ACCOUNT: usize = 300;

#[cfg(test)]
mod tests {
    use narrows_proxy::rt::{block_on, sleep, spawn_local};

    use super::*;

    fn hosts(visitors: &Visitors) -> Vec<(String, u32)> {
        visitors.logging_in.borrow().iter().map(|one| (one.host.clone(), one.id)).collect()
    }

    #[test]
    fn the_oldest_of_the_address_with_most_makes_room() {
        block_on(async {
            let visitors = Visitors::default();
            let begin = |id: u32, host: &str| {
                let task = spawn_local(sleep(std::time::Duration::from_secs(1_000)));
                visitors.begin(id, host.to_owned(), task)
            };
            assert_eq!(begin(0, "quiet"), None);
            let most = u32::try_from(MOST_LOGGING_IN).unwrap();
            (1..most).for_each(|id| assert_eq!(begin(id, "loud"), None));
            (most..200).for_each(|id| assert_eq!(begin(id, "loud").as_deref(), Some("loud")));
            assert_eq!(begin(200, "administrator").as_deref(), Some("loud"));
            let there = hosts(&visitors);
            assert_eq!(there.len(), MOST_LOGGING_IN);
            assert_eq!(there.first(), Some(&("quiet".to_owned(), 0)));
            assert_eq!(there.last(), Some(&("administrator".to_owned(), 200)));
            visitors.end(200);
            assert_eq!(hosts(&visitors).len(), MOST_LOGGING_IN - 1);
        })
        .unwrap();
    }

    #[test]
    fn users_of_statistics_leave_places_for_administrators_and_each_other() {
        let visitors = Rc::new(Visitors::default());
        let mut places = Vec::new();
        let mut admit = |role, user: &str, most: usize| {
            (0..most)
                .take_while(|_| visitors.admit(role, user).map(|place| places.push(place)).is_some())
                .count()
        };
        for user in ["a", "b", "c"] {
            assert_eq!(admit(Role::Stats, user, 2_000), MOST_OF_STATISTICS_ACCOUNT);
        }
        assert_eq!(admit(Role::Stats, "d", 1), 0);
        assert_eq!(admit(Role::Admin, "root", 2_000), FOR_ADMINISTRATORS);
        places.clear();
        assert!(visitors.admit(Role::Stats, "d").is_some());
        assert!(visitors.sessions.borrow().is_empty());
    }
}
