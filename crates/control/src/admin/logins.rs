//! Logins of administrators in the log: who, from where. Exporters log in every few seconds, so one account from one address
//! is told of once in a while, with how often it was.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use crate::store::Role;

/// Who has logged in lately.
struct Seen {
    user: String,
    host: String,
    told: Instant,
    since: u64,
}

thread_local! {
    /// Of the thread that has the sessions.
    static SEEN: RefCell<Vec<Seen>> = const { RefCell::new(Vec::new()) };
}

/// Says that somebody has logged in, unless that was said a moment ago.
pub fn tell(user: &str, role: Role, host: &str, port: u16) {
    let before = SEEN.with_borrow_mut(|seen| {
        if let Some(known) = seen.iter_mut().find(|known| known.user == user && known.host == host) {
            known.since += 1;
            if known.told.elapsed() < QUIET {
                return None;
            }
            known.told = Instant::now();
            return Some(std::mem::take(&mut known.since));
        }
        if seen.len() >= MOST_SEEN {
            seen.remove(0);
        }
        seen.push(Seen { user: user.to_owned(), host: host.to_owned(), told: Instant::now(), since: 0 });
        Some(1)
    });
    if let Some(logins) = before {
        tracing::info!(user, ?role, client = host, port, logins, "an administrator has logged in");
    }
}

/// An account from one address is told of again after this.
const QUIET: Duration = Duration::from_secs(60);

/// Accounts and addresses that are remembered.
const MOST_SEEN: usize = 256;
